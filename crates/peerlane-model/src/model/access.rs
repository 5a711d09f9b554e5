//! Whether two GPUs may reach each other directly, and why not: concluded here, and shown alike by all commands.

use std::fmt;

use super::Model;
use super::resources::part_of;
use super::staging::smp_words;
use peerlane_machine::fabric::{Fabric, LinkKind, NodeId, NodeKind, Path};
use peerlane_machine::fact::P2pStatus;
use peerlane_machine::matrix::Engine;
use peerlane_read::catalogue::{Parts, without_peer_access};

/// Why two GPUs have no access to each other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoPeerAccess {
    /// Nothing is known that joins them but host memory.
    NoPath,
    /// The driver does not offer it to the product over PCIe.
    Product,
    /// Root complexes do not forward it across this kind of link between sockets.
    Sockets(&'static str),
    /// A source states it, and the path does not explain it.
    Stated(P2pStatus),
    /// Of a drive or a capture card: GPUs of this product do not open their memory to other makers' devices.
    ThirdParty,
}

impl fmt::Display for NoPeerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            NoPeerAccess::NoPath => return f.write_str("no way joins them but through host memory"),
            NoPeerAccess::Sockets(link) => {
                return write!(f, "no peer-to-peer across {link}: the sockets' root complexes do not forward it");
            }
            NoPeerAccess::ThirdParty => {
                return f.write_str(
                    "a GeForce or TITAN has no GPUDirect RDMA or Storage, so cuFile uses its compatibility mode",
                );
            }
            NoPeerAccess::Product => "the driver does not offer it to this product over PCIe",
            NoPeerAccess::Stated(status) => match status {
                P2pStatus::ChipsetNotSupported => "the chipset does not support it",
                P2pStatus::GpuNotSupported => "the GPU does not support it",
                P2pStatus::TopologyNotSupported => "the topology does not support it",
                P2pStatus::Disabled => "it is disabled by a registry key",
                P2pStatus::Ok | P2pStatus::NotSupported | P2pStatus::Unknown => "the driver does not offer it",
            },
        };
        write!(f, "no peer-to-peer: {why}")
    }
}

/// Whether a pair may go directly, and how that is known.
pub(super) enum Access {
    /// It may; with a remark where that is assumed.
    Direct(Option<&'static str>),
    /// It may not, for this reason.
    Staged(NoPeerAccess),
}

/// Whether `source` may reach `destination` directly: by what the machine states, else by the path.
pub(super) fn access(model: &Model, source: NodeId, destination: NodeId, path: Option<&Path>) -> Access {
    let machine = model.machine;
    let Some(path) = path else { return Access::Staged(NoPeerAccess::NoPath) };
    let by_path = by_path(&machine.fabric, model.parts, source, path);
    let stated = machine.p2p.get(&(source, destination)).or_else(|| machine.p2p.get(&(destination, source)));
    match (stated, by_path) {
        (Some(P2pStatus::Ok), _) => Access::Direct(None),
        (Some(P2pStatus::Unknown) | None, by_path) => by_path,
        // a bare refusal is explained by the path where that explains it
        (Some(P2pStatus::NotSupported), Access::Staged(why)) => Access::Staged(why),
        (Some(status), _) => Access::Staged(NoPeerAccess::Stated(*status)),
    }
}

fn by_path(fabric: &Fabric, parts: &Parts, source: NodeId, path: &Path) -> Access {
    if path.class.is_pcie() && !offers(fabric, parts, source) {
        return Access::Staged(NoPeerAccess::Product);
    }
    let across = path.hops.iter().map(|h| h.link).find(|l| fabric.link(*l).kind == LinkKind::Smp);
    let Some(across) = across else { return Access::Direct(None) };
    let part = fabric.package(source).and_then(|c| part_of(fabric, parts, c));
    match part.and_then(|p| p.constant("peer_across_sockets")) {
        Some(forwards) if forwards > 0.0 => Access::Direct(None),
        Some(_) => Access::Staged(NoPeerAccess::Sockets(smp_words(fabric.link(across)))),
        None => Access::Direct(Some("that sockets forward peer-to-peer traffic is assumed")),
    }
}

/// Whether the driver offers a product access to a peer over PCIe: by its part, else by its name.
fn offers(fabric: &Fabric, parts: &Parts, gpu: NodeId) -> bool {
    match part_of(fabric, parts, gpu) {
        Some(part) => part.constant("peer_access") != Some(0.0),
        None => !without_peer_access(fabric.node(gpu).product.as_deref().unwrap_or_default()),
    }
}

/// Whether drives and capture cards may reach a GPU's memory: GPUDirect Storage takes "Tesla or Quadro class GPUs" (NVIDIA,
/// gds-nvidia-fs, README), as GPUDirect RDMA does.
pub(super) fn device_access(fabric: &Fabric, parts: &Parts, gpu: NodeId) -> Access {
    let title = part_of(fabric, parts, gpu).map(|part| part.title.as_str());
    let product = title.or(fabric.node(gpu).product.as_deref()).unwrap_or_default().to_lowercase();
    let mut words = product.split(|c: char| !c.is_ascii_alphanumeric());
    if words.any(|word| ["geforce", "gtx", "titan"].contains(&word)) {
        Access::Staged(NoPeerAccess::ThirdParty)
    } else {
        Access::Direct(None)
    }
}

/// Whether drives, capture cards and NICs may reach a GPU's memory directly.
pub fn offers_device_access(fabric: &Fabric, parts: &Parts, gpu: NodeId) -> bool {
    matches!(device_access(fabric, parts, gpu), Access::Direct(_))
}

impl Model<'_> {
    /// The same of the model's machine.
    pub fn offers_device_access(&self, gpu: NodeId) -> bool {
        offers_device_access(&self.machine.fabric, self.parts, gpu)
    }

