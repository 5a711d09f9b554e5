//! The progress of a run: the step that is measured, and how long the others will take.

use std::time::Instant;

use peerlane::matrix::{Engine, Operation};
use peerlane::plan::{Size, Step, Work};
use peerlane::run::{Run, ends};
use peerlane::transfer::{Transfer, Via};

use crate::progress::Bar;

/// How far a run is.
pub(crate) struct Progress {
    began: Instant,
    bar: Option<Bar>,
    all: usize,
    done: usize,
    /// Steps done by earlier processes, which do not count for the estimate.
    before: usize,
    now: String,
}

impl Progress {
    /// For a run that may have begun; `shown`: whether a bar may be drawn.
    pub(crate) fn new(shown: bool, run: &Run) -> Self {
        let all = run.plan.steps().count();
        let done = run.steps_done().len();
        let bar = Some(Bar::new(shown, Some(all), "[{bar:24}] {pos}/{len} {wide_msg}"));
        Progress { began: Instant::now(), bar, all, done, before: done, now: String::new() }
    }

    /// A round of concurrent steps begins.
    pub(crate) fn round(&mut self, steps: &[&Step], done: usize) {
        self.now = match steps {
            [] => return,
            [only] => describe(only),
            [first, others @ ..] => format!("{} and {} more concurrently", describe(first), others.len()),
        };
        self.done(done);
    }

    /// Sets the number of steps that are done.
    pub(crate) fn done(&mut self, done: usize) {
        self.done = done;
        self.draw();
    }

    /// Brings the time that is left up to date; to be called often.
    pub(crate) fn draw(&self) {
        let Some(bar) = &self.bar else { return };
        let here = self.done - self.before.min(self.done);
        let left = self.all.saturating_sub(self.done);
        let message = match here {
            0 => self.now.clone(),
            _ => {
                let seconds = self.began.elapsed().as_secs_f64() / here as f64 * left as f64;
                format!("{seconds:.0} s left, {}", self.now)
            }
        };
        bar.message(&message);
        bar.done(self.done);
    }

    /// A message for the user, above the bar.
    pub(crate) fn say(&self, message: &str) {
        match &self.bar {
            Some(bar) => bar.say(message),
            None => crate::console::say(message),
        }
    }

    /// Removes the bar.
    pub(crate) fn end(&mut self) {
        self.bar = None;
    }
}

/// A step in a few words: `pairs GPU0→GPU1, copy engine writes`.
pub(crate) fn describe(step: &Step) -> String {
    let mut words = format!("{} {}", step.test, ends(&step.work));
    if let Work::Transfers(transfers) = &step.work
        && let Some(first) = transfers.first()
    {
        words = format!("{words}, {}", method(first));
    }
    match step.size {
        Size::Exactly(size) => format!("{words}, {size}"),
        Size::UpTo(_) => words,
    }
}

fn method(transfer: &Transfer) -> &'static str {
    match (transfer.via, transfer.engine, transfer.op) {
        (Via::Driver, ..) => "staged by the driver",
        (Via::Pipeline, ..) => "staged by a pipeline",
        (Via::Direct, Engine::Ce, Operation::Write) => "copy engine writes",
        (Via::Direct, Engine::Ce, Operation::Read) => "copy engine reads",
        (Via::Direct, Engine::Sm, Operation::Write) => "kernel writes",
        (Via::Direct, Engine::Sm, Operation::Read) => "kernel reads",
        (Via::Direct, Engine::Nic, Operation::Write) => "NIC writes",
        (Via::Direct, Engine::Nic, Operation::Read) => "NIC reads",
        (Via::Direct, Engine::Device, Operation::Write) => "device writes",
        (Via::Direct, Engine::Device, Operation::Read) => "device reads",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::plan::Test;
    use peerlane::units::Bytes;

    fn transfers(pairs: &[(&str, &str)]) -> String {
        let transfers = pairs.iter().map(|(a, b)| Transfer::new(*a, *b)).collect();
        describe(&Step { test: Test::Pairs, work: Work::Transfers(transfers), size: Size::UpTo(Bytes(8)) })
    }

    #[test]
    fn steps_in_words() {
        assert_eq!(transfers(&[("GPU0", "GPU1")]), "pairs GPU0→GPU1, copy engine writes");
        assert_eq!(transfers(&[("GPU0", "GPU1"), ("GPU1", "GPU0")]), "pairs GPU0↔GPU1, copy engine writes");
        let all = transfers(&[("GPU0", "GPU1"), ("GPU0", "GPU2"), ("GPU0", "GPU3")]);
        assert_eq!(all, "pairs GPU0→GPU1–GPU3, copy engine writes");
        let work = Work::Loads { gpu: "GPU0".to_owned(), memory: "host".to_owned() };
        let loads = Step { test: Test::LoadLatency, work, size: Size::Exactly(Bytes(4096)) };
        assert_eq!(describe(&loads), "load-latency GPU0→host, 4 KiB");
    }
}
