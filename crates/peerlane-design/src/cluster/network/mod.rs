//! The network between nodes: which channels lie between two ports. A channel is one direction of a link; it is known
//! by a number that its place gives, so that a network of a million ports takes no memory.

mod dragonfly;
mod explicit;
mod fat_tree;
mod torus;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use super::ClusterError;
use super::names::{Component, alike};
use peerlane_machine::units::{Rate, Seconds};

pub use dragonfly::Dragonfly;
pub use explicit::{End, Explicit};
pub use fat_tree::FatTree;
pub use torus::Torus;

/// Most ports of a network: more than any machine has, and few enough that no number overflows.
pub const MOST_PORTS: u64 = 1 << 26;

/// A NIC's port: the node, and which of its NICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// The node, from 0.
    pub node: u32,
    /// The NIC, from 0.
    pub nic: u32,
}

/// How links join ports.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Each node's first NIC has two links along each dimension.
    Torus(Torus),
    /// Switches in levels; a rail-optimised network is one in which leaf switches hold the same NIC of several nodes.
    FatTree(FatTree),
    /// Groups of routers, every router joined to all of its group, and every group to every other.
    Dragonfly(Dragonfly),
    /// All ports at one switch.
    Switch,
    /// A list of links.
    Explicit(Explicit),
}

/// A network.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// How its links lie.
    pub shape: Shape,
    /// Nodes.
    pub nodes: u32,
    /// NICs of each node.
    pub nics: u32,
    /// What a link carries in one direction.
    pub rate: Rate,
    /// What each switch or router adds to a message's time.
    pub hop_latency: Seconds,
    /// Channels that carry nothing, as their links have failed.
    pub failed: BTreeSet<u64>,
    /// What channels carry by measurement, where that is known, in place of [`rate`](Self::rate).
    pub measured: BTreeMap<u64, Rate>,
}

impl Network {
    /// A network for so many nodes with so many NICs each, whole and unmeasured.
    pub fn new(shape: Shape, [nodes, nics]: [u32; 2], rate: Rate, hop_latency: Seconds) -> Self {
        Network { shape, nodes, nics, rate, hop_latency, failed: BTreeSet::new(), measured: BTreeMap::new() }
    }

    /// Appends the channels from one port to another, in order. Ports of one node are joined without a network.
    pub fn path(&self, from: Port, to: Port, channels: &mut Vec<u64>) -> Result<(), ClusterError> {
        self.path_around(from, to, &self.failed, channels)
    }

    /// Whether what goes from one port to another would take a failed link if that still worked.
    pub(crate) fn goes_round(&self, from: Port, to: Port) -> Result<bool, ClusterError> {
        let mut channels = Vec::new();
        if !self.failed.is_empty() {
            self.path_around(from, to, &BTreeSet::new(), &mut channels)?;
        }
        Ok(channels.iter().any(|channel| self.failed.contains(channel)))
    }

    fn path_around(
        &self,
        from: Port,
        to: Port,
        failed: &BTreeSet<u64>,
        channels: &mut Vec<u64>,
    ) -> Result<(), ClusterError> {
        if from.node == to.node {
            return Ok(());
        }
        match &self.shape {
            Shape::Torus(torus) => torus.path(from.node, to.node, channels),
            Shape::FatTree(tree) => tree.path(self.nics, from, to, failed, channels)?,
            Shape::Dragonfly(dragonfly) => dragonfly.path(self.number(from), self.number(to), channels),
            Shape::Switch => channels.extend([2 * self.number(from), 2 * self.number(to) + 1]),
            Shape::Explicit(links) => links.path(from, to, channels)?,
        }
        Ok(())
    }

    /// Takes out a link of a fat tree, both ways: `uplink:leaf3` or `uplink:leaf3/2`, the first or the third link up from
    /// a switch. Messages then take the next of the paths that they may choose from.
    ///
    /// # Errors
    /// Where there is no such link, or the network is no fat tree: in others, a message has one path only.
    pub fn fail(&mut self, link: &str) -> Result<(), ClusterError> {
        let Shape::FatTree(tree) = &self.shape else {
            let why =
                format!("'{link}': only a fat tree or a rail network has another path for what a failed link carried");
            return Err(ClusterError::Network(why));
        };
        self.failed.extend(tree.uplink(link)?);
        Ok(())
    }

