//! Measures wave after wave, judges after each, and repeats what looks bad.

use std::collections::{BTreeMap, BTreeSet};

use super::Conclusion;
use super::waves::{Wave, method, waves};
use crate::verdict::Gate;
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::machine::Machine;
use peerlane_machine::units::Seconds;
use peerlane_measure::plan::{Plan, Step};
use peerlane_measure::run::{Cell, Counted, FlagKind, GpuState, Run, Subject};

/// Steps that are repeated for one finding: as many as name its place, so that a fault rests on at least two
/// measurements of each.
const REPEATED: usize = 4;

/// Most steps that are repeated after one wave.
const MOST_REPEATED: usize = 16;

/// Of the usual budget of a wave, the least worth starting it with.
const LEAST: f64 = 0.25;

/// Waves after which a fault is located as well as it will be.
const LOCATING: usize = 2;

/// Measures for [`examine`].
pub trait Prober {
    /// Why measuring ended before its time.
    type Stop;

    /// The cells of a plan, with the plan's own numbers of steps.
    ///
    /// # Errors
    /// Nothing more can be measured.
    fn ask(&mut self, plan: &Plan) -> Result<Vec<Cell>, Self::Stop>;

    /// What counters rose by since the first plan began, and the states of GPUs; nothing where they cannot be read in time.
    fn observed(&mut self) -> Observed;

    /// Time that is left.
    fn left(&mut self) -> Seconds;
}

/// What counters and states show of a whole examination: they are read before its first step and after its last.
#[derive(Debug, Default)]
pub struct Observed {
    /// What counters rose by; `None` where none could be read.
    pub counted: Option<Counted>,
    /// The GPUs before the first step.
    pub before: Vec<GpuState>,
    /// The GPUs after the last.
    pub after: Vec<GpuState>,
}

/// What came of it.
pub struct Examined<S> {
    /// The record.
    pub run: Run,
    /// What follows from it.
    pub conclusion: Conclusion,
    /// Steps that were to be measured.
    pub planned: usize,
    /// Steps that were measured twice.
    pub repeated: usize,
    /// Why it ended early, if it did.
    pub stopped: Option<S>,
}

/// Examines a machine; `judge` concludes from the record so far.
pub fn examine<P: Prober>(
    machine: &Machine,
    subject: Subject,
    judge: &dyn Fn(&Run) -> Conclusion,
    prober: &mut P,
) -> Examined<P::Stop> {
    let gpus = machine.fabric.of_kind(NodeKind::Gpu).count();
    let waves = waves(machine);
    let planned: usize = waves.iter().map(Wave::steps).sum();
    let plan = Plan { method: method(gpus), rounds: Vec::new(), skipped: Vec::new() };
    let run = Run::new(machine, subject, plan);
    let conclusion = Conclusion::not_judged("nothing was measured");
    let mut all = Examined { run, conclusion, planned, repeated: 0, stopped: None };
    let mut again = BTreeSet::new();
    let usual = all.run.plan.method.budget.seconds();
    let mut left_steps = planned;
    let began = prober.left().seconds();
    for (number, wave) in waves.into_iter().enumerate() {
        // links and pairs together show whose fault it is; more would only take time
        if all.conclusion.outcome == Gate::Isolate && number >= LOCATING {
            break;
        }
        let share = wave.steps() as f64 / planned.max(1) as f64;
        let left = prober.left().seconds();
        if left < LEAST * usual * share {
            if number == 0 {
                let why = format!("the deadline leaves too little time for {} steps; give it more", wave.steps());
                all.conclusion = Conclusion::not_judged(why);
            }
            break;
        }
        let own = wave.steps() as f64 / left_steps.max(1) as f64;
        left_steps -= wave.steps();
        let budget = Seconds::new((usual * share).min(left * own));
        if let Err(stop) = all.add(wave, budget, prober) {
            all.stopped = Some(stop);
            break;
        }
        all.conclusion = judge(&all.run);
        let suspects: Vec<usize> = all.suspects().into_iter().filter(|step| again.insert(*step)).collect();
        if suspects.is_empty() {
            continue;
        }
        if let Err(stop) = all.repeat(&suspects, prober) {
            all.stopped = Some(stop);
            break;
        }
        all.conclusion = judge(&all.run);
    }
    if all.stopped.is_none() && !all.run.cells.is_empty() {
        all.observe(prober.observed());
    }
    all.run.wall = Seconds::new((began - prober.left().seconds()).max(0.0));
    all.run.complete = all.run.steps_done().len() == planned;
    all.conclusion = if all.run.cells.is_empty() { all.conclusion } else { judge(&all.run) };
    all
}

impl<S> Examined<S> {
    /// Steps that were measured.
    pub fn measured(&self) -> usize {
        self.run.steps_done().len()
    }

