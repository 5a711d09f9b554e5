//! From a transfer to the resources it uses, hop by hop.

use super::access::{Access, access, device_access};
use super::defaults::{
    MAX_PAYLOAD, READ_COMPLETION, READ_REQUEST, SM_LINE, STAGED_PIECE, acknowledgements, constant, number,
};
use super::pcie::{ENGINE_BYTES, Origin, Packets};
use super::rdma::{self, Method};
use super::resources::{Carriage, LinkModel, part_of};
use super::staging::{peer_packet, staged_cost, staged_turn};
use super::{HopLimit, Model, ModelError, PeerAccess, Route, Transfer};
use crate::solve::{Demand, Turns, Wait};
use peerlane_machine::fabric::{Hop, NodeId, NodeKind, Path, PathClass};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::units::{Rate, Seconds};

/// A route, and for each of its uses what to call it where it binds.
pub(super) struct Planned {
    /// The route.
    pub route: Route,
    /// One for each of `route.demand.uses`.
    pub labels: Vec<String>,
}

/// How a transfer, or one stage of it, lies on the links.
struct Traffic {
    engine: Engine,
    op: Operation,
    packets: Packets,
    /// Bytes that one request of a read asks for.
    request: f64,
    /// What its engine's packets of writes cost beyond their bytes, where a part states it.
    engine_bytes: Option<f64>,
    /// How many answers packets get, where a GPU's part states it.
    answers: Option<f64>,
    /// Whether a size of packets is a default.
    assumed: bool,
    /// A root complex on the way has split its packets.
    split: bool,
    /// Host memory is at one end.
    host: bool,
    /// A NIC is at one end.
    nic: bool,
    /// It is a stage of a staged transfer.
    staged: bool,
    /// A remark for the socket link.
    across: Option<&'static str>,
}

/// Lays out a transfer, a NIC's with GPU memory by the method chosen for it, else by the faster direct one; without `words`, its hops and labels are left
/// out, which takes a fraction of the time.
pub(super) fn plan(model: &Model, transfer: &Transfer, words: bool) -> Result<Planned, ModelError> {
    rdma::planned(model, transfer, words).unwrap_or_else(|| plan_by(model, transfer, None, words))
}

/// Lays out a transfer, where a NIC uses this method.
pub(super) fn plan_by(
    model: &Model,
    transfer: &Transfer,
    method: Option<Method>,
    words: bool,
) -> Result<Planned, ModelError> {
    let fabric = &model.machine.fabric;
    let &Transfer { source, destination, .. } = transfer;
    let name = |n: NodeId| fabric.node(n).name.clone();
    let unknown = |why| ModelError::Unknown { from: name(source), to: name(destination), why };
    let no_path = || ModelError::NoPath(name(source), name(destination));
    if ![source, destination].iter().all(|n| fabric.node(*n).kind.is_endpoint()) {
        return Err(no_path());
    }
    let mut laying = Laying::new(model, method, words);
    if source == destination {
        laying.local_copy(source).map_err(unknown)?;
        return Ok(laying.finish(PathClass::Same));
    }
    let path = fabric.path(source, destination);
    let kind = |n: NodeId| fabric.node(n).kind;
    let gpu_pair = kind(source) == NodeKind::Gpu && kind(destination) == NodeKind::Gpu;
    // a GPU with a drive or capture card: there is a path through host memory too
    let with_card = match [source, destination].map(kind) {
        [NodeKind::Gpu, NodeKind::Nvme | NodeKind::Fpga] => Some(source),
        [NodeKind::Nvme | NodeKind::Fpga, NodeKind::Gpu] => Some(destination),
        _ => None,
    };
    let allowed = match (&path, gpu_pair) {
        (None, false) => return Err(no_path()),
        (path, true) => access(model, source, destination, path.as_ref()),
        (Some(_), false) => with_card.map_or(Access::Direct(None), |gpu| device_access(fabric, model.parts, gpu)),
    };
    let over_pcie = path.as_ref().is_some_and(|path| path.class.is_pcie());
    if gpu_pair && over_pcie && transfer.peer == PeerAccess::Enabled && matches!(allowed, Access::Direct(_)) {
        // boards join all modules; a card may have no bridge
        let module = |gpu| part_of(fabric, model.parts, gpu).is_some_and(|part| part.module_nvlinks().is_some());
        if module(source) && module(destination) && model.machine.nvlinks_unknown() {
            return Err(unknown(
                "no source shows the NVLinks that such modules have (nvidia-smi topo -m does)".to_owned(),
            ));
        }
    }
    let class = path.as_ref().map(|p| p.class).unwrap_or_else(|| {
        if fabric.package(source) == fabric.package(destination) { PathClass::Node } else { PathClass::Sys }
    });
    let because = match (allowed, transfer.peer, path) {
        (Access::Direct(remark), PeerAccess::Enabled, Some(path)) => {
            laying.direct(transfer, &path, remark).map_err(unknown)?;
            return Ok(laying.finish(class));
        }
        (Access::Direct(remark), PeerAccess::Disabled, Some(path)) if !gpu_pair && with_card.is_none() => {
            laying.direct(transfer, &path, remark).map_err(unknown)?;
            return Ok(laying.finish(class));
        }
        (Access::Staged(why), PeerAccess::Enabled, _) => Some(why),
        _ => None,
    };
    laying.staged(transfer).map_err(unknown)?;
    let mut planned = laying.finish(class);
    planned.route.staged_because = because;
    Ok(planned)
}

