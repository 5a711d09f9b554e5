//! What the jobs of a placement on a cluster carry while all run.

use std::collections::HashMap;
use std::rc::Rc;

use super::super::workload::Workload;
use crate::cluster::network::Port;
use crate::cluster::rings::RingFinder;
use crate::cluster::{Cluster, ClusterError, ClusterRoute, Place, Router, Via};
use peerlane_machine::fabric::NodeId;
use peerlane_machine::matrix::Engine;
use peerlane_model::collectives::{joint, most_through};
use peerlane_model::flows::Flows;
use peerlane_model::solve::{Binding, Demand, Problem};
use peerlane_read::catalogue::Parts;

/// Jobs as lists of GPUs, which are counted node by node.
pub(super) type Jobs = Vec<Vec<usize>>;

/// Transfers that keep one pace, as those of a ring do.
type Set = Vec<(Place, Place)>;

/// A transfer's route, and how many of the network's links it crosses.
struct Way {
    route: ClusterRoute,
    links: usize,
}

/// What a job sends.
struct Sent {
    sets: Vec<Set>,
    /// What each set asks for; not known by itself where transfers wait for each other's pieces.
    demands: Option<Vec<Demand>>,
    /// Links of the network that all of its transfers cross, summed.
    links: usize,
}

/// What one job carries.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Carried {
    /// Its slowest transfer, or what its rings carry together, in bytes a second; infinite where it sends nothing.
    pub pace: f64,
    /// Of an all-reduce each ring's pace.
    pub rings: Vec<f64>,
    /// What binds its slowest set of transfers.
    pub bound_by: Option<String>,
    /// Links of the network that all of its transfers cross, summed.
    pub links: usize,
}

/// Routes of a cluster's transfers, each found once.
pub(super) struct Rates<'c, 'f, 'm> {
    pub cluster: &'c Cluster,
    pub workload: Workload,
    /// GPUs of a node that take part.
    pub gpus: Vec<NodeId>,
    pub nodes: usize,
    flows: &'f Flows<'m, 'c>,
    router: Router<'c>,
    finder: RingFinder<'f, 'm, 'c>,
    ways: HashMap<(Place, Place), Way>,
    /// What jobs that were asked for send.
    sent: HashMap<Vec<usize>, Rc<Sent>>,
    /// How many transfers have been solved.
    pub solved: usize,
}

impl<'c, 'f, 'm> Rates<'c, 'f, 'm> {
    /// `flows` are those of a node, driven by kernels.
    pub(super) fn new(cluster: &'c Cluster, flows: &'f Flows<'m, 'c>, workload: Workload) -> Self {
        let router = Router::new(cluster, Parts::embedded());
        Rates {
            cluster,
            workload,
            gpus: cluster.gpus(),
            nodes: cluster.nodes_in_use() as usize,
            flows,
            finder: RingFinder::new(flows, |gpu| router.nic_of(gpu)),
            router,
            ways: HashMap::new(),
            sent: HashMap::new(),
            solved: 0,
        }
    }

    /// How many GPUs there are.
    pub(super) fn len(&self) -> usize {
        self.nodes * self.gpus.len()
    }

    pub(super) fn node_of(&self, gpu: usize) -> usize {
        gpu / self.gpus.len()
    }

    /// Its number in its node.
    pub(super) fn local(&self, gpu: usize) -> usize {
        gpu % self.gpus.len()
    }

    pub(super) fn place(&self, gpu: usize) -> Place {
        Place { node: self.node_of(gpu) as u32, device: self.gpus[self.local(gpu)] }
    }

    pub(super) fn name(&self, gpu: usize) -> String {
        self.cluster.name_of(self.place(gpu))
    }

    /// The name of the NIC that a GPU sends through.
    pub(super) fn nic_name(&self, gpu: usize) -> Option<String> {
        let nic = self.router.nic_of(self.gpus[self.local(gpu)]) as usize;
        let device = *self.cluster.nics.get(nic)?;
        Some(format!("node{}/{}", self.node_of(gpu), self.cluster.node.fabric.node(device).name))
    }

    /// How many NICs some GPUs of one node have among them, by their numbers in it.
    pub(super) fn nics_of(&self, local: &[usize]) -> usize {
        self.finder.nics_of(local)
    }

