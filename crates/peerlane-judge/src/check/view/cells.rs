//! The cells of bandwidth matrices: between which ends, over which path, with what is expected of them, and in words.

use std::collections::HashSet;

use super::{MOST_DEVICES, View};
use crate::check::words::pairs;
use peerlane_machine::fabric::{NodeId, NodeKind, Path};
use peerlane_machine::machine::SourcedMatrix;
use peerlane_machine::matrix::{Direction, Matrix};
use peerlane_machine::subject::Subject;
use peerlane_machine::units::Rate;
use peerlane_model::comparison::{Expected, Series};

/// One end of a transfer in a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::check) enum End {
    /// The matrix says `host` and not which memory.
    Host,
    /// A node of the fabric.
    Node(NodeId),
}

/// A number of a bandwidth matrix between two different ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::check) struct Cell {
    /// Row.
    pub(in crate::check) i: usize,
    /// Column.
    pub(in crate::check) j: usize,
    /// The row's end.
    pub(in crate::check) from: End,
    /// The column's end.
    pub(in crate::check) to: End,
    /// The number as the matrix counts it: both directions, for a bidirectional one.
    pub(in crate::check) rate: Rate,
}

impl Cell {
    /// Both ends, where both are nodes.
    pub(in crate::check) fn nodes(&self) -> Option<(NodeId, NodeId)> {
        match (self.from, self.to) {
            (End::Node(a), End::Node(b)) => Some((a, b)),
            _ => None,
        }
    }

    /// The node that copies to or from `host`, and whether data goes to the node.
    pub(in crate::check) fn with_host(&self) -> Option<(NodeId, bool)> {
        match (self.from, self.to) {
            (End::Host, End::Node(id)) => Some((id, true)),
            (End::Node(id), End::Host) => Some((id, false)),
            _ => None,
        }
    }

    /// Whether a node is an end.
    pub(in crate::check) fn is_of(&self, id: NodeId) -> bool {
        [self.from, self.to].contains(&End::Node(id))
    }
}

impl View<'_> {
    /// The numbers of a bandwidth matrix between two known, different ends.
    pub(in crate::check) fn cells(&self, matrix: &Matrix) -> Vec<Cell> {
        self.cells_between(matrix, |_, _| true)
    }

    /// Those of [`View::cells`] in a node's rows and columns.
    pub(in crate::check) fn cells_of(&self, matrix: &Matrix, node: NodeId) -> Vec<Cell> {
        let node = End::Node(node);
        self.cells_between(matrix, |from, to| from == node || to == node)
    }

    fn cells_between(&self, matrix: &Matrix, wanted: impl Fn(End, End) -> bool) -> Vec<Cell> {
        let end = |name: &String| match self.fabric().find(name) {
            Some(id) => Some(End::Node(id)),
            None => name.eq_ignore_ascii_case("host").then_some(End::Host),
        };
        let mut cells = Vec::new();
        if is_oversized(matrix) {
            return cells;
        }
        let cols: Vec<Option<End>> = matrix.cols.iter().map(end).collect();
        for (i, row) in matrix.rows.iter().enumerate() {
            let Some(from) = end(row) else { continue };
            for (j, to) in cols.iter().enumerate() {
                let Some(to) = to.filter(|to| *to != from && wanted(from, *to)) else { continue };
                let rate = matrix.rate(i, j).filter(|r| r.bytes_per_second().is_finite() && *r > Rate::ZERO);
                cells.extend(rate.map(|rate| Cell { i, j, from, to, rate }));
            }
        }
        cells
    }

    /// The cells of a bandwidth matrix between two GPUs.
    pub(in crate::check) fn gpu_cells(&self, matrix: &Matrix) -> Vec<Cell> {
        let is_gpu = |id| self.fabric().node(id).kind == NodeKind::Gpu;
        let mut cells = self.cells(matrix);
        cells.retain(|c| c.nodes().is_some_and(|(a, b)| is_gpu(a) && is_gpu(b)));
        cells
    }

    /// The path of a cell's data. With P2P off, the path as if there were no NVLink: its links are used,
    /// though data goes on up to host memory.
    pub(in crate::check) fn path(&self, cell: &Cell, p2p: Option<bool>) -> Option<Path> {
        let fabric = self.fabric();
        match (cell.from, cell.to) {
            (End::Node(a), End::Node(b)) if p2p == Some(false) => fabric.tree_path(a, b),
            (End::Node(a), End::Node(b)) => fabric.path(a, b),
            (End::Node(a), End::Host) => fabric.path(a, fabric.nearest_host(a)?),
            (End::Host, End::Node(b)) => fabric.path(fabric.nearest_host(b)?, b),
            (End::Host, End::Host) => None,
        }
    }

    /// A cell in words: `GPU0→GPU1`.
    pub(in crate::check) fn arrow(&self, matrix: &Matrix, cell: &Cell) -> String {
        let [from, to] = ends(matrix, cell);
        format!("{from}→{to}")
    }

    /// A cell as a subject, either end first as the matrix has it: `GPU0-GPU1`, `host-GPU3`.
    pub(in crate::check) fn subject(&self, matrix: &Matrix, cell: &Cell) -> Subject {
        let [from, to] = ends(matrix, cell).map(str::to_owned);
        Subject::Pair(from, to)
    }

    /// The ends of cells in words, whichever direction their data goes: `GPU0 and GPU2`, `any two of GPU0–GPU3`.
    pub(in crate::check) fn between<'c>(&self, matrix: &Matrix, cells: impl IntoIterator<Item = &'c Cell>) -> String {
        let mut seen = HashSet::new();
        let named = cells.into_iter().map(|cell| ends(matrix, cell));
        let once = named.filter(|[row, col]| !seen.contains(&[*col, *row]) && seen.insert([*row, *col]));
        pairs(&once.map(|[row, col]| (row.to_owned(), col.to_owned())).collect::<Vec<_>>())
    }

    /// The expected rate of a cell of the matrix at `index`.
    pub(in crate::check) fn expected_rate(&self, index: usize, cell: &Cell) -> Option<Rate> {
        expected_rate(self.comparison.matrices().get(index)?, cell)
    }

    /// The same in GB/s.
    pub(in crate::check) fn expected_gb(&self, index: usize, cell: &Cell) -> Option<f64> {
        self.expected_rate(index, cell).map(Rate::gb)
    }

    /// A number with what it is and how sure: `GPU0→GPU1 12.00 GB/s (one way, P2P on)`.
    pub(in crate::check) fn quote(&self, measured: &SourcedMatrix, cell: &Cell) -> String {
        let (matrix, sure) = (&measured.matrix, sureness(measured, cell));
        format!("{} {} ({}{sure})", self.arrow(matrix, cell), cell.rate, matrix.describe())
    }
}

