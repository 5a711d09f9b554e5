//! Widths of PCIe links that nothing tells, taken to be what the devices at them can do.

use super::resources::{Carriage, LinkModel, is_above, part_of, root_part};
use crate::catalogue::Parts;
use crate::fabric::{Fabric, LinkId, LinkKind, NodeId, NodeKind, PcieWidth};
use crate::names::ranges;

/// Levels of switches of unknown make that are looked through.
const LEVELS: usize = 4;

/// The width of a link of which it is not known, where both ends run at what they can do. `None` where no part says what that
/// is.
pub(super) fn assumed(fabric: &Fabric, parts: &Parts, id: LinkId) -> Option<PcieWidth> {
    let link = fabric.link(id);
    let LinkKind::Pcie { running, allowed, .. } = &link.kind else { return None };
    let (upper, lower) = if is_above(fabric, id, link.a) { (link.a, link.b) } else { (link.b, link.a) };
    let able = ability(fabric, parts, lower, LEVELS)?;
    let above = match fabric.node(upper).kind {
        NodeKind::RootComplex => root_part(fabric, parts, upper),
        _ => part_of(fabric, parts, upper),
    };
    let generations = [able.generation, above.and_then(|part| part.pcie).and_then(|width| width.generation)];
    Some(PcieWidth {
        generation: running.generation.or(allowed.generation).or(generations.into_iter().flatten().min()),
        lanes: running.lanes.or(allowed.lanes).or(able.lanes),
    })
}

/// What a device can do: by its part, else the widest of what is below it.
fn ability(fabric: &Fabric, parts: &Parts, node: NodeId, levels: usize) -> Option<PcieWidth> {
    let own = part_of(fabric, parts, node).and_then(|part| part.pcie);
    if own.is_some() || levels == 0 {
        return own;
    }
    let below = fabric.links_of(node).iter().filter_map(|(id, next)| {
        let link = fabric.link(*id);
        match &link.kind {
            LinkKind::Pcie { running, .. } if is_above(fabric, *id, node) => Some(*running)
                .filter(|width| width.raw_rate().is_some())
                .or_else(|| ability(fabric, parts, *next, levels - 1)),
            LinkKind::OnCard => part_of(fabric, parts, *next)?.pcie,
            _ => None,
        }
    });
    let rate = |width: &PcieWidth| width.raw_rate().map_or(0.0, |rate| rate.bytes_per_second());
    below.max_by(|a, b| rate(a).total_cmp(&rate(b)))
}

/// Sentences that say which links were taken to be how wide, by the nodes below them.
pub(super) fn sentences(fabric: &Fabric, links: &[LinkModel]) -> Vec<String> {
    let mut by_width: Vec<(PcieWidth, Vec<&str>)> = Vec::new();
    for (id, model) in fabric.link_ids().zip(links) {
        let Carriage::Pcie { assumed: Some(width), .. } = &model.carriage else { continue };
        let link = fabric.link(id);
        let lower = if is_above(fabric, id, link.a) { link.b } else { link.a };
        let name = fabric.node(lower).name.as_str();
        match by_width.iter_mut().find(|(known, _)| known == width) {
            Some((_, names)) => names.push(name),
            None => by_width.push((*width, vec![name])),
        }
    }
    let sentence = |(width, names): &(PcieWidth, Vec<&str>)| {
        let (they, widths) = if names.len() == 1 { ("it", "its width") } else { ("they", "their widths") };
        format!("{} at PCIe {width}, the most that {they} can do: no source tells {widths}", ranges(names))
    };
    by_width.iter().map(sentence).collect()
}
