//! What PCI Express leaves to payload, from generation, lanes and packet sizes.
//!
//! The equations are those of Neugebauer, Antichi, Zazo, Audzevich, López-Buedo and Moore, "Understanding PCIe
//! performance for end host networking", SIGCOMM 2018, §3, with the acknowledgement and flow-control intervals
//! of the PCI Express Base Specification 5.0, tables 2-46 to 2-48 and 3-7 to 3-9.

use crate::fabric::{LinkKind, PcieGeneration, PcieWidth};
use crate::machine::MachineKind;

/// Bytes that go with each packet's payload: framing and sequence number 4, LCRC 4, header 16 with a 64-bit address.
const WRITE_OVERHEAD: f64 = 24.0;
/// A completion's: framing 4, LCRC 4, header 12.
const COMPLETION_OVERHEAD: f64 = 20.0;
/// Framing and LCRC, which FLIT mode (PCIe 6.0) does without.
const FRAMING: f64 = 8.0;
/// A read request is a packet without payload.
pub(super) const REQUEST_BYTES: f64 = WRITE_OVERHEAD;
/// Bytes of a data-link packet (acknowledgement or flow-control update) with its framing.
const DLLP: f64 = 8.0;
/// Share that skip ordered sets take for clock compensation: 4 of 1538 symbols.
const SKIP: f64 = 4.0 / 1538.0;
/// Bytes for transaction packets of the 242 that a FLIT carries beside its error correction and check sums
/// (PCI Express Base Specification 6.0: 236 TLP, 6 DLP, 8 CRC, 6 FEC).
const FLIT_PAYLOAD: f64 = 236.0 / 242.0;

/// How data lies in packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Packets {
    /// Completions of a read, else posted writes.
    pub completions: bool,
    /// Payload of one packet in bytes.
    pub payload: f64,
    /// Payload size in bytes by which acknowledgements are timed: the sender's maximum.
    pub maximum: f64,
}

impl Packets {
    /// Share of the raw rate that is payload, on a link of this generation and width.
    pub(super) fn efficiency(self, generation: PcieGeneration, lanes: u8) -> f64 {
        let overhead = if self.completions { COMPLETION_OVERHEAD } else { WRITE_OVERHEAD };
        let overhead = if generation == PcieGeneration::Gen6 { overhead - FRAMING } else { overhead };
        data_link_efficiency(generation, lanes, self.maximum) * self.payload / (self.payload + overhead)
    }

    /// `256-byte writes`, `128-byte completions`.
    pub(super) fn words(self) -> String {
        format!("{}-byte {}", self.payload, if self.completions { "completions" } else { "writes" })
    }
}

/// Share of the raw rate that is left to transaction packets, with traffic in both directions:
/// 1 − 8/AckLimit − 8/FC − 4/1538, where FC, the interval of flow-control updates, equals AckLimit.
pub(super) fn data_link_efficiency(generation: PcieGeneration, lanes: u8, maximum: f64) -> f64 {
    if generation == PcieGeneration::Gen6 {
        return FLIT_PAYLOAD;
    }
    1.0 - 2.0 * DLLP / ack_limit(generation, lanes, maximum) - SKIP
}

/// Symbol times after which an acknowledgement is due at the latest: (maximum payload + 28) × factor ÷ lanes +
/// the port's internal delay, rounded down, as in the specification's tables (144 for x16 at 128 bytes, 168 at 256).
fn ack_limit(generation: PcieGeneration, lanes: u8, maximum: f64) -> f64 {
    const TLP_OVERHEAD: f64 = 28.0;
    let delay = match generation {
        PcieGeneration::Gen1 => 19.0,
        PcieGeneration::Gen2 => 70.0,
        _ => 115.0,
    };
    let maximum = maximum.max(128.0);
    let factor = match (maximum < 512.0, lanes) {
        (true, 0..=4) => 1.4,
        (true, 5..=8) => 2.5,
        (true, _) => 3.0,
        (false, 0..=8) => 1.0,
        (false, _) => 2.0,
    };
    ((maximum + TLP_OVERHEAD) * factor / f64::from(lanes.max(1)) + delay).floor()
}