    /// The switch that a port hangs on, where paths from all ports there to one destination are the same after the first
    /// channel.
    pub(crate) fn leaf(&self, port: Port) -> Option<u64> {
        match &self.shape {
            Shape::FatTree(tree) => Some(tree.leaf(self.nics, port)),
            Shape::Switch => Some(0),
            Shape::Torus(_) | Shape::Dragonfly(_) | Shape::Explicit(_) => None,
        }
    }

    /// The same number for channels that carry the same and are called the same but for numbers.
    pub(crate) fn kind(&self, channel: u64) -> u64 {
        if !self.measured.is_empty() {
            return channel;
        }
        match &self.shape {
            Shape::FatTree(tree) => tree.kind(channel),
            Shape::Dragonfly(_) => channel % 8,
            Shape::Switch => channel % 2,
            Shape::Torus(_) => 0,
            Shape::Explicit(_) => channel,
        }
    }

    /// What a channel carries.
    pub fn capacity(&self, channel: u64) -> Rate {
        if let Some(rate) = self.measured.get(&channel) {
            return *rate;
        }
        match &self.shape {
            Shape::Dragonfly(dragonfly) => self.rate * dragonfly.parallel(channel),
            Shape::Explicit(links) => links.rate(channel).unwrap_or(self.rate),
            Shape::Torus(_) | Shape::FatTree(_) | Shape::Switch => self.rate,
        }
    }

    /// A channel in words: `leaf3 to spine1`.
    pub fn name(&self, channel: u64) -> String {
        self.ends(channel).join(" to ")
    }

    fn ends(&self, channel: u64) -> [String; 2] {
        match &self.shape {
            Shape::Torus(torus) => torus.ends(channel),
            Shape::FatTree(tree) => tree.ends(self.nics, channel),
            Shape::Dragonfly(dragonfly) => dragonfly.ends(self.nics, channel),
            Shape::Switch => {
                let (port, switch) = (port_name(self.nics, channel / 2), "switch".to_owned());
                if channel.is_multiple_of(2) { [port, switch] } else { [switch, port] }
            }
            Shape::Explicit(links) => links.ends(channel).map(|(_, name)| name.clone()),
        }
    }

    /// What would be replaced to make a channel faster: the adapters, where it joins one to a switch, or else the links of
    /// its kind.
    pub(super) fn component(&self, channel: u64) -> Component {
        let at_adapter = match &self.shape {
            Shape::Torus(_) => false,
            Shape::FatTree(tree) => tree.kind(channel) < 2,
            Shape::Dragonfly(_) => channel % 8 < 2,
            Shape::Switch => true,
            Shape::Explicit(links) => {
                links.ends(channel).iter().filter(|(end, _)| matches!(end, End::Port(..))).count() == 1
            }
        };
        let mut ends = self.ends(channel).map(|end| alike(&end));
        ends.sort_unstable();
        if at_adapter { Component::Adapters } else { Component::Named(ends.join(" – ")) }
    }

    /// The shape in words: `a torus of 4 × 4 × 1`.
    pub fn words(&self) -> String {
        let times = |sizes: &[u32]| sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(" × ");
        match &self.shape {
            Shape::Torus(torus) => format!("a torus of {}", times(&torus.size)),
            Shape::FatTree(tree) => {
                let kind = if tree.rail { "a rail-optimised tree" } else { "a fat tree" };
                let levels = tree.up.len();
                format!("{kind} with {levels} level{} of switches", if levels == 1 { "" } else { "s" })
            }
            Shape::Dragonfly(d) => format!("a dragonfly of {} groups with {} routers each", d.groups, d.routers),
            Shape::Switch => "one switch".to_owned(),
            Shape::Explicit(_) => "links one by one".to_owned(),
        }
    }

    /// Switches or routers that a message over so many channels passes. On a torus, a hop ends in the next card.
    pub fn hops(&self, channels: usize) -> usize {
        match &self.shape {
            Shape::Torus(_) => channels,
            _ => channels.saturating_sub(1),
        }
    }

