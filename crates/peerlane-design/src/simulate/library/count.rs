//! What the paths of a cluster carry for rings and trees.
//!
//! Nodes are alike, so that what a node carries is solved once, for rings that pass through two of them. The links of the
//! network are counted one by one: what each is asked for by all edges of a ring or a tree, per byte of the collective.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::edges::{Edge, ring};
use crate::cluster::network::Port;
use crate::cluster::paths::{NodePath, candidates};
use crate::cluster::{Cluster, Component, Latencies, Place, Router, Via};
use crate::simulate::SimulateError;
use peerlane_machine::matrix::Engine;
use peerlane_machine::units::Seconds;
use peerlane_model::collectives::joint;
use peerlane_model::solve::{Binding, Demand, Problem};
use peerlane_read::catalogue::Parts;

/// A rate in bytes a second, and what holds it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) rate: f64,
    pub(super) by: String,
    pub(super) component: Option<Component>,
}

impl Held {
    pub(super) const UNLIMITED: Held = Held { rate: f64::INFINITY, by: String::new(), component: None };

    pub(super) fn or(self, other: &Held) -> Held {
        if other.rate < self.rate { other.clone() } else { self }
    }

    pub(super) fn times(&self, factor: f64) -> Held {
        Held { rate: self.rate * factor, ..self.clone() }
    }
}

/// What is counted over.
pub(super) struct Count<'c, 'r, 'a> {
    pub(super) cluster: &'c Cluster,
    pub(super) router: &'r mut Router<'a>,
    pub(super) nodes: u32,
    /// Rings within a node.
    pub(super) orders: Vec<Vec<usize>>,
    /// What NCCL reaches of paths within a node.
    pub(super) share: f64,
}

