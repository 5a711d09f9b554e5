//! From a machine's parts and links to the rate of a transfer and what binds it.
//!
//! [`Model`] turns the fabric into resources with capacities, and a [`Transfer`] into a [`Route`]
//! over them; [`crate::solve`] does the rest. `docs/model.md` has the equations, their sources and a worked example.

mod access;
mod assumptions;
mod bfs;
mod class;
mod defaults;
mod exchange;
mod halo;
#[cfg(test)]
mod kernels_tests;
mod latency;
pub mod nccl;
mod nvlink;
mod pcie;
pub mod rdma;
mod resources;
mod route;
mod spin_glass;
mod staging;
mod tcp;
#[cfg(test)]
mod tests;
mod unified;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::solve::{self, Binding, Demand, Problem, ShareError, Solution};
pub use access::{NoPeerAccess, offers_device_access};
pub use assumptions::Assume;
use assumptions::AssumedBundle;
pub use bfs::SearchTime;
pub use class::Class;
pub use exchange::ExchangeTime;
pub use halo::{FastestFrom, HaloAdvice, HaloTime, MethodAdvice, OverlapFrom, halo_advice};
pub use latency::Latency;
use peerlane_machine::fabric::{LinkId, LinkKind, NodeId, NodeKind, PathClass, PcieWidth};
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::units::{Rate, Seconds};
use peerlane_read::catalogue::{Parts, Spread};
use resources::{Built, Carriage, LinkModel, NodeModel};
use route::Planned;
pub use spin_glass::{HalfSweep, Pace, SideAdvice, SpinGlassAdvice, spin_glass_advice, spin_update};
pub use tcp::{TcpEnd, staged_by_tcp};
pub use unified::{UnifiedMemory, UnifiedMethod, UnifiedPass, UnifiedRate, unified_memory};

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
    /// How long it serves one request, in ns, where others queue behind it; 0 where it makes nobody wait.
    pub service: f64,
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
    /// What it asks of [`Model::resources`], in bytes.
    pub demand: Demand,
    /// Its own cap while it is alone, with the reason.
    pub cap: Option<(Rate, String)>,
    /// True where it goes through host memory.
    pub staged: bool,
    /// Of a staged one: what its first piece adds, since the other stage waits for it.
    pub fill: Seconds,
    /// Why it is staged, where peer access was asked for.
    pub staged_because: Option<NoPeerAccess>,
    /// Class of the path.
    pub class: PathClass,
    /// Its hops, in order, with their limits. A staged transfer's lead to host memory and on from it.
    pub hops: Vec<HopLimit>,
}

/// Rate of one transfer among others.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedRate {
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

/// What framing, headers and clock compensation leave of a link's rate at best.
const MOST_OF_LINE: f64 = 0.995;

/// Routes of transfers, their rates in bytes a second, and what binds each.
type Solved = (Vec<Planned>, Vec<f64>, Vec<Binding>);

/// A width that no source states, by what else a source shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedWidth {
    /// The width.
    pub width: PcieWidth,
    /// Whether it explains rates or latencies that were measured, and not only what was usual at the time.
    pub measured: bool,
}

/// Those of a machine's links.
pub type FittedWidths = BTreeMap<LinkId, FittedWidth>;

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
    /// What is taken of links that no source states.
    assume: Assume,
    /// Whether it was taken of any.
    assumes: bool,
    /// Widths that what was measured suggests of links that no source states.
    fitted: Arc<FittedWidths>,
    /// The same machine with all constants at the fast and the slow ends of their ranges.
    ends: OnceCell<Box<[Model<'a>; 2]>>,
}

impl<'a> Model<'a> {
    /// Builds the resources of a machine.
    pub fn new(machine: &'a Machine, parts: &'a Parts) -> Self {
        Self::build(machine, parts, Assume::Nothing, Arc::default())
    }

    /// The same, where links of which no source states the width or generation are taken to be so wide and fast.
    /// [`Model::assumptions`] says which.
    pub fn assuming(machine: &'a Machine, parts: &'a Parts, assume: Assume) -> Self {
        Self::build(machine, parts, assume, Arc::default())
    }

    /// [`Model::assuming`], where these links have these widths; a width that a source states is used all the same.
    pub fn fitted(machine: &'a Machine, parts: &'a Parts, assume: Assume, widths: Arc<FittedWidths>) -> Self {
        Self::build(machine, parts, assume, widths)
    }