/// The names of a cell's row and column.
pub(in crate::check) fn ends<'m>(matrix: &'m Matrix, cell: &Cell) -> [&'m str; 2] {
    let name = |names: &'m [String], at: usize| names.get(at).map_or("", String::as_str);
    [name(&matrix.rows, cell.i), name(&matrix.cols, cell.j)]
}

/// The expected value of a cell as a rate, where known.
pub(in crate::check) fn expected_rate(series: &Series, cell: &Cell) -> Option<Rate> {
    as_rate(series, series.expected(cell.i, cell.j)?, |e| e.value).filter(|r| *r > Rate::ZERO)
}

/// One of an expectation's three numbers as a rate.
pub(in crate::check) fn as_rate(series: &Series, expected: &Expected, number: fn(&Expected) -> f64) -> Option<Rate> {
    series.matrix().unit.rate(number(expected)).filter(|r| r.bytes_per_second().is_finite())
}

/// How certain the number in a cell is, as the end of a sentence; empty where that is unknown.
fn sureness(measured: &SourcedMatrix, cell: &Cell) -> String {
    let spread = measured.spread.get(cell.i).and_then(|row| row.get(cell.j)).copied().flatten();
    let bounds = spread.and_then(|s| {
        let (low, high) = (measured.matrix.unit.rate(s.low)?, measured.matrix.unit.rate(s.high)?);
        Some((s.n, low.gb(), high.gb()))
    });
    match bounds {
        None => String::new(),
        Some((1, ..)) => "; one sample".to_owned(),
        // fewer samples have no 95 % interval
        Some((n @ 0..6, low, high)) => format!("; median of {n} samples, {low:.2} to {high:.2}"),
        Some((n, low, high)) => format!("; median of {n} samples, 95 % interval {low:.2} to {high:.2}"),
    }
}

/// Whether a matrix has more rows or columns than any machine has devices.
fn is_oversized(matrix: &Matrix) -> bool {
    matrix.rows.len().max(matrix.cols.len()) > MOST_DEVICES
}

/// One direction's part of a bandwidth: half of a bidirectional sum.
pub(in crate::check) fn one_way(matrix: &Matrix, rate: Rate) -> Rate {
    if matrix.direction == Some(Direction::Bidirectional) { rate * 0.5 } else { rate }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{matrix, see, switched};
    use peerlane_machine::machine::Spread;

    #[test]
    fn cells_leave_out_the_diagonal_and_what_is_no_number() {
        let mut machine = switched(3);
        machine.matrices.push(matrix(&[&[900.0, 12.0, 0.0], &[12.5, 900.0, f64::NAN], &[1.0, 2.0, 900.0]]));
        see(&machine, |view| {
            let cells = view.cells(&machine.matrices[0].matrix);
            let at: Vec<(usize, usize)> = cells.iter().map(|c| (c.i, c.j)).collect();
            assert_eq!(at, [(0, 1), (1, 0), (2, 0), (2, 1)]);
            let up = view.fabric().upstream(view.fabric().find("GPU1").unwrap()).unwrap().0;
            assert_eq!(view.carried(up), Some(Rate::from_gb(12.5)));
        });
    }

    #[test]
    fn a_measured_number_says_how_sure_it_is() {
        let mut measured = matrix(&[&[0.0, 12.0], &[11.0, 0.0]]);
        let cell = Cell { i: 0, j: 1, from: End::Host, to: End::Host, rate: Rate::from_gb(12.0) };
        assert_eq!(sureness(&measured, &cell), "");
        let mut with = |n| {
            measured.spread = vec![vec![None, Some(Spread { n, low: 11.9, high: 12.15 })], vec![]];
            sureness(&measured, &cell)
        };
        assert_eq!(with(9), "; median of 9 samples, 95 % interval 11.90 to 12.15");
        assert_eq!((with(5), with(1)), ("; median of 5 samples, 11.90 to 12.15".into(), "; one sample".into()));
        assert_eq!(sureness(&measured, &Cell { i: 1, j: 0, ..cell }), "");
    }
}
