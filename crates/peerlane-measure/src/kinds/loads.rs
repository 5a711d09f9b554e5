//! Dependent loads from a GPU into another's memory, and into the host's.

use super::place::{self, Ends, Place, Shape};
use super::{Kind, Scope, Site, Size, Step, Task, Test, Truth, Work, arrow};
use peerlane_machine::matrix::{Engine, Operation, Quantity, Unit};
use peerlane_machine::transfer::Transfer;
use peerlane_machine::units::Bytes;

/// The ring that dependent loads walk, as large as nvbandwidth's, since the time depends on it.
const RING: Size = Size::Exactly(Bytes::from_mib(2));

/// [`Work::Loads`].
pub(super) struct Loads<'w> {
    pub(super) gpu: &'w str,
    pub(super) memory: &'w str,
}

/// Loads from each GPU into each other's memory and the host's, and in full into its own.
pub(super) fn steps(site: &Site<'_>) -> Vec<Step> {
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

impl<'w> Kind<'w> for Loads<'w> {
    fn words(&self) -> String {
        arrow(self.gpu, self.memory)
    }

    fn nodes(&self) -> Vec<&'w str> {
        vec![self.gpu, self.memory]
    }

    fn ends(&self) -> Option<(&'w str, &'w str)> {
        Some((self.memory, self.gpu))
    }

    fn answers(&self) -> &'static [(Quantity, Unit)] {
        &[(Quantity::LoadLatency, Unit::Nanoseconds)]
    }

    fn has_content(&self) -> bool {
        false
    }

    fn place(&self, _: Test) -> Option<Place<'w>> {
        // a GPU's own memory has its place among the others'
        let ends = match place::ends(self.gpu, self.memory) {
            Ends::Within => Ends::Gpus,
            ends => ends,
        };
        Some(Place { shape: Shape::new(ends, Engine::Sm), row: self.gpu, col: self.memory, mirrored: false })
    }

    fn simulate(&self, size: Size, truth: &Truth) -> Result<Task, String> {
        let Loads { gpu, memory } = self;
        truth.gpu(gpu)?;
        let transfer = Transfer { engine: Engine::Sm, op: Operation::Read, ..Transfer::new(*memory, *gpu) };
        let driven = truth.driven(&transfer)?;
        let (from, to) = (driven.transfer.source, driven.transfer.destination);
        let load = if from == to { None } else { truth.model.load(driven.driver, from) };
        let unknown = || format!("the model does not predict how long a load from {memory} to {gpu} takes");
        let time = load.ok_or_else(unknown)?.time.seconds();
        Ok(truth.timed(size, vec![time * truth.slowness(driven.driver)]))
    }
}
