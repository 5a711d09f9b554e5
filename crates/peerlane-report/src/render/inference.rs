//! Inferred shared limits, with their confidence, and what could not be determined.

use std::io::{self, Write};

use peerlane::infer::{FlowKind, Inference, InferredGroup, RateGroups};
use peerlane::names::ranges;

use super::style::{self, paint};
use super::text::{count, hang, number, span};

/// Sets shown for a group; the rest are counted.
const FEW_SETS: usize = 2;

/// Undetermined limits shown by default.
const FEW: usize = 4;

/// The source of an experiment on this machine.
pub const LIVE: &str = "measured live";

/// Confidence from which on a group counts as certain.
const SURE: f64 = 0.99;

/// Confidence below which it is uncertain.
const LIKELY: f64 = 0.9;

/// Writes what was inferred, how sure it is and, with `verbose`, what it rests on.
pub fn write(out: &mut dyn Write, found: &Inference, verbose: bool) -> io::Result<()> {
    hang(out, "", &paint(style::HEADING, &verdict(found)))?;
    groups(out, found, verbose)?;
    between_kinds(out, found)?;
    lone_pairs(out, found, verbose)?;
    unknown(out, found, verbose)?;
    for note in &found.notes {
        hang(out, "  ", note)?;
    }
    alone(out, found)?;
    asked(out, found)?;
    if verbose {
        experiments(out, found)?;
    }
    Ok(())
}

/// The result in a sentence.
fn verdict(found: &Inference) -> String {
    let what = match found.groups.len() {
        0 if found.coverage.is_empty() => {
            "no measurements of concurrent transfers, which would show shared limits".to_owned()
        }
        0 if found.coverage.iter().all(|a| a.flows < 2) => "only one GPU, so nothing is shared".to_owned(),
        0 => "no shared limit was reached".to_owned(),
        n => {
            let sure = found.groups.iter().filter(|g| g.confidence >= SURE).count();
            let doubt = if sure == n { String::new() } else { format!(", {sure} of them certain") };
            format!("{}{doubt}", count(n, "shared limit"))
        }
    };
    // a live machine's name is its host name, which may mean nothing to the reader
    let gpus = found.coverage.iter().map(|a| a.flows).max().unwrap_or(0);
    let live = found.source == LIVE;
    let name =
        if live { format!("This machine ({}, {})", found.machine, count(gpus, "GPU")) } else { found.machine.clone() };
    format!("{name}: {what} ({})", found.source)
}

fn groups(out: &mut dyn Write, found: &Inference, verbose: bool) -> io::Result<()> {
    for way in FlowKind::ALL {
        let groups: Vec<&InferredGroup> = found.groups.iter().filter(|g| g.direction == way).collect();
        if groups.is_empty() {
            continue;
        }
        writeln!(out, "\n{}", paint(style::HEADING, &format!("{}, shared limits in GB/s", capital(way.words()))))?;
        for group in groups {
            hang(out, "  ", &words(group))?;
            hang(out, "      ", &paint(style::DIM, &shown_by(found, group, verbose)))?;
        }
    }
    Ok(())
}

/// `GPU0–GPU3 share 155.8 (154.0–157.7), confidence 99.9 %`; in GB/s.
pub fn words(group: &InferredGroup) -> String {
    format!("{} share {}", members(group), limit(group))
}

/// `GPU0–GPU3`.
pub fn members(group: &InferredGroup) -> String {
    listed(&group.members)
}

/// `155.8 (154.0–157.7), confidence 99.9 %`; in GB/s.
pub fn limit(group: &InferredGroup) -> String {
    format!("{} ({}), {}", number(group.capacity), span(group.low, group.high), confidence(group.confidence))
}

fn confidence(confidence: f64) -> String {
    let percent = 100.0 * confidence;
    match confidence {
        c if c >= SURE => format!("confidence {percent:.1} %"),
        c if c >= LIKELY => format!("confidence {percent:.0} %"),
        _ => format!("low confidence ({percent:.0} %)"),
    }
}

