//! A machine as positioned boxes and wires: sockets on the left, devices on the right, NVLink as arcs next to them.
//!
//! `layout` gives each node a column and a row; this module turns them into geometry, in pixels. The SVG file
//! and the HTML report use the same [`Drawing`].

use crate::JsonSchema;
use peerlane::fabric::{Fabric, LinkId, LinkKind, NodeKind};
use peerlane::model::Model;
use peerlane::names::natural;
use serde::Serialize;

use super::label;
use super::layout::{Layout, Place};
use super::outline::Outline;
use super::text::width;

/// Width of every box.
pub const BOX_WIDTH: f64 = 132.0;
/// Height of every box.
pub const BOX_HEIGHT: f64 = 34.0;
/// Characters of a product that fit a box.
pub const BOX_CHARS: usize = 20;
/// Characters of a name, which is larger.
pub const NAME_CHARS: usize = 17;
const ROW: f64 = 42.0;
/// Distance between boxes of neighbouring columns, at least; it grows with the labels of wires.
const GAP: f64 = 82.0;
/// Width of a character of such a label, at most.
const LABEL_CHAR: f64 = 6.6;
/// Margin around the drawing.
pub const MARGIN: f64 = 16.0;
/// Distance from a box to where the wires of its children fork.
const BEND: f64 = 16.0;
/// How far an arc bulges for each row it spans, and the limit of rows.
const REACH: f64 = 15.0;
const MAX_REACH: usize = 12;
/// Above this number, arcs have no labels, which would overlap.
const LABELLED_ARCS: usize = 6;
/// Thresholds of raw rates, in GB/s of one direction, for the tones of wires: below PCIe 3.0 x2, below 3.0 x16, below
/// 4.0 x16, and above 5.0 x16.
pub const TONES: [f64; 4] = [1.9, 15.0, 31.0, 100.0];

/// The drawing of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Drawing {
    /// Width of the drawing, in pixels.
    pub width: f64,
    /// Height of the drawing.
    pub height: f64,
    /// Width of every box.
    pub box_width: f64,
    /// Height of every box.
    pub box_height: f64,
    /// The nodes.
    pub boxes: Vec<NodeBox>,
    /// The links.
    pub wires: Vec<Wire>,
    /// What arcs without labels are: `NV1`, or `NV1, NV2 (thin to thick)`.
    pub arcs: Option<String>,
}

/// A node's box.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodeBox {
    /// Index among the machine's nodes; absent for sockets of unknown number.
    pub node: Option<usize>,
    /// Indices of nodes that it stands for as well, which have no box.
    pub also: Vec<usize>,
    /// Its name.
    pub name: String,
    /// What it is; may be empty.
    pub product: String,
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
}

/// How a wire runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// A branch of the PCIe tree.
    Tree,
    /// A GPU link, such as NVLink.
    Arc,
    /// Between CPU packages.
    Smp,
}

/// A link's wire.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Wire {
    /// Indices among the machine's links, those through nodes without a box first; the last one has the label.
    pub links: Vec<usize>,
    /// How it runs.
    pub shape: Shape,
    /// Its path, as the `d` attribute of an SVG path.
    pub path: String,
    /// Stroke width, which grows with the rate.
    pub stroke: f64,
    /// Tone of its rate, from 0 to 4; absent if it has no rate.
    pub tone: Option<usize>,
    /// Position of its label or mark.
    pub at: Spot,
    /// Its label; absent if it is empty, or the same for all arcs.
    pub label: Option<String>,
}

/// A position, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Spot {
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
}

