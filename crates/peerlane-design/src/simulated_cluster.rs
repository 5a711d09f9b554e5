//! What a cluster's nodes should deliver to each other, round by round, and a simulated cluster that answers so, with noise
//! and planted faults.
//!
//! Steps of one round share the network: a round is one problem, solved as everything else is. Nodes measure between
//! host memories and between GPUs by verbs, and between GPUs by NCCL.

mod far;
mod fault;
mod nccl;
mod predictor;

pub use far::gpu_rate;
pub use fault::{ClusterFault, FAULTS, NoFault, Part};
pub use predictor::Predictor;

use far::FarNic;
use predictor::Share;

use std::collections::BTreeMap;

use crate::builder::named;
use crate::cluster::{Cluster, ClusterError, read_cluster};
use crate::nic_gpus::nearest_gpus;
use peerlane_machine::counter::ErrorCounter;
use peerlane_machine::fabric::{Fabric, NodeId, NodeKind};
use peerlane_machine::fault::NOISE;
use peerlane_machine::machine::Machine;
use peerlane_machine::names::number_after;
use peerlane_machine::random::Random;
use peerlane_machine::transfer::Registration;
use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{Failure, Verdict};
use peerlane_measure::nodes::{
    Lost, Memory, Method, Network, Nic, NicGpu, Node, NodeGpu, NodePlan, NodesRun, PortErrors, Probe, Samples, Step,
    Transport, Wanted,
};
use peerlane_measure::run::{FlagKind, Rise};
use peerlane_model::expectation::Expected;
use peerlane_model::model::Model;
use peerlane_read::catalogue::{self, Parts};

/// Relative standard deviation between steps that should be alike: routing, placement of buffers.
const BETWEEN: f64 = 0.005;

/// Seconds that setting up a simulated round takes.
const SETTING_UP: f64 = 0.1;

/// Why the adapters of a simulated node take no GPU memory.
const REFUSED: &str = "dmabuf: the driver exports no memory; nvidia-peermem: the module is not loaded";

/// What simulated nodes give for the version of their NCCL.
const MODELLED: &str = "modelled";

/// The nodes of a cluster as those that measure each other.
///
/// # Errors
/// Where a node has no host memory to measure with.
pub fn nodes(cluster: &Cluster) -> Result<Vec<Node>, ClusterError> {
    let model = Model::new(&cluster.node, Parts::embedded());
    let name = |id: NodeId| cluster.node.fabric.node(id).name.clone();
    let fabric = &cluster.node.fabric;
    let beside = gpus_beside(cluster, fabric);
    let nics: Vec<Nic> = cluster
        .nics
        .iter()
        .zip(beside)
        .map(|(nic, gpu)| {
            let memory = Memory::of_host(number_after(&name(memory_near(cluster, *nic)?), "host"));
            let gpu = gpu.filter(|_| fabric.node(*nic).rdma != Some(false)).map(|name| NicGpu {
                name,
                registration: Some(Registration::Dmabuf),
                why: None,
            });
            Ok(Nic { name: name(*nic), rate: model.line_rate(*nic), memory, gpu, ..Nic::default() })
        })
        .collect::<Result<_, ClusterError>>()?;
    let product = |gpu| fabric.node(gpu).part.clone().unwrap_or_default();
    let gpu = |gpu| NodeGpu { name: name(gpu), product: product(gpu), address: None };
    let gpus: Vec<NodeGpu> = cluster.gpus().into_iter().map(gpu).collect();
    let nccl = Some(MODELLED.to_owned());
    let node = |n| Node {
        host: format!("node{n}"),
        nics: nics.clone(),
        gpus: gpus.clone(),
        nccl: nccl.clone(),
        ..Node::default()
    };
    Ok((0..cluster.nodes).map(node).collect())
}

/// The GPU beside each NIC of a node that is built so.
fn gpus_beside(cluster: &Cluster, fabric: &Fabric) -> Vec<Option<String>> {
    let same = |id: NodeId| fabric.find(&cluster.node.fabric.node(id).name);
    let nics: Vec<Option<NodeId>> = cluster.nics.iter().map(|nic| same(*nic)).collect();
    let gpus: Vec<Option<NodeId>> = cluster.gpus().into_iter().map(same).collect();
    let named = |at: usize| Some(fabric.node(gpus[at]?).name.clone());
    let class = |nic: usize, gpu: usize| fabric.class(gpus[gpu]?, nics[nic]?);
    nearest_gpus(nics.len(), gpus.len(), class).map(|at| named(at?)).collect()
}

