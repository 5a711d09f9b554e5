//! All-reduces whose rate drops where a node joins.

use super::prelude::*;
use peerlane_measure::nodes::{Cell, Drop, drops};

pub(in crate::check) const SLOW_ALL_REDUCE: Rule = Rule::new("slow-all-reduce", Look::Nodes(slow_all_reduce));

/// Drops, each with what a finding mentions that explains it.
fn slow_all_reduce(view: &View) -> Vec<Raised> {
    let expected = |cell: &Cell| {
        let of = view.joined.iter().find(|j| std::ptr::eq(j.cell, cell))?;
        of.expected.as_ref().map(|expected| expected.value)
    };
    let raise = |drop: Drop| {
        let count = drop.cell.step.nodes().count();
        let value = quantity(false, drop.cell.value().unwrap_or(0.0));
        let against = match (expected(drop.cell), drop.before) {
            (Some(expected), _) => format!("{}, predicted", quantity(false, expected)),
            (None, Some(before)) => {
                let of = before.step.nodes().count();
                format!("{}, as of {of} nodes", quantity(false, before.value().unwrap_or(0.0)))
            }
            (None, None) => String::new(),
        };
        let mention = format!("all-reduce of {count} nodes {value} of {against}");
        let hosts: Vec<String> = drop.joined.iter().map(|node| host(view.run, *node)).collect();
        Raised { mention, ..finding(&drop, hosts, count, value, against).into() }
    };
    drops(&view.run.cells, &expected).into_iter().map(raise).collect()
}

fn finding(drop: &Drop, hosts: Vec<String>, count: usize, value: String, expected: String) -> Finding {
    // without a model NCCL may have chosen otherwise for so many nodes
    let one = hosts.len() == 1 && drop.shown;
    let certainty = if one || drop.before.is_none() { Certainty::Likely } else { Certainty::Possible };
    // no single node's: so does NCCL over this network
    let severity = if hosts.is_empty() { Severity::Info } else { Severity::Warning };
    let raised = SLOW_ALL_REDUCE.raise(FindingKind::Fault, severity, certainty);
    let percent = format!("{:.0} %", 100.0 * drop.left);
    let before = drop.before.map(|before| before.step.nodes().count());
    let names = listed(&hosts, FEW);
    let summary = match (before, one) {
        (Some(before), _) if hosts.is_empty() => format!(
            "from {before} to {count} nodes an all-reduce drops to {percent} of its rate, and with none of those that joined alone"
        ),
        (Some(_), true) => {
            format!("{names}: an all-reduce that it joins has {percent} of its rate, and no pair of it shows why")
        }
        (Some(before), false) => format!(
            "from {before} to {count} nodes an all-reduce drops to {percent} of its rate: one of {names}, which joined"
        ),
        (None, _) => format!("all-reduces have {percent} of what is expected from the first on, of {names}"),
    };
    let cost = drop.cell.value().map(|own| {
        let lost = own / drop.left - own;
        Cost { lost: lost / 1e9, unit: Unit::GigabytesPerSecond, share: 1.0 - drop.left }
    });
    let (fix, confirm) = match hosts.first() {
        Some(first) => (
            format!(
                "Leave {first} out of the job, and do what `peerlane check live` advises there about what pairs do \
                 not use: its other GPUs and their NICs, and what joins its GPUs. If it names no cause, compare \
                 channels and transports in NCCL_DEBUG=INFO there with another node's."
            ),
            format!("`ssh {first} peerlane check live`; measure again without {names}"),
        ),
        None => (
            "Relieve what all of them share, as uplinks of leaf switches. If those are idle, compare what NCCL \
             chooses for so many nodes (NCCL_DEBUG=INFO: algorithm, protocol, channels)."
                .to_owned(),
            "NCCL_DEBUG=INFO with both numbers of nodes".to_owned(),
        ),
    };
    Finding {
        measured: format!("NCCL among {count} nodes: {value} bus bandwidth"),
        expected,
        fix,
        confirm,
        cost,
        ..raised.summary(summary).about(Subject::nodes_of(hosts)).finding
    }
}
