//! The time of a collective of NCCL's or RCCL's by algorithm and protocol: a start-up, steps, and bytes over what the paths
//! carry.
//!
//! The form is that of NCCL's own estimate (`ncclTopoTuneModel`, `ncclTopoGetAlgoTime`, `src/graph/tuning.cc`,
//! github.com/NVIDIA/nccl at 5067397c), and so are the number of steps, the times of steps between nodes, and what protocols
//! and trees cost. Two things differ. The rates are those that the model finds for the paths, not NCCL's table of links; and
//! the start-up is measured, as NCCL's constants are made to choose by, not to predict. `docs/collectives.md` has the equations,
//! every constant with its source, and how far the predictions are from what was measured.

use super::algorithm::{Algorithm, Choice, Protocol};
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;

const GB: f64 = 1e9;
pub(super) const US: f64 = 1e-6;
const MIB: f64 = 1_048_576.0;

/// Which constants of a library count: by the generation of the GPUs, as its tables have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// Up to Turing.
    Volta,
    /// Ampere and Ada.
    Ampere,
    /// Hopper.
    Hopper,
    /// Blackwell and later.
    Blackwell,
    /// AMD Instinct, by RCCL.
    Cdna,
}

/// What the slowest pair of neighbours within a node goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Medium {
    /// NVLink and its like.
    Fabric,
    /// PCIe, directly.
    Pcie,
    /// Host memory.
    Host,
}

impl Medium {
    /// In words that follow "over".
    pub fn words(self) -> &'static str {
        match self {
            Medium::Fabric => "links between GPUs",
            Medium::Pcie => "PCIe",
            Medium::Host => "host memory",
        }
    }
}

/// How the ranks of a node are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranks {
    /// A process for each GPU, as training runs.
    #[default]
    ProcessEach,
    /// One process that launches on all GPUs of the node, one after the other (`nccl-tests -g N`).
    OneProcess,
    /// From a CUDA graph, which launches many at once.
    Graph,
}

/// A collective as a library's tuner sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// Which.
    pub collective: Collective,
    /// GPUs that take part.
    pub ranks: usize,
    /// Nodes that they are of: hosts, or what one NVLink fabric joins.
    pub nodes: usize,
    /// Of the GPUs.
    pub generation: Generation,
    /// Within a node.
    pub medium: Medium,
    /// How they are run.
    pub run: Ranks,
    /// Seconds that a message between nodes takes beyond those of InfiniBand, for which the steps' times are.
    pub network: f64,
    /// Whether the CPUs of the nodes are AMD's.
    pub on_amd: bool,
}

/// Bytes a second of bus bandwidth that the paths carry, by algorithm; `None` where it cannot be done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Carried([Option<f64>; Algorithm::ALL.len()]);

impl Carried {
    /// The same with this rate of an algorithm.
    #[must_use]
    pub fn with(mut self, algorithm: Algorithm, rate: Option<f64>) -> Self {
        self.0[algorithm as usize] = rate.filter(|rate| *rate > 0.0 && rate.is_finite());
        self
    }

    /// What an algorithm's paths carry.
    pub fn of(&self, algorithm: Algorithm) -> Option<f64> {
        self.0[algorithm as usize]
    }
}

/// Multiples of what is uncertain; all 1 for the value itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// Of the start-up.
    pub launch: f64,
    /// Of what the paths carry.
    pub paths: f64,
    /// Of what a channel moves.
    pub channel: f64,
    /// Of what trees reach.
    pub tree: f64,
}

impl Factors {
    /// The value itself.
    pub const ONE: Factors = Factors { launch: 1.0, paths: 1.0, channel: 1.0, tree: 1.0 };
}

/// A prediction of one collective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// The fastest algorithm of those that may be used.
    pub algorithm: Algorithm,
    /// How its messages are packed.
    pub protocol: Protocol,
    /// Seconds.
    pub time: f64,
    /// Of these, those in which no bytes move.
    pub startup: f64,
    /// Bus bandwidth in bytes a second, as nccl-tests counts it.
    pub rate: f64,
}

