//! Colours, by meaning. Text is fitted first and painted last, so that widths count characters.

use anstyle::{AnsiColor, Style};
use peerlane::check::{Severity, Verdict};

/// Headings.
pub(crate) const HEADING: Style = Style::new().bold();
/// What stands in the background: lines of a tree, evidence.
pub(crate) const DIM: Style = Style::new().dimmed();
/// GPUs.
pub(crate) const GPU: Style = AnsiColor::Green.on_default().bold();
/// NICs.
pub(crate) const NIC: Style = AnsiColor::Cyan.on_default().bold();
/// Switches, root complexes, CPUs.
pub(crate) const INNER: Style = Style::new().bold();
/// As it should be.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Costs performance.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
/// Costs much.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Plain text.
pub(crate) const PLAIN: Style = Style::new();

/// The text in a style.
pub(crate) fn paint(style: Style, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{style}{text}{style:#}") }
}

/// A severity's style.
pub(crate) fn of_severity(severity: Severity) -> Style {
    match severity {
        Severity::Info => DIM,
        Severity::Warning => WARN,
        Severity::Error => BAD,
    }
}

/// A verdict's style.
pub(crate) fn of_verdict(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Healthy => GOOD,
        Verdict::Degraded => WARN,
        Verdict::Broken => BAD,
        Verdict::Unknown => HEADING,
    }
}
