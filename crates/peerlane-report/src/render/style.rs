//! Colours, by meaning. Text is fitted first and painted last, so that widths count characters.

use anstyle::{Ansi256Color, AnsiColor, Style};
use peerlane::check::Severity;
use peerlane::verdict::Verdict;

/// Headings.
pub const HEADING: Style = Style::new().bold();
/// What stands in the background: lines of a tree, evidence.
pub const DIM: Style = Style::new().dimmed();
/// GPUs.
pub const GPU: Style = AnsiColor::Green.on_default().bold();
/// NICs.
pub const NIC: Style = AnsiColor::Cyan.on_default().bold();
/// Switches, root complexes, CPUs.
pub const INNER: Style = Style::new().bold();
/// As it should be.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Costs performance.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Costs much.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Plain text.
pub const PLAIN: Style = Style::new();

/// The text in a style.
pub fn paint(style: Style, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{style}{text}{style:#}") }
}

/// The background of a number by its ratio to what was expected: orange below, blue above, which colour-blind readers
/// tell apart.
pub fn of_heat(ratio: f64) -> Style {
    const DARK: Ansi256Color = Ansi256Color(16);
    let background = match ratio {
        r if r < 0.5 => Ansi256Color(208),
        r if r < 0.8 => Ansi256Color(215),
        r if r < 0.95 => Ansi256Color(223),
        r if r <= 1.05 => return PLAIN,
        _ => Ansi256Color(153),
    };
    Style::new().fg_color(Some(DARK.into())).bg_color(Some(background.into()))
}

/// A severity's style.
pub fn of_severity(severity: Severity) -> Style {
    match severity {
        Severity::Info => DIM,
        Severity::Warning => WARN,
        Severity::Error => BAD,
    }
}

/// A verdict's style.
pub fn of_verdict(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Healthy => GOOD,
        Verdict::Limited | Verdict::Unexplained => WARN,
        Verdict::Fault => BAD,
        Verdict::NotJudged => HEADING,
    }
}
