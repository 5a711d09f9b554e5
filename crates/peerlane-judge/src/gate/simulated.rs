//! The gate on a simulated machine, for tests and detection curves: in one process, on the simulated clock.

use std::collections::BTreeSet;

use super::Verdict;
use super::examine::{Examined, Prober, examine};
use super::judge;
use peerlane_machine::fault::Planted;
use peerlane_machine::machine::Machine;
use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{Executor, execute};
use peerlane_measure::plan::Plan;
use peerlane_measure::run::{Cell, Event, Subject};
use peerlane_measure::simulated_machine::{Effects, SimulatedMachine};
use peerlane_read::catalogue::Parts;

/// A simulated machine that answers one plan after another.
pub struct Simulated<'a> {
    design: &'a Machine,
    planted: &'a Planted,
    effects: &'a [(u64, Effects)],
    deadline: f64,
    spent: f64,
    /// Steps that it has answered: faults may begin after some.
    steps: usize,
}

impl Prober for Simulated<'_> {
    type Stop = String;

    fn ask(&mut self, plan: &Plan) -> Result<Vec<Cell>, String> {
        let mut plan = plan.clone();
        let mut cells: Vec<Cell> = Vec::new();
        let mut done = BTreeSet::new();
        loop {
            let mut machine =
                SimulatedMachine::new(self.design, Parts::embedded(), self.planted).impatient().taking_over(self.steps);
            for &(seed, effects) in self.effects {
                machine = machine.with_effects_of(seed, effects);
            }
            let mut last: Vec<Cell> = Vec::new();
            let ended = execute(&plan, &mut machine, &done, &mut |event| {
                if let Event::Cells(new) = event {
                    cells.append(&mut last);
                    last = new;
                }
            });
            self.spent += machine.now().seconds();
            let blamed: BTreeSet<usize> = last.iter().map(|cell| cell.step).collect();
            // of steps that failed together the one at fault is found one by one
            let together = ended.is_err() && blamed.len() > 1;
            if together {
                plan.rounds = plan.rounds.concat().into_iter().map(|step| vec![step]).collect();
            } else {
                cells.append(&mut last);
            }
            let now: BTreeSet<usize> = cells.iter().map(|cell| cell.step).collect();
            let answered = now.len() - done.len();
            self.steps += answered;
            if ended.is_ok() || (answered == 0 && !together) {
                return Ok(cells);
            }
            done = now;
        }
    }

    fn left(&mut self) -> Seconds {
        Seconds::new((self.deadline - self.spent).max(0.0))
    }
}

/// Examines a simulated machine of a design within a deadline of its own clock. `shown`: the machine as it reports itself, and the
/// texts of that. `effects`: how it differs from the model, each with its seed.
pub fn simulate(
    design: &Machine,
    (shown, subject): (&Machine, Subject),
    planted: &Planted,
    effects: &[(u64, Effects)],
    deadline: Seconds,
) -> Examined<String> {
    let mut machine = Simulated { design, planted, effects, deadline: deadline.seconds(), spent: 0.0, steps: 0 };
    let judged = |run: &_| judge(run).unwrap_or_else(|error| Verdict::not_judged(error.to_string()));
    examine(shown, subject, &judged, &mut machine)
}
