//! The machine that faults make of a design.

use peerlane_machine::fabric::{Fabric, FabricBuilder, Interconnect, LinkId, LinkKind, NodeKind};
use peerlane_machine::fact::P2pStatus;
use peerlane_machine::fault::Fault;
use peerlane_machine::machine::Machine;

/// The design with those faults that change its links and its peer access.
///
/// A fault that names what the design does not have changes nothing; reading a system file refuses such.
pub(super) fn truth(design: &Machine, faults: &[Fault]) -> Machine {
    let mut truth = design.clone();
    let mut builder = design.fabric.clone().into_builder();
    let mut rebuild = false;
    let mut gone: Vec<LinkId> = Vec::new();
    for fault in faults {
        match fault {
            Fault::Width { link, width } => {
                let id = link_between(&design.fabric, link, |kind| matches!(kind, LinkKind::Pcie { .. }));
                if let Some(LinkKind::Pcie { running, allowed, .. }) = id.map(|id| &mut builder.link_mut(id).kind) {
                    running.generation = width.generation.or(running.generation);
                    running.lanes = width.lanes.or(running.lanes);
                    // else a link of a captured machine would count as idle, and not as slow
                    *allowed = *running;
                    rebuild = true;
                }
            }
            Fault::Bricks { link, bricks: left } => {
                let id = link_between(&design.fabric, link, |kind| kind.bundle(Interconnect::Nvlink).is_some());
                if *left == 0 {
                    gone.extend(id);
                    rebuild = true;
                } else if let Some(LinkKind::Gpu(bundle)) = id.map(|id| &mut builder.link_mut(id).kind) {
                    bundle.links = bundle.links.map(|links| links.min(*left));
                    rebuild = true;
                }
            }
            Fault::Detour { gpu } => {
                gone.extend(nvlinks(&design.fabric, gpu));
                rebuild = true;
            }
            Fault::PeerOff { pair: [a, b] } => {
                let gpu =
                    |name: &str| design.fabric.find(name).filter(|id| design.fabric.node(*id).kind == NodeKind::Gpu);
                if let Some((a, b)) = gpu(a).zip(gpu(b)) {
                    truth.p2p.extend([(a, b), (b, a)].map(|pair| (pair, P2pStatus::NotSupported)));
                }
            }
            _ => {}
        }
    }
    // other widths make no other graph, and NVLinks are none of its tree, so that building it again succeeds
    if rebuild && let Ok(mut fabric) = without(builder, &gone).build() {
        let devices = design.fabric.devices();
        let pairs = devices.iter().flat_map(|a| devices.iter().map(|b| (*a, *b)));
        let unknown = |&(a, b): &_| design.fabric.path(a, b).is_none() && fabric.path(a, b).is_some();
        let unknown: Vec<_> = pairs.filter(unknown).collect();
        fabric.set_unknown_paths(unknown);
        truth.fabric = fabric;
    }
    truth
}

/// The NVLink bundles of a GPU.
fn nvlinks(fabric: &Fabric, gpu: &str) -> Vec<LinkId> {
    let all = fabric.find(gpu).map(|id| fabric.links_of(id)).unwrap_or_default();
    let links = all.iter().map(|(link, _)| *link);
    links.filter(|link| fabric.link(*link).kind.bundle(Interconnect::Nvlink).is_some()).collect()
}

/// The same nodes, in their order, without some links.
fn without(builder: FabricBuilder, gone: &[LinkId]) -> FabricBuilder {
    if gone.is_empty() {
        return builder;
    }
    let mut left = FabricBuilder::new();
    for node in builder.nodes() {
        left.node(node.clone());
    }
    for (at, link) in builder.links().iter().enumerate() {
        if !gone.iter().any(|id| id.index() == at) {
            left.link(link.clone());
        }
    }
    left
}

/// The link of a kind between two nodes.
fn link_between(fabric: &Fabric, ends: &[String; 2], is: impl Fn(&LinkKind) -> bool) -> Option<LinkId> {
    let (a, b) = (fabric.find(&ends[0])?, fabric.find(&ends[1])?);
    fabric.links_of(a).iter().find(|(link, far)| *far == b && is(&fabric.link(*link).kind)).map(|(link, _)| *link)
}
