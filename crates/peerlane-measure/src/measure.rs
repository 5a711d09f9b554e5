//! How numbers are obtained from whatever can make transfers: warm up until nothing changes, sample until the
//! interval is narrow enough, verify, and flag anomalies.
//!
//! The method knows no GPU. A live machine and a simulated one are [`Executor`]s, so that all of this is tested
//! without one. `docs/measurement.md` gives the reasons.

mod cells;
mod execute;
mod sampling;

pub use cells::void;
pub use execute::execute;

use crate::plan::{Method, Step, Work};
use crate::run::{FlagKind, GpuState, Reading};
use peerlane_machine::matrix::Quantity;
use peerlane_machine::transfer::Registration;
use peerlane_machine::units::{Bytes, Seconds};

/// One sample of one step: what [`crate::plan::Work`] states, in bytes a second or seconds.
pub type Sample = Vec<f64>;

/// Whether what arrived is what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it was compared, and is.
    Intact,
    /// It is not: which transfer, how many words differ, where the first is.
    Corrupt(String),
    /// It could not be compared, or there is no content: why.
    Unverified(String),
}

/// Why a step has no sample.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// [`FlagKind::NotApplicable`], [`FlagKind::Failed`] or [`FlagKind::Hung`].
    pub kind: FlagKind,
    /// What happened, and where.
    pub message: String,
    /// The executor can do nothing more: its driver's state is spoilt, and a new one must take over.
    pub fatal: bool,
}

impl Failure {
    /// One after which the executor can go on.
    pub fn new(kind: FlagKind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), fatal: false }
    }
}

/// Something that makes transfers.
///
/// Steps are prepared, run as often as wanted, verified and released. Several steps are prepared together only where
/// their plan lets them run at once.
pub trait Executor {
    /// Allocates memory and whatever else the steps need; `allocation` counts up where memory is to be allocated anew,
    /// and differing ones must not share it. Gives the size of a message of each step.
    fn prepare(&mut self, steps: &[&Step], method: &Method, allocation: usize) -> Result<Vec<Bytes>, Failure>;

    /// Takes `n` samples of every prepared step, all steps at once: a list of samples for each step.
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Failure>;

    /// Compares what the prepared steps have moved with what they should have; one verdict a step.
    fn verify(&mut self) -> Result<Vec<Verdict>, Failure>;

    /// Gives back what `prepare` took, all or some: it is called after a failure too, unless that was fatal.
    fn release(&mut self);

    /// State of all GPUs now.
    fn states(&mut self) -> Vec<GpuState>;

    /// What counters stand at now: of errors, and of the bytes that links carried and that steps sent. Called between kinds of
    /// steps.
    fn counters(&mut self) -> Reading {
        Reading::default()
    }

    /// How an adapter got at the GPU memory of the steps that were prepared last; `None` where there is none.
    fn registration(&self) -> Option<Registration> {
        None
    }

    /// Time since the executor was made, by its own clock.
    fn now(&mut self) -> Seconds;

    /// Whether `prepare` runs what it prepares, as one does that looks for the size of messages: then the first samples are no
    /// cold ones.
    fn runs_while_preparing(&self) -> bool {
        false
    }

    /// By what share of itself a quantity may differ when another process measures it, although no sample of this one
    /// shows that. A cell's interval reaches farther by so much.
    fn between_runs(&self, work: &Work, quantity: Quantity) -> f64 {
        let _ = (work, quantity);
        0.0
    }
}
