//! The spin glass, cut along Z among GPUs: each updates its boundary planes, sends them, and updates the rest meanwhile.
//!
//! A half-sweep of a slab is one launch. Its first blocks update the slab's ends, once the neighbours' planes have come, and the
//! others the rest. GPUs tell each other by words in memory how far they are; the host only queues. A word holds the number of the
//! last half-sweep, its *step*, that it tells about.
//!
//! Copies of the neighbours' planes exist for each colour. What a step writes to them was last read in the step before, by the
//! neighbour's ends; and these came from there before this step's ends are updated. So no word is needed for room.

mod slab;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use peerlane::exchange::Exchange;
use peerlane::measure::{Sample, Verdict};
use peerlane::plan::Method;
use peerlane::spin_glass::SpinGlass as Lattice;
use peerlane::units::Bytes;

use self::slab::{Planes, Signals, Slab, Update, plane};
use super::failure::Problem;
use super::gate::SharedGate;
use super::gpu::BorrowedStream;
use super::{Machine, Prepared};
use crate::cuda::Argument::{Half, Memory};
use crate::cuda::{Argument, Buffer, CudaError, Launch, Part, PinnedBuffer};
use crate::kernels::INSPECT;

/// Energy may drift by so much a bond, and a spin's length by so much.
const TOLERANCE: f64 = 1e-5;

/// Half-sweeps after which slabs are compared with the lattice in one piece.
const COMPARED: usize = 8;

/// The most half-sweeps of a sample, of a lattice in one piece and of one that is cut: the driver queues a thousand pieces of work
/// before the gate opens, and a half-sweep of a slab may be eight.
const MOST: [usize; 2] = [400, 120];

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

/// What of a half-sweep is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Everything,
    /// All places, and nothing is exchanged.
    Updates,
    /// The ends' places, and nothing is exchanged.
    Ends,
    /// What the ends have, or what they are updated to where the kernel stores it.
    Exchange,
}

/// A lattice, cut or whole, ready to run.
pub(crate) struct SpinGlass {
    lattice: Lattice,
    slabs: Vec<Slab>,
    /// The lattice in one piece, which the cut one must equal; none where the first GPU's memory does not hold it beside its slab.
    whole: Option<Box<SpinGlass>>,
    gate: SharedGate,
    sums: PinnedBuffer,
    seed: u32,
    before: Sums,
    /// Half-sweeps since it was drawn.
    done: usize,
    /// Half-sweeps of a sample.
    each: usize,
    /// Half-sweeps whose words the slabs have told each other.
    step: u32,
    /// Phases were timed, which leaves no lattice that physics knows.
    stale: bool,
    /// What was wrong before that.
    wrong: Option<String>,
}

impl SpinGlass {
    pub(crate) fn prepare(machine: &mut Machine, lattice: &Lattice, method: &Method) -> Result<(Self, Bytes), Problem> {
        if let Some(why) = lattice.problem() {
            return Err(Problem::NotApplicable(why));
        }
        let mut glass = Self::made(machine, lattice, false).map_err(|problem| match problem {
            Problem::Cuda(error) if error.is_out_of_memory() => {
                Problem::NotApplicable(short(machine, lattice).unwrap_or_else(|| error.to_string()))
            }
            other => other,
        })?;
        if lattice.gpus.len() > 1 {
            glass.whole = match Self::made(machine, lattice, true) {
                Ok(whole) => Some(Box::new(whole)),
                Err(Problem::Cuda(error)) if error.is_out_of_memory() => None,
                Err(problem) => return Err(problem),
            };
        }
        glass.seed = machine.next_seed();
        glass.draw()?;
        glass.before = glass.inspect()?;
        let pace = glass.go(2, Doing::Everything)?;
        let pace = glass.go(if pace < 1e-3 { 20 } else { 2 }, Doing::Everything)?;
        let wanted = (method.sample_time.seconds() / pace.max(1e-9)).ceil();
        // streams of several slabs on one GPU share its queues
        let first = &lattice.gpus[0];
        let together = lattice.gpus.iter().filter(|gpu| *gpu == first).count();
        let most = MOST[usize::from(glass.is_cut())] / together.pow(2);
        glass.each = (wanted.clamp(2.0, most as f64) as usize).next_multiple_of(2);
        Ok((glass, lattice.bytes()))
    }