/// The host memory nearest to a NIC.
fn memory_near(cluster: &Cluster, nic: NodeId) -> Result<NodeId, ClusterError> {
    let without = || ClusterError::Model(format!("{} has no host memory to measure with", cluster.node.name));
    nearest_memory(&cluster.node, nic).ok_or_else(without)
}

/// The host memory of a machine that is nearest to a NIC.
pub(crate) fn nearest_memory(machine: &Machine, nic: NodeId) -> Option<NodeId> {
    let fabric = &machine.fabric;
    fabric.of_kind(NodeKind::Host).min_by_key(|host| fabric.class(*host, nic))
}

/// The cluster with messages that take the stages of its adapters, as verbs measure them, not those of NCCL's protocol.
#[must_use]
pub fn with_latencies_of_adapters(mut cluster: Cluster) -> Cluster {
    cluster.latencies.network = None;
    cluster
}

/// The cluster that a record was simulated on, with latencies of adapters; `None` of a record of real nodes.
pub fn of_record(run: &NodesRun) -> Option<Result<Cluster, ClusterError>> {
    let text = run.cluster.as_ref()?;
    let node = |name: &str| match &run.system {
        Some(system) => catalogue::read_system(system, name).ok(),
        None => named(name).and_then(Result::ok),
    };
    Some(read_cluster(text, &run.name, node).map(with_latencies_of_adapters))
}

/// A cluster that answers as its description predicts, but for its faults.
pub struct SimulatedCluster<'a> {
    predictor: Predictor<'a>,
    nodes: Vec<Node>,
    faults: Vec<ClusterFault>,
    far: Vec<FarNic>,
    lost: Vec<Lost>,
    /// Packets that ports missed, by node, NIC and counter.
    missed: BTreeMap<(usize, String, ErrorCounter), u64>,
    rounds: usize,
    time: f64,
    seed: u64,
}

impl<'a> SimulatedCluster<'a> {
    /// A cluster with faults. The same seed gives the same answers.
    ///
    /// # Errors
    /// Where a fault names what the cluster lacks.
    pub fn new(cluster: &'a Cluster, faults: Vec<ClusterFault>, seed: u64) -> Result<Self, String> {
        faults.iter().try_for_each(|fault| fault.fits(cluster))?;
        let mut nodes = nodes(cluster).map_err(|e| e.to_string())?;
        let moved = |fault: &ClusterFault| match fault {
            ClusterFault::FarNic(node, nic) => {
                Some(FarNic::of(cluster, *node, nic).map_err(|e| format!("{fault}: {e}")))
            }
            _ => None,
        };
        let far: Vec<FarNic> = faults.iter().filter_map(moved).collect::<Result<_, _>>()?;
        for FarNic { node, nic, system, gpus, .. } in &far {
            let Some(node) = nodes.get_mut(*node) else { continue };
            if node.system.replace(system.clone()).is_some() {
                return Err(format!("far-nic: {} has one already", node.host));
            }
            for (own, gpu) in node.nics.iter_mut().zip(gpus) {
                // the memory that is nearest now
                if own.name == *nic {
                    own.memory = Memory::Host;
                }
                if let (Some(own), Some(gpu)) = (&mut own.gpu, gpu) {
                    own.name.clone_from(gpu);
                }
            }
        }
        for fault in &faults {
            let ClusterFault::NoGpuDirect(node, _) = fault else { continue };
            for gpu in
                nodes.get_mut(*node).into_iter().flat_map(|node| &mut node.nics).filter_map(|nic| nic.gpu.as_mut())
            {
                gpu.registration = None;
                gpu.why = Some(REFUSED.to_owned());
            }
        }
        let predictor = Predictor::new(cluster);
        let (lost, missed, rounds, time) = (Vec::new(), BTreeMap::new(), 0, 0.0);
        let mut simulated = SimulatedCluster { predictor, nodes, faults, far, lost, missed, rounds, time, seed };
        simulated.switches_exist()?;
        Ok(simulated)
    }

