//! Rings over any set of a cluster's GPUs: of one node the best that it has, of several nodes one a NIC.

use std::collections::HashMap;

use super::Place;
use peerlane_machine::fabric::NodeId;
use peerlane_model::collectives::Rings;
use peerlane_model::flows::{Flows, interchangeable};

/// So many rings through nodes, each of which lists its GPUs in the order in which rings pass them.
///
/// A ring enters a node at one GPU and leaves at the one before. The next node is passed in the other direction, so that
/// both ends of each link between nodes have the same place in their nodes, and the same rail.
pub(crate) fn through_nodes<T: Copy>(nodes: &[Vec<T>], count: usize) -> Vec<Vec<T>> {
    let ring = |c: usize| {
        let within = |(node, order): (usize, &Vec<T>)| {
            let gpus = order.len();
            let entry = c * gpus / count;
            let turned = count > 1 && node % 2 == 1;
            let at = |i: usize| if turned { entry + 2 * gpus - 1 - i } else { entry + i };
            (0..gpus).map(|i| order[at(i) % gpus]).collect::<Vec<T>>()
        };
        nodes.iter().enumerate().flat_map(within).collect()
    };
    (0..count).map(ring).collect()
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
        let named = |node: u32, order: &[usize]| -> Vec<Place> {
            order.iter().map(|gpu| Place { node, device: ends[*gpu] }).collect()
        };
        if let [(node, gpus)] = nodes.as_slice() {
            return match self.within(gpus) {
                Some(found) => {
                    let rate = found.rate();
                    found.rings.iter().map(|(order, pace)| (named(*node, order), pace / rate)).collect()
                }
                None => vec![(places.to_vec(), 1.0)],
            };
        }
        let count = nodes.iter().map(|(_, gpus)| self.nics_of(gpus)).min().unwrap_or(1).max(1);
        let orders: Vec<Vec<Place>> = nodes.iter().map(|(node, gpus)| named(*node, &self.order(gpus))).collect();
        through_nodes(&orders, count).into_iter().map(|ring| (ring, 1.0 / count as f64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_change_nodes_on_one_rail() {
        let nodes: Vec<Vec<(usize, usize)>> = (0..4).map(|n| (0..4).map(|g| (n, g)).collect()).collect();
        let rings = through_nodes(&nodes, 4);
        assert_eq!(rings.len(), 4);
        let mut entries: Vec<usize> = rings.iter().map(|ring| ring[0].1).collect();
        entries.sort_unstable();
        assert_eq!(entries, [0, 1, 2, 3]);
        for ring in &rings {
            assert_eq!(ring.len(), 16);
            let pairs = ring.iter().zip(ring.iter().cycle().skip(1));
            for (a, b) in pairs.filter(|(a, b)| a.0 != b.0) {
                assert_eq!(a.1, b.1, "{ring:?}");
            }
        }
        // nodes of different sizes: every GPU once
        let mixed = [vec![0, 1, 2], vec![10], vec![20, 21]];
        let mut all = through_nodes(&mixed, 1).remove(0);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 10, 20, 21]);
    }
}
