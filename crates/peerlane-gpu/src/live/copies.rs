//! Transfers on streams: by copy engines or kernels, alone or concurrently, held by a gate and released together.

use std::rc::Rc;

use peerlane_machine::matrix::Engine;
use peerlane_machine::names::is_host;
use peerlane_machine::transfer::{Transfer, Via};
use peerlane_machine::units::Bytes;
use peerlane_measure::measure::{Sample, Verdict};
use peerlane_measure::plan::{Method, Size};

use super::gate::SharedGate;
use super::gpu::{BorrowedStream, Gpu};
use super::pipeline::Pipeline;
use super::window::{self, Progress, rates};
use super::{Machine, Prepared};
use crate::cuda::{Buffer, CudaError, Event};
use crate::failure::Problem;

/// The most operations of one GPU's that wait behind the gate: a driver's queue holds about a thousand, shared by streams,
/// and blocks when it is full.
const MOST_QUEUED: usize = 384;

/// Bytes that count as one operation where the driver stages: it queues a message in pieces. Behind the gate 384 MiB were
/// queued, with 768 MiB it waited for room for ever (driver 580, H200).
const STAGED_PIECE: usize = 512 << 10;

/// Copies of host memory in one launch of a kernel.
const LAUNCHED: u32 = 4;

/// The least that such a copy holds, and it must be as much as the GPU's L2, through which source and target both go: so
/// nothing of the source is left there when the next copy begins.
const LAUNCHED_BYTES: usize = 64 << 20;

/// Marks of each lane in a pilot of several: from the first to the last tells the pace, also where one engine serves the
/// lanes in turns.
const PILOT_MARKS: usize = 3;

/// The least that one message holds where the size is free, so that its start does not show.
const LEAST_BYTES: usize = 4 << 20;

/// How data moves.
enum Mover {
    /// A copy engine of the driving GPU.
    Engine,
    /// A kernel on the driving GPU, between GPUs or within one.
    Kernel,
    /// A kernel that copies to or from host memory.
    WithHost,
    /// A kernel that also copies a later lane's data, the other way: its target and source.
    BothWays(Rc<dyn Buffer>, Rc<dyn Buffer>),
    /// The kernel of the lane of this number, in its stream.
    Along(usize),
    /// The driver, with peer access off.
    Driver,
    /// Our own pipeline through the host.
    Pipeline(Box<Pipeline>),
}

/// One transfer, ready to run.
struct Lane {
    transfer: Transfer,
    /// Bytes that were put into the stream so far.
    sent: u64,
    /// The GPU whose stream tells the time: that at which data arrives, of a pipeline; else that which drives.
    driving: Rc<Gpu>,
    /// GPUs at its ends, for the driver's staging.
    ends: (Rc<Gpu>, Rc<Gpu>),
    stream: Rc<BorrowedStream>,
    mover: Mover,
    source: Rc<dyn Buffer>,
    target: Rc<dyn Buffer>,
    /// Bytes a message.
    bytes: usize,
    /// Messages that count as one here, since one launch copies them.
    repeats: u32,
    /// Content of the source.
    seed: u32,
    /// Seconds a message took when last looked.
    pace: f64,
    /// Passed when the gate has opened, if it is the first lane whose stream is of its GPU; others wait for that one's.
    start: Event,
    marks: Vec<Event>,
}

/// Transfers of one round, ready to run.
pub(crate) struct Copies {
    lanes: Vec<Lane>,
    /// How many lanes each step has, in order.
    steps: Vec<usize>,
    gate: SharedGate,
    sample_time: f64,
}

/// What [`Copies::prepare`] is to lay out: each step's transfers, and its size.
pub(crate) type Wanted<'p> = (&'p [Transfer], Size);

impl Copies {
    /// Takes memory, fills it, and finds out how long a message takes.
    pub(crate) fn prepare(
        machine: &mut Machine,
        wanted: &[Wanted],
        method: &Method,
        allocation: usize,
    ) -> Result<(Self, Vec<Bytes>), Problem> {
        let mut copies = Copies {
            lanes: Vec::new(),
            steps: wanted.iter().map(|(transfers, _)| transfers.len()).collect(),
            gate: machine.gate()?,
            sample_time: method.sample_time.seconds(),
        };
        let free = wanted.iter().all(|(_, size)| matches!(size, Size::UpTo(_)));
        let most =
            wanted.iter().map(|(_, size)| usize::try_from(size.most().0).unwrap_or(usize::MAX)).max().unwrap_or(0);
        let all: Vec<&Transfer> = wanted.iter().flat_map(|(transfers, _)| *transfers).collect();
        let most = if free { machine.fitting(&all, most)? } else { most };
        for (i, transfer) in all.iter().enumerate() {
            let lane = Lane::new(machine, transfer, &all[..i], most, allocation)?;
            copies.lanes.push(lane);
        }
        copies.join_ways();
        if free {
            copies.fit_sizes(most)?;
        }
        for lane in &mut copies.lanes {
            lane.fit_repeats();
            lane.fill()?;
        }
        for lane in &copies.lanes {
            lane.driving.context.synchronize()?;
        }
        // what was sized ran twice by then
        copies.pilot(if free { 1 } else { 2 }, 1)?;
        let mut first = 0;
        let sizes = copies.steps.iter().map(|n| {
            let size = copies.lanes.get(first).map_or(0, |lane| lane.bytes);
            first += n;
            Bytes(size as u64)
        });
        let sizes = sizes.collect();
        Ok((copies, sizes))
    }

