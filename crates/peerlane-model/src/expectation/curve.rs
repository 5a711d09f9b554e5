//! What copies of one path take, by size.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use crate::model::{Model, PeerAccess, Transfer};
use peerlane_machine::fabric::{NodeKind, PathClass};
use peerlane_machine::units::Bytes;

/// What copies of a way take, by size.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExpectedCurve {
    /// Where the data comes from.
    pub from: String,
    /// Where it goes.
    pub to: String,
    /// Class of the path; null where the fabric knows no way.
    pub class: Option<PathClass>,
    /// Whether it goes through host memory.
    pub staged: bool,
    /// Time of one small copy, in us.
    pub latency: f64,
    /// The least and the most that it may be.
    pub latency_interval: [f64; 2],
    /// What it is made of.
    pub latency_why: String,
    /// Time that each copy of a full queue adds to its moving, in us.
    pub startup: f64,
    /// Rate of a message without end, in GB/s.
    pub rate: f64,
    /// Bytes at which half of it is reached.
    pub half_size: u64,
    /// Bytes from which on a copy staged through host memory is faster; null where it never is, and for what is staged.
    pub staged_from: Option<u64>,
    /// Whether a copy staged through host memory is another method for the same path.
    #[serde(skip)]
    pub may_be_staged: bool,
    /// Sizes in bytes, and the rate at each in GB/s.
    pub rates: Vec<(u64, f64)>,
    /// Sizes in bytes, and the time of one copy of many, in us.
    pub times: Vec<(u64, f64)>,
}

impl ExpectedCurve {
    /// What the model says of a transfer at these sizes; `None` where it knows no rate, or no GPU drives it.
    pub fn of(model: &Model, transfer: &Transfer, sizes: &[Bytes]) -> Option<Self> {
        let fabric = &model.machine.fabric;
        let (copies, latency) = (model.copy_time(transfer)?, model.small_copy(transfer)?);
        let route = model.route(transfer).ok()?;
        let [fast, slow] = model.ends().map(|m| m.small_copy(transfer).map_or(latency.time, |l| l.time).us());
        let us = latency.time.us();
        let between_gpus =
            [transfer.source, transfer.destination].iter().all(|n| fabric.node(*n).kind == NodeKind::Gpu);
        let staged = Transfer { peer: PeerAccess::Disabled, ..*transfer };
        let staged = model.copy_time(&staged).filter(|_| between_gpus && !route.staged);
        Some(ExpectedCurve {
            from: fabric.node(transfer.source).name.clone(),
            to: fabric.node(transfer.destination).name.clone(),
            class: Some(route.class),
            staged: route.staged,
            latency: us,
            latency_interval: [fast.min(us), slow.max(us)],
            latency_why: latency.why,
            startup: copies.startup.each.us(),
            rate: copies.rate.gb(),
            half_size: copies.half_size().0,
            may_be_staged: staged.is_some(),
            staged_from: staged.and_then(|staged| copies.beaten_from(&staged)).map(|size| size.0),
            rates: sizes.iter().map(|size| (size.0, copies.rate_at(*size).gb())).collect(),
            times: sizes.iter().map(|size| (size.0, copies.time(*size).us())).collect(),
        })
    }

    /// Where direct and staged copies are equally fast, in words; `None` where there is only one method.
    pub fn crossover(&self) -> Option<String> {
        self.may_be_staged.then(|| match self.staged_from {
            Some(size) => format!("staged through host memory is faster from {}, direct below", Bytes(size)),
            None => "direct is faster than staged through host memory at every size".to_owned(),
        })
    }
}
