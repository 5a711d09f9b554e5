//! Measured or published numbers between the ends of transfers, as a matrix.

use std::fmt;

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Rate, Seconds};

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Data moved per time.
    #[default]
    Bandwidth,
    /// Time of a small transfer, its launch included, as the CUDA sample counts it.
    Latency,
    /// Time the CPU takes to enqueue a small transfer (the sample's "CPU" block).
    EnqueueLatency,
    /// Time of one dependent load, the next address taken from the last (nvbandwidth's latency tests).
    LoadLatency,
    /// Time for a flag that one GPU's kernel writes to be visible to another's, half of a round trip.
    SignalLatency,
    /// A collective's bandwidth as nccl-tests' "busbw" counts it.
    BusBandwidth,
    /// Time that the update of one place of a lattice takes.
    UpdateTime,
    /// Time that an exchange of all faces between the parts of a grid takes.
    ExchangeTime,
    /// Edges of a graph that searches traverse per time, as Graph500 counts them.
    EdgeRate,
}

impl Quantity {
    /// In words: `load latency`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::Latency => "latency",
            Self::EnqueueLatency => "enqueue latency",
            Self::LoadLatency => "load latency",
            Self::SignalLatency => "signal latency",
            Self::BusBandwidth => "bus bandwidth",
            Self::UpdateTime => "time of an update",
            Self::ExchangeTime => "time of an exchange",
            Self::EdgeRate => "edges traversed per second",
        }
    }
}

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// One way: row to column, unless the operation is a read of the column by the row.
    Unidirectional,
    /// Both ways at once; a bandwidth is the sum of both, as the CUDA sample counts it.
    Bidirectional,
    /// Both ways at once, but the number is one way's share (nvbandwidth's bidirectional tests).
    BidirectionalShare,
}

/// What drives the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// A GPU's copy engine.
    Ce,
    /// A kernel on a GPU's multiprocessors.
    Sm,
    /// A NIC's DMA engine.
    Nic,
    /// The DMA engine of a drive or a capture card.
    Device,
}

/// Whether the initiator writes to or reads from the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// The source pushes.
    Write,
    /// The destination pulls.
    Read,
}

/// What kind of host memory a transfer uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostMemory {
    /// Page-locked, so that a GPU reaches it directly.
    #[default]
    Pinned,
    /// Ordinary memory, which the driver copies through its own buffers.
    Pageable,
    /// Managed, moved by page faults as a kernel touches it.
    ManagedFaults,
    /// Managed, moved by a prefetch.
    ManagedPrefetch,
}

/// Which transfers run at once, where it is not each alone or against its opposite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// From one device, or host memory, to all.
    OneToAll,
    /// From all to one.
    AllToOne,
    /// From all to all.
    AllToAll,
}

/// The unit a matrix is given in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    /// 10⁹ bytes a second.
    #[default]
    #[serde(rename = "GB/s")]
    GigabytesPerSecond,
    /// 2²⁰ bytes a second, which old tools print as "MB/s".
    #[serde(rename = "MiB/s")]
    MebibytesPerSecond,
    /// 10⁹ bits a second.
    #[serde(rename = "Gb/s")]
    GigabitsPerSecond,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Picoseconds.
    #[serde(rename = "ps")]
    Picoseconds,
    /// 10⁹ traversed edges a second.
    #[serde(rename = "GTEPS")]
    Gteps,
}

impl Unit {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::GigabytesPerSecond => "GB/s",
            Self::MebibytesPerSecond => "MiB/s",
            Self::GigabitsPerSecond => "Gb/s",
            Self::Microseconds => "us",
            Self::Nanoseconds => "ns",
            Self::Picoseconds => "ps",
            Self::Gteps => "GTEPS",
        }
    }

    /// A value of this unit as a rate, where it is one.
    pub fn rate(self, value: f64) -> Option<Rate> {
        match self {
            Self::GigabytesPerSecond => Some(Rate::from_gb(value)),
            Self::MebibytesPerSecond => Some(Rate::from_mib(value)),
            Self::GigabitsPerSecond => Some(Rate::from_gbit(value)),
            Self::Microseconds | Self::Nanoseconds | Self::Picoseconds | Self::Gteps => None,
        }
    }

    /// A value of this unit as a time, where it is one.
    pub fn time(self, value: f64) -> Option<Seconds> {
        match self {
            Self::Microseconds => Some(Seconds::from_us(value)),
            Self::Nanoseconds => Some(Seconds::from_us(value / 1000.0)),
            Self::Picoseconds => Some(Seconds::from_us(value * 1e-6)),
            _ => None,
        }
    }
}