    /// Gives both ways between a GPU and host memory to one kernel, where a step has both: then they go forward together.
    fn join_ways(&mut self) {
        let mut first = 0;
        for lanes in &self.steps {
            let range = first..first + lanes;
            first += lanes;
            for late in range.clone() {
                let Some(early) = range.clone().take_while(|early| *early < late).find(|early| {
                    let [early, late] = [*early, late].map(|i| &self.lanes[i]);
                    early.is_way_back_of(late)
                }) else {
                    continue;
                };
                let Lane { target, source, .. } = &self.lanes[late];
                let both = Mover::BothWays(Rc::clone(target), Rc::clone(source));
                self.lanes[early].mover = both;
                self.lanes[late].stream = Rc::clone(&self.lanes[early].stream);
                self.lanes[late].mover = Mover::Along(early);
            }
        }
    }

    /// Makes messages of about a sample's time, all equally large, so that a size stands for the whole step.
    fn fit_sizes(&mut self, most: usize) -> Result<(), Problem> {
        let pilot = most.min(2 * LEAST_BYTES);
        for lane in &mut self.lanes {
            lane.bytes = pilot;
        }
        // from mark to mark, so that a start that takes as long as such a message makes none small
        self.pilot(2, PILOT_MARKS)?;
        let slowest = self.lanes.iter().map(|lane| lane.pace).fold(0.0, f64::max);
        let wanted = pilot as f64 * self.sample_time / slowest.max(1e-9);
        let bytes = (wanted as usize).next_power_of_two().clamp(LEAST_BYTES.min(most), most);
        for lane in &mut self.lanes {
            lane.bytes = bytes;
        }
        Ok(())
    }

    /// A few messages of each lane, so many times, of which the last tells the pace: the first time after nothing ran is cold. Of a
    /// lone lane `alone`.
    fn pilot(&mut self, times: usize, alone: usize) -> Result<(), Problem> {
        let wanted = if self.lanes.len() > 1 { PILOT_MARKS } else { alone };
        let marks = wanted.min(self.most_queued(1).max(1));
        for _ in 0..times {
            let few = vec![(marks, 1); self.lanes.len()];
            self.go(&few)?;
        }
        Ok(())
    }

    /// Releases all lanes together, each with so many marks of so many messages; gives their progress.
    ///
    /// Copies of one GPU's streams may be served by one engine in the order in which they were queued. So lanes are queued
    /// in turns, and their times count from one event: a lane's own would pass only when the engine came to it.
    fn go(&mut self, counts: &[(usize, usize)]) -> Result<Vec<Progress>, Problem> {
        let gate = Rc::clone(&self.gate);
        let mut gate = gate.borrow_mut();
        let mut closed = gate.close();
        if self.most_queued(counts.iter().map(|(marks, messages)| marks * messages).max().unwrap_or(0)) == 0 {
            // a queue that is full behind the gate would never empty
            closed.release();
        }
        let zeros: Vec<usize> = (0..self.lanes.len()).map(|i| self.first_beside(i)).collect();
        for (i, zero) in zeros.iter().enumerate() {
            let [first, lane] = [&self.lanes[*zero], &self.lanes[i]];
            lane.driving.context.enter()?;
            if *zero == i {
                closed.wait(&lane.driving, &lane.stream)?;
                lane.stream.record(&lane.start)?;
            } else {
                lane.stream.wait(&first.start)?;
            }
            let lane = &mut self.lanes[i];
            if let Mover::Pipeline(pipeline) = &mut lane.mover {
                pipeline.begin(&lane.stream)?;
            }
            while lane.marks.len() < counts[i].0 {
                lane.marks.push(Event::new(&lane.stream)?);
            }
        }
        for (i, mark) in in_turns(counts) {
            let lane = &mut self.lanes[i];
            lane.driving.context.enter()?;
            lane.enqueue(counts[i].1)?;
            lane.stream.record(&lane.marks[mark])?;
        }
        closed.release();
        for lane in &self.lanes {
            lane.stream.synchronize()?;
        }
        closed.check()?;
        let mut all = Vec::with_capacity(self.lanes.len());
        for (i, (marks, messages)) in counts.iter().enumerate() {
            let zero = &self.lanes[zeros[i]].start;
            let times: Result<Vec<f64>, _> =
                self.lanes[i].marks[..*marks].iter().map(|mark| mark.since(zero)).collect();
            let lane = &mut self.lanes[i];
            let progress = Progress { marks: times?, bytes: lane.moved(*messages) };
            if let Some(pace) = progress.pace() {
                lane.pace = pace / *messages as f64;
            }
            all.push(progress);
        }
        Ok(all)
    }

