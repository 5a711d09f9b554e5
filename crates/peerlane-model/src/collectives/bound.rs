//! The most that any set of rings through some GPUs can carry together.
//!
//! Every ring leaves and enters each GPU once. So whatever every ring takes of a resource at least, all of them take
//! together for each byte of their sum; and the sum is no more than all that a GPU's pairs carry.

use std::collections::HashMap;

use super::over::Over;

/// No rings of these GPUs over the pairs that `allowed` names carry more, in bytes a second. `alone` has what each pair
/// reaches by itself, row by row.
pub(super) fn most(over: &Over, alone: &[f64], allowed: impl Fn(usize, usize) -> bool) -> f64 {
    let n = over.len();
    let mut costs = Costs::new(n);
    let mut entries: Vec<(usize, usize, f64, f64)> = Vec::new();
    for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).filter(|(i, j)| i != j && allowed(*i, *j)) {
        let Some(flow) = over.flow((i, j)) else { continue };
        let at = i * n + j;
        costs.open(at);
        entries.extend(flow.demand.uses.iter().map(|&(r, per_byte)| (r, at, per_byte, 0.0)));
        entries.extend(flow.demand.burdens.iter().map(|&(r, per_byte)| (r, at, 0.0, per_byte)));
    }
    let sum =
        |of: &dyn Fn(usize) -> usize| (0..n).map(of).filter(|at| costs.is_open(*at)).map(|at| alone[at]).sum::<f64>();
    let of_gpu = |i: usize| sum(&|j| i * n + j).min(sum(&|j| j * n + i));
    let mut most = (0..n).map(of_gpu).fold(f64::INFINITY, f64::min);
    entries.sort_unstable_by_key(|(r, ..)| *r);
    for of_one in entries.chunk_by(|a, b| a.0 == b.0) {
        let Some((resource, ..)) = of_one.first() else { continue };
        let least = costs.least(of_one.iter().map(|&(_, at, uses, burden)| (at, uses, burden)));
        let capacity = over.flows.capacities.get(*resource).copied().unwrap_or(f64::INFINITY);
        if least > 0.0 {
            most = most.min(capacity / least);
        }
    }
    most
}

/// For each GPU the most that any rings among some of these GPUs carry through it, in bytes a second.
pub(super) fn through_each(over: &Over, alone: &[f64]) -> Vec<f64> {
    let n = over.len();
    let pairs = || (0..n).flat_map(move |i| (0..n).map(move |j| (i, j))).filter(|(i, j)| i != j);
    let sum = |of: &dyn Fn(usize) -> usize| (0..n).map(|j| alone[of(j)]).sum::<f64>();
    let mut most: Vec<f64> = (0..n).map(|i| sum(&|j| i * n + j).min(sum(&|j| j * n + i))).collect();
    // of each GPU and resource, what its cheapest transfer out and in take, and how many take anything
    let mut least: HashMap<(usize, usize), [(f64, usize); 2]> = HashMap::new();
    for (i, j) in pairs() {
        let Some(flow) = over.flow((i, j)) else { continue };
        for &(r, per_byte) in &flow.demand.uses {
            for (gpu, side) in [(i, 0), (j, 1)] {
                let known = least.entry((gpu, r)).or_insert([(f64::INFINITY, 0); 2]);
                known[side] = (known[side].0.min(per_byte), known[side].1 + 1);
            }
        }
    }
    for ((gpu, r), sides) in least {
        let taken: f64 = sides.iter().filter(|(_, pairs)| *pairs == n - 1).map(|(per_byte, _)| per_byte).sum();
        if taken > 0.0 {
            most[gpu] = most[gpu].min(over.flows.capacities.get(r).copied().unwrap_or(f64::INFINITY) / taken);
        }
    }
    most
}

/// What each pair takes of one resource for a byte; of pairs that no ring goes over, infinitely much.
struct Costs {
    n: usize,
    /// What it waits for.
    uses: Vec<f64>,
    /// The same and what it takes without waiting.
    all: Vec<f64>,
}

impl Costs {
    fn new(n: usize) -> Self {
        Costs { n, uses: vec![f64::INFINITY; n * n], all: vec![f64::INFINITY; n * n] }
    }

    fn open(&mut self, at: usize) {
        (self.uses[at], self.all[at]) = (0.0, 0.0);
    }

    fn is_open(&self, at: usize) -> bool {
        self.uses[at].is_finite()
    }

    /// The least that a ring takes of a resource of which pairs take `(pair, waiting, without)`; 0 where a ring may do
    /// without it.
    fn least(&mut self, taken: impl Iterator<Item = (usize, f64, f64)> + Clone) -> f64 {
        for (at, uses, burden) in taken.clone() {
            self.uses[at] += uses;
            self.all[at] += uses + burden;
        }
        let always = least_of(self.n, &self.uses) > 0.0;
        let least = if always { least_of(self.n, &self.all) } else { 0.0 };
        taken.for_each(|(at, ..)| self.open(at));
        least
    }
}

/// The least that a ring costs, from below: it leaves and enters every GPU, and every group of GPUs within which the pairs
/// up to some cost lead from each to each.
fn least_of(n: usize, costs: &[f64]) -> f64 {
    let mut levels: Vec<f64> = costs.iter().copied().filter(|c| c.is_finite()).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let mut least = crossing(&(0..n).collect::<Vec<_>>(), costs);
    for level in levels {
        let groups = groups(n, |i, j| costs[i * n + j] <= level);
        if groups.iter().all(|group| *group == 0) {
            return least;
        }
        least = least.max(crossing(&groups, costs));
    }
    // there is no ring
    f64::INFINITY
}

/// The least that a ring costs from group to group.
fn crossing(groups: &[usize], costs: &[f64]) -> f64 {
    let n = groups.len();
    let mut out = vec![f64::INFINITY; n];
    let mut into = out.clone();
    for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).filter(|(i, j)| groups[*i] != groups[*j]) {
        out[groups[i]] = out[groups[i]].min(costs[i * n + j]);
        into[groups[j]] = into[groups[j]].min(costs[i * n + j]);
    }
    let of_groups = || (0..n).filter(|group| groups.contains(group)).map(|group| (out[group], into[group]));
    let one = of_groups().map(|(out, into)| out + into).fold(0.0, f64::max);
    let sums = of_groups().fold((0.0, 0.0), |sums, (out, into)| (sums.0 + out, sums.1 + into));
    one.max(sums.0).max(sums.1)
}

/// For each the first of those that it leads to and that lead to it, over the pairs that are joined.
fn groups(n: usize, joined: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut groups = vec![usize::MAX; n];
    for first in 0..n {
        if groups[first] == usize::MAX {
            let (to, from) = (reached(n, first, &joined), reached(n, first, |i, j| joined(j, i)));
            (0..n).filter(|at| to[*at] && from[*at]).for_each(|at| groups[at] = first);
        }
    }
    groups
}

/// Which of `n` one leads to.
fn reached(n: usize, from: usize, joined: impl Fn(usize, usize) -> bool) -> Vec<bool> {
    let mut reached = vec![false; n];
    reached[from] = true;
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for (next, reached) in reached.iter_mut().enumerate() {
            if !*reached && joined(at, next) {
                *reached = true;
                open.push(next);
            }
        }
    }
    reached
}

/// Whether every one of `n` leads to every other.
pub(super) fn joins_all(n: usize, joined: impl Fn(usize, usize) -> bool) -> bool {
    let all = |reached: Vec<bool>| reached.into_iter().all(|r| r);
    n == 0 || (all(reached(n, 0, &joined)) && all(reached(n, 0, |i, j| joined(j, i))))
}
