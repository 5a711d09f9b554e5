//! NCCL beside verbs on the same pairs of nodes: what applications get of what the network carries.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::prelude::*;
use peerlane_design::nic_gpus::shown_gpu;
use peerlane_design::simulated_cluster::gpu_rate;
use peerlane_measure::nodes::{End, Nic, NodesRun, Probe, Step, Transport};
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;

pub(in crate::check) const NCCL_BELOW_VERBS: Rule =
    Rule::new("nccl-below-verbs", Look::Nodes(|view| raised(view.below.clone()))).explains("slow-all-reduce").watched();

/// Less than this of what verbs reach between the same nodes, or of what paths between GPU and NIC carry, is not the network's:
/// GPUDirect RDMA is off, or NCCL is elsewhere.
const LOW: f64 = 0.5;

/// NCCL between GPUs, as a share of verbs between host memories of the same two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SamePairs {
    /// Pairs of nodes that both measured.
    pub pairs: usize,
    /// Median of the shares.
    pub median: f64,
    /// The least one.
    pub least: f64,
    /// The pair with it.
    pub between: [String; 2],
    /// What NCCL reached there, in bytes a second of one direction.
    pub nccl: f64,
    /// What verbs reached there, in bytes a second: by the slowest of the NICs nearest to the GPU.
    pub verbs: f64,
}

/// A pair that both measured.
struct Same<'a> {
    nodes: [usize; 2],
    nccl: f64,
    verbs: f64,
    nic: &'a End,
    /// What NCCL could have of that: less where the paths between GPU and NIC carry less, verbs with GPU memory reach less, or less is
    /// predicted of NCCL.
    could: f64,
}

impl Same<'_> {
    fn share(&self) -> f64 {
        self.nccl / self.verbs
    }
}

/// All of them. Of several NICs the slowest one counts of those that are nearest to the GPUs, since it is not known which one NCCL
/// took: no single slow NIC makes NCCL slow beside verbs.
fn pairs<'a>(run: &NodesRun, joined: &'a [ComparedStep], ends: &Site) -> Vec<Same<'a>> {
    let (near, direct): (Vec<BTreeSet<String>>, Vec<f64>) =
        (0..run.nodes.len()).map(|node| nearest(run, ends, node).unwrap_or((BTreeSet::new(), f64::INFINITY))).unzip();
    let key = |step: &Step| [step.from.node.min(step.to.node), step.from.node.max(step.to.node)];
    let is_near = |end: &End| {
        let known = near.get(end.node).filter(|near| !near.is_empty());
        known.is_none_or(|near| end.nic.as_ref().is_some_and(|nic| near.contains(nic)))
    };
    let mut verbs: BTreeMap<[usize; 2], (f64, &End)> = BTreeMap::new();
    let mut with_gpus: BTreeMap<[usize; 2], f64> = BTreeMap::new();
    for one in joined {
        let step = &one.cell.step;
        let is_rate = step.transport == Transport::Verbs && step.probe.is_one_way();
        let Some(value) = one.cell.value().filter(|_| is_rate) else { continue };
        if step.is_loopback() || !is_near(&step.from) || !is_near(&step.to) {
            continue;
        }
        if step.is_of_gpus() {
            if step.probe == Probe::Write {
                let least = with_gpus.entry(key(step)).or_insert(value);
                *least = least.min(value);
            }
            continue;
        }
        let least = verbs.entry(key(step)).or_insert((value, &step.from));
        if value < least.0 {
            *least = (value, &step.from);
        }
    }
    let same = |one: &ComparedStep| {
        let nodes = key(&one.cell.step);
        let (verbs, nic) = *verbs.get(&nodes)?;
        let predicted = one.expected.as_ref().map(|expected| expected.value);
        let paths = nodes.iter().filter_map(|node| direct.get(*node)).copied();
        let direct = with_gpus.get(&nodes).copied();
        let could = paths.chain(predicted).chain(direct).fold(verbs, f64::min);
        Some(Same { nodes, nccl: one.cell.value()?, verbs, nic, could })
    };
    joined.iter().filter(|j| j.cell.step.probe == Probe::SendReceive).filter_map(same).collect()
}

