//! Collectives as NCCL or RCCL does them: what the paths of a machine or cluster carry for each algorithm, and the tuner's time
//! of the one that it would choose. `count.rs` finds the rates, over the edges between nodes.

mod count;
mod edges;
mod exchange;
mod expected;
mod shared;

pub(super) use exchange::{Exchange, exchanged, with_peers};
pub use expected::{ExpectedCollective, ExpectedPoint};

pub(super) use shared::{Between, Share, all_edges};

use std::collections::BTreeSet;
use std::rc::Rc;

use super::SimulateError;
use super::estimate::Estimate;
use super::node_rings::NodeRings;
use super::outcome::{Outcome, STARTING};
use crate::cluster::{Cluster, Component, Place, Router};
use count::{Count, Held};
use edges::trees;
use peerlane_machine::fabric::{CpuVendor, Fabric, NodeId, NodeKind};
use peerlane_machine::matrix::Engine;
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;
use peerlane_model::collectives::tuner::{Carried, Factors, Generation, Job, Medium, Predicted, Ranks};
use peerlane_model::collectives::tuning::{generation, medium, reached};
use peerlane_model::collectives::{Algorithm, Choice, Protocol, Rings, nvls_rate};
use peerlane_model::flows::{Flows, interchangeable};
use peerlane_read::catalogue::Parts;

