//! What can be wrong with a machine: faults that a system file plants, for the simulated machine to answer with.

use crate::counter::ErrorCounter;
use crate::fabric::PcieWidth;

/// Relative standard deviation of a sample where nothing else is requested.
pub const NOISE: f64 = 0.003;

/// How a simulated machine of a design answers, apart from its design: the tables `[simulated]` and `[[faults]]` of
/// a system file.
#[derive(Clone, Debug, PartialEq)]
pub struct Planted {
    /// Relative standard deviation of a sample.
    pub noise: f64,
    /// What the noise follows from: the same seed gives the same answers, whatever the order of requests.
    pub seed: u64,
    /// What is wrong with the machine.
    pub faults: Vec<Fault>,
}

impl Default for Planted {
    /// No faults, and [`NOISE`].
    fn default() -> Self {
        Planted { noise: NOISE, seed: 0, faults: Vec::new() }
    }
}

/// Something that is wrong with a machine. Names are those of nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A PCIe link runs narrower or at a lower generation than designed.
    Width {
        /// Its two ends.
        link: [String; 2],
        /// What it runs at; what is not given stays as designed.
        width: PcieWidth,
    },
    /// Bricks of an NVLink bundle are down.
    Bricks {
        /// Its two ends.
        link: [String; 2],
        /// Bricks that are left; with none, data takes the ends' other path.
        bricks: u8,
    },
    /// One direction is slow: of a link, for everything that goes through it, or between two endpoints that no link
    /// joins, for direct transfers between them.
    Slow {
        /// Where data comes from.
        from: String,
        /// Where it goes.
        to: String,
        /// Share of the rate that is left.
        factor: f64,
    },
    /// Two GPUs have no peer access to each other.
    PeerOff {
        /// The GPUs.
        pair: [String; 2],
    },
    /// Whatever two GPUs do directly with each other never ends.
    Hang {
        /// The GPUs.
        pair: [String; 2],
    },
    /// What two GPUs send each other directly arrives changed.
    Corrupt {
        /// The GPUs.
        pair: [String; 2],
    },
    /// A GPU falls off the bus.
    Lost {
        /// The GPU.
        gpu: String,
        /// Steps that the machine answers before, whoever takes part in them.
        after: usize,
    },
    /// Heat holds a GPU's clocks down.
    Throttle {
        /// The GPU.
        gpu: String,
        /// Share of the rate that is left to what it drives.
        factor: f64,
    },
    /// Where memory lies matters: in every second allocation, transfers with a GPU among others at once are slower.
    Bimodal {
        /// The GPU.
        gpu: String,
        /// Share of the rate that is left then.
        factor: f64,
    },
    /// A GPU starts cold: its first samples of each step are slow, and come nearer to the true rate one by one.
    Cold {
        /// The GPU.
        gpu: String,
        /// Share of the rate that the first sample has.
        factor: f64,
        /// Samples until it is warm.
        samples: usize,
    },
    /// A GPU, its memory or its links make errors under load, which one of its counters shows. Rates stay as they are.
    Errors {
        /// The GPU.
        gpu: String,
        /// The counter.
        counter: ErrorCounter,
        /// Errors for each 10⁹ bytes: of an NVLink's counter those of its first NVLink, else those that the GPU sends and receives.
        per_gb: f64,
    },
    /// NVLinks of a GPU are up and carry nothing: data takes the GPU's other path.
    Detour {
        /// The GPU.
        gpu: String,
    },
}
