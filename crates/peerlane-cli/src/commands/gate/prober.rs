//! Measures for the gate: a worker that answers one plan after another, and never beyond a moment.

use std::time::{Duration, Instant};

use peerlane::gate::{Observed, Prober};
use peerlane::plan::{Method, Plan};
use peerlane::run::{Cell, Conditions, Event, FlagKind, Limits};
use peerlane::units::Seconds;
use peerlane_gpu::Tolerated;
use peerlane_gpu::session::Event as Received;

use crate::measuring::process::{self, Worker};
use crate::measuring::protocol::{Device, Message, Refused, Request};
use crate::measuring::retries::{Accident, Remaining};

/// Silence after which a step counts as hung, which is later than the worker's own report.
const STEP: Duration = Duration::from_millis(2500);

/// Silence from which on a driver hangs that opens its GPUs; slow ones initialise eight idle GPUs in as long.
pub(super) const HUNG: Duration = Duration::from_secs(5);

/// How long a killed worker may take to end: the driver frees memory meanwhile.
const DYING: Duration = Duration::from_secs(4);

/// How often a worker that ends while it opens the machine is tried.
const OPENINGS: usize = 2;

/// Why measuring ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It may not, or need not, be measured.
    NotJudged(String),
    /// The driver does not answer, or takes its process down.
    Broken(String),
    /// The time is over.
    OutOfTime,
}

/// Measures until a moment.
pub(super) struct Probe<'a> {
    device: Device,
    limits: Limits<'a>,
    until: Instant,
    worker: Option<Worker>,
    starts: usize,
    /// Since when the machine has been open.
    opened: bool,
    left_behind: Vec<u32>,
    /// What is known about the machine since it was opened.
    pub(super) conditions: Option<Conditions>,
    /// What happened to workers.
    pub(super) notes: Vec<String>,
    observed: Observed,
}

/// How a worker's answer to a plan ended.
enum End {
    Answered,
    Stopped(Stop),
    Accident(FlagKind, String),
}

impl<'a> Probe<'a> {
    /// Until this moment.
    pub(super) fn new(device: Device, limits: Limits<'a>, until: Instant) -> Self {
        Probe {
            device,
            limits,
            until,
            worker: None,
            starts: 0,
            opened: false,
            left_behind: Vec::new(),
            conditions: None,
            notes: Vec::new(),
            observed: Observed::default(),
        }
    }

