//! What a machine measured: the record of a run, which every later step reads and a user keeps.
//!
//! `docs/live.md` describes the file. A run holds its machine, the plan, the conditions and a list of
//! [`Cell`]s, so that it can be judged and measured on elsewhere.

mod checksum;
mod counters;
pub(crate) mod digits;
pub mod excerpt;
mod file;
mod limits;
mod machine;
mod matrices;
mod missing;
mod sets;
#[cfg(test)]
mod testing;

pub use crate::kinds::NO_GPU_MEMORY;
pub use checksum::unsealed;
pub(crate) use checksum::{check, opened_line, sealed, sealed_line};
pub use counters::{Counted, GpuCondition, Moved, NvlinkData, Place, Reading, Rise};
pub(crate) use file::list;
pub use file::{MAX_RUN_BYTES, Partial, RunError, looks_like_run};
pub use limits::Limits;
pub use machine::{TOOL, machine_of_texts};
pub use matrices::{CellMatrix, Sweep, curves, matrices, sweeps};
pub use missing::Missing;
pub(crate) use missing::is_settled;
pub use sets::{TransferSet, sets};

use std::fmt;

use peerlane_machine::schema::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::plan::{Plan, Step, Test, Work};
use peerlane_machine::machine::Machine;
use peerlane_machine::machine::description::MachineDescription;
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::one_line::{lines, lines_if_any};
use peerlane_machine::transfer::Registration;
use peerlane_machine::units::{Bytes, Seconds};

/// What a step or cell does, by its ends.
pub fn ends(work: &Work) -> String {
    work.kind().words()
}

/// Names the format of [`Run`].
pub const SCHEMA: &str = "peerlane/run/1";

/// Why a number is not what it seems, or is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlagKind {
    /// Samples far from the rest.
    Outliers,
    /// Later samples differ from earlier ones.
    Drift,
    /// Samples fall into groups.
    Modes,
    /// The interval is still wider than requested.
    Imprecise,
    /// The GPU held its clocks down, or they changed.
    Clocks,
    /// It was measured together with other steps of the plan, after a control had shown no difference.
    Beside,
    /// Steps that were to run at once disturb each other, so that this one ran alone.
    Alone,
    /// Content was not checked, and why.
    Unverified,
    /// Other programs used the GPU.
    Busy,
    /// What arrived is not what was sent. The value is not to be used.
    Corrupt,
    /// It is faster than the machine can be. The value is not to be used.
    Implausible,
    /// This machine has no such path or ability.
    NotApplicable,
    /// The driver refused or failed.
    Failed,
    /// It did not end in time.
    Hung,
}

impl FlagKind {
    /// Whether a step with it needs no value: no machine could give one, or what arrived was wrong, which measuring again would
    /// not change.
    pub(crate) fn settles(self) -> bool {
        matches!(self, Self::NotApplicable | Self::Corrupt)
    }

    /// Whether a cell with it has no usable value.
    pub fn voids(self) -> bool {
        matches!(self, Self::Corrupt | Self::Implausible | Self::NotApplicable | Self::Failed | Self::Hung)
    }
}

/// A remark on a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flag {
    /// Which.
    pub kind: FlagKind,
    /// What exactly, in words.
    pub detail: String,
}

impl Flag {
    /// A flag with its reason.
    pub fn new(kind: FlagKind, detail: impl Into<String>) -> Self {
        Flag { kind, detail: detail.into() }
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

/// A value with the 95 % interval of its median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Median of the samples.
    #[serde(serialize_with = "digits::one")]
    pub value: f64,
    /// Low end of the median's interval.
    #[serde(serialize_with = "digits::one")]
    pub low: f64,
    /// High end.
    #[serde(serialize_with = "digits::one")]
    pub high: f64,
}

impl Estimate {
    /// Whether a rate or a time can be so, with its interval: finite, and not below 0.
    pub fn is_possible(&self) -> bool {
        [self.value, self.low, self.high].iter().all(|v| *v >= 0.0 && v.is_finite())
    }
}

/// What a step of computing and exchanging takes by part, in microseconds; each part was also run without the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Phases {
    /// Computing all of it, bulk and boundary, with nothing exchanged.
    pub update: Estimate,
    /// Computing the boundary alone, in a launch of its own.
    pub boundary: Estimate,
    /// Exchanging the boundary alone. Where the kernel that computes it stores it there, both together.
    pub exchange: Estimate,
    /// What the whole takes beyond its update and, where these do not overlap, its exchange: time in which a GPU waits.
    pub wait: Estimate,
}

