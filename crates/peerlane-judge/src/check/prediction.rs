//! Applications that take longer than predicted: what their rules have in common.

use super::prelude::*;
use peerlane_measure::run::Cell;

/// What to do about one GPU that is slow alone.
pub(super) const OF_ONE: &str = "Remove what throttles the GPU or lowers its clocks (`nvidia-smi -q -d \
     PERFORMANCE,CLOCK`). If nothing does, compare its copies within its own memory (`--tests local`) with the other \
     GPUs'.";

/// An application that was measured, beside its prediction.
pub(super) struct Compared<'a, P> {
    pub(super) gpus: &'a [String],
    /// What ran, and on which GPUs.
    pub(super) words: String,
    /// What the prediction consists of.
    pub(super) predicted: P,
    /// In the unit of the measured value.
    pub(super) expected: f64,
    pub(super) value: f64,
    /// How many times as long it takes as predicted.
    pub(super) times: f64,
}

/// All that were measured and are predicted; `of` is that of one cell.
fn all<'a, P>(
    view: &'a View,
    of: impl Fn(&'a Cell) -> Option<Compared<'a, P>>,
) -> impl Iterator<Item = Compared<'a, P>> {
    view.case.run().into_iter().flat_map(|run| &run.cells).filter_map(of)
}

/// Whether one was measured that is predicted.
pub(super) fn is_any<'a, P>(view: &'a View, of: impl Fn(&'a Cell) -> Option<Compared<'a, P>>) -> bool {
    all(view, of).next().is_some()
}

/// The slowest of the fewest GPUs that take more than so many times as long as predicted: one GPU is the cause itself, and many are
/// as slow as the slowest path of a few.
pub(super) fn slowest<'a, P>(
    view: &'a View,
    limit: f64,
    of: impl Fn(&'a Cell) -> Option<Compared<'a, P>>,
) -> Option<Compared<'a, P>> {
    let slow: Vec<Compared<P>> = all(view, of).filter(|one| one.times > limit).collect();
    let fewest = slow.iter().map(|one| one.gpus.len()).min()?;
    highest(slow.into_iter().filter(|one| one.gpus.len() == fewest), |one| one.times)
}

impl<P> Compared<'_, P> {
    /// `what` takes so many times as long as predicted.
    pub(super) fn raise(&self, rule: &Rule, view: &View, what: &str) -> Raised {
        rule.raise(Fault, Warning, Likely)
            .summary(format!("{what} {} takes {:.2} times as long as predicted", self.words, self.times))
            .evidence(view.cite_run())
            .about_nodes(self.gpus.iter().map(String::as_str))
            .losing(1.0 - 1.0 / self.times)
    }
}
