//! A part of the lattice on one GPU: its memory, its words, and the launches that update it.

use std::rc::Rc;

use peerlane_machine::exchange::Exchange;
use peerlane_machine::spin_glass::SpinGlass as Lattice;

use super::shape::{Shape, on_surface};
use crate::cuda::Argument::{Half, Memory, Word};
use crate::cuda::{Argument, Buffer, CudaError, Event, Kernel, Launch, Part, PinnedBuffer};
use crate::failure::Problem;
use crate::kernels::{self, DRAW_COUPLINGS, DRAW_SPINS, INSPECT, OVER_RELAX, RELAX_BLOCK};
use crate::live::Machine;
use crate::live::gpu::{BorrowedStream, Gpu};

/// A number a stretch of memory of a block has: spins of two colours, couplings of two, neighbours' faces of two, packed ones of two,
/// and words.
const BUFFERS: usize = 9;

/// Bytes from one word to the next: none shares a line of a cache with another.
const APART: usize = 128;

/// Bits of `cut` of the kernel: an axis has that of its number; with this one nothing is updated, and only stored.
const PACK: u32 = 8;

/// Faces of a block: left and right, before and behind, below and above; in this order 0 to 5, along each axis the lower one first.
pub(super) const FACES: usize = 6;

/// Something of each face, or of some.
pub(super) type Each<'p> = [Option<Part<'p>>; FACES];

/// Nothing of any face.
pub(super) const NONE: Each<'static> = [None; FACES];

/// The face that a neighbour has where a block has this one.
pub(super) fn opposite(face: usize) -> usize {
    face ^ 1
}

/// The kernels, on one GPU.
pub(super) struct Kernels {
    over_relax: Kernel,
    relax_block: Kernel,
    draw_spins: Kernel,
    draw_couplings: Kernel,
    inspect: Kernel,
}

impl Kernels {
    fn load(gpu: &Gpu) -> Result<Self, CudaError> {
        let module = gpu.module(OVER_RELAX.module)?;
        Ok(Kernels {
            over_relax: module.kernel(OVER_RELAX.name)?,
            relax_block: module.kernel(RELAX_BLOCK.name)?,
            draw_spins: module.kernel(DRAW_SPINS.name)?,
            draw_couplings: module.kernel(DRAW_COUPLINGS.name)?,
            inspect: module.kernel(INSPECT.name)?,
        })
    }
}

/// Faces on their way through host memory, and the words that tell how far they are.
pub(super) struct Staging {
    /// The block's own faces, of each colour.
    faces: [PinnedBuffer; 2],
    words: PinnedBuffer,
    /// Fetch the neighbours' faces.
    fetch: Vec<BorrowedStream>,
}

impl Staging {
    /// The step whose face is there.
    pub(super) fn word(&self, face: usize) -> Part<'_> {
        self.words.part(APART * face, 4)
    }
}

/// Places that one GPU updates.
pub(super) struct Block {
    pub(super) gpu: Rc<Gpu>,
    kernels: Kernels,
    /// Where it begins in the lattice, along X, Y and Z, and how many places it has.
    from: [u32; 3],
    pub(super) extents: [u32; 3],
    /// Places of the lattice along each axis.
    lattice: [u32; 3],
    /// Whether it is cut along Z alone, and the leaner kernel for slabs updates it.
    is_slab: bool,
    /// The faces that it has neighbours beyond.
    pub(super) faces: Vec<usize>,
    pub(super) spins: [Rc<dyn Buffer>; 2],
    pub(super) couplings: [Rc<dyn Buffer>; 2],
    /// Copies of the neighbours' faces; none of a lattice in one piece, since its own are next to each other.
    beside: Option<[Rc<dyn Buffer>; 2]>,
    /// Its own faces that are not contiguous, packed, where no kernel stores them at the neighbours.
    packed: Option<[Rc<dyn Buffer>; 2]>,
    /// A word for each face that has come; two in which threads' blocks are counted; and a word for each face that is updated.
    words: Rc<dyn Buffer>,
    pub(super) staging: Option<Staging>,
    // streams go before what their work uses
    pub(super) bulk: BorrowedStream,
    /// Send the faces: of a slab one both, of other blocks one each.
    pub(super) edges: Vec<BorrowedStream>,
    pub(super) start: Event,
    pub(super) end: Event,
}

