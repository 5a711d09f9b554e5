//! What takes time whatever its size.

use super::{FLAG, RING, SMALL, Site};
use crate::plan::{Scope, Step, Test, Work};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::transfer::{Transfer, Via};
use peerlane_model::model::{self, Model, PeerAccess};
use peerlane_read::catalogue::Parts;

/// Loads from each GPU into each other's memory and the host's, and in full into its own.
pub(super) fn loads(site: &Site<'_>) -> Vec<Step> {
    let own = if site.scope == Scope::Full { site.gpus.as_slice() } else { &[] };
    let own = own.iter().map(|gpu| (gpu.as_str(), gpu.as_str()));
    let host = site.gpus.iter().map(|gpu| (gpu.as_str(), "host"));
    let all = own.chain(site.ordered_pairs()).chain(host);
    let step = |(gpu, memory): (&str, &str)| {
        let work = Work::Loads { gpu: gpu.to_owned(), memory: memory.to_owned() };
        Step { test: Test::LoadLatency, work, size: RING }
    };
    all.map(step).collect()
}

/// A flag between each two GPUs.
pub(super) fn signals(site: &Site<'_>) -> Vec<Step> {
    let step = |(a, b): &(&str, &str)| {
        let work = Work::Signals { a: (*a).to_owned(), b: (*b).to_owned() };
        Step { test: Test::SignalLatency, work, size: FLAG }
    };
    site.pairs().iter().map(step).collect()
}

/// Small copies between GPUs, and with the host where there is time.
pub(super) fn copies(site: &Site<'_>) -> Vec<Step> {
    let step = |(a, b): (&str, &str)| Step {
        test: Test::CopyLatency,
        work: Work::SmallCopies(Transfer::new(a, b)),
        size: SMALL,
    };
    let with_host = if site.scope == Scope::Quick { &[] } else { site.gpus.as_slice() };
    let with_host = with_host.iter().flat_map(|gpu| [("host", gpu.as_str()), (gpu.as_str(), "host")]);
    site.ordered_pairs().into_iter().chain(with_host).map(step).collect()
}

/// Small copies through host memory, between GPUs that have no peer access as far as is known.
pub(in crate::plan) fn staged_copies(site: &Site<'_>) -> Vec<Step> {
    let model = Model::new(site.machine, Parts::embedded());
    let staged = |(a, b): &(&str, &str)| {
        let (source, destination) = (site.fabric.find(a)?, site.fabric.find(b)?);
        let (engine, op, peer) = (Engine::Ce, Operation::Write, PeerAccess::Enabled);
        model.route(&model::Transfer { source, destination, engine, op, peer }).ok().map(|route| route.staged)
    };
    let step = |(a, b): (&str, &str)| Step {
        test: Test::CopyLatency,
        work: Work::SmallCopies(Transfer { via: Via::Driver, ..Transfer::new(a, b) }),
        size: SMALL,
    };
    site.ordered_pairs().into_iter().filter(|pair| staged(pair) == Some(true)).map(step).collect()
}
