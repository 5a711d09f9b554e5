//! The kinds of measurement, a file for each: what is done and between which ends, its quantities and words, its steps of a
//! plan, what is expected, and what a simulated machine answers.
//!
//! A [`Test`] is a family of steps, as `--tests` names it. Its steps do one kind of [`Work`], which a record writes and which
//! hands all questions on to its [`Kind`].

mod bfs;
mod collective;
mod halo;
mod host_memory;
mod loads;
mod place;
mod rates;
mod rdma;
mod signals;
mod site;
mod small_copies;
mod spin_glass;
mod step;
mod test;
mod transfers;
mod truth;

pub use host_memory::StreamKernel;
pub use place::{Ends, Place, Shape};
pub use rdma::NO_GPU_MEMORY;
pub use site::UsableNics;
pub use step::{Size, Step};
pub use test::{Scope, Test};
pub use transfers::is_set;
pub use truth::{Task, Truth, expected};

pub(crate) use site::Site;
pub(crate) use small_copies::staged_copies;
pub(crate) use step::StepKind;

use std::collections::{BTreeMap, HashSet};

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use peerlane_machine::bfs::Bfs;
use peerlane_machine::halo::Halo;
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::names::is_host;
use peerlane_machine::spin_glass::SpinGlass;
use peerlane_machine::transfer::{Collective, Rdma, Transfer, Via};
use peerlane_machine::units::Bytes;
use peerlane_model::model::Model;

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Moves data, all transfers at once, over and over. Samples: the rate of each, in bytes a second, while all run.
    Transfers(Vec<Transfer>),
    /// One thread of `gpu` loads words of `memory`, each load's address being the last one's value. Samples: seconds
    /// a load.
    Loads {
        /// The GPU that loads.
        gpu: String,
        /// Whose memory: a GPU's (its own too) or the host's.
        memory: String,
    },
    /// One thread on each of two GPUs; each waits for a word in its own memory that the other writes. Samples:
    /// seconds one way, half of a round.
    Signals {
        /// One.
        a: String,
        /// The other.
        b: String,
    },
    /// Copies of the step's size, one after another in one stream. Samples: seconds a copy, and seconds of CPU time
    /// that enqueueing one takes.
    SmallCopies(Transfer),
    /// A collective of NCCL's. Samples: seconds an operation.
    Collective {
        /// Which.
        operation: Collective,
        /// The ranks, in order.
        gpus: Vec<String>,
    },
    /// Host memory alone, read and written by all its CPUs. Samples: bytes a second.
    HostMemory {
        /// `host0` …, or `host` for all.
        node: String,
        /// What is done.
        kernel: StreamKernel,
    },
    /// Exchanges of faces between the parts of a grid, one after another. Samples: seconds an exchange.
    Halo(Halo),
    /// Half-sweeps of a spin glass, one after another. Samples: seconds that the update of a place takes, all GPUs together.
    SpinGlass(SpinGlass),
    /// Searches of a graph from many roots, one after another. Samples: the harmonic mean of their rates, in edges a second.
    Bfs(Bfs),
    /// RDMA between two NICs of the machine, or through one and back, with host memory or a GPU's. Samples: bytes a second.
    Rdma(Rdma),
}

impl Work {
    /// What is particular to its kind.
    pub fn kind(&self) -> Box<dyn Kind<'_> + '_> {
        match self {
            Work::Transfers(transfers) => Box::new(transfers.as_slice()),
            Work::Loads { gpu, memory } => Box::new(loads::Loads { gpu, memory }),
            Work::Signals { a, b } => Box::new(signals::Signals { a, b }),
            Work::SmallCopies(transfer) => Box::new(transfer),
            Work::Collective { operation, gpus } => Box::new(collective::Ranks { operation: *operation, gpus }),
            Work::HostMemory { node, kernel } => Box::new(host_memory::HostMemory { node, kernel: *kernel }),
            Work::Halo(halo) => Box::new(halo),
            Work::SpinGlass(lattice) => Box::new(lattice),
            Work::Bfs(search) => Box::new(search),
            Work::Rdma(rdma) => Box::new(rdma),
        }
    }

    /// The GPUs that take part, each once, in order of appearance.
    pub fn gpus(&self) -> Vec<&str> {
        let mut all = self.kind().nodes();
        let mut seen = HashSet::new();
        all.retain(|name| !is_host(name) && seen.insert(*name));
        all
    }

    /// All nodes that take part, the NICs that data passes and host memory too, each once.
    pub fn nodes(&self) -> Vec<&str> {
        let kind = self.kind();
        let ends = kind.paths().into_iter().flat_map(|path| [path.from, path.to]);
        let mut seen = HashSet::new();
        kind.nodes().into_iter().chain(ends).filter(|name| seen.insert(*name)).collect()
    }

    /// Its copies, where it is made of copies alone.
    pub fn transfers(&self) -> &[Transfer] {
        match self {
            Work::Transfers(all) => all,
            Work::SmallCopies(one) => std::slice::from_ref(one),
            _ => &[],
        }
    }
}

/// Data that goes from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path<'w> {
    /// Where it is.
    pub from: &'w str,
    /// Where it goes.
    pub to: &'w str,
    /// Directly, or through host memory.
    pub via: Via,
}

impl Path<'_> {
    /// Whether data goes directly between two nodes, in either direction.
    pub fn joins(&self, [a, b]: &[String; 2]) -> bool {
        self.via == Via::Direct && ((self.from == a && self.to == b) || (self.from == b && self.to == a))
    }
}

