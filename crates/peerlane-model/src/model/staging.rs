//! What sockets and host memory allow transfers that go through host memory.

use super::defaults::{INTEL_PEER_PACKET, Known, STAGED_COST, STAGED_TURN, Setting, constant};
use super::nccl::smp_rate;
use super::resources::{link_name, part_of, root_part};
use peerlane_machine::fabric::{CpuVendor, Fabric, Link, LinkId, LinkKind, NodeId, NodeKind, PcieGeneration};
use peerlane_read::catalogue::{Parts, vendor_of};

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
    /// The same between a NIC and a GPU, where a CPU's part states it.
    pub nic_rate: Option<Known>,
    /// Where the first two are from.
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

/// The rates of a link between packages: for peers the CPU's `peer_smp_rate`, else its part's `rate`; with host memory its part's
/// `staged_rate`, else the CPU's `host_smp_rate`; else NCCL's constant for the CPU.
pub(super) fn smp(fabric: &Fabric, parts: &Parts, id: LinkId) -> Smp {
    let link = fabric.link(id);
    let part = link.part.as_deref().and_then(|key| parts.get(key));
    let of_cpu = || constant(part_of(fabric, parts, link.a), "peer_smp_rate");
    let rate = of_cpu().or_else(|| constant(part, "rate")).unwrap_or_else(|| {
        let (value, source) = smp_rate(fabric, parts, link.a);
        let value = value * parts.end().of(1.0 - SMP_RANGE[0], 1.0, 1.0 + SMP_RANGE[1]);
        Known { value, why: format!("no part for {}; {source}", link_name(fabric, id)), assumed: true }
    });
    let host = constant(part, "staged_rate").or_else(|| constant(part_of(fabric, parts, link.a), "host_smp_rate"));
    let host = host.unwrap_or_else(|| rate.clone());
    let why = if host.why == rate.why { rate.why } else { format!("{}; {}", rate.why, host.why) };
    let (peer_rate, host_rate) = (rate.value * GB, host.value * GB);
    let ends = [link.a, link.b].into_iter().filter_map(|cpu| constant(part_of(fabric, parts, cpu), "nic_smp_rate"));
    let nic_rate = ends.min_by(|a, b| a.value.total_cmp(&b.value));
    Smp { words: smp_words(link).to_owned(), peer_rate, host_rate, nic_rate, why, assumed: rate.assumed }
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

/// Share of a staged copy's time that it waits for another of these GPUs: the greater of theirs.
pub(super) fn staged_turn(fabric: &Fabric, parts: &Parts, gpus: [NodeId; 2]) -> Setting {
    let [a, b] = gpus.map(|gpu| STAGED_TURN.or_of(part_of(fabric, parts, gpu), parts.end()));
    if a.value < b.value { b } else { a }
}

/// Bytes of the packets into which a root complex splits peer-to-peer traffic, if it is known to.
pub(super) fn peer_packet(fabric: &Fabric, parts: &Parts, root: NodeId) -> Option<Setting> {
    if let Some(stated) = INTEL_PEER_PACKET.stated(root_part(fabric, parts, root)) {
        return Some(stated);
    }
    (vendor_of(fabric, parts, root) == Some(CpuVendor::Intel)).then(|| INTEL_PEER_PACKET.assumed(parts.end()))
}

/// The name of a socket link: of its part where it has one.
pub(super) fn smp_words(link: &Link) -> &'static str {
    let key = link.part.as_deref().unwrap_or_default();
    let family = key.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    match family {
        "qpi" => "QPI",
        "upi" => "UPI",
        "xgmi" => "xGMI",
        "xbus" | "x" => "X-bus",
        _ => "socket link",
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
