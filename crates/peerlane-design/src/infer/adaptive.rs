//! The experiment: which sets of flows are measured, one after another, until no set could decide what is left open.

use std::collections::BTreeSet;

use super::certainty::{Support, supports};
use super::confirm::Births;
use super::coverage::Coverage;
use super::fit::{Data, Fit};
use super::hypothesis::{Group, Hypothesis};
use super::members::Members;
use super::questions::{most_telling, open, suspicions, units};
use super::search::search;
use super::trials::{Noise, Trial};
use peerlane_machine::random::Random;

/// What each single trial allows, many together may not: so a search runs now and then without any unexpected trial.
const SEARCH_EVERY: usize = 20;

/// Sets at random for each flow, where there are too many subsets to drive each.
const UNIONS: usize = 2;

/// Draws before a set of more than one flow is given up.
const TRIES: usize = 16;

/// How the experiment is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    /// Noise of the answers.
    pub noise: Noise,
    /// Repeats that each set is given, for the design's expectations.
    pub repeats: usize,
    /// The most sets that are asked.
    pub sets: usize,
}

/// The most sets that `n` flows of one direction may take: 4 n log₂ n + 8.
pub fn most_sets(n: usize) -> usize {
    (4.0 * n as f64 * (n.max(1) as f64).log2() + 8.0).floor() as usize
}

/// What an experiment came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What stands behind the trials.
    pub hypothesis: Hypothesis,
    /// All that was measured, in order.
    pub trials: Vec<Trial>,
    /// How sure each of its groups is.
    pub supports: Vec<Support>,
    /// Groups that the trials suggest and do not confirm: noise may have made them.
    pub suspected: Vec<Group>,
    /// Subsets for which no trial could decide whether they have their own limit, and none was left to measure.
    pub undriven: Vec<Members>,
}

/// Experiments on `n` flows. `ask` runs a set at once and gives the rate of each, in the order of their indices; where it
/// gives an error, the experiment ends with it.
pub fn experiment<E>(n: usize, design: Design, mut ask: impl FnMut(Members) -> Result<Trial, E>) -> Result<Outcome, E> {
    let n = n.min(Members::MOST);
    let all = Members::first(n);
    let mut random = Random::new(n as u64, "experiment");
    let mut data = Data::new(Vec::new(), design.noise);
    for i in 0..n {
        data.push(ask(Members::one(i))?);
    }
    let solo = data.trials.iter().filter_map(|t| t.rates.first().copied()).collect();
    let mut fit = Fit::of(Hypothesis::new(solo, Vec::new()), &data);
    let mut coverage = Coverage::new(n, &mut random);
    coverage.renew(&fit.hypothesis, data.trials.iter().map(|t| t.set));
    let mut settled: BTreeSet<Members> = BTreeSet::new();
    let mut unions = 0;
    let mut births = Births::default();
    let mut next = (n > 1).then_some(all);
    while let Some(set) = next.filter(|_| data.trials.len() < design.sets) {
        let trial = ask(set)?;
        data.push(trial);
        fit.add(&data);
        data.estimate_loss(&fit);
        let unexpected = fit.excess(data.trials.len() - 1, &data) > 0.0;
        let before = members_of(&fit.hypothesis);
        fit = Fit::refitted(fit.hypothesis, &data);
        if unexpected || data.trials.len().is_multiple_of(SEARCH_EVERY) {
            fit = search(fit, &data);
        }
        if members_of(&fit.hypothesis) != before {
            settled.clear();
        }
        births.renew(&fit.hypothesis, data.trials.len());
        // what does not fit shows nothing, unless it is so again
        let again = |at: usize, trial: &Trial| data.trials.iter().take(at).any(|earlier| earlier.set == trial.set);
        let shows = |(at, trial): &(usize, &Trial)| fit.excess(*at, &data) <= 0.0 || again(*at, trial);
        coverage.renew(&fit.hypothesis, data.trials.iter().enumerate().filter(shows).map(|(_, t)| t.set));
        next = suspected(&fit, all, &data, design.repeats, &mut random)
            .or_else(|| next_set(&fit, all, &data, design.repeats, &mut settled, &mut random))
            .or_else(|| births.next_set(&fit, all, &data, design.repeats, &mut random))
            .or_else(|| coverage.most_driving(&fit.hypothesis, all, &mut random))
            .or_else(|| {
                unions += 1;
                let wanted = !coverage.is_exhaustive() && unions <= UNIONS * n;
                wanted.then(|| union(&fit.hypothesis, all, &mut random))
            });
    }
    Ok(outcome(fit, data, coverage, births, &[], all, &mut random))
}