/// What a sweep over sizes is called, between which ends, and its settings.
pub type CurveWords = (String, Vec<String>, BTreeMap<String, String>);

/// Where a table has a cell: a row for each set of GPUs and way to do the work, a column for each size of the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableCell {
    /// What the table shows, without its unit.
    pub title: String,
    /// The row's name.
    pub row: String,
    /// What columns are ordered by, and the column's name.
    pub column: (u64, String),
    /// Whether the numbers of a row go over several powers of ten.
    pub wide: bool,
}

/// What the model predicts for work that is more than one transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// In the unit of the first of [`Kind::answers`].
    pub value: f64,
    /// The longest time, or the least rate, that is no surprise.
    pub worst: f64,
    /// Whether this way was measured before; what is only extrapolated is shown, and nothing is compared with it.
    pub is_confirmed: bool,
    /// The share of the time in which GPUs exchange something, where that is known.
    pub exchange: Option<f64>,
}

/// A kind of measurement. Names borrow from the [`Work`] that it is a view of.
pub trait Kind<'w> {
    /// What is done, by its ends, in few words: `GPU0→GPU1`, `host↔GPU0–GPU3`.
    fn words(&self) -> String {
        self.ends().map_or_else(String::new, |(from, to)| arrow(from, to))
    }

    /// All that take part, in order; a name may be there twice.
    fn nodes(&self) -> Vec<&'w str> {
        self.paths().into_iter().flat_map(|path| [path.from, path.to]).collect()
    }

    /// The ways that data takes.
    fn paths(&self) -> Vec<Path<'w>> {
        let path = |(from, to)| Path { from, to, via: self.via() };
        self.ends().map(path).into_iter().collect()
    }

    /// The ends whose path it measures; `None` where it has no two ends.
    fn ends(&self) -> Option<(&'w str, &'w str)> {
        None
    }

    /// How data goes between the ends.
    fn via(&self) -> Via {
        Via::Direct
    }

    /// What is measured, each with its unit: a cell each.
    fn answers(&self) -> &'static [(Quantity, Unit)] {
        &[(Quantity::Bandwidth, Unit::GigabytesPerSecond)]
    }

    /// The number that a sample counts by, in bytes a second, seconds or edges a second.
    fn headline(&self, sample: &[f64]) -> f64 {
        sample.first().copied().unwrap_or(f64::NAN)
    }

    /// A sample as a number of one of [`Kind::answers`], where messages have this size.
    fn value(&self, _size: Bytes, (_, unit): (Quantity, Unit), sample: &[f64]) -> f64 {
        let first = self.headline(sample);
        match unit {
            Unit::Microseconds => first * 1e6,
            Unit::Nanoseconds => first * 1e9,
            Unit::Picoseconds => first * 1e12,
            _ => first / 1e9,
        }
    }

    /// How many numbers a sample has.
    fn numbers(&self) -> usize {
        1
    }

    /// Whether these can be the numbers of a sample.
    fn is_possible(&self, sample: &[f64]) -> bool {
        sample.iter().all(|x| *x > 0.0)
    }

    /// Whether what arrived can be compared with what was sent.
    fn has_content(&self) -> bool {
        true
    }

    /// Whether its values depend on where memory happens to be allocated, so that it is allocated anew.
    fn depends_on_allocation(&self) -> bool {
        false
    }

    /// Whether it is as fast as the CPU runs the driver and this program.
    fn is_by_cpu(&self) -> bool {
        false
    }

    /// Whether a selection of pairs, which `has` data from one node to another, leaves it in a plan.
    fn is_picked(&self, has: &dyn Fn(&str, &str) -> bool) -> bool {
        self.paths().iter().all(|path| has(path.from, path.to))
    }

    /// Its place in the matrix of what is comparable; `None` where it has none.
    fn place(&self, _test: Test) -> Option<Place<'w>> {
        None
    }

    /// Whether it is a sweep over sizes whatever its family is.
    fn is_swept(&self) -> bool {
        false
    }

    /// How a sweep over sizes is described.
    fn curve(&self) -> CurveWords {
        (self.words(), self.nodes().into_iter().map(str::to_owned).collect(), BTreeMap::new())
    }

    /// Its place in a table of its kind; `None` where matrices, sets or sweeps have it.
    fn table(&self) -> Option<TableCell> {
        None
    }

    /// What the model predicts; `None` where it does not, or where paths and sizes are predicted and not the work.
    fn predicted(&self, _model: &Model) -> Option<Predicted> {
        None
    }

    /// What a simulated machine measures, or why it cannot.
    fn simulate(&self, size: Size, truth: &Truth) -> Result<Task, String>;
}

/// Each of some GPUs and each other.
fn each_with_each(gpus: &[String]) -> impl Iterator<Item = (&str, &str)> {
    let others = move |a| gpus.iter().filter(move |b| *b != a).map(move |b| (a, b));
    gpus.iter().flat_map(others).map(|(a, b): (&String, &String)| (a.as_str(), b.as_str()))
}

/// Whether all data that may go among some GPUs is picked, or the one that there is.
fn are_picked(gpus: &[String], has: &dyn Fn(&str, &str) -> bool) -> bool {
    match gpus {
        [one] => has(one, one),
        gpus => each_with_each(gpus).all(|(a, b)| has(a, b)),
    }
}

fn names(gpus: &[String]) -> Vec<&str> {
    gpus.iter().map(String::as_str).collect()
}

fn arrow(a: &str, b: &str) -> String {
    format!("{a}→{b}")
}
