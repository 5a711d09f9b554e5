//! Which parts explain that observations are bad.
//!
//! An observation touches parts: a GPU as the source of a transfer, a NIC, a switch on the path. A part explains the bad observations
//! that touch it if nearly all that touch it are bad: what is sound with others is not at fault. The part that explains most comes
//! first, what it explains is taken out, and the rest is looked at again. So the partners of a slow GPU are not blamed for it. Of
//! parts that explain equally much, the first in their order is named.
//!
//! [`explain`] takes observations that are bad or not. [`losses`] takes how much each has lost: what one part costs is taken off, and
//! what is left may be explained by another part on the same path.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Share of a part's observations that must be bad for the part to be the explanation.
pub const NEARLY_ALL: f64 = 0.75;

/// Whether so many bad ones of so many are nearly all; none are not.
pub fn nearly_all(bad: usize, of: usize) -> bool {
    bad > 0 && bad as f64 >= NEARLY_ALL * of as f64
}

/// Something that is bad or not.
#[derive(Clone, Debug)]
pub struct Observation<P, C = ()> {
    /// The parts that it shows to be sound or bad.
    pub parts: Vec<P>,
    /// Parts that make it bad, too, but that it does not show to be sound.
    pub affected_by: Vec<P>,
    /// Of each class of which a part has bad ones, nearly all must be bad together.
    pub class: C,
    /// Whether it is bad.
    pub bad: bool,
}

impl<P, C> Observation<P, C> {
    fn explained_by(&self) -> impl Iterator<Item = &P> {
        self.parts.iter().chain(&self.affected_by)
    }
}

/// What [`explain`] finds.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation<P> {
    /// Parts with the positions of the observations that each explains, the part with the most first.
    pub explained: Vec<(P, Vec<usize>)>,
    /// Positions of bad observations that no part explains.
    pub left: Vec<usize>,
    /// Parts of which nearly all observations are bad, whatever explains them.
    suspects: BTreeSet<P>,
}

impl<P: Ord> Explanation<P> {
    /// Whether nearly all observations of a part are bad, whatever explains them.
    pub fn is_suspect(&self, part: &P) -> bool {
        self.suspects.contains(part)
    }
}

/// Parts that explain what is bad. `fewest` is how many bad ones a part must explain, of those at the positions that are left.
pub fn explain<P: Ord + Clone, C: Ord>(
    all: &[Observation<P, C>],
    fewest: impl Fn(&P, &[usize]) -> usize,
) -> Explanation<P> {
    let suspects = suspects(all);
    let mut left: Vec<usize> = (0..all.len()).filter(|at| all[*at].bad).collect();
    let mut explained = Vec::new();
    loop {
        let mut counts: BTreeMap<&P, usize> = BTreeMap::new();
        for part in left.iter().flat_map(|at| all[*at].explained_by()).filter(|part| suspects.contains(*part)) {
            *counts.entry(part).or_default() += 1;
        }
        let enough = counts.into_iter().filter(|(part, count)| *count >= fewest(part, &left));
        let Some((part, _)) = enough.max_by_key(|(part, count)| (*count, Reverse(*part))) else { break };
        let (mine, rest) = left.into_iter().partition(|at| all[*at].explained_by().any(|own| own == part));
        explained.push((part.clone(), mine));
        left = rest;
    }
    Explanation { explained, left, suspects }
}

/// Parts of which nearly all observations are bad, of the classes in which some are.
fn suspects<P: Ord + Clone, C: Ord>(all: &[Observation<P, C>]) -> BTreeSet<P> {
    let mut counts: BTreeMap<&P, BTreeMap<&C, (usize, usize)>> = BTreeMap::new();
    for one in all {
        for part in &one.parts {
            let (bad, of) = counts.entry(part).or_default().entry(&one.class).or_default();
            (*bad, *of) = (*bad + usize::from(one.bad), *of + 1);
        }
    }
    let is_suspect = |classes: &BTreeMap<&C, (usize, usize)>| {
        let with_bad = classes.values().filter(|(bad, _)| *bad > 0);
        let (bad, of) = with_bad.fold((0, 0), |sum, class| (sum.0 + class.0, sum.1 + class.1));
        nearly_all(bad, of)
    };
    counts.into_iter().filter(|(_, classes)| is_suspect(classes)).map(|(part, _)| part.clone()).collect()
}

/// A part that costs what it touches.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss<P> {
    /// The part.
    pub part: P,
    /// Positions of the observations that touch it.
    pub touched: Vec<usize>,
    /// What it costs each of them; of a candidate the least that it is blamed for.
    pub loss: f64,
}

/// By how many standard errors a loss must exceed the noise.
const ERRORS: f64 = 5.0;

