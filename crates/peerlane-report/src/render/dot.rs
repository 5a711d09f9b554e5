//! A machine as a Graphviz graph.

use std::io::{self, Write};

use peerlane::fabric::{LinkKind, NodeKind};
use peerlane::machine::Machine;

use super::label;

/// Writes an undirected graph, ranked by the PCIe tree; NVSwitches come last.
pub fn write(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let fabric = &machine.fabric;
    writeln!(out, "graph {} {{", quoted(&machine.name))?;
    writeln!(out, "  graph [rankdir=LR, label={}];", quoted(machine.title.as_deref().unwrap_or(&machine.name)))?;
    writeln!(out, "  node [shape=box, style=filled, fillcolor=\"#eeeeee\", fontname=\"sans-serif\", fontsize=11];")?;
    writeln!(out, "  edge [fontname=\"sans-serif\", fontsize=9];")?;
    for node in fabric.nodes() {
        let product = label::product(node);
        let text = if product.is_empty() { label::name(node) } else { format!("{}\n{product}", label::name(node)) };
        let look = if node.assumed { ", style=\"filled,dashed\"" } else { "" };
        let colour = colour(node.kind);
        writeln!(out, "  {} [label={}, fillcolor=\"{colour}\"{look}];", quoted(&node.name), quoted(&text))?;
    }
    // apart from the tree, beyond the GPUs
    let hubs: Vec<String> = fabric.of_kind(NodeKind::NvSwitch).map(|id| quoted(&fabric.node(id).name)).collect();
    if !hubs.is_empty() {
        writeln!(out, "  {{ rank=sink; {}; }}", hubs.join("; "))?;
    }
    for link in fabric.links() {
        let is_hub = |id| fabric.node(id).kind == NodeKind::NvSwitch;
        let to_hub = is_hub(link.a) || is_hub(link.b);
        // what is written first is left of the other
        let (a, b) = if is_hub(link.a) { (link.b, link.a) } else { (link.a, link.b) };
        let ends = format!("{} -- {}", quoted(&fabric.node(a).name), quoted(&fabric.node(b).name));
        let mut text = match &link.kind {
            LinkKind::Smp => label::link(link),
            _ => label::edge(link),
        };
        let mut look = String::new();
        if let Some(full) = label::shortfall(link) {
            text = format!("{text} of {full}");
        }
        if label::is_narrow(link) {
            look.push_str(", color=\"#c2410c\", fontcolor=\"#c2410c\"");
        }
        match &link.kind {
            LinkKind::Smp => look.push_str(", constraint=false, style=bold"),
            kind if kind.is_gpu_fabric() && to_hub => look.push_str(", color=\"#4d7c0f\", penwidth=2"),
            kind if kind.is_gpu_fabric() => look.push_str(", constraint=false, color=\"#4d7c0f\", penwidth=2"),
            _ => {}
        }
        if link.assumed {
            look.push_str(", style=dashed");
        }
        writeln!(out, "  {ends} [label={}{look}];", quoted(&text))?;
    }
    writeln!(out, "}}")
}

fn colour(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Gpu => "#bbf7d0",
        NodeKind::Nic | NodeKind::Card | NodeKind::Nvme | NodeKind::Fpga => "#bae6fd",
        NodeKind::Switch | NodeKind::NvSwitch => "#fde68a",
        NodeKind::Cpu | NodeKind::RootComplex | NodeKind::Host => "#e5e7eb",
    }
}

/// A quoted string of the DOT language; line breaks as `\n`.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_cannot_end_a_string() {
        assert_eq!(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
    }
}
