//! Output for a terminal: plain text of at most [`line_width`] columns, with styles that the output stream
//! drops if it is not a terminal.

pub(crate) mod chart;
pub(crate) mod comparison;
pub(crate) mod curves;
pub(crate) mod designs;
pub(crate) mod device;
pub(crate) mod dot;
pub(crate) mod drawing;
pub(crate) mod explanation;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod halo;
pub(crate) mod headline;
pub(crate) mod inference;
pub(crate) mod label;
mod layout;
pub(crate) mod matrix;
pub(crate) mod nodes;
pub(crate) mod nodes_inference;
pub(crate) mod nvlink;
pub(crate) mod outline;
pub(crate) mod placement;
pub(crate) mod rdma;
pub(crate) mod run;
pub(crate) mod screen;
pub(crate) mod sizes;
pub(crate) mod style;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod tree;
pub(crate) mod tuning;
pub(crate) mod unified;

use std::cell::Cell;
use std::io::{self, Write};
use std::sync::LazyLock;

thread_local! {
    /// The width of what is no output for a terminal.
    static FIXED: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Columns of a line if no terminal says: in pipes, files and documents.
const WIDTH: usize = 100;

/// The columns of the terminal, or `COLUMNS`.
static TERMINAL: LazyLock<Option<usize>> = LazyLock::new(|| {
    let wanted = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    wanted.or_else(|| terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0)))
});

/// The columns that a line may take: those of the terminal, from 60 to 120.
pub(crate) fn line_width() -> usize {
    FIXED.get().unwrap_or_else(|| TERMINAL.unwrap_or(WIDTH).clamp(60, 120))
}

/// Whether a terminal limits lines.
pub(crate) fn has_width() -> bool {
    FIXED.get().is_some() || TERMINAL.is_some()
}

/// Collects output as plain text without styles, at the same width everywhere.
pub(crate) fn plain(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    let before = FIXED.replace(Some(WIDTH));
    // writing to memory cannot fail
    let _ = write(&mut out);
    FIXED.set(before);
    anstream::adapter::strip_str(&String::from_utf8_lossy(&out)).to_string()
}
