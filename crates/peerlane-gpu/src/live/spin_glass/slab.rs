//! A slab of the lattice on one GPU: its memory, its words, and the launches that update it.

use std::rc::Rc;

use peerlane::exchange::Exchange;
use peerlane::spin_glass::SpinGlass as Lattice;

use crate::cuda::Argument::{Half, Memory, Word};
use crate::cuda::{Argument, Buffer, CudaError, Event, Kernel, Launch, Module, Part, PinnedBuffer};
use crate::kernels::{self, DRAW_COUPLINGS, DRAW_SPINS, INSPECT, OVER_RELAX};
use crate::live::Machine;
use crate::live::failure::Problem;
use crate::live::gpu::{BorrowedStream, Gpu};

/// A number a stretch of memory of a slab has: spins of two colours, couplings of two, neighbours' planes of two, and words.
const BUFFERS: usize = 7;

/// Bytes from one word to the next: none shares a line of a cache with another.
const APART: usize = 128;

/// The kernels, on one GPU.
pub(super) struct Kernels {
    over_relax: Kernel,
    draw_spins: Kernel,
    draw_couplings: Kernel,
    pub(super) inspect: Kernel,
}

impl Kernels {
    fn load(gpu: &Gpu) -> Result<Self, CudaError> {
        let module = Module::load(&gpu.context, OVER_RELAX.module.ptx)?;
        Ok(Kernels {
            over_relax: module.kernel(OVER_RELAX.name)?,
            draw_spins: module.kernel(DRAW_SPINS.name)?,
            draw_couplings: module.kernel(DRAW_COUPLINGS.name)?,
            inspect: module.kernel(INSPECT.name)?,
        })
    }
}

/// Planes on their way through host memory, and the words that tell how far they are.
pub(super) struct Staging {
    /// The slab's first and last plane, of each colour.
    planes: [PinnedBuffer; 2],
    words: PinnedBuffer,
    /// Fetches the neighbours' planes.
    pub(super) fetch: BorrowedStream,
}

impl Staging {
    /// Where an end of a colour lies: 0 the first plane, 1 the last.
    pub(super) fn plane(&self, colour: usize, end: usize, size: usize) -> Part<'_> {
        self.planes[colour].part(size * end, size)
    }

    /// The step whose end is there.
    pub(super) fn word(&self, end: usize) -> Part<'_> {
        self.words.part(APART * end, 4)
    }
}

/// Planes that one GPU updates.
pub(super) struct Slab {
    pub(super) gpu: Rc<Gpu>,
    pub(super) kernels: Kernels,
    pub(super) side: u32,
    /// Its first plane in the lattice, and how many it has.
    pub(super) from: u32,
    pub(super) planes: u32,
    /// Planes of the lattice.
    depth: u32,
    pub(super) spins: [Rc<dyn Buffer>; 2],
    pub(super) couplings: [Rc<dyn Buffer>; 2],
    /// Copies of the neighbours' planes, the one below and then the one above; of a whole lattice none, since its own are next
    /// to each other.
    pub(super) beside: Option<[Rc<dyn Buffer>; 2]>,
    /// Two words for the planes that have come, from below and from above; two in which blocks are counted; and a word for
    /// each end that is updated.
    words: Rc<dyn Buffer>,
    pub(super) staging: Option<Staging>,
    // streams go before what their work uses
    pub(super) bulk: BorrowedStream,
    /// Sends the ends.
    pub(super) edge: BorrowedStream,
    pub(super) start: Event,
    pub(super) end: Event,
}

/// Bytes of one colour's spins of a plane.
pub(super) fn plane(side: u32) -> usize {
    side as usize * (side as usize / 2) * 12
}

/// An update of a slab.
#[derive(Clone, Copy)]
pub(super) struct Update<'p> {
    pub(super) colour: usize,
    pub(super) planes: Planes,
    /// Where the neighbours keep the slab's ends, which are stored there, too.
    pub(super) to: Option<[Part<'p>; 2]>,
    /// What the kernel itself waits for and tells.
    pub(super) signals: Option<Signals<'p>>,
}

/// What the blocks of a slab's ends wait for, and what they tell when they are done.
#[derive(Clone, Copy)]
pub(super) struct Signals<'p> {
    /// The step that the neighbours' planes must have come of.
    pub(super) awaited: u32,
    /// Which step this is.
    pub(super) step: u32,
    /// The words that tell so, of the first plane and the last.
    pub(super) tell: [Part<'p>; 2],
}

