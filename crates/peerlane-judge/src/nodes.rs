//! What is wrong between nodes: findings on a record of many nodes that measured each other.
//!
//! What each pair should deliver is known where the cluster is (a simulated one), where the nodes reported what they are, or
//! their NICs their ports' rates ([`Comparison`]); else pairs are compared with their peers. [`peerlane_measure::nodes::suspects`] finds the part at fault; here it gets its
//! words, its fix, and what its loopback tells.

mod against;

pub use crate::check::nodes::{SamePairs, quantity};
pub use against::{Change, NodesComparison, compare};

use std::collections::{BTreeMap, BTreeSet};

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use crate::check::nodes::{end, findings, same_pairs, transport as transport_name, unexplained};
use crate::check::{Settings, Waived};
use crate::finding::Finding;
use crate::verdict::Verdict;
use peerlane_design::site::{ComparedStep, Comparison};
use peerlane_measure::nodes::{NodesRun, Probe, Transport};
use peerlane_model::expectation::Expected;

/// Names the format of [`NodesCheck`].
pub const SCHEMA: &str = "peerlane/nodes-check/1";

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
    #[serde(skip)]
    is_off: bool,
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
    /// What the record lacks of its plan, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
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
pub fn judge(comparison: &Comparison, settings: &Settings, before: Option<&NodesRun>) -> NodesCheck {
    let (run, joined, ends) = (comparison.run, &*comparison.steps, comparison.site);
    let mut findings = findings(run, joined, ends, before);
    let unexplained = unexplained(run, joined, &findings);
    findings.extend(unexplained);
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
        b.contributes().cmp(&a.contributes()).then(share(b).total_cmp(&share(a)))
    });
    let checked = checked(run, joined);
    let missing = run.missing();
    let verdict = Verdict::of(&findings, !checked.is_empty(), missing.is_none());
    let missing = missing.map(|missing| missing.to_string());
    let mut pairs: Vec<Pair> = joined.iter().map(|joined| pair(run, joined)).collect();
    pairs.sort_by(|a, b| a.share.unwrap_or(f64::INFINITY).total_cmp(&b.share.unwrap_or(f64::INFINITY)));
    let (name, nodes) = (run.name.clone(), run.nodes.len());
    let same_pairs = same_pairs(run, joined, ends);
    NodesCheck { schema: SCHEMA, name, nodes, verdict, checked, missing, findings, waived, same_pairs, pairs }
}

fn pair(run: &NodesRun, joined: &ComparedStep) -> Pair {
    let step = &joined.cell.step;
    Pair {
        from: end(run, &step.from),
        to: end(run, &step.to),
        transport: step.transport,
        probe: step.probe,
        gpus: (step.is_of_gpus() && !step.is_among_many())
            .then(|| [&step.from, &step.to].map(|end| end.memory.to_string())),
        measured: joined.cell.value(),
        expected: joined.expected.as_ref().map(|expected| expected.value),
        expected_range: joined.expected.as_ref().and_then(Expected::interval),
        bound_by: joined.expected.as_ref().map(|expected| expected.binding.words.clone()).filter(|why| !why.is_empty()),
        share: joined.share(),
        is_off: joined.is_off(),
    }
}

impl Pair {
    /// Whether it is worse than expected, by more than pairs that are sound differ.
    pub fn is_off(&self) -> bool {
        self.is_off
    }
}

/// What has enough values, or expectations, to show a fault: two nodes alone have no peers.
fn checked(run: &NodesRun, joined: &[ComparedStep]) -> Vec<String> {
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
            let transport = transport_name(transport);
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
