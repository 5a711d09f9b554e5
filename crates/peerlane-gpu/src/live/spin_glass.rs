//! The spin glass, cut along Z among GPUs: each updates its boundary planes, sends them, and updates the rest meanwhile.
//!
//! A slab has two streams: `edge` updates the boundary planes and sends them, `bulk` updates the rest. Half-sweep by half-sweep
//! the two wait for each other and for what neighbours sent, by events; the host only queues. Copies of the neighbours' planes
//! exist for each colour, and so does each event: what is written in a half-sweep was last read in the one before, which every
//! neighbour has then finished.

#[cfg(test)]
mod tests;

use std::rc::Rc;

use peerlane::measure::{Sample, Verdict};
use peerlane::plan::Method;
use peerlane::spin_glass::{Exchange, SpinGlass as Lattice};
use peerlane::units::Bytes;

use super::failure::Problem;
use super::gate::SharedGate;
use super::gpu::{BorrowedStream, Gpu};
use super::{Machine, Prepared};
use crate::cuda::Argument::{Half, Memory, Word};
use crate::cuda::{Argument, Buffer, CudaError, Event, Kernel, Launch, Module, Part, PinnedBuffer, Stream};
use crate::kernels::{self, DRAW_COUPLINGS, DRAW_SPINS, INSPECT, OVER_RELAX};

/// Energy may drift by so much a bond, and a spin's length by so much.
const TOLERANCE: f64 = 1e-5;

/// Half-sweeps after which slabs are compared with the lattice in one piece.
const COMPARED: usize = 8;

/// The most half-sweeps of a sample: the driver queues a thousand launches, and each may be two.
const MOST: usize = 400;

/// A number a stretch of memory of a slab has: spins of two colours, couplings of two, neighbours' planes of two.
const BUFFERS: usize = 6;

/// Energy is added up in units of this.
const UNIT: f64 = 1.0 / (1 << 28) as f64;

/// What a lattice adds up to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sums {
    /// Energy a bond.
    energy: f64,
    /// A sum over all bits of all spins.
    bits: u64,
    /// The most that a spin's length differs from 1.
    length: f64,
}

/// The kernels, on one GPU.
struct Kernels {
    over_relax: Kernel,
    draw_spins: Kernel,
    draw_couplings: Kernel,
    inspect: Kernel,
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

/// What a slab marks in each of two half-sweeps.
struct Marks {
    /// Its boundary is updated and on its way: sent, or in host memory where it is staged.
    edge: Event,
    /// Its bulk is updated.
    bulk: Event,
}

/// Planes that one GPU updates.
struct Slab {
    gpu: Rc<Gpu>,
    kernels: Kernels,
    side: u32,
    /// Its first plane in the lattice, and how many it has.
    from: u32,
    planes: u32,
    spins: [Rc<dyn Buffer>; 2],
    couplings: [Rc<dyn Buffer>; 2],
    /// Copies of the neighbours' planes, the one below and then the one above; of a whole lattice none, since its own are next
    /// to each other.
    beside: Option<[Rc<dyn Buffer>; 2]>,
    /// The same in host memory, on its way to the neighbours.
    staging: Option<[PinnedBuffer; 2]>,
    // streams go before what their work uses
    edge: BorrowedStream,
    bulk: BorrowedStream,
    marks: [Marks; 2],
    start: Event,
    end: Event,
}

/// Bytes of one colour's spins of a plane.
fn plane(side: u32) -> usize {
    side as usize * (side as usize / 2) * 12
}

impl Slab {
    /// `number` is how many slabs the GPU has already.
    fn new(
        machine: &mut Machine,
        lattice: &Lattice,
        name: &str,
        number: usize,
        (from, to): (u32, u32),
    ) -> Result<Self, Problem> {
        let gpu = machine.gpu(name)?;
        let (side, planes, whole) = (lattice.side, to - from, to - from == lattice.side);
        let size = plane(side);
        let mut numbers = number * BUFFERS..;
        let mut buffers = |bytes: usize| -> Result<[Rc<dyn Buffer>; 2], Problem> {
            let mut one = || machine.buffer(name, numbers.next().unwrap_or(usize::MAX), 0, bytes);
            Ok([one()?, one()?])
        };
        let spins = buffers(size * planes as usize)?;
        let couplings = buffers(size / 12 * planes as usize)?;
        let beside = if whole { None } else { Some(buffers(2 * size)?) };
        gpu.context.enter()?;
        let staging = match (whole, lattice.exchange) {
            (false, Exchange::Staged) => {
                let pinned = || PinnedBuffer::new(&gpu.context, 2 * size);
                Some([pinned()?, pinned()?])
            }
            _ => None,
        };
        let (edge, bulk) = (gpu.stream()?, gpu.stream()?);
        let event = || Event::new(&edge);
        let marks = || -> Result<Marks, CudaError> { Ok(Marks { edge: event()?, bulk: event()? }) };
        let (marks, start, end) = ([marks()?, marks()?], event()?, event()?);
        let kernels = Kernels::load(&gpu)?;
        Ok(Slab { gpu, kernels, side, from, planes, spins, couplings, beside, staging, edge, bulk, marks, start, end })
    }

