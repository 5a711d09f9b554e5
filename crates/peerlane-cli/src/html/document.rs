//! The content of a report, as JSON inside the HTML page. `schema/report-2.json` describes it; the page's TypeScript
//! types are generated from that.

use peerlane::check::Finding;
use peerlane::fabric::{NodeKind, PathClass};
use peerlane::matrix::{Quantity, Unit};
use peerlane::verdict::Verdict;
use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{Chart, ComparisonView, Kind};
use crate::render::drawing::Drawing;

/// The name of the format of [`ReportDocument`].
pub(crate) const SCHEMA: &str = "peerlane/report/2";

/// The content of a report.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ReportDocument {
    /// Name of this format.
    #[schemars(extend("const" = SCHEMA))]
    pub(crate) schema: &'static str,
    /// Version of peerlane that wrote it.
    pub(crate) peerlane: &'static str,
    /// The machines, in the order of the targets.
    pub(crate) machines: Vec<MachineReport>,
    /// Their comparison, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) comparison: Option<ComparisonView>,
}

/// One machine: what it is, should deliver and does deliver, and what to do about the difference.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct MachineReport {
    /// Its name.
    pub(crate) name: String,
    /// What it is, in one line.
    pub(crate) title: Option<String>,
    /// Its devices in one line: `4 GPUs, 2 NICs`.
    pub(crate) inventory: String,
    /// The origin of the description, in one line.
    pub(crate) origin: String,
    /// The verdict.
    pub(crate) verdict: Verdict,
    /// Summary of the findings: `1 error, 2 warnings`.
    pub(crate) summary: String,
    /// The findings, in order.
    pub(crate) findings: Vec<FindingView>,
    /// Findings that the site accepts; they do not affect the verdict.
    pub(crate) waived: Vec<WaivedView>,
    /// The findings as Markdown for a ticket.
    pub(crate) markdown: String,
    /// The drawing.
    pub(crate) drawing: Drawing,
    /// The machine as text, an alternative to the drawing.
    pub(crate) tree: String,
    /// Its nodes.
    pub(crate) nodes: Vec<NodeView>,
    /// Its links.
    pub(crate) links: Vec<LinkView>,
    /// Path classes between its GPUs and NICs; absent if there are fewer than two devices or no class is known.
    pub(crate) classes: Option<ClassView>,
    /// Numbers between pairs.
    pub(crate) matrices: Vec<MatrixView>,
    /// The paths of cells.
    pub(crate) paths: Vec<PathView>,
    /// The hops of paths.
    pub(crate) hops: Vec<HopView>,
    /// Sentences that `hops`, `paths` and `matrices` refer to by index.
    pub(crate) words: Vec<String>,
    /// Numbers by message size, one entry per chart.
    pub(crate) charts: Vec<Chart>,
    /// Rates of concurrent transfers, one entry per table.
    pub(crate) contention: Vec<Contention>,
    /// Facts about the machine and the run.
    pub(crate) facts: Vec<Table>,
    /// The sources of everything, each listed once.
    pub(crate) evidence: Vec<EvidenceView>,
    /// Contradictions in the input.
    pub(crate) contradictions: Vec<String>,
    /// What is unknown.
    pub(crate) unknown: Vec<String>,
    /// What is assumed.
    pub(crate) assumptions: Vec<String>,
    /// Warnings about the input.
    pub(crate) warnings: Vec<String>,
    /// Further notes from sources.
    pub(crate) notes: Vec<String>,
    /// The record of the run.
    pub(crate) record: Option<RunRecord>,
}

/// A finding with its subjects.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct FindingView {
    /// The finding.
    #[serde(flatten)]
    pub(crate) finding: Finding,
    /// Indices of the nodes it refers to.
    pub(crate) boxes: Vec<usize>,
    /// Indices of the links it refers to.
    pub(crate) links: Vec<usize>,
    /// Cells it refers to.
    pub(crate) cells: Vec<CellRef>,
    /// Indices into the machine's evidence.
    pub(crate) sources: Vec<usize>,
}

