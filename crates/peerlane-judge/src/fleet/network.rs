//! Machines by their records between nodes: what the judge of these finds on each, again and again, and what is a matter of the
//! network between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::between::{About, Accused};
use super::document::Outlier;
use super::judge::of_rule;
use super::machines::Machine;
use super::outliers::Suspect;
use super::rules::Seen;
use super::shown::digits;
use super::usual::FEWEST;
use crate::action::Action;
use crate::check::{OUTLIER, Settings, WORSE_THAN_BEFORE};
use crate::finding::{Certainty, Finding, Severity};
use peerlane_machine::names::natural;
use peerlane_machine::subject::{Subject, join};

/// Of a record's nodes this share is not at fault together: the network between them is, or what they all have in common.
const MOST: f64 = 0.5;

/// A node at the end of slow paths in so many records, to as many partners, is named, though each of these paths may be at fault.
const ENDS: usize = 3;

/// The records of now, the oldest first.
pub(super) fn records<'m>(all: &'m [Machine]) -> Vec<&'m About> {
    let nodes =
        all.iter().filter_map(Machine::of_nodes).flat_map(|machine| machine.records.iter().skip(machine.baseline));
    let abouts: BTreeMap<u64, &About> =
        nodes.filter_map(|node| node.between.as_deref()).map(|about| (about.content, about)).collect();
    let mut abouts: Vec<&About> = abouts.into_values().collect();
    abouts.sort_by(|a, b| a.began.cmp(&b.began).then_with(|| natural(&a.file).cmp(&natural(&b.file))));
    abouts
}

/// A part that records name: the finding of the last one, and how many do.
struct Named {
    finding: Finding,
    times: usize,
}

/// What records say of one part, the oldest first: each that could name it, with what it says.
fn standing(said: &[Option<&Accused>]) -> Option<Named> {
    let times = said.iter().flatten().count();
    let last = said.iter().rev().flatten().next()?;
    if said.last().is_some_and(Option::is_some) {
        return Some(Named { finding: last.finding.clone(), times });
    }
    // what was once is over
    (times > 1).then(|| {
        let summary = format!("in {times} of {} records, but not in the last: {}", said.len(), last.finding.summary);
        let severity = last.finding.severity.min(Severity::Warning);
        Named { finding: Finding { summary, severity, certainty: Certainty::Possible, ..last.finding.clone() }, times }
    })
}

