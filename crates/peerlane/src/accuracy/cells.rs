//! Every number of a system beside what predicts it.

use super::baseline::{Baseline, baseline};
use super::{Errors, FAR, FarCell, Kind, MatrixAccuracy};
use crate::evidence::{Matrix, Quantity, Unit};
use crate::expectation::{ExpectedMatrix, expect_latency_like, expect_like};
use crate::machine::{Machine, Statement};
use crate::model::Model;

/// What titles of matrices end with that a source does not print itself.
const BEYOND_TEXT: &str = "in its results, not in its text";

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    /// Row of its matrix.
    pub row: String,
    /// Column.
    pub col: String,
    /// Class of the path, or which way between host and GPU.
    pub path: String,
    /// What stands there.
    pub published: f64,
    /// What the model predicts.
    pub predicted: f64,
    /// The prediction's interval.
    pub interval: [f64; 2],
    /// What it predicts without the constants that were fitted to this system.
    pub left_out: Option<f64>,
    /// What NCCL's constants say.
    pub nccl: Option<f64>,
    /// What raw link rates say.
    pub raw: Option<f64>,
    /// What binds.
    pub bottleneck: String,
    /// Unit of all numbers.
    pub unit: Unit,
}

impl Cell {
    /// Absolute relative error of the prediction.
    pub(super) fn error(&self) -> f64 {
        (self.predicted / self.published - 1.0).abs()
    }

    /// The same of the prediction without what was fitted to this system; 1 where it has none.
    pub(super) fn error_left_out(&self) -> f64 {
        self.left_out.map_or(1.0, |v| (v / self.published - 1.0).abs())
    }

    /// Fitted where leaving out what was fitted to this system changes the prediction.
    pub(super) fn kind(&self) -> Kind {
        let same = self.left_out.is_some_and(|v| (v - self.predicted).abs() <= 1e-9 * self.predicted.abs());
        if same { Kind::Derived } else { Kind::Fitted }
    }
}

/// One matrix or statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observation {
    /// The system's name.
    pub system: String,
    /// What it holds.
    pub label: String,
    /// Whether it holds rates.
    pub is_rate: bool,
    /// Whether a document prints it, and not only the files that it points to.
    pub in_text: bool,
    /// Its numbers that have a prediction.
    pub cells: Vec<Cell>,
}

impl Observation {
    /// Its errors.
    pub(super) fn summary(&self) -> MatrixAccuracy {
        let Errors { n, median, p85, worst } = Errors::of(self.cells.iter().map(Cell::error).collect());
        let kind = self.cells.iter().map(Cell::kind).max().unwrap_or(Kind::Derived);
        MatrixAccuracy { label: self.label.clone(), cells: n, median, p85, worst, kind }
    }

    /// Its cells that are far off.
    pub(super) fn far(&self) -> impl Iterator<Item = FarCell> {
        self.cells.iter().filter(|c| c.error() > FAR).map(|c| FarCell {
            system: self.system.clone(),
            label: self.label.clone(),
            row: c.row.clone(),
            col: c.col.clone(),
            published: c.published,
            predicted: c.predicted,
            error: c.predicted / c.published - 1.0,
            within: c.interval[0] <= c.published && c.published <= c.interval[1],
            reason: super::reasons::reason(&self.system, &self.label, c),
        })
    }
}

/// All published matrices and statements of a machine that the model predicts.
pub(super) fn observations(machine: &Machine, model: &Model, left_out: &Model) -> Vec<Observation> {
    let matrices = machine.matrices.iter().filter(|m| m.published).map(|m| vec![m.matrix.clone()]);
    // a range is two figures, of which each is compared
    let statements = machine.statements.iter().map(|s| {
        let ends = if s.low == s.high { vec![s.low] } else { vec![s.low, s.high] };
        ends.into_iter().map(|v| as_matrix(s, v)).collect()
    });
    let all = matrices.chain(statements).filter_map(|figures| {
        let cells: Vec<Cell> = figures.iter().flat_map(|m| of_matrix(machine, model, left_out, m)).collect();
        let first = figures.first().filter(|_| !cells.is_empty())?;
        let is_rate = first.quantity == Quantity::Bandwidth;
        let in_text = !first.title.ends_with(BEYOND_TEXT);
        Some(Observation { system: machine.name.clone(), label: first.describe(), is_rate, in_text, cells })
    });
    all.collect()
}

/// A statement as a matrix that holds `value` in each cell.
fn as_matrix(s: &Statement, value: f64) -> Matrix {
    let mut matrix = s.to_matrix();
    matrix.values.iter_mut().flatten().flatten().for_each(|v| *v = value);
    matrix
}

fn expect(model: &Model, published: &Matrix) -> Option<ExpectedMatrix> {
    expect_like(model, published).or_else(|| expect_latency_like(model, published))
}

fn of_matrix(machine: &Machine, model: &Model, left_out: &Model, published: &Matrix) -> Vec<Cell> {
    let Some(expected) = expect(model, published) else { return Vec::new() };
    let without = expect(left_out, published);
    let base = |which| baseline(model, which, published);
    let (nccl, raw) = (base(Baseline::Nccl), base(Baseline::Raw));
    let mut cells = Vec::new();
    for (i, row) in published.rows.iter().enumerate() {
        for (j, col) in published.cols.iter().enumerate() {
            let at = |m: &Option<ExpectedMatrix>| m.as_ref().and_then(|m| m.values.get(i)?.get(j).copied().flatten());
            let value = |m: &[Vec<Option<f64>>]| m.get(i).and_then(|r| r.get(j).copied().flatten());
            let Some(seen) = published.value(i, j).filter(|v| *v > 0.0) else { continue };
            let Some(told) = value(&expected.values) else { continue };
            cells.push(Cell {
                row: row.clone(),
                col: col.clone(),
                path: path_name(machine, row, col),
                published: seen,
                predicted: told,
                interval: [value(&expected.low).unwrap_or(told), value(&expected.high).unwrap_or(told)],
                left_out: at(&without),
                nccl: value(&nccl),
                raw: value(&raw),
                bottleneck: expected.bottlenecks.get(i).and_then(|r| r.get(j)?.clone()).unwrap_or_default(),
                unit: published.unit,
            });
        }
    }
    cells
}

/// `PIX`, `from host`, `to host`.
fn path_name(machine: &Machine, row: &str, col: &str) -> String {
    if row == col {
        return "self".to_owned();
    }
    let ends = machine.fabric.find(row).zip(machine.fabric.find(col));
    match ends.and_then(|(a, b)| machine.fabric.class(a, b)) {
        Some(class) => class.to_string(),
        None if row == "host" => "from host".to_owned(),
        None => "to host".to_owned(),
    }
}
