//! Drawing: everything is plain text of at most [`WIDTH`] columns, with styles that the output stream
//! drops where it is no terminal.

pub(crate) mod comparison;
pub(crate) mod curves;
pub(crate) mod designs;
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

use std::io::{self, Write};

/// The columns that output keeps to.
pub(crate) const WIDTH: usize = 100;

/// What something writes, as plain text without styles.
pub(crate) fn plain(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    // memory takes everything
    let _ = write(&mut out);
    anstream::adapter::strip_str(&String::from_utf8_lossy(&out)).to_string()
}
