//! What a report shows of nodes that measured each other.

use std::collections::{BTreeMap, BTreeSet};

use peerlane::nodes::{NodesRun, Probe};
use peerlane::nodes_check::{NodesCheck, Pair, SamePairs};
use peerlane::one_line::quoted;
use peerlane::stats::Median;
use peerlane::transfer::Registration;

use super::{Block, Table};
use crate::render::findings;
use crate::render::headline::{Headline, rates};
use crate::render::nodes::{SPREAD, quantity, row, spread};
use crate::render::table;
use crate::render::text::count;
use crate::samples::Samples;

/// The answer in three lines.
pub(super) fn headline(run: &NodesRun, check: &NodesCheck) -> Headline {
    let first = check.findings.iter().find(|finding| finding.contributes() == Some(check.verdict));
    let cause = match (first, &check.missing) {
        (Some(finding), _) => format!("{}{}", finding.summary, rates(finding)),
        (None, Some(missing)) => format!("{missing}; checked: {}", check.checked.join(", ")),
        (None, None) if check.checked.is_empty() => {
            "two nodes have no peers, and nothing states what their network should carry".to_owned()
        }
        (None, None) => format!("{}; checked: {}", findings::counts(&check.findings), check.checked.join(", ")),
    };
    let step = first.map(|finding| ("fix", finding.fix.clone()));
    Headline { machine: who(run), verdict: check.verdict, cause, step }
}

/// `hgx-h200-x32: 32 nodes with 8 NICs, verbs`.
fn who(run: &NodesRun) -> String {
    let transports: Vec<&str> = run.plan.transports.iter().map(|t| t.name()).collect();
    let nics = run.nodes.iter().map(|node| node.nics.len()).max().unwrap_or(0);
    let nics = if nics == 0 { String::new() } else { format!(" with {}", count(nics, "NIC")) };
    let simulated = if run.cluster.is_some() { ", simulated" } else { "" };
    format!("{}: {}{nics}, {}{simulated}", quoted(&run.name), count(run.nodes.len(), "node"), transports.join(" and "))
}

/// Findings, the values that are off, and how many there are; with `verbose` the spread of values.
pub(super) fn blocks(run: &NodesRun, judged: &NodesCheck, most: usize, verbose: bool) -> Vec<Block> {
    let mut blocks = vec![Block::Findings];
    if verbose {
        blocks.push(Block::Table(Table { words: 3, headings: SPREAD.to_vec(), rows: spread(run), ..Table::default() }));
        blocks.extend(registered(run).map(Block::Sentence));
    }
    let (all, shown) = (off(judged, usize::MAX).len(), off(judged, most));
    blocks.push(Block::Table(Table {
        words: 3,
        headings: vec!["from", "to", "what", "measured", "expected", "share"],
        rows: shown.iter().map(|pair| row(pair)).collect(),
        left_out: (all > shown.len()).then(|| format!("the worst from each end; {all} in all")),
        ..Table::default()
    }));
    blocks.extend(judged.same_pairs.as_ref().map(by_verbs).map(Block::Sentence));
    blocks.push(Block::Sentence(summary(run, judged)));
    blocks
}

/// How adapters get at the memory of the GPUs beside them, in one line: `GPU memory by verbs: 30 NICs as dmabuf, 2 not at all.`
fn registered(run: &NodesRun) -> Option<String> {
    let mut counts: BTreeMap<Option<Registration>, usize> = BTreeMap::new();
    for gpu in run.nodes.iter().flat_map(|node| &node.nics).filter_map(|nic| nic.gpu.as_ref()) {
        *counts.entry(gpu.registration).or_default() += 1;
    }
    let words = counts.into_iter().rev().map(|(how, nics)| {
        let how = match how {
            Some(Registration::Dmabuf) => "as dmabuf",
            Some(Registration::NvidiaPeermem) => "by nvidia-peermem",
            None => "not at all",
        };
        format!("{} {how}", count(nics, "NIC"))
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| format!("GPU memory by verbs: {}.", words.join(", ")))
}

/// NCCL beside verbs, in one line.
fn by_verbs(same: &SamePairs) -> String {
    let [a, b] = &same.between;
    format!(
        "NCCL reaches {} of what verbs reach between the same nodes (median of {}; least {}: {a} and {b}, {} of {}).",
        table::percent(same.median),
        count(same.pairs, "pair"),
        table::percent(same.least),
        quantity(Probe::SendReceive, same.nccl),
        quantity(Probe::Write, same.verbs)
    )
}

/// The values that are off, worst first. Where there are more than `most`, the worst of each end that data comes from.
fn off(check: &NodesCheck, most: usize) -> Vec<&Pair> {
    let mut off: Vec<&Pair> = check.pairs.iter().filter(|pair| pair.is_off()).collect();
    if most < off.len() {
        let mut known = BTreeSet::new();
        off.retain(|pair| known.insert(&pair.from));
        off.truncate(most);
    }
    off
}

/// How many findings and values there are.
pub(crate) fn summary(run: &NodesRun, check: &NodesCheck) -> String {
    let values = check.pairs.iter().filter(|pair| pair.measured.is_some()).count();
    let compared = check.pairs.iter().filter(|pair| pair.share.is_some()).count();
    let off = check.pairs.iter().filter(|pair| pair.is_off()).count();
    let missing = match check.pairs.len() - values {
        0 => String::new(),
        n => format!(", {n} missing"),
    };
    let against = match compared {
        0 => "compared with their peers".to_owned(),
        compared => format!("{} as expected, {off} off", compared - off),
    };
    let waived = match check.waived.len() {
        0 => String::new(),
        n => format!(" {} accepted by the site.", count(n, "finding")),
    };
    let findings = findings::counted(&check.findings);
    let whole = match &check.missing {
        None if run.complete => "",
        _ => " The record is not complete: `peerlane measure --resume` goes on.",
    };
    format!("{findings}; {}: {against}{missing}.{waived}{whole}", count(values, "value"))
}

/// Of each end the median over its partners: a series for each pair of 1,000 nodes would be too many.
pub(super) fn sample(samples: &mut Samples, judged: &NodesCheck) {
    let rates = samples.family(
        "peerlane_end_bandwidth_bytes_per_second",
        "Median bandwidth of a node's NIC over its partners, or of its loopback.",
    );
    let expected =
        samples.family("peerlane_end_bandwidth_expected_bytes_per_second", "What that should be, where it is known.");
    let times = samples.family("peerlane_end_latency_seconds", "Median latency of a node's NIC to its partners.");
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
            median(&measured).into_iter().for_each(|time| samples.add(times, &labels, time));
            continue;
        }
        median(&measured).into_iter().for_each(|rate| samples.add(rates, &labels, rate));
        median(&should).into_iter().for_each(|rate| samples.add(expected, &labels, rate));
    }
}
