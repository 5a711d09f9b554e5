//! Which steps may run at once.
//!
//! Copies between different pairs of GPUs are put into one round where the machine's fabric shows nothing that they
//! share: no GPU, no channel of a link, no root complex and no CPU (which have limits of their own). A switch, PCIe or
//! NVSwitch, does not count, since its ports do not share. Whether they really leave each other alone is measured.

use std::collections::HashSet;

use super::{Step, Test, Work};
use peerlane_machine::fabric::{Fabric, LinkId, NodeId, NodeKind};
use peerlane_machine::transfer::Via;

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
