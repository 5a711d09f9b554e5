//! What a page shows of several machines side by side: figures, and matrices on one scale.

use crate::JsonSchema;
use peerlane::matrix::{Direction, Engine, Matrix, Operation, Unit};
use peerlane::units::Bytes;
use serde::Serialize;

/// Curves that share their axes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Chart {
    /// The metric: `bandwidth by message size, copy engine`.
    pub what: String,
    /// Unit of the values; absent for counts.
    pub unit: Option<Unit>,
    /// The curves.
    pub curves: Vec<CurveView>,
    /// Indices into the machine's evidence.
    pub sources: Vec<usize>,
}

/// Numbers by message size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CurveView {
    /// The end points, or the program and column.
    pub name: String,
    /// The points, in ascending order of size.
    pub points: Vec<Point>,
    /// The fitted model, if there is one.
    pub fit: Option<FitView>,
}

/// One message size.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Point {
    /// Message size in bytes.
    pub size: Bytes,
    /// The value.
    pub value: f64,
    /// Low end of its 95 % interval.
    pub low: Option<f64>,
    /// High end.
    pub high: Option<f64>,
}

/// A fitted model: time(size) = max(t₁, t₀ + size ÷ rate).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FitView {
    /// Least time t₁ in µs.
    pub least_us: f64,
    /// Start-up time t₀ in µs.
    pub startup_us: f64,
    /// Asymptotic rate in GB/s.
    pub rate: f64,
    /// The size that reaches half of the asymptotic rate, in bytes.
    pub half_size: Bytes,
    /// The model's value at each point, in the chart's unit.
    pub values: Vec<f64>,
    /// Sizes at which it deviates by more than `tolerance`.
    pub misfits: Vec<Bytes>,
    /// The relative deviation above which a size counts as a misfit.
    pub tolerance: f64,
}

/// The comparison of several machines; they are named like the designs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ComparisonView {
    /// The conclusion, in sentences that cite the figures.
    pub conclusion: Vec<String>,
    /// The figures, each with one value per machine.
    pub figures: Vec<FigureView>,
    /// An all-reduce by message size, a curve for each machine; absent if none can be predicted.
    pub all_reduce: Option<Chart>,
    /// Matrices of the same kind, to show on one scale.
    pub maps: Vec<SharedMap>,
    /// Conclusion and figures as Markdown for a ticket.
    pub markdown: String,
}

/// One figure of all machines.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FigureView {
    /// What it is; in GB/s unless it names another unit.
    pub what: String,
    /// Which of two values is better: `more`, `less`, or `neither` for a fact.
    pub better: &'static str,
    /// In the order of the machines; null if unknown.
    pub values: Vec<Option<FigureValue>>,
}

/// One figure of one machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FigureValue {
    /// The text: `12.28`, `≤ 12.28`, `4 of 12`.
    pub text: String,
    /// The value; of a range, the worse end.
    pub value: f64,
    /// The bottleneck; may be empty.
    pub bound: String,
    /// The GPUs it refers to; may be empty.
    pub about: String,
    /// The measured or published value.
    pub measured: Option<MeasuredView>,
}

/// A measured or published value of a figure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasuredView {
    /// The text.
    pub text: String,
    /// The number, or the low end of a range.
    pub low: f64,
    /// The same number, or the high end.
    pub high: f64,
    /// `measured` or `published`.
    pub obtained: &'static str,
}

/// Matrices of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SharedMap {
    /// The metric: `one GPU to another, one way`.
    pub what: &'static str,
    /// The common unit.
    pub unit: Unit,
    /// In the order of the machines; null if a machine has none.
    pub of: Vec<Option<SharedMatrix>>,
}

/// One machine's matrix.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct SharedMatrix {
    /// Index of its matrix.
    pub matrix: usize,
    /// The factor that converts its numbers to the common unit.
    pub factor: f64,
}

/// The metric of a matrix, to find the same one in several machines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kind {
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