/// A route in the making.
struct Laying<'m, 'a> {
    model: &'m Model<'a>,
    method: Option<Method>,
    demand: Demand,
    labels: Vec<String>,
    hops: Vec<HopLimit>,
    cap: Option<(Rate, String)>,
    /// Whether it goes through host memory at a known rate.
    staged: bool,
    /// Seconds that a staged transfer's first piece adds.
    fill: f64,
    /// Whether it is to be put in words.
    words: bool,
}

impl<'m, 'a> Laying<'m, 'a> {
    fn new(model: &'m Model<'a>, method: Option<Method>, words: bool) -> Self {
        let (labels, hops) = (Vec::new(), Vec::new());
        Laying { model, method, demand: Demand::default(), labels, hops, cap: None, staged: false, fill: 0.0, words }
    }

    fn finish(self, class: PathClass) -> Planned {
        let Laying { demand, labels, hops, cap, staged, fill, .. } = self;
        let route = Route { demand, cap, staged, fill: Seconds::new(fill), staged_because: None, class, hops };
        Planned { route, labels }
    }

    fn say(&self, text: impl FnOnce() -> String) -> String {
        if self.words { text() } else { String::new() }
    }

    /// A resource that stands twice is consumed twice.
    fn consume(&mut self, resource: usize, per_byte: f64, label: impl FnOnce() -> String) {
        match self.demand.uses.iter_mut().find(|(r, _)| *r == resource) {
            Some((_, before)) => *before += per_byte,
            None => {
                self.demand.uses.push((resource, per_byte));
                let label = self.say(label);
                self.labels.push(label);
            }
        }
    }

    /// What a transfer takes of a resource without waiting for it: requests and answers to packets.
    fn burden(&mut self, resource: usize, per_byte: f64) {
        match self.demand.burdens.iter_mut().find(|(r, _)| *r == resource) {
            _ if per_byte <= 0.0 => {}
            Some((_, before)) => *before += per_byte,
            None => self.demand.burdens.push((resource, per_byte)),
        }
    }

    /// Consumes a resource that is called by its own name, if it is there.
    fn consume_named(&mut self, resource: Option<usize>, per_byte: f64) {
        if let Some(r) = resource {
            let model = self.model;
            self.consume(r, per_byte, || model.resources[r].name.clone());
        }
    }

