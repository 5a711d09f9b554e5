//! What is usual among machines of one kind.

use std::collections::HashMap;

use super::machines::Machine;
use super::{Keyed, Number, What};
use crate::check::Settings;
use peerlane_measure::run::FlagKind;

/// A standard deviation below this is that of too few digits.
const LEAST_DEVIATION: f64 = 0.003;

/// This share of the others must have a number for one without it to count.
const OTHERS: f64 = 0.8;

/// Of fewer machines a tenth is too few to be the usual spread.
const MANY: usize = 20;

/// Standard deviations at which nine of ten values of normal noise lie nearer.
const NINE_OF_TEN: f64 = 1.645;

/// A number on the bad side of what it should be, or without a value.
#[derive(Clone, Debug)]
pub(super) struct Bad<'a> {
    pub(super) key: u64,
    pub(super) what: &'a What,
    /// `None` where it is missing.
    pub(super) value: Option<f64>,
    /// The median of its peers, or of earlier values.
    pub(super) usual: f64,
    /// The share that is lost; 1 where it is missing.
    pub(super) worse: f64,
    pub(super) deviations: f64,
    /// Why it is missing.
    pub(super) void: Option<FlagKind>,
}

/// From when on a number is bad.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// By how much worse, as a share.
    below: f64,
    /// And by how many standard deviations.
    deviations: f64,
}

impl Limits {
    /// Those of the site, wider where they rest on few others: twice as wide with four, a tenth with forty.
    pub(super) fn of(settings: &Settings, others: usize) -> Self {
        let scale = 1.0 + 4.0 / others.max(1) as f64;
        Limits { below: scale * settings.fleet.below, deviations: scale * settings.fleet.deviations }
    }

    /// The same, this many times as wide.
    pub(super) fn times(self, factor: f64) -> Self {
        Limits { below: factor * self.below, deviations: factor * self.deviations }
    }

    /// By how much a value is worse than usual, as a share and in standard deviations, if that is beyond the limits and
    /// the better end of its interval is, too, by half.
    pub(super) fn exceeded(
        self,
        what: &What,
        [value, low, high]: [f64; 3],
        usual: f64,
        sigma: impl FnOnce() -> f64,
    ) -> Option<(f64, f64)> {
        // times spread more than rates
        let below = if what.is_rate() { self.below } else { 2.0 * self.below };
        let worse = what.worse(value, usual);
        let at_best = what.worse(if what.is_rate() { high } else { low }, usual);
        if worse <= below || at_best <= below / 2.0 {
            return None;
        }
        let deviations = deviations(worse, sigma());
        (deviations > self.deviations).then_some((worse, deviations))
    }
}

/// A loss in standard deviations; as logarithms, so that half and double are as far.
fn deviations(worse: f64, sigma: f64) -> f64 {
    -(1.0 - worse).max(f64::MIN_POSITIVE).ln() / sigma
}

/// The usual numbers of a kind.
#[derive(Debug)]
pub(super) struct Usual {
    /// Median by number, and how many have one.
    medians: Keyed<(f64, usize)>,
    /// Standard deviation between machines by class, as a share.
    deviations: HashMap<String, f64>,
    pub(super) machines: usize,
}

/// The lower one of two in the middle.
pub(super) fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let middle = values.len().saturating_sub(1) / 2;
    let (_, value, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    *value
}

impl Usual {
    pub(super) fn of(members: &[&Machine], known: &Keyed<What>) -> Usual {
        let mut values: Keyed<Vec<f64>> = Keyed::default();
        for (number, _) in members.iter().flat_map(|machine| &machine.current) {
            if let Some([value, ..]) = number.value() {
                values.entry(number.key).or_default().push(value);
            }
        }
        let mut medians = Keyed::default();
        let mut off: HashMap<&str, Vec<f64>> = HashMap::new();
        for (key, mut of) in values {
            let usual = median(&mut of);
            medians.insert(key, (usual, of.len()));
            let Some(what) = known.get(&key) else { continue };
            off.entry(&what.class).or_default().extend(of.iter().map(|v| (v / usual).ln().abs()));
        }
        let many = members.len() >= MANY;
        let deviations = off.into_iter().map(|(class, mut of)| (class.to_owned(), deviation(&mut of, many))).collect();
        Usual { medians, deviations, machines: members.len() }
    }

    /// The usual value of a number.
    pub(super) fn median(&self, key: u64) -> Option<f64> {
        self.medians.get(&key).map(|(usual, _)| *usual)
    }

    /// The standard deviation of a class between machines, as a share.
    pub(super) fn deviation(&self, what: &What) -> f64 {
        self.deviations.get(&what.class).copied().unwrap_or(LEAST_DEVIATION)
    }

    /// The largest standard deviation of classes of rates that are not those of the CPU.
    pub(super) fn spread<'k>(&self, known: impl Iterator<Item = &'k What>) -> f64 {
        let of = |what: &What| self.deviations.get(&what.class).copied();
        known.filter(|what| what.is_rate() && !what.by_cpu).filter_map(of).fold(0.0, f64::max)
    }

    /// The number, if it is beyond the limits, or missing where most others have it.
    pub(super) fn bad<'a>(&self, number: &Number, what: &'a What, limits: Limits) -> Option<Bad<'a>> {
        let &(usual, others) = self.medians.get(&number.key)?;
        // a number that only few machines have shows nothing
        if others < FEWEST {
            return None;
        }
        match (number.value(), number.void) {
            (Some(value), _) => {
                let (worse, deviations) = limits.exceeded(what, value, usual, || self.deviation(what))?;
                Some(Bad { key: number.key, what, value: Some(value[0]), usual, worse, deviations, void: None })
            }
            (None, Some(void)) if others as f64 >= OTHERS * self.machines as f64 => Some(Bad {
                key: number.key,
                what,
                value: None,
                usual,
                worse: 1.0,
                deviations: f64::INFINITY,
                void: Some(void),
            }),
            _ => None,
        }
    }

    /// Whether all numbers of a machine are near the usual ones, so that rules find on it what they find on others like it.
    pub(super) fn is_typical(&self, machine: &Machine, known: &Keyed<What>, limits: Limits) -> bool {
        machine.current.iter().all(|(number, _)| {
            let what = known.get(&number.key);
            what.is_some_and(|what| match (number.value(), self.median(number.key)) {
                (Some([value, ..]), Some(usual)) => what.by_cpu || what.worse(value, usual).abs() < limits.below / 2.0,
                _ => false,
            })
        })
    }
}

/// Machines of a kind that it takes to know what is usual.
pub(super) const FEWEST: usize = 4;

/// A robust standard deviation of these distances from medians: 1.4826 median absolute deviations are that of normal noise.
/// Where a value has several modes the rarer ones lie outside of it; of many machines, nine in ten must lie within.
fn deviation(off: &mut [f64], many: bool) -> f64 {
    let middle = 1.4826 * median(off);
    let at = off.len() * 9 / 10;
    let outer =
        if many && at < off.len() { *off.select_nth_unstable_by(at, f64::total_cmp).1 / NINE_OF_TEN } else { 0.0 };
    middle.max(outer).max(LEAST_DEVIATION)
}
