//! Collectives as NCCL or RCCL does them: what the paths of a machine or cluster carry for each algorithm, and the tuner's time
//! of the one that it would choose.
//!
//! Nodes are alike, so that what a node carries is solved once, for rings that pass through two of them. The links of the
//! network are counted one by one: what each is asked for by all edges of a ring or a tree, per byte of the collective.

use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::SimulateError;
use super::estimate::Estimate;
use super::outcome::{Outcome, STARTING};
use super::workload::NodeRings;
use crate::cluster::network::Port;
use crate::cluster::{Cluster, Component, Latencies, Place, Router, Via};
use peerlane_machine::fabric::NodeId;
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::Engine;
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_model::collectives::tuner::{Carried, Factors, Generation, Job, Medium, Predicted, Ranks};
use peerlane_model::collectives::tuning::{default_level, generation, medium, reached, with_peers_up_to};
use peerlane_model::collectives::{Algorithm, Choice, Rings, joint, nvls_rate};
use peerlane_model::flows::{Flows, interchangeable};
use peerlane_model::solve::{Binding, Demand, Problem};
use peerlane_read::catalogue::Parts;

/// Edges between nodes: from, to, and bytes per byte of the collective.
type Edge = (u32, u32, f64);

/// A collective of a library on a cluster.
pub struct Library {
    job: Job,
    carried: Carried,
    /// What holds the bytes of each algorithm.
    held: [Held; Algorithm::ALL.len()],
    /// Of the start-up's usual time.
    startup: f64,
    rerouted: bool,
    rings: Option<NodeRings>,
}

/// A rate in bytes a second, and what holds it.
#[derive(Clone, Debug)]
struct Held {
    rate: f64,
    by: String,
    component: Option<Component>,
}

impl Held {
    const UNLIMITED: Held = Held { rate: f64::INFINITY, by: String::new(), component: None };

    fn or(self, other: &Held) -> Held {
        if other.rate < self.rate { other.clone() } else { self }
    }

    fn times(&self, factor: f64) -> Held {
        Held { rate: self.rate * factor, ..self.clone() }
    }
}

impl Library {
    /// The rates of all algorithms that `choice` leaves. `faster` is a component that carries a multiple of what it does.
    ///
    /// # Errors
    /// Where two places are not joined, or a rate is not known.
    pub fn of(
        cluster: &Cluster,
        collective: Collective,
        choice: Choice,
        faster: Option<(Component, f64)>,
    ) -> Result<Self, SimulateError> {
        let gpus = cluster.gpus();
        let nodes = cluster.taking.0.min(cluster.nodes).max(1);
        let parts = Parts::embedded();
        let generation = generation(&cluster.node.fabric, parts, &gpus);
        let level = default_level(&cluster.node.fabric, parts, &gpus, generation);
        let cluster = Cluster { node: with_peers_up_to(&cluster.node, &gpus, level), ..cluster.clone() };
        let mut router = Router::new(&cluster, parts);
        if let Some((component, factor)) = faster {
            router.scale(component, factor);
        }
        let rings = node_rings(&cluster, &router);
        let orders = rings.as_ref().map_or_else(|| vec![vec![0]], |found| found.orders());
        let medium = medium_of(&router, &orders).unwrap_or(Medium::Host);
        let mut count = Count { cluster: &cluster, router: &mut router, nodes, orders, share: reached(medium) };
        let within = count.within()?;
        let ranks = gpus.len() * nodes as usize;
        let mut job =
            Job { collective, ranks, nodes: nodes as usize, generation, medium, run: Ranks::ProcessEach, network: 0.0 };
        let nvls = |sent: f64| nvls_rate(&cluster.node.fabric, generation, &gpus, sent, collective);
        let mut found: Vec<(Algorithm, Held)> = Vec::new();
        if nodes == 1 {
            found.push((Algorithm::Ring, within.clone()));
            found.push((Algorithm::Tree, within.times(chain(gpus.len()) * collective.bus_factor(ranks))));
            found.extend(nvls(within.rate).map(|rate| (Algorithm::Nvls, Held { rate, ..within.clone() })));
        } else {
            job.network = count.message()?;
            found = between(&mut count, &job, choice, &within, nvls(within.rate))?;
        }
        let mut carried = Carried::default();
        let mut held = [const { Held::UNLIMITED }; Algorithm::ALL.len()];
        for (algorithm, of) in found {
            carried = carried.with(algorithm, Some(of.rate));
            held[algorithm as usize] = of;
        }
        let rerouted = router.rerouted();
        Ok(Library { job, carried, held, startup: cluster.latencies.stages, rerouted, rings })
    }

