//! What a report holds, as the JSON inside its page; `schema/report-2.json` describes it, and the page's TypeScript
//! types are made from that.

use peerlane::check::{Finding, Verdict};
use peerlane::fabric::{NodeKind, PathClass};
use peerlane::matrix::{Quantity, Unit};
use peerlane::units::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{ComparisonView, Kind};
use crate::render::drawing::Drawing;

/// Names the format of [`ReportDocument`].
pub(crate) const SCHEMA: &str = "peerlane/report/2";

/// All that a page shows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ReportDocument {
    /// Names this format.
    #[schemars(extend("const" = SCHEMA))]
    pub(crate) schema: &'static str,
    /// Version of peerlane that wrote it.
    pub(crate) peerlane: &'static str,
    /// The machines, in the order of the targets.
    pub(crate) machines: Vec<MachineReport>,
    /// What they come to side by side, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) comparison: Option<ComparisonView>,
}

/// One machine: what it is, should deliver and does deliver, and what to do about the difference.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct MachineReport {
    /// Its name.
    pub(crate) name: String,
    /// What it is, in a line.
    pub(crate) title: Option<String>,
    /// Its devices in a line: `4 GPUs, 2 NICs`.
    pub(crate) inventory: String,
    /// Where the description comes from, in a line.
    pub(crate) origin: String,
    /// The verdict.
    pub(crate) verdict: Verdict,
    /// What the findings amount to: `1 error, 2 warnings`.
    pub(crate) summary: String,
    /// The findings, in order.
    pub(crate) findings: Vec<FindingView>,
    /// What the site accepts, and is no part of the verdict.
    pub(crate) waived: Vec<WaivedView>,
    /// The findings as Markdown, to be pasted into a ticket.
    pub(crate) markdown: String,
    /// The drawing.
    pub(crate) drawing: Drawing,
    /// The machine as text, for those who do not see the drawing.
    pub(crate) tree: String,
    /// Its nodes.
    pub(crate) nodes: Vec<NodeView>,
    /// Its links.
    pub(crate) links: Vec<LinkView>,
    /// Path classes between its GPUs and NICs; absent where there are fewer than two or none is known.
    pub(crate) classes: Option<ClassView>,
    /// Numbers between pairs.
    pub(crate) matrices: Vec<MatrixView>,
    /// The ways that cells take.
    pub(crate) paths: Vec<PathView>,
    /// The hops that ways are made of.
    pub(crate) hops: Vec<HopView>,
    /// Sentences that `hops`, `paths` and `matrices` refer to by index.
    pub(crate) words: Vec<String>,
    /// Numbers against message size, one a chart.
    pub(crate) charts: Vec<Chart>,
    /// What transfers reach together, one a table.
    pub(crate) contention: Vec<Contention>,
    /// Facts about machine and run.
    pub(crate) facts: Vec<Table>,
    /// Where everything came from, each once.
    pub(crate) evidence: Vec<EvidenceView>,
    /// What cannot be true.
    pub(crate) contradictions: Vec<String>,
    /// What is not known.
    pub(crate) unknown: Vec<String>,
    /// What is assumed.
    pub(crate) assumptions: Vec<String>,
    /// What is odd.
    pub(crate) warnings: Vec<String>,
    /// What else a source says.
    pub(crate) notes: Vec<String>,
    /// The record of the run.
    pub(crate) record: Option<RunRecord>,
}

/// A finding with what it is about.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct FindingView {
    /// The finding.
    #[serde(flatten)]
    pub(crate) finding: Finding,
    /// Indices of the nodes it is about, which the drawing has as boxes.
    pub(crate) boxes: Vec<usize>,
    /// Indices of links it is about.
    pub(crate) links: Vec<usize>,
    /// Cells it is about.
    pub(crate) cells: Vec<CellRef>,
    /// Indices into the machine's evidence.
    pub(crate) sources: Vec<usize>,
}

/// A finding that the site's settings accept.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct WaivedView {
    /// Why, as the settings say.
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

