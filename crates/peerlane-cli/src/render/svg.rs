//! A machine as a standalone SVG: sockets at the left, devices at the right, NVLink as arcs beside them.
//!
//! [`super::layout`] says where each node stands. Colours are chosen to be read on white and on black.

use std::fmt::Write as _;
use std::io::{self, Write};

use peerlane::fabric::{Fabric, LinkId, LinkKind, NodeId, NodeKind};
use peerlane::machine::Machine;

use super::label;
use super::layout::{Layout, Place};
use super::text::{fit, width};

const ROW: f64 = 44.0;
const BOX_WIDTH: f64 = 150.0;
const BOX_HEIGHT: f64 = 34.0;
const COLUMN: f64 = 250.0;
const MARGIN: f64 = 20.0;
const TITLE: f64 = 34.0;
/// How far an arc reaches for each row it spans, up to so many rows.
const REACH: f64 = 18.0;
const MAX_REACH: usize = 16;
/// Characters that a box holds.
const BOX_CHARS: usize = 24;

/// Writes the drawing.
pub(crate) fn write(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let fabric = &machine.fabric;
    let Layout { places, rows } = Layout::of(fabric);
    let columns = places.iter().map(|p| p.column).max().unwrap_or(0) + 1;
    let x_of = |p: &Place| MARGIN + p.column as f64 * COLUMN;
    let y_of = |p: &Place| MARGIN + TITLE + (p.row + 0.5) * ROW;
    let is_gpu = |id| fabric.node(id).kind == NodeKind::Gpu;
    let has_arcs = fabric.links().iter().any(|l| l.kind.is_gpu_fabric() && is_gpu(l.a) && is_gpu(l.b));
    let gpus = places.iter().filter(|p| is_gpu(p.id)).count();
    let right = if has_arcs { 60.0 + gpus.min(MAX_REACH) as f64 * REACH } else { 0.0 };
    let total_width = 2.0 * MARGIN + (columns - 1) as f64 * COLUMN + BOX_WIDTH + right;
    let total_height = 2.0 * MARGIN + TITLE + rows.max(1) as f64 * ROW;

    let mut svg = String::new();
    let title = escape(machine.title.as_deref().unwrap_or(&machine.name));
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total_width:.0} {total_height:.0}\" \
         width=\"{total_width:.0}\" height=\"{total_height:.0}\" font-family=\"system-ui, sans-serif\" role=\"img\">\n\
         <title>{title}</title>\n\
         <text x=\"{MARGIN}\" y=\"{:.0}\" font-size=\"16\" font-weight=\"600\" fill=\"#808890\">{}</text>",
        MARGIN + 12.0,
        escape(&machine.name)
    );
    for place in &places {
        if let Some((link, above)) = place.above
            && let Some(parent) = places.get(above)
        {
            let from = (x_of(parent) + BOX_WIDTH, y_of(parent));
            edge(&mut svg, fabric, link, from, (x_of(place), y_of(place)));
        }
    }
    for (i, link) in fabric.links().iter().enumerate().filter(|(_, l)| beside_tree(&l.kind)) {
        let find = |id| places.iter().find(|p| p.id == id);
        if let (Some(a), Some(b)) = (find(link.a), find(link.b)) {
            arc(&mut svg, fabric, i, (x_of(a), y_of(a)), (x_of(b), y_of(b)));
        }
    }
    for place in &places {
        draw_box(&mut svg, fabric, place.id, x_of(place), y_of(place));
    }
    svg.push_str("</svg>\n");
    out.write_all(svg.as_bytes())
}

/// Whether a link is drawn as an arc.
fn beside_tree(kind: &LinkKind) -> bool {
    kind.is_gpu_fabric() || *kind == LinkKind::Smp
}

fn edge(svg: &mut String, fabric: &Fabric, id: LinkId, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let link = fabric.link(id);
    let colour = if label::is_narrow(link) { "#e0700a" } else { "#8a94a0" };
    let dash = if link.assumed { " stroke-dasharray=\"5 4\"" } else { "" };
    let bend = x1 + 28.0;
    let _ = writeln!(
        svg,
        "<path d=\"M{x1:.1} {y1:.1} H{bend:.1} V{y2:.1} H{x2:.1}\" fill=\"none\" stroke=\"{colour}\" \
         stroke-width=\"2\"{dash}/>"
    );
    let text = label::edge(link);
    if !text.is_empty() {
        let (x, y) = (bend + 6.0, y2 - 5.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"11\" fill=\"{colour}\">{}</text>",
            escape(&text)
        );
    }
}

