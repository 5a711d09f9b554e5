//! Breadth-first search of a Kronecker graph, its vertices dealt out among GPUs.
//!
//! Each level is looked for from the side of the frontier or, once that has many arcs, from the side of what is not found yet
//! (S. Beamer, K. Asanović, D. Patterson, *Direction-optimizing breadth-first search*, SC 2012). Both need of other GPUs' vertices
//! only which of them are in the frontier: a bit each, which its owner sends to all others after each level. The host waits for
//! each level, and says how to look for the next.

mod check;
mod graph;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::time::Instant;

use peerlane_machine::bfs::Bfs as Search;
use peerlane_machine::exchange::Exchange;
use peerlane_machine::units::Bytes;
use peerlane_measure::measure::{Sample, Verdict};

use self::check::Checker;
use self::graph::{Ready, Vertices, all, first};
use super::{Machine, Prepared};
use crate::cuda::Argument::{Half, Memory};
use crate::cuda::{Buffer, CudaError, Event, Part, PinnedBuffer};
use crate::failure::Problem;
use crate::kernels;

/// The frontier's side is left once its arcs are more than this share of those that no level had yet. At scale 26 on an H200, 16
/// roots, a share of 1/14 gave 703 GTEPS, 1/50 770, 1/200 753 and 1/1000 688.
const SHARE: f64 = 1.0 / 64.0;

/// The most entries that a list of the frontier's arcs has.
const ENTRIES: u64 = 1 << 23;

/// Arcs of an entry, as the kernel has it.
const CHUNK: u64 = 512;

/// Bytes of what a level counts: vertices found, their arcs, entries of the list.
const COUNTS: usize = 24;

/// What one GPU needs beside its part of the graph.
struct Searcher {
    vertices: Vertices,
    seen: Rc<dyn Buffer>,
    parents: Rc<dyn Buffer>,
    /// All vertices of this level and of the next, by label, a bit each.
    frontiers: [Rc<dyn Buffer>; 2],
    chunks: Rc<dyn Buffer>,
    counts: Rc<dyn Buffer>,
    /// The parent of each vertex of this part, by name.
    tree: Rc<dyn Buffer>,
    /// What it counted, and its stretch of a level where that is staged.
    counted: PinnedBuffer,
    staging: Option<PinnedBuffer>,
    sent: Event,
    plant: Ready,
    list_chunks: Ready,
    go_down: Ready,
    go_up: Ready,
    name_parents: Ready,
}

/// How a level is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Frontier,
    Rest,
}

impl Searcher {
    fn new(machine: &mut Machine, mut vertices: Vertices, staged: bool) -> Result<Self, Problem> {
        let all_labels = (vertices.span * vertices.parts) as usize;
        let own = vertices.span as usize;
        let entries = (ENTRIES as usize).min(2 * all_labels + 1024);
        let [seen, parents, a, b, chunks, counts, tree] =
            vertices.take(machine, [own / 8, 4 * own, all_labels / 8, all_labels / 8, 8 * entries, COUNTS, 4 * own])?;
        let gpu = Rc::clone(&vertices.gpu);
        gpu.context.enter()?;
        let counted = PinnedBuffer::new(&gpu.context, 4096)?;
        let staging = if staged { Some(PinnedBuffer::new(&gpu.context, own / 8)?) } else { None };
        let sent = Event::new(&vertices.stream)?;
        let [plant, list_chunks, go_down, go_up, name_parents] = [
            vertices.kernel(kernels::PLANT)?,
            vertices.kernel(kernels::LIST_CHUNKS)?,
            vertices.kernel(kernels::GO_DOWN)?,
            vertices.kernel(kernels::GO_UP)?,
            vertices.kernel(kernels::NAME_PARENTS)?,
        ];
        let frontiers = [a, b];
        Ok(Searcher {
            vertices,
            seen,
            parents,
            frontiers,
            chunks,
            counts,
            tree,
            counted,
            staging,
            sent,
            plant,
            list_chunks,
            go_down,
            go_up,
            name_parents,
        })
    }

    /// Bytes of a part's stretch of a bitmap, and where it begins.
    fn stretch(&self, part: u32) -> (usize, usize) {
        let bytes = self.vertices.span as usize / 8;
        (bytes * part as usize, bytes)
    }

