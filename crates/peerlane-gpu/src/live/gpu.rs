//! One GPU, ready to work: its context, its kernels and its streams.

use std::cell::RefCell;
use std::rc::Rc;

use peerlane::measure::Verdict;

use super::failure::Problem;
use crate::cuda::{Argument, Buffer, Context, CudaError, Device, Kernel, PinnedBuffer, Stream};
use crate::kernels::Kernels;

/// A GPU of the machine, by its node's name.
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) context: Context,
    pub(crate) kernels: Kernels,
    pub(crate) multiprocessors: u32,
    pub(crate) waits_for_values: bool,
    /// Streams that nothing uses now; to make one takes longer than a sample.
    idle: RefCell<Vec<Stream>>,
    /// Where `verify` counts.
    tally: RefCell<Option<PinnedBuffer>>,
}

/// A stream that goes back to its GPU.
pub(crate) struct BorrowedStream {
    gpu: Rc<Gpu>,
    stream: Option<Stream>,
}

impl std::ops::Deref for BorrowedStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        match &self.stream {
            Some(stream) => stream,
            // it is taken only when this goes
            None => unreachable!("a borrowed stream is used after it was given back"),
        }
    }
}

impl Drop for BorrowedStream {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.gpu.idle.borrow_mut().push(stream);
        }
    }
}

/// A part of a GPU's making that can be done beside others', since it takes the driver long.
pub(crate) struct Opened {
    context: Context,
    kernels: Kernels,
}

impl Opened {
    /// Makes the context and compiles the kernels.
    pub(crate) fn new(device: Device) -> Result<Self, CudaError> {
        let context = Context::retain(device)?;
        let kernels = Kernels::load(&context)?;
        Ok(Opened { context, kernels })
    }
}

impl Gpu {
    pub(crate) fn new(name: String, opened: Opened) -> Self {
        let Opened { context, kernels } = opened;
        let device = context.device;
        Gpu {
            name,
            kernels,
            multiprocessors: device.multiprocessors(),
            waits_for_values: device.waits_for_values(),
            context,
            idle: RefCell::default(),
            tally: RefCell::default(),
        }
    }

    /// A stream of this GPU's.
    pub(crate) fn stream(self: &Rc<Self>) -> Result<BorrowedStream, CudaError> {
        let idle = self.idle.borrow_mut().pop();
        let stream = match idle {
            Some(stream) => stream,
            None => Stream::new(&self.context)?,
        };
        Ok(BorrowedStream { gpu: Rc::clone(self), stream: Some(stream) })
    }

    /// Writes the pattern of `seed` into a buffer that this GPU reaches.
    pub(crate) fn fill(&self, stream: &Stream, buffer: &dyn Buffer, bytes: usize, seed: u32) -> Result<(), CudaError> {
        self.context.enter()?;
        let arguments = [Argument::Word(buffer.address()), Argument::Word(bytes as u64), Argument::Half(seed)];
        self.kernels.fill.launch(stream, self.kernels.whole(self.multiprocessors), &arguments)
    }

    /// Compares a buffer that this GPU reaches with the pattern of `seed`, after all that the stream still has to do.
    pub(crate) fn verify(
        &self,
        stream: &Stream,
        buffer: &dyn Buffer,
        bytes: usize,
        seed: u32,
    ) -> Result<Verdict, Problem> {
        let arguments = [Argument::Word(buffer.address()), Argument::Word(bytes as u64), Argument::Half(seed)];
        Ok(match self.count(stream, &self.kernels.verify, &arguments)? {
            (0, _) => Verdict::Intact,
            (n, first) => Verdict::Corrupt(format!("{n} of {} words differ, the first at byte {}", bytes / 4, first * 4)),
        })
    }

    /// Runs a kernel that counts what is wrong, and gives how many and the first.
    pub(crate) fn count(&self, stream: &Stream, kernel: &Kernel, arguments: &[Argument]) -> Result<(u64, u64), Problem> {
        self.context.enter()?;
        let mut tally = self.tally.borrow_mut();
        let tally = match &mut *tally {
            Some(tally) => tally,
            none => none.insert(PinnedBuffer::new(&self.context, 4096)?),
        };
        let counts = tally.start().cast::<u64>();
        // SAFETY: the buffer holds a page, aligned to one, and no device uses it now.
        unsafe {
            counts.write_volatile(0);
            counts.add(1).write_volatile(u64::MAX);
        }
        let mut all = arguments.to_vec();
        all.push(Argument::Word(tally.address()));
        kernel.launch(stream, self.kernels.whole(self.multiprocessors), &all)?;
        stream.synchronize()?;
        // SAFETY: as above; the device has ended.
        Ok(unsafe { (counts.read_volatile(), counts.add(1).read_volatile()) })
    }
}
