//! One end of a message: a NIC and the memory that it reads or writes.

use super::constants::{Card, GpuMemory, MEMCPY_SYNC, Number, PIN, node_part, us, whole};
use super::engine::{Chunks, Stream};
use super::{Limit, Method, NicDirection, RdmaError, Span, Stage, hook};
use crate::model::route::{self, Planned};
use crate::model::{Model, ModelError, PeerAccess, Route, Transfer};
use crate::solve::Demand;
use peerlane_machine::fabric::{NodeId, NodeKind, PathClass};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::units::{Bytes, Rate, Seconds};

/// How a NIC moves data between one memory and its line, by one method, with nothing else going on.
#[derive(Clone, Debug)]
pub struct NicPath {
    /// The method.
    pub method: Method,
    /// Which way.
    pub way: NicDirection,
    /// Rate of a message without end; the least of `limits`.
    pub rate: Rate,
    /// What binds it.
    pub bottleneck: String,
    /// All that limits the rate, the tightest first.
    pub limits: Vec<Limit>,
    /// What a message waits for at this end, in order; an empty one takes their sum.
    pub stages: Vec<Stage>,
    /// What is done once for a buffer, before its first message.
    pub setup: Vec<Stage>,
    /// How the links and engines move the bytes: all at once, so that the slowest counts.
    pub streams: Vec<Stream>,
    /// The shortest time between two messages.
    pub gap: Seconds,
    /// What it asks of [`Model::resources`] while it runs, in bytes.
    pub demand: Demand,
    /// What else to know.
    pub remarks: Vec<String>,
}

impl NicPath {
    /// Time of an empty message at this end.
    pub fn latency(&self) -> Span {
        self.stages.iter().map(|s| s.time).sum()
    }

    /// Time of a message of `size` at this end, alone: its stages, what must be filled first, and the slowest stream.
    pub fn time(&self, size: Bytes) -> Span {
        self.latency().later(self.fill(size)).later(self.busy(size))
    }

    /// Rate of messages of `size` that follow each other without a pause.
    pub fn rate_at(&self, size: Bytes) -> Rate {
        Rate::from_bytes_per_second(size.0 as f64 / self.repeated(size).seconds())
    }

    /// The time that each of them takes.
    pub fn repeated(&self, size: Bytes) -> Seconds {
        self.streams.iter().map(|s| s.repeated(size)).fold(self.gap, later)
    }

    /// Before the next end can begin.
    pub(super) fn fill(&self, size: Bytes) -> Seconds {
        Seconds::new(self.streams.iter().map(|s| s.fill(size).seconds()).sum())
    }

    /// While the bytes move.
    pub(super) fn busy(&self, size: Bytes) -> Seconds {
        self.streams.iter().map(|s| s.busy(size)).fold(Seconds::new(0.0), later)
    }
}

/// The later of two.
pub(super) fn later(a: Seconds, b: Seconds) -> Seconds {
    if b.seconds() > a.seconds() { b } else { a }
}

/// Every method between a memory and a NIC: what it gives, or why it is not to be had.
///
/// For a GPU: [`Method::Nvp2p`], [`Method::Bar1`] and [`Method::Staged`]; for host memory [`Method::Host`] alone.
pub fn nic_paths(
    model: &Model,
    memory: NodeId,
    nic: NodeId,
    way: NicDirection,
) -> Vec<(Method, Result<NicPath, RdmaError>)> {
    let of_gpu = [Method::Nvp2p, Method::Bar1, staged_at(model, nic)];
    let gpu = model.machine.fabric.node(memory).kind == NodeKind::Gpu;
    let methods = if gpu { &of_gpu[..] } else { &[Method::Host] };
    methods.iter().map(|method| (*method, nic_path(model, memory, nic, way, *method))).collect()
}

/// Staging by this NIC: as it was chosen for it, else in chunks of the default size.
pub fn staged_at(model: &Model, nic: NodeId) -> Method {
    model.machine.fabric.node(nic).method.filter(|method| method.is_staged()).unwrap_or(Method::STAGED)
}

