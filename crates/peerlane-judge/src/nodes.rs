//! What is wrong between nodes: findings on a record of many nodes that measured each other.
//!
//! What each pair should deliver is known where the cluster is (a simulated one), where the nodes reported what they are, or
//! their NICs their ports' rates; else pairs are compared with their peers. [`peerlane_measure::nodes::suspects`] finds the part at fault; here it gets its
//! words, its fix, and what its loopback tells.

mod against;
mod all_reduces;
mod apart;
mod beside;
mod everywhere;
mod findings;
mod gpu_memory;
mod loss;
mod narrow;
mod one_way;
mod same_pairs;
mod settings;
mod slow;
mod words;

pub use against::{Change, NodesComparison, compare};
pub use same_pairs::SamePairs;
pub use words::quantity;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use crate::check::{Settings, Verdict, WORSE_THAN_BEFORE, Waived};
use crate::finding::{Finding, FindingKind, Severity};
use peerlane_design::cluster::Cluster;
use peerlane_design::measured_cluster::Ends;
use peerlane_design::simulated_cluster::{Prediction, Predictor};
use peerlane_machine::units::Rate;
use peerlane_measure::nodes::{Cell, End, NodesRun, Probe, Step, Transport};
use peerlane_model::expectation::Expected;

use beside::Beside;

/// Names the format of [`NodesCheck`].
pub const SCHEMA: &str = "peerlane/nodes-check/1";

/// A measured value between two ends, with what it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Joined<'a> {
    /// What was measured.
    pub cell: &'a Cell,
    /// What it should be, while the others of its round ran; without switches where only the ports' rates are known.
    pub expected: Option<Prediction>,
}

impl Joined<'_> {
    /// What is delivered of what is expected: of rates measured over expected, of latencies the inverse.
    pub fn share(&self) -> Option<f64> {
        let (value, expected) = (self.cell.value()?, self.expected.as_ref()?.value);
        Some(if self.cell.step.probe == Probe::Latency { expected / value } else { value / expected })
    }

    /// What the value is judged by: the nearest to it of what it may be.
    pub fn against(&self) -> Option<f64> {
        let expected = self.expected.as_ref()?;
        let within = |range: [f64; 2]| self.cell.value().map(|value| value.max(range[0]).min(range[1]));
        Some(expected.range.and_then(within).unwrap_or(expected.value))
    }
}

/// All cells of a record with what they should be, in the record's order. `cluster` is the one that was simulated; without one,
/// the ends decide, of nodes that described themselves.
pub fn joined<'a>(run: &'a NodesRun, cluster: Option<&Cluster>, ends: &Ends) -> Vec<Joined<'a>> {
    let beside = Beside::of(&run.cells);
    let Some(cluster) = cluster else {
        let hosts = by_tcp(run);
        let expected = |cell| of_ends(run, ends, cell).or_else(|| of_staged(ends, &hosts, cell));
        let join = |cell| Joined { cell, expected: expected(cell).map(|expected| beside.lowered(cell, expected)) };
        return run.cells.iter().map(join).collect();
    };
    let mut predictor = Predictor::new(cluster);
    let mut all = Vec::with_capacity(run.cells.len());
    for round in run.cells.chunk_by(|a, b| (a.round, a.again) == (b.round, b.again)) {
        let expected = predictor.round(&round.iter().map(|cell| &cell.step).collect::<Vec<_>>());
        let lowered = |(cell, expected): (&'a Cell, Option<Prediction>)| Joined {
            cell,
            expected: expected.map(|expected| beside.lowered(cell, expected)),
        };
        all.extend(round.iter().zip(expected).map(lowered));
    }
    all
}

/// What the ends and their ports carry: from host memory to the NIC, the slower port's line, from the NIC to host memory.
fn of_ends(run: &NodesRun, ends: &Ends, cell: &Cell) -> Option<Prediction> {
    let step = &cell.step;
    if !step.probe.is_one_way() || step.transport != Transport::Verbs {
        return None;
    }
    if step.is_of_gpus() {
        return of_gpus(run, ends, step);
    }
    let ends = ends.rate(step).map(|(rate, why)| (rate.bytes_per_second(), why.to_owned()));
    let (value, bound_by) = match (of_ports(run, step), ends) {
        (Some(ports), Some((rate, why))) if rate < ports => (rate, Some(why)),
        (Some(ports), Some(_)) => (ports, Some(PORTS.to_owned())),
        (Some(ports), None) => (ports, None),
        (None, Some((rate, why))) => (rate, Some(why)),
        (None, None) => return None,
    };
    Some(Prediction { value, through: Vec::new(), bound_by, range: None })
}

