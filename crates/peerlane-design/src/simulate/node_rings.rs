//! Rings over the GPUs of a node, as workloads and the library's model use them.

use peerlane_model::collectives::{Ring, Rings};

/// Rings over the GPUs of a node that take part.
pub(super) struct NodeRings {
    pub(super) rings: Rings,
    /// The same in names.
    pub(super) named: Vec<Ring>,
}

impl NodeRings {
    /// The GPUs of each ring by their places in the node.
    pub(super) fn orders(&self) -> Vec<Vec<usize>> {
        self.rings.rings.iter().map(|(order, _)| order.clone()).collect()
    }
}