    /// A plane's spins of a colour.
    fn plane(&self, colour: usize, number: u32) -> Part<'_> {
        self.spins[colour].part(plane(self.side) * number as usize, plane(self.side))
    }

    /// The planes below and above, of a colour.
    fn neighbours(&self, colour: usize) -> [Part<'_>; 2] {
        match &self.beside {
            Some(beside) => [0, 1].map(|i| beside[colour].part(plane(self.side) * i, plane(self.side))),
            None => [self.plane(colour, self.planes - 1), self.plane(colour, 0)],
        }
    }

    fn everything(&self, colour: usize) -> [Argument<'_>; 5] {
        let size = plane(self.side);
        let all = size * self.planes as usize;
        let [below, above] = self.neighbours(1 - colour);
        let (own, other) = (self.spins[colour].part(0, all), self.spins[1 - colour].part(0, all));
        let couplings = self.couplings[colour].part(0, all / 12);
        [Memory(own, all), Memory(other, all), Memory(below, size), Memory(above, size), Memory(couplings, all / 12)]
    }

    /// The colour of the slab's own first place, where the lattice's is `colour`.
    fn local(&self, colour: usize) -> u32 {
        (colour as u32 + self.from) % 2
    }

    /// Updates so many planes, and stores the ends' also where the neighbours keep them.
    fn update(
        &self,
        stream: &Stream,
        colour: usize,
        planes: Planes,
        to: Option<[Part<'_>; 2]>,
    ) -> Result<(), CudaError> {
        let (first, stride, count) = match planes {
            Planes::All => (0, 1, self.planes),
            Planes::Ends => (0, self.planes - 1, 2),
            Planes::Between => (1, 1, self.planes - 2),
        };
        let shape = Shape::of(self.side, count);
        let to = match to {
            Some(to) => to.map(|part| Memory(part, plane(self.side))),
            None => [Word(0), Word(0)],
        };
        let numbers = [self.side, self.planes, first, stride, count, self.local(colour), shape.packed(colour)];
        let divisors = shape.divisors(self.side, count).map(|by| Word((1_u64 << 32).div_ceil(u64::from(by))));
        let arguments: Vec<Argument> =
            self.everything(colour).into_iter().chain(to).chain(numbers.map(Half)).chain(divisors).collect();
        self.gpu.context.enter()?;
        let launch = Launch { blocks: shape.blocks(self.side, count), threads: OVER_RELAX.threads, shared: 0 };
        self.kernels.over_relax.launch(stream, launch, &arguments)
    }

    /// Draws spins and couplings.
    fn draw(&self, seed: u32) -> Result<(), Problem> {
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
            self.kernels.draw_spins.launch(&self.edge, shape(DRAW_SPINS), &with(own))?;
            self.kernels.draw_couplings.launch(&self.edge, shape(DRAW_COUPLINGS), &with(couplings))?;
        }
        Ok(self.edge.synchronize()?)
    }
}

/// Which planes of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planes {
    All,
    Ends,
    Between,
}