/// The same of GPU memory, with what it may be. What ports carry says little of GPUs whose paths are not known.
fn of_gpus(run: &NodesRun, ends: &Ends, step: &Step) -> Option<Prediction> {
    let Expected { value, low, high, binding } = ends.with_gpus(step)?;
    let ports = of_ports(run, step).unwrap_or(f64::INFINITY);
    let bound_by = if ports < value { PORTS.to_owned() } else { binding.words };
    let range = Some([low.min(ports), high.min(ports)]);
    Some(Prediction { value: value.min(ports), through: Vec::new(), bound_by: Some(bound_by), range })
}

/// What host memory reached by TCP, from node to node.
fn by_tcp(run: &NodesRun) -> HashMap<(usize, usize), f64> {
    let of_host = |cell: &&Cell| {
        let step = &cell.step;
        (step.transport, step.probe, step.is_of_gpus()) == (Transport::Tcp, Probe::Send, false)
    };
    let rate = |cell: &Cell| Some(((cell.step.from.node, cell.step.to.node), cell.value()?));
    run.cells.iter().filter(of_host).filter_map(rate).collect()
}

/// What GPU memory should reach by TCP, staged at both ends, from what host memory reached on the same path.
fn of_staged(ends: &Ends, hosts: &HashMap<(usize, usize), f64>, cell: &Cell) -> Option<Prediction> {
    let step = &cell.step;
    if (step.transport, step.probe, step.is_of_gpus()) != (Transport::Tcp, Probe::Send, true) {
        return None;
    }
    let host = *hosts.get(&(step.from.node, step.to.node))?;
    let all = ends.staged(step, Rate::from_bytes_per_second(host))?;
    let [least, likely, most] = all.map(Rate::bytes_per_second);
    let bound_by = Some("passes over memory at both ends, beside host memory's rate".to_owned());
    Some(Prediction { value: likely, through: Vec::new(), bound_by, range: Some([least, most]) })
}

/// What binds a path whose ends carry more than its ports.
const PORTS: &str = "the NICs' ports";

/// The lower rate of two ports, as they report it, in bytes a second.
fn of_ports(run: &NodesRun, step: &Step) -> Option<f64> {
    if step.is_loopback() {
        return None;
    }
    let rate = |end: &End| {
        let nic = end.nic.as_ref()?;
        run.nodes.get(end.node)?.nics.iter().find(|own| own.name == *nic)?.rate
    };
    Some(rate(&step.from)?.min(rate(&step.to)?).bytes_per_second())
}

/// One end of a pair in a document.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pair {
    /// Where data comes from.
    pub from: String,
    /// Where it goes.
    pub to: String,
    /// What moved it.
    pub transport: Transport,
    /// What was done.
    pub probe: Probe,
    /// The GPUs whose memory was moved; absent of host memory, and where each node has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<[String; 2]>,
    /// Bytes a second, or of a latency seconds; absent where there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// What it should be, in the same unit, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    /// The least and the most that it may be, where a piece of it is not known well: a value within is as expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_range: Option<[f64; 2]>,
    /// What binds that, where the nodes' own paths are known: `NIC0–rc0, PCIe 3.0 x8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_by: Option<String>,
    /// What is delivered of what is expected; above 1 is better than expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// The verdict on many nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodesCheck {
    /// Names this format.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// The record's name.
    pub name: String,
    /// How many nodes took part.
    pub nodes: usize,
    /// The verdict.
    pub verdict: Verdict,
    /// What could have shown a fault: `rates by verbs`, `latencies by TCP`.
    pub checked: Vec<String>,
    /// The findings, worst first.
    pub findings: Vec<Finding>,
    /// Findings that the site accepts; they count neither in the verdict nor in the exit status.
    pub waived: Vec<Waived>,
    /// NCCL beside verbs, where pairs of nodes were measured by both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_pairs: Option<SamePairs>,
    /// All values, the worst first; those without an expectation last.
    pub pairs: Vec<Pair>,
}

