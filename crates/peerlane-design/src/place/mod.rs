//! Which GPUs a job should take, in what order, with which NIC, cores and memory: by the model with contention.
//!
//! `docs/placement.md` defines the workloads, what is best and how it is found. Nothing is ever set: what comes out is
//! advice, with the gain that it should bring over the order of the GPUs' numbers.

mod across;
mod formats;
mod gpuallocator;
mod load;
mod locality;
mod nics;
mod reason;
mod rings;
mod search;
mod slurm;

/// GPUs in the machine's order.
fn sorted(gpus: &[usize]) -> Vec<usize> {
    let mut sorted = gpus.to_vec();
    sorted.sort_unstable();
    sorted
}

#[cfg(test)]
mod tests;
mod workload;

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

pub use across::{MOST_ACROSS, place_across};
pub use formats::{Format, write};
pub use slurm::slurm_topology;
pub use workload::{Jobs, NoJobs, Workload};

use nics::Nics;
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::Engine;
use peerlane_machine::names::ranges;
use peerlane_model::collectives::{Ring, nccl_ring};
use peerlane_model::flows::Flows;
use peerlane_model::model::{HaloAdvice, Model, halo_advice};
use search::Problem;

/// Up to so many GPUs of one machine are placed.
pub const MOST_PLACED: usize = 128;

/// Equal but for rounding.
const ROUNDING: f64 = 1e-9;

/// Rates nearer than this share are called equal.
const ALIKE: f64 = 0.005;

/// What is requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// How many GPUs each job has; without any, one job has all that are free.
    pub jobs: Vec<usize>,
    /// How many NICs a job uses; `None`: each GPU's is named, and does not decide.
    pub nics: Option<usize>,
    /// What the GPUs of a job do.
    pub workload: Workload,
    /// GPUs that others use.
    pub busy: Vec<String>,
}

/// Why nothing can be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The machine has none.
    #[error("{0} has no GPU")]
    NoGpu(String),
    /// More than are searched.
    #[error("{0} has {1} GPUs; up to {MOST_PLACED} are placed")]
    TooMany(String, usize),
    /// More of a cluster than are searched.
    #[error("{0} has {1} GPUs; up to {MOST_ACROSS} of a cluster are placed: give fewer nodes (--nodes, --use-nodes)")]
    TooManyAcross(String, usize),
    /// More transfers at once than are solved.
    #[error("{workload} has {transfers} transfers at once; up to {most} are placed on a cluster")]
    TooManyTransfers {
        /// Of what.
        workload: Workload,
        /// How many.
        transfers: usize,
        /// The limit.
        most: usize,
    },
    /// A number of NICs for each job of a cluster.
    #[error("--nics is for jobs on one machine; on a cluster each GPU uses its nearest NIC")]
    NicsAcross,
    /// A busy GPU is not there.
    #[error("{0} has no GPU named '{1}'; there are: {2}")]
    NoSuchGpu(String, String, String),
    /// The jobs need more than there are.
    #[error("{wanted} GPUs are requested, but {free} of {machine} are free")]
    TooFew {
        /// Requested.
        wanted: usize,
        /// Not busy.
        free: usize,
        /// The machine.
        machine: String,
    },
    /// A job of nothing.
    #[error("a job needs at least one GPU")]
    Empty,
    /// More NICs are requested than there are.
    #[error("{wanted} NICs are requested, but {machine} has {there} that can reach GPU memory")]
    TooFewNics {
        /// Requested.
        wanted: usize,
        /// There.
        there: usize,
        /// The machine.
        machine: String,
    },
    /// The model has no rate for what would be sent.
    #[error("no placement of {machine} has a known rate: {why}")]
    Unknown {
        /// The machine.
        machine: String,
        /// What is not known.
        why: String,
    },
}

