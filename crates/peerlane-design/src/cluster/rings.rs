//! Rings over any set of a cluster's GPUs: of one node the best that it has, of several nodes one a NIC.

use std::collections::{BTreeMap, HashMap};

use super::Place;
use super::paths::{NodePath, most_within};
use peerlane_machine::fabric::NodeId;
use peerlane_model::collectives::Rings;
use peerlane_model::flows::{Flows, interchangeable};

/// So many rings through nodes, of which ring `c` goes through a node by `path(node, c)`.
///
/// Every other node is passed in the other direction, so that both ends of each link between nodes have the same place in
/// their nodes, and the same rail.
pub(crate) fn through_nodes<T>(nodes: usize, count: usize, path: impl Fn(usize, usize) -> Vec<T>) -> Vec<Vec<T>> {
    let within = |node: usize, c: usize| {
        let mut gpus = path(node, c);
        if count > 1 && node % 2 == 1 {
            gpus.reverse();
        }
        gpus
    };
    (0..count).map(|c| (0..nodes).flat_map(|node| within(node, c)).collect()).collect()
}

/// NICs with the first of the GPUs that send through them, in order of the NICs.
pub(crate) fn entries(gpus: impl IntoIterator<Item = usize>, nic_of: impl Fn(usize) -> u32) -> Vec<(u32, usize)> {
    let mut first: BTreeMap<u32, usize> = BTreeMap::new();
    for gpu in gpus {
        first.entry(nic_of(gpu)).or_insert(gpu);
    }
    first.into_iter().collect()
}

/// Rings, each with the share of the data that goes around it.
pub(crate) type SharedRings = Vec<(Vec<Place>, f64)>;

/// Finds the rings of sets of GPUs, and keeps what it has found of the sets within a node.
pub(crate) struct RingFinder<'f, 'm, 'a> {
    flows: &'f Flows<'m, 'a>,
    gpus: HashMap<NodeId, usize>,
    kinds: Vec<Vec<usize>>,
    /// By GPU of a node: the number of its NIC.
    nics: Vec<u32>,
    known: HashMap<Vec<usize>, Option<Rings>>,
    /// By GPUs of a node, and how many rings pass them.
    paths: HashMap<(Vec<usize>, usize), Vec<NodePath>>,
}

fn named(ends: &[NodeId], node: u32, order: &[usize]) -> Vec<Place> {
    order.iter().map(|gpu| Place { node, device: ends[*gpu] }).collect()
}

impl<'f, 'm, 'a> RingFinder<'f, 'm, 'a> {
    /// Over these flows of a node, driven by kernels. `nic_of` gives the NIC of a GPU.
    pub(crate) fn new(flows: &'f Flows<'m, 'a>, nic_of: impl Fn(NodeId) -> u32) -> Self {
        let ends = &flows.ends[..flows.gpus()];
        RingFinder {
            gpus: ends.iter().enumerate().map(|(at, gpu)| (*gpu, at)).collect(),
            kinds: interchangeable(flows),
            nics: ends.iter().map(|gpu| nic_of(*gpu)).collect(),
            known: HashMap::new(),
            paths: HashMap::new(),
            flows,
        }
    }

    /// The best rings of some GPUs of a node, by their numbers in ascending order; `None` of fewer than two, or where a rate
    /// is not known.
    pub(crate) fn within(&mut self, gpus: &[usize]) -> Option<&Rings> {
        if !self.known.contains_key(gpus) {
            let found = Rings::best(self.flows, gpus, &self.kinds);
            self.known.insert(gpus.to_vec(), found);
        }
        self.known.get(gpus)?.as_ref()
    }

    /// The GPUs of a node in the order in which a ring passes them.
    pub(crate) fn order(&mut self, gpus: &[usize]) -> Vec<usize> {
        let first = self.within(gpus).and_then(|rings| rings.rings.first());
        first.map_or_else(|| gpus.to_vec(), |(order, _)| order.clone())
    }

    /// How many NICs these GPUs of a node have among them.
    pub(crate) fn nics_of(&self, gpus: &[usize]) -> usize {
        let mut nics: Vec<u32> = gpus.iter().map(|gpu| self.nics[*gpu]).collect();
        nics.sort_unstable();
        nics.dedup();
        nics.len()
    }

    /// By which so many rings pass some GPUs of a node.
    fn paths(&mut self, gpus: &[usize], count: usize) -> Vec<NodePath> {
        let key = (gpus.to_vec(), count);
        if let Some(known) = self.paths.get(&key) {
            return known.clone();
        }
        let all = entries(gpus.iter().copied(), |gpu| self.nics[gpu]);
        let taken: Vec<(u32, usize)> = (0..count).map(|c| all[c * all.len() / count]).collect();
        let orders = self.within(gpus).map(|found| found.rings.iter().map(|(order, _)| order.clone()).collect());
        let orders: Vec<Vec<usize>> = orders.unwrap_or_else(|| vec![gpus.to_vec()]);
        let found = most_within(self.flows, &taken, &orders, |gpu, nic| u32::from(self.nics[gpu] != nic));
        self.paths.entry(key).or_insert(found).clone()
    }

    /// The rings over these GPUs, nodes in the order in which they first stand there: within one node those that carry most
    /// together, over several nodes as many as the node with the fewest NICs has; none of fewer than two.
    pub(crate) fn rings(&mut self, places: &[Place]) -> SharedRings {
        let mut nodes: Vec<(u32, Vec<usize>)> = Vec::new();
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        for place in places {
            let Some(gpu) = self.gpus.get(&place.device).copied() else { continue };
            let number = *numbers.entry(place.node).or_insert(nodes.len());
            if number == nodes.len() {
                nodes.push((place.node, Vec::new()));
            }
            nodes[number].1.push(gpu);
        }
        nodes.iter_mut().for_each(|(_, gpus)| gpus.sort_unstable());
        if places.len() < 2 {
            return Vec::new();
        }
        let ends = &self.flows.ends;
        if let [(node, gpus)] = nodes.as_slice() {
            return match self.within(gpus) {
                Some(found) => {
                    let rate = found.rate();
                    found.rings.iter().map(|(order, pace)| (named(ends, *node, order), pace / rate)).collect()
                }
                None => vec![(places.to_vec(), 1.0)],
            };
        }
        let count = nodes.iter().map(|(_, gpus)| self.nics_of(gpus)).min().unwrap_or(1).max(1);
        let paths: Vec<Vec<NodePath>> = nodes.iter().map(|(_, gpus)| self.paths(gpus, count)).collect();
        let ends = &self.flows.ends;
        let path = |at: usize, c: usize| named(ends, nodes[at].0, &paths[at][c].gpus);
        through_nodes(nodes.len(), count, path).into_iter().map(|ring| (ring, 1.0 / count as f64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_change_nodes_on_one_rail() {
        let rotated = |node: usize, c: usize| (0..4).map(|i| (node, (c + i) % 4)).collect();
        let rings = through_nodes(4, 4, rotated);
        assert_eq!(rings.len(), 4);
        for (c, ring) in rings.iter().enumerate() {
            assert_eq!((ring.len(), ring[0]), (16, (0, c)));
            let pairs = ring.iter().zip(ring.iter().cycle().skip(1));
            for (a, b) in pairs.filter(|(a, b)| a.0 != b.0) {
                assert_eq!(a.1, b.1, "{ring:?}");
            }
        }
        // one ring passes all nodes the same way
        let mixed = [vec![0, 1, 2], vec![10], vec![20, 21]];
        assert_eq!(through_nodes(3, 1, |node, _| mixed[node].clone()), [[0, 1, 2, 10, 20, 21]]);
    }
}
