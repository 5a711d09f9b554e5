//! The search for the best placement: every way to fill the jobs' places with GPUs, but for those that a bound or the
//! machine's symmetry makes needless.
//!
//! Two placements that differ only in GPUs of one kind, in where a ring begins, in which end of a line comes first or in
//! the order of jobs of one size are one. A branch is left as soon as the transfers placed so far cannot keep the pace of
//! the best placement known ([`Load::bound`]).

use std::collections::HashMap;

use super::ROUNDING;
use super::load::Load;
use super::nics::Nics;
use super::rings::RingsOf;
use super::workload::Workload;
use peerlane_model::collectives::together;
use peerlane_model::flows::{Flows, Pair, interchangeable};

/// How many GPUs a search may place, how many transfers it may add to the load for that, and how many it may solve: about
/// half a second, and a second where jobs are large. For the pace first, then for the difference between placements of one pace.
const BUDGETS: [Budget; 2] = [
    Budget { steps: 1_500_000, added: 10_000_000, solved: 150_000 },
    Budget { steps: 150_000, added: 1_000_000, solved: 40_000 },
];

/// How many transfers may be solved to know the worst placement, too.
const WORST: Budget = Budget { steps: 100_000, added: usize::MAX, solved: 30_000 };

/// What it may take, as [`RingsOf::cost`] counts it, to find the rings of the placements that a search begins with: about a
/// second.
const FIRST: usize = 20_000_000;

/// What is left to be spent.
#[derive(Clone, Copy)]
struct Budget {
    steps: usize,
    added: usize,
    solved: usize,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.steps == 0 || self.added == 0 || self.solved == 0
    }
}

/// How good a placement is, in bytes a second; the first that differs decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Score {
    /// The slowest transfer of any job while all run; of all-reduces what the rings of the slowest job carry.
    pub pace: f64,
    /// What the job's GPUs get through its NICs, all at once; 0 where none was requested.
    pub nics: f64,
    /// What the transfers reach alone, summed.
    pub alone: f64,
}

impl Score {
    fn beats(&self, other: &Score) -> bool {
        let figures = [(self.pace, other.pace), (self.nics, other.nics), (self.alone, other.alone)];
        let differ = |(a, b): &&(f64, f64)| *a > b * (1.0 + ROUNDING) || *a < b * (1.0 - ROUNDING);
        figures.iter().find(differ).is_some_and(|(a, b)| a > b)
    }
}

/// The GPUs of each job, in order.
pub(super) type Jobs = Vec<Vec<usize>>;

/// What was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub jobs: Jobs,
    pub score: Score,
    /// Whether no placement has a faster slowest transfer.
    pub exact: bool,
}

impl Found {
    /// Takes other jobs if they are better.
    fn improve(&mut self, problem: &Problem, jobs: Jobs) {
        let score = problem.score(&jobs);
        if score.beats(&self.score) {
            (self.jobs, self.score) = (jobs, score);
        }
    }
}

/// What is to be placed, on what.
pub(super) struct Problem<'f, 'm, 'a> {
    pub flows: &'f Flows<'m, 'a>,
    pub workload: Workload,
    /// GPUs of each job.
    pub sizes: Vec<usize>,
    /// GPUs that may be taken, in order.
    pub free: Vec<usize>,
    /// GPUs that others use.
    pub busy: Vec<usize>,
    /// What busy GPUs send meanwhile.
    pub background: Vec<Pair>,
    /// For each GPU the end that is its host memory; itself where none is known.
    pub hosts: Vec<usize>,
    /// The NICs requested.
    pub nics: Option<Nics<'f, 'm, 'a>>,
    /// For each GPU the least one that it can change places with.
    pub kinds: Vec<usize>,
    /// The rings of all-reduces.
    pub rings: RingsOf<'f, 'm, 'a>,
    alone: HashMap<Pair, f64>,
    most_alone: f64,
}