/// Parts that explain losses, `most` at most. `lost` is what each observation has lost, below 0 where it has gained; losses of parts
/// on one path add up, as logarithms of shares do. `noise` is the standard deviation of sound ones.
pub fn losses<P: Ord>(mut lost: Vec<f64>, mut candidates: Vec<Loss<P>>, noise: f64, most: usize) -> Vec<Loss<P>> {
    let mut found = Vec::new();
    while found.len() < most {
        let mut best: Option<(f64, usize, f64)> = None;
        let mut at = 0;
        while let Some(candidate) = candidates.get(at) {
            let loss = loss(candidate, &lost);
            if loss < candidate.loss {
                // losses are only taken off, so that it stays below
                candidates.swap_remove(at);
                continue;
            }
            at += 1;
            let of_touched = || candidate.touched.iter().map(|i| lost[*i]);
            let slow = of_touched().filter(|own| *own > loss / 2.0).count();
            let significant = loss * (candidate.touched.len() as f64).sqrt() > ERRORS * noise;
            if !nearly_all(slow, candidate.touched.len()) || !significant {
                continue;
            }
            let gain: f64 = of_touched().map(|own| own.abs() - (own - loss).abs()).sum();
            let better = best.is_none_or(|(most, other, _)| {
                let is_first = candidate.part < candidates[other].part;
                gain > most * (1.0 + 1e-9) || (gain > most * (1.0 - 1e-9) && is_first)
            });
            if better {
                best = Some((gain, at - 1, loss));
            }
        }
        let Some((_, at, loss)) = best else { break };
        let Loss { part, touched, .. } = candidates.swap_remove(at);
        touched.iter().for_each(|i| lost[*i] -= loss);
        found.push(Loss { part, touched, loss });
    }
    found
}

/// The median loss of what a part touches, of an even number the lesser of the two in the middle.
fn loss<P>(candidate: &Loss<P>, lost: &[f64]) -> f64 {
    let mut own: Vec<f64> = candidate.touched.iter().map(|i| lost[*i]).collect();
    let middle = own.len().saturating_sub(1) / 2;
    if own.is_empty() { 0.0 } else { *own.select_nth_unstable_by(middle, f64::total_cmp).1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ordered pairs of so many parts.
    fn pairs(parts: usize) -> Vec<(usize, usize)> {
        (0..parts).flat_map(|a| (0..parts).filter(move |b| a != *b).map(move |b| (a, b))).collect()
    }

    fn explained(parts: usize, is_bad: impl Fn(usize, usize) -> bool) -> (Vec<usize>, usize) {
        let all = pairs(parts).into_iter().map(|(a, b)| Observation {
            parts: vec![a, b],
            affected_by: Vec::new(),
            class: (),
            bad: is_bad(a, b),
        });
        let found = explain(&all.collect::<Vec<_>>(), |_, _| 2);
        (found.explained.into_iter().map(|(part, _)| part).collect(), found.left.len())
    }

    #[test]
    fn the_partners_of_a_bad_part_are_not_blamed() {
        assert_eq!(explained(5, |a, b| a == 2 || b == 2), (vec![2], 0));
        assert_eq!(explained(5, |a, b| [1, 3].contains(&a) || [1, 3].contains(&b)), (vec![1, 3], 0));
    }

    #[test]
    fn what_is_sound_with_others_is_not_blamed() {
        assert_eq!(explained(5, |a, b| (a, b) == (1, 2) || (a, b) == (2, 1)), (vec![], 2));
        assert_eq!(explained(5, |_, _| false), (vec![], 0));
    }

    #[test]
    fn another_class_says_nothing_of_a_part() {
        let one = |class, bad| Observation { parts: vec!['a'], affected_by: vec!['b'], class, bad };
        let all = [one(0, true), one(0, true), one(1, false), one(1, false)];
        let found = explain(&all, |_, _| 2);
        assert_eq!(found.explained, [('a', vec![0, 1])]);
        assert!(found.is_suspect(&'a') && !found.is_suspect(&'b'));
        assert_eq!(explain(&all, |_, _| 3).left, [0, 1]);
    }

    #[test]
    fn losses_on_one_path_add_up() {
        let all = pairs(6);
        let costs = [0.0, 0.3, 0.0, 0.0, 0.5, 0.0];
        let lost = all.iter().map(|(a, b)| costs[*a] + costs[*b]).collect();
        let touched = |part: usize| (0..all.len()).filter(|i| all[*i].0 == part || all[*i].1 == part).collect();
        let candidates = (0..6).map(|part| Loss { part, touched: touched(part), loss: 0.05 }).collect();
        let found: Vec<(usize, f64)> =
            losses(lost, candidates, 0.01, 9).into_iter().map(|loss| (loss.part, loss.loss)).collect();
        assert_eq!(found, [(4, 0.5), (1, 0.3)]);
    }
}
