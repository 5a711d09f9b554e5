//! Rates of transfers that run at once, slow directions and throttled GPUs included.

use peerlane_machine::fabric::NodeId;
use peerlane_machine::fault::Fault;
use peerlane_model::model::{Model, ModelError, Route, Transfer};

/// A transfer, and who drives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Driven {
    /// The transfer.
    pub transfer: Transfer,
    /// The GPU or NIC whose engine moves the data.
    pub driver: NodeId,
}

/// Bytes a second of each transfer while all run. Faults that change links are the model's already.
///
/// What a fault takes from one transfer is there for the others.
pub(super) fn rates(model: &Model, all: &[Driven], faults: &[Fault]) -> Result<Vec<f64>, ModelError> {
    let transfers: Vec<Transfer> = all.iter().map(|d| d.transfer).collect();
    let free: Vec<f64> = model.solve(&transfers)?.iter().map(|a| a.rate.bytes_per_second()).collect();
    let limits = Limits::of(model, all, faults)?;
    if limits.is_empty() {
        return Ok(free);
    }
    let routes = transfers.iter().map(|t| model.route(t)).collect::<Result<Vec<Route>, _>>()?;
    let mut problem = model.problem(routes.iter().map(|route| &route.demand));
    for (flow, (throttle, free)) in limits.throttles.iter().zip(&free).enumerate().filter(|(_, (t, _))| **t < 1.0) {
        problem.hold(flow, throttle * free);
    }
    for (factor, uses) in limits.slow {
        problem.limit(factor, uses);
    }
    // the model has solved the same without the limits, which are in range by their making
    Ok(problem.solve().map_or(free, |solution| solution.rates))
}

/// What faults add to a set of transfers.
struct Limits {
    /// Slow directions: the share of time that is left, and what each transfer that goes there takes of it a byte.
    slow: Vec<(f64, Vec<(usize, f64)>)>,
    /// Share of its rate that each transfer keeps.
    throttles: Vec<f64>,
}

impl Limits {
    fn of(model: &Model, all: &[Driven], faults: &[Fault]) -> Result<Self, ModelError> {
        let fabric = &model.machine.fabric;
        let mut limits = Limits { slow: Vec::new(), throttles: vec![1.0; all.len()] };
        for fault in faults {
            match fault {
                Fault::Slow { from, to, factor } => {
                    let Some((from, to)) = fabric.find(from).zip(fabric.find(to)) else { continue };
                    let mut uses = Vec::new();
                    for (i, Driven { transfer, .. }) in all.iter().enumerate() {
                        uses.extend(seconds_per_byte(model, transfer, from, to)?.map(|per_byte| (i, per_byte)));
                    }
                    if !uses.is_empty() {
                        limits.slow.push((*factor, uses));
                    }
                }
                Fault::Throttle { gpu, factor } => {
                    let gpu = fabric.find(gpu);
                    for (throttle, _) in limits.throttles.iter_mut().zip(all).filter(|(_, d)| Some(d.driver) == gpu) {
                        *throttle *= factor;
                    }
                }
                _ => {}
            }
        }
        Ok(limits)
    }

    fn is_empty(&self) -> bool {
        self.slow.is_empty() && self.throttles.iter().all(|t| *t == 1.0)
    }
}

/// The time that a transfer holds a direction a byte, where it goes there: by the limit of its hop, or of itself from
/// end to end.
fn seconds_per_byte(model: &Model, transfer: &Transfer, from: NodeId, to: NodeId) -> Result<Option<f64>, ModelError> {
    let route = model.route(transfer)?;
    let hops = route.hops.iter().filter(|hop| hop.from == from && hop.to == to);
    let held: f64 = hops.filter_map(|hop| hop.limit).map(|limit| 1.0 / limit.bytes_per_second()).sum();
    if held > 0.0 {
        return Ok(Some(held));
    }
    if route.staged || transfer.source != from || transfer.destination != to {
        return Ok(None);
    }
    let alone = model.solve(std::slice::from_ref(transfer))?;
    Ok(alone.first().map(|a| 1.0 / a.rate.bytes_per_second()))
}
