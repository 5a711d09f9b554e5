//! Staging through pinned host memory, in pieces, so that both halves run at once.

use std::rc::Rc;

use super::gpu::{BorrowedStream, Gpu};
use crate::cuda::{Buffer, CudaError, Event, Part, PinnedBuffer, Stream};

/// Bytes a piece. Half of the time that one takes is what the pipeline loses while it fills; a piece of a tenth of a
/// millisecond at Gen4 rates keeps that small against a message and its start small against a piece.
const PIECE: usize = 4 << 20;

/// Pieces in host memory: one that arrives while one leaves, and one more so that neither waits for the other's event.
const SLOTS: usize = 3;

/// The way from one GPU to another through the host.
pub(super) struct Pipeline {
    from: Rc<Gpu>,
    to: Rc<Gpu>,
    /// The half that fills host memory; the other half is the lane's own stream.
    filling: BorrowedStream,
    slots: [Slot; SLOTS],
    /// Pieces so far.
    next: usize,
    begin: Event,
}

struct Slot {
    memory: PinnedBuffer,
    full: Event,
    free: Event,
}

impl Pipeline {
    pub(super) fn new(from: &Rc<Gpu>, to: &Rc<Gpu>) -> Result<Self, CudaError> {
        let filling = from.stream()?;
        let emptying = to.stream()?;
        let slot = || -> Result<Slot, CudaError> {
            let memory = PinnedBuffer::new(&from.context, PIECE)?;
            Ok(Slot { memory, full: Event::new(&filling)?, free: Event::new(&emptying)? })
        };
        let slots = [slot()?, slot()?, slot()?];
        let begin = Event::new(&emptying)?;
        Ok(Pipeline { from: Rc::clone(from), to: Rc::clone(to), filling, slots, next: 0, begin })
    }

    /// Driver calls that a message of so many bytes takes.
    pub(super) fn operations(bytes: usize) -> usize {
        6 * bytes.div_ceil(PIECE).max(1)
    }

    /// Lets the filling half start no earlier than `emptying`, in which the gate and the start of time lie. Its context
    /// is current.
    pub(super) fn begin(&mut self, emptying: &Stream) -> Result<(), CudaError> {
        emptying.record(&self.begin)?;
        self.from.context.enter()?;
        self.filling.wait(&self.begin)?;
        self.to.context.enter()
    }

    /// Puts one message into both streams, right behind the one before; `emptying` tells when it has arrived. Its
    /// context is current when this returns.
    pub(super) fn enqueue(&mut self, emptying: &Stream, to: Part, from: Part) -> Result<(), CudaError> {
        let bytes = to.bytes().min(from.bytes());
        for offset in (0..bytes).step_by(PIECE) {
            let slot = &self.slots[self.next % SLOTS];
            self.next += 1;
            let piece = PIECE.min(bytes - offset);
            let held = slot.memory.part(0, piece);
            self.from.context.enter()?;
            // an event that was never recorded holds nobody up
            self.filling.wait(&slot.free)?;
            self.filling.copy(held, from.within(offset, piece))?;
            self.filling.record(&slot.full)?;
            self.to.context.enter()?;
            emptying.wait(&slot.full)?;
            emptying.copy(to.within(offset, piece), held)?;
            emptying.record(&slot.free)?;
        }
        Ok(())
    }
}
