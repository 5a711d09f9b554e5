//! A halo exchange: each part of a grid sends a face to each of its neighbours, all at once, over and over.
//!
//! Every face has a stream of its own on the GPU that sends it; the host only queues. GPUs tell each other by words in memory how
//! far they are: a word holds the number of the last exchange, its *step*, that it tells about, and is written after the face.
//!
//! Each face is kept twice, for odd and for even steps, where it is sent from, where it comes in, and in host memory where it is
//! staged. A step of a part begins, with each of its faces, only once it has got all faces of the step before. So no word is needed
//! for room: a part sends step *t* to a neighbour after it got that one's face of step *t* − 1, which the neighbour sent only after
//! it had got all faces of *t* − 2, and had fetched them where they are staged; the place that *t* fills is the one of *t* − 2.
//!
//! What waits is always queued after what it waits for. So streams may share a queue of the driver's.

#[cfg(test)]
mod tests;

use std::rc::Rc;

use peerlane_machine::exchange::Exchange;
use peerlane_machine::halo::{Halo as Grid, Sent};
use peerlane_machine::units::Bytes;
use peerlane_measure::measure::{Sample, Verdict};
use peerlane_measure::plan::Method;

use super::gate::SharedGate;
use super::gpu::{BorrowedStream, Gpu};
use super::{Machine, Prepared};
use crate::cuda::{Buffer, CudaError, Event, Part, PinnedBuffer};
use crate::failure::Problem;

/// Bytes from one word to the next: none shares a line of a cache with another.
const APART: usize = 128;

/// Stretches of memory of a part: faces and words.
const BUFFERS: usize = 2;

/// The driver queues about a thousand operations of streams that share a queue, and blocks then; behind the gate that would be
/// for ever.
const MOST_QUEUED: usize = 900;

/// Queues among which the driver deals out a GPU's streams (`CUDA_DEVICE_MAX_CONNECTIONS`, CUDA C++ programming guide,
/// environment variables).
const QUEUES: usize = 8;

/// The most copies of a GPU's that are queued, since a copy engine has a queue of its own (`copies::MOST_QUEUED`).
const MOST_COPIES: usize = 384;

/// A face of a part: on its way out, and the one that comes in on the same side.
struct Side {
    // the stream goes before what its work uses
    stream: BorrowedStream,
    start: Event,
    end: Event,
    /// The part beyond it.
    neighbour: usize,
    /// Content of what is sent, in even and in odd steps.
    seeds: [u32; 2],
}

/// What a part has in host memory where faces are staged.
struct Staging {
    /// Its faces on their way, of even steps and then of odd ones.
    faces: Rc<dyn Buffer>,
    /// For each side the step whose face the neighbour has put into its own staging memory.
    words: PinnedBuffer,
}

/// A part of the grid, on one GPU.
struct Region {
    sides: Vec<Side>,
    gpu: Rc<Gpu>,
    face: usize,
    /// What it sends, of even steps and then of odd ones, and then what it gets.
    faces: Rc<dyn Buffer>,
    /// For each side the step whose face has come in.
    words: Rc<dyn Buffer>,
    staging: Option<Staging>,
}

impl Region {
    /// Its faces lie side by side, those of even steps first.
    fn offset(&self, side: usize, step: u32) -> usize {
        self.face * (step as usize % 2 * self.sides.len() + side)
    }

    /// What it sends.
    fn sent(&self, side: usize, step: u32) -> Part<'_> {
        self.faces.part(self.offset(side, step), self.face)
    }

    /// Where a face comes in.
    fn place(&self, side: usize, step: u32) -> Part<'_> {
        self.faces.part(2 * self.sides.len() * self.face + self.offset(side, step), self.face)
    }

    fn arrived(&self, side: usize) -> Part<'_> {
        self.words.part(APART * side, 4)
    }
}

impl Staging {
    fn word(&self, side: usize) -> Part<'_> {
        self.words.part(APART * side, 4)
    }
}

/// Exchanges that are ready to run.
pub(crate) struct Halo {
    grid: Grid,
    regions: Vec<Region>,
    gate: SharedGate,
    /// The last step that was queued.
    step: u32,
    /// Steps of a sample.
    each: u32,
}

impl Halo {
    pub(crate) fn prepare(machine: &mut Machine, grid: &Grid, method: &Method) -> Result<(Self, Bytes), Problem> {
        if let Some(why) = grid.problem() {
            return Err(Problem::NotApplicable(why));
        }
        let short = |problem: Problem| match problem {
            Problem::Cuda(error) if error.is_out_of_memory() => {
                Problem::NotApplicable(format!("{} faces of {} a GPU do not fit: {error}", 4 * grid.sides(), grid.face))
            }
            Problem::Cuda(error) if error.is_not_supported() => {
                Problem::NotApplicable(format!("streams cannot wait for words in memory here: {error}"))
            }
            other => other,
        };
        Self::made(machine, grid, method).map(|halo| (halo, grid.face)).map_err(short)
    }

