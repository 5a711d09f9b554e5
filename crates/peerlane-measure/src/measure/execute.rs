//! A whole plan, round by round.
//!
//! **Time.** What is left of the budget is divided among the rounds that are left, those more that allocate anew. A
//! round that is sure earlier leaves its time to the others. When the budget is over, each step still gets the least:
//! a short warm-up, the least samples, one allocation. When twice the budget is over, and 2 s more than it, the rest stays
//! unanswered.
//!
//! **Steps that run at once.** The first time that a kind of them comes up, each is measured alone and then all
//! together. If one differs by more than the asked precision and both intervals, this round and all later ones of
//! the kind are measured one by one.
//!
//! **Counters** are read where the kind of steps changes, and their differences reported with the steps that ran between. A
//! reading takes some 25 ms of two GPUs with 18 NVLinks and 46 of four, so kinds that are over sooner than is worth one are counted
//! together.

use std::collections::{BTreeSet, HashMap};

use super::sampling::{Effort, Sampled, allocations, take};
use super::{Executor, Failure, Verdict, cells};
use crate::kinds::StepKind;
use crate::plan::{Plan, Step, Test, Work};
use crate::run::{Cell, Counted, Event, Flag, FlagKind, GpuState, Reading};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::stats::Median;
use peerlane_machine::transfer::Via;
use peerlane_machine::units::Seconds;

/// How many times the budget may pass before steps are left unanswered, and by how many seconds at least: the least of each step
/// may take longer than a short budget.
const OVERRUN: (f64, f64) = (2.0, 2.0);

/// Seconds after which the GPUs' state is read again. It takes some milliseconds.
const LOOK_EVERY: f64 = 0.25;

/// The share of the time that readings of the counters may take.
const READING: f64 = 0.05;

/// Steps that are named as company; more are counted.
const NAMED: usize = 3;

/// Answers all rounds of a plan that have steps outside `done` (indices into [`Plan::steps`]), reporting each event
/// as it happens. A step's cells come in one event.
///
/// A step that fails has a cell that states it. Ends early where twice the budget is over, and where the executor can do
/// nothing more; the steps that ran when it was spoilt have their cells by then, and other steps of their round may
/// have none.
pub fn execute(
    plan: &Plan,
    executor: &mut dyn Executor,
    done: &BTreeSet<usize>,
    report: &mut dyn FnMut(Event),
) -> Result<(), Failure> {
    let states = executor.states();
    report(Event::States(states.clone()));
    let now = executor.now().seconds();
    let mut running = Running { plan, executor, report, states, looked: now, kinds: HashMap::new(), counting: None };
    let mut index = 0;
    let mut rounds: Vec<(usize, Vec<Item<'_>>)> = Vec::new();
    for (round, steps) in plan.rounds.iter().enumerate() {
        let open: Vec<Item<'_>> = (index..).zip(steps).filter(|(i, _)| !done.contains(i)).collect();
        index += steps.len();
        if !open.is_empty() {
            rounds.push((round, open));
        }
    }
    let weight = |open: &[Item<'_>]| open.iter().map(|(_, s)| allocations(s, &plan.method)).max().unwrap_or(1) as f64;
    let mut weights: f64 = rounds.iter().map(|(_, open)| weight(open)).sum();
    let budget = plan.method.budget.seconds();
    for (round, open) in rounds {
        let spent = running.executor.now().seconds() - now;
        if spent > (OVERRUN.0 * budget).max(budget + OVERRUN.1) {
            break;
        }
        let own = weight(&open);
        let time = (budget - spent).max(0.0) * own / weights;
        weights -= own;
        running.count(&open);
        (running.report)(Event::Started(round));
        running.round(&open, Seconds::new(time))?;
    }
    running.report_counted();
    let states = running.executor.states();
    (running.report)(Event::States(states));
    let wall = running.executor.now();
    (running.report)(Event::Finished(wall));
    Ok(())
}

/// What steps that are counted apart differ in: the family, and how their first transfer is driven.
type Group = (Test, Option<(Engine, Operation, Via)>);

/// Steps since the counters were read.
struct Counting {
    /// Of the latest of them.
    group: Group,
    /// Whether the executor counts the bytes that they send.
    by_bytes: bool,
    before: Reading,
    /// When they were read, and how long that took.
    since: f64,
    took: f64,
    steps: Vec<usize>,
    /// Whether all of them ended, so that what they sent is known.
    known: bool,
}

/// A step with its index.
type Item<'a> = (usize, &'a Step);

/// A plan that is being answered.
struct Running<'a> {
    plan: &'a Plan,
    executor: &'a mut dyn Executor,
    report: &'a mut dyn FnMut(Event),
    /// The GPUs when they were last looked at.
    states: Vec<GpuState>,
    looked: f64,
    /// Of kinds that had their control: what it showed, where they disturb each other.
    kinds: HashMap<StepKind, Option<String>>,
    /// Absent before the first round.
    counting: Option<Counting>,
}

