//! NICs far from the GPUs that they serve: on some nodes and not on others, a fault; on all alike, how the machine is built.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::prelude::*;
use crate::check::gpu_nic_apart::{Nearby, RULE, nearby};
use peerlane_design::nic_gpus::shown_gpu;
use peerlane_design::simulated_cluster::gpu_rate;
use peerlane_machine::machine::Machine;
use peerlane_machine::units::Rate;
use peerlane_measure::nodes::{NodesRun, Probe, Transport};
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;

/// What is found, and the nodes of which it explains what NCCL reaches between pairs.
#[derive(Default)]
pub(super) struct Apart {
    pub(super) findings: Vec<Finding>,
    pub(super) explained: BTreeSet<usize>,
}

/// A node whose GPUs have fewer near NICs than those of others.
struct Differs<'a> {
    node: usize,
    own: &'a Nearby,
    /// Names of the GPUs.
    lost: Vec<&'a str>,
    /// A NIC that has no GPU near, the nearest one to the first of these, with the class of the path.
    stray: Option<(&'a str, PathClass)>,
    /// A node of the usual kind, and the NICs that the first of these GPUs has there.
    other: usize,
    near: &'a [String],
}

/// What the rule on NICs far from GPUs finds between nodes.
pub(in crate::check) fn apart(view: &View) -> Vec<Raised> {
    raised(view.apart.findings.iter().cloned())
}

/// Compares the nodes that have the same GPUs; silent on those that are not known.
pub(super) fn of(run: &NodesRun, joined: &[ComparedStep], machines: &[Option<Arc<Machine>>]) -> Apart {
    // nodes of a simulated cluster share a machine
    let mut known: HashMap<*const Machine, Option<Nearby>> = HashMap::new();
    for machine in machines.iter().flatten() {
        known.entry(Arc::as_ptr(machine)).or_insert_with(|| nearby(machine));
    }
    let nearby_of = |node: usize| known.get(&Arc::as_ptr(machines.get(node)?.as_ref()?))?.as_ref();
    let mut kinds: BTreeMap<Vec<&str>, Vec<(usize, &Nearby)>> = BTreeMap::new();
    for (node, own) in (0..run.nodes.len()).filter_map(|node| Some((node, nearby_of(node)?))) {
        let gpus = own.gpus.iter().map(|(name, _)| name.as_str()).collect();
        kinds.entry(gpus).or_default().push((node, own));
    }
    let mut all = Apart::default();
    for nodes in kinds.into_values() {
        let differ = differ(&nodes);
        for one in &differ {
            let (finding, by_pairs) = fault(run, joined, machines, one, first_gpu(run, machines, one.node));
            all.findings.push(finding);
            all.explained.extend(by_pairs.then_some(one.node));
        }
        let is_other = |node: usize| !differ.iter().any(|one| one.node == node);
        all.findings.extend(alike(run, nodes.iter().filter(|(node, _)| is_other(*node))));
    }
    all
}

/// Name of the GPU by which a node takes part in pairs of NCCL, as its machine has it.
fn first_gpu<'a>(run: &NodesRun, machines: &'a [Option<Arc<Machine>>], node: usize) -> Option<&'a str> {
    let fabric = &machines.get(node)?.as_ref()?.fabric;
    let gpu = shown_gpu(fabric, run.nodes.get(node)?.gpus.first()?)?;
    Some(&fabric.node(gpu).name)
}

/// Nodes of one kind that differ from most of the others, for the worse; of two, from the better one.
fn differ<'a>(nodes: &[(usize, &'a Nearby)]) -> Vec<Differs<'a>> {
    let usual = |mut counts: Vec<usize>, more_is_better: bool| {
        counts.sort_unstable();
        let at = if counts.len() > 2 {
            counts.len() / 2
        } else if more_is_better {
            counts.len() - 1
        } else {
            0
        };
        counts.get(at).copied().unwrap_or(0)
    };
    let stray = usual(nodes.iter().map(|(_, own)| own.stray.len()).collect(), false);
    let gpus = nodes.first().map_or(0, |(_, own)| own.gpus.len());
    let near: Vec<usize> =
        (0..gpus).map(|gpu| usual(nodes.iter().map(|(_, own)| own.gpus[gpu].1.len()).collect(), true)).collect();
    let of = |(node, own): &(usize, &'a Nearby)| {
        // one NIC fewer that is nowhere else was not plugged in, or is another board's
        let is_lost = |gpu: &usize| {
            let count = own.gpus[*gpu].1.len();
            count < near[*gpu] && (count == 0 || own.stray.len() > stray)
        };
        let lost: Vec<usize> = (0..gpus).filter(is_lost).collect();
        let first = *lost.first()?;
        let (other, theirs) = nodes.iter().find(|(_, other)| other.gpus[first].1.len() >= near[first])?;
        let names = lost.iter().map(|gpu| own.gpus[*gpu].0.as_str()).collect();
        let strays = own.stray.iter().map(|(nic, classes)| (nic.as_str(), classes[first]));
        let stray = strays.min_by_key(|(_, class)| *class);
        Some(Differs { node: *node, own, lost: names, stray, other: *other, near: &theirs.gpus[first].1 })
    };
    nodes.iter().filter_map(of).collect()
}

