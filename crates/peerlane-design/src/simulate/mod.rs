//! Workloads in time, at the level of flows: each transfer moves at its max-min fair rate, which changes when another
//! starts or ends.
//!
//! [`solve::incremental`](peerlane_model::solve::incremental) finds rates and [`flows`] keeps the clock; both know resources, and nothing of
//! machines. A [`workload`]
//! becomes a [`program`] of steps; [`play`] lets it run over the ways that a [`Router`](crate::cluster::Router) finds, and
//! [`outcome`] does so for rounds that repeat. [`result`] is the document of it; [`scaling`] makes one with
//! more and more nodes.

mod all_pairs;
mod bulk;
pub mod estimate;
pub mod flows;
mod grown;
mod heap;
pub mod library;
mod long_rings;
pub mod memory;
mod mix;
pub mod model_step;
mod node_rings;
pub mod outcome;
mod parameters;
pub mod picture;
pub mod play;
pub mod program;
pub mod result;
mod rings;
pub mod scaling;
pub mod streams;
mod trace_events;
pub mod traced;
mod weak_strong;
pub mod workload;

use crate::cluster::ClusterError;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulateError {
    /// The cluster has no such path, name or rate.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The resources make no sense to the solver.
    #[error("{0}")]
    Network(String),
    /// The workload's description makes no sense.
    #[error("workload {0}")]
    Workload(String),
    /// A step's numbers make no sense.
    #[error("step {0}: {1}")]
    Step(usize, String),
    /// Steps wait for each other in a circle; their indices.
    #[error("{} steps wait for each other in a circle, step {} among them", .0.len(), .0.first().copied().unwrap_or(0))]
    Circle(Vec<usize>),
    /// It would take more memory than a simulation may.
    #[error(
        "{what} on {gpus} GPUs would take about {needed:.1} GB of memory, more than the {most:.1} GB that a simulation may: take \
         fewer GPUs (--use-nodes), or write a sample of the transfers as a trace"
    )]
    Memory {
        /// The workload.
        what: String,
        /// On how many GPUs.
        gpus: usize,
        /// Its estimate in GB of 10⁹ bytes.
        needed: f64,
        /// The limit in GB.
        most: f64,
    },
    /// It is too large to be played, and nothing is known that estimates it.
    #[error("{0}: {1} steps are more than the {2} that are played, and no estimate is known for them")]
    TooMany(String, u64, usize),
    /// Transfers that never end.
    #[error("{0} transfers never end: a resource on their path carries nothing")]
    Stalled(usize),
}