    /// A part's vertices in a level.
    fn level(&self, which: usize, part: u32) -> Part<'_> {
        let (from, bytes) = self.stretch(part);
        self.frontiers[which].part(from, bytes)
    }

    /// Forgets the search before, and begins at a label.
    fn begin(&self, root: u32) -> Result<(), CudaError> {
        let Vertices { stream, part, span, connected, .. } = &self.vertices;
        self.vertices.gpu.context.enter()?;
        let all_labels = (self.vertices.span * self.vertices.parts) as usize;
        stream.set(first(&self.frontiers[0], all_labels / 8), 0)?;
        stream.set(first(&self.seen, *span as usize / 8), 0)?;
        stream.set(first(&self.parents, 4 * *connected as usize), 0xff)?;
        let places = [all(&self.frontiers[0]), all(&self.seen), all(&self.parents)];
        self.plant.run(stream, &[&places[..], &[root, *part, *span].map(Half)].concat())
    }

    /// Looks for a level's own vertices, and counts them.
    fn look(&self, side: Side, now: usize) -> Result<(), CudaError> {
        let v = &self.vertices;
        v.gpu.context.enter()?;
        let frontier = all(&self.frontiers[now]);
        let next = self.level(1 - now, v.part);
        let (next, counts) = (Memory(next, next.bytes()), Memory(first(&self.counts, 16), 16));
        v.stream.set(first(&self.counts, COUNTS), 0)?;
        let [seen, parents] = [all(&self.seen), all(&self.parents)];
        match side {
            Side::Rest => {
                let [offsets, arcs] = v.rows.arguments();
                let words = Half(v.words());
                self.go_up
                    .run(&v.stream, &[frontier, offsets, arcs, all(&v.firsts), seen, next, parents, counts, words])?;
            }
            Side::Frontier => {
                v.stream.set(self.level(1 - now, v.part), 0)?;
                let [offsets, arcs] = v.into().arguments();
                let [rows, _] = v.rows.arguments();
                let listed = Memory(self.counts.part(16, 8), 8);
                let words = Half(v.span / 32 * v.parts);
                self.list_chunks.run(&v.stream, &[frontier, offsets, all(&self.chunks), listed, words])?;
                let places = [all(&self.chunks), listed, offsets, arcs, rows, seen, next, parents, counts];
                self.go_down.run(&v.stream, &[&places[..], &[Half(v.part), Half(v.span)]].concat())?;
            }
        }
        v.stream.copy(first_of(&self.counted, COUNTS), first(&self.counts, COUNTS))
    }

    /// The tree by names.
    fn name(&self) -> Result<(), CudaError> {
        let v = &self.vertices;
        v.gpu.context.enter()?;
        let places = [all(&v.labels), all(&v.names), all(&self.parents), all(&self.tree)];
        let numbers = [v.count, v.part, v.parts, v.span, v.connected].map(Half);
        self.name_parents.run(&v.stream, &[&places[..], &numbers].concat())
    }
}

fn first_of(buffer: &PinnedBuffer, bytes: usize) -> Part<'_> {
    buffer.part(0, bytes)
}

/// A root, and what a search from it reaches.
#[derive(Clone, Copy, Debug)]
struct Root {
    name: u32,
    label: u32,
    /// Its own arcs, and edges of all that can be reached, loops apart.
    arcs: u64,
    edges: u64,
}

/// Searches that are ready to run.
pub(crate) struct Bfs {
    search: Search,
    seed: u32,
    parts: Vec<Searcher>,
    checker: Checker,
    roots: Vec<Root>,
    /// Arcs of the graph.
    arcs: u64,
}

impl Bfs {
    pub(crate) fn prepare(machine: &mut Machine, search: &Search) -> Result<(Self, Bytes), Problem> {
        if let Some(why) = search.problem() {
            return Err(Problem::NotApplicable(why));
        }
        let short = |problem: Problem| match problem {
            Problem::Cuda(error) if error.is_out_of_memory() => Problem::NotApplicable(format!(
                "a graph of scale {} needs {} on each GPU, and one has less free",
                search.scale,
                search.room()
            )),
            other => other,
        };
        let bfs = Self::made(machine, search).map_err(short)?;
        Ok((bfs, search.bytes()))
    }

    fn made(machine: &mut Machine, search: &Search) -> Result<Self, Problem> {
        let seed = machine.next_seed();
        let staged = search.exchange == Exchange::Staged;
        let mut parts: Vec<Searcher> = Vec::new();
        for (part, name) in search.gpus.iter().enumerate() {
            let before = search.gpus[..part].iter().filter(|other| *other == name).count();
            let vertices = Vertices::new(machine, search, part, before, seed)?;
            parts.push(Searcher::new(machine, vertices, staged && search.gpus.len() > 1)?);
        }
        for a in &parts {
            for b in &parts {
                let (a, b) = (&a.vertices.gpu, &b.vertices.gpu);
                if !staged && !Rc::ptr_eq(a, b) {
                    machine.access(a, b, true)?;
                }
            }
        }
        let checker = Checker::new(machine, search, seed, &mut parts[0].vertices)?;
        let mut bfs = Bfs { search: search.clone(), seed, parts, checker, roots: Vec::new(), arcs: 0 };
        bfs.arcs = bfs.parts.iter().map(|part| part.vertices.arcs()).sum::<Result<u64, CudaError>>()?;
        bfs.draw_roots()?;
        Ok(bfs)
    }

