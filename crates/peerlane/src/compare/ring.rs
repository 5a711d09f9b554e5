//! The rings in which an all-reduce goes fastest, and how fast.
//!
//! Defined in `docs/compare.md`. In a ring every GPU sends to the next at once and all at the pace of the slowest; a
//! further ring runs on what the earlier ones leave.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::together::{Figure, solved};
use crate::flows::{Flows, Pair, interchangeable};

/// Up to so many GPUs every order is tried where the bound is not met.
const MOST_TRIED: usize = 8;

/// How many orders a search may try before that, and how many where that is not done.
const MOST_SEARCHED: (usize, usize) = (100, 1500);

/// A further ring is worth its while from this share of the first one's rate on.
const WORTH: f64 = 0.02;

/// More rings than any mesh has.
const MOST_RINGS: usize = 16;

/// Equal but for rounding.
const ROUNDING: f64 = 1e-9;

/// One ring.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ring {
    /// The GPUs, each sending to the next and the last to the first.
    pub order: Vec<String>,
    /// What each of its transfers reaches at the pace of the slowest, in GB/s.
    pub rate: f64,
}

/// What rings carry.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AllReduce {
    /// The sum over the rings: the bus bandwidth, as nccl-tests counts it, that a ring all-reduce of large messages
    /// cannot exceed on them. What binds is said of the first ring.
    #[serde(flatten)]
    pub figure: Figure,
    /// The rings, the best first.
    pub rings: Vec<Ring>,
    /// Whether no single ring is faster than the first: it meets a bound, or all orders were tried.
    pub exact: bool,
}

/// Finds rings; `None` below two GPUs or where a pair's rate is not known.
pub(super) fn all_reduce(flows: &Flows) -> Option<AllReduce> {
    if flows.len() < 2 || !flows.complete() {
        return None;
    }
    let kinds = interchangeable(flows);
    let mut capacities = flows.capacities.clone();
    let mut taken: Vec<Pair> = Vec::new();
    let mut rings: Vec<Ring> = Vec::new();
    let mut first = None;
    while rings.len() < MOST_RINGS {
        // what earlier rings leave may be alike for no two GPUs
        let alike = if rings.is_empty() { kinds.as_slice() } else { &[] };
        let search = Search::new(flows, &capacities, &taken, alike);
        let Some(found) = search.best() else { break };
        let least = rings.first().map_or(0.0, |ring| ring.rate * WORTH);
        let rate = found.rate / 1e9;
        if rate <= least || !rate.is_finite() {
            break;
        }
        let set = ring_pairs(&found.order);
        for pair in &set {
            let Some(flow) = flows.flow(*pair) else { continue };
            for &(r, per_byte) in &flow.demand.uses {
                if let Some(left) = capacities.get_mut(r) {
                    *left = (*left - per_byte * found.rate).max(0.0);
                }
            }
            // a transfer through host memory has buffers and a pace of its own; a second would have to share them
            if flow.staged {
                taken.push(*pair);
            }
        }
        if rings.is_empty() {
            first = Some((set, found.exact));
        }
        rings.push(Ring { order: found.order.iter().map(|g| flows.name(*g).to_owned()).collect(), rate });
    }
    let (set, exact) = first?;
    let solved = solved(flows.model, set.into_iter().map(|pair| flows.transfer(pair)).collect())?;
    let bottleneck = solved.slowest_bottleneck();
    let rate = rings.iter().map(|ring| ring.rate).sum();
    Some(AllReduce { figure: Figure { rate, bottleneck, seen: None }, rings, exact })
}

/// Each to the next, and the last to the first.
pub(super) fn ring_pairs(order: &[usize]) -> Vec<Pair> {
    let next = order.iter().cycle().skip(1);
    order.iter().copied().zip(next.copied()).collect()
}

struct Found {
    order: Vec<usize>,
    rate: f64,
    exact: bool,
}

struct Search<'s, 'm, 'a> {
    flows: &'s Flows<'m, 'a>,
    capacities: &'s [f64],
    /// The most that every pair can reach in a ring, in bytes a second; of the first ring, with what flows into its source
    /// and out of its destination; of further ones, alone.
    alone: Vec<Vec<f64>>,
    /// For each GPU the group of those that it can change places with.
    kind: Vec<usize>,
}