/// One number, and how far it can be trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Index of its step among [`Plan::steps`].
    pub step: usize,
    /// Family of the step.
    pub test: Test,
    /// What was done. Its transfers are the cell's.
    pub work: Work,
    /// Bytes a message.
    pub size: Bytes,
    /// What was measured.
    pub quantity: Quantity,
    /// Unit of the value, its interval, `each` and `samples`.
    pub unit: Unit,
    /// The value, of several transfers their sum; absent where a flag states why.
    #[serde(default, skip_serializing_if = "Option::is_none", flatten)]
    pub estimate: Option<Estimate>,
    /// Samples behind the value.
    pub n: usize,
    /// Of several transfers, each one's value, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<Estimate>,
    /// Of a lattice that is cut, what its half-sweeps take by part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Phases>,
    /// Of RDMA with a GPU's memory, how the adapter got at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// Centres of the groups that samples or allocations fall into, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "digits::all")]
    pub modes: Vec<f64>,
    /// What to know of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    /// The samples, in the order in which they were taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "digits::all")]
    pub samples: Vec<f64>,
}

impl Cell {
    /// A cell without a value.
    pub fn void(step: usize, of: &Step, size: Bytes, quantity: Quantity, unit: Unit, flag: Flag) -> Self {
        Cell {
            step,
            test: of.test,
            work: of.work.clone(),
            size,
            quantity,
            unit,
            estimate: None,
            n: 0,
            each: Vec::new(),
            phases: None,
            registration: None,
            modes: Vec::new(),
            flags: vec![flag],
            samples: Vec::new(),
        }
    }

    /// Its value with its interval, unless a flag makes it worthless or no rate and no time can be so.
    pub fn usable(&self) -> Option<Estimate> {
        self.estimate.filter(|e| !self.is_void() && e.is_possible())
    }

    /// Its value, unless a flag makes it worthless.
    pub fn value(&self) -> Option<f64> {
        self.usable().map(|e| e.value)
    }

    /// Whether a flag makes it worthless.
    pub fn is_void(&self) -> bool {
        self.flags.iter().any(|f| f.kind.voids())
    }

    /// The flag of a kind, if it has one.
    pub fn flag(&self, kind: FlagKind) -> Option<&Flag> {
        self.flags.iter().find(|f| f.kind == kind)
    }
}

/// State of one GPU at one moment. What cannot be read is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuState {
    /// Its node's name.
    pub gpu: String,
    /// Temperature in °C.
    pub temperature_c: Option<f64>,
    /// Power in W.
    pub power_w: Option<f64>,
    /// Clock of the multiprocessors in MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory in MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Share of time in which a kernel ran, in %.
    pub utilization: Option<u32>,
    /// Memory that is taken, by anyone.
    pub memory_used: Option<Bytes>,
    /// Other processes that compute on it.
    pub processes: Option<u32>,
    /// Reasons that hold its clocks down, idleness left out.
    #[serde(default)]
    pub clock_event_reasons: Vec<String>,
    /// PCIe replays since the last reset.
    pub pcie_replays: Option<u64>,
}

/// What happens while a plan is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A round begins: its index in the plan.
    Started(usize),
    /// Steps are answered.
    Cells(Vec<Cell>),
    /// State of the GPUs, before the first round and after the last.
    States(Vec<GpuState>),
    /// What counters rose by while steps of one kind ran.
    Counted(Box<Counted>),
    /// All rounds are answered, or the time for them is over; time since the executor was made.
    Finished(Seconds),
}

