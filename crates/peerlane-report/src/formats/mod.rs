//! Reports in each format: text for a terminal, Markdown for tickets, JUnit XML, Prometheus' text format, and CSV.

pub mod csv;
mod junit;
mod markdown;
mod prometheus;
mod text;

use std::io::{self, Write};

use peerlane::verdict::Line;
use serde::Serialize;

use crate::render::style::{self, paint};
use crate::render::{Detail, line_width};
use crate::report::Report;
pub use junit::junit;
pub use markdown::markdown;
pub(crate) use markdown::side_by_side;
pub use prometheus::prometheus;
pub use text::text;

/// A format that every report has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    Text,
    /// For a ticket.
    Markdown,
    /// For a test runner.
    Junit,
    /// For a node exporter's textfile collector.
    Prometheus,
}

/// Writes reports. `detail` is for text, and `line` for test cases.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, format: Format, reports: &[Report], detail: Detail, line: Line) -> io::Result<()> {
    match format {
        Format::Text => reports.iter().enumerate().try_for_each(|(i, report)| {
            rule(out, i == 0)?;
            text(out, report, detail)
        }),
        Format::Markdown => {
            let texts: Vec<String> = reports.iter().map(markdown).collect();
            out.write_all(texts.join("\n").as_bytes())
        }
        Format::Junit => out.write_all(junit(reports, line).as_bytes()),
        Format::Prometheus => out.write_all(prometheus(reports).as_bytes()),
    }
}

/// Writes a horizontal rule between machines.
pub fn rule(out: &mut dyn Write, is_first: bool) -> io::Result<()> {
    if is_first { Ok(()) } else { writeln!(out, "\n{}\n", paint(style::DIM, &"─".repeat(line_width()))) }
}

/// Writes a document as JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(out: &mut dyn Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}