/// The method that a NIC uses with a memory: the one chosen for the NIC, else the faster of the direct ones.
pub fn method_in_use(model: &Model, memory: NodeId, nic: NodeId) -> Method {
    let fabric = &model.machine.fabric;
    if fabric.node(memory).kind != NodeKind::Gpu {
        return Method::Host;
    }
    let rate = |method| {
        let path = nic_path(model, memory, nic, NicDirection::ToNetwork, method);
        path.map_or(0.0, |path| path.rate.bytes_per_second())
    };
    let faster = || if rate(Method::Nvp2p) >= rate(Method::Bar1).max(1.0) { Method::Nvp2p } else { Method::Bar1 };
    fabric.node(nic).method.unwrap_or_else(faster)
}

/// Lays out a transfer between a GPU and a NIC for which a method was chosen; `None` for all others.
pub(in crate::model) fn planned(
    model: &Model,
    transfer: &Transfer,
    words: bool,
) -> Option<Result<Planned, ModelError>> {
    let fabric = &model.machine.fabric;
    let kind = |node: NodeId| fabric.node(node).kind;
    let (memory, nic, way) = match (kind(transfer.source), kind(transfer.destination)) {
        (NodeKind::Gpu, NodeKind::Nic) => (transfer.source, transfer.destination, NicDirection::ToNetwork),
        (NodeKind::Nic, NodeKind::Gpu) => (transfer.destination, transfer.source, NicDirection::FromNetwork),
        _ => return None,
    };
    let method = fabric.node(nic).method?;
    let known = || {
        let end = End::new(model, memory, nic, way, method, Card::of(node_part(model, nic)))?;
        if method.is_staged() {
            Ok(end.staged_route()?)
        } else {
            Ok(route::plan_by(model, transfer, Some(method), words)?)
        }
    };
    Some(known().map_err(|error: RdmaError| match error {
        RdmaError::Model(error) => error,
        other => {
            let [from, to] = [transfer.source, transfer.destination].map(|node| fabric.node(node).name.clone());
            ModelError::Unknown { from, to, why: other.to_string() }
        }
    }))
}

/// One method between a memory (a GPU, or host memory) and a NIC.
///
/// Fails where the nodes are of the wrong kind, where the pair cannot do it (a NIC that does not speak NVIDIA's
/// protocol), and where a link on the way has no known rate.
pub fn nic_path(
    model: &Model,
    memory: NodeId,
    nic: NodeId,
    way: NicDirection,
    method: Method,
) -> Result<NicPath, RdmaError> {
    nic_path_with(model, memory, nic, way, method, Card::of(node_part(model, nic)))
}

/// The same with a card that has other engines, in all that its engines decide but the shared resources.
pub(super) fn nic_path_with(
    model: &Model,
    memory: NodeId,
    nic: NodeId,
    way: NicDirection,
    method: Method,
    card: Card,
) -> Result<NicPath, RdmaError> {
    let end = End::new(model, memory, nic, way, method, card)?;
    let ways = match method {
        Method::Staged(_) => end.staged()?,
        _ => vec![(end.route(memory, nic, Engine::Nic)?, true)],
    };
    Ok(end.path(&ways))
}

/// What a path is made of.
struct End<'m, 'a> {
    model: &'m Model<'a>,
    memory: NodeId,
    nic: NodeId,
    way: NicDirection,
    method: Method,
    card: Card,
}

impl<'m, 'a> End<'m, 'a> {
    fn new(
        model: &'m Model<'a>,
        memory: NodeId,
        nic: NodeId,
        way: NicDirection,
        method: Method,
        card: Card,
    ) -> Result<Self, RdmaError> {
        let fabric = &model.machine.fabric;
        let name = |n: NodeId| fabric.node(n).name.clone();
        if !fabric.node(nic).kind.is_io() {
            return Err(RdmaError::NoNic(name(nic)));
        }
        let gpu = match fabric.node(memory).kind {
            NodeKind::Gpu => true,
            NodeKind::Host => false,
            _ => return Err(RdmaError::NoMemory(name(memory))),
        };
        let end = End { model, memory, nic, way, method, card };
        let refused = |why: &str| {
            Err(RdmaError::NotOffered { method, memory: name(memory), nic: name(nic), why: why.to_owned() })
        };
        let rdma = fabric.node(nic).rdma != Some(false);
        match method {
            Method::Host if gpu => refused("the data is in a GPU; take nvp2p, bar1 or staged"),
            Method::Nvp2p | Method::Bar1 | Method::Staged(_) if !gpu => {
                refused("the data is in host memory already; take host")
            }
            Method::Nvp2p | Method::Bar1 if !rdma => refused("the port does no RDMA"),
            Method::Nvp2p if !end.card.nvp2p => {
                refused("the card does not speak NVIDIA's protocol, which is not public")
            }
            Method::Nvp2p if end.gpu().nvp2p_rate.is_none() => {
                refused("no figure is known of how such a GPU answers NVIDIA's protocol")
            }
            _ => Ok(end),
        }
    }

