//! The spread of predictions, from machines that were left out.
//!
//! A figure's *score* is how far it lies above (or, negative, below) its prediction, as a multiple of the range that constants
//! leave it on that side; of the scores of a class, the quantiles at 4 % and 96 % become the multiples of its spread: split
//! conformal prediction (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005) with a machine's figures of
//! a class counted as one.

use std::collections::BTreeMap;

use peerlane::accuracy::{Class, Figure, Predicted};
use peerlane::catalogue::{Spread, Spreads};

/// The share of figures that may lie outside on each side.
const OUTSIDE: f64 = 0.04;

/// Fewer machines than this do not make a spread of their own: the scores of all classes count.
const FEWEST: usize = 4;

/// Fewer machines than this do not make a range narrower than constants leave it.
const FEW: usize = 10;

/// The least and the most that a range is multiplied by. The most keeps one machine, of which nothing was known once it was left
/// out, from making all predictions of its class worthless.
const MULTIPLES: [f64; 2] = [0.1, 5.0];

/// No prediction is more exact than this.
const EXACT: f64 = 0.005;

/// A figure with its machine.
pub(crate) type Left<'f> = (usize, &'f Figure);

/// What a prediction misses.
struct Missed {
    machine: usize,
    /// ln (measured ÷ predicted).
    miss: f64,
    /// ln of the sides of its range: predicted ÷ least, and most ÷ predicted.
    sides: [f64; 2],
}

impl Missed {
    /// `None` without a prediction.
    fn new(machine: usize, figure: &Figure) -> Option<Self> {
        let Predicted { value, low, high } = figure.predicted?;
        let sides = [(value / low).ln(), (high / value).ln()].map(|side| side.max(0.0));
        let miss = (figure.measured / value).ln();
        (miss.is_finite() && sides.iter().all(|s| s.is_finite())).then_some(Missed { machine, miss, sides })
    }
}

/// The spreads that figures of these machines show.
pub(crate) fn spreads(figures: &[Left]) -> Spreads {
    let mut classes: BTreeMap<Class, Vec<Missed>> = BTreeMap::new();
    for (machine, figure) in figures {
        classes.entry(figure.class).or_default().extend(Missed::new(*machine, figure));
    }
    classes.retain(|_, all| !all.is_empty());
    let floors: BTreeMap<Class, f64> = classes.iter().map(|(class, all)| (*class, floor(all))).collect();
    let scores = |class: &Class, all: &[Missed]| -> Vec<(f64, f64)> {
        let of_machine = |machine: usize| all.iter().filter(|m| m.machine == machine).count() as f64;
        let score = |Missed { machine, miss, sides }: &Missed| {
            let side = sides[usize::from(*miss > 0.0)] + floors[class];
            (miss / side, 1.0 / of_machine(*machine))
        };
        all.iter().map(score).collect()
    };
    let pooled: Vec<(f64, f64)> = classes.iter().flat_map(|(class, all)| scores(class, all)).collect();
    let spread = |(class, all): (&Class, &Vec<Missed>)| {
        let mut machines: Vec<usize> = all.iter().map(|missed| missed.machine).collect();
        machines.dedup();
        let own = scores(class, all);
        let scores = if machines.len() < FEWEST { &pooled } else { &own };
        let least = if machines.len() < FEW { 1.0 } else { MULTIPLES[0] };
        let multiple = |share: f64, sign: f64| (sign * quantile(scores, share)).clamp(least, MULTIPLES[1]);
        let spread =
            Spread { below: multiple(OUTSIDE, -1.0), above: multiple(1.0 - OUTSIDE, 1.0), floor: floors[class] };
        (class.name().to_owned(), rounded(spread))
    };
    Spreads(classes.iter().map(spread).collect())
}

fn rounded(Spread { below, above, floor }: Spread) -> Spread {
    let [below, above, floor] = [below, above, floor].map(|x| (x * 1e4).round() / 1e4);
    Spread { below, above, floor }
}

/// The median of what is missed.
fn floor(all: &[Missed]) -> f64 {
    let misses: Vec<(f64, f64)> = all.iter().map(|missed| (missed.miss.abs(), 1.0)).collect();
    quantile(&misses, 0.5).max(EXACT)
}

/// The value at this share of the weight.
fn quantile(values: &[(f64, f64)], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = sorted.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    for (value, weight) in &sorted {
        below += weight;
        if below >= share * total {
            return *value;
        }
    }
    sorted.last().map_or(0.0, |(value, _)| *value)
}

/// Figures as they are with these spreads.
pub(crate) fn widened(figure: &Figure, spreads: &Spreads) -> Figure {
    let predicted = figure.predicted.map(|p| {
        let [low, high] = spreads.of(figure.class.name()).around(p.value, [p.low, p.high]);
        Predicted { low, high, ..p }
    });
    Figure { predicted, ..figure.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_nine_of_ten_lie_in_the_spread_of_their_class() {
        let mut random = peerlane::random::Random::from_seed(7);
        let figure = |miss: f64| Figure {
            class: Class::P2pPcie,
            label: String::new(),
            measured: miss.exp(),
            predicted: Some(Predicted { value: 1.0, low: 0.98, high: 1.02 }),
        };
        let figures: Vec<Figure> = (0..400).map(|_| figure(0.1 * random.normal())).collect();
        let left: Vec<Left> = figures.iter().enumerate().collect();
        let spreads = spreads(&left);
        let inside = figures
            .iter()
            .map(|f| widened(f, &spreads))
            .filter(|f| f.predicted.is_some_and(|p| p.low <= f.measured && f.measured <= p.high));
        let share = inside.count() as f64 / 400.0;
        assert!((0.87..0.93).contains(&share), "{share} {spreads:?}");
    }
}
