//! Which part explains the bad numbers of a machine: the GPU that nearly all of whose numbers are bad, or a pair.

use std::collections::{BTreeSet, HashSet};

use super::What;
use super::usual::Bad;
use peerlane_machine::blame::{Observation, explain};
use peerlane_machine::names::natural;
use peerlane_machine::subject::Subject;

/// More pairs than this are one group.
const MOST_PAIRS: usize = 4;

/// Bad numbers, and what explains them.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) subjects: Vec<Subject>,
    pub(super) bad: Vec<Bad<'a>>,
}

/// Splits bad numbers by the part that explains them. `all` are the machine's numbers.
pub(super) fn groups<'a>(machine: &str, bad: Vec<Bad<'a>>, all: &[&'a What]) -> Vec<Group<'a>> {
    if bad.is_empty() {
        return Vec::new();
    }
    let gpus: BTreeSet<&str> = all.iter().flat_map(|what| &what.gpus).map(String::as_str).collect();
    let (bad, sets): (Vec<Bad>, Vec<Bad>) = bad.into_iter().partition(|b| !b.what.set && !b.what.gpus.is_empty());
    let known: HashSet<*const What> = bad.iter().map(|b| std::ptr::from_ref(b.what)).collect();
    let sound = all.iter().copied().filter(|what| !what.set && !known.contains(&std::ptr::from_ref(*what)));
    let observed: Vec<Observation<Part, &str>> =
        bad.iter().map(|b| observe(b.what, true)).chain(sound.map(|what| observe(what, false))).collect();
    let fewest = |(.., gpu): &Part, left: &[usize]| {
        let alone = |at: &usize| bad.get(*at).is_some_and(|b| b.what.gpus.len() == 1 && has(b.what, gpu));
        if left.iter().any(alone) { 1 } else { 2 }
    };
    let found = explain(&observed, fewest);
    let of = |places: &[usize]| places.iter().filter_map(|at| bad.get(*at).cloned()).collect::<Vec<Bad>>();
    let mut groups: Vec<Group> = Vec::new();
    let mut culprits = 0;
    for ((.., culprit), places) in &found.explained {
        let mine = of(places);
        let as_bad = |other: &String| Role::ALL.iter().any(|role| found.is_suspect(&part(*role, other)));
        let subjects = match partner(&mine, culprit).filter(as_bad) {
            Some(other) => vec![pair(culprit, &other)],
            None => {
                culprits += 1;
                vec![Subject::Node((*culprit).to_owned())]
            }
        };
        groups.push(Group { subjects, bad: mine });
    }
    if culprits > 1 && culprits == gpus.len() {
        // all of them: what they have in common
        let bad = groups.into_iter().flat_map(|group| group.bad).collect();
        groups = vec![Group { subjects: vec![Subject::Machine(machine.to_owned())], bad }];
    }
    groups.extend(pairs(of(&found.left)));
    for one in sets {
        let at = groups.iter().position(|group| {
            let nodes: Vec<&str> = group.subjects.iter().flat_map(Subject::nodes).collect();
            nodes.is_empty() || nodes.iter().any(|node| has(one.what, node))
        });
        match at.and_then(|at| groups.get_mut(at)) {
            Some(group) => group.bad.push(one),
            None => {
                let subject = if one.what.gpus.len() < gpus.len() && one.what.gpus.len() == 1 {
                    one.what.subject()
                } else {
                    Subject::Machine(machine.to_owned())
                };
                groups.push(Group { subjects: vec![subject], bad: vec![one] });
            }
        }
    }
    groups
}

fn has(what: &What, gpu: &str) -> bool {
    what.gpus.iter().any(|own| own == gpu)
}

/// In which role a GPU explains its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    /// In every transfer.
    Any,
    /// As the source of transfers between GPUs: a slow GPU writes slowly, and is written to as fast as others.
    Source,
    /// As the destination.
    Destination,
}

impl Role {
    const ALL: [Role; 3] = [Role::Any, Role::Source, Role::Destination];
}

/// A GPU in a role, in the order in which the simpler role and the earlier GPU come first.
type Part<'a> = (Role, (&'a str, u64), &'a str);

fn part(role: Role, gpu: &str) -> Part<'_> {
    (role, natural(gpu), gpu)
}

/// Which parts a number shows to be sound or bad. One both ways at once is bad if either direction is, and shows neither alone.
fn observe(what: &What, bad: bool) -> Observation<Part<'_>, &str> {
    let directions = [Role::Source, Role::Destination];
    let mut parts: Vec<Part> = what.gpus.iter().map(|gpu| part(Role::Any, gpu)).collect();
    let mut affected_by = Vec::new();
    let of_both = what.gpus.iter().flat_map(|gpu| directions.map(|role| part(role, gpu)));
    match what.gpus.len() {
        1 => parts.extend(of_both),
        _ if what.one_way => parts.extend(directions.into_iter().zip(&what.gpus).map(|(role, gpu)| part(role, gpu))),
        _ => affected_by.extend(of_both),
    }
    Observation { parts, affected_by, class: &what.class, bad }
}

/// The one other GPU of all these numbers.
fn partner(bad: &[Bad], culprit: &str) -> Option<String> {
    let mut others = bad.iter().map(|b| b.what.gpus.iter().find(|gpu| *gpu != culprit));
    let first = others.next()??;
    others.all(|other| other == Some(first)).then(|| first.clone())
}

fn pair(a: &str, b: &str) -> Subject {
    let (a, b) = if natural(a) <= natural(b) { (a, b) } else { (b, a) };
    Subject::Pair(a.to_owned(), b.to_owned())
}

/// What no GPU explains, by pair.
fn pairs(left: Vec<Bad>) -> Vec<Group> {
    let mut by_subject: Vec<Group> = Vec::new();
    for one in left {
        let subject = one.what.subject();
        match by_subject.iter_mut().find(|group| group.subjects.iter().any(|own| own.is(&subject))) {
            Some(group) => group.bad.push(one),
            None => by_subject.push(Group { subjects: vec![subject], bad: vec![one] }),
        }
    }
    if by_subject.len() <= MOST_PAIRS {
        return by_subject;
    }
    let (subjects, bad): (Vec<_>, Vec<_>) = by_subject.into_iter().map(|group| (group.subjects, group.bad)).unzip();
    vec![Group { subjects: subjects.concat(), bad: bad.into_iter().flatten().collect() }]
}
