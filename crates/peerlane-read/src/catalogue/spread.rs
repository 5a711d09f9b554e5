//! How far measured numbers lie from the model's predictions, by kind of transfer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How far measured numbers of one kind lie from predictions on machines that nothing was fitted to.
///
/// The range that constants leave a prediction is widened or narrowed until about 90 % of such numbers lie in it: of each side
/// the logarithm of end ÷ value, and `floor`, are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// By how much the side below is multiplied.
    pub below: f64,
    /// By how much the side above is.
    pub above: f64,
    /// What is added to each side before that: no prediction is exact.
    pub floor: f64,
}

impl Default for Spread {
    /// The range as the constants leave it.
    fn default() -> Self {
        Spread { below: 1.0, above: 1.0, floor: 0.0 }
    }
}

impl Spread {
    /// This, where it does not make the range narrower.
    pub fn at_least_whole(self) -> Self {
        Spread { below: self.below.max(1.0), above: self.above.max(1.0), ..self }
    }

    /// The least and the most that a measured number is expected to be.
    pub fn around(self, value: f64, [low, high]: [f64; 2]) -> [f64; 2] {
        if !(value > 0.0 && low > 0.0 && high.is_finite()) {
            return [low, high];
        }
        let below = self.below * ((value / low).ln().max(0.0) + self.floor);
        let above = self.above * ((high / value).ln().max(0.0) + self.floor);
        [value * (-below).exp(), value * above.exp()]
    }
}

/// By kind of transfer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Spreads(pub BTreeMap<String, Spread>);

impl Spreads {
    /// Of one kind; of one that nothing is known of, the range as the constants leave it.
    pub fn of(&self, kind: &str) -> Spread {
        self.0.get(kind).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_multiplied_in_logarithms() {
        let spread = Spread { below: 2.0, above: 0.5, floor: 0.0 };
        let [low, high] = spread.around(100.0, [90.0, 121.0]);
        assert!((low - 81.0).abs() < 1e-9 && (high - 110.0).abs() < 1e-9, "{low} {high}");
        let [low, high] = Spread { below: 1.0, above: 1.0, floor: 0.02 }.around(100.0, [100.0, 100.0]);
        assert!(low < 98.1 && high > 102.0);
        assert_eq!(spread.around(0.0, [0.0, 0.0]), [0.0, 0.0]);
        assert_eq!(Spread::default().around(5.0, [4.0, 6.0]).map(|x| (x * 1e9).round()), [4e9, 6e9]);
    }
}
