//! The kernels of one GPU, each with its arguments in its signature's order: `src/kernels/*.cu` say what they do.

use crate::cuda::{Argument, Buffer, Context, CudaError, Kernel, Launch, Module, Part, PinnedBuffer, Stream};
use crate::kernels::{self, PLAIN, POISON};

use Argument::{Half, Memory, Word};

/// Time after which a kernel that waits for the host or for another GPU gives up, in ns.
const PATIENCE: u64 = 5_000_000_000;

/// A flag that is passed to and fro: the words of the two sides, and what is asked.
pub(super) struct Game<'a> {
    /// The word that this side waits for, in its own memory.
    pub(super) mine: &'a dyn Buffer,
    /// The other side's.
    pub(super) theirs: &'a dyn Buffer,
    /// Whether this side begins.
    pub(super) first: bool,
    /// Rounds before those that count.
    pub(super) warm_up: u32,
    /// Rounds that count.
    pub(super) rounds: u32,
}

/// What every element of a collective's result must be: `factor · ((offset + i mod part) mod 64) + add + step · (i
/// div part)` for element `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) factor: u32,
    pub(super) add: u32,
    pub(super) part: u64,
    pub(super) offset: u64,
    pub(super) step: u32,
}

/// Where a copy goes, and where it comes from.
pub(super) type Ends<'b> = (Part<'b>, Part<'b>);

/// All of a small buffer, of which a kernel uses so many bytes.
fn small(buffer: &dyn Buffer, bytes: usize) -> Argument<'_> {
    Memory(buffer.part(0, bytes), bytes)
}

