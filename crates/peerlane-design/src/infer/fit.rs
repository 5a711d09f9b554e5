//! A hypothesis held against all trials: its capacities and rates as the trials have them, and its score.

use super::hypothesis::{Group, Hypothesis};
use super::members::Members;
use super::trials::{Noise, Trial};

/// What a group costs, in units of [`Trial::distance`]: a group must make the trials so much likelier. Its capacity is
/// one free number and its members a choice among many.
pub(super) const GROUP_COST: f64 = 20.0;

/// What two groups that cross cost: a tree has none, and a machine is nearly a tree.
const CROSSING_COST: f64 = 12.0;

/// The square of so many standard deviations is expected of a set's mean.
const MOST_SHIFT: f64 = 5.0;

/// Standard deviations by which a rate alone may be corrected.
const MOST_CORRECTION: f64 = 3.0;

/// The most that is taken for noise: more would hide every limit.
const MOST_SPREAD: f64 = 0.15;

/// What flows lose by running with others, in standard deviations of a repeat: memory that lies badly only ever costs, so
/// that the mean lies below the rate alone by about as much as repeats differ (of half a normal distribution, 1.3 times).
const MOST_LOSS: f64 = 1.5;

/// Rounds of improving numbers; what binds changes with them.
const ROUNDS: usize = 3;

/// What was measured.
#[derive(Clone, Debug)]
pub(super) struct Data {
    pub(super) trials: Vec<Trial>,
    /// That is assumed: at least `least`, and as much as repeats differ.
    pub(super) noise: Noise,
    least: Noise,
    /// By how much repeats of sets of several flows differ, as a relative standard deviation.
    spread: f64,
    /// What each flow loses as soon as any other runs, as a share: transfers that start at once wait for each other, and
    /// their memory may lie worse. No limit explains it, since two flows lose as much as all. The trials are without it.
    loss: f64,
}

impl Data {
    /// Trials whose noise is at least this.
    pub(super) fn new(trials: Vec<Trial>, least: Noise) -> Self {
        let mut data = Data { trials, noise: least, least, spread: 0.0, loss: 0.0 };
        data.estimate_noise();
        data
    }

    /// Takes in a trial, and what its repeats show of the noise.
    pub(super) fn push(&mut self, trial: Trial) {
        let scale = 1.0 / self.kept();
        self.trials.push(trial.scaled(scale));
        self.estimate_noise();
    }

    /// What flows keep of their rates in sets of several, as a share.
    pub(super) fn kept(&self) -> f64 {
        1.0 - self.loss
    }

    /// Estimates the loss anew, by the flows that nothing shared stops; no more than repeats of a set differ by, since what
    /// takes more than that from every flow is a limit.
    pub(super) fn estimate_loss(&mut self, fit: &Fit) {
        let lost =
            self.trials.iter().zip(&fit.predicted).filter(|(t, _)| t.set.len() > 1).filter_map(|(trial, rates)| {
                let flows = trial.set.iter().zip(trial.rates.iter().zip(rates));
                let free = flows.filter(|(i, (_, e))| **e >= fit.hypothesis.alone(*i) * (1.0 - 1e-9));
                let logs = free.filter_map(|(i, (rate, _))| Some((self.alone(i)?.0 / rate).max(1e-12).ln()));
                let (sum, n) = logs.fold((0.0, 0), |(sum, n), lost| (sum + lost, n + 1));
                (n > 0).then(|| (sum / n as f64, self.noise.weight(trial.repeats, n)))
            });
        let (sum, weights) = lost.fold((0.0, 0.0), |(sum, all), (lost, weight)| (sum + lost * weight, all + weight));
        // the trials are already without what was lost by the last estimate
        let mean = if weights > 0.0 { sum / weights - self.kept().ln() } else { 0.0 };
        let kept = (-mean.clamp(0.0, MOST_LOSS * self.spread)).exp();
        let scale = self.kept() / kept;
        self.loss = 1.0 - kept;
        self.trials.iter_mut().for_each(|trial| *trial = trial.scaled(scale));
    }