    fn name(&self, node: NodeId) -> &str {
        &self.model.machine.fabric.node(node).name
    }

    fn gpu(&self) -> GpuMemory {
        GpuMemory::of(node_part(self.model, self.memory))
    }

    /// The route from memory `from` to `to` in the sense of [`NicDirection::ToNetwork`], or back.
    fn route(&self, from: NodeId, to: NodeId, engine: Engine) -> Result<Planned, ModelError> {
        let (source, destination) = if self.way == NicDirection::ToNetwork { (from, to) } else { (to, from) };
        let peer = PeerAccess::Enabled;
        let transfer = Transfer { source, destination, engine, op: Operation::Write, peer };
        route::plan_by(self.model, &transfer, Some(self.method), true)
    }

    /// The GPU's copy and the NIC's own part, which run at once; which of them is the NIC's.
    fn staged(&self) -> Result<Vec<(Planned, bool)>, ModelError> {
        let Some(host) = self.model.machine.fabric.nearest_host(self.nic) else {
            let (from, to) = (self.name(self.memory).to_owned(), self.name(self.nic).to_owned());
            return Err(ModelError::Unknown { from, to, why: "no host memory is known near the NIC".to_owned() });
        };
        let copy = self.route(self.memory, host, Engine::Ce)?;
        Ok(vec![(copy, false), (self.route(host, self.nic, Engine::Nic)?, true)])
    }

    /// Both parts as the route of one transfer.
    fn staged_route(&self) -> Result<Planned, ModelError> {
        let parts = self.staged()?;
        let path = self.path(&parts);
        let all = || parts.iter().flat_map(|(part, _)| part.route.demand.uses.iter().zip(&part.labels));
        let label = |resource: usize| all().find(|((r, _), _)| *r == resource).map(|(_, label)| label.clone());
        let labels = path.demand.uses.iter().map(|(resource, _)| label(*resource).unwrap_or_default()).collect();
        let cap = Rate::from_bytes_per_second(path.demand.cap);
        let why = path.limits.iter().find(|limit| limit.rate == cap).map(|limit| limit.what.clone());
        let mut hops: Vec<_> = parts.into_iter().map(|(part, _)| part.route.hops).collect();
        if self.way == NicDirection::FromNetwork {
            hops.reverse();
        }
        let class = self.model.machine.fabric.class(self.memory, self.nic).unwrap_or(PathClass::Sys);
        let route = Route {
            cap: why.map(|why| (cap, why)),
            demand: path.demand,
            staged: true,
            fill: Seconds::new(0.0),
            staged_because: None,
            class,
            hops: hops.concat(),
        };
        Ok(Planned { route, labels })
    }