    /// The first lane whose stream is of the same GPU as that of lane `i`.
    fn first_beside(&self, i: usize) -> usize {
        let gpu = &self.lanes[i].driving;
        self.lanes[..i].iter().position(|before| Rc::ptr_eq(&before.driving, gpu)).unwrap_or(i)
    }

    /// How many times `messages` of each lane fit into the queues of the GPUs, which lanes share.
    fn most_queued(&self, messages: usize) -> usize {
        let of = |lane: &Lane| -> usize {
            let beside = self.lanes.iter().filter(|other| other.keeps_busy(&lane.driving));
            beside.map(|other| other.operations(messages)).sum()
        };
        MOST_QUEUED / self.lanes.iter().map(of).max().unwrap_or(1).max(1)
    }

    /// Marks and messages a mark for a lone lane.
    fn counts_alone(&self, lane: &Lane, n: usize) -> (usize, usize) {
        let wanted = (self.sample_time / lane.pace.max(1e-9)).ceil().max(1.0) as usize;
        let messages = wanted.min(self.most_queued(1).max(1));
        let marks = n.min(self.most_queued(messages)).max(1);
        (marks, messages)
    }

    /// Marks for each of several lanes, so that all run for about as long.
    fn counts_together(&self, n: usize) -> Vec<(usize, usize)> {
        let paces = || self.lanes.iter().map(|lane| lane.pace.max(1e-9));
        let (slowest, fastest) = (paces().fold(0.0, f64::max), paces().fold(f64::INFINITY, f64::min));
        // one more, since rates count from the first mark
        let wanted = (n as f64 * self.sample_time.max(slowest)).max(PILOT_MARKS as f64 * slowest) + slowest;
        // the lane of most messages must fit into the queue
        let time = wanted.min(self.most_queued(1).max(2) as f64 * fastest);
        let mut counts: Vec<_> = paces().map(|pace| (((time / pace).round() as usize).max(2), 1)).collect();
        for (i, lane) in self.lanes.iter().enumerate() {
            if let Mover::Along(with) = lane.mover {
                counts[i] = counts[with];
            }
        }
        counts
    }

    /// Samples of all lanes at once.
    fn samples(&mut self, n: usize) -> Result<Vec<Sample>, Problem> {
        let mut samples = Vec::with_capacity(n);
        while samples.len() < n {
            let left = n - samples.len();
            let counts = match self.lanes.as_slice() {
                [] => return Ok(samples),
                [lone] => vec![self.counts_alone(lone, left)],
                _ => self.counts_together(left),
            };
            let time = self.sample_time;
            let progress = self.go(&counts)?;
            // few windows where the queue was too short for all of them
            let windows = ((window::overlap(&progress) / time + 0.5) as usize).clamp(1, left);
            let got = rates(&progress, windows);
            if got.is_empty() {
                break;
            }
            samples.extend(got);
        }
        samples.truncate(n);
        Ok(samples)
    }
}

impl Prepared for Copies {
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem> {
        let all = self.samples(n)?;
        let mut first = 0;
        let of_step = |lanes: &usize| {
            let range = first..first + lanes;
            first += lanes;
            all.iter().filter_map(|sample| sample.get(range.clone()).map(<[f64]>::to_vec)).collect()
        };
        Ok(self.steps.iter().map(of_step).collect())
    }

