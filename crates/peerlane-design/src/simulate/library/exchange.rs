//! An all-to-all as NCCL or RCCL does it: its bytes take the time that playing finds for them, and the library's kernel its own.

use super::count::Count;
use super::{error, job, medium_of};
use crate::cluster::{Cluster, Router};
use crate::simulate::SimulateError;
use crate::simulate::estimate::Estimate;
use crate::simulate::outcome::{Event, Outcome, STARTING};
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;
use peerlane_model::collectives::tuner::{Job, Medium, Ranks};
use peerlane_model::collectives::tuning::{default_level, generation, with_peers_up_to};
use peerlane_read::catalogue::Parts;

/// The cluster with the peer access that the library uses by itself.
pub(in crate::simulate) fn with_peers(cluster: &Cluster) -> Cluster {
    let (gpus, parts) = (cluster.gpus(), Parts::embedded());
    let fabric = &cluster.node.fabric;
    let level = default_level(fabric, parts, &gpus, generation(fabric, parts, &gpus));
    Cluster { node: with_peers_up_to(&cluster.node, &gpus, level), ..cluster.clone() }
}

/// The sends and receives of all pairs as a library's tuner sees them.
fn job_of(cluster: &Cluster, router: &mut Router, run: Ranks) -> Result<Job, SimulateError> {
    let places: Vec<usize> = (0..cluster.gpus().len()).collect();
    let pairs = places.iter().flat_map(|a| places[a + 1..].iter().map(move |b| vec![*a, *b]));
    let medium = medium_of(router, &pairs.collect::<Vec<_>>()).unwrap_or(Medium::Host);
    let nodes = cluster.nodes_in_use().max(1);
    let mut count = Count { cluster, router, nodes, orders: Vec::new(), share: 1.0 };
    Ok(Job { run, ..job(&mut count, Collective::AllToAll, medium)? })
}

/// Bytes a second that no GPU sends more than.
const FASTEST: f64 = 1e12;

/// An all-to-all among all GPUs of a cluster, apart from the paths of its bytes.
#[derive(Clone, Debug)]
pub(in crate::simulate) struct Exchange {
    job: Job,
    start: f64,
}

impl Exchange {
    /// # Errors
    /// Where what the library does is not known.
    pub(in crate::simulate) fn of(cluster: &Cluster, run: Ranks) -> Result<Self, SimulateError> {
        let mut router = Router::new(cluster, Parts::embedded());
        Ok(Exchange { job: job_of(cluster, &mut router, run)?, start: cluster.latencies.stages })
    }

    /// Seconds before the first byte moves, of `size` bytes a GPU: the host enqueues while what came first moves.
    pub(in crate::simulate) fn before(&self, size: f64) -> f64 {
        let least = size * Collective::AllToAll.bus_factor(self.job.ranks) / FASTEST;
        self.time(size, least) - least * self.slower(size)
    }

    /// How many times as long the bytes move as by themselves, of `size` bytes a GPU with its own part.
    pub(in crate::simulate) fn slower(&self, size: f64) -> f64 {
        self.job.exchange_slower(size * Collective::AllToAll.bus_factor(self.job.ranks))
    }

    /// Seconds, where the bytes by themselves move for `moving`.
    pub(in crate::simulate) fn time(&self, size: f64, moving: f64) -> f64 {
        self.job.exchange(size * Collective::AllToAll.bus_factor(self.job.ranks), moving, self.start)
    }
}

/// An all-to-all of `size` bytes a GPU that was played, with what the library takes.
pub(in crate::simulate) fn exchanged(
    cluster: &Cluster,
    router: &mut Router,
    played: Outcome,
    size: u64,
) -> Result<Outcome, SimulateError> {
    let job = job_of(cluster, router, Ranks::ProcessEach)?;
    if job.ranks < 2 {
        return Ok(played);
    }
    let sent = size as f64 * Collective::AllToAll.bus_factor(job.ranks);
    let time = job.exchange(sent, played.time, cluster.latencies.stages);
    let because = "the start of a library's kernel is predicted, and what it moves is played".to_owned();
    // by the size of a message: errors of exchanges are known of 16 GPUs
    let alike = Bytes(size / job.ranks as u64 * 16);
    let estimate = Estimate { because, error: Some(error(job.nodes, alike)) };
    let later = time - played.time;
    let events =
        played.events.iter().map(|event| Event { start: event.start + later, end: event.end + later, ..*event });
    Ok(Outcome {
        events: events.collect(),
        spent: started(&played.spent, played.time, time),
        last: started(&played.last, played.time, time),
        time,
        estimate: Some(estimate.worse(played.estimate.clone())),
        ..played
    })
}

/// Shares of a time in which starting takes what is there more of it.
fn started(shares: &[(String, f64)], before: f64, after: f64) -> Vec<(String, f64)> {
    let kept = if after > 0.0 { before / after } else { 1.0 };
    let mut all: Vec<_> = shares.iter().map(|(what, share)| (what.clone(), share * kept)).collect();
    match all.iter_mut().find(|(what, _)| what == STARTING) {
        Some((_, share)) => *share += 1.0 - kept,
        None => all.push((STARTING.to_owned(), 1.0 - kept)),
    }
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}
