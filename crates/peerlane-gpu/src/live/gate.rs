//! What holds streams until all of their work is queued.

use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

use super::gpu::Gpu;
use crate::cuda::{Buffer, Context, CudaError, PinnedBuffer, Stream};
use crate::failure::Problem;

/// A word in pinned memory that streams of all GPUs wait for.
pub(crate) struct Gate {
    word: PinnedBuffer,
    ticket: u32,
}

impl Gate {
    pub(crate) fn new(context: &Context) -> Result<Self, CudaError> {
        let gate = Gate { word: PinnedBuffer::new(context, 4096)?, ticket: 0 };
        gate.write(0);
        Ok(gate)
    }

    fn write(&self, value: u32) {
        // the word is the lower half of the double word; the upper is the kernel's to raise
        fence(Ordering::SeqCst);
        self.word.write(0, u64::from(value));
    }

    /// Shuts it: streams that are told to [`wait`](Closed::wait) stand until it opens, which it does at the latest when
    /// the value goes.
    pub(crate) fn close(&mut self) -> Closed<'_> {
        // zero is what a wait of the first ticket must not see as passed
        self.ticket = self.ticket.wrapping_add(1);
        Closed { gate: self, open: false, late: false }
    }
}

/// A gate that is shut.
pub(crate) struct Closed<'g> {
    gate: &'g Gate,
    open: bool,
    /// A kernel that held a stream gave up before it opened.
    late: bool,
}

impl Closed<'_> {
    /// Lets a stream go on only once the gate is open. Its context must be current.
    pub(crate) fn wait(&self, gpu: &Gpu, stream: &Stream) -> Result<(), CudaError> {
        if !gpu.gate_kernel.get() {
            match stream.wait_for(self.gate.word.part(0, 4), self.gate.ticket) {
                Err(e) if e.is_not_supported() => gpu.gate_kernel.set(true),
                other => return other,
            }
        }
        gpu.kernels.gate(stream, &self.gate.word, self.gate.ticket)
    }

    /// Lets all go.
    pub(crate) fn release(&mut self) {
        if !self.open {
            self.late = self.gate.word.read(0) >> 32 != 0;
            self.gate.write(self.gate.ticket);
            self.open = true;
        }
    }
}

impl Closed<'_> {
    /// Whether all waited until it opened. A kernel that holds a stream gives up after some seconds, so that nothing
    /// hangs where queueing never ends.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if !self.late {
            return Ok(());
        }
        Err(Problem::Failed("queueing took too long, so the transfers did not start together".to_owned()))
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// A gate that several kinds of work share.
pub(crate) type SharedGate = Rc<std::cell::RefCell<Gate>>;