/// A finding that the site's settings accept.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct WaivedView {
    /// The reason given in the settings.
    pub(crate) reason: String,
    /// The finding.
    pub(crate) finding: FindingView,
}

/// A cell of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct CellRef {
    /// Index of the matrix.
    pub(crate) matrix: usize,
    /// Row.
    pub(crate) row: usize,
    /// Column.
    pub(crate) col: usize,
}

/// A node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct NodeView {
    /// Its name with its first alias.
    pub(crate) name: String,
    /// What it is.
    pub(crate) kind: NodeKind,
    /// Its product, abbreviated; may be empty.
    pub(crate) product: String,
    /// True if no source states it.
    pub(crate) assumed: bool,
    /// What else is known.
    pub(crate) details: Vec<Labelled>,
    /// Indices into the machine's evidence.
    pub(crate) sources: Vec<usize>,
}

/// A link.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct LinkView {
    /// Index of one end.
    pub(crate) a: usize,
    /// Index of the other.
    pub(crate) b: usize,
    /// What it is: `PCIe 3.0 x16`.
    pub(crate) what: String,
    /// What it could be, if it runs narrower or slower than that.
    pub(crate) could_be: Option<String>,
    /// True if it has fewer lanes than possible.
    pub(crate) narrow: bool,
    /// Raw rate of one direction in GB/s.
    pub(crate) rate: Option<f64>,
    /// True if no source states it.
    pub(crate) assumed: bool,
    /// What else is known.
    pub(crate) note: Option<String>,
    /// Indices into the machine's evidence.
    pub(crate) sources: Vec<usize>,
}

/// Path classes between devices.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ClassView {
    /// Row and column names.
    pub(crate) names: Vec<String>,
    /// The classes.
    pub(crate) values: Vec<Vec<Option<PathClass>>>,
    /// Index of each cell's path.
    pub(crate) paths: Vec<Vec<Option<usize>>>,
    /// The meaning of the classes, nearest first.
    pub(crate) meanings: Vec<Labelled>,
}

/// A labelled text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Labelled {
    /// What it is.
    pub(crate) label: String,
    /// The text.
    pub(crate) text: String,
}

/// A remark on a cell.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Remark {
    /// Row.
    pub(crate) row: usize,
    /// Column.
    pub(crate) col: usize,
    /// Index into the words.
    pub(crate) word: usize,
    /// Whether the number is doubtful.
    pub(crate) flagged: bool,
}

/// A matrix of measured and expected numbers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct MatrixView {
    /// The metric: `bandwidth, one way, P2P on`.
    pub(crate) what: String,
    /// The end points: `among GPU0–GPU3`, `host → GPU0–GPU3`.
    pub(crate) ends: String,
    /// The test, or the title in its source, if it adds information.
    pub(crate) title: Option<String>,
    /// How the numbers were obtained: `measured`, `published`, `stated in words` or `predicted`.
    pub(crate) obtained: &'static str,
    /// The quantity.
    pub(crate) quantity: Quantity,
    /// Unit of all values.
    pub(crate) unit: Unit,
    /// Whether larger numbers are better.
    pub(crate) more_is_better: bool,
    /// The rest of the metric.
    #[serde(skip)]
    pub(crate) kind: Kind,
    /// Row names.
    pub(crate) rows: Vec<String>,
    /// Column names.
    pub(crate) cols: Vec<String>,
    /// How rows relate to columns: `rows write to columns`.
    pub(crate) orientation: Option<&'static str>,
    /// Measured or published numbers; empty if there are none.
    pub(crate) measured: Vec<Vec<Option<f64>>>,
    /// Upper ends of numbers that a source states as ranges, in the shape of `measured`; empty if there are none.
    pub(crate) upto: Vec<Vec<Option<f64>>>,
    /// Expected numbers; empty if nothing can be expected.
    pub(crate) expected: Vec<Vec<Option<f64>>>,
    /// Lower bounds of the expected numbers, from the ranges of the model's constants; empty if nothing is expected.
    pub(crate) least: Vec<Vec<Option<f64>>>,
    /// Upper bounds of the expected numbers.
    pub(crate) most: Vec<Vec<Option<f64>>>,
    /// The bottleneck of each expected number: index into the words. Empty if nothing is expected.
    pub(crate) bound: Vec<Vec<Option<usize>>>,
    /// The precision of each number; empty if the source does not state it.
    pub(crate) spread: Vec<Vec<Option<SpreadView>>>,
    /// Remarks on cells.
    pub(crate) remarks: Vec<Remark>,
    /// Index of each cell's path.
    pub(crate) paths: Vec<Vec<Option<usize>>>,
    /// Indices into the machine's evidence.
    pub(crate) sources: Vec<usize>,
}

