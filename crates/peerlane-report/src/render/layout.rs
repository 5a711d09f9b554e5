//! The layout of a layered drawing: each level of the tree is a column, each leaf a row, and every inner node is centred
//! on its children.

use peerlane::fabric::{Fabric, LinkId, LinkKind, NodeId, NodeKind};

use super::outline::Outline;

/// Deeper trees are truncated.
const MAX_DEPTH: usize = 32;

/// The position of a node: its column, and the row of its centre.
pub(super) struct Place {
    /// The node; `None` for the sockets, where their number is unknown.
    pub(super) id: Option<NodeId>,
    pub(super) column: usize,
    pub(super) row: f64,
    /// The links to its parent, the last its own, and the parent's index in the list of places.
    pub(super) above: Option<(Vec<LinkId>, usize)>,
    /// The root complex on these links that is not drawn.
    pub(super) passed: Option<NodeId>,
}

/// All places, and the number of rows.
pub(super) struct Layout {
    /// The places; a node follows its parent.
    pub(super) places: Vec<Place>,
    /// Number of rows.
    pub(super) rows: usize,
}

impl Layout {
    /// Places the nodes of a fabric.
    pub(super) fn of(fabric: &Fabric, outline: &Outline) -> Self {
        let seen = vec![false; fabric.nodes().len()];
        let mut placing = Placing { fabric, outline, places: Vec::new(), rows: 0, seen };
        placing.run();
        Layout { places: placing.places, rows: placing.rows }
    }
}

struct Placing<'a> {
    fabric: &'a Fabric,
    outline: &'a Outline<'a>,
    places: Vec<Place>,
    rows: usize,
    seen: Vec<bool>,
}

impl Placing<'_> {
    /// Places CPUs with everything below them, then trees without a CPU, then the rest.
    fn run(&mut self) {
        let fabric = self.fabric;
        let rank = |id: &NodeId| match fabric.node(*id).kind {
            NodeKind::Cpu => 0,
            NodeKind::RootComplex => 1,
            NodeKind::Switch | NodeKind::Card => 2,
            _ => 3,
        };
        let is_hub = |id: &NodeId| fabric.node(*id).kind == NodeKind::NvSwitch;
        let mut tops: Vec<NodeId> = fabric.ids().filter(|id| fabric.upstream(*id).is_none() && !is_hub(id)).collect();
        tops.sort_by_key(rank);
        // NUMA nodes hang on their sockets, whose number is unknown
        let sockets = self.outline.sockets().is_some();
        if sockets {
            self.places.push(Place { id: None, column: 0, row: 0.0, above: None, passed: None });
        }
        let mut domains = Vec::new();
        for top in tops {
            if sockets && fabric.node(top).kind == NodeKind::Cpu {
                let between = fabric.links_of(top).iter().map(|(link, _)| *link);
                let between = between.filter(|link| fabric.link(*link).kind == LinkKind::Smp).collect();
                domains.extend(self.place(top, Some((between, 0)), None, 1));
            } else {
                self.place(top, None, None, usize::from(sockets));
            }
        }
        if let (Some(first), Some(last), true) = (domains.first(), domains.last(), sockets) {
            self.places[0].row = (first + last) / 2.0;
        }
        // devices share the last column, which leaves room for arcs
        let last = self.places.iter().map(|p| p.column).max().unwrap_or(0);
        for place in &mut self.places {
            if place.id.is_some_and(|id| fabric.node(id).kind.is_device()) {
                place.column = last;
            }
        }
        // NVSwitches have their own column, centred
        let hubs: Vec<NodeId> = fabric.of_kind(NodeKind::NvSwitch).collect();
        self.rows = self.rows.max(hubs.len());
        for (i, &id) in hubs.iter().enumerate() {
            let row = (self.rows - hubs.len()) as f64 / 2.0 + i as f64;
            self.places.push(Place { id: Some(id), column: last + 1, row, above: None, passed: None });
        }
    }

    /// Places a node and everything below it; returns the row of its centre.
    fn place(
        &mut self,
        id: NodeId,
        above: Option<(Vec<LinkId>, usize)>,
        passed: Option<NodeId>,
        depth: usize,
    ) -> Option<f64> {
        if std::mem::replace(&mut self.seen[id.index()], true) || depth > MAX_DEPTH {
            return None;
        }
        let at = self.places.len();
        self.places.push(Place { id: Some(id), column: depth, row: 0.0, above, passed });
        let children = self.outline.below(id);
        let several = children.len() > 1;
        let mut rows = Vec::new();
        for hidden in self.outline.also(id) {
            self.seen[hidden.index()] = true;
        }
        for child in children {
            let root = child.passed.iter().find(|id| self.fabric.node(**id).kind == NodeKind::RootComplex).copied();
            rows.extend(self.place(child.node, Some((child.links, at)), root.filter(|_| several), depth + 1));
        }
        let row = match (rows.first(), rows.last()) {
            (Some(first), Some(last)) => (first + last) / 2.0,
            _ => {
                self.rows += 1;
                (self.rows - 1) as f64
            }
        };
        self.places[at].row = row;
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::fabric::{FabricBuilder, Link, Node, PcieWidth};

    #[test]
    fn a_switch_is_centred_on_its_gpus() {
        let mut b = FabricBuilder::new();
        let switch = b.node(Node::new("sw0", NodeKind::Switch));
        for i in 0..3 {
            let gpu = b.node(Node::new(format!("GPU{i}"), NodeKind::Gpu));
            b.link(Link::new(switch, gpu, LinkKind::pcie(PcieWidth::default())));
        }
        let fabric = b.build().unwrap();
        let layout = Layout::of(&fabric, &Outline::of(&fabric));
        let at: Vec<(usize, f64)> = layout.places.iter().map(|p| (p.column, p.row)).collect();
        assert_eq!((at, layout.rows), (vec![(0, 1.0), (1, 0.0), (1, 1.0), (1, 2.0)], 3));
    }
}
