//! From a transfer to the resources it uses, hop by hop.

use super::defaults::{MAX_PAYLOAD, READ_COMPLETION, READ_REQUEST};
use super::pcie::{Packets, REQUEST_BYTES, data_link_efficiency};
use super::rdma::{self, Method};
use super::resources::{Carriage, LinkModel, part_of};
use super::staging::{Access, access, peer_packet, staged_efficiency};
use super::{HopLimit, Model, ModelError, PeerAccess, Route, Transfer};
use crate::evidence::{Engine, Operation};
use crate::fabric::{Hop, NodeId, NodeKind, Path, PathClass};
use crate::units::Rate;

/// A route, and for each of its uses what to call it where it binds.
pub(super) struct Planned {
    /// The route.
    pub route: Route,
    /// One for each of `route.uses`.
    pub labels: Vec<String>,
}

/// How a transfer, or one stage of it, lies on the links.
struct Traffic {
    engine: Engine,
    packets: Packets,
    /// The destination pulls, so that requests go the other way.
    reading: bool,
    /// Whether a size of packets is a default.
    assumed: bool,
    /// A root complex on the way has split its packets.
    split: bool,
    /// Host memory is at one end.
    host: bool,
    /// It is a stage of a staged transfer.
    staged: bool,
    /// A remark for the socket link.
    across: Option<&'static str>,
}

/// Lays out a transfer; a NIC's with GPU memory by the faster method.
pub(super) fn plan(model: &Model, transfer: &Transfer) -> Result<Planned, ModelError> {
    plan_by(model, transfer, None)
}

/// Lays out a transfer, where a NIC uses this method.
pub(super) fn plan_by(model: &Model, transfer: &Transfer, method: Option<Method>) -> Result<Planned, ModelError> {
    let fabric = &model.machine.fabric;
    let &Transfer { source, destination, .. } = transfer;
    let name = |n: NodeId| fabric.node(n).name.clone();
    let unknown = |why| ModelError::Unknown { from: name(source), to: name(destination), why };
    let no_path = || ModelError::NoPath(name(source), name(destination));
    if ![source, destination].iter().all(|n| fabric.node(*n).kind.is_endpoint()) {
        return Err(no_path());
    }
    let mut laying = Laying::new(model, method);
    if source == destination {
        laying.local_copy(source).map_err(unknown)?;
        return Ok(laying.finish(PathClass::Same));
    }
    let path = fabric.path(source, destination);
    let kind = |n: NodeId| fabric.node(n).kind;
    let gpu_pair = kind(source) == NodeKind::Gpu && kind(destination) == NodeKind::Gpu;
    let allowed = match (&path, gpu_pair) {
        (None, false) => return Err(no_path()),
        (None, true) => Access::Staged("no way joins them but through host memory".to_owned()),
        (Some(path), true) => access(model.machine, model.parts, source, destination, path),
        (Some(_), false) => Access::Direct(None),
    };
    let class = path.as_ref().map(|p| p.class).unwrap_or_else(|| {
        if fabric.package(source) == fabric.package(destination) { PathClass::Node } else { PathClass::Sys }
    });
    let because = match (allowed, transfer.peer, path) {
        (Access::Direct(remark), PeerAccess::Enabled, Some(path)) => {
            laying.direct(transfer, &path, remark).map_err(unknown)?;
            return Ok(laying.finish(class));
        }
        (Access::Direct(remark), PeerAccess::Disabled, Some(path)) if !gpu_pair => {
            laying.direct(transfer, &path, remark).map_err(unknown)?;
            return Ok(laying.finish(class));
        }
        (Access::Staged(why), PeerAccess::Enabled, _) => Some(why),
        _ => None,
    };
    laying.staged(transfer).map_err(unknown)?;
    let mut planned = laying.finish(class);
    planned.route.staged = true;
    planned.route.staged_because = because;
    Ok(planned)
}

/// A route in the making.
struct Laying<'m, 'a> {
    model: &'m Model<'a>,
    method: Option<Method>,
    uses: Vec<(usize, f64)>,
    labels: Vec<String>,
    hops: Vec<HopLimit>,
    cap: Option<(Rate, String)>,
}

