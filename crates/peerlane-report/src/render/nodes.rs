//! What nodes deliver to each other, in a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use peerlane::nodes::{NodesRun, Probe, Step, Transport};
use peerlane::nodes_check::{self, NodesComparison, Pair};
use peerlane::one_line::{quoted, shown};
use peerlane::stats::Median;

use super::Detail;
use super::findings::{self, Amount};
use super::style::{self, paint};
use super::table;
use super::text::{count, hang};
use crate::item::Item;

/// Writes what was measured: its spread by transport, NIC and probe.
pub fn measured(out: &mut dyn Write, run: &NodesRun, file: Option<&Path>) -> io::Result<()> {
    let values = run.cells.iter().filter(|cell| cell.value().is_some()).count();
    let of = format!("{}: {}, {}", quoted(&run.name), count(run.nodes.len(), "node"), count(values, "value"));
    writeln!(out, "{}", paint(style::HEADING, &of))?;
    table::numbers(out, &SPREAD, &spread(run), 3)?;
    for lost in &run.lost {
        hang(out, "lost     ", &format!("{}: {}", host(run, lost.node), lost.why))?;
    }
    let without = run.cells.iter().filter(|cell| cell.value().is_none()).count();
    if without > 0 {
        writeln!(out, "{} without a value", count(without, "step"))?;
    }
    let judged = file.map_or_else(
        || "record it with -o FILE, and `peerlane check FILE` names the parts at fault".to_owned(),
        |file| format!("`peerlane check {}` names the parts at fault", shown(file)),
    );
    hang(out, "next     ", &judged)
}

/// Pairs that are shown as not as expected.
const PAIRS: usize = 8;

/// A pair's cells: from, to, what, measured, expected, share.
pub(crate) fn row(pair: &Pair) -> Vec<String> {
    let value = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| quantity(pair.probe, value));
    let share = pair.share.map_or_else(|| "–".to_owned(), table::percent);
    let memory = if pair.gpus.is_some() && pair.transport != Transport::Nccl { ", GPU memory" } else { "" };
    let what = format!("{} {}{memory}", pair.transport, pair.probe);
    vec![pair.from.clone(), pair.to.clone(), what, value(pair.measured), value(pair.expected), share]
}

/// Writes what changed from one record to a later one.
pub fn compared(out: &mut dyn Write, of: &NodesComparison, detail: Detail) -> io::Result<()> {
    writeln!(out, "{}", paint(style::HEADING, &format!("{} → {}", quoted(&of.before), quoted(&of.after))))?;
    let cause = match (of.worse.first(), of.better.len()) {
        (Some(first), _) => first.summary.clone(),
        (None, 0) if of.pairs.is_empty() => "nothing changed beyond noise".to_owned(),
        (None, 0) => format!("{} changed beyond noise, and no part explains it", count(of.pairs.len(), "value")),
        (None, _) => "no part is slower than before".to_owned(),
    };
    hang(out, if of.worse.is_empty() { "" } else { "WORSE    " }, &cause)?;
    for finding in &of.better {
        hang(out, "BETTER   ", &format!("this is over: {}", finding.summary))?;
    }
    if detail.quiet {
        return Ok(());
    }
    writeln!(out)?;
    let headings = ["what", "values", "before", "after", "change"];
    let change = |change: &nodes_check::Change| {
        let of = match (change.loopback, change.gpus && change.transport != Transport::Nccl) {
            (true, _) => ", loopback",
            (false, true) => ", GPU memory",
            (false, false) => "",
        };
        let what = format!("{} {}{of}", change.transport, change.probe);
        let [before, after] = [change.before, change.after].map(|value| quantity(change.probe, value));
        let by = format!("{:+.1} %", 100.0 * (change.after / change.before - 1.0));
        vec![what, change.values.to_string(), before, after, by]
    };
    table::numbers(out, &headings, &of.changes.iter().map(change).collect::<Vec<_>>(), 1)?;
    if detail.verbose {
        findings::write(out, &Item::all(&of.worse))?;
    } else {
        findings::brief(out, &Item::all(&of.worse), Amount { full: 3, brief: 6 }, None)?;
    }
    let most = if detail.verbose { usize::MAX } else { PAIRS };
    let shown: Vec<Vec<String>> = of.pairs.iter().take(most).map(row).collect();
    if !shown.is_empty() {
        writeln!(out)?;
        table::numbers(out, &["from", "to", "what", "after", "before", "share"], &shown, 3)?;
    }
    let values: usize = of.changes.iter().map(|change| change.values).sum();
    let alone = match of.alone {
        [0, 0] => String::new(),
        [before, after] => format!("; {before} only in the earlier record, {after} only in the later one"),
    };
    writeln!(out)?;
    let changed =
        format!("{} in both records, {} changed beyond noise{alone}.", count(values, "value"), of.pairs.len());
    hang(out, "", &changed)
}

/// Headings of [`spread`]; the first three are of words.
pub(crate) const SPREAD: [&str; 7] = ["transport", "NICs of a node", "what", "values", "least", "median", "greatest"];

/// Rows of a table: least, median and greatest of each kind of value.
pub(crate) fn spread(run: &NodesRun) -> Vec<Vec<String>> {
    /// With whether of GPU memory, and the ranks of an all-reduce, else 0.
    type Kind = (Transport, bool, Probe, bool, u32);
    let mut kinds: BTreeMap<Kind, (BTreeSet<Option<&str>>, Vec<f64>)> = BTreeMap::new();
    let kind = |step: &Step| {
        let ranks = if step.is_among_many() { step.queue_pairs } else { 0 };
        let gpus = step.is_of_gpus() && step.transport != Transport::Nccl;
        (step.transport, !step.is_loopback(), step.probe, gpus, ranks)
    };
    for cell in &run.cells {
        let step = &cell.step;
        let (nics, values) = kinds.entry(kind(step)).or_default();
        nics.insert(step.from.nic.as_deref());
        values.extend(cell.value());
    }
    let rows = kinds.into_iter().map(|((transport, across, probe, gpus, ranks), (nics, values))| {
        let what = match (across, ranks) {
            (false, _) => format!("{probe}, loopback"),
            (true, 0) if gpus => format!("{probe}, GPU memory"),
            (true, 0) => probe.name().to_owned(),
            (true, ranks) => format!("{probe}, {ranks} GPUs"),
        };
        let [least, median, greatest] = match Median::of(&values) {
            Some(median) => {
                let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                [least, median.value, values.iter().copied().fold(0.0, f64::max)].map(|value| quantity(probe, value))
            }
            None => ["–", "–", "–"].map(str::to_owned),
        };
        let nics = match nics.into_iter().flatten().collect::<Vec<_>>().as_slice() {
            [] => "–".to_owned(),
            [one] => (*one).to_owned(),
            many => many.len().to_string(),
        };
        vec![transport.to_string(), nics, what, values.len().to_string(), least, median, greatest]
    });
    rows.collect()
}

/// As findings have it.
pub(crate) fn quantity(probe: Probe, value: f64) -> String {
    nodes_check::quantity(probe == Probe::Latency, value)
}

/// A node's host name.
pub(crate) fn host(run: &NodesRun, node: usize) -> &str {
    run.nodes.get(node).map_or("?", |node| node.host.as_str())
}