/// Microseconds that the host takes for one launch: of a process for each GPU; of one process besides what each GPU takes. Two
/// H200 take 12.4 to 18.5 by the process, four 17 (`captures/h200x2-vm-nccl`, `h200x4-vm-runs`), eight RTX 4090 42.6
/// (NVIDIA/nccl#1530). Launches go on while kernels run, so that only the longer of both counts. In a graph nothing is launched.
const LAUNCH: f64 = 8.0;
const LAUNCH_ALL: f64 = 4.0;
const LAUNCH_EACH: f64 = 4.75;

/// Microseconds of a kernel but for its steps, by protocol, as NCCL has them (`baseLatencies`) but for Simple (8.4): two H200,
/// from 2 to 128 MiB. Of AMD: sixteen dies of MI250X (25 µs an all-reduce, 34 an all-gather: ROCm/rccl#929, #930).
const KERNEL: [f64; 3] = [6.6, 14.0, 13.0];
const KERNEL_CDNA: [f64; 3] = [10.0, 10.0, 13.0];

/// Microseconds of a step within a node by protocol, over NVLink and otherwise, as NCCL has it (`hwLatencies`) but for LL128 and
/// Simple over NVLink (1.9 and 3.4): eight H20 from 1 to 128 MiB (kvcache-ai/Mooncake#3484). AMD's are of MI250X: a ring's, a
/// tree's.
const STEP: [[f64; 3]; 2] = [[0.6, 1.5, 3.0], [1.0, 2.5, 5.7]];
const STEP_CDNA: [[f64; 3]; 2] = [[1.5, 1.5, 3.0], [0.5, 0.5, 1.0]];

/// Microseconds of a step between nodes: of a ring, of a tree (`hwLatencies`, NET), but for LL (2.7 and 5): see [`CHUNK_BETWEEN`].
pub(super) const NETWORK_STEP: [[f64; 3]; 2] = [[8.0, 4.0, 14.0], [7.5, 8.5, 14.0]];

/// Microseconds of a kernel of NVLink SHARP (`hwLatencies`).
const NVLS: f64 = 25.0;

/// Microseconds of a step between nodes of NVLink SHARP with a tree: NCCL's table has 20.9, two nodes of H20 take 11 (NVIDIA/nccl#1244), and
/// the clusters of [`CHUNK_BETWEEN`] more. Of CollNet, and of PAT by step and by rank, as in the table.
const NVLS_TREE_STEP: f64 = 16.0;
const COLLNET_STEP: f64 = 31.0;
const PAT_STEP: f64 = 4.0;
const PAT_RANK: f64 = 2.8;

/// What a carried byte costs: LL sends as many bytes of flags as of data (NCCL takes ½); of LL128, NCCL takes 0.92 for 120 of 128.
const LL: f64 = 0.5;
const LL128: f64 = 0.92;

/// What NCCL takes of an all-reduce along a tree, of LL along it, and of LL128 within a node and between nodes.
const TREE: f64 = 0.92;
const TREE_LL: f64 = 1.0 / 3.8;
const TREE_LL128: [f64; 2] = [7.0 / 9.0, 120.0 / 128.0];

/// GB/s that LL reaches within a node over any number of NVLink channels, by generation (`llMaxBws`); two H200 reached 0.87 of it.
const LL_MOST: [f64; 5] = [39.0, 87.7, 141.0, 282.0, 141.0];
const LL_REACHED: f64 = 0.87;

/// GB/s that LL reaches between two nodes and between more, by the maker of their CPUs: Intel's, AMD's (`llMaxBws`).
const LL_MOST_BETWEEN: [[f64; 2]; 2] = [[39.0, 20.4], [22.5, 19.0]];

/// What collectives reach of the rate at which adapters and links between nodes carry data, from 16 GiB on.
const BETWEEN: f64 = 0.975;

