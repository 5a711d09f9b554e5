//! Times as text.

use jiff::Timestamp;

/// Seconds since 1970 by a pattern of `strftime`, in UTC; `None` beyond the year 9999.
pub fn utc(seconds: u64, pattern: &str) -> Option<String> {
    let time = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    Some(time.strftime(pattern).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_795_250_075, "2026-11-21 08:34:35"),
            (4_107_542_399, "2100-02-28 23:59:59"),
        ] {
            assert_eq!(utc(seconds, "%Y-%m-%d %H:%M:%S").as_deref(), Some(text));
        }
        assert_eq!(utc(u64::MAX, "%Y"), None);
    }
}
