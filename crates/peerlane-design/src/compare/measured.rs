//! What was measured or published in the place of a predicted figure.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Direction, Engine, Matrix, Operation, Quantity, Unit};
use peerlane_machine::names::is_host;
use peerlane_measure::plan::Test;
use peerlane_measure::run::{Run, sets};
use peerlane_model::flows::{Flows, Pair};

/// A number, or the range that a source states.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredValue {
    /// The number, or the low end of the range; in the unit of the predicted figure.
    pub low: f64,
    /// The same number, or the high end.
    pub high: f64,
    /// True for a document's figure, false for a program's own output.
    pub published: bool,
    /// Where it stands.
    pub evidence: String,
}

/// A matrix, or a statement as one, of which this is the low end, and where it stands.
struct Source<'s> {
    low: Cow<'s, Matrix>,
    /// The high end of a statement's range, in the matrix's unit.
    high: Option<f64>,
    published: bool,
    evidence: String,
}

/// All matrices and statements, the most telling first: measured before published, large messages before small.
fn sources(machine: &Machine) -> Vec<Source<'_>> {
    let of_matrices = machine.matrices.iter().map(|measured| Source {
        low: Cow::Borrowed(&measured.matrix),
        high: None,
        published: measured.published,
        evidence: measured.origin.to_string(),
    });
    let of_statements = machine.statements.iter().map(|statement| Source {
        low: Cow::Owned(statement.to_matrix()),
        high: Some(statement.high),
        published: true,
        evidence: statement.text.clone(),
    });
    let mut all: Vec<Source> = of_matrices.chain(of_statements).collect();
    all.sort_by_key(|s| (s.published, std::cmp::Reverse(s.low.size)));
    all
}

/// Tests of many transfers at once, and of memory that waits for the CPU, are no pairs.
fn is_of_pairs(matrix: &Matrix) -> bool {
    let title = matrix.title.to_lowercase();
    !["_to_all", "all_to_", "pageable", "managed"].iter().any(|word| title.contains(word))
}

/// What a cell of a matrix is of: its value from a source's low and high end, in GB/s.
fn cells<'s>(
    machine: &'s Machine,
    direction: Direction,
    wanted: impl Fn(&Matrix, Option<NodeId>, Option<NodeId>) -> bool + 's,
) -> impl Iterator<Item = (Source<'s>, Vec<(f64, f64)>)> + 's {
    let fits = move |m: &Matrix| {
        m.quantity == Quantity::Bandwidth
            && m.direction == Some(direction)
            && matches!(m.engine, None | Some(Engine::Ce))
            && matches!(m.op, None | Some(Operation::Write))
            && is_of_pairs(m)
    };
    sources(machine).into_iter().filter(move |s| fits(&s.low)).map(move |source| {
        let node = |name: &String| machine.fabric.find(name);
        let mut values = Vec::new();
        for (i, row) in source.low.rows.iter().enumerate() {
            for (j, col) in source.low.cols.iter().enumerate() {
                let known = wanted(&source.low, node(row), node(col)) && row != col;
                let Some(low) = source.low.rate(i, j).filter(|_| known) else { continue };
                let high = source.high.and_then(|high| source.low.unit.rate(high)).unwrap_or(low);
                values.push((low.gb(), high.gb()));
            }
        }
        (source, values)
    })
}

/// Of the sources that show any of it, the first; a statement's neighbours of the same kind are taken together.
///
/// Its worst value, and the mean.
fn of_sources<'s>(found: impl Iterator<Item = (Source<'s>, Vec<(f64, f64)>)>) -> Option<[MeasuredValue; 2]> {
    let mut found = found.filter(|(_, values)| !values.is_empty());
    let (first, mut values) = found.next()?;
    if first.high.is_some() {
        values.extend(found.filter(|(s, _)| s.high.is_some()).flat_map(|(_, more)| more));
    }
    let Source { published, evidence, .. } = first;
    let value = |low: f64, high: f64| MeasuredValue { low, high, published, evidence: evidence.clone() };
    let (lows, highs): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
    let worst = lows.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    Some([value(worst, worst), value(mean(&lows), mean(&highs))])
}

