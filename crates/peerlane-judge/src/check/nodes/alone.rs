//! Slow paths that share links with the other pairs of their round: no path alone is at fault.

use std::collections::{BTreeMap, BTreeSet};

use super::prelude::*;
use peerlane_measure::nodes::{Cell, Compared, NodesRun, Probe, Step};

/// More slow paths than this are not at fault one by one.
pub(super) const MANY: usize = 8;

/// What is left of a rate that others share, at most.
const ALONE: f64 = 0.8;

/// Paths that one finding names.
const FEW: usize = 3;

/// How near latencies of one distance are, as a share.
const SAME: f64 = 0.03;

/// Pairs of other nodes that make a latency one of a distance.
const OTHERS: usize = 3;

/// Whether the latency of a pair is that of several pairs of other nodes: in a torus messages pass more switches between some than
/// between others, and no fault makes them alike.
pub(super) fn is_a_distance(values: &[Compared], at: usize) -> bool {
    let Some(own) = values.get(at).filter(|own| own.expected.is_none()) else { return false };
    let mut used = BTreeSet::from([own.step.from.node, own.step.to.node]);
    let alike = values.iter().filter(|other| (other.value / own.value - 1.0).abs() <= SAME);
    let apart = alike.filter(|other| {
        let ends = [other.step.from.node, other.step.to.node];
        let is_new = ends.iter().all(|node| !used.contains(node));
        used.extend(ends.into_iter().filter(|_| is_new));
        is_new
    });
    apart.take(OTHERS).count() == OTHERS
}

/// Pairs that were measured again by themselves: only as many as a run has time for.
pub(super) struct Alone {
    pairs: BTreeSet<(usize, usize)>,
    /// Whether one of them was slow only beside the other pairs of its round: routes share links here.
    clears: bool,
}

impl Alone {
    pub(super) fn of(run: &NodesRun) -> Alone {
        let pair = |step: &Step| (step.from.node.min(step.to.node), step.from.node.max(step.to.node));
        let is_rate = |cell: &&Cell| !cell.step.is_loopback() && cell.step.probe != Probe::Latency;
        let (again, first): (Vec<&Cell>, Vec<&Cell>) = run.cells.iter().filter(is_rate).partition(|cell| cell.again);
        let first: BTreeMap<&Step, f64> = first.iter().filter_map(|cell| Some((&cell.step, cell.value()?))).collect();
        let clears = again.iter().any(|cell| {
            let before = first.get(&cell.step).copied();
            cell.value().zip(before).is_some_and(|(alone, among)| among < ALONE * alone)
        });
        Alone { pairs: again.iter().map(|cell| pair(&cell.step)).collect(), clears }
    }

    /// Whether a pair that nothing measured by itself is explained by what the others showed.
    pub(super) fn is_shared(&self, pair: (usize, usize)) -> bool {
        self.clears && !self.pairs.contains(&pair)
    }
}

/// Many slow paths at once, as one finding: pairs of a round share links between switches, and no path alone is at fault.
pub(super) fn shared(rule: &Rule, paths: &[Finding]) -> Finding {
    let cost = |finding: &Finding| finding.cost.map_or(0.0, |cost| cost.share);
    let worst = paths.iter().map(cost).fold(0.0, f64::max);
    let raised = rule.raise(FindingKind::Design, Severity::Info, Certainty::Possible);
    let summary = format!(
        "{} less of the rate than others while many run, down to {:.0} %: as where links between switches carry several pairs of a \
         round, or one of these links is slow",
        if paths.len() == 1 { "1 path has".to_owned() } else { format!("{} paths have", paths.len()) },
        100.0 * (1.0 - worst)
    );
    let example = paths.iter().max_by(|a, b| cost(a).total_cmp(&cost(b)));
    Finding {
        measured: example.map_or_else(String::new, |finding| finding.measured.clone()),
        expected: example.map_or_else(String::new, |finding| finding.expected.clone()),
        fix: "Nothing is broken where the network is oversubscribed, or its routes are fixed. Where it should be neither, look for a slow \
              or missing link between switches."
            .to_owned(),
        confirm: "`peerlane infer` of this record: leaf switches, and what the links above them carry; counters of the switches".to_owned(),
        ..raised.summary(summary).about(paths.iter().flat_map(|finding| finding.subjects.clone()).take(FEW).collect()).finding
    }
}
