//! The protocol between this process and its worker: one line with a request, then one line per message. If more plans
//! are announced, each is one line, and the events of each end with [`Event::Finished`].

use std::collections::{BTreeMap, BTreeSet};

use peerlane::collectives::Variables;
use peerlane::plan::Plan;
use peerlane::run::{Conditions, Event, FlagKind};
use peerlane_gpu::{GpuName, Tolerated};
use serde::{Deserialize, Serialize};

/// The line before a request that is not known yet: the worker starts the driver and NVML meanwhile.
pub(crate) const AHEAD: &str = "ahead";

/// A request to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The machine to measure.
    pub(crate) device: Device,
    /// What.
    pub(crate) plan: Plan,
    /// Steps to skip (indices into [`Plan::steps`]).
    pub(crate) done: BTreeSet<usize>,
    /// Who may use the GPUs beside it.
    pub(crate) tolerated: Tolerated,
    /// NCCL's variables for this process, where they are not those of this program.
    #[serde(default)]
    pub(crate) trial: Option<Trial>,
    /// More plans follow, one line each, when this one is done.
    pub(crate) more: bool,
    /// The worker ends before the next step as soon as others use the GPUs, so that no job is disturbed.
    #[serde(default)]
    pub(crate) yields: bool,
    /// Counters are read before the first plan and at one without steps only, not between kinds of steps: with eight GPUs a reading
    /// takes about a tenth of a second.
    #[serde(default)]
    pub(crate) counts_once: bool,
}

/// One process of an experiment with NCCL's variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// All of NCCL's variables that the process has.
    pub(crate) variables: Variables,
    /// Its number among repetitions.
    pub(crate) repetition: usize,
}

/// Something that can be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Device {
    /// A simulated machine, by its name and the text of its system file.
    Virtual {
        /// The TARGET.
        name: String,
        /// The text.
        system: String,
    },
    /// The GPUs and NICs of this machine.
    Live {
        /// Which.
        gpus: Vec<GpuName>,
        /// Names that libibverbs has for its NICs, by those of the plan.
        #[serde(default)]
        nics: BTreeMap<String, String>,
    },
}

/// A message from a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// What is known about the machine: first when it is open and about to be measured, then at the end.
    Conditions(Box<Conditions>),
    /// The machine cannot be opened.
    Refused(Refused),
    /// One call into the machine has returned.
    Alive,
    /// An event of the measurement.
    Event(Event),
    /// The driver's state is corrupted, so the worker ends.
    Corrupted {
        /// [`FlagKind::Failed`] or [`FlagKind::Hung`].
        kind: FlagKind,
        /// What happened.
        message: String,
    },
}

/// Why a machine cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refused {
    /// The GPUs at fault, if known; the others may be worth trying.
    pub(crate) gpus: Vec<String>,
    /// The flag for the steps that need them.
    pub(crate) kind: FlagKind,
    /// The reason, in a line.
    pub(crate) reason: String,
}

impl Refused {
    /// The whole machine.
    pub(crate) fn whole(reason: String) -> Self {
        Refused { gpus: Vec::new(), kind: FlagKind::Failed, reason }
    }
}
