//! Messages of a GPU's memory from one node to another by way of host memory at both ends.
//!
//! Each queue pair has a slot at either end, and slots take turns. The side that sends copies a message from its GPU to the slot and
//! sends it; the side that receives copies it to its GPU, and tells the first one how many slots it has emptied so far. No message is
//! sent to a slot that is not empty, so that adapters never have to wait for room. Copies and messages of different slots overlap.

use std::time::{Duration, Instant};

use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{Failure, Verdict};
use peerlane_measure::nodes::Step;
use peerlane_measure::run::FlagKind;

use super::endpoint::Kind;
use super::{ASKED, LONG_ENOUGH, Verbs};
use crate::gpu_memory::{GpuStage, Gpus};
use crate::transport::{Side, taken};

/// Times that each slot is used before the first sample; once where that takes long.
const BEFORE: u64 = 2;

/// Copies out of the GPU that are begun and not sent.
const AHEAD: u64 = 2;

/// One side of a step of [`SendStaged`](peerlane_measure::nodes::Probe::SendStaged).
pub struct StagedVerbs {
    // refers to the host memory of the other, and so goes first
    stage: Box<dyn GpuStage>,
    verbs: Verbs,
    active: bool,
    /// Messages that were posted, or whose copies to the GPU were begun.
    turns: u64,
    /// Of the side that sends: messages whose copies out of the GPU were begun.
    copies: u64,
    /// Of the side that sends: slots that the other one has emptied, and when that was seen.
    emptied: (u64, Instant),
}

impl StagedVerbs {
    /// Makes one side of a step: `active` is the one that sends. Nothing is waited for longer than `patience`.
    ///
    /// # Errors
    /// In words, what this host lacks for it, and what adapter and driver refused.
    pub fn new(step: &Step, active: bool, patience: Seconds, gpus: &mut dyn Gpus) -> Result<Self, Failure> {
        let mut verbs = Verbs::made(step, active, patience, None)?;
        let end = if active { &step.from } else { &step.to };
        let (host, slots) = verbs.slots(active)?;
        let mut stage = gpus.stage(&end.memory.to_string(), &host, &slots, verbs.message())?;
        if active {
            verbs.send_from(&mut *stage)?
        } else {
            verbs.receive_into(&mut *stage)?
        }
        Ok(StagedVerbs { stage, verbs, active, turns: 0, copies: 0, emptied: (0, Instant::now()) })
    }

    /// Slots at each end.
    fn slots(&self) -> u64 {
        self.verbs.endpoint.count.max(1) as u64
    }

    /// The slot of the message after so many.
    fn slot(&self, turns: u64) -> usize {
        (turns % self.slots()) as usize
    }

    /// Takes what has finished into account, and what the other side told: how many completions there were.
    fn look(&mut self) -> Result<usize, Failure> {
        let completions = self.verbs.endpoint.reap().map_err(|why| self.verbs.failed(why))?;
        let told = self.verbs.endpoint.told();
        if told != self.emptied.0 {
            self.emptied = (told, Instant::now());
        }
        Ok(completions)
    }

    /// Sends the next message, once its copy has ended and the slot at the other end is empty.
    fn send(&mut self) -> Result<(), Failure> {
        let slot = self.slot(self.turns);
        if self.copies == self.turns {
            self.verbs.wait_for_slot(slot)?;
        }
        // the next copy waits in the GPU while this one ends
        while self.copies < self.turns + AHEAD && self.verbs.endpoint.is_free(self.slot(self.copies)) {
            self.stage.begin(self.slot(self.copies), false)?;
            self.copies += 1;
        }
        self.stage.settle(slot)?;
        let began = Instant::now();
        while self.emptied.0 + self.slots() <= self.turns {
            if self.look()? == 0 && began.elapsed() > self.verbs.patience {
                return Err(self.stalled());
            }
        }
        self.verbs.post_slot(slot, Kind::Send)?;
        self.turns += 1;
        self.look().map(|_| ())
    }