    fn made(machine: &mut Machine, grid: &Grid, method: &Method) -> Result<Self, Problem> {
        let staged = grid.exchange == Exchange::Staged;
        let face = usize::try_from(grid.face.0).unwrap_or(usize::MAX);
        if staged {
            machine.make_room_on_host("host", 2 * grid.face.0 * (grid.sides() * grid.gpus.len()) as u64);
        }
        let mut regions = Vec::new();
        for part in 0..grid.gpus.len() {
            regions.push(Region::new(machine, grid, part, face, staged)?);
        }
        for Sent { from, to, .. } in grid.sends() {
            let (a, b): (&Region, &Region) = (&regions[from], &regions[to]);
            if !staged && !Rc::ptr_eq(&a.gpu, &b.gpu) {
                machine.access(&a.gpu, &b.gpu, true)?;
            }
        }
        let mut halo = Halo { grid: grid.clone(), regions, gate: machine.gate()?, step: 0, each: 2 };
        let most = halo.most();
        halo.go(2)?;
        let pace = halo.go(most.min(8))?;
        let wanted = (method.sample_time.seconds() / pace.max(1e-9)).ceil();
        halo.each = wanted.clamp(2.0, f64::from(most)) as u32;
        Ok(halo)
    }

    /// The most steps that fit into the driver's queues.
    fn most(&self) -> u32 {
        let shared = |gpu: &Rc<Gpu>| self.regions.iter().filter(|region| Rc::ptr_eq(&region.gpu, gpu)).count();
        let parts = self.regions.iter().map(|region| shared(&region.gpu)).max().unwrap_or(1);
        most(self.grid.sides(), parts, self.grid.exchange)
    }

    fn settle(&self) -> Result<(), CudaError> {
        for region in &self.regions {
            region.gpu.context.enter()?;
            for side in &region.sides {
                side.stream.synchronize()?;
            }
        }
        Ok(())
    }

    /// The part beyond a side.
    fn beyond(&self, part: usize, side: usize) -> &Region {
        &self.regions[self.regions[part].sides[side].neighbour]
    }

    /// Sends a face, once all of the step before have come in.
    fn send(&self, part: usize, side: usize, step: u32) -> Result<(), CudaError> {
        let (here, there) = (&self.regions[part], self.beyond(part, side));
        let stream = &here.sides[side].stream;
        for from in 0..here.sides.len() {
            stream.wait_for(here.arrived(from), step.wrapping_sub(1))?;
        }
        let back = Grid::opposite(side);
        if let (Some(own), Some(theirs)) = (&here.staging, &there.staging) {
            stream.copy(own.faces.part(here.offset(side, step), here.face), here.sent(side, step))?;
            return stream.write_word(theirs.word(back), step);
        }
        match self.grid.exchange {
            Exchange::Stores => here.gpu.kernels.copy(stream, (there.place(back, step), here.sent(side, step)), 1)?,
            _ => stream.copy(there.place(back, step), here.sent(side, step))?,
        }
        stream.write_word(there.arrived(back), step)
    }

    /// Fetches a face from host memory, once the neighbour has put it there.
    fn fetch(&self, part: usize, side: usize, step: u32) -> Result<(), CudaError> {
        let (here, there) = (&self.regions[part], self.beyond(part, side));
        let (Some(own), Some(theirs)) = (&here.staging, &there.staging) else { return Ok(()) };
        let stream = &here.sides[side].stream;
        let face = theirs.faces.part(there.offset(Grid::opposite(side), step), here.face);
        stream.wait_for(own.word(side), step)?;
        stream.copy(here.place(side, step), face)?;
        stream.write_word(here.arrived(side), step)
    }

    /// Queues a step of all parts.
    fn exchange(&self, step: u32) -> Result<(), CudaError> {
        for halves in [Self::send, Self::fetch] {
            for (part, region) in self.regions.iter().enumerate() {
                region.gpu.context.enter()?;
                for side in 0..region.sides.len() {
                    halves(self, part, side, step)?;
                }
            }
        }
        Ok(())
    }

    /// Seconds an exchange, of so many behind each other: from the first until the last has ended on all GPUs.
    fn go(&mut self, exchanges: u32) -> Result<f64, Problem> {
        let gate = Rc::clone(&self.gate);
        let mut gate = gate.borrow_mut();
        let mut closed = gate.close();
        for region in &self.regions {
            region.gpu.context.enter()?;
            for side in &region.sides {
                closed.wait(&region.gpu, &side.stream)?;
                side.stream.record(&side.start)?;
            }
        }
        for _ in 0..exchanges {
            let step = self.step.wrapping_add(1);
            self.exchange(step)?;
            self.step = step;
        }
        for region in &self.regions {
            region.gpu.context.enter()?;
            for side in &region.sides {
                side.stream.record(&side.end)?;
            }
        }
        closed.release();
        self.settle()?;
        closed.check()?;
        let sides = self.regions.iter().flat_map(|region| &region.sides);
        let times = sides.map(|side| side.end.since(&side.start)).collect::<Result<Vec<f64>, _>>()?;
        Ok(times.into_iter().fold(0.0, f64::max) / f64::from(exchanges.max(1)))
    }

