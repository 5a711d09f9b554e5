//! The graph on the GPUs: each makes the edges of its own vertices, all alike from the same numbers.

use std::rc::Rc;

use peerlane_machine::bfs::Bfs;

use super::super::Machine;
use super::super::gpu::{BorrowedStream, Gpu};
use crate::cuda::Argument::{Half, Memory, Word};
use crate::cuda::{Argument, Buffer, CudaError, Kernel, Launch, Module, Part};
use crate::failure::Problem;
use crate::kernels::{self, LENGTHS};

/// Classes of degrees that [`kernels::RANK`] tells apart; the last is that of vertices without an edge.
const CLASSES: usize = 512;

/// The most warps that rank vertices, and how many a block has.
const WARPS: (usize, usize) = (2112, 4);

/// Ranks at which an arc's place among those of its vertex changes: towards the largest degrees first. Each range is another pass
/// over the edges; twice as many find parents no sooner (scale 26).
const FIRST_RANGE: u32 = 64;

/// Arcs by the vertices that they begin at.
pub(super) struct Arcs {
    /// Where those of each vertex begin, and where the last one's end.
    pub(super) offsets: Rc<dyn Buffer>,
    pub(super) arcs: Rc<dyn Buffer>,
}

impl Arcs {
    pub(super) fn arguments(&self) -> [Argument<'_>; 2] {
        [all(&self.offsets), all(&self.arcs)]
    }
}

/// One GPU's vertices, and what it knows of the others.
pub(super) struct Vertices {
    pub(super) gpu: Rc<Gpu>,
    module: Rc<Module>,
    /// Which of the search's buffers on its GPU are this part's.
    numbers: usize,
    pub(super) part: u32,
    pub(super) parts: u32,
    /// Labels a part.
    pub(super) span: u32,
    /// Vertices of this part, and those of them with an edge, which have the lowest ranks.
    pub(super) count: u32,
    pub(super) connected: u32,
    /// By name the label, and by label the name.
    pub(super) labels: Rc<dyn Buffer>,
    pub(super) names: Rc<dyn Buffer>,
    /// The arcs of its own vertices, and where each vertex's first leads.
    pub(super) rows: Arcs,
    pub(super) firsts: Rc<dyn Buffer>,
    /// The arcs of all vertices that lead to its own, where these are others.
    into: Option<Arcs>,
    pub(super) stream: BorrowedStream,
}

/// The whole of a buffer.
pub(super) fn all(buffer: &Rc<dyn Buffer>) -> Argument<'_> {
    Memory(buffer.part(0, usize::MAX), buffer.bytes())
}

/// The first `bytes`.
pub(super) fn first(buffer: &Rc<dyn Buffer>, bytes: usize) -> Part<'_> {
    buffer.part(0, bytes)
}

/// A number that fits, since no graph has more than 2³⁰ vertices.
fn number(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Buffers of a part, by number, each larger than none.
struct Numbered<'m> {
    machine: &'m mut Machine,
    gpu: &'m str,
    next: usize,
}

impl Numbered<'_> {
    fn take(&mut self, bytes: usize) -> Result<Rc<dyn Buffer>, Problem> {
        self.next += 1;
        self.machine.buffer(self.gpu, self.next - 1, 0, bytes.max(16))
    }
}

impl Vertices {
    /// Buffers of a part, those of a search with it.
    pub(super) const BUFFERS: usize = 24;

