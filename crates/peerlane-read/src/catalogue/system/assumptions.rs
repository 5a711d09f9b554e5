//! What a system file assumes, in sentences: one for each group of nodes or links.

use std::collections::BTreeMap;

use crate::catalogue::Parts;
use peerlane_machine::fabric::{Fabric, LinkKind, Node, NodeKind};

/// The file's own sentences, and one for each group of assumed nodes or links that share part, width
/// and note.
pub(super) fn sentences(own: &[String], fabric: &Fabric, parts: &Parts) -> Vec<String> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    let mut add = |what: String, name: String| {
        let members = groups.entry(what.clone()).or_default();
        if members.is_empty() {
            order.push(what);
        }
        members.push(name);
    };
    for node in fabric.nodes().iter().filter(|n| n.assumed && !follows(n)) {
        let is = node.part.as_deref().and_then(|key| parts.get(key)).map_or(node.kind.name(), |p| &p.title);
        add(with_note(is, node.note.as_deref()), node.name.clone());
    }
    for link in fabric.links().iter().filter(|l| l.assumed) {
        let is = match &link.kind {
            LinkKind::Pcie { running, .. } if running.is_unknown() => "PCIe of unknown width".to_owned(),
            LinkKind::Pcie { running, .. } => format!("PCIe {running}"),
            LinkKind::Gpu(bundle) => format!("{} of {}", bundle.interconnect.family().title, bundle.counted()),
            LinkKind::Smp => {
                let part = link.part.as_deref().and_then(|key| parts.get(key));
                part.map_or_else(|| "an inter-socket link".to_owned(), |p| p.title.clone())
            }
            other => other.name().to_owned(),
        };
        let ends = format!("{}–{}", fabric.node(link.a).name, fabric.node(link.b).name);
        add(with_note(&is, link.note.as_deref()), ends);
    }
    let mut all = own.to_vec();
    for what in order {
        let members = groups.remove(&what).unwrap_or_default();
        let sentence = match members.split_last() {
            Some((last, [])) => format!("{last} is taken to be {what}."),
            Some((last, others)) => format!("{} and {last} are taken to be {what}.", others.join(", ")),
            None => continue,
        };
        if !all.contains(&sentence) {
            all.push(sentence);
        }
    }
    all
}

/// Root complexes, host memory and cards follow from the CPU or ports that they belong to.
fn follows(node: &Node) -> bool {
    matches!(node.kind, NodeKind::RootComplex | NodeKind::Host | NodeKind::Card)
}

fn with_note(what: &str, note: Option<&str>) -> String {
    match note {
        Some(note) => format!("{what}: {note}"),
        None => what.to_owned(),
    }
}
