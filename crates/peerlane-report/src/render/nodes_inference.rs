//! What a record between nodes shows of leaf switches and their uplinks, in a terminal.

use std::io::{self, Write};

use peerlane::infer::{NodeGroup, NodesInference, RailInference, Uplink};
use peerlane::names::ranges;

use super::Detail;
use super::style::{self, paint};
use super::text::{count, hang, number, span};

/// Groups shown by default.
const SHOWN: usize = 8;

/// What is unknown, shown by default.
const FEW: usize = 4;

/// Two factors of oversubscription that differ by less are the same.
const ALIKE: f64 = 0.05;

/// Writes the network that was inferred from what nodes delivered to each other.
pub fn write(out: &mut dyn Write, found: &NodesInference, Detail { verbose, quiet }: Detail) -> io::Result<()> {
    hang(out, "", &paint(style::HEADING, &verdict(found)))?;
    if quiet {
        return Ok(());
    }
    for alike in by_likeness(&found.rails) {
        rail(out, &alike, verbose)?;
    }
    let mut open: Vec<(&str, &str)> = Vec::new();
    for undetermined in found.rails.iter().flat_map(|rail| &rail.undetermined) {
        let of = (undetermined.what.as_str(), undetermined.would_tell.as_str());
        if !open.iter().any(|(what, _)| *what == of.0) {
            open.push(of);
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, "Undetermined"))?;
    let most = if verbose { usize::MAX } else { FEW };
    for (what, tell) in open.iter().take(most) {
        hang(out, "  ", &format!("{what}. What would tell: {tell}"))?;
    }
    match open.len().saturating_sub(most) {
        0 => Ok(()),
        n => writeln!(out, "  and {n} more (-v shows them)"),
    }
}

/// The result in a sentence.
fn verdict(found: &NodesInference) -> String {
    let of = format!("{}, {}", found.name, count(found.nodes, "node"));
    let groups = found.rails.iter().map(|rail| rail.groups.len()).max().unwrap_or(0);
    let times: Vec<f64> = found.rails.iter().filter_map(RailInference::oversubscription).collect();
    let (least, most) =
        (times.iter().copied().fold(f64::INFINITY, f64::min), times.iter().copied().fold(0.0, f64::max));
    let free = |link: &Option<Uplink>| link.as_ref().is_some_and(|link| !link.is_full() && link.times < 1.0 + ALIKE);
    let all_free = found.rails.iter().flat_map(|rail| &rail.groups).all(|group| free(&group.out) && free(&group.into));
    let what = match (found.rails.len(), groups) {
        (0, _) => "nothing was measured between their hosts".to_owned(),
        (_, 0) => "no groups of nodes, and no limit that they share".to_owned(),
        _ if most >= 1.0 && most - least < 2.0 * ALIKE => {
            format!("{groups} leaf switches, and links above them that are {most:.1} times oversubscribed")
        }
        _ if most >= 1.0 => {
            format!(
                "{groups} leaf switches, and links above them that are {least:.1} to {most:.1} times oversubscribed"
            )
        }
        _ if all_free => {
            format!("{groups} leaf switches, and links above them that carried all that was sent at once")
        }
        _ => format!("{groups} leaf switches; no link above them was full"),
    };
    format!("{of}: {what}")
}

/// NICs whose groups have the same nodes, and whose links are as oversubscribed.
fn by_likeness(rails: &[RailInference]) -> Vec<Vec<&RailInference>> {
    let like = |a: &RailInference, b: &RailInference| {
        let nodes = |rail: &RailInference| rail.groups.iter().map(|group| group.nodes.clone()).collect::<Vec<_>>();
        let times = (a.oversubscription().unwrap_or(1.0) / b.oversubscription().unwrap_or(1.0) - 1.0).abs();
        a.transport == b.transport && nodes(a) == nodes(b) && times < ALIKE
    };
    let mut all: Vec<Vec<&RailInference>> = Vec::new();
    for rail in rails {
        match all.iter_mut().find(|own| own.first().is_some_and(|first| like(first, rail))) {
            Some(own) => own.push(rail),
            None => all.push(vec![rail]),
        }
    }
    all
}

fn rail(out: &mut dyn Write, alike: &[&RailInference], verbose: bool) -> io::Result<()> {
    let Some(first) = alike.first() else { return Ok(()) };
    let nics: Vec<&str> = alike.iter().filter_map(|rail| rail.nic.as_deref()).collect();
    let title = match nics.as_slice() {
        [] => first.transport.to_string(),
        [one] => format!("{one} ({})", first.transport),
        [one, ..] => format!("{} ({}), figures of {one}", ranges(&nics), first.transport),
    };
    if first.groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, &title))?;
    let most = if verbose { usize::MAX } else { SHOWN };
    for NodeGroup { nodes, pairs, within, beyond, out: up, into } in first.groups.iter().take(most) {
        let pairs = count(*pairs, "pair");
        let names = format!("{}: {within:.2} µs among them by {pairs}, {beyond:.2} µs to others", ranges(nodes));
        hang(out, "  ", &names)?;
        for (way, link) in [("out", up), ("in", into)] {
            if let Some(link) = link {
                hang(out, &format!("      {way:<4}"), &uplink(link))?;
            }
        }
    }
    match first.groups.len().saturating_sub(most) {
        0 => Ok(()),
        n => writeln!(out, "  and {n} more groups (-v shows them)"),
    }
}

/// `198.1 GB/s (196.0–200.2) of the 396.0 that its nodes reach, 2.0 times oversubscribed: 24 of 24 pairs slowed in 3 rounds`
fn uplink(link: &Uplink) -> String {
    let Uplink { capacity, low, high, wanted, times, rounds, pairs, slowed } = link;
    let carried = format!("{} GB/s ({})", number(*capacity), span(*low, *high));
    let wanted = number(*wanted);
    if link.is_full() {
        let rounds = count(*rounds, "round");
        return format!(
            "{carried} of the {wanted} that its nodes reach, {times:.1} times oversubscribed: {slowed} of {pairs} pairs slowed in {rounds}"
        );
    }
    let slowed = if *slowed == 0 { "none".to_owned() } else { slowed.to_string() };
    format!("at least {carried} of the {wanted} that its nodes reach: {slowed} of {pairs} pairs slowed")
}