/// All of a part.
fn all(part: Part<'_>) -> Argument<'_> {
    Memory(part, part.bytes())
}

/// Bytes of what a kernel counts: how many, and the first.
const FOUND: usize = 16;

/// A compiled kernel with its launch.
struct Ready {
    kernel: Kernel,
    launch: Launch,
}

impl Ready {
    fn run(&self, stream: &Stream, arguments: &[Argument]) -> Result<(), CudaError> {
        self.kernel.launch(stream, self.launch, arguments)
    }
}

/// Compiled kernels, ready to launch on one GPU.
pub(super) struct Kernels {
    multiprocessors: u32,
    copy: Ready,
    with_host: Launch,
    copy_both: Ready,
    fill: Ready,
    verify: Ready,
    build_ring: Ready,
    chase: Ready,
    pingpong: Ready,
    gate: Ready,
    touch: Ready,
    numbers: Ready,
    verify_numbers: Ready,
}

impl Kernels {
    /// Compiles them for the context's device.
    pub(super) fn load(context: &Context) -> Result<Self, CudaError> {
        let multiprocessors = context.device.multiprocessors()?;
        let mut modules: Vec<(&str, Module)> = Vec::new();
        let mut ready = |wanted: kernels::Kernel| {
            let file = wanted.module.file;
            let at = match modules.iter().position(|(loaded, _)| *loaded == file) {
                Some(at) => at,
                None => {
                    modules.push((file, Module::load(context, wanted.module.ptx)?));
                    modules.len() - 1
                }
            };
            let kernel = modules[at].1.kernel(wanted.name)?;
            if wanted.shared_bytes > 0 {
                kernel.allow_shared(wanted.shared_bytes)?;
            }
            let (blocks, threads, shared) = (wanted.grid(multiprocessors), wanted.threads, wanted.shared_bytes);
            Ok(Ready { kernel, launch: Launch { blocks, threads, shared } })
        };
        let major = u32::try_from(context.device.compute_capability().0).unwrap_or(0);
        let copy = kernels::copy_for(major);
        let with_host = kernels::Kernel { blocks: kernels::WITH_HOST, ..copy }.grid(multiprocessors);
        Ok(Kernels {
            multiprocessors,
            copy: ready(copy)?,
            with_host: Launch { blocks: with_host, threads: copy.threads, shared: copy.shared_bytes },
            copy_both: ready(kernels::COPY_BOTH)?,
            fill: ready(kernels::FILL)?,
            verify: ready(kernels::VERIFY)?,
            build_ring: ready(kernels::BUILD_RING)?,
            chase: ready(kernels::CHASE)?,
            pingpong: ready(kernels::PINGPONG)?,
            gate: ready(kernels::GATE)?,
            touch: ready(kernels::TOUCH_READ)?,
            numbers: ready(kernels::NUMBERS)?,
            verify_numbers: ready(kernels::VERIFY_NUMBERS)?,
        })
    }

    /// How many multiprocessors there are.
    pub(super) fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Copies `repeats` times over, between GPUs or within one.
    pub(super) fn copy(&self, stream: &Stream, (to, from): Ends, repeats: u32) -> Result<(), CudaError> {
        self.copy_with(self.copy.launch, stream, (to, from), repeats)
    }

    /// Copies `repeats` times over to or from host memory.
    pub(super) fn copy_with_host(&self, stream: &Stream, ends: Ends, repeats: u32) -> Result<(), CudaError> {
        self.copy_with(self.with_host, stream, ends, repeats)
    }

    /// Copies `repeats` times over, both ways at once.
    pub(super) fn copy_both(
        &self,
        stream: &Stream,
        (to, from): Ends,
        (back_to, back_from): Ends,
        repeats: u32,
    ) -> Result<(), CudaError> {
        let bytes = [to, from, back_to, back_from].iter().map(|part| part.bytes()).min().unwrap_or(0);
        let memories = [to, from, back_to, back_from].map(|part| Memory(part, bytes));
        let [to, from, back_to, back_from] = memories;
        self.copy_both.run(stream, &[to, from, back_to, back_from, Word(bytes as u64), Half(repeats)])
    }

    fn copy_with(&self, launch: Launch, stream: &Stream, (to, from): Ends, repeats: u32) -> Result<(), CudaError> {
        let bytes = to.bytes().min(from.bytes());
        let arguments = [Memory(to, bytes), Memory(from, bytes), Word(bytes as u64), Half(repeats)];
        self.copy.kernel.launch(stream, launch, &arguments)
    }

    /// Writes the pattern of `seed`; with `spoilt`, its complement, so that no word is what it should be.
    pub(super) fn fill(&self, stream: &Stream, part: Part, seed: u32, spoilt: bool) -> Result<(), CudaError> {
        let flip = if spoilt { POISON } else { PLAIN };
        let words = part.bytes() as u64 / 4;
        self.fill.run(stream, &[all(part), Word(words), Half(seed), Half(flip)])
    }

    /// Adds to the first word of `found` how many words are not the pattern's, and keeps the lowest one's complement
    /// in its second.
    pub(super) fn verify(&self, stream: &Stream, part: Part, seed: u32, found: &PinnedBuffer) -> Result<(), CudaError> {
        let words = part.bytes() as u64 / 4;
        let arguments = [all(part), Word(words), Half(seed), small(found, FOUND)];
        self.verify.run(stream, &arguments)
    }

    /// Makes a ring of words, each the address of the next, `stride` bytes on.
    pub(super) fn build_ring(&self, stream: &Stream, ring: Part, stride: u64) -> Result<(), CudaError> {
        let arguments = [all(ring), Word(ring.bytes() as u64), Word(stride)];
        self.build_ring.run(stream, &arguments)
    }

    /// Follows the ring from where `result` says, on one multiprocessor of those that there are.
    pub(super) fn chase(
        &self,
        stream: &Stream,
        result: &PinnedBuffer,
        loads: u64,
        multiprocessor: u32,
    ) -> Result<(), CudaError> {
        let chosen = multiprocessor % self.multiprocessors;
        self.chase.run(stream, &[small(result, 24), Word(loads), Half(chosen)])
    }

    /// One side of a flag passed to and fro. `result`: rounds done, their ns, their cycles, 1 if given up.
    pub(super) fn pingpong(&self, stream: &Stream, game: &Game, result: &PinnedBuffer) -> Result<(), CudaError> {
        // ordered, as a program needs that sends data beside the flag
        const ORDERED: u32 = 1;
        let arguments = [
            small(game.mine, 4),
            small(game.theirs, 4),
            Half(u32::from(game.first)),
            Half(ORDERED),
            Half(game.warm_up),
            Half(game.rounds),
            Word(PATIENCE),
            small(result, 32),
        ];
        self.pingpong.run(stream, &arguments)
    }

    /// Holds the stream until the first word of `gate` is at least `ticket`.
    pub(super) fn gate(&self, stream: &Stream, gate: &PinnedBuffer, ticket: u32) -> Result<(), CudaError> {
        // the second word is raised where it gave up; the rates then show it
        let late = Memory(gate.part(4, 4), 4);
        self.gate.run(stream, &[small(gate, 4), Half(ticket), Word(PATIENCE), late])
    }

    /// Reads every word, and adds their sum to the first double word of `sum`.
    pub(super) fn touch(&self, stream: &Stream, part: Part, sum: &PinnedBuffer) -> Result<(), CudaError> {
        let words = part.bytes() as u64 / 4;
        let arguments = [all(part), Word(words), Word(1), small(sum, 8)];
        self.touch.run(stream, &arguments)
    }

    /// Writes what a rank contributes to a collective: `i mod 64 + rank`.
    pub(super) fn numbers(&self, stream: &Stream, part: Part, rank: u32) -> Result<(), CudaError> {
        let count = part.bytes() as u64 / 4;
        self.numbers.run(stream, &[all(part), Word(count), Half(rank)])
    }

    /// Counts what is not as it must be, as [`Self::verify`] does.
    pub(super) fn verify_numbers(
        &self,
        stream: &Stream,
        part: Part,
        wanted: Numbers,
        found: &PinnedBuffer,
    ) -> Result<(), CudaError> {
        let arguments = [
            all(part),
            Word(part.bytes() as u64 / 4),
            Half(wanted.factor),
            Half(wanted.add),
            Word(wanted.part),
            Word(wanted.offset),
            Half(wanted.step),
            small(found, FOUND),
        ];
        self.verify_numbers.run(stream, &arguments)
    }
}