    /// No slot was emptied for too long: the adapter is silent, or all has arrived and the other side copies none of it.
    fn stalled(&self) -> Failure {
        let endpoint = &self.verbs.endpoint;
        if (0..endpoint.count).any(|slot| !endpoint.is_free(slot)) {
            return self.verbs.hung();
        }
        let (nic, patience) = (&endpoint.nic, self.verbs.patience.as_secs_f64());
        let why = format!("{nic}: all messages arrived, and the other side emptied no slot for {patience:.1} s");
        Failure::new(FlagKind::Hung, why)
    }

    /// Copies to the GPU what has arrived, as the side that receives: whether there was a message.
    fn take(&mut self) -> Result<bool, Failure> {
        let slot = self.slot(self.turns);
        let came = self.verbs.endpoint.arrived(slot) > self.turns / self.slots();
        if came {
            self.stage.begin(slot, true)?;
            self.turns += 1;
        }
        Ok(came)
    }

    /// One sample of the rate: from when slots were emptied to when others were, at least `time` later.
    fn rate(&mut self, time: Duration) -> Result<f64, Failure> {
        let (before, began) = self.emptied;
        let slow = began + time + self.verbs.patience;
        while self.emptied.0 == before || self.emptied.1 < began + time {
            self.send()?;
            if Instant::now() > slow {
                return Err(self.verbs.hung());
            }
        }
        let (after, ended) = self.emptied;
        let bytes = (after - before) as f64 * self.verbs.message() as f64;
        Ok(bytes / (ended - began).as_secs_f64())
    }

    /// Waits until nothing of this side's is under way.
    fn settle(&mut self) -> Result<(), Failure> {
        (0..self.verbs.endpoint.count).try_for_each(|slot| self.stage.settle(slot))
    }
}

impl Side for StagedVerbs {
    fn address(&self) -> String {
        self.verbs.address()
    }

    fn connect(&mut self, peer: &str) -> Result<(), Failure> {
        self.verbs.connect(peer)
    }

    fn sample(&mut self, n: usize, time: Seconds) -> Result<Vec<f64>, Failure> {
        let time = Duration::from_secs_f64(time.seconds().clamp(0.0, 3600.0));
        let began = Instant::now();
        while self.emptied.0 < self.slots() || (self.emptied.0 < BEFORE * self.slots() && began.elapsed() < LONG_ENOUGH)
        {
            self.send()?;
        }
        let samples = taken(n, self.verbs.patience, || self.rate(time))?;
        self.verbs.endpoint.drain(self.verbs.patience).map_err(|why| self.verbs.failed(why))?;
        self.settle()?;
        Ok(samples)
    }

    fn serve(&mut self, until: &dyn Fn() -> bool) -> Result<(), Failure> {
        let mut asked = Instant::now();
        // messages whose copies have ended, and of those what the other side knows
        let (mut ended, mut told) = (self.turns, self.turns);
        loop {
            self.look()?;
            if asked.elapsed() >= ASKED {
                if until() {
                    return Ok(());
                }
                asked = Instant::now();
            }
            // the next copy waits in the GPU while the one before it ends
            let came = self.take()?;
            if self.turns > ended + u64::from(came) {
                self.stage.settle(self.slot(ended))?;
                ended += 1;
            }
            if told < ended && self.verbs.endpoint.tell(ended).map_err(|why| self.verbs.failed(why))? {
                told = ended;
            }
        }
    }

    fn verify(&mut self) -> Result<Verdict, Failure> {
        if self.active {
            return Ok(Verdict::Unverified("this side has received nothing".to_owned()));
        }
        // what arrived last is what is compared
        self.look()?;
        while self.take()? {
            self.settle()?;
        }
        self.settle()?;
        self.verbs.verify_in(&mut *self.stage)
    }
}