impl Drawing {
    /// Draws the machine of a model, which has the rate of each link.
    pub fn of(model: &Model) -> Self {
        let fabric = &model.machine.fabric;
        let outline = Outline::of(fabric);
        let Layout { places, rows } = Layout::of(fabric, &outline);
        let columns = places.iter().map(|p| p.column).max().unwrap_or(0) + 1;
        let rates = rates(model);
        let arcs: Vec<LinkId> = fabric.link_ids().filter(|id| beside_tree(&fabric.link(*id).kind)).collect();
        let summary = summary(fabric, &arcs);
        let longest = places.iter().map(|p| width(&branch_label(fabric, p))).max().unwrap_or(0);
        let column = (BOX_WIDTH + GAP).max(BOX_WIDTH + BEND + 12.0 + LABEL_CHAR * longest as f64);
        let wire = Wiring { fabric, rates: &rates, column, quiet: summary.is_some() };
        let mut wires = Vec::new();
        for place in &places {
            if let Some((_, above)) = &place.above
                && let Some(parent) = places.get(*above)
            {
                wires.push(wire.branch(place, wire.corner(parent)));
            }
        }
        // sockets of unknown number are one box, to which each NUMA node has a wire
        let sockets = outline.sockets();
        let mut reach: f64 = 0.0;
        for &id in arcs.iter().filter(|id| sockets.is_none() || fabric.link(**id).kind != LinkKind::Smp) {
            let link = fabric.link(id);
            let find = |node| places.iter().find(|p| p.id == Some(node)).map(|p| wire.corner(p));
            if let (Some(a), Some(b)) = (find(link.a), find(link.b)) {
                let arc = wire.arc(id, a, b);
                reach = reach.max(arc.at.x + if arc.label.is_some() { 40.0 } else { 8.0 });
                wires.push(arc);
            }
        }
        let right = MARGIN + (columns - 1) as f64 * column + BOX_WIDTH;
        let boxes = places.iter().map(|place| {
            let (x, y) = wire.corner(place);
            let Some(id) = place.id else {
                let name = sockets.clone().unwrap_or_default();
                return NodeBox { node: None, also: Vec::new(), name, product: "not stated".to_owned(), x, y };
            };
            let node = fabric.node(id);
            let domain = outline.domain(id);
            let product = match (outline.switches(id), &domain) {
                (Some(switches), _) => switches.to_owned(),
                (None, Some(_)) => String::new(),
                (None, None) => label::product(node),
            };
            let name = domain.unwrap_or_else(|| label::name(node));
            let also = outline.also(id).iter().map(|id| id.index()).collect();
            NodeBox { node: Some(id.index()), also, name, product, x, y }
        });
        Drawing {
            width: round(right.max(reach) + MARGIN),
            height: round(2.0 * MARGIN + rows.max(1) as f64 * ROW),
            box_width: BOX_WIDTH,
            box_height: BOX_HEIGHT,
            boxes: boxes.collect(),
            wires,
            arcs: summary,
        }
    }
}

/// The label of the wire from a place to its parent: its own link's width and what it could be, or the root complex on it.
fn branch_label(fabric: &Fabric, place: &Place) -> String {
    let Some(own) = place.above.as_ref().and_then(|(links, _)| links.last()) else { return String::new() };
    let link = fabric.link(*own);
    if link.kind == LinkKind::Smp {
        return String::new();
    }
    let edge = label::marked_edge(link);
    match place.passed {
        Some(root) if edge.is_empty() => fabric.node(root).name.clone(),
        _ => edge,
    }
}

/// The raw rate of each link in GB/s of one direction, in the order of the fabric's.
pub fn rates(model: &Model) -> Vec<Option<f64>> {
    let mut rates = vec![None; model.machine.fabric.links().len()];
    for resource in &model.resources {
        if let Some(slot) = resource.link.and_then(|link| rates.get_mut(link.index())) {
            // a link's own channels come before what its directions share
            *slot = slot.or(Some(resource.capacity.gb()).filter(|r| r.is_finite()));
        }
    }
    rates
}

/// Whether a link is not part of the tree.
fn beside_tree(kind: &LinkKind) -> bool {
    kind.is_gpu_fabric() || *kind == LinkKind::Smp
}

