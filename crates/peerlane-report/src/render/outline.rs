//! What a drawing shows of a machine: its tree, without nodes that path classes only imply.
//!
//! `nvidia-smi topo -m` alone states path classes. The fabric needs packages, root complexes and bridges that have these
//! classes, but nothing states how many there are. So drawings show the NUMA nodes in place of packages, leave out what
//! leads to one node only, and say once what is unknown.

use peerlane::fabric::{Fabric, LinkId, LinkKind, Node, NodeId, NodeKind};

/// Longer chains of bridges are truncated.
const MAX_PASSED: usize = 32;

/// The tree that is drawn.
pub(crate) struct Outline<'a> {
    fabric: &'a Fabric,
    /// True if there are several packages, and they, root complexes and switches are only implied: then packages are drawn
    /// as NUMA nodes.
    implied: bool,
    /// True if all of them are assumed: stated once below a drawing instead of at each.
    assumed: bool,
}

/// A node below another.
pub(crate) struct Below {
    /// The node.
    pub(crate) node: NodeId,
    /// The links that lead there; the last is the node's own.
    pub(crate) links: Vec<LinkId>,
    /// The nodes between, which are not drawn.
    pub(crate) passed: Vec<NodeId>,
}

impl<'a> Outline<'a> {
    /// The outline of a fabric.
    pub(crate) fn of(fabric: &'a Fabric) -> Self {
        let mut inner = fabric.nodes().iter().filter(|n| is_inner(n.kind)).peekable();
        let (some, several) = (inner.peek().is_some(), fabric.of_kind(NodeKind::Cpu).nth(1).is_some());
        let (mut implied, mut assumed) = (several, some);
        for node in inner {
            implied &= only_implied(node);
            assumed &= node.assumed;
        }
        Outline { fabric, implied, assumed }
    }

    /// Whether all packages, root complexes and switches are assumed.
    pub(crate) fn is_assumed(&self) -> bool {
        self.assumed
    }

    /// Whether all packages, root complexes and switches are only implied.
    pub(crate) fn is_implied(&self) -> bool {
        self.implied
    }

    /// What is drawn below a node, in the fabric's order; first what is on a package.
    pub(crate) fn below(&self, id: NodeId) -> Vec<Below> {
        let shown = self.children(id).into_iter().filter(|(_, node)| !self.hides_memory(*node));
        shown.map(|(link, node)| self.through(link, node)).collect()
    }

    /// The nodes that a box stands for besides its own: its package's memory, and what lies on the links below it.
    pub(crate) fn also(&self, id: NodeId) -> Vec<NodeId> {
        let memory = self.children(id).into_iter().map(|(_, node)| node).filter(|node| self.hides_memory(*node));
        memory.chain(self.below(id).into_iter().flat_map(|below| below.passed)).collect()
    }

    /// What a package is called if it is only implied: `NUMA 3`.
    pub(crate) fn domain(&self, id: NodeId) -> Option<String> {
        let node = self.fabric.node(id);
        (self.implied && node.kind == NodeKind::Cpu).then(|| match node.numa {
            Some(numa) => format!("NUMA {numa}"),
            None if node.stand_in => "affinity unknown".to_owned(),
            None => node.name.clone(),
        })
    }

    /// What a switch is if others on its links are not drawn.
    pub(crate) fn switches(&self, id: NodeId) -> Option<&'static str> {
        let is_switch = |id: NodeId| self.fabric.node(id).kind == NodeKind::Switch;
        let stands_for_several = is_switch(id) && self.also(id).into_iter().any(is_switch);
        stands_for_several.then_some("PCIe switches")
    }

    /// Whether switches are left out, so that their number is unknown.
    pub(crate) fn has_hidden_switches(&self) -> bool {
        self.fabric.of_kind(NodeKind::Switch).any(|id| self.switches(id).is_some())
    }

    /// How many sockets there can be, if several NUMA nodes are known and sockets are not: `2 or 4 sockets`.
    pub(crate) fn sockets(&self) -> Option<String> {
        let packages: Vec<&Node> = self.fabric.of_kind(NodeKind::Cpu).map(|id| self.fabric.node(id)).collect();
        if !self.implied {
            return None;
        }
        let numbered: Vec<usize> = packages.iter().filter_map(|n| n.numa).map(|n| n as usize).collect();
        let nodes = numbered.iter().max().map_or(0, |most| most + 1);
        // where numbers are sparse, as on POWER9 (0, 8), the highest does not count them
        let dense = !numbered.is_empty() && nodes <= 2 * packages.len();
        let counts = possible_sockets(nodes.max(packages.len()));
        Some(match counts.split_last() {
            Some((most, [])) if dense => format!("{most} sockets"),
            Some((most, [least])) if dense => format!("{least} or {most} sockets"),
            Some((most, [least, ..])) if dense => format!("{least} to {most} sockets"),
            _ => "number of sockets unknown".to_owned(),
        })
    }

    /// A sentence about what no source states; `None` if some inner node is stated.
    pub(crate) fn remark(&self) -> Option<String> {
        if !self.implied {
            let all = "All sockets, root complexes and switches shown are assumed.";
            return self.assumed.then(|| all.to_owned());
        }
        let some = |kind| self.fabric.of_kind(kind).next().is_some();
        let inner = match (some(NodeKind::RootComplex), some(NodeKind::Switch)) {
            (_, true) => Some("switches and root complexes follow from the path classes"),
            (true, false) => Some("root complexes follow from the path classes"),
            (false, false) => None,
        };
        let sockets = self.sockets().map(|text| match text.strip_prefix("number") {
            Some(rest) => format!("Number{rest}"),
            None => format!("{text} (not stated)"),
        });
        let words: Vec<String> = sockets.into_iter().chain(inner.map(str::to_owned)).collect();
        (!words.is_empty()).then(|| words.join("; ") + ".")
    }

    /// What is below a node in the fabric.
    fn children(&self, id: NodeId) -> Vec<(LinkId, NodeId)> {
        let on_die = self.fabric.links_of(id).iter().copied().filter(|(link, _)| {
            self.fabric.node(id).kind == NodeKind::Cpu && self.fabric.link(*link).kind == LinkKind::OnDie
        });
        on_die.chain(self.fabric.downstream(id)).collect()
    }

    /// Whether a node is the memory of a NUMA node, drawn as one box with it.
    fn hides_memory(&self, id: NodeId) -> bool {
        self.implied && self.fabric.node(id).kind == NodeKind::Host
    }

    /// Follows a link through nodes that are not drawn.
    fn through(&self, link: LinkId, node: NodeId) -> Below {
        let mut below = Below { node, links: vec![link], passed: Vec::new() };
        let mut above = link;
        while below.passed.len() < MAX_PASSED
            && let Some((link, next)) = self.only_child(above, below.node)
        {
            below.passed.push(below.node);
            below.links.push(link);
            (below.node, above) = (next, link);
        }
        below
    }

    /// The one node to which an implied node leads, if nothing is known of the link above it.
    fn only_child(&self, above: LinkId, id: NodeId) -> Option<(LinkId, NodeId)> {
        let node = self.fabric.node(id);
        let hidden = match node.kind {
            NodeKind::RootComplex => self.implied,
            NodeKind::Switch => only_implied(node),
            _ => false,
        };
        let unknown = match &self.fabric.link(above).kind {
            LinkKind::Pcie { running, allowed, .. } => running.is_unknown() && allowed.is_unknown(),
            LinkKind::OnDie => true,
            _ => false,
        };
        match self.children(id).as_slice() {
            [only] if hidden && unknown => Some(*only),
            _ => None,
        }
    }
}

