//! The check of a record between nodes as Markdown and in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use peerlane::nodes::{NodesRun, Probe};
use peerlane::nodes_check::NodesCheck;
use peerlane::stats::Median;

use super::markdown::{inline, one};
use super::prometheus::{Family, Verdicts};
use crate::render::nodes::{headline, off, row, summary};

/// Pairs in a ticket.
const PAIRS: usize = 20;

/// For a ticket: the verdict, findings, and the pairs that are off, worst first.
pub fn markdown(run: &NodesRun, judged: &NodesCheck) -> String {
    let headline = headline(run, judged);
    // writing to a string cannot fail
    let mut text = format!("## {}\n\n", inline(&headline.machine));
    let _ = writeln!(text, "**{}**: {}", headline.verdict.words(), inline(&headline.cause));
    if let Some((label, step)) = &headline.step {
        let _ = writeln!(text, "\n**{label}**: {}", inline(step));
    }
    judged.findings.iter().for_each(|finding| one(&mut text, finding));
    let pairs = off(judged, PAIRS);
    if !pairs.is_empty() {
        let _ = writeln!(text, "\n| from | to | what | measured | expected | share |\n|---|---|---|--:|--:|--:|");
        for pair in pairs {
            let cells: Vec<String> = row(pair).iter().map(|cell| inline(cell)).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    let _ = writeln!(text, "\n{}", inline(&summary(run, judged)));
    text
}

/// Of each end the median over its partners: a series for each pair of 1,000 nodes would be too many.
pub fn prometheus(run: &NodesRun, judged: &NodesCheck) -> String {
    let mut rates = Family::new(
        "peerlane_end_bandwidth_bytes_per_second",
        "Median bandwidth of a node's NIC over its partners, or of its loopback.",
    );
    let mut expected =
        Family::new("peerlane_end_bandwidth_expected_bytes_per_second", "What that should be, where it is known.");
    let mut times = Family::new("peerlane_end_latency_seconds", "Median latency of a node's NIC to its partners.");
    let mut ends: BTreeMap<_, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for pair in &judged.pairs {
        // of many paths, and of no end
        if matches!(pair.probe, Probe::AllReduce | Probe::WriteBoth | Probe::SendBoth) {
            continue;
        }
        let [from, to] = match &pair.gpus {
            Some(gpus) => gpus.each_ref().map(|gpu| Some(gpu.as_str())),
            None => [None, None],
        };
        let mut add = |end: &'_ str, gpu: Option<&'_ str>, direction| {
            let key = (end.to_owned(), gpu.map(str::to_owned), pair.transport, pair.probe, direction);
            let (measured, expected) = ends.entry(key).or_default();
            measured.extend(pair.measured);
            expected.extend(pair.expected);
        };
        if pair.from == pair.to {
            add(&pair.from, from, "loopback");
        } else if pair.probe.is_both_ways() {
            add(&pair.from, from, "both");
            add(&pair.to, to, "both");
        } else {
            add(&pair.from, from, "out");
            add(&pair.to, to, "in");
        }
    }
    for ((end, gpu, transport, probe, direction), (measured, should)) in ends {
        let (node, part) = end.split_once('/').unwrap_or((&end, ""));
        let gpu = gpu.unwrap_or_default();
        let nic = if part == gpu { "" } else { part };
        let labels = [
            ("machine", judged.name.as_str()),
            ("node", node),
            ("nic", nic),
            ("gpu", &gpu),
            ("transport", transport.name()),
            ("test", probe.name()),
            ("direction", direction),
        ];
        let median = |values: &[f64]| Median::of(values).map(|median| median.value);
        if probe == Probe::Latency {
            median(&measured).into_iter().for_each(|time| times.add(&labels, time));
            continue;
        }
        median(&measured).into_iter().for_each(|rate| rates.add(&labels, rate));
        median(&should).into_iter().for_each(|rate| expected.add(&labels, rate));
    }
    let mut verdicts = Verdicts::new();
    verdicts.add(&judged.name, judged.verdict, &judged.findings, Some(run.began));
    verdicts.text(&[&rates, &expected, &times])
}
