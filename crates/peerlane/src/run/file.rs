//! Runs as text: the record, and the lines that are kept while it grows.
//!
//! A growing run is JSON lines: first the record as far as it is known, without cells, then one [`Event`] a line, so
//! that nothing measured is lost where the writer dies.

use super::{Run, SCHEMA};
use crate::measure::Event;

/// Why a text is no run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// It is no JSON of this format.
    #[error("line {line}, column {column}: {message}")]
    Format {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// It is a record of another format.
    #[error("its schema is {0}, which this version does not read; it reads {SCHEMA}")]
    Schema(String),
}

/// A run that is still growing, or whose writer died.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// The run with the cells so far.
    pub run: Run,
    /// Lines at the end that are cut or unreadable, which are left out.
    pub unreadable: usize,
}

impl Run {
    /// Reads a record.
    pub fn from_json(text: &str) -> Result<Run, RunError> {
        let format =
            |e: serde_json::Error| RunError::Format { line: e.line(), column: e.column(), message: e.to_string() };
        let run: Run = serde_json::from_str(text).map_err(format)?;
        if run.schema == SCHEMA { Ok(run) } else { Err(RunError::Schema(run.schema)) }
    }

    /// Takes in what happened.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Cells(cells) => self.cells.extend(cells),
            Event::States(states) if self.conditions.before.is_empty() => self.conditions.before = states,
            Event::States(states) => self.conditions.after = states,
            Event::Finished(wall) => self.wall = wall,
            Event::Started(_) => {}
        }
    }
}
