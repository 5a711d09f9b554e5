//! From a machine's parts and links to the rate of a transfer and what binds it.
//!
//! [`Model`] turns the fabric into resources with capacities, and a [`Transfer`] into a [`Route`]
//! over them; [`crate::share`] does the rest. `docs/model.md` has the equations, their sources and a worked example.

mod defaults;
mod nvlink;
mod pcie;
pub mod rdma;
mod resources;
mod route;
mod staging;
#[cfg(test)]
mod tests;

use crate::catalogue::Parts;
use crate::evidence::{Engine, Operation};
use crate::fabric::{LinkId, NodeId, PathClass};
use crate::machine::Machine;
use crate::share::{Binding, Flow, ShareError, share};
use crate::units::Rate;
use resources::{Built, LinkModel, NodeModel};
use route::Planned;

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
    /// Their capacities in bytes a second.
    capacities: Vec<f64>,
    links: Vec<LinkModel>,
    nodes: Vec<NodeModel>,
}

impl<'a> Model<'a> {
    /// Builds the resources of a machine.
    pub fn new(machine: &'a Machine, parts: &'a Parts) -> Self {
        let Built { resources, links, nodes } = resources::build(machine, parts);
        let capacities = resources.iter().map(|r| r.capacity.bytes_per_second()).collect();
        Model { machine, parts, resources, capacities, links, nodes }
    }

    /// How a transfer runs.
    ///
    /// It has no path where the fabric joins its ends in no way or where one of them is no endpoint; its rate is
    /// unknown where a link on the way is of unknown width, generation or count.
    pub fn route(&self, transfer: &Transfer) -> Result<Route, ModelError> {
        route::plan(self, transfer).map(|planned| planned.route)
    }

    /// Rates of transfers that run at once, in their order. Fails for all if one has no rate.
    pub fn solve(&self, transfers: &[Transfer]) -> Result<Vec<Answer>, ModelError> {
        let [first, ..] = transfers else { return Ok(Vec::new()) };
        let planned: Vec<Planned> = transfers.iter().map(|t| route::plan(self, t)).collect::<Result<_, _>>()?;
        let unknown = |t: &Transfer, why: String| {
            let name = |n: NodeId| self.machine.fabric.node(n).name.clone();
            ModelError::Unknown { from: name(t.source), to: name(t.destination), why }
        };
        // a few transfers use few of a large machine's resources
        let mut used: Vec<usize> = planned.iter().flat_map(|p| p.route.uses.iter().map(|(r, _)| *r)).collect();
        used.sort_unstable();
        used.dedup();
        let capacities: Vec<f64> = used.iter().filter_map(|r| self.capacities.get(*r).copied()).collect();
        let mut flows = Vec::with_capacity(planned.len());
        for (transfer, Planned { route, .. }) in transfers.iter().zip(&planned) {
            let cap = route.cap.as_ref().map_or(f64::INFINITY, |(rate, _)| rate.bytes_per_second());
            if route.uses.is_empty() && cap.is_infinite() {
                return Err(unknown(transfer, "no part on the way has a known rate".to_owned()));
            }
            let uses = route.uses.iter().filter_map(|&(r, per_byte)| Some((used.binary_search(&r).ok()?, per_byte)));
            flows.push(Flow { uses: uses.collect(), weight: route.weight, cap });
        }
        // only constants of a part that are out of all proportion get here
        let allocation = share(&capacities, &flows).map_err(|e| match e {
            ShareError::Flow(i, _) => unknown(transfers.get(i).unwrap_or(first), e.to_string()),
            ShareError::Capacity(..) => unknown(first, e.to_string()),
        })?;
        let answers = planned.into_iter().zip(allocation.rates.into_iter().zip(allocation.bindings));
        let of_machine = |binding| match binding {
            Binding::Resource(r) => used.get(r).map_or(Binding::Nothing, |r| Binding::Resource(*r)),
            other => other,
        };
        Ok(answers.map(|(planned, (rate, binding))| self.answer(planned, rate, of_machine(binding))).collect())
    }

    fn answer(&self, planned: Planned, rate: f64, binding: Binding) -> Answer {
        let Planned { route, labels } = planned;
        let (bottleneck, link) = match binding {
            Binding::Resource(r) => {
                let label = route.uses.iter().zip(labels).find(|((used, _), _)| *used == r).map(|(_, label)| label);
                (label.unwrap_or_else(|| self.resources[r].name.clone()), self.resources[r].link)
            }
            Binding::Cap => (route.cap.map_or_else(String::new, |(_, why)| why), None),
            Binding::Nothing => (String::new(), None),
        };
        Answer { rate: Rate::from_bytes_per_second(rate), bottleneck, link }
    }

    fn name_of(&self, link: LinkId) -> String {
        resources::link_name(&self.machine.fabric, link)
    }
}
