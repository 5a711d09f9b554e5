//! GPU pairs whose path leads between NUMA nodes: the design, as built.

use super::prelude::*;
use std::collections::HashMap;

pub(super) const RULE: Rule = Rule::new("crosses-sockets", One(run));

fn run(view: &View) -> Option<Raised> {
    let is_across = |(a, b): &(NodeId, NodeId)| view.class(*a, *b) == Some(PathClass::Sys);
    let mut pairs = view.gpu_pairs();
    // SYS between GPUs of one affinity is too coarse a label: whether the path crosses is unknown
    pairs.retain(|(a, b)| !is_across(&(*a, *b)) || !is_of_one_node(view, *a, *b));
    // a pair whose path is unknown may be near
    let (across, near): (Vec<_>, Vec<_>) = pairs.iter().copied().partition(is_across);
    if across.is_empty() {
        return None;
    }
    let groups = groups(&view.of_kind(NodeKind::Gpu), &near);
    let boards = boards(view);
    let refused = across.iter().filter(|(a, b)| view.p2p_works(*a, *b) == Some(false)).count();
    let costly = view.settings.crosses_sockets.costly;
    let slow = slowest(view).filter(|s| s.share() < costly);
    let ends: Vec<NodeId> = distinct(across.iter().flat_map(|(a, b)| [*a, *b]));
    let mut origins: Vec<&Origin> = view.class_origins(&ends);
    if refused > 0 {
        origins.extend(view.peer_access().map(|(_, origin)| origin));
    }
    origins.extend(slow.as_ref().map(|s| s.origin));
    let amd = origins.iter().all(|o| o.tool.starts_with("rocm-smi") || o.tool.starts_with("amd-smi"));
    let names =
        |groups: &[Vec<NodeId>]| groups.iter().map(|ids| list(&view.names_of(ids))).collect::<Vec<_>>().join(" | ");
    let on_boards = if boards.len() > 1 { format!(", on {} boards", boards.len()) } else { String::new() };
    let (summary, fix) = match groups.len() {
        // every GPU reaches every other through others by NVLink, but not directly
        1 => (
            format!("Data crosses NUMA nodes between {}", words::pairs(&view.names(across.iter().copied()))),
            if pairs.iter().any(|(a, b)| view.class(*a, *b) == Some(PathClass::XGMI)) {
                "Order ranks so that neighbours have xGMI; RCCL's rings do so automatically."
            } else {
                "Order ranks so that neighbours have NVLink; NCCL's rings do so automatically."
            },
        ),
        _ if groups.iter().all(|g| g.len() == 1) => (
            format!("Data between any two GPUs crosses NUMA nodes: {}{on_boards}", names(&groups)),
            "Prefer single-GPU jobs, or communicate in large messages. If GPUs do share a socket, the label is too coarse \
             (several NUMA nodes per socket, or a virtual machine): measure the pairs.",
        ),
        _ => (
            format!("Data between these groups of GPUs crosses NUMA nodes: {}{on_boards}", names(&groups)),
            "Keep ranks that communicate a lot in one group (CUDA_VISIBLE_DEVICES, ranks bound by socket), and let \
             collectives pass through the groups in turn. All pairs that cross share the links between the sockets.",
        ),
    };
    let fix = if may_have_nvlink(view, &ends) {
        format!("If NVLink joins the groups, which no input shows (`nvidia-smi topo -m`), do nothing. {fix}")
    } else {
        fix.to_owned()
    };
    let mut measured = vec![match pairs.len() {
        1 => format!("the only GPU pair is {}", PathClass::Sys),
        n => format!("{} of {n} GPU pairs are {}", across.len(), PathClass::Sys),
    }];
    if boards.len() > 1 {
        let sockets = if groups.len() == boards.len() { ", each on its own socket" } else { "" };
        measured.push(format!("{} boards of several GPUs: {}{sockets}", boards.len(), names(&boards)));
    }
    if refused > 0 {
        let on = if refused == across.len() { "there".to_owned() } else { format!("on {refused} of them") };
        measured.push(format!("peer-to-peer does not work {on}, so data is staged in host memory"));
    }
    measured.extend(slow.as_ref().map(|s| {
        format!("{:.1} GB/s, where {} pairs reach {:.1} GB/s (medians, {})", s.across, s.best_class, s.best, s.what)
    }));
    let raised = RULE
        .raise(Design, if refused > 0 || slow.is_some() { Warning } else { Info }, Certain)
        .summary(summary)
        .expected(slow.as_ref().map_or("pairs that stay on one socket".to_owned(), |s| {
            format!("at least {} of what {} pairs reach", percent(costly), s.best_class)
        }))
        .measured(measured.join("; "))
        .evidence(view.cite(origins))
        .fix(fix)
        .confirm(if amd {
            "`rocm-smi --showtopo`, `lspci -tv`"
        } else {
            "`nvidia-smi topo -m`; `peerlane measure --tests pairs` to measure the cost"
        })
        .cost(slow.as_ref().and_then(|s| Cost::of_rate(s.best, s.across)))
        .about(across.iter().map(|(a, b)| view.pair(*a, *b)).collect())
        .losing(slow.map_or(0.0, |s| 1.0 - s.share()));
    Some(raised)
}