/// A node, as shown beside the drawing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct NodeView {
    /// Its name, with the first other that it answers to.
    pub(crate) name: String,
    /// What it is.
    pub(crate) kind: NodeKind,
    /// Its product, shortly; may be empty.
    pub(crate) product: String,
    /// True where no source states it.
    pub(crate) assumed: bool,
    /// What else is known.
    pub(crate) details: Vec<Labelled>,
    /// Indices into the machine's evidence.
    pub(crate) sources: Vec<usize>,
}

/// A link, as shown beside the drawing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct LinkView {
    /// Index of one end.
    pub(crate) a: usize,
    /// Index of the other.
    pub(crate) b: usize,
    /// What it is: `PCIe 3.0 x16`.
    pub(crate) what: String,
    /// What it could be, where it runs with fewer lanes or slower.
    pub(crate) could_be: Option<String>,
    /// True where it has fewer lanes than it could.
    pub(crate) narrow: bool,
    /// Raw rate in GB/s of one direction.
    pub(crate) rate: Option<f64>,
    /// True where no source states it.
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
    /// Index of each cell's way.
    pub(crate) paths: Vec<Vec<Option<usize>>>,
    /// What the classes mean, nearest first.
    pub(crate) meanings: Vec<Labelled>,
}

/// A text with its label.
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
    /// Index among the words.
    pub(crate) word: usize,
    /// Whether the number is to be taken with care.
    pub(crate) flagged: bool,
}

/// Numbers between rows and columns, and what should stand there.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct MatrixView {
    /// What it holds: `bandwidth, one way, P2P on`.
    pub(crate) what: String,
    /// Between whom: `among GPU0–GPU3`, `host → GPU0–GPU3`.
    pub(crate) ends: String,
    /// The test or title it has in its source, where that says more.
    pub(crate) title: Option<String>,
    /// How the numbers were obtained: `measured`, `published`, `stated in words` or `predicted`.
    pub(crate) obtained: &'static str,
    /// What is measured.
    pub(crate) quantity: Quantity,
    /// Unit of all values.
    pub(crate) unit: Unit,
    /// Whether a larger number is a better one.
    pub(crate) more_is_better: bool,
    /// The rest of what it is.
    #[serde(skip)]
    pub(crate) kind: Kind,
    /// Row names.
    pub(crate) rows: Vec<String>,
    /// Column names.
    pub(crate) cols: Vec<String>,
    /// How rows relate to columns: `rows write to columns`.
    pub(crate) orientation: Option<&'static str>,
    /// Numbers seen; empty where nothing was.
    pub(crate) measured: Vec<Vec<Option<f64>>>,
    /// Of numbers that a source states as ranges the upper ends, in the shape of `seen`; empty where none is.
    pub(crate) upto: Vec<Vec<Option<f64>>>,
    /// Numbers expected; empty where nothing can be.
    pub(crate) expected: Vec<Vec<Option<f64>>>,
    /// The least that each may be, by the ranges of the model's constants; empty where nothing is expected.
    pub(crate) least: Vec<Vec<Option<f64>>>,
    /// The most.
    pub(crate) most: Vec<Vec<Option<f64>>>,
    /// What binds each expectation: index among the words. Empty where nothing is expected.
    pub(crate) bound: Vec<Vec<Option<usize>>>,
    /// How sure each number is; empty where the source does not say.
    pub(crate) spread: Vec<Vec<Option<SpreadView>>>,
    /// Remarks on cells.
    pub(crate) remarks: Vec<Remark>,
    /// Index of each cell's way.
    pub(crate) paths: Vec<Vec<Option<usize>>>,
    /// Indices into the machine's evidence.
    pub(crate) sources: Vec<usize>,
}

/// How sure a number is.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct SpreadView {
    /// Samples.
    pub(crate) n: usize,
    /// Low end of the median's 95 % interval.
    pub(crate) low: f64,
    /// High end.
    pub(crate) high: f64,
}

/// The way of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct PathView {
    /// Its class.
    pub(crate) class: Option<PathClass>,
    /// Whether it goes through host memory; absent where the model has no route.
    pub(crate) staged: Option<bool>,
    /// Why it is staged: index among the words.
    pub(crate) because: Option<usize>,
    /// Its hops, in order: indices into the machine's.
    pub(crate) hops: Vec<usize>,
    /// Which of them, as places in `hops`, are the tightest.
    pub(crate) tightest: Vec<usize>,
}

