//! The table of expected and measured values, at the width of the terminal.

use std::io::{self, Write};

use peerlane::matrix::Unit;

use super::{Line, Section};
use crate::render::line_width;
use crate::render::style::{self, paint};
use crate::render::text::{count, fit, span, width};

/// The columns of the numbers.
const NUMBERS: usize = 40;

/// The columns before the numbers.
fn before() -> usize {
    line_width() - NUMBERS
}

/// What a table holds.
#[derive(Clone, Copy)]
pub enum Head {
    /// All values.
    All {
        /// Whether expectations assume links at full width.
        assuming: bool,
    },
    /// Those that are not as expected.
    Off {
        /// Whether expectations assume links at full width.
        assuming: bool,
    },
}

impl Head {
    fn words(self, sections: &[Section]) -> &'static str {
        let any_measured = sections.iter().any(|s| s.cells.iter().any(|c| c.measured.is_some()));
        let any_expected = sections.iter().any(|s| s.cells.iter().any(|c| c.expected.is_some()));
        match (self, any_expected, any_measured) {
            (Head::Off { assuming: false }, ..) => "Not as expected",
            (Head::Off { assuming: true }, ..) => "Not as expected from what is assumed",
            (Head::All { assuming: true }, true, true) => "Measured, and expected as assumed below",
            (Head::All { .. }, true, true) => "Expected and measured",
            (Head::All { .. }, true, false) => "Expected (nothing was measured)",
            (Head::All { .. }, false, _) => "Measured (too little is known to predict)",
        }
    }
}

/// Writes the table with at most `most` lines of numbers.
pub fn write(out: &mut dyn Write, sections: &[Section], head: Head, most: usize) -> io::Result<()> {
    if sections.is_empty() {
        return Ok(());
    }
    let before = before();
    let head = head.words(sections);
    let any_measured = sections.iter().any(|s| s.cells.iter().any(|c| c.measured.is_some()));
    let (measured, ratio) = if any_measured { ("measured", "ratio") } else { ("", "") };
    let lines: Vec<(&Section, Line)> =
        sections.iter().flat_map(|s| s.lines().into_iter().map(move |line| (s, line))).collect();
    let mut ends: Vec<String> = Vec::new();
    for (_, line) in &lines {
        if !ends.contains(&line.ends()) {
            ends.push(line.ends());
        }
    }
    // group by metric or by end points, whichever takes fewer headings
    let by_ends = ends.len() < sections.len();
    let shared = if by_ends { Shared::of(sections) } else { Shared::default() };
    let words = [shared.prefix.map(|p| p.trim_end_matches(", ")), shared.unit.map(Unit::name), shared.source];
    let words: Vec<&str> = words.into_iter().flatten().filter(|word| !word.is_empty()).collect();
    let long_head = format!("{head}: {}", words.join(", "));
    // if it does not fit, the shared part gets a line of its own
    let (head, below) = match (words.is_empty(), width(&long_head) <= before) {
        (true, _) => (head.to_owned(), None),
        (false, true) => (long_head, None),
        (false, false) => (head.to_owned(), Some(words.join(", "))),
    };
    // titles that the heading leaves no room for get a line of their own
    let titles = format!(" {:>5} {:>11} {measured:>11} {ratio:>9}", "cells", "expected");
    writeln!(out)?;
    if width(&head) > before {
        writeln!(out, "{}", paint(style::HEADING, &fit(&head, line_width())))?;
        writeln!(out, "{}", paint(style::HEADING, format!("{:before$}{titles}", "").trim_end()))?;
    } else {
        writeln!(out, "{}", paint(style::HEADING, format!("{head:<before$}{titles}").trim_end()))?;
    }
    let (total, lines) = (lines.len(), lines.into_iter().take(most).collect::<Vec<_>>());
    let heading =
        |out: &mut dyn Write, text: &str| writeln!(out, "  {}", paint(style::DIM, &fit(text, line_width() - 2)));
    if let Some(below) = below {
        heading(out, &below)?;
    }
    if by_ends {
        for wanted in ends.iter().filter(|ends| lines.iter().any(|(_, line)| line.ends() == **ends)) {
            heading(out, wanted)?;
            for (section, line) in lines.iter().filter(|(_, line)| line.ends() == *wanted) {
                row(out, &section.heading(line_width() - 4, &shared), section.unit, line)?;
            }
        }
    } else {
        for section in sections.iter().filter(|s| lines.iter().any(|(of, _)| std::ptr::eq(*of, *s))) {
            heading(out, &section.heading(line_width() - 2, &shared))?;
            for (_, line) in lines.iter().filter(|(of, _)| std::ptr::eq(*of, section)) {
                row(out, &line.ends(), section.unit, line)?;
            }
        }
    }
    if total > lines.len() {
        let more = format!("and {} (-v shows them)", count(total - lines.len(), "more line"));
        writeln!(out, "    {}", paint(style::DIM, &more))?;
    }
    Ok(())
}

/// The part of headings that all sections share, which is shown once.
#[derive(Default)]
pub(super) struct Shared<'a> {
    /// The quantity with a comma.
    pub(super) prefix: Option<&'static str>,
    pub(super) unit: Option<Unit>,
    pub(super) source: Option<&'a str>,
}

impl<'a> Shared<'a> {
    fn of(sections: &'a [Section]) -> Self {
        const PREFIX: &str = "bandwidth, ";
        let first = sections.first();
        let alike = |what: &dyn Fn(&Section) -> bool| sections.iter().all(what);
        let unit = first.map(|f| f.unit).filter(|unit| alike(&|s| s.unit == *unit));
        let sources =
            first.map(|f| &f.sources).filter(|sources| sources.len() == 1 && alike(&|s| s.sources == **sources));
        Shared {
            prefix: Some(PREFIX).filter(|p| alike(&|s| s.what.starts_with(p))),
            unit,
            source: sources.and_then(|s| s.first()).map(String::as_str),
        }
    }
}

/// Writes one line of numbers; below what they are about, if that leaves no room beside it.
fn row(out: &mut dyn Write, what: &str, unit: Unit, line: &Line) -> io::Result<()> {
    let text = |bounds: Option<(f64, f64)>| bounds.map_or_else(String::new, |(low, high)| span(low, high));
    let look = line.ratio.map_or(style::PLAIN, |ratio| of_ratio(ratio, unit));
    let numbers = format!("{:>5} {:>11} {:>11}", line.cells, text(line.expected), text(line.measured));
    let ratio = paint(look, &format!("{:>9}", text(line.ratio)));
    let room = before() - 4;
    let mut what = what;
    if width(what) > room {
        writeln!(out, "    {}", fit(what, line_width() - 4))?;
        what = "";
    }
    let shown = format!("    {what:<room$} {numbers} {ratio}");
    writeln!(out, "{}", shown.trim_end())
}

/// Highlights rates below, and times above, the expected value.
fn of_ratio((low, high): (f64, f64), unit: Unit) -> anstyle::Style {
    let worst = if unit.rate(1.0).is_some() { low } else { 1.0 / high };
    match worst {
        w if w < 0.5 => style::BAD,
        w if w < 0.8 => style::WARN,
        _ => style::GOOD,
    }
}
