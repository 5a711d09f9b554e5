//! Which steps may run at once.
//!
//! Copies between different pairs of GPUs are put into one round where the machine's fabric shows nothing that they
//! share: no GPU, no channel of a link, no root complex and no CPU (which have limits of their own). A switch, PCIe or
//! NVSwitch, does not count, since its ports do not share. Whether they really leave each other alone is measured.

use std::collections::HashSet;

use super::{Step, Test, Via, Work};
use peerlane_machine::fabric::{Fabric, LinkId, NodeId, NodeKind};

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

/// Something that two copies cannot use at once without sharing it.
#[derive(PartialEq, Eq, Hash)]
enum Claim {
    Node(NodeId),
    Channel(LinkId, NodeId),
    /// The path is not known, so that anything might be shared.
    Unknown,
}

/// Puts steps of one family into rounds. Their order stays, as far as it can.
pub(super) fn pack(steps: Vec<Step>, fabric: &Fabric) -> Vec<Vec<Step>> {
    let mut rounds: Vec<(Vec<Step>, HashSet<Claim>)> = Vec::new();
    // rounds before this one are closed: they are of another kind
    let mut open = 0;
    for step in steps {
        let Some(claims) = claims(&step, fabric) else {
            rounds.push((vec![step], HashSet::new()));
            open = rounds.len();
            continue;
        };
        let other = |before: &Step| before.size != step.size || before.kind() != step.kind();
        if rounds.last().is_some_and(|(before, _)| before.first().is_some_and(other)) {
            open = rounds.len();
        }
        match rounds[open..].iter_mut().find(|(_, taken)| taken.is_disjoint(&claims)) {
            Some((round, taken)) => {
                round.push(step);
                taken.extend(claims);
            }
            None => rounds.push((vec![step], claims)),
        }
    }
    rounds.into_iter().map(|(round, _)| round).collect()
}

/// What a step uses, if it may run together with others at all: direct copies between two GPUs.
fn claims(step: &Step, fabric: &Fabric) -> Option<HashSet<Claim>> {
    let Work::Transfers(transfers) = &step.work else { return None };
    let direct = transfers.iter().all(|t| t.via == Via::Direct);
    if !matches!(step.test, Test::Pairs | Test::PairsBoth) || !direct {
        return None;
    }
    let mut claims = HashSet::new();
    for transfer in transfers {
        let ends = (fabric.find(&transfer.source)?, fabric.find(&transfer.destination)?);
        claims.extend([Claim::Node(ends.0), Claim::Node(ends.1)]);
        let Some(path) = fabric.path(ends.0, ends.1) else {
            claims.insert(Claim::Unknown);
            continue;
        };
        let shared = |id: &NodeId| matches!(fabric.node(*id).kind, NodeKind::RootComplex | NodeKind::Cpu);
        claims.extend(path.between().filter(shared).map(Claim::Node));
        claims.extend(path.hops.iter().map(|hop| Claim::Channel(hop.link, hop.from)));
    }
    Some(claims)
}

#[cfg(test)]
mod tests {
    use super::*;

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