/// What `place --json` writes. Rates are in GB/s of 10⁹ bytes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlacementDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/placement/2"))]
    pub schema: &'static str,
    /// The machine or cluster.
    pub machine: String,
    /// How many nodes a cluster has. Its devices are called `node3/GPU0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// What the jobs do.
    pub workload: Workload,
    /// GPUs that are taken to do the same meanwhile.
    pub busy: Vec<String>,
    /// Where each job should go.
    pub choices: Vec<Choice>,
    /// Whether no other placement has a faster slowest transfer, or all-reduce. Else it is the best that was found.
    pub exact: bool,
    /// The slowest transfer of the worst placement, where all were looked at.
    pub worst: Option<f64>,
    /// Why it makes no difference which placement is taken, where it does not.
    pub equal: Option<String>,
    /// Other ways to choose.
    pub compared: Vec<Compared>,
    /// What was assumed where no source states it, and the choice depends on.
    pub assumptions: Vec<String>,
}

/// Where one job should go.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Choice {
    /// Its GPUs, in the machine's order.
    pub gpus: Vec<String>,
    /// The same in the job's order: rank 0 first.
    pub order: Vec<String>,
    /// For each of `order` the NIC that it should use; empty where no NIC reaches GPU memory at a known rate.
    pub nics: Vec<Option<String>>,
    /// What these GPUs get through these NICs while all of the job send and receive at once, summed.
    pub nic_rate: Option<f64>,
    /// For each of `order`, CPUs near it that no other GPU is given, as the kernel lists CPUs.
    pub cores: Vec<Option<String>>,
    /// For each of `order` the NUMA node of its memory.
    pub memory: Vec<Option<u32>>,
    /// Of an all-reduce the rings that it goes around, with what each carries while all jobs run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rings: Option<Vec<Ring>>,
    /// Its slowest transfer while all jobs run; of an all-reduce what its rings carry together, the bus bandwidth.
    pub predicted: Option<f64>,
    /// The same without the other jobs.
    pub alone: Option<f64>,
    /// `predicted` over what the same job has where GPUs are taken by their numbers, less 1.
    pub gain: Option<f64>,
    /// Why this one.
    pub reason: String,
    /// Of a halo exchange, how its faces should be exchanged, the other jobs aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub halo: Option<HaloAdvice>,
}

/// What another way to choose gives.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Compared {
    /// Who chooses so.
    pub name: String,
    /// The jobs' GPUs, in order.
    pub jobs: Vec<Vec<String>>,
    /// The slowest transfer of any job while all run; of all-reduces what the rings of the slowest job carry.
    pub predicted: f64,
    /// What is chosen here over that, less 1.
    pub gain: f64,
}

/// Finds where jobs should go.
pub fn place(model: &Model, request: &Request) -> Result<PlacementDocument, PlaceError> {
    let machine = model.machine;
    let name = || machine.name.clone();
    let fabric = &machine.fabric;
    let gpus: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).collect();
    if gpus.is_empty() {
        return Err(PlaceError::NoGpu(name()));
    }
    if gpus.len() > MOST_PLACED {
        return Err(PlaceError::TooMany(name(), gpus.len()));
    }
    let busy = busy(machine, &gpus, &request.busy)?;
    let free = gpus.len() - busy.len();
    let sizes = if request.jobs.is_empty() { vec![free] } else { request.jobs.clone() };
    let wanted = sizes.iter().fold(0_usize, |sum, size| sum.saturating_add(*size));
    if sizes.contains(&0) && free > 0 {
        return Err(PlaceError::Empty);
    }
    if wanted > free || free == 0 {
        return Err(PlaceError::TooFew { wanted: wanted.max(1), free, machine: name() });
    }
    let adapters = nics::candidates(machine);
    if let Some(wanted) = request.nics.filter(|n| *n > adapters.len() || *n == 0) {
        return Err(PlaceError::TooFewNics { wanted, there: adapters.len(), machine: name() });
    }
    let hosts: Vec<NodeId> = fabric.of_kind(NodeKind::Host).collect();
    let others: Vec<NodeId> = hosts.iter().chain(&adapters).copied().collect();
    // NCCL's rings are driven by kernels
    let engine = if request.workload.is_of_kernels() { Engine::Sm } else { Engine::Ce };
    let flows = Flows::with_others(model, engine, &others);
    let host_of = |(at, gpu): (usize, &NodeId)| {
        let near = fabric.nearest_host(*gpu).and_then(|host| hosts.iter().position(|h| *h == host));
        near.map_or(at, |host| gpus.len() + host)
    };
    let hosts_of: Vec<usize> = gpus.iter().enumerate().map(host_of).collect();
    let nic_ends: Vec<usize> = (gpus.len() + hosts.len()..flows.ends.len()).collect();
    let mut problem = Problem::new(&flows, request.workload, sizes, &busy, hosts_of);
    problem.nics = request.nics.map(|wanted| Nics::new(&flows, nic_ends.clone(), wanted));
    let found = problem.best();
    if found.score.pace <= 0.0 {
        let why = flows.unknown.clone().unwrap_or_else(|| "a width or a part on the path is not known".to_owned());
        return Err(PlaceError::Unknown { machine: name(), why });
    }
    let nics = problem.nics.take().unwrap_or_else(|| {
        let all = nic_ends.len();
        Nics::new(&flows, nic_ends, all)
    });
    let report = Report { problem: &problem, nics: &nics, each: request.nics.is_some(), found: &found };
    Ok(report.document(&busy))
}

