//! Drawing: everything is plain text of at most [`WIDTH`] columns, with styles that the output stream
//! drops where it is no terminal.

pub(crate) mod comparison;
pub(crate) mod designs;
pub(crate) mod dot;
pub(crate) mod findings;
pub(crate) mod label;
mod layout;
pub(crate) mod matrix;
pub(crate) mod nvlink;
pub(crate) mod rdma;
pub(crate) mod run;
pub(crate) mod style;
pub(crate) mod svg;
pub(crate) mod text;
pub(crate) mod tree;

/// The columns that output keeps to.
pub(crate) const WIDTH: usize = 100;