    /// The rings within a node.
    pub(super) fn rings(&self) -> Option<&NodeRings> {
        self.rings.as_ref()
    }

    /// What one would replace to make faster what holds the bytes, by the words of [`Outcome::spent`].
    pub(super) fn component(&self, by: &str) -> Option<Component> {
        self.held.iter().find(|held| held.by == by)?.component.clone()
    }

    /// The same with ranks that are run so.
    #[must_use]
    pub fn run_as(mut self, run: Ranks) -> Self {
        self.job.run = run;
        self
    }

    /// What is predicted for a size.
    ///
    /// # Errors
    /// Where nothing that `choice` leaves can be done here.
    pub fn predict(&self, size: Bytes, choice: Choice) -> Result<Predicted, SimulateError> {
        if self.job.ranks < 2 {
            return Ok(Predicted {
                algorithm: Algorithm::Ring,
                protocol: peerlane_model::collectives::Protocol::Simple,
                time: 0.0,
                startup: 0.0,
                rate: 0.0,
            });
        }
        self.job.chosen(&self.carried, size, choice, Factors { launch: self.startup, ..Factors::ONE }).ok_or_else(
            || {
                let able: Vec<String> = Algorithm::ALL
                    .into_iter()
                    .filter(|a| a.does(self.job.collective) && self.carried.of(*a).is_some())
                    .map(|a| a.to_string())
                    .collect();
                let why = format!(
                    "{}: {choice} cannot be done here; these can: {}",
                    self.job.collective.name(),
                    if able.is_empty() { "none".to_owned() } else { able.join(", ") }
                );
                SimulateError::Workload(why)
            },
        )
    }

    /// How far predictions are from what was published, in 85 of 100 figures (`docs/collectives.md`).
    fn estimate(&self, size: Bytes) -> Estimate {
        const LARGE: u64 = 256 << 20;
        let error = match (self.job.nodes, size.0 >= LARGE) {
            (1, true) => 0.05,
            (1, false) => 0.2,
            (_, true) => 0.15,
            (_, false) => 0.45,
        };
        Estimate { because: "what a library does is predicted, not played".to_owned(), error: Some(error) }
    }

    /// The same as the outcome of a simulation.
    pub(super) fn outcome(&self, size: Bytes, choice: Choice) -> Result<(Outcome, Predicted), SimulateError> {
        let predicted = self.predict(size, choice)?;
        let start = if predicted.time > 0.0 { predicted.startup / predicted.time } else { 0.0 };
        let by = self.held[predicted.algorithm as usize].by.clone();
        let mut spent = vec![(by, 1.0 - start), (STARTING.to_owned(), start)];
        spent.retain(|(by, share)| *share > 0.0 && !by.is_empty());
        spent.sort_by(|a, b| b.1.total_cmp(&a.1));
        let n = self.job.ranks as f64;
        let outcome = Outcome {
            time: predicted.time,
            alone: predicted.time - predicted.startup,
            bytes: size.0 as f64 * self.job.collective.bus_factor(self.job.ranks) * n,
            last: spent.clone(),
            spent,
            rerouted: self.rerouted,
            estimate: Some(self.estimate(size)),
            ..Outcome::default()
        };
        Ok((outcome, predicted))
    }
}

/// What is predicted of one collective among all GPUs of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExpectedCollective {
    /// Which.
    pub collective: Collective,
    /// GPUs that take part.
    pub gpus: usize,
    /// One for each size, in their order.
    pub points: Vec<ExpectedPoint>,
}

/// One size.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExpectedPoint {
    /// Bytes, as nccl-tests counts them.
    pub size: u64,
    /// Seconds.
    pub time: f64,
    /// Bus bandwidth in GB/s, as nccl-tests counts it.
    pub busbw: f64,
    /// The algorithm that NCCL or RCCL would choose: `ring`, `nvls` …
    pub algorithm: String,
    /// Its protocol: `ll`, `ll128` or `simple`.
    pub protocol: String,
}