/// What earlier trials, among them each flow alone, show. `known` are groups that are there unless the
/// trials contradict them.
pub fn conclude(n: usize, noise: Noise, trials: Vec<Trial>, known: Vec<Group>) -> Outcome {
    let n = n.min(Members::MOST);
    let mut random = Random::new(n as u64, "conclusion");
    let data = Data::new(trials, noise);
    let alone = |i: usize| data.trials.iter().filter(move |t| t.set == Members::one(i)).find_map(|t| t.rate(i));
    // of a flow that never ran alone, the most that it reached is the least that it can
    let most = |i: usize| data.trials.iter().filter_map(|t| t.rate(i)).fold(0.0, f64::max);
    let solo = (0..n).map(|i| alone(i).unwrap_or_else(|| most(i))).collect();
    let fit = Fit::of(Hypothesis::new(solo, known.clone()), &data);
    let known: Vec<Members> = known.iter().map(|g| g.members).collect();
    let coverage = Coverage::new(n, &mut random);
    let mut births = Births::default();
    births.renew(&fit.hypothesis, 0);
    outcome(fit, data, coverage, births, &known, Members::first(n), &mut random)
}

/// The last search, and what it leaves.
fn outcome(
    fit: Fit,
    mut data: Data,
    mut coverage: Coverage,
    mut births: Births,
    known: &[Members],
    all: Members,
    random: &mut Random,
) -> Outcome {
    data.estimate_loss(&Fit::of(fit.hypothesis.clone(), &data));
    let mut fit = search(Fit::refitted(fit.hypothesis, &data), &data);
    births.renew(&fit.hypothesis, data.trials.len());
    let mut suspected: Vec<Group> = Vec::new();
    // the least sure first, since without it others may be surer
    while let Some((_, at)) = (0..fit.hypothesis.groups.len())
        .map(|at| (births.evidence(&fit, at, &data), at))
        .filter(|(evidence, _)| *evidence < 0.0)
        .min_by(|a, b| a.0.total_cmp(&b.0))
    {
        let mut groups = fit.hypothesis.groups.clone();
        let group = groups.remove(at);
        if !known.contains(&group.members) {
            suspected.push(group);
        }
        fit = Fit::refitted(fit.hypothesis.with(groups), &data);
    }
    coverage.renew(&fit.hypothesis, data.trials.iter().map(|t| t.set));
    let supports = supports(&fit, all, &data, random);
    Outcome {
        hypothesis: fit.hypothesis,
        trials: data.measured(),
        supports,
        suspected,
        undriven: coverage.left().collect(),
    }
}

/// Some flows at random, or some of what moves together as far as is known: a limit above several groups shows where only its own are busy.
fn union(hypothesis: &Hypothesis, all: Members, random: &mut Random) -> Members {
    for _ in 0..TRIES {
        let share = 0.25 + 0.5 * random.uniform();
        let together = random.uniform() < 0.5;
        let units = if together { units(all, &hypothesis.groups) } else { all.iter().map(Members::one).collect() };
        let chosen = units.into_iter().filter(|_| random.uniform() < share);
        let set = chosen.fold(Members::NONE, Members::or);
        if set.len() > 1 {
            return set;
        }
    }
    all
}

fn members_of(hypothesis: &Hypothesis) -> BTreeSet<Members> {
    hypothesis.groups.iter().map(|g| g.members).collect()
}

/// The set that decides most about the first group that is not settled.
fn next_set(
    fit: &Fit,
    all: Members,
    data: &Data,
    repeats: usize,
    settled: &mut BTreeSet<Members>,
    random: &mut Random,
) -> Option<Members> {
    for (at, group) in fit.hypothesis.groups.iter().enumerate() {
        if settled.contains(&group.members) {
            continue;
        }
        let questions = open(fit, at, all, data, random);
        if !questions.is_empty()
            && let Some(set) = most_telling(fit, group, &questions, all, data, repeats, random)
        {
            return Some(set);
        }
        settled.insert(group.members);
    }
    None
}

