//! Status bits of PCIe's Advanced Error Reporting, as `lspci -vvv` prints them.

use super::health::Health;
use peerlane_machine::fact::{Area, Grade};

/// Errors of a link that come from bad signals.
const SIGNAL: [&str; 7] = ["RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "Surprise", "SDES"];

/// Bits that probing a device at start sets on sound machines.
const USUAL: [&str; 2] = ["UnsupReq", "AdvNonFatalErr"];

/// Reads status bits: `CESta:  RxErr- BadTLP+ …`, of a device whose link may be narrow. False where the line has none.
pub(super) fn status(health: &mut Health, part: Option<&str>, is_narrow: bool, line: &str, at: usize) -> bool {
    let Some((register @ ("UESta" | "CESta"), bits)) = line.split_once(':') else { return false };
    let set: Vec<&str> = bits.split_whitespace().filter_map(|bit| bit.strip_suffix('+')).collect();
    if set.is_empty() && !bits.trim_end().ends_with('-') {
        return false;
    }
    let (usual, bad): (Vec<&str>, Vec<&str>) = set.into_iter().partition(|bit| USUAL.contains(bit));
    let bits = |bits: &[&str]| bits.iter().map(|bit| format!("{bit}+")).collect::<Vec<_>>().join(" ");
    if bad.is_empty() {
        health.sound(Area::Pcie, at);
        if !usual.is_empty() {
            health.trouble(Area::Pcie, Grade::Note, part, register, &bits(&usual), at);
        }
        return true;
    }
    // errors of signals on a link that lost lanes have one cause
    let is_signal = bad.iter().any(|bit| SIGNAL.contains(bit));
    let grade = if register == "UESta" || is_signal && is_narrow { Grade::Fault } else { Grade::Suspect };
    health.trouble(Area::Pcie, grade, part, register, &bits(&bad), at);
    true
}