impl ExpectedCollective {
    /// The collectives of a machine at these sizes; none below two GPUs, or where a rate is not known.
    pub fn all(machine: &Machine, sizes: &[Bytes]) -> Vec<Self> {
        const ALL: [Collective; 4] =
            [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::Broadcast];
        let cluster = Cluster::single(machine.clone());
        let gpus = cluster.gpus().len();
        let of = |collective: Collective| {
            let library = Library::of(&cluster, collective, Choice::FREE, None).ok().filter(|_| gpus > 1)?;
            let point = |size: &Bytes| {
                let Predicted { algorithm, protocol, time, rate, .. } = library.predict(*size, Choice::FREE).ok()?;
                let (algorithm, protocol) = (algorithm.to_string(), protocol.to_string());
                Some(ExpectedPoint { size: size.0, time, busbw: rate / 1e9, algorithm, protocol })
            };
            let points: Option<Vec<_>> = sizes.iter().map(point).collect();
            Some(ExpectedCollective { collective, gpus, points: points? })
        };
        ALL.into_iter().filter_map(of).collect()
    }
}

/// Of what a GPU sends, the part of its data that a chain within a node passes up and back down: each GPU of the middle sends
/// both ways.
fn chain(gpus: usize) -> f64 {
    if gpus > 2 { 0.5 } else { 1.0 }
}

/// The rings that NCCL reports for these GPUs, or the best there are.
fn node_rings(cluster: &Cluster, router: &Router) -> Option<NodeRings> {
    let gpus = cluster.gpus();
    if gpus.len() < 2 {
        return None;
    }
    let flows = Flows::new(router.model(), Engine::Sm);
    let places: Vec<usize> = (0..gpus.len()).collect();
    let rings = reported(cluster, &flows).or_else(|| Rings::best(&flows, &places, &interchangeable(&flows)))?;
    Some(NodeRings { named: rings.named(&flows), rings })
}

/// The rings that NCCL reports, where they go through all of these GPUs and no others.
fn reported(cluster: &Cluster, flows: &Flows) -> Option<Rings> {
    let gpus = cluster.gpus();
    let reported = cluster.node.nccl_rings();
    let place = |id: &NodeId| gpus.iter().position(|gpu| gpu == id);
    let orders: Vec<Vec<usize>> = reported
        .iter()
        .filter_map(|ring| ring.gpus.iter().map(place).collect())
        .filter(|r: &Vec<usize>| r.len() == gpus.len())
        .collect();
    let distinct: BTreeSet<Vec<usize>> = orders.into_iter().collect();
    if distinct.is_empty() { None } else { Rings::given(flows, distinct.into_iter().collect()) }
}

impl NodeRings {
    /// The GPUs of each ring by their places in the node.
    fn orders(&self) -> Vec<Vec<usize>> {
        self.rings.rings.iter().map(|(order, _)| order.clone()).collect()
    }
}

fn medium_of(router: &Router, orders: &[Vec<usize>]) -> Option<Medium> {
    let flows = Flows::new(router.model(), Engine::Sm);
    let pairs = orders.iter().filter(|order| order.len() > 1).flat_map(|order| {
        let next = order.iter().cycle().skip(1);
        order.iter().copied().zip(next.copied()).collect::<Vec<_>>()
    });
    let routes: Vec<_> = pairs.filter_map(|pair| flows.flow(pair)).collect();
    medium(routes)
}

