//! Many transfers at once.

use std::collections::BTreeSet;

use super::super::site::{HOST, MOST_PAIRED, Site, both, driven, moving, round_robin};
use super::super::{Size, Step, Test};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::transfer::Transfer;
use peerlane_machine::units::Bytes;

/// A message of several transfers at once, which share what they run over.
const SHARED: Size = Size::UpTo(Bytes::from_mib(256));

/// The most GPUs of which every subset is measured.
const MOST_SUBSETS: usize = 5;

/// Each GPU to all others; of more than [`MOST_PAIRED`], the first alone.
pub(in crate::kinds) fn one_to_all(site: &Site<'_>) -> Vec<Step> {
    one_and_others(site, Test::OneToAll, driven)
}

/// All others to each GPU; of more than [`MOST_PAIRED`], to the first alone.
pub(in crate::kinds) fn all_to_one(site: &Site<'_>) -> Vec<Step> {
    one_and_others(site, Test::AllToOne, |one, other, kind| driven(other, one, kind))
}

fn one_and_others(
    site: &Site<'_>,
    test: Test,
    transfer: impl Fn(&str, &str, (Engine, Operation)) -> Transfer,
) -> Vec<Step> {
    let ones = if site.gpus.len() <= MOST_PAIRED { site.gpus.len() } else { 1 };
    let mut steps = Vec::new();
    for &kind in site.kinds() {
        for one in &site.gpus[..ones] {
            let others = site.gpus.iter().filter(|other| *other != one);
            steps.push(moving(test, others.map(|other| transfer(one, other, kind)).collect(), SHARED));
        }
    }
    steps
}

/// Every GPU to the one so many places on, for every number of places, and every GPU with a partner, both ways, for
/// every round of a tournament. Of more than [`MOST_PAIRED`] GPUs, places that are powers of two, and no tournament.
pub(in crate::kinds) fn permutations(site: &Site<'_>) -> Vec<Step> {
    let n = site.gpus.len();
    let few = n <= MOST_PAIRED;
    let places = (1..n).filter(|k| few || k.is_power_of_two());
    let mut sets: Vec<Vec<(usize, usize)>> = places.map(|k| (0..n).map(|i| (i, (i + k) % n)).collect()).collect();
    // among two, the one pair both ways is the one shift
    if few && n > 2 {
        let rounds = round_robin(n);
        let swaps = rounds.chunks(n / 2).map(|round| round.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect());
        let swaps: Vec<Vec<(usize, usize)>> = swaps.collect();
        sets.extend(swaps.into_iter().filter(|swap| !is_shift(swap, n)));
    }
    let step = |engine: Engine, set: &Vec<(usize, usize)>| {
        let transfer = |&(a, b): &(usize, usize)| driven(&site.gpus[a], &site.gpus[b], (engine, Operation::Write));
        moving(Test::Permutations, set.iter().map(transfer).collect(), SHARED)
    };
    site.engines().iter().flat_map(|e| sets.iter().map(move |set| step(*e, set))).collect()
}

/// Whether all of `n` go the same number of places.
fn is_shift(set: &[(usize, usize)], n: usize) -> bool {
    set.len() == n && set.windows(2).all(|w| (w[0].1 + n - w[0].0) % n == (w[1].1 + n - w[1].0) % n)
}

/// Which way the members of a set go.
#[derive(Clone, Copy)]
enum HostDirection {
    FromHost,
    ToHost,
    /// Every second one from the host, the others to it.
    Mixed,
    Both,
}

/// Members of a set with the host, all at once.
fn with_host(site: &Site<'_>, test: Test, members: &[usize], engine: Engine, direction: HostDirection) -> Step {
    let transfers = members.iter().enumerate().flat_map(|(i, &gpu)| {
        let down = driven("host", &site.gpus[gpu], (engine, Operation::Write));
        match direction {
            HostDirection::FromHost => vec![down],
            HostDirection::ToHost => vec![down.reversed()],
            HostDirection::Mixed if i % 2 == 0 => vec![down],
            HostDirection::Mixed => vec![down.reversed()],
            HostDirection::Both => both(down),
        }
    });
    moving(test, transfers.collect(), HOST)
}

/// All GPUs from the host, to it, and both ways.
pub(in crate::kinds) fn all_host(site: &Site<'_>) -> Vec<Step> {
    let all: Vec<usize> = (0..site.gpus.len()).collect();
    let directions = [HostDirection::FromHost, HostDirection::ToHost, HostDirection::Both];
    let of = |engine: Engine| directions.map(|direction| with_host(site, Test::AllHost, &all, engine, direction));
    site.engines().iter().flat_map(|engine| of(*engine)).collect()
}

/// Sets of GPUs and the host, by copy engine: from it, to it, half of them each, and all both ways.
///
/// Of up to five GPUs all sets. Of more: blocks of 1, 2, 4 … neighbours, each GPU with the one half way round, all but
/// the last, and all.
pub(in crate::kinds) fn subsets(site: &Site<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    for members in chosen_subsets(site.gpus.len()) {
        for direction in [HostDirection::FromHost, HostDirection::ToHost, HostDirection::Mixed, HostDirection::Both] {
            if !(members.len() == 1 && matches!(direction, HostDirection::Mixed)) {
                steps.push(with_host(site, Test::Subsets, &members, Engine::Ce, direction));
            }
        }
    }
    steps
}

/// Smaller ones first.
fn chosen_subsets(n: usize) -> Vec<Vec<usize>> {
    let mut sets: BTreeSet<Vec<usize>> = BTreeSet::new();
    if n <= MOST_SUBSETS {
        sets.extend((1..1_usize << n).map(|bits| (0..n).filter(|i| bits >> i & 1 == 1).collect()));
    } else {
        let all: Vec<usize> = (0..n).collect();
        let sizes = std::iter::successors(Some(1), |k| Some(k * 2)).take_while(|k| *k < n);
        sets.extend(sizes.flat_map(|k| all.chunks(k).map(<[usize]>::to_vec)));
        sets.extend((0..n / 2).map(|i| vec![i, i + n / 2]));
        sets.extend([all[..n - 1].to_vec(), all]);
    }
    let mut sets: Vec<Vec<usize>> = sets.into_iter().collect();
    sets.sort_by_key(Vec::len);
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_are_all_or_few() {
        let few = chosen_subsets(3);
        let expected: [&[usize]; 7] = [&[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];
        assert_eq!(few, expected);
        assert_eq!(chosen_subsets(5).len(), 31);
        let eight = chosen_subsets(8);
        assert!(eight.contains(&vec![4, 5, 6, 7]) && eight.contains(&vec![1, 5]) && eight.contains(&(0..7).collect()));
        assert_eq!(eight.len(), 8 + 4 + 2 + 4 + 1 + 1);
        assert!(chosen_subsets(1024).len() < 3000);
    }

    #[test]
    fn a_swap_that_is_a_shift_is_asked_once() {
        assert!(is_shift(&[(0, 2), (2, 0), (1, 3), (3, 1)], 4));
        assert!(!is_shift(&[(0, 3), (3, 0), (1, 2), (2, 1)], 4));
    }
}
