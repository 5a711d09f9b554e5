//! What to measure: steps, each one thing that a machine is asked, and how well.
//!
//! A plan names nodes and knows no machine: a live one, a simulated one and a recorded run answer the same plan.
//! [`Plan::of`] makes the usual ones from a machine.

mod rounds;
mod scope;
mod selection;
mod steps;

pub use scope::{PlanError, Scope};
pub use selection::{Selection, UsableNics};

use std::fmt;

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use peerlane_machine::bfs::Bfs;
use peerlane_machine::halo::Halo;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::names::is_host;
use peerlane_machine::spin_glass::SpinGlass;
use peerlane_machine::transfer::{Collective, Rdma, Transfer, Via};
use peerlane_machine::units::{Bytes, Seconds};

/// A family of steps, as `--tests` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Each ordered pair of GPUs, one way.
    Pairs,
    /// Each pair of GPUs, both ways at once.
    PairsBoth,
    /// Pairs without peer access: through host memory, by the driver and by a pipeline of our own.
    Staged,
    /// Each GPU and pinned host memory, one way.
    Host,
    /// Each GPU and pinned host memory, both ways at once.
    HostBoth,
    /// Each GPU and pageable host memory.
    Pageable,
    /// Each GPU and the memory of each NUMA node.
    Numa,
    /// Managed memory, by faults and prefetched.
    Managed,
    /// Copies within one GPU's memory.
    Local,
    /// One GPU and all others at once, data going out.
    OneToAll,
    /// One GPU and all others at once, data coming in.
    AllToOne,
    /// All pairs of a permutation of the GPUs at once.
    Permutations,
    /// Every GPU and the host at once.
    AllHost,
    /// Every subset of the GPUs and the host at once.
    Subsets,
    /// Dependent loads from a GPU into another's memory, and into the host's.
    LoadLatency,
    /// A flag passed to and fro between kernels of two GPUs.
    SignalLatency,
    /// Small copies, as the CUDA sample counts them, and what enqueueing them costs the CPU.
    CopyLatency,
    /// Rate against message size.
    Sizes,
    /// Host memory alone.
    Memory,
    /// NCCL's collectives.
    Collectives,
    /// Faces that GPUs exchange with their neighbours in a grid.
    Halo,
    /// Over-relaxation of a spin glass, as an application whose GPUs exchange boundaries.
    SpinGlass,
    /// Breadth-first search, as an application whose GPUs exchange what each found.
    Bfs,
    /// Each NIC and the host memory nearest to it: out and back through the adapter, and to each other NIC, by RDMA.
    Nic,
    /// Each GPU with each NIC, by RDMA: from its memory out and back to host memory, and the other way; directly, and staged.
    NicGpu,
}

impl Test {
    /// All of them, in the order in which a plan measures them.
    ///
    /// What needs peer access off comes first, since it cannot be taken back from memory that others use.
    pub const ALL: [Test; 25] = [
        Test::Staged,
        Test::Local,
        Test::Pairs,
        Test::PairsBoth,
        Test::OneToAll,
        Test::AllToOne,
        Test::Permutations,
        Test::LoadLatency,
        Test::SignalLatency,
        Test::CopyLatency,
        Test::Host,
        Test::HostBoth,
        Test::AllHost,
        Test::Subsets,
        Test::Pageable,
        Test::Numa,
        Test::Sizes,
        Test::Memory,
        Test::Managed,
        Test::Collectives,
        Test::Halo,
        Test::SpinGlass,
        Test::Bfs,
        Test::Nic,
        Test::NicGpu,
    ];

    /// Whether it can be measured on a machine without a GPU and without a GPU's driver.
    pub fn is_without_gpus(self) -> bool {
        self == Test::Nic
    }

    /// Whether it is RDMA, so that the NICs that can be opened must be known.
    pub fn is_of_nics(self) -> bool {
        matches!(self, Test::Nic | Test::NicGpu)
    }