/// The sets in which a group reached its limit, the smallest first.
pub fn shown_by(found: &Inference, group: &InferredGroup, verbose: bool) -> String {
    let mut sets: Vec<&peerlane::infer::Experiment> =
        group.sets.iter().filter_map(|at| found.experiments.get(*at)).collect();
    // a single flow that reaches it shows nothing about sharing
    if sets.iter().any(|set| set.members.len() > 1) {
        sets.retain(|set| set.members.len() > 1);
    }
    sets.sort_by_key(|set| set.members.len());
    let most = if verbose { usize::MAX } else { FEW_SETS };
    let named: Vec<String> = sets
        .iter()
        .take(most)
        .map(|set| {
            let of_group = set.members.iter().zip(&set.rates).filter(|(m, _)| group.members.contains(m));
            let rates: Vec<f64> = of_group.map(|(_, rate)| *rate).collect();
            let each =
                span(rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max));
            format!("{} concurrently, {each} each", listed(&set.members))
        })
        .collect();
    let more = match sets.len().saturating_sub(named.len()) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    format!("reached in {}: {}{more}", count(sets.len(), "set"), named.join("; "))
}

fn between_kinds(out: &mut dyn Write, found: &Inference) -> io::Result<()> {
    if found.interference.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, "Interference between kinds of transfers"))?;
    for pair in &found.interference {
        let [a, b] = pair.directions;
        let [kept_a, kept_b] = pair.kept.map(|kept| format!("{:.0} %", 100.0 * kept));
        let verdict = pair.verdict();
        let text = format!("{} keeps {kept_a} of its rate, {} {kept_b}: {verdict}", a.words(), b.words());
        hang(out, "  ", &text)?;
    }
    Ok(())
}

/// Matrices of pairs measured alone; those in which all pairs are alike share a line.
fn lone_pairs(out: &mut dyn Write, found: &Inference, verbose: bool) -> io::Result<()> {
    let plain = |rates: &&RateGroups| rates.groups.is_empty() && rates.between.len() < 2;
    for rates in found.rate_groups.iter().filter(|rates| verbose || !plain(rates)) {
        pairs(out, rates)?;
    }
    let alike: Vec<&RateGroups> = found.rate_groups.iter().filter(|rates| !verbose && plain(rates)).collect();
    if let (Some(first), more) = (alike.first(), alike.len().saturating_sub(1)) {
        let (low, high) = first.between.first().map_or((0.0, 0.0), |level| (level.low, level.high));
        let more =
            if more > 0 { format!("; also in {} (-v shows them)", count(more, "more matrix")) } else { String::new() };
        writeln!(out)?;
        hang(
            out,
            "",
            &format!("All pairs measured alone are alike in {}: {} GB/s{more}.", first.matrix, span(low, high)),
        )?;
    }
    Ok(())
}

/// Groups of GPUs by the rates of pairs measured alone, and cells that differ.
fn pairs(out: &mut dyn Write, rates: &RateGroups) -> io::Result<()> {
    let source = if rates.published { "published" } else { "recorded" };
    writeln!(out)?;
    hang(out, "", &paint(style::HEADING, &format!("Pairs measured alone, GB/s ({source}: {})", rates.matrix)))?;
    for group in &rates.groups {
        hang(out, "  ", &format!("among {}: {}", listed(&group.members), span(group.low, group.high)))?;
    }
    for (at, level) in rates.between.iter().enumerate() {
        let whose = match (&level.noticed, rates.groups.is_empty(), at) {
            (Some(noticed), ..) => format!("notable: {noticed}"),
            (None, true, _) => "all pairs".to_owned(),
            (None, false, _) if rates.between.len() == 1 => "all other pairs".to_owned(),
            (None, false, _) => "most other pairs".to_owned(),
        };
        hang(out, "  ", &format!("{whose}: {} ({})", span(level.low, level.high), count(level.pairs, "ordered pair")))?;
    }
    Ok(())
}

