//! What an all-to-all asks of each channel of a network.
//!
//! Which channel a message takes depends on a part of its source's place and a part of its destination's. So what a channel
//! carries is a product: what all sources with the one part have, times what all destinations with the other have, less the
//! pairs within one node, which take no network. Only where links have failed, and where links are given one by one, paths are
//! followed.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::super::SimulateError;
use super::super::mix::Mix;
use crate::cluster::network::{Dragonfly, FatTree, Network, Port, Shape, Torus};

type Loads = HashMap<u64, f64, BuildHasherDefault<Mix>>;

/// Of each kind of channels the busiest one, with the number of pairs whose bytes it carries. `served` GPUs use each NIC.
pub(super) fn busiest(network: &Network, nodes: u32, served: &[f64]) -> Result<Vec<(u64, f64)>, SimulateError> {
    let in_use = (0..nodes).flat_map(|node| (0..).zip(served).map(move |(nic, gpus)| (Port { node, nic }, *gpus)));
    let ports: Vec<(Port, f64)> = in_use.filter(|(_, gpus)| *gpus > 0.0).collect();
    let each = ports.iter().take_while(|(port, _)| port.node == 0).count().max(1);
    let ends = Ends { nodes: ports.chunks(each), all: ports.iter().map(|(_, gpus)| gpus).sum(), ports: &ports };
    let mut busiest = Busiest { network, most: HashMap::default() };
    match &network.shape {
        Shape::FatTree(tree) if network.failed.is_empty() => ends.in_tree(tree, &mut busiest),
        Shape::Dragonfly(dragonfly) => ends.in_dragonfly(dragonfly, &mut busiest),
        Shape::Switch => ends.at_ports(&mut busiest, [|n| 2 * n, |n| 2 * n + 1]),
        Shape::Torus(torus) if nodes == network.nodes && network.measured.is_empty() => {
            ends.in_torus(torus, &mut busiest);
        }
        _ => followed(network, &ports)?.into_iter().for_each(|(channel, load)| busiest.add(channel, load)),
    }
    Ok(busiest.most.into_values().collect())
}

/// The busiest channel of each kind so far; of several, that with the lowest number.
struct Busiest<'n> {
    network: &'n Network,
    most: HashMap<u64, (u64, f64)>,
}

impl Busiest<'_> {
    fn add(&mut self, channel: u64, load: f64) {
        if load <= 0.0 {
            return;
        }
        let known = self.most.entry(self.network.kind(channel)).or_insert((channel, load));
        if load > known.1 || (load == known.1 && channel < known.0) {
            *known = (channel, load);
        }
    }
}

/// All ports, with the GPUs that use each.
struct Ends<'p> {
    ports: &'p [(Port, f64)],
    /// The same, node by node.
    nodes: std::slice::Chunks<'p, (Port, f64)>,
    /// All GPUs.
    all: f64,
}

