//! When a transfer between GPUs goes through host memory, and what sockets and host memory then allow.

use super::defaults::{INTEL_PEER_PACKET, Known, STAGED_COST, Setting, constant};
use super::nccl::smp_rate;
use super::resources::{link_name, part_of, root_part};
use crate::catalogue::{Parts, vendor_of, without_peer_access};
use crate::evidence::P2pStatus;
use crate::fabric::{CpuVendor, Fabric, Link, LinkId, LinkKind, NodeId, NodeKind, Path, PcieGeneration};
use crate::machine::Machine;

const GB: f64 = 1e9;

/// How far below and above NCCL's constant a link between packages may be, as a share of it.
const SMP_RANGE: [f64; 2] = [0.3, 2.0];

/// What joins two CPU packages.
#[derive(Clone, Debug)]
pub(super) struct Smp {
    /// `QPI`, `socket link`.
    pub words: String,
    /// Bytes a second and direction for peer-to-peer traffic.
    pub peer_rate: f64,
    /// Bytes a second and direction for traffic with host memory at one end.
    pub host_rate: f64,
    /// Where these are from.
    pub why: String,
    /// Whether no part says them.
    pub assumed: bool,
}

impl Smp {
    /// Bytes a second and direction for the traffic that it carries best.
    pub(super) fn capacity(&self) -> f64 {
        self.peer_rate.max(self.host_rate)
    }
}

/// The rates of a link between packages: its part's `rate` and `staged_rate`, else NCCL's constant for the CPU.
pub(super) fn smp(fabric: &Fabric, parts: &Parts, id: LinkId) -> Smp {
    let link = fabric.link(id);
    let part = link.part.as_deref().and_then(|key| parts.get(key));
    let of_cpu = || constant(part_of(fabric, parts, link.a), "peer_smp_rate");
    let rate = of_cpu().or_else(|| constant(part, "rate")).unwrap_or_else(|| {
        let (value, source) = smp_rate(fabric, parts, link.a);
        let value = value * parts.end().of(1.0 - SMP_RANGE[0], 1.0, 1.0 + SMP_RANGE[1]);
        Known { value, why: format!("no part for {}; {source}", link_name(fabric, id)), assumed: true }
    });
    let host = constant(part, "staged_rate").unwrap_or_else(|| rate.clone());
    let why = if host.why == rate.why { rate.why } else { format!("{}; {}", rate.why, host.why) };
    let (peer_rate, host_rate) = (rate.value * GB, host.value * GB);
    Smp { words: smp_words(link), peer_rate, host_rate, why, assumed: rate.assumed }
}

/// The most, in GB/s, that staged transfers in both directions together get across a socket link, where a part
/// of the link or of a CPU at its ends says so.
pub(super) fn staged_both(fabric: &Fabric, parts: &Parts, id: LinkId) -> Option<Known> {
    let link = fabric.link(id);
    let own = link.part.as_deref().and_then(|key| parts.get(key));
    let ends = [own, part_of(fabric, parts, link.a), part_of(fabric, parts, link.b)];
    ends.into_iter().find_map(|part| constant(part, "staged_both_rate"))
}

/// Microseconds that a staged transfer through this host memory loses with each MiB.
pub(super) fn staged_cost(fabric: &Fabric, parts: &Parts, host: NodeId) -> Setting {
    STAGED_COST.or_of(fabric.package(host).and_then(|c| part_of(fabric, parts, c)), parts.end())
}

/// Bytes of the packets into which a root complex splits peer-to-peer traffic, if it is known to.
pub(super) fn peer_packet(fabric: &Fabric, parts: &Parts, root: NodeId) -> Option<Setting> {
    if let Some(stated) = INTEL_PEER_PACKET.stated(root_part(fabric, parts, root)) {
        return Some(stated);
    }
    (vendor_of(fabric, parts, root) == Some(CpuVendor::Intel)).then(|| INTEL_PEER_PACKET.assumed(parts.end()))
}

