//! What is taken where no part states a constant, each with its source.

use crate::catalogue::Part;

/// A constant to fall back on.
pub(super) struct Fallback {
    /// Name in part files.
    name: &'static str,
    /// Value, in the unit the part files use.
    value: f64,
}

/// Bytes of a GPU's or NIC's largest packet. 25.97 to 26.13 GB/s both ways through one switch (Exxact, 2016) are
/// two directions of 256-byte writes.
pub(super) const MAX_PAYLOAD: Fallback = Fallback { name: "max_payload", value: 256.0 };

/// Bytes of the completions in which a CPU answers reads. 12.22 GB/s from the host to a P100 (Microway, 2016) are
/// read in 128-byte completions.
pub(super) const READ_COMPLETION: Fallback = Fallback { name: "read_completion", value: 128.0 };

/// Bytes of the packets into which Intel root complexes split peer-to-peer traffic (NCCL, src/graph/topo.h).
/// Only for CPUs that are known to be Intel's.
pub(super) const INTEL_PEER_PACKET: Fallback = Fallback { name: "peer_packet", value: 64.0 };

/// What staging leaves of its slower stage. Fitted: 10.73 to 10.91 GB/s staged against 12.22 from the host
/// (Microway, 2016), 5.26 against 6.0 (Rossum, 2017).
pub(super) const STAGED_EFFICIENCY: Fallback = Fallback { name: "staged_efficiency", value: 0.88 };

/// Share of a GPU's memory rate that a local copy gets, bytes read and bytes written together.
pub(super) const LOCAL_COPY_EFFICIENCY: f64 = 0.8;

/// The largest read request, in bytes: the PCIe specification's reset value of Max_Read_Request_Size.
pub(super) const READ_REQUEST: f64 = 512.0;

/// InfiniBand payload of a 4096-byte packet with its headers and checksums.
pub(super) const INFINIBAND_EFFICIENCY: f64 = 4096.0 / 4122.0;

/// NVLink-C2C, GB/s a direction: 900 GB/s in all (NVIDIA Grace Hopper Superchip whitepaper).
pub(super) const C2C_RATE: f64 = 450.0;

/// One xGMI link between GPUs, GB/s a direction: 100 GB/s both ways (AMD CDNA 2 whitepaper).
pub(super) const XGMI_RATE: f64 = 50.0;

/// What is known of one NVLink generation.
pub(super) struct NvlinkDefault {
    /// GB/s of one brick and direction.
    pub brick_rate: f64,
    /// Share of it that copy engines get.
    pub ce_efficiency: f64,
    /// Share of it that kernels get.
    pub sm_efficiency: f64,
    /// What both directions at once leave of twice one direction.
    pub bidirectional_factor: f64,
    /// Where these are from.
    pub source: &'static str,
}

/// NVLink generation 1 to 5; `None` for any other.
pub(super) fn nvlink(generation: u8) -> Option<NvlinkDefault> {
    // A vendor's brick rate; what is left of it is known for generations 1 and 4 and carried over to the others.
    let (brick_rate, efficiency, bidirectional_factor, source) = match generation {
        1 => (20.0, 35.3 / 40.0, 1.0, "NVLink 1 brick 20 GB/s; 35.3 of 40 GB/s on P100 (Microway, 2017)"),
        2 => (25.0, 35.3 / 40.0, 1.0, "NVLink 2 brick 25 GB/s; efficiency assumed as NVLink 1's"),
        3 => (25.0, 35.3 / 40.0, 1.0, "NVLink 3 brick 25 GB/s; efficiency assumed as NVLink 1's"),
        4 => (26.5625, 396.0 / 478.125, 784.0 / 792.0, "NVLink 4 brick 26.56 GB/s; 396 of 478 GB/s measured on H200"),
        5 => (53.125, 396.0 / 478.125, 784.0 / 792.0, "NVLink 5 brick 53.1 GB/s; efficiency assumed as NVLink 4's"),
        _ => return None,
    };
    let sm_efficiency = if generation >= 4 { 376.0 / 478.125 } else { efficiency };
    Some(NvlinkDefault { brick_rate, ce_efficiency: efficiency, sm_efficiency, bidirectional_factor, source })
}

/// GB/s a direction between CPU packages, by what is known of the CPU, its part's key or its product name: NCCL's
/// constants (src/graph/topo.h).
pub(super) fn smp_rate(cpu: &str) -> (f64, &'static str) {
    let cpu = cpu.to_lowercase();
    let is = |words: &[&str]| words.iter().any(|w| cpu.contains(w));
    if is(&["epyc", "amd", "ryzen", "threadripper"]) {
        (16.0, "NCCL's constant for AMD; newer generations are faster")
    } else if is(&["power9"]) {
        (32.0, "NCCL's constant for POWER9")
    } else if is(&["aarch64", "neoverse", "grace", "altra", "-arm"]) {
        (6.0, "NCCL's constant for ARM")
    } else if is(&["emerald-rapids", "granite-rapids"]) {
        (40.0, "NCCL's constant for Emerald Rapids")
    } else if is(&["sapphire-rapids"]) {
        (22.0, "NCCL's constant for Sapphire Rapids")
    } else if is(&["e5-", "e5 ", "e7-", "e7 ", "x56xx"]) {
        (6.0, "NCCL's constant for QPI")
    } else {
        (10.0, "NCCL's constant for UPI, for want of a known CPU")
    }
}

/// A constant's value, with where it is from, for the description of a resource.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The value.
    pub value: f64,
    /// Where it is from.
    pub why: String,
    /// Whether no part says it.
    pub assumed: bool,
}

/// A part's constant where it has a usable one: positive and finite.
pub(super) fn constant(part: Option<&Part>, name: &str) -> Option<Known> {
    let part = part?;
    let constant = part.constants.get(name).filter(|c| c.value.is_finite() && c.value > 0.0)?;
    let why = format!("{name} of {}: {}", part.name, constant.source);
    Some(Known { value: constant.value, why, assumed: false })
}

/// A constant's value, and whether it is a default.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// The value.
    pub value: f64,
    /// Whether no part says it.
    pub assumed: bool,
}

impl Fallback {
    /// What a part says, if it does.
    pub(super) fn stated(&self, part: Option<&Part>) -> Option<Setting> {
        let value = part?.constant(self.name).filter(|v| v.is_finite() && *v > 0.0)?;
        Some(Setting { value, assumed: false })
    }

    /// What a part says, else this.
    pub(super) fn or_of(&self, part: Option<&Part>) -> Setting {
        self.stated(part).unwrap_or(self.assumed())
    }

    /// This, as an assumption.
    pub(super) fn assumed(&self) -> Setting {
        Setting { value: self.value, assumed: true }
    }
}

#[cfg(test)]
mod tests {
    use super::smp_rate;

    #[test]
    fn a_socket_link_goes_by_what_is_known_of_the_cpu() {
        let rate = |cpu| smp_rate(cpu).0;
        assert_eq!(rate("sapphire-rapids Intel(R) Xeon(R) Platinum 8480+"), 22.0);
        assert_eq!(rate("emerald-rapids INTEL(R) XEON(R) PLATINUM 8568Y+"), 40.0);
        assert_eq!(rate("xeon-e5-v4 Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz"), 6.0);
        assert_eq!(rate("xeon-scalable "), 10.0);
        assert_eq!(rate("epyc-turin AMD EPYC 9575F"), 16.0);
    }
}