/// How the threads of a block lie: powers of two of threads along a row, and of rows; and how many blocks of rows come
/// before the next plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    along: u32,
    rows: u32,
    strip: u32,
}

impl Shape {
    /// What was found best on an H200 (docs/applications.md).
    fn of(side: u32, planes: u32) -> Self {
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
    fn divisors(self, side: u32, planes: u32) -> [u32; 3] {
        let deep = 8 - self.along - self.rows;
        [(side / 8) >> self.along, self.strip, planes.div_ceil(1 << deep)]
    }

    fn blocks(self, side: u32, planes: u32) -> u32 {
        let [across, strip, layers] = self.divisors(side, planes);
        across * strip * layers * ((side >> self.rows) / strip)
    }
}

/// A lattice, cut or whole, ready to run.
pub(crate) struct SpinGlass {
    lattice: Lattice,
    slabs: Vec<Slab>,
    /// The lattice in one piece, which the cut one must equal.
    whole: Option<Box<SpinGlass>>,
    gate: SharedGate,
    sums: PinnedBuffer,
    seed: u32,
    before: Sums,
    /// Half-sweeps since it was drawn.
    done: usize,
    /// Half-sweeps of a sample.
    each: usize,
}

impl SpinGlass {
    pub(crate) fn prepare(machine: &mut Machine, lattice: &Lattice, method: &Method) -> Result<(Self, Bytes), Problem> {
        if let Some(why) = lattice.problem() {
            return Err(Problem::NotApplicable(why));
        }
        let mut glass = Self::numbered(machine, lattice, 0)?;
        if lattice.gpus.len() > 1 {
            let whole = Lattice { gpus: lattice.gpus[..1].to_vec(), ..lattice.clone() };
            // beside its slabs
            glass.whole = Some(Box::new(Self::numbered(machine, &whole, lattice.gpus.len())?));
        }
        glass.seed = machine.next_seed();
        glass.draw()?;
        glass.before = glass.inspect()?;
        let pace = glass.go(2)?;
        let pace = glass.go(if pace < 1e-3 { 20 } else { 2 })?;
        let wanted = (method.sample_time.seconds() / pace.max(1e-9)).ceil();
        glass.each = (wanted.clamp(2.0, MOST as f64) as usize).next_multiple_of(2);
        Ok((glass, lattice.bytes()))
    }

    /// `number` is how many slabs each GPU may have already.
    fn numbered(machine: &mut Machine, lattice: &Lattice, number: usize) -> Result<Self, Problem> {
        let mut slabs = Vec::new();
        for (i, name) in lattice.gpus.iter().enumerate() {
            slabs.push(Slab::new(machine, lattice, name, number + i, lattice.slab(i))?);
        }
        let direct = lattice.exchange != Exchange::Staged;
        for (a, b) in (0..slabs.len()).map(|i| (i, (i + 1) % slabs.len())) {
            let (a, b) = (&slabs[a].gpu, &slabs[b].gpu);
            if direct && !Rc::ptr_eq(a, b) {
                machine.access(a, b, true)?;
                machine.access(b, a, true)?;
            }
        }
        let sums = PinnedBuffer::new(&slabs[0].gpu.context, 4096)?;
        let before = Sums { energy: 0.0, bits: 0, length: 0.0 };
        let lattice = lattice.clone();
        Ok(SpinGlass { lattice, slabs, whole: None, gate: machine.gate()?, sums, seed: 0, before, done: 0, each: 2 })
    }

    /// Draws the lattice, and tells neighbours their planes.
    fn draw(&mut self) -> Result<(), Problem> {
        for slab in &self.slabs {
            slab.draw(self.seed)?;
        }
        for colour in 0..2 {
            for i in 0..self.slabs.len() {
                self.send(i, colour)?;
            }
            self.receive(colour)?;
        }
        self.done = 0;
        self.settle()
    }

    fn settle(&self) -> Result<(), Problem> {
        for slab in &self.slabs {
            slab.gpu.context.enter()?;
            slab.edge.synchronize()?;
            slab.bulk.synchronize()?;
        }
        Ok(())
    }

    /// The slabs below and above one.
    fn beside(&self, i: usize) -> [usize; 2] {
        let n = self.slabs.len();
        [(i + n - 1) % n, (i + 1) % n]
    }