/// What each algorithm that `choice` leaves carries between several nodes.
fn between(
    count: &mut Count,
    job: &Job,
    choice: Choice,
    within: &Held,
    nvls: Option<f64>,
) -> Result<Vec<(Algorithm, Held)>, SimulateError> {
    let Job { collective, ranks, generation, .. } = *job;
    let factor = collective.bus_factor(ranks);
    let local = ranks / job.nodes;
    let left =
        |algorithm: Algorithm| algorithm.does(collective) && choice.algorithm.is_none_or(|wanted| wanted == algorithm);
    let mut found = Vec::new();
    if left(Algorithm::Ring) {
        found.push((Algorithm::Ring, count.ring()?));
    }
    let nics = count.nics()?;
    // NVLink SHARP of a node by the part of the data that each of its GPUs holds
    let sharp = nvls.map(|bus| Held { rate: bus / collective.bus_factor(local), ..within.clone() });
    if left(Algorithm::Tree) || left(Algorithm::NvlsTree) {
        let edges = trees(count.nodes);
        let network = count.network(&edges, &nics)?;
        let chained = if local > 1 { within.times(chain(local)) } else { Held::UNLIMITED };
        if left(Algorithm::Tree) {
            found.push((Algorithm::Tree, chained.or(&network).times(factor)));
        }
        if let Some(sharp) = sharp.clone().filter(|_| left(Algorithm::NvlsTree)) {
            found.push((Algorithm::NvlsTree, sharp.or(&network).times(factor)));
        }
    }
    // reduction in the network is there only where one asks for it
    let asked = choice.algorithm.is_some();
    for algorithm in [Algorithm::CollnetDirect, Algorithm::CollnetChain, Algorithm::Nvls] {
        if !asked || !left(algorithm) || generation == Generation::Cdna {
            continue;
        }
        let node = match algorithm {
            Algorithm::Nvls => sharp.clone(),
            Algorithm::CollnetChain if local > 1 => Some(within.times(chain(local))),
            _ if local > 1 => Some(within.times(local as f64 / (2.0 * (local as f64 - 1.0)))),
            _ => Some(Held::UNLIMITED),
        };
        found.extend(node.map(|node| (algorithm, node.or(&nics).times(factor))));
    }
    if left(Algorithm::Pat) && local == 1 {
        found.push((Algorithm::Pat, nics));
    }
    Ok(found)
}

/// The edges of a ring of nodes.
fn ring(nodes: u32) -> Vec<Edge> {
    (0..nodes).map(|node| (node, (node + 1) % nodes, 1.0)).collect()
}

/// The edges of NCCL's two trees of nodes, each with half of the data up and down: neighbours by number first, then twice as
/// far, and so on. The second is the mirror image of the first, or of an odd number of nodes shifted by one
/// (`ncclGetBtree`, `ncclGetDtree`, `src/graph/trees.cc`).
fn trees(nodes: u32) -> Vec<Edge> {
    let both = |child: u32, parent: u32| [(child, parent, 0.5), (parent, child, 0.5)];
    let second = |node: u32| if nodes.is_multiple_of(2) { nodes - 1 - node } else { (node + 1) % nodes };
    let parent = |node: u32| {
        let bit = 1 << node.trailing_zeros();
        let up = (node ^ bit) | (bit << 1);
        if up >= nodes { node ^ bit } else { up }
    };
    let edges = (1..nodes).map(|node| (node, parent(node)));
    edges.flat_map(|(v, p)| both(v, p).into_iter().chain(both(second(v), second(p)))).collect()
}

/// What is counted over.
struct Count<'c, 'r, 'a> {
    cluster: &'c Cluster,
    router: &'r mut Router<'a>,
    nodes: u32,
    /// Rings within a node.
    orders: Vec<Vec<usize>>,
    /// What NCCL reaches of paths within a node.
    share: f64,
}

