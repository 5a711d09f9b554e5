//! Copies between a GPU and host memory.

use super::super::site::{HOST, Site, both, driven, moving};
use super::super::{Size, Step, Test};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::transfer::{HostMemory, Transfer};
use peerlane_machine::units::Bytes;

/// Managed memory: bounded, since it is moved page by page.
const MANAGED: Size = Size::UpTo(Bytes::from_mib(256));

/// To and from a GPU, in this order.
fn both_directions(gpu: &str, host: &str, engine: Engine) -> [Transfer; 2] {
    let down = driven(host, gpu, (engine, Operation::Write));
    [down.clone(), down.reversed()]
}

/// Each GPU and the pinned memory nearest to it, one way.
pub(in crate::kinds) fn one_way(site: &Site<'_>) -> Vec<Step> {
    let copies = site.engines().iter().flat_map(|e| site.gpus.iter().flat_map(|gpu| both_directions(gpu, "host", *e)));
    copies.map(|t| moving(Test::Host, vec![t], HOST)).collect()
}

/// The same, both ways at once, driven by the one GPU.
pub(in crate::kinds) fn both_ways(site: &Site<'_>) -> Vec<Step> {
    let down = |gpu: &String, engine| driven("host", gpu, (engine, Operation::Write));
    let copies = site.engines().iter().flat_map(|e| site.gpus.iter().map(move |gpu| down(gpu, *e)));
    copies.map(|t| moving(Test::HostBoth, both(t), HOST)).collect()
}

/// Each GPU and pageable memory, by the copy engine.
pub(in crate::kinds) fn pageable(site: &Site<'_>) -> Vec<Step> {
    let copies = site.gpus.iter().flat_map(|gpu| both_directions(gpu, "host", Engine::Ce));
    let copies = copies.map(|t| Transfer { memory: HostMemory::Pageable, ..t });
    copies.map(|t| moving(Test::Pageable, vec![t], HOST)).collect()
}

/// Each GPU and pinned memory of each NUMA node, by the copy engine.
pub(in crate::kinds) fn numa(site: &Site<'_>) -> Vec<Step> {
    let pairs = site.gpus.iter().flat_map(|gpu| site.hosts.iter().map(move |host| (gpu, host)));
    let copies = pairs.flat_map(|(gpu, host)| both_directions(gpu, host, Engine::Ce));
    copies.map(|t| moving(Test::Numa, vec![t], HOST)).collect()
}

/// Each GPU and managed memory: touched by a kernel, and prefetched.
pub(in crate::kinds) fn managed(site: &Site<'_>) -> Vec<Step> {
    let kinds = [(Engine::Sm, HostMemory::ManagedFaults), (Engine::Ce, HostMemory::ManagedPrefetch)];
    let of = |engine, memory| {
        let copies = site.gpus.iter().flat_map(move |gpu| both_directions(gpu, "host", engine));
        copies.map(move |t| Transfer { memory, ..t })
    };
    let copies = kinds.into_iter().flat_map(|(engine, memory)| of(engine, memory));
    copies.map(|t| moving(Test::Managed, vec![t], MANAGED)).collect()
}