/// One hop, as many ways have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct HopView {
    /// Index of the node where it starts.
    pub(crate) from: usize,
    /// Index of the node where it ends.
    pub(crate) to: usize,
    /// Index of its link; absent inside a node.
    pub(crate) link: Option<usize>,
    /// The most that a lone transfer gets through it, in GB/s.
    pub(crate) limit: Option<f64>,
    /// The least and the most that this may be, by the ranges of the model's constants.
    pub(crate) range: Option<[f64; 2]>,
    /// Why: index among the words.
    pub(crate) why: Option<usize>,
}

/// Curves that share their axes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Chart {
    /// What it shows: `bandwidth by message size, copy engine`.
    pub(crate) what: String,
    /// Unit of the values; absent for counts.
    pub(crate) unit: Option<Unit>,
    /// The curves.
    pub(crate) curves: Vec<CurveView>,
    /// Indices into the machine's evidence.
    pub(crate) sources: Vec<usize>,
}

/// Numbers against message size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct CurveView {
    /// Between whom, or which column of which program.
    pub(crate) name: String,
    /// The points, sizes ascending.
    pub(crate) points: Vec<Point>,
    /// Start-up time and rate that describe them, where they do.
    pub(crate) fit: Option<FitView>,
}

/// One message size.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Point {
    /// Bytes a message.
    pub(crate) size: Bytes,
    /// The value.
    pub(crate) value: f64,
    /// Low end of its 95 % interval.
    pub(crate) low: Option<f64>,
    /// High end.
    pub(crate) high: Option<f64>,
}

/// time(size) = start-up + size ÷ rate.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct FitView {
    /// Start-up time in µs.
    pub(crate) startup_us: f64,
    /// Rate of a message without end, in GB/s.
    pub(crate) rate: f64,
    /// The size that reaches half of it.
    pub(crate) half_size: Bytes,
    /// What it gives at each point, in the chart's unit.
    pub(crate) values: Vec<f64>,
    /// Sizes that it does not describe.
    pub(crate) misfits: Vec<Bytes>,
    /// The share from which on it is off there.
    pub(crate) tolerance: f64,
}

/// Sets of transfers of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Contention {
    /// What they do: `one-to-all, writes, copy engine`.
    pub(crate) what: String,
    /// Unit of all values.
    pub(crate) unit: Unit,
    /// The sets.
    pub(crate) sets: Vec<SetView>,
}

/// Transfers at once.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SetView {
    /// Who: `GPU0→GPU1–GPU3`.
    pub(crate) name: String,
    /// Their sum.
    pub(crate) sum: Option<f64>,
    /// Low end of the sum's 95 % interval.
    pub(crate) low: Option<f64>,
    /// High end.
    pub(crate) high: Option<f64>,
    /// Samples.
    pub(crate) n: usize,
    /// Each one's rate.
    pub(crate) each: Vec<f64>,
    /// What they reach alone, summed.
    pub(crate) alone: Option<f64>,
    /// What the model expects of the sum.
    pub(crate) expected: Option<f64>,
    /// Remarks.
    pub(crate) remarks: Vec<String>,
}

/// A small table of facts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Table {
    /// What it is.
    pub(crate) title: String,
    /// Headings of columns; empty for a list of labels and texts.
    pub(crate) columns: Vec<String>,
    /// Rows; the first cell heads its row.
    pub(crate) rows: Vec<Vec<String>>,
}

/// A place where something stands.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct EvidenceView {
    /// `file:lines (tool)`.
    pub(crate) place: String,
    /// What it tells: `path classes`, `bandwidth, one way …`, names of nodes and links; may be empty.
    pub(crate) tells: Vec<String>,
}

/// The record of the run that the numbers are from.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct RunRecord {
    /// A name for the file.
    pub(crate) name: String,
    /// Its size, unpacked.
    pub(crate) bytes: usize,
    /// Whether it has the samples behind each number, which take most of its room.
    pub(crate) samples: bool,
    /// The record (`peerlane/run/1`), gzip in base64.
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
        assert!(written == fresh, "{} is stale: run UPDATE_SCHEMA=1 cargo test schema", path.display());
    }
}
