//! PCIe lanes offered and used: by the slots of a board, by each switch chip, by each CPU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::graph::Fabric;
use super::node::{LinkKind, NodeId, NodeKind};

/// Who offers the lanes of a [`LaneBudget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LaneOwner {
    /// All slots of a board together, as wired.
    Slots,
    /// One switch chip, upstream port included.
    Switch,
    /// One CPU package.
    Cpu,
}

/// Lanes that something offers, and those that links in the fabric use of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaneBudget {
    /// Who offers them.
    pub owner: LaneOwner,
    /// The node's name, or `slots`.
    pub name: String,
    /// Lanes offered.
    pub offered: u32,
    /// Lanes that running links use.
    pub used: u32,
    /// Links whose width is not known, left out of `used`.
    pub unknown_links: u32,
}

/// The budgets of every switch and CPU whose part has a known number of lanes.
pub fn lane_budgets(fabric: &Fabric, lanes_of: impl Fn(NodeId) -> Option<u32>) -> Vec<LaneBudget> {
    let mut budgets = Vec::new();
    for id in fabric.ids() {
        let node = fabric.node(id);
        let owner = match node.kind {
            NodeKind::Switch => LaneOwner::Switch,
            NodeKind::Cpu => LaneOwner::Cpu,
            _ => continue,
        };
        let Some(offered) = lanes_of(id) else { continue };
        let ports: Vec<NodeId> = match owner {
            LaneOwner::Cpu => {
                fabric.of_kind(NodeKind::RootComplex).filter(|rc| fabric.package(*rc) == Some(id)).collect()
            }
            _ => vec![id],
        };
        let widths =
            ports.iter().flat_map(|p| fabric.links_of(*p)).filter_map(|(link, _)| match fabric.link(*link).kind {
                LinkKind::Pcie { running, .. } => Some(running.lanes),
                _ => None,
            });
        let (mut used, mut unknown_links) = (0, 0);
        for lanes in widths {
            match lanes {
                Some(lanes) => used += u32::from(lanes),
                None => unknown_links += 1,
            }
        }
        budgets.push(LaneBudget { owner, name: node.name.clone(), offered, used, unknown_links });
    }
    budgets
}
