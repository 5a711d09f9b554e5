//! Which nodes are near each other: latencies have levels where messages between some pass more switches than between others.
//!
//! A level counts only if it divides the nodes: whoever is near a third is near everybody who is. A torus, a slow node or two
//! kinds of CPUs have levels of latencies, and divide nothing.

use std::collections::BTreeMap;

/// By how much latencies of one level must exceed those of the next lower one, as a share.
const LEAST: f64 = 0.04;

/// By how many standard deviations of both.
const DEVIATIONS: f64 = 5.0;

/// The least standard deviation that is believed, as a share.
const LEAST_DEVIATION: f64 = 0.003;

/// Values that a level has at least.
const FEWEST: usize = 3;

/// Share of the pairs within groups that may be farther than the groups say: slow paths.
const ODD: f64 = 0.05;

/// Nodes by how far they are from each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// From the nearest: of each node its group, in which all are so near; but for the last level, which has all of them.
    groups: Vec<BTreeMap<usize, usize>>,
}

impl Levels {
    /// From latencies between nodes, each pair in either order. `None` where they do not divide the nodes.
    pub fn of(pairs: &[(usize, usize, f64)]) -> Option<Levels> {
        let mut values: Vec<f64> =
            pairs.iter().map(|(_, _, value)| *value).filter(|v| v.is_finite() && *v > 0.0).collect();
        values.sort_by(f64::total_cmp);
        let mut limits = Vec::new();
        split(&values, &mut limits);
        limits.sort_by(f64::total_cmp);
        let groups: Vec<BTreeMap<usize, usize>> = limits.iter().filter_map(|limit| divided(pairs, *limit)).collect();
        (!groups.is_empty()).then_some(Levels { groups })
    }

    /// How many levels there are.
    pub fn count(&self) -> usize {
        self.groups.len() + 1
    }

    /// The level of a pair, from 0.
    pub fn between(&self, a: usize, b: usize) -> usize {
        let near = |groups: &BTreeMap<usize, usize>| groups.contains_key(&a) && groups.get(&a) == groups.get(&b);
        self.groups.iter().position(near).unwrap_or(self.groups.len())
    }

    /// The groups of the nearest nodes, each in order; those of one node are alone by what was measured.
    pub fn nearest(&self) -> Vec<Vec<usize>> {
        let mut all: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (node, group) in self.groups.first().into_iter().flatten() {
            all.entry(*group).or_default().push(*node);
        }
        let mut all: Vec<Vec<usize>> = all.into_values().collect();
        all.sort();
        all
    }
}

/// Finds what divides sorted values into a lower and an upper level, and each of these again.
fn split(sorted: &[f64], limits: &mut Vec<f64>) {
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(sorted.iter().scan(0.0, |sum, value| {
            *sum += value;
            Some(*sum)
        }))
        .collect();
    let sum = |from: usize, to: usize| sums.get(to).zip(sums.get(from)).map_or(0.0, |(to, from)| to - from);
    let middle = |from: usize, to: usize| sorted.get((from + to) / 2).copied().unwrap_or(0.0);
    // the sum of distances from the median
    let cost = |from: usize, to: usize| {
        let (at, median) = ((from + to) / 2, middle(from, to));
        (at - from) as f64 * median - sum(from, at) + sum(at, to) - (to - at) as f64 * median
    };
    let n = sorted.len();
    let best = (FEWEST..(n + 1).saturating_sub(FEWEST))
        .min_by(|a, b| (cost(0, *a) + cost(*a, n)).total_cmp(&(cost(0, *b) + cost(*b, n))));
    let Some(at) = best else { return };
    let (lower, upper) = sorted.split_at(at);
    let deviation = |of: &[f64], median: f64| {
        let mut off: Vec<f64> = of.iter().map(|value| (value - median).abs()).collect();
        let at = off.len() / 2;
        let middle = if off.is_empty() { 0.0 } else { *off.select_nth_unstable_by(at, f64::total_cmp).1 };
        (1.4826 * middle).max(LEAST_DEVIATION * median)
    };
    let (low, high) = (middle(0, at), middle(at, n));
    let apart = high - low;
    if apart < LEAST * low || apart < DEVIATIONS * (deviation(lower, low) + deviation(upper, high)) {
        return;
    }
    if let (Some(last), Some(first)) = (lower.last(), upper.first()) {
        limits.push((last + first) / 2.0);
    }
    split(lower, limits);
    split(upper, limits);
}