/// The kinds of links between GPUs, if there are too many for labels.
fn summary(fabric: &Fabric, arcs: &[LinkId]) -> Option<String> {
    let arcs = arcs.iter().map(|id| fabric.link(*id)).filter(|l| l.kind != LinkKind::Smp);
    let mut labels: Vec<String> = arcs.map(label::edge).collect();
    if labels.len() <= LABELLED_ARCS {
        return None;
    }
    labels.sort_by(|a, b| natural(a).cmp(&natural(b)));
    labels.dedup();
    let order = if labels.len() > 1 { " (thin to thick)" } else { "" };
    Some(labels.join(", ") + order)
}

struct Wiring<'a> {
    fabric: &'a Fabric,
    rates: &'a [Option<f64>],
    /// From a column to the next.
    column: f64,
    /// Arcs between GPUs have no labels.
    quiet: bool,
}

impl Wiring<'_> {
    /// The upper left corner of a box.
    fn corner(&self, place: &Place) -> (f64, f64) {
        let y = MARGIN + (place.row + 0.5) * ROW - BOX_HEIGHT / 2.0;
        (round(MARGIN + place.column as f64 * self.column), round(y))
    }

    fn wire(&self, links: &[LinkId], shape: Shape, path: String, at: (f64, f64), label: String) -> Wire {
        let own = links.last().filter(|id| shape != Shape::Tree || self.fabric.link(**id).kind != LinkKind::Smp);
        // of sockets of unknown number no link is known
        let rate = own.and_then(|id| self.rates.get(id.index()).copied().flatten());
        Wire {
            links: links.iter().map(|id| id.index()).collect(),
            shape,
            path,
            stroke: round(rate.map_or(1.5, |r| 1.2 + 0.55 * (1.0 + r).log2())),
            tone: rate.map(|r| TONES.iter().filter(|least| r >= **least).count()),
            at: Spot { x: round(at.0), y: round(at.1) },
            label: Some(label).filter(|l| !l.is_empty()),
        }
    }

    /// A wire from a box to one in the next column, or further.
    fn branch(&self, place: &Place, above: (f64, f64)) -> Wire {
        let below = self.corner(place);
        let (x1, y1) = (above.0 + BOX_WIDTH, above.1 + BOX_HEIGHT / 2.0);
        let (x2, y2) = (below.0, below.1 + BOX_HEIGHT / 2.0);
        let bend = x1 + BEND;
        let path = format!("M{} {} H{} V{} H{}", round(x1), round(y1), round(bend), round(y2), round(x2));
        let links = place.above.as_ref().map_or(&[][..], |(links, _)| links);
        self.wire(links, Shape::Tree, path, (bend + 6.0, y2 - 6.0), branch_label(self.fabric, place))
    }

    /// A link outside the tree: an arc to the right of two GPUs, a curve from column to column, or a line between
    /// sockets.
    fn arc(&self, id: LinkId, a: (f64, f64), b: (f64, f64)) -> Wire {
        let link = self.fabric.link(id);
        let ((xa, ya), (xb, yb)) = if a.0 <= b.0 { (a, b) } else { (b, a) };
        let to_cpu = [link.a, link.b].iter().any(|n| self.fabric.node(*n).kind == NodeKind::Cpu);
        // from a CPU, below the lines of the tree in the same direction
        let drop = if link.kind.is_gpu_fabric() && to_cpu { BOX_HEIGHT / 3.0 } else { 0.0 };
        let (ya, yb) = (ya + BOX_HEIGHT / 2.0 + drop, yb + BOX_HEIGHT / 2.0 + drop);
        let rows = ((ya - yb).abs() / ROW).clamp(1.0, MAX_REACH as f64);
        let middle = (ya + yb) / 2.0;
        if link.kind == LinkKind::Smp {
            let x = xa + BOX_WIDTH / 4.0;
            let (top, bottom) = (ya.min(yb) + BOX_HEIGHT / 2.0, ya.max(yb) - BOX_HEIGHT / 2.0);
            let path = format!("M{} {} V{}", round(x), round(top), round(bottom));
            return self.wire(&[id], Shape::Smp, path, (x + 7.0, middle), label::link(link));
        }
        // ends, control points, and position of the label
        let (start, end, c1, c2, at) = if xb - xa > 1.0 {
            let (start, end) = (xa + BOX_WIDTH, xb);
            let bend = (start + end) / 2.0;
            // on the side that the curve leaves free
            (start, end, bend, bend, (start + 6.0, if yb < ya { ya + 13.0 } else { ya - 5.0 }))
        } else {
            let start = xa + BOX_WIDTH;
            let far = start + 18.0 + REACH * rows;
            // a curve reaches three quarters of the distance to its control points
            (start, start, far, far, ((start + 3.0 * far) / 4.0 + 4.0, middle + 3.0))
        };
        let [start, end, c1, c2, ya, yb] = [start, end, c1, c2, ya, yb].map(round);
        let path = format!("M{start} {ya} C{c1} {ya} {c2} {yb} {end} {yb}");
        let label = if self.quiet { String::new() } else { label::edge(link) };
        self.wire(&[id], Shape::Arc, path, at, label)
    }
}

