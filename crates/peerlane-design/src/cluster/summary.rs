//! A cluster in a few lines, for lists.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::{Cluster, Network};

/// A cluster of the catalogue.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClusterSummary {
    /// The name to give `simulate` and `sweep` as TARGET.
    pub name: String,
    /// What it is.
    pub title: Option<String>,
    /// Citation.
    pub source: Option<String>,
    /// The system that each node is.
    pub node: String,
    /// How many nodes.
    pub nodes: u32,
    /// How many GPUs in all.
    pub gpus: usize,
    /// The network's shape in words.
    pub network: String,
    /// What a link of it carries one way, in Gb/s.
    pub link_rate: f64,
    /// What is assumed, in sentences.
    pub assumptions: Vec<String>,
    /// Further notes of the source.
    pub notes: Vec<String>,
}

impl ClusterSummary {
    /// Of a cluster.
    pub fn of(cluster: &Cluster) -> Self {
        let network = cluster.network.as_ref();
        ClusterSummary {
            name: cluster.name.clone(),
            title: cluster.title.clone(),
            source: cluster.source.clone(),
            node: cluster.node.name.clone(),
            nodes: cluster.nodes,
            gpus: cluster.gpus().len() * cluster.nodes as usize,
            network: network.map_or_else(|| "none".to_owned(), Network::words),
            link_rate: network.map_or(0.0, |n| n.rate.gb() * 8.0),
            assumptions: cluster.assumptions.clone(),
            notes: cluster.notes.clone(),
        }
    }
}