    /// Makes the part of the graph that GPU number `part` of a search has. `before` is how many parts that GPU has already.
    pub(super) fn new(
        machine: &mut Machine,
        search: &Bfs,
        part: usize,
        before: usize,
        seed: u32,
    ) -> Result<Self, Problem> {
        let name = &search.gpus[part];
        let gpu = machine.gpu(name)?;
        let stream = gpu.stream()?;
        gpu.context.enter()?;
        let module = gpu.module(kernels::COUNT_ARCS.module)?;
        let vertices = search.vertices();
        let parts = search.gpus.len() as u64;
        // copies of a stretch of a bitmap begin at 16 bytes
        let span = vertices.div_ceil(parts).next_multiple_of(128);
        let mut buffers = Numbered { machine, gpu: name, next: before * Self::BUFFERS };
        let n = vertices as usize;
        let degrees = buffers.take(4 * n)?;
        let labels = buffers.take(4 * n)?;
        let names = buffers.take(4 * (span * parts) as usize)?;
        let lengths = buffers.take(4 * (span * parts) as usize)?;
        let making = Making { gpu: &gpu, module: &module, stream: &stream, search, seed, span: number(span) };
        making.clear(&degrees)?;
        making.launch(kernels::COUNT_ARCS, None, &[&[all(&degrees)], making.graph().as_slice()].concat())?;
        let mut connected = 0;
        let mut places = buffers.take(4 * WARPS.0 * CLASSES)?;
        for other in 0..number(parts) {
            let with_edges = making.rank(other, [&degrees, &labels, &names], &mut places)?;
            if other == part as u32 {
                connected = with_edges;
            }
        }
        let part = part as u32;
        let count = making.count(part);
        // names of a part are by label
        let own = names.part(4 * (u64::from(part) * span) as usize, 4 * count as usize);
        let arguments = [all(&degrees), Memory(own, 4 * count as usize), all(&lengths), Half(count)];
        making.launch(kernels::OWN_DEGREES, None, &arguments)?;
        let rows = making.arcs(&mut buffers, &labels, &lengths, part, false)?;
        let firsts = buffers.take(4 * count as usize)?;
        let [offsets, arcs] = rows.arguments();
        making.launch(kernels::FIRST_ARCS, None, &[offsets, arcs, all(&firsts), Half(count)])?;
        let into = match parts {
            1 => None,
            _ => Some(making.arcs(&mut buffers, &labels, &lengths, part, true)?),
        };
        stream.synchronize()?;
        let (numbers, parts, span) = (buffers.next, number(parts), number(span));
        Ok(Vertices {
            gpu,
            module,
            numbers,
            part,
            parts,
            span,
            count,
            connected,
            labels,
            names,
            rows,
            firsts,
            into,
            stream,
        })
    }

    /// The next buffers of this part.
    pub(super) fn take<const N: usize>(
        &mut self,
        machine: &mut Machine,
        bytes: [usize; N],
    ) -> Result<[Rc<dyn Buffer>; N], Problem> {
        let mut numbered = Numbered { machine, gpu: &self.gpu.name, next: self.numbers };
        let mut taken = Vec::with_capacity(N);
        for bytes in bytes {
            taken.push(numbered.take(bytes)?);
        }
        self.numbers = numbered.next;
        taken.try_into().map_err(|_| Problem::Failed("a buffer is missing".to_owned()))
    }

    /// The label of one of its vertices, by name.
    pub(super) fn label(&self, name: u32) -> Result<u32, CudaError> {
        let mut word = [0];
        self.gpu.context.enter()?;
        self.stream.copy_to_slice(&mut word, self.labels.part(4 * (name as usize & !1), 8))?;
        Ok((word[0] >> (32 * (name % 2))) as u32)
    }

    /// The arcs of one of its vertices, by rank.
    pub(super) fn degree(&self, rank: u32) -> Result<u64, CudaError> {
        let mut ends = [0, 0];
        self.gpu.context.enter()?;
        self.stream.copy_to_slice(&mut ends, self.rows.offsets.part(8 * rank as usize, 16))?;
        Ok(ends[1] - ends[0])
    }

    /// The arcs of all of its vertices.
    pub(super) fn arcs(&self) -> Result<u64, CudaError> {
        let mut end = [0];
        self.gpu.context.enter()?;
        self.stream.copy_to_slice(&mut end, self.rows.offsets.part(8 * self.count as usize, 8))?;
        Ok(end[0])
    }

