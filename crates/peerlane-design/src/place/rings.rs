//! Placements of all-reduces: which GPUs, since NCCL finds the rings over them itself.
//!
//! A job goes around the best rings of its GPUs ([`Rings::best`]), found as if it were alone: NCCL knows nothing of other jobs.
//! Its rate is what these carry while the rings of all jobs, and of busy GPUs, run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::sorted;
use peerlane_model::collectives::{Rings, most_through};
use peerlane_model::flows::Flows;

/// The rings of each set of GPUs that was requested.
pub(super) struct RingsOf<'f, 'm, 'a> {
    flows: &'f Flows<'m, 'a>,
    /// Groups of GPUs that can change places.
    kinds: Vec<Vec<usize>>,
    known: RefCell<HashMap<Vec<usize>, Option<Rc<Rings>>>>,
    /// For each GPU the most that any rings carry through it, in bytes a second.
    most: Vec<f64>,
}

impl<'f, 'm, 'a> RingsOf<'f, 'm, 'a> {
    pub(super) fn new(flows: &'f Flows<'m, 'a>, kinds: Vec<Vec<usize>>) -> Self {
        let gpus: Vec<usize> = (0..flows.gpus()).collect();
        RingsOf { flows, kinds, known: RefCell::default(), most: most_through(flows, &gpus) }
    }

    /// The rings of these GPUs; `None` of one GPU, or where a rate is not known.
    pub(super) fn of(&self, gpus: &[usize]) -> Option<Rc<Rings>> {
        let set = sorted(gpus);
        if let Some(known) = self.known.borrow().get(&set) {
            return known.clone();
        }
        let found = Rings::best(self.flows, &set, &self.kinds).map(Rc::new);
        self.known.borrow_mut().insert(set, found.clone());
        found
    }

    /// How much work it is to look at these jobs, in transfers solved: of sets that were not requested, the search for their
    /// rings.
    pub(super) fn cost(&self, jobs: &[Vec<usize>]) -> usize {
        let known = self.known.borrow();
        let cost = |order: &Vec<usize>| {
            if known.contains_key(&sorted(order)) { order.len() } else { 30 * order.len().pow(3) }
        };
        jobs.iter().map(cost).sum()
    }

    /// No rings through all of these carry more, in bytes a second.
    pub(super) fn most(&self, gpus: &[usize]) -> f64 {
        gpus.iter().filter_map(|gpu| self.most.get(*gpu)).copied().fold(f64::INFINITY, f64::min)
    }
}
