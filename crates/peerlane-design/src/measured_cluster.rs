//! What a record between nodes tells about its cluster: the nodes' machines, and a cluster whose links carry what was measured.

use std::collections::{BTreeMap, HashMap};

use crate::cluster::network::Shape;
use crate::cluster::{Cluster, ClusterError, Network};
use crate::nic_gpus::shown_nic;
use crate::simulated_cluster::{nearest_memory, of_record};
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::machine::Machine;
use peerlane_machine::stats::Median;
use peerlane_machine::units::{Bytes, Rate, Seconds};
use peerlane_measure::nodes::{Cell, Memory, Node, NodesRun, Probe, Step, Transport};
use peerlane_measure::run::machine_of_texts;
use peerlane_model::model::Model;
use peerlane_model::model::rdma::{self, Message, Method, NicDirection, nic_path};
use peerlane_read::catalogue::{Parts, read_system};

/// Host names in a sentence.
const FEW: usize = 8;

/// The machine of a node, from what it printed about itself; of a simulated one that is not like the others, from its system file.
pub fn machine_of(node: &Node) -> Option<Machine> {
    if let Some(system) = &node.system {
        let name = node.host.clone();
        return read_system(system, &node.host).ok().map(|machine| Machine { name, ..machine });
    }
    if node.evidence.is_empty() { None } else { machine_of_texts(&node.evidence, &node.host) }
}

/// The machines that a record is of, in its order: that of a simulated cluster's nodes and of those that differ from it, or of real
/// nodes those that described themselves, by their host names.
///
/// # Errors
/// Where a simulated cluster cannot be read again.
pub fn machines(run: &NodesRun) -> Result<Vec<Machine>, ClusterError> {
    match of_record(run) {
        Some(cluster) => Ok([cluster?.node].into_iter().chain(run.nodes.iter().filter_map(machine_of)).collect()),
        None => Ok(run.nodes.iter().filter_map(machine_of).collect()),
    }
}

/// A NIC of a machine with the memory that a record measured it with, or else the nearest.
pub(crate) fn place(machine: &Machine, nic: &str, memory: &Memory) -> Option<[NodeId; 2]> {
    let fabric = &machine.fabric;
    let id = shown_nic(fabric, nic)?;
    let named = fabric.find(&memory.to_string()).filter(|of| fabric.node(*of).kind == NodeKind::Host);
    Some([named.or_else(|| nearest_memory(machine, id))?, id])
}

/// The cluster of a record: nodes of one kind at one switch, whose links carry what each NIC reached, in either direction. Nodes
/// that were lost are left out; so the numbers of nodes are those of the others, in order.
///
/// # Errors
/// Where nothing was measured by verbs, where no node described itself, and where nodes or what was measured of them differ in
/// kind.
pub fn cluster(run: &NodesRun) -> Result<Cluster, ClusterError> {
    let refuse = |why: String| ClusterError::Network(format!("{}: {why}", run.name));
    let rates = Reached::of(run);
    if rates.out.is_empty() {
        return Err(refuse(
            "no rate was measured by verbs, so that it is not known what each NIC carries; measure with RDMA adapters"
                .to_owned(),
        ));
    }
    let alive: Vec<usize> =
        (0..run.nodes.len()).filter(|node| !run.lost.iter().any(|lost| lost.node == *node)).collect();
    let host = |node: usize| run.nodes.get(node).map_or("?", |node| node.host.as_str());
    let Some(&first) = alive.first() else { return Err(refuse("all of its nodes were lost".to_owned())) };
    let machine = node_of(run, &alive)?;
    let names: Vec<&str> = rates.names(first);
    for &node in &alive {
        let own = rates.names(node);
        if own != names {
            let [one, other] = [first, node].map(host);
            let (a, b) = (names.join(", "), own.join(", "));
            return Err(refuse(format!(
                "{one} was measured with {a} and {other} with {}; nodes of a cluster are of one kind",
                if b.is_empty() { "none".to_owned() } else { b }
            )));
        }
    }
    let find = |name: &&str| {
        place(&machine, name, &Memory::Host)
            .map(|[_, id]| id)
            .ok_or_else(|| refuse(format!("{} has no {name}", machine.name)))
    };
    let nics: Vec<NodeId> = names.iter().map(find).collect::<Result<_, _>>()?;
    let mut measured = BTreeMap::new();
    for (place, &node) in (0_u64..).zip(&alive) {
        for (index, name) in (0_u64..).zip(&names) {
            let port = place * names.len() as u64 + index;
            let of = |rates: &HashMap<(usize, &str), f64>| {
                rates.get(&(node, *name)).copied().map(Rate::from_bytes_per_second)
            };
            let (Some(out), Some(into)) = (of(&rates.out), of(&rates.into)) else {
                let host = host(node);
                return Err(refuse(format!("{host}/{name} has no rate in one direction; measure again with --resume")));
            };
            measured.extend([(2 * port, out), (2 * port + 1, into)]);
        }
    }
    let all: Vec<f64> = measured.values().map(|rate| rate.bytes_per_second()).collect();
    let usual = Rate::from_bytes_per_second(Median::of(&all).map_or(1.0, |median| median.value));
    let [least, most] = [f64::min, f64::max]
        .map(|f| Rate::from_bytes_per_second(all.iter().copied().fold(usual.bytes_per_second(), f)));
    let hop = hop(run, &machine);
    let n = u32::try_from(alive.len()).unwrap_or(u32::MAX);
    let mut network = Network::new(Shape::Switch, [n, names.len() as u32], usual, hop);
    network.measured = measured;
    let named: Vec<String> =
        alive.iter().take(FEW).enumerate().map(|(at, node)| format!("node{at} is {}", host(*node))).collect();
    let rest = if alive.len() > FEW { ", in the order of the record" } else { "" };
    let mut assumptions = machine.assumptions.clone();
    assumptions.extend([
        format!(
            "A link between a node and the network carries the most that its NIC reached, each way: {least} to {most}."
        ),
        "Between them is one switch that carries all of that; links that nodes share are not in it.".to_owned(),
        format!(
            "The network adds {:.2} us to a message: what was measured less the stages of both adapters.",
            hop.us()
        ),
        format!("{}{rest}.", named.join(", ")),
    ]);
    assumptions.extend(run.lost.iter().map(|lost| format!("{} was lost, and is left out.", host(lost.node))));
    let title = Some(format!("{} nodes, links as measured", alive.len()));
    Ok(Cluster {
        name: run.name.clone(),
        title,
        nodes: n,
        network: Some(network),
        nics,
        assumptions,
        ..Cluster::single(machine)
    })
}