/// What all-gathers and reduce-scatters reach of what an all-reduce does between nodes, and all-to-alls of what their paths carry: of
/// seven clusters of two nodes 0.79 to 0.95, and of five 0.47 to 1 (`validation/first-contact-clusters.csv`, from 256 MiB on). Why is
/// not known: each byte crosses as often.
const GATHERED_BETWEEN: f64 = 0.9;
pub(super) const EXCHANGED_BETWEEN: f64 = 0.88;

/// Microseconds that one more chunk between nodes costs, and what it costs with RCCL: a chunk waits for the proxy, the adapter and the
/// flag at the other end, and bytes of a chunk wait until all of it is there. The best number of chunks costs `2 √(this · bytes / rate)`,
/// which measured times follow from 1 MiB to 16 GiB: 22 clusters of 2 to 4 nodes with A100, H100, H200, GH200, B200 and MI300X on
/// InfiniBand, RoCE, EFA and Slingshot (`published/collectives/kept-apart.csv`, `validation/first-contact-clusters.csv`). Fitted
/// without the four of batch 4, constants like these met them within 15 % in the weighted mean of logarithms; those before this term 29 %.
const CHUNK_BETWEEN: [f64; 2] = [10.0, 40.0];

/// Of what a message takes longer than over InfiniBand, what counts for each chunk: many are on their way together.
const MESSAGE_OF_CHUNK: f64 = 0.3;

/// Bytes of a chunk that goes up and down a tree of nodes, of all channels together: 64 KiB of each of 16 channels, and less of small
/// sizes.
const TREE_CHUNK: f64 = MIB;

/// Channels of a ring over NVLink, by generation, and otherwise.
const CHANNELS: [f64; 5] = [12.0, 24.0, 24.0, 24.0, 28.0];
const HOST_CHANNELS: f64 = 4.0;

/// Bytes of a chunk of a ring and of a slice of it (`ALLREDUCE_CHUNKSTEPS`, `ALLREDUCE_SLICESTEPS` of 512 KiB).
const CHUNK: f64 = 2.0 * MIB;
const SLICE: f64 = MIB;

/// Bytes of a chunk of NVLink SHARP (`NVLS_CHUNKSIZE`, `src/init.cc`).
const NVLS_CHUNK: f64 = 131_072.0;

/// Seconds for which a channel waits between one pass around its ring and the next.
const BUBBLE: f64 = 15.0 * US;

/// How much of a tree's rate sizes of 64 B, 128 B … 256 MiB reach, by protocol (`treeCorrectionFactor`).
const TREE_REACHED: [[f64; 23]; 3] = [
    [1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0],
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0],
    [0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9],
];

