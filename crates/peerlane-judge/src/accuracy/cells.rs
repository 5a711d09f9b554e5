//! Every number of a system with what predicts it.

use super::baseline::{Baseline, baseline};
use super::{Errors, FAR, FarCell, Kind, MatrixAccuracy};
use peerlane_machine::fabric::Fabric;
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::names::is_host;
use peerlane_model::comparison::{Comparison, Series, Source};

/// The end of the titles of matrices that a source does not print itself.
const BEYOND_TEXT: &str = "in its results, not in its text";

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    /// Row of its matrix.
    pub row: String,
    /// Column.
    pub col: String,
    /// Class of the path, or the direction between host and GPU.
    pub path: String,
    /// The number.
    pub published: f64,
    /// What the model predicts.
    pub predicted: f64,
    /// The prediction's interval.
    pub interval: [f64; 2],
    /// The prediction without the constants that were fitted to this system.
    pub left_out: Option<f64>,
    /// The prediction by NCCL's constants.
    pub nccl: Option<f64>,
    /// The prediction by raw link rates.
    pub raw: Option<f64>,
    /// The bottleneck.
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
    /// Why numbers of it differ from what the links explain, as its system file states.
    pub known_cause: Option<String>,
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
            reason: self.known_cause.clone().unwrap_or_else(|| format!("unknown; bound by {}", c.bottleneck)),
        })
    }
}

/// All matrices and statements of a machine that the model predicts, published or measured; `left_out` is the same machine without the
/// constants that were fitted to it.
pub(super) fn observations(comparison: &Comparison, left_out: &Comparison) -> Vec<Observation> {
    let machine = comparison.model().machine;
    let all = comparison.series().iter().zip(left_out.series()).filter_map(|(series, without)| {
        let cells = of_series(comparison, series, without);
        let matrix = series.matrix();
        let is_rate = matrix.quantity == Quantity::Bandwidth;
        let in_text = !matrix.title.ends_with(BEYOND_TEXT);
        let (system, label) = (machine.name.clone(), matrix.describe());
        let known_cause = match series.source() {
            Source::Matrix(measured) => measured.known_cause.clone(),
            Source::Statement(_) => None,
        };
        (!cells.is_empty()).then_some(Observation { system, label, is_rate, in_text, known_cause, cells })
    });
    all.collect()
}

/// The numbers of a series that have a prediction. A range is two numbers, of which each is compared.
fn of_series(comparison: &Comparison, series: &Series, left_out: &Series) -> Vec<Cell> {
    let matrix = series.matrix();
    let base = |which| baseline(comparison.model(), which, matrix);
    let (nccl, raw) = (base(Baseline::Nccl), base(Baseline::Raw));
    let fabric = &comparison.model().machine.fabric;
    let (mut cells, mut upper_ends) = (Vec::new(), Vec::new());
    for (i, row) in matrix.rows.iter().enumerate() {
        for (j, col) in matrix.cols.iter().enumerate() {
            let at = |grid: &[Vec<Option<f64>>]| grid.get(i).and_then(|r| r.get(j).copied().flatten());
            let Some(measured) = series.measured(i, j) else { continue };
            let Some(expected) = series.expected(i, j) else { continue };
            let cell = |published: f64| Cell {
                row: row.clone(),
                col: col.clone(),
                path: path_name(fabric, row, col),
                published,
                predicted: expected.value,
                interval: [expected.low, expected.high],
                left_out: left_out.expected(i, j).map(|e| e.value),
                nccl: at(&nccl),
                raw: at(&raw),
                bottleneck: expected.binding.words.clone(),
                unit: matrix.unit,
            };
            cells.extend(Some(measured.value).filter(|v| *v > 0.0).map(cell));
            upper_ends.extend(Some(measured.upto).filter(|v| *v > 0.0 && *v != measured.value).map(cell));
        }
    }
    cells.append(&mut upper_ends);
    cells
}

/// `PIX`, `from host`, `to host`, `self`.
pub(super) fn path_name(fabric: &Fabric, row: &str, col: &str) -> String {
    let ends = fabric.find(row).zip(fabric.find(col)).filter(|(a, b)| a != b);
    match ends.and_then(|(a, b)| fabric.class(a, b)) {
        Some(class) => class.to_string(),
        None if is_host(row) => "from host".to_owned(),
        None if is_host(col) => "to host".to_owned(),
        None => "self".to_owned(),
    }
}
