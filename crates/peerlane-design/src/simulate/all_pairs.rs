//! All-to-all over more GPUs than every pair of which can be played: what it asks of each resource, counted.
//!
//! All pairs move the same bytes, so that no time is shorter than that of the busiest resource. It is the time where that
//! resource is busy until the end. Nodes are alike, but for those that have lost adapters: one stands for all. What each channel of the network carries: `loads`.

mod loads;

use super::SimulateError;
use super::estimate::Estimate;
use super::outcome::{Outcome, STARTING};
use super::streams::Joint;
use crate::cluster::network::Port;
use crate::cluster::{Cluster, Place, Router, Via};
use peerlane_machine::matrix::Engine;

/// Its error.
const ONE_PACE: f64 = 0.05;

/// The outcome of an all-to-all of `size` bytes a GPU.
pub(super) fn all_to_all(cluster: &Cluster, router: &mut Router, size: f64) -> Result<Outcome, SimulateError> {
    let gpus = cluster.gpus();
    let nodes = cluster.nodes_in_use().max(1);
    let n = gpus.len() as f64 * f64::from(nodes);
    let bytes = size / n;
    let mut joint = Joint::new(1);
    let mut channels = Vec::new();
    let at = |node: u32, gpu: usize| Place { node, device: gpus[gpu] };
    // what a node's GPUs send each other, and to and from all others
    let cut: Vec<u32> = router.nodes_with_cut_off().filter(|node| *node < nodes).collect();
    let usual = (0..nodes).find(|node| !cut.contains(node));
    for node in usual.into_iter().chain(cut.iter().copied()) {
        for (a, b) in (0..gpus.len()).flat_map(|a| (0..gpus.len()).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let (_, leg) = router.course(at(node, a), at(node, b), Engine::Sm, Via::Direct, &mut channels)?.legs[0];
            joint.add_leg_of(router, 0, 1.0, 1, (node, leg))?;
        }
        let beyond = i64::from(nodes - 1) * gpus.len() as i64;
        let next = (node + 1) % nodes;
        for gpu in (0..gpus.len()).filter(|_| nodes > 1) {
            for [a, b] in [[node, next], [next, node]] {
                let legs = router.course(at(a, gpu), at(b, gpu), Engine::Sm, Via::Direct, &mut channels)?.legs;
                let (_, leg) = legs[usize::from(b == node)];
                joint.add_leg_of(router, 0, 1.0, beyond, (node, leg))?;
            }
        }
    }
    if let Some(network) = &cluster.network {
        let places = |node: u32| gpus.iter().map(|gpu| router.working(Place { node, device: *gpu })).collect();
        let kinds: Vec<Vec<Vec<u32>>> = [usual.unwrap_or(0)].iter().chain(&cut).map(|node| places(*node)).collect();
        let between = Between::new(&kinds, cut, cluster.nics.len());
        for (channel, load) in loads::busiest(network, nodes, &between)? {
            joint.add_channel(router, 0, load, channel)?;
        }
    }
    let pace = joint.solve()?.remove(0);
    // the longest start-up
    let mut start = 0.0_f64;
    let mut alone = 0.0_f64;
    for node in 0..nodes {
        let to = if node == 0 { gpus.len() - 1 } else { 0 };
        if (node, to) == (0, 0) {
            continue;
        }
        channels.clear();
        let course = router.course(at(0, 0), at(node, to), Engine::Sm, Via::Direct, &mut channels)?;
        let lone = course.legs[..course.count].iter().map(|(_, leg)| router.leg_of(*leg).demand.own_cap());
        let lone = lone.fold(pace.rate * n, f64::min);
        start = start.max(router.start((course.latency, course.message, course.copy), bytes, lone));
        alone = alone.max(bytes / lone);
    }
    let time = start + bytes / pace.rate;
    let because = "all pairs are taken to keep the pace that the busiest resource lets them have".to_owned();
    let mut spent = vec![(pace.binding.unwrap_or_default(), 1.0 - start / time), (STARTING.to_owned(), start / time)];
    spent.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(Outcome {
        time,
        alone,
        bytes: bytes * n * (n - 1.0),
        last: spent.clone(),
        spent,
        rerouted: router.rerouted(),
        estimate: Some(Estimate { because, error: Some(ONE_PACE) }),
        ..Outcome::default()
    })
}

/// How many pairs of GPUs of two nodes send through each pair of NICs; a pair that is split over several counts as parts.
struct Between {
    /// Nodes that have lost NICs: kind 1 and on; all others are kind 0.
    cut: Vec<u32>,
    /// By the kinds of the source's and the destination's node.
    tables: Vec<Vec<Vec<Vec<f64>>>>,
}

