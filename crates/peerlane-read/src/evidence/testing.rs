//! What the tests of scanners share.

use super::{Found, Text};

/// What one scanner finds in a text.
pub(super) fn scanned(scan: fn(&Text, &mut Found), body: &str) -> Found {
    let mut found = Found::default();
    scan(&Text::new("t", body.as_bytes()), &mut found);
    found
}
