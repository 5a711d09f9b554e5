//! Runs a plan with one worker after another, until every step has a value or a reason why it has none.

use std::time::Instant;

use peerlane::run::{Cell, Conditions, Event, FlagKind, Limits, Phase, Run};
use peerlane::units::Seconds;

use peerlane_gpu::Tolerated;
use peerlane_gpu::session::Event as Received;

use super::interrupt::Interrupt;
use super::keeper::Keeper;
use super::process::{self, Worker};
use super::progress::{Progress, describe};
use super::protocol::{Device, Message, Refused, Request};
use super::retries::{Accident, Remaining};
use crate::redact::Redactor;

/// How a plan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Every step has a value or a reason why it has none.
    Complete,
    /// The user interrupted it.
    Interrupted,
    /// The time is used up, and some steps were not measured.
    OutOfTime,
    /// The machine cannot be measured at all, and why.
    Refused(String),
}

/// Supervises the measurement of a plan.
pub(crate) struct Supervisor<'a> {
    /// The machine to measure.
    device: Device,
    /// Whether to measure GPUs in use by others.
    force: bool,
    /// What no value of the machine can exceed.
    limits: Limits<'a>,
    /// The remaining steps.
    remaining: Remaining,
    /// The run so far.
    run: &'a mut Run,
    /// Its record on disk.
    keeper: &'a mut Keeper,
    /// The progress bar.
    progress: &'a mut Progress,
    /// Whether the user has interrupted it.
    interrupt: &'a Interrupt,
    /// Since when the machine has been open.
    opened: bool,
    /// A worker that was started before the request was known.
    ahead: Option<Worker>,
    /// Workers that could not be killed.
    left_behind: Vec<u32>,
    /// Replaces what identifies the machine.
    redactor: Option<Redactor>,
}

/// How a worker ended.
enum End {
    Finished,
    Interrupted,
    Refused(Refused),
    Accident(Accident),
}

/// The state of one worker.
#[derive(Default)]
struct Watch {
    /// The current round.
    round: Option<usize>,
    /// Steps that it has just reported as failed. They count once the worker shows that it can continue.
    held: Vec<Cell>,
    /// When the machine was opened.
    opened: Option<Instant>,
}

impl<'a> Supervisor<'a> {
    /// For a new run, or one that already has cells.
    pub(crate) fn new(
        device: Device,
        force: bool,
        limits: Limits<'a>,
        run: &'a mut Run,
        keeper: &'a mut Keeper,
        progress: &'a mut Progress,
        interrupt: &'a Interrupt,
    ) -> Self {
        let remaining = Remaining::new(run.plan.clone(), run.steps_done());
        Supervisor {
            device,
            force,
            limits,
            remaining,
            run,
            keeper,
            progress,
            interrupt,
            opened: false,
            ahead: None,
            left_behind: Vec::new(),
            redactor: None,
        }
    }

    /// Gives the first request to a worker that was started ahead.
    pub(crate) fn with(mut self, ahead: Option<Worker>) -> Self {
        self.ahead = ahead;
        self
    }

    /// Takes out of what workers report what identifies the machine.
    pub(crate) fn redacting(mut self, redactor: Option<Redactor>) -> Self {
        self.redactor = redactor;
        self
    }

    /// Runs the plan as far as possible.
    pub(crate) fn run(&mut self) -> Ending {
        let ending = self.workers();
        self.run.complete = self.remaining.is_complete();
        ending
    }