/// Judges a record, by a site's settings, and beside an earlier record of the same nodes if there is one.
pub fn judge(
    run: &NodesRun,
    joined: &[Joined],
    ends: &Ends,
    settings: &Settings,
    before: Option<&NodesRun>,
) -> NodesCheck {
    let mut findings = findings::lost(run);
    findings.extend(findings::corrupt(run));
    let apart = apart::apart(run, joined, ends.machines());
    let (refused, without_gpus) = gpu_memory::refused(run, ends);
    let explained = apart.explained.union(&without_gpus).copied().collect();
    let (below, slow_by_nccl) = same_pairs::below(run, joined, ends, &explained);
    let explained = explained.union(&slow_by_nccl).copied().collect();
    findings.extend(refused);
    findings.extend(gpu_memory::staged_is_faster(run, joined));
    findings.extend(slow::slow(run, joined, Some(ends), "as others reach", &explained));
    findings.extend(apart.findings);
    findings.extend(below);
    findings.extend(narrow::narrow(run, ends));
    findings.extend(settings::settings(run));
    findings.extend(one_way::one_way(run, joined));
    findings.extend(everywhere::everywhere(run, joined, &findings));
    let losses = loss::joined(&mut findings, loss::loss(run));
    findings.extend(losses);
    let drops = all_reduces::all_reduces(run, joined, &mut findings);
    findings.extend(drops);
    findings.extend(findings::failed(run));
    findings.extend(before.into_iter().flat_map(|before| against::worse(before, run)).map(|finding| Finding {
        rule: WORSE_THAN_BEFORE.to_owned(),
        summary: format!("since the earlier record, {}", finding.summary),
        ..finding
    }));
    let mut waived = Vec::new();
    findings.retain(|finding| match settings.waiver(&run.name, finding) {
        Some(waiver) => {
            waived.push(Waived { reason: waiver.reason.clone(), finding: finding.clone() });
            false
        }
        None => true,
    });
    findings.sort_by(|a, b| {
        // what is lost or changed has no cost, and matters most
        let share = |f: &Finding| f.cost.map_or(1.0, |cost| cost.share);
        b.severity.cmp(&a.severity).then(share(b).total_cmp(&share(a)))
    });
    let is_fault = |f: &Finding| f.kind == FindingKind::Fault && f.severity >= Severity::Warning;
    let checked = checked(run, joined);
    let verdict = if findings.iter().any(is_fault) {
        Verdict::Fault
    } else if checked.is_empty() {
        Verdict::NotJudged
    } else {
        Verdict::Healthy
    };
    let mut pairs: Vec<Pair> = joined.iter().map(|joined| pair(run, joined)).collect();
    pairs.sort_by(|a, b| a.share.unwrap_or(f64::INFINITY).total_cmp(&b.share.unwrap_or(f64::INFINITY)));
    let (name, nodes) = (run.name.clone(), run.nodes.len());
    let same_pairs = same_pairs::same_pairs(run, joined, ends);
    NodesCheck { schema: SCHEMA, name, nodes, verdict, checked, findings, waived, same_pairs, pairs }
}

fn pair(run: &NodesRun, joined: &Joined) -> Pair {
    let step = &joined.cell.step;
    Pair {
        from: words::end(run, &step.from),
        to: words::end(run, &step.to),
        transport: step.transport,
        probe: step.probe,
        gpus: (step.is_of_gpus() && !step.is_among_many())
            .then(|| [&step.from, &step.to].map(|end| end.memory.clone())),
        measured: joined.cell.value(),
        expected: joined.expected.as_ref().map(|expected| expected.value),
        expected_range: joined.expected.as_ref().and_then(|expected| expected.range),
        bound_by: joined.expected.as_ref().and_then(|expected| expected.bound_by.clone()),
        share: joined.share(),
    }
}

/// Below this share of what is expected, a value is off: ClusterKit's limit.
pub const OFF: f64 = 0.93;

impl Pair {
    /// Whether it is worse than expected, by more than pairs that are sound differ.
    pub fn is_off(&self) -> bool {
        let within = self.expected_range.zip(self.measured).is_some_and(|(range, measured)| measured >= range[0]);
        self.share.is_some_and(|share| share < OFF) && !within
    }
}

/// What has enough values, or expectations, to show a fault: two nodes alone have no peers.
fn checked(run: &NodesRun, joined: &[Joined]) -> Vec<String> {
    let mut kinds: BTreeMap<(Transport, bool), (usize, bool, BTreeSet<usize>)> = BTreeMap::new();
    for one in joined.iter().filter(|j| !j.cell.step.is_loopback() && j.cell.value().is_some()) {
        // its paths are those of others, too
        if one.cell.step.is_among_many() || one.cell.step.is_of_load() {
            continue;
        }
        let step = &one.cell.step;
        let (values, expected, from) = kinds.entry((step.transport, step.probe == Probe::Latency)).or_default();
        (*values, *expected) = (*values + 1, *expected || one.expected.is_some());
        from.insert(step.from.node);
    }
    let enough = |values: usize, expected: bool| expected || (run.nodes.len() > 2 && values > 2);
    kinds
        .into_iter()
        .filter_map(|((transport, latency), (values, expected, from))| {
            let transport = words::transport(transport);
            match latency {
                true => enough(values, expected).then(|| format!("latencies by {transport}")),
                false if enough(values, expected) => Some(format!("rates by {transport}")),
                // two nodes have no peers, and two directions
                false => (from.len() > 1).then(|| format!("one direction against the other by {transport}")),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
