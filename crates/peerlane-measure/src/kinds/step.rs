//! A step: one measurement of a plan.

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Test, Work};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::transfer::Via;
use peerlane_machine::units::Bytes;

/// How much one message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// Just this.
    Exactly(Bytes),
    /// As much as takes about a sample's time, and no more than this: for rates that no longer depend on it.
    UpTo(Bytes),
}

impl Size {
    /// The most that it may be.
    pub fn most(self) -> Bytes {
        let (Size::Exactly(size) | Size::UpTo(size)) = self;
        size
    }
}

/// One thing to measure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The family that it belongs to.
    pub test: Test,
    /// What is done.
    pub work: Work,
    /// How much at a time.
    pub size: Size,
}

impl Step {
    /// What is alike in steps that do the same between different ends.
    pub(crate) fn kind(&self) -> StepKind {
        let driven = match &self.work {
            Work::Transfers(transfers) => transfers.iter().map(|t| (t.engine, t.op, t.via)).collect(),
            _ => Vec::new(),
        };
        (self.test, driven)
    }
}

/// The family of a step, and how each of its transfers is driven.
pub(crate) type StepKind = (Test, Vec<(Engine, Operation, Via)>);
