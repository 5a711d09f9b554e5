//! Workloads: what a name such as `all-reduce:ring` means, as a [`Program`] for a cluster and a size.

mod bfs;
mod collectives;
mod halo;
mod pipelined;
mod sizes;
mod spin_glass;
mod trace;

use std::fmt;
use std::str::FromStr;

use super::SimulateError;
use super::long_rings::LongRings;
use super::model_step::Step;
use super::node_rings::NodeRings;
use super::program::Program;
use super::weak_strong::Scaling;
use crate::cluster::{Cluster, Router, Via};
use peerlane_machine::fabric::NoMethod;
use peerlane_machine::matrix::Engine;
use peerlane_machine::names::closest;
use peerlane_machine::transfer::Collective;
use peerlane_model::collectives::{Choice, NoChoice, Rings};
use peerlane_model::flows::{Flows, interchangeable};

pub use bfs::Bfs;
pub(super) use collectives::MOST_PAIRS;
pub(super) use pipelined::Pipelined;
pub use sizes::{NoSizes, Sizes};
pub use spin_glass::{Messages, SpinGlass};
pub use trace::read_trace;

/// The schedule of an all-reduce: which transfers it makes, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Around the best rings: of one machine those that carry most together; of several nodes one a NIC, in the order of the
    /// best ring within each.
    Ring,
    /// Around rings in the order of the GPUs' numbers: of one machine one ring, of several nodes one a NIC.
    RingByNumber,
    /// Up and down two binary trees of nodes, each with half of the data, in chunks.
    Tree,
    /// To one GPU of each node, around a ring of these, and back.
    Hierarchical,
    /// Scattered within each node, around rings of GPUs with the same place in their node, and gathered again.
    Rail,
}

/// What an all-to-all takes beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Costs {
    /// What NCCL or RCCL takes, with the peer access that it uses.
    Library,
    /// Nothing: the schedule alone.
    Schedule,
}

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// One message, and its way.
    PointToPoint(String, String, Via),
    /// A collective as NCCL or RCCL does it, by its own choice or by one made for it.
    Library(Collective, Choice),
    /// Every GPU gets the sum of all, by this schedule alone.
    AllReduce(Algorithm),
    /// Every GPU gets the parts of all, around rings.
    AllGather,
    /// Every GPU gets its part of the sum, around rings.
    ReduceScatter,
    /// Every GPU has a part for every other.
    AllToAll(Costs),
    /// Every GPU gets what the first has, around rings and in chunks.
    Broadcast,
    /// Every GPU sends to both neighbours along so many dimensions of a periodic grid.
    Halo(u32),
    /// The Heisenberg spin glass.
    SpinGlass(SpinGlass),
    /// Breadth-first search of an R-MAT graph.
    Bfs(Bfs),
    /// A step of a model.
    Step(Step),
}

/// What may be written for a workload.
pub const WORKLOADS: &str = "point-to-point:A:B[:METHOD|loopback] (METHOD: nvp2p, bar1, staged or staged:chunk=256K,depth=4), all-reduce, all-gather, reduce-scatter, broadcast (each as NCCL or RCCL does it; or with :ring+ll128, :tree+simple, :nvls … \
     by that algorithm and protocol), all-to-all (as they do it), all-reduce:ring|ring-by-number|tree|hierarchical|rail, all-gather:ring, reduce-scatter:ring, \
     broadcast:ring, all-to-all:pairs (the schedule alone), halo:1, halo:2, halo:3, spin-glass[:…], bfs[:…], training[:…], decode:…, prefill:…, serve:…, or a file of transfers (.jsonl)";

/// The first words of [`WORKLOADS`].
const NAMES: [&str; 13] = [
    "point-to-point",
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "broadcast",
    "all-to-all",
    "halo",
    "spin-glass",
    "bfs",
    "training",
    "decode",
    "prefill",
    "serve",
];

impl FromStr for Workload {
    type Err = SimulateError;

