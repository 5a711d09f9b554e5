//! The content of a report, as JSON inside the HTML page. `schema/report-2.json` describes it; the page's TypeScript
//! types are generated from that.

use crate::JsonSchema;
use peerlane::check::Finding;
use peerlane::fabric::{NodeKind, PathClass};
use peerlane::matrix::{Quantity, Unit};
use peerlane::verdict::Verdict;
use serde::Serialize;

use super::figures::{Chart, ComparisonView, Kind};
use crate::render::drawing::Drawing;

/// The name of the format of [`ReportDocument`].
pub(super) const SCHEMA: &str = "peerlane/report/2";

/// The content of a report.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReportDocument {
    /// Name of this format.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// Version of peerlane that wrote it.
    pub peerlane: &'static str,
    /// The machines, in the order of the targets.
    pub machines: Vec<MachineReport>,
    /// Their comparison, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<ComparisonView>,
}

/// One machine: what it is, should deliver and does deliver, and what to do about the difference.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MachineReport {
    /// Its name.
    pub name: String,
    /// What it is, in one line.
    pub title: Option<String>,
    /// Its devices in one line: `4 GPUs, 2 NICs`.
    pub inventory: String,
    /// The origin of the description, in one line.
    pub origin: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Summary of the findings: `1 error, 2 warnings`.
    pub summary: String,
    /// The findings, in order.
    pub findings: Vec<FindingView>,
    /// Findings that the site accepts; they do not affect the verdict.
    pub waived: Vec<WaivedView>,
    /// The findings as Markdown for a ticket.
    pub markdown: String,
    /// The drawing.
    pub drawing: Drawing,
    /// The machine as text, an alternative to the drawing.
    pub tree: String,
    /// Its nodes.
    pub nodes: Vec<NodeView>,
    /// Its links.
    pub links: Vec<LinkView>,
    /// Path classes between its GPUs and NICs; absent if there are fewer than two devices or no class is known.
    pub classes: Option<ClassView>,
    /// Numbers between pairs.
    pub matrices: Vec<MatrixView>,
    /// The paths of cells.
    pub paths: Vec<PathView>,
    /// The hops of paths.
    pub hops: Vec<HopView>,
    /// Sentences that `hops`, `paths` and `matrices` refer to by index.
    pub words: Vec<String>,
    /// Numbers by message size, one entry per chart.
    pub charts: Vec<Chart>,
    /// Rates of concurrent transfers, one entry per table.
    pub contention: Vec<Contention>,
    /// Facts about the machine and the run.
    pub facts: Vec<Table>,
    /// The sources of everything, each listed once.
    pub evidence: Vec<EvidenceView>,
    /// Contradictions in the input.
    pub contradictions: Vec<String>,
    /// What is unknown.
    pub unknown: Vec<String>,
    /// What is assumed.
    pub assumptions: Vec<String>,
    /// Warnings about the input.
    pub warnings: Vec<String>,
    /// Further notes from sources.
    pub notes: Vec<String>,
    /// The record of the run.
    pub record: Option<RunRecord>,
}

/// A finding with its subjects.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FindingView {
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
    /// Indices of the nodes it refers to.
    pub boxes: Vec<usize>,
    /// Indices of the links it refers to.
    pub links: Vec<usize>,
    /// Cells it refers to.
    pub cells: Vec<CellRef>,
    /// Indices into the machine's evidence.
    pub sources: Vec<usize>,
}

/// A finding that the site's settings accept.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WaivedView {
    /// The reason given in the settings.
    pub reason: String,
    /// The finding.
    pub finding: FindingView,
}

/// A cell of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CellRef {
    /// Index of the matrix.
    pub matrix: usize,
    /// Row.
    pub row: usize,
    /// Column.
    pub col: usize,
}

/// A node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NodeView {
    /// Its name with its first alias.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Its product, abbreviated; may be empty.
    pub product: String,
    /// True if no source states it.
    pub assumed: bool,
    /// What else is known.
    pub details: Vec<Labelled>,
    /// Indices into the machine's evidence.
    pub sources: Vec<usize>,
}

/// A link.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LinkView {
    /// Index of one end.
    pub a: usize,
    /// Index of the other.
    pub b: usize,
    /// What it is: `PCIe 3.0 x16`.
    pub what: String,
    /// What it could be, if it runs narrower or slower than that.
    pub could_be: Option<String>,
    /// True if it has fewer lanes than possible.
    pub narrow: bool,
    /// Raw rate of one direction in GB/s.
    pub rate: Option<f64>,
    /// True if no source states it.
    pub assumed: bool,
    /// What else is known.
    pub note: Option<String>,
    /// Indices into the machine's evidence.
    pub sources: Vec<usize>,
}

/// Path classes between devices.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClassView {
    /// Row and column names.
    pub names: Vec<String>,
    /// The classes.
    pub values: Vec<Vec<Option<PathClass>>>,
    /// Index of each cell's path.
    pub paths: Vec<Vec<Option<usize>>>,
    /// The meaning of the classes, nearest first.
    pub meanings: Vec<Labelled>,
}

/// A labelled text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Labelled {
    /// What it is.
    pub label: String,
    /// The text.
    pub text: String,
}

/// A remark on a cell.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Remark {
    /// Row.
    pub row: usize,
    /// Column.
    pub col: usize,
    /// Index into the words.
    pub word: usize,
    /// Whether the number is doubtful.
    pub flagged: bool,
}