/// To a tenth of a pixel.
fn round(v: f64) -> f64 {
    (v * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::catalogue::{self, Parts};

    fn drawn(name: &str) -> Drawing {
        let machine = catalogue::system(name).unwrap().unwrap();
        Drawing::of(&Model::new(&machine, Parts::embedded()))
    }

    #[test]
    fn faster_links_are_thicker_and_have_a_higher_tone() {
        let machine = catalogue::system("7gforce").unwrap().unwrap();
        let drawing = drawn("7gforce");
        let to = |name: &str| {
            let (link, _) = machine.fabric.upstream(machine.fabric.find(name).unwrap()).unwrap();
            drawing.wires.iter().find(|w| w.links == [link.index()]).unwrap()
        };
        let (riser, slot, uplink) = (to("GPU0"), to("GPU6"), to("plx0"));
        assert!(riser.stroke < slot.stroke && slot.stroke < uplink.stroke);
        assert_eq!((riser.tone, slot.tone, uplink.tone), (Some(0), Some(1), Some(2)));
        assert_eq!(riser.label.as_deref(), Some("⚠ 3.0 x1 of x8"));
    }

    #[test]
    fn many_arcs_share_a_label_and_everything_stays_inside() {
        let (mesh, mixed, star) = (drawn("dgx-1"), drawn("dgx-1v"), drawn("h200x4-vm"));
        let labelled = |d: &Drawing| d.wires.iter().filter(|w| w.shape == Shape::Arc && w.label.is_some()).count();
        assert_eq!((mesh.arcs.as_deref(), labelled(&mesh)), (Some("NV1"), 0));
        assert_eq!((mixed.arcs.as_deref(), labelled(&mixed)), (Some("NV1, NV2 (thin to thick)"), 0));
        assert_eq!((star.arcs.as_deref(), labelled(&star)), (None, 4));
        for drawing in [mesh, mixed, star, drawn("exxact-txr414-20")] {
            for NodeBox { x, y, .. } in &drawing.boxes {
                assert!(x + BOX_WIDTH < drawing.width && y + BOX_HEIGHT < drawing.height);
            }
            assert!(drawing.wires.iter().all(|w| w.at.x < drawing.width && w.at.y < drawing.height));
        }
    }

    #[test]
    fn every_link_of_the_catalogue_has_a_wire() {
        for name in catalogue::system_names() {
            let machine = catalogue::system(name).unwrap().unwrap();
            let mut links: Vec<usize> = drawn(name).wires.into_iter().flat_map(|w| w.links).collect();
            links.sort_unstable();
            assert_eq!(links, (0..machine.fabric.links().len()).collect::<Vec<_>>(), "{name}");
        }
    }
}
