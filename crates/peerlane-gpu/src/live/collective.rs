//! NCCL's collectives, where its library is here: every GPU a rank, all in this process, or some of them.

use std::rc::Rc;
use std::time::Instant;

use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;
use peerlane_measure::measure::{Sample, Verdict};
use peerlane_measure::plan::Size;

use super::gpu::{BorrowedStream, Gpu};
use super::kernels::Numbers;
use super::{Machine, Prepared};
use crate::cuda::Buffer;
use crate::failure::Problem;
use crate::nccl::{Communicators, Operation};

/// Operations of a sample: as many as nccl-tests times at once, since the last one's end, which the CPU waits for, costs
/// small ones a few per cent.
const OPERATIONS: usize = 20;

/// Seconds after which a sample is long enough with fewer.
const LONGEST: f64 = 0.02;

/// Operations before those that count.
const WARM_UP: usize = 3;

/// Bytes of what ranks agree on.
pub(crate) const WORD: usize = 8;

/// One rank.
struct Rank {
    gpu: Rc<Gpu>,
    stream: BorrowedStream,
    send: Rc<dyn Buffer>,
    receive: Rc<dyn Buffer>,
}

/// A collective, ready to run.
pub(crate) struct Collectives {
    ranks: Vec<Rank>,
    communicators: Rc<Communicators>,
    operation: Collective,
    /// Elements of 4 bytes that a call of NCCL's is told of.
    count: usize,
    /// Elements that a rank sends and receives in all.
    held: (usize, usize),
    /// Seconds an operation took when last looked.
    pace: f64,
}

impl Collectives {
    pub(crate) fn prepare(
        machine: &mut Machine,
        operation: Collective,
        gpus: &[String],
        size: Size,
    ) -> Result<(Self, Bytes), Problem> {
        let communicators = machine.communicators(gpus)?;
        Self::among(machine, communicators, operation, gpus, size)
    }

    /// The same among ranks of this process, which are these GPUs, and of others.
    pub(crate) fn among(
        machine: &mut Machine,
        communicators: Rc<Communicators>,
        operation: Collective,
        gpus: &[String],
        size: Size,
    ) -> Result<(Self, Bytes), Problem> {
        let ranks = communicators.ranks.all;
        let wanted = usize::try_from(size.most().0 / 4).unwrap_or(usize::MAX);
        // as nccl-tests: what is gathered, scattered or exchanged is divided evenly among the ranks
        let part = (wanted / ranks).max(1);
        let (count, held) = match operation {
            Collective::AllReduce | Collective::Broadcast | Collective::SendReceive => {
                let count = wanted.max(1);
                (count, (count, count))
            }
            Collective::AllGather => (part, (part, part * ranks)),
            Collective::ReduceScatter => (part, (part * ranks, part)),
            Collective::AllToAll => (part, (part * ranks, part * ranks)),
        };
        let mut all = Vec::with_capacity(ranks);
        for name in gpus {
            let gpu = machine.gpu(name)?;
            let send = machine.buffer(name, 0, 0, held.0 * 4)?;
            let receive = machine.buffer(name, 1, 0, held.1 * 4)?;
            let stream = gpu.stream()?;
            all.push(Rank { gpu, stream, send, receive });
        }
        let mut collectives = Collectives { ranks: all, communicators, operation, count, held, pace: 0.0 };
        collectives.fill()?;
        // NCCL connects its ranks when they first need it
        collectives.go(WARM_UP)?;
        collectives.go(1)?;
        let bytes = held.0.max(held.1) * 4;
        Ok((collectives, Bytes(bytes as u64)))
    }

    /// Every rank sends its own numbers: element `i` of rank `r` is `(i mod 64) + r`, small enough that sums of whole
    /// numbers are exact in any order.
    fn fill(&self) -> Result<(), Problem> {
        const POISON: u8 = 0xA5;
        for (rank, number) in self.ranks.iter().zip(self.first()..) {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            rank.gpu.context.enter()?;
            rank.gpu.kernels.numbers(&rank.stream, rank.send.part(0, self.held.0 * 4), number)?;
            rank.stream.set(rank.receive.part(0, self.held.1 * 4), POISON)?;
            rank.stream.synchronize()?;
        }
        Ok(())
    }

    /// The number of this process's first rank.
    fn first(&self) -> usize {
        self.communicators.ranks.first
    }

    /// Seconds an operation, of so many behind one another: from the first call until the last has ended on all ranks of this
    /// process.
    ///
    /// By the CPU's clock and with the calls in it, since that is what a program waits for, and what nccl-tests times.
    pub(crate) fn go(&mut self, operations: usize) -> Result<f64, Problem> {
        self.pace = self.timed(operations).map_err(|problem| {
            self.communicators.abort();
            problem.asked_of(self.ranks.iter().map(|rank| rank.gpu.context.synchronize()))
        })?;
        Ok(self.pace)
    }