/// Which planes of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planes {
    /// All of them alike.
    All,
    /// All of them, the ends first.
    EndsFirst,
    /// The first and the last.
    Ends,
}

impl Slab {
    /// `number` is how many slabs the GPU has already.
    pub(super) fn new(
        machine: &mut Machine,
        lattice: &Lattice,
        name: &str,
        number: usize,
        (from, to): (u32, u32),
    ) -> Result<Self, Problem> {
        let gpu = machine.gpu(name)?;
        let (side, planes, depth) = (lattice.side, to - from, lattice.planes());
        let whole = planes == depth;
        let size = plane(side);
        let mut numbers = number * BUFFERS..;
        let mut buffer = |bytes: usize| machine.buffer(name, numbers.next().unwrap_or(usize::MAX), 0, bytes);
        let spins = [buffer(size * planes as usize)?, buffer(size * planes as usize)?];
        let couplings = [buffer(size / 12 * planes as usize)?, buffer(size / 12 * planes as usize)?];
        let beside = if whole { None } else { Some([buffer(2 * size)?, buffer(2 * size)?]) };
        let words = buffer(6 * APART)?;
        gpu.context.enter()?;
        let staging = match (whole, lattice.exchange) {
            (false, Exchange::Staged) => {
                let pinned = || PinnedBuffer::new(&gpu.context, 2 * size);
                let words = PinnedBuffer::new(&gpu.context, 4096)?;
                (0..2 * APART / 8).for_each(|i| words.write(i, 0));
                Some(Staging { planes: [pinned()?, pinned()?], words, fetch: gpu.stream()? })
            }
            _ => None,
        };
        let (bulk, edge) = (gpu.stream()?, gpu.stream()?);
        bulk.set(words.part(0, usize::MAX), 0)?;
        bulk.synchronize()?;
        let (start, end) = (Event::new(&bulk)?, Event::new(&bulk)?);
        let kernels = Kernels::load(&gpu)?;
        Ok(Slab {
            gpu,
            kernels,
            side,
            from,
            planes,
            depth,
            spins,
            couplings,
            beside,
            words,
            staging,
            bulk,
            edge,
            start,
            end,
        })
    }