    /// Refuses faults of switches and links that no path between neighbours or far nodes takes.
    fn switches_exist(&mut self) -> Result<(), String> {
        let named = |fault: &ClusterFault| match fault {
            ClusterFault::SlowSwitch(switch, _) => Some(vec![switch.clone()]),
            ClusterFault::SlowLink(a, b, _) => Some(vec![format!("{a} to {b}"), format!("{b} to {a}")]),
            _ => None,
        };
        if !self.faults.iter().any(|fault| named(fault).is_some()) {
            return Ok(());
        }
        let wanted = Wanted { transports: vec![Transport::Verbs], ..Wanted::default() };
        let plan = NodePlan::of(&self.nodes, &wanted, Method::default());
        let steps = plan.map(|plan| plan.rounds_of(&self.nodes).concat()).map_err(|e| e.to_string())?;
        let mut names = std::collections::BTreeSet::new();
        for step in &steps {
            let key = self.predictor.known(step);
            let known = key.and_then(|key| self.predictor.routes.get(&key)?.as_ref());
            names.extend(known.into_iter().flat_map(|known| known.through.iter().cloned()));
        }
        for fault in &self.faults {
            let Some(wanted) = named(fault) else { continue };
            if !wanted.iter().any(|name| names.contains(name)) {
                let switches: Vec<&str> = names.iter().map(String::as_str).filter(|n| !n.contains(" to ")).collect();
                let some = switches[..switches.len().min(8)].join(", ");
                return Err(format!("{fault}: no path of the measurement takes it; there are {some} and so on"));
            }
        }
        Ok(())
    }
}

/// What faults leave to a step of its rate alone.
fn left_to(faults: &[ClusterFault], step: &Step) -> f64 {
    let has = |node: usize| step.from.node == node || step.to.node == node;
    let nic = |name: &str| step.from.nic.as_deref() == Some(name);
    let left = |fault: &ClusterFault| match fault {
        ClusterFault::SlowNode(node, left) if has(*node) => *left,
        ClusterFault::SlowNic(node, name, left) if has(*node) && nic(name) => *left,
        ClusterFault::SlowCable(node, name, left) if has(*node) && nic(name) && !step.is_loopback() => *left,
        ClusterFault::OneWay(part, left) if !step.is_loopback() && is(part, step.from.node, &step.from.nic) => *left,
        ClusterFault::SlowPath(a, b, left) if has(*a) && has(*b) && (a == b || !step.is_loopback()) => *left,
        ClusterFault::SlowGpus(node, left) if step.is_among_many() && step.nodes().any(|of| of == *node) => *left,
        // verbs are refused there, or stage
        ClusterFault::NoGpuDirect(node, left) if has(*node) && step.transport == Transport::Nccl => *left,
        ClusterFault::SlowNicGpu(node, name, left)
            if step.probe == Probe::Write
                && [&step.from, &step.to]
                    .into_iter()
                    .any(|end| end.node == *node && end.memory.is_device() && nic(name)) =>
        {
            *left
        }
        _ => 1.0,
    };
    faults.iter().map(left).product()
}

/// Whether a part is a node's end, or holds it.
fn is(part: &Part, at: usize, nic: &Option<String>) -> bool {
    match part {
        Part::Node(node) => *node == at,
        Part::Nic(node, name) => *node == at && nic.as_ref() == Some(name),
    }
}

/// Packets of a step that are lost, as the ports at both ends count them.
fn missed(faults: &[ClusterFault], step: &Step) -> Vec<(usize, String, ErrorCounter, u64)> {
    if step.transport != Transport::Verbs || step.probe == Probe::Latency || step.is_loopback() {
        return Vec::new();
    }
    let (Some(from), Some(to)) = (&step.from.nic, &step.to.nic) else { return Vec::new() };
    let packets = faults.iter().filter_map(|fault| match fault {
        ClusterFault::LosesOut(node, nic, packets) if (*node, nic) == (step.from.node, from) => Some(*packets),
        ClusterFault::LosesIn(node, nic, packets) if (*node, nic) == (step.to.node, to) => Some(*packets),
        _ => None,
    });
    let counted = packets.flat_map(|packets| {
        [
            (step.from.node, from.clone(), ErrorCounter::PortSequenceNak, packets),
            (step.to.node, to.clone(), ErrorCounter::PortOutOfSequence, packets),
        ]
    });
    counted.collect()
}

