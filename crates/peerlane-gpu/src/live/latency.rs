//! Times of things that are too small for a rate: a load, a signal, a small copy, a call.

use std::rc::Rc;
use std::time::Instant;

use peerlane_machine::transfer::{Transfer, Via};
use peerlane_machine::units::Bytes;
use peerlane_measure::measure::{Sample, Verdict};
use peerlane_measure::plan::Size;

use super::gate::SharedGate;
use super::gpu::{BorrowedStream, Gpu};
use super::kernels::Game;
use super::{Machine, Prepared};
use crate::cuda::{Buffer, Event, PinnedBuffer};
use crate::failure::Problem;

/// Dependent loads over a ring of words, from multiprocessors all over the GPU: their distances to the links differ by
/// several per cent, and a sample is to stand for all of them.
pub(crate) struct Loads {
    gpu: Rc<Gpu>,
    stream: BorrowedStream,
    ring: Rc<dyn Buffer>,
    /// Where each walker of a sample stands, and what it reports.
    walkers: Vec<PinnedBuffer>,
    /// The multiprocessor that the next sample's first walker loads from.
    next: u32,
}

impl Loads {
    /// Bytes from one word of the ring to the next: a line of the L2 cache, so that no load finds its word beside the
    /// last one's (nvbandwidth 0.8 uses the same).
    const STRIDE: u64 = 128;

    /// Walkers of a sample, one after another, each on another multiprocessor.
    const WALKERS: u32 = 22;

    /// Timed loads of each. What reading the clock costs, and how finely it counts, is spread over all of them: the
    /// shortest, from an H200's own L2 in 143 ns, take 34 µs together.
    const LOADS: u64 = 240;

    pub(crate) fn prepare(
        machine: &mut Machine,
        gpu: &str,
        memory: &str,
        size: Size,
    ) -> Result<(Self, Bytes), Problem> {
        let gpu = machine.gpu(gpu)?;
        let bytes = size.most().max(Bytes(1 << 16));
        let ring = machine.buffer(memory, 0, 0, usize::try_from(bytes.0).unwrap_or(usize::MAX))?;
        let owner = machine.gpu_or(memory, &gpu)?;
        if !Rc::ptr_eq(&owner, &gpu) {
            machine.access(&gpu, &owner, true)?;
        }
        owner.context.enter()?;
        let building = owner.stream()?;
        let whole = ring.part(0, usize::try_from(bytes.0).unwrap_or(usize::MAX));
        owner.kernels.build_ring(&building, whole, Self::STRIDE)?;
        building.synchronize()?;
        // memory is asked for, not what the building left in a CPU's cache
        ring.flush_caches();
        let stream = gpu.stream()?;
        let walker = || PinnedBuffer::new(&gpu.context, 4096);
        let walkers: Vec<PinnedBuffer> = (0..Self::WALKERS).map(|_| walker()).collect::<Result<_, _>>()?;
        // they start all round the ring, each where no other comes by within a sample
        let words = bytes.0 / Self::STRIDE;
        for (walker, i) in walkers.iter().zip(0..) {
            walker.write(0, ring.address() + words * i / u64::from(Self::WALKERS) * Self::STRIDE);
        }
        let mut loads = Loads { gpu, stream, ring, walkers, next: 0 };
        // once round, so that the far end's cache and the page tables are as they stay
        loads.go(words / u64::from(Self::WALKERS) + 1)?;
        Ok((loads, bytes))
    }

    /// Seconds a load, over so many of each walker.
    fn go(&mut self, loads: u64) -> Result<f64, Problem> {
        self.gpu.context.enter()?;
        let multiprocessors = self.gpu.kernels.multiprocessors();
        for (walker, i) in self.walkers.iter().zip(0..) {
            let chosen = self.next + i * multiprocessors / Self::WALKERS;
            self.gpu.kernels.chase(&self.stream, walker, loads, chosen)?;
        }
        self.stream.synchronize()?;
        self.next = (self.next + 1) % multiprocessors;
        // the kernel's own time, so that its start does not count
        let time: f64 = self.walkers.iter().map(|walker| walker.read(1) as f64).sum();
        Ok(time * 1e-9 / (loads * u64::from(Self::WALKERS)) as f64)
    }
}