    fn timed(&self, operations: usize) -> Result<f64, Problem> {
        let began = Instant::now();
        for _ in 0..operations {
            self.enqueue()?;
        }
        for rank in &self.ranks {
            rank.stream.synchronize()?;
        }
        let each = began.elapsed().as_secs_f64() / operations as f64;
        self.communicators.check()?;
        Ok(each)
    }

    /// One operation on all ranks.
    fn enqueue(&self) -> Result<(), Problem> {
        let (count, ranks) = (self.count, self.communicators.ranks.all);
        self.communicators.grouped(|nccl| {
            for (r, rank) in (self.first()..).zip(&self.ranks) {
                rank.gpu.context.enter()?;
                let (send, receive) = (rank.send.part(0, self.held.0 * 4), rank.receive.part(0, self.held.1 * 4));
                let call = |operation| nccl.call(r, operation, send, receive, count, &rank.stream);
                match self.operation {
                    Collective::AllReduce => call(Operation::AllReduce)?,
                    Collective::AllGather => call(Operation::AllGather)?,
                    Collective::ReduceScatter => call(Operation::ReduceScatter)?,
                    Collective::Broadcast => call(Operation::Broadcast)?,
                    Collective::SendReceive => {
                        call(Operation::Send((r + 1) % ranks))?;
                        call(Operation::Receive((r + ranks - 1) % ranks))?;
                    }
                    Collective::AllToAll => {
                        for peer in 0..ranks {
                            let (to, from) =
                                (send.within(peer * count * 4, count * 4), receive.within(peer * count * 4, count * 4));
                            nccl.call(r, Operation::Send(peer), to, from, count, &rank.stream)?;
                            nccl.call(r, Operation::Receive(peer), to, from, count, &rank.stream)?;
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Sends a word of the first rank's to all ranks, and gives what this process received. `scratch` is memory of its
    /// first GPU and of the others, a word each.
    pub(crate) fn agree(&mut self, word: u64, scratch: &[Rc<dyn Buffer>]) -> Result<u64, Problem> {
        let said = (|| {
            for (rank, buffer) in self.ranks.iter().zip(scratch) {
                rank.gpu.context.enter()?;
                rank.stream.copy_from_slice(buffer.part(0, WORD), &[word])?;
            }
            self.communicators.grouped(|nccl| {
                for (r, (rank, buffer)) in (self.first()..).zip(self.ranks.iter().zip(scratch)) {
                    rank.gpu.context.enter()?;
                    let part = buffer.part(0, WORD);
                    nccl.call(r, Operation::Broadcast, part, part, WORD / 4, &rank.stream)?;
                }
                Ok(())
            })?;
            let mut heard = [0];
            for (rank, buffer) in self.ranks.iter().zip(scratch) {
                rank.gpu.context.enter()?;
                rank.stream.copy_to_slice(&mut heard, buffer.part(0, WORD))?;
            }
            self.communicators.check()?;
            Ok(heard[0])
        })();
        said.inspect_err(|_: &Problem| self.communicators.abort())
    }

    /// What rank `r` must have received.
    fn expected(&self, r: usize) -> Numbers {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (n, part) = (self.communicators.ranks.all, self.count as u64);
        let same = Numbers { factor: 1, add: 0, part, offset: 0, step: 0 };
        // every rank's element i, summed: n · (i mod 64) + 0 + 1 + … + (n − 1)
        let sum = Numbers { factor: number(n), add: number(n * (n - 1) / 2), ..same };
        let own = r as u64 * part;
        match self.operation {
            Collective::AllReduce => sum,
            Collective::ReduceScatter => Numbers { offset: own, ..sum },
            Collective::Broadcast => same,
            Collective::SendReceive => Numbers { add: number((r + n - 1) % n), ..same },
            // part p comes from rank p
            Collective::AllGather => Numbers { step: 1, ..same },
            Collective::AllToAll => Numbers { offset: own, step: 1, ..same },
        }
    }
}

impl Prepared for Collectives {
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem> {
        let operations = (LONGEST / self.pace.max(1e-9)).clamp(1.0, OPERATIONS as f64) as usize;
        let samples: Result<Vec<Sample>, Problem> =
            (0..n).map(|_| self.go(operations).map(|time| vec![time])).collect();
        Ok(vec![samples?])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Problem> {
        for (r, rank) in (self.first()..).zip(&self.ranks) {
            let received = rank.receive.part(0, self.held.1 * 4);
            let verdict = rank.gpu.verify_numbers(&rank.stream, received, self.expected(r))?;
            if verdict != Verdict::Intact {
                return Ok(vec![verdict]);
            }
        }
        Ok(vec![Verdict::Intact])
    }
}
