//! Values between nodes, each with what an earlier record has.

use std::collections::HashMap;

use super::Joined;
use peerlane_design::simulated_cluster::Prediction;
use peerlane_measure::nodes::{Cell, NodesRun, Probe, Transport};

/// What a value is of, in words that do not depend on the order of nodes.
pub(crate) type Key<'a> = ([(&'a str, Option<&'a str>); 2], Transport, Probe, [bool; 2]);

/// What a cell of a record is of.
pub(crate) fn key<'a>(run: &'a NodesRun, cell: &'a Cell) -> Key<'a> {
    let ends = [&cell.step.from, &cell.step.to].map(|end| {
        let host = run.nodes.get(end.node).map_or("", |node| node.host.as_str());
        (host, end.nic.as_deref().or(end.is_gpu().then_some(end.memory.as_str())))
    });
    (ends, cell.step.transport, cell.step.probe, [cell.step.is_of_gpus(), cell.again])
}

/// The values of a record, those of the earlier one as what they should be.
pub(crate) fn with_earlier<'a>(before: &NodesRun, after: &'a NodesRun) -> Vec<Joined<'a>> {
    let earlier: HashMap<Key, &Cell> = before.cells.iter().map(|cell| (key(before, cell), cell)).collect();
    let join = |cell: &'a Cell| {
        let value = earlier.get(&key(after, cell))?.value()?;
        Some(Joined { cell, expected: Some(Prediction { value, through: Vec::new(), bound_by: None, range: None }) })
    };
    after.cells.iter().filter_map(join).collect()
}
