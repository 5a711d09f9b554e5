//! Host memory by itself: all cores of a node, or of the machine, read and write at once.
//!
//! Counted as STREAM counts (J. McCalpin, 1995): bytes that the program reads and writes, not the reads that a cache
//! makes before a write.

use std::hint::{self, black_box};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use peerlane_machine::units::Bytes;
use peerlane_measure::measure::{Sample, Verdict};
use peerlane_measure::plan::{Method, Size, StreamKernel};

use super::Prepared;
use crate::failure::Problem;
use crate::host::{self, Mapping};

/// More threads than this gain nothing on any machine known.
const MOST_THREADS: usize = 64;

/// Arrays of the largest kernel.
pub(crate) const ARRAYS: u64 = 3;

/// What one thread works on.
struct Arrays {
    a: Mapping,
    b: Mapping,
    c: Mapping,
}

/// A kernel over host memory, ready to run.
pub(crate) struct HostStream {
    threads: Vec<Arrays>,
    cpus: Vec<u32>,
    kernel: StreamKernel,
    passes: usize,
}

const SCALE: f64 = 3.0;

impl HostStream {
    /// `size` is that of each of the kernel's arrays, of all threads together; less where little memory is free.
    pub(crate) fn prepare(
        node: &str,
        kernel: StreamKernel,
        size: Size,
        method: &Method,
    ) -> Result<(Self, Bytes), Problem> {
        const PAGE: u64 = 4096;
        let node = host::node_of(node);
        let cpus =
            host::cpus(node).ok_or_else(|| Problem::NotApplicable("no CPU of that node may be used".to_owned()))?;
        let cpus = host::spread(&host::one_a_core(&cpus), MOST_THREADS);
        let most = host::available(node).map_or(u64::MAX, |free| free / 2 / ARRAYS);
        let size = size.most().0.min(most) / cpus.len() as u64 / PAGE * PAGE;
        if size == 0 {
            return Err(Problem::NotApplicable("too little memory is free to measure it".to_owned()));
        }
        let array = usize::try_from(size).unwrap_or(usize::MAX);
        let whole = Bytes(size * cpus.len() as u64);
        let map = || Mapping::new(array, node).map_err(|e| Problem::NotApplicable(format!("host memory: {e}")));
        let threads =
            cpus.iter().map(|_| Ok(Arrays { a: map()?, b: map()?, c: map()? })).collect::<Result<_, Problem>>()?;
        let mut stream = HostStream { threads, cpus, kernel, passes: 1 };
        // the first pass makes the pages, by the thread that will use them
        stream.pass(true)?;
        let once = stream.pass(false)?;
        stream.passes = (method.sample_time.seconds() / once.max(1e-9)).ceil().clamp(1.0, 64.0) as usize;
        Ok((stream, whole))
    }

    /// Seconds from the moment when all threads stand ready to that when the last has ended.
    fn pass(&mut self, first: bool) -> Result<f64, Problem> {
        let (kernel, passes) = (self.kernel, self.passes);
        let start = Start::of(self.threads.len());
        let spans: io::Result<Vec<(Instant, Instant)>> = thread::scope(|scope| {
            let start = &start;
            let mut started = Vec::with_capacity(self.cpus.len());
            for (arrays, cpu) in self.threads.iter_mut().zip(self.cpus.iter().copied()) {
                let work = move || {
                    host::pin_to(cpu);
                    if first {
                        arrays.touch();
                    }
                    if !start.ready() {
                        return None;
                    }
                    let began = Instant::now();
                    for _ in 0..passes {
                        arrays.run(kernel);
                    }
                    Some((began, Instant::now()))
                };
                // those that wait already must not wait for one that never comes
                let thread = thread::Builder::new().spawn_scoped(scope, work).inspect_err(|_| start.call_off())?;
                started.push(thread);
            }
            Ok(started.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect())
        });
        let spans =
            spans.map_err(|e| Problem::Failed(format!("a thread for each of {} CPUs: {e}", self.cpus.len())))?;
        let began = spans.iter().map(|(began, _)| *began).min();
        let ended = spans.iter().map(|(_, ended)| *ended).max();
        Ok(match (began, ended) {
            (Some(began), Some(ended)) => ended.duration_since(began).as_secs_f64(),
            _ => 0.0,
        })
    }

