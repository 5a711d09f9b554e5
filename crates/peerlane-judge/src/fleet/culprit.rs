//! Which part explains the bad numbers of a machine: the GPU that nearly all of whose numbers are bad, or a pair.

use std::collections::{BTreeMap, BTreeSet};

use super::What;
use super::usual::Bad;
use peerlane_machine::names::natural;
use peerlane_machine::subject::Subject;

/// Share of a GPU's numbers, in the classes of which some are bad, that must be bad for it to be the explanation.
const NEARLY_ALL: f64 = 0.75;

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
    let (mut left, sets): (Vec<Bad>, Vec<Bad>) = bad.into_iter().partition(|b| !b.what.set && !b.what.gpus.is_empty());
    let shares: BTreeMap<(&str, Role), f64> = gpus
        .iter()
        .flat_map(|gpu| Role::ALL.map(|role| (*gpu, role)))
        .map(|(gpu, role)| ((gpu, role), share(gpu, role, &left, all)))
        .collect();
    let nearly_all = |gpu: &str, role: Role| shares.get(&(gpu, role)).is_some_and(|share| *share >= NEARLY_ALL);
    let mut groups: Vec<Group> = Vec::new();
    let mut culprits = 0;
    loop {
        let count = |gpu: &str, role: Role| left.iter().filter(|b| role.explains(b.what, gpu)).count();
        let explains = |(gpu, role): &(&str, Role)| {
            let alone = left.iter().any(|b| b.what.gpus.len() == 1 && has(b.what, gpu));
            nearly_all(gpu, *role) && count(gpu, *role) >= if alone { 1 } else { 2 }
        };
        // most numbers first; among equals the simpler role, then the earlier GPU
        let weight = |(gpu, role): &(&str, Role)| {
            let (stem, number) = natural(gpu);
            (count(gpu, *role), std::cmp::Reverse((*role, stem.to_owned(), number)))
        };
        let Some((culprit, role)) = shares.keys().copied().filter(explains).max_by_key(weight) else { break };
        let (mine, rest): (Vec<Bad>, Vec<Bad>) = left.iter().cloned().partition(|b| role.explains(b.what, culprit));
        left = rest;
        let as_bad = |other: &String| Role::ALL.iter().any(|role| nearly_all(other, *role));
        let subjects = match partner(&mine, culprit).filter(as_bad) {
            Some(other) => vec![pair(culprit, &other)],
            None => {
                culprits += 1;
                vec![Subject::Node(culprit.to_owned())]
            }
        };
        groups.push(Group { subjects, bad: mine });
    }
    if culprits > 1 && culprits == gpus.len() {
        // all of them: what they have in common
        let bad = groups.into_iter().flat_map(|group| group.bad).collect();
        groups = vec![Group { subjects: vec![Subject::Machine(machine.to_owned())], bad }];
    }
    groups.extend(pairs(left));
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

    /// Whether a GPU has this role in a number.
    fn is_of(self, what: &What, gpu: &str) -> bool {
        match self {
            Role::Any => has(what, gpu),
            _ if what.gpus.len() == 1 => has(what, gpu),
            Role::Source => what.one_way && what.gpus.first().is_some_and(|own| own == gpu),
            Role::Destination => what.one_way && what.gpus.get(1).is_some_and(|own| own == gpu),
        }
    }

    /// Whether a GPU that is slow in this role makes this number slow: those in which it has it, and both ways at once.
    fn explains(self, what: &What, gpu: &str) -> bool {
        self.is_of(what, gpu) || !what.one_way && has(what, gpu)
    }
}

/// The share of a GPU's numbers in a role that are bad, in classes of which some are.
fn share(gpu: &str, role: Role, bad: &[Bad], all: &[&What]) -> f64 {
    let mine = || bad.iter().filter(|b| role.is_of(b.what, gpu));
    let classes: BTreeSet<&str> = mine().map(|b| b.what.class.as_str()).collect();
    let counts = |what: &&&What| !what.set && role.is_of(what, gpu) && classes.contains(what.class.as_str());
    let total = all.iter().filter(counts).count();
    if total == 0 { 0.0 } else { mine().count() as f64 / total as f64 }
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
