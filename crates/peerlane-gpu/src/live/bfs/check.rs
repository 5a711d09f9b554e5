//! Graph500's checks of a tree, made against the edges as they are drawn, and not against what the search read.

use std::rc::Rc;

use peerlane_machine::bfs::Bfs as Search;

use super::super::Machine;
use super::graph::{Ready, Vertices, all, first};
use super::{Root, Searcher};
use crate::cuda::Argument::{Half, Memory, Word};
use crate::cuda::{Buffer, Part, PinnedBuffer};
use crate::failure::Problem;
use crate::kernels;

/// More levels than any such graph has.
const LEVELS: u32 = 250;

/// Bytes of what is counted.
const COUNTS: usize = 48;

/// What checks trees, on the first part's GPU.
pub(super) struct Checker {
    /// All parts' trees, where there are several.
    trees: Option<Rc<dyn Buffer>>,
    levels: Rc<dyn Buffer>,
    joined: Rc<dyn Buffer>,
    counts: Rc<dyn Buffer>,
    counted: PinnedBuffer,
    edges: u64,
    scale: u32,
    seed: u32,
    vertices: u32,
    find_levels: Ready,
    compare_edges: Ready,
    compare_vertices: Ready,
}

/// What the kernels count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// Edges between vertices of the tree, and those that it is wrong about.
    edges: u64,
    wrong: u64,
    /// Vertices of the tree, those that no path leads to, those with a parent that they have no edge to.
    vertices: u64,
    loose: u64,
    apart: u64,
    /// Vertices with a level, the root apart.
    levelled: u64,
}

impl Checker {
    pub(super) fn new(machine: &mut Machine, search: &Search, seed: u32, part: &mut Vertices) -> Result<Self, Problem> {
        let n = search.vertices() as usize;
        let several = part.parts > 1;
        let trees = if several { 4 * (part.span * part.parts) as usize } else { 0 };
        let [levels, joined, counts, trees] = part.take(machine, [n, n, COUNTS, trees])?;
        Ok(Checker {
            trees: several.then_some(trees),
            levels,
            joined,
            counts,
            counted: PinnedBuffer::new(&part.gpu.context, 4096)?,
            edges: search.edges(),
            scale: search.scale,
            seed,
            vertices: n as u32,
            find_levels: part.kernel(kernels::FIND_LEVELS)?,
            compare_edges: part.kernel(kernels::COMPARE_EDGES)?,
            compare_vertices: part.kernel(kernels::COMPARE_VERTICES)?,
        })
    }

    /// What is wrong with the tree of the last search.
    pub(super) fn wrong(&self, parts: &[Searcher], root: Root) -> Result<Option<String>, Problem> {
        let Counts { edges, wrong, vertices, loose, apart, levelled } = self.count(parts, root)?;
        let n = |count: u64, what: &str| format!("{count} {what}");
        Ok(if wrong > 0 {
            Some(n(wrong, "edges join levels that differ by more than one, or lead out of it"))
        } else if loose > 0 {
            Some(n(loose, "vertices have a parent, and no path to the root"))
        } else if apart > 0 {
            Some(n(apart, "vertices have no edge to their parent"))
        } else if vertices != levelled + 1 {
            Some(format!("{vertices} vertices, of which {levelled} and the root have a level"))
        } else if edges != root.edges {
            Some(format!("it has {edges} edges, and the search counted {}", root.edges))
        } else {
            None
        })
    }

    fn count(&self, parts: &[Searcher], root: Root) -> Result<Counts, Problem> {
        let v = &parts[0].vertices;
        let stream = &v.stream;
        v.gpu.context.enter()?;
        let tree = match &self.trees {
            None => &parts[0].tree,
            Some(trees) => {
                for part in parts {
                    let bytes = 4 * v.span as usize;
                    let to = trees.part(bytes * part.vertices.part as usize, bytes);
                    let from = first(&part.tree, bytes);
                    stream.copy_peer((to, &v.gpu.context), (from, &part.vertices.gpu.context))?;
                }
                trees
            }
        };
        stream.set(first(&self.counts, COUNTS), 0)?;
        let count = |i: usize, n: usize| Memory(self.counts.part(8 * i, 8 * n), 8 * n);
        let counted = || -> Result<[u64; 6], Problem> {
            stream.copy(self.counted.part(0, COUNTS), first(&self.counts, COUNTS))?;
            stream.synchronize()?;
            Ok([0, 1, 2, 3, 4, 5].map(|i| self.counted.read(i)))
        };
        stream.set(first(&self.levels, self.vertices as usize), 0xff)?;
        stream.set(self.level_of(root.name), 0)?;
        stream.set(first(&self.joined, self.vertices as usize), 0)?;
        let stretch = [self.vertices, v.parts, v.span].map(Half);
        let mut found = 0;
        for level in 0..LEVELS {
            let places = [all(tree), all(&self.levels), count(5, 1), Half(level)];
            self.find_levels.run(stream, &[&places[..], &stretch].concat())?;
            let [.., levelled] = counted()?;
            if std::mem::replace(&mut found, levelled) == levelled {
                break;
            }
        }
        let graph = [Word(self.edges), Half(self.scale), Half(self.seed), Half(v.parts), Half(v.span)];
        let places = [all(tree), all(&self.levels), all(&self.joined)];
        self.compare_edges.run(stream, &[&places[..], &[count(0, 2)], &graph].concat())?;
        self.compare_vertices.run(stream, &[&places[..], &[count(2, 3), Half(root.name)], &stretch].concat())?;
        let [edges, wrong, vertices, loose, apart, levelled] = counted()?;
        Ok(Counts { edges, wrong, vertices, loose, apart, levelled })
    }

    fn level_of(&self, name: u32) -> Part<'_> {
        self.levels.part(name as usize, 1)
    }
}
