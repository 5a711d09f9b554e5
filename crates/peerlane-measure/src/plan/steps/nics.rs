//! RDMA through the NICs of one machine.

use super::Site;
use crate::plan::{Scope, Size, Step, Test, Work, rounds::round_robin};
use peerlane_machine::matrix::Operation;
use peerlane_machine::transfer::{NicEnd, Rdma};
use peerlane_machine::units::Bytes;

/// Up to so many NICs, all pairs are measured: those of one machine. Of more, each with the next and with the one half way round.
const MOST_NICS: usize = 8;

/// A message: long enough that its start does not count, short enough that many are under way.
const MESSAGE: Size = Size::Exactly(Bytes::from_mib(1));

/// Out and back through each NIC; then each pair, both ways. In full by reads, too.
///
/// What goes from one NIC to another leaves the machine, and shares the network with whoever uses it.
pub(super) fn steps(site: &Site<'_>) -> Vec<Step> {
    let n = site.nics.len();
    let mut pairs: Vec<(usize, usize)> = if n <= MOST_NICS {
        round_robin(n)
    } else {
        (0..n).map(|i| (i, (i + 1) % n)).chain((0..n / 2).map(|i| (i, i + n / 2))).collect()
    };
    pairs.extend(pairs.clone().into_iter().map(|(a, b)| (b, a)));
    let ends: Vec<NicEnd> = site.nics.iter().map(|nic| end(site, nic)).collect();
    let ops = if site.scope == Scope::Full { &[Operation::Write, Operation::Read][..] } else { &[Operation::Write] };
    let all = (0..n).map(|i| (i, i)).chain(pairs);
    let all: Vec<(NicEnd, NicEnd)> =
        all.filter_map(|(a, b)| Some((ends.get(a)?.clone(), ends.get(b)?.clone()))).collect();
    let step = |op: Operation, (from, to): &(NicEnd, NicEnd)| Step {
        test: Test::Nic,
        work: Work::Rdma(Rdma { from: from.clone(), to: to.clone(), op }),
        size: MESSAGE,
    };
    ops.iter().flat_map(|op| all.iter().map(|ends| step(*op, ends))).collect()
}

/// A NIC with the memory nearest to it.
fn end(site: &Site<'_>, nic: &str) -> NicEnd {
    let fabric = site.fabric;
    let near = fabric.find(nic).and_then(|id| fabric.nearest_host(id)).map(|id| fabric.node(id).name.clone());
    NicEnd { nic: nic.to_owned(), memory: near.unwrap_or_else(|| "host".to_owned()) }
}
