//! What was measured or published in the place of a predicted figure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::machine::{Machine, MachineKind};
use peerlane_machine::matrix::{Direction, Engine, Matrix, Operation, Quantity, Unit};
use peerlane_machine::names::is_host;
use peerlane_measure::plan::Test;
use peerlane_measure::run::{Run, sets};
use peerlane_model::expectation::ITSELF;
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

/// What was measured or published of transfers that each run alone, whether a rate is predicted for them or not.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredAlone {
    /// The slowest.
    pub worst: MeasuredValue,
    /// Its ends.
    pub worst_pair: [String; 2],
    /// The mean over all.
    pub mean: MeasuredValue,
    /// The fastest.
    pub best: MeasuredValue,
    /// Its ends.
    pub best_pair: [String; 2],
}

/// What was measured alone, by kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredRates {
    /// One GPU to another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair: Option<MeasuredAlone>,
    /// Two GPUs both ways at once, summed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_both_ways: Option<MeasuredAlone>,
    /// Host memory to a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_host: Option<MeasuredAlone>,
    /// A GPU to host memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_host: Option<MeasuredAlone>,
    /// Within a GPU's own memory; each byte counts twice, once read and once written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<MeasuredAlone>,
    /// Host memory, out and back through a NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic_loopback: Option<MeasuredAlone>,
    /// Host memory to host memory, from one NIC of the machine to another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic_to_nic: Option<MeasuredAlone>,
    /// Out of a GPU's memory through a NIC, and back to host memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_out: Option<MeasuredAlone>,
    /// The same where the GPU's memory is staged in host memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_out_staged: Option<MeasuredAlone>,
    /// From host memory through a NIC, and back into a GPU's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_back: Option<MeasuredAlone>,
    /// The same where the GPU's memory is staged in host memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_back_staged: Option<MeasuredAlone>,
}

/// A number of a source in one place: its low and its high end, in GB/s.
struct Number {
    low: f64,
    high: f64,
    ends: [String; 2],
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

/// The numbers of each source that are wanted, by the nodes of their row and column.
fn cells<'s>(
    machine: &'s Machine,
    direction: Direction,
    engine: Engine,
    wanted: impl Fn(&Matrix, Option<NodeId>, Option<NodeId>) -> bool + 's,
) -> impl Iterator<Item = (Source<'s>, Vec<Number>)> + 's {
    let fits = move |m: &Matrix| {
        m.quantity == Quantity::Bandwidth
            && m.direction == Some(direction)
            && m.engine.is_none_or(|by| by == engine)
            && matches!(m.op, None | Some(Operation::Write))
            && m.is_of_pairs()
    };
    sources(machine).into_iter().filter(move |s| fits(&s.low)).map(move |source| {
        let node = |name: &String| machine.fabric.find(name);
        let mut values = Vec::new();
        for (i, row) in source.low.rows.iter().enumerate() {
            for (j, col) in source.low.cols.iter().enumerate() {
                let known = wanted(&source.low, node(row), node(col));
                let Some(low) = source.low.rate(i, j).filter(|_| known) else { continue };
                let high = source.high.and_then(|high| source.low.unit.rate(high)).unwrap_or(low);
                values.push(Number { low: low.gb(), high: high.gb(), ends: [row.clone(), col.clone()] });
            }
        }
        (source, values)
    })
}

/// Of the sources that show any of it, the first; a statement's neighbours of the same kind are taken together.
fn of_sources<'s>(found: impl Iterator<Item = (Source<'s>, Vec<Number>)>) -> Option<MeasuredAlone> {
    let mut found = found.filter(|(_, values)| !values.is_empty());
    let (first, mut values) = found.next()?;
    if first.high.is_some() {
        values.extend(found.filter(|(s, _)| s.high.is_some()).flat_map(|(_, more)| more));
    }
    let Source { published, evidence, .. } = first;
    let value = |low: f64, high: f64| MeasuredValue { low, high, published, evidence: evidence.clone() };
    let worst = values.iter().min_by(|a, b| a.low.total_cmp(&b.low))?;
    // the last of equal ones is taken, hence the order
    let best = values.iter().rev().max_by(|a, b| a.high.total_cmp(&b.high))?;
    let mean = |of: fn(&Number) -> f64| values.iter().map(of).sum::<f64>() / values.len() as f64;
    Some(MeasuredAlone {
        worst: value(worst.low, worst.low),
        worst_pair: worst.ends.clone(),
        mean: value(mean(|n| n.low), mean(|n| n.high)),
        best: value(best.high, best.high),
        best_pair: best.ends.clone(),
    })
}

/// Between GPUs, one way or both ways summed. Numbers of peer access off count where pairs are staged anyway.
pub(super) fn pairs(flows: &Flows, direction: Direction) -> Option<MeasuredAlone> {
    let place = |id: Option<NodeId>| flows.ends.iter().position(|g| Some(*g) == id);
    of_sources(cells(flows.model.machine, direction, Engine::Ce, |matrix, row, col| {
        let Some(pair) = place(row).zip(place(col)).filter(|(a, b)| a != b) else { return false };
        let staged = |pair: Pair| flows.flow(pair).is_some_and(|f| f.staged);
        matrix.p2p != Some(false) || staged(pair)
    }))
}

