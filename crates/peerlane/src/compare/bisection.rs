//! The worst even split of a machine's GPUs, and what crosses it.
//!
//! Defined in `docs/compare.md`. GPUs that can change places without any rate changing are counted and not told apart, so
//! that twenty GPUs below four switches have a few hundred splits and not 92,378.

use schemars::JsonSchema;
use serde::Serialize;

use super::flows::{Flows, Pair};
use super::together::{Figure, solved};

/// The most uses of resources that a search may go through: some 20 ms.
const MOST_WORK: u64 = 1_500_000;

/// The split across which the least goes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Bisection {
    /// What crosses it, both ways together, while every GPU of one half sends to every GPU of the other and back.
    #[serde(flatten)]
    pub figure: Figure,
    /// One half.
    pub one: Vec<String>,
    /// The other, larger by one where the number of GPUs is odd.
    pub other: Vec<String>,
    /// Whether no split is worse: all were tried. Else it is the worst that was found.
    pub exact: bool,
    /// Splits tried, those that differ only in GPUs of one kind of place counted once.
    pub tried: usize,
}

/// Finds it; `None` below two GPUs or where a pair's rate is not known.
pub(super) fn bisection(flows: &Flows) -> Option<Bisection> {
    let n = flows.len();
    if n < 2 || !flows.complete() {
        return None;
    }
    let kinds = interchangeable(flows);
    let search = Search { flows, kinds: &kinds };
    let pairs = (n / 2 * n.div_ceil(2) * 2) as u64;
    let uses =
        (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).filter_map(|p| flows.flow(p)).map(|f| f.flow.uses.len());
    let per_split = pairs * (uses.sum::<usize>() as u64 / (n * (n - 1)) as u64).max(1);
    let affordable = (MOST_WORK / per_split).max(16);
    let exact = search.count(n / 2) <= affordable;
    let (split, tried) = if exact { search.all() } else { search.descend(affordable) };
    let half = search.members(&split?);
    let other: Vec<usize> = (0..n).filter(|g| !half.contains(g)).collect();
    let set = across(&half, &other);
    let figure = solved(flows.model, set.iter().map(|pair| flows.transfer(*pair)).collect())?.sum_of_all();
    let names = |half: &[usize]| half.iter().map(|g| flows.name(*g).to_owned()).collect();
    Some(Bisection { figure, one: names(&half), other: names(&other), exact, tried })
}

/// Every GPU of one half to every GPU of the other, and back.
fn across(one: &[usize], other: &[usize]) -> Vec<Pair> {
    one.iter().flat_map(|a| other.iter().flat_map(|b| [(*a, *b), (*b, *a)])).collect()
}

/// Groups of GPUs of which any two can change places.
pub(super) fn interchangeable(flows: &Flows) -> Vec<Vec<usize>> {
    let owners = owners(flows);
    let mut kinds: Vec<Vec<usize>> = Vec::new();
    for gpu in 0..flows.len() {
        // an exchange of i with j and one of j with k make one of i with k
        match kinds.iter_mut().find(|kind| kind.first().is_some_and(|first| can_swap(flows, &owners, *first, gpu))) {
            Some(kind) => kind.push(gpu),
            None => kinds.push(vec![gpu]),
        }
    }
    kinds
}

/// For each resource the ends that all of its users have in common: nobody's, one GPU's, or a pair's.
fn owners(flows: &Flows) -> Vec<Option<[usize; 2]>> {
    let mut owners: Vec<Option<Option<[usize; 2]>>> = vec![None; flows.capacities.len()];
    for pair in flows.pairs() {
        let Some(flow) = flows.flow(pair) else { continue };
        for (r, _) in &flow.flow.uses {
            let Some(owner) = owners.get_mut(*r) else { continue };
            let ends = [pair.0, pair.1];
            *owner = Some(match owner {
                None => Some(ends),
                Some(None) => None,
                Some(Some(before)) => {
                    let common: Vec<usize> = before.iter().copied().filter(|g| ends.contains(g)).collect();
                    match common.as_slice() {
                        [only] => Some([*only; 2]),
                        [a, b] => Some([*a, *b]),
                        _ => None,
                    }
                }
            });
        }
    }
    owners.into_iter().map(Option::flatten).collect()
}

/// Whether the machine is the same with two GPUs exchanged: a mapping of resources that takes every flow of one to the
/// other's, leaves those of all others alone, and keeps capacities, consumption, caps and weights.
fn can_swap(flows: &Flows, owners: &[Option<[usize; 2]>], i: usize, j: usize) -> bool {
    let swap = |g: usize| match g {
        g if g == i => j,
        g if g == j => i,
        g => g,
    };
    let mut map: Vec<Option<usize>> = vec![None; flows.capacities.len()];
    let mut maps = |r: usize, s: usize| map.get_mut(r).is_some_and(|to| *to.get_or_insert(s) == s);
    let of_pair = |r: usize| owners.get(r).copied().flatten().is_some_and(|o| o.contains(&i) || o.contains(&j));
    for pair in flows.pairs().filter(|(a, b)| [a, b].iter().any(|g| **g == i || **g == j)) {
        let image = (swap(pair.0), swap(pair.1));
        let (Some(x), Some(y)) = (flows.flow(pair), flows.flow(image)) else { return false };
        let (x, y) = (&x.flow, &y.flow);
        if x.uses.len() != y.uses.len() || x.cap != y.cap || x.weight != y.weight {
            return false;
        }
        for (&(r, per_byte), &(s, other)) in x.uses.iter().zip(&y.uses) {
            let alike = per_byte == other && flows.capacities.get(r) == flows.capacities.get(s);
            // what others use stays where it is
            let moves = r == s || (of_pair(r) && of_pair(s));
            if !alike || !moves || !maps(r, s) || !maps(s, r) {
                return false;
            }
        }
    }
    true
}

