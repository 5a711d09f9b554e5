//! Level-synchronous breadth-first search of an R-MAT graph (Chakrabarti, Zhan and Faloutsos, 2004, with Graph500's
//! probabilities), its vertices dealt out among the GPUs.
//!
//! The graph is made and searched; each level becomes computing (the edges that each GPU looks at) and an exchange (the
//! vertices that each found for every other, once each).

use super::super::SimulateError;
use super::super::parameters::Parameters;
use super::super::program::{Adjacency, Program, Round, Step};
use crate::cluster::{Cluster, Router};
use peerlane_machine::random::Random;

/// Graph500's probabilities of the quadrants but the last.
const QUADRANTS: [f64; 3] = [0.57, 0.19, 0.19];
/// Bytes that an edge makes a GPU move: its target's number, and a sector of the table of what is known already.
const EDGE_BYTES: f64 = 4.0 + 32.0;
/// Bytes of a vertex in a message.
const VERTEX_BYTES: f64 = 4.0;
/// The largest graph: 2²² vertices with 16 edges each fit in 0.6 GB while it is made.
const MOST_SCALE: usize = 22;

/// A search.
#[derive(Clone, Debug, PartialEq)]
pub struct Bfs {
    /// Vertices, as a power of two.
    pub scale: usize,
    /// Edges a vertex.
    pub edges: usize,
    /// Where the numbers come from.
    pub seed: usize,
}

impl Bfs {
    pub(super) fn read(text: &str) -> Result<Self, SimulateError> {
        let mut given = Parameters::new("bfs", text);
        let scale = given.count("scale", 18, MOST_SCALE)?;
        let edges = given.count("edges", 16, 64)?;
        let seed = given.count("seed", 1, 1 << 30)?;
        given.finish("scale=18, edges=16, seed=1")?;
        Ok(Bfs { scale, edges, seed })
    }

    pub(super) fn words(&self) -> String {
        format!("bfs:scale={},edges={},seed={}", self.scale, self.edges, self.seed)
    }

    pub(super) fn program(&self, cluster: &Cluster, router: &Router) -> Result<Program, SimulateError> {
        let refuse = |why: String| Err(SimulateError::Workload(format!("bfs: {why}")));
        let places = cluster.places();
        let n = places.len();
        if n == 0 || n > 1024 {
            return refuse(format!("{n} GPUs; it is simulated on 1 to 1024"));
        }
        let Some(rate) = router.memory_rate(places[0].device) else {
            return refuse(format!("the memory rate of {} is not known", cluster.name_of(places[0])));
        };
        let graph = self.graph();
        let vertices = 1_usize << self.scale;
        let owner = |v: usize| v % n;
        let Some(root) = (0..vertices).find(|v| !graph.of(*v as u32).is_empty()) else {
            return refuse("the graph has no edge".to_owned());
        };
        let mut visited = vec![false; vertices];
        visited[root] = true;
        // which GPU has reported a vertex in which level: the level's number, by GPU and vertex, would be large; a level's
        // frontier is gone through by owner, so that one mark a vertex is enough
        let mut reported = vec![u32::MAX; vertices];
        let mut frontier = vec![root as u32];
        let mut rounds = Vec::new();
        while !frontier.is_empty() {
            frontier.sort_unstable_by_key(|v| (owner(*v as usize), *v));
            let mut looked = vec![0_usize; n];
            let mut found = vec![0_u64; n * n];
            let mut next = Vec::new();
            reported.fill(u32::MAX);
            for v in &frontier {
                let from = owner(*v as usize);
                looked[from] += graph.of(*v).len();
                for w in graph.of(*v) {
                    let to = *w as usize;
                    if std::mem::replace(&mut reported[to], from as u32) != from as u32 {
                        found[from * n + owner(to)] += 1;
                    }
                    if !std::mem::replace(&mut visited[to], true) {
                        next.push(*w);
                    }
                }
            }
            let level = rounds.len() / 2;
            let compute = |(i, edges): (usize, &usize)| Step::Compute {
                on: places[i],
                seconds: *edges as f64 * EDGE_BYTES / rate,
            };
            let computing = looked.iter().enumerate().map(compute).collect();
            rounds.push(Round::at_once(format!("level {level}, looking"), computing));
            let sent = found.iter().enumerate().filter(|(i, count)| i / n != i % n && **count > 0);
            let send =
                |(i, count): (usize, &u64)| Step::send(places[i / n], places[i % n], *count as f64 * VERTEX_BYTES);
            rounds.push(Round::at_once(format!("level {level}, telling"), sent.map(send).collect()));
            frontier = next;
        }
        Ok(Program { rounds })
    }

    /// The graph, every edge in both directions.
    fn graph(&self) -> Adjacency {
        let vertices = 1_usize << self.scale;
        let count = vertices * self.edges;
        let mut random = Random::from_seed(self.seed as u64);
        let [a, b, c] = QUADRANTS;
        let mut edges = Vec::with_capacity(count);
        for _ in 0..count {
            let (mut from, mut to) = (0_u32, 0_u32);
            for _ in 0..self.scale {
                let x = random.uniform();
                let (right, down) = (x >= a && (x < a + b || x >= a + b + c), x >= a + b);
                (from, to) = (from * 2 + u32::from(down), to * 2 + u32::from(right));
            }
            edges.push((from, to));
        }
        Adjacency::new(vertices, edges.iter().flat_map(|&(x, y)| [(x, y), (y, x)]))
    }
}