    /// As `--tests` and the record write it.
    pub fn name(self) -> &'static str {
        match self {
            Test::Pairs => "pairs",
            Test::PairsBoth => "pairs-both",
            Test::Staged => "staged",
            Test::Host => "host",
            Test::HostBoth => "host-both",
            Test::Pageable => "pageable",
            Test::Numa => "numa",
            Test::Managed => "managed",
            Test::Local => "local",
            Test::OneToAll => "one-to-all",
            Test::AllToOne => "all-to-one",
            Test::Permutations => "permutations",
            Test::AllHost => "all-host",
            Test::Subsets => "subsets",
            Test::LoadLatency => "load-latency",
            Test::SignalLatency => "signal-latency",
            Test::CopyLatency => "copy-latency",
            Test::Sizes => "sizes",
            Test::Memory => "memory",
            Test::Collectives => "collectives",
            Test::Halo => "halo",
            Test::SpinGlass => "spin-glass",
            Test::Bfs => "bfs",
            Test::Nic => "nic",
            Test::NicGpu => "nic-gpu",
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The kernel that runs over host memory, as STREAM names it; bytes are counted as STREAM counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StreamKernel {
    /// Sum what is read: 8 bytes an element.
    Read,
    /// `a = b`: 16 bytes an element.
    Copy,
    /// `a = b + s·c`: 24 bytes an element.
    Triad,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Moves data, all transfers at once, over and over. Samples: the rate of each, in bytes a second, while all run.
    Transfers(Vec<Transfer>),
    /// One thread of `gpu` loads words of `memory`, each load's address being the last one's value. Samples: seconds
    /// a load.
    Loads {
        /// The GPU that loads.
        gpu: String,
        /// Whose memory: a GPU's (its own too) or the host's.
        memory: String,
    },
    /// One thread on each of two GPUs; each waits for a word in its own memory that the other writes. Samples:
    /// seconds one way, half of a round.
    Signals {
        /// One.
        a: String,
        /// The other.
        b: String,
    },
    /// Copies of the step's size, one after another in one stream. Samples: seconds a copy, and seconds of CPU time
    /// that enqueueing one takes.
    SmallCopies(Transfer),
    /// A collective of NCCL's. Samples: seconds an operation.
    Collective {
        /// Which.
        operation: Collective,
        /// The ranks, in order.
        gpus: Vec<String>,
    },
    /// Host memory alone, read and written by all its CPUs. Samples: bytes a second.
    HostMemory {
        /// `host0` …, or `host` for all.
        node: String,
        /// What is done.
        kernel: StreamKernel,
    },
    /// Exchanges of faces between the parts of a grid, one after another. Samples: seconds an exchange.
    Halo(Halo),
    /// Half-sweeps of a spin glass, one after another. Samples: seconds that the update of a place takes, all GPUs together.
    SpinGlass(SpinGlass),
    /// Searches of a graph from many roots, one after another. Samples: the harmonic mean of their rates, in edges a second.
    Bfs(Bfs),
    /// RDMA between two NICs of the machine, or through one and back, with host memory or a GPU's. Samples: bytes a second.
    Rdma(Rdma),
}

impl Work {
    /// The GPUs that take part, each once, in order of appearance.
    pub fn gpus(&self) -> Vec<&str> {
        let mut all: Vec<&str> = match self {
            Work::Transfers(transfers) => transfers.iter().flat_map(Transfer::gpus).collect(),
            Work::Loads { gpu, memory } => vec![gpu.as_str(), memory.as_str()],
            Work::Signals { a, b } => vec![a.as_str(), b.as_str()],
            Work::SmallCopies(transfer) => transfer.gpus().collect(),
            Work::Collective { gpus, .. } => gpus.iter().map(String::as_str).collect(),
            Work::HostMemory { .. } => Vec::new(),
            Work::Halo(halo) => halo.gpus.iter().map(String::as_str).collect(),
            Work::SpinGlass(lattice) => lattice.gpus.iter().map(String::as_str).collect(),
            Work::Bfs(search) => search.gpus.iter().map(String::as_str).collect(),
            Work::Rdma(rdma) => vec![rdma.from.memory.as_str(), rdma.to.memory.as_str()],
        };
        let mut seen = std::collections::HashSet::new();
        all.retain(|n| !is_host(n) && seen.insert(*n));
        all
    }
}

/// How much one message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// Just this.
    Exactly(Bytes),
    /// As much as takes about [`Method::sample_time`], and no more than this: for rates that no longer depend on it.
    UpTo(Bytes),
}

impl Size {
    /// The most that it may be.
    pub fn most(self) -> Bytes {
        let (Size::Exactly(size) | Size::UpTo(size)) = self;
        size
    }
}

/// One thing to measure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The family that it belongs to.
    pub test: Test,
    /// What is done.
    pub work: Work,
    /// How much at a time.
    pub size: Size,
}

impl Step {
    /// What is alike in steps that do the same between different ends.
    pub(crate) fn kind(&self) -> StepKind {
        let driven = match &self.work {
            Work::Transfers(transfers) => transfers.iter().map(|t| (t.engine, t.op, t.via)).collect(),
            _ => Vec::new(),
        };
        (self.test, driven)
    }
}

/// The family of a step, and how each of its transfers is driven.
pub(crate) type StepKind = (Test, Vec<(Engine, Operation, Via)>);

/// How well to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Method {
    /// Requested relative width of the median's 95 % interval, from the median to the farther end.
    pub precision: f64,
    /// Wall time for all steps, initialisation apart; what is left is divided among the steps that are left.
    pub budget: Seconds,
    /// The least time that one sample takes, so that the start of work and its clock do not show.
    pub sample_time: Seconds,
    /// The least samples that a value rests on. A median's 95 % interval needs 6.
    pub least_samples: usize,
    /// The most samples of one step.
    pub most_samples: usize,
    /// How often the memory of steps with several transfers at once is allocated anew, since their rates depend on it.
    pub allocations: usize,
    /// The longest that a step may take before it is given up as hung.
    pub patience: Seconds,
}

impl Default for Method {
    fn default() -> Self {
        Method {
            precision: 0.01,
            budget: Seconds::new(30.0),
            sample_time: Seconds::new(1e-3),
            least_samples: 6,
            most_samples: 60,
            allocations: 3,
            patience: Seconds::new(20.0),
        }
    }
}

/// A family that was requested and has no step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// Which.
    pub test: Test,
    /// Why not, in words that follow the family's name: `it needs two GPUs, and there is one`.
    pub why: String,
}

/// What to measure and how.
///
/// Steps of one round have no GPU and no link in common and may run at once; whether they disturb each other is
/// measured before it is relied on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// How well.
    pub method: Method,
    /// The steps, in order, those that may run at once together.
    pub rounds: Vec<Vec<Step>>,
    /// The families that were requested and do not apply here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
}

impl Plan {
    /// All its steps.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.rounds.iter().flatten()
    }
}
