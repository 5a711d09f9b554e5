//! Faults of a simulated cluster, as written on a command line.

use std::fmt;
use std::str::FromStr;

use crate::cluster::Cluster;

/// A part of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A node: `node7`.
    Node(usize),
    /// A NIC of a node: `node7/mlx5_3`.
    Nic(usize, String),
}

/// Something that is wrong with a cluster. Shares are what is left of a rate.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterFault {
    /// Everything that a node sends or receives is slow: `slow-node:node7:0.5`.
    SlowNode(usize, f64),
    /// A NIC is slow, its loopback too: `slow-nic:node7/mlx5_3:0.5`.
    SlowNic(usize, String, f64),
    /// What goes through a NIC's cable is slow: `slow-cable:node7/mlx5_3:0.5`.
    SlowCable(usize, String, f64),
    /// A node or a NIC sends slowly and receives as fast as ever: `one-way:node7:0.5`.
    OneWay(Part, f64),
    /// Two nodes reach each other slowly, both ways: `slow-path:node7-node12:0.5`.
    SlowPath(usize, usize, f64),
    /// All links of a switch are slow: `slow-switch:leaf3:0.5`.
    SlowSwitch(String, f64),
    /// A link between two switches is slow, both ways: `slow-link:leaf3-spine1:0.5`.
    SlowLink(String, String, f64),
    /// A node no longer answers after so many rounds: `lost-node:node7:5`.
    LostNode(usize, usize),
    /// What a node or a NIC receives is changed: `corrupt:node7`.
    Corrupt(Part),
    /// A NIC sits in a slot far from the GPUs that it serves: `far-nic:node7/mlx5_3`.
    FarNic(usize, String),
    /// In each step so many packets are lost that a NIC sends: `loses-out:node7/mlx5_3:100`.
    LosesOut(usize, String, u64),
    /// The same of those that it receives: `loses-in:node7/mlx5_3:100`.
    LosesIn(usize, String, u64),
    /// The adapters of a node take no GPU memory, and NCCL has so much of its rate: `no-gpudirect:node7:0.4`.
    NoGpuDirect(usize, f64),
    /// What a NIC reads from GPUs and writes to them is slow, and host memory as fast as ever: `slow-nic-gpu:node7/mlx5_3:0.5`.
    SlowNicGpu(usize, String, f64),
    /// What joins the GPUs of a node is slow, and with it each all-reduce of all of them: `slow-gpus:node7:0.5`.
    SlowGpus(usize, f64),
}

/// What may be written for a fault.
pub const FAULTS: &str = "slow-node:NODE:SHARE, slow-nic:NODE/NIC:SHARE, slow-cable:NODE/NIC:SHARE, one-way:NODE[/NIC]:SHARE, \
    slow-path:NODE-NODE:SHARE, slow-switch:SWITCH:SHARE, slow-link:SWITCH-SWITCH:SHARE, lost-node:NODE[:ROUNDS], \
    corrupt:NODE[/NIC], far-nic:NODE/NIC, loses-out:NODE/NIC:PACKETS, loses-in:NODE/NIC:PACKETS, no-gpudirect:NODE:SHARE, \
    slow-nic-gpu:NODE/NIC:SHARE or slow-gpus:NODE:SHARE";

/// Rounds that a lost node answers where no number is given.
const ROUNDS: usize = 5;

/// A text that is no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}': {why}; write {FAULTS}")]
pub struct NoFault {
    text: String,
    why: String,
}

impl FromStr for ClusterFault {
    type Err = NoFault;

