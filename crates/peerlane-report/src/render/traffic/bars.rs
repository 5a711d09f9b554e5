//! Bars and small graphs of one direction.

use anstyle::{AnsiColor, Style};

use super::super::style::{DIM, PLAIN};
use super::super::text::{fit, width};
use super::Line;

/// What is sent, and what is received; where a link carries all it should, either is bold.
const SENT: Style = AnsiColor::Green.on_default();
const RECEIVED: Style = AnsiColor::Cyan.on_default();

/// From this share of what it should carry on, a link counts as full.
const FULL: f64 = 0.9;

/// Columns for `301.2 of 398.0`.
const NUMBERS: usize = 14;

/// Columns for ` 100 %`, where there is room.
const PERCENT: usize = 6;

/// From this width of a half on there is room for the share.
const WIDE: usize = 36;

/// Eighths of a column from the left, and of a line from below.
const PARTS: [&str; 8] = ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
const LEVELS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// One direction of a link.
pub(super) struct Half {
    /// 0 sent, 1 received.
    pub(super) way: usize,
    pub(super) rate: Option<f64>,
    pub(super) carries: Option<f64>,
    pub(super) columns: usize,
}

impl Half {
    fn style(&self) -> Style {
        let style = if self.way == 0 { SENT } else { RECEIVED };
        if self.share().is_some_and(|share| share >= FULL) { style.bold() } else { style }
    }

    fn share(&self) -> Option<f64> {
        Some(self.rate? / self.carries.filter(|carries| *carries > 0.0)?)
    }

    /// Columns of the bar.
    pub(super) fn bar(&self) -> usize {
        let percent = if self.columns >= WIDE { PERCENT } else { 0 };
        self.columns.saturating_sub(2 + 1 + NUMBERS + percent + 1)
    }

    /// The bar, then the numbers.
    pub(super) fn now(&self, line: &mut Line) {
        let bar = self.bar();
        let eighths = self.share().map_or(0, |share| (share.clamp(0.0, 1.0) * bar as f64 * 8.0).round() as usize);
        let mut drawn = PARTS[7].repeat(eighths / 8);
        if !eighths.is_multiple_of(8) {
            drawn += PARTS[eighths % 8 - 1];
        }
        self.with(drawn, line);
    }

    /// The past as a graph, then the numbers.
    pub(super) fn past(&self, rates: &[Option<f64>], line: &mut Line) {
        let most = rates.iter().flatten().fold(0.0_f64, |a, b| a.max(*b));
        let full = self.carries.unwrap_or(most);
        let drawn: String = rates.iter().map(|rate| level(*rate, full)).collect();
        let pad = " ".repeat(self.bar().saturating_sub(width(&drawn)));
        self.with(pad + &drawn, line);
    }

    fn with(&self, drawn: String, line: &mut Line) {
        let pad = self.bar().saturating_sub(width(&drawn));
        let arrow = if self.way == 0 { "▲ " } else { "▼ " };
        line.push((DIM, arrow.to_owned()));
        line.push((self.style(), drawn));
        line.push((PLAIN, " ".repeat(pad + 1)));
        let gb = |rate: f64| format!("{:.1}", rate * 1e-9);
        let (is, of) = match (self.rate, self.carries) {
            (Some(rate), Some(carries)) => (gb(rate), format!(" of {}", gb(carries))),
            (Some(rate), None) => (gb(rate), String::new()),
            (None, Some(carries)) => ("–".to_owned(), format!(" of {}", gb(carries))),
            (None, None) => ("–".to_owned(), String::new()),
        };
        // numbers of a column end alike where both are known
        let before = NUMBERS.saturating_sub(width(&is) + width(&of));
        line.push((PLAIN, " ".repeat(before) + &is));
        line.push((DIM, fit(&of, NUMBERS)));
        if self.columns >= WIDE {
            let percent = self.share().map_or(String::new(), |share| format!("{:.0} %", share * 100.0));
            line.push((DIM, format!("{percent:>PERCENT$}")));
        }
        line.push((PLAIN, " ".to_owned()));
    }
}

/// A rate as a character: blank where it is not known, the lowest for nothing at all.
fn level(rate: Option<f64>, full: f64) -> &'static str {
    let Some(rate) = rate else { return " " };
    let share = if full > 0.0 { (rate / full).clamp(0.0, 1.0) } else { 0.0 };
    LEVELS[(share * 7.0).round() as usize]
}

/// Links side by side, a character each.
pub(super) fn strip(links: impl Iterator<Item = Option<f64>>, carries: Option<f64>, columns: usize, line: &mut Line) {
    let links: Vec<Option<f64>> = links.collect();
    let most = links.iter().flatten().fold(0.0_f64, |a, b| a.max(*b));
    let drawn: String = links.iter().map(|rate| level(*rate, carries.unwrap_or(most))).collect();
    let drawn = fit(&drawn, columns.saturating_sub(3));
    let pad = columns.saturating_sub(2 + width(&drawn));
    line.push((PLAIN, "  ".to_owned()));
    line.push((PLAIN, drawn));
    line.push((PLAIN, " ".repeat(pad)));
}
