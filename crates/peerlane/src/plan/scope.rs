//! Which steps a user means.

use super::{Method, Plan, Test};
use crate::machine::Machine;

/// How much is asked where no tests are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// In about two seconds: every pair and the host, both ways, and latencies.
    Quick,
    /// What people compare machines by.
    #[default]
    Default,
    /// All that can be asked.
    Full,
}

/// What a user picks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only these tests; empty for what the scope means.
    pub tests: Vec<Test>,
    /// Only steps between these: `GPU0-GPU1`, `GPU0→host`, `GPU3`; empty for all.
    pub pairs: Vec<String>,
}

/// Why no plan can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is nothing to measure.
    #[error("{machine} has no GPU: there is nothing to measure")]
    NoGpu {
        /// Its name.
        machine: String,
    },
    /// A pair is written wrong, or names what is not there.
    #[error("--pairs {text}: {why}")]
    Pair {
        /// As written.
        text: String,
        /// What is wrong, and what to write.
        why: String,
    },
}

impl Plan {
    /// The plan for a machine's GPUs and host memory.
    pub fn of(machine: &Machine, scope: Scope, selection: &Selection, method: Method) -> Result<Plan, PlanError> {
        let _ = (scope, selection);
        if machine.fabric.of_kind(crate::fabric::NodeKind::Gpu).next().is_none() {
            return Err(PlanError::NoGpu { machine: machine.name.clone() });
        }
        Ok(Plan { method, rounds: Vec::new() })
    }
}
