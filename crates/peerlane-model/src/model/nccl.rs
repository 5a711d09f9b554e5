//! NCCL's constants: what its source takes links to carry, steps to cost, and buffers to hold.
//!
//! All are of github.com/NVIDIA/nccl at 5067397c (11 June 2026), where no other version is named. They are what NCCL
//! believes: its search for rings and its choice of algorithms go by them, and so does the rule that
//! `accuracy` compares the model with. The model itself falls back on them where no part states a rate.

use super::resources::part_of;
use super::staging::is_of_pcie_5;
use peerlane_machine::fabric::{CpuVendor, Fabric, GpuLink, Interconnect, LinkId, LinkKind, NodeId, PcieGeneration};
use peerlane_read::catalogue::{CpuGeneration, Parts, vendor_of};

/// What NCCL takes of every PCIe link more of peer-to-peer traffic through an Intel root complex, which splits it into
/// 64-byte packets (`INTEL_P2P_OVERHEAD`, `src/graph/topo.h`).
pub const INTEL_OVERHEAD: f64 = 6.0 / 5.0;

/// Bytes of a chunk of a pipelined collective: a buffer of 4 MiB (`DEFAULT_BUFFSIZE`, `src/init.cc`) in eight steps
/// (`NCCL_STEPS`, `src/include/device.h`).
pub const CHUNK: f64 = 524_288.0;

/// Microseconds of a step of a ring in the protocol for short messages (LL) over NVLink, over PCIe and between nodes
/// (`hwLatencies`, `src/graph/tuning.cc`; the same since 2.19).
pub const STEP_US: [f64; 3] = [0.6, 1.0, 2.7];

/// Steps that one search for rings may take (`NCCL_SEARCH_TIMEOUT`, `src/graph/search.cc`).
pub(crate) const MOST_STEPS: usize = 1 << 14;

/// Speeds in GB/s that the search within a node tries, by the NVLink generation of its GPUs: up to sm80, sm90, and from
/// sm100 on (`speedArrayIntra` and its like, `src/graph/search.cc`).
pub(crate) fn speeds(nvlink: Option<u8>) -> &'static [f64] {
    match nvlink {
        Some(5..) => &[90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0],
        Some(4) => &[60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0],
        _ => &[40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0],
    }
}

/// GB/s of a link as NCCL counts it; `None` of kinds that it knows no rate of, or where width or generation is not known.
pub fn link_rate(fabric: &Fabric, parts: &Parts, id: LinkId) -> Option<f64> {
    let link = fabric.link(id);
    match &link.kind {
        LinkKind::Pcie { running, .. } => Some(pcie(running.generation?, running.lanes?)),
        LinkKind::Gpu(GpuLink { interconnect: Interconnect::Nvlink, generation, links, .. }) => {
            let ends = || [link.a, link.b].into_iter().filter_map(|node| part_of(fabric, parts, node));
            let generation = generation.or_else(|| ends().filter_map(|part| part.nvlink_generation).min());
            let raw = ends().filter_map(|part| part.constant("nvlink_brick_rate")).reduce(f64::min);
            Some(brick(generation, raw) * f64::from((*links)?))
        }
        LinkKind::Smp => Some(smp_rate(fabric, parts, link.a).0),
        _ => None,
    }
}

/// GB/s of a PCIe link: lanes × speed ÷ 80 (`kvDictPciGen`, `src/graph/topo.cc`).
fn pcie(generation: PcieGeneration, lanes: u8) -> f64 {
    f64::from(lanes) * 15.0 * f64::powi(2.0, i32::from(generation.number()) - 1) / 80.0
}

/// GB/s of one NVLink brick (`ncclTopoNVLinkBw`, `src/graph/topo.h`). `raw` is its raw rate, where a part states one: the
/// bricks of GA10x are of generation 3, and slower. A GPU that NCCL does not know counts as one of sm80.
fn brick(generation: Option<u8>, raw: Option<f64>) -> f64 {
    match generation {
        Some(1) => 18.0,
        Some(3) if raw.is_some_and(|rate| rate < 20.0) => 12.0,
        None | Some(..=3) => 20.0,
        Some(4) => 20.6,
        Some(5..) => 40.1,
    }
}