/// The finding on a node, and whether pairs of NCCL show it.
fn fault(
    run: &NodesRun,
    joined: &[ComparedStep],
    machines: &[Option<Arc<Machine>>],
    of: &Differs,
    first: Option<&str>,
) -> (Finding, bool) {
    let name = host(run, of.node);
    let gpus = listed(&of.lost.iter().map(|gpu| (*gpu).to_owned()).collect::<Vec<_>>(), FEW);
    let near = listed(of.near, FEW);
    let rate = |node: usize, nics: &[&str]| {
        let machine = machines.get(node)?.as_ref()?;
        let (model, fabric) = (Model::new(machine, Parts::embedded()), &machine.fabric);
        let gpu = fabric.find(of.lost.first()?)?;
        let rates = nics.iter().filter_map(|nic| gpu_rate(&model, gpu, fabric.find(nic)?));
        rates.reduce(f64::max)
    };
    let here = of.stray.and_then(|(nic, _)| rate(of.node, &[nic]));
    let there = rate(of.other, &of.near.iter().map(String::as_str).collect::<Vec<_>>());
    let cost = here.zip(there).filter(|(here, there)| here < there).map(|(here, there)| Cost {
        lost: (there - here) / 1e9,
        unit: Unit::GigabytesPerSecond,
        share: 1.0 - here / there,
    });
    let certainty = if of.own.guest { Certainty::Possible } else { Certainty::Likely };
    let raised = RULE.raise(FindingKind::Fault, Severity::Warning, certainty);
    let other = host(run, of.other);
    let (summary, fix) = match of.stray {
        Some((nic, class)) => (
            format!(
                "{name}/{nic} is below no GPU's switch, and the path to {gpus} is {class}, {}; on {other} {gpus} {} {near} below the \
                 same switch",
                class.meaning(),
                if of.lost.len() == 1 { "has" } else { "have" },
            ),
            format!(
                "Move the card of {nic} to the slot below the switch of {gpus} that {other} uses. Until then leave it to host memory: \
                 NCCL_IB_HCA=^{nic} there, so that GPUs share the NICs that are near; NCCL uses GPUDirect RDMA as far as \
                 NCCL_NET_GDR_LEVEL allows, and by default not across {class}."
            ),
        ),
        None => (
            format!("{name}: no NIC is below the same switch as {gpus}, and on {other} {near} is"),
            format!(
                "Reseat {near}: `lspci` and `ibv_devinfo` list fewer adapters than on {other}. Until it is back, \
                 prefer other GPUs of {name} for jobs of several nodes."
            ),
        ),
    };
    let pairs = first.filter(|gpu| of.lost.contains(gpu)).and_then(|gpu| by_pairs(joined, of.node, gpu));
    let (by_pairs, measured) = match pairs.or_else(|| by_all_reduce(joined, of.node).map(|words| (false, words))) {
        Some((by_pairs, words)) => (by_pairs, words),
        None => (false, "no value of NCCL goes through it".to_owned()),
    };
    let shown = |rate: f64| Rate::from_bytes_per_second(rate).to_string();
    let expected = match here.zip(there) {
        Some((here, there)) => format!("{} between GPU and NIC, and here {}, by the model", shown(there), shown(here)),
        None => format!("a NIC at PIX or PXB, as on {other}"),
    };
    let subjects = match of.stray {
        Some((nic, _)) => vec![format!("{name}/{nic}")],
        None => of.lost.iter().map(|gpu| format!("{name}/{gpu}")).collect(),
    };
    let finding = Finding {
        measured,
        expected,
        fix,
        confirm: format!("`ssh {name} nvidia-smi topo -m`, and on {other}"),
        cost,
        ..raised.summary(summary).about(Subject::nodes_of(subjects)).finding
    };
    (finding, by_pairs)
}

/// What NCCL reaches between that GPU and others, beside the pairs without it.
fn by_pairs(joined: &[ComparedStep], node: usize, gpu: &str) -> Option<(bool, String)> {
    let pairs = joined.iter().filter(|j| j.cell.step.probe == Probe::SendReceive);
    let (with, without): (Vec<&ComparedStep>, Vec<&ComparedStep>) =
        pairs.partition(|j| j.cell.step.nodes().any(|of| of == node));
    let median = |of: &[&ComparedStep]| Median::of(&of.iter().filter_map(|j| j.cell.value()).collect::<Vec<_>>());
    let own = median(&with)?.value;
    let others =
        median(&without).map_or_else(String::new, |m| format!(", and between others {}", quantity(false, m.value)));
    Some((true, format!("NCCL from {gpu} {}{others}", quantity(false, own))))
}

/// The same of the smallest all-reduce with the node.
fn by_all_reduce(joined: &[ComparedStep], node: usize) -> Option<String> {
    let with = joined.iter().filter(|j| j.cell.step.is_among_many() && j.cell.step.transport == Transport::Nccl);
    let with = with.filter(|j| j.cell.value().is_some() && j.cell.step.nodes().any(|of| of == node));
    let smallest = with.min_by_key(|j| j.cell.step.nodes().count())?;
    let expected = smallest.expected.as_ref().map_or_else(String::new, |e| format!(" of {}", quantity(false, e.value)));
    let nodes = smallest.cell.step.nodes().count();
    Some(format!("all-reduce of {nodes} nodes with it {}{expected}", quantity(false, smallest.cell.value()?)))
}

/// What the rule finds on single machines of which some GPUs have a near NIC and others none, once for all nodes that have it.
fn alike<'a>(run: &NodesRun, nodes: impl Iterator<Item = &'a (usize, &'a Nearby)>) -> Vec<Finding> {
    let mut all: BTreeMap<&str, (&Finding, Vec<String>)> = BTreeMap::new();
    for (node, own) in nodes.filter(|(_, own)| own.gpus.iter().any(|(_, near)| !near.is_empty())) {
        for finding in &own.findings {
            all.entry(&finding.summary).or_insert((finding, Vec::new())).1.push(host(run, *node));
        }
    }
    let one = |(finding, hosts): (&Finding, Vec<String>)| Finding {
        summary: format!("{}: {}", listed(&hosts, FEW), finding.summary),
        subjects: Subject::nodes_of(hosts),
        ..finding.clone()
    };
    all.into_values().map(one).collect()
}
