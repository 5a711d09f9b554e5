//! Copies, one or many at once.

pub(super) mod host;
pub(super) mod pairs;
pub(super) mod sets;
pub(super) mod sizes;

use std::collections::{BTreeMap, HashSet};

use super::place::{self, Place};
use super::{CurveWords, Kind, Path, Size, Task, Test, Truth};
use peerlane_machine::matrix::{Direction, Engine, Operation};
use peerlane_machine::names::{is_host, list, natural};
use peerlane_machine::transfer::Transfer;

impl<'w> Kind<'w> for &'w [Transfer] {
    /// Several transfers in the order of their sources.
    fn words(&self) -> String {
        let mut pairs: Vec<(&str, &str)> = self.iter().map(ends).collect();
        let given: HashSet<(&str, &str)> = pairs.iter().copied().collect();
        let mutual = pairs.len() > 1 && pairs.iter().all(|(a, b)| a != b && given.contains(&(*b, *a)));
        // of two opposite ones the first is shown
        let mut shown = HashSet::new();
        pairs.retain(|(a, b)| !(mutual && shown.contains(&(*b, *a))) && shown.insert((*a, *b)));
        // what comes from the host and what goes to it are two things
        let (down, rest): (Vec<_>, Vec<_>) = pairs.iter().copied().partition(|(a, _)| is_host(a));
        if !down.is_empty() && rest.iter().any(|(_, b)| is_host(b)) {
            return format!("{}; {}", between(down, "→"), between(rest, "→"));
        }
        between(pairs, if mutual { "↔" } else { "→" })
    }

    fn paths(&self) -> Vec<Path<'w>> {
        self.iter().map(|t| Path { from: &t.source, to: &t.destination, via: t.via }).collect()
    }

    /// Those of the first; the others are of the same sort.
    fn ends(&self) -> Option<(&'w str, &'w str)> {
        self.first().map(ends)
    }

    fn headline(&self, sample: &[f64]) -> f64 {
        sample.iter().sum()
    }

    fn numbers(&self) -> usize {
        self.len()
    }

    /// Those that run at once contend for memory, by where theirs lies.
    fn depends_on_allocation(&self) -> bool {
        self.len() > 1
    }

    fn place(&self, test: Test) -> Option<Place<'w>> {
        match self {
            _ if is_set(test, self) => None,
            [one] => Some(place::transfer(one, Some(Direction::Unidirectional))),
            // the project's "both ways" is the sum, as the CUDA sample has it; the shares stay in the cell's `each`
            [one, _] => Some(place::transfer(one, Some(Direction::Bidirectional))),
            _ => None,
        }
    }

    fn curve(&self) -> CurveWords {
        let settings = self.first().map(|first| {
            let engine = if first.engine == Engine::Sm { "sm" } else { "ce" };
            let operation = if first.op == Operation::Read { "read" } else { "write" };
            [("engine", engine), ("operation", operation)].map(|(name, value)| (name.to_owned(), value.to_owned()))
        });
        let mut ends: Vec<String> = self.nodes().into_iter().map(str::to_owned).collect();
        ends.dedup();
        ("copies".to_owned(), ends, BTreeMap::from_iter(settings.into_iter().flatten()))
    }

    fn simulate(&self, size: Size, truth: &Truth) -> Result<Task, String> {
        let driven = truth.all_driven(self)?;
        Ok(truth.moving(size, &driven, &truth.rates(&driven)?))
    }
}

fn ends(transfer: &Transfer) -> (&str, &str) {
    (&transfer.source, &transfer.destination)
}

/// Whether transfers of this family count as a set: several at once other than a pair of opposite ones, and all of families of
/// sets, even where a set has one member.
pub fn is_set(test: Test, transfers: &[Transfer]) -> bool {
    let is_of_sets =
        matches!(test, Test::OneToAll | Test::AllToOne | Test::Permutations | Test::AllHost | Test::Subsets);
    let is_lone = match transfers {
        [] => return false,
        [_] => true,
        [one, other] => *other == one.reversed(),
        _ => false,
    };
    is_of_sets || !is_lone
}

/// Pairs, in the order of their sources.
fn between(mut pairs: Vec<(&str, &str)>, sign: &str) -> String {
    pairs.sort_by_key(|(a, b)| (natural(a), natural(b)));
    let once = |names: Vec<&str>| {
        let first = names.first().copied().unwrap_or_default();
        if names.iter().all(|name| *name == first) { first.to_owned() } else { list(&names) }
    };
    let (from, to): (Vec<&str>, Vec<&str>) = pairs.into_iter().unzip();
    format!("{}{sign}{}", once(from), once(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> String {
        let transfers: Vec<Transfer> = pairs.iter().map(|(a, b)| Transfer::new(*a, *b)).collect();
        transfers.as_slice().words()
    }

    #[test]
    fn sets_in_few_words() {
        assert_eq!(of(&[("GPU0", "GPU1")]), "GPU0→GPU1");
        assert_eq!(of(&[("GPU0", "GPU0")]), "GPU0→GPU0");
        assert_eq!(of(&[("GPU0", "GPU1"), ("GPU1", "GPU0")]), "GPU0↔GPU1");
        assert_eq!(of(&[("GPU0", "GPU1"), ("GPU0", "GPU2"), ("GPU0", "GPU3")]), "GPU0→GPU1–GPU3");
        assert_eq!(of(&[("GPU2", "GPU0"), ("GPU1", "GPU0")]), "GPU1, GPU2→GPU0");
        assert_eq!(of(&[("host", "GPU0"), ("GPU0", "host"), ("host", "GPU1"), ("GPU1", "host")]), "host↔GPU0, GPU1");
        assert_eq!(of(&[("GPU0", "GPU1"), ("GPU2", "GPU0"), ("GPU1", "GPU2")]), "GPU0–GPU2→GPU1, GPU2, GPU0");
        assert_eq!(
            of(&[("GPU0", "GPU3"), ("GPU3", "GPU0"), ("GPU1", "GPU2"), ("GPU2", "GPU1")]),
            "GPU0, GPU1↔GPU3, GPU2"
        );
        assert_eq!(of(&[("host", "GPU0"), ("GPU1", "host"), ("host", "GPU2")]), "host→GPU0, GPU2; GPU1→host");
        assert_eq!(of(&[]), "→");
    }
}