    fn workers(&mut self) -> Ending {
        while !self.remaining.is_complete() {
            let cells = match self.one_worker() {
                End::Interrupted => return Ending::Interrupted,
                End::Finished if self.remaining.is_complete() => Vec::new(),
                End::Finished => return Ending::OutOfTime,
                End::Refused(Refused { gpus, kind, reason })
                    if gpus.iter().any(|gpu| !self.remaining.lost().contains(gpu)) =>
                {
                    let are = if gpus.len() == 1 { "is" } else { "are" };
                    self.progress.say(&format!("{} {are} excluded: {reason}", gpus.join(", ")));
                    gpus.iter().flat_map(|gpu| self.remaining.lose(gpu, kind, &reason)).collect()
                }
                End::Refused(Refused { reason, .. }) if !self.opened => return Ending::Refused(reason),
                End::Refused(Refused { kind, reason, .. }) => {
                    self.progress.say(&reason);
                    self.remaining.abandon(kind, &reason)
                }
                End::Accident(accident) => {
                    self.progress.say(&accident.why);
                    let lost = self.remaining.lost().clone();
                    let cells = self.remaining.accident(accident);
                    for gpu in self.remaining.lost().difference(&lost) {
                        self.progress.say(&format!("{gpu} is excluded from here on"));
                    }
                    cells
                }
            };
            self.take(Event::Cells(cells));
        }
        Ending::Complete
    }

    /// The request for the next worker: the remaining steps and time.
    fn request(&self) -> Request {
        let mut plan = self.remaining.plan().clone();
        let left = self.remaining.steps() - self.remaining.done().len();
        let share = left as f64 / self.remaining.steps().max(1) as f64;
        plan.method.budget = Seconds::new(plan.method.budget.seconds() * share);
        let device = match &self.device {
            Device::Live { gpus, nics } => {
                let needed = self.remaining.needed();
                let gpus = gpus.iter().filter(|gpu| needed.contains(gpu.name.as_str())).cloned().collect();
                Device::Live { gpus, nics: nics.clone() }
            }
            device => device.clone(),
        };
        let tolerated =
            Tolerated { others: self.force, ours_before: self.opened, left_behind: self.left_behind.clone() };
        Request {
            device,
            plan,
            done: self.remaining.done().clone(),
            tolerated,
            trial: None,
            more: false,
            yields: false,
            counts_once: false,
        }
    }

    /// Runs one worker to its end.
    fn one_worker(&mut self) -> End {
        let request = self.request();
        let started = match self.ahead.take() {
            Some(mut worker) => worker.send(&request).map(|()| worker),
            None => process::start(&request),
        };
        let mut worker = match started {
            Ok(worker) => worker,
            Err(error) => {
                let reason = format!("cannot start the measuring process: {error}");
                return End::Refused(Refused::whole(reason));
            }
        };
        let mut watch = Watch::default();
        let end = self.watch(&mut worker, &mut watch);
        if matches!(end, End::Finished) {
            // in order, so that libraries clean up after themselves
            worker.finish();
        }
        self.kill(&mut worker);
        if matches!(end, End::Finished | End::Refused(_)) {
            return end;
        }
        let round = watch.round;
        // messages sent before its end still count
        while let Some(message) = worker.left() {
            self.receive(message, &mut watch);
        }
        self.accept(&mut watch);
        let own = watch.opened.map_or(0.0, |opened| opened.elapsed().as_secs_f64());
        self.run.wall = Seconds::new(self.run.wall.seconds() + own);
        match end {
            // a round that began meanwhile is not the one that hung
            End::Accident(accident) if watch.round != round => End::Accident(Accident { round: None, ..accident }),
            end => end,
        }
    }

    /// Listens to a worker until it ends or must be killed.
    fn watch(&mut self, worker: &mut Worker, watch: &mut Watch) -> End {
        loop {
            let patience = process::patience(self.run.plan.method.patience, watch.opened.is_some());
            let mut interrupted = || {
                self.keeper.tick(self.run, self.progress);
                self.progress.draw();
                self.interrupt.asked()
            };
            let (kind, why) = match worker.next_unless(patience, &mut interrupted) {
                None => return End::Interrupted,
                Some(Received::Message(message)) => match self.receive(message, watch) {
                    Some(end) => return end,
                    None => continue,
                },
                Some(Received::Lost(why)) => (FlagKind::Failed, why),
                Some(Received::Silent(silence)) => (FlagKind::Hung, process::no_sign_of_life(silence)),
            };
            self.accept(watch);
            let why = format!("{why}{}", self.during(watch));
            return self.ended(kind, why, watch);
        }
    }

