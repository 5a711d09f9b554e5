//! The transfers between all pairs of a machine's GPUs, and of GPUs with other ends, as flows: routed once, so that
//! thousands of sets can be shared out.

mod alike;
#[cfg(test)]
pub(crate) mod testing;

pub use alike::interchangeable;

use crate::model::{Model, PeerAccess, Route, Transfer};
use crate::solve::{Demand, Problem, Resource, evenly};
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::matrix::{Engine, Operation};

/// A pair of ends by their places among all, GPUs first, source before destination.
pub type Pair = (usize, usize);

/// All pairs' flows by one engine.
pub struct Flows<'m, 'a> {
    /// Where they are from.
    pub model: &'m Model<'a>,
    /// The GPUs, in order, and then the other ends.
    pub ends: Vec<NodeId>,
    gpus: usize,
    engine: Engine,
    flows: Vec<Option<Route>>,
    /// Capacities of the model's resources in bytes a second.
    pub capacities: Vec<f64>,
    /// Why a pair has no flow; the first such reason.
    pub unknown: Option<String>,
}

impl<'m, 'a> Flows<'m, 'a> {
    /// Routes every ordered pair: writes, with peer access asked for.
    pub fn new(model: &'m Model<'a>, engine: Engine) -> Self {
        Flows::with_others(model, engine, &[])
    }

    /// The same, with transfers between GPUs and other ends: host memory, or NICs, which drive theirs.
    pub fn with_others(model: &'m Model<'a>, engine: Engine, others: &[NodeId]) -> Self {
        let mut ends: Vec<NodeId> = model.machine.fabric.of_kind(NodeKind::Gpu).collect();
        let gpus = ends.len();
        ends.extend(others);
        let capacities = model.resources.iter().map(|r| r.capacity.bytes_per_second()).collect();
        let mut flows = Flows { model, ends, gpus, engine, flows: Vec::new(), capacities, unknown: None };
        let n = flows.ends.len();
        let mut all = Vec::with_capacity(n * n);
        for pair in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let skipped = pair.0 == pair.1 || pair.0.min(pair.1) >= gpus;
            all.push(if skipped { None } else { flows.routed(pair) });
        }
        flows.flows = all;
        flows
    }

    fn routed(&mut self, pair: Pair) -> Option<Route> {
        match self.model.route(&self.transfer(pair)) {
            Ok(route) => {
                let bound = route.cap.is_some() || route.demand.uses.iter().any(|(r, _)| *r < self.capacities.len());
                bound.then_some(route)
            }
            Err(error) => {
                // which GPUs reach which NIC or memory is asked of each by itself
                if pair.0.max(pair.1) < self.gpus {
                    self.unknown.get_or_insert_with(|| error.to_string());
                }
                None
            }
        }
    }

    /// How many GPUs.
    pub fn gpus(&self) -> usize {
        self.gpus
    }

    /// Every ordered pair of GPUs.
    pub fn pairs(&self) -> impl Iterator<Item = Pair> + use<> {
        let n = self.gpus();
        (0..n).flat_map(move |i| (0..n).map(move |j| (i, j))).filter(|(i, j)| i != j)
    }

    /// The flow of a pair.
    pub fn flow(&self, (i, j): Pair) -> Option<&Route> {
        self.flows.get(i * self.ends.len() + j)?.as_ref()
    }

    /// Whether every pair of GPUs has a flow.
    pub fn complete(&self) -> bool {
        self.pairs().all(|pair| self.flow(pair).is_some())
    }

    /// A pair as the model's transfer.
    pub fn transfer(&self, (i, j): Pair) -> Transfer {
        let (source, destination) = (self.ends[i], self.ends[j]);
        let fabric = &self.model.machine.fabric;
        let engine = match (fabric.node(source).kind, fabric.node(destination).kind) {
            (NodeKind::Gpu, NodeKind::Gpu) => self.engine,
            _ => self.model.engine_between(source, destination),
        };
        Transfer { source, destination, engine, op: Operation::Write, peer: PeerAccess::Enabled }
    }

    /// An end's name.
    pub fn name(&self, end: usize) -> &str {
        &self.model.machine.fabric.node(self.ends[end]).name
    }

    /// What a set asks for; `None` where one has no flow.
    fn demands(&self, set: &[Pair]) -> Option<Vec<&Demand>> {
        set.iter().map(|pair| Some(&self.flow(*pair)?.demand)).collect()
    }

    /// Resources with these capacities.
    fn resource(&self, capacities: &[f64]) -> impl Fn(usize) -> Resource {
        |r| Resource { capacity: capacities[r], ..self.model.resource(r) }
    }

    /// Rates in bytes a second, in order, while all of the set run on these capacities; `None` where one has no flow.
    pub(crate) fn rates_on(&self, capacities: &[f64], set: &[Pair]) -> Option<Vec<f64>> {
        let problem = Problem::of(self.demands(set)?, self.resource(capacities));
        problem.solve().ok().map(|solution| solution.rates)
    }

    /// The same on the machine's own capacities.
    pub fn rates(&self, set: &[Pair]) -> Option<Vec<f64>> {
        self.rates_on(&self.capacities, set)
    }

    /// No rate is higher at which all of a few can go at once; 0 where one is not known. Where they are alike, they do.
    pub(crate) fn evenly(&self, capacities: &[f64], set: &[Pair]) -> f64 {
        self.demands(set).map_or(0.0, |demands| evenly(&demands, self.resource(capacities)))
    }

    /// Rate of one pair alone on these capacities; 0 where it is not known.
    pub fn alone_on(&self, capacities: &[f64], pair: Pair) -> f64 {
        self.flow(pair).map_or(0.0, |route| route.demand.alone(self.resource(capacities)).0)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::all_boxes;
    use super::*;
    use peerlane_read::catalogue::Parts;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
    }

    #[test]
    fn sets_are_shared_out_as_the_model_solves_them() {
        for machine in all_boxes() {
            let model = Model::new(&machine, Parts::embedded());
            let flows = Flows::new(&model, Engine::Ce);
            if !flows.complete() {
                continue;
            }
            let pairs: Vec<Pair> = flows.pairs().collect();
            let some: Vec<Pair> = pairs.iter().copied().filter(|(i, j)| (i * 3 + j) % 4 != 0).collect();
            for set in [&pairs[..], &pairs[..1], &some[..]] {
                let transfers: Vec<Transfer> = set.iter().map(|p| flows.transfer(*p)).collect();
                let solved = model.solve(&transfers).unwrap();
                let shared = flows.rates(set).unwrap();
                let alike = solved.iter().zip(&shared).all(|(a, b)| close(a.rate.bytes_per_second(), *b));
                assert!(solved.len() == shared.len() && alike, "{}", machine.name);
            }
            let alone = flows.alone_on(&flows.capacities, pairs[0]);
            assert!(close(alone, flows.rates(&pairs[..1]).unwrap()[0]));
        }
    }
}