impl Ends<'_> {
    /// The pairs of two ports of one node, and how many pairs of GPUs use them.
    fn within_nodes(&self) -> impl Iterator<Item = (Port, Port, f64)> {
        self.nodes
            .clone()
            .flat_map(|node| node.iter().flat_map(move |(a, from)| node.iter().map(move |(b, to)| (*a, *b, from * to))))
    }

    /// What goes into the network at each port and comes out, by the numbers of its channels.
    fn at_ports(&self, busiest: &mut Busiest, channels: [fn(u64) -> u64; 2]) {
        let nics = u64::from(busiest.network.nics);
        for node in self.nodes.clone() {
            let own: f64 = node.iter().map(|(_, gpus)| gpus).sum();
            for (port, gpus) in node {
                let number = u64::from(port.node) * nics + u64::from(port.nic);
                channels.iter().for_each(|channel| busiest.add(channel(number), gpus * (self.all - own)));
            }
        }
    }

    /// Level by level: which channel is taken up from a switch depends on the destination's last digits alone, and it is taken
    /// by all that do not stay below the switch.
    fn in_tree(&self, tree: &FatTree, busiest: &mut Busiest) {
        let nics = busiest.network.nics;
        let places: u64 = tree.down.iter().product();
        let place = |port: Port| tree.place(nics, port);
        let (mut below, mut copies) = (1, 1);
        for (level, ways) in tree.up.iter().enumerate() {
            let digits = copies * ways;
            let slot = |source: u64, to: u64| (source / below * digits + to % digits) as usize;
            let groups = (places / below) as usize;
            let mut of_group = vec![0.0; groups];
            let mut of_digit = vec![0.0; digits as usize];
            let mut inside = vec![0.0; groups * digits as usize];
            for (port, gpus) in self.ports {
                let at = place(*port);
                of_group[(at / below) as usize] += gpus;
                of_digit[(at % digits) as usize] += gpus;
                inside[slot(at, at)] += gpus;
            }
            let [mut up, mut down] = [vec![0.0; inside.len()], vec![0.0; inside.len()]];
            for (a, b, pairs) in self.within_nodes() {
                let (a, b) = (place(a), place(b));
                if a / below != b / below {
                    up[slot(a, b)] += pairs;
                    down[slot(b, b)] += pairs;
                }
            }
            for (at, inside) in (0_u64..).zip(inside) {
                let (group, digit, i) = (at / digits, at % digits, at as usize);
                let (from, to) = (of_group[group as usize], of_digit[digit as usize]);
                let channel =
                    |downwards| tree.channel(level, group * copies + digit % copies, digit / copies, downwards);
                busiest.add(channel(false), from * (to - inside) - up[i]);
                busiest.add(channel(true), inside * (self.all - from) - down[i]);
            }
            below *= tree.down[level];
            copies = digits;
        }
    }

    /// Between two groups by one router of each; within a group from any router to any.
    fn in_dragonfly(&self, dragonfly: &Dragonfly, busiest: &mut Busiest) {
        self.at_ports(busiest, [|n| n * 8, |n| n * 8 + 1]);
        let (groups, routers) = (u64::from(dragonfly.groups), u64::from(dragonfly.routers));
        let nics = u64::from(busiest.network.nics);
        let number = |port: Port| u64::from(port.node) * nics + u64::from(port.nic);
        let mut of_router = vec![0.0; (groups * routers) as usize];
        for (port, gpus) in self.ports {
            of_router[(number(*port) / u64::from(dragonfly.ports)) as usize] += gpus;
        }
        let of_group: Vec<f64> = of_router.chunks(routers as usize).map(|group| group.iter().sum()).collect();
        let mut less = Loads::default();
        let mut path = Vec::new();
        for (a, b, pairs) in self.within_nodes().filter(|(a, b, _)| a != b) {
            path.clear();
            dragonfly.path(number(a), number(b), &mut path);
            path.iter().filter(|c| *c % 8 > 1).for_each(|channel| *less.entry(*channel).or_default() += pairs);
        }
        let mut add = |channel: u64, load: f64| busiest.add(channel, load - less.get(&channel).unwrap_or(&0.0));
        for (a, own) in (0..groups).zip(of_router.chunks(routers as usize)) {
            // to and from other groups, by the router that joins them
            let mut beyond = vec![0.0; own.len()];
            for (b, there) in (0..).zip(&of_group).filter(|(b, _)| *b != a) {
                beyond[dragonfly.gate(a, b) as usize] += there;
                add(dragonfly.global(a, b), of_group[a as usize] * there);
            }
            for (x, from) in own.iter().enumerate() {
                for (y, to) in own.iter().enumerate().filter(|(y, _)| *y != x) {
                    add(dragonfly.local(a, x as u64, y as u64), from * (to + beyond[y]) + beyond[x] * to);
                }
            }
        }
    }

    /// A torus looks the same from every node, so that all channels of one direction carry what one node's messages take.
    fn in_torus(&self, torus: &Torus, busiest: &mut Busiest) {
        let own: f64 = self.nodes.clone().next().unwrap_or_default().iter().map(|(_, gpus)| gpus).sum();
        let directions = 2 * torus.size.len() as u64;
        let mut hops = vec![0.0; directions as usize];
        let mut path = Vec::new();
        for to in 1..busiest.network.nodes {
            path.clear();
            torus.path(0, to, &mut path);
            path.iter().for_each(|channel| hops[(channel % directions) as usize] += 1.0);
        }
        (0..).zip(hops).for_each(|(direction, hops)| busiest.add(direction, own * own * hops));
    }
}