    fn from_str(text: &str) -> Result<Self, SimulateError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "spin-glass" => return SpinGlass::read(rest).map(Workload::SpinGlass),
            "bfs" => return Bfs::read(rest).map(Workload::Bfs),
            _ => {}
        }
        if let Some(step) = Step::read(name, rest) {
            return step.map(Workload::Step);
        }
        let words: Vec<&str> = text.split(':').collect();
        Ok(match words.as_slice() {
            ["point-to-point", a, b, by @ ..] => {
                let via = match by {
                    [] => Via::Direct,
                    ["loopback"] => Via::Card,
                    _ => Via::By(
                        by.join(":")
                            .parse()
                            .map_err(|e: NoMethod| SimulateError::Workload(format!("'{text}': {e}, or loopback")))?,
                    ),
                };
                Workload::PointToPoint((*a).to_owned(), (*b).to_owned(), via)
            }
            ["all-reduce", "ring"] => Workload::AllReduce(Algorithm::Ring),
            ["all-reduce", "ring-by-number"] => Workload::AllReduce(Algorithm::RingByNumber),
            ["all-reduce", "tree"] => Workload::AllReduce(Algorithm::Tree),
            ["all-reduce", "hierarchical"] => Workload::AllReduce(Algorithm::Hierarchical),
            ["all-reduce", "rail"] => Workload::AllReduce(Algorithm::Rail),
            ["all-gather", "ring"] => Workload::AllGather,
            ["reduce-scatter", "ring"] => Workload::ReduceScatter,
            ["all-to-all"] => Workload::AllToAll(Costs::Library),
            ["all-to-all", "pairs"] => Workload::AllToAll(Costs::Schedule),
            ["broadcast", "ring"] => Workload::Broadcast,
            [name] if library(name).is_some() => {
                Workload::Library(library(name).unwrap_or(Collective::AllReduce), Choice::FREE)
            }
            [name, choice] if library(name).is_some() && is_choice(choice) => {
                let refused = |e: NoChoice| SimulateError::Workload(format!("'{text}': {e}; or there are {WORKLOADS}"));
                let choice: Choice = choice.parse().map_err(refused)?;
                let collective = library(name).unwrap_or(Collective::AllReduce);
                if let Some(algorithm) = choice.algorithm.filter(|algorithm| !algorithm.does(collective)) {
                    return Err(SimulateError::Workload(format!("'{text}': {algorithm} does no {name}")));
                }
                Workload::Library(collective, choice)
            }
            ["halo", "1"] => Workload::Halo(1),
            ["halo", "2"] => Workload::Halo(2),
            ["halo", "3"] => Workload::Halo(3),
            _ => {
                let name = text.split(':').next().unwrap_or(text);
                let near = closest(name, NAMES.into_iter().filter(|known| *known != name));
                let instead = match near.as_slice() {
                    [] => format!("there are {WORKLOADS}"),
                    near => format!("did you mean {}?", near.join(" or ")),
                };
                return Err(SimulateError::Workload(format!("'{text}': no such workload; {instead}")));
            }
        })
    }
}

/// Whether a word is meant as an algorithm of a library's: with a protocol, or one of those that need none.
fn is_choice(word: &str) -> bool {
    word.contains('+') || word.parse::<Choice>().is_ok_and(|choice| choice.to_string() == word)
}

