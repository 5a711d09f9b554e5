//! From a transfer to the resources it uses, hop by hop.

mod ends;
mod hops;

use super::access::{Access, access, device_access};
use super::defaults::STAGED_PIECE;
use super::rdma::{self, Method};
use super::resources::part_of;
use super::staging::{staged_cost, staged_turn};
use super::{HopLimit, Model, ModelError, PeerAccess, Route, Transfer};
use crate::solve::{Demand, Turns};
use peerlane_machine::fabric::{NodeId, NodeKind, Path, PathClass};
use peerlane_machine::matrix::Operation;
use peerlane_machine::units::{Rate, Seconds};

/// A route, and for each of its uses what to call it where it binds.
pub(super) struct Planned {
    /// The route.
    pub route: Route,
    /// One for each of `route.demand.uses`.
    pub labels: Vec<String>,
}

/// Lays out a transfer, a NIC's with GPU memory by the method chosen for it, else by the faster direct one; without `words`, its hops and labels
/// have none, which takes a fraction of the time.
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
}