    fn build(machine: &'a Machine, parts: &'a Parts, assume: Assume, fitted: Arc<FittedWidths>) -> Self {
        let Built { resources, links, nodes } = resources::build(machine, parts, assume, &fitted);
        let capacities = resources.iter().map(|r| r.capacity.bytes_per_second()).collect();
        let assumes = links.iter().any(|link| match &link.carriage {
            Carriage::Pcie { assumed, .. } => assumed.is_some(),
            Carriage::Bundle(bundle) => bundle.assumed.is_some(),
            _ => false,
        });
        Model { machine, parts, resources, capacities, links, nodes, assume, assumes, fitted, ends: OnceCell::new() }
    }

    /// What was taken to be so in place of links' widths that no source states, in sentences; none unless
    /// [`Model::assuming`] had to.
    pub fn assumptions(&self) -> Vec<String> {
        assumptions::sentences(&self.machine.fabric, &self.links, |_| true)
    }

    /// The same of the links that a route goes over.
    pub fn assumptions_of(&self, route: &Route) -> Vec<String> {
        let fabric = &self.machine.fabric;
        let joins = |link: LinkId, hop: &HopLimit| {
            let link = fabric.link(link);
            [(link.a, link.b), (link.b, link.a)].contains(&(hop.from, hop.to))
        };
        assumptions::sentences(fabric, &self.links, |link| route.hops.iter().any(|hop| joins(link, hop)))
    }

    /// How a transfer runs.
    ///
    /// It has no path where the fabric joins its ends in no way or where one of them is no endpoint; its rate is
    /// unknown where a link on the way is of unknown width, generation or count.
    pub fn route(&self, transfer: &Transfer) -> Result<Route, ModelError> {
        route::plan(self, transfer, true).map(|planned| planned.route)
    }

    /// Rates of transfers that run at once, in their order. Fails for all if one has no rate.
    pub fn solve(&self, transfers: &[Transfer]) -> Result<Vec<SharedRate>, ModelError> {
        let (planned, rates, bindings) = self.solved(transfers, true)?;
        let answers = planned.into_iter().zip(rates.into_iter().zip(bindings));
        Ok(answers.map(|(planned, (rate, binding))| self.answer(planned, rate, binding)).collect())
    }

    /// [`Model::solve`] without words: bytes a second.
    fn rates(&self, transfers: &[Transfer]) -> Result<Vec<f64>, ModelError> {
        self.solved(transfers, false).map(|(_, rates, _)| rates)
    }

    fn solved(&self, transfers: &[Transfer], words: bool) -> Result<Solved, ModelError> {
        let [first, ..] = transfers else { return Ok(Solved::default()) };
        let planned: Vec<Planned> = transfers.iter().map(|t| route::plan(self, t, words)).collect::<Result<_, _>>()?;
        let unknown = |t: &Transfer, why: String| {
            let name = |n: NodeId| self.machine.fabric.node(n).name.clone();
            ModelError::Unknown { from: name(t.source), to: name(t.destination), why }
        };
        for (transfer, Planned { route, .. }) in transfers.iter().zip(&planned) {
            if route.demand.uses.is_empty() && route.cap.is_none() {
                return Err(unknown(transfer, "no part on the way has a known rate".to_owned()));
            }
        }
        // only constants of a part that are out of all proportion get here
        let solution = self.problem(planned.iter().map(|p| &p.route.demand)).solve().map_err(|e| match e {
            ShareError::Flow(i, _) => unknown(transfers.get(i).unwrap_or(first), e.to_string()),
            ShareError::Capacity(..) => unknown(first, e.to_string()),
        })?;
        let Solution { rates, bindings, .. } = solution;
        Ok((planned, rates, bindings))
    }

