//! How the engines of a NIC move data against time: windows, requests, chunks.
//!
//! All follow from Little's law: what is under way, divided by the time that it is under way, is the rate. Equations and
//! sources are in `docs/model-rdma.md`, section 2.

use schemars::JsonSchema;
use serde::Serialize;

use peerlane_machine::units::{Bytes, Rate, Seconds};

/// The revision of a card's engine that reads GPU memory (APEnet+'s `GPU_P2P_TX`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadEngine {
    /// One request at a time: the next is sent when the data of the last has come.
    V1,
    /// Prefetch: requests for a whole window at once, and the next window when that has come.
    V2,
    /// New flow control: a request goes out whenever the window has room.
    V3,
}

impl ReadEngine {
    /// By the number in part files; the newest where there is none.
    pub(super) fn numbered(number: Option<f64>) -> Self {
        match number {
            Some(n) if n < 1.5 => ReadEngine::V1,
            Some(n) if n < 2.5 => ReadEngine::V2,
            _ => ReadEngine::V3,
        }
    }

    /// How data arrives by it: `request` bytes asked for at a time, at most `window` bytes under way, the first byte
    /// after `latency`, and no more than `rate` from the GPU.
    pub fn stream(self, request: Bytes, window: Bytes, latency: Seconds, rate: Rate) -> Stream {
        match self {
            ReadEngine::V1 => Stream::Batches { batch: request, latency, rate },
            ReadEngine::V2 => Stream::Batches { batch: window, latency, rate },
            ReadEngine::V3 => Stream::Sliding { window, latency, rate: Some(rate) },
        }
    }
}

/// What takes in data that arrives from the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReceiveEngine {
    /// The network processor's first program. No number of it is published: slower than the optimised one.
    Original,
    /// The network processor's optimised program.
    Optimised,
    /// Logic of its own: no limit but PCIe's and the line's is known.
    Hardware,
}

impl ReceiveEngine {
    /// By the number in part files; logic where there is none.
    pub(super) fn numbered(number: Option<f64>) -> Self {
        match number {
            Some(n) if n < 1.5 => ReceiveEngine::Original,
            Some(n) if n < 2.5 => ReceiveEngine::Optimised,
            _ => ReceiveEngine::Hardware,
        }
    }
}

/// How one engine moves the bytes of a message, its start not counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stream {
    /// At one rate.
    Steady(Rate),
    /// A batch is asked for when the last has come.
    Batches {
        /// Bytes of a batch.
        batch: Bytes,
        /// From the request to the first byte.
        latency: Seconds,
        /// Of what then comes.
        rate: Rate,
    },
    /// Bytes are asked for as others come, so that `window` bytes are always under way.
    Sliding {
        /// Bytes under way.
        window: Bytes,
        /// From a request to its first byte.
        latency: Seconds,
        /// The most that the other end gives; without it, the first window comes at the window's rate.
        rate: Option<Rate>,
    },
    /// A processor works on one packet after another, whatever they hold.
    Packets {
        /// Bytes of a full packet.
        packet: Bytes,
        /// Work on each.
        each: Seconds,
    },
    /// Through a buffer that is filled chunk by chunk by copies of the GPU.
    Chunks {
        /// Bytes of a chunk.
        chunk: Bytes,
        /// What each copy costs the processor that waits for it.
        sync: Seconds,
        /// Of a copy.
        rate: Rate,
    },
}

impl Stream {
    /// The rate of a message without end, in bytes a second.
    pub fn asymptote(&self) -> Rate {
        let per_second = match *self {
            Stream::Steady(rate) => rate.bytes_per_second(),
            Stream::Batches { batch, latency, rate } => {
                let batch = batch.0 as f64;
                batch / (latency.seconds() + batch / rate.bytes_per_second())
            }
            Stream::Sliding { window, latency, rate } => {
                let by_window = window.0 as f64 / latency.seconds();
                rate.map_or(by_window, |r| r.bytes_per_second().min(by_window))
            }
            Stream::Packets { packet, each } => packet.0 as f64 / each.seconds(),
            Stream::Chunks { chunk, sync, rate } => rate.bytes_per_second().min(chunk.0 as f64 / sync.seconds()),
        };
        Rate::from_bytes_per_second(per_second)
    }

    /// What must have gone before the next engine can begin: the first chunk of a copy.
    pub fn fill(&self, size: Bytes) -> Seconds {
        match *self {
            Stream::Chunks { chunk, rate, .. } => over(size.min(chunk), rate),
            _ => Seconds::new(0.0),
        }
    }

    /// How long the bytes of one message keep it busy, once the first has come, or the first packet is done.
    pub fn busy(&self, size: Bytes) -> Seconds {
        match *self {
            Stream::Steady(rate) => over(size, rate),
            Stream::Batches { latency, rate, .. } => {
                let waits = (self.pieces(size) - 1.0) * latency.seconds();
                Seconds::new(over(size, rate).seconds() + waits)
            }
            Stream::Sliding { window, rate, .. } => {
                let first = size.min(window);
                let (rest, slow) = (Bytes(size.0 - first.0), self.asymptote());
                Seconds::new(over(first, rate.unwrap_or(slow)).seconds() + over(rest, slow).seconds())
            }
            Stream::Packets { each, .. } => Seconds::new((self.pieces(size) - 1.0) * each.seconds()),
            Stream::Chunks { chunk, rate, .. } => {
                let first = size.min(chunk);
                let rest = over(Bytes(size.0 - first.0), self.asymptote());
                Seconds::new(over(first, rate).seconds() + rest.seconds())
            }
        }
    }