impl Count<'_, '_, '_> {
    fn place(&self, node: u32, gpu: usize) -> Place {
        Place { node, device: self.cluster.gpus()[gpu] }
    }

    /// The paces of sets of transfers that each keep one, added up, and what holds the slowest.
    fn paced(&mut self, sets: &[Vec<(Place, Place, Via)>]) -> Result<Held, SimulateError> {
        let mut ways = Vec::new();
        for set in sets {
            let of_set: Result<Vec<_>, _> =
                set.iter().map(|(a, b, via)| self.router.way_by(*a, *b, Engine::Sm, *via)).collect();
            ways.push(of_set?);
        }
        let demands: Vec<Vec<&Demand>> = ways.iter().map(|set| set.iter().map(|way| &way.demand).collect()).collect();
        let problem = Problem::of(&joint(&demands), |r| self.router.resources()[r]);
        let solution = problem.solve().map_err(|e| SimulateError::Network(e.to_string()))?;
        let slowest = (0..sets.len()).min_by(|a, b| solution.rates[*a].total_cmp(&solution.rates[*b]));
        let by = match slowest.map(|at| (at, solution.bindings[at])) {
            Some((_, Binding::Resource(r))) => self.router.group(r),
            Some((at, Binding::Cap)) => ways[at].iter().find_map(|way| way.cap_why.clone()).unwrap_or_default(),
            _ => String::new(),
        };
        let component = self.router.component(&by);
        Ok(Held { rate: solution.rates.iter().sum(), by, component })
    }

    /// Rings of one node.
    fn within(&mut self) -> Result<Held, SimulateError> {
        let of_ring = |order: &Vec<usize>| {
            let next = order.iter().cycle().skip(1);
            order.iter().zip(next).map(|(a, b)| (self.place(0, *a), self.place(0, *b), Via::Direct)).collect()
        };
        let sets: Vec<Vec<_>> = self.orders.iter().filter(|order| order.len() > 1).map(of_ring).collect();
        if sets.is_empty() {
            return Ok(Held::UNLIMITED);
        }
        Ok(self.paced(&sets)?.times(self.share))
    }

    /// The NIC by which a ring of this NIC leaves a node at a GPU: the one of that GPU that stands where this one does.
    fn exit(&self, rails: &[(u32, usize)], nic: u32, gpu: usize) -> u32 {
        let entry = rails.iter().find(|(n, _)| *n == nic).map(|(_, gpu)| *gpu);
        let of = |gpu: usize| rails.iter().filter(move |(_, g)| *g == gpu).map(|(n, _)| *n).collect::<Vec<u32>>();
        let ordinal = entry.and_then(|entry| of(entry).iter().position(|n| *n == nic)).unwrap_or(0);
        let own = of(gpu);
        match own.len() {
            0 => self.router.nic_of(self.cluster.gpus()[gpu]),
            count => own[ordinal % count],
        }
    }

    /// Rings through all nodes, one for each NIC: the even nodes are gone through one way and the odd ones the other, so that
    /// both ends of each edge between nodes have the same place.
    fn ring(&mut self) -> Result<Held, SimulateError> {
        let rails = self.rails();
        let mut sets = Vec::new();
        let mut edges: Vec<(Port, Port, f64)> = Vec::new();
        let weight = 1.0 / rails.len() as f64;
        for (c, &(nic, gpu)) in rails.iter().enumerate() {
            let mut order = self.orders[c % self.orders.len()].clone();
            let entry = order.iter().position(|g| *g == gpu).unwrap_or(0);
            order.rotate_left(entry);
            let exit_gpu = order[order.len() - 1];
            let exit = self.exit(&rails, nic, exit_gpu);
            let back: Vec<usize> = order.iter().rev().copied().collect();
            let hop = |node: u32, order: &[usize]| -> Vec<_> {
                let pairs = order.windows(2);
                pairs.map(|p| (self.place(node, p[0]), self.place(node, p[1]), Via::Direct)).collect()
            };
            let mut set = hop(0, &order);
            set.extend(hop(1, &back));
            set.push((self.place(0, exit_gpu), self.place(1, exit_gpu), Via::Nic(exit)));
            set.push((self.place(1, gpu), self.place(0, gpu), Via::Nic(nic)));
            sets.push(set);
            for (a, b, share) in ring(self.nodes) {
                let out = if a % 2 == 0 { exit } else { nic };
                let into = if b % 2 == 1 { exit } else { nic };
                edges.push((Port { node: a, nic: out }, Port { node: b, nic: into }, share * weight));
            }
        }
        let node = self.paced(&sets)?;
        Ok(node.or(&self.channels(edges.into_iter())?))
    }

    /// Every NIC with its GPU.
    fn rails(&self) -> Vec<(u32, usize)> {
        let mut rails = self.router.rails(&self.cluster.gpus());
        if self.nodes > 1 && rails.is_empty() {
            rails.push((0, 0));
        }
        rails
    }

    /// What all NICs of a node send while they receive as much.
    fn nics(&mut self) -> Result<Held, SimulateError> {
        let pair = |(nic, gpu): (u32, usize)| {
            let [a, b] = [0, 1].map(|node| self.place(node, gpu));
            vec![(a, b, Via::Nic(nic)), (b, a, Via::Nic(nic))]
        };
        let sets: Vec<_> = self.rails().into_iter().map(pair).collect();
        self.paced(&sets)
    }

    /// What edges between nodes carry, of which every NIC has its part: as much as the NICs of the busiest node, and the
    /// links of the network.
    fn network(&mut self, edges: &[Edge], nics: &Held) -> Result<Held, SimulateError> {
        let mut asked = vec![[0.0_f64; 2]; self.nodes as usize];
        for (a, b, bytes) in edges {
            asked[*a as usize][0] += bytes;
            asked[*b as usize][1] += bytes;
        }
        let most = asked.iter().flatten().copied().fold(0.0, f64::max);
        let rails = self.rails();
        let weight = 1.0 / rails.len() as f64;
        let of_rails = edges.iter().flat_map(|(a, b, bytes)| {
            rails
                .iter()
                .map(move |(nic, _)| (Port { node: *a, nic: *nic }, Port { node: *b, nic: *nic }, bytes * weight))
        });
        Ok(nics.times(1.0 / most).or(&self.channels(of_rails)?))
    }

    /// What the network's links carry of these transfers at one pace.
    fn channels(&mut self, edges: impl Iterator<Item = (Port, Port, f64)>) -> Result<Held, SimulateError> {
        let Some(network) = &self.cluster.network else { return Ok(Held::UNLIMITED) };
        let mut asked: HashMap<u64, f64> = HashMap::new();
        let mut path = Vec::new();
        for (a, b, bytes) in edges {
            path.clear();
            network.path(a, b, &mut path)?;
            path.iter().for_each(|channel| *asked.entry(*channel).or_default() += bytes);
        }
        let mut kinds: HashMap<u64, (f64, String)> = HashMap::new();
        let mut slowest = Held::UNLIMITED;
        for (channel, bytes) in asked {
            let kind = self.router.channel_kind(channel);
            if !kinds.contains_key(&kind) {
                kinds.insert(kind, self.router.channel(channel)?);
            }
            let (capacity, name) = &kinds[&kind];
            if capacity / bytes < slowest.rate {
                slowest = Held { rate: capacity / bytes, by: name.clone(), component: None };
            }
        }
        slowest.component = self.router.component(&slowest.by);
        Ok(slowest)
    }

    /// Seconds that a message to the next node takes beyond those of NCCL's table, on average around the ring of nodes.
    fn message(&mut self) -> Result<f64, SimulateError> {
        let Some(&(nic, gpu)) = self.rails().first() else { return Ok(0.0) };
        let [a, b] = [0, 1].map(|node| self.place(node, gpu));
        let way = self.router.way_by(a, b, Engine::Sm, Via::Nic(nic))?;
        let first = self.router.start_of(&way, 8.0);
        let Some(network) = &self.cluster.network else { return Ok(0.0) };
        let mut path = Vec::new();
        let mut hops = |a: u32, b: u32| -> Result<f64, SimulateError> {
            path.clear();
            network.path(Port { node: a, nic }, Port { node: b, nic }, &mut path)?;
            Ok(network.hops(path.len()) as f64)
        };
        let nearest = hops(0, 1)?;
        let all: Result<Vec<f64>, _> = ring(self.nodes).into_iter().map(|(a, b, _)| hops(a, b)).collect();
        let mean = all?.iter().sum::<f64>() / f64::from(self.nodes);
        let table = Latencies::NCCL.network.map_or(0.0, Seconds::seconds);
        let adapter = self.cluster.nics.first().and_then(|nic| {
            let part = Parts::embedded().get(self.cluster.node.fabric.node(*nic).part.as_deref()?)?;
            part.constant("collective_latency")
        });
        let longer = Seconds::from_us(adapter.unwrap_or(0.0)).seconds();
        Ok((first + (mean - nearest) * network.hop_latency.seconds() - table).max(0.0) + longer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Wanted;
    use peerlane_read::catalogue::system;

    fn hgx(nodes: u32, network: &str) -> Cluster {
        let node = system("hgx-h200").unwrap().unwrap();
        if nodes == 1 {
            return Cluster::single(node);
        }
        let wanted: Wanted = network.parse().unwrap();
        Cluster::of(node, nodes, &wanted, None, Seconds::from_us(0.3)).unwrap()
    }

    fn predicted(cluster: &Cluster, choice: &str, size: u64) -> Predicted {
        let choice = if choice.is_empty() { Choice::FREE } else { choice.parse().unwrap() };
        let library = Library::of(cluster, Collective::AllReduce, choice, None).unwrap();
        library.predict(Bytes(size), choice).unwrap()
    }

    #[test]
    fn trees_reach_every_node_once_and_no_node_carries_more_than_twice_the_data() {
        for nodes in [2, 3, 4, 5, 7, 8, 12, 31, 248, 1000] {
            let edges = trees(nodes);
            assert_eq!(edges.len() as u32, 4 * (nodes - 1));
            let mut asked = vec![[0.0; 2]; nodes as usize];
            for (a, b, bytes) in &edges {
                assert!(a != b && *a < nodes && *b < nodes, "{nodes}: {a} {b}");
                asked[*a as usize][0] += bytes;
                asked[*b as usize][1] += bytes;
            }
            assert!(asked.iter().flatten().all(|bytes| (0.5..=2.0).contains(bytes)), "{nodes}: {asked:?}");
            // from every node of the first tree one comes to the root
            let parents: HashMap<u32, u32> = edges.chunks(4).map(|of| (of[0].0, of[0].1)).collect();
            for start in 1..nodes {
                let path = std::iter::successors(Some(start), |node| parents.get(node).copied());
                assert_eq!(path.take(64).last(), Some(0), "{nodes} {start}");
            }
        }
    }

    #[test]
    fn nothing_goes_above_the_line_rate_and_two_nodes_need_half_of_it() {
        // eight NICs of 400 Gb/s
        const LINES: f64 = 8.0 * 50e9;
        for nodes in [2, 4, 32] {
            let ring = predicted(&hgx(nodes, "rail"), "ring+simple", 16 << 30);
            assert!(ring.rate < LINES && ring.rate > 0.85 * LINES.min(366e9), "{nodes}: {ring:?}");
        }
        let two = predicted(&hgx(2, "rail"), "nvlstree", 16 << 30);
        let four = predicted(&hgx(4, "rail"), "nvlstree", 16 << 30);
        assert!(two.rate > LINES && four.rate < LINES, "{two:?} {four:?}");
    }

    #[test]
    fn the_steps_between_nodes_and_within_have_their_own_time() {
        // NCCL's table: 6.6 + 446 × 0.6 + 64 × 2.7 = 447 µs, and the switches of the network
        let ring = predicted(&hgx(32, "rail"), "ring+ll", 8);
        assert!((440e-6..470e-6).contains(&ring.time), "{ring:?}");
        assert!(predicted(&hgx(32, "rail"), "", 8).time < ring.time / 4.0, "a tree is chosen");
    }

    #[test]
    fn a_taper_holds_rings_that_leave_their_leaf() {
        let full = predicted(&hgx(64, "fat-tree:2"), "ring+simple", 16 << 30).rate;
        let tapered = predicted(&hgx(64, "fat-tree:2:4"), "ring+simple", 16 << 30).rate;
        assert!(tapered < 0.6 * full, "{tapered} of {full}");
    }

    #[test]
    fn time_grows_with_size_and_rate_too() {
        let cluster = hgx(1, "");
        let library = Library::of(&cluster, Collective::AllReduce, Choice::FREE, None).unwrap();
        let all: Vec<Predicted> = (3..35).map(|log| library.predict(Bytes(1 << log), Choice::FREE).unwrap()).collect();
        for pair in all.windows(2) {
            assert!(pair[1].time >= pair[0].time && pair[1].rate >= pair[0].rate * 0.95, "{pair:?}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused_by_name() {
        let cluster = Cluster::single(system("dgx-1v").unwrap().unwrap());
        let choice: Choice = "nvls".parse().unwrap();
        let library = Library::of(&cluster, Collective::AllReduce, choice, None).unwrap();
        let why = library.predict(Bytes(8), choice).unwrap_err().to_string();
        assert!(why.contains("nvls cannot be done here; these can: tree, ring"), "{why}");
    }
}
