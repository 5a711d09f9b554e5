//! Copies between two GPUs, and within one.

use super::super::site::{HOST, Site, both, driven, moving};
use super::super::small_copies::SMALL;
use super::super::{Scope, Size, Step, Test, Work};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::transfer::{Transfer, Via};
use peerlane_machine::units::Bytes;

/// A message between GPUs: 1.4 ms at the 394 GB/s that an H200's copy engine moves over NVLink. Each one's start costs
/// some 10 µs, most for reads, which took 2 % of a message of half this size. Slower links are given less, as a
/// sample's time allows.
const PEER: Size = Size::UpTo(Bytes::from_mib(512));

/// A message within one GPU's memory: ten times what the largest GPU caches hold.
const LOCAL: Size = Size::UpTo(Bytes::from_mib(512));

/// Each ordered pair, one way.
pub(in crate::kinds) fn one_way(site: &Site<'_>) -> Vec<Step> {
    let pairs = site.ordered_pairs();
    let each = |kind| pairs.iter().map(move |(a, b)| moving(Test::Pairs, vec![driven(a, b, kind)], PEER));
    site.kinds().iter().flat_map(|kind| each(*kind)).collect()
}

/// Each pair, both ways at once; both reading, or both writing.
pub(in crate::kinds) fn both_ways(site: &Site<'_>) -> Vec<Step> {
    let pairs = site.pairs();
    let each = |kind| pairs.iter().map(move |(a, b)| moving(Test::PairsBoth, both(driven(a, b, kind)), PEER));
    site.kinds().iter().flat_map(|kind| each(*kind)).collect()
}

/// Without peer access: by the driver one way, both ways and in small copies, and in full by a pipeline of our own.
///
/// The message is that of transfers with the host, through which it goes.
pub(in crate::kinds) fn staged(site: &Site<'_>) -> Vec<Step> {
    let through = |via| move |(a, b): &(&str, &str)| Transfer { via, ..Transfer::new(*a, *b) };
    let (pairs, ordered) = (site.pairs(), site.ordered_pairs());
    let vias: &[Via] = if site.scope == Scope::Full { &[Via::Driver, Via::Pipeline] } else { &[Via::Driver] };
    let mut steps = Vec::new();
    for &via in vias {
        steps.extend(ordered.iter().map(through(via)).map(|t| moving(Test::Staged, vec![t], HOST)));
        steps.extend(pairs.iter().map(through(via)).map(|t| moving(Test::Staged, both(t), HOST)));
    }
    let small = |t| Step { test: Test::Staged, work: Work::SmallCopies(t), size: SMALL };
    steps.extend(ordered.iter().map(through(Via::Driver)).map(small));
    steps
}

/// Within each GPU's memory.
pub(in crate::kinds) fn local(site: &Site<'_>) -> Vec<Step> {
    let each = |engine: Engine| {
        let copy = move |gpu: &String| driven(gpu, gpu, (engine, Operation::Write));
        site.gpus.iter().map(move |gpu| moving(Test::Local, vec![copy(gpu)], LOCAL))
    };
    site.engines().iter().flat_map(|engine| each(*engine)).collect()
}