    /// Bytes that a sample moves, as STREAM counts them.
    fn moved(&self) -> f64 {
        let arrays = match self.kernel {
            StreamKernel::Read => 1,
            StreamKernel::Copy => 2,
            StreamKernel::Triad => 3,
        };
        let bytes: usize = self.threads.iter().map(|t| t.a.bytes()).sum();
        (arrays * bytes * self.passes) as f64
    }
}

/// Where threads wait for each other, awake: sleepers are woken one by one, and a sample takes a few milliseconds only.
struct Start {
    /// Threads that are not here yet.
    missing: AtomicUsize,
    called_off: AtomicBool,
}

impl Start {
    /// Looks before a waiting thread lets others have its CPU, which matters only where threads have no CPU each.
    const LOOKS: u32 = 1 << 10;

    fn of(threads: usize) -> Self {
        Start { missing: AtomicUsize::new(threads), called_off: AtomicBool::new(false) }
    }

    /// Waits for all others; false where not all will come.
    fn ready(&self) -> bool {
        self.missing.fetch_sub(1, Ordering::AcqRel);
        loop {
            for _ in 0..Self::LOOKS {
                if self.missing.load(Ordering::Acquire) == 0 {
                    return true;
                }
                hint::spin_loop();
            }
            if self.called_off.load(Ordering::Acquire) {
                return false;
            }
            thread::yield_now();
        }
    }

    fn call_off(&self) {
        self.called_off.store(true, Ordering::Release);
    }
}

impl Arrays {
    fn touch(&mut self) {
        for (array, value) in [(&mut self.a, 0.0), (&mut self.b, 1.0), (&mut self.c, 2.0)] {
            array.doubles().fill(value);
        }
    }

    fn run(&mut self, kernel: StreamKernel) {
        let (a, b, c) = (self.a.doubles(), self.b.doubles(), self.c.doubles());
        match kernel {
            StreamKernel::Read => {
                // several sums, so that additions do not wait for each other
                let mut sums = [0.0; 16];
                for chunk in b.chunks_exact(16) {
                    for (sum, x) in sums.iter_mut().zip(chunk) {
                        *sum += x;
                    }
                }
                black_box(sums);
            }
            StreamKernel::Copy => a.copy_from_slice(b),
            StreamKernel::Triad => {
                for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                    *a = *b + SCALE * *c;
                }
            }
        }
        black_box(a);
    }
}

impl Prepared for HostStream {
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem> {
        let bytes = self.moved();
        let samples: Result<Vec<Sample>, Problem> =
            (0..n).map(|_| Ok(vec![bytes / self.pass(false)?.max(1e-12)])).collect();
        Ok(vec![samples?])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Problem> {
        let expected = match self.kernel {
            StreamKernel::Read => return Ok(vec![Verdict::Unverified("reading leaves nothing to compare".to_owned())]),
            StreamKernel::Copy => 1.0,
            StreamKernel::Triad => 1.0 + SCALE * 2.0,
        };
        let wrong = self.threads.iter_mut().map(|t| t.a.doubles().iter().filter(|x| **x != expected).count());
        Ok(vec![match wrong.sum() {
            0 => Verdict::Intact,
            n => Verdict::Corrupt(format!("{n} elements differ")),
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_start_or_none() {
        let start = Start::of(3);
        let come = |start: &Start, threads: usize, call_off: bool| -> Vec<bool> {
            thread::scope(|scope| {
                let started: Vec<_> = (0..threads).map(|_| scope.spawn(|| start.ready())).collect();
                if call_off {
                    start.call_off();
                }
                started.into_iter().map(|thread| thread.join().unwrap()).collect()
            })
        };
        assert_eq!(come(&start, 3, false), [true; 3]);
        assert_eq!(come(&Start::of(3), 2, true), [false; 2]);
    }

    #[test]
    fn a_copy_of_host_memory_takes_time_and_is_checked() {
        let method = Method { sample_time: peerlane_machine::units::Seconds::new(1e-3), ..Method::default() };
        let (mut stream, size) =
            HostStream::prepare("host", StreamKernel::Triad, Size::UpTo(Bytes(4 << 20)), &method).unwrap();
        assert!(size.0 > 1 << 20 && size.0 <= 4 << 20, "{size:?}");
        let samples = stream.sample(3).unwrap();
        assert!(samples[0].len() == 3 && samples[0].iter().all(|s| s[0] > 1e7 && s[0] < 1e13), "{samples:?}");
        assert_eq!(stream.verify().unwrap(), [Verdict::Intact]);
    }
}