impl Prepared for Loads {
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem> {
        let samples: Result<Vec<Sample>, Problem> =
            (0..n).map(|_| self.go(Self::LOADS).map(|time| vec![time])).collect();
        Ok(vec![samples?])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Problem> {
        let ring = self.ring.address()..self.ring.address() + self.ring.bytes() as u64;
        let lost = self.walkers.iter().map(|walker| walker.read(0)).find(|end| !ring.contains(end));
        Ok(vec![match lost {
            None => Verdict::Intact,
            Some(end) => Verdict::Corrupt(format!("the last load gave {end:#x}, which is no word of the ring")),
        }])
    }
}

/// A flag passed to and fro between two GPUs.
pub(crate) struct Signals {
    gpus: [Rc<Gpu>; 2],
    streams: [BorrowedStream; 2],
    flags: [Rc<dyn Buffer>; 2],
    /// Where each kernel tells how many rounds it saw, and how long they took.
    reports: [PinnedBuffer; 2],
    gate: SharedGate,
}

impl Signals {
    /// Rounds a sample: a millisecond or more.
    const ROUNDS: u32 = 512;

    /// Rounds before them, while the other kernel starts.
    const WARM_UP: u32 = 16;

    pub(crate) fn prepare(machine: &mut Machine, a: &str, b: &str) -> Result<(Self, Bytes), Problem> {
        let gpus = [machine.gpu(a)?, machine.gpu(b)?];
        machine.access(&gpus[0], &gpus[1], true)?;
        machine.access(&gpus[1], &gpus[0], true)?;
        let flags = [machine.buffer(a, 0, 0, 4096)?, machine.buffer(b, 0, 0, 4096)?];
        let streams = [gpus[0].stream()?, gpus[1].stream()?];
        let reports = [PinnedBuffer::new(&gpus[0].context, 4096)?, PinnedBuffer::new(&gpus[1].context, 4096)?];
        Ok((Signals { gpus, streams, flags, reports, gate: machine.gate()? }, Bytes(4)))
    }

    fn go(&mut self) -> Result<f64, Problem> {
        for i in 0..2 {
            self.gpus[i].context.enter()?;
            self.streams[i].set(self.flags[i].part(0, 4096), 0)?;
            self.streams[i].synchronize()?;
        }
        {
            let mut gate = self.gate.borrow_mut();
            let mut closed = gate.close();
            for i in 0..2 {
                let gpu = &self.gpus[i];
                gpu.context.enter()?;
                closed.wait(gpu, &self.streams[i])?;
                let (mine, theirs) = (&*self.flags[i], &*self.flags[1 - i]);
                let game = Game { mine, theirs, first: i == 0, warm_up: Self::WARM_UP, rounds: Self::ROUNDS };
                gpu.kernels.pingpong(&self.streams[i], &game, &self.reports[i])?;
            }
            closed.release();
            closed.check()?;
        }
        for stream in &self.streams {
            stream.synchronize()?;
        }
        let (rounds, time) = (self.reports[0].read(0), self.reports[0].read(1));
        if rounds < u64::from(Self::ROUNDS) {
            let [a, b] = [&self.gpus[0].name, &self.gpus[1].name];
            return Err(Problem::Failed(format!("a flag between {a} and {b} did not arrive in round {rounds}")));
        }
        Ok(time as f64 * 1e-9 / f64::from(Self::ROUNDS) / 2.0)
    }
}

impl Prepared for Signals {
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem> {
        let samples: Result<Vec<Sample>, Problem> = (0..n).map(|_| self.go().map(|time| vec![time])).collect();
        Ok(vec![samples?])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Problem> {
        // a wrong value would have stopped the rounds
        Ok(vec![Verdict::Intact])
    }
}

/// Small copies one behind the other, and what it costs the CPU to enqueue them.
pub(crate) struct SmallCopies {
    gpu: Rc<Gpu>,
    stream: BorrowedStream,
    source: Rc<dyn Buffer>,
    target: Rc<dyn Buffer>,
    bytes: usize,
    /// Source and destination, where peer access is off and the driver stages.
    staged: Option<[Rc<Gpu>; 2]>,
    gate: SharedGate,
    start: Event,
    end: Event,
    seed: u32,
    transfer: Transfer,
    /// Copies so far.
    copies: u64,
}

impl SmallCopies {
    /// Copies a sample: as many as the CUDA sample takes.
    const COPIES: usize = 100;

