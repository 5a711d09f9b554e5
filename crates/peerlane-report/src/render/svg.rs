//! A machine as a standalone SVG, by [`super::drawing`]. Colours are chosen to be read on white and on black.

use std::fmt::Write as _;
use std::io::{self, Write};

use peerlane::case::Case;
use peerlane::fabric::{Fabric, NodeKind};
use peerlane::model::Model;

use super::drawing::{BOX_CHARS, BOX_HEIGHT, BOX_WIDTH, Drawing, MARGIN, NAME_CHARS, NodeBox, Shape, Spot, Wire};
use super::label;
use super::text::{fit, number, width};

/// Room above the drawing for the name.
const TITLE: f64 = 26.0;

/// From one bracket to the next, and the room for its words.
const BRACKET: f64 = 158.0;
const BRACKET_TEXT: f64 = 156.0;

/// Colours of rates, slow to fast; in the middle of light and dark.
const TONES: [&str; 5] = ["#8f98a3", "#7a93b0", "#5b8fc4", "#3d86d6", "#2a7de1"];

/// Writes the drawing.
pub fn write(out: &mut dyn Write, case: &Case, model: &Model) -> io::Result<()> {
    let machine = &case.machine;
    let fabric = &machine.fabric;
    let drawing = Drawing::of(model);
    let brackets = brackets(case, &drawing);
    let right = brackets.iter().map(|b| b.x + BRACKET_TEXT).fold(0.0, f64::max);
    let (total_width, total_height) = (drawing.width.max(right), drawing.height + TITLE);
    let mut svg = String::new();
    let title = escape(machine.title.as_deref().unwrap_or(&machine.name));
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 {:.0} {total_width:.0} {total_height:.0}\" \
         width=\"{total_width:.0}\" height=\"{total_height:.0}\" font-family=\"system-ui, sans-serif\" role=\"img\">\n\
         <title>{title}</title>\n\
         <text x=\"{MARGIN}\" y=\"-4\" font-size=\"16\" font-weight=\"600\" fill=\"#808890\">{}</text>",
        -TITLE,
        escape(&machine.name)
    );
    for wire in &drawing.wires {
        draw_wire(&mut svg, fabric, wire);
    }
    for node_box in &drawing.boxes {
        draw_box(&mut svg, fabric, node_box);
    }
    for bracket in &brackets {
        draw_bracket(&mut svg, bracket);
    }
    if let Some(all) = &drawing.arcs {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" text-anchor=\"end\" fill=\"#808890\">arcs: {}</text>",
            drawing.width - 6.0,
            drawing.height - 8.0,
            escape(all)
        );
    }
    svg.push_str("</svg>\n");
    out.write_all(svg.as_bytes())
}

/// GPUs that share a limit by what contention showed: a dashed line beside the drawing with a tooth at each.
struct Bracket {
    x: f64,
    teeth: Vec<f64>,
    label: Vec<String>,
}

/// One for each set of GPUs, with its limits with host memory by direction. Limits between GPUs have no place beside them.
fn brackets(case: &Case, drawing: &Drawing) -> Vec<Bracket> {
    let fabric = &case.machine.fabric;
    let mut all: Vec<(&[String], Vec<String>)> = Vec::new();
    let groups = case.inferred.iter().flat_map(|(found, _)| &found.groups);
    for group in groups.filter(|g| g.direction.with_host()) {
        let label = format!("{} {} GB/s", group.direction.words(), number(group.capacity));
        match all.iter_mut().find(|(members, _)| *members == group.members) {
            Some((_, labels)) => labels.push(label),
            None => all.push((&group.members, vec![label])),
        }
    }
    let middle = |name: &String| {
        let node = fabric.find(name)?.index();
        drawing.boxes.iter().find(|b| b.node == Some(node)).map(|b| b.y + BOX_HEIGHT / 2.0)
    };
    // where each column is free again
    let mut columns: Vec<f64> = Vec::new();
    let mut brackets = Vec::new();
    for (members, label) in all {
        let mut teeth: Vec<f64> = members.iter().filter_map(middle).collect();
        teeth.sort_by(f64::total_cmp);
        let (Some(top), Some(bottom)) = (teeth.first().copied(), teeth.last().copied()) else { continue };
        let at = columns.iter().position(|free| *free < top).unwrap_or(columns.len());
        columns.resize(columns.len().max(at + 1), 0.0);
        columns[at] = bottom;
        brackets.push(Bracket { x: drawing.width + BRACKET * at as f64, teeth, label });
    }
    brackets
}

