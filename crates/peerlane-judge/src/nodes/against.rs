//! A record beside an earlier one of the same nodes: which part changed, and which pairs did.

use std::collections::BTreeMap;

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::{Pair, pair};
use crate::check::nodes::{lost, slower_than};
use crate::finding::Finding;
use peerlane_design::site::since;
use peerlane_machine::stats::Median;
use peerlane_measure::nodes::{NodesRun, Probe, Transport};

/// Names the format of [`NodesComparison`].
const SCHEMA: &str = "peerlane/nodes-compare/1";

/// A pair has changed by this share at least, and by more than both intervals: ClusterKit's limit for pairs of one run.
const CHANGED: f64 = 0.07;

/// How one kind of value has changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// What moved it.
    pub transport: Transport,
    /// What was done.
    pub probe: Probe,
    /// Whether data stayed within a node.
    pub loopback: bool,
    /// Whether it was GPU memory.
    pub gpus: bool,
    /// Values that both records have.
    pub values: usize,
    /// Median of the earlier ones: bytes a second, or seconds.
    pub before: f64,
    /// Median of the later ones.
    pub after: f64,
}

/// Two records of the same nodes, the earlier one first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodesComparison {
    /// Names this format.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// Name of the earlier record.
    pub before: String,
    /// Name of the later one.
    pub after: String,
    /// Values of each kind that both have.
    pub changes: Vec<Change>,
    /// Parts that are slower than before, or lost.
    pub worse: Vec<Finding>,
    /// Parts that are faster than before, as findings on the earlier record.
    pub better: Vec<Finding>,
    /// Pairs that changed beyond the noise of both records, those that lost most first; the earlier value is the expected one.
    pub pairs: Vec<Pair>,
    /// Values that only the earlier record has, and that only the later one has.
    pub alone: [usize; 2],
}

/// Two records of the same nodes, or of some that are the same; names are as the caller shows them.
pub fn compare(before: (&str, &NodesRun), after: (&str, &NodesRun)) -> NodesComparison {
    let ((earlier, before), (later, after)) = (before, after);
    let both = since(before, after);
    let mut kinds: BTreeMap<(Transport, Probe, bool, bool), Vec<[f64; 2]>> = BTreeMap::new();
    let mut pairs = Vec::new();
    for (one, earlier) in &both {
        let step = &one.cell.step;
        let (Some(value), Some(expected)) = (one.cell.value(), &one.expected) else { continue };
        kinds
            .entry((step.transport, step.probe, step.is_loopback(), step.is_of_gpus()))
            .or_default()
            .push([expected.value, value]);
        let (Some(old), Some(new)) = (earlier.estimate, one.cell.estimate) else { continue };
        let apart = new.high < old.low || new.low > old.high;
        if apart && (value / expected.value - 1.0).abs() > CHANGED {
            pairs.push(pair(after, one));
        }
    }
    let share = |of: &Pair| of.share.unwrap_or(1.0);
    pairs.sort_by(|a, b| share(a).total_cmp(&share(b)));
    let median = |values: &[[f64; 2]], at: usize| {
        let of: Vec<f64> = values.iter().map(|pair| pair[at]).collect();
        Median::of(&of).map_or(0.0, |median| median.value)
    };
    let changes = kinds.into_iter().map(|((transport, probe, loopback, gpus), values)| Change {
        transport,
        probe,
        loopback,
        gpus,
        values: values.len(),
        before: median(&values, 0),
        after: median(&values, 1),
    });
    let valued = |run: &NodesRun| run.cells.iter().filter(|cell| cell.value().is_some()).count();
    let both = both.iter().filter(|(one, _)| one.cell.value().is_some()).count();
    let known: Vec<Finding> = lost(before);
    let mut now: Vec<Finding> =
        lost(after).into_iter().filter(|f| !known.iter().any(|k| k.subjects == f.subjects)).collect();
    now.extend(slower_than(before, after, "in the earlier record"));
    NodesComparison {
        schema: SCHEMA,
        before: earlier.to_owned(),
        after: later.to_owned(),
        changes: changes.collect(),
        worse: now,
        better: slower_than(after, before, "in the later record"),
        pairs,
        alone: [valued(before).saturating_sub(both), valued(after).saturating_sub(both)],
    }
}