/// An update of a block.
#[derive(Clone, Copy)]
pub(super) struct Update<'p> {
    pub(super) colour: usize,
    pub(super) places: Places,
    /// Where the faces are stored, too.
    pub(super) to: Each<'p>,
    /// What the kernel itself waits for and tells.
    pub(super) signals: Option<Signals<'p>>,
}

/// What the first blocks of a launch wait for, and what they tell when they are done.
#[derive(Clone, Copy)]
pub(super) struct Signals<'p> {
    /// The step that the neighbours' faces must have come of.
    pub(super) awaited: u32,
    /// Which step this is.
    pub(super) step: u32,
    /// The words that tell so, by face.
    pub(super) tell: Each<'p>,
}

/// Which places of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// All of them alike.
    All,
    /// All of them, the surface first.
    SurfaceFirst,
    /// The surface alone: what neighbours need.
    Surface,
    /// None: faces are stored as they are.
    Faces,
}

impl Block {
    /// A block that begins at `from`, or the lattice in one piece where it has all of it; `number` is how many the GPU has already.
    pub(super) fn new(
        machine: &mut Machine,
        lattice: &Lattice,
        name: &str,
        number: usize,
        [from, extents]: [[u32; 3]; 2],
    ) -> Result<Self, Problem> {
        let gpu = machine.gpu(name)?;
        let all = lattice.extents();
        let faces: Vec<usize> = (0..FACES).filter(|face| extents[face / 2] != all[face / 2]).collect();
        // the kernel for slabs takes rows and columns for equally long
        let is_slab = extents[0] == extents[1] && (lattice.blocks.is_none() || faces.is_empty());
        let places = extents.iter().map(|n| *n as usize).product::<usize>() / 2;
        let surface: usize = faces.iter().map(|face| bytes_of(extents, *face)).sum();
        let mut numbers = number * BUFFERS..;
        let mut buffer = |bytes: usize| machine.buffer(name, numbers.next().unwrap_or(usize::MAX), 0, bytes);
        let spins = [buffer(12 * places)?, buffer(12 * places)?];
        let couplings = [buffer(places)?, buffer(places)?];
        let mut if_cut = |needed: bool| -> Result<Option<[Rc<dyn Buffer>; 2]>, Problem> {
            let bytes = if needed { surface } else { 16 };
            let both = [buffer(bytes)?, buffer(bytes)?];
            Ok(needed.then_some(both))
        };
        let beside = if_cut(!faces.is_empty())?;
        let packed = if_cut(!is_slab && !faces.is_empty() && lattice.exchange != Exchange::Stores)?;
        let words = buffer((2 + FACES) * APART)?;
        gpu.context.enter()?;
        let streams = |count: usize| (0..count).map(|_| gpu.stream()).collect::<Result<Vec<_>, _>>();
        let count = if is_slab { 1 } else { faces.len() };
        let staging = match (faces.is_empty(), lattice.exchange) {
            (false, Exchange::Staged) => {
                let pinned = || PinnedBuffer::new(&gpu.context, surface);
                let words = PinnedBuffer::new(&gpu.context, 4096)?;
                (0..FACES * APART / 8).for_each(|i| words.write(i, 0));
                Some(Staging { faces: [pinned()?, pinned()?], words, fetch: streams(count)? })
            }
            _ => None,
        };
        let (bulk, edges) = (gpu.stream()?, streams(count)?);
        bulk.set(words.part(0, usize::MAX), 0)?;
        bulk.synchronize()?;
        let (start, end) = (Event::new(&bulk)?, Event::new(&bulk)?);
        let kernels = Kernels::load(&gpu)?;
        let lattice = all;
        Ok(Block {
            gpu,
            kernels,
            from,
            extents,
            lattice,
            is_slab,
            faces,
            spins,
            couplings,
            beside,
            packed,
            words,
            staging,
            bulk,
            edges,
            start,
            end,
        })
    }

