//! What the evidence leaves unknown.

use std::collections::HashSet;

use crate::catalogue::Parts;
use crate::evidence::tool;
use peerlane_machine::fabric::{Fabric, Interconnect, LinkKind, NodeKind, PathClass};
use peerlane_machine::fact::PathWord;
use peerlane_machine::gap::Gap;

use super::inventory::Inventory;
use super::nvlink::Outcome;

/// The gaps, most general first.
pub(super) fn unknown(all: &Inventory, fabric: &Fabric, nvlink: &Outcome) -> Vec<Gap> {
    let mut list = Vec::new();
    list.extend(missing_rows(all));
    list.extend(path_words(all));
    list.extend(unplaced(fabric));
    list.extend(widths(fabric));
    list.extend(implied_switches(fabric));
    list.extend(guessed_cards(fabric));
    list.extend(hidden_by_nvlink(all, fabric));
    list.extend(nvlinks_left_out(all).or_else(|| nvlink_not_shown(all)));
    list.extend(nvlink.undecided.iter().map(|gpus| Gap::Nvswitch { gpus: gpus.clone() }));
    list.extend(nvlinks_to_nowhere(all, fabric));
    list.extend(packages(fabric));
    list.extend(one_numa_node_yet_sys(fabric));
    list
}

fn missing_rows(all: &Inventory) -> Option<Gap> {
    let (matrix, origin) = all.classes.as_ref()?;
    let devices: Vec<String> = matrix.cols.iter().filter(|c| !matrix.rows.contains(c)).cloned().collect();
    (!devices.is_empty()).then(|| Gap::Rows { tool: origin.tool.to_owned(), devices })
}

/// Words of a matrix for links of a maker's own, and for classes that are not known; a pair with one word both ways is named once.
fn path_words(all: &Inventory) -> Vec<Gap> {
    let Some((matrix, _)) = &all.classes else { return Vec::new() };
    let of_word = |word: &PathWord| {
        let named = word.cells.iter().filter_map(|(i, j)| Some((matrix.rows.get(*i)?, matrix.cols.get(*j)?)));
        let mut seen: HashSet<(&String, &String)> = HashSet::new();
        let once = named.filter(|(a, b)| seen.insert((a.min(b), a.max(b))));
        let pairs = once.map(|(a, b)| (a.clone(), b.clone())).collect();
        Gap::PathWord { word: word.word.clone(), meaning: word.meaning.clone(), pairs }
    };
    matrix.words.iter().map(of_word).collect()
}

fn unplaced(fabric: &Fabric) -> Vec<Gap> {
    let devices = fabric.devices();
    let mut list = Vec::new();
    let loose: Vec<String> =
        devices.iter().filter(|d| fabric.package(**d).is_none()).map(|d| fabric.node(*d).name.clone()).collect();
    if !loose.is_empty() {
        list.push(Gap::Sockets { devices: loose });
    }
    for cpu in fabric.of_kind(NodeKind::Cpu).filter(|c| fabric.node(*c).stand_in) {
        let below: Vec<String> =
            devices.iter().filter(|d| fabric.package(**d) == Some(cpu)).map(|d| fabric.node(*d).name.clone()).collect();
        if !below.is_empty() {
            list.push(Gap::Affinity { devices: below });
        }
    }
    list
}

fn widths(fabric: &Fabric) -> Option<Gap> {
    let unknown = |kind: &LinkKind| matches!(kind, LinkKind::Pcie { running, .. } if running.raw_rate().is_none());
    let pcie = fabric.links().iter().filter(|l| matches!(l.kind, LinkKind::Pcie { .. })).count();
    let lost: Vec<String> =
        fabric.links().iter().filter(|l| unknown(&l.kind)).map(|l| fabric.node(l.b).name.clone()).collect();
    match lost.len() {
        0 => None,
        n if n == pcie => Some(Gap::Widths { below: Vec::new() }),
        _ => Some(Gap::Widths { below: lost }),
    }
}

fn implied_switches(fabric: &Fabric) -> Vec<Gap> {
    let implied: Vec<_> = fabric.of_kind(NodeKind::Switch).filter(|s| fabric.node(*s).assumed).collect();
    let mut list = Vec::new();
    let nested =
        implied.iter().any(|s| fabric.upstream(*s).is_some_and(|(_, up)| fabric.node(up).kind == NodeKind::Switch));
    let side_by_side = implied
        .iter()
        .filter(|s| fabric.upstream(**s).is_none_or(|(_, up)| fabric.node(up).kind != NodeKind::Switch))
        .count();
    if side_by_side > 1 {
        list.push(Gap::SwitchChips);
    }
    if nested {
        list.push(Gap::SwitchNesting);
    }
    list
}

