//! Messages of a GPU's memory by way of host memory, within one node: the GPU's copy engine fills or empties one slot while the
//! adapter moves the other.
//!
//! Each slot is the message of a queue pair. One copy is under way at a time, and up to two messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use peerlane_gpu::Mapping;
use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{Failure, Verdict};
use peerlane_measure::run::FlagKind;

use super::endpoint::Kind;
use super::{Verbs, pattern};
use crate::gpu_memory::GpuStage;

/// Queue pairs of a staged step: a slot each.
pub(crate) const SLOTS: u32 = 2;

/// Messages that are moved before the first sample, so that both slots are in use.
const BEFORE: u32 = 2 * SLOTS;

impl Verbs {
    /// The host memory of a side, and where in it its messages lie: those that it sends, or those that it receives.
    pub(crate) fn slots(&self, outgoing: bool) -> Result<(Arc<Mapping>, Vec<usize>), Failure> {
        let endpoint = &self.endpoint;
        let host = endpoint.region.host().map(Arc::clone);
        let host = host.ok_or_else(|| Failure::new(FlagKind::Failed, "staging needs host memory"))?;
        let slot = |index| if outgoing { endpoint.outgoing(index) } else { endpoint.incoming(index) };
        Ok((host, (0..endpoint.count).map(slot).collect()))
    }

    /// Bytes of a message.
    pub(crate) fn message(&self) -> usize {
        self.endpoint.size
    }

    /// Lets what this side sends come from the GPU: the content goes there, and the slots are emptied.
    pub(crate) fn send_from(&mut self, stage: &mut dyn GpuStage) -> Result<(), Failure> {
        self.endpoint.report_each();
        for index in 0..self.endpoint.count {
            let seed = self.endpoint.own.seed.wrapping_add(index as u32);
            stage.write(index, &pattern::content(self.endpoint.size, seed))?;
            let start = self.endpoint.outgoing(index);
            (0..self.endpoint.size).for_each(|at| self.endpoint.region.set_byte(start + at, 0));
        }
        Ok(())
    }

    /// Lets what this side receives go on to the GPU, where nothing of it is yet.
    pub(crate) fn receive_into(&self, stage: &mut dyn GpuStage) -> Result<(), Failure> {
        let nothing = vec![0; self.endpoint.size.div_ceil(8)];
        (0..self.endpoint.count).try_for_each(|index| stage.write(index, &nothing))
    }

    /// Takes `n` samples as the side that writes: messages by time, each with its copy, until the last copy or message of the
    /// sample has ended.
    pub(crate) fn staged_samples(
        &mut self,
        n: usize,
        time: Seconds,
        stage: &mut dyn GpuStage,
        to_gpu: bool,
    ) -> Result<Vec<f64>, Failure> {
        self.endpoint.report_each();
        let time = Duration::from_secs_f64(time.seconds().clamp(0.0, 3600.0));
        let mut turn = 0;
        if to_gpu {
            self.post_slot(0, Kind::Write)?
        } else {
            stage.begin(0, false)?
        }
        for _ in 0..BEFORE {
            turn = self.staged_turn(turn, stage, to_gpu)?;
        }
        let mut samples = Vec::new();
        for _ in 0..n {
            let (began, mut messages) = (Instant::now(), 0_u32);
            while messages == 0 || began.elapsed() < time {
                turn = self.staged_turn(turn, stage, to_gpu)?;
                messages += 1;
            }
            samples.push(f64::from(messages) * self.endpoint.size as f64 / began.elapsed().as_secs_f64());
        }
        self.endpoint.drain(self.patience).map_err(|why| self.failed(why))?;
        (0..self.endpoint.count).try_for_each(|slot| stage.settle(slot))?;
        Ok(samples)
    }

    /// One message: what is in the slot whose turn it is goes on, and the other slot gets its next. Gives the other slot.
    fn staged_turn(&mut self, turn: usize, stage: &mut dyn GpuStage, to_gpu: bool) -> Result<usize, Failure> {
        let next = (turn + 1) % self.endpoint.count.max(1);
        if to_gpu {
            self.wait_for_slot(turn)?;
            stage.begin(turn, true)?;
            stage.settle(next)?;
            self.post_slot(next, Kind::Write)?;
        } else {
            stage.settle(turn)?;
            self.post_slot(turn, Kind::Write)?;
            self.wait_for_slot(next)?;
            stage.begin(next, false)?;
        }
        Ok(next)
    }

    /// Posts the message of a slot.
    pub(super) fn post_slot(&mut self, slot: usize, kind: Kind) -> Result<(), Failure> {
        self.endpoint.post(slot, kind, true).map_err(|why| self.failed(why))?;
        self.endpoint.posted_one(slot);
        Ok(())
    }

    /// Waits until the slot's last message has arrived.
    pub(super) fn wait_for_slot(&mut self, slot: usize) -> Result<(), Failure> {
        let began = Instant::now();
        while !self.endpoint.is_free(slot) {
            let reaped = self.endpoint.reap().map_err(|why| self.failed(why))?;
            if reaped == 0 && began.elapsed() > self.patience {
                return Err(self.hung());
            }
        }
        Ok(())
    }

    /// Compares what has arrived in the GPU's memory, on the side that received.
    pub(crate) fn verify_in(&self, stage: &mut dyn GpuStage) -> Result<Verdict, Failure> {
        let (bytes, seed) = (self.endpoint.size, self.endpoint.peer().map_err(|why| self.failed(why))?.seed);
        let differing = (0..self.endpoint.count).map(|index| {
            let mut copy = vec![0; bytes.div_ceil(8)];
            stage.read(index, &mut copy)?;
            Ok(pattern::differing_copy(&copy, bytes, seed.wrapping_add(index as u32)))
        });
        Ok(pattern::verdict(differing.collect::<Result<Vec<_>, Failure>>()?.into_iter(), bytes))
    }
}