    /// The arcs of any vertex that lead to this part.
    pub(super) fn into(&self) -> &Arcs {
        self.into.as_ref().unwrap_or(&self.rows)
    }

    /// Words of a bitmap that hold its vertices with an edge.
    pub(super) fn words(&self) -> u32 {
        self.connected.div_ceil(32)
    }

    pub(super) fn kernel(&self, kernel: kernels::Kernel) -> Result<Ready, CudaError> {
        Ready::of(&self.module, &self.gpu, kernel)
    }
}

/// A kernel with its launch.
pub(super) struct Ready {
    kernel: Kernel,
    launch: Launch,
}

impl Ready {
    fn of(module: &Module, gpu: &Gpu, kernel: kernels::Kernel) -> Result<Self, CudaError> {
        let blocks = kernel.grid(gpu.kernels.multiprocessors());
        Ok(Ready { kernel: module.kernel(kernel.name)?, launch: Launch { blocks, threads: kernel.threads, shared: 0 } })
    }

    pub(super) fn run(&self, stream: &crate::cuda::Stream, arguments: &[Argument]) -> Result<(), CudaError> {
        self.kernel.launch(stream, self.launch, arguments)
    }
}

/// What making a part needs throughout.
struct Making<'m> {
    gpu: &'m Gpu,
    module: &'m Module,
    stream: &'m BorrowedStream,
    search: &'m Bfs,
    seed: u32,
    span: u32,
}

impl Making<'_> {
    fn launch(&self, kernel: kernels::Kernel, blocks: Option<u32>, arguments: &[Argument]) -> Result<(), CudaError> {
        let mut ready = Ready::of(self.module, self.gpu, kernel)?;
        ready.launch.blocks = blocks.unwrap_or(ready.launch.blocks);
        ready.run(self.stream, arguments)
    }

    /// What the generator is told.
    fn graph(&self) -> [Argument<'static>; 3] {
        [Word(self.search.edges()), Half(self.search.scale), Half(self.seed)]
    }

    fn clear(&self, buffer: &Rc<dyn Buffer>) -> Result<(), CudaError> {
        self.stream.set(first(buffer, usize::MAX), 0)
    }

    /// Vertices of a part.
    fn count(&self, part: u32) -> u32 {
        let parts = self.search.gpus.len() as u64;
        number((self.search.vertices() + parts - 1 - u64::from(part)) / parts)
    }

    /// Labels a part's vertices; gives how many of them have an edge.
    fn rank(
        &self,
        part: u32,
        [degrees, labels, names]: [&Rc<dyn Buffer>; 3],
        places: &mut Rc<dyn Buffer>,
    ) -> Result<u32, Problem> {
        let count = self.count(part);
        // a stretch of 32 at least
        let warps = (count as usize).div_ceil(32).clamp(1, WARPS.0).next_multiple_of(WARPS.1);
        let blocks = Some(number((warps / WARPS.1) as u64));
        let numbers = [count, part, number(self.search.gpus.len() as u64), self.span].map(Half);
        let arguments = |to: [Argument<'static>; 2]| [&to[..], &numbers].concat();
        let counting = [&[all(degrees), all(places)], arguments([Word(0), Word(0)]).as_slice()].concat();
        self.launch(kernels::RANK, blocks, &counting)?;
        let mut table = vec![0_u64; warps * CLASSES / 2];
        let part_of = places.part(0, 4 * warps * CLASSES);
        self.stream.copy_to_slice(&mut table, part_of)?;
        let connected = begin_classes(&mut table, warps);
        self.stream.copy_from_slice(part_of, &table)?;
        let giving = [&[all(degrees), all(places), all(labels), all(names)], numbers.as_slice()].concat();
        self.launch(kernels::RANK, blocks, &giving)?;
        Ok(connected)
    }

    /// The arcs of a part's vertices, whose lengths are known, or those that lead to them.
    fn arcs(
        &self,
        buffers: &mut Numbered,
        labels: &Rc<dyn Buffer>,
        lengths: &Rc<dyn Buffer>,
        part: u32,
        into: bool,
    ) -> Result<Arcs, Problem> {
        let parts = number(self.search.gpus.len() as u64);
        let count = if into { self.span * parts } else { self.count(part) };
        if into {
            self.clear(lengths)?;
            let which = [Half(part), Half(self.span)];
            let arguments = [&[all(labels), all(lengths)], self.graph().as_slice(), &which].concat();
            self.launch(kernels::COUNT_INTO, None, &arguments)?;
        }
        let blocks = (count as usize).div_ceil(LENGTHS);
        let sums = buffers.take(8 * blocks)?;
        let offsets = buffers.take(8 * (count as usize + 1))?;
        let launched = Some(number(blocks as u64));
        self.launch(kernels::BLOCK_SUMS, launched, &[all(lengths), all(&sums), Half(count)])?;
        let mut begins = vec![0_u64; blocks];
        self.stream.copy_to_slice(&mut begins, first(&sums, 8 * blocks))?;
        let total = begins.iter_mut().fold(0, |sum, one| sum + std::mem::replace(one, sum));
        self.stream.copy_from_slice(first(&sums, 8 * blocks), &begins)?;
        self.launch(kernels::BEGIN_AT, launched, &[all(lengths), all(&sums), all(&offsets), Half(count)])?;
        let arcs = buffers.take(4 * usize::try_from(total).unwrap_or(usize::MAX / 4))?;
        for (least, most) in ranges(self.span) {
            let which = [part, self.span, u32::from(into), least, most].map(Half);
            let arguments = [&[all(labels), all(&offsets), all(&arcs)], self.graph().as_slice(), &which].concat();
            self.launch(kernels::FILL_ARCS, None, &arguments)?;
        }
        Ok(Arcs { offsets, arcs })
    }
}