/// What the records of a machine find on it.
pub(super) fn seen(machine: &Machine, settings: &Settings) -> Seen {
    let abouts: Vec<&Arc<About>> =
        machine.records.iter().skip(machine.baseline).filter_map(|node| node.between.as_ref()).collect();
    let host = machine.newest.name.as_str();
    let mut parts: BTreeMap<(String, &str), Vec<Option<&Accused>>> = BTreeMap::new();
    let mut found = Seen::default();
    for (at, about) in abouts.iter().enumerate() {
        for accused in about.accused.iter().filter(|accused| accused.host.as_deref() == Some(host)) {
            if settings
                .waiver(&about.name, &Finding { subjects: accused.written.clone(), ..accused.finding.clone() })
                .is_some()
            {
                found.waived += usize::from(at + 1 == abouts.len());
                continue;
            }
            let key = (join(&accused.finding.subjects, " "), accused.finding.rule.as_str());
            let said = parts.entry(key).or_insert_with(|| vec![None; abouts.len()]);
            if let Some(slot) = said.get_mut(at) {
                *slot = Some(accused);
            }
        }
    }
    for ((part, _), said) in &parts {
        // a part that fails in one way today and in another tomorrow is the same part
        let of_part = parts.iter().filter(|((other, _), _)| other == part);
        let times: BTreeSet<usize> = of_part
            .flat_map(|(_, said)| said.iter().enumerate().filter(|(_, said)| said.is_some()).map(|(at, _)| at))
            .collect();
        if let Some(named) = standing(said) {
            found.repeats.insert(part.clone(), times.len().max(named.times));
            found.faults.push(named.finding);
        }
    }
    found.faults.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

/// Where a node as a whole is at fault, all of its numbers that are off are one suspect, with the worst of them.
pub(super) fn explained(machine: &str, seen: &Seen, suspects: &mut Vec<Suspect>) {
    let whole = |finding: &Finding| {
        let of_node = matches!(finding.rule.as_str(), "slow-node" | "lost-node");
        of_node && finding.subjects.iter().any(|subject| matches!(subject, Subject::Machine(_)))
    };
    if !seen.faults.iter().any(whole) {
        return;
    }
    let all = std::mem::take(suspects);
    let (numbers, repeats) =
        (all.iter().map(|of| of.numbers).sum(), all.iter().map(|of| of.repeats).max().unwrap_or(1));
    let worst =
        all.into_iter().max_by(|a, b| a.worst.is_some().cmp(&b.worst.is_some()).then(a.loss.total_cmp(&b.loss)));
    suspects.extend(worst.map(|worst| {
        let finding = Finding { subjects: vec![Subject::Machine(machine.to_owned())], ..worst.finding };
        Suspect { finding, numbers, repeats, ..worst }
    }));
}

/// Takes out what is a matter of the network, and returns it: numbers that are off on most nodes of a record; and where a switch is
/// at fault, numbers of nodes on which its record finds nothing.
pub(super) fn of_records(members: &[&Machine], suspects: &mut [Vec<Suspect>], seen: &[Seen]) -> Vec<Outlier> {
    /// What is found on nodes of one record.
    struct Together<'a> {
        about: &'a About,
        nodes: usize,
        off: BTreeMap<String, usize>,
    }
    let about = |machine: &Machine| machine.newest.between.clone();
    let newest: Vec<Option<Arc<About>>> = members.iter().map(|machine| about(machine)).collect();
    let mut records: BTreeMap<u64, Together> = BTreeMap::new();
    for (about, own) in newest.iter().zip(&*suspects) {
        let Some(about) = about else { continue };
        let record = records.entry(about.content).or_insert_with(|| Together { about, nodes: 0, off: BTreeMap::new() });
        record.nodes += 1;
        let rules: BTreeSet<&str> = own.iter().map(|suspect| suspect.finding.rule.as_str()).collect();
        rules.into_iter().for_each(|rule| *record.off.entry(rule.to_owned()).or_default() += 1);
    }
    let mut found = Vec::new();
    for (content, Together { about, nodes, off }) in &records {
        let is_of = |of: &Option<Arc<About>>| of.as_ref().is_some_and(|of| of.content == *content);
        let has_switch = about.accused.iter().any(|accused| accused.finding.rule == "slow-switch");
        for (rule, off) in off {
            let most = *nodes >= FEWEST && *off as f64 > MOST * *nodes as f64;
            let mut worst: Option<Suspect> = None;
            for ((of, own), seen) in newest.iter().zip(suspects.iter_mut()).zip(seen) {
                if !is_of(of) {
                    continue;
                }
                let (taken, kept): (Vec<Suspect>, Vec<Suspect>) =
                    std::mem::take(own).into_iter().partition(|suspect| {
                        suspect.finding.rule == *rule && (most || (has_switch && seen.faults.is_empty()))
                    });
                *own = kept;
                for suspect in taken {
                    if worst.as_ref().is_none_or(|worst| suspect.loss > worst.loss) {
                        worst = Some(suspect);
                    }
                }
            }
            if let Some(worst) = worst.filter(|_| most) {
                found.push(together(about, worst, [*off, *nodes]));
            }
        }
    }
    found
}

/// Numbers of most nodes of a record, as a finding on their network.
fn together(about: &About, worst: Suspect, [off, nodes]: [usize; 2]) -> Outlier {
    let than = match worst.finding.rule.as_str() {
        rule if rule == WORSE_THAN_BEFORE.id => "worse than in earlier records",
        rule if rule == OUTLIER.id => "worse than nodes of their kind in other records",
        other => other,
    };
    let finding = Finding {
        summary: format!("{off} of {nodes} nodes are {than}, by up to {:.0} %", 100.0 * worst.loss),
        subjects: vec![Subject::Group { nodes: Vec::new(), words: "most nodes".to_owned() }],
        fix: "Look for what these nodes have in common: the switches and the uplinks between them, MTU, drivers and firmware that \
              were changed, jobs that ran at the time."
            .to_owned(),
        ..worst.finding
    };
    Outlier {
        action: Action::Monitor,
        worst: worst.worst.map(|worst| worst.figures.rounded()),
        loss: digits(worst.loss.clamp(0.0, 1.0)),
        ..of_rule(&about.name, &about.file, finding, 1)
    }
}

