//! Measured rates next to floors that others publish for the same product.
//!
//! A fixed floor knows a product's name and not its links. So it is no floor of ours and changes no verdict; this shows
//! an operator who has such a list where it agrees.

use std::fmt;

use peerlane_machine::fabric::{Interconnect, NodeKind, PathClass};
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Direction, Engine, Quantity};
use peerlane_machine::schema::JsonSchema;
use peerlane_machine::units::Bytes;
use peerlane_model::comparison::Comparison;
use peerlane_read::catalogue::{Floors, JoinedBy, ThresholdList, threshold_lists};
use serde::Serialize;

/// Smaller transfers are about latency.
const LARGE: Bytes = Bytes(16 << 20);

/// An all-reduce of less than this has not reached its rate.
const LARGE_ALL_REDUCE: Bytes = Bytes(256 << 20);

/// A floor of others, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Threshold {
    /// The list: `Azure node health checks`.
    pub list: String,
    /// Where the floor is published.
    pub source: String,
    /// What it is of: `host↔GPU`, `GPU↔GPU` or `all-reduce`.
    pub of: String,
    /// The floor, in GB/s.
    pub floor: f64,
    /// The lowest measured rate, in GB/s.
    pub measured: f64,
    /// The ends of that rate: `GPU0→GPU1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub ends: Option<String>,
    /// Whether it is at or above the floor.
    pub passes: bool,
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Threshold { list, of, floor, measured, .. } = self;
        let ends = self.ends.as_ref().map(|ends| format!(" ({ends})")).unwrap_or_default();
        let result = if self.passes { "passes" } else { "fails" };
        write!(f, "{list}: {of} {floor}, measured {measured:.1} GB/s{ends}: {result}")
    }
}

/// The lowest measured rate of a kind, with its ends.
type Lowest = Option<(f64, Option<String>)>;

/// The floors of the list of that name, or of all lists, for this machine's product. Empty if no list names it, or nothing
/// was measured that a floor is of.
pub fn thresholds(comparison: &Comparison, list: Option<&str>) -> Vec<Threshold> {
    let machine = comparison.model().machine;
    let Some((part, count)) = product(machine) else { return Vec::new() };
    let joined = joined(machine);
    let (host, pair) = copies(comparison);
    let all = all_reduce(machine, count);
    let mut found = Vec::new();
    for list in threshold_lists().iter().filter(|of| list.is_none_or(|name| name == of.name)) {
        let ThresholdList { title, source, floors, .. } = list;
        let is_of = |of: &&Floors| {
            of.part.as_deref().is_none_or(|name| name == part) && of.links.is_none_or(|by| joined == Some(by))
        };
        for Floors { gpus, file, host: to_host, pair: to_pair, all_reduce, .. } in floors.iter().filter(is_of) {
            let whole = all_reduce.filter(|_| gpus.is_none_or(|gpus| gpus == count));
            let kinds = [("host↔GPU", *to_host, &host), ("GPU↔GPU", *to_pair, &pair), ("all-reduce", whole, &all)];
            for (of, floor, lowest) in kinds {
                let (Some(floor), Some((measured, ends))) = (floor, lowest) else { continue };
                found.push(Threshold {
                    list: title.clone(),
                    source: format!("{source}: {file}"),
                    of: of.to_owned(),
                    floor,
                    measured: *measured,
                    ends: ends.clone(),
                    passes: *measured >= floor,
                });
            }
        }
    }
    found
}

/// The part of all GPUs, and their number; `None` if they differ or one is not known.
fn product(machine: &Machine) -> Option<(&str, usize)> {
    let gpus: Vec<_> = machine.fabric.of_kind(NodeKind::Gpu).collect();
    let part = machine.fabric.node(*gpus.first()?).part.as_deref()?;
    let same = gpus.iter().all(|gpu| machine.fabric.node(*gpu).part.as_deref() == Some(part));
    same.then_some((part, gpus.len()))
}

/// What joins the GPUs; `None` where some have NVLink between them and others have not, or it is not known.
fn joined(machine: &Machine) -> Option<JoinedBy> {
    let gpus: Vec<_> = machine.fabric.of_kind(NodeKind::Gpu).collect();
    let pairs = gpus.iter().enumerate().flat_map(|(i, a)| gpus.iter().skip(i + 1).map(move |b| (*a, *b)));
    let classes: Option<Vec<PathClass>> = pairs.map(|(a, b)| machine.fabric.class(a, b)).collect();
    let classes = classes.filter(|classes| !classes.is_empty())?;
    match () {
        () if classes.iter().all(|class| matches!(class, PathClass::Gpu(Interconnect::Nvlink, _))) => {
            Some(JoinedBy::Nvlink)
        }
        () if classes.iter().all(|class| class.is_pcie()) => Some(JoinedBy::Pcie),
        () => None,
    }
}

/// The lowest rates of large copies one way by a copy engine: with the host, and between GPUs with peer access.
fn copies(comparison: &Comparison) -> (Lowest, Lowest) {
    let fabric = &comparison.model().machine.fabric;
    let is_gpu = |name: &str| fabric.find(name).is_some_and(|node| fabric.node(node).kind == NodeKind::Gpu);
    let (mut host, mut pair): (Lowest, Lowest) = (None, None);
    for series in comparison.matrices() {
        let (matrix, metric) = (series.matrix(), series.metric());
        let alone = series.is_of_pairs()
            && metric.quantity == Quantity::Bandwidth
            && metric.direction == Some(Direction::Unidirectional)
            && metric.engine.is_none_or(|engine| engine == Engine::Ce)
            && metric.p2p != Some(false)
            && metric.size.is_none_or(|size| size >= LARGE);
        if !alone {
            continue;
        }
        for (i, row) in matrix.rows.iter().enumerate() {
            for (j, col) in matrix.cols.iter().enumerate() {
                let lowest = match (is_gpu(row), is_gpu(col)) {
                    (true, true) if row != col => &mut pair,
                    (true, false) if col == "host" => &mut host,
                    (false, true) if row == "host" => &mut host,
                    _ => continue,
                };
                let Some(gb) = matrix.value(i, j).and_then(|v| metric.unit.rate(v)).map(|rate| rate.gb()) else {
                    continue;
                };
                if lowest.as_ref().is_none_or(|(least, _)| gb < *least) {
                    *lowest = Some((gb, Some(format!("{row}→{col}"))));
                }
            }
        }
    }
    (host, pair)
}

/// The bus bandwidth of the largest all-reduce among all GPUs.
fn all_reduce(machine: &Machine, gpus: usize) -> Lowest {
    let mut last = None;
    for (curve, _) in &machine.curves {
        let ranks = curve.settings.get("ranks").and_then(|ranks| ranks.parse().ok()).unwrap_or(curve.ends.len());
        if !["all-reduce", "all_reduce_perf"].contains(&curve.what.as_str()) || ranks != gpus {
            continue;
        }
        let is_bus = |name: &str| name == Quantity::BusBandwidth.name() || name.contains("busbw");
        for series in curve.series.iter().filter(|series| is_bus(&series.name)) {
            let Some((value, size)) = series.values.last().copied().flatten().zip(curve.sizes.last()) else { continue };
            let rate = series.unit.and_then(|unit| unit.rate(value)).filter(|_| *size >= LARGE_ALL_REDUCE);
            last = rate.map(|rate| (rate.gb(), None)).or(last);
        }
    }
    last
}