    fn from_str(text: &str) -> Result<Self, NoFault> {
        let refuse = |why: String| NoFault { text: text.to_owned(), why };
        let mut words = text.split(':');
        let (kind, at, amount) = (words.next().unwrap_or_default(), words.next().unwrap_or_default(), words.next());
        if words.next().is_some() {
            return Err(refuse("too many colons".to_owned()));
        }
        let number = |name: &str| {
            let digits = name.strip_prefix("node").and_then(|digits| digits.parse::<u32>().ok());
            digits.map(|n| n as usize).ok_or_else(|| refuse(format!("'{name}' is no node, as node7")))
        };
        let part = || match at.split_once('/') {
            Some((node, nic)) => Ok(Part::Nic(number(node)?, nic.to_owned())),
            None => number(at).map(Part::Node),
        };
        let nic = || match part()? {
            Part::Nic(node, nic) => Ok((node, nic)),
            Part::Node(_) => Err(refuse(format!("'{at}' is no NIC, as node7/mlx5_0"))),
        };
        let two = || at.split_once('-').ok_or_else(|| refuse(format!("'{at}' are not two names with a hyphen")));
        let share = || {
            let share =
                amount.and_then(|amount| amount.parse::<f64>().ok()).filter(|share| *share > 0.0 && *share < 1.0);
            share.ok_or_else(|| refuse("the share that is left is a number above 0 and below 1".to_owned()))
        };
        let packets = || {
            let packets = amount.and_then(|amount| amount.parse::<u32>().ok()).filter(|packets| *packets > 0);
            packets
                .map(u64::from)
                .ok_or_else(|| refuse("the packets that are lost are a whole number above 0".to_owned()))
        };
        match kind {
            "slow-node" => Ok(Self::SlowNode(number(at)?, share()?)),
            "slow-nic" => nic().and_then(|(node, nic)| Ok(Self::SlowNic(node, nic, share()?))),
            "slow-cable" => nic().and_then(|(node, nic)| Ok(Self::SlowCable(node, nic, share()?))),
            "one-way" => Ok(Self::OneWay(part()?, share()?)),
            "slow-path" => {
                let (a, b) = two()?;
                Ok(Self::SlowPath(number(a)?, number(b)?, share()?))
            }
            "slow-switch" => Ok(Self::SlowSwitch(at.to_owned(), share()?)),
            "slow-link" => {
                let (a, b) = two()?;
                Ok(Self::SlowLink(a.to_owned(), b.to_owned(), share()?))
            }
            "lost-node" => {
                let rounds = amount.map_or(Ok(ROUNDS), |rounds| {
                    rounds.parse().map_err(|_| refuse(format!("'{rounds}' is no number of rounds")))
                });
                Ok(Self::LostNode(number(at)?, rounds?))
            }
            "corrupt" if amount.is_none() => part().map(Self::Corrupt),
            "loses-out" => nic().and_then(|(node, nic)| Ok(Self::LosesOut(node, nic, packets()?))),
            "loses-in" => nic().and_then(|(node, nic)| Ok(Self::LosesIn(node, nic, packets()?))),
            "slow-gpus" => Ok(Self::SlowGpus(number(at)?, share()?)),
            "no-gpudirect" => Ok(Self::NoGpuDirect(number(at)?, share()?)),
            "slow-nic-gpu" => nic().and_then(|(node, nic)| Ok(Self::SlowNicGpu(node, nic, share()?))),
            "far-nic" if amount.is_none() => nic().map(|(node, nic)| Self::FarNic(node, nic)),
            "corrupt" | "far-nic" => Err(refuse(format!("{kind} has no share"))),
            _ => Err(refuse("no such fault".to_owned())),
        }
    }
}

impl fmt::Display for ClusterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SlowNode(node, share) => write!(f, "slow-node:node{node}:{share}"),
            Self::SlowNic(node, nic, share) => write!(f, "slow-nic:node{node}/{nic}:{share}"),
            Self::SlowCable(node, nic, share) => write!(f, "slow-cable:node{node}/{nic}:{share}"),
            Self::OneWay(part, share) => write!(f, "one-way:{part}:{share}"),
            Self::SlowPath(a, b, share) => write!(f, "slow-path:node{a}-node{b}:{share}"),
            Self::SlowSwitch(switch, share) => write!(f, "slow-switch:{switch}:{share}"),
            Self::SlowLink(a, b, share) => write!(f, "slow-link:{a}-{b}:{share}"),
            Self::LostNode(node, rounds) => write!(f, "lost-node:node{node}:{rounds}"),
            Self::Corrupt(part) => write!(f, "corrupt:{part}"),
            Self::FarNic(node, nic) => write!(f, "far-nic:node{node}/{nic}"),
            Self::LosesOut(node, nic, packets) => write!(f, "loses-out:node{node}/{nic}:{packets}"),
            Self::LosesIn(node, nic, packets) => write!(f, "loses-in:node{node}/{nic}:{packets}"),
            Self::SlowGpus(node, share) => write!(f, "slow-gpus:node{node}:{share}"),
            Self::NoGpuDirect(node, share) => write!(f, "no-gpudirect:node{node}:{share}"),
            Self::SlowNicGpu(node, nic, share) => write!(f, "slow-nic-gpu:node{node}/{nic}:{share}"),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Node(node) => write!(f, "node{node}"),
            Part::Nic(node, nic) => write!(f, "node{node}/{nic}"),
        }
    }
}

