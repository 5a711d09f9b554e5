//! PCIe lanes: how many the GPUs use, of how many that slots and CPUs offer.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use crate::what_if::pcie_above;
use peerlane_machine::fabric::{LaneOwner, LinkKind, NodeKind, lane_budgets};
use peerlane_machine::machine::Machine;
use peerlane_read::catalogue::Parts;

/// Lanes of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lanes {
    /// Lanes of the links that GPUs hang on; a link of unknown width counts for none.
    pub gpus: u32,
    /// Lanes that the board's slots are wired for, where its slots are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Lanes in use at the CPUs, where they are of known parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_used: Option<u32>,
    /// Lanes that these CPUs have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
}

/// Counts them.
pub(super) fn lanes(machine: &Machine, parts: &Parts) -> Lanes {
    let fabric = &machine.fabric;
    let mut links: Vec<_> = fabric.of_kind(NodeKind::Gpu).filter_map(|gpu| pcie_above(fabric, gpu)).collect();
    links.sort_unstable();
    links.dedup();
    let gpus = links.into_iter().map(|id| running(&fabric.link(id).kind)).sum();
    let budgets = lane_budgets(fabric, |id| parts.get(fabric.node(id).part.as_deref()?)?.lanes);
    let cpus: Vec<_> = budgets.into_iter().filter(|b| b.owner == LaneOwner::Cpu).collect();
    let known = !cpus.is_empty();
    Lanes {
        gpus,
        slots: (!machine.slots.is_empty()).then(|| machine.slots.iter().map(|s| u32::from(s.wired)).sum()),
        cpus_used: known.then(|| cpus.iter().map(|b| b.used).sum()),
        cpus: known.then(|| cpus.iter().map(|b| b.offered).sum()),
    }
}

fn running(kind: &LinkKind) -> u32 {
    match kind {
        LinkKind::Pcie { running, .. } => running.lanes.map_or(0, u32::from),
        _ => 0,
    }
}
