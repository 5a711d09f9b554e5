//! Placements of all-reduces: which GPUs, since NCCL finds the rings over them itself.
//!
//! A job goes around the best rings of its GPUs ([`Rings::best`]), found as if it were alone: NCCL knows nothing of other jobs.
//! Its rate is what these carry while the rings of all jobs, and of busy GPUs, run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::search::{Found, Problem, sorted};
use peerlane_model::collectives::{Rings, most_through, together};
use peerlane_model::flows::{Flows, Pair};

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

impl Problem<'_, '_, '_> {
    /// The sets of transfers that keep one pace each: of a job of several GPUs its rings, of one what its host sends it; `None`
    /// where a rate is not known.
    fn sets(&self, gpus: &[usize]) -> Option<Vec<Vec<Pair>>> {
        match gpus {
            [] => Some(Vec::new()),
            [only] => Some(vec![vec![(self.hosts[*only], *only)]]),
            gpus => Some(self.rings.of(gpus)?.sets()),
        }
    }

    /// What the rings of each job carry while all run, ring by ring; `None` where a rate is not known.
    pub(super) fn ring_paces(&self, jobs: &[Vec<usize>]) -> Option<Vec<Vec<f64>>> {
        let of_jobs = jobs.iter().map(|gpus| self.sets(gpus)).collect::<Option<Vec<_>>>()?;
        let alone = || self.background.iter().map(|pair| vec![*pair]).collect();
        let busy = if self.busy.len() > 1 { self.sets(&self.busy)? } else { alone() };
        let all: Vec<Vec<Pair>> = of_jobs.iter().flatten().chain(&busy).cloned().collect();
        let mut paces = together(self.flows, &all)?.into_iter();
        Some(of_jobs.iter().map(|sets| paces.by_ref().take(sets.len()).collect()).collect())
    }

    /// The transfers of each job's rings.
    pub(super) fn ring_pairs(&self, jobs: &[Vec<usize>]) -> Vec<Vec<Pair>> {
        jobs.iter().map(|gpus| self.sets(gpus).unwrap_or_default().concat()).collect()
    }

    /// The same placement with each job in the order of its first ring.
    pub(super) fn in_order_of_rings(&self, found: Found) -> Found {
        let first = |gpus: &Vec<usize>| Some(self.rings.of(gpus)?.rings.first()?.0.clone());
        let proven = found.jobs.iter().all(|gpus| self.rings.of(gpus).is_none_or(|rings| rings.exact));
        let jobs = found.jobs.iter().map(|gpus| first(gpus).unwrap_or_else(|| gpus.clone())).collect();
        Found { jobs, exact: found.exact && proven, ..found }
    }
}
