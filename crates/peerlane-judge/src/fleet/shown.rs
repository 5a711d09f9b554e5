//! Figures and times as the document has them.

use peerlane_machine::date::utc;

/// Four digits.
pub(super) fn short(value: f64) -> String {
    let decimals = (3 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 4) as usize;
    format!("{value:.decimals$}")
}

/// Six digits: more than any measurement provides.
pub(super) fn digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Seconds since 1970 as `2026-11-23T12:00:00Z`; `None` for 0.
pub(super) fn time(seconds: Option<u64>) -> Option<String> {
    utc(seconds.filter(|seconds| *seconds > 0)?, "%Y-%m-%dT%H:%M:%SZ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        assert_eq!(time(Some(1_795_250_075)).as_deref(), Some("2026-11-21T08:34:35Z"));
        assert_eq!((time(None), time(Some(0)), time(Some(u64::MAX))), (None, None, None));
        assert_eq!(
            (short(396.123), short(0.00366), short(12_345.6)),
            ("396.1".into(), "0.0037".into(), "12346".into())
        );
    }
}
