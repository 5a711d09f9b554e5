//! What is still open about a group, and the set of flows that decides most about it.
//!
//! A question is another hypothesis that the trials do not yet exclude: the group with one more member or one less, or
//! two groups in its place. Of a pool of sets, that one is asked next under which these hypotheses and the present one
//! predict what differs most.

use super::fit::{Data, Fit};
use super::hypothesis::{Group, Hypothesis};
use super::members::Members;
use super::trials::distance;
use peerlane_machine::random::Random;

/// A hypothesis is excluded where it is by so much farther from the trials than the present one: a likelihood ratio
/// of more than 1,000.
pub(super) const EXCLUDED: f64 = 14.0;

/// A group is suspected where trials are so much nearer to it, though not enough to pay for it.
const SUSPICIOUS: f64 = 5.0;

/// More than this of one question does not count: it would be answered.
const ENOUGH: f64 = 25.0;

/// A set that is expected to decide less than this of every open question is not worth measuring.
const WORTHWHILE: f64 = 6.0;

/// Divisions of a group in two that are considered.
const DIVISIONS: usize = 12;

/// Random sets of each kind in the pool.
const RANDOM_SETS: usize = 10;

/// Another hypothesis, by the groups in which it differs.
pub(super) struct Question {
    pub(super) other: Hypothesis,
    pub(super) old: Vec<Group>,
    pub(super) new: Vec<Group>,
    /// The flows in whose membership it differs.
    pub(super) about: Members,
}

/// What moves together as far as known: the largest groups within some flows, and single flows.
pub(super) fn units(of: Members, groups: &[Group]) -> Vec<Members> {
    let mut inner: Vec<Members> = groups.iter().map(|g| g.members).filter(|m| m.within(of) && *m != of).collect();
    inner.sort_by_key(|m| std::cmp::Reverse(m.len()));
    let mut units: Vec<Members> = Vec::new();
    let mut left = of;
    for members in inner {
        if members.within(left) {
            units.push(members);
            left = left.minus(members);
        }
    }
    units.extend(left.iter().map(Members::one));
    units
}

/// The questions about a group that the trials leave open.
pub(super) fn open(fit: &Fit, at: usize, all: Members, data: &Data, random: &mut Random) -> Vec<Question> {
    let mut questions = alternatives(fit, at, all, random);
    questions.retain(|q| fit.difference(&q.other, &q.old, &q.new, data) < EXCLUDED);
    questions
}

/// What could be in a group's place: it with one more member or one less, or two groups.
pub(super) fn alternatives(fit: &Fit, at: usize, all: Members, random: &mut Random) -> Vec<Question> {
    let hypothesis = &fit.hypothesis;
    let Some(group) = hypothesis.groups.get(at).copied() else { return Vec::new() };
    let inside = units(group.members, &hypothesis.groups);
    let mut questions = Vec::new();
    let mut ask = |new: Vec<Group>, about: Members| {
        let mut groups = hypothesis.groups.clone();
        groups.remove(at);
        groups.extend(new.iter().copied());
        questions.push(Question { other: hypothesis.with(groups), old: vec![group], new, about });
    };
    for unit in units(all.minus(group.members), &hypothesis.groups) {
        let members = group.members.or(unit);
        ask(vec![Group { members, ..group }], unit);
        // one that asks for little may have been at work, unnoticed, in every set that filled the group
        ask(vec![Group { members, capacity: group.capacity + hypothesis.total(unit) }], unit);
    }
    // or it is the part that showed of a larger one
    let larger = hypothesis.groups.iter().map(|g| g.members).filter(|m| group.members.within(*m));
    for members in larger.chain([all]).filter(|m| *m != group.members) {
        ask(vec![Group { members, capacity: hypothesis.total(members) }], members.minus(group.members));
    }
    let together = hypothesis.rates(group.members);
    let part = |members: Members| super::hypothesis::sum_of(&together, group.members, members);
    for unit in inside.iter().filter(|unit| group.members.minus(**unit).len() > 1) {
        let members = group.members.minus(*unit);
        ask(vec![Group { members, ..group }], *unit);
        ask(vec![Group { members, capacity: part(members) }], *unit);
    }
    for division in divisions(&inside, random) {
        let parts = [division, group.members.minus(division)].map(|m| Group { members: m, capacity: part(m) });
        let parts: Vec<Group> = parts.into_iter().filter(|p| p.members.len() > 1).collect();
        ask(parts, group.members);
    }
    questions
}

