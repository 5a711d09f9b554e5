//! What shares a limit behind a machine's ports, how sure that is, and what cannot be told.

use std::io::{self, Write};

use peerlane::infer::{FlowKind, Inference, InferredGroup, RateGroups};
use peerlane::names::ranges;

use super::style::{self, paint};
use super::text::{count, hang, number, span};

/// Sets that are named for a group; the rest are counted.
const FEW_SETS: usize = 2;

/// What cannot be told is cut after so many, unless all is asked for.
const FEW: usize = 4;

/// The source of what was asked of this machine.
pub(crate) const LIVE: &str = "measured live";

/// From here on a group is taken for certain.
const SURE: f64 = 0.99;

/// Below this it is a guess.
const LIKELY: f64 = 0.9;

pub(crate) fn write(out: &mut dyn Write, found: &Inference, verbose: bool) -> io::Result<()> {
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
            "no two transfers are known to have run at once, so that shared limits do not show".to_owned()
        }
        0 if found.coverage.iter().all(|a| a.flows < 2) => "one GPU, which shares with no other".to_owned(),
        0 => "no limit that transfers share was reached".to_owned(),
        n => {
            let sure = found.groups.iter().filter(|g| g.confidence >= SURE).count();
            let doubt = if sure == n { String::new() } else { format!(", {sure} of them sure") };
            format!("{}{doubt}", count(n, "shared limit"))
        }
    };
    // a live machine's name is its host's, which may say nothing
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

/// `GPU0–GPU3 share 155.8 (154.0–157.7), sure (99.9 %)`; in GB/s.
pub(crate) fn words(group: &InferredGroup) -> String {
    format!("{} share {}", members(group), limit(group))
}

/// `GPU0–GPU3`.
pub(crate) fn members(group: &InferredGroup) -> String {
    listed(&group.members)
}

/// `155.8 (154.0–157.7), sure (99.9 %)`; in GB/s.
pub(crate) fn limit(group: &InferredGroup) -> String {
    format!("{} ({}), {}", number(group.capacity), span(group.low, group.high), how_sure(group.confidence))
}

fn how_sure(confidence: f64) -> String {
    let percent = 100.0 * confidence;
    match confidence {
        c if c >= SURE => format!("sure ({percent:.1} %)"),
        c if c >= LIKELY => format!("likely ({percent:.0} %)"),
        _ => format!("a guess ({percent:.0} %)"),
    }
}

/// The sets in which a group was full, the smallest first.
pub(crate) fn shown_by(found: &Inference, group: &InferredGroup, verbose: bool) -> String {
    let mut sets: Vec<&peerlane::infer::Experiment> =
        group.sets.iter().filter_map(|at| found.experiments.get(*at)).collect();
    // a lone flow that fills it says nothing of sharing
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
            format!("{} at once, {each} each", listed(&set.members))
        })
        .collect();
    let more = match sets.len().saturating_sub(named.len()) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    format!("full in {}: {}{more}", count(sets.len(), "set"), named.join("; "))
}

fn between_kinds(out: &mut dyn Write, found: &Inference) -> io::Result<()> {
    if found.interference.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, "All of one kind beside all of another"))?;
    for beside in &found.interference {
        let [a, b] = beside.directions;
        let [kept_a, kept_b] = beside.kept.map(|kept| format!("{:.0} %", 100.0 * kept));
        let so = beside.verdict();
        let text = format!("{} keeps {kept_a} of its rate, {} {kept_b}: {so}", a.words(), b.words());
        hang(out, "  ", &text)?;
    }
    Ok(())
}

/// What matrices of lone pairs tell; those in which all pairs are alike in a line.
fn lone_pairs(out: &mut dyn Write, found: &Inference, verbose: bool) -> io::Result<()> {
    let plain = |told: &&RateGroups| told.groups.is_empty() && told.between.len() < 2;
    for told in found.rate_groups.iter().filter(|told| verbose || !plain(told)) {
        pairs(out, told)?;
    }
    let alike: Vec<&RateGroups> = found.rate_groups.iter().filter(|told| !verbose && plain(told)).collect();
    if let (Some(first), more) = (alike.first(), alike.len().saturating_sub(1)) {
        let (low, high) = first.between.first().map_or((0.0, 0.0), |level| (level.low, level.high));
        let more =
            if more > 0 { format!("; so are those of {} more (-v)", count(more, "matrix")) } else { String::new() };
        writeln!(out)?;
        hang(out, "", &format!("All lone pairs are alike in {}: {} GB/s{more}.", first.matrix, span(low, high)))?;
    }
    Ok(())
}

/// GPUs that are alike by the rates of lone pairs, and cells that are not as others.
fn pairs(out: &mut dyn Write, told: &RateGroups) -> io::Result<()> {
    let stated = if told.published { "published" } else { "recorded" };
    writeln!(out)?;
    hang(out, "", &paint(style::HEADING, &format!("Lone pairs, GB/s ({stated}: {})", told.matrix)))?;
    for group in &told.groups {
        hang(out, "  ", &format!("{} among each other: {}", listed(&group.members), span(group.low, group.high)))?;
    }
    for (at, level) in told.between.iter().enumerate() {
        let whose = match (&level.noticed, told.groups.is_empty(), at) {
            (Some(noticed), ..) => format!("noticed: {noticed}"),
            (None, true, _) => "all pairs".to_owned(),
            (None, false, _) if told.between.len() == 1 => "all other pairs".to_owned(),
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
    writeln!(out, "\n{}", paint(style::HEADING, "What cannot be told"))?;
    let most = if verbose { usize::MAX } else { FEW };
    for open in found.unidentifiable.iter().take(most) {
        let least = match open.at_least {
            Some(least) => format!("{} carry at least {} GB/s together", listed(&open.members), number(least)),
            None => format!("whether {} share anything", listed(&open.members)),
        };
        let tell = match open.would_tell.as_slice() {
            [] => String::new(),
            [one] if *one == open.members => "; all of them at once would tell".to_owned(),
            sets => {
                let sets: Vec<String> = sets.iter().map(|set| listed(set)).collect();
                format!("; would tell, at once: {}", sets.join(" | "))
            }
        };
        hang(out, "  ", &format!("{}: {least}; {}{tell}", open.direction.words(), open.why))?;
    }
    match found.unidentifiable.len().saturating_sub(most) {
        0 => Ok(()),
        n => writeln!(out, "  and {n} more; -v shows them"),
    }
}

fn alone(out: &mut dyn Write, found: &Inference) -> io::Result<()> {
    if found.coverage.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, "Alone, GB/s"))?;
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
    let repeats = repeats.map_or_else(String::new, |n| format!("; each with {n} allocations of memory"));
    writeln!(out)?;
    hang(out, "", &format!("Sets that ran: {}{repeats}.", words.join(", ")))
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

/// Names in few words; of flows between GPUs each.
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