    /// What the rings of some GPUs of one node carry, in bytes a second.
    pub(super) fn within(&mut self, local: &[usize]) -> f64 {
        self.finder.within(local).map_or(0.0, |rings| rings.rate())
    }

    /// The same where it is known that no ring is faster.
    pub(super) fn proven_within(&mut self, local: &[usize]) -> Option<f64> {
        self.finder.within(local).filter(|rings| rings.exact).map(|rings| rings.rate())
    }

    /// GPUs of one node, by their numbers in it, in the order in which a ring passes them.
    pub(super) fn order(&mut self, local: &[usize]) -> Vec<usize> {
        self.finder.order(local)
    }

    /// For each GPU of a node the most that rings within it carry through it, in bytes a second.
    pub(super) fn through(&self) -> Vec<f64> {
        most_through(self.flows, &(0..self.gpus.len()).collect::<Vec<usize>>())
    }

    /// What each NIC that GPUs send through carries to another node and back at once, in bytes a second.
    pub(super) fn nic_rates(&mut self) -> Result<Vec<f64>, ClusterError> {
        let mut nics: Vec<(u32, usize)> = self.gpus.iter().map(|gpu| self.router.nic_of(*gpu)).zip(0..).collect();
        nics.sort_unstable();
        nics.dedup_by_key(|(nic, _)| *nic);
        let per_node = self.gpus.len();
        let both_ways = |(_, gpu)| {
            let carried = self.carried(&[vec![gpu, per_node + gpu]], &[])?;
            Ok(carried.first().map_or(0.0, |carried| carried.pace))
        };
        nics.into_iter().map(both_ways).collect()
    }

    /// Links of the network between the NICs of two GPUs of different nodes.
    pub(super) fn links(&self, from: usize, to: usize) -> usize {
        self.links_between(self.place(from), self.place(to)).unwrap_or(0)
    }

    fn links_between(&self, from: Place, to: Place) -> Result<usize, ClusterError> {
        let Some(network) = self.cluster.network.as_ref().filter(|_| from.node != to.node) else { return Ok(0) };
        let [a, b] = self.router.nic_pairs(network, from, to, Via::Direct)[0];
        let [a, b] = [(from, a), (to, b)].map(|(place, nic)| Port { node: place.node, nic });
        let mut channels = Vec::new();
        let parts = network.path(a, b, &mut channels)?;
        Ok(channels.len() / parts as usize)
    }

    /// What a transfer between two GPUs reaches alone, in bytes a second.
    pub(super) fn alone(&mut self, from: usize, to: usize) -> Result<f64, ClusterError> {
        let (from, to) = (self.place(from), self.place(to));
        self.route(from, to)?;
        Ok(self.ways[&(from, to)].route.lone)
    }

    fn route(&mut self, from: Place, to: Place) -> Result<(), ClusterError> {
        if self.ways.contains_key(&(from, to)) {
            return Ok(());
        }
        let engine = if self.workload.is_of_kernels() { Engine::Sm } else { Engine::Ce };
        let route = self.router.way(from, to, engine)?;
        let links = self.links_between(from, to)?;
        self.ways.insert((from, to), Way { route, links });
        Ok(())
    }

    /// The rings of a job as GPUs.
    pub(super) fn rings(&mut self, job: &[usize]) -> Vec<Vec<Place>> {
        let places: Vec<Place> = job.iter().map(|gpu| self.place(*gpu)).collect();
        self.finder.rings(&places).into_iter().map(|(ring, _)| ring).collect()
    }

    fn sent(&mut self, job: &[usize]) -> Result<Rc<Sent>, ClusterError> {
        if let Some(known) = self.sent.get(job) {
            return Ok(Rc::clone(known));
        }
        let sets: Vec<Set> = if self.workload.of(job.len()) == Workload::AllReduce {
            let around = |ring: Vec<Place>| {
                let next: Vec<Place> = ring.iter().copied().cycle().skip(1).take(ring.len()).collect();
                ring.into_iter().zip(next).collect()
            };
            self.rings(job).into_iter().map(around).collect()
        } else {
            let gpus = self.len();
            let place = |end: usize| {
                if end < gpus {
                    return Some(self.place(end));
                }
                // host memory nearest to a GPU
                let at = self.place(end - gpus);
                let device = self.cluster.node.fabric.nearest_host(at.device)?;
                Some(Place { device, ..at })
            };
            let pairs = self.workload.pairs(job, |gpu| gpus + gpu);
            pairs.into_iter().filter_map(|(from, to)| Some(vec![(place(from)?, place(to)?)])).collect()
        };
        for (from, to) in sets.iter().flatten() {
            self.route(*from, *to)?;
        }
        let members = |set: &Set| set.iter().map(|pair| &self.ways[pair]).collect::<Vec<&Way>>();
        let all: Vec<Vec<&Way>> = sets.iter().map(members).collect();
        let demands = all.iter().map(|set| as_one(set)).collect();
        let links = all.iter().flatten().map(|way| way.links).sum();
        let sent = Rc::new(Sent { demands, links, sets });
        self.sent.insert(job.to_vec(), Rc::clone(&sent));
        Ok(sent)
    }

