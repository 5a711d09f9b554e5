//! How long a small transfer between two GPUs takes, from the nearest pair to the furthest.

use std::collections::BTreeMap;

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::measured::MeasuredValue;
use peerlane_machine::fabric::PathClass;
use peerlane_machine::machine::SourcedMatrix;
use peerlane_machine::matrix::Quantity;
use peerlane_model::flows::{Flows, Pair};

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

/// What the model predicts of the same copies.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PredictedLatency {
    /// The shortest, in µs.
    pub least: f64,
    /// The longest, in µs.
    pub most: f64,
    /// Its source and destination.
    pub most_pair: [String; 2],
    /// What the longest is made of.
    pub why: String,
}

/// Latencies of the pairs of one path class.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClassLatency {
    /// The class: `PIX`, `NV2`, `SYS`.
    pub class: String,
    /// The same in its order.
    #[serde(skip)]
    pub rank: PathClass,
    /// How many ordered pairs.
    pub pairs: usize,
    /// Whether they go through host memory.
    pub staged: bool,
    /// The shortest and the longest that are predicted, in µs.
    pub predicted: Option<[f64; 2]>,
    /// The shortest and the longest that were measured or published, in µs.
    pub measured: Option<MeasuredValue>,
}

/// The latencies of a machine's pairs.
pub(super) struct Latencies {
    pub measured: Option<Latency>,
    pub predicted: Option<PredictedLatency>,
    pub by_class: Vec<ClassLatency>,
}

/// A source's latencies in µs by pair, the shortest first.
struct Cells<'m> {
    source: &'m SourcedMatrix,
    of: Vec<(f64, Pair, [&'m String; 2])>,
}

/// The latencies of a machine: the one place that every figure of latency is from.
pub(super) fn latencies(flows: &Flows) -> Latencies {
    let cells = cells(flows);
    let predicted = predicted(flows);
    Latencies {
        measured: cells.as_ref().and_then(measured),
        by_class: by_class(flows, cells.as_ref(), &predicted),
        predicted: longest(flows, &predicted),
    }
}

/// Those that were measured, or else published, with peer access requested, or off between GPUs that go through host memory anyway;
/// `None` where there are none.
fn cells<'m>(flows: &Flows<'m, '_>) -> Option<Cells<'m>> {
    let machine = flows.model.machine;
    let fits = |o: &&SourcedMatrix| o.matrix.quantity == Quantity::Latency;
    let mut sources: Vec<&SourcedMatrix> = machine.matrices.iter().filter(fits).collect();
    sources.sort_by_key(|o| (o.matrix.p2p == Some(false), o.published));
    let place = |name: &str| {
        let id = machine.fabric.find(name)?;
        flows.ends.iter().position(|end| *end == id)
    };
    sources.into_iter().find_map(|source| {
        let matrix = &source.matrix;
        let mut of: Vec<(f64, Pair, [&String; 2])> = Vec::new();
        for (i, row) in matrix.rows.iter().enumerate() {
            for (j, col) in matrix.cols.iter().enumerate() {
                let time = matrix.value(i, j).and_then(|v| matrix.unit.time(v));
                let pair = place(row).zip(place(col)).filter(|(a, b)| a != b);
                let staged = || pair.and_then(|pair| flows.flow(pair)).is_some_and(|flow| flow.staged);
                let counts = matrix.p2p != Some(false) || staged();
                of.extend(time.zip(pair).filter(|_| counts).map(|(time, pair)| (time.us(), pair, [row, col])));
            }
        }
        of.sort_by(|a, b| a.0.total_cmp(&b.0));
        (!of.is_empty()).then_some(Cells { source, of })
    })
}

fn measured(cells: &Cells) -> Option<Latency> {
    let Cells { source, of } = cells;
    let (least, most) = (of.first()?, of.last()?);
    Some(Latency {
        least: least.0,
        median: (of.get((of.len() - 1) / 2)?.0 + of.get(of.len() / 2)?.0) / 2.0,
        most: most.0,
        most_pair: most.2.map(Clone::clone),
        published: source.published,
        evidence: source.origin.to_string(),
    })
}

/// The times of all pairs of which the model predicts one, in µs, with what they are made of.
fn predicted(flows: &Flows) -> Vec<(Pair, f64, String)> {
    let of = |pair: Pair| {
        let latency = flows.model.small_copy(&flows.transfer(pair))?;
        Some((pair, latency.time.us(), latency.why))
    };
    // a pair whose path nothing shows has none
    flows.pairs().filter(|pair| flows.flow(*pair).is_some()).filter_map(of).collect()
}

fn longest(flows: &Flows, predicted: &[(Pair, f64, String)]) -> Option<PredictedLatency> {
    let us = || predicted.iter().map(|(_, us, _)| *us);
    let (least, most) = (us().fold(f64::INFINITY, f64::min), us().fold(0.0, f64::max));
    // rounding is no difference: the first of those that are alike
    let ((a, b), _, why) = predicted.iter().find(|(_, us, _)| *us >= most * (1.0 - 1e-9))?;
    let most_pair = [*a, *b].map(|end| flows.name(end).to_owned());
    Some(PredictedLatency { least, most, most_pair, why: why.clone() })
}

/// By class, the nearest first. Pairs of which no class is known are left out, and where paths of some pairs are known, those of
/// which none is: their class is that of an assumed place, and not of the NVLinks that they may have.
fn by_class(flows: &Flows, cells: Option<&Cells>, predicted: &[(Pair, f64, String)]) -> Vec<ClassLatency> {
    let fabric = &flows.model.machine.fabric;
    let mut by_class: BTreeMap<PathClass, Vec<Pair>> = BTreeMap::new();
    let any = flows.pairs().any(|pair| flows.flow(pair).is_some());
    for (i, j) in flows.pairs().filter(|pair| !any || flows.flow(*pair).is_some()) {
        if let Some(class) = fabric.class(flows.ends[i], flows.ends[j]) {
            by_class.entry(class).or_default().push((i, j));
        }
    }
    let span = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), us| (low.min(us), high.max(us)));
        (low <= high).then_some([low, high])
    };
    let of_class = |(class, pairs): (PathClass, Vec<Pair>)| {
        let members: std::collections::HashSet<Pair> = pairs.iter().copied().collect();
        let seen = cells.and_then(|cells| {
            let [low, high] =
                span(&mut cells.of.iter().filter(|(_, pair, _)| members.contains(pair)).map(|(us, ..)| *us))?;
            let (published, evidence) = (cells.source.published, cells.source.origin.to_string());
            Some(MeasuredValue { low, high, published, evidence })
        });
        ClassLatency {
            class: class.to_string(),
            rank: class,
            staged: pairs.iter().all(|pair| flows.flow(*pair).is_some_and(|flow| flow.staged)),
            pairs: pairs.len(),
            predicted: span(&mut predicted.iter().filter(|(pair, ..)| members.contains(pair)).map(|(_, us, _)| *us)),
            measured: seen,
        }
    };
    let all = by_class.into_iter().map(of_class);
    all.filter(|of| of.predicted.is_some() || of.measured.is_some()).collect()
}
