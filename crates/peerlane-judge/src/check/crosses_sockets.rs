//! GPU pairs whose way leads between NUMA nodes: the design, as built.

use super::view::{Raised, View};
use super::words::{self, list, median, percent};
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{NodeId, NodeKind, PathClass};
use peerlane_machine::fact::{Evidence, Fact};
use peerlane_machine::origin::Origin;

pub(super) const RULE: Rule = Rule { id: "crosses-sockets", breaks: false, run };

fn run(view: &View) -> Vec<Raised> {
    let pairs: Vec<(NodeId, NodeId, Option<PathClass>)> =
        view.gpu_pairs().into_iter().map(|(a, b)| (a, b, view.class(a, b))).collect();
    let across: Vec<(NodeId, NodeId)> =
        pairs.iter().filter(|(_, _, c)| *c == Some(PathClass::Sys)).map(|(a, b, _)| (*a, *b)).collect();
    if across.is_empty() {
        return Vec::new();
    }
    // a pair whose way is not known may be near
    let near = pairs.iter().filter(|(_, _, c)| *c != Some(PathClass::Sys)).map(|(a, b, _)| (*a, *b));
    let groups = groups(&view.of_kind(NodeKind::Gpu), near);
    let shown: Vec<String> =
        groups.iter().map(|g| list(&g.iter().map(|id| view.name(*id).to_owned()).collect::<Vec<_>>())).collect();
    let refused = across.iter().filter(|(a, b)| view.p2p_works(*a, *b) == Some(false)).count();
    let slow = slowest(view).filter(|s| s.share < view.settings.crosses_sockets.costly);
    let severity = if refused > 0 || slow.is_some() { Severity::Warning } else { Severity::Info };
    let boards = boards(view);
    let mut measured = vec![match pairs.len() {
        1 => format!("the one GPU pair is {}", PathClass::Sys),
        n => format!("{} of {n} GPU pairs are {}", across.len(), PathClass::Sys),
    }];
    if boards.len() > 1 {
        let name = |board: &Vec<NodeId>| list(&board.iter().map(|id| view.name(*id).to_owned()).collect::<Vec<_>>());
        let each: Vec<String> = boards.iter().map(name).collect();
        let sockets = if groups.len() == boards.len() { ", each on a socket of its own" } else { "" };
        measured.push(format!("{} boards of several GPUs: {}{sockets}", each.len(), each.join(" | ")));
    }
    if refused > 0 {
        let on = if refused == across.len() { "there".to_owned() } else { format!("on {refused} of them") };
        measured.push(format!("peer-to-peer does not work {on}, so that data is staged in host memory"));
    }
    measured.extend(slow.as_ref().map(|s| {
        format!(
            "{} where the {} pairs reach {} (medians, GB/s, {})",
            number(s.across),
            s.best_class,
            number(s.best),
            s.what
        )
    }));
    let ends: Vec<NodeId> = across.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let mut origins: Vec<&Origin> = view.class_origins(&ends);
    if refused > 0 {
        let refuses = |e: &&Evidence| matches!(&e.fact, Fact::P2p(m) if m.capability.is_access());
        origins.extend(view.machine.evidence.iter().filter(refuses).map(|e| &e.origin));
    }
    origins.extend(slow.as_ref().map(|s| s.origin));
    let on_boards = if boards.len() > 1 { format!(", on {} boards", boards.len()) } else { String::new() };
    let alone = groups.iter().all(|g| g.len() == 1);
    let xgmi = pairs.iter().any(|(_, _, c)| *c == Some(PathClass::XGMI));
    let (summary, fix) = match groups.len() {
        // every GPU reaches every other over others, by NVLink, but not directly
        1 => (
            format!("Data crosses NUMA nodes between {}", words::pairs(&view.names(&across))),
            if xgmi {
                "Order ranks so that neighbours have xGMI; RCCL's rings do so by themselves."
            } else {
                "Order ranks so that neighbours have NVLink; NCCL's rings do so by themselves."
            },
        ),
        _ if alone => (
            format!("Data between any two GPUs crosses NUMA nodes: {}{on_boards}", shown.join(" | ")),
            "Prefer jobs on one GPU, or communication in large messages. Where GPUs do share a socket, the label is too \
             coarse (several NUMA nodes a socket, or a virtual machine): measure the pairs.",
        ),
        _ => (
            format!("Data between these groups of GPUs crosses NUMA nodes: {}{on_boards}", shown.join(" | ")),
            "Keep ranks that talk much on one group (CUDA_VISIBLE_DEVICES, ranks bound by socket) and let collectives go \
             through the groups in turn; one inter-socket link is shared by all pairs that cross.",
        ),
    };
    let amd = origins.iter().all(|o| o.tool.starts_with("rocm-smi") || o.tool.starts_with("amd-smi"));
    let finding = Finding {
        rule: RULE.id.to_owned(),
        certainty: Certainty::Certain,
        confirm: if amd {
            "`rocm-smi --showtopo`, `lspci -tv`".to_owned()
        } else {
            "`nvidia-smi topo -m`; `peerlane measure --tests pairs` for what it costs".to_owned()
        },
        cost: slow.as_ref().and_then(|s| Cost::of_rate(s.best, s.across)),
        kind: FindingKind::Design,
        severity,
        subjects: across.iter().map(|(a, b)| view.pair(*a, *b)).collect(),
        summary,
        expected: slow.as_ref().map_or("pairs that stay on one socket".to_owned(), |s| {
            format!("at least {} of what {} pairs reach", percent(view.settings.crosses_sockets.costly), s.best_class)
        }),
        measured: measured.join("; "),
        evidence: view.cite(origins),
        fix: fix.to_owned(),
    };
    vec![Raised::new(finding, slow.map_or(0.0, |s| 1.0 - s.share))]
}

