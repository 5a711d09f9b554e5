//! Where jobs should run, with the reason, and what other placements would give.

use std::io::{self, Write};

use peerlane::names::ranges;
use peerlane::place::{Choice, PlacementDocument, Workload};

use super::style::{self, paint};
use super::text::{count, fit, hang, number, width};
use super::{halo, line_width};

/// Columns of labels.
const LABEL: usize = 13;

/// Writes where jobs go, what they should reach there and, with `verbose`, the alternatives.
pub fn write(out: &mut dyn Write, document: &PlacementDocument, verbose: bool) -> io::Result<()> {
    let PlacementDocument { choices, .. } = document;
    let jobs = if choices.len() == 1 { "one job".to_owned() } else { format!("{} jobs", choices.len()) };
    let sizes: Vec<String> = choices.iter().map(|c| c.gpus.len().to_string()).collect();
    let busy = if document.busy.is_empty() { String::new() } else { format!("; busy: {}", ranges(&document.busy)) };
    let head = format!("{}: {jobs} of {} GPUs, {}{busy}", document.machine, sizes.join(" + "), document.workload);
    hang(out, "", &head)?;
    document.assumptions.iter().try_for_each(|sentence| hang(out, "  assumed    ", sentence))?;
    if let Some(why) = &document.equal {
        writeln!(out)?;
        hang(out, "", &format!("All choices of GPUs are equivalent: {why}."))?;
    }
    for (at, choice) in choices.iter().enumerate() {
        let number_of = (choices.len() > 1).then_some(at + 1);
        match document.nodes {
            Some(_) => job_on_nodes(out, choice, number_of, verbose)?,
            None => job(out, choice, number_of)?,
        }
    }
    compared(out, document)?;
    writeln!(out)?;
    hang(out, "", &proof(document))?;
    if verbose {
        let rates = "Rates are those of the slowest transfer while all jobs run, or all-reduce bus bandwidths; 1 GB is 10⁹ bytes; see \
                     `peerlane help placement`.";
        hang(out, "", rates)?;
    }
    Ok(())
}

fn label(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    hang(out, &format!("  {name:<w$}", w = LABEL - 2), text)
}

fn job(out: &mut dyn Write, choice: &Choice, number_of: Option<usize>) -> io::Result<()> {
    writeln!(out)?;
    let title = number_of.map_or_else(|| "Choice".to_owned(), |n| format!("Job {n}"));
    let order = choice.order.join(" ");
    if width(&title) + 2 + width(&order) <= line_width() {
        writeln!(out, "{}  {}", paint(style::HEADING, &title), paint(style::GPU, &order))?;
    } else {
        hang(out, &format!("{title}  "), &order)?;
    }
    predicted(out, choice)?;
    for (at, ring) in choice.rings.iter().flatten().enumerate() {
        let name = match (at, choice.rings.as_ref().map_or(0, Vec::len)) {
            (0, 1) => "ring".to_owned(),
            (0, count) => format!("{count} rings"),
            _ => String::new(),
        };
        label(out, &name, &format!("{} GB/s: {}", number(ring.rate), ring.order.join(" ")))?;
    }
    label(out, "reason", &choice.reason)?;
    if let Some(advice) = &choice.halo {
        halo::show(out, advice)?;
    }
    let known = |all: &[Option<String>]| all.iter().any(Option::is_some);
    if known(&choice.nics) {
        let rate = choice.nic_rate.map_or_else(String::new, |r| format!(" ({} GB/s for all, both ways)", number(r)));
        label(out, "NICs", &format!("{}{rate}", alike(&choice.order, &choice.nics)))?;
    }
    if known(&choice.cores) {
        label(out, "cores", &alike(&choice.order, &choice.cores))?;
    }
    let memory: Vec<Option<String>> = choice.memory.iter().map(|node| node.map(|n| format!("node {n}"))).collect();
    if known(&memory) {
        label(out, "memory", &alike(&choice.order, &memory))?;
    }
    Ok(())
}

fn predicted(out: &mut dyn Write, choice: &Choice) -> io::Result<()> {
    let Some(rate) = choice.predicted else { return Ok(()) };
    let alone = choice.alone.filter(|alone| *alone > rate * 1.005);
    let alone = alone.map_or_else(String::new, |alone| format!(", {} without the other jobs", number(alone)));
    let gain = choice.gain.map_or_else(String::new, |gain| format!("; {}", gained(gain)));
    label(out, "predicted", &format!("{} GB/s{alone}{gain}", number(rate)))
}

