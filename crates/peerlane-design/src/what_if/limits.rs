//! Whether the parts can do what was asked of them: widths, lanes, bricks. Only what an edit has made worse is refused.

use std::collections::HashMap;

use super::WhatIfError;
use super::graph::part_of;
use peerlane_machine::fabric::{Fabric, LinkKind, NodeId, NodeKind, PcieWidth, lane_budgets};
use peerlane_machine::machine::Machine;
use peerlane_read::catalogue::{Part, PartKind, Parts, common_width};

pub(super) fn check(before: &Machine, after: &Machine, parts: &Parts) -> Result<(), WhatIfError> {
    widths(&before.fabric, &after.fabric, parts)?;
    lanes(&before.fabric, &after.fabric, parts)?;
    bricks(&before.fabric, &after.fabric, parts)
}

/// A link's width and the parts at its ends.
type Seen<'f> = (PcieWidth, [Option<&'f str>; 2]);

/// The PCIe links by the names of their ends, to see whether an edit touched one.
fn links(fabric: &Fabric) -> HashMap<(&str, &str), Seen<'_>> {
    let name = |id: NodeId| fabric.node(id).name.as_str();
    let part = |id: NodeId| fabric.node(id).part.as_deref();
    let of = |l: &peerlane_machine::fabric::Link| match &l.kind {
        LinkKind::Pcie { running, .. } => Some((*running, [part(l.a), part(l.b)])),
        _ => None,
    };
    fabric.links().iter().filter_map(|l| Some(((name(l.a), name(l.b)), of(l)?))).collect()
}

fn widths(before: &Fabric, after: &Fabric, parts: &Parts) -> Result<(), WhatIfError> {
    let old = links(before);
    for link in after.links() {
        let LinkKind::Pcie { running, .. } = link.kind else { continue };
        let (a, b) = (after.node(link.a), after.node(link.b));
        let same = old.get(&(a.name.as_str(), b.name.as_str()));
        if same.is_some_and(|(width, ends)| *width == running && *ends == [a.part.as_deref(), b.part.as_deref()]) {
            continue;
        }
        let (x, y) = (part_of(after, parts, link.a), part_of(after, parts, link.b));
        let most = common_width(x, y, None);
        let over = matches!((running.generation, most.generation), (Some(is), Some(most)) if is > most)
            || matches!((running.lanes, most.lanes), (Some(is), Some(most)) if is > most);
        if over {
            let does = |part: Option<&Part>| {
                part.and_then(|p| Some(format!("{} {}", p.name, p.pcie?))).unwrap_or_else(|| "unknown".to_owned())
            };
            return Err(WhatIfError::Width {
                link: format!("{}-{}", a.name, b.name),
                asked: format!("PCIe {running}"),
                most: most.to_string(),
                ends: format!("{}, {}", does(x), does(y)),
            });
        }
    }
    Ok(())
}

fn lanes(before: &Fabric, after: &Fabric, parts: &Parts) -> Result<(), WhatIfError> {
    let budgets = |fabric: &Fabric| lane_budgets(fabric, |id| parts.get(fabric.node(id).part.as_deref()?)?.lanes);
    let old: HashMap<String, u32> =
        budgets(before).into_iter().map(|b| (b.name, b.used.saturating_sub(b.offered))).collect();
    for budget in budgets(after) {
        let over = budget.used.saturating_sub(budget.offered);
        if over <= old.get(&budget.name).copied().unwrap_or(0) {
            continue;
        }
        let larger =
            after.find(&budget.name).and_then(|id| larger(after, parts, id, budget.used)).map(|part| part.name.clone());
        return Err(WhatIfError::Lanes { owner: budget.name, offered: budget.offered, used: budget.used, larger });
    }
    Ok(())
}

/// The smallest switch of the same or a later generation that has so many lanes.
fn larger<'p>(fabric: &Fabric, parts: &'p Parts, id: NodeId, lanes: u32) -> Option<&'p Part> {
    if fabric.node(id).kind != NodeKind::Switch {
        return None;
    }
    let now = parts.get(fabric.node(id).part.as_deref()?)?.pcie?;
    switch_for(parts, now, lanes)
}

/// The switch of the least generation that will do, and of these of the fewest lanes.
pub(crate) fn switch_for(parts: &Parts, width: PcieWidth, lanes: u32) -> Option<&Part> {
    let fits = |p: &&Part| {
        p.kind == PartKind::Switch
            && p.lanes.is_some_and(|has| has >= lanes)
            && p.pcie.is_some_and(|does| does.generation >= width.generation && does.lanes >= width.lanes)
    };
    parts.iter().filter(fits).min_by_key(|p| (p.pcie.and_then(|w| w.generation), p.lanes, p.name.clone()))
}

fn bricks(before: &Fabric, after: &Fabric, parts: &Parts) -> Result<(), WhatIfError> {
    for id in after.of_kind(NodeKind::Gpu) {
        let node = after.node(id);
        let Some(has) = bricks_of(after, parts, id) else { continue };
        let used = bricks_used(after, id);
        let old = before.find(&node.name).map_or(0, |old| bricks_used(before, old));
        if used > has && used > old {
            return Err(WhatIfError::Bricks { owner: node.name.clone(), offered: has, used });
        }
    }
    Ok(())
}

/// NVLink bricks that a GPU's part has.
pub(crate) fn bricks_of(fabric: &Fabric, parts: &Parts, id: NodeId) -> Option<u32> {
    parts.get(fabric.node(id).part.as_deref()?)?.nvlink_bricks.map(u32::from)
}

/// NVLink bricks that its links take.
pub(crate) fn bricks_used(fabric: &Fabric, id: NodeId) -> u32 {
    let bricks = fabric.links_of(id).iter().map(|(link, _)| fabric.link(*link).kind.nvlinks());
    bricks.sum()
}