    /// The stream that sends a face, and the one that fetches one.
    pub(super) fn edge(&self, face: usize) -> &BorrowedStream {
        one_of(&self.edges, &self.faces, face)
    }

    pub(super) fn fetch<'s>(&self, staging: &'s Staging, face: usize) -> &'s BorrowedStream {
        one_of(&staging.fetch, &self.faces, face)
    }

    /// All the faces behind each other: where one begins, and its bytes.
    fn stretch(&self, face: usize) -> (usize, usize) {
        let before =
            self.faces.iter().take_while(|other| **other != face).map(|other| bytes_of(self.extents, *other)).sum();
        (before, bytes_of(self.extents, face))
    }

    /// A face in host memory.
    pub(super) fn staged<'s>(&self, staging: &'s Staging, colour: usize, face: usize) -> Part<'s> {
        let (at, bytes) = self.stretch(face);
        staging.faces[colour].part(at, bytes)
    }

    /// What is copied of a face: its plane, or where it is packed; none where the kernel stores it.
    pub(super) fn face(&self, colour: usize, face: usize) -> Option<Part<'_>> {
        let (at, bytes) = self.stretch(face);
        let last = if face == 5 { self.extents[2] as usize - 1 } else { 0 };
        match &self.packed {
            _ if face >= 4 => Some(self.spins[colour].part(bytes * last, bytes)),
            Some(packed) => Some(packed[colour].part(at, bytes)),
            None => None,
        }
    }

    /// Where faces that are not contiguous are packed; nowhere where the kernel stores them at the neighbours, or where there are none.
    pub(super) fn packing(&self, colour: usize) -> Each<'_> {
        let mut to = NONE;
        if self.packed.is_some() {
            self.faces.iter().filter(|face| **face < 4).for_each(|face| to[*face] = self.face(colour, *face));
        }
        to
    }

    /// The neighbour's places beyond a face.
    pub(super) fn neighbours(&self, colour: usize, face: usize) -> Option<Part<'_>> {
        let (at, bytes) = self.stretch(face);
        match &self.beside {
            Some(beside) if self.faces.contains(&face) => Some(beside[colour].part(at, bytes)),
            // along an axis that is not cut its own are next to each other
            _ if face >= 4 => {
                Some(self.spins[colour].part(if face == 4 { bytes * (self.extents[2] as usize - 1) } else { 0 }, bytes))
            }
            _ => None,
        }
    }

    /// The step whose face has come.
    pub(super) fn arrived(&self, face: usize) -> Part<'_> {
        self.words.part(4 * if self.is_slab { face & 1 } else { face }, 4)
    }

    /// The step whose face is updated.
    pub(super) fn updated(&self, face: usize) -> Part<'_> {
        self.words.part(APART * (2 + face), 4)
    }

    /// The colour of the block's own first place, where the lattice's is `colour`. It begins at an even X.
    fn local(&self, colour: usize) -> u32 {
        (colour as u32 + self.from[1] + self.from[2]) % 2
    }

    fn places(&self) -> usize {
        self.extents.iter().map(|n| *n as usize).product::<usize>() / 2
    }

    /// Spins of a colour and of its neighbours.
    fn own(&self, colour: usize) -> [Argument<'_>; 2] {
        let all = 12 * self.places();
        [colour, 1 - colour].map(|colour| Memory(self.spins[colour].part(0, all), all))
    }

    fn signs(&self, colour: usize) -> Argument<'_> {
        Memory(self.couplings[colour].part(0, self.places()), self.places())
    }

    /// What lies beyond each face, of the neighbours' colour.
    fn beside(&self, colour: usize) -> [Argument<'_>; FACES] {
        self.faces_of(std::array::from_fn(|face| self.neighbours(1 - colour, face)))
    }

    fn faces_of<'p>(&self, each: Each<'p>) -> [Argument<'p>; FACES] {
        std::array::from_fn(|face| each[face].map_or(Word(0), |part| Memory(part, bytes_of(self.extents, face))))
    }

    /// Blocks of threads that wait for the neighbours' faces in a launch.
    pub(super) fn first_blocks(&self) -> u32 {
        if self.is_slab {
            return Shape::of(self.extents).ends(self.extents[0]);
        }
        on_surface(self.extents, self.cut()).div_ceil(RELAX_BLOCK.threads)
    }

    pub(super) fn multiprocessors(&self) -> u32 {
        self.gpu.kernels.multiprocessors()
    }

    /// By axis, whether it is cut.
    fn cut(&self) -> [bool; 3] {
        [0, 2, 4].map(|face| self.faces.contains(&face))
    }

    /// Queues an update, in the stream `bulk`.
    pub(super) fn update(&self, update: Update) -> Result<(), CudaError> {
        self.gpu.context.enter()?;
        if self.is_slab { self.update_slab(update) } else { self.update_block(update) }
    }

    fn update_slab(&self, Update { colour, places, to, signals }: Update) -> Result<(), CudaError> {
        let [side, _, planes] = self.extents;
        let (first, count) = match places {
            Places::All => (0, planes),
            Places::SurfaceFirst => (1, planes - 2),
            Places::Surface => (1, 0),
            // both are planes, which need no packing
            Places::Faces => return Ok(()),
        };
        let extents = [side, side, count];
        let shape = Shape::of(extents);
        let ends = if places == Places::All { 0 } else { shape.ends(side) };
        let [.., below, above] = self.beside(colour);
        let [.., to_below, to_above] = self.faces_of(to);
        let (arrived, [.., tell_below, tell_above]) = self.told(signals);
        let done = Memory(self.words.part(APART, 8), 8);
        let (awaited, step) = signals.map_or((0, 0), |signals| (signals.awaited, signals.step));
        let numbers = [side, planes, first, count, self.local(colour), shape.packed(colour), ends, awaited, step];
        let arguments: Vec<Argument> = self
            .own(colour)
            .into_iter()
            .chain([below, above, self.signs(colour), to_below, to_above, arrived, done, tell_below, tell_above])
            .chain(numbers.map(Half))
            .chain(reciprocals(shape, extents))
            .collect();
        let launch = Launch { blocks: ends + shape.blocks(extents), threads: OVER_RELAX.threads, shared: 0 };
        self.kernels.over_relax.launch(&self.bulk, launch, &arguments)
    }

    fn update_block(&self, Update { colour, places, to, signals }: Update) -> Result<(), CudaError> {
        let cut = self.cut();
        let [x, y, z] = cut.map(u32::from);
        let shape = Shape::of(self.extents);
        let surface = match places {
            Places::All | Places::Faces => 0,
            Places::SurfaceFirst | Places::Surface => on_surface(self.extents, cut).div_ceil(RELAX_BLOCK.threads),
        };
        let rest = if places == Places::Surface { 0 } else { shape.blocks(self.extents) };
        let pack = if places == Places::Faces { PACK } else { 0 };
        let (arrived, tell) = self.told(signals);
        let done = Memory(self.words.part(APART, 4), 4);
        let (awaited, step) = signals.map_or((0, 0), |signals| (signals.awaited, signals.step));
        let [width, height, planes] = self.extents;
        let numbers = [
            width,
            height,
            planes,
            self.local(colour),
            shape.packed(colour),
            surface,
            x | y << 1 | z << 2 | pack,
            awaited,
            step,
        ];
        let arguments: Vec<Argument> = self
            .own(colour)
            .into_iter()
            .chain([self.signs(colour)])
            .chain(self.beside(colour))
            .chain(self.faces_of(to))
            .chain([arrived, done])
            .chain(tell)
            .chain(numbers.map(Half))
            .chain(reciprocals(shape, self.extents))
            .collect();
        let launch = Launch { blocks: surface + rest, threads: RELAX_BLOCK.threads, shared: 0 };
        self.kernels.relax_block.launch(&self.bulk, launch, &arguments)
    }

    /// The words that a launch waits for, and those that it tells.
    fn told<'p>(&'p self, signals: Option<Signals<'p>>) -> (Argument<'p>, [Argument<'p>; FACES]) {
        let Some(Signals { tell, .. }) = signals else { return (Word(0), [Word(0); FACES]) };
        (
            Memory(self.words.part(0, 4 * FACES), 4 * FACES),
            tell.map(|word| word.map_or(Word(0), |word| Memory(word, 4))),
        )
    }

    /// Draws spins and couplings.
    pub(super) fn draw(&self, seed: u32) -> Result<(), Problem> {
        self.gpu.context.enter()?;
        for colour in 0..2 {
            let numbers = self.geometry().into_iter().chain([self.lattice[2], colour as u32, seed]).map(Half);
            let with = |memory| [memory].into_iter().chain(numbers.clone()).collect::<Vec<Argument>>();
            let [own, _] = self.own(colour);
            self.kernels.draw_spins.launch(&self.bulk, self.all(DRAW_SPINS), &with(own))?;
            self.kernels.draw_couplings.launch(&self.bulk, self.all(DRAW_COUPLINGS), &with(self.signs(colour)))?;
        }
        Ok(self.bulk.synchronize()?)
    }

    /// Adds up a colour's places into three numbers at `sums`.
    pub(super) fn inspect(&self, colour: usize, sums: Part) -> Result<(), CudaError> {
        self.gpu.context.enter()?;
        let arguments: Vec<Argument> = self
            .own(colour)
            .into_iter()
            .chain([self.signs(colour)])
            .chain(self.beside(colour))
            .chain([Memory(sums, 24)])
            .chain(self.geometry().into_iter().chain([colour as u32]).map(Half))
            .collect();
        self.kernels.inspect.launch(&self.bulk, self.all(INSPECT), &arguments)?;
        self.bulk.synchronize()
    }

    /// Its extents, where it begins, and the lattice's rows and planes.
    fn geometry(&self) -> [u32; 8] {
        let ([width, height, planes], [x, y, z], [across, down, _]) = (self.extents, self.from, self.lattice);
        [width, height, planes, x, y, z, across, down]
    }

    fn all(&self, kernel: kernels::Kernel) -> Launch {
        Launch { blocks: kernel.grid(self.gpu.kernels.multiprocessors()), threads: kernel.threads, shared: 0 }
    }

    /// Waits until all of its work is done.
    pub(super) fn settle(&self) -> Result<(), Problem> {
        self.gpu.context.enter()?;
        self.bulk.synchronize()?;
        self.edges.iter().try_for_each(|edge| edge.synchronize())?;
        let fetches = self.staging.iter().flat_map(|staging| &staging.fetch);
        Ok(fetches.into_iter().try_for_each(|fetch| fetch.synchronize())?)
    }
}

/// What the kernels divide by, as what they multiply with instead.
fn reciprocals(shape: Shape, extents: [u32; 3]) -> [Argument<'static>; 3] {
    shape.divisors(extents).map(|by| Word((1_u64 << 32).div_ceil(u64::from(by.max(1)))))
}

/// The stream of a face, of as many as there are faces or of one for all.
fn one_of<'s>(streams: &'s [BorrowedStream], faces: &[usize], face: usize) -> &'s BorrowedStream {
    let place = faces.iter().position(|other| *other == face).unwrap_or(0);
    &streams[place % streams.len()]
}

/// Bytes of one colour's spins of a face of a block.
pub(super) fn bytes_of(extents: [u32; 3], face: usize) -> usize {
    let axis = face / 2;
    let area: usize = (0..3).filter(|other| *other != axis).map(|other| extents[other] as usize).product();
    area / 2 * 12
}
