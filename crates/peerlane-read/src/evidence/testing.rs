//! What the tests of scanners share.

use super::{Fact, Found, Text};
use peerlane_machine::fact::HealthReport;

/// What one scanner finds in a text.
pub(super) fn scanned(scan: fn(&Text, &mut Found), body: &str) -> Found {
    let mut found = Found::default();
    scan(&Text::new("t", body.as_bytes()), &mut found);
    found
}

/// The one report of health that a scanner finds in a text.
pub(super) fn health(scan: fn(&Text, &mut Found), body: &str) -> HealthReport {
    let found = scanned(scan, body);
    let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
    let Fact::Health(report) = &one.fact else { panic!("{one:?}") };
    report.clone()
}
