//! What holds streams until all of their work is queued.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::gpu::Gpu;
use crate::cuda::{Argument, Buffer, Context, CudaError, Launch, PinnedBuffer, Stream};

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
        // SAFETY: the buffer is at least a word, aligned to a page, lives as long as `self`, and is written by
        // nobody else; devices only read it.
        let word = unsafe { AtomicU32::from_ptr(self.word.start().cast()) };
        word.store(value, Ordering::SeqCst);
    }

    /// Shuts it: streams that are told to [`wait`](Closed::wait) stand until it opens, which it does at the latest when
    /// the value goes.
    pub(crate) fn close(&mut self) -> Closed<'_> {
        // zero is what a wait of the first ticket must not see as passed
        self.ticket = self.ticket.wrapping_add(1);
        Closed { gate: self, open: false }
    }
}

/// A gate that is shut.
pub(crate) struct Closed<'g> {
    gate: &'g Gate,
    open: bool,
}

impl Closed<'_> {
    /// Lets a stream go on only once the gate is open. Its context must be current.
    pub(crate) fn wait(&self, gpu: &Gpu, stream: &Stream) -> Result<(), CudaError> {
        if gpu.waits_for_values {
            return stream.wait_for(&self.gate.word, self.gate.ticket);
        }
        let one = Launch { blocks: 1, threads: 1, shared: 0 };
        let arguments = [Argument::Word(self.gate.word.address()), Argument::Half(self.gate.ticket)];
        gpu.kernels.gate.launch(stream, one, &arguments)
    }

    /// Lets all go.
    pub(crate) fn open(mut self) {
        self.release();
    }

    fn release(&mut self) {
        if !self.open {
            self.gate.write(self.gate.ticket);
            self.open = true;
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// A gate that several kinds of work share.
pub(crate) type SharedGate = Rc<std::cell::RefCell<Gate>>;