    fn path(&self, ways: &[(Planned, bool)]) -> NicPath {
        let engines = &self.model.nodes[self.nic.index()].engines;
        let of_engine = |r: usize| [engines.receive, engines.gpu_read, engines.dma].contains(&Some(r));
        let mut demand = Demand::default();
        // one for each of its uses
        let mut limits: Vec<Limit> = Vec::new();
        let mut caps: Vec<Limit> = Vec::new();
        let (mut links, mut copy) = (f64::INFINITY, f64::INFINITY);
        for (planned, nics) in ways {
            let cap = planned.route.cap.as_ref();
            let (cap, why) = cap.map_or((f64::INFINITY, String::new()), |(r, why)| (r.bytes_per_second(), why.clone()));
            if *nics {
                links = links.min(cap);
            } else {
                copy = copy.min(cap);
            }
            if cap.is_finite() {
                caps.push(Limit { what: why, rate: Rate::from_bytes_per_second(cap) });
            }
            let known = demand.uses.len();
            demand.join(&planned.route.demand);
            for (&(resource, _), label) in planned.route.demand.uses.iter().zip(&planned.labels) {
                let Some(at) = demand.uses.iter().position(|(r, _)| *r == resource) else { continue };
                if at >= known {
                    // the requests of a read take the other channel of the same link
                    let again = limits.iter().any(|l| l.what == *label);
                    let what = if again { &self.model.resources[resource].name } else { label }.clone();
                    limits.push(Limit { what, rate: Rate::ZERO });
                }
                let rate = self.model.capacities[resource] / demand.uses[at].1;
                limits[at].rate = Rate::from_bytes_per_second(rate);
                if !nics {
                    copy = copy.min(rate);
                } else if !of_engine(resource) {
                    links = links.min(rate);
                }
            }
        }
        limits.extend(caps);
        let mut streams = self.engine_streams();
        if let (true, Method::Staged(pipeline)) = (copy.is_finite(), self.method) {
            let engines = streams.iter().map(Stream::asymptote).map(Rate::bytes_per_second);
            let network = Rate::from_bytes_per_second(engines.fold(links, f64::min));
            let (sync, copy) = (Seconds::from_us(MEMCPY_SYNC[1]), Rate::from_bytes_per_second(copy));
            let chunks = Chunks { pipeline, sync, copy, network };
            let mut limit = |what: String, rate: Rate| {
                demand.cap = demand.cap.min(rate.bytes_per_second());
                limits.push(Limit { what, rate });
            };
            limit(format!("waiting for each copy of {}", pipeline.chunk), chunks.started());
            if let (Some(rate), Some(depth)) = (chunks.in_flight(), pipeline.depth) {
                limit(format!("{depth} × {} in flight at most", pipeline.chunk), rate);
            }
            streams.push(Stream::Chunks(chunks));
        }
        if links.is_finite() {
            streams.push(Stream::Steady(Rate::from_bytes_per_second(links)));
        }
        limits.sort_by(|a, b| a.rate.bytes_per_second().total_cmp(&b.rate.bytes_per_second()));
        let tightest = limits.first();
        NicPath {
            method: self.method,
            way: self.way,
            rate: tightest.map_or(Rate::ZERO, |l| l.rate),
            bottleneck: tightest.map(|l| l.what.clone()).unwrap_or_default(),
            stages: self.stages(),
            setup: self.setup(),
            gap: us(&self.card.gap),
            remarks: self.remarks(),
            limits,
            streams,
            demand,
        }
    }

    /// How the NIC's engines move the bytes.
    fn engine_streams(&self) -> Vec<Stream> {
        let packet = whole(self.card.packet.value);
        let packets = |n: &Number| Stream::Packets { packet, each: self.packet_time(n) };
        let streams = match (self.way, self.method) {
            (NicDirection::FromNetwork, _) => [self.card.receive.as_ref().map(packets), None],
            (NicDirection::ToNetwork, Method::Nvp2p) => {
                [self.card.nvp2p_stream(&self.gpu()), self.card.translate.as_ref().map(packets)]
            }
            (NicDirection::ToNetwork, Method::Bar1) => [hook::bar1_stream(&self.card, &self.gpu()), None],
            (NicDirection::ToNetwork, Method::Staged(_) | Method::Host) => {
                [self.card.dma_stream(us(&self.card.host_read), None), None]
            }
        };
        streams.into_iter().flatten().collect()
    }

    /// Work of the network processor on one packet, from its rate in GB/s.
    fn packet_time(&self, rate: &Number) -> Seconds {
        Seconds::new(whole(self.card.packet.value).0 as f64 / (rate.value * 1e9))
    }