/// Whether a pair may go directly, and how that is known.
pub(super) enum Access {
    /// It may; with a remark where that is assumed.
    Direct(Option<&'static str>),
    /// It may not, for this reason.
    Staged(String),
}

/// Whether `source` may reach `destination` directly: by what the machine states, else by the path.
pub(super) fn access(machine: &Machine, parts: &Parts, source: NodeId, destination: NodeId, path: &Path) -> Access {
    let by_path = access_by_path(&machine.fabric, parts, source, path);
    let stated = machine.p2p.get(&(source, destination)).or_else(|| machine.p2p.get(&(destination, source)));
    match (stated, by_path) {
        (Some(P2pStatus::Ok), _) => Access::Direct(None),
        (Some(P2pStatus::Unknown) | None, by_path) => by_path,
        // a bare refusal is explained by the path where that explains it
        (Some(P2pStatus::NotSupported), Access::Staged(why)) => Access::Staged(why),
        (Some(status), _) => Access::Staged(format!("no peer-to-peer: {}", status_words(*status))),
    }
}

fn access_by_path(fabric: &Fabric, parts: &Parts, source: NodeId, path: &Path) -> Access {
    let product = fabric.node(source).product.as_deref().unwrap_or_default();
    let offers = match part_of(fabric, parts, source) {
        Some(part) => part.constant("peer_access") != Some(0.0),
        None => !without_peer_access(product),
    };
    if path.class.is_pcie() && !offers {
        return Access::Staged("no peer-to-peer: the driver does not offer it to this product over PCIe".to_owned());
    }
    let across = path.hops.iter().map(|h| h.link).find(|l| fabric.link(*l).kind == LinkKind::Smp);
    let Some(across) = across else { return Access::Direct(None) };
    let part = fabric.package(source).and_then(|c| part_of(fabric, parts, c));
    match part.and_then(|p| p.constant("peer_across_sockets")) {
        Some(forwards) if forwards > 0.0 => Access::Direct(None),
        Some(_) => Access::Staged(format!(
            "no peer-to-peer across {}: the sockets' root complexes do not forward it",
            smp_words(fabric.link(across))
        )),
        None => Access::Direct(Some("that sockets forward peer-to-peer traffic is assumed")),
    }
}

/// The name of a socket link: of its part where it has one.
fn smp_words(link: &Link) -> String {
    let key = link.part.as_deref().unwrap_or_default();
    let family = key.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    match family {
        "qpi" => "QPI",
        "upi" => "UPI",
        "xgmi" => "xGMI",
        "xbus" | "x" => "X-bus",
        _ => "socket link",
    }
    .to_owned()
}

fn status_words(status: P2pStatus) -> &'static str {
    match status {
        P2pStatus::ChipsetNotSupported => "the chipset does not support it",
        P2pStatus::GpuNotSupported => "the GPU does not support it",
        P2pStatus::TopologyNotSupported => "the topology does not support it",
        P2pStatus::Disabled => "it is disabled by a registry key",
        P2pStatus::Ok | P2pStatus::NotSupported | P2pStatus::Unknown => "the driver does not offer it",
    }
}

/// Whether a CPU has a link of PCIe 5.0, or a GPU that can do it.
pub(super) fn is_of_pcie_5(fabric: &Fabric, parts: &Parts, cpu: NodeId) -> bool {
    fabric.of_kind(NodeKind::Gpu).filter(|gpu| fabric.package(*gpu) == Some(cpu)).any(|gpu| {
        let part = part_of(fabric, parts, gpu).and_then(|part| part.pcie?.generation);
        let link = fabric.upstream(gpu).and_then(|(id, _)| match &fabric.link(id).kind {
            LinkKind::Pcie { running, allowed, .. } => running.generation.max(allowed.generation),
            _ => None,
        });
        link.or(part) >= Some(PcieGeneration::Gen5)
    })
}
