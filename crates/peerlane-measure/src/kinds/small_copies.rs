//! Small copies, as the CUDA sample counts them, and what enqueueing them costs the CPU.

use super::place::{self, Place};
use super::{Kind, Scope, Site, Size, Step, Task, Test, Truth, Work};
use peerlane_machine::matrix::{Engine, Operation, Quantity, Unit};
use peerlane_machine::transfer::{Transfer, Via};
use peerlane_machine::units::Bytes;
use peerlane_model::model::{self, Model, PeerAccess};
use peerlane_read::catalogue::Parts;

/// A small copy, as the CUDA sample has it.
pub(super) const SMALL: Size = Size::Exactly(Bytes(16));

/// Small copies between GPUs, and with the host where there is time.
pub(super) fn steps(site: &Site<'_>) -> Vec<Step> {
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
pub(crate) fn staged_copies(site: &Site<'_>) -> Vec<Step> {
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

impl<'w> Kind<'w> for &'w Transfer {
    fn via(&self) -> Via {
        self.via
    }

    fn ends(&self) -> Option<(&'w str, &'w str)> {
        Some((&self.source, &self.destination))
    }

    fn answers(&self) -> &'static [(Quantity, Unit)] {
        &[(Quantity::Latency, Unit::Microseconds), (Quantity::EnqueueLatency, Unit::Microseconds)]
    }

    fn value(&self, _: Bytes, (quantity, _): (Quantity, Unit), sample: &[f64]) -> f64 {
        let at = usize::from(quantity == Quantity::EnqueueLatency);
        sample.get(at).map_or(f64::NAN, |seconds| seconds * 1e6)
    }

    fn numbers(&self) -> usize {
        2
    }

    /// What enqueueing costs may be too little to be measured.
    fn is_possible(&self, sample: &[f64]) -> bool {
        matches!(sample, [copy, enqueue] if *copy > 0.0 && *enqueue >= 0.0)
    }

    /// A copy's few microseconds depend on where the memory lies, by 1 to 2 %; where it is staged, on where the driver put its
    /// own, which stays.
    fn depends_on_allocation(&self) -> bool {
        self.via == Via::Direct
    }

    fn is_by_cpu(&self) -> bool {
        true
    }

    fn place(&self, _: Test) -> Option<Place<'w>> {
        Some(place::transfer(self, None))
    }

    fn simulate(&self, size: Size, truth: &Truth) -> Result<Task, String> {
        let driven = truth.driven(self)?;
        let alone = truth.rates(&[driven])?;
        let enqueue = truth.model.enqueue(&driven.transfer);
        let (Some(rate), Some(enqueue)) = (alone.first(), enqueue) else {
            return Err(format!("the model does not predict how long a small copy {self} takes"));
        };
        let time = truth.copies(&driven, *rate).time(size.most());
        Ok(truth.timed(size, vec![time.seconds(), enqueue.time.seconds()]))
    }
}