    /// The trials as they were measured.
    pub(super) fn measured(&self) -> Vec<Trial> {
        self.trials.iter().map(|trial| trial.scaled(self.kept())).collect()
    }

    /// The middle spread, since some sets may be on two levels by where memory lies.
    fn estimate_noise(&mut self) {
        let contended = self.trials.iter().filter(|t| t.set.len() > 1);
        let mut spreads: Vec<f64> = contended.filter_map(|t| t.spread).collect();
        spreads.sort_by(f64::total_cmp);
        self.spread = spreads.get(spreads.len() / 2).copied().unwrap_or(0.0).min(MOST_SPREAD);
        self.noise.each = self.least.each.max(self.spread);
    }

    /// The noise of one trial: flows that run alone do not vary by where others' memory lies.
    pub(super) fn noise_of(&self, set: Members) -> Noise {
        if set.len() > 1 { self.noise } else { self.noise.undisturbed() }
    }

    /// What a flow reached alone, and the repeats behind it.
    pub(super) fn alone(&self, flow: usize) -> Option<(f64, usize)> {
        self.trials.iter().find(|t| t.set == Members::one(flow)).and_then(|t| Some((t.rate(flow)?, t.repeats)))
    }
}

/// A hypothesis with what it predicts of each trial.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub(super) hypothesis: Hypothesis,
    pub(super) predicted: Vec<Vec<f64>>,
    pub(super) distances: Vec<f64>,
    /// Sum of distances and costs: the lower, the better.
    pub(super) score: f64,
}

/// What groups cost by their number and by crossing each other.
pub(super) fn cost(groups: &[Group]) -> f64 {
    let crossing = |i: usize, a: &Group| groups.iter().skip(i + 1).filter(|b| a.members.crosses(b.members)).count();
    let crossings: usize = groups.iter().enumerate().map(|(i, a)| crossing(i, a)).sum();
    GROUP_COST * groups.len() as f64 + CROSSING_COST * crossings as f64
}

impl Fit {
    /// Of a hypothesis as it is.
    pub(super) fn of(hypothesis: Hypothesis, data: &Data) -> Self {
        let predicted: Vec<Vec<f64>> = data.trials.iter().map(|t| hypothesis.rates(t.set)).collect();
        let distances: Vec<f64> =
            data.trials.iter().zip(&predicted).map(|(t, rates)| t.distance(rates, data.noise_of(t.set))).collect();
        let score = distances.iter().sum::<f64>() + cost(&hypothesis.groups);
        Fit { hypothesis, predicted, distances, score }
    }

    /// Of a hypothesis whose numbers are first made those that the trials have where they bind.
    pub(super) fn refitted(hypothesis: Hypothesis, data: &Data) -> Self {
        let mut best = Fit::of(hypothesis, data);
        for _ in 0..ROUNDS {
            let next = Fit::of(best.numbers(data), data);
            if next.score >= best.score - 1e-3 {
                // numbers that bind nowhere are kept, and what is not better is not taken
                return if next.score < best.score { next } else { best };
            }
            best = next;
        }
        best
    }

    /// Adds the last trial.
    pub(super) fn add(&mut self, data: &Data) {
        let Some(trial) = data.trials.last() else { return };
        let rates = self.hypothesis.rates(trial.set);
        let distance = trial.distance(&rates, data.noise_of(trial.set));
        self.score += distance;
        self.predicted.push(rates);
        self.distances.push(distance);
    }

