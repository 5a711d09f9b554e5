//! What the evidence cannot tell, in sentences.

use crate::catalogue::Parts;
use crate::fabric::{Fabric, Interconnect, LinkKind, NodeKind, PathClass};
use crate::names;

use super::from_classes::stated;
use super::inventory::Inventory;
use super::nvlink::Outcome;

/// How what is unknown begins where GPUs may be joined by NVLinks that no source could show.
const NVLINK_UNTOLD: &str = "whether NVLink joins";

/// How what is unknown begins where NVLinks are up and no source tells where they lead.
const NVLINKS_LEAD: &str = "where the NVLinks of";

/// Whether GPUs of a machine may be joined by NVLinks that no source shows.
pub(crate) fn nvlinks_untold(unknown: &[String]) -> bool {
    unknown.iter().any(|sentence| sentence.starts_with(NVLINK_UNTOLD) || sentence.starts_with(NVLINKS_LEAD))
}

/// Sentences for the reader, most general first.
pub(super) fn unknown(all: &Inventory, fabric: &Fabric, nvlink: &Outcome) -> Vec<String> {
    let mut list = Vec::new();
    list.extend(missing_rows(all));
    list.extend(unplaced(fabric));
    list.extend(widths(fabric));
    list.extend(implied_switches(fabric));
    list.extend(guessed_cards(fabric));
    list.extend(hidden_by_nvlink(all, fabric));
    list.extend(nvlinks_left_out(all).or_else(|| nvlink_not_shown(all)));
    for group in &nvlink.undecided {
        list.push(format!(
            "{}: equal NV# to all peers fits direct NVLinks as well as an NVSwitch; drawn as direct links",
            names::list(group)
        ));
    }
    list.extend(nvlinks_to_nowhere(all, fabric));
    list.extend(packages(fabric));
    list.extend(one_numa_node_yet_sys(fabric));
    list
}

fn missing_rows(all: &Inventory) -> Option<String> {
    let (matrix, origin) = all.classes.as_ref()?;
    let missing: Vec<&str> = matrix.cols.iter().filter(|c| !matrix.rows.contains(c)).map(String::as_str).collect();
    (!missing.is_empty()).then(|| {
        format!("{} has no rows for {}: what stands only there is not known", origin.tool, names::list(&missing))
    })
}

fn unplaced(fabric: &Fabric) -> Vec<String> {
    let devices = fabric.devices();
    let mut list = Vec::new();
    let loose: Vec<String> =
        devices.iter().filter(|d| fabric.package(**d).is_none()).map(|d| fabric.node(*d).name.clone()).collect();
    if !loose.is_empty() {
        list.push(format!("the socket above {}, and the way to host memory", names::list(&loose)));
    }
    for cpu in fabric.of_kind(NodeKind::Cpu).filter(|c| fabric.node(*c).note.is_some()) {
        let below: Vec<String> =
            devices.iter().filter(|d| fabric.package(**d) == Some(cpu)).map(|d| fabric.node(*d).name.clone()).collect();
        if !below.is_empty() {
            list.push(format!("the socket above {}: no affinity is given", names::list(&below)));
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
        _ => Some(format!("PCIe generation or lanes of the links above {}", names::list(&lost))),
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
    let (matrix, origin) = all.classes.as_ref()?;
    let gpus: Vec<_> = all.devices.iter().filter(|d| d.gpu).collect();
    let hidden = |i: usize, j: usize| stated(matrix, gpus[i], gpus[j]).is_some_and(PathClass::is_gpu_link);
    let any = (0..gpus.len()).any(|i| (i + 1..gpus.len()).any(|j| hidden(i, j)));
    let by_matrix = fabric.of_kind(NodeKind::RootComplex).all(|rc| fabric.node(rc).assumed);
    let xgmi = matrix.cells.iter().flatten().flatten().any(|c| *c == PathClass::XGMI);
    let (shown, by) = if xgmi { ("XGMI", "joined") } else { ("NV#", "NVLinked") };
    (any && by_matrix && all.pci_classes.is_none()).then(|| {
        format!("{} shows {shown} instead of the PCIe class: how {by} GPUs hang below their host bridges", origin.tool)
    })
}

/// GPUs of a kind that has NVLink, from sources that cannot show it (sysfs, lspci, device lists).
fn nvlink_not_shown(all: &Inventory) -> Option<String> {
    if all.classes.is_some() || !all.nvlinks.is_empty() {
        return None;
    }
    let bricks = |part: &String| Parts::embedded().get(part).and_then(|p| p.nvlink_bricks);
    let gpus = all.devices.iter().filter(|d| d.gpu && d.part.as_ref().and_then(bricks).is_some_and(|n| n > 0));
    let names: Vec<String> = gpus.map(|d| d.name.clone()).collect();
    (names.len() > 1).then(|| {
        format!(
            "{NVLINK_UNTOLD} {}, which have it: nothing read here shows NVLink (nvidia-smi topo -m does)",
            names::list(&names)
        )
    })
}

/// A topology file that NCCL is given (`NCCL_TOPO_FILE`) has PCI devices only; NCCL finds NVLinks itself.
fn nvlinks_left_out(all: &Inventory) -> Option<String> {
    let (tree, origin) = all.trees.iter().find(|(tree, o)| tree.bridges_are_switches && o.tool.starts_with("NCCL"))?;
    let gpus: Vec<_> = tree.devices.iter().filter(|d| d.is_gpu()).collect();
    let given = gpus.len() > 1 && gpus.iter().all(|d| d.gpu_index.is_none());
    (given && all.nvlinks.is_empty() && all.classes.is_none())
        .then(|| format!("{NVLINK_UNTOLD} the GPUs: {} as given to NCCL leaves that out", origin.tool))
}

/// `nvlink -s` lists links that are up, but not where they lead.
fn nvlinks_to_nowhere(all: &Inventory, fabric: &Fabric) -> Option<String> {
    let joined = fabric.links().iter().any(|l| l.kind.bundle(Interconnect::Nvlink).is_some());
    let mut up: Vec<u32> =
        all.nvlinks.iter().flat_map(|(ports, _)| ports).filter(|p| p.active && !p.xgmi).filter_map(|p| p.gpu).collect();
    up.sort_unstable();
    up.dedup();
    let names: Vec<String> = up.iter().map(|n| format!("GPU{n}")).collect();
    (!joined && !names.is_empty())
        .then(|| format!("{NVLINKS_LEAD} {} lead: `nvidia-smi nvlink -R` or `topo -m` would tell", names::list(&names)))
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
