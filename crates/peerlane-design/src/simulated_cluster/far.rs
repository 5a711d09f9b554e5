//! A node of a simulated cluster with a NIC in a slot far from the GPUs that it serves: how it describes itself, and what is left of
//! the NIC's rates.

use std::collections::HashMap;

use super::gpus_beside;
use crate::cluster::Cluster;
use crate::what_if::{self, Edit};
use peerlane_machine::fabric::{Fabric, NodeId, NodeKind, PathClass};
use peerlane_machine::machine::Machine;
use peerlane_measure::nodes::{End, Probe, Step};
use peerlane_model::model::Model;
use peerlane_model::model::rdma::{NicDirection, method_in_use, nic_path};
use peerlane_read::catalogue::{Parts, write_system};

/// A NIC that was moved.
pub(super) struct FarNic {
    pub(super) node: usize,
    pub(super) nic: String,
    /// System file of the node as it is then.
    pub(super) system: String,
    /// The GPU beside each NIC of the node as it is then.
    pub(super) gpus: Vec<Option<String>>,
    /// What is left of the rate with each memory, by its name.
    left: HashMap<String, f64>,
}

impl FarNic {
    /// Moves a NIC to where the path to the GPU that it serves is longest.
    ///
    /// # Errors
    /// In words, where the machine has no such place.
    pub(super) fn of(cluster: &Cluster, node: usize, nic: &str) -> Result<Self, String> {
        let before = &cluster.node;
        let cpus = before.fabric.of_kind(NodeKind::Cpu).map(|cpu| before.fabric.node(cpu).name.clone());
        let moved = |cpu: String| {
            let edit = Edit::new(format!("{nic}.at"), cpu);
            what_if::apply(before, &[edit], Parts::embedded()).ok()
        };
        let served = nearest(&before.fabric, nic);
        let class = |fabric: &Fabric| fabric.class(fabric.find(served.as_deref()?)?, fabric.find(nic)?);
        let after = cpus.filter_map(moved).max_by_key(|machine| class(&machine.fabric));
        let far = |machine: &Machine| class(&machine.fabric) > class(&before.fabric).max(Some(PathClass::Pxb));
        let Some(after) = after.filter(far) else {
            return Err(format!("{} has no place for {nic} that is farther from its GPUs", before.name));
        };
        let mut left = HashMap::new();
        for memory in before.fabric.ids() {
            let name = &before.fabric.node(memory).name;
            if let (Some(was), Some(is)) = (rate(before, name, nic), rate(&after, name, nic)) {
                left.insert(name.clone(), (is / was).min(1.0));
            }
        }
        let system = write_system(&after).map_err(|e| e.to_string())?;
        Ok(FarNic { node, nic: nic.to_owned(), system, gpus: gpus_beside(cluster, &after.fabric), left })
    }

    /// What is left to a step of its rate alone; of host memory the nearest is taken, which no move changes.
    pub(super) fn left_to(&self, step: &Step) -> f64 {
        if step.probe == Probe::SendStaged {
            return 1.0;
        }
        let of = |end: &End| {
            let mine = end.node == self.node && end.nic.as_deref() == Some(&self.nic);
            end.memory.device().filter(|_| mine).and_then(|gpu| self.left.get(gpu).copied()).unwrap_or(1.0)
        };
        of(&step.from).min(of(&step.to))
    }
}

/// The GPU that is nearest to a NIC.
fn nearest(fabric: &Fabric, nic: &str) -> Option<String> {
    let nic = fabric.find(nic)?;
    let gpu = fabric.of_kind(NodeKind::Gpu).min_by_key(|gpu| fabric.class(*gpu, nic).unwrap_or(PathClass::Sys))?;
    Some(fabric.node(gpu).name.clone())
}

/// The rate between a memory and a NIC's line, the lower one of both ways.
fn rate(machine: &Machine, memory: &str, nic: &str) -> Option<f64> {
    let [memory, nic]: [NodeId; 2] = [machine.fabric.find(memory)?, machine.fabric.find(nic)?];
    let model = Model::new(machine, Parts::embedded());
    gpu_rate(&model, memory, nic)
}

/// The rate between a memory and a NIC's line in bytes a second, by the method in use and the lower one of both ways.
pub fn gpu_rate(model: &Model, memory: NodeId, nic: NodeId) -> Option<f64> {
    let method = method_in_use(model, memory, nic);
    let way = |way| nic_path(model, memory, nic, way, method).ok().map(|path| path.rate.bytes_per_second());
    let rate = way(NicDirection::ToNetwork)?.min(way(NicDirection::FromNetwork)?);
    Some(model.line_rate(nic).map_or(rate, |line| rate.min(line.bytes_per_second())))
}