impl ClusterFault {
    /// Refuses a fault of a node or NIC that the cluster lacks. Switches are known when paths are.
    pub(super) fn fits(&self, cluster: &Cluster) -> Result<(), String> {
        let (nodes, nics): (Vec<usize>, Vec<&str>) = match self {
            Self::SlowNode(node, _)
            | Self::LostNode(node, _)
            | Self::NoGpuDirect(node, _)
            | Self::SlowGpus(node, _) => (vec![*node], vec![]),
            Self::SlowNic(node, nic, _) | Self::SlowCable(node, nic, _) | Self::FarNic(node, nic) => {
                (vec![*node], vec![nic])
            }
            Self::LosesOut(node, nic, _) | Self::LosesIn(node, nic, _) | Self::SlowNicGpu(node, nic, _) => {
                (vec![*node], vec![nic])
            }
            Self::OneWay(part, _) | Self::Corrupt(part) => match part {
                Part::Node(node) => (vec![*node], vec![]),
                Part::Nic(node, nic) => (vec![*node], vec![nic]),
            },
            Self::SlowPath(a, b, _) => (vec![*a, *b], vec![]),
            Self::SlowSwitch(..) | Self::SlowLink(..) => (vec![], vec![]),
        };
        if let Some(node) = nodes.iter().find(|node| **node >= cluster.nodes as usize) {
            return Err(format!(
                "{self}: {} has no node{node}; its nodes are node0 to node{}",
                cluster.name,
                cluster.nodes - 1
            ));
        }
        let names: Vec<&str> = cluster.nics.iter().map(|nic| cluster.node.fabric.node(*nic).name.as_str()).collect();
        let is_nic = |nic: &&&str| !names.contains(*nic);
        match nics.iter().find(is_nic) {
            Some(nic) => {
                Err(format!("{self}: the nodes of {} have no NIC {nic}, but {}", cluster.name, names.join(", ")))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_comes_back() {
        let all = "slow-node:node7:0.5 slow-nic:node7/mlx5_3:0.5 slow-cable:node7/mlx5_3:0.25 one-way:node7:0.3 \
                   one-way:node7/mlx5_0:0.3 slow-path:node1-node2:0.5 slow-switch:leaf3:0.5 slow-link:leaf3-spine1:0.5 \
                   lost-node:node3:7 corrupt:node3 corrupt:node3/mlx5_1 far-nic:node3/mlx5_1 \
                   loses-out:node3/mlx5_1:100 loses-in:node3/mlx5_1:9 no-gpudirect:node2:0.4 slow-gpus:node2:0.4 \
                   slow-nic-gpu:node2/mlx5_1:0.6";
        for text in all.split_whitespace() {
            assert_eq!(text.parse::<ClusterFault>().unwrap().to_string(), text);
        }
        assert_eq!("lost-node:node3".parse(), Ok(ClusterFault::LostNode(3, ROUNDS)));
        assert_eq!("slow-node:node07:0.5".parse(), Ok(ClusterFault::SlowNode(7, 0.5)));
    }

    #[test]
    fn what_is_no_fault_is_refused_with_what_to_write() {
        for text in [
            "",
            "slow",
            "slow-node",
            "slow-node:node7",
            "slow-node:seven:0.5",
            "slow-node:node7:0",
            "slow-node:node7:1",
            "slow-node:node7:nan",
            "slow-nic:node7:0.5",
            "slow-path:node1:0.5",
            "corrupt:node1:0.5",
            "far-nic:node1",
            "loses-in:node1/mlx5_0:0",
            "loses-out:node1:5",
            "no-gpudirect:node1",
            "far-nic:node1/mlx5_0:0.5",
            "lost-node:node1:x",
            "slow-node:node7:0.5:1",
        ] {
            let refused = text.parse::<ClusterFault>().unwrap_err().to_string();
            assert!(refused.contains("slow-path:NODE-NODE:SHARE"), "{refused}");
        }
    }
}
