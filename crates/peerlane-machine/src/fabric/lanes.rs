//! PCIe lanes offered and used, by each switch chip and by each CPU.

use super::graph::Fabric;
use super::node::{LinkKind, NodeId, NodeKind};

/// Who offers the lanes of a [`LaneBudget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneOwner {
    /// One switch chip, upstream port included.
    Switch,
    /// One CPU package.
    Cpu,
}

/// Lanes that something offers, and those that links in the fabric use of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneBudget {
    /// Who offers them.
    pub owner: LaneOwner,
    /// The node's name.
    pub name: String,
    /// Lanes offered.
    pub offered: u32,
    /// Lanes that running links use; a link whose width is not known counts for none.
    pub used: u32,
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
                let own = fabric.of_kind(NodeKind::RootComplex).filter(|rc| fabric.package(*rc) == Some(id));
                own.chain([id]).collect()
            }
            _ => vec![id],
        };
        let links = ports.iter().flat_map(|p| fabric.links_of(*p)).map(|(link, _)| &fabric.link(*link).kind);
        let lanes = links.filter_map(|kind| match kind {
            LinkKind::Pcie { running, .. } => running.lanes,
            _ => None,
        });
        budgets.push(LaneBudget { owner, name: node.name.clone(), offered, used: lanes.map(u32::from).sum() });
    }
    budgets
}
