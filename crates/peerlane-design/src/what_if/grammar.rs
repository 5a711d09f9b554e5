//! What the two sides of an edit mean.

use super::Edit;
use super::WhatIfError;
use peerlane_machine::fabric::{FAMILIES, Fabric, GpuLink, Interconnect, NodeId, NodeKind, PcieWidth};
use peerlane_machine::machine::Machine;
use peerlane_machine::machine::lookup::LookupError;
use peerlane_machine::names::ranges;

/// What an edit changes, looked up in the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What<'e> {
    /// `NODE`
    Node(NodeId),
    /// `NODE`, which is not there yet.
    NewNode(&'e str),
    /// `NODE.link`: the link towards the root, or its only one.
    LinkOf(NodeId),
    /// `NODE.part`
    PartOf(NodeId),
    /// `NODE.at`: what it hangs below.
    PlaceOf(NodeId),
    /// `NIC.method`: how it accesses GPU memory.
    MethodOf(NodeId),
    /// `A-B`
    Between(NodeId, NodeId),
    /// `A-B.p2p`
    PeersBetween(NodeId, NodeId),
    /// `p2p`: among all GPUs.
    Peers,
}

/// How a link is to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LinkTo {
    /// Gone.
    None,
    /// PCIe; what is not said stays as it is.
    Pcie(PcieWidth),
    /// A GPU's own interconnect.
    Gpu(GpuLink),
    /// Between CPUs, by a part's key if said.
    Smp(Option<String>),
}

/// The nodes that are there, for errors.
pub(super) fn nodes(fabric: &Fabric) -> String {
    let mut names: Vec<&str> = fabric.nodes().iter().map(|n| n.name.as_str()).collect();
    names.sort_by_key(|n| fabric.find(n).map(|id| fabric.node(id).kind));
    ranges(&names)
}

/// Looks up the left side of an edit. A name that nothing has is a new node only where the edit has no property.
pub(super) fn what<'e>(edit: &'e Edit, machine: &Machine) -> Result<What<'e>, WhatIfError> {
    let text = edit.what.as_str();
    let refused = |why: LookupError| edit.refused(why.to_string());
    match machine.lookup(text) {
        Ok(node) => return Ok(What::Node(node)),
        Err(why @ LookupError::Ambiguous { .. }) => return Err(refused(why)),
        Err(LookupError::Unknown { .. }) => {}
    }
    if text == "p2p" {
        return Ok(What::Peers);
    }
    if let Some((name, property)) = text.rsplit_once('.') {
        let node = || machine.lookup(name).map_err(refused);
        match property {
            "link" => return node().map(What::LinkOf),
            "part" => return node().map(What::PartOf),
            "at" => return node().map(What::PlaceOf),
            "method" => return node().map(What::MethodOf),
            "p2p" => {
                let usage = || edit.refused("p2p is of all GPUs (p2p=on) or of two (GPU0-GPU1.p2p=on)");
                let (a, b) = pair(name, machine).map_err(refused)?.ok_or_else(usage)?;
                return Ok(What::PeersBetween(a, b));
            }
            _ => {}
        }
        if let Ok(id) = machine.lookup(name) {
            let node = machine.fabric.node(id);
            let name = &node.name;
            let nic = if node.kind == NodeKind::Nic { format!(", {name}.method") } else { String::new() };
            let why = format!("a node has no '{property}'; there are: {name}.link, {name}.part, {name}.at{nic}");
            return Err(edit.refused(why));
        }
    }
    match pair(text, machine).map_err(refused)? {
        Some((a, b)) => Ok(What::Between(a, b)),
        None => Ok(What::NewNode(text)),
    }
}

/// The two nodes of `A-B`, at whichever dash parts two names. `None` where there is no dash.
fn pair(text: &str, machine: &Machine) -> Result<Option<(NodeId, NodeId)>, LookupError> {
    let dashes: Vec<(usize, char)> = text.char_indices().filter(|(_, c)| matches!(c, '-' | '–')).collect();
    let mut missing = None;
    for (at, dash) in &dashes {
        match (machine.lookup(&text[..*at]), machine.lookup(&text[at + dash.len_utf8()..])) {
            (Ok(x), Ok(y)) => return Ok(Some((x, y))),
            (Ok(_), Err(why)) => missing = Some(why),
            (Err(why), _) => missing = missing.or(Some(why)),
        }
    }
    missing.map_or(Ok(None), Err)
}

/// Reads the right side of an edit of a link.
pub(super) fn link_to(edit: &Edit) -> Result<LinkTo, WhatIfError> {
    let usage = || {
        let examples = FAMILIES.iter().map(|family| family.example).collect::<Vec<_>>().join(", ");
        edit.refused(format!("'{}' is no link; write pcie 3.0 x16, {examples}, smp PART or none", edit.to))
    };
    let (kind, rest) = edit.to.split_once(char::is_whitespace).unwrap_or((&edit.to, ""));
    let rest = rest.trim();
    if let Some(interconnect) = Interconnect::by_key(kind) {
        let bundle = GpuLink::parse(interconnect, rest).map_err(|e| edit.refused(e.to_string()))?;
        return Ok(LinkTo::Gpu(bundle));
    }
    match kind.to_ascii_lowercase().as_str() {
        "none" if rest.is_empty() => Ok(LinkTo::None),
        "pcie" => {
            let width = rest.parse::<PcieWidth>().map_err(|e| edit.refused(e.to_string()))?;
            if width.is_unknown() { Err(usage()) } else { Ok(LinkTo::Pcie(width)) }
        }
        "smp" if rest.is_empty() || rest == "?" => Ok(LinkTo::Smp(None)),
        "smp" => Ok(LinkTo::Smp(Some(rest.to_owned()))),
        // the width alone will do
        _ => match edit.to.parse::<PcieWidth>() {
            Ok(width) if !width.is_unknown() => Ok(LinkTo::Pcie(width)),
            _ => Err(usage()),
        },
    }
}

/// Reads `on` or `off`.
pub(super) fn on_or_off(edit: &Edit) -> Result<bool, WhatIfError> {
    match edit.to.as_str() {
        "on" | "yes" => Ok(true),
        "off" | "no" => Ok(false),
        other => Err(edit.refused(format!("'{other}' is neither on nor off"))),
    }
}