/// The numbers of sockets that this many NUMA nodes allow, in a machine with GPUs. A socket has at most four: NPS4 of
/// EPYC, sub-NUMA clustering of Xeon.
fn possible_sockets(nodes: usize) -> Vec<usize> {
    [1, 2, 4].into_iter().filter(|sockets| *sockets <= nodes && nodes <= 4 * sockets).collect()
}

/// Whether no source states a node: nothing is known of it but its place.
fn only_implied(node: &Node) -> bool {
    node.assumed && node.product.is_none() && node.part.is_none() && node.vendor.is_none() && node.address.is_none()
}

fn is_inner(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Cpu | NodeKind::RootComplex | NodeKind::Switch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::fabric::{FabricBuilder, Link, PcieWidth};

    /// NUMA nodes with a root complex, a switch, and a bridge above each of two GPUs.
    fn pxb(numa: &[u32]) -> Fabric {
        let mut b = FabricBuilder::new();
        let mut node = |name: String, kind, numa| b.node(Node { assumed: true, numa, ..Node::new(name, kind) });
        let mut links = Vec::new();
        for (at, numa) in numa.iter().enumerate() {
            let cpu = node(format!("cpu{at}"), NodeKind::Cpu, Some(*numa));
            let rc = node(format!("rc{at}"), NodeKind::RootComplex, None);
            let top = node(format!("top{at}"), NodeKind::Switch, None);
            links.extend([(cpu, rc, LinkKind::OnDie), (rc, top, LinkKind::pcie(PcieWidth::default()))]);
            for of in 0..2 {
                let bridge = node(format!("bridge{at}-{of}"), NodeKind::Switch, None);
                let gpu = node(format!("GPU{}", 2 * at + of), NodeKind::Gpu, None);
                links.push((top, bridge, LinkKind::pcie(PcieWidth::default())));
                links.push((bridge, gpu, LinkKind::pcie(PcieWidth::default())));
            }
        }
        for (above, below, kind) in links {
            b.link(Link::new(above, below, kind));
        }
        b.build().unwrap()
    }

    #[test]
    fn bridges_to_one_device_are_left_out() {
        let fabric = pxb(&[3, 1, 7, 5]);
        let outline = Outline::of(&fabric);
        let cpu = fabric.find("cpu0").unwrap();
        let [top] = &outline.below(cpu)[..] else { panic!("one switch below a NUMA node") };
        assert_eq!(
            (outline.domain(cpu).as_deref(), outline.switches(top.node)),
            (Some("NUMA 3"), Some("PCIe switches"))
        );
        let gpus: Vec<&str> = outline.below(top.node).iter().map(|b| fabric.node(b.node).name.as_str()).collect();
        assert_eq!(gpus, ["GPU0", "GPU1"]);
        assert_eq!(outline.also(top.node).len(), 2);
    }

    #[test]
    fn the_number_of_sockets_follows_from_the_numa_nodes() {
        let sockets = |numa: &[u32]| Outline::of(&pxb(numa)).sockets();
        assert_eq!(sockets(&[3, 1, 7, 5]).as_deref(), Some("2 or 4 sockets"));
        assert_eq!(sockets(&[0, 1]).as_deref(), Some("1 or 2 sockets"));
        assert_eq!(sockets(&[0, 8]).as_deref(), Some("number of sockets unknown"));
        assert_eq!(sockets(&[0]), None);
    }
}
