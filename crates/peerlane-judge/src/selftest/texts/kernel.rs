//! `dmesg`.

use std::fmt::Write;

use super::site::Site;

/// The kernel's messages with their times since boot.
pub(super) fn dmesg(site: &Site) -> String {
    let mut text = String::new();
    for (message, n) in site.log.iter().zip(0_u32..) {
        // the first are of the boot
        let at = if n < 2 { 0.0 } else { site.uptime + 3.7 * f64::from(n) };
        // String takes all that is written
        let _ = writeln!(text, "[{at:12.6}] {message}");
    }
    text
}