fn draw_bracket(svg: &mut String, bracket: &Bracket) {
    let Bracket { x, teeth, label } = bracket;
    let (Some(top), Some(bottom)) = (teeth.first(), teeth.last()) else { return };
    let mut path = format!("M{x:.1} {top:.1}V{bottom:.1}");
    for y in teeth {
        let _ = write!(path, "M{x:.1} {y:.1}h-8");
    }
    let _ = writeln!(
        svg,
        "<path d=\"{path}\" fill=\"none\" stroke=\"#9b6bd3\" stroke-width=\"2\" stroke-dasharray=\"5 4\"/>"
    );
    let first = (top + bottom) / 2.0 - 6.0 * label.len() as f64 + 9.0;
    for (at, line) in label.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" fill=\"#9b6bd3\">{}</text>",
            x + 6.0,
            first + 12.0 * at as f64,
            escape(line)
        );
    }
}

fn draw_wire(svg: &mut String, fabric: &Fabric, wire: &Wire) {
    let link = wire.links.last().and_then(|at| fabric.links().get(*at));
    let (narrow, assumed) = link.map_or((false, true), |link| (label::is_narrow(link), link.assumed));
    let colour = match (narrow, wire.tone.and_then(|tone| TONES.get(tone))) {
        (true, _) => "#e0700a",
        (false, Some(tone)) => tone,
        (false, None) => "#8a94a0",
    };
    let dash = if assumed { " stroke-dasharray=\"5 4\"" } else { "" };
    let _ = writeln!(
        svg,
        "<path d=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{:.1}\"{dash}/>",
        wire.path, wire.stroke
    );
    if let Some(text) = &wire.label {
        let size = if wire.shape == Shape::Tree { 11 } else { 10 };
        let Spot { x, y } = wire.at;
        let (text, weight) = (escape(text), if narrow { " font-weight=\"600\"" } else { "" });
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\"{weight} fill=\"{colour}\">{text}</text>"
        );
    }
}

fn draw_box(svg: &mut String, fabric: &Fabric, of: &NodeBox) {
    let NodeBox { x, y, name, product, .. } = of;
    let node = of.node.and_then(|at| fabric.nodes().get(at));
    let (kind, assumed) = node.map_or((NodeKind::Cpu, true), |node| (node.kind, node.assumed));
    let (fill, line) = match kind {
        NodeKind::Gpu => ("#d9f2c4", "#5f9e2f"),
        NodeKind::Nic | NodeKind::Card | NodeKind::Nvme | NodeKind::Fpga => ("#cfe8f7", "#3a86b5"),
        NodeKind::Switch | NodeKind::NvSwitch => ("#fbe8b0", "#b98a12"),
        NodeKind::Cpu | NodeKind::RootComplex | NodeKind::Host => ("#e4e7ea", "#7c8590"),
    };
    let dash = if assumed { " stroke-dasharray=\"4 3\"" } else { "" };
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"4\" fill=\"{fill}\" \
         stroke=\"{line}\"{dash}/>"
    );
    let name = escape(&fit(name, NAME_CHARS));
    let middle = y + BOX_HEIGHT / 2.0;
    let (tx, name_y) = (x + 8.0, if product.is_empty() { middle + 4.0 } else { middle - 2.0 });
    let _ = writeln!(
        svg,
        "<text x=\"{tx:.1}\" y=\"{name_y:.1}\" font-size=\"12\" font-weight=\"600\" fill=\"#1f2933\">{name}</text>"
    );
    if width(product) > 0 {
        let product = escape(&fit(product, BOX_CHARS));
        let _ = writeln!(
            svg,
            "<text x=\"{tx:.1}\" y=\"{:.1}\" font-size=\"10\" fill=\"#475260\">{product}</text>",
            middle + 11.0
        );
    }
}

/// Text for XML and HTML; characters that XML cannot hold become spaces.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push(' '),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::catalogue::Parts;
    use peerlane::fabric::{FabricBuilder, Node};
    use peerlane::machine::{Machine, MachineKind};

    #[test]
    fn names_are_escaped_and_an_empty_machine_is_drawn() {
        let mut b = FabricBuilder::new();
        b.node(Node::new("<b>&\"", NodeKind::Gpu));
        for fabric in [b.build().unwrap(), Fabric::default()] {
            let case = Case::from(Machine::new("<i>", MachineKind::Design, fabric));
            let mut out = Vec::new();
            write(&mut out, &case, &Model::new(&case.machine, Parts::embedded())).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
            assert!(!text.contains("<b>") && !text.contains("<i>"));
        }
    }
}