impl Between {
    /// `kinds` has for each kind of nodes the NICs of each GPU.
    fn new(kinds: &[Vec<Vec<u32>>], cut: Vec<u32>, nics: usize) -> Self {
        let table = |(out, into): (&Vec<Vec<u32>>, &Vec<Vec<u32>>)| {
            let mut table = vec![vec![0.0; nics]; nics];
            for (from, to) in out.iter().flat_map(|from| into.iter().map(move |to| (from, to))) {
                let parts = from.len().max(to.len());
                for part in 0..parts {
                    table[from[part % from.len()] as usize][to[part % to.len()] as usize] += 1.0 / parts as f64;
                }
            }
            table
        };
        let tables = kinds.iter().map(|out| kinds.iter().map(|into| table((out, into))).collect()).collect();
        Between { cut, tables }
    }

    /// The kind of a node.
    fn kind(&self, node: u32) -> usize {
        self.cut.iter().position(|cut| *cut == node).map_or(0, |at| at + 1)
    }

    /// What a port sends to all nodes but its own, of so many.
    fn sent(&self, port: Port, nodes: u32) -> f64 {
        let own = self.kind(port.node);
        let to = |(kind, table): (usize, &Vec<Vec<f64>>)| {
            let of_kind = if kind == 0 { f64::from(nodes) - self.cut.len() as f64 } else { 1.0 };
            (of_kind - f64::from(u8::from(kind == own))) * table[port.nic as usize].iter().sum::<f64>()
        };
        self.tables[own].iter().enumerate().map(to).sum()
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "the tables of validation/simulation.md are printed")]
mod tests {
    use super::super::outcome::run;
    use super::super::workload::Workload;
    use super::*;
    use crate::cluster::Wanted;
    use peerlane_machine::units::Seconds;
    use peerlane_read::catalogue::{Parts, system};

    fn error(node: &str, nodes: u32, network: &str, size: f64) -> f64 {
        let wanted: Wanted = network.parse().unwrap();
        let machine = system(node).unwrap().unwrap();
        let cluster = Cluster::of(machine, nodes, &wanted, None, Seconds::from_us(0.3)).unwrap();
        let mut router = Router::new(&cluster, Parts::embedded());
        let program = "all-to-all".parse::<Workload>().unwrap().program(&cluster, &router, size).unwrap();
        let played = run(&program, &mut router, Engine::Sm).unwrap().time;
        let counted = all_to_all(&cluster, &mut Router::new(&cluster, Parts::embedded()), size).unwrap().time;
        println!(
            "| {node} × {nodes}, {network}, {size:.0e} B | {played:.6} | {counted:.6} | {:+.2} % |",
            100.0 * (counted / played - 1.0)
        );
        counted / played - 1.0
    }

    #[test]
    fn the_busiest_resource_decides() {
        for (node, nodes, network) in [
            ("hgx-h200", 8, "rail"),
            ("hgx-h200", 8, "fat-tree:2"),
            ("hgx-h200", 8, "fat-tree:2:3"),
            ("quong-node", 16, "torus:4x4"),
        ] {
            for size in [8.0, 1e9] {
                let error = error(node, nodes, network, size);
                assert!(error.abs() <= ONE_PACE, "{node} {network} {size}: {error}");
            }
        }
    }

    #[test]
    fn nodes_that_lost_an_adapter_are_counted_as_they_are_played() {
        for (network, failed) in
            [("fat-tree:2", vec!["node3/mlx5_2"]), ("rail:2", vec!["node0/mlx5_0", "node5/mlx5_0", "node5/mlx5_1"])]
        {
            let wanted: Wanted = network.parse().unwrap();
            let machine = system("hgx-h200").unwrap().unwrap();
            let mut cluster = Cluster::of(machine, 8, &wanted, None, Seconds::from_us(0.3)).unwrap();
            failed.iter().for_each(|what| cluster.fail(what).unwrap());
            let mut router = Router::new(&cluster, Parts::embedded());
            let program = "all-to-all".parse::<Workload>().unwrap().program(&cluster, &router, 1e9).unwrap();
            let played = run(&program, &mut router, Engine::Sm).unwrap();
            let counted = all_to_all(&cluster, &mut Router::new(&cluster, Parts::embedded()), 1e9).unwrap();
            let error = counted.time / played.time - 1.0;
            assert!(error.abs() <= ONE_PACE, "{network}: {error}");
            assert!(played.rerouted && counted.rerouted, "{network}");
        }
    }

    /// The table in `validation/simulation.md`, *Many GPUs*.
    #[test]
    #[ignore = "plays a million transfers at once"]
    fn table_of_errors() {
        for (node, nodes, network) in [
            ("hgx-h200", 32, "rail:2"),
            ("hgx-h200", 128, "rail:2"),
            ("hgx-h200", 32, "fat-tree:2"),
            ("hgx-h200", 128, "fat-tree:2"),
            ("hgx-h200", 32, "fat-tree:2:3"),
            ("hgx-h200", 128, "fat-tree:2:3"),
            ("quong-node", 64, "torus:4x4x4"),
            ("quong-node", 512, "torus:8x8x8"),
        ] {
            error(node, nodes, network, 1e9);
        }
    }
}
