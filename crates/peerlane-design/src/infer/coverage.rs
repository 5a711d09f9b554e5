//! Which flows have not yet shown that they share nothing: subsets that no trial has driven hard enough to notice a
//! limit of their own, and the set of flows that drives most of them.

use super::hypothesis::{Group, Hypothesis, sum_of};
use super::members::Members;
use super::questions::shuffled;
use peerlane_machine::random::Random;

/// A subset is driven if it carries this share of what it could by what is known: a limit of its own that is lower would
/// have shown. Sets that drive it less hold more subsets, so that comes first.
const DRIVEN: [f64; 2] = [0.75, 0.95];

/// Flows of which every subset is to be driven.
const ALL_SUBSETS: usize = 10;

/// Larger subsets than triples for each flow, where there are too many.
const SOME_SUBSETS: usize = 12;

/// Sets that are compared.
const TRIED: usize = 16;

/// Subsets to be driven.
#[derive(Clone, Debug)]
pub(super) struct Coverage {
    subsets: Vec<Subset>,
    exhaustive: bool,
}

#[derive(Clone, Copy, Debug)]
struct Subset {
    members: Members,
    /// By the hypothesis, alone.
    able: f64,
    /// The largest share of it that a set has made it carry.
    driven: f64,
}

impl Coverage {
    /// For so many flows: all pairs and triples; all larger subsets of few flows, of many some, neighbours among them.
    pub(super) fn new(n: usize, random: &mut Random) -> Self {
        let mut all: Vec<Members> = Vec::new();
        if n <= ALL_SUBSETS {
            all.extend((1_u64..1 << n).map(|bits| (0..n).filter(|i| bits >> i & 1 == 1).collect::<Members>()));
        } else {
            all.extend((0..n).flat_map(|i| (0..i).map(move |j| Members::one(i).or(Members::one(j)))));
            let three = |i: usize, j: usize, k: usize| [i, j, k].into_iter().collect::<Members>();
            all.extend((0..n).flat_map(|i| (0..i).flat_map(move |j| (0..j).map(move |k| three(i, j, k)))));
            for _ in 0..SOME_SUBSETS * n {
                let size = 4 + (random.uniform() * 5.99) as usize;
                all.push(shuffled(Members::first(n), random).into_iter().take(size).collect());
            }
            let blocks = std::iter::successors(Some(2), |k| Some(k * 2)).take_while(|k| *k < n);
            all.extend(
                blocks.flat_map(|k| (0..n).step_by(k).map(move |from| (from..(from + k).min(n)).collect::<Members>())),
            );
        }
        all.retain(|m| m.len() > 1);
        all.sort_unstable();
        all.dedup();
        let subsets = all.into_iter().map(|members| Subset { members, able: 0.0, driven: 0.0 });
        Coverage { subsets: subsets.collect(), exhaustive: n <= ALL_SUBSETS }
    }

    /// Whether it holds every subset.
    pub(super) fn is_exhaustive(&self) -> bool {
        self.exhaustive
    }

    /// Takes in a new hypothesis, and all sets that were asked.
    pub(super) fn renew(&mut self, hypothesis: &Hypothesis, asked: impl Iterator<Item = Members>) {
        for subset in &mut self.subsets {
            subset.able = hypothesis.total(subset.members);
            // nothing is behind part of a group and others at once where machines are trees
            let settled = |g: &Group| g.members == subset.members || g.members.crosses(subset.members);
            subset.driven = if hypothesis.groups.iter().any(settled) { 1.0 } else { 0.0 };
        }
        for set in asked {
            let rates = hypothesis.rates(set);
            self.subsets.iter_mut().for_each(|subset| subset.driven = subset.driven.max(subset.share(set, &rates)));
        }
    }

    /// Pairs and larger subsets that no set has driven.
    pub(super) fn left(&self) -> impl Iterator<Item = Members> {
        self.subsets.iter().filter(|s| s.driven < DRIVEN[1]).map(|s| s.members)
    }

    /// The set that drives most of what is left, pairs first; `None` where nothing is.
    pub(super) fn most_driving(&self, hypothesis: &Hypothesis, all: Members, random: &mut Random) -> Option<Members> {
        let mut order = DRIVEN.map(|share| (share, 2)).into_iter().chain(DRIVEN.map(|share| (share, Members::MOST)));
        order.find_map(|(share, most)| self.most_driving_to(share, most, hypothesis, all, random))
    }

    /// The same for subsets of at most so many flows, which are driven where they carry this share.
    fn most_driving_to(
        &self,
        share: f64,
        most: usize,
        hypothesis: &Hypothesis,
        all: Members,
        random: &mut Random,
    ) -> Option<Members> {
        let left: Vec<&Subset> = self.subsets.iter().filter(|s| s.driven < share && s.members.len() <= most).collect();
        let smallest = left.iter().map(|s| s.members.len()).min()?;
        let small: Vec<&Subset> = left.iter().filter(|s| s.members.len() == smallest).copied().collect();
        let mut best: Option<(f64, Members)> = None;
        for _ in 0..TRIED {
            let first = small[random.below(small.len())];
            let mut set = first.members;
            for flow in shuffled(all.minus(set), random) {
                let wider = set.or(Members::one(flow));
                if first.share(wider, &hypothesis.rates(wider)) >= share {
                    set = wider;
                }
            }
            let rates = hypothesis.rates(set);
            let driven = left.iter().filter(|s| s.share(set, &rates) >= share);
            let worth: f64 = driven.map(|s| if s.members.len() == smallest { 1.0 } else { 0.2 }).sum();
            if best.is_none_or(|(most, _)| worth > most) {
                best = Some((worth, set));
            }
        }
        best.map(|(_, set)| set)
    }
}

impl Subset {
    /// The share of what it could that it carries in a set with these rates; 0 where it is not all in it.
    fn share(&self, set: Members, rates: &[f64]) -> f64 {
        if self.members.within(set) { sum_of(rates, set, self.members) / self.able.max(1e-12) } else { 0.0 }
    }
}