    /// Where a slab's first and last plane are kept by its neighbours: above the one below, below the one above.
    fn copies_of(&self, i: usize, colour: usize) -> [Part<'_>; 2] {
        let [below, above] = self.beside(i);
        [self.slabs[below].neighbours(colour)[1], self.slabs[above].neighbours(colour)[0]]
    }

    /// Sends a slab's first and last plane, in its stream `edge`, and marks it. Where the kernel has stored them already,
    /// only when the lattice is drawn.
    fn send(&self, i: usize, colour: usize) -> Result<(), CudaError> {
        let slab = &self.slabs[i];
        slab.gpu.context.enter()?;
        let ends = [slab.plane(colour, 0), slab.plane(colour, slab.planes - 1)];
        if slab.beside.is_some() {
            match &slab.staging {
                Some(staging) => {
                    let size = plane(slab.side);
                    for (k, end) in ends.into_iter().enumerate() {
                        slab.edge.copy(staging[colour].part(size * k, size), end)?;
                    }
                }
                None => {
                    for (to, from) in self.copies_of(i, colour).into_iter().zip(ends) {
                        slab.edge.copy(to, from)?;
                    }
                }
            }
        }
        slab.edge.record(&slab.marks[colour].edge)
    }

    /// Where planes are staged, each slab fetches its neighbours'.
    fn receive(&self, colour: usize) -> Result<(), CudaError> {
        for (i, slab) in self.slabs.iter().enumerate().filter(|(_, slab)| slab.staging.is_some()) {
            slab.gpu.context.enter()?;
            let size = plane(slab.side);
            // the plane below is the last of the slab below, the one above the first of the slab above
            let ends = self.beside(i).into_iter().zip([1, 0]).zip(slab.neighbours(colour));
            for ((neighbour, end), to) in ends {
                let neighbour = &self.slabs[neighbour];
                let Some(staging) = &neighbour.staging else { continue };
                slab.edge.wait(&neighbour.marks[colour].edge)?;
                slab.edge.copy(to, staging[colour].part(size * end, size))?;
            }
        }
        Ok(())
    }

    /// Queues the update of one colour.
    fn half_sweep(&self, colour: usize) -> Result<(), CudaError> {
        let before = 1 - colour;
        for (i, slab) in self.slabs.iter().enumerate() {
            slab.gpu.context.enter()?;
            if slab.beside.is_none() {
                slab.update(&slab.edge, colour, Planes::All, None)?;
                continue;
            }
            let stores = self.lattice.exchange == Exchange::Stores;
            let to = stores.then(|| self.copies_of(i, colour));
            slab.edge.wait(&slab.marks[before].bulk)?;
            if !self.staged() {
                for neighbour in self.beside(i) {
                    slab.edge.wait(&self.slabs[neighbour].marks[before].edge)?;
                }
            }
            if self.lattice.overlap {
                slab.update(&slab.edge, colour, Planes::Ends, to)?;
                slab.bulk.wait(&slab.marks[before].edge)?;
                slab.update(&slab.bulk, colour, Planes::Between, None)?;
                slab.bulk.record(&slab.marks[colour].bulk)?;
            } else {
                slab.update(&slab.edge, colour, Planes::All, to)?;
                slab.edge.record(&slab.marks[colour].bulk)?;
            }
            if stores {
                slab.edge.record(&slab.marks[colour].edge)?;
            } else {
                self.send(i, colour)?;
            }
        }
        self.receive(colour)
    }

    fn staged(&self) -> bool {
        self.lattice.exchange == Exchange::Staged
    }