    /// The problem that transfers pose which run at once. The one place that makes one of a machine.
    pub fn problem<'d>(&self, demands: impl IntoIterator<Item = &'d Demand> + Clone) -> Problem {
        Problem::of(demands, |r| self.resource(r))
    }

    /// A resource as it is solved for.
    pub(crate) fn resource(&self, number: usize) -> solve::Resource {
        let service = self.resources.get(number).map_or(0.0, |r| r.service);
        solve::Resource { capacity: self.capacities.get(number).copied().unwrap_or(f64::INFINITY), service }
    }

    /// The same machine with all constants at the fast ends of their ranges, and at the slow ones.
    pub fn ends(&self) -> [&Model<'a>; 2] {
        let ends = self.ends.get_or_init(|| {
            let [fast, slow] = [self.parts.fast(), self.parts.slow()];
            Box::new([fast, slow].map(|parts| Model::build(self.machine, parts, self.assume, Arc::clone(&self.fitted))))
        });
        [&ends[0], &ends[1]]
    }

    /// The least and the most that each transfer's rate may be, by the ranges of all constants.
    ///
    /// Fails as [`Model::solve`] does.
    pub fn interval(&self, transfers: &[Transfer]) -> Result<Vec<[Rate; 2]>, ModelError> {
        self.around(transfers, &self.rates(transfers)?)
    }

    /// [`Model::solve`] and [`Model::interval`] at once.
    pub fn solve_with_interval(&self, transfers: &[Transfer]) -> Result<Vec<(SharedRate, [Rate; 2])>, ModelError> {
        let answers = self.solve(transfers)?;
        let rates: Vec<f64> = answers.iter().map(|a| a.rate.bytes_per_second()).collect();
        Ok(answers.into_iter().zip(self.around(transfers, &rates)?).collect())
    }

    /// The intervals around these rates.
    fn around(&self, transfers: &[Transfer], rates: &[f64]) -> Result<Vec<[Rate; 2]>, ModelError> {
        let [fast, slow] = self.ends();
        let (slow, fast) = (slow.rates(transfers)?, fast.rates(transfers)?);
        let spread = self.spread_of(transfers);
        let around = |((transfer, rate), (slow, fast)): ((&Transfer, &f64), (&f64, &f64))| {
            let [low, high] = [rate.min(slow.min(*fast)), rate.max(slow.max(*fast))];
            // the spread is one of links that are known: what a link may be instead is not multiplied by it
            let [fewer, more] = self.width_shares(transfer);
            let (fewer, more) = ((low / rate).clamp(fewer, 1.0), (high / rate).clamp(1.0, more));
            let [least, most] = spread.around(*rate, [low / fewer, high / more]);
            let [least, most] = [least * fewer, most * more];
            // no spread carries a transfer beyond what its links signal
            let wider = most > high;
            let most = if wider { most.min(high.max(MOST_OF_LINE * self.line_rate_of(transfer))) } else { most };
            [least, most].map(Rate::from_bytes_per_second)
        };
        let rates = transfers.iter().zip(rates);
        Ok(rates.zip(slow.iter().zip(&fast)).map(around).collect())
    }

    /// How far measured numbers of such transfers at once lie from predictions.
    fn spread_of(&self, transfers: &[Transfer]) -> Spread {
        let class = match transfers {
            [one] => self.class_of(one, false),
            [one, other] if one.source == other.destination && one.destination == other.source => {
                self.class_of(one, true)
            }
            _ => Some(Class::Concurrent),
        };
        if class == Some(Class::RdmaGpu) && transfers.iter().any(|t| self.within_stated_range(t)) {
            return Spread::default();
        }
        let spread = class.map_or_else(Spread::default, |class| self.parts.spreads().of(class.name()));
        // spreads are of machines whose links and parts are known
        let node = |id: NodeId| self.machine.fabric.node(id);
        let known = |id: NodeId| match node(id).kind {
            NodeKind::Gpu => node(id).part.is_some(),
            // none of their rates has been compared with a measurement
            NodeKind::Nvme | NodeKind::Fpga => false,
            _ => true,
        };
        let known = transfers.iter().all(|t| known(t.source) && known(t.destination));
        if known && !self.assumes { spread } else { spread.at_least_whole() }
    }

    /// The least and the most that the links on the way may carry of what is assumed of them, as shares of it.
    fn width_shares(&self, transfer: &Transfer) -> [f64; 2] {
        let path = self.machine.fabric.path(transfer.source, transfer.destination);
        let hops = path.iter().flat_map(|path| &path.hops);
        let assumed = hops.filter_map(|hop| match &self.links[hop.link.index()].carriage {
            Carriage::Pcie { assumed, .. } => assumed.as_ref(),
            _ => None,
        });
        assumed.fold([1.0, 1.0], |[least, most], width| {
            let [fewer, more] = width.shares();
            [least.min(fewer), most.max(more)]
        })
    }

    /// Whether a NIC's transfer goes through what parts give as a wide range, which no spread of other machines narrows.
    fn within_stated_range(&self, transfer: &Transfer) -> bool {
        let path = self.machine.fabric.path(transfer.source, transfer.destination);
        path.is_some_and(|path| {
            path.hops.iter().any(|hop| {
                let socket =
                    matches!(&self.links[hop.link.index()].carriage, Carriage::Smp(smp) if smp.nic_rate.is_some());
                socket || self.nodes[hop.from.index()].engines.peer_reads_assumed
            })
        })
    }

    /// Bytes a second of the slowest thing that a transfer uses, before any loss; none where that is not known.
    fn line_rate_of(&self, transfer: &Transfer) -> f64 {
        let Ok(planned) = route::plan(self, transfer, false) else { return 0.0 };
        // what kernels read is no line
        let kernels = self.nodes[transfer.destination.index()].kernel_reads;
        let used = planned.route.demand.uses.iter().map(|(resource, _)| *resource).filter(|r| Some(*r) != kernels);
        used.filter_map(|resource| self.capacities.get(resource).copied()).reduce(f64::min).unwrap_or(0.0)
    }

    fn answer(&self, planned: Planned, rate: f64, binding: Binding) -> SharedRate {
        let Planned { route, labels } = planned;
        let (bottleneck, link) = match binding {
            Binding::Resource(r) => {
                let label =
                    route.demand.uses.iter().zip(labels).find(|((used, _), _)| *used == r).map(|(_, label)| label);
                (label.unwrap_or_else(|| self.resources[r].name.clone()), self.resources[r].link)
            }
            Binding::Cap => (route.cap.map_or_else(String::new, |(_, why)| why), None),
            Binding::Nothing => (String::new(), None),
        };
        SharedRate { rate: Rate::from_bytes_per_second(rate), bottleneck, link }
    }

    /// The machine with what this model assumes of its links, widths and generations, written into them, and with the sentences that
    /// state it among its assumptions: what commands use that build on the machine alone.
    pub fn assumed_machine(&self) -> Machine {
        let fabric = &self.machine.fabric;
        let mut machine = self.machine.clone();
        if !self.assumes {
            return machine;
        }
        let mut builder = fabric.clone().into_builder();
        for (id, link) in fabric.link_ids().zip(&self.links) {
            let kind = &mut builder.link_mut(id).kind;
            match (&link.carriage, kind) {
                (Carriage::Pcie { assumed: Some(width), .. }, LinkKind::Pcie { running, allowed, .. }) => {
                    (*running, *allowed) = (width.width, width.width);
                }
                (Carriage::Bundle(bundle), LinkKind::Gpu(link)) => match bundle.assumed {
                    Some(AssumedBundle::Generation(generation)) => link.generation = Some(generation),
                    Some(AssumedBundle::OneLink(_)) => link.links = Some(1),
                    None => {}
                },
                _ => {}
            }
        }
        if let Ok(fabric) = builder.build() {
            machine.fabric = fabric;
            let open = |sentence: &String| !self.machine.assumptions.contains(sentence);
            machine.assumptions.extend(self.assumptions().into_iter().filter(open));
        }
        machine
    }

    /// What a PCIe link runs at, and whether that is assumed; `None` where it is not known, and of other links.
    pub fn width_of(&self, link: LinkId) -> Option<(PcieWidth, bool)> {
        match &self.links.get(link.index())?.carriage {
            Carriage::Pcie { generation, lanes, assumed, .. } => {
                Some((PcieWidth::new(*generation, *lanes), assumed.is_some()))
            }
            _ => None,
        }
    }

    /// A link with what it is: `GPU0–plx0, PCIe 3.0 x16`.
    pub fn described(&self, link: LinkId) -> String {
        let words = match &self.links[link.index()].carriage {
            Carriage::Pcie { words, .. } => words,
            Carriage::Bundle(bundle) => &bundle.words,
            Carriage::Smp(smp) => &smp.words,
            Carriage::Inside(_) | Carriage::Unknown(_) => return self.name_of(link),
        };
        format!("{}, {words}", self.name_of(link))
    }

    fn name_of(&self, link: LinkId) -> String {
        resources::link_name(&self.machine.fabric, link)
    }
}
