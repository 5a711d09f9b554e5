//! The spin glass, cut among GPUs: each updates the surface of its part, sends its faces, and updates the rest meanwhile.
//!
//! A half-sweep of a part is one launch. Its first blocks of threads update the surface, once the neighbours' faces have come, and the
//! others the rest. GPUs tell each other by words in memory how far they are; the host only queues. A word holds the number of the
//! last half-sweep, its *step*, that it tells about. A slab, cut along Z, has planes for faces, and a kernel of its own; faces of
//! other blocks are packed by the kernel that updates them.
//!
//! Copies of the neighbours' faces exist for each colour. What a step writes to them was last read in the step before, by the
//! neighbour's surface; and its faces came from there before this step's surface is updated. So no word is needed for room.

mod block;
mod check;
mod shape;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use peerlane_machine::exchange::Exchange;
use peerlane_machine::spin_glass::SpinGlass as Lattice;
use peerlane_machine::units::Bytes;
use peerlane_measure::measure::{Sample, Verdict};
use peerlane_measure::plan::Method;

use self::block::{Block, Each, FACES, NONE, Places, Signals, Update, opposite};
use self::check::Sums;
use super::gate::SharedGate;
use super::gpu::BorrowedStream;
use super::{Machine, Prepared};
use crate::cuda::{CudaError, Part, PinnedBuffer};
use crate::failure::Problem;

/// The most half-sweeps of a sample, of a lattice in one piece and of one that is cut: the driver queues a thousand pieces of work
/// before the gate opens, and a half-sweep of a part with two faces may be eight.
const MOST: [usize; 2] = [400, 120];

/// What of a half-sweep is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Everything,
    /// All places, and nothing is exchanged.
    Updates,
    /// The surface's places, and nothing is exchanged.
    Surface,
    /// What the faces have, or what they are updated to where the kernel stores it.
    Exchange,
}

