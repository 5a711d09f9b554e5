//! Questions to a graph that edits and their limits ask.

use super::grammar::LinkTo;
use peerlane_machine::fabric::{Fabric, Link, LinkId, LinkKind, NodeId};
use peerlane_read::catalogue::{Part, Parts};

/// A node and all that hangs below it.
pub(super) fn below_of(fabric: &Fabric, top: NodeId) -> Vec<NodeId> {
    let mut all = vec![top];
    let mut next = 0;
    while let Some(&at) = all.get(next) {
        all.extend(fabric.downstream(at).map(|(_, below)| below));
        next += 1;
    }
    all
}

/// A device's PCIe link towards the root, past the card that it sits on.
pub(crate) fn pcie_above(fabric: &Fabric, node: NodeId) -> Option<LinkId> {
    let (link, up) = fabric.upstream(node)?;
    match fabric.link(link).kind {
        LinkKind::OnCard => pcie_above(fabric, up),
        LinkKind::Pcie { .. } => Some(link),
        _ => None,
    }
}

/// The part of a node; a root complex is part of its CPU.
pub(crate) fn part_of<'p>(fabric: &Fabric, parts: &'p Parts, id: NodeId) -> Option<&'p Part> {
    let own = |id: NodeId| fabric.node(id).part.as_deref();
    parts.get(own(id).or_else(|| own(fabric.package(id)?))?)
}

pub(super) fn is_kind(kind: &LinkKind, to: &LinkTo) -> bool {
    match (kind, to) {
        (LinkKind::Pcie { .. }, LinkTo::Pcie(_)) | (LinkKind::Smp, LinkTo::Smp(_)) => true,
        (LinkKind::Gpu(is), LinkTo::Gpu(wanted)) => is.interconnect == wanted.interconnect,
        _ => false,
    }
}

/// `PCIe 3.0 x8`, `NVLink 2 x2`.
pub(super) fn described(link: &Link) -> String {
    match &link.kind {
        LinkKind::Pcie { running, .. } if running.is_unknown() => "PCIe of unknown width".to_owned(),
        LinkKind::Pcie { running, .. } => format!("PCIe {running}"),
        LinkKind::Gpu(bundle) => bundle.to_string(),
        LinkKind::Smp => link.part.clone().unwrap_or_else(|| "a socket link".to_owned()),
        other => other.name().to_owned(),
    }
}