/// The machine that stands for all nodes: that of the first which described itself. All that did must have the same GPUs.
fn node_of(run: &NodesRun, alive: &[usize]) -> Result<Machine, ClusterError> {
    if let Some(cluster) = of_record(run) {
        return cluster.map(|cluster| cluster.node);
    }
    let gpus = |machine: &Machine| machine.fabric.of_kind(NodeKind::Gpu).count();
    let mut first: Option<Machine> = None;
    for machine in alive.iter().filter_map(|node| machine_of(run.nodes.get(*node)?)) {
        match &first {
            Some(first) if gpus(first) != gpus(&machine) => {
                let why = format!(
                    "{} has {} GPUs and {} {}; nodes of a cluster are of one kind",
                    first.name,
                    gpus(first),
                    machine.name,
                    gpus(&machine)
                );
                return Err(ClusterError::Network(format!("{}: {why}", run.name)));
            }
            Some(_) => {}
            None => first = Some(machine),
        }
    }
    let without = || {
        let why = "no node described itself, so that its GPUs and their paths are not known; measure with this version";
        ClusterError::Network(format!("{}: {why}", run.name))
    };
    first.ok_or_else(without)
}

/// The most that each NIC reached, to or from others, in bytes a second.
#[derive(Default)]
struct Reached<'a> {
    out: HashMap<(usize, &'a str), f64>,
    into: HashMap<(usize, &'a str), f64>,
}

impl<'a> Reached<'a> {
    fn of(run: &'a NodesRun) -> Self {
        let mut reached = Reached::default();
        for (step, value) in rates(run) {
            let (Some(from), Some(to)) = (&step.from.nic, &step.to.nic) else { continue };
            for (rates, node, nic) in [(&mut reached.out, step.from.node, from), (&mut reached.into, step.to.node, to)]
            {
                let most = rates.entry((node, nic.as_str())).or_insert(value);
                *most = most.max(value);
            }
        }
        reached
    }

    /// Names of a node's NICs that have a value, in order.
    fn names(&self, node: usize) -> Vec<&'a str> {
        let mut names: Vec<&str> =
            self.out.keys().chain(self.into.keys()).filter(|(of, _)| *of == node).map(|(_, name)| *name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Steps between nodes by verbs, one way, with their values.
fn rates(run: &NodesRun) -> impl Iterator<Item = (&Step, f64)> {
    let wanted = |cell: &&Cell| {
        let step = &cell.step;
        let is_of_host = step.transport == Transport::Verbs && !step.is_of_gpus();
        is_of_host && !step.is_loopback() && !step.probe.is_both_ways()
    };
    run.cells.iter().filter(wanted).filter_map(|cell| Some((&cell.step, cell.value()?)))
}

/// What the network adds to a message between neighbours: the median latency less the stages of two adapters; 0 where either
/// is not known.
fn hop(run: &NodesRun, machine: &Machine) -> Seconds {
    let wanted = |cell: &&Cell| {
        cell.step.transport == Transport::Verbs && cell.step.probe == Probe::Latency && !cell.step.is_loopback()
    };
    let values: Vec<f64> = run.cells.iter().filter(wanted).filter_map(Cell::value).collect();
    let none = Seconds::new(0.0);
    let Some(step) = run.cells.iter().find(wanted).map(|cell| &cell.step) else { return none };
    let model = Model::new(machine, Parts::embedded());
    let stages = || {
        let [memory, nic] = place(machine, step.from.nic.as_deref()?, &step.from.memory)?;
        let end = |way| nic_path(&model, memory, nic, way, Method::Host).ok();
        let message =
            Message::new(end(NicDirection::ToNetwork)?, rdma::Network::NEXT, end(NicDirection::FromNetwork)?).ok()?;
        Some(message.time(Bytes(step.size.0)).likely.seconds())
    };
    match (Median::of(&values), stages()) {
        (Some(median), Some(stages)) => Seconds::new((median.value - stages).max(0.0)),
        _ => none,
    }
}
