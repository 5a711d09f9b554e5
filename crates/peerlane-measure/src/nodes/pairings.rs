//! Who is paired with whom, round by round, so that nobody is in two pairs of one round.

/// Ordered pairs of indices; of a round, each index is in one at most.
pub(super) type Round = Vec<(usize, usize)>;

/// By how much rings are turned from one distance to the next: a prime.
const TURN: usize = 37;

/// Partners at distances of 1, 2, 4, …: everybody sends to one partner at each distance and receives from one, in about
/// 2·log₂ n rounds. Every pair is of different ends, and no ordered pair comes twice.
///
/// At a distance s, the pairs i → i + s (mod n) form rings. Every second edge of a ring is a round, the others are the other
/// pairing; the edge that is left over in a ring of odd length waits for a round that has room for it.
pub(super) fn shifts(n: usize) -> Vec<Round> {
    near(n, n)
}

/// The same at distances up to a most.
pub(super) fn near(n: usize, most: usize) -> Vec<Round> {
    let mut rounds = Vec::new();
    let mut left: Round = Vec::new();
    let mut shift = 1;
    while shift < n && shift <= most {
        let mut pairings = [Round::new(), Round::new()];
        let mut visited = vec![false; n];
        for first in 0..n {
            let mut ring = Vec::new();
            let mut at = first;
            while let Some(new) = visited.get_mut(at).filter(|visited| !**visited) {
                *new = true;
                ring.push((at, (at + shift) % n));
                at = (at + shift) % n;
            }
            // from elsewhere at each distance, so that few of the edges that are left over meet
            let len = ring.len();
            ring.rotate_left(TURN * (rounds.len() + 1) % len.max(1));
            if len % 2 == 1 {
                left.extend(ring.pop());
            }
            for (place, pair) in ring.into_iter().enumerate() {
                pairings[place % 2].push(pair);
            }
        }
        rounds.extend(pairings.into_iter().filter(|round| !round.is_empty()));
        shift *= 2;
    }
    rounds.extend(packed(left));
    rounds
}

/// Every unordered pair once, in n − 1 rounds, or n where n is odd: the circle method of tournaments. One stands still, the
/// others go round.
pub(super) fn tournament(n: usize) -> Vec<Round> {
    let seats = n + n % 2;
    let turning = seats.saturating_sub(1);
    let rounds = (0..turning).map(|turn| {
        let seat = |place: usize| if place == 0 { 0 } else { 1 + (place - 1 + turn) % turning };
        let pairs = (0..seats / 2).map(|place| (seat(place), seat(seats - 1 - place)));
        pairs.filter(|(a, b)| *a < n && *b < n).map(|(a, b)| if turn % 2 == 0 { (a, b) } else { (b, a) }).collect()
    });
    rounds.filter(|round: &Round| !round.is_empty()).collect()
}

/// Pairs in as few rounds as come of giving each the first round that has room for it.
pub(super) fn packed(pairs: impl IntoIterator<Item = (usize, usize)>) -> Vec<Round> {
    let mut rounds: Vec<(Round, std::collections::HashSet<usize>)> = Vec::new();
    for (a, b) in pairs {
        let free = rounds.iter_mut().find(|(_, busy)| !busy.contains(&a) && !busy.contains(&b));
        match free {
            Some((round, busy)) => {
                round.push((a, b));
                busy.extend([a, b]);
            }
            None => rounds.push((vec![(a, b)], [a, b].into())),
        }
    }
    rounds.into_iter().map(|(round, _)| round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn nobody_twice(rounds: &[Round]) {
        for round in rounds {
            let ends: Vec<usize> = round.iter().flat_map(|(a, b)| [*a, *b]).collect();
            assert_eq!(ends.iter().collect::<BTreeSet<_>>().len(), ends.len(), "{round:?}");
        }
    }

    #[test]
    fn a_thousand_nodes_take_about_twenty_rounds() {
        let rounds = shifts(1000).len();
        assert!((20..=24).contains(&rounds), "{rounds}");
        assert_eq!((tournament(1000).len(), tournament(999).len()), (999, 999));
        assert_eq!((shifts(2), tournament(2)), (vec![vec![(1, 0)], vec![(0, 1)]], vec![vec![(0, 1)]]));
        assert!(shifts(1).is_empty() && tournament(1).is_empty() && shifts(0).is_empty() && tournament(0).is_empty());
    }

    proptest! {
        #[test]
        fn shifts_give_everybody_as_many_partners_each_way(n in 2_usize..300) {
            let rounds = shifts(n);
            nobody_twice(&rounds);
            let distances = usize::BITS - (n - 1).leading_zeros();
            let pairs: Vec<_> = rounds.concat();
            prop_assert_eq!(pairs.iter().collect::<BTreeSet<_>>().len(), pairs.len());
            for node in 0..n {
                let sends = pairs.iter().filter(|(a, _)| *a == node).count();
                let receives = pairs.iter().filter(|(_, b)| *b == node).count();
                prop_assert_eq!((sends, receives), (distances as usize, distances as usize));
            }
            prop_assert!(rounds.len() <= 3 * distances as usize + 1, "{} rounds", rounds.len());
        }

        #[test]
        fn a_tournament_has_every_pair_once(n in 2_usize..120) {
            let rounds = tournament(n);
            nobody_twice(&rounds);
            let pairs: Vec<_> = rounds.concat().into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
            prop_assert_eq!(pairs.len(), n * (n - 1) / 2);
            prop_assert_eq!(pairs.into_iter().collect::<BTreeSet<_>>().len(), n * (n - 1) / 2);
            prop_assert!(rounds.len() <= n);
        }
    }
}