    /// How long each of many messages keeps it busy that follow each other without a pause.
    ///
    /// An engine without flow control begins each message anew; one with it has the next message's requests under way
    /// while this one's data comes.
    pub fn repeated(&self, size: Bytes) -> Seconds {
        match *self {
            Stream::Batches { latency, .. } => Seconds::new(self.busy(size).seconds() + latency.seconds()),
            Stream::Packets { each, .. } => Seconds::new(self.pieces(size) * each.seconds()),
            Stream::Chunks { sync, rate, .. } => {
                Seconds::new(over(size, rate).seconds().max(self.pieces(size) * sync.seconds()))
            }
            _ => over(size, self.asymptote()),
        }
    }

    /// Batches, packets or chunks that a message takes: at least one.
    fn pieces(&self, size: Bytes) -> f64 {
        match *self {
            Stream::Batches { batch: piece, .. }
            | Stream::Packets { packet: piece, .. }
            | Stream::Chunks { chunk: piece, .. } => size.0.div_ceil(piece.0.max(1)).max(1) as f64,
            Stream::Steady(_) | Stream::Sliding { .. } => 1.0,
        }
    }
}

/// The time of `size` bytes at a rate.
fn over(size: Bytes, rate: Rate) -> Seconds {
    Seconds::new(size.0 as f64 / rate.bytes_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn stream(engine: ReadEngine) -> Stream {
        engine.stream(Bytes(4 * KIB), Bytes(32 * KIB), Seconds::from_us(2.0), Rate::from_gb(2.0))
    }

    #[test]
    fn a_window_over_a_latency_is_a_rate() {
        // 4 KiB every 2 + 2.048 µs; 32 KiB every 2 + 16.384 µs; 32 KiB under way for 2 µs would be 16 GB/s
        let gb = |engine| stream(engine).asymptote().gb();
        assert!((gb(ReadEngine::V1) - 4096.0 / 4048.0).abs() < 1e-9);
        assert!((gb(ReadEngine::V2) - 32768.0 / 18384.0).abs() < 1e-9);
        assert!((gb(ReadEngine::V3) - 2.0).abs() < 1e-9);
        let small = ReadEngine::V3.stream(Bytes(KIB), Bytes(2 * KIB), Seconds::from_us(2.0), Rate::from_gb(2.0));
        assert!((small.asymptote().gb() - 1.024).abs() < 1e-9, "2 KiB under way for 2 µs");
    }

    #[test]
    fn each_engine_is_at_least_as_fast_as_the_one_before_at_every_size() {
        for size in (0..26).map(|p| Bytes(1 << p)) {
            let [v1, v2, v3] = [ReadEngine::V1, ReadEngine::V2, ReadEngine::V3].map(stream);
            assert!(v1.busy(size).seconds() >= v2.busy(size).seconds(), "{size}");
            assert!(v2.busy(size).seconds() >= v3.busy(size).seconds(), "{size}");
            assert!(v1.repeated(size).seconds() >= v2.repeated(size).seconds(), "{size}");
            assert!(v2.repeated(size).seconds() > v3.repeated(size).seconds(), "{size}");
        }
    }

    #[test]
    fn long_messages_reach_the_asymptote_and_none_exceeds_it() {
        let chunks = Stream::Chunks { chunk: Bytes(64 * KIB), sync: Seconds::from_us(8.0), rate: Rate::from_gb(6.0) };
        let packets = Stream::Packets { packet: Bytes(4 * KIB), each: Seconds::from_us(3.0) };
        let all = [stream(ReadEngine::V1), stream(ReadEngine::V2), stream(ReadEngine::V3), chunks, packets];
        for stream in all {
            let most = stream.asymptote().gb();
            let rate = |size: u64| size as f64 / stream.repeated(Bytes(size)).seconds() / 1e9;
            assert!((0..32).all(|p| rate(1 << p) <= most * (1.0 + 1e-9)), "{stream:?}");
            assert!((rate(1 << 32) / most - 1.0).abs() < 1e-3, "{stream:?}");
        }
    }

    #[test]
    fn a_chunk_must_be_there_before_the_network_can_take_it() {
        let chunks = Stream::Chunks { chunk: Bytes(64 * KIB), sync: Seconds::from_us(8.0), rate: Rate::from_gb(1.0) };
        assert!((chunks.fill(Bytes(1000)).us() - 1.0).abs() < 1e-9);
        assert_eq!(chunks.fill(Bytes(1 << 30)), chunks.fill(Bytes(64 * KIB)));
        assert_eq!(stream(ReadEngine::V1).fill(Bytes(1 << 20)), Seconds::new(0.0));
    }
}