/// The GPUs seen of each board, where all are of products with several GPUs behind one switch, which a machine shows.
fn boards(view: &View) -> Vec<Vec<NodeId>> {
    let mut boards: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
    for gpu in view.of_kind(NodeKind::Gpu) {
        let several = view.part(gpu).and_then(|p| p.constant("gpus_on_board")).is_some_and(|n| n > 1.0);
        let above = view.fabric().upstream(gpu).map(|(_, up)| up);
        let Some(switch) = above.filter(|up| several && view.fabric().node(*up).kind == NodeKind::Switch) else {
            return Vec::new();
        };
        match boards.iter_mut().find(|(known, _)| *known == switch) {
            Some((_, gpus)) => gpus.push(gpu),
            None => boards.push((switch, vec![gpu])),
        }
    }
    boards.into_iter().map(|(_, gpus)| gpus).collect()
}

/// GPUs joined by pairs that do not cross.
fn groups(gpus: &[NodeId], near: impl Iterator<Item = (NodeId, NodeId)>) -> Vec<Vec<NodeId>> {
    let at = |id: NodeId| gpus.iter().position(|g| *g == id);
    let mut label: Vec<usize> = (0..gpus.len()).collect();
    for (a, b) in near {
        let (Some(x), Some(y)) = (at(a).and_then(|i| label.get(i).copied()), at(b).and_then(|i| label.get(i).copied()))
        else {
            continue;
        };
        if x != y {
            label.iter_mut().filter(|l| **l == x.max(y)).for_each(|l| *l = x.min(y));
        }
    }
    let mut labels: Vec<usize> = Vec::new();
    label.iter().for_each(|l| {
        if !labels.contains(l) {
            labels.push(*l)
        }
    });
    let members = |l: usize| gpus.iter().zip(&label).filter(|(_, x)| **x == l).map(|(g, _)| *g).collect();
    labels.into_iter().map(members).collect()
}

struct Slowest<'a> {
    share: f64,
    across: f64,
    best: f64,
    best_class: PathClass,
    what: String,
    origin: &'a Origin,
}

/// The matrix in which crossing costs most. P2P off goes through host memory everywhere and tells nothing.
fn slowest<'a>(view: &View<'a>) -> Option<Slowest<'a>> {
    let judge = |measured: &'a peerlane_machine::machine::SourcedMatrix| {
        let mut by_class: Vec<(PathClass, Vec<f64>)> = Vec::new();
        for cell in view.gpu_cells(&measured.matrix) {
            let Some(class) = cell.nodes().and_then(|(a, b)| view.class(a, b)) else { continue };
            match by_class.iter_mut().find(|(c, _)| *c == class) {
                Some((_, rates)) => rates.push(cell.rate.gb()),
                None => by_class.push((class, vec![cell.rate.gb()])),
            }
        }
        let medians: Vec<(PathClass, f64)> =
            by_class.into_iter().filter_map(|(c, rates)| Some((c, median(rates)?))).collect();
        let across = medians.iter().find(|(c, _)| *c == PathClass::Sys)?.1;
        let (best_class, best) = *medians.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let what = measured.matrix.describe();
        Some(Slowest { share: across / best, across, best, best_class, what, origin: &measured.origin })
    };
    view.bandwidths()
        .filter(|(_, o)| o.matrix.p2p != Some(false))
        .filter_map(|(_, o)| judge(o))
        .min_by(|a, b| a.share.total_cmp(&b.share))
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, switched, uniform};
    use super::*;
    use peerlane_machine::fabric::{GpuLink, Link, LinkKind};
    use peerlane_machine::fact::P2pStatus;

    #[test]
    fn two_sockets_are_two_groups() {
        let mut machine = captured(boxes(&[2, 2], false));
        let found = findings(&machine, run);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
        assert!(found[0].summary.ends_with("GPU0, GPU1 | GPU2, GPU3"), "{}", found[0].summary);
        assert_eq!(found[0].subjects, ["GPU0-GPU2", "GPU0-GPU3", "GPU1-GPU2", "GPU1-GPU3"]);
        machine.matrices.push(uniform(4, 9.0, &[(0, 1, 20.0), (1, 0, 20.0), (2, 3, 20.0), (3, 2, 20.0)]));
        let found = findings(&machine, run);
        assert_eq!(found[0].severity, Severity::Warning);
        assert!(found[0].measured.contains("9.0 where the PHB pairs reach 20.0"), "{}", found[0].measured);
    }

    #[test]
    fn refused_across_is_a_warning() {
        let mut machine = captured(boxes(&[1, 1], false));
        let pair = (machine.fabric.find("GPU0").unwrap(), machine.fabric.find("GPU1").unwrap());
        machine.p2p.insert(pair, P2pStatus::ChipsetNotSupported);
        assert_eq!(findings(&machine, run)[0].severity, Severity::Warning);
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