    /// A plane's spins of a colour.
    fn plane(&self, colour: usize, number: u32) -> Part<'_> {
        self.spins[colour].part(plane(self.side) * number as usize, plane(self.side))
    }

    /// The first and the last plane.
    pub(super) fn ends(&self, colour: usize) -> [Part<'_>; 2] {
        [self.plane(colour, 0), self.plane(colour, self.planes - 1)]
    }

    /// The planes below and above, of a colour.
    pub(super) fn neighbours(&self, colour: usize) -> [Part<'_>; 2] {
        match &self.beside {
            Some(beside) => [0, 1].map(|i| beside[colour].part(plane(self.side) * i, plane(self.side))),
            None => [self.plane(colour, self.planes - 1), self.plane(colour, 0)],
        }
    }

    /// The step whose plane has come, from below (0) or above (1).
    pub(super) fn arrived(&self, from: usize) -> Part<'_> {
        self.words.part(4 * from, 4)
    }

    /// The step whose end is updated: of the first plane (0) or the last (1).
    pub(super) fn updated(&self, end: usize) -> Part<'_> {
        self.words.part(APART * (2 + end), 4)
    }

    pub(super) fn everything(&self, colour: usize) -> [Argument<'_>; 5] {
        let size = plane(self.side);
        let all = size * self.planes as usize;
        let [below, above] = self.neighbours(1 - colour);
        let (own, other) = (self.spins[colour].part(0, all), self.spins[1 - colour].part(0, all));
        let couplings = self.couplings[colour].part(0, all / 12);
        [Memory(own, all), Memory(other, all), Memory(below, size), Memory(above, size), Memory(couplings, all / 12)]
    }

    /// The colour of the slab's own first place, where the lattice's is `colour`.
    pub(super) fn local(&self, colour: usize) -> u32 {
        (colour as u32 + self.from) % 2
    }

    /// Queues an update, in the stream `bulk`.
    pub(super) fn update(&self, update: Update) -> Result<(), CudaError> {
        let Update { colour, planes, to, signals } = update;
        let (first, count) = match planes {
            Planes::All => (0, self.planes),
            Planes::EndsFirst => (1, self.planes - 2),
            Planes::Ends => (1, 0),
        };
        let shape = Shape::of(self.side, count);
        let ends = if planes == Planes::All { 0 } else { shape.ends(self.side) };
        let none = [Word(0), Word(0)];
        let to = to.map_or(none, |to| to.map(|part| Memory(part, plane(self.side))));
        let (arrived, tell) = match signals {
            Some(Signals { tell, .. }) => (Memory(self.words.part(0, 8), 8), tell.map(|word| Memory(word, 4))),
            None => (Word(0), none),
        };
        let done = Memory(self.words.part(APART, 8), 8);
        let (awaited, step) = signals.map_or((0, 0), |signals| (signals.awaited, signals.step));
        let numbers =
            [self.side, self.planes, first, count, self.local(colour), shape.packed(colour), ends, awaited, step];
        let divisors = shape.divisors(self.side, count).map(|by| Word((1_u64 << 32).div_ceil(u64::from(by.max(1)))));
        let arguments: Vec<Argument> = self
            .everything(colour)
            .into_iter()
            .chain(to)
            .chain([arrived, done])
            .chain(tell)
            .chain(numbers.map(Half))
            .chain(divisors)
            .collect();
        self.gpu.context.enter()?;
        let blocks = ends + shape.blocks(self.side, count);
        let launch = Launch { blocks, threads: OVER_RELAX.threads, shared: 0 };
        self.kernels.over_relax.launch(&self.bulk, launch, &arguments)
    }

    /// Draws spins and couplings.
    pub(super) fn draw(&self, seed: u32) -> Result<(), Problem> {
        self.gpu.context.enter()?;
        let shape = |kernel: kernels::Kernel| Launch {
            blocks: kernel.grid(self.gpu.kernels.multiprocessors()),
            threads: kernel.threads,
            shared: 0,
        };
        for colour in 0..2 {
            let numbers = [self.side, self.planes, self.from, colour as u32, seed].map(Half);
            let [own, _, _, _, couplings] = self.everything(colour);
            let with = |memory| [[memory].as_slice(), &numbers].concat();
            self.kernels.draw_spins.launch(&self.bulk, shape(DRAW_SPINS), &with(own))?;
            self.kernels.draw_couplings.launch(
                &self.bulk,
                shape(DRAW_COUPLINGS),
                &[with(couplings), vec![Half(self.depth)]].concat(),
            )?;
        }
        Ok(self.bulk.synchronize()?)
    }

    /// Waits until all of its work is done.
    pub(super) fn settle(&self) -> Result<(), Problem> {
        self.gpu.context.enter()?;
        self.bulk.synchronize()?;
        self.edge.synchronize()?;
        if let Some(staging) = &self.staging {
            staging.fetch.synchronize()?;
        }
        Ok(())
    }
}

/// How the threads of a block lie: powers of two of threads along a row, and of rows; and how many blocks of rows come
/// before the next plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) along: u32,
    pub(super) rows: u32,
    pub(super) strip: u32,
}

impl Shape {
    /// What was found best on an H200 (docs/applications.md).
    pub(super) fn of(side: u32, planes: u32) -> Self {
        let along = (side / 8).trailing_zeros().min(5);
        let deep = if side > 512 || planes < 4 { 1 } else { 2 };
        let rows = 8 - along - deep;
        let blocks = side >> rows;
        let most = (512 >> rows).min(blocks);
        let strip = (1..=most).rev().find(|strip| blocks.is_multiple_of(*strip)).unwrap_or(1);
        Shape { along, rows, strip }
    }

    /// As the kernel reads it. Colours go up and down by turns.
    fn packed(self, colour: usize) -> u32 {
        self.along | self.rows << 8 | self.strip << 16 | (colour as u32) << 31
    }

    /// Blocks along a row, of a strip, and along Z.
    pub(super) fn divisors(self, side: u32, planes: u32) -> [u32; 3] {
        let deep = 8 - self.along - self.rows;
        [(side / 8) >> self.along, self.strip, planes.div_ceil(1 << deep)]
    }

    pub(super) fn blocks(self, side: u32, planes: u32) -> u32 {
        let [across, strip, layers] = self.divisors(side, planes);
        across * strip * layers * ((side >> self.rows) / strip)
    }

    /// Blocks of both ends, each in one plane.
    pub(super) fn ends(self, side: u32) -> u32 {
        2 * ((side / 8) >> self.along) * (side >> (8 - self.along))
    }
}
