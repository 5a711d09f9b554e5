//! Collectives as NCCL does them, as far as their transfers go: rings, trees, and rings within rings. Sums take no time.

use super::super::SimulateError;
use super::super::program::{Program, Round, Step};
use crate::cluster::paths::most_within;
use crate::cluster::rings::{entries, through_nodes};
use crate::cluster::{Cluster, Place, Router, Via};
use peerlane_machine::matrix::Engine;
use peerlane_model::collectives::Rings;
use peerlane_model::flows::Flows;
use peerlane_model::model::nccl::CHUNK;

/// Most chunks: what follows them is the same again.
const MOST_CHUNKS: f64 = 64.0;
/// Most transfers of an all-to-all that are kept at once.
pub(in super::super) const MOST_PAIRS: usize = 4_000_000;

/// GPUs in the order in which collectives take them.
pub(super) struct Layout {
    /// Every GPU, node by node.
    pub places: Vec<Place>,
    /// GPUs a node.
    per_node: usize,
    nodes: usize,
    /// Rings over the GPUs of a node: their order, and the share of the data that goes around them.
    within: Vec<(Vec<usize>, f64)>,
    /// By which rings of the GPUs of several nodes pass a node.
    passes: Vec<Vec<usize>>,
    /// For how many nodes the steps within a node are listed: all, or the first, which stands for them.
    listed: usize,
}

/// A place of a tree.
pub(super) struct TreePlace {
    /// Its number in the tree.
    pub v: usize,
    /// That of the one above.
    pub above: usize,
    pub place: Place,
    pub place_above: Place,
}

/// One message.
pub(super) fn message(from: Place, to: Place, bytes: f64, via: Via) -> Program {
    let step = Step::Move { from, to, bytes, delay: 0.0, via };
    Program { rounds: vec![Round::at_once("a message", vec![step])] }
}

pub(super) fn chunks(bytes: f64) -> u64 {
    (bytes / CHUNK).ceil().clamp(1.0, MOST_CHUNKS) as u64
}

/// A round that each chunk goes through; a step sends the next chunk when it has sent the one before.
fn in_chunks(name: &str, steps: Vec<Step>, within: Vec<(u32, u32)>, chunks: u64) -> Round {
    let pairs = (0..steps.len() as u32).map(|s| (s, s)).collect();
    Round { within, ..Round::repeated(name, steps, pairs, chunks) }
}

/// Adds a ring: each place passes so many bytes on to the next, and again when it has the bytes of the one before and its own
/// link is free.
pub(super) fn add_ring(ring: &[Place], bytes: f64, steps: &mut Vec<Step>, pairs: &mut Vec<(u32, u32)>) {
    let (base, n) = (steps.len() as u32, ring.len() as u32);
    for (i, at) in (0..n).zip(ring) {
        steps.push(Step::send(*at, ring[(i as usize + 1) % ring.len()], bytes));
        pairs.extend([(base + (i + n - 1) % n, base + i), (base + i, base + i)]);
    }
}

impl Layout {
    /// A layout over these rings of a node's GPUs. `once`: the steps within a node are listed for the first only.
    pub(super) fn new(cluster: &Cluster, router: &Router, rings: Option<&Rings>, once: bool) -> Self {
        let gpus = cluster.gpus();
        let (per_node, nodes) = (gpus.len(), cluster.nodes_in_use() as usize);
        let listed = if once { nodes.min(1) } else { nodes };
        let within = match rings {
            Some(found) => found.rings.iter().map(|(order, pace)| (order.clone(), pace / found.rate())).collect(),
            None => vec![((0..per_node).collect(), 1.0)],
        };
        let orders: Vec<Vec<usize>> = within.iter().map(|(order, _): &(Vec<usize>, f64)| order.clone()).collect();
        let nic_of = |gpu: usize| router.nic_of(gpus[gpu]);
        let paths = if nodes > 1 {
            let flows = Flows::new(router.model(), Engine::Sm);
            most_within(&flows, &entries(0..per_node, nic_of), &orders, |gpu, nic| u32::from(nic_of(gpu) != nic))
        } else {
            Vec::new()
        };
        let passes = paths.into_iter().map(|path| path.gpus).collect();
        Layout { places: cluster.places(), per_node, nodes, within, passes, listed }
    }

    /// The GPU of a node that stands at this place of the node's first ring.
    fn along(&self, node: usize, i: usize) -> usize {
        node * self.per_node + self.within.first().map_or(i, |(order, _)| order[i % self.per_node])
    }

