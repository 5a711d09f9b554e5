//! Results in other formats: Markdown for tickets, Prometheus' text format, JUnit XML, cells of CSV, JSON.

pub(crate) mod csv;
pub(crate) mod fleet;
pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod nodes;
pub(crate) mod prometheus;

use std::io::{self, Write};

use serde::Serialize;

/// Writes a document as JSON.
pub(crate) fn json(out: &mut dyn Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}
