//! What an all-to-all asks of each channel of a network.
//!
//! Which channel a message takes depends on a part of its source's place and a part of its destination's. So what a channel
//! carries is a product: what all sources with the one part have, times what all destinations with the other have, less the
//! pairs within one node, which take no network. Only where links have failed, and where links are given one by one, paths are
//! followed.

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasherDefault;

use super::super::SimulateError;
use super::super::mix::Mix;
use super::Between;
use crate::cluster::network::{Dragonfly, FatTree, Network, Port, Routing, Shape, Torus};

type Loads = HashMap<u64, f64, BuildHasherDefault<Mix>>;

/// Of each kind of channels the busiest one, with the number of pairs whose bytes it carries.
pub(super) fn busiest(network: &Network, nodes: u32, between: &Between) -> Result<Vec<(u64, f64)>, SimulateError> {
    let mut busiest = Busiest { network, most: HashMap::default() };
    let served =
        product(&between.tables[0][0]).filter(|_| network.failed.is_empty() && network.routing == Routing::Static);
    let is_added = served.is_some_and(|served| added(network, nodes, &served, &mut busiest));
    if !is_added {
        followed(network, nodes, between)?.into_iter().for_each(|(channel, load)| busiest.add(channel, load));
    }
    Ok(busiest.most.into_values().collect())
}

/// The GPUs of each NIC, where every GPU has one, so that the pairs of two NICs are a product.
fn product(between: &[Vec<f64>]) -> Option<Vec<f64>> {
    let served: Vec<f64> = (0..between.len()).map(|nic| between[nic][nic].sqrt()).collect();
    let is_product = |(nic, row): (usize, &Vec<f64>)| {
        row.iter().zip(&served).all(|(pairs, there)| (pairs - served[nic] * there).abs() < 1e-9)
    };
    between.iter().enumerate().all(is_product).then_some(served)
}