/// The collective of a library by this name.
fn library(name: &str) -> Option<Collective> {
    let all = [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::Broadcast];
    all.into_iter().find(|collective| collective.name() == name)
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::PointToPoint(a, b, via) => {
                let via = match via {
                    Via::Direct => String::new(),
                    Via::By(method) => format!(":{}", method.written()),
                    Via::Card => ":loopback".to_owned(),
                    Via::Nic(nic) => format!(":nic{nic}"),
                };
                write!(f, "point-to-point:{a}:{b}{via}")
            }
            Workload::AllReduce(Algorithm::Ring) => f.write_str("all-reduce:ring"),
            Workload::AllReduce(Algorithm::RingByNumber) => f.write_str("all-reduce:ring-by-number"),
            Workload::AllReduce(Algorithm::Tree) => f.write_str("all-reduce:tree"),
            Workload::AllReduce(Algorithm::Hierarchical) => f.write_str("all-reduce:hierarchical"),
            Workload::AllReduce(Algorithm::Rail) => f.write_str("all-reduce:rail"),
            Workload::Library(collective, Choice::FREE) => f.write_str(collective.name()),
            Workload::Library(collective, choice) => write!(f, "{}:{choice}", collective.name()),
            Workload::AllGather => f.write_str("all-gather:ring"),
            Workload::ReduceScatter => f.write_str("reduce-scatter:ring"),
            Workload::AllToAll(Costs::Library) => f.write_str("all-to-all"),
            Workload::AllToAll(Costs::Schedule) => f.write_str("all-to-all:pairs"),
            Workload::Broadcast => f.write_str("broadcast:ring"),
            Workload::Halo(d) => write!(f, "halo:{d}"),
            Workload::SpinGlass(run) => f.write_str(&run.words()),
            Workload::Bfs(search) => f.write_str(&search.words()),
            Workload::Step(step) => f.write_str(&step.words()),
        }
    }
}

impl Workload {
    /// Whether it is done with a size; others have their own.
    pub fn is_sized(&self) -> bool {
        !matches!(self, Workload::SpinGlass(_) | Workload::Bfs(_) | Workload::Step(_))
    }

    /// The rings over a node's GPUs that it goes around; `None` where it goes around none, or a rate is not known.
    pub(super) fn rings(&self, cluster: &Cluster, router: &Router) -> Option<NodeRings> {
        let by_number = match self {
            Workload::AllReduce(algorithm) => *algorithm == Algorithm::RingByNumber,
            Workload::AllGather | Workload::ReduceScatter | Workload::Broadcast => false,
            _ => return None,
        };
        // NCCL's rings are driven by kernels
        let flows = Flows::new(router.model(), Engine::Sm);
        let gpus: Vec<usize> = (0..cluster.gpus().len()).collect();
        let rings = if by_number {
            Rings::in_order(&flows, &gpus)
        } else {
            Rings::best(&flows, &gpus, &interchangeable(&flows))
        };
        rings.map(|rings| NodeRings { named: rings.named(&flows), rings })
    }

    /// What it does on a cluster with so many bytes: of a collective, what nccl-tests calls its size (the larger of what a
    /// GPU gives and gets); of a message, its own; of a halo exchange, that of one face.
    pub fn program(&self, cluster: &Cluster, router: &Router, size: f64) -> Result<Program, SimulateError> {
        self.around(cluster, router, self.rings(cluster, router).as_ref(), size, false)
    }

    /// The same, but what every node does within itself is listed for the first only ([`Round::alike`]).
    ///
    /// [`Round::alike`]: super::program::Round::alike
    pub fn reduced(&self, cluster: &Cluster, router: &Router, size: f64) -> Result<Program, SimulateError> {
        self.around(cluster, router, self.rings(cluster, router).as_ref(), size, true)
    }

    /// The rings that it goes around and nothing else, where it does.
    pub(super) fn long_rings(
        &self,
        cluster: &Cluster,
        router: &Router,
        rings: Option<&NodeRings>,
    ) -> Option<LongRings> {
        let turns = match self {
            Workload::AllReduce(Algorithm::Ring | Algorithm::RingByNumber) => 2,
            Workload::AllGather | Workload::ReduceScatter => 1,
            _ => return None,
        };
        let layout = collectives::Layout::new(cluster, router, rings.map(|rings| &rings.rings), true);
        Some(LongRings { rings: layout.ring_places(), turns })
    }