    fn number(&self, port: Port) -> u64 {
        u64::from(port.node) * u64::from(self.nics) + u64::from(port.nic)
    }
}

/// `node3 port1`, without the port where there is one only.
fn port_name(nics: u32, number: u64) -> String {
    let (node, nic) = (number / u64::from(nics.max(1)), number % u64::from(nics.max(1)));
    if nics > 1 { format!("node{node} port{nic}") } else { format!("node{node}") }
}

/// A network as written on a command line: `torus:4x4x1`, `fat-tree`, `fat-tree:3:2`, `rail`, `dragonfly:9x4x2`, `switch`.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// A torus of this size.
    Torus(Vec<u32>),
    /// A fat tree.
    FatTree {
        /// Levels; as few as suffice where `None`.
        levels: Option<u32>,
        /// How many times more links go down from a leaf switch than up.
        taper: u32,
        /// Whether leaf switches hold one NIC of several nodes each.
        rail: bool,
    },
    /// A dragonfly of so many groups, routers a group, and ports a router; sized to the nodes where `None`.
    Dragonfly(Option<[u32; 3]>),
    /// One switch.
    Switch,
}

/// What may be written for a network.
pub const NETWORKS: &str = "torus:4x4x1, fat-tree[:LEVELS[:TAPER]], rail[:LEVELS[:TAPER]], dragonfly[:GROUPSxROUTERSxPORTS] \
     or switch";

impl FromStr for Wanted {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let refuse = |why: &str| ClusterError::Network(format!("'{text}': {why}; write {NETWORKS}"));
        let (shape, rest) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
        let numbers = |rest: &str, by: char| -> Result<Vec<u32>, ClusterError> {
            let number = |n: &str| n.trim().parse::<u32>().ok().filter(|n| *n > 0);
            rest.split(by).map(|n| number(n).ok_or_else(|| refuse("every size is a number above 0"))).collect()
        };
        match (shape, rest) {
            ("torus", Some(rest)) => Ok(Wanted::Torus(numbers(rest, 'x')?)),
            ("torus", None) => Err(refuse("a torus needs its size")),
            ("fat-tree" | "rail", rest) => {
                let given = rest.map_or(Ok(Vec::new()), |rest| numbers(rest, ':'))?;
                let (levels, taper) = match given.as_slice() {
                    [] => (None, 1),
                    [levels] => (Some(*levels), 1),
                    [levels, taper] => (Some(*levels), *taper),
                    _ => return Err(refuse("too many numbers")),
                };
                Ok(Wanted::FatTree { levels, taper, rail: shape == "rail" })
            }
            ("dragonfly", None) => Ok(Wanted::Dragonfly(None)),
            ("dragonfly", Some(rest)) => match numbers(rest, 'x')?.as_slice() {
                [groups, routers, ports] => Ok(Wanted::Dragonfly(Some([*groups, *routers, *ports]))),
                _ => Err(refuse("a dragonfly has three sizes")),
            },
            ("switch", None) => Ok(Wanted::Switch),
            _ => Err(refuse("no such network")),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |sizes: &[u32]| sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
        match self {
            Wanted::Torus(size) => write!(f, "torus:{}", join(size)),
            Wanted::FatTree { levels, taper, rail } => {
                f.write_str(if *rail { "rail" } else { "fat-tree" })?;
                match (levels, taper) {
                    (None, _) => Ok(()),
                    (Some(levels), 1) => write!(f, ":{levels}"),
                    (Some(levels), taper) => write!(f, ":{levels}:{taper}"),
                }
            }
            Wanted::Dragonfly(None) => f.write_str("dragonfly"),
            Wanted::Dragonfly(Some(size)) => write!(f, "dragonfly:{}", join(size)),
            Wanted::Switch => f.write_str("switch"),
        }
    }
}