    /// Rings: positions in `places`, and the share of the data that goes around each.
    fn rings(&self) -> Vec<(Vec<usize>, f64)> {
        if self.nodes == 1 {
            return self.within_node(0);
        }
        let count = self.passes.len();
        let path = |node: usize, c: usize| self.passes[c].iter().map(|gpu| node * self.per_node + gpu).collect();
        through_nodes(self.nodes, count, path).into_iter().map(|ring| (ring, 1.0 / count as f64)).collect()
    }

    /// The rings with their places.
    pub(super) fn ring_places(&self) -> Vec<(Vec<Place>, f64)> {
        let places = |ring: Vec<usize>| ring.into_iter().map(|at| self.places[at]).collect();
        self.rings().into_iter().filter(|(ring, _)| ring.len() > 1).map(|(ring, share)| (places(ring), share)).collect()
    }

    /// The rings over one node's GPUs.
    fn within_node(&self, node: usize) -> Vec<(Vec<usize>, f64)> {
        let place = |gpu: &usize| node * self.per_node + gpu;
        self.within.iter().map(|(order, share)| (order.iter().map(place).collect(), *share)).collect()
    }

    /// How many nodes each listed one stands for.
    fn alike(&self) -> u64 {
        (self.nodes / self.listed.max(1)) as u64
    }

    /// Around the rings `turns` times: n − 1 steps a turn, in each of which every GPU passes on one part of n.
    pub(super) fn ring(&self, name: &str, size: f64, turns: u64) -> Program {
        let n = self.places.len();
        let (steps, pairs) = self.around(&self.rings(), size / n as f64);
        let repeats = turns * (n as u64).saturating_sub(1);
        Program { rounds: vec![Round::repeated(name, steps, pairs, repeats)] }
    }

    /// Rings, each of which carries its share of so many bytes a step.
    fn around(&self, rings: &[(Vec<usize>, f64)], bytes: f64) -> (Vec<Step>, Vec<(u32, u32)>) {
        let (mut steps, mut pairs) = (Vec::new(), Vec::new());
        for (ring, share) in rings.iter().filter(|(ring, _)| ring.len() > 1) {
            let ring: Vec<Place> = ring.iter().map(|at| self.places[*at]).collect();
            add_ring(&ring, bytes * share, &mut steps, &mut pairs);
        }
        (steps, pairs)
    }

