//! The gate on a simulated machine, for tests and detection curves: in one process, on the simulated clock.

use std::collections::BTreeSet;

use super::Conclusion;
use super::examine::{Examined, Observed, Prober, examine};
use super::judge;
use peerlane_machine::fault::Planted;
use peerlane_machine::machine::Machine;
use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{Executor, execute};
use peerlane_measure::plan::Plan;
use peerlane_measure::run::{Cell, Event, GpuState, Reading, Subject};
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
    /// What it counted, from zero on, and the states of its GPUs before and after.
    counted: Reading,
    states: Option<[Vec<GpuState>; 2]>,
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
            self.observe(&mut machine);
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

    fn observed(&mut self) -> Observed {
        let counted = std::mem::take(&mut self.counted);
        let mut zero = counted.clone();
        zero.errors.values_mut().for_each(|count| *count = 0);
        zero.nvlinks.values_mut().flatten().for_each(|link| *link = link.map(|_| [0; 2]));
        (zero.moved, zero.uncounted) = Default::default();
        let counted = (!counted.is_empty()).then(|| counted.since(&zero, Vec::new(), true));
        let [before, after] = self.states.take().unwrap_or_default();
        Observed { counted, before, after }
    }

    fn left(&mut self) -> Seconds {
        Seconds::new((self.deadline - self.spent).max(0.0))
    }
}

impl Simulated<'_> {
    /// Each plan has an executor of its own, which counts from zero.
    fn observe(&mut self, machine: &mut SimulatedMachine) {
        self.counted.add(machine.counters());
        let now = machine.states();
        let replays =
            |states: &[GpuState], gpu: &str| states.iter().find(|s| s.gpu == gpu).and_then(|s| s.pcie_replays);
        let [before, after] = match self.states.take() {
            Some(known) => known,
            None => {
                let zero = |state: &GpuState| GpuState { pcie_replays: state.pcie_replays.map(|_| 0), ..state.clone() };
                [now.iter().map(zero).collect(), Vec::new()]
            }
        };
        let sum = |state: GpuState| {
            let earlier = replays(&after, &state.gpu).unwrap_or_default();
            GpuState { pcie_replays: state.pcie_replays.map(|own| own + earlier), ..state }
        };
        self.states = Some([before, now.into_iter().map(sum).collect()]);
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
    let mut machine = Simulated {
        design,
        planted,
        effects,
        deadline: deadline.seconds(),
        spent: 0.0,
        steps: 0,
        counted: Reading::default(),
        states: None,
    };
    let judged = |run: &_| judge(run).unwrap_or_else(|error| Conclusion::not_judged(error.to_string()));
    examine(shown, subject, &judged, &mut machine)
}
