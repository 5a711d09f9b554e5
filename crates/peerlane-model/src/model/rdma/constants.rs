//! What parts say of RDMA, and what is taken where they do not; `docs/model-rdma.md` has the sources.

use super::super::resources::part_of;
use super::engine::{ReadEngine, ReceiveEngine, Stream};
use crate::model::Model;
use peerlane_machine::fabric::NodeId;
use peerlane_machine::units::{Bytes, Rate, Seconds};
use peerlane_read::catalogue::{Basis, Part};

/// µs from a NIC's read request to the first byte of host memory. Assumed: half a microsecond is usual (Neugebauer
/// et al., SIGCOMM 2018, measure it for 64-byte reads by cards in Xeon hosts).
const HOST_READ_LATENCY: f64 = 0.55;
/// The same of GPU memory, where the GPU's part does not say. Assumed, between host memory's and a Fermi's 1.7.
const GPU_READ_LATENCY: f64 = 1.0;
/// µs from host memory to host memory by RDMA, all software included, where no part says. Assumed: between the 0.6
/// that the ConnectX-6's manual promises and the 1.0 of a decade before.
const MESSAGE_LATENCY: f64 = 1.0;
/// µs between messages that are sent one behind another. Measured of a ConnectX-6 (HPC Advisory Council): 6.66 million
/// messages a second by one queue.
const MESSAGE_GAP: f64 = 0.15;
/// Least, likely and most µs that a copy with `cudaMemcpy` costs beside its data, most of it in waiting
/// (Rossetti, 2013: 7 to 10).
pub(super) const MEMCPY_SYNC: [f64; 3] = [7.0, 8.5, 10.0];
/// Least, likely and most µs to pin a buffer of GPU memory, by its size (gdrcopy, README: 10 µs to 1 ms); the likely
/// one is the geometric mean.
pub(super) const PIN: [f64; 3] = [10.0, 100.0, 1000.0];
/// Bytes of a card's packet where its part does not say: InfiniBand's largest.
const PACKET: f64 = 4096.0;

/// A constant and how it is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Number {
    /// In the unit of part files.
    pub value: f64,
    /// Whether it is assumed, by the part or for want of one that says.
    pub assumed: bool,
    /// Where it is from.
    pub why: String,
}

fn stated(part: Option<&Part>, name: &str) -> Option<Number> {
    let part = part?;
    let constant = part.constants.get(name).filter(|c| c.value.is_finite() && c.value > 0.0)?;
    let why = format!("{name} of {}: {}", part.name, constant.source);
    Some(Number { value: constant.value, assumed: constant.basis == Basis::Assumed, why })
}

fn or(part: Option<&Part>, name: &str, value: f64, why: &str) -> Number {
    stated(part, name).unwrap_or_else(|| Number { value, assumed: true, why: why.to_owned() })
}

/// A constant as bytes: at least one.
pub(super) fn whole(value: f64) -> Bytes {
    Bytes((value as u64).max(1))
}

/// µs as a time.
pub(super) fn us(number: &Number) -> Seconds {
    Seconds::from_us(number.value)
}

/// What is known of a NIC.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    /// Whether it speaks NVIDIA's own peer-to-peer protocol.
    pub nvp2p: bool,
    /// How its GPU-read engine asks.
    pub read_engine: ReadEngine,
    /// Bytes that one request of it fetches.
    pub(super) request: Bytes,
    /// Bytes that it has under way at most.
    pub(super) window: Option<Bytes>,
    /// Bytes that its ordinary DMA engine has under way at most.
    pub(super) dma_window: Option<Number>,
    /// What takes in what arrives.
    pub receive_engine: ReceiveEngine,
    /// GB/s that the receive engine takes in, where a program does it.
    pub(super) receive: Option<Number>,
    /// GB/s that its optimised program takes in, whichever the card has.
    pub(super) optimised: Option<Number>,
    /// GB/s at which the network processor, which the receive engine is, translates addresses for GPU reads.
    pub(super) translate: Option<Number>,
    /// Bytes of a packet.
    pub(super) packet: Number,
    /// µs between host memories.
    pub(super) message_latency: Number,
    /// µs in the card itself, both ends together.
    pub(super) hardware: Option<Number>,
    /// µs between messages.
    pub(super) gap: Number,
    /// µs to read host memory.
    pub(super) host_read: Number,
}