/// Between GPUs and host memory, one way.
pub(super) fn host(machine: &Machine, from_host: bool) -> Option<MeasuredAlone> {
    let gpu = move |id: Option<NodeId>| id.is_some_and(|id| machine.fabric.node(id).kind == NodeKind::Gpu);
    of_sources(cells(machine, Direction::Unidirectional, Engine::Ce, move |matrix, row, col| {
        let hosts = |names: &[String]| names.iter().all(|n| is_host(n));
        if from_host { hosts(&matrix.rows) && gpu(col) } else { hosts(&matrix.cols) && gpu(row) }
    }))
}

/// Within GPUs' own memories, the best that each reached, in bytes read and bytes written, as the CUDA samples count them.
pub(super) fn local(machine: &Machine) -> Option<MeasuredAlone> {
    let is_gpu = |id: NodeId| machine.fabric.node(id).kind == NodeKind::Gpu;
    let rates = cells(machine, Direction::Unidirectional, Engine::Ce, move |matrix, row, col| {
        let once = matrix.cols.iter().all(|col| col == ITSELF);
        row.is_some_and(is_gpu) && (once || row == col)
    });
    // each GPU's best of all tests, since a clock that was low in one says nothing of the memory
    let mut by_gpu: BTreeMap<String, (Source, Number)> = BTreeMap::new();
    for (source, values) in rates {
        for Number { low, high, ends: [gpu, column] } in values {
            // a column of that name counts each byte once
            let times = if column == ITSELF { 2.0 } else { 1.0 };
            let number = Number { low: low * times, high: high * times, ends: [gpu.clone(), gpu.clone()] };
            if by_gpu.get(&gpu).is_none_or(|(_, known)| known.low < number.low) {
                let (published, evidence) = (source.published, source.evidence.clone());
                // several tests are taken together, as statements are
                let (low, high) = (Cow::Owned(Matrix::default()), Some(number.high));
                by_gpu.insert(gpu, (Source { low, high, published, evidence }, number));
            }
        }
    }
    of_sources(by_gpu.into_values().map(|(source, number)| (source, vec![number])))
}

/// From one node to another that a NIC moves data between: the lowest of what a matrix, a statement or a table by message size shows
/// of any of these pairs.
pub(super) fn by_nic(machine: &Machine, pairs: &[[NodeId; 2]]) -> Option<MeasuredAlone> {
    let has = |row: Option<NodeId>, col: Option<NodeId>| row.zip(col).is_some_and(|(a, b)| pairs.contains(&[a, b]));
    // what a run measured came back to host memory
    let rates = cells(machine, Direction::Unidirectional, Engine::Nic, move |matrix, row, col| {
        matrix.p2p.is_none() && has(row, col)
    });
    let published = machine.kind != MachineKind::Captured;
    let curves = machine.curves.iter().filter(|(curve, _)| !curve.settings.contains_key("direction"));
    let curves = curves.filter_map(|(curve, origin)| {
        let [from, to] = curve.ends.as_slice() else { return None };
        let best = curve.best().filter(|_| has(machine.fabric.find(from), machine.fabric.find(to)))?.rate.gb();
        let number = Number { low: best, high: best, ends: [from.clone(), to.clone()] };
        // several tables are taken together, as statements are
        let (low, high) = (Cow::Owned(Matrix::default()), Some(best));
        Some((Source { low, high, published, evidence: origin.to_string() }, vec![number]))
    });
    of_sources(rates.chain(curves))
}

/// Of NICs: out and back through each, or from one to another.
pub(super) fn nics(machine: &Machine, loopback: bool) -> Option<MeasuredAlone> {
    let nic = move |id: Option<NodeId>| id.filter(|id| machine.fabric.node(*id).kind == NodeKind::Nic);
    of_sources(cells(machine, Direction::Unidirectional, Engine::Nic, move |_, row, col| {
        nic(row).zip(nic(col)).is_some_and(|(a, b)| (a == b) == loopback)
    }))
}

/// Of GPUs' memory through NICs, out of it and back to host memory, or the other way.
pub(super) fn gpus_with_nics(machine: &Machine, to_gpu: bool, staged: bool) -> Option<MeasuredAlone> {
    let is = move |id: Option<NodeId>, kind| id.is_some_and(|id| machine.fabric.node(id).kind == kind);
    of_sources(cells(machine, Direction::Unidirectional, Engine::Nic, move |matrix, row, col| {
        let (gpu, nic) = if to_gpu { (col, row) } else { (row, col) };
        matrix.p2p == Some(!staged) && is(gpu, NodeKind::Gpu) && is(nic, NodeKind::Nic)
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