/// From how many vertices of each class each warp has to where they begin: class by class, in a class warp by warp. Two counts a
/// word. Gives how many are not of the last class.
fn begin_classes(table: &mut [u64], warps: usize) -> u32 {
    let mut next = 0_u32;
    let mut connected = 0;
    for class in 0..CLASSES {
        if class + 1 == CLASSES {
            connected = next;
        }
        let shift = 32 * (class % 2);
        for warp in 0..warps {
            let word = &mut table[(warp * CLASSES + class) / 2];
            let count = (*word >> shift) as u32;
            *word = *word & !(0xffff_ffff << shift) | u64::from(next) << shift;
            next += count;
        }
    }
    connected
}

/// Ranges of ranks, each four times as far as the one before.
fn ranges(span: u32) -> Vec<(u32, u32)> {
    let ends = std::iter::successors(Some(FIRST_RANGE), |end| end.checked_mul(4)).take_while(|end| *end < span);
    let ends: Vec<u32> = ends.chain([span]).collect();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_all_ranks_once() {
        assert_eq!(ranges(32), [(0, 32)]);
        assert_eq!(ranges(1024), [(0, 64), (64, 256), (256, 1024)]);
        assert!(ranges(1 << 30).windows(2).all(|pair| pair[0].1 == pair[1].0));
    }

    #[test]
    fn classes_begin_behind_each_other() {
        // two warps: class 0 has 3 and 4 vertices, class 1 has 5 and 0, the last 7 and 1
        let mut table = vec![0_u64; 2 * CLASSES / 2];
        table[0] = 3 | 5 << 32;
        table[CLASSES / 2 - 1] = 7 << 32;
        table[CLASSES / 2] = 4;
        table[CLASSES - 1] = 1 << 32;
        assert_eq!(begin_classes(&mut table, 2), 12);
        assert_eq!((table[0], table[CLASSES / 2]), (7 << 32, 3 | 12 << 32));
        assert_eq!((table[CLASSES / 2 - 1] >> 32, table[CLASSES - 1] >> 32), (12, 19));
    }
}
