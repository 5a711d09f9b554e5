//! The layout of a layered drawing: each level of the tree is a column, each leaf a row, and every inner node is centred
//! on its children.

use peerlane::fabric::{Fabric, LinkId, LinkKind, NodeId, NodeKind};

/// Deeper trees are truncated.
const MAX_DEPTH: usize = 32;

/// The position of a node: its column, and the row of its centre.
pub(crate) struct Place {
    pub(crate) id: NodeId,
    pub(crate) column: usize,
    pub(crate) row: f64,
    /// The link to its parent, and the parent's index in the list of places.
    pub(crate) above: Option<(LinkId, usize)>,
}

/// All places, and the number of rows.
pub(crate) struct Layout {
    /// The places; a node follows its parent.
    pub(crate) places: Vec<Place>,
    /// Number of rows.
    pub(crate) rows: usize,
}

impl Layout {
    /// Places the nodes of a fabric.
    pub(crate) fn of(fabric: &Fabric) -> Self {
        let mut placing = Placing { fabric, places: Vec::new(), rows: 0, seen: vec![false; fabric.nodes().len()] };
        placing.run();
        Layout { places: placing.places, rows: placing.rows }
    }
}

struct Placing<'a> {
    fabric: &'a Fabric,
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
        for top in tops {
            self.place(top, None, 0);
        }
        // devices share the last column, which leaves room for arcs
        let last = self.places.iter().map(|p| p.column).max().unwrap_or(0);
        for place in &mut self.places {
            if fabric.node(place.id).kind.is_device() {
                place.column = last;
            }
        }
        // NVSwitches have their own column, centred
        let hubs: Vec<NodeId> = fabric.of_kind(NodeKind::NvSwitch).collect();
        self.rows = self.rows.max(hubs.len());
        for (i, &id) in hubs.iter().enumerate() {
            let row = (self.rows - hubs.len()) as f64 / 2.0 + i as f64;
            self.places.push(Place { id, column: last + 1, row, above: None });
        }
    }

    /// Places a node and everything below it; returns the row of its centre.
    fn place(&mut self, id: NodeId, above: Option<(LinkId, usize)>, depth: usize) -> Option<f64> {
        if std::mem::replace(&mut self.seen[id.index()], true) || depth > MAX_DEPTH {
            return None;
        }
        let at = self.places.len();
        self.places.push(Place { id, column: depth, row: 0.0, above });
        let on_die = self.fabric.links_of(id).iter().copied().filter(|(link, _)| {
            self.fabric.node(id).kind == NodeKind::Cpu && self.fabric.link(*link).kind == LinkKind::OnDie
        });
        let children: Vec<(LinkId, NodeId)> = on_die.chain(self.fabric.downstream(id)).collect();
        let rows: Vec<f64> =
            children.into_iter().filter_map(|(link, child)| self.place(child, Some((link, at)), depth + 1)).collect();
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
        let layout = Layout::of(&b.build().unwrap());
        let at: Vec<(usize, f64)> = layout.places.iter().map(|p| (p.column, p.row)).collect();
        assert_eq!((at, layout.rows), (vec![(0, 1.0), (1, 0.0), (1, 1.0), (1, 2.0)], 3));
    }
}
