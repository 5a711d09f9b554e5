//! Names of nodes and links in drawings.

use peerlane::catalogue::Parts;
use peerlane::export::label::short;
pub(crate) use peerlane::export::label::{bundle, link};
use peerlane::fabric::{Link, LinkKind, Node, NodeKind, PcieWidth};
use peerlane::machine::Machine;
use peerlane::origin::Origin;
use peerlane::units::Rate;

use super::line_width;
use super::outline::Outline;
use super::text::{count, fit};

/// A node's name with its first alias: `NIC0 (mlx5_0)`.
pub fn name(node: &Node) -> String {
    match node.aliases.first() {
        Some(alias) => format!("{} ({alias})", node.name),
        None => node.name.clone(),
    }
}

/// What a node is, in short: its product, else its part's title, else its kind for inner nodes.
pub fn product(node: &Node) -> String {
    let part = || {
        let key = node.part.as_deref()?;
        Some(Parts::embedded().get(key).map_or(key, |p| p.title.as_str()))
    };
    match node.product.as_deref().or_else(part) {
        Some(text) => short(text),
        None => match node.kind {
            NodeKind::Switch => "PCIe switch".to_owned(),
            NodeKind::RootComplex => "root complex".to_owned(),
            NodeKind::Cpu => "CPU".to_owned(),
            NodeKind::Host => "host memory".to_owned(),
            NodeKind::NvSwitch => "NVSwitch".to_owned(),
            NodeKind::Nvme => "drive".to_owned(),
            NodeKind::Fpga => "capture card".to_owned(),
            NodeKind::Gpu | NodeKind::Nic | NodeKind::Card => String::new(),
        },
    }
}

/// A link's label on the edge of a tree: its running width.
pub fn edge(link: &Link) -> String {
    match &link.kind {
        LinkKind::Pcie { running, .. } if running.is_unknown() => String::new(),
        LinkKind::Pcie { running, .. } => running.to_string(),
        LinkKind::OnCard | LinkKind::OnDie => String::new(),
        kind => bundle(kind),
    }
}

/// The label of an edge; with a mark and what it could be, if it has fewer lanes than possible: `⚠ 3.0 x1 of x8`.
pub fn marked_edge(link: &Link) -> String {
    let LinkKind::Pcie { running, allowed, .. } = &link.kind else { return edge(link) };
    if !is_narrow(link) {
        return edge(link);
    }
    let same = running.generation == allowed.generation;
    match allowed.lanes {
        Some(lanes) if same => format!("⚠ {running} of x{lanes}"),
        _ => format!("⚠ {running} of {allowed}"),
    }
}

/// Whether a link has fewer lanes than possible. A lower generation alone may only mean that it is idle.
pub fn is_narrow(link: &Link) -> bool {
    matches!(&link.kind, LinkKind::Pcie { running, allowed, .. }
        if matches!((running.lanes, allowed.lanes), (Some(is), Some(could)) if is < could))
}

/// What a link could be, if it runs narrower or slower than that: `3.0 x16`.
pub fn shortfall(link: &Link) -> Option<PcieWidth> {
    let LinkKind::Pcie { running, allowed, .. } = &link.kind else { return None };
    let narrower = matches!((running.lanes, allowed.lanes), (Some(is), Some(could)) if is < could);
    let slower = matches!((running.generation, allowed.generation), (Some(is), Some(could)) if is < could);
    (narrower || slower).then_some(*allowed)
}

/// The origin of a statement, with the file name only: `topo.txt:12-17 (nvidia-smi topo -m)`.
pub fn origin(origin: &Origin) -> String {
    let text = origin.to_string();
    match origin.source.rsplit_once('/') {
        Some((folder, file)) if !file.is_empty() => text.get(folder.len() + 1..).unwrap_or(&text).to_owned(),
        _ => text,
    }
}

/// `4 GPUs, 2 NICs, 2 PCIe switches, 1 CPU`; without numbers that are unknown: `8 GPUs, PCIe switches, 2 or 4 sockets`.
pub fn inventory(machine: &Machine) -> String {
    let fabric = &machine.fabric;
    let outline = Outline::of(fabric);
    let counted = |kind, what| {
        let n = fabric.of_kind(kind).count();
        (n > 0).then(|| count(n, what))
    };
    let switches = if outline.has_hidden_switches() {
        Some("PCIe switches".to_owned())
    } else {
        counted(NodeKind::Switch, "PCIe switch")
    };
    let packages = if outline.is_implied() { outline.sockets() } else { counted(NodeKind::Cpu, "CPU") };
    let parts = [
        counted(NodeKind::Gpu, "GPU"),
        counted(NodeKind::Nic, "NIC"),
        counted(NodeKind::Nvme, "drive"),
        counted(NodeKind::Fpga, "capture card"),
        switches,
        counted(NodeKind::NvSwitch, "NVSwitch"),
        packages,
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "no devices known".to_owned() } else { fit(&parts.join(", "), line_width()) }
}

/// Why a hop is limited, without the rate, which is shown next to it.
pub fn reason(limit: Option<f64>, why: &str) -> &str {
    let stated = limit.map(|l| format!(": {} ", Rate::from_gb(l)));
    match stated.and_then(|rate| why.split_once(rate.as_str())) {
        Some((_, reason)) => {
            let inner = reason.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
            inner.filter(|inner| !inner.contains(')')).unwrap_or(reason)
        }
        None => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_around_a_reason_go_in_pairs() {
        let of = |why| reason(Some(40.64), why);
        assert_eq!(of("PCIe 5.0 x16: 40.64 GB/s (64-byte packets)"), "64-byte packets");
        assert_eq!(of("PCIe: 40.64 GB/s (64-byte packets); line: 49.68 GB/s"), "(64-byte packets); line: 49.68 GB/s");
        assert_eq!(of("copy engine"), "copy engine");
    }

    #[test]
    fn product_names_are_shortened() {
        assert_eq!(short("NVIDIA GeForce RTX 4090"), "RTX 4090");
        assert_eq!(short("Intel(R) Xeon(R) CPU E5-2650 v4 @ 2.20GHz"), "Xeon E5-2650 v4");
        assert_eq!(short("NVIDIA"), "NVIDIA");
        assert_eq!(short("NVIDIA GeForce ..."), "NVIDIA GeForce ...");
        assert_eq!(short("PLX (Broadcom) PEX 8747, PCIe 3.0 switch"), "PLX PEX 8747");
        assert_eq!(short("GV100GL [Tesla V100 SXM2 16GB]"), "Tesla V100 SXM2 16GB");
        assert_eq!(short("Omni-Path HFI Silicon 100 Series [discrete]"), "Omni-Path HFI Silicon 100 Series");
        assert_eq!(short("Advanced Micro Devices, Inc. [AMD/ATI] Device 738c"), "Device 738c");
        assert_eq!(short("PLX Technology, Inc. PEX 8747 48-Lane, 5-Port PCI Express Gen 3 Switch"), "PEX 8747 48-Lane");
    }
}
