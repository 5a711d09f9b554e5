//! Whether a limit is confirmed: by trials that were measured after it was first suspected.
//!
//! The search looks at very many groups, and the best of many explains noise. So the trials that suggested a group are no
//! test of it. Those that follow are: the ratio of their likelihoods with the group and without it exceeds 1/α by chance in
//! less than a share α of all cases, however many trials there are and whenever one stops (Ville's inequality). A record
//! has no later trials; there, each group has to pay for the number of groups that it was chosen from.

use std::collections::BTreeMap;

use super::fit::{Data, Fit};
use super::hypothesis::{Group, Hypothesis};
use super::members::Members;
use super::questions::{pool, shuffled};
use super::trials::distance;
use peerlane_machine::random::Random;

/// Later trials confirm a group where they are so much nearer to it than to none: a likelihood ratio of 1,000, and what the
/// fitted capacity takes.
const CONFIRMED: f64 = 16.0;

/// The same for all trials, before what the choice among all groups of the same size costs.
const CONVINCING: f64 = 30.0;

/// A set that is expected to confirm less than this is not worth measuring.
const WORTHWHILE: f64 = 3.0;

/// How often one set may run to confirm groups.
const MOST_REPEATS: usize = 3;

/// When each group was first part of the hypothesis, as the number of trials by then.
#[derive(Clone, Debug, Default)]
pub(super) struct Births(BTreeMap<Members, usize>);

impl Births {
    /// Takes in the groups after so many trials.
    pub(super) fn renew(&mut self, hypothesis: &Hypothesis, trials: usize) {
        self.0.retain(|members, _| hypothesis.groups.iter().any(|g| g.members == *members));
        for group in &hypothesis.groups {
            self.0.entry(group.members).or_insert(trials);
        }
    }

    /// How much nearer trials are to a group than to none, over what noise that is too small makes of it: by those
    /// since it was suspected, and by all, less what its choice costs. Positive where it is confirmed.
    pub(super) fn evidence(&self, fit: &Fit, at: usize, data: &Data) -> f64 {
        let Some(group) = fit.hypothesis.groups.get(at) else { return f64::NEG_INFINITY };
        let mut groups = fit.hypothesis.groups.clone();
        groups.remove(at);
        let without = Fit::refitted(fit.hypothesis.with(groups), data);
        let nearer: Vec<f64> = without.distances.iter().zip(&fit.distances).map(|(a, b)| a - b).collect();
        let since = self.0.get(&group.members).copied().unwrap_or(data.trials.len());
        let later: f64 = nearer.iter().skip(since).sum();
        let all: f64 = nearer.iter().sum();
        let misfit = fit.misfit(data);
        let choice = 2.0 * log_choices(fit.hypothesis.solo.len(), group.members.len());
        (later / misfit - CONFIRMED).max(all / misfit - CONVINCING - choice)
    }

    /// The set that should confirm most of the first group that is not confirmed.
    pub(super) fn next_set(
        &self,
        fit: &Fit,
        all: Members,
        data: &Data,
        repeats: usize,
        random: &mut Random,
    ) -> Option<Members> {
        let groups = 0..fit.hypothesis.groups.len();
        groups.filter(|at| self.evidence(fit, *at, data) < 0.0).find_map(|at| {
            let mut groups = fit.hypothesis.groups.clone();
            let group = groups.remove(at);
            most_confirming(fit, &group, &fit.hypothesis.with(groups), all, data, repeats, random)
        })
    }
}

/// The set for which a group and none predict what differs most. Sets that have not run come first.
fn most_confirming(
    fit: &Fit,
    group: &Group,
    without: &Hypothesis,
    all: Members,
    data: &Data,
    repeats: usize,
    random: &mut Random,
) -> Option<Members> {
    let mut pool = pool(fit, group, &[], all, random);
    let others = shuffled(all.minus(group.members), random);
    pool.extend(others.iter().map(|i| group.members.or(Members::one(*i))));
    pool.sort_unstable();
    pool.dedup();
    let ran = |set: Members| data.trials.iter().filter(|t| t.set == set).count();
    let worth = |set: Members| distance(&fit.hypothesis.rates(set), &without.rates(set), data.noise, repeats);
    let sets = pool.into_iter().map(|set| (ran(set), worth(set), set));
    let worthwhile = sets.filter(|(ran, worth, _)| *ran < MOST_REPEATS && *worth >= WORTHWHILE);
    // the same set again shows less than another one, since what its rates have in common stays
    let best = worthwhile.max_by(|a, b| (a.1 / (1 + a.0) as f64).total_cmp(&(b.1 / (1 + b.0) as f64)));
    best.map(|(.., set)| set)
}

/// The logarithm of the number of ways to choose `k` of `n`.
fn log_choices(n: usize, k: usize) -> f64 {
    (0..k.min(n)).map(|i| ((n - i) as f64 / (i + 1) as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_binomial() {
        assert!((log_choices(4, 2).exp() - 6.0).abs() < 1e-9);
        assert!((log_choices(32, 8).exp() / 10_518_300.0 - 1.0).abs() < 1e-9);
        assert_eq!((log_choices(5, 5).abs() < 1e-12, log_choices(2, 3).is_finite()), (true, true));
    }
}
