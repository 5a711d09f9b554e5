//! A flag passed to and fro between kernels of two GPUs.

use super::place::{self, Place, Shape};
use super::{Kind, Path, Site, Size, Step, Task, Test, Truth, Work};
use peerlane_machine::matrix::{Engine, Quantity, Unit};
use peerlane_machine::transfer::Via;
use peerlane_machine::units::Bytes;

/// A flag.
const FLAG: Size = Size::Exactly(Bytes(4));

/// [`Work::Signals`].
pub(super) struct Signals<'w> {
    pub(super) a: &'w str,
    pub(super) b: &'w str,
}

/// A flag between each two GPUs.
pub(super) fn steps(site: &Site<'_>) -> Vec<Step> {
    let step = |(a, b): &(&str, &str)| {
        let work = Work::Signals { a: (*a).to_owned(), b: (*b).to_owned() };
        Step { test: Test::SignalLatency, work, size: FLAG }
    };
    site.pairs().iter().map(step).collect()
}

impl<'w> Kind<'w> for Signals<'w> {
    fn words(&self) -> String {
        format!("{}↔{}", self.a, self.b)
    }

    fn paths(&self) -> Vec<Path<'w>> {
        [(self.a, self.b), (self.b, self.a)].map(|(from, to)| Path { from, to, via: Via::Direct }).to_vec()
    }

    fn ends(&self) -> Option<(&'w str, &'w str)> {
        Some((self.a, self.b))
    }

    fn answers(&self) -> &'static [(Quantity, Unit)] {
        &[(Quantity::SignalLatency, Unit::Microseconds)]
    }

    fn has_content(&self) -> bool {
        false
    }

    fn is_picked(&self, has: &dyn Fn(&str, &str) -> bool) -> bool {
        has(self.a, self.b) || has(self.b, self.a)
    }

    fn place(&self, _: Test) -> Option<Place<'w>> {
        let shape = Shape::new(place::ends(self.a, self.b), Engine::Sm);
        Some(Place { shape, row: self.a, col: self.b, mirrored: true })
    }

    fn simulate(&self, _: Size, truth: &Truth) -> Result<Task, String> {
        let Signals { a, b } = self;
        truth.gpu(a)?;
        truth.gpu(b)?;
        Err(format!("the model does not predict how long a signal between {a} and {b} takes"))
    }
}
