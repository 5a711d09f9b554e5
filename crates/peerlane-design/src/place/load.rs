//! How much a growing set of transfers asks of every resource, and so how fast the slowest of them can be at most.
//!
//! If all go at the rate r at least, a resource of capacity C that Σ uᵢ bytes a byte are taken of, requests and answers
//! included, has r · Σ uᵢ ≤ C. Each further transfer only adds to the sum, so that the bound of a set holds for every set
//! that contains it: this is what a search prunes by.

use peerlane_model::flows::{Flows, Pair};
use peerlane_model::solve::{Attended, Demand};

/// A set of transfers, last in first out.
pub(super) struct Load<'f, 'm, 'a> {
    flows: &'f Flows<'m, 'a>,
    /// Of each resource, what all of the set take of it per byte a second.
    taken: Vec<f64>,
    /// Of each resource, how many wait for it. What is only burdened makes nobody wait.
    users: Vec<u32>,
    set: Vec<Pair>,
    /// Those that go through host memory.
    attended: Attended,
    staged: Vec<Pair>,
    /// The bound before each of the set was added.
    bounds: Vec<f64>,
    bound: f64,
    sum: f64,
}

impl<'f, 'm, 'a> Load<'f, 'm, 'a> {
    /// An empty set.
    pub(super) fn new(flows: &'f Flows<'m, 'a>) -> Self {
        let n = flows.capacities.len();
        let (set, attended, staged, bounds) = (Vec::new(), Attended::default(), Vec::new(), Vec::new());
        let bound = f64::INFINITY;
        Load { flows, taken: vec![0.0; n], users: vec![0; n], set, attended, staged, bounds, bound, sum: 0.0 }
    }

    /// No member of any set that contains this one can be faster while the others keep pace, in bytes a second.
    pub(super) fn bound(&self) -> f64 {
        self.bound
    }

    /// What all of it reach alone, summed, by `alone`.
    pub(super) fn sum(&self) -> f64 {
        self.sum
    }

    /// Its members.
    pub(super) fn set(&self) -> &[Pair] {
        &self.set
    }

    /// Adds a transfer that reaches `alone` when alone; one without a known rate makes the bound 0.
    pub(super) fn push(&mut self, pair: Pair, alone: f64) {
        self.bounds.push(self.bound);
        self.set.push(pair);
        self.sum += alone;
        let Some(demand) = self.flows.flow(pair).map(|route| &route.demand) else {
            self.bound = 0.0;
            return;
        };
        self.add(demand, 1.0);
        demand.uses.iter().for_each(|(r, _)| self.users[*r] += 1);
        for (r, _) in demand.uses.iter().chain(&demand.burdens) {
            if self.users[*r] > 0 {
                self.bound = self.bound.min(self.flows.capacities[*r] / self.taken[*r]);
            }
        }
        self.bound = self.bound.min(demand.cap);
        if let Some(turns) = &demand.turns {
            self.attended.add(turns, 1);
            self.staged.push(pair);
            let all = self.staged.iter().filter_map(|p| self.flows.flow(*p)?.demand.turns.as_ref());
            self.bound = all.map(|t| self.attended.cap(t)).fold(self.bound, f64::min);
        }
    }

    /// Takes the last one out again.
    pub(super) fn pop(&mut self, alone: f64) {
        let (Some(pair), Some(bound)) = (self.set.pop(), self.bounds.pop()) else { return };
        self.bound = bound;
        self.sum -= alone;
        let Some(demand) = self.flows.flow(pair).map(|route| &route.demand) else { return };
        self.add(demand, -1.0);
        demand.uses.iter().for_each(|(r, _)| self.users[*r] -= 1);
        if let Some(turns) = &demand.turns {
            self.attended.add(turns, -1);
            self.staged.pop();
        }
    }

    fn add(&mut self, demand: &Demand, sign: f64) {
        for (r, per_byte) in demand.uses.iter().chain(&demand.burdens) {
            self.taken[*r] += sign * per_byte;
        }
    }
}