    /// A copy within one GPU or one host memory reads each byte and writes it.
    fn local_copy(&mut self, node: NodeId) -> Result<(), String> {
        let memory = self.model.nodes[node.index()].memory;
        let name = &self.model.machine.fabric.node(node).name;
        if memory.is_none() {
            return Err(format!("the memory rate of {name} is not known"));
        }
        self.consume_named(memory, 2.0);
        Ok(())
    }

    fn direct(&mut self, transfer: &Transfer, path: &Path, across: Option<&'static str>) -> Result<(), String> {
        let &Transfer { source, destination, engine, op, .. } = transfer;
        let mut traffic = self.traffic(source, destination, engine, op);
        traffic.across = across;
        self.stage(path, traffic)?;
        self.outstanding(path, source, destination);
        self.kernel_reads(path, source, destination, engine);
        self.host_memory(source, destination, engine, false);
        self.host_memory(destination, source, engine, true);
        self.nic(source, destination, true, path);
        self.nic(destination, source, false, path);
        Ok(())
    }

    /// Source to the host memory of its socket and on from there, both stages at once, piece by piece.
    fn staged(&mut self, transfer: &Transfer) -> Result<(), String> {
        let fabric = &self.model.machine.fabric;
        let &Transfer { source, destination, engine, .. } = transfer;
        let name = |n: NodeId| &fabric.node(n).name;
        let host = fabric.nearest_host(source);
        let host = host.ok_or_else(|| format!("no host memory is known that {} could stage through", name(source)))?;
        let path = |a, b| fabric.path(a, b).ok_or_else(|| format!("no path is known from {} to {}", name(a), name(b)));
        let (up, down) = (path(source, host)?, path(host, destination)?);
        let mut limits = [f64::INFINITY; 2];
        for ((path, from, to), limit) in [(&up, source, host), (&down, host, destination)].into_iter().zip(&mut limits)
        {
            let mut traffic = self.traffic(from, to, engine, Operation::Write);
            traffic.staged = true;
            *limit = self.stage(path, traffic)?;
        }
        self.host_memory(host, source, engine, true);
        self.host_memory(host, destination, engine, false);
        self.nic(source, host, true, &up);
        self.nic(destination, host, false, &down);
        let io = [self.model.nodes[source.index()].receive, self.model.nodes[destination.index()].send];
        for (limit, resource) in limits.iter_mut().zip(io) {
            *limit = resource.map_or(*limit, |r| limit.min(self.model.capacities[r]));
        }
        if let Some((rate, _)) = self.reads_outstanding(host, destination) {
            limits[1] = limits[1].min(rate);
        }
        let cost = staged_cost(fabric, self.model.parts, host);
        let (slower, words) =
            if limits[0] < limits[1] { (limits[0], "device→host") } else { (limits[1], "host→device") };
        let assumed = if cost.assumed { ", assumed" } else { "" };
        if slower.is_finite() {
            let alone = 1.0 / (1.0 / slower + cost.value * 1e-6 / 1_048_576.0);
            let waits = staged_turn(fabric, self.model.parts, [source, destination]);
            let places = [source, destination].map(|gpu| gpu.index() as u64);
            let turns = Turns { rate: alone, seconds: waits.value / alone, places };
            let words =
                self.say(|| format!("staging through host memory ({words}, and {} us a MiB{assumed})", cost.value));
            self.cap = Some((Rate::from_bytes_per_second(turns.cap(1)), words));
            self.demand.turns = Some(turns);
            self.staged = true;
            let both = limits.iter().map(|limit| 1.0 / limit).sum::<f64>();
            self.fill = (STAGED_PIECE.0 as f64 * (both - 1.0 / alone)).max(0.0);
        }
        Ok(())
    }

