//! Values between nodes that are worse than they may be, and that no finding explains.

use super::prelude::*;
use crate::check::unexplained_value;
use peerlane_measure::nodes::{NodesRun, Probe};

/// A value that is off on a path has to be so when it is measured again, and by more than neighbours on a network disturb each other.
const LEAST: f64 = 0.8;

/// One finding on all of them; the worst is named.
pub(crate) fn unexplained(run: &NodesRun, joined: &[ComparedStep], known: &[Finding]) -> Option<Finding> {
    let is_named = |one: &ComparedStep| {
        let hosts: Vec<String> = one.cell.step.nodes().map(|node| host(run, node)).collect();
        let of_host = |name: &str| {
            hosts.iter().any(|own| name == own || name.split_once('/').is_some_and(|(host, _)| host == own))
        };
        // `leaf3 to spine1` is a link of both switches
        let through = one.expected.iter().flat_map(|expected| &expected.binding.through);
        let switches: Vec<&str> = through.flat_map(|part| part.split(" to ")).collect();
        let explains = |finding: &&Finding| finding.contributes().is_some();
        let names = |finding: &Finding| {
            let mut parts = finding.subjects.iter().flat_map(Subject::nodes);
            finding.subjects.is_empty() || parts.any(|part| of_host(part) || switches.contains(&part))
        };
        known.iter().filter(explains).any(names)
    };
    // on a network that is not known, pairs that run at once may share links
    let is_alone = |one: &ComparedStep| {
        let is_known = one.expected.as_ref().is_some_and(|expected| !expected.binding.through.is_empty());
        is_known || one.cell.again || one.cell.step.is_loopback() || run.nodes.len() <= 2
    };
    let is_worse = |one: &&ComparedStep| {
        let step = &one.cell.step;
        one.is_off()
            && is_alone(one)
            && one.share().is_some_and(|share| share < LEAST)
            && !step.is_among_many()
            && !step.is_of_load()
    };
    let all: Vec<&ComparedStep> = joined.iter().filter(is_worse).filter(|one| !is_named(one)).collect();
    let worst = all.iter().min_by(|a, b| a.share().unwrap_or(1.0).total_cmp(&b.share().unwrap_or(1.0)))?;
    let step = &worst.cell.step;
    let late = step.probe == Probe::Latency;
    let [from, to] = [&step.from, &step.to].map(|of| end(run, of));
    let paths: Vec<String> =
        all.iter().map(|one| format!("{} → {}", end(run, &one.cell.step.from), end(run, &one.cell.step.to))).collect();
    let raised = unexplained_value::RULE.raise(FindingKind::Fault, Severity::Warning, Certainty::Possible)
        .summary(format!("nothing known explains what was measured between nodes: {}", listed(&paths, FEW)))
        .expected(worst.expected.as_ref().map_or_else(String::new, |expected| quantity(late, expected.value)))
        .measured(format!("from {from} to {to}: {}", quantity(late, worst.cell.value()?)))
        .fix("Measure again while nothing else uses the network. If the value stays, look at what only these paths share.")
        .confirm("`peerlane measure --nodes` again")
        .about(vec![Subject::Pair(from, to)]);
    Some(raised.finding)
}