impl<'m, 'a> Laying<'m, 'a> {
    fn new(model: &'m Model<'a>, method: Option<Method>) -> Self {
        Laying { model, method, uses: Vec::new(), labels: Vec::new(), hops: Vec::new(), cap: None }
    }

    fn finish(self, class: PathClass) -> Planned {
        let Laying { uses, labels, hops, cap, .. } = self;
        let route = Route { uses, weight: 1.0, cap, staged: false, staged_because: None, class, hops };
        Planned { route, labels }
    }

    /// A resource that stands twice is consumed twice.
    fn consume(&mut self, resource: usize, per_byte: f64, label: impl Into<String>) {
        match self.uses.iter_mut().find(|(r, _)| *r == resource) {
            Some((_, before)) => *before += per_byte,
            None => {
                self.uses.push((resource, per_byte));
                self.labels.push(label.into());
            }
        }
    }

    /// Consumes a resource that is called by its own name, if it is there.
    fn consume_named(&mut self, resource: Option<usize>, per_byte: f64) {
        if let Some(r) = resource {
            self.consume(r, per_byte, self.model.resources[r].name.clone());
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
        self.host_memory(source);
        self.host_memory(destination);
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
            self.host_memory(host);
        }
        let efficiency = staged_efficiency(fabric, self.model.parts, host);
        let (slower, words) =
            if limits[0] < limits[1] { (limits[0], "device→host") } else { (limits[1], "host→device") };
        let assumed = if efficiency.assumed { ", assumed" } else { "" };
        if slower.is_finite() {
            let rate = Rate::from_bytes_per_second(slower * efficiency.value);
            self.cap = Some((rate, format!("staging through host memory ({} of {words}{assumed})", efficiency.value)));
        }
        Ok(())
    }

