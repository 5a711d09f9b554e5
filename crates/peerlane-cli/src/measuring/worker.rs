//! The process that calls the driver: it runs one request, and ends with the process that sent it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufWriter, Write};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use peerlane::catalogue::{self, Parts};
use peerlane::matrix::Quantity;
use peerlane::measure::{self, Executor, Failure as Failed, Sample, Verdict};
use peerlane::plan::{Method, Plan, Step, Work};
use peerlane::run::{Conditions, Event, FlagKind, GpuState, Reading};
use peerlane::simulated_machine::SimulatedMachine;
use peerlane::transfer::Registration;
use peerlane::units::{Bytes, Seconds};

use peerlane_gpu::{Live, OpenError};
use peerlane_net::LocalNics;
use peerlane_net::gpu_memory::Gpus;

use super::protocol::{AHEAD, Device, Message, Refused, Request};
use crate::{Failure, Outcome};

/// The least time between two signs of life, so that they cost little.
const PULSE: Duration = Duration::from_millis(50);

/// A machine that is open.
trait Machine: Executor {
    /// What is known about it so far.
    fn conditions(&self) -> Conditions;
}

impl Machine for SimulatedMachine<'_> {
    fn conditions(&self) -> Conditions {
        Conditions::default()
    }
}

/// This machine: its GPUs, where the plan needs them, and its NICs.
struct Here {
    live: Option<Live>,
    nics: LocalNics,
    /// Whether what is prepared is the NICs'.
    on_nics: bool,
    began: Instant,
}

impl Here {
    /// What has the prepared steps.
    fn now_at(&mut self) -> Result<&mut dyn Executor, Failed> {
        match &mut self.live {
            _ if self.on_nics => Ok(&mut self.nics),
            Some(live) => Ok(live),
            None => Err(Failed::new(FlagKind::NotApplicable, "no GPU was opened")),
        }
    }
}

impl Machine for Here {
    fn conditions(&self) -> Conditions {
        let mut conditions = self.live.as_ref().map(Live::conditions).unwrap_or_default();
        conditions.notes.extend(self.nics.notes().iter().cloned());
        conditions
    }
}