fn unknown(out: &mut dyn Write, found: &Inference, verbose: bool) -> io::Result<()> {
    if found.unidentifiable.is_empty() && found.notes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, "Undetermined"))?;
    let most = if verbose { usize::MAX } else { FEW };
    for open in found.unidentifiable.iter().take(most) {
        let least = match open.at_least {
            Some(least) => format!("{} carry at least {} GB/s in all", listed(&open.members), number(least)),
            None => format!("whether {} share anything", listed(&open.members)),
        };
        let tell = match open.would_tell.as_slice() {
            [] => String::new(),
            [one] if *one == open.members => "; measuring all of them at once would show it".to_owned(),
            sets => {
                let sets: Vec<String> = sets.iter().map(|set| listed(set)).collect();
                format!("; measuring these sets would show it: {}", sets.join(" | "))
            }
        };
        hang(out, "  ", &format!("{}: {least}; {}{tell}", open.direction.words(), open.why))?;
    }
    match found.unidentifiable.len().saturating_sub(most) {
        0 => Ok(()),
        n => writeln!(out, "  and {n} more (-v shows them)"),
    }
}

fn alone(out: &mut dyn Write, found: &Inference) -> io::Result<()> {
    if found.coverage.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, "Each transfer alone, GB/s"))?;
    for asked in &found.coverage {
        let mut levels: Vec<(String, Vec<&str>)> = Vec::new();
        for rate in &asked.alone {
            let words = if rate.rate >= 10.0 { format!("{:.1}", rate.rate) } else { number(rate.rate) };
            match levels.iter_mut().find(|(level, _)| *level == words) {
                Some((_, flows)) => flows.push(&rate.flow),
                None => levels.push((words, vec![&rate.flow])),
            }
        }
        let words: Vec<String> = levels.iter().map(|(level, flows)| format!("{level} {}", listed(flows))).collect();
        hang(out, &format!("  {:<17}", asked.direction.words()), &words.join("; "))?;
    }
    Ok(())
}

fn asked(out: &mut dyn Write, found: &Inference) -> io::Result<()> {
    let words: Vec<String> = found
        .coverage
        .iter()
        .map(|asked| {
            let allowed = asked.allowed.map_or_else(String::new, |n| format!(" of at most {n}"));
            format!("{} {}{allowed}", asked.direction.words(), asked.sets)
        })
        .collect();
    if words.is_empty() {
        return Ok(());
    }
    let repeats = found.coverage.iter().find_map(|a| a.repeats);
    let repeats = repeats.map_or_else(String::new, |n| format!("; each with {n} memory allocations"));
    writeln!(out)?;
    hang(out, "", &format!("Sets measured: {}{repeats}.", words.join(", ")))
}

fn experiments(out: &mut dyn Write, found: &Inference) -> io::Result<()> {
    for way in FlowKind::ALL {
        let sets: Vec<_> = found.experiments.iter().filter(|e| e.direction == way).collect();
        if sets.is_empty() {
            continue;
        }
        writeln!(out, "\n{}", paint(style::HEADING, &format!("{}, every set in GB/s", capital(way.words()))))?;
        for set in sets {
            let each: Vec<String> = set.rates.iter().map(|rate| number(*rate)).collect();
            let sum: f64 = set.rates.iter().sum();
            let sum = if set.rates.len() > 1 { format!(" = {}", number(sum)) } else { String::new() };
            hang(out, "  ", &format!("{}: {}{sum}", listed(&set.members), each.join(" + ")))?;
        }
    }
    Ok(())
}

/// Names in short; flows between GPUs are listed one by one.
fn listed<S: AsRef<str>>(names: &[S]) -> String {
    if names.iter().any(|name| name.as_ref().contains(['→', '↔'])) {
        names.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ")
    } else {
        ranges(names)
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