    pub(crate) fn prepare(
        machine: &mut Machine,
        transfer: &Transfer,
        size: Size,
        allocation: usize,
    ) -> Result<(Self, Bytes), Problem> {
        let gpu = machine.gpu(transfer.driver())?;
        let far = transfer.gpus().find(|name| *name != gpu.name);
        let far = far.map(|name| machine.gpu(name)).transpose()?;
        if let Some(far) = &far {
            machine.access(&gpu, far, transfer.via == Via::Direct)?;
        }
        let staged = match (transfer.via, far) {
            (Via::Direct, _) => None,
            (Via::Driver, Some(_)) => Some([machine.gpu(&transfer.source)?, machine.gpu(&transfer.destination)?]),
            _ => {
                return Err(Problem::NotApplicable(
                    "small copies are direct, or staged by the driver between GPUs".to_owned(),
                ));
            }
        };
        let size = size.most();
        let bytes = usize::try_from(size.0).unwrap_or(usize::MAX);
        let local = usize::from(transfer.source == transfer.destination);
        let source = machine.buffer(&transfer.source, 0, allocation, bytes)?;
        let target = machine.buffer(&transfer.destination, local, allocation, bytes)?;
        let stream = gpu.stream()?;
        let (start, end) = (Event::new(&stream)?, Event::new(&stream)?);
        let seed = machine.next_seed();
        gpu.context.enter()?;
        let (gate, transfer) = (machine.gate()?, transfer.clone());
        let copies =
            SmallCopies { gpu, stream, source, target, bytes, staged, gate, start, end, seed, transfer, copies: 0 };
        copies.fill()?;
        Ok((copies, size))
    }

    /// Writes the source's content and spoils the target's, each by a GPU that reaches it.
    fn fill(&self) -> Result<(), Problem> {
        let ends = self.staged.as_ref().map_or([&self.gpu, &self.gpu], |[source, target]| [source, target]);
        for (gpu, buffer, spoilt) in [(ends[0], &self.source, false), (ends[1], &self.target, true)] {
            gpu.context.enter()?;
            let stream = gpu.stream()?;
            gpu.kernels.fill(&stream, buffer.part(0, self.bytes), self.seed, spoilt)?;
            stream.synchronize()?;
        }
        Ok(())
    }

    fn go(&mut self) -> Result<Sample, Problem> {
        self.gpu.context.enter()?;
        let mut gate = self.gate.borrow_mut();
        let mut closed = gate.close();
        closed.wait(&self.gpu, &self.stream)?;
        self.stream.record(&self.start)?;
        let began = Instant::now();
        let (to, from) = (self.target.part(0, self.bytes), self.source.part(0, self.bytes));
        for _ in 0..Self::COPIES {
            match &self.staged {
                None => self.stream.copy(to, from)?,
                Some([source, target]) => self.stream.copy_peer((to, &target.context), (from, &source.context))?,
            }
        }
        let enqueued = began.elapsed().as_secs_f64();
        self.copies += Self::COPIES as u64;
        self.stream.record(&self.end)?;
        closed.release();
        self.stream.synchronize()?;
        closed.check()?;
        let copies = Self::COPIES as f64;
        Ok(vec![self.end.since(&self.start)? / copies, enqueued / copies])
    }
}

impl Prepared for SmallCopies {
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem> {
        let samples: Result<Vec<Sample>, Problem> = (0..n).map(|_| self.go()).collect();
        Ok(vec![samples?])
    }

    fn sent(&self) -> Option<Vec<(Transfer, u64)>> {
        Some(vec![(self.transfer.clone(), self.copies * self.bytes as u64)])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Problem> {
        let at = self.staged.as_ref().map_or(&self.gpu, |[_, target]| target);
        Ok(vec![at.verify(&*at.stream()?, self.target.part(0, self.bytes), self.seed)?])
    }
}