    /// What drives a transfer between two nodes: a drive or capture card its own, then a NIC, else a GPU's copy engine.
    pub fn engine_between(&self, a: NodeId, b: NodeId) -> Engine {
        let kinds = [a, b].map(|id| self.machine.fabric.node(id).kind);
        if kinds.iter().any(|kind| matches!(kind, NodeKind::Nvme | NodeKind::Fpga)) {
            Engine::Device
        } else if kinds.contains(&NodeKind::Nic) {
            Engine::Nic
        } else {
            Engine::Ce
        }
    }

    /// Whether the driver offers a GPU's product access to a peer over PCIe.
    pub fn offers_peer_access(&self, gpu: NodeId) -> bool {
        offers(&self.machine.fabric, self.parts, gpu)
    }

    /// Why two GPUs have no peer access, as far as it is known; a pair that nothing is known to join may still have it.
    pub fn no_peer_access(&self, source: NodeId, destination: NodeId) -> Option<NoPeerAccess> {
        let fabric = &self.machine.fabric;
        let path = fabric.path(source, destination);
        match access(self, source, destination, path.as_ref()) {
            Access::Direct(_) => None,
            Access::Staged(NoPeerAccess::NoPath) => {
                // a bridge that no source shows would give it
                let bridged = |gpu| part_of(fabric, self.parts, gpu).is_some_and(|part| part.nvlink_bricks > Some(0));
                let without = |gpu: &NodeId| !self.offers_peer_access(*gpu) && !bridged(*gpu);
                [source, destination].iter().any(without).then_some(NoPeerAccess::Product)
            }
            Access::Staged(why) => Some(why),
        }
    }

    /// What a NIC sends at most, where its port or its part says.
    pub fn line_rate(&self, nic: NodeId) -> Option<peerlane_machine::units::Rate> {
        self.resources.get(self.nodes.get(nic.index())?.send?).map(|line| line.capacity)
    }

    /// What a GPU's memory or host memory moves, where its part says.
    pub fn memory_rate(&self, node: NodeId) -> Option<peerlane_machine::units::Rate> {
        self.resources.get(self.nodes.get(node.index())?.memory?).map(|memory| memory.capacity)
    }
}