impl Card {
    /// What the part of a NIC says.
    pub(crate) fn of(part: Option<&Part>) -> Self {
        let bytes = |name| stated(part, name).map(|n| whole(n.value));
        let packet = or(part, "packet", PACKET, "packets of 4096 bytes, InfiniBand's largest, assumed");
        let number = |name| stated(part, name).map(|n| n.value);
        let receive_engine = ReceiveEngine::numbered(number("receive_engine"));
        let software = receive_engine != ReceiveEngine::Hardware;
        Card {
            nvp2p: number("nvp2p").is_some(),
            read_engine: ReadEngine::numbered(number("gpu_read_engine")),
            request: bytes("gpu_read_request").unwrap_or(whole(packet.value)),
            window: bytes("gpu_read_window"),
            dma_window: stated(part, "dma_read_window"),
            receive_engine,
            receive: stated(part, "receive_rate").filter(|_| software),
            optimised: stated(part, "receive_rate"),
            translate: stated(part, "nvp2p_processor_rate").filter(|_| software),
            packet,
            host_read: or(part, "host_read_latency", HOST_READ_LATENCY, "0.55 µs to read host memory, assumed"),
            message_latency: or(part, "message_latency", MESSAGE_LATENCY, "1 µs between host memories, assumed"),
            hardware: stated(part, "hardware_latency"),
            gap: or(part, "message_gap", MESSAGE_GAP, "6.66 million messages a second, as a ConnectX-6, assumed"),
        }
    }

    /// How data comes out of a GPU whose memory answers NVP2P reads at `rate` after `latency`.
    pub(crate) fn nvp2p_stream(&self, memory: &GpuMemory) -> Option<Stream> {
        let rate = Rate::from_gb(memory.nvp2p_rate.as_ref()?.value);
        let latency = us(&memory.read_latency);
        Some(self.read_engine.stream(self.request, self.window.unwrap_or(self.request), latency, rate))
    }

    /// How data comes by ordinary reads from memory that answers after `latency`, and takes no more than `most` at
    /// once; `None` where neither end is known to limit what is under way.
    pub(crate) fn dma_stream(&self, latency: Seconds, most: Option<f64>) -> Option<Stream> {
        let own = self.dma_window.as_ref().map(|n| n.value);
        let window = [own, most].into_iter().flatten().min_by(f64::total_cmp)?;
        Some(Stream::Sliding { window: whole(window), latency, rate: None })
    }
}

/// What is known of how a GPU's memory answers a third party.
#[derive(Clone, Debug)]
pub(crate) struct GpuMemory {
    /// µs to the first byte of a read.
    pub(super) read_latency: Number,
    /// GB/s at which it answers NVP2P reads.
    pub(super) nvp2p_rate: Option<Number>,
    /// Bytes of BAR1 reads that it works on at once.
    pub(super) bar1_window: Option<Number>,
}

impl GpuMemory {
    /// What the part of a GPU says.
    pub(crate) fn of(part: Option<&Part>) -> Self {
        GpuMemory {
            read_latency: or(part, "device_read_latency", GPU_READ_LATENCY, "1 µs to read GPU memory, assumed"),
            nvp2p_rate: stated(part, "nvp2p_read_rate"),
            bar1_window: stated(part, "bar1_read_window"),
        }
    }
}

/// What the part of a node says.
pub(super) fn node_part<'m>(model: &'m Model, node: NodeId) -> Option<&'m Part> {
    part_of(&model.machine.fabric, model.parts, node)
}

/// GB/s of the reads of one device by another that a root complex forwards, by its CPU's part.
pub(super) fn chipset_reads(part: Option<&Part>) -> Option<Number> {
    stated(part, "peer_read_rate")
}
