//! The worst even split of a machine's GPUs, and what crosses it.
//!
//! Defined in `docs/compare.md`. GPUs that can change places without any rate changing are counted and not distinguished, so
//! that twenty GPUs below four switches have a few hundred splits and not 92,378.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::together::{Figure, solved};
use peerlane_model::flows::{Flows, Pair, interchangeable};

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
    let n = flows.gpus();
    if n < 2 || !flows.complete() {
        return None;
    }
    let kinds = interchangeable(flows);
    let search = Search { flows, kinds: &kinds };
    let pairs = (n / 2 * n.div_ceil(2) * 2) as u64;
    let uses =
        (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).filter_map(|p| flows.flow(p)).map(|f| f.demand.uses.len());
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
        let other: Vec<usize> = (0..self.flows.gpus()).filter(|g| !one.contains(g)).collect();
        self.flows.rates(&across(&one, &other)).map_or(f64::INFINITY, |rates| rates.iter().sum())
    }

    /// Tries every split.
    fn all(&self) -> (Option<Vec<usize>>, usize) {
        let n = self.flows.gpus();
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
        let n = self.flows.gpus();
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