    /// Classifies a worker's end: a machine that was never open cannot be measured.
    fn ended(&self, kind: FlagKind, why: String, watch: &mut Watch) -> End {
        if self.opened {
            accident(kind, why, watch)
        } else {
            End::Refused(Refused::whole(format!("the machine cannot be opened: {why}")))
        }
    }

    /// ` during pairs GPU0→GPU1, copy engine writes`
    fn during(&self, watch: &Watch) -> String {
        let open = watch.round.map(|round| self.remaining.open(round)).unwrap_or_default();
        match open.as_slice() {
            [] => String::new(),
            [(_, first)] => format!(" during {}", describe(first)),
            [(_, first), others @ ..] => format!(" during {} and {} more concurrently", describe(first), others.len()),
        }
    }

    /// Handles a message; returns the worker's end if it is the last.
    fn receive(&mut self, message: Message, watch: &mut Watch) -> Option<End> {
        if !matches!(message, Message::Conditions(_) | Message::Corrupted { .. }) {
            self.accept(watch);
        }
        match message {
            Message::Conditions(conditions) => {
                watch.opened.get_or_insert_with(Instant::now);
                self.open(*conditions);
            }
            Message::Refused(refused) => return Some(End::Refused(refused)),
            Message::Alive => {}
            Message::Corrupted { kind, message } => {
                let why = format!("{message}{}", self.during(watch));
                return Some(accident(kind, why, watch));
            }
            Message::Event(Event::Started(round)) => {
                watch.round = Some(round);
                let steps = self.remaining.open(round);
                let steps: Vec<_> = steps.into_iter().map(|(_, step)| step).collect();
                self.progress.round(&steps, self.remaining.done().len());
            }
            Message::Event(Event::Cells(cells)) => {
                let doubtful =
                    |cell: &Cell| cell.flags.iter().any(|f| matches!(f.kind, FlagKind::Failed | FlagKind::Hung));
                let (held, sure): (Vec<Cell>, Vec<Cell>) = cells.into_iter().partition(doubtful);
                watch.held = held;
                self.remaining.answered(&sure);
                self.take(Event::Cells(sure));
            }
            Message::Event(Event::States(states)) => self.take(Event::States(states)),
            Message::Event(Event::Counted(counted)) => self.take(Event::Counted(counted)),
            Message::Event(Event::Finished(wall)) => {
                let all = Seconds::new(self.run.wall.seconds() + wall.seconds());
                self.take(Event::Finished(all));
                return Some(End::Finished);
            }
        }
        None
    }

    /// The first worker's conditions are the run's; later ones add what they know.
    fn open(&mut self, mut conditions: Conditions) {
        if let Some(redactor) = &mut self.redactor {
            redactor.serialised(&mut conditions);
        }
        join(&mut self.run.conditions, conditions);
        if !self.opened {
            self.opened = true;
            self.keeper.start(self.run, self.progress);
        }
    }

    /// The worker continues, so its report on failed steps is final.
    fn accept(&mut self, watch: &mut Watch) {
        let cells = std::mem::take(&mut watch.held);
        self.remaining.answered(&cells);
        self.take(Event::Cells(cells));
    }

    /// Records an event.
    fn take(&mut self, mut event: Event) {
        if let Event::Cells(cells) = &mut event {
            if cells.is_empty() {
                return;
            }
            self.limits.flag(cells);
        }
        if let Some(redactor) = &mut self.redactor {
            redactor.serialised(&mut event);
        }
        self.keeper.append(&event, self.progress);
        self.run.apply(event);
        self.progress.done(self.remaining.done().len());
    }

    fn kill(&mut self, worker: &mut Worker) {
        if !worker.kill() {
            let id = worker.id();
            self.left_behind.push(id);
            self.progress.say(&format!(
                "the measuring process {id} cannot be killed, probably because of a hung driver call; it is abandoned"
            ));
        }
    }
}

