//! Chains and trees in chunks over very many nodes: played on a few of them, and grown.
//!
//! * A further level of a **tree** adds the same time, since chunks arrive and leave in one pattern.
//! * A further node of a **chain** adds what its hops take alone. Chains that meet at a node first hold each other up, less the
//!   longer they go: what they lose grows as a power of the nodes, below one.
//!
//! Such a collective is played on two smaller numbers of the cluster's nodes, and grows from there. In the end, chunks follow
//! each other at the pace of their busiest resource, which [`streams`](super::streams) counts over all nodes.

use super::SimulateError;
use super::all_pairs::all_to_all;
use super::estimate::{Estimate, GROWN as TREES};
use super::node_rings::NodeRings;
use super::outcome::{Limits, Outcome, run_within};
use super::program::Carried;
use super::streams::{Stream, paces};
use super::workload::{Algorithm, MOST_PAIRS, Workload};
use crate::cluster::{Cluster, Component, Router};
use peerlane_machine::matrix::Engine;
use peerlane_read::catalogue::Parts;

/// Error of chains that are grown.
const CHAINS: f64 = 0.1;
/// Most steps that are played of the larger of the two.
const MOST_STEPS: usize = 530_000;
/// So many times more nodes it has than the smaller.
const FACTOR: u32 = 2;

/// A collective on some of a cluster's nodes.
struct Part {
    outcome: Outcome,
    nodes: f64,
    /// Seconds that one chunk takes with everything to itself.
    chunk: f64,
}

/// What one collective is, however many nodes take part.
pub(super) struct Grown<'g> {
    pub cluster: &'g Cluster,
    pub workload: &'g Workload,
    pub rings: Option<&'g NodeRings>,
    pub size: f64,
    /// A component that carries a multiple of what it does.
    pub faster: Option<(Component, f64)>,
}

impl Grown<'_> {
    /// The outcome, where it is such a collective of more steps than `limits` let play; or else `None`.
    pub(super) fn outcome(&self, limits: Limits) -> Result<Option<Outcome>, SimulateError> {
        let nodes = self.cluster.nodes_in_use().max(1);
        let gpus = self.cluster.gpus().len();
        let chains = self.rings.map_or(1, |_| gpus);
        let per_node = match self.workload {
            Workload::AllReduce(Algorithm::Tree) => 4 * gpus,
            Workload::Broadcast => chains * gpus,
            Workload::AllToAll(_) if (gpus * nodes as usize).pow(2) > MOST_PAIRS => {
                return self.on(nodes, |router, part| all_to_all(part, router, self.size)).map(Some);
            }
            _ => return Ok(None),
        };
        let chunks = match self.on(1, |router, part| Ok(self.pipelined(part, router).map(|p| p.chunks)))? {
            Some(chunks) => chunks as usize,
            None => return Ok(None),
        };
        if nodes as usize * per_node * chunks <= limits.steps {
            return Ok(None);
        }
        let most = (MOST_STEPS / (per_node * chunks)).max(8) as u32;
        let large = 1 << most.min(nodes).max(2).ilog2();
        let (few, more) = (self.played(large / FACTOR)?, self.played(large)?);
        let n = f64::from(nodes);
        // of a tree by level, of a chain by node
        let tree = *self.workload != Workload::Broadcast;
        let place = |nodes: f64| if tree { nodes.log2() } else { nodes };
        let ratio = (place(n) - place(more.nodes)) / (place(more.nodes) - place(few.nodes));
        let grow = |few: f64, more: f64| more + (more - few) * ratio;
        let time = if tree {
            grow(few.outcome.time, more.outcome.time)
        } else {
            let lost = |part: &Part| (part.outcome.time - part.chunk).max(f64::MIN_POSITIVE);
            let power = ((lost(&more) / lost(&few)).ln() / f64::from(FACTOR).ln()).clamp(0.0, 1.0);
            grow(few.chunk, more.chunk) + lost(&more) * (n / more.nodes).powf(power)
        };
        // a network may carry less between more nodes
        let slower = (self.period(nodes)? - self.period(large)?) * (chunks - 1) as f64;
        let time = time + slower.max(0.0);
        let all = |nodes: f64| gpus as f64 * nodes - 1.0;
        let because = format!(
            "played on {} and {large} nodes; time grows from there by {}, and chunks follow each other at the pace of the busiest \
             resource of all",
            large / FACTOR,
            if tree { "the levels of the tree" } else { "what a chunk takes alone and a power of the nodes" },
        );
        Ok(Some(Outcome {
            time,
            alone: grow(few.outcome.alone, more.outcome.alone).min(time),
            bytes: more.outcome.bytes * all(n) / all(more.nodes),
            estimate: Some(Estimate { because, error: Some(if tree { TREES } else { CHAINS }) }),
            ..more.outcome
        }))
    }

    /// Something on the first so many nodes.
    fn on<T>(
        &self,
        nodes: u32,
        what: impl FnOnce(&mut Router, &Cluster) -> Result<T, SimulateError>,
    ) -> Result<T, SimulateError> {
        let mut part = self.cluster.clone();
        part.taking = (nodes, self.cluster.taking.1);
        let mut router = Router::new(&part, Parts::embedded());
        if let Some((component, factor)) = &self.faster {
            router.scale(component.clone(), *factor);
        }
        what(&mut router, &part)
    }

    fn pipelined(&self, part: &Cluster, router: &Router) -> Option<super::workload::Pipelined> {
        self.workload.pipelined(part, router, self.rings, self.size)
    }

    fn played(&self, nodes: u32) -> Result<Part, SimulateError> {
        let limits = Limits { counted_from: usize::MAX, steps: usize::MAX, ..Limits::default() };
        self.on(nodes, |router, part| {
            let mut program = self.workload.around(part, router, self.rings, self.size, false)?;
            let outcome = run_within(&program, router, Engine::Sm, limits)?;
            let mut chunk = 0.0;
            if *self.workload == Workload::Broadcast {
                for round in &mut program.rounds {
                    round.repeats = 1;
                    // one chain
                    let count = round.within.iter().zip(0..).take_while(|((a, _), i)| a == i).count();
                    round.steps.truncate(count + 1);
                    round.within.truncate(count);
                    round.carried = Carried::All;
                }
                chunk = run_within(&program, router, Engine::Sm, limits)?.time;
            }
            Ok(Part { outcome, nodes: f64::from(nodes), chunk })
        })
    }

    /// Seconds between two chunks once all are under way.
    fn period(&self, nodes: u32) -> Result<f64, SimulateError> {
        self.on(nodes, |router, part| {
            let Some(pipelined) = self.pipelined(part, router) else { return Ok(0.0) };
            let (streams, bytes): (Vec<Stream>, Vec<f64>) = pipelined.streams().into_iter().unzip();
            let paces = paces(router, &streams)?;
            Ok(paces.iter().zip(bytes).map(|(pace, bytes)| bytes / pace.rate).fold(0.0, f64::max))
        })
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "the tables of validation/simulation.md are printed")]
mod tests {
    use super::*;
    use crate::cluster::Wanted;
    use peerlane_machine::units::Seconds;
    use peerlane_read::catalogue::system;