fn busy(machine: &Machine, gpus: &[NodeId], names: &[String]) -> Result<Vec<usize>, PlaceError> {
    let at = |name: &String| {
        let id = machine.lookup_gpu(name).ok();
        gpus.iter().position(|gpu| Some(*gpu) == id).ok_or_else(|| {
            let all: Vec<&str> = gpus.iter().map(|g| machine.fabric.node(*g).name.as_str()).collect();
            PlaceError::NoSuchGpu(machine.name.clone(), name.chars().take(40).collect(), ranges(&all))
        })
    };
    let mut busy = sorted(&names.iter().map(at).collect::<Result<Vec<_>, _>>()?);
    busy.dedup();
    Ok(busy)
}

/// GB/s, where there is anything to be sent.
fn gb(pace: f64) -> Option<f64> {
    (pace.is_finite() && pace > 0.0).then_some(pace / 1e9)
}

struct Report<'r, 'f, 'm, 'a> {
    problem: &'r Problem<'f, 'm, 'a>,
    nics: &'r Nics<'f, 'm, 'a>,
    /// Whether each job chooses its own NICs.
    each: bool,
    found: &'r search::Found,
}

impl Report<'_, '_, '_, '_> {
    fn document(&self, busy: &[usize]) -> PlacementDocument {
        let (problem, found) = (self.problem, self.found);
        let flows = problem.flows;
        let worst = problem.worst();
        let equal = reason::equal(problem, found, worst);
        let default = problem.by_number();
        let (paces, before) = (problem.paces(&found.jobs), problem.paces(&default));
        let together = (!self.each).then(|| self.nics.nearest_of(&found.jobs.concat()));
        let mut at = 0;
        let mut choices = Vec::with_capacity(found.jobs.len());
        for (job, order) in found.jobs.iter().enumerate() {
            let assigned = match &together {
                Some(all) => {
                    let nics = all.nics[at..at + order.len()].to_vec();
                    nics::Assigned { rate: self.nics.rate(order, &nics), nics }
                }
                None => self.nics.assign(order),
            };
            at += order.len();
            let alone = problem.paces(std::slice::from_ref(order)).first().copied().unwrap_or(0.0);
            let gain = paces[job] / before[job] - 1.0;
            choices.push(self.choice(job, assigned, paces[job], alone, Some(gain).filter(|g| g.is_finite())));
        }
        PlacementDocument {
            schema: "peerlane/placement/2",
            machine: flows.model.machine.name.clone(),
            nodes: None,
            workload: problem.workload,
            busy: busy.iter().map(|gpu| flows.name(*gpu).to_owned()).collect(),
            choices,
            exact: found.exact,
            worst: worst.and_then(gb),
            equal,
            compared: self.compared(),
            assumptions: Vec::new(),
        }
    }

    fn names(&self, ends: &[usize]) -> Vec<String> {
        ends.iter().map(|end| self.problem.flows.name(*end).to_owned()).collect()
    }

