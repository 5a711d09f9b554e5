//! Clusters: many nodes of one kind, and the network between them.
//!
//! A node is a [`Machine`] like any other; its NICs sit in its fabric, so that the path from a GPU to its NIC counts.
//! The network is implicit ([`network`]). [`Router`] turns a transfer between any two GPUs into what it uses of both.
//! Names are `node3/GPU0`. A single machine is a cluster of one node, whose names are its own.

mod file;
mod names;
pub mod network;
pub(crate) mod paths;
pub(crate) mod rings;
mod router;
mod summary;

use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::machine::Machine;
use peerlane_machine::machine::lookup::LookupError;
use peerlane_machine::units::{Rate, Seconds};
use peerlane_model::model::nccl;
use peerlane_read::catalogue::Parts;

pub use file::{cluster_names, cluster_text, embedded, looks_like_cluster, read_cluster};
pub use names::{Component, alike};
pub use network::{Network, Routing, Wanted};
pub use router::{ClusterRoute, Place, Router, Via};
pub(crate) use router::{share_of, shares};
pub use summary::ClusterSummary;

/// Why there is no such cluster.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClusterError {
    /// The file is invalid.
    #[error("cluster {file}: {message}")]
    File {
        /// Which file.
        file: String,
        /// What is wrong, on which line, and what to write instead.
        message: String,
    },
    /// The network is impossible.
    #[error("network: {0}")]
    Network(String),
    /// The nodes have no NIC that could be at a network.
    #[error("{0} has no NIC that can do RDMA, which a network needs; add one to its system file")]
    NoNic(String),
    /// Nothing joins the two.
    #[error("nothing joins {0} and {1}")]
    Disconnected(String, String),
    /// A name that nothing has.
    #[error("'{0}' is no GPU of {1}")]
    Unknown(String, String),
    /// The same of a node's device.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The model has no rate for a path.
    #[error("{0}")]
    Model(String),
    /// A resource that carries nothing.
    #[error("{0} carries nothing: its rate is {1}")]
    Capacity(String, Rate),
}

/// Times that do not depend on bytes. Copies by engines within a node have those of the model
/// ([`Startup`](peerlane_machine::copy_time::Startup)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// A message from GPU to GPU over NVLink or a like fabric.
    pub nvlink: Seconds,
    /// One over PCIe.
    pub pcie: Seconds,
    /// One staged through host memory.
    pub staged: Seconds,
    /// One between nodes, but for its hops; `None` where it takes the stages of both adapters
    /// ([`Message`](peerlane_model::model::rdma::Message)), and engines move its bytes as these do.
    pub network: Option<Seconds>,
    /// By what the stages of adapters, and the start-ups of copies by engines, are multiplied.
    pub stages: f64,
}

impl Latencies {
    /// NCCL's own: 0.6, 1.0 and 2.7 µs a step of its protocol for short messages (`src/graph/tuning.cc`, 2.19); staged
    /// copies wait for both stages, 12.6 µs more than none (Exxact 2016, the traditional server's latencies).
    pub const NCCL: Latencies = Latencies {
        nvlink: Seconds::from_us(nccl::STEP_US[0]),
        pcie: Seconds::from_us(nccl::STEP_US[1]),
        staged: Seconds::from_us(12.6),
        network: Some(Seconds::from_us(nccl::STEP_US[2])),
        stages: 1.0,
    };
}

/// Nodes of one kind, and what joins them.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Short name.
    pub name: String,
    /// What it is, in a line.
    pub title: Option<String>,
    /// Citation.
    pub source: Option<String>,
    /// What each node is.
    pub node: Machine,
    /// How many there are.
    pub nodes: u32,
    /// How many nodes, and how many GPUs of each, take part in what is done; the first ones.
    pub taking: (u32, usize),
    /// The GPUs of a node that take part, where they are not simply the first ones.
    pub only: Vec<NodeId>,
    /// The network; `None` for a single machine.
    pub network: Option<Network>,
    /// A node's NICs that are at the network.
    pub nics: Vec<NodeId>,
    /// Times that do not depend on bytes.
    pub latencies: Latencies,
    /// What is assumed, in sentences.
    pub assumptions: Vec<String>,
    /// Further notes of the source.
    pub notes: Vec<String>,
}

