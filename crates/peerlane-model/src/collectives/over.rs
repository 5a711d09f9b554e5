//! The GPUs that rings go over, and how fast sets of transfers among them go at one pace.

use crate::flows::{Flows, Pair};
use crate::model::Route;
use crate::solve::{Attended, Demand};

/// What a path between two GPUs goes over, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathKind {
    /// NVLink and its like.
    Fabric,
    /// PCIe and what joins CPUs, directly.
    Direct,
    /// Host memory.
    Host,
}

/// Each to the next, and the last to the first.
pub(crate) fn ring_pairs(order: &[usize]) -> Vec<Pair> {
    let next = order.iter().cycle().skip(1);
    order.iter().copied().zip(next.copied()).collect()
}

/// Some of a machine's GPUs.
pub(super) struct Over<'s, 'm, 'a> {
    pub(super) flows: &'s Flows<'m, 'a>,
    /// By their places in [`Flows`]. All else here counts in this list.
    pub(super) gpus: &'s [usize],
    /// For each the least one that it can change places with.
    pub(super) twins: Vec<usize>,
}

impl<'s, 'm, 'a> Over<'s, 'm, 'a> {
    /// These GPUs, of which those of one kind can change places.
    pub(super) fn new(flows: &'s Flows<'m, 'a>, gpus: &'s [usize], kinds: &[Vec<usize>]) -> Self {
        let twin = |gpu: &usize| {
            let kind = kinds.iter().find(|kind| kind.contains(gpu));
            gpus.iter().position(|g| g == gpu || kind.is_some_and(|kind| kind.contains(g))).unwrap_or(0)
        };
        Over { flows, gpus, twins: gpus.iter().map(twin).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.gpus.len()
    }

    pub(super) fn flow(&self, (i, j): Pair) -> Option<&Route> {
        self.flows.flow((*self.gpus.get(i)?, *self.gpus.get(j)?))
    }

    /// What a pair's path goes over; `None` where its rate is not known.
    pub(super) fn path(&self, pair: Pair) -> Option<PathKind> {
        let flow = self.flow(pair)?;
        Some(if flow.staged {
            PathKind::Host
        } else if flow.class.is_pcie() {
            PathKind::Direct
        } else {
            PathKind::Fabric
        })
    }

    /// Whether every pair has a known rate.
    pub(super) fn is_complete(&self) -> bool {
        let n = self.len();
        (0..n).all(|i| (0..n).all(|j| i == j || self.flow((i, j)).is_some()))
    }

    /// Pairs by their places in [`Flows`].
    fn places(&self, pairs: &[Pair]) -> Vec<Pair> {
        let place = |at: usize| self.gpus.get(at).copied();
        pairs.iter().filter_map(|&(i, j)| place(i).zip(place(j))).collect()
    }

    /// What a pair reaches by itself on these capacities, in bytes a second; 0 where that is not known.
    pub(super) fn alone(&self, capacities: &[f64], pair: Pair) -> f64 {
        self.places(&[pair]).first().map_or(0.0, |pair| self.flows.alone_on(capacities, *pair))
    }

    /// The same of every pair on the machine's own capacities, row by row.
    pub(super) fn each_alone(&self) -> Vec<f64> {
        let n = self.len();
        let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        pairs.map(|pair| if pair.0 == pair.1 { 0.0 } else { self.alone(&self.flows.capacities, pair) }).collect()
    }

    /// The pace of transfers that all go at one, on these capacities, in bytes a second; 0 where a rate is not known.
    pub(super) fn pace(&self, capacities: &[f64], pairs: &[Pair]) -> f64 {
        self.flows.evenly(capacities, &self.places(pairs))
    }

    /// What each of these rings carries while all run; `None` where one carries nothing.
    pub(super) fn paces(&self, orders: &[Vec<usize>]) -> Option<Vec<f64>> {
        let sets: Vec<Vec<Pair>> = orders.iter().map(|order| self.places(&ring_pairs(order))).collect();
        let paces = together(self.flows, &sets)?;
        paces.iter().all(|pace| *pace > 0.0 && pace.is_finite()).then_some(paces)
    }
}

/// The paces of sets of transfers that all run at once, in bytes a second: those of one set keep one pace, as the
/// transfers of a ring do, of which each waits for what the one before it has sent. `None` where a rate is not known.
///
/// A set is one flow that takes what all of its transfers take; so what they ask of a resource is what they take of it on
/// average, however long the faster ones wait.
pub fn together(flows: &Flows, sets: &[Vec<Pair>]) -> Option<Vec<f64>> {
    let of_set = |set: &Vec<Pair>| set.iter().map(|pair| Some(&flows.flow(*pair)?.demand)).collect::<Option<Vec<_>>>();
    let members = sets.iter().map(of_set).collect::<Option<Vec<_>>>()?;
    flows.model.problem(&joint(&members)).solve().ok().map(|solution| solution.rates)
}

/// What each set of transfers that keep one pace asks for, by byte of the pace.
pub fn joint(sets: &[Vec<&Demand>]) -> Vec<Demand> {
    let attended = Attended::of(sets.iter().flatten().filter_map(|demand| demand.turns.as_ref()));
    let of_set = |set: &Vec<&Demand>| {
        let mut all = Demand::default();
        for demand in set {
            all.join(demand);
            all.cap = demand.turns.as_ref().map_or(all.cap, |turns| attended.cap(turns).min(all.cap));
        }
        all.turns = None;
        all
    };
    sets.iter().map(of_set).collect()
}
