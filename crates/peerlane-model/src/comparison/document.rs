//! A comparison in JSON, whole: the `comparison` of `check --json` and `predict --json`.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::{Bottleneck, Cell, Comparison, Measurement, Table};
use peerlane_machine::fabric::Fabric;
use peerlane_machine::machine::Recognized;
use peerlane_machine::matrix::{Direction, Engine, Operation, Quantity, Unit};
use peerlane_machine::units::Bytes;

/// What a machine should deliver beside what was measured on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MachineComparison {
    /// The catalogue system that the machine is, where it equals one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recognized: Option<Recognized>,
    /// A table for each metric and kind of ends, those that were measured first.
    pub tables: Vec<ComparedTable>,
}

/// All numbers of one metric between ends of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedTable {
    /// What the numbers are of, in words: `bandwidth, one way, P2P on, writes, copy engine, GB/s`.
    pub what: String,
    /// The test's title, where that is not all: many transfers at once, memory that waits for the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What is measured.
    pub quantity: Quantity,
    /// Which way; a bidirectional rate is the sum of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Peer-to-peer access on or off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p2p: Option<bool>,
    /// Write or read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<Operation>,
    /// What drives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Unit of all numbers.
    pub unit: Unit,
    /// Bytes that each transfer moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Sources: nodes, or `host` for the memory nearest to the other end. The reader of a read is a row.
    pub rows: Vec<String>,
    /// Destinations; `self` is the row's own memory.
    pub cols: Vec<String>,
    /// What was measured or can be predicted, row by row.
    pub cells: Vec<ComparedCell>,
}

/// One path of a table.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedCell {
    /// Its row.
    pub row: String,
    /// Its column.
    pub col: String,
    /// What should stand there; absent where the model cannot say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    /// The least that it may be, by the ranges of the model's constants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// What binds the expected rate, or what the expected time is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// The ends of the link that binds it, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<[String; 2]>,
    /// All that was measured, published figures first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub measured: Vec<ComparedMeasurement>,
    /// Measured ÷ expected, of the last of `measured`; of a range, of its low end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// A measured number.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedMeasurement {
    /// The number, or the low end of a stated range.
    pub value: f64,
    /// The high end of a stated range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upto: Option<f64>,
    /// Samples whose median it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<usize>,
    /// Low end of the median's 95 % interval; of fewer than 6 samples, the lowest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// High end, or the highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// True for a document's figure, false for a program's own output.
    pub published: bool,
    /// Where it stands: `file:lines (tool)`, or a document's words.
    pub origin: String,
}

impl MachineComparison {
    /// All of a comparison.
    pub fn of(comparison: &Comparison) -> Self {
        let machine = comparison.model().machine;
        let tables = comparison.tables().iter().map(|table| ComparedTable::of(&machine.fabric, table)).collect();
        MachineComparison { recognized: machine.recognized.clone(), tables }
    }
}

impl ComparedTable {
    fn of(fabric: &Fabric, table: &Table) -> Self {
        let Table { metric, title, rows, cols, cells } = table;
        let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
        let cell = |cell: &Cell| ComparedCell::of(fabric, name(rows, cell.row), name(cols, cell.col), cell);
        ComparedTable {
            what: metric.describe(),
            title: title.map(str::to_owned),
            quantity: metric.quantity,
            direction: metric.direction,
            p2p: metric.p2p,
            op: metric.op,
            engine: metric.engine,
            unit: metric.unit,
            size: metric.size,
            rows: rows.clone(),
            cols: cols.clone(),
            cells: cells.iter().map(cell).collect(),
        }
    }
}

impl ComparedCell {
    fn of(fabric: &Fabric, row: String, col: String, cell: &Cell) -> Self {
        let expected = cell.expected.as_ref();
        let link = |binding: &Bottleneck| {
            let link = fabric.link(binding.link?);
            Some([link.a, link.b].map(|end| fabric.node(end).name.clone()))
        };
        ComparedCell {
            row,
            col,
            expected: expected.map(|e| e.value),
            low: expected.map(|e| e.low),
            high: expected.map(|e| e.high),
            binding: expected.map(|e| e.binding.words.clone()).filter(|words| !words.is_empty()),
            link: expected.and_then(|e| link(&e.binding)),
            measured: cell.measured.iter().map(ComparedMeasurement::of).collect(),
            ratio: cell.ratio(),
        }
    }
}

impl ComparedMeasurement {
    fn of(measured: &Measurement) -> Self {
        let Measurement { value, upto, spread, source } = *measured;
        ComparedMeasurement {
            value,
            upto: Some(upto).filter(|upto| *upto != value),
            n: spread.map(|s| s.n),
            low: spread.map(|s| s.low),
            high: spread.map(|s| s.high),
            published: source.published(),
            origin: source.to_string(),
        }
    }
}