impl Executor for Here {
    fn prepare(&mut self, steps: &[&Step], method: &Method, allocation: usize) -> Result<Vec<Bytes>, Failed> {
        self.release();
        self.on_nics = steps.iter().all(|step| matches!(step.work, Work::Rdma(_)));
        if self.on_nics {
            let gpus = self.live.as_mut().map(|live| live as &mut dyn Gpus);
            return self.nics.prepare_with(gpus, steps, method);
        }
        self.now_at()?.prepare(steps, method, allocation)
    }

    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Failed> {
        self.now_at()?.sample(n)
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Failed> {
        self.now_at()?.verify()
    }

    fn release(&mut self) {
        self.nics.release();
        if let Some(live) = &mut self.live {
            live.release();
        }
    }

    fn states(&mut self) -> Vec<GpuState> {
        self.live.as_mut().map(Executor::states).unwrap_or_default()
    }

    fn counters(&mut self) -> Reading {
        self.live.as_mut().map(Executor::counters).unwrap_or_default()
    }

    fn now(&mut self) -> Seconds {
        Seconds::new(self.began.elapsed().as_secs_f64())
    }

    fn runs_while_preparing(&self) -> bool {
        !self.on_nics && self.live.as_ref().is_some_and(Executor::runs_while_preparing)
    }

    fn registration(&self) -> Option<Registration> {
        if self.on_nics { self.nics.registration() } else { None }
    }

    fn between_runs(&self, work: &Work, quantity: Quantity) -> f64 {
        self.live.as_ref().map_or(0.0, |live| live.between_runs(work, quantity))
    }
}

/// Opens the machine that a request names.
fn open(request: &Request) -> Result<Box<dyn Machine>, Refused> {
    match &request.device {
        Device::Virtual { name, system } => {
            let design = catalogue::read_design(system, name).map_err(|e| Refused::whole(e.to_string()))?;
            let machine = SimulatedMachine::new(&design.machine, Parts::embedded(), &design.planted);
            let machine = machine.taking_over(request.done.len());
            Ok(Box::new(match request.trial.clone() {
                Some(trial) => machine.with_nccl(trial.variables, trial.repetition),
                None => machine,
            }))
        }
        Device::Live { gpus, nics } => {
            let refused = |OpenError { gpus, kind, reason }| Refused { gpus, kind, reason };
            // a machine without a GPU has NICs, too
            let mut steps = request.plan.steps().peekable();
            let asked = steps.peek().is_some();
            let by_nics = asked
                && !request.more
                && steps.all(|step| matches!(step.work, Work::Rdma(_)) && step.work.gpus().is_empty());
            let live = if by_nics { None } else { Some(Live::open(gpus, &request.tolerated).map_err(refused)?) };
            Ok(Box::new(Here { live, nics: LocalNics::new(nics.clone()), on_nics: false, began: Instant::now() }))
        }
    }
}

/// Reads a request from stdin and runs it; writes one message per line.
pub(crate) fn run() -> Result<Outcome, Failure> {
    // before any library is opened, whose logs would be mistaken for messages
    let mut out = BufWriter::new(peerlane_gpu::take_output()?);
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    if serde_json::from_str::<&str>(&line).is_ok_and(|word| word == AHEAD) {
        peerlane_gpu::start_ahead();
        line.clear();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            leave();
        }
    }
    let request: Request = serde_json::from_str(&line).map_err(|e| {
        Failure::new(format!("'worker' is for internal use and expects a request on standard input: {e}"))
    })?;
    let (send, further) = mpsc::channel();
    thread::spawn(move || end_with_parent(&send));
    let mouth = Mouth(RefCell::new(&mut out));
    let machine = match open(&request) {
        Ok(machine) => machine,
        Err(refused) => {
            mouth.say(&Message::Refused(refused));
            return Ok(Outcome::default());
        }
    };
    mouth.say(&Message::Conditions(Box::new(machine.conditions())));
    let watch = request.yields.then(Watch::default);
    let mut machine = Pulsing { machine, mouth: &mouth, last: Instant::now(), watch, first: None };
    if request.counts_once {
        machine.first = Some(machine.counters());
    }
    let mut fit = run_plan(&request.plan, &mut machine, &request.done);
    while request.more && fit {
        let Ok(plan) = further.recv() else { break };
        fit = run_plan(&plan, &mut machine, &BTreeSet::new());
    }
    Ok(Outcome::default())
}

/// Runs one plan; false if the machine cannot be used any more.
fn run_plan(plan: &Plan, machine: &mut Pulsing<'_>, done: &BTreeSet<usize>) -> bool {
    let mouth = machine.mouth;
    if let Some(first) = machine.first.take_if(|_| plan.rounds.is_empty()) {
        let now = machine.counters();
        if !first.is_empty() && !now.is_empty() {
            mouth.say(&Message::Event(Event::Counted(Box::new(now.since(&first, Vec::new(), true)))));
        }
        machine.first = Some(first);
    }
    let mut finished = None;
    let mut tell = |event: Event| match event {
        Event::Finished(_) => finished = Some(event),
        event => mouth.say(&Message::Event(event)),
    };
    let answered = measure::execute(plan, machine, done, &mut tell);
    // some libraries are opened by the steps that need them
    mouth.say(&Message::Conditions(Box::new(machine.machine.conditions())));
    if let Some(event) = finished {
        mouth.say(&Message::Event(event));
    }
    let Err(failed) = answered else { return true };
    mouth.say(&Message::Corrupted { kind: failed.kind, message: failed.message });
    false
}

/// Ends this process when the parent closes stdin, which it keeps open as long as it lives; receives further plans.
fn end_with_parent(plans: &Sender<Plan>) {
    for line in io::stdin().lock().lines() {
        let Ok(plan) = line.map_err(|_| ()).and_then(|l| serde_json::from_str(&l).map_err(|_| ())) else { break };
        if plans.send(plan).is_err() {
            break;
        }
    }
    leave();
}

/// Ends at once: a driver's clean-up at exit may hang if another thread is inside the driver.
fn leave() -> ! {
    crate::system::end_now(2)
}

/// The output for messages.
struct Mouth<'a>(RefCell<&'a mut dyn Write>);

impl Mouth<'_> {
    fn say(&self, message: &Message) {
        let mut out = self.0.borrow_mut();
        let written = serde_json::to_writer(&mut **out, message)
            .map_err(io::Error::from)
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush());
        if written.is_err() {
            leave();
        }
    }
}

