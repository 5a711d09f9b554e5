//! How long a small transfer between two GPUs takes, from the nearest pair to the furthest.

use schemars::JsonSchema;
use serde::Serialize;

use peerlane_machine::machine::SourcedMatrix;
use peerlane_machine::matrix::Quantity;
use peerlane_model::flows::Flows;

/// Latencies of small copies between different GPUs, launch included, as the CUDA sample counts them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    /// The shortest, in µs.
    pub least: f64,
    /// The median of all, in µs.
    pub median: f64,
    /// The longest, in µs.
    pub most: f64,
    /// Its source and destination.
    pub most_pair: [String; 2],
    /// True for a document's figures, false for a program's own output.
    pub published: bool,
    /// Where they stand.
    pub evidence: String,
}

/// The latencies of a machine: the one place that every figure of latency is from. They are those that were measured,
/// or else published, with peer access requested, or off between GPUs that go through host memory anyway; `None` where
/// there are none.
pub(super) fn latency(flows: &Flows) -> Option<Latency> {
    let machine = flows.model.machine;
    let fits = |o: &&SourcedMatrix| o.matrix.quantity == Quantity::Latency;
    let mut sources: Vec<&SourcedMatrix> = machine.matrices.iter().filter(fits).collect();
    sources.sort_by_key(|o| (o.matrix.p2p == Some(false), o.published));
    let place = |name: &str| {
        let id = machine.fabric.find(name)?;
        flows.ends.iter().position(|end| *end == id)
    };
    sources.into_iter().find_map(|o| {
        let mut cells: Vec<(f64, [&String; 2])> = Vec::new();
        for (i, row) in o.matrix.rows.iter().enumerate() {
            for (j, col) in o.matrix.cols.iter().enumerate() {
                let time = o.matrix.value(i, j).and_then(|v| o.matrix.unit.time(v));
                let pair = place(row).zip(place(col)).filter(|(a, b)| a != b);
                let staged = || pair.and_then(|pair| flows.flow(pair)).is_some_and(|flow| flow.staged);
                let counts = pair.is_some() && (o.matrix.p2p != Some(false) || staged());
                cells.extend(time.filter(|_| counts).map(|t| (t.us(), [row, col])));
            }
        }
        cells.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (least, most) = (cells.first()?, cells.last()?);
        let middle = (cells.get((cells.len() - 1) / 2)?.0 + cells.get(cells.len() / 2)?.0) / 2.0;
        Some(Latency {
            least: least.0,
            median: middle,
            most: most.0,
            most_pair: most.1.map(Clone::clone),
            published: o.published,
            evidence: o.origin.to_string(),
        })
    })
}
