//! What every path of a machine should deliver beside what was measured on it. The two are joined here and nowhere else:
//! rules, renderers, exports and the accuracy of the model all read a [`Comparison`].
//!
//! A *series* is what one source measured: a matrix, or a figure in words. It has an expected number for each of its own. A
//! *table* holds all series of one metric, and what the model predicts of it where nobody measured. Nothing is solved before it
//! is asked for, and nothing twice.

mod document;
mod tables;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::rc::Rc;

pub use crate::expectation::{Bottleneck, Expected, ExpectedMatrix, Metric, Standing};
pub use document::{ComparedCell, ComparedMeasurement, ComparedTable, MachineComparison};
pub use tables::{Cell, MOST_COMPARED, Measurement, Table};

use crate::expectation::Expectation;
use crate::model::Model;
use peerlane_machine::machine::{SourcedMatrix, Statement};
use peerlane_machine::matrix::{Matrix, Quantity};
use peerlane_machine::origin::Origin;

/// Nothing is expected of matrices with more rows or columns: no machine has so many devices, and pairs grow with
/// the square.
const MOST_ENDS: usize = 512;

/// Everything expected of one machine, and everything measured on it.
pub struct Comparison<'a> {
    expectation: Rc<Expectation<'a>>,
    /// The matrices in the machine's order, then the statements.
    series: Vec<Series<'a>>,
}

/// Where a measured number comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A program printed it, or a document, in a matrix.
    Matrix(&'a SourcedMatrix),
    /// A document says it in words.
    Statement(&'a Statement),
}

impl<'a> Source<'a> {
    /// Whether a document states it of the machine; false for a program's own output.
    pub fn published(self) -> bool {
        match self {
            Source::Matrix(measured) => measured.published,
            Source::Statement(_) => true,
        }
    }

    /// File, lines and tool; none of a figure in words, which stands where the machine's description does.
    pub fn origin(self) -> Option<&'a Origin> {
        match self {
            Source::Matrix(measured) => Some(&measured.origin),
            Source::Statement(_) => None,
        }
    }
}

impl std::fmt::Display for Source<'_> {
    /// `bandwidth.txt:12-17 (nvbandwidth)`, or the words.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Matrix(measured) => measured.origin.fmt(f),
            Source::Statement(statement) => f.write_str(&statement.text),
        }
    }
}

/// What one source measured, with what should stand in its place.
pub struct Series<'a> {
    source: Source<'a>,
    matrix: Cow<'a, Matrix>,
    expectation: Rc<Expectation<'a>>,
    expected: OnceCell<Vec<Vec<Option<Expected>>>>,
}

impl<'a> Comparison<'a> {
    /// Of the model's machine.
    pub fn of(model: &'a Model<'a>) -> Self {
        let machine = model.machine;
        let expectation = Rc::new(Expectation::new(model));
        let series = |source, matrix| {
            let expectation = Rc::clone(&expectation);
            Series { source, matrix, expectation, expected: OnceCell::new() }
        };
        let matrices = machine.matrices.iter().map(|o| series(Source::Matrix(o), Cow::Borrowed(&o.matrix)));
        let statements = machine.statements.iter().map(|s| series(Source::Statement(s), Cow::Owned(s.to_matrix())));
        let series = matrices.chain(statements).collect();
        Comparison { series, expectation }
    }

    /// The model.
    pub fn model(&self) -> &'a Model<'a> {
        self.expectation.model
    }

    /// All that was measured: the matrices in the machine's order, then the statements.
    pub fn series(&self) -> &[Series<'a>] {
        &self.series
    }

    /// The matrices that were measured, in the machine's order.
    pub fn matrices(&self) -> &[Series<'a>] {
        self.series.get(..self.model().machine.matrices.len()).unwrap_or_default()
    }

    /// The figures in words, in the machine's order.
    pub fn statements(&self) -> &[Series<'a>] {
        self.series.get(self.model().machine.matrices.len()..).unwrap_or_default()
    }

    /// What should stand between two ends, whether it was measured or not; `None` where the model cannot say.
    pub fn expected(&self, metric: &Metric, row: &str, col: &str) -> Option<Expected> {
        self.expectation.between(metric, row, col)
    }

    /// The matrices that `predict` shows by default ([`crate::expectation::predict`]).
    pub fn predicted(&self) -> Vec<ExpectedMatrix> {
        self.expectation.usual()
    }

    /// Everything measured and predicted, a table for each metric and kind of ends: those that were measured first.
    pub fn tables(&self) -> Vec<Table<'_>> {
        tables::all(self)
    }

    /// The same with expectations from elsewhere, for tests of those who read them.
    pub fn expecting(model: &'a Model<'a>, expected: impl Fn(&Matrix, usize, usize) -> Option<Expected>) -> Self {
        let comparison = Comparison::of(model);
        for series in &comparison.series {
            let matrix = series.matrix();
            let row = |i| (0..matrix.cols.len()).map(|j| expected(matrix, i, j)).collect();
            // nothing was asked of it yet, so that its place is free
            let _ = series.expected.set((0..matrix.rows.len()).map(row).collect());
        }
        comparison
    }
}

impl<'a> Series<'a> {
    /// Where it comes from.
    pub fn source(&self) -> Source<'a> {
        self.source
    }

    /// Its numbers; of a statement, the lowest in each place.
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// What its numbers are of.
    pub fn metric(&self) -> Metric {
        Metric::of(&self.matrix)
    }

    /// [`Matrix::is_of_pairs`].
    pub fn is_of_pairs(&self) -> bool {
        self.matrix.is_of_pairs()
    }

    /// Whether its numbers are rates that the model predicts, where it knows the links.
    pub fn is_predicted_rate(&self) -> bool {
        self.is_of_pairs() && self.metric().is_bandwidth()
    }

    /// Whether its numbers are such rates, or times of single copies and loads, which the model predicts.
    pub fn is_predicted(&self) -> bool {
        let times = matches!(self.matrix.quantity, Quantity::Latency | Quantity::LoadLatency);
        self.is_predicted_rate() || times && self.is_of_pairs()
    }

    /// What should stand in a place; `None` where the model cannot say.
    pub fn expected(&self, row: usize, col: usize) -> Option<&Expected> {
        self.expected_grid().get(row)?.get(col)?.as_ref()
    }

    /// What should stand in each place.
    fn expected_grid(&self) -> &[Vec<Option<Expected>>] {
        self.expected.get_or_init(|| {
            let Matrix { rows, cols, .. } = &*self.matrix;
            if !self.is_of_pairs() || rows.len().max(cols.len()) > MOST_ENDS {
                return Vec::new();
            }
            self.expectation.grid(&self.metric(), rows, cols)
        })
    }

    /// How what was measured in a place stands to what is expected there; `None` where either is not known.
    pub fn standing(&self, row: usize, col: usize) -> Option<Standing> {
        let Measurement { value, upto, .. } = self.measured(row, col)?;
        Some(self.expected(row, col)?.standing((value, upto), self.matrix.unit.rate(1.0).is_some()))
    }

    /// What was measured in a place: the number, or a statement's range.
    pub fn measured(&self, row: usize, col: usize) -> Option<Measurement<'a>> {
        let value = self.matrix.value(row, col)?;
        let (upto, spread) = match self.source {
            Source::Matrix(measured) => {
                (value, measured.spread.get(row).and_then(|spread| spread.get(col)).copied().flatten())
            }
            Source::Statement(statement) => (statement.high, None),
        };
        Some(Measurement { value, upto, spread, source: self.source })
    }
}
