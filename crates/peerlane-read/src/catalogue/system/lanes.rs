//! Whether a switch or CPU has the lanes that its links and slots take, and a GPU the NVLink bricks.

use std::collections::HashMap;

use toml::Spanned;

use super::names::meant;
use super::problems::Problems;
use super::source::Source;
use crate::catalogue::Parts;
use peerlane_machine::fabric::{Fabric, LinkKind, NodeId, lane_budgets};
use peerlane_machine::machine::Slot;

/// Refuses slots that cannot be, and links and slots that together need more lanes than there are.
pub(super) fn check(fabric: &Fabric, slots: &[Spanned<Slot>], source: &Source, parts: &Parts, problems: &mut Problems) {
    let idle = idle_slot_lanes(fabric, slots, source, problems);
    // counting lanes of links that are wrong would only add to the list
    if !problems.is_empty() {
        return;
    }
    let part_of = |id: NodeId| parts.get(fabric.node(id).part.as_deref()?);
    for budget in lane_budgets(fabric, |id| part_of(id)?.lanes) {
        let wired = fabric.find(&budget.name).and_then(|id| idle.get(&id)).copied().unwrap_or(0);
        let used = budget.used + wired;
        if used > budget.offered {
            let message = format!(
                "'{}' has {} PCIe lanes, but its links and slots take {used}; narrow a link or slot, or take a \
                 part with more lanes",
                budget.name, budget.offered
            );
            problems.keep::<()>(Err(match fabric.find(&budget.name) {
                Some(id) => source.of_node(fabric.node(id), message),
                None => source.refuse(message),
            }));
        }
    }
    for id in fabric.ids() {
        let Some(has) = part_of(id).and_then(|p| p.nvlink_bricks).map(u32::from) else { continue };
        let taken = fabric.nvlinks_of(id);
        if taken > has {
            let node = fabric.node(id);
            let message = format!("'{}' has {has} NVLink bricks, but its links take {taken}", node.name);
            problems.keep::<()>(Err(source.of_node(node, message)));
        }
    }
}

/// Lanes that slots take beyond those of the link that runs through them, by switch or CPU.
fn idle_slot_lanes(
    fabric: &Fabric,
    slots: &[Spanned<Slot>],
    source: &Source,
    problems: &mut Problems,
) -> HashMap<NodeId, u32> {
    let mut running: HashMap<&str, u32> = HashMap::new();
    for link in fabric.links() {
        if let LinkKind::Pcie { running: width, slot: Some(slot), .. } = &link.kind {
            running.insert(slot, width.lanes.map_or(0, u32::from));
        }
    }
    let mut idle: HashMap<NodeId, u32> = HashMap::new();
    let mut names: HashMap<&str, u32> = HashMap::new();
    for entry in slots {
        let (at, slot) = (entry.span(), entry.get_ref());
        if let Some(before) = names.insert(&slot.name, source.line(at.start)) {
            let message = format!("slot '{}' is on line {before} already", slot.name);
            problems.keep::<()>(Err(source.error(at.clone(), message)));
        }
        if slot.wired > slot.physical {
            let message = format!("slot '{}' has room for {} lanes, not {}", slot.name, slot.physical, slot.wired);
            problems.keep::<()>(Err(source.error(at.clone(), message)));
        }
        let Some(port) = &slot.port else { continue };
        let Some(node) = fabric.find(port) else {
            let hint = meant(port, fabric.nodes().iter().map(|n| n.name.as_str()));
            let message = format!("slot '{}' is at no node '{port}'; {hint}", slot.name);
            problems.keep::<()>(Err(source.error(at, message)));
            continue;
        };
        let owner = fabric.package(node).filter(|_| fabric.root_complex(node) == Some(node)).unwrap_or(node);
        let used = running.get(slot.name.as_str()).copied().unwrap_or(0);
        *idle.entry(owner).or_default() += u32::from(slot.wired).saturating_sub(used);
    }
    idle
}