/// The groups of nodes that values below a limit join, if the limit divides the nodes: at least two groups of several.
fn divided(pairs: &[(usize, usize, f64)], limit: f64) -> Option<BTreeMap<usize, usize>> {
    let mut group: BTreeMap<usize, usize> = pairs.iter().flat_map(|(a, b, _)| [(*a, *a), (*b, *b)]).collect();
    fn root(group: &BTreeMap<usize, usize>, mut node: usize) -> usize {
        while let Some(up) = group.get(&node).filter(|up| **up != node) {
            node = *up;
        }
        node
    }
    for (a, b, _) in pairs.iter().filter(|(_, _, value)| *value < limit) {
        let (a, b) = (root(&group, *a), root(&group, *b));
        // the least node of a group stands for it
        group.insert(a.max(b), a.min(b));
    }
    let nodes: Vec<usize> = group.keys().copied().collect();
    for node in nodes {
        let of = root(&group, node);
        group.insert(node, of);
    }
    let within = pairs.iter().filter(|(a, b, _)| group.get(a) == group.get(b));
    let (all, far) =
        within.fold((0_usize, 0_usize), |(all, far), (_, _, value)| (all + 1, far + usize::from(*value >= limit)));
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    group.values().for_each(|of| *sizes.entry(*of).or_default() += 1);
    let several = sizes.values().filter(|size| **size > 1).count();
    (several > 1 && far as f64 <= (ODD * all as f64).max(1.0)).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::pairings::{shifts, tournament};
    use peerlane_machine::random::Random;

    /// Latencies of pairs with 1 % of noise.
    fn measured(nodes: usize, all: bool, latency: impl Fn(usize, usize) -> f64) -> Vec<(usize, usize, f64)> {
        let mut random = Random::from_seed(nodes as u64);
        let rounds = if all { tournament(nodes) } else { shifts(nodes) };
        let pairs = rounds.into_iter().flatten();
        pairs.map(|(a, b)| (a, b, 2e-6 * latency(a, b) * (1.0 + 0.01 * random.normal()))).collect()
    }

    #[test]
    fn leaf_switches_and_what_is_above_them_divide_the_nodes() {
        for (nodes, leaf, pod) in [(16, 4, 8), (40, 32, 64), (64, 8, 16), (300, 16, 64)] {
            let latency = |a: usize, b: usize| match () {
                _ if a / leaf == b / leaf => 1.0,
                _ if a / pod == b / pod => 1.2,
                _ => 1.4,
            };
            let levels = Levels::of(&measured(nodes, false, latency)).unwrap();
            let groups = levels.nearest();
            assert_eq!(groups.len(), nodes.div_ceil(leaf), "{nodes}");
            assert!(groups.iter().all(|group| group.iter().all(|node| node / leaf == group[0] / leaf)));
            assert_eq!(levels.count(), if nodes > pod { 3 } else { 2 });
            assert_eq!((levels.between(0, 1), levels.between(0, nodes - 1)), (0, levels.count() - 1));
        }
    }

    #[test]
    fn what_has_levels_and_divides_nothing_is_none() {
        // nothing, a slow node, two kinds of nodes, a slow path, a ring
        let flat = |_: usize, _: usize| 1.0;
        let slow = |a: usize, b: usize| if a == 5 || b == 5 { 1.5 } else { 1.0 };
        let kinds = |a: usize, b: usize| 1.0 + 0.2 * [a, b].iter().filter(|n| **n >= 16).count() as f64;
        let path = |a: usize, b: usize| if a.min(b) == 3 && a.max(b) == 4 { 3.0 } else { 1.0 };
        let ring = |a: usize, b: usize| 1.0 + 0.1 * (a.abs_diff(b)).min(32 - a.abs_diff(b)) as f64;
        let all: [&dyn Fn(usize, usize) -> f64; 5] = [&flat, &slow, &kinds, &path, &ring];
        for (at, latency) in all.iter().enumerate() {
            for whole in [false, true] {
                assert_eq!(Levels::of(&measured(32, whole, latency)), None, "{at}");
            }
        }
        assert_eq!(Levels::of(&[]), None);
    }

    #[test]
    fn a_slow_path_within_a_group_does_not_hide_it() {
        let latency = |a: usize, b: usize| match () {
            _ if (a.min(b), a.max(b)) == (4, 5) => 2.0,
            _ if a / 8 == b / 8 => 1.0,
            _ => 1.3,
        };
        let levels = Levels::of(&measured(32, false, latency)).unwrap();
        assert_eq!((levels.nearest().len(), levels.between(4, 5)), (4, 0));
    }
}