    fn sent(&self) -> Option<Vec<(Transfer, u64)>> {
        Some(self.lanes.iter().map(|lane| (lane.transfer.clone(), lane.sent)).collect())
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Problem> {
        let mut verdicts = Vec::with_capacity(self.steps.len());
        let mut lanes = self.lanes.iter();
        for n in &self.steps {
            let mut verdict = Verdict::Intact;
            for lane in lanes.by_ref().take(*n) {
                let of_lane = lane.verify()?;
                if verdict == Verdict::Intact {
                    verdict = of_lane;
                }
            }
            verdicts.push(verdict);
        }
        Ok(verdicts)
    }
}

impl Lane {
    fn new(
        machine: &mut Machine,
        transfer: &Transfer,
        before: &[&Transfer],
        bytes: usize,
        allocation: usize,
    ) -> Result<Self, Problem> {
        let driving = machine.gpu(transfer.driver())?;
        let far = transfer.gpus().find(|name| *name != driving.name);
        let far = far.map_or_else(|| Ok(Rc::clone(&driving)), |name| machine.gpu(name))?;
        let pair = !Rc::ptr_eq(&driving, &far);
        let mover = match (transfer.engine, transfer.via) {
            (Engine::Nic | Engine::Device, _) => {
                return Err(Problem::NotApplicable("transfers by NICs and drives are not supported yet".to_owned()));
            }
            (Engine::Ce, Via::Direct) => Mover::Engine,
            (Engine::Sm, Via::Direct) if is_host(&transfer.source) || is_host(&transfer.destination) => Mover::WithHost,
            (Engine::Sm, Via::Direct) => Mover::Kernel,
            (_, _) if !pair => return Err(Problem::NotApplicable("staging needs two GPUs".to_owned())),
            (Engine::Sm, _) => {
                return Err(Problem::NotApplicable("a kernel can only access mapped memory".to_owned()));
            }
            (Engine::Ce, Via::Driver) => Mover::Driver,
            (Engine::Ce, Via::Pipeline) => {
                let (from, to) = (machine.gpu(&transfer.source)?, machine.gpu(&transfer.destination)?);
                Mover::Pipeline(Box::new(Pipeline::new(&from, &to)?))
            }
        };
        if pair {
            match transfer.via {
                Via::Direct => machine.access(&driving, &far, true)?,
                Via::Driver => machine.access(&driving, &far, false)?,
                Via::Pipeline => {}
            }
        }
        // a buffer's number within its place: sources and targets of all transfers before count
        let used = |name: &str| before.iter().flat_map(|t| [&t.source, &t.destination]).filter(|n| *n == name).count();
        let local = usize::from(transfer.source == transfer.destination);
        let source = machine.buffer(&transfer.source, used(&transfer.source), allocation, bytes)?;
        let target = machine.buffer(&transfer.destination, used(&transfer.destination) + local, allocation, bytes)?;
        let ends = (machine.gpu_or(&transfer.source, &driving)?, machine.gpu_or(&transfer.destination, &driving)?);
        // the stream whose events tell the time is the one in which data arrives
        let stream = match &mover {
            Mover::Pipeline(_) => ends.1.stream()?,
            _ => driving.stream()?,
        };
        let stream = Rc::new(stream);
        let driving = if matches!(mover, Mover::Pipeline(_)) { Rc::clone(&ends.1) } else { driving };
        let start = Event::new(&stream)?;
        let seed = machine.next_seed();
        Ok(Lane {
            transfer: transfer.clone(),
            sent: 0,
            driving,
            ends,
            stream,
            mover,
            source,
            target,
            bytes,
            repeats: 1,
            seed,
            pace: 0.0,
            start,
            marks: Vec::new(),
        })
    }

    /// Copies host memory several times in a launch, where that is long and no cache of the GPU can hold it. Blocks end at
    /// different times, which costs most where both directions share the link, and a program's longer copy pays once.
    fn fit_repeats(&mut self) {
        let host = matches!(self.mover, Mover::WithHost | Mover::BothWays(..) | Mover::Along(_));
        self.repeats = if host { copies_a_launch(self.bytes, self.driving.context.device.l2_bytes()) } else { 1 };
    }

    /// Whether one kernel can copy for both: to and from host memory, by one GPU.
    fn is_way_back_of(&self, other: &Lane) -> bool {
        let with_host = matches!((&self.mover, &other.mover), (Mover::WithHost, Mover::WithHost));
        let opposite = is_host(&self.transfer.source) != is_host(&other.transfer.source);
        with_host && opposite && Rc::ptr_eq(&self.driving, &other.driving)
    }

    /// Bytes that so many messages hold, each as often as a launch copies it.
    fn moved(&self, messages: usize) -> f64 {
        self.bytes as f64 * messages as f64 * f64::from(self.repeats)
    }

    /// Whether it puts operations into queues of that GPU.
    fn keeps_busy(&self, gpu: &Rc<Gpu>) -> bool {
        let ends = [&self.ends.0, &self.ends.1];
        let both = matches!(self.mover, Mover::Driver | Mover::Pipeline(_));
        Rc::ptr_eq(&self.driving, gpu) || both && ends.iter().any(|end| Rc::ptr_eq(end, gpu))
    }

