//! Output for a terminal: plain text of at most [`WIDTH`] columns, with styles that the output stream
//! drops if it is not a terminal.

pub(crate) mod chart;
pub(crate) mod comparison;
pub(crate) mod curves;
pub(crate) mod designs;
pub(crate) mod device;
pub(crate) mod dot;
pub(crate) mod drawing;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod inference;
pub(crate) mod label;
mod layout;
pub(crate) mod matrix;
pub(crate) mod nvlink;
pub(crate) mod placement;
pub(crate) mod rdma;
pub(crate) mod run;
pub(crate) mod style;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod tree;
pub(crate) mod tuning;
pub(crate) mod unified;

use std::io::{self, Write};

/// The width of all output, in columns.
pub(crate) const WIDTH: usize = 100;

/// Collects output as plain text without styles.
pub(crate) fn plain(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    // writing to memory cannot fail
    let _ = write(&mut out);
    anstream::adapter::strip_str(&String::from_utf8_lossy(&out)).to_string()
}
