//! What was measured: sets of flows that ran at once with the rate of each, and how far a hypothesis is from it.

use super::members::Members;

/// Rates of flows that ran at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Which ran.
    pub set: Members,
    /// Rate of each, in the order of their indices; positive.
    pub rates: Vec<f64>,
    /// Repeats behind each rate.
    pub repeats: usize,
    /// Relative standard deviation of a repeat, by how far these lie apart; `None` where the repeats are not known.
    pub spread: Option<f64>,
}

/// How far numbers of one thing lie apart, as relative standard deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Of one repeat of one flow.
    pub each: f64,
    /// Of what all flows of a set have in common, however often it is repeated.
    pub common: f64,
}

impl Noise {
    /// What flows vary by where nothing contends.
    pub const ALONE: Noise = Noise { each: 0.02, common: 0.01 };

    /// The noise of flows that run alone, however much those that contend vary.
    pub(super) fn undisturbed(self) -> Noise {
        Noise { each: self.each.min(Noise::ALONE.each), common: self.common.min(Noise::ALONE.common) }
    }

    /// Variances of a trial's rates: each flow's own, and the common one.
    fn variances(self, repeats: usize) -> (f64, f64) {
        (self.each * self.each / repeats.max(1) as f64, self.common * self.common)
    }

    /// The relative standard deviation of one flow's rate.
    pub fn of_one(self, repeats: usize) -> f64 {
        let (own, common) = self.variances(repeats);
        (own + common).sqrt()
    }

    /// How certain a sum of so many flows of a trial is: the reciprocal of its relative variance.
    pub fn weight(self, repeats: usize, flows: usize) -> f64 {
        let (own, common) = self.variances(repeats);
        1.0 / (own / flows.max(1) as f64 + common).max(1e-12)
    }

    /// What a set's rates are likely to have in common if their mean is off by the logarithm `mean`, and how certain one
    /// rate is without it. One flow alone shows nothing of it.
    pub(super) fn shift(self, repeats: usize, mean: f64, flows: usize) -> (f64, f64) {
        let (own, common) = self.variances(repeats);
        if flows < 2 {
            return (0.0, self.weight(repeats, 1));
        }
        let of_mean = own / flows as f64;
        let share = common / (common + of_mean).max(1e-12);
        (share * mean, 1.0 / (own + share * of_mean).max(1e-12))
    }
}

/// Relative differences beyond this count as this, so that one broken set does not decide.
const MOST_DIFFERENCE: f64 = 4.0;

/// Twice the negative log likelihood of `rates` where `expected` is true: squares of relative differences, over their
/// variance, where what all have in common costs less (Sherman and Morrison's formula for a variance of `own` on the
/// diagonal and `common` everywhere).
pub(super) fn distance(rates: &[f64], expected: &[f64], noise: Noise, repeats: usize) -> f64 {
    let (own, common) = noise.variances(repeats);
    let own = own.max(1e-12);
    let (mut sum, mut squares) = (0.0, 0.0);
    for (rate, expected) in rates.iter().zip(expected) {
        let e = (rate / expected.max(1e-12)).max(1e-12).ln().clamp(-MOST_DIFFERENCE, MOST_DIFFERENCE);
        sum += e;
        squares += e * e;
    }
    let n = rates.len() as f64;
    (squares - common / (own + n * common) * sum * sum) / own
}

impl Trial {
    /// How far a hypothesis is from it; about the number of its flows where the hypothesis is true.
    pub(super) fn distance(&self, expected: &[f64], noise: Noise) -> f64 {
        distance(&self.rates, expected, noise, self.repeats)
    }

    /// The mean logarithm of its rates over what is expected.
    pub(super) fn shift(&self, expected: &[f64]) -> f64 {
        let one = |(rate, expected): (&f64, &f64)| (rate / expected.max(1e-12)).max(1e-12).ln();
        self.rates.iter().zip(expected).map(one).sum::<f64>() / self.rates.len().max(1) as f64
    }

    /// With rates multiplied by a factor, if several flows ran.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        let factor = if self.set.len() > 1 { factor } else { 1.0 };
        Trial { rates: self.rates.iter().map(|rate| rate * factor).collect(), ..self.clone() }
    }

    /// What some of its flows carried together.
    pub fn sum_of(&self, members: Members) -> f64 {
        super::hypothesis::sum_of(&self.rates, self.set, members)
    }

    /// A flow's rate in it.
    pub fn rate(&self, flow: usize) -> Option<f64> {
        self.set.has(flow).then(|| self.rates.get(self.set.rank(flow)).copied()).flatten()
    }
}