impl<'s, 'm, 'a> Search<'s, 'm, 'a> {
    fn new(flows: &'s Flows<'m, 'a>, capacities: &'s [f64], taken: &[Pair], kinds: &[Vec<usize>]) -> Self {
        let n = flows.len();
        let group = |gpu: usize| kinds.iter().position(|kind| kind.contains(&gpu)).unwrap_or(kinds.len() + gpu);
        let kind: Vec<usize> = (0..n).map(group).collect();
        let alone = |pair: Pair| {
            let free = pair.0 != pair.1 && !taken.contains(&pair);
            if free { flows.alone_on(capacities, pair) } else { 0.0 }
        };
        let alone = (0..n).map(|i| (0..n).map(|j| alone((i, j))).collect()).collect();
        let mut search = Search { flows, capacities, alone, kind };
        if n > 2 && !kinds.is_empty() {
            search.alone = search.beside_neighbours();
        }
        search
    }

    /// What every pair reaches at most while another transfer flows into its source, and another out of its destination,
    /// as in every ring of three or more: links carry something for the opposite direction, too.
    fn beside_neighbours(&self) -> Vec<Vec<f64>> {
        let n = self.flows.len();
        let mut known: HashMap<[usize; 4], f64> = HashMap::new();
        let mut slower = |pair: Pair, other: Pair, third: usize, side: usize| {
            // GPUs that can change places give the same
            let key = [self.kind[pair.0], self.kind[pair.1], self.kind[third], side];
            *known.entry(key).or_insert_with(|| self.flows.evenly(self.capacities, &[pair, other]))
        };
        let mut most = |i: usize, j: usize| {
            let others = || (0..n).filter(move |third| *third != i && *third != j);
            let before = others().map(|p| slower((i, j), (p, i), p, 0)).fold(0.0, f64::max);
            let after = others().map(|q| slower((i, j), (j, q), q, 1)).fold(0.0, f64::max);
            self.alone[i][j].min(before).min(after)
        };
        (0..n).map(|i| (0..n).map(|j| if i == j { 0.0 } else { most(i, j) }).collect()).collect()
    }

    /// Pace of a ring in this order: that of its slowest transfer while all run.
    fn pace(&self, order: &[usize]) -> f64 {
        let pairs = ring_pairs(order);
        let rates = self.flows.rates_on(self.capacities, &pairs);
        rates.map_or(0.0, |rates| rates.into_iter().fold(self.slowest_alone(&pairs), f64::min))
    }

    /// No ring in this order is faster; a small part of the work of [`Search::pace`], and mostly as much.
    fn pace_at_most(&self, order: &[usize]) -> f64 {
        let pairs = ring_pairs(order);
        let alone = self.slowest_alone(&pairs);
        if alone <= 0.0 { 0.0 } else { self.flows.evenly(self.capacities, &pairs).min(alone) }
    }

    fn slowest_alone(&self, pairs: &[Pair]) -> f64 {
        pairs.iter().map(|(i, j)| self.alone[*i][*j]).fold(f64::INFINITY, f64::min)
    }

    fn best(&self) -> Option<Found> {
        let n = self.flows.len();
        let bound = self.bound();
        if bound <= 0.0 {
            return None;
        }
        let is_bound = |rate: f64| rate >= bound * (1.0 - ROUNDING);
        let mut best: (f64, Vec<usize>) = (-1.0, Vec::new());
        let mut left = if n <= MOST_TRIED { MOST_SEARCHED.0 } else { MOST_SEARCHED.1 };
        for start in self.starts() {
            let found = self.improved(start, bound, &mut left);
            if found.0 > best.0 * (1.0 + ROUNDING) {
                best = found;
            }
            if is_bound(best.0) || left == 0 {
                break;
            }
        }
        let mut exact = is_bound(best.0);
        if !exact && n <= MOST_TRIED {
            self.every_order(&mut vec![0], &mut best);
            exact = true;
        }
        let (rate, order) = best;
        (rate > 0.0).then_some(Found { order, rate, exact })
    }