/// A job on a cluster: which GPUs of which nodes, through which NICs; its rings one by one only in full.
fn job_on_nodes(out: &mut dyn Write, choice: &Choice, number_of: Option<usize>, verbose: bool) -> io::Result<()> {
    let title = number_of.map_or_else(|| "Choice".to_owned(), |n| format!("Job {n}"));
    let nodes = on_nodes(choice);
    let gpus = count(choice.gpus.len(), "GPU");
    let on = count(nodes.iter().map(|(nodes, _)| nodes.len()).sum(), "node");
    writeln!(out, "\n{}  {}", paint(style::HEADING, &title), paint(style::GPU, &format!("{gpus} on {on}")))?;
    for (at, (names, devices)) in nodes.iter().enumerate() {
        label(out, if at == 0 { "GPUs" } else { "" }, &format!("{}: {devices}", ranges(names)))?;
    }
    predicted(out, choice)?;
    let rings = choice.rings.as_deref().unwrap_or_default();
    if let [first, .., last] = rings {
        let (low, high) = (number(first.rate.min(last.rate)), number(first.rate.max(last.rate)));
        let each = if low == high { format!("{low} GB/s each") } else { format!("{low} to {high} GB/s each") };
        label(out, &format!("{} rings", rings.len()), &each)?;
    }
    if verbose {
        for ring in rings {
            label(out, "", &format!("{} GB/s: {}", number(ring.rate), ring.order.join(" ")))?;
        }
        if rings.is_empty() {
            label(out, "order", &choice.order.join(" "))?;
        }
    }
    label(out, "reason", &choice.reason)
}

/// Nodes with the same GPUs and NICs of the job, and these.
fn on_nodes(choice: &Choice) -> Vec<(Vec<&str>, String)> {
    fn split(name: &str) -> (&str, &str) {
        name.split_once('/').unwrap_or(("", name))
    }
    let nic_of = |gpu: &String| {
        let at = choice.order.iter().position(|other| other == gpu)?;
        choice.nics.get(at)?.as_deref().map(|nic| split(nic).1)
    };
    let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
    for of_node in choice.gpus.chunk_by(|a, b| split(a).0 == split(b).0) {
        let gpus: Vec<&str> = of_node.iter().map(|gpu| split(gpu).1).collect();
        let mut nics: Vec<&str> = of_node.iter().filter_map(nic_of).collect();
        nics.dedup();
        let through = if nics.is_empty() { String::new() } else { format!(" through {}", ranges(&nics)) };
        let (node, devices) = (split(&of_node[0]).0, format!("{}{through}", ranges(&gpus)));
        match groups.iter_mut().find(|(_, known)| *known == devices) {
            Some((nodes, _)) => nodes.push(node),
            None => groups.push((vec![node], devices)),
        }
    }
    groups
}

/// `mlx5_2 for GPU0 GPU1; mlx5_3 for GPU2`.
fn alike(order: &[String], what: &[Option<String>]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (gpu, what) in order.iter().zip(what) {
        let what = what.as_deref().unwrap_or("unknown");
        match groups.iter_mut().find(|(name, _)| *name == what) {
            Some((_, gpus)) => gpus.push(gpu),
            None => groups.push((what, vec![gpu])),
        }
    }
    match groups.as_slice() {
        [(all, _)] => format!("{all} for all"),
        _ => {
            let words: Vec<String> =
                groups.iter().map(|(name, gpus)| format!("{name} for {}", gpus.join(" "))).collect();
            words.join("; ")
        }
    }
}

fn gained(gain: f64) -> String {
    if gain.abs() < 0.005 {
        "same as GPUs by number".to_owned()
    } else {
        format!("{:+.0} % over GPUs by number", 100.0 * gain)
    }
}

fn compared(out: &mut dyn Write, document: &PlacementDocument) -> io::Result<()> {
    if document.compared.is_empty() {
        return Ok(());
    }
    let names = document.compared.iter().map(|c| width(&c.name)).max().unwrap_or(0);
    writeln!(out, "\n{}", paint(style::HEADING, &format!("Other placements, {} in GB/s", what(document))))?;
    for other in &document.compared {
        let jobs: Vec<String> = other.jobs.iter().map(|order| ranges(order)).collect();
        let gain =
            if other.gain.abs() < 0.005 { "equal".to_owned() } else { format!("choice {:+.0} %", 100.0 * other.gain) };
        let line = format!("  {:<names$}  {:>6}  {gain:<13} {}", other.name, number(other.predicted), jobs.join(" | "));
        writeln!(out, "{}", fit(&line, line_width()))?;
    }
    Ok(())
}

/// The rate by which placements are ranked.
fn what(document: &PlacementDocument) -> &'static str {
    if document.workload == Workload::AllReduce { "all-reduce" } else { "slowest transfer" }
}

fn proof(document: &PlacementDocument) -> String {
    let worst = document.worst.map_or_else(String::new, |w| format!("; the worst has {} GB/s", number(w)));
    let what = if document.exact {
        format!("No other placement has a faster {}", what(document))
    } else {
        "This is the best placement found; there are too many to rule out a faster one".to_owned()
    };
    format!("{what}{worst}. This is a prediction; no setting was changed.")
}
