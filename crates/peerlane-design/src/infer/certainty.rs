//! How sure a group is: the interval of its capacity, the trials that show it, and how much likelier it makes them than
//! what else could be in its place.

use super::fit::{Data, Fit, GROUP_COST};
use super::hypothesis::Group;
use super::members::Members;
use super::questions::alternatives;
use peerlane_machine::random::Random;

/// Half the width of a normal deviate's 95 % interval, in standard deviations.
const INTERVAL: f64 = 1.96;

/// Nothing measured is surer than this.
const MOST_CONFIDENCE: f64 = 0.999;

/// What the trials show about one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Support {
    /// The group.
    pub group: Group,
    /// Low end of the 95 % interval of its capacity.
    pub low: f64,
    /// High end.
    pub high: f64,
    /// Probability that it is there with just these members, against what else was considered: that there is no such
    /// group, that it has one member more or less, or that it is two groups.
    pub confidence: f64,
    /// The trials in which it is full, by index.
    pub full_in: Vec<usize>,
}

/// The support of every group, the largest groups first.
pub(super) fn supports(fit: &Fit, all: Members, data: &Data, random: &mut Random) -> Vec<Support> {
    let groups = fit.hypothesis.groups.iter().enumerate();
    let mut supports: Vec<Support> = groups.map(|(at, group)| support(fit, at, *group, all, data, random)).collect();
    supports.sort_by_key(|s| (std::cmp::Reverse(s.group.members.len()), s.group.members));
    supports
}

fn support(fit: &Fit, at: usize, group: Group, all: Members, data: &Data, random: &mut Random) -> Support {
    let trials = data.trials.iter().zip(&fit.predicted).enumerate();
    let full_in: Vec<usize> =
        trials.filter(|(_, (trial, rates))| group.is_full(trial.set, rates)).map(|(i, _)| i).collect();
    let certainty = fit.capacity(&group, data).map_or(0.0, |c| c.1);
    let reach = (INTERVAL * disagreement(&group, &full_in, data) / certainty.sqrt().max(1e-6)).min(1.0).exp();
    // likelihoods of the others, over that of the group as it is; a group that is not there costs nothing
    let mut groups = fit.hypothesis.groups.clone();
    groups.remove(at);
    let none = fit.difference(&fit.hypothesis.with(groups), &[group], &[], data) - GROUP_COST;
    let others = alternatives(fit, at, all, random).into_iter().filter(|q| !q.new.is_empty());
    let others = others.map(|q| {
        fit.difference(&q.other, &q.old, &q.new, data) + GROUP_COST * (q.new.len() as f64 - q.old.len() as f64)
    });
    let misfit = fit.misfit(data);
    let odds: f64 = others.chain([none]).map(|distance| (-distance / misfit / 2.0).clamp(-60.0, 60.0).exp()).sum();
    let carried = Group { capacity: group.capacity * data.kept(), ..group };
    Support {
        group: carried,
        low: carried.capacity / reach,
        high: carried.capacity * reach,
        confidence: (1.0 / (1.0 + odds)).min(MOST_CONFIDENCE),
        full_in,
    }
}

/// By how much the sums of the trials that fill a group lie farther apart than noise makes them, at least 1: the factor
/// by which an uncertainty is too small (Birge, "The calculation of errors by the method of least squares", 1932). A limit
/// that carries more the more flows share it shows so.
fn disagreement(group: &Group, full_in: &[usize], data: &Data) -> f64 {
    let of = |at: &usize| {
        let trial = data.trials.get(*at)?;
        let off = (trial.sum_of(group.members) / group.capacity.max(1e-12)).max(1e-12).ln();
        Some(off * off * data.noise.weight(trial.repeats, trial.set.and(group.members).len()))
    };
    let squares: Vec<f64> = full_in.iter().filter_map(of).collect();
    (squares.iter().sum::<f64>() / squares.len().saturating_sub(1).max(1) as f64).sqrt().max(1.0)
}