impl Job {
    /// The fastest of the algorithms and protocols that are allowed, and for which the paths carry something.
    pub fn predict(
        &self,
        carried: &Carried,
        size: Bytes,
        allowed: impl Fn(Algorithm, Protocol) -> bool,
        limit: impl Fn(Algorithm, Protocol) -> f64,
        factors: Factors,
    ) -> Option<Predicted> {
        let mut best: Option<Predicted> = None;
        for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.does(self.collective)) {
            let Some(paths) = carried.of(algorithm) else { continue };
            for protocol in Protocol::ALL {
                if !algorithm.has(protocol) || !allowed(algorithm, protocol) {
                    continue;
                }
                let rate = self.reached(algorithm, protocol, paths, size, factors);
                let rate = rate.min(limit(algorithm, protocol) * factors.channel);
                let bytes = size.0 as f64 * self.collective.bus_factor(self.ranks);
                let kernel = self.kernel(algorithm, protocol, factors)
                    + bytes / rate
                    + self.filling(algorithm, protocol, rate, size);
                let time = kernel.max(self.launch(factors));
                let startup = (time - bytes / rate).max(0.0);
                if best.as_ref().is_none_or(|known| time < known.time) {
                    best = Some(Predicted { algorithm, protocol, time, startup, rate: bytes / time });
                }
            }
        }
        best
    }

    /// The same with nothing but the choice to limit it.
    pub fn chosen(&self, carried: &Carried, size: Bytes, choice: Choice, factors: Factors) -> Option<Predicted> {
        let unlimited = |_, _| f64::INFINITY;
        self.predict(carried, size, |a, p| choice.allows(a, p) && self.offers(p, choice), unlimited, factors)
    }

    /// Whether NCCL uses a protocol where it is not asked to: LL128 within a node only over NVLink.
    fn offers(&self, protocol: Protocol, choice: Choice) -> bool {
        protocol != Protocol::Ll128 || self.medium == Medium::Fabric || choice.protocol == Some(protocol)
    }

    pub(super) fn is_fabric(&self) -> bool {
        self.medium == Medium::Fabric
    }

    /// Steps within nodes and between them on the longest path of an algorithm.
    fn steps(&self, algorithm: Algorithm) -> [f64; 2] {
        let (n, nodes) = (self.ranks as f64, self.nodes as f64);
        let local = (n / nodes - 1.0).max(0.0);
        let depth = nodes.log2().floor();
        match algorithm {
            Algorithm::Ring => {
                let turns = if self.collective == Collective::AllReduce { 2.0 } else { 1.0 };
                let all = match self.collective {
                    Collective::SendReceive => 1.0,
                    _ => turns * (n - 1.0),
                };
                let between = (turns * (nodes - 1.0)).min(all);
                [all - between, between]
            }
            Algorithm::Tree => [2.0 * local, 2.0 * depth],
            Algorithm::CollnetDirect => [2.0 * local.min(1.0), 1.0],
            Algorithm::CollnetChain => [2.0 * local, 1.0],
            Algorithm::Nvls => [0.0, if self.nodes > 1 { 1.0 } else { 0.0 }],
            Algorithm::NvlsTree => [0.0, 2.0 * depth],
            Algorithm::Pat => [0.0, depth],
        }
    }

    /// Seconds that the host takes to launch.
    pub(super) fn launch(&self, factors: Factors) -> f64 {
        let microseconds = match self.run {
            Ranks::ProcessEach => LAUNCH,
            Ranks::OneProcess => LAUNCH_ALL + LAUNCH_EACH * self.ranks as f64 / self.nodes as f64,
            Ranks::Graph => 0.0,
        };
        factors.launch * microseconds * US
    }

    /// Microseconds of a kernel but for its steps.
    pub(super) fn base(&self, protocol: Protocol) -> f64 {
        let of_maker = if self.generation == Generation::Cdna { KERNEL_CDNA } else { KERNEL };
        of_maker[protocol as usize]
    }

    /// Microseconds of a step within a node.
    pub(super) fn step(&self, algorithm: Algorithm, protocol: Protocol) -> f64 {
        match (self.generation, self.is_fabric()) {
            (Generation::Cdna, true) => STEP_CDNA[usize::from(algorithm == Algorithm::Tree)][protocol as usize],
            (_, fabric) => STEP[usize::from(!fabric)][protocol as usize],
        }
    }

    /// Seconds that a message without bytes takes on the GPUs.
    fn kernel(&self, algorithm: Algorithm, protocol: Protocol, factors: Factors) -> f64 {
        let [within, between] = self.steps(algorithm);
        let step = self.step(algorithm, protocol);
        let network_step = match algorithm {
            // with one GPU a node nothing hides them, and NCCL counts those of a tree
            Algorithm::Ring if self.nodes < self.ranks => NETWORK_STEP[0][protocol as usize],
            Algorithm::Ring | Algorithm::Tree => NETWORK_STEP[1][protocol as usize],
            Algorithm::CollnetDirect | Algorithm::CollnetChain | Algorithm::Nvls => COLLNET_STEP,
            Algorithm::NvlsTree => NVLS_TREE_STEP,
            Algorithm::Pat => PAT_STEP,
        };
        let own = match algorithm {
            Algorithm::Nvls | Algorithm::NvlsTree => NVLS,
            Algorithm::Pat => KERNEL[protocol as usize] + PAT_RANK * self.ranks as f64,
            _ => self.base(protocol),
        };
        factors.launch * (own + within * step + between * network_step) * US + between * self.network
    }

    /// Bus bandwidth in bytes a second that the bytes of a message of this size move at.
    fn reached(&self, algorithm: Algorithm, protocol: Protocol, paths: f64, size: Bytes, factors: Factors) -> f64 {
        let between = match self.collective {
            _ if self.nodes < 2 => 1.0,
            Collective::AllGather | Collective::ReduceScatter => BETWEEN * GATHERED_BETWEEN,
            _ => BETWEEN,
        };
        let paths = paths * factors.paths * between;
        let ll_most = match self.nodes {
            1 if self.is_fabric() => LL_MOST[self.generation as usize] * LL_REACHED,
            1 => f64::INFINITY,
            nodes => LL_MOST_BETWEEN[usize::from(self.on_amd)][usize::from(nodes > 2)],
        };
        let limited = |rate: f64| rate.min(ll_most * factors.channel * GB);
        match (algorithm, protocol) {
            (Algorithm::Ring, Protocol::Ll) => limited(paths * LL),
            (Algorithm::Ring, Protocol::Ll128) => paths * LL128,
            (Algorithm::Tree, protocol) => {
                let tree = paths * TREE * factors.tree;
                let tree = match protocol {
                    Protocol::Ll => limited(tree * TREE_LL),
                    Protocol::Ll128 => tree * TREE_LL128[usize::from(self.nodes > 1)],
                    Protocol::Simple => tree,
                };
                let at = (size.0 >> 6).checked_ilog2().map_or(0, |log| log as usize);
                tree * TREE_REACHED[protocol as usize].get(at).copied().unwrap_or(1.0)
            }
            _ => paths,
        }
    }

    /// Seconds in which links wait. Of a ring, but with LL: until the first slice has come around, and between passes around it.
    /// Of NVLink SHARP: until the first chunks of all channels are added up, of which each GPU has its part. Of a tree of nodes, but with
    /// LL: until the first chunks have gone up and down. Between nodes chunks wait in addition.
    fn filling(&self, algorithm: Algorithm, protocol: Protocol, rate: f64, size: Bytes) -> f64 {
        let channels = if self.is_fabric() { CHANNELS[self.generation as usize] } else { HOST_CHANNELS };
        let (size, ranks) = (size.0 as f64, self.ranks as f64);
        let within = match (algorithm, protocol) {
            _ if self.collective == Collective::SendReceive => return 0.0,
            (Algorithm::Ring, Protocol::Simple | Protocol::Ll128) => {
                let slice = (size / (2.0 * ranks * channels)).min(SLICE);
                let passes = (size / (ranks * channels * CHUNK)).ceil().max(1.0);
                slice * channels / rate + (passes - 1.0) * BUBBLE
            }
            (Algorithm::Tree, Protocol::Simple | Protocol::Ll128) if self.nodes > 1 => {
                let hops: f64 = self.steps(algorithm).iter().sum();
                hops * TREE_CHUNK.min(size / 8.0) * self.collective.bus_factor(self.ranks) / rate
            }
            (Algorithm::Nvls | Algorithm::NvlsTree, _) => {
                let local = ranks / self.nodes as f64;
                let chunks = (local * channels * NVLS_CHUNK).min(size / 2.0);
                chunks * self.collective.bus_factor(self.ranks) / rate
            }
            _ => 0.0,
        };
        if self.nodes < 2 {
            return within;
        }
        let chunk =
            CHUNK_BETWEEN[usize::from(self.generation == Generation::Cdna)] * US + MESSAGE_OF_CHUNK * self.network;
        within + 2.0 * (chunk * size * self.collective.bus_factor(self.ranks) / rate).sqrt()
    }
}
