//! What a design would be if its GPUs used the lanes that are there for them.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::{pairs, together};
use crate::what_if::{Edit, apply, pcie_above};
use peerlane_machine::fabric::{LinkKind, NodeKind};
use peerlane_machine::matrix::{Direction, Engine};
use peerlane_machine::names::ranges;
use peerlane_model::collectives::bus_bandwidth;
use peerlane_model::flows::Flows;
use peerlane_model::model::Model;

/// The design with its GPUs' links as wide as slots and parts allow.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FullWidth {
    /// What is done, in words: `GPU0–GPU5 at x8`.
    pub what: String,
    /// The same as edits for `--what-if`.
    pub edits: Vec<String>,
    /// The worst pair one way then, in GB/s.
    pub worst_pair: Option<f64>,
    /// The ring all-reduce then, in GB/s.
    pub ring_all_reduce: Option<f64>,
    /// The slowest GPU then while host memory feeds all, in GB/s.
    pub host_feed_slowest: Option<f64>,
}

/// Widens what is narrower than it could be; `None` where nothing is, or the lanes are not there after all.
pub(super) fn full_width(model: &Model) -> Option<FullWidth> {
    let fabric = &model.machine.fabric;
    let mut by_lanes: Vec<(u8, Vec<&str>)> = Vec::new();
    let mut edits = Vec::new();
    for gpu in fabric.of_kind(NodeKind::Gpu) {
        let Some(link) = pcie_above(fabric, gpu) else { continue };
        let LinkKind::Pcie { running, allowed, .. } = &fabric.link(link).kind else { continue };
        let (Some(is), Some(could)) = (running.lanes, allowed.lanes) else { continue };
        if is < could {
            let name = fabric.node(gpu).name.as_str();
            edits.push(Edit::new(format!("{name}.link"), format!("x{could}")));
            match by_lanes.iter_mut().find(|(lanes, _)| *lanes == could) {
                Some((_, names)) => names.push(name),
                None => by_lanes.push((could, vec![name])),
            }
        }
    }
    if edits.is_empty() {
        return None;
    }
    let machine = apply(model.machine, &edits, model.parts).ok()?;
    let model = Model::new(&machine, model.parts);
    let flows = Flows::new(&model, Engine::Ce);
    let words: Vec<String> = by_lanes.iter().map(|(lanes, names)| format!("{} at x{lanes}", ranges(names))).collect();
    Some(FullWidth {
        what: words.join(" and "),
        edits: edits.iter().map(Edit::to_string).collect(),
        worst_pair: pairs::among(&flows, Direction::Unidirectional).map(|alone| alone.worst.rate),
        ring_all_reduce: bus_bandwidth(&model),
        host_feed_slowest: together::host_feed(&model, true).map(|feed| feed.slowest.rate),
    })
}