    /// Seconds a half-sweep, of so many behind each other, an even number.
    fn go(&mut self, half_sweeps: usize) -> Result<f64, Problem> {
        let gate = Rc::clone(&self.gate);
        let mut gate = gate.borrow_mut();
        let mut closed = gate.close();
        for slab in &self.slabs {
            slab.gpu.context.enter()?;
            closed.wait(&slab.gpu, &slab.edge)?;
            slab.edge.record(&slab.start)?;
            slab.bulk.wait(&slab.start)?;
            // nothing is on its way at first: the marks of the half-sweep before stand for the start
            for mark in [&slab.marks[1].edge, &slab.marks[1].bulk] {
                slab.edge.record(mark)?;
            }
        }
        for number in 0..half_sweeps {
            self.half_sweep(number % 2)?;
        }
        for slab in &self.slabs {
            slab.gpu.context.enter()?;
            slab.edge.wait(&slab.marks[1].bulk)?;
            slab.edge.record(&slab.end)?;
        }
        closed.release();
        self.settle()?;
        closed.check()?;
        self.done += half_sweeps;
        let times = self.slabs.iter().map(|slab| slab.end.since(&slab.start));
        let longest = times.collect::<Result<Vec<f64>, _>>()?.into_iter().fold(0.0, f64::max);
        Ok(longest / half_sweeps as f64)
    }

    /// What the lattice adds up to.
    fn inspect(&self) -> Result<Sums, Problem> {
        let mut sums = Sums { energy: 0.0, bits: 0, length: 0.0 };
        for slab in &self.slabs {
            slab.gpu.context.enter()?;
            let launch = Launch {
                blocks: INSPECT.grid(slab.gpu.kernels.multiprocessors()),
                threads: INSPECT.threads,
                shared: 0,
            };
            for colour in 0..2 {
                (0..3).for_each(|i| self.sums.write(i, 0));
                let numbers = [slab.side, slab.planes, slab.from, slab.local(colour)].map(Half);
                let result = Memory(self.sums.part(0, 24), 24);
                let arguments: Vec<Argument> =
                    slab.everything(colour).into_iter().chain([result]).chain(numbers).collect();
                slab.kernels.inspect.launch(&slab.edge, launch, &arguments)?;
                slab.edge.synchronize()?;
                // each bond has one end of this colour, so that one colour's places have all of the energy
                if colour == 0 {
                    sums.energy -= self.sums.read(0) as i64 as f64 * UNIT;
                }
                // linear, so that slabs add up to the lattice; the colours' numbers are the same
                sums.bits = sums.bits.wrapping_add(self.sums.read(1).wrapping_mul(2 * colour as u64 + 1));
                sums.length = sums.length.max(f64::from(f32::from_bits(self.sums.read(2) as u32)));
            }
        }
        sums.energy /= 3.0 * self.lattice.places() as f64;
        Ok(sums)
    }

    /// What is wrong with the lattice as it is now, by what physics keeps.
    fn broken(&self) -> Result<Option<String>, Problem> {
        let now = self.inspect()?;
        let drift = (now.energy - self.before.energy).abs();
        // not a number is wrong, too
        if drift.is_nan() || drift > TOLERANCE {
            return Ok(Some(format!("the energy drifted by {drift:.1e} a bond in {} half-sweeps", self.done)));
        }
        let length = now.length;
        Ok((length.is_nan() || length > TOLERANCE).then(|| format!("a spin's length differs from 1 by {length:.1e}")))
    }

    /// Whether the cut lattice and the whole one differ after some half-sweeps from the same start.
    fn differs(&mut self) -> Result<Option<String>, Problem> {
        let Some(mut whole) = self.whole.take() else { return Ok(None) };
        whole.seed = self.seed;
        self.draw()?;
        whole.draw()?;
        self.go(COMPARED)?;
        whole.go(COMPARED)?;
        let (cut, one) = (self.inspect()?, whole.inspect()?);
        let n = self.slabs.len();
        self.whole = Some(whole);
        Ok((cut.bits != one.bits)
            .then(|| format!("after {COMPARED} half-sweeps {n} slabs differ from the lattice in one piece")))
    }
}

impl Prepared for SpinGlass {
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem> {
        let places = self.lattice.places() as f64 / 2.0;
        let samples: Result<Vec<Sample>, Problem> =
            (0..n).map(|_| self.go(self.each).map(|time| vec![time / places])).collect();
        Ok(vec![samples?])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Problem> {
        let wrong = match self.broken()? {
            None => self.differs()?,
            broken => broken,
        };
        Ok(vec![wrong.map_or(Verdict::Intact, Verdict::Corrupt)])
    }
}
