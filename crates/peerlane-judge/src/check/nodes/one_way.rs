//! Two nodes without an expectation: one direction against the other.

use std::collections::BTreeMap;

use super::prelude::*;
use super::slow::{Key, SLOW_BETWEEN_NODES, beside_gpu};
use super::words::transport;
use crate::check::nic_gpu_slow;
use peerlane_measure::nodes::NodesRun;

/// A direction with less of the other one's rate, certain by both intervals, is slow.
const SLOW: f64 = 0.8;

/// Directions of a pair that are slow beside the other one. Of more than two nodes, peers tell which part it is.
pub(super) fn one_way(run: &NodesRun, joined: &[ComparedStep]) -> Vec<Finding> {
    if run.nodes.len() > 2 {
        return Vec::new();
    }
    let beside = HostRates::of(joined.iter().map(|j| j.cell));
    // of what was measured again, the later one counts
    let mut found = BTreeMap::new();
    for one in joined.iter().filter(|j| !j.cell.step.is_loopback() && !j.cell.step.probe.is_both_ways()) {
        let step = &one.cell.step;
        let reverse = step.reversed();
        let other = joined.iter().find(|j| j.cell.step == reverse && j.cell.again == one.cell.again);
        // where it is known what both should be, that is what they are compared with
        let Some(other) = other.filter(|other| one.expected.is_none() || other.expected.is_none()) else { continue };
        let (Some(value), Some(usual)) = (one.cell.value(), other.cell.value()) else { continue };
        // what host memory shows is no matter of GPUs
        if beside.get(step).is_some_and(|host| value >= OFF * host) {
            continue;
        }
        let (Some(mine), Some(theirs)) = (one.cell.estimate, other.cell.estimate) else { continue };
        if mine.high >= SLOW * theirs.low {
            continue;
        }
        let (from, to) = (end(run, &step.from), end(run, &step.to));
        let left = value / usual;
        let raised = SLOW_BETWEEN_NODES.raise(FindingKind::Fault, Severity::Warning, Certainty::Likely);
        let summary = format!(
            "one way, from {from} to {to}, {:.0} % of the rate of the other direction is left",
            (100.0 * left).max(1.0)
        );
        let finding = raised.summary(summary).about(vec![Subject::Pair(from.clone(), to.clone())]).finding;
        let key = (from.clone(), to.clone(), step.transport, step.probe, step.is_of_gpus());
        let finding = Finding {
            measured: format!("{}: {}", transport(step.transport), quantity(false, value)),
            expected: format!("{}, as from {to} to {from}", quantity(false, usual)),
            fix: format!(
                "Remove a rate limit (`tc qdisc`) or pause frames at what {from} sends and {to} receives, then \
                 replace the cable; error counters show which end it is. A third node in the run shows it, too."
            ),
            confirm: "`tc -s qdisc`, `ethtool -S`, `rdma statistic show` on both hosts".to_owned(),
            cost: Some(Cost { lost: (usual - value) / 1e9, unit: Unit::GigabytesPerSecond, share: 1.0 - left }),
            ..finding
        };
        // host memory is as fast as ever between the same NICs
        let finding = if beside.get(step).is_some() {
            let (fix, confirm) =
                beside_gpu(run, &Key::Pair(step.from.node.min(step.to.node), step.from.node.max(step.to.node)));
            let summary = format!("{} with GPU memory", finding.summary);
            Finding { rule: nic_gpu_slow::RULE.id.to_owned(), summary, fix, confirm, ..finding }
        } else {
            finding
        };
        found.insert(key, finding);
    }
    found.into_values().collect()
}