    fn choice(&self, job: usize, nics: nics::Assigned, pace: f64, alone: f64, gain: Option<f64>) -> Choice {
        let flows = self.problem.flows;
        let fabric = &flows.model.machine.fabric;
        let order = &self.found.jobs[job];
        let gpus = sorted(order);
        let node = |gpu: &usize| flows.ends[*gpu];
        let known = nics.nics.iter().any(Option::is_some);
        let name = |nic: &Option<usize>| nic.map(|nic| flows.name(nic).to_owned());
        Choice {
            gpus: self.names(&gpus),
            order: self.names(order),
            nics: if known { nics.nics.iter().map(name).collect() } else { Vec::new() },
            nic_rate: gb(nics.rate).filter(|_| known),
            cores: order.iter().map(|g| locality::share(fabric, node(g)).map(|c| c.to_string())).collect(),
            memory: order.iter().map(|g| locality::memory(fabric, node(g))).collect(),
            rings: self.rings(job),
            predicted: gb(pace),
            alone: gb(alone),
            gain,
            reason: reason::of(self.problem, self.found, job, &nics.nics, self.nics),
            halo: self.halo(order),
        }
    }

    fn halo(&self, order: &[usize]) -> Option<HaloAdvice> {
        let Problem { flows, workload, .. } = self.problem;
        if *workload != Workload::Halo {
            return None;
        }
        let node = |end: usize| flows.ends[end];
        let gpus: Vec<NodeId> = order.iter().map(|gpu| node(*gpu)).collect();
        let sends: Vec<(NodeId, NodeId)> =
            workload.pairs(order, |gpu| gpu).into_iter().map(|(from, to)| (node(from), node(to))).collect();
        halo_advice(flows.model, &gpus, &sends)
    }

    /// The rings of a job's all-reduce while all jobs run.
    fn rings(&self, job: usize) -> Option<Vec<Ring>> {
        let problem = self.problem;
        let gpus = self.found.jobs.get(job).filter(|_| problem.workload == Workload::AllReduce)?;
        let rings = problem.rings.of(gpus)?;
        let paces = problem.ring_paces(&self.found.jobs)?.into_iter().nth(job)?;
        let orders = rings.rings.iter().map(|(order, _)| self.names(order));
        Some(orders.zip(paces).map(|(order, pace)| Ring { order, rate: pace / 1e9 }).collect())
    }

    /// Taken by number, by go-gpuallocator's score, and for rings in NCCL's order.
    fn compared(&self) -> Vec<Compared> {
        let problem = self.problem;
        let fabric = &problem.flows.model.machine.fabric;
        let node = |gpu: usize| problem.flows.ends[gpu];
        let default = Some(("by number".to_owned(), problem.by_number()));
        let score = |a, b| gpuallocator::pair_score(fabric, node(a), node(b));
        let mut open = problem.free.clone();
        let plugged = problem.sizes.iter().map(|size| {
            let chosen = gpuallocator::choice(&open, *size, &score)?;
            open.retain(|gpu| !chosen.contains(gpu));
            Some(chosen)
        });
        let plugged = plugged.collect::<Option<Vec<_>>>().map(|jobs| ("go-gpuallocator".to_owned(), jobs));
        let ring = |order: &Vec<usize>| {
            let gpus = sorted(order);
            let nodes: Vec<NodeId> = gpus.iter().map(|gpu| node(*gpu)).collect();
            Some(nccl_ring(fabric, problem.flows.model.parts, &nodes)?.into_iter().map(|at| gpus[at]).collect())
        };
        let rings = (problem.workload == Workload::Ring && self.found.jobs.iter().all(|order| order.len() > 1))
            .then(|| self.found.jobs.iter().map(ring).collect::<Option<Vec<Vec<usize>>>>())
            .flatten()
            .map(|jobs| ("NCCL's ring on the GPUs chosen".to_owned(), jobs));
        let one = |(name, jobs): (String, search::Jobs)| {
            let pace = problem.paces(&jobs).into_iter().fold(f64::INFINITY, f64::min);
            let gain = self.found.score.pace / pace - 1.0;
            let jobs = jobs.iter().map(|order| self.names(order)).collect();
            gb(pace).map(|predicted| Compared { name, jobs, predicted, gain })
        };
        [default, plugged, rings].into_iter().flatten().filter_map(one).collect()
    }
}