/// The width a PCIe link is expected to run at under load, with what was concluded to get there.
///
/// A link that is as wide as it can be but runs at a lower generation than it can has most likely been slowed
/// down while idle, which drivers do to save power; text captured from an idle machine shows that.
pub(super) fn width_under_load(kind: &LinkKind, machine: MachineKind) -> (PcieWidth, Option<String>) {
    let LinkKind::Pcie { running, allowed, .. } = kind else { return (PcieWidth::default(), None) };
    if let (MachineKind::Captured, Some(now), Some(able)) = (machine, running.generation, allowed.generation)
        && now < able
        && running.lanes.is_some()
        && running.lanes == allowed.lanes
    {
        return (*allowed, Some(format!("read at {now}, taken as idle")));
    }
    (*running, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use PcieGeneration::{Gen2, Gen3, Gen5, Gen6};

    fn writes(payload: f64) -> Packets {
        Packets { completions: false, payload, maximum: payload }
    }

    fn rate(generation: PcieGeneration, lanes: u8, packets: Packets) -> f64 {
        PcieWidth::new(generation, lanes).raw_rate().unwrap().gb() * packets.efficiency(generation, lanes)
    }

    #[test]
    fn intervals_are_those_of_the_specification() {
        for (generation, lanes, maximum, limit) in [
            (Gen3, 16, 128.0, 144.0),
            (Gen3, 16, 256.0, 168.0),
            (Gen3, 8, 256.0, 203.0),
            (Gen3, 1, 256.0, 512.0),
            (Gen3, 16, 512.0, 182.0),
            (Gen2, 8, 128.0, 118.0),
            (Gen2, 1, 4096.0, 4194.0),
            (PcieGeneration::Gen1, 8, 256.0, 107.0),
        ] {
            assert_eq!(ack_limit(generation, lanes, maximum), limit, "{generation} x{lanes} {maximum}");
        }
    }

    #[test]
    fn payload_rates_in_gb_a_second() {
        let read = Packets { completions: true, payload: 128.0, maximum: 256.0 };
        let near = |got: f64, want: f64| assert!((got - want).abs() < 0.005, "{got} is not {want}");
        near(rate(Gen3, 16, writes(256.0)), 12.99);
        near(rate(Gen3, 16, writes(128.0)), 11.76);
        near(rate(Gen3, 16, writes(64.0)), 10.155);
        near(rate(Gen3, 16, read), 12.29);
        near(rate(Gen3, 8, writes(256.0)), 6.62);
        near(rate(Gen3, 1, writes(256.0)), 0.87);
        near(rate(Gen2, 8, writes(256.0)), 3.28);
        near(rate(Gen5, 16, writes(256.0)), 51.98);
        // FLIT mode: 64 GT/s × 16 × 236/256 × 256/(256 + 16) ÷ 8
        near(rate(Gen6, 16, writes(256.0)), 111.06);
    }

    #[test]
    fn a_full_width_link_read_slow_is_idle_but_a_narrow_one_is_not() {
        let kind = |lanes| LinkKind::Pcie {
            running: PcieWidth::new(PcieGeneration::Gen1, lanes),
            allowed: PcieWidth::new(Gen3, 16),
            slot: None,
        };
        assert_eq!(width_under_load(&kind(16), MachineKind::Captured).0, PcieWidth::new(Gen3, 16));
        assert_eq!(width_under_load(&kind(8), MachineKind::Captured).0, PcieWidth::new(PcieGeneration::Gen1, 8));
        assert_eq!(width_under_load(&kind(16), MachineKind::Design).0, PcieWidth::new(PcieGeneration::Gen1, 16));
    }
}