/// A link beside the tree: an arc at the right of two GPUs, a curve from column to column, or a line
/// between sockets.
fn arc(svg: &mut String, fabric: &Fabric, index: usize, a: (f64, f64), b: (f64, f64)) {
    let Some(link) = fabric.links().get(index) else { return };
    let ((xa, ya), (xb, yb)) = if a.0 <= b.0 { (a, b) } else { (b, a) };
    // from a CPU, below the lines of the tree that go the same way
    let drop = if link.kind.is_gpu_fabric() && [link.a, link.b].iter().any(|n| fabric.node(*n).kind == NodeKind::Cpu) {
        BOX_HEIGHT / 3.0
    } else {
        0.0
    };
    let (ya, yb) = (ya + drop, yb + drop);
    let rows = ((ya - yb).abs() / ROW).max(1.0).min(MAX_REACH as f64);
    let middle = (ya + yb) / 2.0;
    // ends, control points, and where the label stands
    let (start, end, c1, c2, at) = if link.kind == LinkKind::Smp {
        let (start, end) = (xa + BOX_WIDTH / 2.0, xb + BOX_WIDTH / 2.0);
        (start, end, start, end, (start + 5.0, middle))
    } else if xb - xa > 1.0 {
        let (start, end) = (xa + BOX_WIDTH, xb);
        let bend = (start + end) / 2.0;
        (start, end, bend, bend, (start + 6.0, ya - 5.0))
    } else {
        let start = xa + BOX_WIDTH;
        let far = start + 20.0 + REACH * rows;
        // a curve comes three quarters of the way to its control points
        (start, start, far, far, ((start + 3.0 * far) / 4.0 + 3.0, middle + 3.0))
    };
    let colour = if link.kind == LinkKind::Smp { "#8a94a0" } else { "#5f9e2f" };
    let stroke = match link.kind {
        LinkKind::Smp => 4.0,
        LinkKind::Nvlink { bricks, .. } => 1.2 + 0.6 * f64::from(bricks.min(4)),
        _ => 2.0,
    };
    let _ = writeln!(
        svg,
        "<path d=\"M{start:.1} {ya:.1} C{c1:.1} {ya:.1} {c2:.1} {yb:.1} {end:.1} {yb:.1}\" fill=\"none\" \
         stroke=\"{colour}\" stroke-width=\"{stroke:.1}\" stroke-opacity=\"0.8\"/>"
    );
    let text = if link.kind == LinkKind::Smp { label::link(link) } else { label::edge(link) };
    let (x, y, text) = (at.0, at.1, escape(&text));
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"10\" fill=\"{colour}\">{text}</text>");
}

fn draw_box(svg: &mut String, fabric: &Fabric, id: NodeId, x: f64, y: f64) {
    let node = fabric.node(id);
    let (fill, line) = match node.kind {
        NodeKind::Gpu => ("#d9f2c4", "#5f9e2f"),
        NodeKind::Nic | NodeKind::Card => ("#cfe8f7", "#3a86b5"),
        NodeKind::Switch | NodeKind::NvSwitch => ("#fbe8b0", "#b98a12"),
        NodeKind::Cpu | NodeKind::RootComplex | NodeKind::Host => ("#e4e7ea", "#7c8590"),
    };
    let dash = if node.assumed { " stroke-dasharray=\"4 3\"" } else { "" };
    let top = y - BOX_HEIGHT / 2.0;
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"4\" fill=\"{fill}\" \
         stroke=\"{line}\"{dash}/>"
    );
    let product = label::product(node);
    let name = escape(&fit(&label::name(node), BOX_CHARS));
    let (tx, name_y) = (x + 8.0, if product.is_empty() { y + 4.0 } else { y - 2.0 });
    let _ = writeln!(
        svg,
        "<text x=\"{tx:.1}\" y=\"{name_y:.1}\" font-size=\"12\" font-weight=\"600\" fill=\"#1f2933\">{name}</text>"
    );
    if width(&product) > 0 {
        let product = escape(&fit(&product, BOX_CHARS));
        let _ = writeln!(
            svg,
            "<text x=\"{tx:.1}\" y=\"{:.1}\" font-size=\"10\" fill=\"#475260\">{product}</text>",
            y + 11.0
        );
    }
}

/// Text for XML; characters that XML cannot hold become spaces.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::fabric::{FabricBuilder, Node};
    use peerlane::machine::MachineKind;

    #[test]
    fn names_are_escaped_and_an_empty_machine_is_drawn() {
        let mut b = FabricBuilder::new();
        b.node(Node::new("<b>&\"", NodeKind::Gpu));
        for fabric in [b.build().unwrap(), Fabric::default()] {
            let mut out = Vec::new();
            write(&mut out, &Machine::new("<i>", MachineKind::Design, fabric)).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
            assert!(!text.contains("<b>") && !text.contains("<i>"));
        }
    }
}