/// Whether the GPUs' products have NVLink, and no input shows what it joins, as topology files of clouds do not.
fn may_have_nvlink(view: &View, gpus: &[NodeId]) -> bool {
    let has = |id: &NodeId| view.part(*id).and_then(|part| part.nvlink_bricks).is_some_and(|n| n > 0);
    !view.has_nvlink() && view.machine.stated_classes.is_none() && gpus.iter().all(has)
}

/// Whether a capture puts two devices on one NUMA node, or gives them the same CPUs.
fn is_of_one_node(view: &View, a: NodeId, b: NodeId) -> bool {
    let fabric = view.fabric();
    let node = |id| {
        let (root, cpu) = (fabric.root_complex(id)?, fabric.package(id)?);
        (!fabric.node(cpu).stand_in).then_some((fabric.node(root).numa, cpu))
    };
    view.is_captured() && node(a).is_some() && node(a) == node(b)
}

/// The visible GPUs of each board, where all are of products with several GPUs behind one switch, which a machine shows.
fn boards(view: &View) -> Vec<Vec<NodeId>> {
    let fabric = view.fabric();
    let switch = |gpu: NodeId| {
        let several = view.part(gpu)?.constant("gpus_on_board").is_some_and(|n| n > 1.0);
        let (_, above) = fabric.upstream(gpu).filter(|_| several)?;
        (fabric.node(above).kind == NodeKind::Switch).then_some((above, gpu))
    };
    let placed: Option<Vec<(NodeId, NodeId)>> = view.of_kind(NodeKind::Gpu).into_iter().map(switch).collect();
    grouped(placed.unwrap_or_default()).into_iter().map(|(_, gpus)| gpus).collect()
}

/// GPUs joined by pairs that do not cross.
fn groups(gpus: &[NodeId], near: &[(NodeId, NodeId)]) -> Vec<Vec<NodeId>> {
    // each GPU with the first of its group
    let mut first: HashMap<NodeId, NodeId> = gpus.iter().map(|gpu| (*gpu, *gpu)).collect();
    let order: HashMap<NodeId, usize> = gpus.iter().enumerate().map(|(i, gpu)| (*gpu, i)).collect();
    for (a, b) in near {
        let Some((x, y)) = first.get(a).copied().zip(first.get(b).copied()).filter(|(x, y)| x != y) else { continue };
        let (kept, joined) = if order.get(&x) < order.get(&y) { (x, y) } else { (y, x) };
        first.values_mut().filter(|of| **of == joined).for_each(|of| *of = kept);
    }
    grouped(gpus.iter().filter_map(|gpu| Some((*first.get(gpu)?, *gpu)))).into_iter().map(|(_, group)| group).collect()
}

struct Slowest<'a> {
    across: f64,
    best: f64,
    best_class: PathClass,
    what: String,
    origin: &'a Origin,
}

impl Slowest<'_> {
    fn share(&self) -> f64 {
        self.across / self.best
    }
}