/// A lattice, cut or whole, ready to run.
pub(crate) struct SpinGlass {
    lattice: Lattice,
    parts: Vec<Block>,
    /// Parts that share a GPU may fill it with threads that wait for each other: streams then wait before the launch.
    crowded: bool,
    /// By part and face, the neighbour beyond; a part is its own where it is not cut.
    beyond: Vec<[usize; FACES]>,
    /// The lattice in one piece, which the cut one must equal; none where the first GPU's memory does not hold it beside its part.
    whole: Option<Box<SpinGlass>>,
    gate: SharedGate,
    sums: PinnedBuffer,
    seed: u32,
    before: Sums,
    /// Half-sweeps since it was drawn.
    done: usize,
    /// Half-sweeps of a sample, and the most that can be queued: even numbers.
    each: usize,
    most: usize,
    /// Half-sweeps whose words the parts have told each other.
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
        let pace = glass.go(if pace < 1e-3 { 20.min(glass.most) } else { 2 }, Doing::Everything)?;
        let wanted = (method.sample_time.seconds() / pace.max(1e-9)).ceil();
        glass.each = (wanted.clamp(2.0, glass.most as f64) as usize) & !1;
        Ok((glass, lattice.bytes()))
    }

    /// The parts of a lattice, or the lattice in one piece on the first GPU, beside its parts.
    fn made(machine: &mut Machine, lattice: &Lattice, whole: bool) -> Result<Self, Problem> {
        let gpus = lattice.gpus.iter().enumerate();
        let mut parts = Vec::new();
        for (i, name) in gpus.take(if whole { 1 } else { usize::MAX }) {
            let (number, part) =
                if whole { (lattice.gpus.len(), [[0; 3], lattice.extents()]) } else { (i, lattice.part(i)) };
            parts.push(Block::new(machine, lattice, name, number, part)?);
        }
        let grid = lattice.grid();
        let beyond = |(i, part): (usize, &Block)| {
            let mut beyond = [i; FACES];
            part.faces.iter().zip(grid.neighbours(i)).for_each(|(face, neighbour)| beyond[*face] = neighbour);
            beyond
        };
        let beyond: Vec<[usize; FACES]> = parts.iter().enumerate().map(beyond).collect();
        for (i, part) in parts.iter().enumerate() {
            for face in &part.faces {
                let (a, b) = (&part.gpu, &parts[beyond[i][*face]].gpu);
                if lattice.exchange != Exchange::Staged && !Rc::ptr_eq(a, b) {
                    machine.access(a, b, true)?;
                    machine.access(b, a, true)?;
                }
            }
        }
        // streams of several parts on one GPU share its queues
        let first = &lattice.gpus[0];
        let together = if whole { 1 } else { lattice.gpus.iter().filter(|gpu| *gpu == first).count() };
        let first_blocks: u32 = parts.iter().map(Block::first_blocks).sum();
        let crowded = together > 1 && first_blocks > parts[0].multiprocessors();
        let faces = parts[0].faces.len().max(2) / 2;
        let most = (MOST[usize::from(parts.len() > 1)] / together.pow(2) / faces).max(2) & !1;
        let sums = PinnedBuffer::new(&parts[0].gpu.context, 4096)?;
        let before = Sums { energy: 0.0, bits: 0, length: 0.0 };
        let lattice = lattice.clone();
        let gate = machine.gate()?;
        let (whole, seed, done, each, step, stale, wrong) = (None, 0, 0, 2, 0, false, None);
        Ok(SpinGlass {
            lattice,
            parts,
            crowded,
            beyond,
            whole,
            gate,
            sums,
            seed,
            before,
            done,
            each,
            most,
            step,
            stale,
            wrong,
        })
    }

    fn is_cut(&self) -> bool {
        self.parts.len() > 1
    }

    fn is(&self, exchange: Exchange) -> bool {
        self.lattice.exchange == exchange
    }

    /// Draws the lattice, and gives neighbours their faces.
    fn draw(&mut self) -> Result<(), Problem> {
        for part in &self.parts {
            part.draw(self.seed)?;
        }
        for colour in (0..2).filter(|_| self.is_cut()) {
            self.give(colour)?;
        }
        (self.done, self.stale) = (0, false);
        Ok(())
    }

    /// Gives neighbours the faces of a colour as they are, while the host waits for each step of it.
    fn give(&self, colour: usize) -> Result<(), Problem> {
        for (i, part) in self.parts.iter().enumerate() {
            let to = if self.is(Exchange::Stores) { self.copies_of(i, colour) } else { part.packing(colour) };
            part.update(Update { colour, places: Places::Faces, to, signals: None })?;
        }
        self.settle()?;
        for (i, part) in self.parts.iter().enumerate() {
            part.gpu.context.enter()?;
            self.copy_faces(i, colour, |face| part.edge(face), |_, _, _| Ok(()))?;
        }
        self.settle()?;
        for i in 0..self.parts.len() {
            self.parts[i].gpu.context.enter()?;
            self.fetch(i, colour, |face| self.parts[i].edge(face), |_, _, _| Ok(()))?;
        }
        self.settle()
    }

    /// Half-sweeps in which the host waits for each update and each exchange, so that no word tells anything.
    fn plainly(&self, half_sweeps: usize) -> Result<(), Problem> {
        for colour in (0..half_sweeps).map(|number| number % 2) {
            for part in &self.parts {
                part.update(Update { colour, places: Places::All, to: NONE, signals: None })?;
            }
            self.settle()?;
            self.give(colour)?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), Problem> {
        self.parts.iter().try_for_each(Block::settle)
    }

    /// Of each face of a part that has a neighbour beyond it, what `of` the neighbour there is, whose own face is the opposite one.
    fn at_neighbours<'p>(&'p self, i: usize, of: impl Fn(&'p Block, usize) -> Option<Part<'p>>) -> Each<'p> {
        let mut each = NONE;
        for face in &self.parts[i].faces {
            each[*face] = of(&self.parts[self.beyond[i][*face]], opposite(*face));
        }
        each
    }

    /// Where a part's faces are kept by its neighbours.
    fn copies_of(&self, i: usize, colour: usize) -> Each<'_> {
        self.at_neighbours(i, |neighbour, face| neighbour.neighbours(colour, face))
    }

    /// The words that tell the neighbours that a part's faces have come.
    fn arrivals(&self, i: usize) -> Each<'_> {
        self.at_neighbours(i, |neighbour, face| Some(neighbour.arrived(face)))
    }

    /// Copies a part's faces into the neighbours' memory, or into the host's where they are staged. `around` is called for each, before
    /// (`false`) and after (`true`).
    fn copy_faces<'p>(
        &'p self,
        i: usize,
        colour: usize,
        stream: impl Fn(usize) -> &'p BorrowedStream,
        around: impl Fn(&BorrowedStream, usize, bool) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let part = &self.parts[i];
        let copies = self.copies_of(i, colour);
        for face in &part.faces {
            let to = match &part.staging {
                Some(staging) => Some(part.staged(staging, colour, *face)),
                None => copies[*face],
            };
            let stream = stream(*face);
            around(stream, *face, false)?;
            if let (Some(to), Some(from)) = (to, part.face(colour, *face)) {
                stream.copy(to, from)?;
            }
            around(stream, *face, true)?;
        }
        Ok(())
    }

    /// Where faces are staged, a part fetches its neighbours'; `around` as above, by the part's own face.
    fn fetch<'p>(
        &'p self,
        i: usize,
        colour: usize,
        stream: impl Fn(usize) -> &'p BorrowedStream,
        around: impl Fn(&BorrowedStream, usize, bool) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let part = &self.parts[i];
        for face in &part.faces {
            let neighbour = &self.parts[self.beyond[i][*face]];
            let (Some(staging), Some(to)) = (&neighbour.staging, part.neighbours(colour, *face)) else { continue };
            let stream = stream(*face);
            around(stream, *face, false)?;
            stream.copy(to, neighbour.staged(staging, colour, opposite(*face)))?;
            around(stream, *face, true)?;
        }
        Ok(())
    }

    /// Queues the exchange of a step: a face leaves once its stream, or the word that it waits for, has come so far.
    fn exchange(&self, i: usize, colour: usize, step: u32, updated: bool) -> Result<(), CudaError> {
        let part = &self.parts[i];
        let stream = |face| if self.lattice.overlap { part.edge(face) } else { &part.bulk };
        let arrivals = self.arrivals(i);
        self.copy_faces(i, colour, stream, |stream, face, sent| match (sent, &part.staging, arrivals[face]) {
            (false, ..) if updated => stream.wait_for(part.updated(face), step),
            (false, ..) => Ok(()),
            (true, Some(staging), _) => stream.write_word(staging.word(face), step),
            (true, None, Some(word)) => stream.write_word(word, step),
            (true, None, None) => Ok(()),
        })
    }

    /// Queues what a part fetches of a step.
    fn receive(&self, i: usize, colour: usize, step: u32) -> Result<(), CudaError> {
        let part = &self.parts[i];
        let Some(staging) = &part.staging else { return Ok(()) };
        let stream = |face| if self.lattice.overlap { part.fetch(staging, face) } else { &part.bulk };
        self.fetch(i, colour, stream, |stream, face, fetched| {
            match (fetched, &self.parts[self.beyond[i][face]].staging) {
                (false, Some(there)) => stream.wait_for(there.word(opposite(face)), step),
                (false, None) => Ok(()),
                (true, _) => stream.write_word(part.arrived(face), step),
            }
        })
    }

    /// Lets a stream go on once the neighbours' faces of a step have come.
    fn await_faces(&self, i: usize, stream: &BorrowedStream, step: u32) -> Result<(), CudaError> {
        let part = &self.parts[i];
        part.faces.iter().try_for_each(|face| stream.wait_for(part.arrived(*face), step))
    }

    /// Queues a half-sweep of all parts, or what is done of it.
    fn half_sweep(&self, colour: usize, step: u32, doing: Doing) -> Result<(), CudaError> {
        let (overlap, stores) = (self.lattice.overlap, self.is(Exchange::Stores));
        let before = step.wrapping_sub(1);
        for (i, part) in self.parts.iter().enumerate() {
            part.gpu.context.enter()?;
            let alone = Update { colour, places: Places::All, to: NONE, signals: None };
            let surface_first = Update { places: Places::SurfaceFirst, ..alone };
            if !self.is_cut() {
                part.update(alone)?;
                continue;
            }
            let mut tell = self.arrivals(i);
            if !stores {
                part.faces.iter().for_each(|face| tell[*face] = Some(part.updated(*face)));
            }
            let signals = Some(Signals { awaited: before, step, tell });
            if self.crowded && overlap && matches!(doing, Doing::Everything | Doing::Exchange) {
                self.await_faces(i, &part.bulk, before)?;
            }
            let to = if stores { self.copies_of(i, colour) } else { part.packing(colour) };
            match (doing, overlap) {
                (Doing::Updates, true) => part.update(surface_first)?,
                (Doing::Updates, false) => part.update(alone)?,
                (Doing::Surface, _) => part.update(Update { places: Places::Surface, ..alone })?,
                (Doing::Exchange, _) if stores => {
                    part.update(Update { places: Places::Surface, to, signals, ..alone })?;
                }
                (Doing::Exchange, true) => {
                    part.edges.iter().try_for_each(|edge| self.await_faces(i, edge, before))?;
                    self.exchange(i, colour, step, false)?;
                }
                (Doing::Exchange, false) => {
                    self.await_faces(i, &part.bulk, before)?;
                    self.exchange(i, colour, step, false)?;
                }
                (Doing::Everything, true) => {
                    part.update(Update { to, signals, ..surface_first })?;
                    if !stores {
                        self.exchange(i, colour, step, true)?;
                    }
                }
                (Doing::Everything, false) => {
                    self.await_faces(i, &part.bulk, before)?;
                    part.update(Update { to, ..alone })?;
                    match stores {
                        true => tell.into_iter().flatten().try_for_each(|word| part.bulk.write_word(word, step))?,
                        false => self.exchange(i, colour, step, false)?,
                    }
                }
            }
        }
        if matches!(doing, Doing::Everything | Doing::Exchange) {
            for (i, part) in self.parts.iter().enumerate() {
                part.gpu.context.enter()?;
                self.receive(i, colour, step)?;
            }
        }
        Ok(())
    }

    /// So many half-sweeps, as many at a time as can be queued.
    fn run(&mut self, half_sweeps: usize) -> Result<(), Problem> {
        let mut left = half_sweeps;
        while left > 0 {
            let now = left.min(self.most);
            self.go(now, Doing::Everything)?;
            left -= now;
        }
        Ok(())
    }

    /// Seconds a half-sweep, or of the part of it that is done, of so many behind each other, an even number.
    fn go(&mut self, half_sweeps: usize, doing: Doing) -> Result<f64, Problem> {
        let gate = Rc::clone(&self.gate);
        let mut gate = gate.borrow_mut();
        let mut closed = gate.close();
        for part in &self.parts {
            part.gpu.context.enter()?;
            closed.wait(&part.gpu, &part.bulk)?;
            part.bulk.record(&part.start)?;
            // what needs no kernel must not begin before the others
            part.edges.iter().try_for_each(|edge| closed.wait(&part.gpu, edge))?;
        }
        let told = self.is_cut() && matches!(doing, Doing::Everything | Doing::Exchange);
        for number in 0..half_sweeps {
            let step = if told { self.step.wrapping_add(1) } else { self.step };
            self.half_sweep(number % 2, step, doing)?;
            self.step = step;
        }
        for (i, part) in self.parts.iter().enumerate() {
            part.gpu.context.enter()?;
            if told {
                self.await_faces(i, &part.bulk, self.step)?;
            }
            part.bulk.record(&part.end)?;
        }
        closed.release();
        self.settle()?;
        closed.check()?;
        self.done += half_sweeps;
        let times = self.parts.iter().map(|part| part.end.since(&part.start));
        let longest = times.collect::<Result<Vec<f64>, _>>()?.into_iter().fold(0.0, f64::max);
        Ok(longest / half_sweeps as f64)
    }

    /// Seconds a half-sweep of an update of all places, of the surface's alone, and of an exchange, each without the others.
    fn phases(&mut self) -> Result<[f64; 3], Problem> {
        let n = self.each;
        Ok([self.go(n, Doing::Updates)?, self.go(n, Doing::Surface)?, self.go(n, Doing::Exchange)?])
    }
}

/// Which GPU has too little memory for its parts, in words; `None` where none is found any more.
fn short(machine: &mut Machine, lattice: &Lattice) -> Option<String> {
    let n = lattice.gpus.len() as u64;
    lattice.gpus.iter().find_map(|name| {
        let parts = lattice.gpus.iter().filter(|other| *other == name).count() as u64;
        let needed = Bytes(lattice.bytes().0 / n * parts);
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
                sample.extend(self.phases()?);
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