    /// The most that a GPU reads from host memory: bytes outstanding ÷ round trip, where its part and the CPU's say
    /// both.
    fn reads_outstanding(&self, host: NodeId, reader: NodeId) -> Option<(f64, String)> {
        let Model { machine, parts, .. } = self.model;
        let window = number(part_of(&machine.fabric, parts, reader), "read_window")?;
        let cpu = machine.fabric.package(host).and_then(|c| part_of(&machine.fabric, parts, c));
        let latency = number(cpu, "read_latency")?;
        let words = self.say(|| format!("{window} bytes of reads outstanding ÷ {latency:.0} ns round trip"));
        Some((window / latency * 1e9, words))
    }

    /// Holds a GPU's reads of host memory to what is outstanding, where they go over PCIe.
    fn outstanding(&mut self, path: &Path, source: NodeId, destination: NodeId) {
        let Model { machine, links, .. } = self.model;
        let (from, to) = (machine.fabric.node(source).kind, machine.fabric.node(destination).kind);
        let pcie = path.hops.iter().any(|h| matches!(links[h.link.index()].carriage, Carriage::Pcie { .. }));
        // where requests queue, what is outstanding is a resource
        let queues = self.model.nodes[source.index()].round_trips.is_some();
        if from == NodeKind::Host && to == NodeKind::Gpu && pcie && !queues {
            let known = self.reads_outstanding(source, destination);
            self.demand.cap = known.as_ref().map_or(f64::INFINITY, |(rate, _)| *rate);
            self.cap = known.map(|(rate, words)| (Rate::from_bytes_per_second(rate), words));
        }
    }

    /// Kernels of a GPU share what they read of host memory over PCIe, where the GPU's part states it.
    fn kernel_reads(&mut self, path: &Path, source: NodeId, destination: NodeId, engine: Engine) {
        let Model { machine, links, nodes, resources, .. } = self.model;
        let pcie = path.hops.iter().any(|h| matches!(links[h.link.index()].carriage, Carriage::Pcie { .. }));
        if engine != Engine::Sm || !pcie || machine.fabric.node(source).kind != NodeKind::Host {
            return;
        }
        if let Some(shared) = nodes[destination.index()].kernel_reads {
            self.consume(shared, 1.0, || format!("what kernels read of host memory; {}", resources[shared].why));
        }
    }

    /// What a transfer takes of host memory at one of its ends, and how it waits there.
    fn host_memory(&mut self, node: NodeId, other: NodeId, engine: Engine, written: bool) {
        let model = self.model;
        if model.machine.fabric.node(node).kind != NodeKind::Host {
            return;
        }
        let host = &model.nodes[node.index()];
        let cost = if written { host.write_cost } else { 1.0 };
        self.consume_named(host.memory, cost);
        let [reads, writes, kernels] = model.nodes[other.index()].windows;
        let window = match engine {
            Engine::Sm => kernels,
            _ if written => writes,
            _ => reads,
        };
        if let (Some(window), Some([read, write]), Some(server)) = (window, host.round_trips, host.memory) {
            let round_trip = if written && engine != Engine::Sm { write } else { read };
            self.consume_named(Some(window.resource), round_trip / window.round_trip);
            self.demand.waits.push(Wait { server, window: window.resource, per_ns: 1.0 / window.round_trip });
        }
    }

