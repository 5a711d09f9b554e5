//! What NCCL reports of its channels.

use std::collections::BTreeMap;

use crate::fabric::PciAddress;

/// One graph of an NCCL graph dump: one pattern of channels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NcclGraph {
    /// NCCL's number of the pattern: 4 is a ring.
    pub pattern: u32,
    /// GB/s that NCCL gives each channel inside the node.
    pub speed: f64,
    /// GPUs by NCCL's device number, in the order of each channel.
    pub channels: Vec<Vec<u32>>,
}

/// A connection that NCCL's log reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NcclTransport {
    /// Sending rank.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// `P2P/CUMEM`, `SHM/direct`, `NET/IB/0` …
    pub via: String,
    /// How many channels report it.
    pub channels: u32,
}

/// A rank of an [`NcclLog`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NcclRank {
    /// CUDA's number of its GPU.
    pub cuda: Option<u32>,
    /// The driver's.
    pub driver: Option<u32>,
    /// Its address.
    pub address: Option<PciAddress>,
}

/// An adapter that NCCL uses without GPUDirect RDMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NcclStaged {
    /// The adapter: its name, else NCCL's number of it.
    pub adapter: String,
    /// For which GPU only, where known.
    pub gpu: Option<PciAddress>,
    /// Why, where the path between them is the reason: NCCL's number of its class, and the largest that it takes.
    pub distance: Option<(u32, u32)>,
}

/// An `NCCL_DEBUG=INFO` log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NcclLog {
    /// NCCL version.
    pub version: Option<String>,
    /// Host name.
    pub host: Option<String>,
    /// Hosts that the lines are from; 0 where the lines do not name theirs.
    pub hosts: usize,
    /// Ranks of the communicator, where known.
    pub size: Option<u32>,
    /// The ranks that the log mentions: those of its largest communicator by their numbers there. GPUs of other
    /// communicators follow.
    pub ranks: BTreeMap<u32, NcclRank>,
    /// Networks in use, as the log names them: `mlx5_0:1/IB`.
    pub networks: Vec<String>,
    /// Interfaces of TCP sockets that it lists: `eth0:10.0.0.1<0>`.
    pub sockets: Vec<String>,
    /// The transport between hosts: `IB`, `Socket`.
    pub network: Option<String>,
    /// True where it found no device for RDMA, or no library for it.
    pub no_rdma: bool,
    /// Whether CUDA allows peer access between all GPUs of the host (`isAllCudaP2p`, since 2.28).
    pub cuda_p2p: Option<bool>,
    /// Adapters that it uses without GPUDirect RDMA.
    pub staged: Vec<NcclStaged>,
    /// `NCCL_…` variables that the environment sets.
    pub variables: BTreeMap<String, String>,
    /// Connections, each once.
    pub transports: Vec<NcclTransport>,
    /// Rings and trees, as printed.
    pub rings: Vec<Vec<u32>>,
    /// WARN lines.
    pub warnings: Vec<String>,
}

impl NcclLog {
    /// The release's first two numbers: (2, 22) of `2.22.3+cuda12.4`.
    pub fn release(&self) -> Option<(u32, u32)> {
        let mut numbers = self.version.as_ref()?.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}