/// Adds what channels carry as products; `false` where paths have to be followed.
fn added(network: &Network, nodes: u32, served: &[f64], busiest: &mut Busiest) -> bool {
    let in_use = (0..nodes).flat_map(|node| (0..).zip(served).map(move |(nic, gpus)| (Port { node, nic }, *gpus)));
    let ports: Vec<(Port, f64)> = in_use.filter(|(_, gpus)| *gpus > 0.0).collect();
    let each = ports.iter().take_while(|(port, _)| port.node == 0).count().max(1);
    let ends = Ends { nodes: ports.chunks(each), all: ports.iter().map(|(_, gpus)| gpus).sum(), ports: &ports };
    match &network.shape {
        Shape::FatTree(tree) => ends.in_tree(tree, busiest),
        Shape::Dragonfly(dragonfly) => ends.in_dragonfly(dragonfly, busiest),
        Shape::Switch => ends.at_ports(busiest, [|n| 2 * n, |n| 2 * n + 1]),
        Shape::Torus(torus) if nodes == network.nodes && network.measured.is_empty() => ends.in_torus(torus, busiest),
        Shape::Torus(_) | Shape::Explicit(_) => return false,
    }
    true
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

    /// Between two groups by one of their links, which the destination decides; within a group from any router to any.
    fn in_dragonfly(&self, dragonfly: &Dragonfly, busiest: &mut Busiest) {
        self.at_ports(busiest, [|n| n * 8, |n| n * 8 + 1]);
        let (groups, routers, links) =
            (dragonfly.groups as usize, dragonfly.routers as usize, dragonfly.between().max(1) as usize);
        let nics = u64::from(busiest.network.nics);
        let number = |port: Port| u64::from(port.node) * nics + u64::from(port.nic);
        // GPUs of each router, by the link that leads to them from another group
        let mut of_router = vec![vec![0.0; links]; groups * routers];
        for (port, gpus) in self.ports {
            let at = number(*port);
            of_router[(at / u64::from(dragonfly.ports)) as usize][at as usize % links] += gpus;
        }
        let own = |router: usize| of_router[router].iter().sum::<f64>();
        let of_group: Vec<Vec<f64>> = of_router
            .chunks(routers)
            .map(|group| (0..links).map(|link| group.iter().map(|router| router[link]).sum()).collect())
            .collect();
        let all_of: Vec<f64> = of_group.iter().map(|by_link| by_link.iter().sum()).collect();
        let mut less = Loads::default();
        let mut path = Vec::new();
        let whole = BTreeSet::new();
        for (a, b, pairs) in self.within_nodes().filter(|(a, b, _)| a != b) {
            path.clear();
            let _ = dragonfly.path([number(a), number(b)], Routing::Static, &whole, &mut path);
            path.iter().filter(|c| *c % 8 > 1).for_each(|channel| *less.entry(*channel).or_default() += pairs);
        }
        let mut add = |channel: u64, load: f64| busiest.add(channel, load - less.get(&channel).unwrap_or(&0.0));
        for a in 0..groups {
            // by router: what leaves the group there, and what comes in for each router
            let mut leaving = vec![0.0; routers];
            let mut coming = vec![vec![0.0; links]; routers];
            for b in (0..groups).filter(|b| *b != a) {
                for link in 0..links {
                    let router = dragonfly.gate(a as u64, b as u64, link as u64) as usize;
                    leaving[router] += of_group[b][link];
                    coming[router][link] += all_of[b];
                    add(dragonfly.global_link(a as u64, b as u64, link as u64), all_of[a] * of_group[b][link]);
                }
            }
            for (x, y) in (0..routers).flat_map(|x| (0..routers).map(move |y| (x, y))).filter(|(x, y)| x != y) {
                let (from, to) = (own(a * routers + x), &of_router[a * routers + y]);
                let passing: f64 = coming[x].iter().zip(to).map(|(coming, gpus)| coming * gpus).sum();
                add(
                    dragonfly.local(a as u64, x as u64, y as u64),
                    from * (own(a * routers + y) + leaving[y]) + passing,
                );
            }
        }
    }

    /// A torus looks the same from every node, so that all channels of one direction carry what one node's messages take.
    fn in_torus(&self, torus: &Torus, busiest: &mut Busiest) {
        let own: f64 = self.nodes.clone().next().unwrap_or_default().iter().map(|(_, gpus)| gpus).sum();
        let directions = 2 * torus.size.len() as u64;
        let mut hops = vec![0.0; directions as usize];
        let whole = BTreeSet::new();
        let mut path = Vec::new();
        for to in 1..busiest.network.nodes {
            path.clear();
            let _ = torus.path([0, to], Routing::Static, &whole, &mut path);
            path.iter().for_each(|channel| hops[(channel % directions) as usize] += 1.0);
        }
        (0..).zip(hops).for_each(|(direction, hops)| busiest.add(direction, own * own * hops));
    }
}