    /// Who drives a transfer, and in which packets it goes.
    ///
    /// A NIC drives its own transfers and a GPU those with host memory; between GPUs, the writer or the reader.
    /// Data that its receiver pulls comes in completions: of the CPU's size from host memory, of the largest
    /// payload from a device. All else is writes of the largest payload that both ends take.
    fn traffic(&self, source: NodeId, destination: NodeId, engine: Engine, op: Operation) -> Traffic {
        let Model { machine, parts, .. } = self.model;
        let fabric = &machine.fabric;
        let is = |n: NodeId, kind| fabric.node(n).kind == kind;
        let io = |n: NodeId| fabric.node(n).kind.is_io();
        let reading = match (is(source, NodeKind::Host), is(destination, NodeKind::Host)) {
            (true, _) => true,
            (_, true) => false,
            _ if io(source) != io(destination) => io(destination),
            _ => op == Operation::Read,
        };
        let devices = [source, destination].into_iter().filter(|n| !is(*n, NodeKind::Host));
        let end = parts.end();
        let payloads = devices.map(|n| MAX_PAYLOAD.or_of(part_of(fabric, parts, n), end));
        let payload = payloads.min_by(|a, b| a.value.total_cmp(&b.value));
        let mut payload = payload.unwrap_or(MAX_PAYLOAD.assumed(end));
        // a device of which no part is known may have been set to half of it
        let known = |n: &NodeId| is(*n, NodeKind::Host) || part_of(fabric, parts, *n).is_some();
        if payload.assumed && ![source, destination].iter().all(known) {
            payload.value = end.of(payload.value / 2.0, payload.value, payload.value);
        }
        let (maximum, mut assumed) = (payload.value, payload.assumed);
        let mut size = maximum;
        if reading && is(source, NodeKind::Host) {
            let known = READ_COMPLETION.or_of(fabric.package(source).and_then(|c| part_of(fabric, parts, c)), end);
            if known.value < maximum {
                (size, assumed) = (known.value, known.assumed);
            }
        }
        if engine == Engine::Sm {
            size = size.min(SM_LINE);
        }
        Traffic {
            engine,
            op: if reading { Operation::Read } else { Operation::Write },
            packets: Packets { completions: reading, payload: size, maximum },
            request: READ_REQUEST.or_of(part_of(fabric, parts, destination), end).value,
            engine_bytes: number(part_of(fabric, parts, source), "copy_packet_cost"),
            answers: [destination, source].into_iter().find_map(|n| number(part_of(fabric, parts, n), "answers_cost")),
            assumed,
            split: false,
            host: [source, destination].into_iter().any(|n| is(n, NodeKind::Host)),
            nic: [source, destination].into_iter().any(|n| is(n, NodeKind::Nic)),
            staged: false,
            across: None,
        }
    }

    /// Lays a stage along a path; returns what its slowest device link allows, in bytes a second.
    fn stage(&mut self, path: &Path, mut traffic: Traffic) -> Result<f64, String> {
        let mut slowest = f64::INFINITY;
        for hop in &path.hops {
            let model = self.model;
            let link = &model.links[hop.link.index()];
            match &link.carriage {
                Carriage::Unknown(why) => return Err(why.clone()),
                Carriage::Inside(why) => {
                    if self.words {
                        let why = (*why).to_owned();
                        self.hops.push(HopLimit { from: hop.from, to: hop.to, limit: None, why });
                    }
                }
                Carriage::Pcie { .. } => slowest = slowest.min(self.pcie_hop(hop, link, &mut traffic)),
                Carriage::Bundle(bundle) => {
                    let to_cpu = model.machine.fabric.node(hop.to).kind == NodeKind::Cpu;
                    let efficiency = bundle.efficiency(traffic.engine, traffic.op, to_cpu);
                    let label = self.say(|| format!("{}, {}", model.name_of(hop.link), bundle.words));
                    self.channel(hop, link, 1.0 / efficiency, label);
                    self.opposite(hop, link, bundle.overhead(traffic.engine, traffic.op, to_cpu));
                    let mut rate = bundle.raw * efficiency;
                    if let Some((most, why)) = self.engine_rate(hop, &traffic).filter(|(most, _)| *most < rate) {
                        rate = most;
                        if self.cap.as_ref().is_none_or(|(cap, _)| most < cap.bytes_per_second()) {
                            self.demand.cap = most;
                            self.cap = Some((Rate::from_bytes_per_second(most), why));
                        }
                    }
                    slowest = slowest.min(rate);
                    let driver = if traffic.engine == Engine::Sm { "SM copies" } else { "copy engine" };
                    self.limit(hop, rate, &bundle.words, || {
                        format!("{driver}, {:.3} of {:.1} GB/s", efficiency, bundle.raw / 1e9)
                    });
                }
                Carriage::Smp(smp) => {
                    let of_nic = smp.nic_rate.as_ref().filter(|_| traffic.nic && !traffic.host);
                    let rate =
                        of_nic.map_or(if traffic.host { smp.host_rate } else { smp.peer_rate }, |n| n.value * 1e9);
                    let label = self.say(|| format!("{}, {}", model.name_of(hop.link), smp.words));
                    self.channel(hop, link, smp.capacity() / rate, label.clone());
                    if let (true, Some(both)) = (traffic.staged, link.both) {
                        self.consume(both, 1.0, || format!("{label}, staged traffic both ways"));
                    }
                    let kind = match of_nic {
                        Some(_) => "between a NIC and a GPU",
                        None if traffic.host => "host memory traffic",
                        None => "peer-to-peer",
                    };
                    self.limit(hop, rate, &smp.words, || {
                        let source = match of_nic {
                            Some(known) if known.assumed => format!(", assumed; {}", known.why),
                            None if smp.assumed => format!("; {}", smp.why),
                            _ => String::new(),
                        };
                        let remark = traffic.across.map_or(String::new(), |r| format!("; {r}"));
                        format!("{kind}{source}{remark}")
                    });
                }
            }
        }
        Ok(slowest)
    }

