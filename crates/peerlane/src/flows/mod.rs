//! The transfers between all pairs of a machine's GPUs, and of GPUs with other ends, as flows: routed once, so that
//! thousands of sets can be shared out.

mod alike;

pub(crate) use alike::interchangeable;

use crate::evidence::{Engine, Operation};
use crate::fabric::{NodeId, NodeKind};
use crate::model::{Model, PeerAccess, Problem, Route, Transfer, caps};
use crate::share::{Allocation, Flow};

/// A pair of ends by their places among all, GPUs first, source before destination.
pub(crate) type Pair = (usize, usize);

/// The flow of one transfer.
#[derive(Clone, Debug)]
pub(crate) struct PairFlow {
    /// What it consumes, and its cap while it is alone.
    pub flow: Flow,
    /// Where it goes.
    pub route: Route,
    /// Whether it goes through host memory.
    pub staged: bool,
}

/// All pairs' flows by one engine.
pub(crate) struct Flows<'m, 'a> {
    /// Where they are from.
    pub model: &'m Model<'a>,
    /// The GPUs, in order, and then the other ends.
    pub ends: Vec<NodeId>,
    gpus: usize,
    engine: Engine,
    flows: Vec<Option<PairFlow>>,
    /// Capacities of the model's resources in bytes a second.
    pub capacities: Vec<f64>,
    /// Why a pair has no flow; the first such reason.
    pub unknown: Option<String>,
}

impl<'m, 'a> Flows<'m, 'a> {
    /// Routes every ordered pair: writes, with peer access asked for.
    pub(crate) fn new(model: &'m Model<'a>, engine: Engine) -> Self {
        Flows::with_others(model, engine, &[])
    }

    /// The same, with transfers between GPUs and other ends: host memory, or NICs, which drive theirs.
    pub(crate) fn with_others(model: &'m Model<'a>, engine: Engine, others: &[NodeId]) -> Self {
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

    fn routed(&mut self, pair: Pair) -> Option<PairFlow> {
        match self.model.route(&self.transfer(pair)) {
            Ok(route) => {
                let cap = route.cap.as_ref().map_or(f64::INFINITY, |(rate, _)| rate.bytes_per_second());
                let bound = cap.is_finite() || route.uses.iter().any(|(r, _)| self.capacities.get(*r).is_some());
                let flow = Flow { uses: route.uses.clone(), weight: route.weight, cap };
                bound.then_some(PairFlow { flow, staged: route.staged, route })
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
    pub(crate) fn len(&self) -> usize {
        self.gpus
    }

    /// Every ordered pair of GPUs.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = Pair> + use<> {
        let n = self.len();
        (0..n).flat_map(move |i| (0..n).map(move |j| (i, j))).filter(|(i, j)| i != j)
    }

    /// The flow of a pair.
    pub(crate) fn flow(&self, (i, j): Pair) -> Option<&PairFlow> {
        self.flows.get(i * self.ends.len() + j)?.as_ref()
    }

    /// Whether every pair of GPUs has a flow.
    pub(crate) fn complete(&self) -> bool {
        self.pairs().all(|pair| self.flow(pair).is_some())
    }

    /// A pair as the model's transfer.
    pub(crate) fn transfer(&self, (i, j): Pair) -> Transfer {
        let (source, destination) = (self.ends[i], self.ends[j]);
        let fabric = &self.model.machine.fabric;
        let engine = match (fabric.node(source).kind, fabric.node(destination).kind) {
            (NodeKind::Nic, _) | (_, NodeKind::Nic) => Engine::Nic,
            (NodeKind::Host, _) | (_, NodeKind::Host) => Engine::Ce,
            _ => self.engine,
        };
        Transfer { source, destination, engine, op: Operation::Write, peer: PeerAccess::Enabled }
    }

    /// An end's name.
    pub(crate) fn name(&self, end: usize) -> &str {
        &self.model.machine.fabric.node(self.ends[end]).name
    }

    /// Rates in bytes a second, in order, while all of the set run on these capacities; `None` where one has no flow.
    pub(crate) fn rates_on(&self, capacities: &[f64], set: &[Pair]) -> Option<Vec<f64>> {
        let flows = set.iter().map(|pair| self.flow(*pair)).collect::<Option<Vec<_>>>()?;
        // a few flows use few of a large machine's resources
        let mut used: Vec<usize> = flows.iter().flat_map(|f| f.flow.uses.iter().map(|(r, _)| *r)).collect();
        used.sort_unstable();
        used.dedup();
        let here = |r: &usize| Some((*capacities.get(*r)?, self.model.resources.get(*r)?.service));
        let mut problem = Problem::new(used.iter().filter_map(here));
        let caps = caps(flows.iter().map(|f| &f.route));
        for (flow, cap) in flows.iter().zip(caps) {
            problem.add(&flow.route, cap, |r| used.binary_search(&r).ok());
        }
        problem.solve().ok().map(|Allocation { rates, .. }| rates)
    }

    /// The same on the machine's own capacities.
    pub(crate) fn rates(&self, set: &[Pair]) -> Option<Vec<f64>> {
        self.rates_on(&self.capacities, set)
    }

    /// No rate is higher at which all of a few can go at once; 0 where one is not known. What each takes of a resource
    /// without waiting for it counts, too.
    pub(crate) fn evenly(&self, capacities: &[f64], set: &[Pair]) -> f64 {
        let Some(flows) = set.iter().map(|pair| self.flow(*pair)).collect::<Option<Vec<_>>>() else { return 0.0 };
        let uses = flows.iter().flat_map(|f| f.route.uses.iter().chain(&f.route.overheads));
        let mut taken: Vec<(usize, f64)> = uses.copied().collect();
        taken.sort_unstable_by_key(|(r, _)| *r);
        let limits = taken.chunk_by(|(a, _), (b, _)| a == b).filter_map(|uses| {
            let sum: f64 = uses.iter().map(|(_, per_byte)| per_byte).sum();
            Some(capacities.get(uses.first()?.0)? / sum)
        });
        limits.chain(caps(flows.iter().map(|f| &f.route))).fold(f64::INFINITY, f64::min)
    }

    /// Rate of one pair alone on these capacities; 0 where it is not known.
    pub(crate) fn alone_on(&self, capacities: &[f64], pair: Pair) -> f64 {
        self.rates_on(capacities, &[pair]).and_then(|rates| rates.first().copied()).unwrap_or(0.0)
    }
}