impl<'f, 'm, 'a> Problem<'f, 'm, 'a> {
    /// A problem on these flows, of which `hosts` and NICs are ends. Jobs of `sizes` must fit into `free`.
    pub(super) fn new(
        flows: &'f Flows<'m, 'a>,
        workload: Workload,
        sizes: Vec<usize>,
        busy: &[usize],
        hosts: Vec<usize>,
    ) -> Self {
        let mut kinds: Vec<usize> = (0..flows.gpus()).collect();
        let groups = interchangeable(flows);
        for kind in &groups {
            let free: Vec<usize> = kind.iter().copied().filter(|g| !busy.contains(g)).collect();
            free.iter().for_each(|g| kinds[*g] = free.first().copied().unwrap_or(*g));
        }
        let free = (0..flows.gpus()).filter(|g| !busy.contains(g)).collect();
        let ends = flows.ends.len();
        let pairs = (0..ends).flat_map(|i| (0..ends).map(move |j| (i, j))).filter(|p| flows.flow(*p).is_some());
        let alone: HashMap<Pair, f64> = pairs.map(|pair| (pair, flows.alone_on(&flows.capacities, pair))).collect();
        let background = workload.pairs(busy, |g| hosts.get(g).copied().unwrap_or(g));
        let rings = RingsOf::new(flows, groups);
        let mut problem = Problem {
            flows,
            workload,
            sizes,
            free,
            busy: busy.to_vec(),
            background,
            hosts,
            nics: None,
            kinds,
            rings,
            alone,
            most_alone: 0.0,
        };
        let all = problem.free.iter().flat_map(|g| problem.free.iter().map(|h| (*g, *h)));
        let fed = problem.free.iter().map(|g| (problem.hosts[*g], *g));
        problem.most_alone = all.chain(fed).map(|pair| problem.alone(pair)).fold(0.0, f64::max);
        problem
    }

    /// What a transfer reaches alone, in bytes a second; 0 where that is not known.
    pub(super) fn alone(&self, pair: Pair) -> f64 {
        self.alone.get(&pair).copied().unwrap_or(0.0)
    }

    /// Every job's transfers.
    pub(super) fn pairs(&self, jobs: &[Vec<usize>]) -> Vec<Vec<Pair>> {
        if self.workload == Workload::AllReduce {
            return self.ring_pairs(jobs);
        }
        jobs.iter().map(|order| self.workload.pairs(order, |g| self.hosts[g])).collect()
    }

    /// The slowest transfer of each job, in bytes a second, while all jobs and what is busy run, or what its rings carry;
    /// infinite for a job without transfers, 0 where a rate is not known.
    pub(super) fn paces(&self, jobs: &[Vec<usize>]) -> Vec<f64> {
        if self.workload == Workload::AllReduce {
            let sum = |paces: Vec<f64>| paces.iter().sum();
            let known = self.ring_paces(jobs);
            return known.map_or(vec![0.0; jobs.len()], |jobs| jobs.into_iter().map(sum).collect());
        }
        let pairs = self.pairs(jobs);
        let set: Vec<Pair> = pairs.iter().flatten().chain(&self.background).copied().collect();
        let Some(rates) = self.flows.rates(&set) else { return vec![0.0; jobs.len()] };
        let mut rates = rates.into_iter();
        pairs.iter().map(|job| rates.by_ref().take(job.len()).fold(f64::INFINITY, f64::min)).collect()
    }

    /// How good a placement is.
    pub(super) fn score(&self, jobs: &[Vec<usize>]) -> Score {
        let pace = self.paces(jobs).into_iter().fold(f64::INFINITY, f64::min);
        let nics = match (&self.nics, jobs) {
            (Some(nics), [only]) => nics.assign(only).rate,
            _ => 0.0,
        };
        let alone = match self.workload {
            // rings may go over any pair
            Workload::AllReduce => jobs.iter().map(|gpus| self.alone_among(gpus)).sum(),
            _ => self.pairs(jobs).iter().flatten().map(|pair| self.alone(*pair)).sum(),
        };
        Score { pace, nics, alone }
    }

    /// What all pairs of these GPUs reach, each alone, summed.
    fn alone_among(&self, gpus: &[usize]) -> f64 {
        gpus.iter().flat_map(|a| gpus.iter().map(|b| self.alone((*a, *b)))).sum()
    }

    /// The jobs filled with free GPUs by their numbers.
    pub(super) fn by_number(&self) -> Jobs {
        let mut free = self.free.iter().copied();
        self.sizes.iter().map(|size| free.by_ref().take(*size).collect()).collect()
    }

    /// The best placement.
    pub(super) fn best(&self) -> Found {
        let jobs = self.by_number();
        let mut found = Found { score: self.score(&jobs), jobs, exact: true };
        let mut left = FIRST;
        for kind in self.free.iter().filter(|g| self.kinds[**g] == **g) {
            let jobs = self.greedy(*kind);
            left = left.saturating_sub(self.cost(&jobs));
            found.improve(self, jobs);
            if left == 0 {
                break;
            }
        }
        for (ties, budget) in [false, true].into_iter().zip(BUDGETS) {
            let mut search = Search { problem: self, load: Load::new(self.flows), best: found, ties, left: budget };
            search.descend(&mut vec![Vec::new()]);
            let spent = search.left.is_spent();
            found = search.best;
            if !ties && spent {
                found.exact = false;
            }
        }
        if self.workload == Workload::AllReduce { self.in_order_of_rings(found) } else { found }
    }

