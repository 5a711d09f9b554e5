//! What the prose around a machine's output states of it: weak evidence, which any tool's output overrides.

use crate::fabric::PcieWidth;
use crate::origin::Origin;

/// One statement in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Remark {
    /// What it states.
    pub claim: Claim,
    /// Words with digits of its line and of the item above it, which may name a product: `1070`, `M60`. Once it is known which
    /// machine it is about, those of the machine's products.
    pub about: Vec<String>,
    /// The line.
    pub origin: Origin,
}

/// What a remark states.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// The PCIe generation, the lanes, or both, of links of GPUs.
    Width(PcieWidth),
    /// Whether GPUs reach each other's memory directly.
    PeerAccess {
        /// Whether they do.
        direct: bool,
        /// Whether it is only about GPUs of different sockets.
        across: bool,
    },
    /// The year in which it was written, or in which the machine was new.
    Year(u16),
    /// The key of a CPU's part.
    Cpu(&'static str),
    /// The product of its network adapters.
    Nic(String),
    /// A rate that was measured.
    Rate {
        /// Of which transfers.
        between: Between,
        /// GB/s, the lowest.
        low: f64,
        /// GB/s, the highest.
        high: f64,
    },
}

/// Ends of transfers in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Host memory to a GPU.
    HostToGpu,
    /// A GPU to host memory.
    GpuToHost,
    /// Both of these, one at a time.
    HostAndGpu,
    /// Pairs of GPUs.
    Gpus,
}
