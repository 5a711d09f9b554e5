//! Of which matrices a machine can be asked: the usual ones, and the others that can be predicted.

use super::{HOST, ITSELF, MOST_PREDICTED, Metric};
use crate::model::Model;
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::matrix::{Direction, Engine, Operation, Quantity, Unit};

/// A metric with the ends of its numbers.
pub(crate) struct Requested {
    /// What.
    pub(crate) metric: Metric,
    /// Sources.
    pub(crate) rows: Vec<String>,
    /// Destinations.
    pub(crate) cols: Vec<String>,
}

/// What [`predict`](super::predict) shows.
pub(crate) fn usual(model: &Model) -> Vec<Requested> {
    let ends = Ends::of(model);
    let pairs = |on| Metric { p2p: Some(on), op: Some(Operation::Write), ..Metric::COPIES };
    let both = Metric { direction: Some(Direction::Bidirectional), ..pairs(true) };
    let network = Metric { engine: Some(Engine::Nic), ..Metric::COPIES };
    let device = Metric { engine: Some(Engine::Device), ..Metric::COPIES };
    let host_small = Metric { op: None, p2p: None, ..small_copies() };
    let Ends { gpus, nics, cards, host, .. } = &ends;
    let asked = [
        (pairs(true), gpus, gpus),
        (both, gpus, gpus),
        (pairs(false), gpus, gpus),
        (Metric::COPIES, host, gpus),
        (Metric::COPIES, gpus, host),
        (network, gpus, nics),
        (network, nics, gpus),
        (device, gpus, cards),
        (device, cards, gpus),
        (device, cards, host),
        (device, host, cards),
        (small_copies(), gpus, gpus),
        (host_small, host, gpus),
        (host_small, gpus, host),
    ];
    ends.possible(asked)
}

/// How long small copies into another memory take, with peer access requested.
fn small_copies() -> Metric {
    Metric {
        quantity: Quantity::Latency,
        direction: None,
        p2p: Some(true),
        op: Some(Operation::Write),
        unit: Unit::Microseconds,
        ..Metric::COPIES
    }
}

/// What can be predicted beside that: the other quantities, directions, engines and operations.
pub(crate) fn further(model: &Model) -> Vec<Requested> {
    let ends = Ends::of(model);
    let (write, read) = (Some(Operation::Write), Some(Operation::Read));
    let both = Some(Direction::Bidirectional);
    let pairs = |on, op, engine| Metric { p2p: Some(on), op, engine: Some(engine), ..Metric::COPIES };
    let small = small_copies();
    let loads = Metric { quantity: Quantity::LoadLatency, engine: Some(Engine::Sm), op: None, ..small };
    let loads = Metric { unit: Unit::Nanoseconds, ..loads };
    let kernels = Metric { engine: Some(Engine::Sm), ..Metric::COPIES };
    let Ends { gpus, host, itself, .. } = &ends;
    let asked = [
        (Metric { direction: both, ..pairs(false, write, Engine::Ce) }, gpus, gpus),
        (pairs(true, read, Engine::Ce), gpus, gpus),
        (pairs(true, write, Engine::Sm), gpus, gpus),
        (pairs(true, read, Engine::Sm), gpus, gpus),
        (Metric { direction: both, ..Metric::COPIES }, host, gpus),
        (kernels, host, gpus),
        (kernels, gpus, host),
        (Metric::COPIES, gpus, itself),
        (Metric { op: read, ..small }, gpus, gpus),
        (Metric { p2p: Some(false), ..small }, gpus, gpus),
        (Metric { p2p: None, op: None, ..small }, gpus, itself),
        (loads, gpus, gpus),
        (Metric { p2p: None, ..loads }, gpus, host),
    ];
    ends.possible(asked)
}

/// The ends of transfers of a machine.
struct Ends {
    gpus: Vec<String>,
    nics: Vec<String>,
    /// Drives and capture cards.
    cards: Vec<String>,
    host: Vec<String>,
    itself: Vec<String>,
    /// Whether all pairs can be predicted.
    all_pairs: bool,
    /// Whether ways between GPUs may be there that no source shows.
    unknown_nvlinks: bool,
}

impl Ends {
    fn of(model: &Model) -> Self {
        let fabric = &model.machine.fabric;
        let names = |kind| fabric.of_kind(kind).map(|id| fabric.node(id).name.clone()).collect::<Vec<String>>();
        let mut nics = names(NodeKind::Nic);
        // a port without RDMA reads no GPU's memory
        nics.retain(|name| fabric.find(name).is_none_or(|id| fabric.node(id).rdma != Some(false)));
        Ends {
            gpus: names(NodeKind::Gpu),
            nics,
            cards: [NodeKind::Nvme, NodeKind::Fpga].into_iter().flat_map(names).collect(),
            host: vec![HOST.to_owned()],
            itself: vec![ITSELF.to_owned()],
            all_pairs: fabric.devices().len() <= MOST_PREDICTED,
            unknown_nvlinks: model.machine.nvlinks_unknown(),
        }
    }

    /// Those of which anything can be predicted in reasonable time.
    fn possible<'e>(
        &'e self,
        asked: impl IntoIterator<Item = (Metric, &'e Vec<String>, &'e Vec<String>)>,
    ) -> Vec<Requested> {
        let few = |names: &Vec<String>| names == &self.host || names == &self.itself;
        let asked = asked.into_iter().filter(|(_, rows, cols)| self.all_pairs || few(rows) || few(cols));
        let asked = asked.filter(|(metric, ..)| !(self.unknown_nvlinks && metric.p2p == Some(true)));
        asked.map(|(metric, rows, cols)| Requested { metric, rows: rows.clone(), cols: cols.clone() }).collect()
    }
}