/// A machine that sends a sign of life whenever a call has returned.
struct Pulsing<'a> {
    machine: Box<dyn Machine>,
    mouth: &'a Mouth<'a>,
    last: Instant,
    /// Who uses the GPUs, where it matters.
    watch: Option<Watch>,
    /// What counters stood at before the first plan, where they are read once.
    first: Option<Reading>,
}

/// Looks now and then whether others use the GPUs.
#[derive(Default)]
struct Watch {
    looked: Option<Instant>,
    /// Processes at the first look, by GPU. Nobody else used the GPUs when they were opened; in a container whose process
    /// numbers are not the host's, this process is counted.
    first: Vec<u32>,
}

/// The least time between two looks, which take some milliseconds.
const LOOK: Duration = Duration::from_millis(100);

impl Watch {
    /// The GPUs that others use now.
    fn others(&mut self, states: impl FnOnce() -> Vec<GpuState>) -> Vec<String> {
        if self.looked.is_some_and(|last| last.elapsed() < LOOK) {
            return Vec::new();
        }
        let states = states();
        let now: Vec<u32> = states.iter().map(|state| state.processes.unwrap_or_default()).collect();
        if self.looked.replace(Instant::now()).is_none() {
            self.first = now.iter().map(|n| (*n).min(1)).collect();
        }
        let more = states.into_iter().zip(now).zip(&self.first).filter(|((_, now), first)| now > *first);
        more.map(|((state, _), _)| state.gpu).collect()
    }
}

impl Pulsing<'_> {
    /// Ends this process if others use the GPUs, and says so.
    fn give_way(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let others = watch.others(|| self.machine.states());
        if !others.is_empty() {
            let reason = format!("in use by other processes: {}", others.join(", "));
            self.mouth.say(&Message::Refused(Refused { gpus: Vec::new(), kind: FlagKind::Failed, reason }));
            leave();
        }
    }

    fn alive<T>(&mut self, result: T) -> T {
        if self.last.elapsed() >= PULSE {
            self.mouth.say(&Message::Alive);
            self.last = Instant::now();
        }
        result
    }
}

impl Executor for Pulsing<'_> {
    fn prepare(&mut self, steps: &[&Step], method: &Method, allocation: usize) -> Result<Vec<Bytes>, Failed> {
        self.give_way();
        let prepared = self.machine.prepare(steps, method, allocation);
        self.alive(prepared)
    }

    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Failed> {
        let sampled = self.machine.sample(n);
        self.alive(sampled)
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Failed> {
        let verified = self.machine.verify();
        self.alive(verified)
    }

    fn release(&mut self) {
        self.machine.release();
        self.alive(());
    }

    fn states(&mut self) -> Vec<GpuState> {
        let states = self.machine.states();
        self.alive(states)
    }

    fn counters(&mut self) -> Reading {
        let reading = if self.first.is_some() { Reading::default() } else { self.machine.counters() };
        self.alive(reading)
    }

    fn now(&mut self) -> Seconds {
        self.machine.now()
    }

    fn runs_while_preparing(&self) -> bool {
        self.machine.runs_while_preparing()
    }

    fn registration(&self) -> Option<Registration> {
        self.machine.registration()
    }

    fn between_runs(&self, work: &Work, quantity: Quantity) -> f64 {
        self.machine.between_runs(work, quantity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_begins_is_noticed_and_this_process_is_not() {
        let states = |processes: u32| vec![GpuState { processes: Some(processes), ..GpuState::default() }];
        let look = |watch: &mut Watch, processes| {
            watch.looked = watch.looked.map(|at| at - LOOK);
            watch.others(|| states(processes)).len()
        };
        let mut hidden = Watch::default();
        assert_eq!([1, 1, 2].map(|n| look(&mut hidden, n)), [0, 0, 1]);
        let mut usual = Watch::default();
        assert_eq!([0, 0, 1].map(|n| look(&mut usual, n)), [0, 0, 1]);
        assert_eq!(look(&mut Watch::default(), 2), 1);
        let mut recent = Watch::default();
        recent.others(|| states(0));
        assert_eq!(recent.others(|| states(9)).len(), 0, "not again so soon");
    }
}
