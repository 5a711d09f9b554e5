//! Pairs whose class a cut-off matrix neither states nor implies. The tree gives both devices a place, but how
//! far apart the places are is open.

use peerlane_machine::fabric::{NodeId, PathClass};
use peerlane_machine::fact::ClassMatrix;

use super::from_classes::Stated;
use super::inventory::Inventory;

/// Pairs of nodes (`nodes` is in the order of the devices) whose path nothing states or implies.
pub(super) fn unstated(all: &Inventory, matrix: &ClassMatrix, nodes: &[NodeId]) -> Vec<(NodeId, NodeId)> {
    let stated = Stated::of(matrix, &all.devices);
    let members: Vec<usize> = (0..all.devices.len()).filter(|&d| stated.lists(d)).collect();
    let class = |a: usize, b: usize| stated.class(a, b);
    let classes: Vec<Vec<Option<PathClass>>> =
        members.iter().map(|&a| members.iter().map(|&b| class(a, b).filter(|_| a != b)).collect()).collect();
    let mut pairs = Vec::new();
    for (i, row) in classes.iter().enumerate() {
        for (j, other) in classes.iter().enumerate().skip(i + 1) {
            if row.get(j).is_some_and(Option::is_none) && !implied(row, other) {
                pairs.push((nodes[members[i]], nodes[members[j]]));
            }
        }
    }
    pairs
}

/// Whether the paths of two devices to the others imply the path between them: it is as far as the farther of two
/// that differ, and no farther than `PIX` if both are that near to a third.
fn implied(a: &[Option<PathClass>], b: &[Option<PathClass>]) -> bool {
    a.iter().zip(b).any(|(x, y)| match (x, y) {
        (Some(x), Some(y)) => x.is_pcie() && y.is_pcie() && (x != y || *x == PathClass::Pix),
        _ => false,
    })
}