impl Wanted {
    /// The shape for so many nodes with so many NICs each, and what was chosen, in sentences.
    pub fn shape(&self, nodes: u32, nics: u32) -> Result<(Shape, Vec<String>), ClusterError> {
        let ports = u64::from(nodes) * u64::from(nics.max(1));
        if nodes == 0 || ports > MOST_PORTS {
            return Err(ClusterError::Network(format!("{ports} ports; a network has 1 to {MOST_PORTS}")));
        }
        match self {
            Wanted::Torus(size) => Ok((Shape::Torus(Torus::new(size, nodes)?), Vec::new())),
            Wanted::FatTree { levels, taper, rail } => {
                let (tree, said) = FatTree::sized(nodes, nics, *levels, *taper, *rail)?;
                Ok((Shape::FatTree(tree), said))
            }
            Wanted::Dragonfly(size) => {
                let (dragonfly, said) = Dragonfly::sized(ports, *size)?;
                Ok((Shape::Dragonfly(dragonfly), said))
            }
            Wanted::Switch => Ok((Shape::Switch, Vec::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(wanted: &str, nodes: u32, nics: u32) -> Network {
        let wanted: Wanted = wanted.parse().unwrap();
        let shape = wanted.shape(nodes, nics).unwrap().0;
        Network::new(shape, [nodes, nics], Rate::from_gbit(100.0), Seconds::new(0.0))
    }

    fn path(network: &Network, from: (u32, u32), to: (u32, u32)) -> Vec<String> {
        let mut channels = Vec::new();
        let port = |(node, nic)| Port { node, nic };
        network.path(port(from), port(to), &mut channels).unwrap();
        channels.into_iter().map(|c| network.name(c)).collect()
    }

    #[test]
    fn what_is_written_comes_back() {
        for text in ["torus:4x4x1", "fat-tree", "fat-tree:3:2", "rail:2", "dragonfly", "dragonfly:9x4x2", "switch"] {
            assert_eq!(text.parse::<Wanted>().unwrap().to_string(), text);
        }
        for text in ["", "ring", "torus", "torus:0x2", "torus:4x", "fat-tree:1:2:3", "switch:4", "dragonfly:2x2"] {
            assert!(text.parse::<Wanted>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_pair_is_joined_by_a_chain_of_channels() {
        let networks = [
            ("torus:3x2x2", 12, 1),
            ("fat-tree:2", 70, 1),
            ("fat-tree:3:2", 100, 2),
            ("rail:3", 40, 4),
            ("dragonfly:5x4x2", 40, 1),
            ("dragonfly", 100, 1),
            ("switch", 6, 3),
        ];
        for (wanted, nodes, nics) in networks {
            let network = network(wanted, nodes, nics);
            for (a, b) in (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b) {
                let hops = path(&network, (a, a % nics), (b, b % nics));
                let ends = |hop: &String| hop.split_once(" to ").map(|(x, y)| (x.to_owned(), y.to_owned())).unwrap();
                let ends: Vec<_> = hops.iter().map(ends).collect();
                let name = |node: u32| {
                    if nics > 1 { format!("node{node} port{}", node % nics) } else { format!("node{node}") }
                };
                assert_eq!(ends.first().map(|e| e.0.clone()), Some(name(a)), "{wanted}: {hops:?}");
                assert_eq!(ends.last().map(|e| e.1.clone()), Some(name(b)), "{wanted}: {hops:?}");
                assert!(ends.windows(2).all(|w| w[0].1 == w[1].0), "{wanted}: {hops:?}");
            }
        }
    }

    #[test]
    fn a_torus_takes_the_shorter_way_round() {
        let torus = network("torus:4x4", 16, 1);
        assert_eq!(path(&torus, (0, 0), (3, 0)), ["node0 to node3"]);
        assert_eq!(path(&torus, (1, 0), (14, 0)), ["node1 to node2", "node2 to node14"]);
    }

    #[test]
    fn rails_meet_at_leaf_switches() {
        // the same NIC of two nodes is one switch apart, two NICs are not
        let rail = network("rail:2", 32, 8);
        assert_eq!(path(&rail, (0, 3), (31, 3)).len(), 2);
        assert_eq!(path(&rail, (0, 3), (31, 4)).len(), 4);
        let tree = network("fat-tree:2", 32, 8);
        assert_eq!(path(&tree, (0, 3), (1, 4)).len(), 2);
        assert_eq!(path(&tree, (0, 3), (31, 3)).len(), 4);
    }
}
