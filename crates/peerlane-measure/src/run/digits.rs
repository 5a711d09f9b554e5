//! Numbers as the record writes them: six significant digits, which is a thousand times finer than any measurement
//! repeats and half as long as all that a double has.

use serde::{Serialize, Serializer};

/// To six significant digits. What is no finite number stays what it is.
fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

pub(crate) fn one<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    short(*value).serialize(serializer)
}

pub(crate) fn all<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|v| short(*v)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_are_kept() {
        assert_eq!((short(395.123_456_7), short(0.000_123_456_789), short(-1e300)), (395.123, 0.000_123_457, -1e300));
        assert_eq!((short(0.0), short(f64::INFINITY)), (0.0, f64::INFINITY));
        assert!(short(f64::NAN).is_nan());
    }
}
