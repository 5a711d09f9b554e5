//! One GPU, ready to work: its context, its kernels and its streams.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use peerlane_measure::measure::Verdict;

use super::kernels::{Kernels, Numbers};
use crate::cuda::{Context, CudaError, Device, Module, Part, PinnedBuffer, Stream};
use crate::failure::Problem;
use crate::kernels;
use crate::timeline;

/// A GPU of the machine, by its node's name.
pub(crate) struct Gpu {
    pub(crate) name: String,
    /// Streams that nothing uses now; to make one takes longer than a sample.
    idle: RefCell<Vec<Stream>>,
    /// Where kernels count what is wrong.
    found: RefCell<Option<PinnedBuffer>>,
    pub(super) kernels: Kernels,
    /// Modules of applications, each compiled once: where the driver keeps nothing on disk, that takes a second.
    modules: RefCell<Vec<(&'static str, Rc<Module>)>>,
    /// Whether its streams must be held by a kernel, since the driver does not let them wait for a word.
    pub(super) gate_kernel: Cell<bool>,
    // what was made in it goes first
    pub(crate) context: Context,
}

/// A stream that goes back to its GPU, once it has done all that it was given: where a step was given up half-way, what it
/// had queued still uses the step's memory. A stream that cannot end its work is not used again.
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
        if let Some(stream) = self.stream.take().filter(|stream| stream.synchronize().is_ok()) {
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
    pub(crate) fn new(name: &str, device: Device) -> Result<Self, CudaError> {
        let retaining = timeline::begin(format!("context of {name}"));
        let context = Context::retain(device)?;
        drop(retaining);
        let _span = timeline::begin(format!("kernels of {name}"));
        let kernels = Kernels::load(&context)?;
        Ok(Opened { context, kernels })
    }
}

impl Gpu {
    pub(crate) fn new(name: String, opened: Opened) -> Self {
        let Opened { context, kernels } = opened;
        Gpu {
            name,
            kernels,
            gate_kernel: Cell::new(false),
            context,
            idle: RefCell::default(),
            found: RefCell::default(),
            modules: RefCell::default(),
        }
    }

    /// A module, compiled when it is first wanted.
    pub(super) fn module(&self, wanted: kernels::Module) -> Result<Rc<Module>, CudaError> {
        let mut modules = self.modules.borrow_mut();
        if let Some((_, module)) = modules.iter().find(|(file, _)| *file == wanted.file) {
            return Ok(Rc::clone(module));
        }
        let _span = timeline::begin(format!("{} of {}", wanted.file, self.name));
        let module = Rc::new(Module::load(&self.context, wanted.ptx)?);
        modules.push((wanted.file, Rc::clone(&module)));
        Ok(module)
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

    /// Compares a part that this GPU reaches with the pattern of `seed`, after all that the stream still has to do.
    pub(super) fn verify(&self, stream: &Stream, part: Part, seed: u32) -> Result<Verdict, Problem> {
        let words = part.bytes() / 4;
        Ok(match self.count(stream, |found| self.kernels.verify(stream, part, seed, found))? {
            None => Verdict::Intact,
            Some((n, first)) => Verdict::Corrupt(format!(
                "{}: {n} of {words} words differ, the first at byte {}",
                self.name,
                first.saturating_mul(4)
            )),
        })
    }

    /// Compares the result of a collective.
    pub(super) fn verify_numbers(&self, stream: &Stream, part: Part, wanted: Numbers) -> Result<Verdict, Problem> {
        let of = part.bytes() / 4;
        Ok(match self.count(stream, |found| self.kernels.verify_numbers(stream, part, wanted, found))? {
            None => Verdict::Intact,
            Some((n, first)) => {
                Verdict::Corrupt(format!("{}: {n} of {of} elements are wrong, the first is number {first}", self.name))
            }
        })
    }

    /// Runs a kernel that counts what is wrong, and gives how many and the first; `None` where nothing is.
    fn count(
        &self,
        stream: &Stream,
        launch: impl FnOnce(&PinnedBuffer) -> Result<(), CudaError>,
    ) -> Result<Option<(u64, u64)>, Problem> {
        self.context.enter()?;
        let mut found = self.found.borrow_mut();
        let found = match &mut *found {
            Some(found) => found,
            none => none.insert(PinnedBuffer::new(&self.context, 4096)?),
        };
        found.write(0, 0);
        found.write(1, 0);
        launch(found)?;
        stream.synchronize()?;
        let (wrong, lowest) = (found.read(0), found.read(1));
        Ok((wrong > 0).then_some((wrong, !lowest)))
    }
}