/// The NICs of a node that are nearest to its first GPU, by which it takes part, and what the path to them carries, where that is
/// known.
fn nearest(run: &NodesRun, ends: &Site, node: usize) -> Option<(BTreeSet<String>, f64)> {
    let machine = ends.machines().get(node)?.as_ref()?;
    let (fabric, node) = (&machine.fabric, run.nodes.get(node)?);
    let gpu = shown_gpu(fabric, node.gpus.first()?)?;
    let class = |nic: &Nic| fabric.find(&nic.name).and_then(|id| fabric.class(gpu, id));
    let best = node.nics.iter().filter_map(class).min()?;
    let near: Vec<&Nic> = node.nics.iter().filter(|nic| class(nic) == Some(best)).collect();
    let model = Model::new(machine, Parts::embedded());
    let rates = near.iter().filter_map(|nic| gpu_rate(&model, gpu, fabric.find(&nic.name)?));
    let direct = rates.reduce(f64::max).unwrap_or(f64::INFINITY);
    Some((near.into_iter().map(|nic| nic.name.clone()).collect(), direct))
}

/// In one line; `None` where no pair was measured by both.
pub(crate) fn same_pairs(run: &NodesRun, joined: &[ComparedStep], ends: &Site) -> Option<SamePairs> {
    let all = pairs(run, joined, ends);
    let shares: Vec<f64> = all.iter().map(Same::share).collect();
    let median = Median::of(&shares)?.value;
    let worst = all.iter().min_by(|a, b| a.share().total_cmp(&b.share()))?;
    Some(SamePairs {
        pairs: all.len(),
        median,
        least: worst.share(),
        between: worst.nodes.map(|node| host(run, node)),
        nccl: worst.nccl,
        verbs: worst.verbs,
    })
}

/// Nodes whose NCCL is far below verbs, and that findings of `explained` do not explain; with the nodes that it is about.
pub(super) fn below(
    run: &NodesRun,
    joined: &[ComparedStep],
    ends: &Site,
    explained: &BTreeSet<usize>,
) -> (Option<Finding>, BTreeSet<usize>) {
    let mut all = pairs(run, joined, ends);
    all.retain(|same| !same.nodes.iter().any(|node| explained.contains(node)));
    let low = |of: &[&Same]| {
        let shares: Vec<f64> = of.iter().map(|same| same.nccl / same.could).collect();
        Median::of(&shares).is_some_and(|median| median.value < LOW)
    };
    let nodes: BTreeSet<usize> = all.iter().flat_map(|same| same.nodes).collect();
    let of = |node: usize| all.iter().filter(|same| same.nodes.contains(&node)).collect::<Vec<_>>();
    let slow: BTreeSet<usize> = nodes.iter().copied().filter(|node| low(&of(*node))).collect();
    let with: Vec<&Same> = all.iter().filter(|same| same.nodes.iter().any(|node| slow.contains(node))).collect();
    let Some(worst) = with.iter().min_by(|a, b| a.share().total_cmp(&b.share())) else { return (None, slow) };
    let is_all = slow.len() == nodes.len();
    let names: Vec<String> = slow.iter().map(|node| host(run, *node)).collect();
    let left = Median::of(&with.iter().map(|s| s.share()).collect::<Vec<_>>()).map_or(worst.share(), |m| m.value);
    let raised = NCCL_BELOW_VERBS.raise(FindingKind::Fault, Severity::Warning, Certainty::Likely);
    let who = if is_all { "all nodes".to_owned() } else { listed(&names, FEW) };
    let summary = format!(
        "{who}: NCCL reaches {:.0} % of what verbs reach between the same nodes: no GPUDirect RDMA, or another network",
        100.0 * left
    );
    let [a, b] = worst.nodes.map(|node| host(run, node));
    let finding = Finding {
        measured: format!(
            "between {a} and {b}, for one: NCCL {} from GPU to GPU, verbs {} from host memory by {}",
            quantity(false, worst.nccl),
            quantity(false, worst.verbs),
            end(run, worst.nic)
        ),
        expected: format!("nearly as much; below {:.0} % NCCL copies through host memory, or takes TCP", 100.0 * LOW),
        fix: "Load nvidia_peermem after the adapters' driver (or use a kernel and driver with dma-buf), and turn ACS \
             off or the IOMMU to passthrough, if NCCL_DEBUG=INFO shows no `via NET/IB/…/GDRDMA`. If it shows \
             `NET/Socket`, correct NCCL_IB_HCA and NCCL_IB_DISABLE, and give the container /dev/infiniband."
            .to_owned(),
        confirm: format!(
            "`ssh {} lsmod | grep nvidia_peermem`; NCCL_DEBUG=INFO",
            names.first().map_or("", String::as_str)
        ),
        cost: Some(Cost {
            lost: (worst.verbs - worst.nccl) / 1e9,
            unit: Unit::GigabytesPerSecond,
            share: 1.0 - worst.share(),
        }),
        ..raised.summary(summary).about(Subject::nodes_of(names)).finding
    };
    (Some(finding), slow)
}
