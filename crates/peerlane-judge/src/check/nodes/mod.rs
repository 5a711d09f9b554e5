//! Rules on nodes that measured each other. Those that name causes run first; what they explain is not reported again.
//!
//! Where pairs are slow, [`peerlane_measure::nodes::suspects`] finds the part at fault; here it gets its words, its fix, and what
//! its loopback shows.

pub(super) mod all_reduces;
mod alone;
pub(super) mod apart;
mod everywhere;
pub(super) mod failures;
pub(super) mod gpu_memory;
pub(super) mod loss;
pub(super) mod narrow;
mod one_way;
mod peers;
mod prelude;
pub(super) mod same_pairs;
pub(super) mod settings;
pub(super) mod slow;
mod unexplained;
mod words;

pub(crate) use failures::lost;
pub use same_pairs::SamePairs;
pub(crate) use same_pairs::same_pairs;
pub(crate) use slow::slower_than;
pub(crate) use unexplained::unexplained;
pub use words::quantity;
pub(crate) use words::{end, transport};

use std::collections::BTreeSet;

use super::RULES;
use super::raised::Raised;
use crate::finding::{Finding, FindingKind};
use apart::Apart;
use peerlane_design::site::{ComparedStep, Site};
use peerlane_machine::subject::Subject;
use peerlane_measure::nodes::NodesRun;

/// A record of nodes that measured each other, with what several rules need.
pub(crate) struct View<'a> {
    pub(super) run: &'a NodesRun,
    joined: &'a [ComparedStep<'a>],
    ends: &'a Site,
    /// An earlier record of the same nodes.
    pub(super) before: Option<&'a NodesRun>,
    /// NICs far from the GPUs that they serve.
    apart: Apart,
    /// Adapters that take no memory of GPUs.
    refused: Option<Finding>,
    /// NCCL far below verbs, where nothing else explains that.
    below: Option<Finding>,
    /// Parts that are slow.
    slow: Vec<Finding>,
    /// What the rules have found so far.
    found: Vec<Raised>,
}

impl<'a> View<'a> {
    fn of(run: &'a NodesRun, joined: &'a [ComparedStep], ends: &'a Site, before: Option<&'a NodesRun>) -> Self {
        let apart = apart::of(run, joined, ends.machines());
        let (refused, without_gpus) = gpu_memory::refusing(run, ends);
        let explained = apart.explained.union(&without_gpus).copied().collect();
        let (below, slow_by_nccl) = same_pairs::below(run, joined, ends, &explained);
        let explained = explained.union(&slow_by_nccl).copied().collect();
        let mut slow = slow::slow(run, joined, Some(ends), "as others reach", &explained);
        slow.extend(one_way::one_way(run, joined));
        View { run, joined, ends, before, apart, refused, below, slow, found: Vec::new() }
    }

    /// Parts that are slow, of those that this rule names.
    fn slow(&self, rule: &str) -> impl Iterator<Item = Finding> {
        self.slow.iter().filter(move |finding| finding.rule == rule).cloned()
    }

    /// Adds what a rule found, unless one that ran before it explains that: then this one mentions it, once for each rule.
    fn take(&mut self, one: Raised, mentioned: &mut BTreeSet<(usize, String)>) {
        let Some((at, cause)) =
            self.found.iter_mut().enumerate().find(|(_, cause)| explains(&cause.finding, &one.finding))
        else {
            return self.found.push(one);
        };
        if mentioned.insert((at, one.finding.rule)) {
            let measured = &mut cause.finding.measured;
            *measured = format!("{measured}; {}", one.mention);
        }
    }
}

/// What the rules find between nodes; causes take over what they explain.
pub(crate) fn findings(
    run: &NodesRun,
    joined: &[ComparedStep],
    ends: &Site,
    before: Option<&NodesRun>,
) -> Vec<Finding> {
    let mut view = View::of(run, joined, ends, before);
    let mut mentioned = BTreeSet::new();
    for rule in RULES {
        for one in rule.nodes(&view) {
            view.take(one, &mut mentioned);
        }
    }
    view.found.into_iter().map(|raised| raised.finding).collect()
}

/// Whether a fault is the cause of what another rule found.
fn explains(cause: &Finding, symptom: &Finding) -> bool {
    let may = RULES.iter().any(|rule| rule.id == cause.rule && rule.may_explain(&symptom.rule));
    let at = |shown: &Subject| cause.subjects.iter().any(|own| is_at(own, shown));
    let covers = if symptom.rule == all_reduces::SLOW_ALL_REDUCE.id {
        // one of the nodes that joined, or what lies between them
        cause.rule == slow::SLOW_SWITCH.id || symptom.subjects.iter().any(at)
    } else {
        !symptom.subjects.is_empty() && symptom.subjects.iter().all(at)
    };
    may && cause.kind == FindingKind::Fault && covers
}

/// Whether the cause is the part that shows a symptom, one of its parts, or a path between the two.
fn is_at(cause: &Subject, symptom: &Subject) -> bool {
    let of = |part: &str, whole: &str| part == whole || part.split_once('/').is_some_and(|(host, _)| host == whole);
    match (cause, symptom) {
        (Subject::Node(part), Subject::Node(whole)) => of(part, whole),
        (Subject::Pair(a, b), Subject::Node(whole)) => of(a, whole) || of(b, whole),
        (Subject::Pair(a, b), Subject::Pair(from, to)) => (of(from, a) && of(to, b)) || (of(from, b) && of(to, a)),
        _ => false,
    }
}

/// Findings of a rule that mentions nothing to their causes.
fn raised(findings: impl IntoIterator<Item = Finding>) -> Vec<Raised> {
    findings.into_iter().map(Raised::from).collect()
}
