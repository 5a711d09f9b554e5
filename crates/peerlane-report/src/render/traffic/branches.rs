//! The rows of the picture: CPUs, switches, GPUs and adapters in the order of the PCIe tree.

use peerlane::fabric::{Fabric, NodeId, NodeKind};

/// Deeper trees are cut; real ones have fewer than ten levels.
const DEEPEST: usize = 32;

/// A row, and what is drawn before it.
pub(super) struct Row {
    pub(super) node: NodeId,
    /// Before its own line.
    pub(super) lead: String,
    /// Before further lines of it.
    pub(super) below: String,
}

struct Branch {
    node: NodeId,
    below: Vec<Branch>,
}

/// All rows of a machine.
pub(super) fn rows(fabric: &Fabric) -> Vec<Row> {
    let tops = fabric.ids().filter(|id| fabric.upstream(*id).is_none() && fabric.node(*id).kind != NodeKind::Cpu);
    let mut packages: Vec<Branch> =
        fabric.of_kind(NodeKind::Cpu).map(|cpu| Branch { node: cpu, below: branches(fabric, cpu, 0) }).collect();
    let mut apart = Vec::new();
    for top in tops {
        let own = match shows(fabric, top) {
            true => vec![Branch { node: top, below: branches(fabric, top, 0) }],
            false => branches(fabric, top, 0),
        };
        match packages.iter_mut().find(|branch| fabric.package(top) == Some(branch.node)) {
            Some(package) => package.below.extend(own),
            None => apart.extend(own),
        }
    }
    packages.retain(|package| !package.below.is_empty());
    packages.extend(apart);
    let mut rows = Vec::new();
    for branch in &packages {
        add(branch, String::new(), String::new(), &mut rows);
    }
    rows
}

fn shows(fabric: &Fabric, node: NodeId) -> bool {
    matches!(fabric.node(node).kind, NodeKind::Gpu | NodeKind::Nic)
}

/// What is shown below a node.
fn branches(fabric: &Fabric, node: NodeId, depth: usize) -> Vec<Branch> {
    if depth > DEEPEST {
        return Vec::new();
    }
    let mut all = Vec::new();
    for (_, child) in fabric.downstream(node) {
        let below = branches(fabric, child, depth + 1);
        match fabric.node(child).kind {
            NodeKind::Gpu | NodeKind::Nic => all.push(Branch { node: child, below }),
            NodeKind::Switch if !below.is_empty() => all.push(Branch { node: child, below }),
            _ => all.extend(below),
        }
    }
    all
}

fn add(branch: &Branch, lead: String, below: String, rows: &mut Vec<Row>) {
    let inner = if branch.below.is_empty() { "  " } else { "│ " };
    rows.push(Row { node: branch.node, lead, below: format!("{below}{inner}") });
    let last = branch.below.len().saturating_sub(1);
    for (i, child) in branch.below.iter().enumerate() {
        let (own, further) = if i == last { ("└ ", "  ") } else { ("├ ", "│ ") };
        add(child, format!("{below}{own}"), format!("{below}{further}"), rows);
    }
}