    /// Every place that a face should come to, and every one on its way, with the seed of its content.
    fn places(&self) -> impl Iterator<Item = (usize, usize, u32, u32)> + '_ {
        let sides = self
            .regions
            .iter()
            .enumerate()
            .flat_map(|(part, region)| (0..region.sides.len()).map(move |side| (part, side)));
        sides.flat_map(|(part, side)| {
            let from = &self.beyond(part, side).sides[Grid::opposite(side)];
            [0, 1].map(|step| (part, side, step, from.seeds[step as usize]))
        })
    }

    /// Spoils what came in, and what is in host memory.
    fn spoil(&self) -> Result<(), Problem> {
        for (part, side, step, seed) in self.places() {
            let region = &self.regions[part];
            let Side { stream, seeds, .. } = &region.sides[side];
            region.gpu.context.enter()?;
            region.gpu.kernels.fill(stream, region.place(side, step), seed, true)?;
            if let Some(staging) = &region.staging {
                let face = staging.faces.part(region.offset(side, step), region.face);
                region.gpu.kernels.fill(stream, face, seeds[step as usize], true)?;
            }
        }
        Ok(self.settle()?)
    }

    /// The first face that is not what the neighbour sent.
    fn wrong(&self) -> Result<Option<String>, Problem> {
        for (part, side, step, seed) in self.places() {
            let region = &self.regions[part];
            let Side { stream, neighbour, .. } = &region.sides[side];
            if let Verdict::Corrupt(how) = region.gpu.verify(stream, region.place(side, step), seed)? {
                return Ok(Some(format!("the face from part {neighbour} to side {side} of part {part}: {how}")));
            }
        }
        Ok(None)
    }
}

/// The most steps where each part has so many sides, and a GPU so many parts.
fn most(sides: usize, parts: usize, exchange: Exchange) -> u32 {
    // a wait for each face of the step before, a copy and a word; staged, the same once more with one wait
    let each = sides + if exchange == Exchange::Staged { 5 } else { 2 };
    let (streams, copies) = (sides * parts, if exchange == Exchange::Staged { 2 } else { 1 });
    // they may be dealt out unevenly
    let shared = streams.min(2 * streams.div_ceil(QUEUES));
    let steps = (MOST_QUEUED / (each * shared).max(1)).min(MOST_COPIES / (copies * streams).max(1));
    u32::try_from(steps).unwrap_or(u32::MAX).max(2)
}

impl Region {
    fn new(machine: &mut Machine, grid: &Grid, part: usize, face: usize, staged: bool) -> Result<Self, Problem> {
        let name = &grid.gpus[part];
        let gpu = machine.gpu(name)?;
        let before = grid.gpus[..part].iter().filter(|other| *other == name).count();
        let neighbours = grid.neighbours(part);
        let count = neighbours.len();
        let faces = machine.buffer(name, BUFFERS * before, 0, 4 * count * face)?;
        let words = machine.buffer(name, BUFFERS * before + 1, 0, count * APART)?;
        let staging = match staged {
            true => {
                let faces = machine.buffer("host", part, 0, 2 * count * face)?;
                let words = PinnedBuffer::new(&gpu.context, 4096)?;
                (0..count * APART / 8).for_each(|i| words.write(i, 0));
                Some(Staging { faces, words })
            }
            false => None,
        };
        gpu.context.enter()?;
        let mut sides = Vec::new();
        for neighbour in neighbours {
            let stream = gpu.stream()?;
            let (start, end) = (Event::new(&stream)?, Event::new(&stream)?);
            sides.push(Side { stream, start, end, neighbour, seeds: [machine.next_seed(), machine.next_seed()] });
        }
        let region = Region { sides, gpu, face, faces, words, staging };
        region.fill()?;
        Ok(region)
    }

    /// Writes what it sends, and that no step was done.
    fn fill(&self) -> Result<(), CudaError> {
        for (i, side) in self.sides.iter().enumerate() {
            for (step, seed) in (0..).zip(side.seeds) {
                self.gpu.kernels.fill(&side.stream, self.sent(i, step), seed, false)?;
            }
            side.stream.set(self.arrived(i), 0)?;
            side.stream.synchronize()?;
        }
        Ok(())
    }
}

impl Prepared for Halo {
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem> {
        let samples: Result<Vec<Sample>, Problem> = (0..n).map(|_| Ok(vec![self.go(self.each)?])).collect();
        Ok(vec![samples?])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Problem> {
        self.spoil()?;
        // one of each place
        self.go(2)?;
        Ok(vec![self.wrong()?.map_or(Verdict::Intact, Verdict::Corrupt)])
    }
}