    /// What one copy engine of the GPUs at a hop moves over their own links, where a part states it.
    fn engine_rate(&self, hop: &Hop, traffic: &Traffic) -> Option<(f64, String)> {
        let Model { machine, parts, .. } = self.model;
        let known = |node| constant(part_of(&machine.fabric, parts, node), "copy_engine_rate");
        let rates = [hop.from, hop.to].into_iter().filter_map(known);
        let least = rates.min_by(|a, b| a.value.total_cmp(&b.value)).filter(|_| traffic.engine == Engine::Ce)?;
        Some((least.value * 1e9, self.say(|| format!("what one copy engine moves; {}", least.why))))
    }

    fn pcie_hop(&mut self, hop: &Hop, link: &LinkModel, traffic: &mut Traffic) -> f64 {
        let Carriage::Pcie { generation, lanes, raw, words, .. } = &link.carriage else { return f64::INFINITY };
        let Model { machine, parts, .. } = self.model;
        let mut label = self.say(|| format!("{}, {words}", self.model.name_of(hop.link)));
        let mut remark = String::new();
        let leaves_root = machine.fabric.node(hop.from).kind == NodeKind::RootComplex && !traffic.host;
        if leaves_root {
            match peer_packet(&machine.fabric, parts, hop.from) {
                Some(split) if split.value < traffic.packets.payload => {
                    traffic.packets.payload = split.value;
                    traffic.packets.maximum = split.value;
                    traffic.assumed = split.assumed;
                    traffic.split = true;
                }
                Some(_) => {}
                None => remark.push_str("; no splitting by this root complex is known"),
            }
        }
        if traffic.split {
            remark.push_str(" through the root complex");
            label
                .push_str(&self.say(|| format!(", {}-byte packets through the root complex", traffic.packets.payload)));
        }
        if traffic.assumed {
            remark.push_str(", assumed");
        }
        let fabric = &machine.fabric;
        let usual = acknowledgements(parts, *generation);
        let answers = traffic.answers.unwrap_or(usual);
        let engine = match traffic.engine {
            Engine::Sm => 0.0,
            _ => traffic.engine_bytes.unwrap_or(ENGINE_BYTES * usual),
        };
        let origin = Origin { engine, split: traffic.split, request: traffic.request, answers };
        let load = traffic.packets.load(*generation, *lanes, origin);
        let ports = [hop.from, hop.to].map(|n| number(part_of(fabric, parts, n), "port_efficiency"));
        let port = ports.into_iter().flatten().fold(1.0, f64::min);
        let efficiency = port / load.own;
        self.channel(hop, link, 1.0 / efficiency, label);
        self.opposite(hop, link, load.back);
        let rate = raw * efficiency;
        let detail = self.say(|| format!("{}{remark}", traffic.packets.words()));
        // a root complex and a GPU's own port may let less through than the link
        let sends = self.model.nodes[hop.from.index()].port;
        let limits = [
            (link.peer.filter(|_| leaves_root), "the host bridge's peer-to-peer limit"),
            (sends, "what the GPU's port sends"),
        ];
        let mut allowed = rate;
        let mut why = detail.clone();
        for (resource, words) in limits {
            let Some(resource) = resource else { continue };
            if self.model.capacities[resource] < allowed {
                allowed = self.model.capacities[resource];
                why = self.say(|| format!("{words}; else {detail}"));
            }
            self.consume_named(Some(resource), 1.0);
        }
        self.limit(hop, allowed, words, || why);
        allowed
    }

