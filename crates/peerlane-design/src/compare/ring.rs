//! The rings in which an all-reduce goes fastest, and how fast.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::together::{Figure, solved};
use peerlane_model::collectives::{Ring, Rings};
use peerlane_model::flows::{Flows, interchangeable};

/// What rings carry.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AllReduce {
    /// The sum over the rings while all run: the bus bandwidth, as nccl-tests counts it, that a ring all-reduce of large
    /// messages cannot exceed on them. The bottleneck is that of the first ring.
    #[serde(flatten)]
    pub figure: Figure,
    /// The rings, the best first.
    pub rings: Vec<Ring>,
    /// Whether no single ring is faster than the first: it meets a bound, or all orders were tried.
    pub exact: bool,
}

/// Finds rings; `None` below two GPUs or where a pair's rate is not known.
pub(super) fn all_reduce(flows: &Flows) -> Option<AllReduce> {
    let gpus: Vec<usize> = (0..flows.gpus()).collect();
    let found = Rings::best(flows, &gpus, &interchangeable(flows))?;
    let transfers = found.sets().concat().into_iter().map(|pair| flows.transfer(pair)).collect();
    let bottleneck = solved(flows.model, transfers)?.slowest_bottleneck();
    let figure = Figure { rate: found.rate() / 1e9, bottleneck, measured: None };
    Some(AllReduce { figure, rings: found.named(flows), exact: found.exact })
}
