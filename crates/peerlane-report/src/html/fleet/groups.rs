//! All-reduces of groups of nodes, which are between no two nodes.

use crate::JsonSchema;
use peerlane::nodes::{Cell, NodesRun, drops};
use peerlane::nodes_check::quantity;
use peerlane::site::ComparedStep;
use serde::Serialize;

use super::per_mille;
use crate::render::nodes::host;

/// Nodes that are named, of a group that is no row of neighbours.
const FEW: usize = 4;

/// The all-reduce of a group of nodes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct GroupView {
    /// How many nodes.
    nodes: usize,
    /// GPUs of all of them.
    gpus: u32,
    /// Which nodes: `node0 to node7`.
    members: String,
    /// Bus bandwidth with its unit, or why there is none.
    measured: String,
    /// What is expected, where that is known.
    against: String,
    /// The share of that in per mille, 0 of what failed; `null` where there is nothing to compare with.
    score: Option<u32>,
    /// Where the rate drops with this group, the slow node, or those of which one is: `one of node8 to node15`.
    slow: String,
}

/// All of them, small groups first; those that were measured to find a slow node come after those of their size.
pub(super) fn groups(run: &NodesRun, joined: &[ComparedStep]) -> Vec<GroupView> {
    let expected = |cell: &Cell| {
        let of = joined.iter().find(|one| std::ptr::eq(one.cell, cell))?;
        of.expected.as_ref().map(|expected| expected.value)
    };
    let drops = drops(&run.cells, &expected);
    let mut all: Vec<&ComparedStep> = joined.iter().filter(|one| one.cell.step.is_among_many()).collect();
    all.sort_by_key(|one| (one.cell.step.nodes().count(), one.cell.again));
    let view = |one: &&ComparedStep| {
        let cell = one.cell;
        let why = || cell.flags.first().map_or_else(|| "no value".to_owned(), |flag| flag.detail.clone());
        let dropped = drops.iter().find(|drop| std::ptr::eq(drop.cell, cell));
        GroupView {
            nodes: cell.step.nodes().count(),
            gpus: cell.step.queue_pairs,
            members: members(run, &cell.step.nodes().collect::<Vec<_>>()),
            measured: cell.value().map_or_else(why, |value| quantity(false, value)),
            against: one.expected.as_ref().map_or_else(|| "–".to_owned(), |of| quantity(false, of.value)),
            score: match cell.value() {
                Some(_) => one.share().and_then(|share| per_mille(share as f32)),
                None => Some(0),
            },
            slow: match dropped.map(|drop| drop.joined.as_slice()) {
                None | Some([]) => String::new(),
                Some([one]) => members(run, &[*one]),
                Some(several) => format!("one of {}", members(run, several)),
            },
        }
    };
    all.iter().map(view).collect()
}

/// Nodes by name, a row of neighbours by its ends.
fn members(run: &NodesRun, nodes: &[usize]) -> String {
    let name = |node: &usize| host(run, *node).to_owned();
    let [first, .., last] = nodes else { return nodes.first().map_or_else(String::new, name) };
    if nodes.len() > 2 && nodes.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
        return format!("{} to {}", name(first), name(last));
    }
    let some: Vec<String> = nodes.iter().take(FEW).map(name).collect();
    let more = if nodes.len() > FEW { format!(" and {} more", nodes.len() - FEW) } else { String::new() };
    format!("{}{more}", some.join(", "))
}