    /// Links of the network that all transfers of these jobs cross, summed.
    pub(super) fn crossed(&mut self, jobs: &[Vec<usize>]) -> Result<usize, ClusterError> {
        jobs.iter().try_fold(0, |sum, job| Ok(sum + self.sent(job)?.links))
    }

    /// What each of these jobs carries while all of them, and what is busy, run.
    pub(super) fn carried(&mut self, jobs: &[Vec<usize>], busy: &[usize]) -> Result<Vec<Carried>, ClusterError> {
        let mut of_jobs = jobs.iter().map(|job| self.sent(job)).collect::<Result<Vec<_>, _>>()?;
        if busy.len() > 1 {
            of_jobs.push(self.sent(busy)?);
        }
        let ways = &self.ways;
        self.solved += of_jobs.iter().flat_map(|sent| &sent.sets).map(Vec::len).sum::<usize>();
        let resource = |r: usize| self.router.resources()[r];
        let apart = of_jobs.iter().map(|sent| sent.demands.as_ref()).collect::<Option<Vec<_>>>();
        let problem = match apart {
            Some(demands) => Problem::of(demands.into_iter().flatten(), resource),
            None => {
                let members = |set: &Set| set.iter().map(|pair| &ways[pair].route.demand).collect::<Vec<&Demand>>();
                let sets: Vec<Vec<&Demand>> = of_jobs.iter().flat_map(|sent| &sent.sets).map(members).collect();
                Problem::of(&joint(&sets), resource)
            }
        };
        let solution = problem.solve().map_err(|e| ClusterError::Model(e.to_string()))?;
        let mut solved = solution.rates.iter().zip(&solution.bindings);
        let each = of_jobs.iter().take(jobs.len()).zip(jobs).map(|(sent, job)| {
            let all: Vec<(f64, Binding)> = solved.by_ref().take(sent.sets.len()).map(|(r, b)| (*r, *b)).collect();
            let rates = all.iter().map(|(rate, _)| *rate);
            let by_rings = self.workload.of(job.len()) == Workload::AllReduce;
            let slowest = all.iter().zip(&sent.sets).min_by(|a, b| a.0.0.total_cmp(&b.0.0));
            let bound_by = slowest.and_then(|((_, binding), set)| match binding {
                Binding::Resource(r) => Some(self.router.name(*r)),
                Binding::Cap => set.iter().find_map(|pair| ways[pair].route.cap_why.clone()),
                Binding::Nothing => None,
            });
            Carried {
                pace: if by_rings { rates.clone().sum() } else { rates.clone().fold(f64::INFINITY, f64::min) },
                rings: if by_rings { rates.collect() } else { Vec::new() },
                bound_by,
                links: sent.links,
            }
        });
        Ok(each.collect())
    }
}

/// What transfers that keep one pace ask for together; `None` where one of them waits for pieces of others.
fn as_one(set: &[&Way]) -> Option<Demand> {
    let demands = || set.iter().map(|way| &way.route.demand);
    if demands().any(|demand| demand.turns.is_some()) {
        return None;
    }
    let merged = |all: &mut Vec<(usize, f64)>| {
        all.sort_by_key(|(resource, _)| *resource);
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
    };
    let mut one = Demand::default();
    for demand in demands() {
        one.uses.extend_from_slice(&demand.uses);
        one.burdens.extend_from_slice(&demand.burdens);
        one.waits.extend_from_slice(&demand.waits);
        one.cap = one.cap.min(demand.cap);
    }
    merged(&mut one.uses);
    merged(&mut one.burdens);
    Some(one)
}