/// A matrix of measured and expected numbers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MatrixView {
    /// The metric: `bandwidth, one way, P2P on`.
    pub what: String,
    /// The end points: `among GPU0–GPU3`, `host → GPU0–GPU3`.
    pub ends: String,
    /// The test, or the title in its source, if it adds information.
    pub title: Option<String>,
    /// How the numbers were obtained: `measured`, `published`, `stated in words` or `predicted`.
    pub obtained: &'static str,
    /// The quantity.
    pub quantity: Quantity,
    /// Unit of all values.
    pub unit: Unit,
    /// Whether larger numbers are better.
    pub more_is_better: bool,
    /// The rest of the metric.
    #[serde(skip)]
    pub kind: Kind,
    /// Row names.
    pub rows: Vec<String>,
    /// Column names.
    pub cols: Vec<String>,
    /// How rows relate to columns: `rows write to columns`.
    pub orientation: Option<&'static str>,
    /// Measured or published numbers; empty if there are none.
    pub measured: Vec<Vec<Option<f64>>>,
    /// Upper ends of numbers that a source states as ranges, in the shape of `measured`; empty if there are none.
    pub upto: Vec<Vec<Option<f64>>>,
    /// Expected numbers; empty if nothing can be expected.
    pub expected: Vec<Vec<Option<f64>>>,
    /// Lower bounds of the expected numbers, from the ranges of the model's constants; empty if nothing is expected.
    pub least: Vec<Vec<Option<f64>>>,
    /// Upper bounds of the expected numbers.
    pub most: Vec<Vec<Option<f64>>>,
    /// The bottleneck of each expected number: index into the words. Empty if nothing is expected.
    pub bound: Vec<Vec<Option<usize>>>,
    /// The precision of each number; empty if the source does not state it.
    pub spread: Vec<Vec<Option<SpreadView>>>,
    /// Remarks on cells.
    pub remarks: Vec<Remark>,
    /// Index of each cell's path.
    pub paths: Vec<Vec<Option<usize>>>,
    /// Indices into the machine's evidence.
    pub sources: Vec<usize>,
}

/// The precision of a number.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct SpreadView {
    /// Number of samples.
    pub n: usize,
    /// Low end of the median's 95 % interval.
    pub low: f64,
    /// High end.
    pub high: f64,
}

/// The path of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PathView {
    /// Its path class.
    pub class: Option<PathClass>,
    /// Whether it is staged through host memory; absent if the model has no route.
    pub staged: Option<bool>,
    /// Why it is staged: index into the words.
    pub because: Option<usize>,
    /// Its hops, in order: indices into the machine's hops.
    pub hops: Vec<usize>,
    /// The hops with the lowest limit: positions in `hops`.
    pub tightest: Vec<usize>,
}

/// A hop, shared by many paths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HopView {
    /// Index of its first node.
    pub from: usize,
    /// Index of its last node.
    pub to: usize,
    /// Index of its link; absent inside a node.
    pub link: Option<usize>,
    /// The highest rate of a single transfer through it, in GB/s.
    pub limit: Option<f64>,
    /// Lower and upper bound of that rate, from the ranges of the model's constants.
    pub range: Option<[f64; 2]>,
    /// The reason: index into the words.
    pub why: Option<usize>,
}

/// Sets of concurrent transfers of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Contention {
    /// The kind: `one-to-all, writes, copy engine`.
    pub what: String,
    /// Unit of all values.
    pub unit: Unit,
    /// The sets.
    pub sets: Vec<SetView>,
}

/// Concurrent transfers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SetView {
    /// The transfers: `GPU0→GPU1–GPU3`.
    pub name: String,
    /// Sum of their rates.
    pub sum: Option<f64>,
    /// Low end of the sum's 95 % interval.
    pub low: Option<f64>,
    /// High end.
    pub high: Option<f64>,
    /// Number of samples.
    pub n: usize,
    /// Rate of each.
    pub each: Vec<f64>,
    /// Sum of the rates that they reach alone.
    pub alone: Option<f64>,
    /// The sum expected by the model.
    pub expected: Option<f64>,
    /// Remarks.
    pub remarks: Vec<String>,
}

/// A small table of facts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Table {
    /// What it is.
    pub title: String,
    /// Column headings; empty for a list of labels and texts.
    pub columns: Vec<String>,
    /// Rows; the first cell is the row's heading.
    pub rows: Vec<Vec<String>>,
}

/// A place in a source.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EvidenceView {
    /// `file:lines (tool)`.
    pub place: String,
    /// What is stated there: `path classes`, `bandwidth, one way …`, names of nodes and links; may be empty.
    pub tells: Vec<String>,
}

/// The recorded run that the numbers are from.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunRecord {
    /// File name.
    pub name: String,
    /// Uncompressed size in bytes.
    pub bytes: usize,
    /// Whether it includes the samples behind each number, which take most of the space.
    pub samples: bool,
    /// The record (`peerlane/run/1`), as gzip in base64.
    pub gzip: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_current() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/report-2.json");
        let fresh = serde_json::to_string_pretty(&schemars::schema_for!(ReportDocument)).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&path, &fresh).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == fresh, "{} is stale: run UPDATE_SCHEMA=1 cargo test schema", path.to_string_lossy());
    }
}
