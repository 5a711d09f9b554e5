//! How long a measurement may take, and the plan for a machine.

use super::rounds::pack;
use super::selection::Selection;
use super::{Method, Plan, Scope, Skipped, Test};
use crate::kinds::{Site, staged_copies};
use peerlane_machine::machine::Machine;
use peerlane_machine::units::Seconds;

/// GPUs of which the steps are few: a quick measurement has 14 on two GPUs, and 72 on four.
const FEW_GPUS: usize = 2;

/// GPUs that the usual budgets are meant for.
const USUAL_GPUS: usize = 4;

/// The longest default budget.
const LONGEST_BUDGET: f64 = 1800.0;

impl Scope {
    /// The usual method for a machine with so many GPUs. Its budget is 0.2 s, 2 s or 2 min for up to two of them, 2 s, 5 s or
    /// 2 min for up to four, and grows with their square from there, as the number of their pairs does, up to half an hour.
    ///
    /// [`Scope::Quick`] does not allocate anew. Its samples, and on two GPUs those of [`Scope::Default`], are a third as long as
    /// usual. Else those of [`Scope::Default`] are as long as one message of the largest size takes between two GPUs and with the
    /// host, and not two: at 1.2 ms reads have messages of 256 MiB, and H200 read 1.5 % less from each other, at 0.6 ms 3 %.
    pub fn method(self, gpus: usize) -> Method {
        let few = gpus <= FEW_GPUS;
        let (budget, sample_time, allocations) = match self {
            Scope::Quick => (if few { 0.2 } else { 2.0 }, 6e-4, 1),
            Scope::Default if few => (2.0, 6e-4, 2),
            Scope::Default => (5.0, 1.6e-3, 2),
            Scope::Full => (120.0, 2e-3, 3),
        };
        let sample_time = Seconds::new(sample_time);
        let growth = (gpus.max(USUAL_GPUS) as f64 / USUAL_GPUS as f64).powi(2);
        let budget = Seconds::new((budget * growth).min(LONGEST_BUDGET));
        Method { budget, sample_time, allocations, ..Method::default() }
    }
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
    /// The plan for a machine's GPUs and host memory: the families that the selection names, or else those of the
    /// scope, in the order of [`Test::ALL`].
    ///
    /// Families without a step on this machine are in [`Plan::skipped`], each with the reason; a plan may be empty.
    pub fn of(machine: &Machine, scope: Scope, selection: &Selection, method: Method) -> Result<Plan, PlanError> {
        let site = Site::new(machine, scope, selection.nics.as_ref());
        if site.gpus.is_empty() && !selection.tests.iter().any(|test| test.is_without_gpus()) {
            return Err(PlanError::NoGpu { machine: machine.name.clone() });
        }
        let chosen = selection.chosen(machine)?;
        let mut plan = Plan { method, rounds: Vec::new(), skipped: Vec::new() };
        let tests = if selection.tests.is_empty() { scope.tests() } else { selection.tests.clone() };
        for test in Test::ALL.into_iter().filter(|t| tests.contains(t)) {
            let asked = test.steps(&site).map(|mut asked| {
                // of pairs without peer access the time of a small copy is that through host memory
                if test == Test::CopyLatency && !tests.contains(&Test::Staged) {
                    asked.extend(staged_copies(&site));
                }
                asked
            });
            let mut asked = match asked {
                Ok(asked) => asked,
                Err(why) => {
                    plan.skipped.push(Skipped { test, why });
                    continue;
                }
            };
            asked.retain(|step| chosen.allow(&step.work));
            if asked.is_empty() {
                plan.skipped.push(Skipped { test, why: "--pairs leaves none of its steps".to_owned() });
            }
            plan.rounds.extend(pack(asked, &machine.fabric));
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests;