    /// Draws names until enough have an edge, and looks what can be reached from each.
    fn draw_roots(&mut self) -> Result<(), Problem> {
        let mut random = peerlane_machine::random::Random::from_seed(u64::from(self.seed));
        let least = self.parts.iter().map(|part| part.vertices.connected).max().unwrap_or(0);
        if least == 0 {
            return Err(Problem::Failed("the graph has no edge".to_owned()));
        }
        while self.roots.len() < Search::ROOTS {
            let name = (random.uniform() * self.search.vertices() as f64) as u32;
            let owner = &self.parts[(name % self.search.gpus.len() as u32) as usize].vertices;
            let label = owner.label(name)?;
            let rank = label - owner.part * owner.span;
            if rank >= owner.connected {
                continue;
            }
            let arcs = owner.degree(rank)?;
            let mut root = Root { name, label, arcs, edges: 0 };
            self.go(root)?;
            root.edges = self.reached_arcs()? / 2;
            self.roots.push(root);
        }
        Ok(())
    }

    /// Arcs of all vertices that the last search reached.
    fn reached_arcs(&self) -> Result<u64, Problem> {
        let mut sum = 0;
        for part in &self.parts {
            let v = &part.vertices;
            v.gpu.context.enter()?;
            let sum_of = first(&part.counts, 8);
            v.stream.set(sum_of, 0)?;
            let [rows, _] = v.rows.arguments();
            let arguments = [all(&part.parents), rows, Memory(sum_of, 8), Half(v.connected)];
            v.kernel(kernels::SUM_ARCS)?.run(&v.stream, &arguments)?;
            v.stream.copy(first_of(&part.counted, 8), sum_of)?;
            v.stream.synchronize()?;
            sum += part.counted.read(0);
        }
        Ok(sum)
    }

    fn settle(&self) -> Result<(), CudaError> {
        for part in &self.parts {
            part.vertices.gpu.context.enter()?;
            part.vertices.stream.synchronize()?;
        }
        Ok(())
    }

    /// Seconds of a search: from when the root is given until the tree is there by names.
    fn go(&self, root: Root) -> Result<f64, Problem> {
        self.settle()?;
        let began = Instant::now();
        for part in &self.parts {
            part.begin(root.label)?;
        }
        let (mut now, mut side) = (0, Side::Frontier);
        let (mut vertices, mut arcs, mut left) = (1, root.arcs, self.arcs.saturating_sub(root.arcs));
        loop {
            let entries = vertices + arcs / CHUNK;
            if arcs as f64 > SHARE * left as f64 || entries > ENTRIES {
                side = Side::Rest;
            }
            for part in &self.parts {
                part.look(side, now)?;
            }
            self.exchange(1 - now)?;
            self.settle()?;
            let counted = |index: usize| self.parts.iter().map(|part| part.counted.read(index)).sum::<u64>();
            (vertices, arcs) = (counted(0), counted(1));
            left = left.saturating_sub(arcs);
            if vertices == 0 {
                break;
            }
            now = 1 - now;
        }
        for part in &self.parts {
            part.name()?;
        }
        self.settle()?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Tells all others what each part found. In other parts' memory, nobody reads what is written until all have ended.
    fn exchange(&self, level: usize) -> Result<(), CudaError> {
        if self.parts.len() == 1 {
            return Ok(());
        }
        let others = |part: u32| self.parts.iter().filter(move |other| other.vertices.part != part);
        for from in &self.parts {
            let v = &from.vertices;
            v.gpu.context.enter()?;
            let found = from.level(level, v.part);
            if let Some(staging) = &from.staging {
                v.stream.copy(first_of(staging, found.bytes()), found)?;
                v.stream.record(&from.sent)?;
                continue;
            }
            for to in others(v.part) {
                let there = to.level(level, v.part);
                match self.search.exchange {
                    Exchange::Stores => v.gpu.kernels.copy(&v.stream, (there, found), 1)?,
                    _ => v.stream.copy(there, found)?,
                }
            }
        }
        for to in self.parts.iter().filter(|part| part.staging.is_some()) {
            to.vertices.gpu.context.enter()?;
            for from in others(to.vertices.part) {
                let Some(staging) = &from.staging else { continue };
                let there = to.level(level, from.vertices.part);
                to.vertices.stream.wait(&from.sent)?;
                to.vertices.stream.copy(there, first_of(staging, there.bytes()))?;
            }
        }
        Ok(())
    }
}

impl Prepared for Bfs {
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem> {
        let one = |_| -> Result<Sample, Problem> {
            let mut each = 0.0;
            for root in &self.roots {
                each += self.go(*root)? / root.edges.max(1) as f64;
            }
            // the harmonic mean of the rates
            Ok(vec![self.roots.len() as f64 / each])
        };
        Ok(vec![(0..n).map(one).collect::<Result<Vec<Sample>, Problem>>()?])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Problem> {
        for root in &self.roots {
            self.go(*root)?;
            if let Some(wrong) = self.checker.wrong(&self.parts, *root)? {
                return Ok(vec![Verdict::Corrupt(format!("the tree from vertex {}: {wrong}", root.name))]);
            }
        }
        Ok(vec![Verdict::Intact])
    }
}