/// What is left of a channel's capacity.
fn share_of(faults: &[ClusterFault], channel: &str) -> f64 {
    let Some((a, b)) = channel.split_once(" to ") else { return 1.0 };
    let left = |fault: &ClusterFault| match fault {
        ClusterFault::SlowSwitch(switch, left) if a == switch || b == switch => *left,
        ClusterFault::SlowLink(x, y, left) if (a == x && b == y) || (a == y && b == x) => *left,
        _ => 1.0,
    };
    faults.iter().map(left).product()
}

impl Network for SimulatedCluster<'_> {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn round(&mut self, steps: &[Step], method: &Method) -> Vec<Result<Samples, Failure>> {
        self.rounds += 1;
        self.time += SETTING_UP + method.time.seconds();
        for fault in &self.faults {
            let ClusterFault::LostNode(node, after) = fault else { continue };
            if self.rounds > *after && !self.lost.iter().any(|lost| lost.node == *node) {
                self.lost.push(Lost { node: *node, why: "its agent no longer answers".to_owned() });
                self.time += method.patience.seconds();
            }
        }
        let (faults, far) = (&self.faults, &self.far);
        let share = Share {
            of_step: &|step| far.iter().map(|nic| nic.left_to(step)).fold(left_to(faults, step), f64::min),
            of_resource: &|resource, router| share_of(faults, &router.name(resource)),
        };
        let predicted = self.predictor.solved(&steps.iter().collect::<Vec<_>>(), &share);
        for step in steps {
            for (node, nic, counter, packets) in missed(&self.faults, step) {
                *self.missed.entry((node, nic, counter)).or_default() += packets;
            }
        }
        let answer = |(step, predicted): (&Step, Option<Expected>)| {
            if let Some(lost) = self.lost.iter().find(|l| step.nodes().any(|node| node == l.node)) {
                return Err(Failure::new(FlagKind::Hung, format!("node{}: {}", lost.node, lost.why)));
            }
            let Some(Expected { value, .. }) = predicted else {
                let why = format!("the simulated cluster has no {} between these ends", step.transport);
                return Err(Failure::new(FlagKind::NotApplicable, why));
            };
            let mut random = Random::new(self.seed, &format!("{step:?}"));
            // nothing is faster than it can be
            let worse = if step.probe == Probe::Latency { 1.0 } else { -1.0 };
            let mut noisy = |value: f64, deviation: f64| value * (1.0 + worse * deviation * random.normal().abs());
            let level = noisy(value, BETWEEN);
            let values = (0..method.samples).map(|_| noisy(level, NOISE)).collect();
            // of what is measured both ways every node receives
            let receives = |part: &Part| match step.probe.collective() {
                Some(_) => step.nodes().any(|node| is(part, node, &None)),
                None => is(part, step.to.node, &step.to.nic),
            };
            let corrupt = |fault: &ClusterFault| matches!(fault, ClusterFault::Corrupt(part) if receives(part));
            let verdict = if self.faults.iter().any(corrupt) && !step.is_loopback() {
                Verdict::Corrupt("1 of 131072 words differs".to_owned())
            } else {
                Verdict::Intact
            };
            Ok(Samples { values, verdict })
        };
        steps.iter().zip(predicted).map(answer).collect()
    }

    fn lost(&self) -> &[Lost] {
        &self.lost
    }

    fn now(&mut self) -> Seconds {
        Seconds::new(self.time)
    }

    fn port_errors(&mut self, _within: Seconds) -> Vec<PortErrors> {
        let mut all: BTreeMap<usize, PortErrors> = BTreeMap::new();
        for ((node, nic, counter), by) in std::mem::take(&mut self.missed) {
            let own = all.entry(node).or_insert_with(|| PortErrors {
                node,
                ports: self.nodes[node].nics.iter().map(|nic| format!("{}/1", nic.name)).collect(),
                errors: Vec::new(),
            });
            own.errors.push(Rise { counter, of: format!("{nic}/1"), link: None, by });
        }
        all.into_values().collect()
    }
}

#[cfg(test)]
mod tests;
