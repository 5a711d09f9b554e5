//! How likely a set of assumptions makes what was measured.

use super::candidates::{Candidate, Open};
use super::observed::Observed;
use crate::comparison::Comparison;
use crate::expectation::Expected;
use crate::model::{Assume, Model};
use peerlane_machine::machine::Machine;
use peerlane_read::catalogue::Parts;
use std::sync::Arc;

/// Standard deviations from the middle of a normal distribution to the ends of an interval that holds 90 % of it.
const TO_END: f64 = 1.645;

/// The least standard deviation of ln(measured ÷ expected): programs and their runs differ by as much.
const LEAST_SIGMA: f64 = 0.03;

/// The most that one kind of path may count against a set of assumptions, so that one outlier does not decide.
const MOST_AGAINST: f64 = 12.0;

/// What a set counts that predicts nothing of a kind of path.
const NOTHING: f64 = -14.0;

/// What a set of assumptions makes of the measured values.
#[derive(Clone, Debug)]
pub(super) struct Score {
    /// The logarithm of its likelihood, up to a constant.
    pub(super) value: f64,
    /// Of each kind of path, what is expected.
    pub(super) expected: Vec<Option<Expected>>,
}

/// Scores sets of assumptions about one machine.
pub(super) struct Scorer<'a> {
    /// The machine with the median of each kind of path, and no other number.
    machine: Machine,
    parts: &'a Parts,
}

impl<'a> Scorer<'a> {
    pub(super) fn new(machine: &Machine, observed: &[Observed], parts: &'a Parts) -> Self {
        let machine = Machine {
            name: machine.name.clone(),
            kind: machine.kind,
            fabric: machine.fabric.clone(),
            p2p: machine.p2p.clone(),
            unknown: machine.unknown.clone(),
            matrices: observed.iter().filter_map(Observed::median).collect(),
            ..Machine::default()
        };
        Scorer { machine, parts }
    }

    /// The likelihood alone; what was assumed has a prior of its own.
    pub(super) fn score(&self, open: &Open, candidate: &Candidate) -> Score {
        let machine = open.machine(&self.machine, candidate);
        let widths = open.links(&machine, self.parts, candidate, true);
        let model = Model::fitted(&machine, self.parts, Assume::Usual, Arc::new(widths));
        let comparison = Comparison::of(&model);
        let mut score = Score { value: 0.0, expected: Vec::new() };
        for series in comparison.series() {
            let expected = series.expected(0, 0).cloned();
            let measured = series.measured(0, 0).map(|measured| measured.value);
            score.value += measured.map_or(0.0, |m| expected.as_ref().map_or(NOTHING, |e| likelihood(m, e)));
            score.expected.push(expected);
        }
        score
    }
}

/// The logarithm of the density of ln(measured), which is taken to be normal to each side of the expected value.
fn likelihood(measured: f64, expected: &Expected) -> f64 {
    let Expected { value, low, high, .. } = *expected;
    if !(value > 0.0 && low > 0.0 && high.is_finite()) {
        return NOTHING;
    }
    let sigma = |end: f64| ((end / value).ln().abs() / TO_END).max(LEAST_SIGMA);
    let [below, above] = [low, high].map(sigma);
    let off = (measured / value).ln();
    let deviations = off / if off < 0.0 { below } else { above };
    let against = (deviations * deviations / 2.0).min(MOST_AGAINST);
    -against - ((below + above) / 2.0).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(low: f64, value: f64, high: f64) -> Expected {
        Expected::new(value, [low, high], "")
    }

    #[test]
    fn near_the_middle_is_likelier_and_a_narrow_interval_is_likelier_than_a_wide_one() {
        let of = |measured, low, high| likelihood(measured, &expected(low, 10.0, high));
        assert!(of(10.0, 9.0, 11.0) > of(9.0, 9.0, 11.0) && of(9.0, 9.0, 11.0) > of(8.0, 9.0, 11.0));
        assert!(of(10.0, 9.0, 11.0) > of(10.0, 5.0, 20.0), "a wide interval explains everything");
        assert!(of(6.0, 5.0, 20.0) > of(6.0, 9.0, 11.0));
        assert!(of(0.1, 9.0, 11.0) > -MOST_AGAINST, "no outlier decides alone");
        assert_eq!(of(1.0, 0.0, 11.0), NOTHING);
    }
}