/// The set that decides most about what looks like a group and is not yet sure enough.
fn suspected(fit: &Fit, all: Members, data: &Data, repeats: usize, random: &mut Random) -> Option<Members> {
    suspicions(fit, data).into_iter().find_map(|(group, question)| {
        most_telling(fit, &group, std::slice::from_ref(&question), all, data, repeats, random)
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const REPEATS: usize = 6;

    /// Answers by a machine, with noise of 2 % a repeat and 1 % in common.
    fn explore(solo: &[f64], groups: &[(&[usize], f64)], seed: u64) -> (Outcome, Vec<Group>) {
        let groups: Vec<Group> = groups
            .iter()
            .map(|(members, capacity)| Group { members: members.iter().copied().collect(), capacity: *capacity })
            .collect();
        let machine = Hypothesis::new(solo.to_vec(), groups);
        let noise = Noise { each: 0.02, common: 0.01 };
        let mut random = Random::new(seed, "answers");
        let ask = |set: Members| -> Result<Trial, Infallible> {
            let shift = noise.common * random.normal();
            let of_one = noise.each / (REPEATS as f64).sqrt();
            let rates = machine.rates(set).into_iter().map(|rate| rate * (shift + of_one * random.normal()).exp());
            Ok(Trial { set, rates: rates.collect(), repeats: REPEATS, spread: None })
        };
        let design = Design { noise, repeats: REPEATS, sets: most_sets(solo.len()) };
        let Ok(outcome) = experiment(solo.len(), design, ask);
        assert!(outcome.trials.len() <= design.sets);
        let mut found = outcome.hypothesis.groups.clone();
        found.sort_by_key(|g| g.members);
        (outcome, found)
    }

    fn words(groups: &[Group]) -> String {
        groups.iter().map(|g| format!("{} {:.0} ", g.members, g.capacity)).collect()
    }

    #[test]
    fn a_limit_that_only_all_together_reach_is_found() {
        for seed in 0..5 {
            let (outcome, found) = explore(&[55.0; 4], &[(&[0, 1, 2, 3], 176.0)], seed);
            assert_eq!(found.len(), 1, "{}", words(&found));
            assert_eq!(found[0].members, Members::first(4));
            assert!((found[0].capacity / 176.0 - 1.0).abs() < 0.03, "{}", found[0].capacity);
            assert_eq!(outcome.trials.iter().filter(|t| t.set.len() == 1).count(), 4);
        }
    }

    #[test]
    fn what_was_measured_alone_is_not_explained_away() {
        // four H200 with 55.2 GB/s each to the host alone and 40 at once, where allocations differ
        let machine = Hypothesis::new(vec![55.2; 4], vec![Group { members: Members::first(4), capacity: 160.0 }]);
        let noise = Noise { each: 0.06, common: 0.01 };
        let ask = |set| -> Result<Trial, Infallible> {
            Ok(Trial { set, rates: machine.rates(set), repeats: 3, spread: None })
        };
        let Ok(outcome) = experiment(4, Design { noise, repeats: 3, sets: most_sets(4) }, ask);
        assert_eq!(outcome.hypothesis.groups.len(), 1, "{}", words(&outcome.hypothesis.groups));
        assert!(outcome.hypothesis.solo.iter().all(|alone| (alone / 55.2 - 1.0).abs() < 0.05));
    }

    #[test]
    fn where_nothing_is_shared_few_sets_show_it() {
        for seed in 0..5 {
            let (outcome, found) = explore(&[12.0, 12.0, 6.0, 6.0, 12.0, 0.8], &[], seed);
            assert_eq!(found, []);
            assert!(outcome.trials.len() <= 16 && outcome.undriven.is_empty(), "{}", outcome.trials.len());
        }
    }

    #[test]
    fn twins_are_told_apart_and_nested_limits_found() {
        let groups: [(&[usize], f64); 3] = [(&[0, 3], 12.0), (&[1, 2], 12.0), (&[0, 1, 2, 3], 20.0)];
        for seed in 0..5 {
            let (_, found) = explore(&[12.0; 6], &groups, seed);
            let members: Vec<Members> = found.iter().map(|g| g.members).collect();
            let expected = [&[1, 2][..], &[0, 3], &[0, 1, 2, 3]].map(|m| m.iter().copied().collect::<Members>());
            assert_eq!(members, expected, "{}", words(&found));
        }
    }

    #[test]
    fn one_flow_and_none_are_no_experiment() {
        assert_eq!(explore(&[12.0], &[], 0).0.trials.len(), 1);
        assert_eq!(explore(&[], &[], 0).0.trials.len(), 0);
    }
}
