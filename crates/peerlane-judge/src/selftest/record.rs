//! From a machine with a planted fault to the record of a run.

use super::plants::Plant;
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::fault::Planted;
use peerlane_machine::machine::Machine;
use peerlane_measure::measure::execute;
use peerlane_measure::plan::{Plan, Scope, Selection};
use peerlane_measure::run::{Run, Subject};
use peerlane_measure::simulated_machine::{Effects, SimulatedMachine};
use peerlane_read::catalogue::Parts;

/// Machines with more GPUs run the quick plan: pairs grow with the square.
pub(super) const USUAL_GPUS: usize = 8;

/// Measures a simulated machine by the usual plan, as `peerlane measure` would: an executor whose driver state is corrupted
/// is abandoned, and another takes over.
pub(super) fn measure(
    design: &Machine,
    system: &str,
    text: &str,
    plant: Option<&Plant>,
    seed: u64,
    effects: Effects,
) -> Run {
    let gpus = design.fabric.of_kind(NodeKind::Gpu).count();
    let scope = if gpus > USUAL_GPUS { Scope::Quick } else { Scope::Default };
    let method = scope.method(gpus);
    let mut plan = Plan::of(design, scope, &Selection::default(), method).unwrap_or(Plan {
        method,
        rounds: Vec::new(),
        skipped: Vec::new(),
    });
    // one by one, so that the step that hung is known
    plan.rounds = plan.rounds.concat().into_iter().map(|step| vec![step]).collect();
    let settings = Planted { noise: super::NOISE, seed, faults: plant.map(|p| p.faults.clone()).unwrap_or_default() };
    let subject = Subject {
        name: design.name.clone(),
        target: system.to_owned(),
        system: Some(text.to_owned()),
        evidence: Vec::new(),
    };
    let mut run = Run::new(design, subject, plan.clone());
    let mut done = run.steps_done();
    loop {
        let mut machine = SimulatedMachine::new(design, Parts::embedded(), &settings)
            .with_effects(effects)
            .impatient()
            .taking_over(done.len());
        let ended = execute(&plan, &mut machine, &done, &mut |event| run.apply(event));
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
