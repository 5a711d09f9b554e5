//! How much memory a simulation takes, told before it begins from what it will simulate.
//!
//! Each figure was measured: the program's peak memory (`VmHWM`) on `hgx-h200 --network rail:3` with 128 to a million GPUs
//! (validation/simulation.md, *Memory*), to within a factor of 2.

use std::collections::HashSet;

use super::SimulateError;
use super::program::{Program, Step};
use super::workload::{Algorithm, MOST_PAIRS, Workload};
use crate::cluster::Cluster;

/// The most that a simulation may take, in bytes: 8 GiB, half of what a small workstation has.
pub const MOST_BYTES: f64 = (8_u64 << 30) as f64;

/// What the program itself takes.
const PROGRAM: f64 = 12e6;
/// A repetition's steps that are played one after another: up to 400,000, of 125 bytes.
const PLAYED: f64 = 50e6;
/// A transfer with a route of its own, and its place in the solver.
const TRANSFER: f64 = 2500.0;
/// A step of a trace, or of a repetition that is played.
const STEP: f64 = 135.0;
/// An edge of a graph while it is made.
const EDGE: f64 = 16.0;

/// A GPU of a collective that is predicted and not played: what its node's links of the network are asked for.
const LIBRARY: f64 = 150.0;

/// Trees and chains that are played on a few nodes and grown.
const GROWN: f64 = 200e6;

/// A GPU of an all-to-all that is counted.
const COUNTED: f64 = 500.0;

/// What a collective takes: [`PLAYED`] from so many GPUs on, less below, and so many bytes a GPU.
struct Collective {
    played_from: f64,
    per_gpu: f64,
}

const RINGS: Collective = Collective { played_from: 150.0, per_gpu: 1300.0 };
const TREE: Collective = Collective { played_from: 1000.0, per_gpu: 3200.0 };
const HIERARCHY: Collective = Collective { played_from: 2000.0, per_gpu: 1500.0 };
const RAILS: Collective = Collective { played_from: 1000.0, per_gpu: 3000.0 };
const BROADCAST: Collective = Collective { played_from: 1000.0, per_gpu: 4300.0 };
const NEIGHBOURS: Collective = Collective { played_from: f64::INFINITY, per_gpu: 5000.0 };

/// Bytes of memory that a workload takes on a cluster.
pub fn of_workload(cluster: &Cluster, workload: &Workload) -> f64 {
    let n = cluster.places().len() as f64;
    let collective = |of: Collective| PLAYED * (n / of.played_from).min(1.0) + of.per_gpu * n;
    PROGRAM
        + match workload {
            Workload::PointToPoint(..) => TRANSFER,
            Workload::Library(..) => LIBRARY * n,
            Workload::AllReduce(Algorithm::Ring | Algorithm::RingByNumber)
            | Workload::AllGather
            | Workload::ReduceScatter => collective(RINGS),
            Workload::AllReduce(Algorithm::Tree) => collective(TREE).min(GROWN + 600.0 * n),
            Workload::AllReduce(Algorithm::Hierarchical) => collective(HIERARCHY),
            Workload::AllReduce(Algorithm::Rail) => collective(RAILS),
            Workload::Broadcast => collective(BROADCAST).min(GROWN + 600.0 * n),
            Workload::Halo(_) | Workload::SpinGlass(_) => collective(NEIGHBOURS),
            Workload::AllToAll(_) if n * n > MOST_PAIRS as f64 => COUNTED * n,
            Workload::AllToAll(_) => TRANSFER * n * (n - 1.0).max(0.0),
            // every GPU may have something for every other in a level
            Workload::Bfs(search) => EDGE * 2_f64.powi(search.scale as i32) * search.edges as f64 + TRANSFER * n * n,
            Workload::Step(_) => LIBRARY * n,
        }
}

/// Bytes of memory that a program takes besides its own.
pub fn of_program(program: &Program) -> f64 {
    let steps = program.rounds.iter().flat_map(|round| &round.steps);
    let mut routes = HashSet::new();
    let mut count = 0_usize;
    for step in steps {
        count += 1;
        if let Step::Move { from, to, via, .. } = step {
            routes.insert((*from, *to, *via));
        }
    }
    PROGRAM + TRANSFER * routes.len() as f64 + STEP * count as f64
}

/// Refuses what takes too much.
///
/// # Errors
/// [`SimulateError::Memory`], where `needed` bytes are more than [`MOST_BYTES`].
pub fn refuse_beyond(needed: f64, what: impl FnOnce() -> String, gpus: usize) -> Result<(), SimulateError> {
    if needed <= MOST_BYTES {
        return Ok(());
    }
    Err(SimulateError::Memory { what: what(), gpus, needed: needed / 1e9, most: MOST_BYTES / 1e9 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Wanted;
    use peerlane_machine::units::Seconds;
    use peerlane_read::catalogue::system;

    fn hgx(nodes: u32) -> Cluster {
        let wanted: Wanted = "rail:3".parse().unwrap();
        Cluster::of(system("hgx-h200").unwrap().unwrap(), nodes, &wanted, None, Seconds::from_us(0.3)).unwrap()
    }

    fn estimate(workload: &str, nodes: u32) -> f64 {
        let cluster = hgx(nodes);
        of_workload(&cluster, &workload.parse().unwrap()) / 1e6
    }

    #[test]
    fn estimates_are_within_a_factor_of_two_of_what_was_measured() {
        // megabytes at 16, 128, 1024 and, where measured, 16384 nodes of 8 GPUs
        let measured: [(&str, [Option<f64>; 4]); 8] = [
            ("all-reduce:ring", [Some(47.0), Some(69.0), Some(100.0), Some(210.0)]),
            ("all-gather:ring", [Some(30.0), Some(69.0), Some(100.0), None]),
            ("all-reduce:tree", [Some(17.0), Some(50.0), Some(94.0), None]),
            ("all-reduce:hierarchical", [Some(14.0), Some(31.0), Some(68.0), None]),
            ("all-reduce:rail", [Some(12.0), Some(50.0), Some(86.0), None]),
            ("broadcast:ring", [Some(21.0), Some(69.0), Some(100.0), None]),
            ("halo:3", [Some(13.0), Some(22.0), Some(53.0), Some(651.0)]),
            ("all-to-all", [Some(46.0), Some(2620.0), None, None]),
        ];
        for (workload, sizes) in measured {
            for (nodes, megabytes) in [16, 128, 1024, 16384].into_iter().zip(sizes) {
                let Some(megabytes) = megabytes else { continue };
                let ratio = estimate(workload, nodes) / megabytes;
                assert!((0.5..=2.0).contains(&ratio), "{workload} on {nodes} nodes: {ratio:.2}");
            }
        }
        for (workload, nodes, megabytes) in
            [("bfs:scale=16", 2, 29.0), ("bfs:scale=20", 2, 283.0), ("bfs:scale=22", 2, 1088.0)]
        {
            let ratio = estimate(workload, nodes) / megabytes;
            assert!((0.5..=2.0).contains(&ratio), "{workload} on {nodes} nodes: {ratio:.2}");
        }
    }

    #[test]
    fn what_takes_too_much_is_refused_with_both_figures() {
        let refused = refuse_beyond(168e9, || "training".to_owned(), 8192).unwrap_err();
        let message = refused.to_string();
        assert!(message.starts_with("training on 8192 GPUs would take about 168.0 GB of memory, more than the 8.6 GB"));
        assert!(message.contains("--use-nodes"), "{message}");
        assert_eq!(refuse_beyond(MOST_BYTES, String::new, 1), Ok(()));
    }
}
