//! One worker that runs one small plan after another, so that each can depend on the result of the last.

use std::collections::BTreeSet;

use peerlane::measure::{Failure as Failed, void};
use peerlane::plan::{Plan, Step};
use peerlane::run::{Cell, Conditions, Event, FlagKind, Limits};

use peerlane_gpu::Tolerated;
use peerlane_gpu::session::Event as Received;

use super::interrupt::Interrupt;
use super::process::{self, Worker};
use super::protocol::{Device, Message, Request, Trial};
use crate::Failure;

/// Limit of restarted workers, after which the experiment is given up.
const MOST_RESTARTS: usize = 3;

/// Measures small plans on a machine.
pub(crate) struct Prober<'a> {
    device: Device,
    force: bool,
    limits: Limits<'a>,
    trial: Option<Trial>,
    worker: Option<Worker>,
    starts: usize,
    /// Workers that could not be killed.
    left_behind: Vec<u32>,
    interrupt: &'a Interrupt,
    /// What is known about the machine since it was opened.
    pub(crate) conditions: Option<Conditions>,
}

/// How a plan ended.
enum End {
    Answered(Vec<Cell>),
    Lost(FlagKind, String),
}

impl<'a> Prober<'a> {
    /// Measures on a machine that is opened with the first plan; uses GPUs in use by others only with `force`.
    pub(crate) fn new(device: Device, force: bool, limits: Limits<'a>, interrupt: &'a Interrupt) -> Self {
        Prober {
            device,
            force,
            limits,
            trial: None,
            worker: None,
            starts: 0,
            left_behind: Vec::new(),
            interrupt,
            conditions: None,
        }
    }

    /// Runs the next plans in a new process with these variables of NCCL.
    pub(crate) fn restart(&mut self, trial: Trial) {
        self.stop();
        self.starts = 0;
        self.trial = Some(trial);
    }

    /// The cells of a plan. If the worker hangs or dies they are void, and the next plan gets a new worker.
    pub(crate) fn measure(&mut self, plan: &Plan) -> Result<Vec<Cell>, Failure> {
        let open = self.worker.is_some();
        let sent = match &mut self.worker {
            Some(worker) => worker.send(plan),
            None => self.start(plan),
        };
        sent.map_err(|e| Failure::new(format!("cannot reach the measuring process: {e}")))?;
        match self.receive(plan, open)? {
            End::Answered(mut cells) => {
                self.limits.flag(&mut cells);
                Ok(cells)
            }
            End::Lost(kind, why) => {
                self.stop();
                if self.starts > MOST_RESTARTS {
                    return Err(Failure::new(format!("given up after {MOST_RESTARTS} restarts: {why}")));
                }
                crate::console::say(&why);
                let failed = Failed { kind, message: why, fatal: false };
                let cells = |(at, step): (usize, &Step)| void(at, step, &failed);
                Ok(plan.steps().enumerate().flat_map(cells).collect())
            }
        }
    }

    fn start(&mut self, plan: &Plan) -> std::io::Result<()> {
        self.starts += 1;
        let (device, plan) = (self.device.clone(), plan.clone());
        let tolerated = Tolerated {
            others: self.force,
            ours_before: self.conditions.is_some(),
            left_behind: self.left_behind.clone(),
        };
        let request = Request {
            device,
            plan,
            done: BTreeSet::new(),
            tolerated,
            trial: self.trial.clone(),
            more: true,
            yields: false,
            counts_once: false,
        };
        self.worker = Some(process::start(&request)?);
        Ok(())
    }

    /// Listens to the worker until a plan is done. The machine is `open` already, or opened first.
    fn receive(&mut self, plan: &Plan, mut open: bool) -> Result<End, Failure> {
        let mut cells = Vec::new();
        loop {
            let Some(worker) = &mut self.worker else { return Err(Failure::new("there is no measuring process")) };
            let patience = process::patience(plan.method.patience, open);
            match worker.next_unless(patience, &mut || self.interrupt.asked()) {
                None => {
                    self.stop();
                    return Err(Failure::new("interrupted; a partial experiment gives no result"));
                }
                Some(Received::Message(message)) => match message {
                    Message::Conditions(conditions) => {
                        open = true;
                        self.conditions = Some(*conditions);
                    }
                    Message::Refused(refused) => return Err(Failure::new(refused.reason)),
                    Message::Corrupted { kind, message } => return Ok(End::Lost(kind, message)),
                    Message::Event(Event::Cells(new)) => cells.extend(new),
                    Message::Event(Event::Finished(_)) => return Ok(End::Answered(cells)),
                    Message::Alive | Message::Event(_) => {}
                },
                Some(Received::Lost(why)) => return Ok(End::Lost(FlagKind::Failed, why)),
                Some(Received::Silent(silence)) => {
                    return Ok(End::Lost(FlagKind::Hung, process::no_sign_of_life(silence)));
                }
            }
        }
    }

    /// Kills the worker, if there is one.
    fn stop(&mut self) {
        if let Some(worker) = self.worker.take()
            && !worker.kill()
        {
            self.left_behind.push(worker.id());
            crate::console::say(&format!("the measuring process {} cannot be killed and is abandoned", worker.id()));
        }
    }
}

impl Drop for Prober<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}
