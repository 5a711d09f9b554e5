//! What the evidence cannot tell, in sentences.

use crate::fabric::{Fabric, LinkKind, NodeKind, PathClass};

use super::inventory::Inventory;
use super::nvlink::Outcome;

/// Sentences for the reader, most general first.
pub(super) fn unknown(all: &Inventory, fabric: &Fabric, nvlink: &Outcome) -> Vec<String> {
    let mut list = Vec::new();
    list.extend(missing_rows(all));
    list.extend(unplaced(fabric));
    list.extend(widths(fabric));
    list.extend(implied_switches(fabric));
    list.extend(guessed_cards(fabric));
    list.extend(hidden_by_nvlink(all, fabric));
    for group in &nvlink.undecided {
        list.push(format!(
            "{}: equal NV# to all peers fits direct NVLinks as well as an NVSwitch; drawn as direct links",
            span(group)
        ));
    }
    list.extend(packages(fabric));
    list.extend(one_numa_node_yet_sys(fabric));
    list
}

fn missing_rows(all: &Inventory) -> Option<String> {
    let (matrix, origin) = all.classes.as_ref()?;
    let missing: Vec<&str> = matrix.cols.iter().filter(|c| !matrix.rows.contains(c)).map(String::as_str).collect();
    (!missing.is_empty())
        .then(|| format!("{} has no rows for {}: what stands only there is not known", origin.tool, missing.join(", ")))
}

fn unplaced(fabric: &Fabric) -> Vec<String> {
    let devices = fabric.devices();
    let mut list = Vec::new();
    let loose: Vec<String> =
        devices.iter().filter(|d| fabric.package(**d).is_none()).map(|d| fabric.node(*d).name.clone()).collect();
    if !loose.is_empty() {
        list.push(format!("the socket above {}, and the way to host memory", span(&loose)));
    }
    for cpu in fabric.of_kind(NodeKind::Cpu).filter(|c| fabric.node(*c).note.is_some()) {
        let below: Vec<String> =
            devices.iter().filter(|d| fabric.package(**d) == Some(cpu)).map(|d| fabric.node(*d).name.clone()).collect();
        if !below.is_empty() {
            list.push(format!("the socket above {}: no affinity is given", span(&below)));
        }
    }
    list
}

fn widths(fabric: &Fabric) -> Option<String> {
    let unknown = |kind: &LinkKind| matches!(kind, LinkKind::Pcie { running, .. } if running.raw_rate().is_none());
    let pcie = fabric.links().iter().filter(|l| matches!(l.kind, LinkKind::Pcie { .. })).count();
    let lost: Vec<String> =
        fabric.links().iter().filter(|l| unknown(&l.kind)).map(|l| fabric.node(l.b).name.clone()).collect();
    match lost.len() {
        0 => None,
        n if n == pcie => Some("PCIe generation and lanes of every link".to_owned()),
        _ => Some(format!("PCIe generation or lanes of the links above {}", span(&lost))),
    }
}

fn implied_switches(fabric: &Fabric) -> Vec<String> {
    let implied: Vec<_> = fabric.of_kind(NodeKind::Switch).filter(|s| fabric.node(*s).assumed).collect();
    let mut list = Vec::new();
    let nested =
        implied.iter().any(|s| fabric.upstream(*s).is_some_and(|(_, up)| fabric.node(up).kind == NodeKind::Switch));
    let side_by_side = implied
        .iter()
        .filter(|s| fabric.upstream(**s).is_none_or(|(_, up)| fabric.node(up).kind != NodeKind::Switch))
        .count();
    if side_by_side > 1 {
        list.push(
            "topo -m cannot tell two PIX groups on one switch chip (its virtual switches) from two switch chips"
                .to_owned(),
        );
    }
    if nested {
        list.push(
            "PXB says several bridges, not which or how many: the nesting of these switches is drawn at its simplest"
                .to_owned(),
        );
    }
    list
}

fn guessed_cards(fabric: &Fabric) -> Vec<String> {
    fabric
        .of_kind(NodeKind::Card)
        .filter(|c| fabric.node(*c).assumed)
        .map(|card| {
            let ports: Vec<String> = fabric.downstream(card).map(|(_, p)| fabric.node(p).name.clone()).collect();
            format!("whether {} are ports of one card (drawn so: one link) or cards of their own", ports.join(" and "))
        })
        .collect()
}

fn hidden_by_nvlink(all: &Inventory, fabric: &Fabric) -> Option<String> {
    let (_, origin) = all.classes.as_ref()?;
    let gpus: Vec<usize> = (0..all.devices.len()).filter(|d| all.devices[*d].gpu).collect();
    let hidden = |a: usize, b: usize| matches!(all.stated(a, b), Some(PathClass::Nvlink(_) | PathClass::Xgmi));
    let any = gpus.iter().enumerate().any(|(i, a)| gpus[i + 1..].iter().any(|b| hidden(*a, *b)));
    let by_matrix = fabric.of_kind(NodeKind::RootComplex).all(|rc| fabric.node(rc).assumed);
    (any && by_matrix).then(|| {
        format!("{} shows NV# instead of the PCIe class: how NVLinked GPUs hang below their host bridges", origin.tool)
    })
}

fn packages(fabric: &Fabric) -> Option<String> {
    let guessed =
        fabric.of_kind(NodeKind::Cpu).filter(|c| fabric.node(*c).assumed && fabric.node(*c).note.is_none()).count();
    (guessed > 2).then(|| {
        format!("whether the {guessed} NUMA nodes are as many sockets, or quarters of fewer (NPS, sub-NUMA clusters)")
    })
}

/// Root complexes of one NUMA node, or with one CPU affinity, with `SYS` between them.
fn one_numa_node_yet_sys(fabric: &Fabric) -> Option<String> {
    let roots: Vec<_> = fabric.of_kind(NodeKind::RootComplex).collect();
    let local = |id| (fabric.node(id).numa, fabric.package(id));
    let apart = roots.iter().enumerate().any(|(i, &a)| {
        let placed = fabric.package(a).is_some_and(|cpu| fabric.node(cpu).note.is_none());
        roots[i + 1..].iter().any(|&b| placed && local(a) == local(b) && fabric.node(a).domain != fabric.node(b).domain)
    });
    apart.then(|| {
        "devices of one NUMA node or CPU affinity read SYS to each other: the labels do not tell whether a socket-to-socket link is on the way"
            .to_owned()
    })
}

/// `GPU0–GPU3` for a run of numbers, else a list.
pub(super) fn span(names: &[String]) -> String {
    let split = |name: &String| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        Some((stem.to_owned(), name[stem.len()..].parse::<u32>().ok()?))
    };
    let numbered: Option<Vec<(String, u32)>> = names.iter().map(split).collect();
    match numbered.as_deref() {
        Some([(stem, first), .., (_, last)])
            if names.len() > 2
                && numbered
                    .iter()
                    .flatten()
                    .enumerate()
                    .all(|(i, (s, n))| s == stem && Some(*n) == first.checked_add(i as u32)) =>
        {
            format!("{stem}{first}–{stem}{last}")
        }
        _ if names.len() > 8 => format!("{} and {} others", names[..7].join(", "), names.len() - 7),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_names_are_drawn_together() {
        let span = |names: &[&str]| span(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(span(&["GPU1", "GPU2", "GPU3"]), "GPU1–GPU3");
        assert_eq!(span(&["GPU4294967295", "GPU0", "GPU1"]), "GPU4294967295, GPU0, GPU1");
    }
}
