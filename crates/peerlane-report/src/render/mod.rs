//! Output for a terminal: plain text of at most [`line_width`] columns, with styles that the output stream
//! drops if it is not a terminal.

pub mod chart;
pub mod comparison;
pub mod curves;
pub mod designs;
mod device;
pub mod dot;
pub mod drawing;
pub mod explanation;
pub(crate) mod figures;
pub mod findings;
pub mod halo;
pub mod headline;
pub mod inference;
pub mod label;
mod layout;
pub mod matrix;
pub mod model_step;
pub mod nodes;
pub mod nodes_inference;
mod nvlink;
mod outline;
pub mod placement;
mod rdma;
pub mod run;
pub(crate) mod screen;
pub mod sizes;
pub mod style;
pub mod svg;
pub mod table;
pub mod text;
pub mod traffic;
pub mod tree;
pub mod tuning;
mod unified;
pub mod whole;

use std::cell::Cell;
use std::io::{self, Write};
use std::sync::OnceLock;

/// How much is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail {
    /// Everything: every finding, number, assumption and unknown, and the source of each.
    pub verbose: bool,
    /// The answer alone.
    pub quiet: bool,
}

thread_local! {
    /// The width of what is no output for a terminal.
    static FIXED: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Columns of a line if no terminal says: in pipes, files and documents.
const WIDTH: usize = 100;

/// The columns of the terminal.
static TERMINAL: OnceLock<usize> = OnceLock::new();

/// Sets the columns of the terminal that output goes to. The program calls it once, before it writes; without it output is
/// as wide as in a pipe.
pub fn set_terminal_width(columns: usize) {
    // only the first call counts: a width that changes in the middle of an output would break its columns
    let _ = TERMINAL.set(columns);
}

/// The columns that a line may take: those of the terminal, from 60 to 120.
pub fn line_width() -> usize {
    FIXED.get().unwrap_or_else(|| TERMINAL.get().copied().unwrap_or(WIDTH).clamp(60, 120))
}

/// Whether a terminal limits lines.
pub fn has_width() -> bool {
    FIXED.get().is_some() || TERMINAL.get().is_some()
}

/// Collects output as plain text without styles, at the same width everywhere.
pub fn plain(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    let before = FIXED.replace(Some(WIDTH));
    // writing to memory cannot fail
    let _ = write(&mut out);
    FIXED.set(before);
    anstream::adapter::strip_str(&String::from_utf8_lossy(&out)).to_string()
}
