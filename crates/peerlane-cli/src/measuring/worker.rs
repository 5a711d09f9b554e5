//! The process that touches the machine: it answers one request, and ends with the process that sent it.

use std::cell::RefCell;
use std::io::{self, BufRead, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use peerlane::measure::{self, Event, Executor, Failure as Failed, Sample, Verdict};
use peerlane::plan::{Method, Step};
use peerlane::run::{Conditions, GpuState};
use peerlane::units::{Bytes, Seconds};

use super::protocol::{Device, Message, Refused, Request};
use crate::{Failure, Outcome};

/// The least time between two signs of life, so that they cost nothing.
const PULSE: Duration = Duration::from_millis(50);

/// Something to measure with, and what is known of it.
struct Opened {
    executor: Box<dyn Executor>,
    conditions: Conditions,
}

/// Opens the machine that a request names.
fn open(request: &Request) -> Result<Opened, Refused> {
    let what = match &request.device {
        Device::Virtual { name, .. } => name,
        Device::Live { .. } => "live GPUs",
    };
    Err(Refused { gpu: None, reason: format!("this build of peerlane does not measure {what}") })
}

/// Reads a request from stdin and answers it, a message a line.
pub(crate) fn run(out: &mut dyn Write) -> Result<Outcome, Failure> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let request: Request = serde_json::from_str(&line)
        .map_err(|e| Failure::new(format!("'answer' is for peerlane itself, which sends it a request: {e}")))?;
    thread::spawn(end_with_parent);
    let mouth = Mouth(RefCell::new(out));
    let opened = match open(&request) {
        Ok(opened) => opened,
        Err(refused) => {
            mouth.say(&Message::Refused(refused));
            return Ok(Outcome::default());
        }
    };
    mouth.say(&Message::Opened(Box::new(opened.conditions)));
    let mut executor = Pulsing { executor: opened.executor, mouth: &mouth, last: Instant::now() };
    let mut tell = |event: Event| mouth.say(&Message::Event(event));
    if let Err(failed) = measure::answer(&request.plan, &mut executor, &request.done, &mut tell) {
        mouth.say(&Message::Spoilt { kind: failed.kind, message: failed.message });
    }
    Ok(Outcome::default())
}

/// The parent keeps stdin open as long as it lives. Without it, nobody wants an answer.
fn end_with_parent() {
    let mut rest = [0; 64];
    while matches!(io::stdin().lock().read(&mut rest), Ok(n) if n > 0) {}
    leave();
}

/// Ends at once: a driver's own clean-up at exit may hang where another thread is inside it.
fn leave() -> ! {
    signal_hook::low_level::exit(2)
}

/// Where messages go.
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

/// An executor that gives a sign of life whenever a call has come back.
struct Pulsing<'a> {
    executor: Box<dyn Executor>,
    mouth: &'a Mouth<'a>,
    last: Instant,
}

impl Pulsing<'_> {
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
        let prepared = self.executor.prepare(steps, method, allocation);
        self.alive(prepared)
    }

    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Failed> {
        let sampled = self.executor.sample(n);
        self.alive(sampled)
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Failed> {
        let verified = self.executor.verify();
        self.alive(verified)
    }

    fn release(&mut self) {
        self.executor.release();
        self.alive(());
    }

    fn states(&mut self) -> Vec<GpuState> {
        let states = self.executor.states();
        self.alive(states)
    }

    fn now(&mut self) -> Seconds {
        self.executor.now()
    }
}