/// Whether a trial that is slower than expected, and no hypothesis has explained, shows a group of all that is slow in
/// it, or of all of it.
pub(super) fn suspicions(fit: &Fit, data: &Data) -> Vec<(Group, Question)> {
    let mut all = Vec::new();
    for (at, (trial, rates)) in data.trials.iter().zip(&fit.predicted).enumerate() {
        if trial.set.len() < 2 || fit.excess(at, data) <= 0.0 {
            continue;
        }
        let sigma = data.noise.of_one(trial.repeats);
        let slow = trial.set.iter().zip(trial.rates.iter().zip(rates)).filter(|(_, (r, e))| **r < **e * (1.0 - sigma));
        let slow: Members = slow.map(|(i, _)| i).collect();
        for members in [slow, trial.set] {
            let group = Group { members, capacity: trial.sum_of(members) };
            let mut groups = fit.hypothesis.groups.clone();
            groups.push(group);
            let other = fit.hypothesis.with(groups);
            let cost = fit.difference(&other, &[], &[group], data);
            if members.len() > 1 && cost < -SUSPICIOUS {
                all.push((group, Question { other, old: Vec::new(), new: vec![group], about: members }));
            }
            if slow == trial.set {
                break;
            }
        }
    }
    all
}

/// Ways to divide units in two: all of few, some of many.
fn divisions(units: &[Members], random: &mut Random) -> Vec<Members> {
    let n = units.len();
    let of = |bits: usize| {
        units.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).fold(Members::NONE, |m, (_, u)| m.or(*u))
    };
    if n < 2 {
        return Vec::new();
    }
    if n <= 4 {
        return (1..(1 << (n - 1))).map(of).collect();
    }
    let one = |_| units.iter().skip(1).filter(|_| random.uniform() < 0.5).fold(Members::NONE, |m, u| m.or(*u));
    let divided = (0..DIVISIONS).map(one).collect::<Vec<_>>();
    divided.into_iter().filter(|d| !d.is_empty()).collect()
}

/// The set that decides most about the questions; `None` where none decides enough. Sets that were measured are left out.
pub(super) fn most_telling(
    fit: &Fit,
    group: &Group,
    questions: &[Question],
    all: Members,
    data: &Data,
    repeats: usize,
    random: &mut Random,
) -> Option<Members> {
    let mut best: Option<(f64, Members)> = None;
    let mut pool = pool(fit, group, questions, all, random);
    pool.sort_unstable();
    pool.dedup();
    for set in pool.into_iter().filter(|set| !data.trials.iter().any(|t| t.set == *set)) {
        let rates = fit.hypothesis.rates(set);
        let telling = |q: &Question| {
            let differs = q.old.iter().any(|g| g.is_full(set, &rates)) || q.new.iter().any(|g| g.is_over(set, &rates));
            if differs { distance(&rates, &q.other.rates(set), data.noise, repeats) } else { 0.0 }
        };
        let tells: Vec<f64> = questions.iter().map(telling).collect();
        if tells.iter().any(|t| *t >= WORTHWHILE) {
            let sum: f64 = tells.iter().map(|t| t.min(ENOUGH)).sum();
            if best.is_none_or(|(most, _)| sum > most) {
                best = Some((sum, set));
            }
        }
    }
    best.map(|(_, set)| set)
}

/// Sets that may decide something about a group.
pub(super) fn pool(
    fit: &Fit,
    group: &Group,
    questions: &[Question],
    all: Members,
    random: &mut Random,
) -> Vec<Members> {
    let members = group.members;
    let outside = all.minus(members);
    let about: Members = questions.iter().fold(Members::NONE, |m, q| m.or(q.about));
    let mut pool = vec![members, members.or(about), members.or(outside)];
    let few = saturating(fit, group, random);
    for unit in questions.iter().map(|q| q.about) {
        pool.extend([members.or(unit), members.minus(unit), few.or(unit), few.minus(unit)]);
        pool.push(members.and(unit));
    }
    for flow in members.iter() {
        pool.push(members.minus(Members::one(flow)));
    }
    let mut some = |of: Members, share: f64| of.iter().filter(|_| random.uniform() < share).collect::<Members>();
    for i in 0..RANDOM_SETS {
        let share = (i + 1) as f64 / (RANDOM_SETS + 1) as f64;
        let inner = some(members, share);
        pool.extend([inner, inner.or(some(outside, 0.5)), inner.or(some(about, 0.5)), members.or(some(about, share))]);
        pool.push(few.or(some(about, share)));
        pool.push(some(all, share));
    }
    pool.retain(|set| set.len() > 1);
    pool
}

/// As few members, in some order, as fill a group.
fn saturating(fit: &Fit, group: &Group, random: &mut Random) -> Members {
    let mut set = Members::NONE;
    for flow in shuffled(group.members, random) {
        set = set.or(Members::one(flow));
        if fit.hypothesis.total(set) >= group.capacity * (1.0 - 1e-6) {
            break;
        }
    }
    set
}

/// Flows in some order.
pub(super) fn shuffled(of: Members, random: &mut Random) -> Vec<usize> {
    let mut keyed: Vec<(f64, usize)> = of.iter().map(|i| (random.uniform(), i)).collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    keyed.into_iter().map(|k| k.1).collect()
}