impl Running<'_> {
    /// Reads the counters where another group of steps begins.
    fn count(&mut self, open: &[Item<'_>]) {
        let Some((_, first)) = open.first() else { return };
        let (test, driven) = first.kind();
        let group = (test, driven.first().copied());
        let by_bytes = matches!(first.work, Work::Transfers(_) | Work::SmallCopies(_));
        let now = self.executor.now().seconds();
        let is_due = |counting: &Counting| {
            counting.group != group
                && (counting.by_bytes != by_bytes || (now - counting.since) * READING >= counting.took)
        };
        if self.counting.as_ref().is_none_or(is_due) {
            let before = self.report_counted();
            let since = self.executor.now().seconds();
            let took = since - now;
            self.counting = Some(Counting { group, by_bytes, before, since, took, steps: Vec::new(), known: true });
        }
        if let Some(counting) = &mut self.counting {
            counting.group = group;
            counting.steps.extend(open.iter().map(|(index, _)| index));
        }
    }

    /// Reads the counters, and reports what they rose by since the steps of a group began.
    fn report_counted(&mut self) -> Reading {
        let began = self.executor.now().seconds();
        let now = self.executor.counters();
        let took = self.executor.now().seconds() - began;
        let ended = self.counting.take().filter(|counting| !counting.before.is_empty() && !now.is_empty());
        if let Some(Counting { before, steps, known, since, .. }) = ended {
            let counted = now.clone().since(&before, steps, known);
            // a simulated machine's clock stands still meanwhile
            let reading = (took > 0.0).then(|| Seconds::new(took));
            let spent = reading.map(|_| Seconds::new(began - since));
            (self.report)(Event::Counted(Box::new(Counted { spent, reading, ..counted })));
        }
        now
    }

    /// Answers the steps of a round.
    fn round(&mut self, open: &[Item<'_>], time: Seconds) -> Result<(), Failure> {
        match open {
            [] => Ok(()),
            [one] => self.alone(*one, time, Vec::new()),
            [first, ..] => match self.kinds.get(&first.1.kind()).cloned() {
                None => self.control(open, time),
                Some(None) => self.together(open, time),
                Some(Some(why)) => self.one_by_one(open, time, &why),
            },
        }
    }

    /// One step alone.
    fn alone(&mut self, item: Item<'_>, time: Seconds, flags: Vec<Flag>) -> Result<(), Failure> {
        let effort = Effort::within(time, &self.plan.method, [item.1]);
        match self.take(&[item], effort) {
            Ok(taken) => self.report_measured(&[item], &taken, &[flags]),
            Err(failure) => self.fail(&[item], failure)?,
        }
        Ok(())
    }

    /// Steps that were to run at once, one after another, and why.
    fn one_by_one(&mut self, items: &[Item<'_>], time: Seconds, why: &str) -> Result<(), Failure> {
        let time = Seconds::new(time.seconds() / items.len() as f64);
        items.iter().try_for_each(|item| self.alone(*item, time, vec![Flag::new(FlagKind::Alone, why)]))
    }

    /// Steps at once, of a kind that is known to do so undisturbed.
    fn together(&mut self, items: &[Item<'_>], time: Seconds) -> Result<(), Failure> {
        let effort = Effort::within(time, &self.plan.method, items.iter().map(|item| item.1));
        match self.take(items, effort) {
            Ok(taken) => {
                let flags: Vec<Vec<Flag>> = (0..items.len()).map(|i| vec![beside(items, i)]).collect();
                self.report_measured(items, &taken, &flags);
                Ok(())
            }
            Err(failure) => self.apart(items, time, failure),
        }
    }

    /// Each step alone, then all together: whether they disturb each other.
    fn control(&mut self, items: &[Item<'_>], time: Seconds) -> Result<(), Failure> {
        let method = &self.plan.method;
        let (mut able, mut alone) = (Vec::new(), Vec::new());
        // each its part of the time, so that it can warm up
        let part = Seconds::new(time.seconds() / (items.len() + 1) as f64);
        let least = Effort { time: part, most: method.least_samples, allocations: 1 };
        for item in items {
            match self.take(&[*item], least) {
                Ok(taken) => {
                    able.push(*item);
                    alone.extend(taken);
                }
                Err(failure) => self.fail(&[*item], failure)?,
            }
        }
        // what a control finds broken is broken, whatever comes after
        let corrupt = |taken: &Sampled| match &taken.verdict {
            Verdict::Corrupt(how) => Some(Flag::new(FlagKind::Corrupt, how)),
            _ => None,
        };
        if able.len() < 2 {
            let mut all = able.iter().zip(&alone);
            return all.try_for_each(|(item, taken)| self.alone(*item, time, corrupt(taken).into_iter().collect()));
        }
        let effort = Effort::within(time, method, able.iter().map(|item| item.1));
        let taken = match self.take(&able, effort) {
            Ok(taken) => taken,
            Err(failure) => return self.apart(&able, time, failure),
        };
        let differing = (0..able.len()).find_map(|i| {
            let work = &able[i].1.work;
            let (alone, beside) = (alone.get(i)?.median(work)?, taken.get(i)?.median(work)?);
            differ(&alone, &beside, method.precision).then(|| {
                let change = (beside.value / alone.value - 1.0) * 100.0;
                format!("run at once they disturb each other: {} changed by {change:+.1} %", named(able[i].1))
            })
        });
        self.kinds.insert(able[0].1.kind(), differing.clone());
        match differing {
            None => {
                let flags: Vec<Vec<Flag>> = (0..able.len())
                    .map(|i| [beside(&able, i)].into_iter().chain(alone.get(i).and_then(corrupt)).collect())
                    .collect();
                self.report_measured(&able, &taken, &flags);
                Ok(())
            }
            Some(why) => {
                let time = Seconds::new(time.seconds() / able.len() as f64);
                able.iter().zip(&alone).try_for_each(|(item, control)| {
                    let flags = [Flag::new(FlagKind::Alone, &why)].into_iter().chain(corrupt(control)).collect();
                    self.alone(*item, time, flags)
                })
            }
        }
    }

    /// After steps failed together: which one it was.
    fn apart(&mut self, items: &[Item<'_>], time: Seconds, failure: Failure) -> Result<(), Failure> {
        if failure.fatal {
            return self.fail(items, failure);
        }
        self.one_by_one(items, time, &format!("together with others it failed: {failure}"))
    }

    fn take(&mut self, items: &[Item<'_>], effort: Effort) -> Result<Vec<Sampled>, Failure> {
        let steps: Vec<&Step> = items.iter().map(|item| item.1).collect();
        let taken = take(self.executor, &steps, &self.plan.method, effort);
        if let (Err(_), Some(counting)) = (&taken, &mut self.counting) {
            counting.known = false;
        }
        taken
    }

    /// Reports that steps have no value; returns a failure that ends the run.
    fn fail(&mut self, items: &[Item<'_>], failure: Failure) -> Result<(), Failure> {
        let cells = items.iter().flat_map(|(index, step)| cells::void(*index, step, &failure)).collect();
        (self.report)(Event::Cells(cells));
        if failure.fatal { Err(failure) } else { Ok(()) }
    }

    /// Reports what was measured, with the state of the GPUs that took part.
    fn report_measured(&mut self, items: &[Item<'_>], taken: &[Sampled], flags: &[Vec<Flag>]) {
        let now = self.executor.now().seconds();
        if now - self.looked >= LOOK_EVERY {
            self.states = self.executor.states();
            self.looked = now;
        }
        let mut all = Vec::new();
        for (((index, step), taken), flags) in items.iter().zip(taken).zip(flags) {
            let flags: Vec<Flag> = flags.iter().cloned().chain(self.conditions(step)).collect();
            let between_runs = |quantity| self.executor.between_runs(&step.work, quantity);
            let registration = self.executor.registration();
            let cells = cells::cells(*index, step, taken, &self.plan.method, &flags, &between_runs);
            all.extend(cells.into_iter().map(|cell| Cell { registration, ..cell }));
        }
        (self.report)(Event::Cells(all));
    }

    /// What the GPUs of a step were under when last looked at.
    fn conditions(&self, step: &Step) -> Vec<Flag> {
        let gpus = step.work.gpus();
        let mut flags = Vec::new();
        for state in self.states.iter().filter(|state| gpus.contains(&state.gpu.as_str())) {
            if !state.clock_event_reasons.is_empty() {
                let detail = format!("{} held its clocks down: {}", state.gpu, state.clock_event_reasons.join(", "));
                flags.push(Flag::new(FlagKind::Clocks, detail));
            }
            if let Some(others) = state.processes.filter(|n| *n > 0) {
                let programs =
                    if others == 1 { "another program".to_owned() } else { format!("{others} other programs") };
                flags.push(Flag::new(FlagKind::Busy, format!("{programs} used {}", state.gpu)));
            }
        }
        flags
    }
}

/// Whether two measurements of one thing differ by more than their intervals and what matters.
fn differ(alone: &Median, beside: &Median, precision: f64) -> bool {
    let half = |m: &Median| m.relative_width() * m.value.abs();
    (alone.value - beside.value).abs() > precision * alone.value.abs() + half(alone) + half(beside)
}

/// Which steps ran at the same time.
fn beside(items: &[Item<'_>], which: usize) -> Flag {
    let others: Vec<String> =
        items.iter().enumerate().filter(|(i, _)| *i != which).map(|(_, (_, step))| named(step)).collect();
    let more = others.len().saturating_sub(NAMED);
    let mut detail = format!("at the same time as {}", others[..others.len() - more].join(", "));
    if more > 0 {
        detail += &format!(" and {more} more");
    }
    Flag::new(FlagKind::Beside, detail)
}

/// A step by its ends.
fn named(step: &Step) -> String {
    match &step.work {
        Work::Transfers(transfers) => match transfers.as_slice() {
            [one] => one.to_string(),
            [one, back] if *back == one.reversed() => format!("{} ↔ {}", one.source, one.destination),
            many => format!("{} transfers", many.len()),
        },
        _ => step.work.gpus().join(", "),
    }
}

#[cfg(test)]
mod tests;