struct Search<'s, 'm, 'a> {
    flows: &'s Flows<'m, 'a>,
    kinds: &'s [Vec<usize>],
}

impl Search<'_, '_, '_> {
    /// How many ways there are to take so many GPUs, by kinds.
    fn count(&self, take: usize) -> u64 {
        let mut ways = vec![0_u64; take + 1];
        ways[0] = 1;
        for kind in self.kinds {
            let before = ways.clone();
            for (total, way) in ways.iter_mut().enumerate() {
                *way = (0..=kind.len().min(total)).fold(0, |sum: u64, k| sum.saturating_add(before[total - k]));
            }
        }
        ways[take]
    }

    /// The first so many of each kind.
    fn members(&self, split: &[usize]) -> Vec<usize> {
        let mut half: Vec<usize> = self.kinds.iter().zip(split).flat_map(|(kind, k)| &kind[..*k]).copied().collect();
        half.sort_unstable();
        half
    }

    /// What crosses a split, in bytes a second.
    fn crossing(&self, split: &[usize]) -> f64 {
        let one = self.members(split);
        let other: Vec<usize> = (0..self.flows.len()).filter(|g| !one.contains(g)).collect();
        self.flows.rates(&across(&one, &other)).map_or(f64::INFINITY, |rates| rates.iter().sum())
    }

    /// Tries every split.
    fn all(&self) -> (Option<Vec<usize>>, usize) {
        let n = self.flows.len();
        let mut best: Option<(f64, Vec<usize>)> = None;
        let mut tried = 0;
        let mut open: Vec<Vec<usize>> = vec![Vec::new()];
        while let Some(split) = open.pop() {
            let left = (n / 2).saturating_sub(split.iter().sum());
            let Some(kind) = self.kinds.get(split.len()) else {
                // of an even number, the half without the first GPU is the other half of one with it
                if left == 0 && (n % 2 == 1 || self.first_of_two(&split)) {
                    tried += 1;
                    let crossing = self.crossing(&split);
                    // rounding is no difference
                    if best.as_ref().is_none_or(|(least, _)| crossing < least * (1.0 - 1e-9)) {
                        best = Some((crossing, split));
                    }
                }
                continue;
            };
            let rest: usize = self.kinds[split.len() + 1..].iter().map(Vec::len).sum();
            open.extend((left.saturating_sub(rest)..=kind.len().min(left)).map(|k| [split.as_slice(), &[k]].concat()));
        }
        (best.map(|(_, split)| split), tried)
    }

    /// Whether a split of an even number of GPUs comes before its complement, or is its own.
    fn first_of_two(&self, split: &[usize]) -> bool {
        let complement = self.kinds.iter().zip(split).map(|(kind, k)| kind.len() - k);
        split.iter().copied().ge(complement)
    }

    /// Goes down from splits along the order of the GPUs, exchanging one GPU of either half at a time, until none helps
    /// or `most` splits have been tried.
    fn descend(&self, most: u64) -> (Option<Vec<usize>>, usize) {
        let n = self.flows.len();
        let mut best: Option<(f64, Vec<usize>)> = None;
        let mut tried = 0;
        for start in 0..n.div_ceil(2) {
            let half: Vec<usize> = (0..n / 2).map(|k| (start + k) % n).collect();
            let mut split: Vec<usize> =
                self.kinds.iter().map(|kind| kind.iter().filter(|g| half.contains(g)).count()).collect();
            let mut least = self.crossing(&split);
            tried += 1;
            while tried < most as usize {
                let mut better: Option<(f64, Vec<usize>)> = None;
                for (i, j) in (0..split.len()).flat_map(|i| (0..split.len()).map(move |j| (i, j))) {
                    if i == j || split[i] == 0 || split[j] == self.kinds[j].len() {
                        continue;
                    }
                    let mut next = split.clone();
                    (next[i], next[j]) = (next[i] - 1, next[j] + 1);
                    let crossing = self.crossing(&next);
                    tried += 1;
                    if crossing < better.as_ref().map_or(least, |(c, _)| *c) * (1.0 - 1e-9) {
                        better = Some((crossing, next));
                    }
                }
                let Some((crossing, next)) = better else { break };
                (least, split) = (crossing, next);
            }
            if best.as_ref().is_none_or(|(b, _)| least < *b) {
                best = Some((least, split));
            }
            if tried >= most as usize {
                break;
            }
        }
        (best.map(|(_, split)| split), tried)
    }
}