impl Cluster {
    /// One machine.
    pub fn single(machine: Machine) -> Self {
        Cluster {
            name: machine.name.clone(),
            title: machine.title.clone(),
            source: machine.source.clone(),
            node: machine,
            nodes: 1,
            taking: (u32::MAX, usize::MAX),
            only: Vec::new(),
            network: None,
            nics: Vec::new(),
            latencies: Latencies::NCCL,
            assumptions: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// So many such machines. A link carries `rate`, or what the NICs' line does where that is `None`.
    pub fn of(
        machine: Machine,
        nodes: u32,
        wanted: &Wanted,
        rate: Option<Rate>,
        hop_latency: Seconds,
    ) -> Result<Self, ClusterError> {
        if nodes == 0 {
            return Err(ClusterError::Network("a cluster has at least one node".to_owned()));
        }
        let nics = network_nics(&machine, matches!(wanted, Wanted::Torus(_)))?;
        let (shape, assumptions) = wanted.shape(nodes, nics.len() as u32)?;
        let rate = rate.map_or_else(|| line_rate(&machine, nics[0]), Ok)?;
        let network = Network::new(shape, [nodes, nics.len() as u32], rate, hop_latency);
        let name = format!("{nodes} × {}, {wanted}", machine.name);
        let mut cluster =
            Cluster { name, nodes, nics, network: Some(network), assumptions, ..Cluster::single(machine) };
        cluster.title = None;
        Ok(cluster)
    }

    /// The same with all times that do not depend on bytes multiplied.
    pub fn with_latencies(&self, factor: f64) -> Self {
        let times = |t: Seconds| Seconds::new(t.seconds() * factor);
        let Latencies { nvlink, pcie, staged, network, stages } = self.latencies;
        let mut cluster = self.clone();
        cluster.latencies = Latencies {
            nvlink: times(nvlink),
            pcie: times(pcie),
            staged: times(staged),
            network: network.map(times),
            stages: stages * factor,
        };
        if let Some(network) = &mut cluster.network {
            network.hop_latency = times(network.hop_latency);
        }
        cluster
    }

    /// The same of other nodes, which must have the NICs that are at the network.
    pub fn with_node(mut self, node: Machine) -> Result<Self, ClusterError> {
        let name = |nic: &NodeId| self.node.fabric.node(*nic).name.as_str();
        let nics = self.nics.iter().map(|nic| node.fabric.find(name(nic)));
        self.nics = nics.collect::<Option<_>>().ok_or_else(|| ClusterError::NoNic(node.name.clone()))?;
        self.assumptions.extend(node.assumptions.iter().filter(|a| !self.node.assumptions.contains(a)).cloned());
        self.node = node;
        Ok(self)
    }

    /// Takes out a link, switch, node or adapter ([`Network::fail`]; adapters also as `node5/mlx5_1`).
    ///
    /// # Errors
    /// Where there is no network, or nothing is called so.
    pub fn fail(&mut self, what: &str) -> Result<(), ClusterError> {
        let name = self.at_network(what);
        self.joined(what)?.fail(&name)
    }

    /// Makes the same carry only this share of what it does.
    ///
    /// # Errors
    /// As of [`fail`](Self::fail), and where the share is not above 0 and at most 1.
    pub fn slow(&mut self, what: &str, share: f64) -> Result<(), ClusterError> {
        let name = self.at_network(what);
        self.joined(what)?.slow(&name, share)
    }

    fn joined(&mut self, what: &str) -> Result<&mut Network, ClusterError> {
        let refuse = || ClusterError::Network(format!("{} has no network, so there is no '{what}'", self.name));
        self.network.as_mut().ok_or_else(refuse)
    }

    /// What the network calls an adapter; other names as they are.
    fn at_network(&self, what: &str) -> String {
        let named = |nic: &str| self.nics.iter().position(|id| self.node.fabric.node(*id).name == nic);
        match what.split_once('/').and_then(|(node, nic)| Some((node, named(nic)?))) {
            Some((node, _)) if self.nics.len() == 1 => node.to_owned(),
            Some((node, port)) => format!("{node} port{port}"),
            None => what.to_owned(),
        }
    }

    /// How many nodes take part.
    pub fn nodes_in_use(&self) -> u32 {
        self.taking.0.min(self.nodes)
    }

    /// A node's GPUs that take part, in order.
    pub fn gpus(&self) -> Vec<NodeId> {
        let takes_part = |gpu: &NodeId| self.only.is_empty() || self.only.contains(gpu);
        self.node.fabric.of_kind(NodeKind::Gpu).filter(takes_part).take(self.taking.1).collect()
    }

    /// `node3/GPU0`, or `GPU0` of a single machine.
    pub fn name_of(&self, place: Place) -> String {
        let name = &self.node.fabric.node(place.device).name;
        if self.network.is_none() { name.clone() } else { format!("node{}/{name}", place.node) }
    }

    /// The GPU or host memory of that name.
    pub fn find(&self, name: &str) -> Result<Place, ClusterError> {
        let unknown = || ClusterError::Unknown(name.to_owned(), self.name.clone());
        let (node, device) = match (name.split_once('/'), &self.network) {
            (Some((node, device)), Some(_)) => {
                let node = node.strip_prefix("node").and_then(|n| n.parse::<u32>().ok());
                (node.filter(|n| *n < self.nodes).ok_or_else(unknown)?, device)
            }
            (None, None) => (0, name),
            _ => return Err(unknown()),
        };
        let wanted = |kind| matches!(kind, NodeKind::Gpu | NodeKind::Host);
        let device = self.node.lookup_any(device, wanted)?;
        Ok(Place { node, device })
    }

    /// Every GPU that takes part, node by node.
    pub fn places(&self) -> Vec<Place> {
        let gpus = self.gpus();
        (0..self.nodes_in_use()).flat_map(|node| gpus.iter().map(move |&device| Place { node, device })).collect()
    }
}

/// NICs that can be at a network: all that can do RDMA; at a torus the first, whose links it is.
fn network_nics(machine: &Machine, torus: bool) -> Result<Vec<NodeId>, ClusterError> {
    let fabric = &machine.fabric;
    let mut nics: Vec<NodeId> =
        fabric.of_kind(NodeKind::Nic).filter(|nic| fabric.node(*nic).rdma != Some(false)).collect();
    if torus {
        nics.truncate(1);
    }
    if nics.is_empty() { Err(ClusterError::NoNic(machine.name.clone())) } else { Ok(nics) }
}

/// What a NIC's line carries, as the model has it.
fn line_rate(machine: &Machine, nic: NodeId) -> Result<Rate, ClusterError> {
    let model = peerlane_model::model::Model::new(machine, Parts::embedded());
    model.line_rate(nic).ok_or_else(|| {
        let name = &machine.fabric.node(nic).name;
        ClusterError::Network(format!("the line rate of {name} is not known; give the rate of the network's links"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_read::catalogue::system;

    /// Nodes with eight GPUs and eight NICs, on rails.
    pub(super) fn hgx(nodes: u32) -> Cluster {
        let wanted: Wanted = "rail".parse().unwrap();
        Cluster::of(system("hgx-h200").unwrap().unwrap(), nodes, &wanted, None, Seconds::from_us(0.3)).unwrap()
    }

    #[test]
    fn names_that_are_not_there() {
        let cluster = hgx(4);
        for name in ["node4/GPU0", "node0/GPU8", "node0/sw0", "GPU0", "nodex/GPU0", "node0/mlx5_0"] {
            let refused = cluster.find(name);
            assert!(matches!(refused, Err(ClusterError::Unknown(..) | ClusterError::Lookup(_))), "{name}");
        }
        let single = Cluster::single(system("exxact-devbox").unwrap().unwrap());
        assert!(single.find("GPU3").is_ok() && single.find("node0/GPU3").is_err());
    }

    #[test]
    fn a_machine_without_a_nic_is_no_cluster() {
        let machine = system("exxact-devbox").unwrap().unwrap();
        let got = Cluster::of(machine, 2, &Wanted::Switch, None, Seconds::new(0.0));
        assert!(matches!(got, Err(ClusterError::NoNic(_))));
    }
}