/// What each channel carries, by the paths of all pairs. Paths from ports at one switch to one destination differ only in their
/// first channel, so that one of each switch is followed.
fn followed(network: &Network, ports: &[(Port, f64)]) -> Result<Loads, SimulateError> {
    let mut by_switch: HashMap<(u64, u64), Vec<(Port, f64)>> = HashMap::new();
    for (number, (port, gpus)) in (0..).zip(ports) {
        // a port that shares its switch with none stands for itself
        let key = network.leaf(*port).map_or((1, number), |leaf| (0, leaf));
        by_switch.entry(key).or_default().push((*port, *gpus));
    }
    let mut switches: Vec<_> = by_switch.into_iter().collect();
    switches.sort_unstable_by_key(|(key, _)| *key);
    let mut loads = Loads::default();
    let mut path = Vec::new();
    for ((alone, _), sources) in &switches {
        let all: f64 = sources.iter().map(|(_, gpus)| gpus).sum();
        for (to, gpus_there) in ports {
            let Some((from, _)) = sources.iter().find(|(from, _)| from.node != to.node) else { continue };
            let own: f64 = sources.iter().filter(|(from, _)| from.node == to.node).map(|(_, gpus)| gpus).sum();
            path.clear();
            network.path(*from, *to, &mut path)?;
            // the first channel is the source's own
            let shared = if *alone == 1 { 0 } else { 1 };
            for channel in path.iter().skip(shared) {
                *loads.entry(*channel).or_default() += (all - own) * gpus_there;
            }
        }
        for (from, gpus) in sources.iter().filter(|_| *alone == 0) {
            let Some((to, _)) = ports.iter().find(|(to, _)| to.node != from.node) else { continue };
            let others: f64 = ports.iter().filter(|(to, _)| to.node != from.node).map(|(_, gpus)| gpus).sum();
            path.clear();
            network.path(*from, *to, &mut path)?;
            path.first().iter().for_each(|first| *loads.entry(**first).or_default() += gpus * others);
        }
    }
    Ok(loads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Wanted;
    use peerlane_machine::units::{Rate, Seconds};

    fn network(wanted: &str, nodes: u32, nics: u32) -> Network {
        let shape = wanted.parse::<Wanted>().unwrap().shape(nodes, nics).unwrap().0;
        Network::new(shape, [nodes, nics], Rate::from_gbit(100.0), Seconds::new(0.0))
    }

    /// Every pair's path, one by one.
    fn counted(network: &Network, nodes: u32, served: &[f64]) -> Vec<(u64, f64)> {
        let nics = served.len() as u32;
        let ports: Vec<Port> = (0..nodes).flat_map(|node| (0..nics).map(move |nic| Port { node, nic })).collect();
        let mut loads = Loads::default();
        let mut path = Vec::new();
        for (a, b) in ports.iter().flat_map(|a| ports.iter().map(move |b| (a, b))) {
            path.clear();
            network.path(*a, *b, &mut path).unwrap();
            let pairs = served[a.nic as usize] * served[b.nic as usize];
            path.iter().for_each(|channel| *loads.entry(*channel).or_default() += pairs);
        }
        let mut all = Busiest { network, most: HashMap::default() };
        loads.into_iter().for_each(|(channel, load)| all.add(channel, load));
        sorted(all.most.into_values().collect())
    }

    fn sorted(mut all: Vec<(u64, f64)>) -> Vec<(u64, f64)> {
        all.sort_unstable_by_key(|(channel, _)| *channel);
        all
    }

    #[test]
    fn products_are_what_all_paths_add_up_to() {
        let cases: [(&str, u32, u32, &[f64]); 14] = [
            ("torus:4x4", 16, 16, &[2.0]),
            ("torus:5x3x2", 30, 30, &[1.0]),
            ("torus:5x3x2", 30, 11, &[1.0]),
            ("fat-tree:1", 9, 9, &[1.0, 2.0]),
            ("fat-tree:2", 70, 70, &[1.0]),
            ("fat-tree:2", 70, 33, &[1.0, 0.0, 3.0]),
            ("fat-tree:3:2", 100, 90, &[1.0, 1.0]),
            ("rail:2", 40, 40, &[1.0; 8]),
            ("rail:2:3", 70, 70, &[2.0, 1.0, 1.0]),
            ("rail:3", 40, 39, &[1.0; 4]),
            ("dragonfly:5x4x2", 40, 40, &[1.0]),
            ("dragonfly:5x4x3", 20, 17, &[1.0, 2.0, 0.0]),
            ("dragonfly", 60, 60, &[1.0, 1.0]),
            ("switch", 6, 5, &[1.0, 2.0, 1.0]),
        ];
        for (wanted, nodes, used, served) in cases {
            let network = network(wanted, nodes, served.len() as u32);
            let got = sorted(busiest(&network, used, served).unwrap());
            assert_eq!(got, counted(&network, used, served), "{wanted}, {used} of {nodes} nodes, {served:?}");
        }
    }

    #[test]
    fn a_failed_link_moves_what_it_carried() {
        let mut network = network("fat-tree:2", 70, 2);
        network.fail("uplink:leaf1/2").unwrap();
        let got = sorted(busiest(&network, 70, &[1.0, 1.0]).unwrap());
        assert_eq!(got, counted(&network, 70, &[1.0, 1.0]));
    }

    #[test]
    fn measured_channels_are_each_of_their_own_kind() {
        let mut network = network("rail:2", 40, 2);
        network.measured.insert(7, Rate::from_gbit(50.0));
        let got = sorted(busiest(&network, 40, &[1.0, 1.0]).unwrap());
        assert_eq!(got, counted(&network, 40, &[1.0, 1.0]));
        assert!(got.len() > 160, "{}", got.len());
    }
}