    fn cluster(nodes: u32, network: &str) -> Cluster {
        let wanted: Wanted = network.parse().unwrap();
        Cluster::of(system("hgx-h200").unwrap().unwrap(), nodes, &wanted, None, Seconds::from_us(0.3)).unwrap()
    }

    /// Played whole, and grown.
    fn both(cluster: &Cluster, workload: &str, size: f64) -> (f64, f64) {
        let workload: Workload = workload.parse().unwrap();
        let router = Router::new(cluster, Parts::embedded());
        let rings = workload.rings(cluster, &router);
        let all = Grown { cluster, workload: &workload, rings: rings.as_ref(), size, faster: None };
        let grown = all.outcome(Limits { steps: 0, ..Limits::default() }).unwrap().unwrap();
        assert!(grown.estimate.is_some());
        (all.played(cluster.taking.0).unwrap().outcome.time, grown.time)
    }

    #[test]
    fn what_is_grown_is_near_to_what_is_played() {
        for (workload, size) in [("all-reduce:tree", 1e6), ("broadcast:ring", 1e6)] {
            let (played, grown) = both(&cluster(48, "rail:2"), workload, size);
            assert!((grown / played - 1.0).abs() <= TREES, "{workload} {size}: {grown} for {played}");
        }
    }

    /// The table in `validation/simulation.md`, *Many GPUs*: `cargo test --release -p peerlane-design --lib grown -- --ignored
    /// --nocapture`.
    #[test]
    #[ignore = "plays every step of large clusters, which takes many minutes"]
    fn table_of_errors() {
        let nodes: Vec<u32> = match std::env::var("NODES") {
            Ok(text) => text.split(',').map(|n| n.parse().unwrap()).collect(),
            Err(_) => vec![512, 1024, 2048, 4096],
        };
        let size: f64 = std::env::var("SIZE").map_or(1.1e9, |text| text.parse().unwrap());
        for network in ["rail:3", "fat-tree:3"] {
            for workload in ["all-reduce:tree", "broadcast:ring"] {
                for nodes in &nodes {
                    let begun = std::time::Instant::now();
                    let (played, grown) = both(&cluster(*nodes, network), workload, size);
                    let error = 100.0 * (grown / played - 1.0);
                    let took = begun.elapsed().as_secs_f64();
                    println!(
                        "| {network} {workload} {size} | {nodes} | {played:.6} | {grown:.6} | {error:+.2} % | {took:.0} s |"
                    );
                }
            }
        }
    }

    /// Seconds and peak memory on 1,048,576 GPUs; with `WORKLOAD` of one workload, since the peak is that of the process.
    #[test]
    #[ignore = "a measurement, for an optimising compiler"]
    fn a_million_gpus() {
        use crate::simulate::result::{Job, simulate};
        use peerlane_machine::units::Bytes;
        let all = "all-reduce:rail all-reduce:ring all-reduce:tree broadcast:ring all-gather:ring".to_owned();
        for network in ["rail:3", "fat-tree:3"] {
            let cluster = cluster(131_072, network);
            for workload in std::env::var("WORKLOAD").unwrap_or(all.clone()).split(' ') {
                let begun = std::time::Instant::now();
                let job = Job::Workload(workload.parse().unwrap(), vec![Bytes(1 << 30)]);
                let (document, _) = simulate(&cluster, &job, false).unwrap();
                let took = begun.elapsed().as_secs_f64();
                let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
                let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
                println!(
                    "| {network} {workload} | {:.4} s | {took:.1} s | {peak} | {:?}",
                    document.points[0].time, document.estimate
                );
            }
        }
    }
}
