//! The graph itself, its builder, and the index that makes queries quick.

use std::collections::HashMap;

use super::node::{Link, LinkId, LinkKind, Node, NodeId, NodeKind};

/// One machine's nodes and links, checked and indexed.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    nodes: Vec<Node>,
    links: Vec<Link>,
    by_name: HashMap<String, NodeId>,
    adjacent: Vec<Vec<(LinkId, NodeId)>>,
    /// Towards the root complex, along the PCIe tree.
    upstream: Vec<Option<(LinkId, NodeId)>>,
    /// Distance to the top of the PCIe tree.
    depth: Vec<u32>,
    /// Pairs of devices whose path is unknown although both have a place: a row of bits for each node, the lower of the two; none
    /// where there are no such pairs.
    unknown_paths: Vec<u64>,
}

/// Why nodes and links make no fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// Two nodes answer to one name.
    #[error("two nodes are called '{0}'; names and aliases must be unique")]
    DuplicateName(String),
    /// A link joins a node to itself.
    #[error("a link joins '{0}' to itself")]
    SelfLink(String),
    /// The PCIe links form no forest.
    #[error("'{0}' has two paths up the PCIe tree (to '{1}' and to '{2}'); a device hangs below one port")]
    TwoParents(String, String, String),
}

/// Collects nodes and links; [`FabricBuilder::build`] checks and indexes them.
#[derive(Clone, Debug, Default)]
pub struct FabricBuilder {
    nodes: Vec<Node>,
    links: Vec<Link>,
    by_name: HashMap<String, NodeId>,
    /// The number that [`FabricBuilder::fresh_name`] tries next, by stem.
    next: HashMap<String, u32>,
}

impl FabricBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node.
    pub fn node(&mut self, node: Node) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        for name in std::iter::once(&node.name).chain(&node.aliases) {
            self.by_name.entry(name.clone()).or_insert(id);
        }
        self.nodes.push(node);
        id
    }

    /// Adds a link.
    pub fn link(&mut self, link: Link) -> LinkId {
        self.links.push(link);
        LinkId(self.links.len() as u32 - 1)
    }

    /// A node already added; [`FabricBuilder::find`] goes on by the names that it was added with.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// A link already added.
    pub fn link_mut(&mut self, id: LinkId) -> &mut Link {
        &mut self.links[id.index()]
    }

    /// The nodes so far.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The links so far.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The node of that name, if added.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// A name of this kind that no node has yet: `switch0`, `switch1` …
    pub fn fresh_name(&mut self, stem: &str) -> String {
        let next = self.next.entry(stem.to_owned()).or_default();
        loop {
            let name = format!("{stem}{next}");
            *next += 1;
            if !self.by_name.contains_key(&name) {
                return name;
            }
        }
    }

    /// Checks names and the PCIe forest, and indexes.
    pub fn build(self) -> Result<Fabric, FabricError> {
        Fabric::new(self.nodes, self.links)
    }
}

/// Whether a PCIe tree ends at nodes of this kind, and crosses a host bridge there.
pub(super) fn is_root(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::RootComplex | NodeKind::Cpu)
}

impl Fabric {
    /// Marks the PCIe path between these pairs as unknown, whatever the (assumed) tree shows.
    pub fn set_unknown_paths(&mut self, pairs: impl IntoIterator<Item = (NodeId, NodeId)>) {
        self.unknown_paths.clear();
        for (a, b) in pairs {
            // pairs are many, and are asked for again and again
            self.unknown_paths.resize(self.nodes.len() * self.nodes.len().div_ceil(64), 0);
            let (word, bit) = self.pair_bit(a, b);
            if let Some(bits) = self.unknown_paths.get_mut(word) {
                *bits |= bit;
            }
        }
    }

    /// The pairs of devices of which [`Fabric::is_path_unknown`] holds, each once, in the order of the devices.
    pub fn unknown_paths(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        let devices = self.devices();
        let pairs = (0..devices.len()).flat_map(move |i| {
            let a = devices[i];
            devices[i + 1..].iter().map(|b| (a, *b)).collect::<Vec<_>>()
        });
        pairs.filter(|(a, b)| self.is_path_unknown(*a, *b))
    }

