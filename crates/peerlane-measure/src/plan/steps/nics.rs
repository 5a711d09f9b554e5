//! RDMA through the NICs of one machine.

use super::Site;
use crate::plan::{Scope, Size, Step, Test, Work, rounds::round_robin};
use peerlane_machine::fabric::PathClass;
use peerlane_machine::matrix::Operation;
use peerlane_machine::transfer::{NicEnd, Rdma, Via};
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
        work: Work::Rdma(Rdma::of_host(from.clone(), to.clone(), op)),
        size: MESSAGE,
    };
    ops.iter().flat_map(|op| all.iter().map(|ends| step(*op, ends))).collect()
}

/// Each GPU with each NIC: data of the GPU's memory goes out through the NIC and back to the host memory nearest to it, and the other
/// way; directly, then staged in that host memory.
pub(super) fn with_gpus(site: &Site<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    for via in [Via::Direct, Via::Pipeline] {
        for to_gpu in [false, true] {
            for (gpu, nic) in gpus_and_nics(site) {
                let host = end(site, nic);
                let of_gpu = NicEnd { nic: nic.to_owned(), memory: gpu.to_owned() };
                let (from, to) = if to_gpu { (host, of_gpu) } else { (of_gpu, host) };
                let work = Work::Rdma(Rdma { from, to, op: Operation::Write, via });
                steps.push(Step { test: Test::NicGpu, work, size: MESSAGE });
            }
        }
    }
    steps
}

/// Up to so many, all pairs of a GPU and a NIC are measured: eight GPUs and as many NICs as their machines have. Of more, each GPU with
/// its nearest NIC and with the one half way round from there.
const MOST_WITH_GPUS: usize = 128;

fn gpus_and_nics<'s>(site: &'s Site<'_>) -> Vec<(&'s str, &'s str)> {
    let (gpus, nics) = (&site.gpus, &site.nics);
    if gpus.len() * nics.len() <= MOST_WITH_GPUS {
        return gpus.iter().flat_map(|gpu| nics.iter().map(move |nic| (gpu.as_str(), nic.as_str()))).collect();
    }
    let fabric = site.fabric;
    let class = |gpu: &str, nic: &str| fabric.class(fabric.find(gpu)?, fabric.find(nic)?);
    let far = |class: Option<PathClass>| class.unwrap_or(PathClass::Sys);
    let pairs = |gpu: &'s String| {
        let nearest = (0..nics.len()).min_by_key(|at| far(class(gpu, &nics[*at]))).unwrap_or(0);
        let half = (nearest + nics.len() / 2) % nics.len();
        let other = (half != nearest).then_some(half);
        std::iter::once(nearest).chain(other).map(move |at| (gpu.as_str(), nics[at].as_str()))
    };
    gpus.iter().flat_map(pairs).collect()
}

/// A NIC with the memory nearest to it.
fn end(site: &Site<'_>, nic: &str) -> NicEnd {
    let fabric = site.fabric;
    let near = fabric.find(nic).and_then(|id| fabric.nearest_host(id)).map(|id| fabric.node(id).name.clone());
    NicEnd { nic: nic.to_owned(), memory: near.unwrap_or_else(|| "host".to_owned()) }
}
