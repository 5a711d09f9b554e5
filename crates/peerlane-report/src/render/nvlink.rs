//! GPU links (NVLink, xGMI, C2C), which are not part of the PCIe tree, as a compact block.

use std::collections::BTreeMap;
use std::io::{self, Write};

use peerlane::fabric::{FAMILIES, Fabric, Family, NodeId, NodeKind};
use peerlane::names::ranges;

use super::style::{self, paint};
use super::text::hang;
use super::{label, line_width};

/// Writes the block; nothing if there are no such links.
/// `fold`: links that are alike share a line, also if each has a hub of its own.
pub(crate) fn write(out: &mut dyn Write, fabric: &Fabric, fold: bool) -> io::Result<()> {
    let lines: Vec<String> = to_hubs(fabric, fold).into_iter().chain(among_gpus(fabric, fold)).collect();
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {}", paint(style::HEADING, &title(fabric)))?;
    for line in lines {
        hang(out, "    ", &line)?;
    }
    Ok(())
}

fn title(fabric: &Fabric) -> String {
    let has = |family: &&Family| fabric.links().iter().any(|l| l.kind.bundle(family.interconnect).is_some());
    let titles: Vec<&str> = FAMILIES.iter().filter(has).map(|family| family.title).collect();
    if titles.len() > 2 { "GPU links".to_owned() } else { titles.join(" and ") }
}

/// Lines such as `GPU0–GPU7 ══ NV18 ══ nvswitch`: links to other nodes than GPUs, similar ones combined.
fn to_hubs(fabric: &Fabric, fold: bool) -> Vec<String> {
    let mut by_hub: BTreeMap<(NodeId, String), Vec<&str>> = BTreeMap::new();
    for link in fabric.links().iter().filter(|l| l.kind.is_gpu_fabric()) {
        let is_gpu = |n| fabric.node(n).kind == NodeKind::Gpu;
        let (gpu, hub) = match (is_gpu(link.a), is_gpu(link.b)) {
            (true, false) => (link.a, link.b),
            (false, true) => (link.b, link.a),
            _ => continue,
        };
        by_hub.entry((hub, label::bundle(&link.kind))).or_default().push(&fabric.node(gpu).name);
    }
    // switches that connect the same GPUs alike share a line
    let mut alike: Vec<(Vec<&str>, String, Vec<&str>)> = Vec::new();
    for ((hub, bundle), gpus) in by_hub {
        let hub = fabric.node(hub).name.as_str();
        match alike.iter_mut().find(|(g, b, _)| *g == gpus && *b == bundle) {
            Some((_, _, hubs)) => hubs.push(hub),
            None => alike.push((gpus, bundle, vec![hub])),
        }
    }
    let mut lines: Vec<(usize, Vec<&str>, String, Vec<&str>)> = Vec::new();
    for (gpus, bundle, hubs) in alike {
        let same = |of: &&mut (usize, Vec<&str>, String, Vec<&str>)| fold && of.0 == gpus.len() && of.2 == bundle;
        match lines.iter_mut().find(same) {
            Some((_, all, _, others)) => {
                all.extend(gpus);
                others.extend(hubs);
            }
            None => lines.push((gpus.len(), gpus, bundle, hubs)),
        }
    }
    let line = |(each, gpus, bundle, hubs): (usize, Vec<&str>, String, Vec<&str>)| {
        let each = if gpus.len() > each { format!(", {each} each") } else { String::new() };
        format!("{} ══ {bundle} ══ {}{each}", ranges(&gpus), ranges(&hubs))
    };
    lines.into_iter().map(line).collect()
}

/// Lines such as `GPU0 ─NV2─ GPU3, GPU4 · ─NV1─ GPU1`: each pair once, at its first GPU.
fn among_gpus(fabric: &Fabric, fold: bool) -> Vec<String> {
    if fold && let Some(line) = full_mesh(fabric) {
        return vec![line];
    }
    let mut lines = Vec::new();
    for gpu in fabric.of_kind(NodeKind::Gpu) {
        let mut by_bundle: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
        for &(link, other) in fabric.links_of(gpu) {
            let kind = &fabric.link(link).kind;
            if kind.is_gpu_fabric() && fabric.node(other).kind == NodeKind::Gpu && other > gpu {
                by_bundle.entry(label::bundle(kind)).or_default().push(other);
            }
        }
        let parts: Vec<String> = by_bundle
            .into_iter()
            .rev()
            .map(|(bundle, mut others)| {
                others.sort_unstable();
                let names: Vec<&str> = others.iter().map(|n| fabric.node(*n).name.as_str()).collect();
                format!("─{bundle}─ {}", ranges(&names))
            })
            .collect();
        if !parts.is_empty() {
            lines.push(format!("{} {}", fabric.node(gpu).name, parts.join(" · ")));
        }
    }
    let one_line = lines.join(" · ");
    let pairs_only = lines.iter().all(|l| !l.contains(" · "));
    if lines.len() > 1 && pairs_only && one_line.chars().count() + 4 <= line_width() { vec![one_line] } else { lines }
}

/// One line if all pairs of GPUs have the same links.
fn full_mesh(fabric: &Fabric) -> Option<String> {
    let gpus: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).collect();
    let is_gpu = |id| fabric.node(id).kind == NodeKind::Gpu;
    let links = fabric.links().iter().filter(|l| l.kind.is_gpu_fabric() && is_gpu(l.a) && is_gpu(l.b));
    let bundles: Vec<String> = links.map(|l| label::bundle(&l.kind)).collect();
    let first = bundles.first().filter(|first| bundles.iter().all(|b| b == *first))?;
    let names: Vec<&str> = gpus.iter().map(|id| fabric.node(*id).name.as_str()).collect();
    let all = gpus.len() > 2 && bundles.len() == gpus.len() * (gpus.len() - 1) / 2;
    all.then(|| format!("all pairs of {} ─{first}─", ranges(&names)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::fabric::{FabricBuilder, GpuLink, Link, LinkKind, Node};

    fn drawn(b: FabricBuilder) -> String {
        let mut out = Vec::new();
        write(&mut out, &b.build().unwrap(), false).unwrap();
        anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
    }

    #[test]
    fn a_switch_has_one_line_and_a_mesh_one_a_gpu() {
        let nv = |bricks| LinkKind::Gpu(GpuLink::nvlink(None, bricks));
        let mut b = FabricBuilder::new();
        let hub = b.node(Node::new("nvswitch", NodeKind::NvSwitch));
        for i in 0..4 {
            let gpu = b.node(Node::new(format!("GPU{i}"), NodeKind::Gpu));
            b.link(Link::new(gpu, hub, nv(18)));
        }
        assert_eq!(drawn(b), "  NVLink\n    GPU0–GPU3 ══ NV18 ══ nvswitch\n");

        let mut b = FabricBuilder::new();
        let gpus: Vec<NodeId> = (0..3).map(|i| b.node(Node::new(format!("GPU{i}"), NodeKind::Gpu))).collect();
        b.link(Link::new(gpus[0], gpus[1], nv(1)));
        b.link(Link::new(gpus[2], gpus[0], nv(2)));
        assert_eq!(drawn(b), "  NVLink\n    GPU0 ─NV2─ GPU2 · ─NV1─ GPU1\n");
    }
}
