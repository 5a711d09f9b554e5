//! What PCI Express leaves to payload, from generation, lanes and packet sizes.
//!
//! The equations are those of Neugebauer, Antichi, Zazo, Audzevich, López-Buedo and Moore, "Understanding PCIe
//! performance for end host networking", SIGCOMM 2018, §3, with the acknowledgement and flow-control intervals
//! of the PCI Express Base Specification 5.0, tables 2-46 to 2-48 and 3-7 to 3-9.

use peerlane_machine::fabric::{LinkKind, PcieGeneration, PcieWidth};
use peerlane_machine::machine::MachineKind;

/// Bytes that go with each packet's payload: framing and sequence number 4, LCRC 4, header 16 with a 64-bit address.
const WRITE_OVERHEAD: f64 = 24.0;
/// A completion's: framing 4, LCRC 4, header 12.
const COMPLETION_OVERHEAD: f64 = 20.0;
/// Framing and LCRC, which FLIT mode (PCIe 6.0) does without.
const FRAMING: f64 = 8.0;
/// A read request is a packet without payload.
const REQUEST_BYTES: f64 = WRITE_OVERHEAD;
/// Bytes of a data-link packet (acknowledgement or flow-control update) with its framing.
const DLLP: f64 = 8.0;
/// Kinds of data-link packets that answer a packet: its acknowledgement, and the update that gives its room back.
const KINDS: f64 = 2.0;
/// Bytes that a copy engine's packet costs beyond its own: as much as the answers to one. Why is not known: what a lone
/// direction carries to the host falls short by 10 to 19 bytes a packet of 280, from PCIe 3.0 x1 to 5.0 x16, where
/// kernels lose none (docs/model.md).
pub(super) const ENGINE_BYTES: f64 = KINDS * DLLP;
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
    /// Bytes of packets for each byte of payload.
    fn bytes(self, generation: PcieGeneration) -> f64 {
        let overhead = if self.completions { COMPLETION_OVERHEAD } else { WRITE_OVERHEAD };
        let overhead = if generation == PcieGeneration::Gen6 { overhead - FRAMING } else { overhead };
        (self.payload + overhead) / self.payload
    }

    /// `256-byte writes`, `128-byte completions`.
    pub(super) fn words(self) -> String {
        format!("{}-byte {}", self.payload, if self.completions { "completions" } else { "writes" })
    }
}

/// What packets take of a link, in bytes for each byte of payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// Of their own channel.
    pub own: f64,
    /// Of the channel that leads back: requests, and answers to the packets.
    pub back: f64,
}

/// How a transfer's packets came about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Origin {
    /// Bytes that a packet of writes costs beyond its own: a copy engine's or a NIC's, none of a kernel's.
    pub engine: f64,
    /// A root complex cut them smaller.
    pub split: bool,
    /// Bytes that one request of a read asks for.
    pub request: f64,
    /// How many answers there are, as a share of one of each kind for each packet.
    pub answers: f64,
}

impl Packets {
    /// What these packets take of a link.
    ///
    /// A packet is answered on the way back. The small ones of a root complex share an answer as far as the longest
    /// interval between answers allows, and lose it on their own way. A read's requests go back, and are answered on the way of
    /// its completions.
    pub(super) fn load(self, generation: PcieGeneration, lanes: u8, origin: Origin) -> Load {
        let own = self.bytes(generation);
        if generation == PcieGeneration::Gen6 {
            let back = if self.completions { (REQUEST_BYTES - FRAMING) / origin.request } else { 0.0 };
            return Load { own: own / FLIT_PAYLOAD, back: back / FLIT_PAYLOAD };
        }
        let answers = origin.answers * KINDS * DLLP;
        let (lost, back) = match (self.completions, origin.split) {
            // each packet of an interval has its share of what the interval loses
            (_, true) => {
                (own / (1.0 - SKIP - answers / ack_limit(generation, lanes, self.maximum)) * (1.0 - SKIP) - own, 0.0)
            }
            (true, false) => (answers / origin.request, REQUEST_BYTES / origin.request),
            (false, false) => (origin.engine / self.payload, answers / self.payload),
        };
        Load { own: (own + lost) / (1.0 - SKIP), back: back / (1.0 - SKIP) }
    }
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

    const ENGINE: Origin = Origin { engine: ENGINE_BYTES, split: false, request: 256.0, answers: 1.0 };

    fn raw(generation: PcieGeneration, lanes: u8) -> f64 {
        PcieWidth::new(generation, lanes).raw_rate().unwrap().gb()
    }

    fn alone(generation: PcieGeneration, lanes: u8, packets: Packets, origin: Origin) -> f64 {
        raw(generation, lanes) / packets.load(generation, lanes, origin).own
    }

    /// While as much goes the other way.
    fn both(generation: PcieGeneration, lanes: u8, packets: Packets, origin: Origin) -> f64 {
        let load = packets.load(generation, lanes, origin);
        raw(generation, lanes) / (load.own + load.back)
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
        near(alone(Gen3, 16, writes(256.0), ENGINE), 13.59);
        near(both(Gen3, 16, writes(256.0), ENGINE), 12.893);
        near(alone(Gen3, 1, writes(256.0), ENGINE), 0.849);
        near(alone(Gen3, 8, read, ENGINE), 6.447);
        near(alone(Gen5, 16, writes(256.0), ENGINE), 54.36);
        let kernel = Origin { engine: 0.0, ..ENGINE };
        near(alone(Gen5, 16, writes(128.0), kernel), 52.93);
        near(alone(Gen2, 8, writes(256.0), kernel), 3.648);
        let split = Origin { split: true, ..ENGINE };
        near(alone(Gen3, 16, writes(64.0), split), 10.155);
        near(both(Gen3, 16, writes(64.0), split), 10.155);
        // FLIT mode: 64 GT/s × 16 × 236/256 × 256/(256 + 16) ÷ 8
        near(both(Gen6, 16, writes(256.0), ENGINE), 111.06);
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