/// Numbers between rows and columns. Row and column names are node names (`GPU0`, `mlx5_2`) or `host`.
///
/// A cell is `None` where the source shows nothing for it (`X`, `N/A`, `-`, a missing row).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// What is measured.
    pub quantity: Quantity,
    /// Direction; `None` for quantities that have no direction or where it is unknown.
    pub direction: Option<Direction>,
    /// Peer-to-peer access on or off; `None` where it does not apply or is not stated. Between a GPU and a NIC of the machine, measured
    /// out and back by way of host memory: whether the NIC got at the GPU's memory directly, or staged.
    pub p2p: Option<bool>,
    /// Write or read, if stated.
    pub op: Option<Operation>,
    /// What drives it, if stated.
    pub engine: Option<Engine>,
    /// The unit of `values`.
    pub unit: Unit,
    /// Bytes a transfer moves, if stated.
    pub size: Option<Bytes>,
    /// Where data comes from (for reads too: the row initiates, the column is its peer).
    pub rows: Vec<String>,
    /// Where it goes.
    pub cols: Vec<String>,
    /// One list a row, as long as `cols`.
    pub values: Vec<Vec<Option<f64>>>,
    /// Title the source gives it.
    pub title: String,
    /// The kind of host memory, where the host is an end and it is stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<HostMemory>,
    /// Which transfers ran at once; `None` where each ran alone or against its opposite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Pattern>,
}

impl Matrix {
    /// The same with the memory and pattern that its title names, as tools and older files state them.
    #[must_use]
    pub fn typed_by_title(self) -> Matrix {
        let title = self.title.to_lowercase();
        let memory = match () {
            () if title.contains("pageable") => Some(HostMemory::Pageable),
            () if title.contains("managed, prefetched") => Some(HostMemory::ManagedPrefetch),
            () if title.contains("managed") => Some(HostMemory::ManagedFaults),
            () => None,
        };
        let pattern = match (title.contains("_to_all"), title.contains("all_to_")) {
            (true, true) => Some(Pattern::AllToAll),
            (true, false) => Some(Pattern::OneToAll),
            (false, true) => Some(Pattern::AllToOne),
            (false, false) => None,
        };
        Matrix { memory: self.memory.or(memory), pattern: self.pattern.or(pattern), ..self }
    }

    /// Whether each number is of one transfer alone, or against its opposite, which the GPU moves by itself. It is not where many
    /// transfers run at once, of which a matrix does not say how they are counted, and for pageable and managed memory, which wait for
    /// the CPU.
    pub fn is_of_pairs(&self) -> bool {
        self.pattern.is_none() && self.memory.is_none_or(|memory| memory == HostMemory::Pinned)
    }

    /// The cell at row `i`, column `j`.
    pub fn value(&self, i: usize, j: usize) -> Option<f64> {
        self.values.get(i)?.get(j).copied().flatten()
    }

    /// The cell as a rate.
    pub fn rate(&self, i: usize, j: usize) -> Option<Rate> {
        self.unit.rate(self.value(i, j)?)
    }

    /// The cell between two names.
    pub fn between(&self, row: &str, col: &str) -> Option<f64> {
        let i = self.rows.iter().position(|r| r == row)?;
        let j = self.cols.iter().position(|c| c == col)?;
        self.value(i, j)
    }

    /// What it holds, in words: `bandwidth, bidirectional, P2P on, GB/s`.
    pub fn describe(&self) -> String {
        let direction = self.direction.map(|d| match d {
            Direction::Unidirectional => "one way",
            Direction::Bidirectional => "both ways, summed",
            Direction::BidirectionalShare => "both ways, one way's share",
        });
        // of a NIC and a GPU, what else than peer access says how the NIC gets at the GPU's memory
        let of_nic = self.engine == Some(Engine::Nic);
        let p2p = self.p2p.filter(|_| !of_nic).map(|on| if on { "P2P on" } else { "P2P off" });
        let way = self.p2p.filter(|_| of_nic).map(|direct| if direct { "direct" } else { "staged" });
        let op = self.op.map(|o| if o == Operation::Write { "writes" } else { "reads" });
        let engine = self.engine.map(|e| match e {
            Engine::Ce => "copy engine",
            Engine::Sm => "SM copies",
            Engine::Nic => "NIC",
            Engine::Device => "device DMA",
        });
        let size = self.size.map(|s| s.to_string());
        let words =
            [Some(self.quantity.name()), direction, p2p, op, engine, way, size.as_deref(), Some(self.unit.name())];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
