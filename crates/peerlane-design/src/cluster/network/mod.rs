//! The network between nodes: which channels lie between two ports. A channel is one direction of a link; it is known
//! by a number that its place gives, so that a network of a million ports takes no memory.

mod dragonfly;
mod explicit;
mod fat_tree;
mod routing;
mod torus;
mod trouble;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};

use super::ClusterError;
use super::names::{Component, alike};
use peerlane_machine::units::{Rate, Seconds};

pub use dragonfly::Dragonfly;
pub use explicit::{End, Explicit};
pub use fat_tree::FatTree;
pub use routing::Routing;
pub use torus::Torus;
pub use wanted::{NETWORKS, Taper, Wanted};

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
    /// What channels carry by measurement, or as they are slow, in place of [`rate`](Self::rate).
    pub measured: BTreeMap<u64, Rate>,
    /// Which of several paths a message takes.
    pub routing: Routing,
}

impl Network {
    /// A network for so many nodes with so many NICs each, whole and unmeasured.
    pub fn new(shape: Shape, [nodes, nics]: [u32; 2], rate: Rate, hop_latency: Seconds) -> Self {
        let (failed, measured, routing) = (BTreeSet::new(), BTreeMap::new(), Routing::default());
        Network { shape, nodes, nics, rate, hop_latency, failed, measured, routing }
    }

    /// Appends the channels from one port to another, in order, for each of the equal parts in which a message goes, and
    /// returns how many there are. Ports of one node are joined without a network.
    ///
    /// # Errors
    /// Where every path has a failed link.
    pub fn path(&self, from: Port, to: Port, channels: &mut Vec<u64>) -> Result<u32, ClusterError> {
        self.path_around(from, to, &self.failed, channels)
    }

    /// Whether what goes from one port to another would take a failed link if that still worked.
    pub(crate) fn goes_round(&self, from: Port, to: Port) -> Result<bool, ClusterError> {
        let mut channels = Vec::new();
        if !self.failed.is_empty() {
            self.path_around(from, to, &BTreeSet::new(), &mut channels)?;
        }
        Ok(channels.iter().any(|channel| self.has_failed(*channel)))
    }

    fn path_around(
        &self,
        from: Port,
        to: Port,
        failed: &BTreeSet<u64>,
        channels: &mut Vec<u64>,
    ) -> Result<u32, ClusterError> {
        if from.node == to.node {
            return Ok(1);
        }
        let first = channels.len();
        let parts = match &self.shape {
            Shape::Torus(torus) => torus.path([from.node, to.node], self.routing, failed, channels),
            Shape::FatTree(tree) => tree.path(self.nics, [from, to], self.routing, failed, channels),
            Shape::Dragonfly(fly) => fly.path([self.number(from), self.number(to)], self.routing, failed, channels),
            Shape::Switch => {
                channels.extend([2 * self.number(from), 2 * self.number(to) + 1]);
                Some(1)
            }
            Shape::Explicit(links) => Some(links.path(from, to, failed, channels)?),
        };
        let broken = || channels[first..].iter().any(|channel| failed.contains(channel));
        parts.filter(|_| failed.is_empty() || !broken()).ok_or_else(|| {
            let [from, to] = [from, to].map(|port| port_name(self.nics, self.number(port)));
            ClusterError::Disconnected(from, format!("{to}: every path has a failed link"))
        })
    }

    /// The switch that a port hangs on, where paths from all ports there to one destination are the same after the first
    /// channel.
    pub(crate) fn leaf(&self, port: Port) -> Option<u64> {
        match &self.shape {
            // each pair of ports has a path of its own
            _ if matches!(self.routing, Routing::Ecmp(_)) => None,
            Shape::FatTree(tree) => Some(tree.leaf(self.nics, port)),
            Shape::Switch => Some(0),
            Shape::Torus(_) | Shape::Dragonfly(_) | Shape::Explicit(_) => None,
        }
    }

    /// The same number for channels that carry the same and are called the same but for numbers.
    pub(crate) fn kind(&self, channel: u64) -> u64 {
        /// Marks channels that are not like others of their kind.
        const UNLIKE: u64 = 1 << 61;
        if self.measured.contains_key(&channel) || self.has_failed(channel) || self.is_slowed(channel) {
            return channel | UNLIKE;
        }
        match &self.shape {
            Shape::FatTree(tree) => tree.kind(channel),
            Shape::Dragonfly(_) => channel % 8,
            Shape::Switch => channel % 2,
            Shape::Torus(_) => 0,
            Shape::Explicit(_) => channel,
        }
    }

    /// What a channel carries; all links that adaptive routing may choose from together.
    pub fn capacity(&self, channel: u64) -> Rate {
        if let Some(rate) = self.measured.get(&channel) {
            return *rate;
        }
        match &self.shape {
            Shape::FatTree(tree) => tree.links(channel).map_or(self.rate, |links| {
                let failed = tree.within(channel, &self.failed).count() as f64;
                let slow: Vec<&Rate> = tree.within(channel, self.measured.keys()).map(|c| &self.measured[c]).collect();
                let rest = (links as f64 - failed - slow.len() as f64).max(0.0);
                slow.into_iter().fold(self.rate * rest, |sum, rate| sum + *rate)
            }),
            Shape::Explicit(links) => links.rate(channel).unwrap_or(self.rate),
            Shape::Torus(_) | Shape::Dragonfly(_) | Shape::Switch => self.rate,
        }
    }

    /// By node the NICs all of whose links have failed. A torus has one card a node, with links that go round for each other.
    pub(crate) fn cut_off(&self) -> BTreeMap<u32, BTreeSet<u32>> {
        let mut lost: BTreeMap<[u32; 2], usize> = BTreeMap::new();
        for port in self.failed.iter().filter_map(|channel| self.port_of(*channel)) {
            *lost.entry([port.node, port.nic]).or_default() += 1;
        }
        let mut cut: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for ([node, nic], failed) in lost {
            let channels = match &self.shape {
                Shape::FatTree(tree) => 2 * tree.up[0] as usize,
                Shape::Explicit(links) => 2 * links.links_of(Port { node, nic }),
                Shape::Torus(_) | Shape::Dragonfly(_) | Shape::Switch => 2,
            };
            if failed == channels {
                cut.entry(node).or_default().insert(nic);
            }
        }
        cut
    }

    /// The port at one end of a channel, where that is an adapter's link to a switch.
    fn port_of(&self, channel: u64) -> Option<Port> {
        let number = match &self.shape {
            Shape::Torus(_) => None,
            Shape::FatTree(tree) => tree.port_of(self.nics, channel),
            Shape::Dragonfly(_) => (channel % 8 < 2).then_some(channel / 8),
            Shape::Switch => Some(channel / 2),
            Shape::Explicit(links) => {
                return links.ends(channel).iter().find_map(|(end, _)| match end {
                    End::Port(node, nic) => Some(Port { node: *node, nic: *nic }),
                    End::Switch(_) => None,
                });
            }
        }?;
        let nics = u64::from(self.nics.max(1));
        Some(Port { node: (number / nics) as u32, nic: (number % nics) as u32 })
    }

    fn has_failed(&self, channel: u64) -> bool {
        match &self.shape {
            Shape::FatTree(tree) if tree.links(channel).is_some() => {
                tree.within(channel, &self.failed).next().is_some()
            }
            _ => self.failed.contains(&channel),
        }
    }

    fn is_slowed(&self, channel: u64) -> bool {
        matches!(&self.shape, Shape::FatTree(tree) if tree.links(channel).is_some()
            && tree.within(channel, self.measured.keys()).next().is_some())
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

#[cfg(test)]
mod tests;