fn guessed_cards(fabric: &Fabric) -> Vec<Gap> {
    fabric
        .of_kind(NodeKind::Card)
        .filter(|c| fabric.node(*c).assumed)
        .map(|card| Gap::Card { ports: fabric.downstream(card).map(|(_, p)| fabric.node(p).name.clone()).collect() })
        .collect()
}

fn hidden_by_nvlink(all: &Inventory, fabric: &Fabric) -> Option<Gap> {
    let (matrix, origin) = all.classes.as_ref()?;
    let gpus: Vec<usize> = (0..all.devices.len()).filter(|&d| all.devices[d].gpu).collect();
    // what another maker's own links hide is named with their words
    let is_named = |c: PathClass| c.is_gpu_link() && !matches!(c, PathClass::Gpu(Interconnect::Other, _));
    let hidden = |i: usize, j: usize| all.stated.class(gpus[i], gpus[j]).is_some_and(is_named);
    let any = (0..gpus.len()).any(|i| (i + 1..gpus.len()).any(|j| hidden(i, j)));
    let by_matrix = fabric.of_kind(NodeKind::RootComplex).all(|rc| fabric.node(rc).assumed);
    let xgmi = matrix.cells.iter().flatten().flatten().any(|c| *c == PathClass::XGMI);
    let hides = any && by_matrix && all.pci_classes.is_none();
    hides.then(|| Gap::PciePaths { tool: origin.tool.to_owned(), xgmi })
}

/// GPUs of a kind that has NVLink, from sources that cannot show it (sysfs, lspci, device lists).
fn nvlink_not_shown(all: &Inventory) -> Option<Gap> {
    if all.classes.is_some() || !all.nvlinks.is_empty() {
        return None;
    }
    let bricks = |part: &String| Parts::embedded().get(part).and_then(|p| p.nvlink_bricks);
    let gpus = all.devices.iter().filter(|d| d.gpu && d.part.as_ref().and_then(bricks).is_some_and(|n| n > 0));
    let gpus: Vec<String> = gpus.map(|d| d.name.clone()).collect();
    (gpus.len() > 1).then_some(Gap::Nvlinks { gpus })
}

/// A topology file that NCCL is given (`NCCL_TOPO_FILE`) has PCI devices only; NCCL finds NVLinks itself.
fn nvlinks_left_out(all: &Inventory) -> Option<Gap> {
    let (tree, origin) = all.trees.iter().find(|(_, origin)| origin.tool == tool::NCCL_XML)?;
    let gpus: Vec<_> = tree.devices.iter().filter(|d| d.is_gpu()).collect();
    let given = gpus.len() > 1 && gpus.iter().all(|d| d.gpu_index.is_none());
    (given && all.nvlinks.is_empty() && all.classes.is_none())
        .then(|| Gap::NvlinksLeftOut { tool: origin.tool.to_owned() })
}

/// `nvlink -s` lists links that are up, but not where they lead.
fn nvlinks_to_nowhere(all: &Inventory, fabric: &Fabric) -> Option<Gap> {
    let joined = fabric.links().iter().any(|l| l.kind.bundle(Interconnect::Nvlink).is_some());
    let mut up: Vec<u32> =
        all.nvlinks.iter().flat_map(|(ports, _)| ports).filter(|p| p.active && !p.xgmi).filter_map(|p| p.gpu).collect();
    up.sort_unstable();
    up.dedup();
    let gpus: Vec<String> = up.iter().map(|n| format!("GPU{n}")).collect();
    (!joined && !gpus.is_empty()).then_some(Gap::NvlinkEnds { gpus })
}

fn packages(fabric: &Fabric) -> Option<Gap> {
    let guessed =
        fabric.of_kind(NodeKind::Cpu).filter(|c| fabric.node(*c).assumed && !fabric.node(*c).stand_in).count();
    (guessed > 2).then_some(Gap::Packages { numa_nodes: guessed })
}

/// Root complexes of one NUMA node, or with one CPU affinity, with `SYS` between them.
fn one_numa_node_yet_sys(fabric: &Fabric) -> Option<Gap> {
    let roots: Vec<_> = fabric.of_kind(NodeKind::RootComplex).collect();
    let local = |id| (fabric.node(id).numa, fabric.package(id));
    let apart = roots.iter().enumerate().any(|(i, &a)| {
        let placed = fabric.package(a).is_some_and(|cpu| !fabric.node(cpu).stand_in);
        roots[i + 1..].iter().any(|&b| placed && local(a) == local(b) && fabric.node(a).domain != fabric.node(b).domain)
    });
    apart.then_some(Gap::SysWithinNode)
}