    fn channel(&mut self, hop: &Hop, link: &LinkModel, per_byte: f64, label: String) {
        let forward = self.model.machine.fabric.link(hop.link).a == hop.from;
        if let Some(channels) = link.channels {
            self.consume(channels[usize::from(!forward)], per_byte, || label);
        }
    }

    /// What a byte takes of the channel that leads back.
    fn opposite(&mut self, hop: &Hop, link: &LinkModel, per_byte: f64) {
        let forward = self.model.machine.fabric.link(hop.link).a == hop.from;
        if let Some(channels) = link.channels {
            self.burden(channels[usize::from(forward)], per_byte);
        }
    }

    /// Records a hop as `PCIe 3.0 x16: 13.68 GB/s (256-byte writes)`.
    fn limit(&mut self, hop: &Hop, rate: f64, words: &str, detail: impl FnOnce() -> String) {
        if self.words {
            let rate = Rate::from_bytes_per_second(rate);
            let why = format!("{words}: {rate} ({})", detail());
            self.hops.push(HopLimit { from: hop.from, to: hop.to, limit: Some(rate), why });
        }
    }

    /// What a NIC, a drive or a capture card at one end adds: its line or medium, and how it reads or writes GPU memory.
    fn nic(&mut self, nic: NodeId, other: NodeId, is_source: bool, path: &Path) {
        let fabric = &self.model.machine.fabric;
        let kind = fabric.node(nic).kind;
        if !kind.is_io() {
            return;
        }
        let model = &self.model.nodes[nic.index()];
        let with_gpu = fabric.node(other).kind == NodeKind::Gpu;
        let (line, gpu) = if is_source { (model.receive, model.gpu_write) } else { (model.send, model.gpu_read) };
        let hop = if is_source { 0 } else { self.hops.len().saturating_sub(1) };
        for resource in [line, gpu.filter(|_| with_gpu)].into_iter().flatten() {
            self.consume_named(Some(resource), 1.0);
            let Some(hop) = self.hops.get_mut(hop) else { continue };
            let known = &self.model.resources[resource];
            hop.limit = Some(hop.limit.map_or(known.capacity, |l| l.min(known.capacity)));
            hop.why.push_str(&format!("; {}: {}", known.name, known.capacity));
        }
        for used in rdma::uses(self.model, path, nic, other, is_source, self.method) {
            let model = self.model;
            self.consume(used.resource, used.per_byte, || used.label(model, nic, other));
            let rate = Rate::from_bytes_per_second(self.model.capacities[used.resource] / used.per_byte);
            let Some(hop) = self.hops.get_mut(hop) else { continue };
            hop.limit = Some(hop.limit.map_or(rate, |l| l.min(rate)));
            hop.why.push_str(&format!("; {}: {rate}", used.label(model, nic, other)));
        }
        if line.is_none()
            && let Some(hop) = self.hops.get_mut(hop)
        {
            hop.why.push_str(match kind {
                NodeKind::Nic => "; the NIC's line rate is not known",
                NodeKind::Nvme => "; the drive's rate is not known, and may be far below its link's",
                _ => "; the card's rate is not known",
            });
        }
    }
}
