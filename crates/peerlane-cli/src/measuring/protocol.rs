//! What this process and its worker say to each other: one line with a request, then one line a message. Where
//! more plans are announced, each is a line too, and each answer ends with [`Event::Finished`].

use std::collections::BTreeSet;

use peerlane::plan::Plan;
use peerlane::run::{Conditions, Event, FlagKind};
use peerlane_gpu::{GpuName, Tolerated};
use serde::{Deserialize, Serialize};

/// What a worker is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Who is to answer.
    pub(crate) device: Device,
    /// What.
    pub(crate) plan: Plan,
    /// Steps that are not to be answered (indices into [`Plan::steps`]).
    pub(crate) done: BTreeSet<usize>,
    /// Who may use the GPUs beside it.
    pub(crate) tolerated: Tolerated,
    /// More plans follow, a line each, when this one is answered.
    pub(crate) more: bool,
}

/// Something that can be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Device {
    /// A virtual machine, by its name and its system file's text.
    Virtual {
        /// The TARGET.
        name: String,
        /// The text.
        system: String,
    },
    /// GPUs of this machine.
    Live {
        /// Which.
        gpus: Vec<GpuName>,
    },
}

/// What a worker says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// What is known of the machine: first when it is open and about to be measured, then at the end.
    Conditions(Box<Conditions>),
    /// The machine cannot be opened.
    Refused(Refused),
    /// One call into the machine has come back.
    Alive,
    /// Something happened.
    Event(Event),
    /// It can do nothing more: its driver's state is spoilt.
    Spoilt {
        /// [`FlagKind::Failed`] or [`FlagKind::Hung`].
        kind: FlagKind,
        /// What happened.
        message: String,
    },
}

/// Why a machine cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refused {
    /// The GPUs that are at fault, where it is some; the others may be worth trying.
    pub(crate) gpus: Vec<String>,
    /// What the steps are that need them.
    pub(crate) kind: FlagKind,
    /// The reason, in a line.
    pub(crate) reason: String,
}

impl Refused {
    /// The machine as a whole.
    pub(crate) fn whole(reason: String) -> Self {
        Refused { gpus: Vec::new(), kind: FlagKind::Failed, reason }
    }
}
