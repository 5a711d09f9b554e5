//! What nodes deliver to each other, in a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use peerlane::nodes::{NodesRun, Probe, Step, Transport};
use peerlane::nodes_check::{self, NodesCheck, NodesComparison, Pair, SamePairs};
use peerlane::one_line::shown;
use peerlane::stats::Median;
use peerlane::transfer::Registration;

use super::Detail;
use super::findings::{self, Amount};
use super::headline::Headline;
use super::style::{self, paint};
use super::table;
use super::text::{count, hang};

/// Writes what was measured: its spread by transport, NIC and probe.
pub fn measured(out: &mut dyn Write, run: &NodesRun, file: Option<&Path>) -> io::Result<()> {
    let values = run.cells.iter().filter(|cell| cell.value().is_some()).count();
    let of = format!("{}: {}, {}", run.name, count(run.nodes.len(), "node"), count(values, "value"));
    writeln!(out, "{}", paint(style::HEADING, &of))?;
    spread(out, run)?;
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

/// Writes the verdict, findings, and the values that are off; with `-v` all findings and the spread of values.
pub fn judged(out: &mut dyn Write, run: &NodesRun, check: &NodesCheck, detail: Detail) -> io::Result<()> {
    let headline = headline(run, check);
    headline.write(out, detail.quiet)?;
    if detail.quiet {
        return Ok(());
    }
    if detail.verbose {
        findings::write(out, &check.findings)?;
        writeln!(out)?;
        spread(out, run)?;
        if let Some(registered) = registered(run) {
            hang(out, "", &registered)?;
        }
    } else {
        let amount = Amount { full: 3, brief: 6 };
        findings::brief(out, &check.findings, amount, headline.shown_fix().as_deref())?;
    }
    write_off(out, check, if detail.verbose { usize::MAX } else { PAIRS })?;
    writeln!(out)?;
    if let Some(same) = &check.same_pairs {
        hang(out, "", &by_verbs(same))?;
    }
    hang(out, "", &summary(run, check))
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

/// The answer in three lines.
pub fn headline(run: &NodesRun, check: &NodesCheck) -> Headline {
    let first = check.findings.first();
    let cause = match first {
        Some(finding) => finding.summary.clone(),
        None if check.checked.is_empty() => {
            "two nodes have no peers, and nothing states what their network should carry".to_owned()
        }
        None => format!("no findings; checked: {}", check.checked.join(", ")),
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
    format!("{}: {}{nics}, {}{simulated}", run.name, count(run.nodes.len(), "node"), transports.join(" and "))
}

/// The values that are off, worst first. Where there are more than `most`, the worst of each end that data comes from.
pub fn off(check: &NodesCheck, most: usize) -> Vec<&Pair> {
    let mut off: Vec<&Pair> = check.pairs.iter().filter(|pair| pair.is_off()).collect();
    if most < off.len() {
        let mut known = BTreeSet::new();
        off.retain(|pair| known.insert(&pair.from));
        off.truncate(most);
    }
    off
}

/// A pair's cells: from, to, what, measured, expected, share.
pub fn row(pair: &Pair) -> Vec<String> {
    let value = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| quantity(pair.probe, value));
    let share = pair.share.map_or_else(|| "–".to_owned(), table::percent);
    let memory = if pair.gpus.is_some() && pair.transport != Transport::Nccl { ", GPU memory" } else { "" };
    let what = format!("{} {}{memory}", pair.transport, pair.probe);
    vec![pair.from.clone(), pair.to.clone(), what, value(pair.measured), value(pair.expected), share]
}

/// Writes a table of pairs.
fn pairs(out: &mut dyn Write, headings: [&str; 6], pairs: &[&Pair]) -> io::Result<()> {
    let headings: Vec<String> = headings.into_iter().chain([""]).map(str::to_owned).collect();
    let rows = pairs.iter().map(|pair| row(pair).into_iter().chain([String::new()]).collect());
    table::columns(out, &headings, &rows.collect::<Vec<_>>(), 3)
}

fn write_off(out: &mut dyn Write, check: &NodesCheck, most: usize) -> io::Result<()> {
    let all = off(check, usize::MAX).len();
    let shown = off(check, most);
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    pairs(out, ["from", "to", "what", "measured", "expected", "share"], &shown)?;
    if all > shown.len() {
        let more = format!("  the worst from each end; {all} in all (-v shows them)");
        writeln!(out, "{}", paint(style::DIM, &more))?;
    }
    Ok(())
}

/// Writes what changed from one record to a later one.
pub fn compared(out: &mut dyn Write, of: &NodesComparison, detail: Detail) -> io::Result<()> {
    writeln!(out, "{}", paint(style::HEADING, &format!("{} → {}", of.before, of.after)))?;
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
    let headings = ["what", "values", "before", "after", "change", ""].map(str::to_owned);
    let row = |change: &nodes_check::Change| {
        let of = match (change.loopback, change.gpus && change.transport != Transport::Nccl) {
            (true, _) => ", loopback",
            (false, true) => ", GPU memory",
            (false, false) => "",
        };
        let what = format!("{} {}{of}", change.transport, change.probe);
        let [before, after] = [change.before, change.after].map(|value| quantity(change.probe, value));
        let by = format!("{:+.1} %", 100.0 * (change.after / change.before - 1.0));
        vec![what, change.values.to_string(), before, after, by, String::new()]
    };
    table::columns(out, &headings, &of.changes.iter().map(row).collect::<Vec<_>>(), 1)?;
    if detail.verbose {
        findings::write(out, &of.worse)?;
    } else {
        findings::brief(out, &of.worse, Amount { full: 3, brief: 6 }, None)?;
    }
    let most = if detail.verbose { usize::MAX } else { PAIRS };
    let shown: Vec<&Pair> = of.pairs.iter().take(most).collect();
    if !shown.is_empty() {
        writeln!(out)?;
        pairs(out, ["from", "to", "what", "after", "before", "share"], &shown)?;
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

/// How many findings and values there are.
pub fn summary(run: &NodesRun, check: &NodesCheck) -> String {
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
    let findings = match check.findings.len() {
        0 => "No findings".to_owned(),
        n => format!("{} ({})", count(n, "finding"), findings::counts(&check.findings)),
    };
    let whole = if run.complete { "" } else { " The record is not complete: `peerlane measure --resume` goes on." };
    format!("{findings}; {}: {against}{missing}.{waived}{whole}", count(values, "value"))
}

/// A table: least, median and greatest of each kind of value.
pub fn spread(out: &mut dyn Write, run: &NodesRun) -> io::Result<()> {
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
    let headings =
        ["transport", "NICs of a node", "what", "values", "least", "median", "greatest", ""].map(str::to_owned);
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
        vec![transport.to_string(), nics, what, values.len().to_string(), least, median, greatest, String::new()]
    });
    table::columns(out, &headings, &rows.collect::<Vec<_>>(), 3)
}

/// As findings have it.
fn quantity(probe: Probe, value: f64) -> String {
    nodes_check::quantity(probe == Probe::Latency, value)
}

/// A node's host name.
pub fn host(run: &NodesRun, node: usize) -> &str {
    run.nodes.get(node).map_or("?", |node| node.host.as_str())
}