    /// The same around known rings. `once`: reduced.
    pub(super) fn around(
        &self,
        cluster: &Cluster,
        router: &Router,
        rings: Option<&NodeRings>,
        size: f64,
        once: bool,
    ) -> Result<Program, SimulateError> {
        let layout = collectives::Layout::new(cluster, router, rings.map(|rings| &rings.rings), once);
        Ok(match self {
            Workload::Library(collective, _) => {
                let name = collective.name();
                let why =
                    format!("{self}: what a library does has no steps to play; {name}:ring is a schedule that has");
                return Err(SimulateError::Workload(why));
            }
            Workload::Step(_) => {
                return Err(SimulateError::Workload(format!("{self}: a step of a model is computed and not played")));
            }
            Workload::PointToPoint(a, b, via) => {
                let (from, to) = (cluster.find(a)?, cluster.find(b)?);
                collectives::message(from, to, size, *via)
            }
            Workload::AllReduce(Algorithm::Ring | Algorithm::RingByNumber) => {
                layout.ring("all-reduce around rings", size, 2)
            }
            Workload::AllReduce(Algorithm::Tree) => layout.tree(size),
            Workload::AllReduce(Algorithm::Hierarchical) => layout.hierarchical(size),
            Workload::AllReduce(Algorithm::Rail) => layout.rail(size),
            Workload::AllGather => layout.ring("all-gather around rings", size, 1),
            Workload::ReduceScatter => layout.ring("reduce-scatter around rings", size, 1),
            Workload::AllToAll(_) => layout.all_to_all(size)?,
            Workload::Broadcast => layout.broadcast(size),
            Workload::Halo(dimensions) => halo::program(&layout.places, *dimensions, size),
            Workload::SpinGlass(run) => run.program(cluster, router)?,
            Workload::Bfs(search) => search.program(cluster, router)?,
        })
    }

    /// The workload, and its size, for `ratio` times as many nodes as have it with `size` bytes: with [`Scaling::Weak`] each
    /// GPU has as much to do, with [`Scaling::Strong`] all of them together. A face is one of a lattice that is divided.
    ///
    /// # Errors
    /// Where the workload does not scale so.
    pub fn scaled(&self, size: f64, ratio: f64, scaling: Scaling) -> Result<(Workload, f64), SimulateError> {
        let refuse = |why: &str| Err(SimulateError::Workload(format!("{self}: {why}")));
        match (self, scaling) {
            (Workload::PointToPoint(..), _) => refuse("one message does not scale"),
            (Workload::SpinGlass(run), _) => {
                let run = SpinGlass { weak: scaling == Scaling::Weak, ..run.clone() };
                Ok((Workload::SpinGlass(run), size))
            }
            (Workload::Bfs(_), Scaling::Weak) => refuse("a graph stays the same, so that only strong scaling is known"),
            (Workload::Step(step), _) => Ok((Workload::Step(step.scaled(ratio, scaling == Scaling::Weak)?), size)),
            (Workload::Bfs(_), _) | (_, Scaling::Weak) => Ok((self.clone(), size)),
            (Workload::Halo(dimensions), Scaling::Strong) => {
                let d = f64::from(*dimensions);
                Ok((self.clone(), size / ratio.powf((d - 1.0) / d)))
            }
            (_, Scaling::Strong) => Ok((self.clone(), size / ratio)),
        }
    }

    /// By what nccl-tests multiplies the bandwidth to get that of the bus, for so many GPUs; `None` where it has no such
    /// test.
    pub fn bus_factor(&self, gpus: usize) -> Option<f64> {
        let n = gpus.max(1) as f64;
        match self {
            Workload::Library(collective, _) => Some(collective.bus_factor(gpus)),
            Workload::AllReduce(_) => Some(2.0 * (n - 1.0) / n),
            Workload::AllGather | Workload::ReduceScatter | Workload::AllToAll(_) => Some((n - 1.0) / n),
            Workload::Broadcast | Workload::PointToPoint(..) => Some(1.0),
            Workload::Halo(_) | Workload::SpinGlass(_) | Workload::Bfs(_) | Workload::Step(_) => None,
        }
    }
}