/// A part of what is done before the first step. Parts overlap where they do not need each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// What is done: `cuInit`, `discovery`.
    pub what: String,
    /// When it began, from the start of the program.
    pub began: Seconds,
    /// When it ended.
    pub ended: Seconds,
}

/// What else could matter for the numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// When the run began, in seconds since 1970 (UTC); 0 where there is no clock, as on a simulated machine.
    pub began: u64,
    /// Host name.
    pub host: Option<String>,
    /// Operating system's kernel.
    pub kernel: Option<String>,
    /// GPU driver.
    pub driver: Option<String>,
    /// Version of CUDA that the driver supports.
    pub cuda: Option<String>,
    /// NCCL's version, where it was used.
    pub nccl: Option<String>,
    /// Files of the libraries that were opened.
    #[serde(default)]
    pub libraries: Vec<String>,
    /// Time to start the driver, make contexts and map peers.
    pub initialisation: Option<Seconds>,
    /// What the program did before the first step, and when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub startup: Vec<Phase>,
    /// GPUs before the first step.
    #[serde(default)]
    pub before: Vec<GpuState>,
    /// GPUs after the last.
    #[serde(default)]
    pub after: Vec<GpuState>,
    /// What was missing or unusual, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Which machine answered, so that it can be rebuilt from the record alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// The TARGET as given: `live`, or the name of a simulated machine.
    pub target: String,
    /// A simulated machine's system file.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lines_if_any")]
    pub system: Option<String>,
    /// What a live machine reported: the texts that `assemble` rebuilds it from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<SourceText>,
}

impl Subject {
    /// A simulated machine: its name, the TARGET as given, and its system file.
    pub fn of_system(name: &str, target: &str, system: &str) -> Self {
        let (name, target, system) = (name.to_owned(), target.to_owned(), Some(system.to_owned()));
        Subject { name, target, system, evidence: Vec::new() }
    }
}

/// A text that a machine printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceText {
    /// What it is called.
    pub name: String,
    /// The text.
    #[serde(deserialize_with = "lines")]
    pub text: String,
}

/// The record of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Names this format.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Of all other bytes of the file, which it was compared with before it was read; absent while it grows.
    #[serde(default, skip_serializing)]
    #[schemars(with = "Option<String>")]
    pub checksum: IgnoredAny,
    /// Version of peerlane that wrote it.
    pub peerlane: String,
    /// Who answered.
    pub machine: Subject,
    /// The machine's nodes, links and classes, as `map --json` writes them; for readers, and derived from `machine`.
    #[schemars(with = "MachineDescription")]
    #[serde(default)]
    pub fabric: serde_json::Value,
    /// What was requested.
    pub plan: Plan,
    /// Under which conditions.
    pub conditions: Conditions,
    /// Wall time from the first step to the last.
    pub wall: Seconds,
    /// False where steps of the plan have no answer yet.
    pub complete: bool,
    /// What counters rose by, by kind of steps, in the order in which they ran; empty where none could be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Counted>,
    /// The answers, in the order in which they came.
    pub cells: Vec<Cell>,
}

impl Run {
    /// A run that has no answer yet. `subject` is what [`Run::machine`] rebuilds `machine` from.
    pub fn new(machine: &Machine, subject: Subject, plan: Plan) -> Self {
        Run {
            checksum: IgnoredAny,
            schema: SCHEMA.to_owned(),
            peerlane: env!("CARGO_PKG_VERSION").to_owned(),
            machine: subject,
            fabric: serde_json::to_value(MachineDescription::of(machine)).unwrap_or_default(),
            plan,
            conditions: Conditions::default(),
            wall: Seconds::new(0.0),
            complete: false,
            counters: Vec::new(),
            cells: Vec::new(),
        }
    }
}