    /// The stages of host memory to host memory divide what is known of the whole; a GPU adds to them.
    fn stages(&self) -> Vec<Stage> {
        let card = &self.card;
        let (nic, memory) = (self.name(self.nic), self.name(self.memory));
        let read = card.host_read.clone();
        let packet = card.receive.as_ref().map(|n| self.packet_time(n));
        let hardware = card.hardware.as_ref().map_or(0.0, |n| n.value);
        let known = read.value + hardware + packet.map_or(0.0, |t| t.us());
        let rest = (card.message_latency.value - known).max(0.0);
        let stage = |name: String, us: f64, why: String, assumed| Stage {
            name,
            time: Span::exactly(Seconds::from_us(us)),
            why,
            assumed,
        };
        let halves = format!("half of what is left of {} µs: {}", card.message_latency.value, card.message_latency.why);
        let software = stage("software, doorbell and PCIe".to_owned(), rest / 2.0, halves, true);
        let hardware = card.hardware.as_ref();
        let hardware = hardware.map(|n| stage(format!("{nic}'s hardware"), n.value / 2.0, n.why.clone(), n.assumed));
        let translation = |reads: bool| {
            let translate = card.translate.as_ref().filter(|_| self.method == Method::Nvp2p);
            let what = if reads { "read" } else { "written" };
            translate.map(|n| {
                let name = format!("{nic} translates the address to be {what}");
                stage(name, self.packet_time(n).us(), n.why.clone(), n.assumed || !reads)
            })
        };
        let memcpy = || Stage {
            name: format!("cudaMemcpy {memory} → host, waited for"),
            time: Span::of_us(MEMCPY_SYNC),
            why: "7 to 10 µs, mostly synchronisation: Rossetti, 2013".to_owned(),
            assumed: false,
        };
        let mut stages = Vec::new();
        match self.way {
            NicDirection::ToNetwork => {
                if self.method.is_staged() {
                    stages.push(memcpy());
                }
                stages.push(software);
                stages.extend(translation(true));
                let (from, latency) = match self.method {
                    Method::Nvp2p | Method::Bar1 => (memory, self.gpu().read_latency),
                    Method::Staged(_) | Method::Host => ("host", read),
                };
                stages.push(stage(format!("{nic} reads {from} memory"), latency.value, latency.why, latency.assumed));
                stages.extend(hardware);
            }
            NicDirection::FromNetwork => {
                stages.extend(hardware);
                stages.extend(translation(false));
                if let (Some(n), Some(time)) = (&card.receive, packet) {
                    stages.push(stage(format!("{nic} receives a packet"), time.us(), n.why.clone(), n.assumed));
                }
                stages.push(software);
            }
        }
        stages
    }

    /// GPU memory is pinned before a NIC may touch it; host buffers are pinned once a program.
    fn setup(&self) -> Vec<Stage> {
        let direct = matches!(self.method, Method::Nvp2p | Method::Bar1);
        let pin = || Stage {
            name: format!(
                "register {}'s buffer with {}: pin it and map it",
                self.name(self.memory),
                self.name(self.nic)
            ),
            time: Span::of_us(PIN),
            why: "10 µs to 1 ms, by the buffer's size: gdrcopy, README".to_owned(),
            assumed: false,
        };
        direct.then(pin).into_iter().collect()
    }

    fn remarks(&self) -> Vec<String> {
        let mut all = Vec::new();
        match self.method {
            Method::Nvp2p => all.push("maps all GPU memory, at little cost".to_owned()),
            Method::Bar1 => all.push("maps what the firmware gives BAR1 room for, at a high cost".to_owned()),
            Method::Staged(_) if self.way == NicDirection::FromNetwork => all.push(
                "the copy to the GPU is put in order before what uses it, so that no processor waits for it".to_owned(),
            ),
            Method::Staged(_) | Method::Host => {}
        }
        let path = self.model.machine.fabric.path(self.memory, self.nic);
        let fabric = &self.model.machine.fabric;
        let hops = path.map(|p| p.hops).unwrap_or_default();
        let roots: Vec<NodeId> =
            hops.iter().map(|h| h.from).filter(|n| fabric.node(*n).kind == NodeKind::RootComplex).collect();
        let reads_bar1 = self.method == Method::Bar1 && self.way == NicDirection::ToNetwork;
        if reads_bar1 && roots.iter().any(|r| self.model.nodes[r.index()].engines.peer_reads.is_none()) {
            all.push(
                "how well the root complex forwards reads between devices is not known; some do it badly".to_owned(),
            );
        }
        let across = hops.iter().any(|h| fabric.link(h.link).kind == peerlane_machine::fabric::LinkKind::Smp);
        if across && self.method == Method::Bar1 {
            all.push("crosses sockets, which some do not forward between devices, and most do slowly".to_owned());
        }
        all
    }
}
