//! What a transfer uses at its ends: of host memory, of what a GPU has outstanding, of a NIC, a drive or a capture card.

use super::Laying;
use crate::model::Model;
use crate::model::defaults::number;
use crate::model::rdma;
use crate::model::resources::{Carriage, part_of};
use crate::solve::Wait;
use peerlane_machine::fabric::{NodeId, NodeKind, Path};
use peerlane_machine::matrix::Engine;
use peerlane_machine::units::Rate;

impl Laying<'_, '_> {
    /// The most that a GPU reads from host memory: bytes outstanding ÷ round trip, where its part and the CPU's say
    /// both.
    pub(super) fn reads_outstanding(&self, host: NodeId, reader: NodeId) -> Option<(f64, String)> {
        let Model { machine, parts, .. } = self.model;
        let window = number(part_of(&machine.fabric, parts, reader), "read_window")?;
        let cpu = machine.fabric.package(host).and_then(|c| part_of(&machine.fabric, parts, c));
        let latency = number(cpu, "read_latency")?;
        let words = self.say(|| format!("{window} bytes of reads outstanding ÷ {latency:.0} ns round trip"));
        Some((window / latency * 1e9, words))
    }

    /// Holds a GPU's reads of host memory to what is outstanding, where they go over PCIe.
    pub(super) fn outstanding(&mut self, path: &Path, source: NodeId, destination: NodeId) {
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
    pub(super) fn kernel_reads(&mut self, path: &Path, source: NodeId, destination: NodeId, engine: Engine) {
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
    pub(super) fn host_memory(&mut self, node: NodeId, other: NodeId, engine: Engine, written: bool) {
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

    /// What a NIC, a drive or a capture card at one end adds: its line or medium, and how it reads or writes GPU memory.
    pub(super) fn nic(&mut self, nic: NodeId, other: NodeId, is_source: bool, path: &Path) {
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