/// A collective of a library on a cluster.
pub struct Library {
    job: Job,
    carried: Carried,
    /// What holds the bytes of each algorithm.
    held: [Held; Algorithm::ALL.len()],
    /// Of the start-up's usual time.
    startup: f64,
    rerouted: bool,
    rings: Option<Rc<NodeRings>>,
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
        let mut each = Self::each(cluster, &[collective], choice, faster)?;
        Ok(each.remove(0))
    }

    /// The same of several collectives, in their order: rings are searched once.
    ///
    /// # Errors
    /// As [`Library::of`].
    pub fn each(
        cluster: &Cluster,
        collectives: &[Collective],
        choice: Choice,
        faster: Option<(Component, f64)>,
    ) -> Result<Vec<Self>, SimulateError> {
        let gpus = cluster.gpus();
        let nodes = cluster.nodes_in_use().max(1);
        let parts = Parts::embedded();
        let cluster = with_peers(cluster);
        let mut router = Router::new(&cluster, parts);
        if let Some((component, factor)) = faster {
            router.scale(component, factor);
        }
        // a ring goes through all, so that one without a way to any other is reason enough not to search
        if gpus.len() > 1 && !gpus.iter().all(|gpu| reaches_another(&mut router, *gpu, &gpus)) {
            return Err(without_rate(&mut router, &gpus));
        }
        let rings = node_rings(&cluster, &router).map(Rc::new);
        if rings.is_none() && gpus.len() > 1 {
            return Err(without_rate(&mut router, &gpus));
        }
        let orders = rings.as_ref().map_or_else(|| vec![vec![0]], |found| found.orders());
        let medium = medium_of(&router, &orders).unwrap_or(Medium::Host);
        let mut count = Count { cluster: &cluster, router: &mut router, nodes, orders, share: reached(medium) };
        let within = count.within()?;
        let like = job(&mut count, Collective::AllReduce, medium)?;
        let Job { ranks, generation, .. } = like;
        let of = |collective: &Collective| {
            let job = Job { collective: *collective, ..like };
            let nvls = |sent: f64| nvls_rate(&cluster.node.fabric, generation, &gpus, sent, *collective);
            let found = if nodes == 1 {
                let tree = within.times(chain(gpus.len()) * collective.bus_factor(ranks));
                let nvls = nvls(within.rate).map(|rate| (Algorithm::Nvls, Held { rate, ..within.clone() }));
                [(Algorithm::Ring, within.clone()), (Algorithm::Tree, tree)].into_iter().chain(nvls).collect()
            } else {
                between(&mut count, &job, choice, &within, nvls(within.rate))?
            };
            let mut carried = Carried::default();
            let mut held = [const { Held::UNLIMITED }; Algorithm::ALL.len()];
            for (algorithm, of) in found {
                carried = carried.with(algorithm, Some(of.rate));
                held[algorithm as usize] = of;
            }
            Ok((job, carried, held))
        };
        let found: Vec<_> = collectives.iter().map(of).collect::<Result<_, SimulateError>>()?;
        let without = router.nodes_with_cut_off().any(|node| node < nodes);
        let (startup, rerouted) = (cluster.latencies.stages, router.rerouted() || without);
        let library = |(job, carried, held)| Library { job, carried, held, startup, rerouted, rings: rings.clone() };
        Ok(found.into_iter().map(library).collect())
    }

    /// The rings within a node.
    pub(super) fn rings(&self) -> Option<&NodeRings> {
        self.rings.as_deref()
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
                protocol: Protocol::Simple,
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

    /// How far predictions are from what was published, as a share, in 85 of 100 figures (`docs/collectives.md`).
    pub fn error(&self, size: Bytes) -> f64 {
        error(self.job.nodes, size)
    }

    fn estimate(&self, size: Bytes) -> Estimate {
        Estimate { because: "what a library does is predicted, not played".to_owned(), error: Some(self.error(size)) }
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

/// How far predictions on so many nodes are from what was published.
fn error(nodes: usize, size: Bytes) -> f64 {
    const LARGE: u64 = 256 << 20;
    const SMALL: u64 = 4 << 20;
    match (nodes, size.0) {
        (1, LARGE..) => 0.05,
        (1, _) => 0.2,
        (_, LARGE..) => 0.25,
        (_, SMALL..) => 0.4,
        _ => 0.55,
    }
}

/// What a library's tuner sees of all GPUs that take part, with a process for each.
fn job(count: &mut Count, collective: Collective, medium: Medium) -> Result<Job, SimulateError> {
    let (gpus, parts) = (count.cluster.gpus(), Parts::embedded());
    let fabric = &count.cluster.node.fabric;
    Ok(Job {
        collective,
        ranks: gpus.len() * count.nodes as usize,
        nodes: count.nodes as usize,
        generation: generation(fabric, parts, &gpus),
        medium,
        run: Ranks::ProcessEach,
        network: if count.nodes == 1 { 0.0 } else { count.message()? },
        on_amd: has_cpus_of_amd(fabric, parts),
    })
}

/// Whether the CPUs of a machine are AMD's, as far as its description names them.
fn has_cpus_of_amd(fabric: &Fabric, parts: &Parts) -> bool {
    let vendor = |cpu: NodeId| {
        let node = fabric.node(cpu);
        node.vendor.or(node.part.as_deref().and_then(|key| parts.get(key)?.vendor))
    };
    fabric.of_kind(NodeKind::Cpu).any(|cpu| vendor(cpu) == Some(CpuVendor::Amd))
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

/// Whether a GPU has a way of known rate to any other.
fn reaches_another(router: &mut Router, gpu: NodeId, gpus: &[NodeId]) -> bool {
    let at = |device: NodeId| Place { node: 0, device };
    gpus.iter().any(|other| *other != gpu && router.way(at(gpu), at(*other), Engine::Sm).is_ok())
}

/// Why these GPUs have no ring: a pair whose rate is not known.
fn without_rate(router: &mut Router, gpus: &[NodeId]) -> SimulateError {
    let at = |device: &NodeId| Place { node: 0, device: *device };
    let pairs = gpus.iter().flat_map(|a| gpus.iter().filter(move |b| *b != a).map(move |b| (at(a), at(b))));
    let refused = pairs.map(|(a, b)| router.way(a, b, Engine::Sm)).find_map(Result::err);
    refused.map_or_else(|| SimulateError::Network("no ring goes through all GPUs".to_owned()), SimulateError::Cluster)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Wanted;
    use peerlane_machine::units::Seconds;
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
        // 6.6 + 448 × 0.6 + 62 × 8 = 771 µs, and the switches of the network
        let ring = predicted(&hgx(32, "rail"), "ring+ll", 8);
        assert!((770e-6..800e-6).contains(&ring.time), "{ring:?}");
        assert!(predicted(&hgx(32, "rail"), "", 8).time < ring.time / 4.0, "a tree is chosen");
    }

    #[test]
    fn a_taper_holds_rings_that_leave_their_leaf() {
        let full = predicted(&hgx(64, "fat-tree:2"), "ring+simple", 16 << 30).rate;
        // eight rails leave a leaf over four uplinks
        let tapered = predicted(&hgx(64, "fat-tree:2:15"), "ring+simple", 16 << 30).rate;
        assert!(tapered < 0.6 * full, "{tapered} of {full}");
    }

    #[test]
    fn a_slow_nic_holds_the_rings_of_all() {
        let mut cluster = hgx(4, "rail");
        cluster.slow("node1/mlx5_1", 0.5).unwrap();
        // eight equal parts, of which one goes at half of 400 Gb/s, of which collectives reach 0.975
        let rate = predicted(&cluster, "ring+simple", 16 << 30).rate;
        assert!((0.92..=0.975).contains(&(rate / (8.0 * 25e9))), "{rate}");
        // without it the rings are seven, everywhere
        cluster.fail("node1/mlx5_1").unwrap();
        let rate = predicted(&cluster, "ring+simple", 16 << 30).rate;
        assert!((0.91..=0.975).contains(&(rate / (7.0 * 50e9))), "{rate}");
        cluster.fail("node1").unwrap();
        let refused = Library::of(&cluster, Collective::AllReduce, Choice::FREE, None).err().unwrap().to_string();
        assert!(refused.contains("node1 port"), "{refused}");
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