/// GB/s a direction between this package of a CPU and another, and whose constant that is. Of a CPU of which neither vendor
/// nor generation is known, it goes by whether it has PCIe 5.0.
pub(crate) fn smp_rate(fabric: &Fabric, parts: &Parts, cpu: NodeId) -> (f64, &'static str) {
    let generation = part_of(fabric, parts, cpu).and_then(|part| part.generation);
    let known = between_packages(vendor_of(fabric, parts, cpu), generation);
    known.unwrap_or_else(|| between_unknown(is_of_pcie_5(fabric, parts, cpu)))
}

/// GB/s a direction between two packages of a CPU, and whose constant that is (`ncclTopoGetInterCpuBw`, `src/graph/topo.cc`,
/// and `topo.h`); `None` where neither its vendor's nor its generation's is known. Granite Rapids takes Emerald Rapids': by
/// its model number (0xAD) NCCL takes it for Sapphire Rapids, but it came later, with faster links.
fn between_packages(vendor: Option<CpuVendor>, generation: Option<CpuGeneration>) -> Option<(f64, &'static str)> {
    Some(match (vendor, generation) {
        (Some(CpuVendor::Amd), _) => (16.0, "NCCL's constant for AMD; newer generations are faster"),
        (Some(CpuVendor::Ibm), _) => (32.0, "NCCL's constant for POWER9"),
        (Some(CpuVendor::Arm | CpuVendor::Nvidia), _) => (6.0, "NCCL's constant for ARM"),
        (_, generation) => intel(generation?),
    })
}

fn intel(generation: CpuGeneration) -> (f64, &'static str) {
    match generation {
        CpuGeneration::EmeraldRapids => (40.0, "NCCL's constant for Emerald Rapids"),
        CpuGeneration::SapphireRapids => (22.0, "NCCL's constant for Sapphire Rapids"),
        CpuGeneration::Skylake => (10.0, "NCCL's constant for UPI"),
        CpuGeneration::Broadwell => (6.0, "NCCL's constant for QPI"),
    }
}

/// The same of a CPU of which neither is known: by whether it has PCIe 5.0.
fn between_unknown(is_new: bool) -> (f64, &'static str) {
    if is_new {
        let (rate, _) = intel(CpuGeneration::SapphireRapids);
        (rate, "NCCL's constant for Sapphire Rapids, for want of a known CPU of PCIe 5.0")
    } else {
        (intel(CpuGeneration::Skylake).0, "NCCL's constant for UPI, for want of a known CPU")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_count_as_in_its_source() {
        assert_eq!(pcie(PcieGeneration::Gen3, 16), 12.0);
        assert_eq!(pcie(PcieGeneration::Gen1, 8), 1.5);
        assert_eq!(pcie(PcieGeneration::Gen6, 16), 96.0);
        assert_eq!(
            [brick(Some(3), Some(14.0625)), brick(Some(3), Some(25.0)), brick(Some(5), None)],
            [12.0, 20.0, 40.1]
        );
        assert_eq!(speeds(Some(4)).first(), Some(&60.0));
        assert_eq!(speeds(None).last(), Some(&3.0));
    }

    #[test]
    fn a_socket_link_goes_by_what_is_known_of_the_cpu() {
        let rate = |vendor, generation| between_packages(Some(vendor), generation).map(|known| known.0);
        use CpuGeneration::*;
        assert_eq!(rate(CpuVendor::Intel, Some(SapphireRapids)), Some(22.0));
        assert_eq!(rate(CpuVendor::Intel, Some(EmeraldRapids)), Some(40.0));
        assert_eq!(rate(CpuVendor::Intel, Some(Broadwell)), Some(6.0));
        assert_eq!(rate(CpuVendor::Intel, Some(Skylake)), Some(10.0));
        assert_eq!(rate(CpuVendor::Ibm, None), Some(32.0));
        assert_eq!(rate(CpuVendor::Amd, None), Some(16.0));
        assert_eq!(rate(CpuVendor::Intel, None), None);
        assert_eq!([between_unknown(true).0, between_unknown(false).0], [22.0, 10.0]);
    }
}
