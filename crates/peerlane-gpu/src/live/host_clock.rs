//! Transfers that hold up the CPU, so that only its own clock can time them: pageable and managed memory.

use std::rc::Rc;
use std::time::Instant;

use peerlane_machine::names::is_host;
use peerlane_machine::transfer::{HostMemory, Transfer};
use peerlane_machine::units::Bytes;
use peerlane_measure::measure::{Sample, Verdict};
use peerlane_measure::plan::{Method, Size};

use super::gpu::{BorrowedStream, Gpu};
use super::{Machine, Prepared};
use crate::cuda::{Buffer, ManagedBuffer, PinnedBuffer};
use crate::failure::Problem;
use crate::host::Mapping;
use crate::pattern::pattern_word;

/// Content before anything has arrived.
const POISON: u64 = 0xA5A5_A5A5_A5A5_A5A5;

/// Copies between a GPU and ordinary memory of the process.
pub(crate) struct Pageable {
    gpu: Rc<Gpu>,
    stream: BorrowedStream,
    memory: Mapping,
    device: Rc<dyn Buffer>,
    bytes: usize,
    to_host: bool,
    /// Messages a sample.
    messages: usize,
    sample_time: f64,
    seed: u32,
}

impl Pageable {
    pub(crate) fn prepare(
        machine: &mut Machine,
        transfer: &Transfer,
        size: Size,
        method: &Method,
    ) -> Result<(Self, Bytes), Problem> {
        let gpu = machine.gpu(transfer.driver())?;
        let to_host = is_host(&transfer.destination);
        let size = size.most();
        let bytes = usize::try_from(size.0).unwrap_or(usize::MAX);
        let mut memory =
            Mapping::new(bytes.next_multiple_of(8), None).map_err(|e| Problem::Failed(format!("host memory: {e}")))?;
        let device = machine.buffer(&gpu.name, 0, 0, bytes)?;
        let stream = gpu.stream()?;
        let seed = machine.next_seed();
        if to_host {
            memory.words().fill(POISON);
            gpu.context.enter()?;
            gpu.kernels.fill(&stream, device.part(0, bytes), seed, false)?;
        } else {
            for (i, word) in memory.words().iter_mut().enumerate() {
                *word = pair(seed, i);
            }
            gpu.context.enter()?;
            gpu.kernels.fill(&stream, device.part(0, bytes), seed, true)?;
        }
        stream.synchronize()?;
        let sample_time = method.sample_time.seconds();
        let mut pageable = Pageable { gpu, stream, memory, device, bytes, to_host, messages: 1, sample_time, seed };
        pageable.go()?;
        let once = pageable.go()?;
        pageable.messages = (pageable.sample_time / once.max(1e-9)).ceil().clamp(1.0, 1024.0) as usize;
        Ok((pageable, size))
    }

    /// One sample: seconds.
    fn go(&mut self) -> Result<f64, Problem> {
        self.gpu.context.enter()?;
        let began = Instant::now();
        for _ in 0..self.messages {
            let host = self.memory.words();
            let host = &mut host[..self.bytes / 8];
            if self.to_host {
                self.stream.copy_to_slice(host, self.device.part(0, self.bytes))?;
            } else {
                self.stream.copy_from_slice(self.device.part(0, self.bytes), host)?;
            }
        }
        Ok(began.elapsed().as_secs_f64())
    }
}

/// Two words of the pattern as they lie in memory.
fn pair(seed: u32, index: usize) -> u64 {
    let at = 2 * index as u64;
    u64::from(pattern_word(seed, at)) | u64::from(pattern_word(seed, at + 1)) << 32
}

impl Prepared for Pageable {
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem> {
        let bytes = (self.bytes * self.messages) as f64;
        let samples: Result<Vec<Sample>, Problem> = (0..n).map(|_| self.go().map(|time| vec![bytes / time])).collect();
        Ok(vec![samples?])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Problem> {
        if !self.to_host {
            return Ok(vec![self.gpu.verify(&self.stream, self.device.part(0, self.bytes), self.seed)?]);
        }
        let (seed, words) = (self.seed, self.bytes / 8);
        let held = &self.memory.words()[..words];
        let wrong = held.iter().enumerate().filter(|(i, word)| **word != pair(seed, *i));
        let mut wrong = wrong.map(|(i, _)| i);
        Ok(vec![match wrong.next() {
            None => Verdict::Intact,
            Some(first) => Verdict::Corrupt(format!(
                "{} of {words} double words differ, the first at byte {}",
                wrong.count() + 1,
                first * 8
            )),
        }])
    }
}

/// Managed memory that moves to a GPU or back to the host, by faults or by a prefetch.
pub(crate) struct Managed {
    gpu: Rc<Gpu>,
    stream: BorrowedStream,
    memory: ManagedBuffer,
    /// Where the touching kernel adds up what it read.
    sum: PinnedBuffer,
    bytes: usize,
    to_host: bool,
    by_faults: bool,
    seed: u32,
}

impl Managed {
    /// The most that is ever asked for: more than a GPU has free can hang it.
    const MOST: u64 = 1 << 30;

    pub(crate) fn prepare(machine: &mut Machine, transfer: &Transfer, size: Size) -> Result<(Self, Bytes), Problem> {
        let gpu = machine.gpu(transfer.driver())?;
        if !gpu.context.device.manages_memory() {
            return Err(Problem::NotApplicable(format!("{} has no managed memory that moves by itself", gpu.name)));
        }
        let (free, _) = gpu.context.memory()?;
        let size = Bytes(size.most().0.min(Self::MOST).min(free / 4));
        let bytes = usize::try_from(size.0).unwrap_or(usize::MAX);
        let memory = ManagedBuffer::new(&gpu.context, bytes)?;
        let stream = gpu.stream()?;
        let seed = machine.next_seed();
        gpu.context.enter()?;
        gpu.kernels.fill(&stream, memory.part(0, bytes), seed, false)?;
        stream.synchronize()?;
        let sum = PinnedBuffer::new(&gpu.context, 4096)?;
        let to_host = is_host(&transfer.destination);
        let by_faults = transfer.memory == HostMemory::ManagedFaults;
        if to_host && by_faults {
            return Err(Problem::NotApplicable(
                "page faults of the CPU are not measured; a prefetch to the host is".to_owned(),
            ));
        }
        Ok((Managed { gpu, stream, memory, sum, bytes, to_host, by_faults, seed }, size))
    }

    /// One sample: seconds. What is there already does not move, so it is sent back first.
    fn go(&mut self) -> Result<f64, Problem> {
        self.gpu.context.enter()?;
        self.memory.prefetch(&self.stream, !self.to_host)?;
        self.stream.synchronize()?;
        let began = Instant::now();
        if self.by_faults {
            self.gpu.kernels.touch(&self.stream, self.memory.part(0, self.bytes), &self.sum)?;
        } else {
            self.memory.prefetch(&self.stream, self.to_host)?;
        }
        self.stream.synchronize()?;
        Ok(began.elapsed().as_secs_f64())
    }
}

impl Prepared for Managed {
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem> {
        let bytes = self.bytes as f64;
        let samples: Result<Vec<Sample>, Problem> = (0..n).map(|_| self.go().map(|time| vec![bytes / time])).collect();
        Ok(vec![samples?])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Problem> {
        Ok(vec![self.gpu.verify(&self.stream, self.memory.part(0, self.bytes), self.seed)?])
    }
}
