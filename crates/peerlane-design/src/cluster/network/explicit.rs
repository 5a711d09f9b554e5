//! A network that is a list of links, with shortest paths.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::super::ClusterError;
use super::Port;
use peerlane_machine::units::Rate;

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// A NIC's port.
    Port(u32, u32),
    /// A switch of this name.
    Switch(String),
}

/// The links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explicit {
    ends: Vec<(End, String)>,
    by_end: HashMap<End, usize>,
    /// Both ends and rate of each; channels are twice the number, plus 1 towards the first end.
    links: Vec<(usize, usize, Option<Rate>)>,
    adjacent: Vec<Vec<(usize, u64)>>,
}

impl Explicit {
    /// Adds a link; `names` are what its ends are called.
    pub fn link(&mut self, ends: [End; 2], names: [&str; 2], rate: Option<Rate>) -> Result<(), ClusterError> {
        let [a, b] = ends;
        if a == b {
            return Err(ClusterError::Network(format!("a link joins '{}' to itself", names[0])));
        }
        let [a, b] = [(a, names[0]), (b, names[1])].map(|(end, name)| {
            let next = self.ends.len();
            let known = *self.by_end.entry(end.clone()).or_insert(next);
            if known == next {
                self.ends.push((end, name.to_owned()));
                self.adjacent.push(Vec::new());
            }
            known
        });
        let channel = 2 * self.links.len() as u64;
        self.adjacent[a].push((b, channel));
        self.adjacent[b].push((a, channel + 1));
        self.links.push((a, b, rate));
        Ok(())
    }

    /// The fewest links; of several paths the one that was written first. Only switches pass on what is not theirs.
    pub(super) fn path(
        &self,
        from: Port,
        to: Port,
        failed: &BTreeSet<u64>,
        channels: &mut Vec<u64>,
    ) -> Result<u32, ClusterError> {
        let find = |port: Port| {
            let known = self.by_end.get(&End::Port(port.node, port.nic)).copied();
            known.ok_or_else(|| {
                ClusterError::Disconnected(format!("node{} port{}", port.node, port.nic), "any link".into())
            })
        };
        let (start, goal) = (find(from)?, find(to)?);
        let mut came: Vec<Option<(usize, u64)>> = vec![None; self.ends.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            if at == goal {
                break;
            }
            if at != start && matches!(self.ends[at].0, End::Port(..)) {
                continue;
            }
            for &(next, channel) in &self.adjacent[at] {
                if next != start && came[next].is_none() && !failed.contains(&channel) {
                    came[next] = Some((at, channel));
                    queue.push_back(next);
                }
            }
        }
        let first = channels.len();
        let mut at = goal;
        while at != start {
            let Some((before, channel)) = came[at] else {
                return Err(ClusterError::Disconnected(self.ends[start].1.clone(), self.ends[goal].1.clone()));
            };
            channels.push(channel);
            at = before;
        }
        channels[first..].reverse();
        Ok(1)
    }

    /// How many links a port has.
    pub(super) fn links_of(&self, port: Port) -> usize {
        self.by_end.get(&End::Port(port.node, port.nic)).map_or(0, |end| self.adjacent[*end].len())
    }

    /// All links, both ways.
    pub(super) fn channels(&self) -> impl Iterator<Item = u64> + use<> {
        0..2 * self.links.len() as u64
    }

    pub(super) fn rate(&self, channel: u64) -> Option<Rate> {
        self.links.get((channel / 2) as usize)?.2
    }

    pub(super) fn ends(&self, channel: u64) -> [&(End, String); 2] {
        let (a, b, _) = self.links[(channel / 2) as usize];
        let [from, to] = if channel.is_multiple_of(2) { [a, b] } else { [b, a] };
        [&self.ends[from], &self.ends[to]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_way_over_switches() {
        let mut net = Explicit::default();
        let switch = |s: &str| End::Switch(s.to_owned());
        let rate = Some(Rate::from_gbit(10.0));
        net.link([End::Port(0, 0), switch("s0")], ["node0", "s0"], None).unwrap();
        net.link([End::Port(1, 0), switch("s1")], ["node1", "s1"], None).unwrap();
        net.link([switch("s0"), switch("s1")], ["s0", "s1"], rate).unwrap();
        net.link([End::Port(2, 0), End::Port(3, 0)], ["node2", "node3"], None).unwrap();
        let port = |node| Port { node, nic: 0 };
        let mut channels = Vec::new();
        net.path(port(0), port(1), &BTreeSet::new(), &mut channels).unwrap();
        let names: Vec<_> = channels.iter().map(|c| net.ends(*c).map(|(_, name)| name.as_str()).join(" to ")).collect();
        assert_eq!(names, ["node0 to s0", "s0 to s1", "s1 to node1"]);
        assert_eq!(channels.iter().map(|c| net.rate(*c)).collect::<Vec<_>>(), [None, rate, None]);
        assert!(matches!(
            net.path(port(0), port(2), &BTreeSet::new(), &mut channels),
            Err(ClusterError::Disconnected(..))
        ));
        assert!(matches!(
            net.path(port(0), port(9), &BTreeSet::new(), &mut channels),
            Err(ClusterError::Disconnected(..))
        ));
        assert!(net.link([switch("s0"), switch("s0")], ["s0", "s0"], None).is_err());
    }
}