/// Adds what was unknown.
fn join(known: &mut Conditions, new: Conditions) {
    let Conditions { host, kernel, driver, cuda, nccl, libraries, initialisation, startup, notes, .. } = new;
    let first = |known: &mut Option<String>, new: Option<String>| *known = known.take().or(new);
    first(&mut known.host, host);
    first(&mut known.kernel, kernel);
    first(&mut known.driver, driver);
    first(&mut known.cuda, cuda);
    first(&mut known.nccl, nccl);
    // those of later workers are no start of the run
    if known.initialisation.is_none() {
        known.startup.extend(startup.into_iter().map(since_start));
        known.startup.sort_by(|a, b| a.began.seconds().total_cmp(&b.began.seconds()));
    }
    known.initialisation = known.initialisation.or(initialisation);
    for (known, new) in [(&mut known.libraries, libraries), (&mut known.notes, notes)] {
        for line in new {
            if !known.contains(&line) {
                known.push(line);
            }
        }
    }
}

/// A part of the start in seconds from the start of this program.
pub(crate) fn since_start(phase: Phase) -> Phase {
    let zero = crate::began();
    let since = |at: Seconds| Seconds::new((at.seconds() - zero).max(0.0));
    Phase { began: since(phase.began), ended: since(phase.ended), ..phase }
}

/// The end of a worker in the current round, with its last report.
fn accident(kind: FlagKind, why: String, watch: &mut Watch) -> End {
    End::Accident(Accident { round: watch.round, kind, why, cells: std::mem::take(&mut watch.held) })
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use peerlane::plan::{Size, Step, Test, Work};
    use peerlane::transfer::Transfer;
    use peerlane::units::Bytes;
    use peerlane_gpu::GpuName;

    fn run_of(pairs: &[(&str, &str)]) -> Run {
        let step = |(from, to): &(&str, &str)| Step {
            test: Test::Pairs,
            work: Work::Transfers(vec![Transfer::new(*from, *to)]),
            size: Size::UpTo(Bytes(8)),
        };
        let rounds = pairs.iter().map(|pair| vec![step(pair)]).collect();
        testing::run_of(rounds)
    }

    #[test]
    fn a_worker_opens_only_the_remaining_gpus() {
        let gpu =
            |i: usize| GpuName { name: format!("GPU{i}"), address: format!("0000:0{}:00.0", i + 1).parse().unwrap() };
        let device = Device::Live { gpus: (0..6).map(gpu).collect(), nics: std::collections::BTreeMap::new() };
        let mut run = run_of(&[("GPU0", "GPU1"), ("GPU2", "GPU3"), ("GPU2", "host")]);
        let machine = peerlane::machine::Machine::default();
        let mut progress = Progress::new(false, &run);
        let (mut keeper, interrupt) = (Keeper::none(), Interrupt::default());
        let mut supervisor =
            Supervisor::new(device, false, Limits::of(&machine), &mut run, &mut keeper, &mut progress, &interrupt);
        let named = |request: &Request| -> Vec<String> {
            let Device::Live { gpus, .. } = &request.device else { panic!("{request:?}") };
            gpus.iter().map(|gpu| gpu.name.clone()).collect()
        };
        let first = supervisor.request();
        assert_eq!(named(&first), ["GPU0", "GPU1", "GPU2", "GPU3"]);
        assert_eq!(first.tolerated, Tolerated::default());

        let mut watch = Watch::default();
        assert!(supervisor.receive(Message::Conditions(Box::default()), &mut watch).is_none());
        supervisor.left_behind.push(4711);
        let cells = supervisor.remaining.lose("GPU3", FlagKind::NotApplicable, "it is hidden");
        supervisor.take(Event::Cells(cells));
        let next = supervisor.request();
        assert_eq!(named(&next), ["GPU0", "GPU1", "GPU2"]);
        assert_eq!(next.tolerated, Tolerated { others: false, ours_before: true, left_behind: vec![4711] });
    }
}
