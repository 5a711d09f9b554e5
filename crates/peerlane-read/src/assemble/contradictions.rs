//! Statements that cannot all be true: a matrix that no tree has, or two sources that disagree.

use peerlane_machine::fabric::{Fabric, Interconnect, NodeId, PathClass};
use peerlane_machine::fact::ClassMatrix;
use peerlane_machine::machine::Contradiction;
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;

use super::inventory::Inventory;
use super::stated::ByName;

/// A pair for which a fabric's class is not the stated one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// Names of the pair.
    pub(super) pair: (String, String),
    /// What the matrix states.
    pub(super) stated: PathClass,
    /// What the fabric has.
    pub(super) built: Option<PathClass>,
}

/// Cells of the matrix that the fabric does not give back.
pub(super) fn mismatches(all: &Inventory, fabric: &Fabric, nodes: &[NodeId]) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    for a in 0..all.devices.len() {
        for b in a + 1..all.devices.len() {
            let Some(class) = all.stated.class(a, b) else { continue };
            let built = fabric.class(nodes[a], nodes[b]);
            if built != Some(class) {
                let pair = (all.devices[a].name.clone(), all.devices[b].name.clone());
                wrong.push(Mismatch { pair, stated: class, built });
            }
        }
    }
    wrong
}

/// Cells that differ from their mirrors. Words for links of a maker's own need not be the same both ways.
pub(super) fn asymmetric(matrix: &ClassMatrix, origin: &Origin) -> Option<Contradiction> {
    let mut uneven = Vec::new();
    let cells = ByName::of(matrix);
    let places: Vec<_> = matrix.cols.iter().map(|name| (name, cells.place(name))).collect();
    for (i, (a, at_a)) in places.iter().enumerate() {
        for (b, at_b) in &places[i + 1..] {
            if let (Some(x), Some(y)) = (cells.at(at_a.0, at_b.1), cells.at(at_b.0, at_a.1))
                && x != y
                && ![x, y].iter().any(|c| matches!(c, PathClass::Gpu(Interconnect::Other, _)))
            {
                uneven.push(((*a).clone(), (*b).clone(), x, y));
            }
        }
    }
    let (a, b, x, y) = uneven.first()?;
    Some(Contradiction {
        message: format!(
            "{}: {a} to {b} is {x}, but {b} to {a} is {y}; a path has one class both ways",
            plural(uneven.len(), "cell differs from its mirror", "cells differ from their mirrors")
        ),
        subjects: uneven.iter().map(|(a, b, _, _)| Subject::Pair(a.clone(), b.clone())).collect(),
        origins: vec![origin.clone()],
    })
}

/// Classes that do not nest.
pub(super) fn not_nested(wrong: &[Mismatch], origin: &Origin) -> Option<Contradiction> {
    let first = wrong.first()?;
    let built = first.built.map_or("no path".to_owned(), |c| c.to_string());
    Some(Contradiction {
        message: format!(
            "no machine has this matrix: {} with what the others imply; {}-{} reads {} where the rest makes it {built}",
            plural(wrong.len(), "cell does not fit", "cells do not fit"),
            first.pair.0,
            first.pair.1,
            first.stated,
        ),
        subjects: Subject::pairs_of(wrong.iter().map(|m| &m.pair)),
        origins: vec![origin.clone()],
    })
}

/// A PCI listing and a matrix that disagree.
pub(super) fn sources_disagree(wrong: &[Mismatch], matrix: &Origin, listing: &Origin) -> Option<Contradiction> {
    let first = wrong.first()?;
    let built = first.built.map_or("shows no path".to_owned(), |c| format!("makes it {c}"));
    Some(Contradiction {
        message: format!(
            "{} reports {}-{} as {}, but {} {built}; the map follows the matrix ({})",
            matrix.tool,
            first.pair.0,
            first.pair.1,
            first.stated,
            listing.tool,
            plural(wrong.len(), "pair disagrees", "pairs disagree")
        ),
        subjects: Subject::pairs_of(wrong.iter().map(|m| &m.pair)),
        origins: vec![matrix.clone(), listing.clone()],
    })
}

fn plural(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}
