//! Rings over all links of a mesh at once.
//!
//! Where each GPU has a link of its own to each other one, rings that are chosen one by one can leave links that make no further
//! ring: of eight GPUs they find six rings, and seven exist. Here links are counted in units of the slowest, and rings that use
//! every unit of a GPU's links once are sought together, by trials at random. A complete mesh of four or six GPUs has no such
//! rings, but has twice as many at half the pace (T. W. Tillson, "A Hamiltonian decomposition of K*2m, 2m >= 8", 1980).

use super::over::{Over, PathKind};
use crate::flows::Pair;
use peerlane_machine::random::Random;

/// Trials; a complete mesh of eight takes about ten.
const MOST_TRIALS: usize = 200;

/// Steps of a trial: of five rings of eight GPUs, each takes about twenty.
const MOST_STEPS: usize = 5_000;

/// How far a link's rate may be from a whole number of units.
const ROUNDING: f64 = 1e-3;

/// Sets of rings over all links of these GPUs: those over whole units, and those over halves. `alone` has what each pair reaches
/// by itself, row by row.
pub(super) fn rings_over_all_links(over: &Over, alone: &[f64], most_rings: usize) -> Vec<Vec<Vec<usize>>> {
    let n = over.len();
    let rate = |pair: Pair| {
        let is_link = pair.0 != pair.1 && over.path(pair) == Some(PathKind::Fabric);
        alone.get(pair.0 * n + pair.1).copied().filter(|rate| is_link && *rate > 0.0)
    };
    let pairs = || (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    let Some(unit) = pairs().filter_map(rate).min_by(f64::total_cmp) else { return Vec::new() };
    let units =
        |parts: usize| pairs().map(move |pair| rate(pair).map_or(0, |rate| (rate / unit + ROUNDING) as usize * parts));
    let sets = [1, 2].map(|parts| {
        let units: Vec<usize> = units(parts).collect();
        let out = (0..n).map(|i| (0..n).map(|j| units[i * n + j]).sum::<usize>()).min().unwrap_or(0);
        let into = (0..n).map(|i| (0..n).map(|j| units[j * n + i]).sum::<usize>()).min().unwrap_or(0);
        let rings = out.min(into);
        if (2..=most_rings).contains(&rings) { disjoint(n, &units, rings) } else { None }
    });
    sets.into_iter().flatten().collect()
}

/// So many rings through all of `n` that use each pair no more often than it has units; `None` where no trial finds them.
fn disjoint(n: usize, units: &[usize], rings: usize) -> Option<Vec<Vec<usize>>> {
    let mut random = Random::from_seed(0);
    (0..MOST_TRIALS).find_map(|_| {
        let mut left = units.to_vec();
        let mut steps = MOST_STEPS;
        (0..rings).map(|_| ring(n, &mut left, &mut steps, &mut random)).collect()
    })
}

/// A ring over pairs that have units left, which it then takes.
fn ring(n: usize, left: &mut [usize], steps: &mut usize, random: &mut Random) -> Option<Vec<usize>> {
    let mut order = vec![0];
    let mut open = vec![shuffled(n, left, &order, random)];
    while let Some(next) = open.last_mut() {
        *steps = steps.checked_sub(1)?;
        let last = order[order.len() - 1];
        if order.len() == n && left[last * n] > 0 {
            for (at, from) in order.iter().enumerate() {
                left[from * n + order[(at + 1) % n]] -= 1;
            }
            return Some(order);
        }
        if let Some(to) = next.pop() {
            order.push(to);
            open.push(shuffled(n, left, &order, random));
        } else {
            open.pop();
            order.pop();
        }
    }
    None
}

/// Where an order can go on to, in an order by chance.
fn shuffled(n: usize, left: &[usize], order: &[usize], random: &mut Random) -> Vec<usize> {
    let last = order[order.len() - 1];
    let mut all: Vec<usize> = (0..n).filter(|to| left[last * n + to] > 0 && !order.contains(to)).collect();
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at + 1));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::over::ring_pairs;

    #[test]
    fn a_complete_mesh_has_rings_over_each_link_once_but_for_four_and_six_gpus() {
        for n in 3..=9 {
            let complete = |parts: usize| -> Vec<usize> {
                (0..n).flat_map(|i| (0..n).map(move |j| if i == j { 0 } else { parts })).collect()
            };
            assert_eq!(disjoint(n, &complete(1), n - 1).is_some(), n != 4 && n != 6, "{n}");
            let rings = disjoint(n, &complete(2), 2 * (n - 1)).unwrap();
            let mut used = vec![0; n * n];
            for (i, j) in rings.iter().flat_map(|order| ring_pairs(order)) {
                used[i * n + j] += 1;
            }
            assert_eq!(used, complete(2), "{n}");
        }
    }

    #[test]
    fn what_has_no_rings_has_none() {
        // 0 and 1 lead to each other, and so do 2 and 3
        let units = [0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0];
        assert_eq!(disjoint(4, &units, 1), None);
    }
}