    /// Errors that rose under load are as much a finding as rates.
    fn observe(&mut self, observed: Observed) {
        let Observed { counted, before, after } = observed;
        (self.run.conditions.before, self.run.conditions.after) = (before, after);
        let all_ended = self.run.cells.iter().all(|cell| cell.value().is_some());
        self.run.counters.extend(counted.map(|counted| Counted {
            steps: self.run.steps_done().into_iter().collect(),
            // what a step sent that failed is not known
            moved: counted.moved.filter(|_| all_ended),
            ..counted
        }));
    }

    fn add<P: Prober<Stop = S>>(&mut self, wave: Wave, budget: Seconds, prober: &mut P) -> Result<(), S> {
        let first = self.run.plan.steps().count();
        let method = peerlane_measure::plan::Method { budget, ..self.run.plan.method };
        let plan = Plan { method, rounds: wave.rounds.clone(), skipped: Vec::new() };
        self.run.plan.rounds.extend(wave.rounds);
        let cells = prober.ask(&plan)?;
        self.run.cells.extend(cells.into_iter().map(|cell| Cell { step: first + cell.step, ..cell }));
        Ok(())
    }

    /// Measures steps again, one by one; the better value counts, so that a fault is what both show.
    fn repeat<P: Prober<Stop = S>>(&mut self, suspects: &[usize], prober: &mut P) -> Result<(), S> {
        let steps: Vec<Step> = suspects.iter().filter_map(|step| self.run.plan.steps().nth(*step).cloned()).collect();
        let planned = self.run.plan.steps().count().max(1);
        let usual = self.run.plan.method.budget.seconds() * steps.len() as f64 / planned as f64;
        let budget = Seconds::new(usual.min(prober.left().seconds() / 2.0));
        let method = peerlane_measure::plan::Method { budget, ..self.run.plan.method };
        let plan = Plan { method, rounds: steps.into_iter().map(|step| vec![step]).collect(), skipped: Vec::new() };
        let cells = prober.ask(&plan)?;
        self.repeated += suspects.len();
        for cell in cells {
            let Some(step) = suspects.get(cell.step) else { continue };
            let same = |old: &&mut Cell| old.step == *step && old.quantity == cell.quantity;
            if let Some(old) = self.run.cells.iter_mut().find(same)
                && better(&cell, old)
            {
                *old = Cell { step: *step, ..cell };
            }
        }
        Ok(())
    }

    /// The steps that speak most for faults and for what is unexplained: of each the worst that its place takes part in.
    fn suspects(&self) -> Vec<usize> {
        let badness = self.badness();
        let mut steps = BTreeSet::new();
        for one in &self.conclusion.findings {
            let places: BTreeSet<&str> = one.finding.subjects.iter().flat_map(|s| s.nodes()).collect();
            let touches = |cell: &&(f64, &Cell)| cell.1.work.gpus().iter().any(|gpu| places.contains(gpu));
            let near: Vec<&(f64, &Cell)> = badness.iter().filter(touches).collect();
            let all = if near.is_empty() { badness.iter().collect() } else { near };
            steps.extend(all.iter().take(REPEATED).map(|(_, cell)| cell.step));
        }
        steps.into_iter().take(MOST_REPEATED).collect()
    }

    /// Cells with how much worse than the median of their family they are, the worst first. What the driver refuses, or
    /// arrived wrong, is certain as it is.
    fn badness(&self) -> Vec<(f64, &Cell)> {
        let mut families: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let family = |cell: &Cell| format!("{:?} {:?}", cell.test, cell.quantity);
        for cell in &self.run.cells {
            families.entry(family(cell)).or_default().extend(cell.value());
        }
        for values in families.values_mut() {
            values.sort_by(f64::total_cmp);
        }
        let mut all: Vec<(f64, &Cell)> = Vec::new();
        for cell in &self.run.cells {
            if cell.flags.iter().any(|f| matches!(f.kind, FlagKind::Corrupt | FlagKind::NotApplicable)) {
                continue;
            }
            let usual = families.get(&family(cell)).and_then(|values| values.get(values.len() / 2));
            let bad = match (cell.value(), usual) {
                (Some(value), Some(usual)) if cell.unit.rate(1.0).is_some() => usual / value,
                (Some(value), Some(usual)) => value / usual,
                _ => f64::INFINITY,
            };
            all.push((bad, cell));
        }
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all
    }
}

/// Whether a repeated measurement counts instead of the first.
fn better(new: &Cell, old: &Cell) -> bool {
    match (new.value(), old.value()) {
        _ if new.flag(FlagKind::Corrupt).is_some() => true,
        (Some(new_value), Some(old_value)) if new.unit.rate(1.0).is_some() => new_value > old_value,
        (Some(new_value), Some(old_value)) => new_value < old_value,
        (Some(_), None) => true,
        (None, _) => false,
    }
}