    /// The pace of the worst placement; `None` where there are too many to look at all.
    pub(super) fn worst(&self) -> Option<f64> {
        let mut worst = Worst { problem: self, pace: f64::INFINITY, left: WORST };
        worst.descend(&mut vec![Vec::new()]);
        (!worst.left.is_spent() && worst.pace.is_finite()).then_some(worst.pace)
    }

    /// From one GPU always to that which keeps the pace highest.
    fn greedy(&self, start: usize) -> Jobs {
        let mut load = Load::new(self.flows);
        let mut open = self.free.clone();
        let mut jobs = Jobs::new();
        for size in &self.sizes {
            let mut order: Vec<usize> = Vec::new();
            while order.len() < *size {
                let mut best: Option<(f64, f64, usize)> = None;
                let first = jobs.is_empty() && order.is_empty();
                for gpu in open.iter().copied().filter(|g| !first || *g == start) {
                    order.push(gpu);
                    let added = self.push(&mut load, &order, *size);
                    let (bound, sum) = (load.bound(), load.sum());
                    self.pop(&mut load, &added);
                    order.pop();
                    if best.is_none_or(|(b, s, _)| bound > b || (bound >= b && sum > s)) {
                        best = Some((bound, sum, gpu));
                    }
                }
                let Some((.., gpu)) = best else { break };
                order.push(gpu);
                open.retain(|g| *g != gpu);
                self.push(&mut load, &order, *size);
            }
            jobs.push(order);
        }
        jobs
    }

    /// Adds what the last GPU of a job adds.
    fn push(&self, load: &mut Load, order: &[usize], size: usize) -> Vec<Pair> {
        let added = self.workload.of(size).added(order, order.len() == size, |g| self.hosts[g]);
        added.iter().for_each(|pair| load.push(*pair, self.alone(*pair)));
        added
    }

    fn pop(&self, load: &mut Load, added: &[Pair]) {
        added.iter().rev().for_each(|pair| load.pop(self.alone(*pair)));
    }

    /// GPUs worth trying next in the last job, each standing for all that it can change places with.
    fn next(&self, jobs: &[Vec<usize>]) -> Vec<usize> {
        let Some((order, before)) = jobs.split_last() else { return Vec::new() };
        let size = self.sizes[before.len()];
        let kind = |gpu: Option<&usize>| gpu.map_or(0, |g| self.kinds[*g]);
        // of orders that are one, the one that begins with the least kind
        let least = match (self.workload.of(size), order.as_slice()) {
            (_, []) => {
                let twin = before.last().filter(|_| self.sizes[before.len() - 1] == size);
                kind(twin.and_then(|order| order.first()))
            }
            (Workload::Ring, [first, ..]) => kind(Some(first)),
            (Workload::Halo, [first, ..]) if order.len() + 1 == size => kind(Some(first)),
            (Workload::Pairs, [.., last]) if order.len() % 2 == 1 && order.len() < size => kind(Some(last)),
            (Workload::Pairs, [.., twin, _]) if order.len() + 1 < size => kind(Some(twin)),
            (Workload::AllReduce | Workload::AllToAll | Workload::HostFeed, [.., last]) => kind(Some(last)),
            _ => 0,
        };
        let taken = |g: &usize| jobs.iter().any(|order| order.contains(g));
        // where the order does not matter, those after a GPU must suffice for the places that are left
        let ordered = self.workload.of(size).is_ordered();
        let left = |kind: usize| self.free.iter().filter(|g| !taken(g) && self.kinds[**g] >= kind).count();
        let suffices = |g: &usize| ordered || left(self.kinds[*g]) >= size - order.len();
        let mut kinds: Vec<usize> = Vec::new();
        let mut next: Vec<usize> = Vec::new();
        for gpu in self.free.iter().copied().filter(|g| !taken(g) && self.kinds[*g] >= least) {
            if !kinds.contains(&self.kinds[gpu]) && suffices(&gpu) {
                kinds.push(self.kinds[gpu]);
                next.push(gpu);
            }
        }
        next
    }

