//! What a page shows of several machines side by side: figures, and matrices on one scale.

use peerlane::matrix::{Direction, Engine, Matrix, Operation, Unit};
use peerlane::units::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

/// What a page of several machines says of them together; the machines are named as its designs are.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ComparisonView {
    /// What follows, in sentences that cite the figures.
    pub(crate) conclusion: Vec<String>,
    /// The figures, each with a value a machine.
    pub(crate) figures: Vec<FigureView>,
    /// Matrices of the same kind, to be shown on one scale.
    pub(crate) maps: Vec<SharedMap>,
    /// Conclusion and figures as Markdown, to be pasted into a ticket.
    pub(crate) markdown: String,
}

/// One figure of all machines.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct FigureView {
    /// What it is; in GB/s where it names no other unit.
    pub(crate) what: &'static str,
    /// Which of two values is the better one: `more`, `less`, or `neither` of a fact.
    pub(crate) better: &'static str,
    /// In the order of the machines; null if unknown.
    pub(crate) values: Vec<Option<FigureValue>>,
}

/// One figure of one machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct FigureValue {
    /// As it is written: `12.28`, `≤ 12.28`, `4 of 12`.
    pub(crate) text: String,
    /// As a number, of a range the worse end.
    pub(crate) value: f64,
    /// What binds it; may be empty.
    pub(crate) bound: String,
    /// Which GPUs it is about; may be empty.
    pub(crate) about: String,
    /// What was measured or published of the same.
    pub(crate) measured: Option<MeasuredView>,
}

/// What was measured or published of a figure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct MeasuredView {
    /// As it is written.
    pub(crate) text: String,
    /// The number, or the low end of a range.
    pub(crate) low: f64,
    /// The same number, or the high end.
    pub(crate) high: f64,
    /// `measured` or `published`.
    pub(crate) obtained: &'static str,
}

/// Matrices of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SharedMap {
    /// What they hold: `one GPU to another, one way`.
    pub(crate) what: &'static str,
    /// The unit that all are shown in.
    pub(crate) unit: Unit,
    /// In the order of the machines; null where a machine has none.
    pub(crate) of: Vec<Option<SharedMatrix>>,
}

/// A machine's part in it.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct SharedMatrix {
    /// Index of its matrix.
    pub(crate) matrix: usize,
    /// What its numbers are multiplied by to be in the shared unit.
    pub(crate) factor: f64,
}

/// What a matrix is of, for those that look for the same in several machines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kind {
    pub(super) direction: Option<Direction>,
    pub(super) p2p: Option<bool>,
    pub(super) op: Option<Operation>,
    pub(super) engine: Option<Engine>,
    pub(super) size: Option<Bytes>,
}

impl Kind {
    pub(super) fn of(matrix: &Matrix) -> Kind {
        let Matrix { direction, p2p, op, engine, size, .. } = *matrix;
        Kind { direction, p2p, op, engine, size }
    }
}