/// Between GPUs, one way or both ways summed. Numbers of peer access off count where pairs are staged anyway.
pub(super) fn pairs(flows: &Flows, direction: Direction) -> Option<[MeasuredValue; 2]> {
    let place = |id: Option<NodeId>| flows.ends.iter().position(|g| Some(*g) == id);
    of_sources(cells(flows.model.machine, direction, |matrix, row, col| {
        let Some(pair) = place(row).zip(place(col)) else { return false };
        let staged = |pair: Pair| flows.flow(pair).is_some_and(|f| f.staged);
        matrix.p2p != Some(false) || staged(pair)
    }))
}

/// Between GPUs and host memory, one way.
pub(super) fn host(machine: &Machine, from_host: bool) -> Option<[MeasuredValue; 2]> {
    let gpu = move |id: Option<NodeId>| id.is_some_and(|id| machine.fabric.node(id).kind == NodeKind::Gpu);
    of_sources(cells(machine, Direction::Unidirectional, move |matrix, row, col| {
        let hosts = |names: &[String]| names.iter().all(|n| is_host(n));
        if from_host { hosts(&matrix.rows) && gpu(col) } else { hosts(&matrix.cols) && gpu(row) }
    }))
}

fn of_run(values: impl Iterator<Item = (f64, Unit)>) -> Option<MeasuredValue> {
    let gb = values.filter_map(|(value, unit)| unit.rate(value).map(|r| r.gb()));
    let least = gb.reduce(f64::min)?;
    Some(MeasuredValue { low: least, high: least, published: false, evidence: "peerlane measure".to_owned() })
}

/// The least that a run shows of all GPUs to one.
pub(super) fn all_to_one(run: &Run, gpus: usize) -> Option<MeasuredValue> {
    let sets = sets(&run.cells);
    let writes = sets.iter().filter(|s| {
        s.cell.test == Test::AllToOne
            && s.transfers.len() + 1 == gpus
            && s.transfers.iter().all(|t| t.engine == Engine::Ce && t.op == Operation::Write)
    });
    of_run(writes.filter_map(|s| Some((s.cell.value()?, s.cell.unit))))
}

/// What a run shows of every GPU with the host: the sum, and the slowest.
pub(super) fn host_feed(run: &Run, gpus: usize, from_host: bool) -> Option<(MeasuredValue, MeasuredValue)> {
    let sets = sets(&run.cells);
    let one_way = sets.iter().find(|s| {
        let host =
            |t: &peerlane_machine::transfer::Transfer| is_host(if from_host { &t.source } else { &t.destination });
        s.cell.test == Test::AllHost
            && s.transfers.len() == gpus
            && s.transfers.iter().all(|t| t.engine == Engine::Ce && host(t))
    })?;
    let sum = of_run(std::iter::once((one_way.cell.value()?, one_way.cell.unit)))?;
    let each = (0..gpus).filter_map(|at| Some((one_way.each(at)?, one_way.cell.unit)));
    Some((sum, of_run(each)?))
}

/// The greatest bus bandwidth of an all-reduce among all GPUs, at any size.
pub(super) fn all_reduce(machine: &Machine, gpus: usize) -> Option<MeasuredValue> {
    let ranks = gpus.to_string();
    let is_one = |what: &str| matches!(what, "all_reduce_perf" | "all-reduce");
    let curves =
        machine.curves.iter().filter(|(c, _)| is_one(&c.what) && c.settings.get("ranks").is_none_or(|r| *r == ranks));
    let mut best: Option<MeasuredValue> = None;
    for (curve, origin) in curves {
        let bus = |name: &str| name.starts_with("busbw") || name == Quantity::BusBandwidth.name();
        for series in curve.series.iter().filter(|s| bus(&s.name)) {
            let rate = |v: &f64| series.unit.unwrap_or(Unit::GigabytesPerSecond).rate(*v).map(|r| r.gb());
            let Some(most) = series.values.iter().flatten().filter_map(rate).reduce(f64::max) else { continue };
            if best.as_ref().is_none_or(|b| b.high < most) {
                best = Some(MeasuredValue { low: most, high: most, published: false, evidence: origin.to_string() });
            }
        }
    }
    best
}
