//! Pairs whose class a cut-off matrix neither states nor implies. The tree gives both devices a place, but how
//! far apart the places are is open.

use peerlane_machine::fabric::{NodeId, PathClass};

use super::inventory::Inventory;

/// Pairs of nodes (`nodes` is in the order of the devices) whose path nothing states or implies.
pub(super) fn unstated(all: &Inventory, nodes: &[NodeId]) -> Vec<(NodeId, NodeId)> {
    let members: Vec<usize> = (0..all.devices.len()).filter(|&d| all.stated.lists(d)).collect();
    let class = |a: usize, b: usize| all.stated.class(a, b).filter(|_| a != b);
    let open = |i: usize, j: usize| class(members[i], members[j]).is_none();
    let pairs: Vec<(usize, usize)> = (0..members.len())
        .flat_map(|i| (i + 1..members.len()).map(move |j| (i, j)))
        .filter(|&(i, j)| open(i, j))
        .collect();
    if pairs.is_empty() {
        return Vec::new();
    }
    let known: Vec<Known> = members.iter().map(|&a| Known::of(members.iter().map(|&b| class(a, b)))).collect();
    // a word that is not known may be a link of the devices' own, which no other path implies
    let is_unknown = |i: usize, j: usize| all.stated.has_word(members[i], members[j]) || !known[i].imply(&known[j]);
    let unknown = pairs.into_iter().filter(|&(i, j)| is_unknown(i, j));
    unknown.map(|(i, j)| (nodes[members[i]], nodes[members[j]])).collect()
}

/// The classes of PCIe, nearest first.
const CLASSES: [PathClass; 5] = [PathClass::Pix, PathClass::Pxb, PathClass::Phb, PathClass::Node, PathClass::Sys];

/// Of one device, which others are at each of the [`CLASSES`]: a bit a device, 64 of them a word.
struct Known {
    at: Vec<[u64; CLASSES.len()]>,
}

impl Known {
    fn of(classes: impl ExactSizeIterator<Item = Option<PathClass>>) -> Self {
        let mut at = vec![[0; CLASSES.len()]; classes.len().div_ceil(64)];
        for (device, class) in classes.enumerate() {
            if let Some(k) = CLASSES.iter().position(|c| Some(*c) == class) {
                at[device / 64][k] |= 1 << (device % 64);
            }
        }
        Known { at }
    }

    /// Whether the paths of two devices to the others imply the path between them: it is as far as the farther of two
    /// that differ, and no farther than `PIX` if both are that near to a third.
    fn imply(&self, other: &Self) -> bool {
        let any = |classes: &[u64]| classes.iter().fold(0, |all, bits| all | bits);
        self.at.iter().zip(&other.at).any(|(a, b)| {
            let alike = a.iter().zip(b).skip(1).fold(0, |all, (x, y)| all | (x & y));
            any(a) & any(b) & !alike != 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_device_implies_a_path_as_its_definition_says() {
        let others = [None, Some(PathClass::Same), Some(PathClass::nvlink(4))].into_iter();
        let all: Vec<Option<PathClass>> = others.chain(CLASSES.map(Some)).collect();
        for &x in &all {
            for &y in &all {
                let implied =
                    x.zip(y).is_some_and(|(x, y)| x.is_pcie() && y.is_pcie() && (x != y || x == PathClass::Pix));
                // the third device is far behind others that imply nothing
                let row = |class| Known::of((0..130).map(|i| if i == 129 { class } else { None }));
                assert_eq!(row(x).imply(&row(y)), implied, "{x:?} {y:?}");
            }
        }
    }
}