    /// The jobs with the next place to fill; `None` where all are full.
    fn is_full(&self, jobs: &mut Jobs) -> bool {
        let full = jobs.last().is_some_and(|order| order.len() == self.sizes[jobs.len() - 1]);
        if full && jobs.len() < self.sizes.len() {
            jobs.push(Vec::new());
            return false;
        }
        full
    }

    /// What it takes to look at jobs besides solving their transfers.
    fn cost(&self, jobs: &[Vec<usize>]) -> usize {
        if self.workload == Workload::AllReduce { self.rings.cost(jobs) } else { 0 }
    }

    fn transfers(&self) -> usize {
        self.sizes.iter().map(|size| self.workload.count(*size)).sum()
    }
}

struct Search<'s, 'f, 'm, 'a> {
    problem: &'s Problem<'f, 'm, 'a>,
    load: Load<'f, 'm, 'a>,
    best: Found,
    /// Whether placements of the best pace are looked at, too.
    ties: bool,
    left: Budget,
}

impl Search<'_, '_, '_, '_> {
    fn descend(&mut self, jobs: &mut Jobs) {
        let depth = jobs.len();
        if self.problem.is_full(jobs) {
            self.look(jobs);
        } else {
            let size = self.problem.sizes[jobs.len() - 1];
            for gpu in self.problem.next(jobs) {
                if self.left.is_spent() {
                    break;
                }
                self.left.steps -= 1;
                let Some(order) = jobs.last_mut() else { break };
                order.push(gpu);
                // an all-reduce goes around rings that are known when its GPUs are
                let by_rings = self.problem.workload.of(size) == Workload::AllReduce;
                let added = if by_rings { Vec::new() } else { self.problem.push(&mut self.load, order, size) };
                self.left.added = self.left.added.saturating_sub(added.len());
                if self.may_be_better(jobs) {
                    self.descend(jobs);
                }
                self.problem.pop(&mut self.load, &added);
                if let Some(order) = jobs.last_mut() {
                    order.pop();
                }
            }
        }
        jobs.truncate(depth);
    }

    /// Whether a placement that begins like this may be better than the best.
    fn may_be_better(&self, jobs: &Jobs) -> bool {
        let Score { pace, nics, alone } = self.best.score;
        let by_rings = self.problem.workload == Workload::AllReduce;
        let most = |(order, size): (&Vec<usize>, &usize)| {
            if by_rings && *size > 1 { self.problem.rings.most(order) } else { f64::INFINITY }
        };
        let bound = jobs.iter().zip(&self.problem.sizes).map(most).fold(self.load.bound(), f64::min);
        if bound > pace * (1.0 + ROUNDING) {
            return true;
        }
        if !self.ties || bound < pace * (1.0 - ROUNDING) {
            return false;
        }
        if by_rings {
            return true;
        }
        let open = self.problem.transfers().saturating_sub(self.load.set().len());
        let more_alone = self.load.sum() + open as f64 * self.problem.most_alone > alone * (1.0 + ROUNDING);
        let most_nics = self.problem.nics.as_ref().map_or(0.0, |n| n.most(self.problem.sizes.iter().sum()));
        more_alone || most_nics > nics * (1.0 + ROUNDING)
    }

    fn look(&mut self, jobs: &Jobs) {
        let transfers = self.load.set().len() + self.problem.cost(jobs) + self.problem.background.len();
        self.left.solved = self.left.solved.saturating_sub(transfers.max(1));
        self.best.improve(self.problem, jobs.clone());
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

struct Worst<'s, 'f, 'm, 'a> {
    problem: &'s Problem<'f, 'm, 'a>,
    pace: f64,
    left: Budget,
}

impl Worst<'_, '_, '_, '_> {
    fn descend(&mut self, jobs: &mut Jobs) {
        let depth = jobs.len();
        if self.problem.is_full(jobs) {
            let cost = self.problem.transfers() + self.problem.cost(jobs);
            self.left.solved = self.left.solved.saturating_sub(cost.max(1));
            self.pace = self.problem.paces(jobs).into_iter().fold(self.pace, f64::min);
        } else {
            for gpu in self.problem.next(jobs) {
                if self.left.is_spent() {
                    break;
                }
                self.left.steps -= 1;
                if let Some(order) = jobs.last_mut() {
                    order.push(gpu);
                }
                self.descend(jobs);
                if let Some(order) = jobs.last_mut() {
                    order.pop();
                }
            }
        }
        jobs.truncate(depth);
    }
}