    /// Whether the PCIe path between two devices is unknown.
    pub fn is_path_unknown(&self, a: NodeId, b: NodeId) -> bool {
        let (word, bit) = self.pair_bit(a, b);
        self.unknown_paths.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// The word and the bit of a pair.
    fn pair_bit(&self, a: NodeId, b: NodeId) -> (usize, u64) {
        let (low, high) = (a.min(b).index(), a.max(b).index());
        (low * self.nodes.len().div_ceil(64) + high / 64, 1 << (high % 64))
    }

    fn new(nodes: Vec<Node>, links: Vec<Link>) -> Result<Self, FabricError> {
        let mut by_name = HashMap::with_capacity(nodes.len());
        for (i, node) in nodes.iter().enumerate() {
            for name in std::iter::once(&node.name).chain(&node.aliases) {
                let id = NodeId(i as u32);
                if by_name.insert(name.clone(), id).is_some_and(|before| before != id) {
                    return Err(FabricError::DuplicateName(name.clone()));
                }
            }
        }
        let mut adjacent = vec![Vec::new(); nodes.len()];
        for (i, link) in links.iter().enumerate() {
            if link.a == link.b {
                return Err(FabricError::SelfLink(nodes[link.a.index()].name.clone()));
            }
            adjacent[link.a.index()].push((LinkId(i as u32), link.b));
            adjacent[link.b.index()].push((LinkId(i as u32), link.a));
        }
        let mut fabric = Fabric {
            upstream: vec![None; nodes.len()],
            depth: vec![0; nodes.len()],
            nodes,
            links,
            by_name,
            adjacent,
            unknown_paths: Vec::new(),
        };
        fabric.root_the_forest()?;
        Ok(fabric)
    }

    /// Directs every PCIe tree away from its root complex (or the CPU, where a link leads straight to one), or from
    /// its first switch or card where the evidence shows neither.
    fn root_the_forest(&mut self) -> Result<(), FabricError> {
        let mut reached = vec![false; self.nodes.len()];
        let rank = |kind| match kind {
            kind if is_root(kind) => 0,
            NodeKind::Switch => 1,
            NodeKind::Card => 2,
            _ => 3,
        };
        let mut tops: Vec<NodeId> = (0..self.nodes.len() as u32).map(NodeId).collect();
        tops.sort_by_key(|id| rank(self.nodes[id.index()].kind));
        for top in tops {
            if reached[top.index()] {
                continue;
            }
            reached[top.index()] = true;
            let mut stack = vec![top];
            while let Some(at) = stack.pop() {
                for &(link, next) in &self.adjacent[at.index()] {
                    if !self.links[link.index()].kind.is_tree()
                        || self.upstream[at.index()].is_some_and(|(l, _)| l == link)
                    {
                        continue;
                    }
                    // reaching a second top, or a node again, means that somebody has two paths up
                    let twice = if is_root(self.nodes[next.index()].kind) {
                        Some((at, self.upstream[at.index()].map_or(at, |(_, up)| up), next))
                    } else if reached[next.index()] {
                        Some((next, self.upstream[next.index()].map_or(at, |(_, up)| up), at))
                    } else {
                        None
                    };
                    if let Some((device, first, second)) = twice {
                        let name = |id: NodeId| self.nodes[id.index()].name.clone();
                        return Err(FabricError::TwoParents(name(device), name(first), name(second)));
                    }
                    reached[next.index()] = true;
                    self.upstream[next.index()] = Some((link, at));
                    self.depth[next.index()] = self.depth[at.index()] + 1;
                    stack.push(next);
                }
            }
        }
        Ok(())
    }

    /// All nodes, in the order they were added.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All links, in the order they were added.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// A link.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    /// The node of that name or alias.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// All node ids.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// All link ids.
    pub fn link_ids(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.links.len() as u32).map(LinkId)
    }

