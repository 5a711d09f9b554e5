//! What to measure: steps, each one thing that a machine is asked, and how well.
//!
//! A plan names nodes and knows no machine: a live one, a simulated one and a recorded run answer the same plan.
//! [`Plan::of`] makes the usual ones from a machine.

mod rounds;
mod scope;
mod selection;

pub use crate::kinds::{Scope, Size, Step, StreamKernel, Test, UsableNics, Work};
pub use scope::PlanError;
pub use selection::Selection;

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use peerlane_machine::units::Seconds;

/// How well to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Method {
    /// Requested relative width of the median's 95 % interval, from the median to the farther end.
    pub precision: f64,
    /// Wall time for all steps, initialisation apart; what is left is divided among the steps that are left.
    pub budget: Seconds,
    /// The least time that one sample takes, so that the start of work and its clock do not show.
    pub sample_time: Seconds,
    /// The least samples that a value rests on. A median's 95 % interval needs 6.
    pub least_samples: usize,
    /// The most samples of one step.
    pub most_samples: usize,
    /// How often the memory of steps with several transfers at once is allocated anew, since their rates depend on it.
    pub allocations: usize,
    /// The longest that a step may take before it is given up as hung.
    pub patience: Seconds,
}

impl Default for Method {
    fn default() -> Self {
        Method {
            precision: 0.01,
            budget: Seconds::new(30.0),
            sample_time: Seconds::new(1e-3),
            least_samples: 6,
            most_samples: 60,
            allocations: 3,
            patience: Seconds::new(20.0),
        }
    }
}

/// A family that was requested and has no step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// Which.
    pub test: Test,
    /// Why not, in words that follow the family's name: `it needs two GPUs, and there is one`.
    pub why: String,
}

/// What to measure and how.
///
/// Steps of one round have no GPU and no link in common and may run at once; whether they disturb each other is
/// measured before it is relied on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// How well.
    pub method: Method,
    /// The steps, in order, those that may run at once together.
    pub rounds: Vec<Vec<Step>>,
    /// The families that were requested and do not apply here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
}

impl Plan {
    /// All its steps.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.rounds.iter().flatten()
    }
}
