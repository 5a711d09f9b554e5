//! Rings through very many GPUs: counted as streams, with the start-ups on the longest path, and not played.
//!
//! Two times are certain bounds: that of the busiest resource for the bytes of all repetitions ([`streams`](super::streams)),
//! and that of the longest path if no transfer disturbed another ([`rings`](super::rings)). While one ring waits for a
//! start-up, others use what it leaves, so that the larger of both is the estimate.

use std::collections::HashMap;

use super::SimulateError;
use super::estimate::{self, Estimate};
use super::outcome::{Outcome, STARTING};
use super::play::Takes;
use super::rings::around;
use super::streams::{Stream, paces};
use crate::cluster::{ClusterError, Place, Router, Via};
use peerlane_machine::matrix::Engine;

/// Rings, each with its share of the data, that go round so often.
pub(super) struct LongRings {
    pub(super) rings: Vec<(Vec<Place>, f64)>,
    /// Two for an all-reduce, one for its halves.
    pub(super) turns: u64,
}

impl LongRings {
    /// The outcome with so many bytes a GPU.
    pub(super) fn outcome(self, router: &mut Router, size: f64) -> Result<Outcome, SimulateError> {
        let LongRings { rings, turns } = self;
        let n = rings.iter().map(|(ring, _)| ring.len()).max().unwrap_or(0);
        let repeats = turns * (n as u64).saturating_sub(1);
        let shares: Vec<f64> = rings.iter().map(|(_, share)| *share).collect();
        let streams: Vec<Stream> = rings.into_iter().map(|(ring, _)| Stream::ring(ring)).collect();
        let found = paces(router, &streams)?;
        let (mut time, mut moved, mut by) = (0.0_f64, 0.0, None);
        for ((stream, pace), share) in streams.iter().zip(&found).zip(shares) {
            let bytes = size / n as f64 * share;
            let busiest = repeats as f64 * bytes / pace.rate;
            let path = around(takes(router, stream, bytes, n)?, repeats).unwrap_or(0.0);
            if busiest.max(path) > time {
                (time, moved, by) = (busiest.max(path), busiest, pace.binding.clone());
            }
        }
        let start = if time > 0.0 { 1.0 - moved / time } else { 0.0 };
        let mut spent = vec![(by.unwrap_or_default(), 1.0 - start), (STARTING.to_owned(), start)];
        spent.sort_by(|a, b| b.1.total_cmp(&a.1));
        let because = format!(
            "the transfers of rings through {n} GPUs are taken to be held by the busiest resource, or by the longest path"
        );
        Ok(Outcome {
            time,
            alone: moved,
            bytes: size * (repeats as f64 / n as f64) * n as f64,
            last: spent.clone(),
            spent,
            rerouted: router.rerouted(),
            estimate: Some(Estimate { because, error: Some(estimate::LONG_RINGS) }),
            ..Outcome::default()
        })
    }
}

/// What each transfer of a ring takes if it has all that it uses to itself, in order.
fn takes(router: &mut Router, ring: &Stream, bytes: f64, n: usize) -> Result<Vec<Takes>, SimulateError> {
    let (mut found, mut failed, mut channels) = (Vec::with_capacity(n), None, Vec::new());
    let mut lone: HashMap<([u32; 2], usize, u32), f64> = HashMap::new();
    ring.each(&mut |from: Place, to: Place, _| {
        channels.clear();
        let mut one = || -> Result<Takes, ClusterError> {
            let of = router.course(from, to, Engine::Sm, Via::Direct, &mut channels)?;
            // nodes are alike: legs decide, whether a network is between, and in how many parts it is crossed
            let legs = (of.legs.map(|(_, leg)| leg), of.count, of.parts);
            let rate = match lone.get(&legs) {
                Some(rate) => *rate,
                None => {
                    let rate = router.way(from, to, Engine::Sm)?.lone;
                    lone.insert(legs, rate);
                    rate
                }
            };
            let start = router.start((of.latency, of.message, of.copy), bytes, rate);
            Ok(Takes { start, moving: bytes / rate })
        };
        match one() {
            Ok(takes) => found.push(takes),
            Err(e) => failed = Some(e),
        }
    });
    failed.map_or(Ok(found), |e| Err(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Wanted};
    use crate::simulate::outcome::{Limits, run_within};
    use crate::simulate::workload::Workload;
    use peerlane_machine::units::Seconds;
    use peerlane_read::catalogue::{Parts, system};

    /// The share by which counted rings are longer than all steps played, and than steps at their first rates.
    fn errors(workload: &str, nodes: u32, network: &str, size: f64) -> [f64; 2] {
        let wanted: Wanted = network.parse().unwrap();
        let node = system("hgx-h200").unwrap().unwrap();
        let cluster = Cluster::of(node, nodes, &wanted, None, Seconds::from_us(0.3)).unwrap();
        let workload: Workload = workload.parse().unwrap();
        let mut router = Router::new(&cluster, Parts::embedded());
        let rings = workload.rings(&cluster, &router);
        let counted = workload.long_rings(&cluster, &router, rings.as_ref()).unwrap();
        let counted = counted.outcome(&mut router, size).unwrap().time;
        let program = workload.program(&cluster, &router, size).unwrap();
        let time = |limits| {
            let mut router = Router::new(&cluster, Parts::embedded());
            run_within(&program, &mut router, Engine::Sm, limits).unwrap().time
        };
        let all = time(Limits { counted_from: usize::MAX, steps: usize::MAX, ..Limits::default() });
        let usual = time(Limits::default());
        [counted / all - 1.0, usual / all - 1.0]
    }

    #[test]
    fn rings_at_one_pace_take_as_long_as_played() {
        for (workload, nodes, network) in
            [("all-reduce:ring", 4, "rail"), ("all-gather:ring", 8, "fat-tree"), ("all-reduce:ring", 6, "fat-tree:2:2")]
        {
            for size in [8.0, 1e6, 1e9] {
                let [counted, usual] = errors(workload, nodes, network, size);
                assert!(counted.abs() < estimate::LONG_RINGS, "{workload} {nodes} {network} {size}: {counted}");
                assert!(usual.abs() < estimate::RINGS, "{workload} {nodes} {network} {size}: {usual}");
            }
        }
    }

    #[test]
    #[ignore = "minutes: the table of validation/simulation.md"]
    #[allow(clippy::print_stdout, reason = "the table is printed")]
    fn table() {
        for network in ["rail:3", "fat-tree:3", "fat-tree:2:2"] {
            for nodes in [8, 16, 32, 48] {
                for size in [8.0, 1e6, 1e9] {
                    let [counted, usual] = errors("all-reduce:ring", nodes, network, size);
                    println!(
                        "| {network} | {nodes} | {size:.0e} | {:+.2} % | {:+.2} % |",
                        100.0 * counted,
                        100.0 * usual
                    );
                }
            }
        }
    }
}
