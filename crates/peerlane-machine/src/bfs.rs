//! Breadth-first search that GPUs do together: the graph, and how the levels of a search are exchanged.

use std::fmt;

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exchange::Exchange;
use crate::units::Bytes;

/// Breadth-first searches of a Kronecker graph as Graph500 has it, its vertices dealt out among GPUs.
///
/// `docs/applications.md` has the graph, the method and what is checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Bfs {
    /// The GPUs, each with a part of the vertices.
    pub gpus: Vec<String>,
    /// Vertices, as a power of two.
    pub scale: u32,
    /// How what a GPU found in a level gets to the others; of one GPU alone it means nothing.
    pub exchange: Exchange,
}

impl Bfs {
    /// Edges a vertex.
    pub const EDGES: u64 = 16;

    /// Searches of a sample, each from another root.
    pub const ROOTS: usize = 64;

    /// The largest graph: 2³⁰ vertices have 137 GB of arcs.
    pub const MOST_SCALE: u32 = 30;

    /// Vertices, those without an edge included.
    pub fn vertices(&self) -> u64 {
        1 << self.scale.min(Self::MOST_SCALE)
    }

    /// Edges as drawn: repeated ones and loops included.
    pub fn edges(&self) -> u64 {
        self.vertices() * Self::EDGES
    }

    /// Bytes of the graph: each edge in both directions, four bytes each.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.edges() * 8)
    }

    /// Bytes of a level of all vertices, a bit each.
    pub fn bitmap(&self) -> Bytes {
        Bytes(self.vertices() / 8)
    }

    /// Bytes that a GPU must have room for: its part of the arcs, by where they begin and, among several GPUs, by where they
    /// end, too; and what it keeps of each vertex.
    pub fn room(&self) -> Bytes {
        let n = self.gpus.len().max(1) as u64;
        let (own, all) = (self.vertices().div_ceil(n), self.vertices());
        let sides = if n > 1 { 2 } else { 1 };
        // labels, names, degrees and a level; firsts, parents, offsets, and the tree; 64 MB of chunks
        Bytes(sides * self.bytes().0 / n + all * (4 + 4 + 4 + 8 * (sides - 1) + 2) + own * (4 + 4 + 8 + 4) + (1 << 26))
    }

    /// Why no GPU can search it.
    pub fn problem(&self) -> Option<String> {
        if self.gpus.is_empty() {
            return Some("a search needs a GPU".to_owned());
        }
        if !(10..=Self::MOST_SCALE).contains(&self.scale) {
            return Some(format!("a scale of {} is not between 10 and {}", self.scale, Self::MOST_SCALE));
        }
        (self.gpus.len() > 64).then(|| format!("{} GPUs; the vertices are dealt out among 64 at most", self.gpus.len()))
    }
}

impl fmt::Display for Bfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "breadth-first search, scale {}, {} GPU", self.scale, self.gpus.len())?;
        if self.gpus.len() > 1 {
            write!(f, "s, {}", self.exchange.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(gpus: usize, scale: u32) -> Bfs {
        Bfs { gpus: (0..gpus).map(|i| format!("GPU{i}")).collect(), scale, exchange: Exchange::Stores }
    }

    #[test]
    fn a_graph_has_sixteen_edges_a_vertex_and_two_arcs_an_edge() {
        let graph = search(1, 26);
        assert_eq!((graph.vertices(), graph.edges()), (67_108_864, 1_073_741_824));
        assert_eq!((graph.bytes(), graph.bitmap()), (Bytes(8 << 30), Bytes(8 << 20)));
        assert!(graph.room() > graph.bytes());
        assert!(search(2, 26).room() > search(4, 26).room());
    }

    #[test]
    fn a_search_that_no_gpu_can_do_says_why() {
        assert_eq!(search(2, 20).problem(), None);
        assert_eq!(search(0, 20).problem().unwrap(), "a search needs a GPU");
        assert_eq!(search(1, 31).problem().unwrap(), "a scale of 31 is not between 10 and 30");
        assert!(search(65, 20).problem().unwrap().contains("among 64 at most"));
    }
}
