//! What a plan is made for, and what steps of several families have in common.
//!
//! All families have a bound. What would grow with the square of the GPUs or faster is measured in full up to [`MOST_PAIRED`] of
//! them, and beyond that of a selection that each function of steps states.

use super::{Scope, Size, Step, Test, Work};
use peerlane_machine::fabric::{Fabric, NodeKind};
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::transfer::Transfer;
use peerlane_machine::units::Bytes;

/// The most GPUs of which all pairs are measured. Of more, each with the next and with the one half way round.
pub(super) const MOST_PAIRED: usize = 64;

/// A message between a GPU and host memory: 1.2 ms on PCIe 5.0 x16.
pub(super) const HOST: Size = Size::UpTo(Bytes::from_mib(64));

/// How GPUs move data, in the order in which it is measured.
const KINDS: [(Engine, Operation); 4] = [
    (Engine::Ce, Operation::Write),
    (Engine::Ce, Operation::Read),
    (Engine::Sm, Operation::Write),
    (Engine::Sm, Operation::Read),
];

/// The NICs of this machine that verbs can open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsableNics {
    /// Their names.
    pub names: Vec<String>,
    /// Why there are no others, in words: `libibverbs.so.1 not found`.
    pub why: Option<String>,
}

/// What a plan is made for.
pub(crate) struct Site<'a> {
    pub(super) machine: &'a Machine,
    pub(super) fabric: &'a Fabric,
    pub(super) scope: Scope,
    /// GPUs, in the order of the machine's own lists.
    pub(crate) gpus: Vec<String>,
    /// Host memory by NUMA node.
    pub(super) hosts: Vec<String>,
    /// NICs that do RDMA, as far as is known.
    pub(super) nics: Vec<String>,
    /// Why other NICs than these are left out, or that there are none.
    pub(super) no_nics: Option<String>,
}

impl<'a> Site<'a> {
    /// A machine's GPUs, host memory and NICs; of the NICs only those that can be measured, where that is known.
    pub(crate) fn new(machine: &'a Machine, scope: Scope, usable: Option<&UsableNics>) -> Self {
        let fabric = &machine.fabric;
        let names = |kind| fabric.of_kind(kind).map(|id| fabric.node(id).name.clone()).collect();
        let mut nics: Vec<String> = names(NodeKind::Nic);
        nics.retain(|name| match usable {
            Some(usable) => usable.names.contains(name),
            None => fabric.find(name).is_some_and(|id| fabric.node(id).rdma != Some(false)),
        });
        let no_nics = usable.and_then(|usable| usable.why.clone());
        Site { machine, fabric, scope, gpus: names(NodeKind::Gpu), hosts: names(NodeKind::Host), nics, no_nics }
    }

    /// Pairs of GPUs, each once.
    pub(super) fn pairs(&self) -> Vec<(&str, &str)> {
        let n = self.gpus.len();
        let pairs = if n <= MOST_PAIRED {
            round_robin(n)
        } else {
            let next = (0..n).map(|i| (i, (i + 1) % n));
            next.chain((0..n / 2).map(|i| (i, i + n / 2))).collect()
        };
        pairs.into_iter().map(|(a, b)| (self.gpus[a].as_str(), self.gpus[b].as_str())).collect()
    }

    /// Pairs of GPUs in both orders: all one way, then all the other.
    pub(super) fn ordered_pairs(&self) -> Vec<(&str, &str)> {
        let pairs = self.pairs();
        let back = pairs.iter().map(|&(a, b)| (b, a));
        pairs.iter().copied().chain(back).collect()
    }

    /// How GPUs move data: in a quick plan by copy engine writes only.
    pub(super) fn kinds(&self) -> &'static [(Engine, Operation)] {
        if self.scope == Scope::Quick { &KINDS[..1] } else { &KINDS }
    }

    /// What moves data where reads and writes are not distinguished.
    pub(super) fn engines(&self) -> &'static [Engine] {
        if self.scope == Scope::Quick { &[Engine::Ce] } else { &[Engine::Ce, Engine::Sm] }
    }
}

/// Pairs of `n` things, each once, in an order in which those that follow each other have none in common as long as
/// possible: the circle method of round-robin tournaments, n − 1 rounds for even n and n for odd.
pub(super) fn round_robin(n: usize) -> Vec<(usize, usize)> {
    let seats = n + n % 2;
    let mut pairs = Vec::with_capacity(n * n.saturating_sub(1) / 2);
    for round in 0..seats.saturating_sub(1) {
        let around = seats - 1;
        let mut pair = |a: usize, b: usize| {
            // with an odd number, whoever meets the empty seat rests
            if a < n && b < n {
                pairs.push((a.min(b), a.max(b)));
            }
        };
        pair(round, seats - 1);
        for k in 1..seats / 2 {
            pair((round + k) % around, (round + around - k) % around);
        }
    }
    pairs
}

/// A step that moves data.
pub(super) fn moving(test: Test, transfers: Vec<Transfer>, size: Size) -> Step {
    Step { test, work: Work::Transfers(transfers), size }
}

/// One transfer, driven by an engine and operation.
pub(super) fn driven(source: &str, destination: &str, (engine, op): (Engine, Operation)) -> Transfer {
    Transfer { engine, op, ..Transfer::new(source, destination) }
}

/// Both ways at once.
pub(super) fn both(transfer: Transfer) -> Vec<Transfer> {
    vec![transfer.clone(), transfer.reversed()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn everyone_meets_everyone_once_and_rounds_are_full() {
        for n in 0..40 {
            let pairs = round_robin(n);
            assert_eq!(pairs.len(), n * n.saturating_sub(1) / 2, "{n}");
            assert_eq!(pairs.iter().collect::<HashSet<_>>().len(), pairs.len(), "{n}");
            assert!(pairs.iter().all(|(a, b)| a < b && *b < n), "{n}");
            for round in pairs.chunks((n / 2).max(1)) {
                let players: HashSet<_> = round.iter().flat_map(|(a, b)| [a, b]).collect();
                assert_eq!(players.len(), 2 * round.len(), "{n}: {round:?}");
            }
        }
    }
}