    /// All places of one of the two trees but its root, from the root on: `v` is `heap * g + i`, and above it stands the one
    /// before in the chain of its node, or, of the first of a node, that of the node above in the heap.
    pub(super) fn tree_places(&self, tree: usize) -> impl Iterator<Item = TreePlace> + '_ {
        let (g, nodes) = (self.per_node, self.nodes);
        let place = move |v: usize| {
            let node = if tree == 0 { v / g } else { nodes - 1 - v / g };
            self.places[self.along(node, (v % g + tree * g / 2) % g)]
        };
        (1..nodes * g).map(move |v| {
            let above = if v.is_multiple_of(g) { (v / g - 1) / 2 * g } else { v - 1 };
            TreePlace { v, above, place: place(v), place_above: place(above) }
        })
    }

    /// Two trees of nodes, mirror images of each other; within a node a chain leads to the GPU that stands in the tree.
    pub(super) fn tree(&self, size: f64) -> Program {
        if self.places.len() < 2 {
            return Program::default();
        }
        let chunk_count = chunks(size / 2.0);
        let bytes = size / 2.0 / chunk_count as f64;
        let (mut steps, mut within) = (Vec::new(), Vec::new());
        for tree in 0..2 {
            let base = steps.len() as u32;
            // up of `v` is base + 2(v − 1), down is one more; what comes down has gone all the way up
            let up = |v: usize| base + 2 * (v as u32 - 1);
            let below_root: Vec<usize> = self.tree_places(tree).filter(|at| at.above == 0).map(|at| at.v).collect();
            for TreePlace { v, above, place, place_above } in self.tree_places(tree) {
                steps.push(Step::send(place, place_above, bytes));
                steps.push(Step::send(place_above, place, bytes));
                match above {
                    0 => below_root.iter().for_each(|w| within.push((up(*w), up(v) + 1))),
                    p => {
                        within.push((up(v), up(p)));
                        within.push((up(p) + 1, up(v) + 1));
                    }
                }
            }
        }
        Program { rounds: vec![in_chunks("all-reduce up and down two trees", steps, within, chunk_count)] }
    }

    /// Chains of places, each with its share of the data, in chunks: every place passes on what it has got.
    fn chain(&self, name: &str, chains: &[(Vec<usize>, f64)], size: f64) -> Round {
        let largest = chains.iter().map(|(_, share)| *share).fold(0.0, f64::max);
        let chunk_count = chunks(size * largest);
        let (mut steps, mut within) = (Vec::new(), Vec::new());
        for (chain, share) in chains {
            let bytes = size * share / chunk_count as f64;
            for (i, pair) in chain.windows(2).enumerate() {
                if i > 0 {
                    within.push((steps.len() as u32 - 1, steps.len() as u32));
                }
                steps.push(Step::send(self.places[pair[0]], self.places[pair[1]], bytes));
            }
        }
        in_chunks(name, steps, within, chunk_count)
    }

    /// To the first GPU of each node, around a ring of these, and back.
    pub(super) fn hierarchical(&self, size: f64) -> Program {
        let g = self.per_node;
        let chain = |n: usize, order: &mut dyn Iterator<Item = usize>| (order.map(|i| self.along(n, i)).collect(), 1.0);
        let up: Vec<(Vec<usize>, f64)> = (0..self.listed).map(|n| chain(n, &mut (0..g).rev())).collect();
        let down: Vec<(Vec<usize>, f64)> = (0..self.listed).map(|n| chain(n, &mut (0..g))).collect();
        let leaders = (0..self.nodes).map(|n| self.along(n, 0)).collect();
        let (steps, pairs) = self.around(&[(leaders, 1.0)], size / self.nodes as f64);
        let times = 2 * (self.nodes as u64).saturating_sub(1);
        let ring = Round::repeated("all-reduce around a ring of nodes", steps, pairs, times);
        let within =
            |name: &str, chains: &[(Vec<usize>, f64)]| Round { alike: self.alike(), ..self.chain(name, chains, size) };
        let (up, down) = (within("reduce within nodes", &up), within("broadcast within nodes", &down));
        Program { rounds: vec![up, ring, down] }
    }

    /// Scattered within each node, around rings of GPUs with the same place in their node, and gathered again.
    pub(super) fn rail(&self, size: f64) -> Program {
        let (g, nodes) = (self.per_node, self.nodes);
        let local: Vec<(Vec<usize>, f64)> = (0..self.listed).flat_map(|n| self.within_node(n)).collect();
        let rails: Vec<(Vec<usize>, f64)> = (0..g).map(|i| ((0..nodes).map(|n| n * g + i).collect(), 1.0)).collect();
        let round = |name: &str, rings: &[(Vec<usize>, f64)], bytes: f64, repeats: usize, alike: u64| {
            let (steps, pairs) = self.around(rings, bytes);
            Round { alike, ..Round::repeated(name, steps, pairs, repeats as u64) }
        };
        let (part, times) = (size / g as f64, g.saturating_sub(1));
        Program {
            rounds: vec![
                round("reduce-scatter within nodes", &local, part, times, self.alike()),
                round("all-reduce around rails", &rails, part / nodes as f64, 2 * nodes.saturating_sub(1), 1),
                round("all-gather within nodes", &local, part, times, self.alike()),
            ],
        }
    }

    /// All pairs at once.
    pub(super) fn all_to_all(&self, size: f64) -> Result<Program, SimulateError> {
        let n = self.places.len();
        if n.saturating_mul(n) > MOST_PAIRS {
            let why = format!("all-to-all: {n} GPUs have more pairs than the {MOST_PAIRS} that are simulated at once");
            return Err(SimulateError::Workload(why));
        }
        let bytes = size / n as f64;
        let pairs = self.places.iter().flat_map(|a| self.places.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b);
        let steps = pairs.map(|(a, b)| Step::send(a, b, bytes)).collect();
        Ok(Program { rounds: vec![Round::at_once("all pairs at once", steps)] })
    }

    /// The rings as chains that begin where the data is, at the first GPU.
    pub(super) fn chains(&self) -> Vec<(Vec<usize>, f64)> {
        let mut chains = self.rings();
        for (ring, _) in &mut chains {
            let start = ring.iter().position(|r| *r == 0).unwrap_or(0);
            ring.rotate_left(start);
        }
        chains
    }

    /// From the first GPU around the rings, in chunks.
    pub(super) fn broadcast(&self, size: f64) -> Program {
        Program { rounds: vec![self.chain("broadcast around rings", &self.chains(), size)] }
    }
}