    /// No ring is faster than this: with only the pairs that alone reach it, every GPU must still have a way to every
    /// other.
    fn bound(&self) -> f64 {
        let mut rates: Vec<f64> = self.alone.iter().flatten().copied().filter(|r| *r > 0.0).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let holds = rates.partition_point(|rate| self.is_connected(*rate));
        holds.checked_sub(1).and_then(|at| rates.get(at).copied()).unwrap_or(0.0)
    }

    /// Whether every GPU reaches every other over pairs that alone reach this rate.
    fn is_connected(&self, rate: f64) -> bool {
        let n = self.flows.len();
        let reaches_all = |fast: &dyn Fn(usize, usize) -> bool| {
            let mut seen = vec![false; n];
            let mut open = vec![0];
            seen[0] = true;
            while let Some(at) = open.pop() {
                for (next, seen) in seen.iter_mut().enumerate() {
                    if !*seen && fast(at, next) {
                        *seen = true;
                        open.push(next);
                    }
                }
            }
            seen.into_iter().all(|s| s)
        };
        reaches_all(&|i, j| self.alone[i][j] >= rate) && reaches_all(&|i, j| self.alone[j][i] >= rate)
    }

    /// Orders to start from: along the GPUs' numbers, and from each GPU to the nearest that is left.
    fn starts(&self) -> Vec<Vec<usize>> {
        let n = self.flows.len();
        let mut all = vec![(0..n).collect::<Vec<usize>>()];
        for start in 0..n {
            let mut order = vec![start];
            while order.len() < n {
                let at = order[order.len() - 1];
                let open = (0..n).filter(|g| !order.contains(g));
                let speed = |g: &usize| self.alone[at][*g].min(self.alone[*g][at]);
                // of equals, the first
                let next = open.rev().max_by(|a, b| speed(a).total_cmp(&speed(b)));
                order.extend(next);
            }
            all.push(order);
        }
        all
    }

    /// What its pairs reach alone, none counted above the bound: it tells orders of one pace apart.
    fn speed(&self, order: &[usize], bound: f64) -> f64 {
        ring_pairs(order).iter().map(|(i, j)| self.alone[*i][*j].min(bound)).sum()
    }

    /// Exchanges two GPUs, or turns a stretch round, as long as that helps.
    fn improved(&self, mut order: Vec<usize>, bound: f64, left: &mut usize) -> (f64, Vec<usize>) {
        let n = order.len();
        let mut pace = self.pace(&order);
        let mut speed = self.speed(&order, bound);
        'improving: while pace < bound * (1.0 - ROUNDING) {
            for (i, j) in (1..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))) {
                for turn in [false, true] {
                    if *left == 0 {
                        break 'improving;
                    }
                    let mut next = order.clone();
                    if turn {
                        next[i..=j].reverse()
                    } else {
                        next.swap(i, j)
                    }
                    *left -= 1;
                    let sped = self.speed(&next, bound);
                    let helps = |paced: f64| {
                        let as_fast = paced >= pace * (1.0 - ROUNDING);
                        paced > pace * (1.0 + ROUNDING) || (as_fast && sped > speed * (1.0 + ROUNDING))
                    };
                    if !helps(self.pace_at_most(&next)) {
                        continue;
                    }
                    let paced = self.pace(&next);
                    if helps(paced) {
                        (pace, speed, order) = (paced, sped, next);
                        continue 'improving;
                    }
                }
            }
            break;
        }
        (pace, order)
    }

    /// Tries all orders that begin so, but for those with a pair that alone is no faster than the best ring. Of GPUs that
    /// can change places the first that is left stands for all.
    fn every_order(&self, order: &mut Vec<usize>, best: &mut (f64, Vec<usize>)) {
        let n = self.flows.len();
        let last = order[order.len() - 1];
        if order.len() == n {
            let is_better = |pace: f64| pace > best.0 * (1.0 + ROUNDING);
            if is_better(self.pace_at_most(order)) {
                let pace = self.pace(order);
                if is_better(pace) {
                    *best = (pace, order.clone());
                }
            }
            return;
        }
        for next in 0..n {
            let stands_for_it = |g: &usize| self.kind[*g] == self.kind[next] && !order.contains(g);
            let first = !order.contains(&next) && !(0..next).any(|g| stands_for_it(&g));
            if first && self.alone[last][next] > best.0 * (1.0 + ROUNDING) {
                order.push(next);
                self.every_order(order, best);
                order.pop();
            }
        }
    }
}