/// The matrix in which crossing costs most. P2P off goes through host memory everywhere and shows nothing.
fn slowest<'a>(view: &View<'a>) -> Option<Slowest<'a>> {
    let judge = |measured: &'a SourcedMatrix| {
        let cells = view.gpu_cells(&measured.matrix).into_iter();
        let rates = cells.filter_map(|cell| {
            let (a, b) = cell.nodes()?;
            Some((view.class(a, b)?, cell.rate.gb()))
        });
        let medians: Vec<(PathClass, f64)> =
            grouped(rates).into_iter().filter_map(|(class, rates)| Some((class, median(rates)?))).collect();
        let (_, across) = *medians.iter().find(|(class, _)| *class == PathClass::Sys)?;
        let (best_class, best) = highest(medians, |(_, rate)| *rate)?;
        Some(Slowest { across, best, best_class, what: measured.matrix.describe(), origin: &measured.origin })
    };
    let matrices = view.bandwidths().map(|(_, o)| o).filter(|o| o.matrix.p2p != Some(false));
    lowest(matrices.filter_map(judge), |s| s.share())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, see_with, switched, uniform};
    use super::*;
    use peerlane_machine::fabric::{GpuLink, Link, LinkKind};
    use peerlane_machine::fact::P2pStatus;
    use peerlane_read::catalogue::Parts;

    #[test]
    fn two_sockets_are_two_groups() {
        let mut machine = captured(boxes(&[2, 2], false));
        let found = findings(&machine, run);
        assert_eq!((found.len(), found[0].severity), (1, Info));
        assert!(found[0].summary.ends_with("GPU0, GPU1 | GPU2, GPU3"), "{}", found[0].summary);
        assert_eq!(found[0].subjects, ["GPU0-GPU2", "GPU0-GPU3", "GPU1-GPU2", "GPU1-GPU3"]);
        machine.matrices.push(uniform(4, 9.0, &[(0, 1, 20.0), (1, 0, 20.0), (2, 3, 20.0), (3, 2, 20.0)]));
        let found = findings(&machine, run);
        assert_eq!(found[0].severity, Warning);
        assert!(found[0].measured.contains("9.0 GB/s, where PHB pairs reach 20.0 GB/s"), "{}", found[0].measured);
    }

    #[test]
    fn modules_with_nvlink_may_not_need_the_sockets() {
        let fix = |part: &str| {
            let mut b = boxes(&[2, 2], false);
            let gpus: Vec<_> = (0..4).map(|i| b.find(&format!("GPU{i}")).unwrap()).collect();
            gpus.iter().for_each(|gpu| b.node_mut(*gpu).part = Some(part.to_owned()));
            see_with(&captured(b), Parts::embedded(), |view| run(view)).unwrap().finding.fix
        };
        assert!(fix("a100-sxm4").starts_with("If NVLink joins the groups"), "{}", fix("a100-sxm4"));
        assert!(fix("tesla-t4").starts_with("Keep ranks"), "{}", fix("tesla-t4"));
    }

    #[test]
    fn labels_of_one_affinity_show_no_crossing() {
        let affinity = |nodes: [&str; 3]| {
            let row = |i: usize, cells: &str| format!("GPU{i}\t{cells}\t0-95\t{}\n", nodes[i]);
            let text = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n".to_owned()
                + &row(0, " X \tSYS\tSYS")
                + &row(1, "SYS\t X \tPHB")
                + &row(2, "SYS\tPHB\t X ");
            let text = peerlane_read::evidence::Text::new("topo.txt", text.as_bytes());
            let machines = peerlane_read::assemble::assemble(peerlane_read::evidence::scan_text(&text));
            findings(&machines[0], run).len()
        };
        assert_eq!((affinity(["0-1"; 3]), affinity(["0"; 3]), affinity(["0", "1", "1"])), (0, 0, 1));
    }

    #[test]
    fn refused_across_is_a_warning() {
        let mut machine = captured(boxes(&[1, 1], false));
        let pair = (machine.fabric.find("GPU0").unwrap(), machine.fabric.find("GPU1").unwrap());
        machine.p2p.insert(pair, P2pStatus::ChipsetNotSupported);
        assert_eq!(findings(&machine, run)[0].severity, Warning);
    }

    #[test]
    fn a_cube_mesh_names_the_pairs_without_nvlink() {
        let mut b = boxes(&[2, 2], false);
        let gpus: Vec<_> = (0..4).map(|i| b.find(&format!("GPU{i}")).unwrap()).collect();
        for (x, y) in [(0, 2), (1, 3)] {
            b.link(Link::new(gpus[x], gpus[y], LinkKind::Gpu(GpuLink::nvlink(Some(2), 1))));
        }
        let found = findings(&captured(b), run);
        assert_eq!(found[0].summary, "Data crosses NUMA nodes between GPU0 and GPU3; GPU1 and GPU2");
    }

    #[test]
    fn one_socket_is_silent() {
        assert!(findings(&switched(4), run).is_empty());
    }
}