    /// The nodes of one kind, in order.
    pub fn of_kind(&self, kind: NodeKind) -> impl Iterator<Item = NodeId> + '_ {
        self.ids().filter(move |id| self.node(*id).kind == kind)
    }

    /// The GPUs and NICs, in the order a topology matrix lists them; then drives and capture cards.
    pub fn devices(&self) -> Vec<NodeId> {
        [NodeKind::Gpu, NodeKind::Nic, NodeKind::Nvme, NodeKind::Fpga]
            .into_iter()
            .flat_map(|k| self.of_kind(k))
            .collect()
    }

    /// A node's links with their far ends.
    pub fn links_of(&self, id: NodeId) -> &[(LinkId, NodeId)] {
        &self.adjacent[id.index()]
    }

    /// NVLinks that end at a node, as far as known.
    pub fn nvlinks_of(&self, id: NodeId) -> u32 {
        self.links_of(id).iter().map(|(link, _)| self.link(*link).kind.nvlinks()).sum()
    }

    /// The link and node above, in the PCIe tree.
    pub fn upstream(&self, id: NodeId) -> Option<(LinkId, NodeId)> {
        self.upstream[id.index()]
    }

    /// How far below the top of its PCIe tree.
    pub fn depth(&self, id: NodeId) -> u32 {
        self.depth[id.index()]
    }

    /// The nodes just below, in the PCIe tree.
    pub fn downstream(&self, id: NodeId) -> impl Iterator<Item = (LinkId, NodeId)> + '_ {
        self.adjacent[id.index()]
            .iter()
            .copied()
            .filter(move |(link, next)| self.upstream[next.index()].is_some_and(|(up, _)| up == *link))
    }

    /// The top of the PCIe tree that holds a node: its root complex, where one is known.
    pub fn tree_top(&self, id: NodeId) -> NodeId {
        let mut at = id;
        while let Some((_, up)) = self.upstream(at) {
            at = up;
        }
        at
    }

    /// The root complex above a node.
    pub fn root_complex(&self, id: NodeId) -> Option<NodeId> {
        Some(self.tree_top(id)).filter(|top| self.node(*top).kind == NodeKind::RootComplex)
    }

    /// The CPU package that a root complex or host memory belongs to, or that a device hangs below; a package is its own.
    pub fn package(&self, id: NodeId) -> Option<NodeId> {
        let top = self.tree_top(id);
        if self.node(top).kind == NodeKind::Cpu {
            return Some(top);
        }
        // a GPU with no PCIe tree may still be joined to its CPU by NVLink or C2C
        let on_die = self.joined_cpu(top, |kind| *kind == LinkKind::OnDie);
        on_die.or_else(|| self.joined_cpu(id, LinkKind::is_gpu_fabric)).map(|(_, cpu)| cpu)
    }

    /// The CPU that a link of some kind joins to a node, and that link.
    pub(super) fn joined_cpu(&self, id: NodeId, is: impl Fn(&LinkKind) -> bool) -> Option<(LinkId, NodeId)> {
        let mut links = self.links_of(id).iter().copied();
        links.find(|(link, next)| is(&self.link(*link).kind) && self.node(*next).kind == NodeKind::Cpu)
    }

    /// The host memory nearest to a device: of its NUMA node if that is known, else the first of its package.
    pub fn nearest_host(&self, id: NodeId) -> Option<NodeId> {
        let package = self.package(id)?;
        let numa = self.node(id).numa.or_else(|| self.node(self.tree_top(id)).numa);
        let hosts: Vec<NodeId> =
            self.links_of(package).iter().map(|(_, n)| *n).filter(|n| self.node(*n).kind == NodeKind::Host).collect();
        hosts.iter().copied().find(|h| numa.is_some() && self.node(*h).numa == numa).or_else(|| hosts.first().copied())
    }

    /// Back to a builder, to change it.
    pub fn into_builder(self) -> FabricBuilder {
        FabricBuilder { nodes: self.nodes, links: self.links, by_name: self.by_name, next: HashMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_many_fresh_names_take_no_time_in_their_square() {
        let mut b = FabricBuilder::new();
        b.node(Node { aliases: vec!["rc7".to_owned()], ..Node::new("rc3", NodeKind::RootComplex) });
        for _ in 0..50_000 {
            let name = b.fresh_name("rc");
            b.node(Node::new(name, NodeKind::RootComplex));
        }
        assert_eq!(b.find("rc7").map(NodeId::index), Some(0));
        assert_eq!(b.nodes().last().map(|n| n.name.as_str()), Some("rc50001"));
        assert!(b.build().is_ok(), "each name is there once");
    }
}