/// Paths and switches that records name, with how many of them do; and how many the site waives.
pub(super) fn between(records: &[&About], settings: &Settings) -> (Vec<Outlier>, usize) {
    /// By record where it is no path, part, and rule: the records that name it.
    type Parts<'a> = BTreeMap<(String, String, &'a str), Vec<(usize, &'a Accused)>>;
    let mut parts: Parts = BTreeMap::new();
    let mut waived = 0;
    for (at, about) in records.iter().enumerate() {
        for accused in about.accused.iter().filter(|accused| accused.host.is_none()) {
            if settings.waiver(&about.name, &accused.finding).is_some() {
                waived += 1;
                continue;
            }
            // of a path the nodes tell which it is, of a switch the record's name
            let (scope, part) = match pair(accused) {
                Some((a, b)) => (String::new(), format!("{a}-{b}")),
                None => (about.name.clone(), join(&accused.finding.subjects, " ")),
            };
            parts.entry((scope, part, accused.finding.rule.as_str())).or_default().push((at, accused));
        }
    }
    let mut found = Vec::new();
    for ((scope, ..), all) in &parts {
        let Some((last, accused)) = all.last() else { continue };
        let could = |about: &About| match pair(accused) {
            Some((a, b)) => about.hosts.contains_key(a) && about.hosts.contains_key(b),
            None => about.name == *scope,
        };
        let could = records.iter().enumerate().filter(|(_, about)| could(about));
        let said: Vec<Option<&Accused>> =
            could.map(|(at, _)| all.iter().find(|(own, _)| *own == at).map(|(_, accused)| *accused)).collect();
        if let (Some(named), Some(about)) = (standing(&said), records.get(*last)) {
            let of = of_rule(&about.name, &about.file, named.finding, named.times);
            // it takes no machine out of service
            found.push(Outlier { action: Action::Monitor, ..of });
        }
    }
    (found, waived)
}

/// The ends of a path, in the order of their names.
fn pair(accused: &Accused) -> Option<(&str, &str)> {
    let [Subject::Pair(a, b)] = accused.finding.subjects.as_slice() else { return None };
    let host = |end: &'_ str| end.split_once('/').map_or(end.len(), |(host, _)| host.len());
    let (a, b) = (a.get(..host(a))?, b.get(..host(b))?);
    Some(if natural(a) <= natural(b) { (a, b) } else { (b, a) })
}

/// Slow paths with one machine at an end.
#[derive(Default)]
struct Ends<'a> {
    /// The records that name one.
    times: BTreeSet<usize>,
    /// Who is at the other end.
    partners: BTreeSet<&'a str>,
    last: Option<&'a Finding>,
}

/// Machines that are at one end of slow paths again and again, with others at the other end each time.
pub(super) fn at_ends(records: &[&About]) -> BTreeMap<String, Finding> {
    let mut ends: BTreeMap<&str, Ends> = BTreeMap::new();
    for (at, about) in records.iter().enumerate() {
        for accused in about.accused.iter().filter(|accused| accused.finding.rule == "slow-between-nodes") {
            let Some((a, b)) = pair(accused) else { continue };
            for (own, other) in [(a, b), (b, a)] {
                let ends = ends.entry(own).or_default();
                ends.times.insert(at);
                ends.partners.insert(other);
                ends.last = Some(&accused.finding);
            }
        }
    }
    let often = ends.into_iter().filter(|(_, of)| of.times.len() >= ENDS && of.partners.len() >= ENDS);
    let finding = |(host, Ends { times, partners, last }): (&str, Ends)| {
        let summary = format!(
            "one end of slow paths in {} records, with {} others at the other end; each of these paths may be at fault, and so may it",
            times.len(),
            partners.len()
        );
        let subjects = vec![Subject::Machine(host.to_owned())];
        let fix = format!(
            "Exchange the cables of {host} with a neighbour's, if error counters of its NICs and switch ports rise."
        );
        let severity = Severity::Warning;
        let last = last?;
        Some((
            host.to_owned(),
            Finding { summary, subjects, fix, severity, certainty: Certainty::Possible, ..last.clone() },
        ))
    };
    often.filter_map(finding).collect()
}
