//! How the engines of a NIC move data against time: windows, requests, chunks.
//!
//! All follow from Little's law: what is under way, divided by the time that it is under way, is the rate. Equations and
//! sources are in `docs/model-rdma.md`.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::Pipeline;
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
    Chunks(Chunks),
}

/// A pipeline of the copies of a GPU and the network, with a buffer in host memory for each chunk in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chunks {
    /// How the message is divided.
    pub pipeline: Pipeline,
    /// What each copy costs the processor that starts it and waits for it.
    pub sync: Seconds,
    /// Of a copy.
    pub copy: Rate,
    /// Of all that the NIC does.
    pub network: Rate,
}

impl Chunks {
    /// Bytes a second of a message without end that the starts of the copies allow.
    pub(super) fn started(&self) -> Rate {
        Rate::from_bytes_per_second(self.pipeline.chunk.0 as f64 / self.sync.seconds())
    }

    /// The same that the chunks in flight allow: each takes its buffer for its start, its copy and its sending.
    pub(super) fn in_flight(&self) -> Option<Rate> {
        let chunk = self.pipeline.chunk;
        let turn = self.sync.seconds() + over(chunk, self.copy).seconds() + over(chunk, self.network).seconds();
        self.pipeline.depth.map(|depth| Rate::from_bytes_per_second(f64::from(depth) * chunk.0 as f64 / turn))
    }

    fn asymptote(&self) -> Rate {
        let all = self.copy.min(self.network).min(self.started());
        self.in_flight().map_or(all, |most| all.min(most))
    }

    /// Bytes of the first chunk, and of the last.
    fn ends(&self, size: Bytes) -> [Bytes; 2] {
        let chunk = self.pipeline.chunk.0.max(1);
        [size.0.min(chunk), if size.0 == 0 { 0 } else { (size.0 - 1) % chunk + 1 }].map(Bytes)
    }

    fn count(&self, size: Bytes) -> f64 {
        size.0.div_ceil(self.pipeline.chunk.0.max(1)).max(1) as f64
    }

    /// A message alone, from the moment that its first chunk is copied.
    fn busy(&self, size: Bytes) -> Seconds {
        let [first, last] = self.ends(size);
        let copied = over(Bytes(size.0 - first.0), self.copy).seconds();
        let sent = over(Bytes(size.0 - last.0), self.network).seconds();
        let started = (self.count(size) - 1.0) * self.sync.seconds();
        let in_flight = self.pipeline.depth.map_or(0.0, |depth| (copied + sent + started) / f64::from(depth));
        let slowest = [copied, sent, started, in_flight].into_iter().fold(0.0, f64::max);
        Seconds::new(slowest + over(last, self.network).seconds())
    }

