//! Rate and time against message size.

use std::collections::HashSet;

use super::super::site::{Site, driven, moving};
use super::super::{Scope, Size, Step, Test};
use peerlane_machine::fabric::PathClass;
use peerlane_machine::matrix::Operation;
use peerlane_machine::transfer::Transfer;
use peerlane_machine::units::Bytes;

/// 8 B to 1 GiB: in full every power of two, else every third, in a quick plan the two ends.
pub(in crate::kinds) fn messages(scope: Scope) -> impl Iterator<Item = Size> + Clone {
    let stride = match scope {
        Scope::Quick => 27,
        Scope::Default => 3,
        Scope::Full => 1,
    };
    (3..=30).step_by(stride).map(|k| Size::Exactly(Bytes(1 << k)))
}

/// The first pair of GPUs of each path class, and the first GPU of each class of path to its host memory, both ways;
/// by copy engine and by kernel.
pub(in crate::kinds) fn steps(site: &Site<'_>) -> Vec<Step> {
    let mut seen: HashSet<Option<PathClass>> = HashSet::new();
    let class = |a: &str, b: &str| site.fabric.class(site.fabric.find(a)?, site.fabric.find(b)?);
    // in the order of their names, so that it is GPU0 that stands for the rest
    let mut pairs = site.pairs();
    pairs.sort_by_cached_key(|(a, b)| [a, b].map(|gpu| site.gpus.iter().position(|g| g == gpu)));
    pairs.retain(|(a, b)| seen.insert(class(a, b)));
    let mut seen: HashSet<Option<PathClass>> = HashSet::new();
    let to_host = |gpu: &str| {
        let id = site.fabric.find(gpu)?;
        site.fabric.class(id, site.fabric.nearest_host(id)?)
    };
    let near: Vec<&str> = site.gpus.iter().map(String::as_str).filter(|gpu| seen.insert(to_host(gpu))).collect();
    let with_host = near.iter().flat_map(|gpu| [("host", *gpu), (*gpu, "host")]);
    let ends: Vec<(&str, &str)> = pairs.into_iter().chain(with_host).collect();
    let mut steps = Vec::new();
    for &engine in site.engines() {
        for (a, b) in &ends {
            let transfer: Transfer = driven(a, b, (engine, Operation::Write));
            steps.extend(messages(site.scope).map(|size| moving(Test::Sizes, vec![transfer.clone()], size)));
        }
    }
    steps
}