    fn host_memory(&mut self, node: NodeId) {
        if self.model.machine.fabric.node(node).kind == NodeKind::Host {
            self.consume_named(self.model.nodes[node.index()].memory, 1.0);
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
        let reading = match (is(source, NodeKind::Host), is(destination, NodeKind::Host)) {
            (true, _) => true,
            (_, true) => false,
            _ if is(source, NodeKind::Nic) != is(destination, NodeKind::Nic) => is(destination, NodeKind::Nic),
            _ => op == Operation::Read,
        };
        let devices = [source, destination].into_iter().filter(|n| !is(*n, NodeKind::Host));
        let payloads = devices.map(|n| MAX_PAYLOAD.or_of(part_of(fabric, parts, n)));
        let payload = payloads.min_by(|a, b| a.value.total_cmp(&b.value));
        let payload = payload.unwrap_or(MAX_PAYLOAD.assumed());
        let (maximum, mut assumed) = (payload.value, payload.assumed);
        let mut size = maximum;
        if reading && is(source, NodeKind::Host) {
            let known = READ_COMPLETION.or_of(fabric.package(source).and_then(|c| part_of(fabric, parts, c)));
            if known.value < maximum {
                (size, assumed) = (known.value, known.assumed);
            }
        }
        Traffic {
            engine,
            packets: Packets { completions: reading, payload: size, maximum },
            reading,
            assumed,
            split: false,
            host: [source, destination].into_iter().any(|n| is(n, NodeKind::Host)),
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
                    self.hops.push(HopLimit { from: hop.from, to: hop.to, limit: None, why: (*why).to_owned() });
                }
                Carriage::Pcie { .. } => slowest = slowest.min(self.pcie_hop(hop, link, &mut traffic)),
                Carriage::Bundle(bundle) => {
                    let efficiency = bundle.efficiency(traffic.engine);
                    let label = format!("{}, {}", self.model.name_of(hop.link), bundle.words);
                    self.channel(hop, link, 1.0 / efficiency, &label);
                    if let Some(both) = link.both {
                        self.consume(both, 1.0 / efficiency, format!("{label}, both ways"));
                    }
                    let rate = bundle.raw * efficiency;
                    slowest = slowest.min(rate);
                    let driver = if traffic.engine == Engine::Sm { "SM copies" } else { "copy engine" };
                    let share = format!("{driver}, {:.3} of {:.1} GB/s", efficiency, bundle.raw / 1e9);
                    self.limit(hop, rate, &bundle.words, &share);
                }
                Carriage::Smp(smp) => {
                    let rate = if traffic.host { smp.host_rate } else { smp.peer_rate };
                    let label = format!("{}, {}", self.model.name_of(hop.link), smp.words);
                    self.channel(hop, link, smp.capacity() / rate, &label);
                    if let (true, Some(both)) = (traffic.staged, link.both) {
                        self.consume(both, 1.0, format!("{label}, staged traffic both ways"));
                    }
                    let kind = if traffic.host { "host memory traffic" } else { "peer-to-peer" };
                    let source = if smp.assumed { format!("; {}", smp.why) } else { String::new() };
                    let remark = traffic.across.map_or(String::new(), |r| format!("; {r}"));
                    self.limit(hop, rate, &smp.words, &format!("{kind}{source}{remark}"));
                }
            }
        }
        Ok(slowest)
    }

    fn pcie_hop(&mut self, hop: &Hop, link: &LinkModel, traffic: &mut Traffic) -> f64 {
        let Carriage::Pcie { generation, lanes, raw, words } = &link.carriage else { return f64::INFINITY };
        let Model { machine, parts, .. } = self.model;
        let mut label = format!("{}, {words}", self.model.name_of(hop.link));
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
            label.push_str(&format!(", {}-byte packets through the root complex", traffic.packets.payload));
        }
        if traffic.assumed {
            remark.push_str(", assumed");
        }
        let efficiency = traffic.packets.efficiency(*generation, *lanes);
        self.channel(hop, link, 1.0 / efficiency, &label);
        if traffic.reading {
            let back = Hop { from: hop.to, link: hop.link, to: hop.from };
            let left = data_link_efficiency(*generation, *lanes, traffic.packets.maximum);
            self.channel(&back, link, REQUEST_BYTES / READ_REQUEST / left, &label);
        }
        let rate = raw * efficiency;
        let detail = format!("{}{remark}", traffic.packets.words());
        let mut allowed = rate;
        match link.peer.filter(|_| leaves_root) {
            Some(peer) if self.model.capacities[peer] < rate => {
                allowed = self.model.capacities[peer];
                self.limit(hop, allowed, words, &format!("the host bridge's peer-to-peer limit; else {detail}"));
            }
            _ => self.limit(hop, rate, words, &detail),
        }
        self.consume_named(link.peer.filter(|_| leaves_root), 1.0);
        allowed
    }

    fn channel(&mut self, hop: &Hop, link: &LinkModel, per_byte: f64, label: &str) {
        let forward = self.model.machine.fabric.link(hop.link).a == hop.from;
        if let Some(channels) = link.channels {
            self.consume(channels[usize::from(!forward)], per_byte, label);
        }
    }

    /// Records a hop as `PCIe 3.0 x16: 12.99 GB/s (256-byte writes)`.
    fn limit(&mut self, hop: &Hop, rate: f64, words: &str, detail: &str) {
        let rate = Rate::from_bytes_per_second(rate);
        let why = format!("{words}: {rate} ({detail})");
        self.hops.push(HopLimit { from: hop.from, to: hop.to, limit: Some(rate), why });
    }

    /// What a NIC at one end adds: its line, and how it reads or writes GPU memory.
    fn nic(&mut self, nic: NodeId, other: NodeId, is_source: bool, path: &Path) {
        let fabric = &self.model.machine.fabric;
        if fabric.node(nic).kind != NodeKind::Nic {
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
            self.consume(used.resource, used.per_byte, used.label(model, nic, other));
            let rate = Rate::from_bytes_per_second(self.model.capacities[used.resource] / used.per_byte);
            let Some(hop) = self.hops.get_mut(hop) else { continue };
            hop.limit = Some(hop.limit.map_or(rate, |l| l.min(rate)));
            hop.why.push_str(&format!("; {}: {rate}", used.label(model, nic, other)));
        }
        if line.is_none()
            && let Some(hop) = self.hops.get_mut(hop)
        {
            hop.why.push_str("; the NIC's line rate is not known");
        }
    }
}