    /// Operations that so many messages put into queues.
    fn operations(&self, messages: usize) -> usize {
        match &self.mover {
            Mover::Pipeline(_) => messages * Pipeline::operations(self.bytes),
            Mover::Driver => messages * self.bytes.div_ceil(STAGED_PIECE).max(1),
            _ => messages,
        }
    }

    /// Puts messages into the stream. The driving GPU's context is current.
    fn enqueue(&mut self, messages: usize) -> Result<(), CudaError> {
        let (to, from) = (self.target.part(0, self.bytes), self.source.part(0, self.bytes));
        let kernels = &self.driving.kernels;
        for _ in 0..messages {
            self.sent += self.bytes as u64 * u64::from(self.repeats);
            match &mut self.mover {
                Mover::Engine => self.stream.copy(to, from)?,
                // a launch each: the second of one launch's repeats could find the first's data in a cache
                Mover::Kernel => kernels.copy(&self.stream, (to, from), 1)?,
                Mover::WithHost => kernels.copy_with_host(&self.stream, (to, from), self.repeats)?,
                Mover::BothWays(back_to, back_from) => {
                    let back = (back_to.part(0, self.bytes), back_from.part(0, self.bytes));
                    kernels.copy_both(&self.stream, (to, from), back, self.repeats)?;
                }
                Mover::Along(_) => {}
                Mover::Driver => self.stream.copy_peer((to, &self.ends.1.context), (from, &self.ends.0.context))?,
                Mover::Pipeline(pipeline) => pipeline.enqueue(&self.stream, to, from)?,
            }
        }
        Ok(())
    }

    /// Writes the source's content and spoils the target's.
    fn fill(&self) -> Result<(), CudaError> {
        let (from, to) = (&self.ends.0, &self.ends.1);
        from.context.enter()?;
        let stream = from.stream()?;
        from.kernels.fill(&stream, self.source.part(0, self.bytes), self.seed, false)?;
        stream.synchronize()?;
        to.context.enter()?;
        let stream = to.stream()?;
        to.kernels.fill(&stream, self.target.part(0, self.bytes), self.seed, true)?;
        stream.synchronize()
    }

    /// Compares what arrived with what was sent, on the GPU that it arrived at, or that drove it to the host.
    fn verify(&self) -> Result<Verdict, Problem> {
        let at = &self.ends.1;
        at.verify(&*at.stream()?, self.target.part(0, self.bytes), self.seed)
    }
}

/// How often one launch copies so many bytes of host memory, on a GPU with such an L2, if that is known.
fn copies_a_launch(bytes: usize, l2: Option<usize>) -> u32 {
    let beyond_caches = l2.is_some_and(|l2| bytes >= l2);
    if bytes >= LAUNCHED_BYTES && beyond_caches { LAUNCHED } else { 1 }
}

/// Which lane's which mark is queued when, so that lanes of different counts go forward evenly.
fn in_turns(counts: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut turns: Vec<(usize, usize)> =
        counts.iter().enumerate().flat_map(|(lane, (marks, _))| (0..*marks).map(move |mark| (lane, mark))).collect();
    // by the part of its lane that is done with it: (mark + 1) / marks
    turns.sort_by_key(|(lane, mark)| ((mark + 1) as u64 * (1 << 32) / counts[*lane].0.max(1) as u64, *lane));
    turns
}

#[cfg(test)]
mod tests {
    use super::{LAUNCHED, copies_a_launch, in_turns};

    #[test]
    fn one_launch_copies_again_only_what_no_cache_holds() {
        assert_eq!(copies_a_launch(64 << 20, Some(60 << 20)), LAUNCHED);
        assert_eq!([32, 64, 125].map(|mib| copies_a_launch(mib << 20, Some(126 << 20))), [1; 3]);
        assert_eq!(copies_a_launch(256 << 20, Some(126 << 20)), LAUNCHED);
        assert_eq!((copies_a_launch(32 << 20, Some(4 << 20)), copies_a_launch(64 << 20, None)), (1, 1));
    }

    #[test]
    fn lanes_are_queued_in_turns_whatever_their_counts() {
        assert_eq!(in_turns(&[(2, 1), (2, 1)]), [(0, 0), (1, 0), (0, 1), (1, 1)]);
        assert_eq!(in_turns(&[(4, 1), (2, 9)]), [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 1)]);
        assert_eq!(in_turns(&[(1, 1), (0, 1)]), [(0, 0)]);
    }
}
