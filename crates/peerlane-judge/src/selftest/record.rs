//! From a machine with a planted fault to the record of a run.

use peerlane_machine::fabric::NodeKind;
use peerlane_machine::fault::{Fault, Planted};
use peerlane_machine::machine::Machine;
use peerlane_measure::measure::execute;
use peerlane_measure::plan::{Plan, Scope, Selection};
use peerlane_measure::run::{Run, Subject};
use peerlane_measure::simulated_machine::{Effects, SimulatedMachine};
use peerlane_read::catalogue::Parts;

/// Machines with more GPUs run the quick plan: pairs grow with the square.
pub(super) const USUAL_GPUS: usize = 8;

/// A machine of the catalogue, and what is measured of it.
pub(super) struct Bench<'a> {
    pub(super) design: &'a Machine,
    /// Its name in the catalogue.
    pub(super) system: &'a str,
    /// Its text there.
    pub(super) text: &'a str,
    pub(super) plan: Plan,
}

/// What is so of one machine when it is measured.
pub(super) struct Today<'a> {
    /// Relative standard deviation of a sample.
    pub(super) noise: f64,
    /// The seed of the noise.
    pub(super) seed: u64,
    pub(super) faults: &'a [Fault],
    /// How it differs from the model, each with its seed.
    pub(super) effects: &'a [(u64, Effects)],
    /// The machine as its record describes it, where that is not the text of the catalogue.
    pub(super) shown: Option<(&'a Machine, &'a Subject)>,
}

impl<'a> Bench<'a> {
    /// With the usual plan; the quick one where there are many GPUs.
    pub(super) fn usual(design: &'a Machine, system: &'a str, text: &'a str) -> Self {
        let gpus = design.fabric.of_kind(NodeKind::Gpu).count();
        Bench::new(design, system, text, if gpus > USUAL_GPUS { Scope::Quick } else { Scope::Default })
    }

    pub(super) fn new(design: &'a Machine, system: &'a str, text: &'a str, scope: Scope) -> Self {
        let method = scope.method(design.fabric.of_kind(NodeKind::Gpu).count());
        let mut plan = Plan::of(design, scope, &Selection::default(), method).unwrap_or(Plan {
            method,
            rounds: Vec::new(),
            skipped: Vec::new(),
        });
        // one by one, so that the step that hung is known
        plan.rounds = plan.rounds.concat().into_iter().map(|step| vec![step]).collect();
        Bench { design, system, text, plan }
    }

    /// Measures a simulated machine as `peerlane measure` would: an executor whose driver state is corrupted is abandoned,
    /// and another takes over.
    pub(super) fn measure(&self, today: &Today) -> Run {
        let &Today { noise, seed, faults, effects, shown } = today;
        let settings = Planted { noise, seed, faults: faults.to_vec() };
        let (machine, subject) = match shown {
            Some((machine, subject)) => (machine, subject.clone()),
            None => (self.design, Subject::of_system(&self.design.name, self.system, self.text)),
        };
        let mut run = Run::new(machine, subject, self.plan.clone());
        let mut done = run.steps_done();
        loop {
            let mut machine =
                SimulatedMachine::new(self.design, Parts::embedded(), &settings).impatient().taking_over(done.len());
            for &(seed, effects) in effects {
                machine = machine.with_effects_of(seed, effects);
            }
            let ended = execute(&self.plan, &mut machine, &done, &mut |event| run.apply(event));
            let now = run.steps_done();
            // a failed executor answers the step that it failed in, so that this ends
            if ended.is_ok() || now.len() == done.len() {
                break;
            }
            done = now;
        }
        run.complete = run.steps_done().len() == run.plan.steps().count();
        run
    }
}
