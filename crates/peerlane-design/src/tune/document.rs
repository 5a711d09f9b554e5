//! What `tune --json` writes.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;

/// Names the format of [`TuningDocument`].
pub const SCHEMA: &str = "peerlane/tuning/1";

/// What `tune --json` writes. Rates are bus bandwidths in GB/s of 10⁹ bytes, as nccl-tests counts them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TuningDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/tuning/1"))]
    pub schema: &'static str,
    /// The machine.
    pub machine: String,
    /// The collective.
    pub collective: Collective,
    /// The GPUs, in the order of ranks.
    pub gpus: Vec<String>,
    /// NCCL's variables that are set, with where they are.
    pub environment: Vec<Setting>,
    /// What the slowest pair of neighbours goes over under these variables: `links between GPUs`, `PCIe`, `host memory`.
    pub over: String,
    /// Predicted rates under these variables, by size.
    pub as_is: Vec<Rate>,
    /// Predicted rates with all suggestions that have a predicted gain.
    pub tuned: Vec<Rate>,
    /// Predicted gains of all of these together.
    pub gains: Vec<Gain>,
    /// A measured rate of the same collective that the target states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredCollective>,
    /// What to change, the greatest predicted gain first; then what has no predicted gain.
    pub suggestions: Vec<Suggestion>,
    /// The measurement of `--prove`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where it is set: `environment`, `/etc/nccl.conf`, `NCCL log`, `--set`.
    pub source: String,
}

/// A rate at a size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Rate {
    /// Bytes of the message.
    pub size: Bytes,
    /// GB/s.
    pub rate: f64,
    /// The least that it may be.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// A rate that the target states.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredCollective {
    /// Program or test.
    pub what: String,
    /// Where it is.
    pub source: String,
    /// Bytes of the message.
    pub size: Bytes,
    /// GB/s.
    pub rate: f64,
    /// The rate that is predicted for it.
    pub predicted: f64,
    /// Where it is far below that: settings under which the prediction comes close to it.
    pub likely: Vec<Likely>,
}

/// A setting that would explain a low rate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Likely {
    /// The setting: `NCCL_P2P_DISABLE=1`.
    pub setting: String,
    /// The rate predicted with it, in GB/s.
    pub rate: f64,
}

/// What a suggestion does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Removes a variable that is set.
    Unset {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// Sets a variable.
    Set {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// Numbers the GPUs in another order.
    Order {
        /// The GPUs, rank 0 first.
        gpus: Vec<String>,
        /// The same as the driver numbers them, for `CUDA_VISIBLE_DEVICES`.
        devices: String,
    },
    /// Runs the program on the CPUs and memory of one NUMA node.
    Bind {
        /// The node.
        node: u32,
    },
}

impl Action {
    /// As a shell reads it; of a binding, the prefix of the command.
    pub fn command(&self) -> String {
        match self {
            Action::Unset { name, .. } => format!("unset {name}"),
            Action::Set { name, value } => format!("export {name}={value}"),
            Action::Order { devices, .. } => {
                format!("export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={devices}")
            }
            Action::Bind { node } => format!("numactl --cpunodebind={node} --membind={node}"),
        }
    }
}

/// A change of the settings.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Suggestion {
    /// What it does.
    #[serde(flatten)]
    pub action: Action,
    /// The same as a shell command.
    pub command: String,
    /// Why it should help.
    pub reason: String,
    /// Predicted gains by size, against all suggestions of predicted gain but this one; empty where none is predicted.
    pub predicted: Vec<Gain>,
    /// What `--prove` found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proven: Option<Proven>,
}

impl Suggestion {
    /// The size with the greatest predicted gain.
    pub fn best(&self) -> Option<&Gain> {
        self.predicted.iter().max_by(|a, b| a.gain.total_cmp(&b.gain))
    }
}

/// How many times faster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Gain {
    /// Bytes of the message.
    pub size: Bytes,
    /// The rate with the change over the rate without it.
    pub gain: f64,
    /// The least that it may be; of a measured one, the low end of the median's 95 % interval.
    pub low: f64,
    /// The most; of a measured one, the high end.
    pub high: f64,
    /// The rate without the change, in GB/s.
    pub before: f64,
    /// The rate with it.
    pub after: f64,
}

/// What a measurement with and without a change gave.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Proven {
    /// Measured gains by size.
    pub gains: Vec<Gain>,
    /// Whether it is kept: faster at some size in every pair and by 2 % in the median, slower at none.
    pub kept: bool,
    /// Why not, or why nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// The measurement as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Proof {
    /// Pairs of runs, with and without, of each change.
    pub pairs: usize,
    /// Runs of NCCL in all.
    pub runs: usize,
    /// Seconds that it took.
    pub seconds: f64,
    /// NCCL's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nccl: Option<String>,
    /// All suggestions of predicted gain against the environment as it is.
    pub all: Vec<Gain>,
    /// What could not be measured, in sentences.
    pub notes: Vec<String>,
}