    /// The slabs of a lattice, or the lattice in one piece on the first GPU, beside its slabs.
    fn made(machine: &mut Machine, lattice: &Lattice, whole: bool) -> Result<Self, Problem> {
        let gpus = lattice.gpus.iter().enumerate();
        let mut slabs = Vec::new();
        for (i, name) in gpus.take(if whole { 1 } else { usize::MAX }) {
            let (number, planes) =
                if whole { (lattice.gpus.len(), (0, lattice.planes())) } else { (i, lattice.slab(i)) };
            slabs.push(Slab::new(machine, lattice, name, number, planes)?);
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
        let gate = machine.gate()?;
        let (seed, done, each, step, stale, wrong) = (0, 0, 2, 0, false, None);
        Ok(SpinGlass { lattice, slabs, whole: None, gate, sums, seed, before, done, each, step, stale, wrong })
    }

    fn is_cut(&self) -> bool {
        self.slabs.len() > 1
    }

    fn is(&self, exchange: Exchange) -> bool {
        self.lattice.exchange == exchange
    }

    /// Draws the lattice, and gives neighbours their planes.
    fn draw(&mut self) -> Result<(), Problem> {
        for slab in &self.slabs {
            slab.draw(self.seed)?;
        }
        for colour in (0..2).filter(|_| self.is_cut()) {
            self.give(colour)?;
        }
        (self.done, self.stale) = (0, false);
        Ok(())
    }

    /// Gives neighbours the planes of a colour, one GPU after another.
    fn give(&self, colour: usize) -> Result<(), Problem> {
        for i in 0..self.slabs.len() {
            self.slabs[i].gpu.context.enter()?;
            self.copy_ends(i, colour, &self.slabs[i].edge, |_, _| Ok(()))?;
        }
        self.settle()?;
        for i in 0..self.slabs.len() {
            self.slabs[i].gpu.context.enter()?;
            self.fetch(i, colour, &self.slabs[i].edge, |_, _| Ok(()))?;
        }
        self.settle()
    }

    /// Half-sweeps in which the host waits for each update and each exchange, so that no word tells anything.
    fn plainly(&self, half_sweeps: usize) -> Result<(), Problem> {
        for colour in (0..half_sweeps).map(|number| number % 2) {
            for slab in &self.slabs {
                slab.update(Update { colour, planes: Planes::All, to: None, signals: None })?;
            }
            self.settle()?;
            self.give(colour)?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), Problem> {
        self.slabs.iter().try_for_each(Slab::settle)
    }

    /// The slabs below and above one.
    fn beside(&self, i: usize) -> [&Slab; 2] {
        let n = self.slabs.len();
        [&self.slabs[(i + n - 1) % n], &self.slabs[(i + 1) % n]]
    }

    /// Where a slab's first and last plane are kept by its neighbours: above the one below, below the one above.
    fn copies_of(&self, i: usize, colour: usize) -> [Part<'_>; 2] {
        let [below, above] = self.beside(i);
        [below.neighbours(colour)[1], above.neighbours(colour)[0]]
    }

    /// The words that tell the neighbours that a slab's first and last plane have come.
    fn arrivals(&self, i: usize) -> [Part<'_>; 2] {
        let [below, above] = self.beside(i);
        [below.arrived(1), above.arrived(0)]
    }

    /// Copies a slab's ends into the neighbours' memory, or into the host's where they are staged. `around` is called for each end, before
    /// (`false`) and after (`true`).
    fn copy_ends(
        &self,
        i: usize,
        colour: usize,
        stream: &BorrowedStream,
        around: impl Fn(usize, bool) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let slab = &self.slabs[i];
        let copies = self.copies_of(i, colour);
        for (end, from) in slab.ends(colour).into_iter().enumerate() {
            let to = match &slab.staging {
                Some(staging) => staging.plane(colour, end, plane(slab.side)),
                None => copies[end],
            };
            around(end, false)?;
            stream.copy(to, from)?;
            around(end, true)?;
        }
        Ok(())
    }

    /// Where planes are staged, a slab fetches its neighbours'; `around` as above, by where they come from.
    fn fetch(
        &self,
        i: usize,
        colour: usize,
        stream: &BorrowedStream,
        around: impl Fn(usize, bool) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let slab = &self.slabs[i];
        // the plane below is the last of the slab below, the one above the first of the slab above
        for (from, neighbour) in self.beside(i).into_iter().enumerate() {
            let Some(staging) = &neighbour.staging else { continue };
            around(from, false)?;
            stream.copy(slab.neighbours(colour)[from], staging.plane(colour, 1 - from, plane(slab.side)))?;
            around(from, true)?;
        }
        Ok(())
    }

    /// Queues the exchange of a step: an end leaves once `stream`, or the word that it waits for, has come so far.
    fn exchange(&self, i: usize, colour: usize, step: u32, updated: bool) -> Result<(), CudaError> {
        let slab = &self.slabs[i];
        let stream = if self.lattice.overlap { &slab.edge } else { &slab.bulk };
        let arrivals = self.arrivals(i);
        self.copy_ends(i, colour, stream, |end, sent| match (sent, &slab.staging) {
            (false, _) if updated => stream.wait_for(slab.updated(end), step),
            (false, _) => Ok(()),
            (true, Some(staging)) => stream.write_word(staging.word(end), step),
            (true, None) => stream.write_word(arrivals[end], step),
        })
    }

    /// Queues what a slab fetches of a step.
    fn receive(&self, i: usize, colour: usize, step: u32) -> Result<(), CudaError> {
        let slab = &self.slabs[i];
        let Some(staging) = &slab.staging else { return Ok(()) };
        let stream = if self.lattice.overlap { &staging.fetch } else { &slab.bulk };
        let beside = self.beside(i);
        self.fetch(i, colour, stream, |from, fetched| match (fetched, &beside[from].staging) {
            (false, Some(there)) => stream.wait_for(there.word(1 - from), step),
            (false, None) => Ok(()),
            (true, _) => stream.write_word(slab.arrived(from), step),
        })
    }

    /// Lets a stream go on once the neighbours' planes of a step have come.
    fn await_planes(&self, i: usize, stream: &BorrowedStream, step: u32) -> Result<(), CudaError> {
        (0..2).try_for_each(|from| stream.wait_for(self.slabs[i].arrived(from), step))
    }

    /// Queues a half-sweep of all slabs, or a part of it.
    fn half_sweep(&self, colour: usize, step: u32, doing: Doing) -> Result<(), CudaError> {
        let (overlap, stores) = (self.lattice.overlap, self.is(Exchange::Stores));
        let before = step.wrapping_sub(1);
        for (i, slab) in self.slabs.iter().enumerate() {
            slab.gpu.context.enter()?;
            let alone = Update { colour, planes: Planes::All, to: None, signals: None };
            let ends_first = Update { planes: Planes::EndsFirst, ..alone };
            if !self.is_cut() {
                slab.update(alone)?;
                continue;
            }
            let tell = if stores { self.arrivals(i) } else { [slab.updated(0), slab.updated(1)] };
            let signals = Some(Signals { awaited: before, step, tell });
            let to = stores.then(|| self.copies_of(i, colour));
            match (doing, overlap) {
                (Doing::Updates, true) => slab.update(ends_first)?,
                (Doing::Updates, false) => slab.update(alone)?,
                (Doing::Ends, _) => slab.update(Update { planes: Planes::Ends, ..alone })?,
                (Doing::Exchange, _) if stores => {
                    slab.update(Update { planes: Planes::Ends, to, signals, ..alone })?;
                }
                (Doing::Exchange, _) => {
                    self.await_planes(i, if overlap { &slab.edge } else { &slab.bulk }, before)?;
                    self.exchange(i, colour, step, false)?;
                }
                (Doing::Everything, true) => {
                    slab.update(Update { to, signals, ..ends_first })?;
                    if !stores {
                        self.exchange(i, colour, step, true)?;
                    }
                }
                (Doing::Everything, false) => {
                    self.await_planes(i, &slab.bulk, before)?;
                    slab.update(Update { to, ..alone })?;
                    match stores {
                        true => self.arrivals(i).into_iter().try_for_each(|word| slab.bulk.write_word(word, step))?,
                        false => self.exchange(i, colour, step, false)?,
                    }
                }
            }
        }
        if matches!(doing, Doing::Everything | Doing::Exchange) {
            for (i, slab) in self.slabs.iter().enumerate() {
                slab.gpu.context.enter()?;
                self.receive(i, colour, step)?;
            }
        }
        Ok(())
    }

    /// Seconds a half-sweep, or of the part of it that is done, of so many behind each other, an even number.
    fn go(&mut self, half_sweeps: usize, doing: Doing) -> Result<f64, Problem> {
        let gate = Rc::clone(&self.gate);
        let mut gate = gate.borrow_mut();
        let mut closed = gate.close();
        for slab in &self.slabs {
            slab.gpu.context.enter()?;
            closed.wait(&slab.gpu, &slab.bulk)?;
            slab.bulk.record(&slab.start)?;
            // what needs no kernel must not begin before the others
            closed.wait(&slab.gpu, &slab.edge)?;
        }
        let told = self.is_cut() && matches!(doing, Doing::Everything | Doing::Exchange);
        for number in 0..half_sweeps {
            let step = if told { self.step.wrapping_add(1) } else { self.step };
            self.half_sweep(number % 2, step, doing)?;
            self.step = step;
        }
        for (i, slab) in self.slabs.iter().enumerate() {
            slab.gpu.context.enter()?;
            if told {
                self.await_planes(i, &slab.bulk, self.step)?;
            }
            slab.bulk.record(&slab.end)?;
        }
        closed.release();
        self.settle()?;
        closed.check()?;
        self.done += half_sweeps;
        let times = self.slabs.iter().map(|slab| slab.end.since(&slab.start));
        let longest = times.collect::<Result<Vec<f64>, _>>()?.into_iter().fold(0.0, f64::max);
        Ok(longest / half_sweeps as f64)
    }

    /// Seconds a half-sweep of an update of all places, of the ends' alone, and of an exchange, each without the others.
    fn parts(&mut self) -> Result<[f64; 3], Problem> {
        let n = self.each;
        Ok([self.go(n, Doing::Updates)?, self.go(n, Doing::Ends)?, self.go(n, Doing::Exchange)?])
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
                slab.kernels.inspect.launch(&slab.bulk, launch, &arguments)?;
                slab.bulk.synchronize()?;
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

    /// Whether the cut lattice and the whole one differ after some half-sweeps from the same start. Where the whole one does not fit
    /// beside a slab, the slabs updated and exchanged one after another by the host take its place.
    fn differs(&mut self) -> Result<Option<String>, Problem> {
        if !self.is_cut() {
            return Ok(None);
        }
        let (wanted, with) = match self.whole.take() {
            Some(mut whole) => {
                whole.seed = self.seed;
                whole.draw()?;
                whole.go(COMPARED, Doing::Everything)?;
                let bits = whole.inspect()?.bits;
                self.whole = Some(whole);
                (bits, "the lattice in one piece")
            }
            None => {
                self.draw()?;
                self.plainly(COMPARED)?;
                (self.inspect()?.bits, "themselves where the host waits for each exchange")
            }
        };
        self.draw()?;
        self.go(COMPARED, Doing::Everything)?;
        let n = self.slabs.len();
        let differ = self.inspect()?.bits != wanted;
        Ok(differ.then(|| format!("after {COMPARED} half-sweeps {n} slabs differ from {with}")))
    }
}

/// Which GPU has too little memory for its slabs, in words; `None` where none is found any more.
fn short(machine: &mut Machine, lattice: &Lattice) -> Option<String> {
    let n = lattice.gpus.len() as u64;
    lattice.gpus.iter().find_map(|name| {
        let slabs = lattice.gpus.iter().filter(|other| *other == name).count() as u64;
        let needed = Bytes(lattice.bytes().0 / n * slabs);
        let free = Bytes(machine.room(name).ok()?);
        (free < needed).then(|| format!("{lattice} needs {needed} on {name}, which has {free} free"))
    })
}

impl Prepared for SpinGlass {
    /// Of a lattice that is cut, the time of an update and then what its half-sweeps take by part, in seconds.
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem> {
        let places = self.lattice.places() as f64 / 2.0;
        if self.stale {
            self.draw()?;
        }
        let mut samples = Vec::new();
        for _ in 0..n {
            samples.push(vec![self.go(self.each, Doing::Everything)? / places]);
        }
        if self.is_cut() {
            // what is timed next leaves no lattice to check
            self.wrong = self.wrong.take().or(self.broken()?);
            self.stale = true;
            for sample in &mut samples {
                sample.extend(self.parts()?);
            }
        }
        Ok(vec![samples])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Problem> {
        let wrong = match (self.wrong.take(), self.stale) {
            (Some(wrong), _) => Some(wrong),
            (None, true) => None,
            (None, false) => self.broken()?,
        };
        let wrong = match wrong {
            None => self.differs()?,
            broken => broken,
        };
        Ok(vec![wrong.map_or(Verdict::Intact, Verdict::Corrupt)])
    }
}
