//! From a machine's parts and links to the rate of a transfer and what binds it.
//!
//! [`Model`] turns the fabric into resources with capacities, and a [`Transfer`] into a [`Route`]
//! over them; [`crate::share`] does the rest.

use crate::catalogue::Parts;
use crate::evidence::{Engine, Operation};
use crate::fabric::{LinkId, NodeId, PathClass};
use crate::machine::Machine;
use crate::units::Rate;

/// Whether a transfer between GPUs may go directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerAccess {
    /// Directly where the machine allows it, else staged: what the CUDA driver does with peer access asked for.
    Enabled,
    /// Through host memory, as the driver does without peer access.
    Disabled,
}

/// Data to be moved from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// Where the data is: a GPU, a NIC or host memory.
    pub source: NodeId,
    /// Where it goes.
    pub destination: NodeId,
    /// What drives it.
    pub engine: Engine,
    /// Whether the initiator pushes or pulls.
    pub op: Operation,
    /// Whether it may go directly.
    pub peer: PeerAccess,
}

/// Something of finite capacity that transfers share.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Name for people: `GPU0–plx0, PCIe 3.0 x1, towards plx0`.
    pub name: String,
    /// Capacity.
    pub capacity: Rate,
    /// Why the capacity is what it is: the equation, the constant, its source.
    pub why: String,
    /// The link it belongs to, if to one.
    pub link: Option<LinkId>,
    /// The node it belongs to, if to one.
    pub node: Option<NodeId>,
}

/// What one hop of a route allows.
#[derive(Clone, Debug, PartialEq)]
pub struct HopLimit {
    /// Where the hop starts.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// The most a lone transfer gets through it; `None` where the model knows no limit.
    pub limit: Option<Rate>,
    /// Why, in words.
    pub why: String,
}

/// How a transfer runs: what it consumes, and its own limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// `(index into [`Model::resources`], consumption per byte)`.
    pub uses: Vec<(usize, f64)>,
    /// Share relative to others.
    pub weight: f64,
    /// Its own cap, with the reason.
    pub cap: Option<(Rate, String)>,
    /// True where it goes through host memory.
    pub staged: bool,
    /// Why it is staged, where peer access was asked for.
    pub staged_because: Option<String>,
    /// Class of the path.
    pub class: PathClass,
    /// Its hops, in order, with their limits. A staged transfer's lead to host memory and on from it.
    pub hops: Vec<HopLimit>,
}

/// Rate of one transfer among others.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Its rate.
    pub rate: Rate,
    /// What binds it, for people.
    pub bottleneck: String,
    /// The link that binds it, if one does.
    pub link: Option<LinkId>,
}

/// Why a transfer has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The fabric knows no way.
    #[error("no path is known from {0} to {1}")]
    NoPath(String, String),
    /// A width or part on the way is unknown, so that no rate follows.
    #[error("the rate from {from} to {to} is unknown: {why}")]
    Unknown {
        /// Source.
        from: String,
        /// Destination.
        to: String,
        /// What is not known.
        why: String,
    },
}

/// Resources of one machine, and how transfers use them.
pub struct Model<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Where constants come from.
    pub parts: &'a Parts,
    /// All resources.
    pub resources: Vec<Resource>,
}

impl<'a> Model<'a> {
    /// Builds the resources of a machine.
    pub fn new(machine: &'a Machine, parts: &'a Parts) -> Self {
        Model { machine, parts, resources: Vec::new() }
    }

    /// How a transfer runs.
    pub fn route(&self, transfer: &Transfer) -> Result<Route, ModelError> {
        let name = |n| self.machine.fabric.node(n).name.clone();
        Err(ModelError::NoPath(name(transfer.source), name(transfer.destination)))
    }

    /// Rates of transfers that run at once.
    pub fn solve(&self, transfers: &[Transfer]) -> Result<Vec<Answer>, ModelError> {
        transfers
            .iter()
            .map(|t| self.route(t).map(|_| Answer { rate: Rate::ZERO, bottleneck: String::new(), link: None }))
            .collect()
    }
}
