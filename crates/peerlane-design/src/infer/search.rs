//! The hypothesis that explains the trials with the fewest groups: a search from the one before, by single changes
//! that the trials which it fails suggest.
//!
//! Flows that one full group stops have one rate. So the flows of a trial that are slower than expected, and as slow
//! as each other, are candidates for a group or for membership of one; flows that are faster are candidates to leave.

use std::collections::HashSet;

use super::fit::{Data, Fit, GROUP_COST, cost};
use super::hypothesis::{Group, Hypothesis};
use super::members::Members;
use super::trials::Trial;

/// Trials that suggest changes in one round: those that fit worst.
const SUGGESTING: usize = 5;

/// Changes in one search.
const MOST_CHANGES: usize = 60;

/// Changes whose numbers are fitted, of each round the most promising.
const REFITTED: usize = 4;

/// A change must better the score by so much.
const LEAST_GAIN: f64 = 3.0;

/// Relative deviations beyond this many standard ones are no noise.
const SIGMAS: f64 = 2.5;

/// A change of some groups.
struct Change {
    groups: Vec<Group>,
    old: Vec<Group>,
    new: Vec<Group>,
}

/// Searches from a fit, whose trials must be those of `data`.
pub(super) fn search(mut best: Fit, data: &Data) -> Fit {
    for _ in 0..MOST_CHANGES {
        match step(&best, data) {
            Some(better) => best = better,
            None => break,
        }
    }
    best
}

/// The best single change, its numbers fitted; `None` where none is better.
fn step(fit: &Fit, data: &Data) -> Option<Fit> {
    let mut worst: Vec<(f64, usize)> =
        (0..data.trials.len()).map(|at| (fit.excess(at, data), at)).filter(|(excess, _)| *excess > 0.0).collect();
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut gains: Vec<(f64, Hypothesis)> = Vec::new();
    let mut considered: HashSet<Vec<(Members, u64)>> = HashSet::new();
    let mut consider = |change: Change, by: Option<&Trial>| {
        let mut key: Vec<(Members, u64)> =
            change.groups.iter().map(|g| (g.members, (g.capacity.max(1e-12).ln() * 200.0) as i64 as u64)).collect();
        key.sort_unstable();
        if !considered.insert(key) {
            return;
        }
        let other = fit.hypothesis.with(change.groups.clone());
        // a rate alone may have been bent to what a group does to it
        let mut unbent = other.clone();
        for flow in all_of(&change.new).minus(all_of(&change.old)).iter() {
            if let (Some(solo), Some((lone, _))) = (unbent.solo.get_mut(flow), data.alone(flow)) {
                *solo = lone;
            }
        }
        let costs = cost(&change.groups) - cost(&fit.hypothesis.groups);
        for other in [other, unbent] {
            if let Some(trial) = by {
                let before = trial.distance(&fit.hypothesis.rates(trial.set), data.noise_of(trial.set));
                let after = trial.distance(&other.rates(trial.set), data.noise_of(trial.set));
                // what does not help the trial that suggests it is not worth more
                if before - after < costs.min(1.0) {
                    continue;
                }
            }
            let gain = -costs - fit.difference(&other, &change.old, &change.new, data);
            if gain > -GROUP_COST / 2.0 && gains.iter().all(|(_, known)| *known != other) {
                gains.push((gain, other));
            }
        }
    };
    for (_, at) in worst.iter().take(SUGGESTING) {
        let Some((trial, rates)) = data.trials.get(*at).zip(fit.predicted.get(*at)) else { continue };
        for change in suggested(fit, trial, rates, data) {
            consider(change, Some(trial));
        }
    }
    for at in 0..fit.hypothesis.groups.len() {
        consider(change(&fit.hypothesis, &[at], Vec::new()), None);
    }
    gains.sort_by(|a, b| b.0.total_cmp(&a.0));
    let refitted = gains.into_iter().take(REFITTED).map(|(_, other)| Fit::refitted(other, data));
    let best = refitted.min_by(|a, b| a.score.total_cmp(&b.score))?;
    (best.score < fit.score - LEAST_GAIN).then_some(best)
}

fn all_of(groups: &[Group]) -> Members {
    groups.iter().fold(Members::NONE, |all, group| all.or(group.members))
}

/// Takes the groups at some places out and puts others in.
fn change(hypothesis: &Hypothesis, out: &[usize], new: Vec<Group>) -> Change {
    let (mut groups, mut old) = (Vec::new(), Vec::new());
    for (at, group) in hypothesis.groups.iter().enumerate() {
        if out.contains(&at) { old.push(*group) } else { groups.push(*group) }
    }
    groups.extend(new.iter().copied());
    Change { groups, old, new }
}

