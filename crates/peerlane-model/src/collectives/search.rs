//! The search for one ring: the order of GPUs in which the slowest transfer is fastest, on capacities of which other rings
//! may have taken a part.

use std::collections::HashMap;

use super::bound::joins_all;
use super::over::{Over, ring_pairs};
use crate::flows::Pair;

/// Up to so many GPUs every order is tried where the bound is not met.
const MOST_TRIED: usize = 8;

/// How many orders a search may try before that, and how many where that is not done.
const MOST_SEARCHED: (usize, usize) = (100, 1500);

/// Equal but for rounding.
const ROUNDING: f64 = 1e-9;

/// A ring by places in [`Over`].
pub(super) struct Found {
    pub(super) order: Vec<usize>,
    /// Whether no order is faster: it meets a bound, or all were tried.
    pub(super) exact: bool,
}

/// What a search knows of pairs.
pub(super) struct Search<'s, 'o, 'm, 'a> {
    over: &'s Over<'o, 'm, 'a>,
    capacities: &'s [f64],
    /// The most that every pair can reach in a ring, in bytes a second, row by row; 0 for those that it must not use.
    alone: Vec<f64>,
    /// For each GPU the least one that it can change places with.
    twins: Vec<usize>,
}

impl<'s, 'o, 'm, 'a> Search<'s, 'o, 'm, 'a> {
    /// A search for the first ring.
    pub(super) fn first(over: &'s Over<'o, 'm, 'a>, alone: &[f64]) -> Self {
        let capacities = &over.flows.capacities;
        let mut search = Search { over, capacities, alone: alone.to_vec(), twins: over.twins.clone() };
        if over.len() > 2 {
            search.alone = search.beside_neighbours();
        }
        search
    }

    /// A search for a further one, on what others leave, over the pairs that are `open`. What others leave may be alike for
    /// no two GPUs.
    pub(super) fn further(over: &'s Over<'o, 'm, 'a>, capacities: &'s [f64], open: impl Fn(Pair) -> bool) -> Self {
        let n = over.len();
        let alone = |pair: Pair| if pair.0 != pair.1 && open(pair) { over.alone(capacities, pair) } else { 0.0 };
        let alone = (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).map(alone).collect();
        Search { over, capacities, alone, twins: (0..n).collect() }
    }

    fn alone(&self, (i, j): Pair) -> f64 {
        self.alone[i * self.over.len() + j]
    }

    /// What every pair reaches at most while another transfer flows into its source, and another out of its destination,
    /// as in every ring of three or more: links carry something for the opposite direction, too.
    fn beside_neighbours(&self) -> Vec<f64> {
        let n = self.over.len();
        let mut known: HashMap<[usize; 4], f64> = HashMap::new();
        let mut slower = |pair: Pair, other: Pair, third: usize, side: usize| {
            // GPUs that can change places give the same
            let key = [self.twins[pair.0], self.twins[pair.1], self.twins[third], side];
            *known.entry(key).or_insert_with(|| self.over.pace(self.capacities, &[pair, other]))
        };
        let mut most = |i: usize, j: usize| {
            let others = || (0..n).filter(move |third| *third != i && *third != j);
            let before = others().map(|p| slower((i, j), (p, i), p, 0)).fold(0.0, f64::max);
            let after = others().map(|q| slower((i, j), (j, q), q, 1)).fold(0.0, f64::max);
            self.alone((i, j)).min(before).min(after)
        };
        let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        pairs.map(|(i, j)| if i == j { 0.0 } else { most(i, j) }).collect()
    }

    /// Pace of a ring in this order, in bytes a second.
    fn pace(&self, order: &[usize]) -> f64 {
        let pairs = ring_pairs(order);
        let alone = pairs.iter().map(|pair| self.alone(*pair)).fold(f64::INFINITY, f64::min);
        if alone <= 0.0 { 0.0 } else { self.over.pace(self.capacities, &pairs).min(alone) }
    }

    /// The best ring there is, or that is found; `None` where there is none.
    pub(super) fn best(&self) -> Option<Found> {
        let n = self.over.len();
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
        let (rate, mut order) = best;
        let first = order.iter().position(|gpu| *gpu == 0).unwrap_or(0);
        order.rotate_left(first);
        (rate > 0.0).then_some(Found { order, exact })
    }

    /// No ring is faster than this: with only the pairs that alone reach it, every GPU must still have a way to every
    /// other.
    fn bound(&self) -> f64 {
        let n = self.over.len();
        let mut rates: Vec<f64> = self.alone.iter().copied().filter(|r| *r > 0.0).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let holds = rates.partition_point(|rate| joins_all(n, |i, j| self.alone((i, j)) >= *rate));
        holds.checked_sub(1).and_then(|at| rates.get(at).copied()).unwrap_or(0.0)
    }

    /// Orders to start from: along the GPUs' numbers, and from each GPU to the nearest that is left.
    fn starts(&self) -> Vec<Vec<usize>> {
        let n = self.over.len();
        let mut all = vec![(0..n).collect::<Vec<usize>>()];
        for start in 0..n {
            let mut order = vec![start];
            while order.len() < n {
                let at = order[order.len() - 1];
                let open = (0..n).filter(|g| !order.contains(g));
                let speed = |g: &usize| self.alone((at, *g)).min(self.alone((*g, at)));
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
        ring_pairs(order).into_iter().map(|pair| self.alone(pair).min(bound)).sum()
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
                    let (paced, sped) = (self.pace(&next), self.speed(&next, bound));
                    let as_fast = paced >= pace * (1.0 - ROUNDING);
                    if paced > pace * (1.0 + ROUNDING) || (as_fast && sped > speed * (1.0 + ROUNDING)) {
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
        let n = self.over.len();
        let last = order[order.len() - 1];
        if order.len() == n {
            let pace = self.pace(order);
            if pace > best.0 * (1.0 + ROUNDING) {
                *best = (pace, order.clone());
            }
            return;
        }
        for next in 0..n {
            let stands_for_it = |g: &usize| self.twins[*g] == self.twins[next] && !order.contains(g);
            let first = !order.contains(&next) && !(0..next).any(|g| stands_for_it(&g));
            if first && self.alone((last, next)) > best.0 * (1.0 + ROUNDING) {
                order.push(next);
                self.every_order(order, best);
                order.pop();
            }
        }
    }
}