    /// The hypothesis with each group's capacity, and each rate alone, as the trials in which it binds have it: the mean
    /// of logarithms, each by its certainty.
    fn numbers(&self, data: &Data) -> Hypothesis {
        let mut new = self.hypothesis.clone();
        for group in &mut new.groups {
            group.capacity = self.capacity(group, data).map_or(group.capacity, |c| c.0);
        }
        for (i, solo) in new.solo.iter_mut().enumerate() {
            let free = data.trials.iter().zip(&self.predicted).filter_map(|(trial, rates)| {
                let at = trial.set.has(i).then(|| trial.set.rank(i))?;
                let binds = *rates.get(at)? >= self.hypothesis.alone(i) * (1.0 - 1e-9);
                let (shift, weight) = self.free_shift(trial, rates, data.noise_of(trial.set));
                binds.then(|| Some((*trial.rates.get(at)? / shift.exp(), weight)))?
            });
            let fitted = mean(free).map_or(*solo, |m| m.0);
            // what a flow reaches alone was measured: what it does beside others only sharpens that
            *solo = data.alone(i).map_or(fitted, |(rate, repeats)| {
                let reach = (MOST_CORRECTION * data.noise.undisturbed().of_one(repeats)).exp();
                fitted.clamp(rate / reach, rate * reach)
            });
        }
        new
    }

    /// What the rates of a trial are likely to have in common by those flows that nothing shared stops, and how certain
    /// the rate of one of them is without it.
    fn free_shift(&self, trial: &Trial, rates: &[f64], noise: Noise) -> (f64, f64) {
        let free = trial.set.iter().zip(trial.rates.iter().zip(rates));
        let free = free.filter(|(i, (_, expected))| **expected >= self.hypothesis.alone(*i) * (1.0 - 1e-9));
        let off: Vec<f64> = free.map(|(_, (rate, expected))| (rate / expected.max(1e-12)).max(1e-12).ln()).collect();
        noise.shift(trial.repeats, off.iter().sum::<f64>() / off.len().max(1) as f64, off.len())
    }

    /// A group's capacity by the trials that fill it, and the sum of their weights; `None` where none does.
    pub(super) fn capacity(&self, group: &Group, data: &Data) -> Option<(f64, f64)> {
        let full = data.trials.iter().zip(&self.predicted).filter(|(t, rates)| group.is_full(t.set, rates));
        mean(full.map(|(t, _)| (t.sum_of(group.members), data.noise.weight(t.repeats, t.set.and(group.members).len()))))
    }

    /// The sum of distances of another hypothesis, less that of this one. `old` and `new` are the groups in which the two
    /// differ: trials in which no old group was full and no new one would be overfull are alike.
    pub(super) fn difference(&self, other: &Hypothesis, old: &[Group], new: &[Group], data: &Data) -> f64 {
        let mut difference = 0.0;
        for ((trial, rates), distance) in data.trials.iter().zip(&self.predicted).zip(&self.distances) {
            if old.iter().any(|g| g.is_full(trial.set, rates)) || new.iter().any(|g| g.is_over(trial.set, rates)) {
                difference += trial.distance(&other.rates(trial.set), data.noise_of(trial.set)) - distance;
            }
        }
        difference
    }

    /// By what factor distances are larger than the assumed noise makes them, at least 1: where trials fit badly, no
    /// difference of fits means as much.
    pub(super) fn misfit(&self, data: &Data) -> f64 {
        let rates: usize = data.trials.iter().map(|t| t.set.len()).sum();
        (self.distances.iter().sum::<f64>() / rates.max(1) as f64).max(1.0)
    }

    /// By how much a trial is farther away than noise makes it: positive where its rates differ from each other, or all
    /// of them together, by more than noise.
    pub(super) fn excess(&self, at: usize, data: &Data) -> f64 {
        let Some((trial, rates)) = data.trials.get(at).zip(self.predicted.get(at)) else { return 0.0 };
        let flows = trial.set.len() as f64;
        let all = self.distances.get(at).copied().unwrap_or(0.0) - flows - 2.0 * (2.0 * flows).sqrt();
        let shift = trial.shift(rates);
        let shifted = shift * shift * data.noise.weight(trial.repeats, trial.set.len()) - MOST_SHIFT;
        all.max(shifted)
    }
}

/// The mean of logarithms by weight, as a number, with the sum of weights.
fn mean(values: impl Iterator<Item = (f64, f64)>) -> Option<(f64, f64)> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (value, weight) in values.filter(|(value, _)| *value > 0.0) {
        sum += value.ln() * weight;
        weights += weight;
    }
    (weights > 0.0).then(|| ((sum / weights).exp(), weights))
}