/// What a trial that fails suggests.
fn suggested(fit: &Fit, trial: &Trial, expected: &[f64], data: &Data) -> Vec<Change> {
    let sigma = data.noise.of_one(trial.repeats);
    let flows: Vec<(usize, f64, f64)> =
        trial.set.iter().zip(&trial.rates).zip(expected).map(|((i, rate), e)| (i, *rate, *e)).collect();
    let off =
        |sign: f64| move |(_, rate, expected): &&(usize, f64, f64)| sign * (rate / expected).ln() > SIGMAS * sigma;
    let slow: Members = flows.iter().filter(off(-1.0)).map(|f| f.0).collect();
    let fast: Members = flows.iter().filter(off(1.0)).map(|f| f.0).collect();
    let hypothesis = &fit.hypothesis;
    let groups = &hypothesis.groups;
    let levels = levels(&flows, slow, data, trial);
    let clusters: Vec<Members> = levels.iter().map(|level| level.alike).collect();
    let mut changes = at_once(hypothesis, &levels, trial);
    // takes the groups at some places out, and puts one of these members in
    let mut replace = |out: &[usize], members: Members, capacity: f64| {
        if members.len() > 1 && capacity > 0.0 {
            changes.push(change(hypothesis, out, vec![Group { members, capacity }]));
        }
    };
    for Level { alike, below } in levels {
        let mut bases = vec![alike.and(slow), alike, alike.or(below), alike.and(slow).or(below)];
        for group in groups {
            let part = group.members.and(trial.set);
            if !part.is_empty() {
                bases.push(alike.and(slow).or(part));
                bases.push(alike.or(part));
            }
            bases.push(alike.and(group.members));
            bases.push(alike.minus(group.members));
        }
        bases.extend(below.iter().map(|i| alike.or(Members::one(i))));
        for members in bases.into_iter().flat_map(|base| [base, closed(base, trial.set, groups)]) {
            replace(&[], members, trial.sum_of(members));
        }
    }
    for (at, group) in groups.iter().enumerate() {
        let mut others: Vec<Members> = Vec::new();
        others.extend(slow.minus(group.members).iter().map(|i| group.members.or(Members::one(i))));
        others.extend(group.members.and(trial.set).iter().map(|i| group.members.minus(Members::one(i))));
        others.extend([group.members.or(slow), group.members.minus(fast)]);
        others.extend(clusters.iter().flat_map(|c| {
            [
                group.members.or(*c),
                group.members.minus(*c),
                group.members.and(*c),
                group.members.minus(trial.set.minus(*c)),
            ]
        }));
        for other in groups {
            others.extend([group.members.or(other.members), group.members.minus(other.members)]);
        }
        for members in others.into_iter().filter(|m| *m != group.members) {
            let more = group.capacity + hypothesis.total(members.minus(group.members));
            for capacity in [group.capacity, trial.sum_of(members), more] {
                replace(&[at], members, capacity);
            }
        }
        replace(&[at], group.members, trial.sum_of(group.members));
        for (other_at, other) in groups.iter().enumerate().skip(at + 1) {
            let members = group.members.or(other.members);
            for capacity in [trial.sum_of(members), group.capacity, other.capacity] {
                replace(&[at, other_at], members, capacity);
            }
        }
    }
    for (at, group) in groups.iter().enumerate() {
        for cluster in &clusters {
            let parts = [group.members.and(*cluster), group.members.minus(*cluster)];
            let parts = parts.map(|members| Group { members, capacity: trial.sum_of(members) });
            if parts.iter().all(|p| p.capacity > 0.0 && p.members.len() > 1) {
                changes.push(change(hypothesis, &[at], parts.to_vec()));
            }
        }
    }
    changes
}

/// Several levels at once, since one alone may explain nothing: each a group, with or without what is below it.
fn at_once(hypothesis: &Hypothesis, levels: &[Level], trial: &Trial) -> Vec<Change> {
    let apart: Vec<Members> = levels.iter().map(|l| l.alike).collect();
    let nested: Vec<Members> = levels.iter().map(|l| l.alike.or(l.below)).collect();
    let last = nested.last().copied().into_iter();
    let mixed: Vec<Members> = apart.iter().take(apart.len().saturating_sub(1)).copied().chain(last).collect();
    let groups = |all: Vec<Members>| -> Vec<Group> {
        let all = all.into_iter().filter(|m| m.len() > 1);
        all.map(|members| Group { members, capacity: trial.sum_of(members) }).collect()
    };
    [apart, nested, mixed].into_iter().map(|all| change(hypothesis, &[], groups(all))).collect()
}

/// Flows of a trial that are as slow as each other, and those that are slower.
struct Level {
    alike: Members,
    below: Members,
}

/// The levels at which slow flows of a trial are.
fn levels(flows: &[(usize, f64, f64)], slow: Members, data: &Data, trial: &Trial) -> Vec<Level> {
    // of two flows of one set, what they have in common does not part them
    let apart = SIGMAS * std::f64::consts::SQRT_2 * data.noise.each / (trial.repeats.max(1) as f64).sqrt();
    let mut levels: Vec<Level> = Vec::new();
    let mut sorted: Vec<&(usize, f64, f64)> = flows.iter().collect();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    for (_, pivot, _) in sorted.iter().filter(|(i, ..)| slow.has(*i)) {
        let alike = sorted.iter().filter(|(_, r, _)| (r / pivot).ln().abs() <= apart).map(|f| f.0).collect();
        let below = sorted.iter().filter(|(_, r, _)| (r / pivot).ln() < -apart).map(|f| f.0).collect();
        if levels.iter().all(|l| l.alike != alike) {
            levels.push(Level { alike, below });
        }
    }
    levels
}

/// Members with the rest of each group of which all that ran are members: a tree's branch goes with its leaves.
fn closed(members: Members, set: Members, groups: &[Group]) -> Members {
    let whole = |g: &&Group| g.members.meets(members) && g.members.and(set).within(members);
    groups.iter().filter(whole).fold(members, |all, g| all.or(g.members))
}
