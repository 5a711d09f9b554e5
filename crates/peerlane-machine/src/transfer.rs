//! What is moved: transfers between nodes by name, and the collectives of NCCL.

use std::fmt;

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::matrix::HostMemory;
use crate::matrix::{Engine, Operation};
use crate::names::is_host;

/// The path of a transfer between GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// Directly: peer access on.
    #[default]
    Direct,
    /// Through host memory by the driver: peer access off.
    Driver,
    /// Through pinned host memory by a double-buffered pipeline of our own.
    Pipeline,
}

/// Data to be moved from one node to another, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Transfer {
    /// Where the data is: `GPU0`, `host0`, or `host` for the memory nearest to the other end.
    pub source: String,
    /// Where it goes.
    pub destination: String,
    /// What drives it.
    pub engine: Engine,
    /// Whether the source pushes or the destination pulls.
    pub op: Operation,
    /// Its path, between GPUs.
    #[serde(default)]
    pub via: Via,
    /// The host's kind of memory, where the host is an end.
    #[serde(default)]
    pub memory: HostMemory,
}

impl Transfer {
    /// A direct copy by a copy engine that the source drives; with the host, from or to pinned memory.
    pub fn new(source: impl Into<String>, destination: impl Into<String>) -> Self {
        Transfer {
            source: source.into(),
            destination: destination.into(),
            engine: Engine::Ce,
            op: Operation::Write,
            via: Via::Direct,
            memory: HostMemory::Pinned,
        }
    }

    /// The same data in the other direction, driven likewise.
    pub fn reversed(&self) -> Self {
        Transfer { source: self.destination.clone(), destination: self.source.clone(), ..self.clone() }
    }

    /// The node whose engine moves the data: the reader of a read, the writer of a write, and always the GPU
    /// where the other end is host memory.
    pub fn driver(&self) -> &str {
        match (is_host(&self.source), is_host(&self.destination), self.op) {
            (true, _, _) => &self.destination,
            (_, true, _) | (_, _, Operation::Write) => &self.source,
            (_, _, Operation::Read) => &self.destination,
        }
    }

    /// Its ends that are GPUs.
    pub fn gpus(&self) -> impl Iterator<Item = &str> {
        let both = [self.source.as_str(), self.destination.as_str()];
        let ends = if self.source == self.destination { 1 } else { 2 };
        both.into_iter().take(ends).filter(|n| !is_host(n))
    }
}

impl fmt::Display for Transfer {
    /// `GPU0 → GPU1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.source, self.destination)
    }
}

/// One end of RDMA: a NIC, and the memory that it reads or writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct NicEnd {
    /// `mlx5_0`.
    pub nic: String,
    /// `host0`, `host` for the memory nearest to the NIC, or a GPU: `GPU0`.
    pub memory: String,
}

/// Data that goes from one memory through a NIC to another memory through another NIC, or back through the same one: a loopback.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Rdma {
    /// Where the data is.
    pub from: NicEnd,
    /// Where it goes.
    pub to: NicEnd,
    /// Whether the source writes or the destination reads.
    pub op: Operation,
    /// How the NIC gets at a GPU's memory: directly, or through the host memory of the other end. Host memory it always reads and
    /// writes directly.
    #[serde(default, skip_serializing_if = "is_direct")]
    pub via: Via,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_direct(via: &Via) -> bool {
    *via == Via::Direct
}

impl Rdma {
    /// From one host memory to another.
    pub fn of_host(from: NicEnd, to: NicEnd, op: Operation) -> Self {
        Rdma { from, to, op, via: Via::Direct }
    }

    /// Whether one NIC is at both ends.
    pub fn is_loopback(&self) -> bool {
        self.from.nic == self.to.nic
    }

    /// The GPU whose memory is at one end, and the NIC that reads or writes it.
    pub fn gpu(&self) -> Option<(&str, &str)> {
        let end = [&self.from, &self.to].into_iter().find(|end| !is_host(&end.memory))?;
        Some((&end.memory, &end.nic))
    }

    /// What it is between: two NICs, or one twice; of a GPU's memory, the GPU and its NIC, in the order of the data.
    pub fn ends(&self) -> (&str, &str) {
        match self.gpu() {
            Some((gpu, nic)) if is_host(&self.from.memory) => (nic, gpu),
            Some((gpu, nic)) => (gpu, nic),
            None => (&self.from.nic, &self.to.nic),
        }
    }
}

impl fmt::Display for Rdma {
    /// `mlx5_0 → mlx5_1`, `mlx5_0, loopback`, `GPU0 → mlx5_0`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.ends();
        if from == to { write!(f, "{from}, loopback") } else { write!(f, "{from} → {to}") }
    }
}

/// How an adapter got at a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Registration {
    /// The driver exported the memory as a dmabuf (`ibv_reg_dmabuf_mr`).
    Dmabuf,
    /// The module nvidia-peermem knew its addresses (`ibv_reg_mr`).
    NvidiaPeermem,
}

impl Registration {
    /// As the record writes it.
    pub fn name(self) -> &'static str {
        match self {
            Registration::Dmabuf => "dmabuf",
            Registration::NvidiaPeermem => "nvidia-peermem",
        }
    }
}

/// One of NCCL's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// Everyone gets the sum.
    AllReduce,
    /// Everyone gets everyone's part.
    AllGather,
    /// Everyone gets a part of the sum.
    ReduceScatter,
    /// Everyone sends everyone a part.
    AllToAll,
    /// One sends to all.
    Broadcast,
    /// Everyone sends to the next and receives from the one before.
    SendReceive,
}

impl Collective {
    /// All of them.
    pub const ALL: [Collective; 6] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::AllToAll,
        Collective::Broadcast,
        Collective::SendReceive,
    ];

    /// Bus bandwidth over algorithm bandwidth among `ranks`, which makes a ring's rate comparable with a link's
    /// (nccl-tests, doc/PERFORMANCE.md): 2(n−1)/n for all-reduce, (n−1)/n for the three that move n−1 parts of n, 1
    /// for the rest.
    ///
    /// The size that goes with it is the larger of what a rank sends and receives in all.
    pub fn bus_factor(self, ranks: usize) -> f64 {
        let n = ranks.max(1) as f64;
        match self {
            Collective::AllReduce => 2.0 * (n - 1.0) / n,
            Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => (n - 1.0) / n,
            Collective::Broadcast | Collective::SendReceive => 1.0,
        }
    }

    /// As the record writes it.
    pub fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "all-reduce",
            Collective::AllGather => "all-gather",
            Collective::ReduceScatter => "reduce-scatter",
            Collective::AllToAll => "all-to-all",
            Collective::Broadcast => "broadcast",
            Collective::SendReceive => "send-receive",
        }
    }
}