    fn time(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Lets a worker answer what is left of a plan.
    fn send(&mut self, remaining: &Remaining, fresh: bool) -> Result<(), Stop> {
        let unreachable = |error| Stop::NotJudged(format!("cannot reach the measuring process: {error}"));
        if let (Some(worker), true) = (&mut self.worker, fresh) {
            return worker.send(remaining.plan()).map_err(unreachable);
        }
        self.starts += 1;
        let tolerated = Tolerated { others: false, ours_before: self.opened, left_behind: self.left_behind.clone() };
        let (device, plan, done) = (self.device.clone(), remaining.plan().clone(), remaining.done().clone());
        let request =
            Request { device, plan, done, tolerated, trial: None, more: true, yields: true, counts_once: true };
        self.worker = Some(process::start(&request).map_err(unreachable)?);
        Ok(())
    }

    /// Listens to the worker until the plan is answered, or it cannot be.
    fn receive(&mut self, remaining: &mut Remaining, cells: &mut Vec<Cell>, round: &mut Option<usize>) -> End {
        loop {
            let left = self.time();
            let Some(worker) = &mut self.worker else { return End::Stopped(Stop::OutOfTime) };
            let most = worker.silence() + left;
            let patience = if self.opened { STEP.min(most) } else { most };
            match worker.next_unless(patience, &mut || left.is_zero()) {
                Some(Received::Message(message)) => {
                    if let Some(end) = self.take(message, remaining, cells, round) {
                        return end;
                    }
                }
                Some(Received::Lost(why)) => return End::Accident(FlagKind::Failed, why),
                Some(Received::Silent(silence)) if self.opened && silence >= STEP => {
                    return End::Accident(FlagKind::Hung, process::no_sign_of_life(silence));
                }
                Some(Received::Silent(_)) => {}
                None => return End::Stopped(self.out_of_time()),
            }
        }
    }

    /// Handles a message; returns how the plan ended if it is the last.
    fn take(
        &mut self,
        message: Message,
        remaining: &mut Remaining,
        cells: &mut Vec<Cell>,
        round: &mut Option<usize>,
    ) -> Option<End> {
        match message {
            Message::Conditions(conditions) => {
                self.opened = true;
                self.conditions = Some(*conditions);
            }
            Message::Refused(Refused { reason, .. }) => {
                let reason = reason.split("; use --force").next().unwrap_or_default().to_owned();
                return Some(End::Stopped(Stop::NotJudged(reason)));
            }
            Message::Corrupted { kind, message } => return Some(End::Accident(kind, message)),
            Message::Event(Event::Started(at)) => *round = Some(at),
            Message::Event(Event::Cells(mut new)) => {
                self.limits.flag(&mut new);
                remaining.answered(&new);
                cells.extend(new);
            }
            Message::Event(Event::States(states)) => {
                let before = &mut self.observed.before;
                *(if before.is_empty() { before } else { &mut self.observed.after }) = states;
            }
            Message::Event(Event::Counted(counted)) => self.observed.counted = Some(*counted),
            Message::Event(Event::Finished(_)) => return Some(End::Answered),
            Message::Alive => {}
        }
        None
    }

    /// What it means that the time is over.
    fn out_of_time(&self) -> Stop {
        let silent = self.worker.as_ref().map_or(Duration::ZERO, Worker::silence);
        match (self.opened, silent >= HUNG) {
            (true, _) => Stop::OutOfTime,
            (false, true) => {
                Stop::Broken(format!("driver: opening the GPUs has not ended in {:.0} s", silent.as_secs_f64()))
            }
            (false, false) => Stop::NotJudged(format!("the GPUs were not open within {:.1} s", silent.as_secs_f64())),
        }
    }

    /// Kills the worker; false if it cannot be killed, as inside a driver call that never returns.
    fn stop(&mut self) -> bool {
        let patience = DYING.min(self.time());
        let Some(worker) = self.worker.take() else { return true };
        if worker.kill_within(patience) {
            return true;
        }
        self.left_behind.push(worker.id());
        patience < DYING
    }
}

impl Prober for Probe<'_> {
    type Stop = Stop;

    fn ask(&mut self, plan: &Plan) -> Result<Vec<Cell>, Stop> {
        if self.time().is_zero() {
            return Err(Stop::OutOfTime);
        }
        let mut remaining = Remaining::new(plan.clone(), std::collections::BTreeSet::new());
        let mut cells = Vec::new();
        let mut fresh = true;
        while !remaining.is_complete() {
            self.send(&remaining, fresh)?;
            fresh = false;
            let mut round = None;
            match self.receive(&mut remaining, &mut cells, &mut round) {
                // steps that are left had no time
                End::Answered => break,
                End::Stopped(Stop::OutOfTime) if !cells.is_empty() => {
                    self.stop();
                    break;
                }
                End::Stopped(stop) => {
                    self.stop();
                    return Err(stop);
                }
                End::Accident(kind, why) => {
                    self.notes.push(why.clone());
                    if !self.stop() {
                        return Err(Stop::Broken(format!("driver: a process in it cannot be killed ({why})")));
                    }
                    if !self.opened && self.starts >= OPENINGS {
                        return Err(Stop::Broken(format!("driver: opening the GPUs fails: {why}")));
                    }
                    cells.extend(remaining.accident(Accident { round, kind, why, cells: Vec::new() }));
                }
            }
        }
        Ok(cells)
    }

    fn observed(&mut self) -> Observed {
        // a worker that was killed takes what it counted with it
        if self.worker.is_some() && !self.time().is_zero() {
            let nothing = Plan { method: Method::default(), rounds: Vec::new(), skipped: Vec::new() };
            let mut remaining = Remaining::new(nothing, std::collections::BTreeSet::new());
            let ended = self.send(&remaining, true).map(|()| self.receive(&mut remaining, &mut Vec::new(), &mut None));
            if !matches!(ended, Ok(End::Answered)) {
                self.notes.push("counters of errors could not be read in time".to_owned());
                self.stop();
            }
        }
        std::mem::take(&mut self.observed)
    }

    fn left(&mut self) -> Seconds {
        Seconds::new(self.time().as_secs_f64())
    }
}