impl Count<'_, '_, '_> {
    fn place(&self, node: u32, gpu: usize) -> Place {
        Place { node, device: self.cluster.gpus()[gpu] }
    }

    /// The paces of sets of transfers that each keep one, added up, and what holds the slowest.
    fn paced(&mut self, sets: &[Vec<(Place, Place, Via)>]) -> Result<Held, SimulateError> {
        let mut ways = Vec::new();
        for set in sets {
            let of_set: Result<Vec<_>, _> =
                set.iter().map(|(a, b, via)| self.router.way_by(*a, *b, Engine::Sm, *via)).collect();
            ways.push(of_set?);
        }
        let demands: Vec<Vec<&Demand>> = ways.iter().map(|set| set.iter().map(|way| &way.demand).collect()).collect();
        let problem = Problem::of(&joint(&demands), |r| self.router.resources()[r]);
        let solution = problem.solve().map_err(|e| SimulateError::Network(e.to_string()))?;
        let slowest = (0..sets.len()).min_by(|a, b| solution.rates[*a].total_cmp(&solution.rates[*b]));
        let by = match slowest.map(|at| (at, solution.bindings[at])) {
            Some((_, Binding::Resource(r))) => self.router.group(r),
            Some((at, Binding::Cap)) => ways[at].iter().find_map(|way| way.cap_why.clone()).unwrap_or_default(),
            _ => String::new(),
        };
        let component = self.router.component(&by);
        Ok(Held { rate: solution.rates.iter().sum(), by, component })
    }

    /// Rings of one node.
    pub(super) fn within(&mut self) -> Result<Held, SimulateError> {
        let of_ring = |order: &Vec<usize>| {
            let next = order.iter().cycle().skip(1);
            order.iter().zip(next).map(|(a, b)| (self.place(0, *a), self.place(0, *b), Via::Direct)).collect()
        };
        let sets: Vec<Vec<_>> = self.orders.iter().filter(|order| order.len() > 1).map(of_ring).collect();
        if sets.is_empty() {
            return Ok(Held::UNLIMITED);
        }
        Ok(self.paced(&sets)?.times(self.share))
    }

    /// Rings through all nodes, one for each NIC, along those of the known paths through a node that carry most.
    pub(super) fn ring(&mut self) -> Result<Held, SimulateError> {
        let rails = self.rails();
        let gpus = self.cluster.gpus();
        let sets = candidates(&rails, &self.orders, |gpu, nic| self.router.distance(gpus[gpu], nic));
        let mut best: Option<(Held, Vec<NodePath>)> = None;
        for paths in sets {
            let held = self.passed(&paths)?;
            if best.as_ref().is_none_or(|(known, _)| held.rate > known.rate * (1.0 + 1e-9)) {
                best = Some((held, paths));
            }
        }
        let (node, paths) = best.unwrap_or((Held::UNLIMITED, Vec::new()));
        let (nodes, weight) = (self.nodes, 1.0 / paths.len() as f64);
        let edges = paths.iter().flat_map(|path| {
            ring(nodes).into_iter().map(move |(a, b, share)| {
                let out = if a % 2 == 0 { path.exit } else { path.entry };
                let into = if b % 2 == 1 { path.exit } else { path.entry };
                (Port { node: a, nic: out }, Port { node: b, nic: into }, share * weight)
            })
        });
        Ok(node.or(&self.channels(edges)?))
    }

    /// What rings through two nodes carry along these paths: the even nodes are gone through one way and the odd ones the
    /// other, so that both ends of each edge between nodes have the same place.
    fn passed(&mut self, paths: &[NodePath]) -> Result<Held, SimulateError> {
        let of_path = |path: &NodePath| -> Vec<(Place, Place, Via)> {
            let pairs = path.gpus.windows(2);
            let within = pairs.flat_map(|pair| [(0, pair[0], pair[1]), (1, pair[1], pair[0])]);
            let mut set: Vec<_> =
                within.map(|(node, a, b)| (self.place(node, a), self.place(node, b), Via::Direct)).collect();
            if let (Some(first), Some(last)) = (path.gpus.first(), path.gpus.last()) {
                set.push((self.place(0, *last), self.place(1, *last), Via::Nic(path.exit)));
                set.push((self.place(1, *first), self.place(0, *first), Via::Nic(path.entry)));
            }
            set
        };
        let sets: Vec<_> = paths.iter().map(of_path).collect();
        self.paced(&sets)
    }

    /// Every NIC with its GPU.
    fn rails(&self) -> Vec<(u32, usize)> {
        let mut rails = self.router.rails(&self.cluster.gpus());
        if self.nodes > 1 && rails.is_empty() {
            rails.push((0, 0));
        }
        rails
    }

    /// What all NICs of a node send while they receive as much.
    pub(super) fn nics(&mut self) -> Result<Held, SimulateError> {
        let pair = |(nic, gpu): (u32, usize)| {
            let [a, b] = [0, 1].map(|node| self.place(node, gpu));
            vec![(a, b, Via::Nic(nic)), (b, a, Via::Nic(nic))]
        };
        let sets: Vec<_> = self.rails().into_iter().map(pair).collect();
        self.paced(&sets)
    }

    /// What edges between nodes carry, of which every NIC has its part: as much as the NICs of the busiest node, and the
    /// links of the network.
    pub(super) fn network(&mut self, edges: &[Edge], nics: &Held) -> Result<Held, SimulateError> {
        let mut asked = vec![[0.0_f64; 2]; self.nodes as usize];
        for (a, b, bytes) in edges {
            asked[*a as usize][0] += bytes;
            asked[*b as usize][1] += bytes;
        }
        let most = asked.iter().flatten().copied().fold(0.0, f64::max);
        let rails = self.rails();
        let weight = 1.0 / rails.len() as f64;
        let of_rails = edges.iter().flat_map(|(a, b, bytes)| {
            rails
                .iter()
                .map(move |(nic, _)| (Port { node: *a, nic: *nic }, Port { node: *b, nic: *nic }, bytes * weight))
        });
        Ok(nics.times(1.0 / most).or(&self.channels(of_rails)?))
    }

    /// What the network's links carry of these transfers at one pace.
    fn channels(&mut self, edges: impl Iterator<Item = (Port, Port, f64)>) -> Result<Held, SimulateError> {
        let Some(network) = &self.cluster.network else { return Ok(Held::UNLIMITED) };
        let mut asked: HashMap<u64, f64> = HashMap::new();
        let mut path = Vec::new();
        for (a, b, bytes) in edges {
            path.clear();
            let share = bytes / f64::from(network.path(a, b, &mut path)?);
            path.iter().for_each(|channel| *asked.entry(*channel).or_default() += share);
        }
        let mut kinds: HashMap<u64, (f64, String)> = HashMap::new();
        let mut slowest = Held::UNLIMITED;
        for (channel, bytes) in asked {
            let kind = self.router.channel_kind(channel);
            let (capacity, name) = match kinds.entry(kind) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(self.router.channel(channel)?),
            };
            if *capacity / bytes < slowest.rate {
                slowest = Held { rate: *capacity / bytes, by: name.clone(), component: None };
            }
        }
        slowest.component = self.router.component(&slowest.by);
        Ok(slowest)
    }

    /// Seconds that a message to the next node takes beyond those of NCCL's table, on average around the ring of nodes.
    pub(super) fn message(&mut self) -> Result<f64, SimulateError> {
        let Some(&(nic, gpu)) = self.rails().first() else { return Ok(0.0) };
        let [a, b] = [0, 1].map(|node| self.place(node, gpu));
        let way = self.router.way_by(a, b, Engine::Sm, Via::Nic(nic))?;
        let first = self.router.start_of(&way, 8.0);
        let Some(network) = &self.cluster.network else { return Ok(0.0) };
        let mut path = Vec::new();
        let mut hops = |a: u32, b: u32| -> Result<f64, SimulateError> {
            path.clear();
            let parts = network.path(Port { node: a, nic }, Port { node: b, nic }, &mut path)?;
            Ok(network.hops(path.len() / parts as usize) as f64)
        };
        let nearest = hops(0, 1)?;
        let all: Result<Vec<f64>, _> = ring(self.nodes).into_iter().map(|(a, b, _)| hops(a, b)).collect();
        let mean = all?.iter().sum::<f64>() / f64::from(self.nodes);
        let table = Latencies::NCCL.network.map_or(0.0, Seconds::seconds);
        let adapter = self.cluster.nics.first().and_then(|nic| {
            let part = Parts::embedded().get(self.cluster.node.fabric.node(*nic).part.as_deref()?)?;
            part.constant("collective_latency")
        });
        let longer = Seconds::from_us(adapter.unwrap_or(0.0)).seconds();
        Ok((first + (mean - nearest) * network.hop_latency.seconds() - table).max(0.0) + longer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Wanted;
    use crate::simulate::library::node_rings;
    use peerlane_machine::fabric::NodeKind;
    use peerlane_read::catalogue::{system, system_names};

    #[test]
    fn rings_over_nodes_carry_what_nics_and_nodes_do() {
        let wanted: Wanted = "rail".parse().unwrap();
        for name in system_names() {
            let node = system(name).unwrap().unwrap();
            let Ok(cluster) = Cluster::of(node, 2, &wanted, None, Seconds::from_us(0.3)) else { continue };
            if cluster.nics.len() < 2 || cluster.node.fabric.of_kind(NodeKind::Gpu).count() < 2 {
                continue;
            }
            let mut router = Router::new(&cluster, Parts::embedded());
            let Some(rings) = node_rings(&cluster, &router) else { continue };
            let orders = rings.orders();
            let mut count = Count { cluster: &cluster, router: &mut router, nodes: 2, orders, share: 1.0 };
            let nics = count.nics().unwrap().rate;
            let within = count.within().unwrap().rate;
            let ring = count.ring().unwrap();
            let reached = ring.rate / nics.min(within);
            assert!(
                reached > 0.9,
                "{name}: {reached} of what its NICs and its rings within a node carry, by {}",
                ring.by
            );
        }
    }
}