/// What each channel carries, by the paths of all pairs. Paths from ports at one switch to one destination differ only in their
/// first channel, so that one of each switch is followed.
fn followed(network: &Network, nodes: u32, between: &Between) -> Result<Loads, SimulateError> {
    let nics = between.tables[0][0].len();
    let in_use = (0..nodes).flat_map(|node| (0..nics as u32).map(move |nic| Port { node, nic }));
    let ports: Vec<Port> = in_use.filter(|port| between.sent(*port, nodes) > 0.0).collect();
    let mut by_switch: HashMap<(u64, u64), Vec<Port>> = HashMap::new();
    for (number, port) in (0..).zip(&ports) {
        // a port that shares its switch with none stands for itself
        let key = network.leaf(*port).map_or((1, number), |leaf| (0, leaf));
        by_switch.entry(key).or_default().push(*port);
    }
    let mut switches: Vec<_> = by_switch.into_iter().collect();
    switches.sort_unstable_by_key(|(key, _)| *key);
    let mut loads = Loads::default();
    let mut path = Vec::new();
    let mut add = |from: Port, to: Port, load: f64, channels: &dyn Fn(usize) -> bool| -> Result<(), SimulateError> {
        path.clear();
        let parts = network.path(from, to, &mut path)?;
        let each = path.len() / parts as usize;
        for (_, channel) in path.iter().enumerate().filter(|(at, _)| channels(at % each)) {
            *loads.entry(*channel).or_default() += load / f64::from(parts);
        }
        Ok(())
    };
    for ((alone, _), sources) in &switches {
        // by kind and NIC of the destination: what all sources send to it, and those of each node
        let none = || vec![vec![0.0; nics]; between.tables.len()];
        let mut all = none();
        let mut own: HashMap<u32, Vec<Vec<f64>>> = HashMap::new();
        for from in sources {
            let of_node = own.entry(from.node).or_insert_with(none);
            for (kind, table) in between.tables[between.kind(from.node)].iter().enumerate() {
                for (nic, pairs) in table[from.nic as usize].iter().enumerate() {
                    all[kind][nic] += pairs;
                    of_node[kind][nic] += pairs;
                }
            }
        }
        for to in &ports {
            let Some(from) = sources.iter().find(|from| from.node != to.node) else { continue };
            let (kind, nic) = (between.kind(to.node), to.nic as usize);
            let load = all[kind][nic] - own.get(&to.node).map_or(0.0, |of_node| of_node[kind][nic]);
            // the first channel is the source's own
            if load > 1e-9 {
                add(*from, *to, load, &|at| *alone == 1 || at > 0)?;
            }
        }
        for from in sources.iter().filter(|_| *alone == 0) {
            let Some(to) = ports.iter().find(|to| to.node != from.node) else { continue };
            add(*from, *to, between.sent(*from, nodes), &|at| at == 0)?;
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

    fn pairs(served: &[f64]) -> Between {
        let table = served.iter().map(|from| served.iter().map(|to| from * to).collect()).collect();
        Between { cut: Vec::new(), tables: vec![vec![table]] }
    }

    /// Every pair's path, one by one.
    fn counted(network: &Network, nodes: u32, served: &[f64]) -> Vec<(u64, f64)> {
        let nics = served.len() as u32;
        let ports: Vec<Port> = (0..nodes).flat_map(|node| (0..nics).map(move |nic| Port { node, nic })).collect();
        let mut loads = Loads::default();
        let mut path = Vec::new();
        for (a, b) in ports.iter().flat_map(|a| ports.iter().map(move |b| (a, b))) {
            path.clear();
            let parts = f64::from(network.path(*a, *b, &mut path).unwrap());
            let pairs = served[a.nic as usize] * served[b.nic as usize] / parts;
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
        let cases: [(&str, u32, u32, &[f64]); 16] = [
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
            ("dragonfly:4x3x4x3", 40, 37, &[1.0]),
            ("dragonfly:3x4x4x5", 20, 19, &[1.0, 2.0]),
            ("dragonfly", 60, 60, &[1.0, 1.0]),
            ("switch", 6, 5, &[1.0, 2.0, 1.0]),
        ];
        for (wanted, nodes, used, served) in cases {
            let network = network(wanted, nodes, served.len() as u32);
            let got = sorted(busiest(&network, used, &pairs(served)).unwrap());
            assert_eq!(got, counted(&network, used, served), "{wanted}, {used} of {nodes} nodes, {served:?}");
        }
    }

    #[test]
    fn a_failed_link_moves_what_it_carried() {
        let mut network = network("fat-tree:2", 70, 2);
        network.fail("uplink:leaf1/2").unwrap();
        let got = sorted(busiest(&network, 70, &pairs(&[1.0, 1.0])).unwrap());
        assert_eq!(got, counted(&network, 70, &[1.0, 1.0]));
    }

    #[test]
    fn a_measured_channel_is_a_kind_of_its_own() {
        let mut network = network("rail:2", 40, 2);
        network.measured.insert(7, Rate::from_gbit(50.0));
        let got = sorted(busiest(&network, 40, &pairs(&[1.0, 1.0])).unwrap());
        assert_eq!(got, counted(&network, 40, &[1.0, 1.0]));
        // in and out of adapters, up and down, and that one
        assert_eq!(got.len(), 5);
    }
}