    /// Each of many messages.
    fn repeated(&self, size: Bytes) -> Seconds {
        let (copied, sent) = (over(size, self.copy).seconds(), over(size, self.network).seconds());
        let started = self.count(size) * self.sync.seconds();
        let in_flight = self.pipeline.depth.map_or(0.0, |depth| (copied + sent + started) / f64::from(depth));
        Seconds::new([copied, sent, started, in_flight].into_iter().fold(0.0, f64::max))
    }
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
            Stream::Chunks(chunks) => chunks.asymptote().bytes_per_second(),
        };
        Rate::from_bytes_per_second(per_second)
    }

    /// What must have gone before the next engine can begin: the first chunk of a copy.
    pub fn fill(&self, size: Bytes) -> Seconds {
        match *self {
            Stream::Chunks(chunks) => over(chunks.ends(size)[0], chunks.copy),
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
            Stream::Chunks(chunks) => chunks.busy(size),
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
            Stream::Chunks(chunks) => chunks.repeated(size),
            _ => over(size, self.asymptote()),
        }
    }

    /// Batches or packets that a message takes: at least one.
    fn pieces(&self, size: Bytes) -> f64 {
        match *self {
            Stream::Batches { batch: piece, .. } | Stream::Packets { packet: piece, .. } => {
                size.0.div_ceil(piece.0.max(1)).max(1) as f64
            }
            Stream::Steady(_) | Stream::Sliding { .. } | Stream::Chunks(_) => 1.0,
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
        let chunks = chunks(64 * KIB, Some(3));
        let packets = Stream::Packets { packet: Bytes(4 * KIB), each: Seconds::from_us(3.0) };
        let all = [stream(ReadEngine::V1), stream(ReadEngine::V2), stream(ReadEngine::V3), chunks, packets];
        for stream in all {
            let most = stream.asymptote().gb();
            let rate = |size: u64| size as f64 / stream.repeated(Bytes(size)).seconds() / 1e9;
            assert!((0..32).all(|p| rate(1 << p) <= most * (1.0 + 1e-9)), "{stream:?}");
            assert!((rate(1 << 32) / most - 1.0).abs() < 1e-3, "{stream:?}");
        }
    }

    /// Copies at 6 GB/s, a network of 3, and 8 µs for the start of each copy.
    fn chunks(chunk: u64, depth: Option<u32>) -> Stream {
        let pipeline = Pipeline { chunk: Bytes(chunk), depth };
        let (copy, network) = (Rate::from_gb(6.0), Rate::from_gb(3.0));
        Stream::Chunks(Chunks { pipeline, sync: Seconds::from_us(8.0), copy, network })
    }

    /// A message alone, its first start left out.
    fn alone(stream: &Stream, size: u64) -> f64 {
        stream.fill(Bytes(size)).us() + stream.busy(Bytes(size)).us()
    }

    #[test]
    fn a_chunk_must_be_there_before_the_network_can_take_it() {
        let stream = chunks(64 * KIB, None);
        assert!((stream.fill(Bytes(6000)).us() - 1.0).abs() < 1e-9);
        assert_eq!(stream.fill(Bytes(1 << 30)), stream.fill(Bytes(64 * KIB)));
        assert_eq!(super::tests::stream(ReadEngine::V1).fill(Bytes(1 << 20)), Seconds::new(0.0));
    }

    #[test]
    fn one_chunk_is_copied_and_then_sent() {
        // 1.2 MB: 200 µs of copying and 400 of sending
        for (chunk, depth) in [(1_200_000, None), (1_200_000, Some(1)), (1 << 40, Some(8))] {
            assert!((alone(&chunks(chunk, depth), 1_200_000) - 600.0).abs() < 1e-6, "{chunk} {depth:?}");
        }
        // so are many where there is one buffer, with a start for each but the first
        assert!((alone(&chunks(100_000, Some(1)), 1_200_000) - (600.0 + 11.0 * 8.0)).abs() < 1e-6);
        let train = chunks(100_000, Some(1)).repeated(Bytes(1_200_000)).us();
        assert!((train - (600.0 + 12.0 * 8.0)).abs() < 1e-6);
    }

    #[test]
    fn deep_pipelines_reach_the_slower_of_copy_and_network() {
        let gb = |chunk, depth| chunks(chunk, depth).asymptote().gb();
        assert!((gb(1 << 20, None) - 3.0).abs() < 1e-9);
        assert!((gb(1 << 20, Some(100)) - 3.0).abs() < 1e-9);
        // 4 KiB every 8 µs, however many there are
        assert!((gb(4 * KIB, None) - 0.512).abs() < 1e-9);
        // two of 64 KiB in flight for 8 + 10.9 + 21.8 µs
        let turn = 8.0 + 65.536 / 6.0 + 65.536 / 3.0;
        assert!((gb(64 * KIB, Some(1)) - 65.536 / turn).abs() < 1e-9);
        assert!((gb(64 * KIB, Some(2)) - 3.0).abs() < 1e-9, "2 of 1.61 are more than the network takes");
    }

    #[test]
    fn no_pipeline_is_faster_than_its_copies_or_its_network() {
        for chunk in (8..24).map(|p| (1_u64 << p) + 7) {
            let mut before = f64::INFINITY;
            for depth in [Some(1), Some(2), Some(3), Some(8), Some(64), None] {
                let stream = chunks(chunk, depth);
                let most = stream.asymptote().gb();
                assert!(most <= 3.0 + 1e-9, "{chunk} {depth:?}");
                for size in [1, 1000, 65_536, 1_000_003, 1 << 26] {
                    let (once, train) = (alone(&stream, size), stream.repeated(Bytes(size)).us());
                    let [copy, network] = [size as f64 / 6000.0, size as f64 / 3000.0];
                    assert!(
                        once >= network * (1.0 - 1e-9) && train >= network * (1.0 - 1e-9),
                        "{chunk} {depth:?} {size}"
                    );
                    let starts = size.div_ceil(chunk) as f64 * 8.0;
                    assert!(once <= copy + network + starts, "worse than one after another: {chunk} {depth:?} {size}");
                }
                let long = alone(&stream, 1 << 26);
                assert!(long <= before * (1.0 + 1e-9), "more buffers are slower: {chunk} {depth:?}");
                before = long;
            }
        }
    }
}
