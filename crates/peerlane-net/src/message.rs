//! What head and agents say to each other.

use std::net::IpAddr;

use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{self, Failure};
use peerlane_measure::nodes::{Node, Step};
use peerlane_measure::run::{FlagKind, Rise};
use serde::{Deserialize, Serialize};

use crate::transport::Part;

/// The version that must be the same on all nodes.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// From the head to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToAgent {
    /// The head runs.
    Alive,
    /// All have come. The agent is reached by others at this address.
    Start { address: IpAddr },
    /// It cannot take part, or nobody can.
    Refused(String),
    /// Nothing more to do.
    Done,
    /// Make this node's side of a step.
    Prepare { id: u64, step: Box<Step>, part: Part },
    /// Connect it to the other side.
    Connect { id: u64, peer: String },
    /// Take samples, or serve them.
    Run { id: u64, samples: usize, time: Seconds },
    /// The samples are taken; compare what arrived, if this side received.
    Finish { id: u64, verify: bool },
    /// Give the step up.
    Drop { id: u64 },
    /// Say what this node's ports counted of errors since it joined, or was asked last.
    Count,
}

/// From an agent to the head.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToHead {
    /// The agent runs.
    Alive,
    /// The first message.
    Hello(Box<Hello>),
    /// This node's side of a step exists.
    Prepared { id: u64, address: String },
    /// It is connected.
    Connected { id: u64 },
    /// The active side's samples.
    Sampled { id: u64, values: Vec<f64> },
    /// What comparing showed.
    Verified { id: u64, verdict: Verdict },
    /// What ports counted: their names, and what rose.
    Counted { ports: Vec<String>, errors: Vec<Rise> },
    /// The step cannot be measured.
    Failed { id: u64, kind: FlagKind, message: String },
}

/// Who an agent is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: String,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// Absent of a process beside another one of its node, which only shows that it was started.
    pub(crate) node: Option<Node>,
}

/// [`measure::Verdict`], as it travels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Verdict {
    Intact,
    Corrupt(String),
    Unverified(String),
}

impl From<measure::Verdict> for Verdict {
    fn from(verdict: measure::Verdict) -> Self {
        match verdict {
            measure::Verdict::Intact => Verdict::Intact,
            measure::Verdict::Corrupt(how) => Verdict::Corrupt(how),
            measure::Verdict::Unverified(why) => Verdict::Unverified(why),
        }
    }
}

impl From<Verdict> for measure::Verdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Intact => measure::Verdict::Intact,
            Verdict::Corrupt(how) => measure::Verdict::Corrupt(how),
            Verdict::Unverified(why) => measure::Verdict::Unverified(why),
        }
    }
}

impl ToHead {
    pub(crate) fn failed(id: u64, failure: Failure) -> Self {
        ToHead::Failed { id, kind: failure.kind, message: failure.message }
    }
}