/// The precision of a number.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct SpreadView {
    /// Number of samples.
    pub(crate) n: usize,
    /// Low end of the median's 95 % interval.
    pub(crate) low: f64,
    /// High end.
    pub(crate) high: f64,
}

/// The path of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct PathView {
    /// Its path class.
    pub(crate) class: Option<PathClass>,
    /// Whether it is staged through host memory; absent if the model has no route.
    pub(crate) staged: Option<bool>,
    /// Why it is staged: index into the words.
    pub(crate) because: Option<usize>,
    /// Its hops, in order: indices into the machine's hops.
    pub(crate) hops: Vec<usize>,
    /// The hops with the lowest limit: positions in `hops`.
    pub(crate) tightest: Vec<usize>,
}

/// A hop, shared by many paths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct HopView {
    /// Index of its first node.
    pub(crate) from: usize,
    /// Index of its last node.
    pub(crate) to: usize,
    /// Index of its link; absent inside a node.
    pub(crate) link: Option<usize>,
    /// The highest rate of a single transfer through it, in GB/s.
    pub(crate) limit: Option<f64>,
    /// Lower and upper bound of that rate, from the ranges of the model's constants.
    pub(crate) range: Option<[f64; 2]>,
    /// The reason: index into the words.
    pub(crate) why: Option<usize>,
}

/// Sets of concurrent transfers of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Contention {
    /// The kind: `one-to-all, writes, copy engine`.
    pub(crate) what: String,
    /// Unit of all values.
    pub(crate) unit: Unit,
    /// The sets.
    pub(crate) sets: Vec<SetView>,
}

/// Concurrent transfers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SetView {
    /// The transfers: `GPU0→GPU1–GPU3`.
    pub(crate) name: String,
    /// Sum of their rates.
    pub(crate) sum: Option<f64>,
    /// Low end of the sum's 95 % interval.
    pub(crate) low: Option<f64>,
    /// High end.
    pub(crate) high: Option<f64>,
    /// Number of samples.
    pub(crate) n: usize,
    /// Rate of each.
    pub(crate) each: Vec<f64>,
    /// Sum of the rates that they reach alone.
    pub(crate) alone: Option<f64>,
    /// The sum expected by the model.
    pub(crate) expected: Option<f64>,
    /// Remarks.
    pub(crate) remarks: Vec<String>,
}

/// A small table of facts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Table {
    /// What it is.
    pub(crate) title: String,
    /// Column headings; empty for a list of labels and texts.
    pub(crate) columns: Vec<String>,
    /// Rows; the first cell is the row's heading.
    pub(crate) rows: Vec<Vec<String>>,
}

/// A place in a source.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct EvidenceView {
    /// `file:lines (tool)`.
    pub(crate) place: String,
    /// What is stated there: `path classes`, `bandwidth, one way …`, names of nodes and links; may be empty.
    pub(crate) tells: Vec<String>,
}

/// The recorded run that the numbers are from.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct RunRecord {
    /// File name.
    pub(crate) name: String,
    /// Uncompressed size in bytes.
    pub(crate) bytes: usize,
    /// Whether it includes the samples behind each number, which take most of the space.
    pub(crate) samples: bool,
    /// The record (`peerlane/run/1`), as gzip in base64.
    pub(crate) gzip: String,
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
