//! GPUs with fewer working NVLinks than their peers, or with none among GPUs that all have them.

use std::collections::BTreeMap;

use super::view::{Raised, View};
use super::words::{list, median};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{LinkKind, NodeId, NodeKind, PathClass};
use peerlane_machine::fact::{Fact, NvlinkPort};
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;
use peerlane_read::catalogue::Part;

pub(super) const RULE: Rule = Rule { id: "nvlink-lanes-down", breaks: true, run };

/// So many other GPUs must be joined all to all for one without NVLink to be a fault: three GPUs may be a
/// bridged pair and a third.
const FEWEST_OTHERS: usize = 3;

fn run(view: &View) -> Vec<Raised> {
    let gpus = view.of_kind(NodeKind::Gpu);
    let ports = active_ports(view);
    let mut raised = if ports.is_empty() { Vec::new() } else { uneven_ports(view, &ports) };
    raised.extend(fewer_than_built(view, &ports, &raised));
    // the same loss seen in the matrix is no second finding
    let known: Vec<&Subject> = raised.iter().flat_map(|r| &r.finding.subjects).collect();
    let mut lost = outcasts(view, &gpus);
    lost.retain(|id| !known.contains(&&view.node(*id)));
    raised.extend(report_outcasts(view, &lost));
    if ports.is_empty() {
        raised.extend(uneven_bricks(view, &gpus, &lost));
    }
    raised
}

/// GPU → (active, inactive) ports, with where that stands.
type Ports<'a> = BTreeMap<NodeId, (u32, u32, &'a Origin)>;

/// From listings that show inactive ports too, the first for each GPU: others (NCCL's) list only what is up.
fn active_ports<'a>(view: &View<'a>) -> Ports<'a> {
    let addresses = view.gpus_by_address();
    let node = |port: &NvlinkPort| {
        let by_address = |a| addresses.get(&a).copied();
        port.address.and_then(by_address).or_else(|| port.gpu.and_then(|n| view.machine.gpu_numbered(n)))
    };
    let mut ports = Ports::new();
    for evidence in &view.machine.evidence {
        let Fact::Nvlink(listed) = &evidence.fact else { continue };
        for port in listed.iter().filter(|p| !p.xgmi) {
            let Some(id) = node(port) else { continue };
            let (active, inactive, origin) = ports.entry(id).or_insert((0, 0, &evidence.origin));
            if *origin == &evidence.origin {
                let count = if port.active { active } else { inactive };
                *count = count.saturating_add(u32::from(port.count));
            }
        }
    }
    ports
}

/// GPUs with fewer active ports than the best of the same product.
fn uneven_ports(view: &View, ports: &Ports) -> Vec<Raised> {
    let product = |id: NodeId| {
        let node = view.fabric().node(id);
        node.product.as_deref().or(node.part.as_deref())
    };
    let mut most: BTreeMap<Option<&str>, u32> = BTreeMap::new();
    for (id, (active, ..)) in ports {
        let best = most.entry(product(*id)).or_insert(*active);
        *best = (*best).max(*active);
    }
    let mut groups: BTreeMap<(u32, u32), Vec<NodeId>> = BTreeMap::new();
    for (id, (active, ..)) in ports {
        let best = most.get(&product(*id)).copied().unwrap_or(*active);
        if *active < best {
            groups.entry((*active, best)).or_default().push(*id);
        }
    }
    let mut raised = Vec::new();
    for ((active, most), ids) in groups {
        let origins = ids.iter().filter_map(|id| ports.get(id)).map(|(_, _, origin)| *origin);
        raised.push(report_fewer(view, &ids, (active, most), "active NVLinks", view.cite(origins)));
    }
    raised
}

/// GPUs on modules, whose boards wire every link, with some of them inactive; those that have fewer than their peers are
/// told so already.
fn fewer_than_built(view: &View, ports: &Ports, told: &[Raised]) -> Vec<Raised> {
    let mut groups: BTreeMap<(u32, u32, bool), Vec<NodeId>> = BTreeMap::new();
    for (id, (active, inactive, _)) in ports {
        let Some((built, generation)) = view.part(*id).and_then(Part::module_nvlinks) else { continue };
        let known = told.iter().any(|r| r.finding.subjects.contains(&view.node(*id)));
        // boards for modules of the first generations leave some unwired, though not most
        let sure = generation >= 3;
        // none at all: MIG, or a guest without the switches
        if !known
            && *active > 0
            && *inactive > 0
            && *active < built
            && active + inactive <= built
            && (sure || active * 2 > built)
        {
            groups.entry((*active, built, sure)).or_default().push(*id);
        }
    }
    let report = |((active, built, sure), ids): ((u32, u32, bool), Vec<NodeId>)| {
        let origins = ids.iter().filter_map(|id| ports.get(id)).map(|(_, _, origin)| *origin);
        let mut raised = report_fewer(view, &ids, (active, built), "active NVLinks", view.cite(origins));
        let finding = &mut raised.finding;
        finding.certainty = if sure { Certainty::Likely } else { Certainty::Possible };
        finding.summary = format!("{}: {active} active NVLinks of the {built} that it has", names(view, &ids));
        finding.expected = format!("{built} active NVLinks, all of which boards for this module use");
        if !sure {
            finding.expected.push_str(" as a rule; compare with the other GPUs");
        }
        raised
    };
    groups.into_iter().map(report).collect()
}

fn report_fewer(view: &View, ids: &[NodeId], (now, most): (u32, u32), what: &str, evidence: Vec<String>) -> Raised {
    let finding = Finding {
        rule: RULE.id.to_owned(),
        certainty: Certainty::Certain,
        confirm: "`nvidia-smi nvlink -s`".to_owned(),
        cost: None,
        kind: FindingKind::Fault,
        severity: if now == 0 { Severity::Error } else { Severity::Warning },
        summary: format!("{}: {now} {what} where the other GPUs have {most}", names(view, ids)),
        subjects: ids.iter().map(|id| view.node(*id)).collect(),
        expected: format!("{most} {what}, as its peers have"),
        measured: format!("{now} {what}"),
        evidence,
        fix: fix(),
    };
    Raised::new(finding, 1.0 - f64::from(now) / f64::from(most.max(1)))
}

fn names(view: &View, ids: &[NodeId]) -> String {
    list(&ids.iter().map(|id| view.name(*id)).collect::<Vec<_>>())
}

fn fix() -> String {
    "See `nvidia-smi nvlink -s` and `-e` and the kernel log for Xid 74; reset the GPU (`nvidia-smi -r`) or restart the \
     machine and the fabric manager. If links stay down, reseat the bridge or module: it is a case for service."
        .to_owned()
}

/// GPUs without NVLink to any other, although all the others are joined to each other. Silent where any
/// class between GPUs is unknown.
fn outcasts(view: &View, gpus: &[NodeId]) -> Vec<NodeId> {
    let nvlinked = |a: NodeId, b: NodeId| view.class(a, b).is_some_and(PathClass::is_nvlink);
    let degree = |a: NodeId| gpus.iter().filter(|b| **b != a && nvlinked(a, **b)).count();
    let degrees: Vec<usize> = gpus.iter().map(|id| degree(*id)).collect();
    let (lost, others): (Vec<_>, Vec<_>) = gpus.iter().zip(&degrees).partition(|(_, degree)| **degree == 0);
    let all_known = || view.gpu_pairs().iter().all(|(a, b)| view.class(*a, *b).is_some());
    let joined = others.len() >= FEWEST_OTHERS && others.iter().all(|(_, degree)| **degree + 1 == others.len());
    if lost.is_empty() || !joined || !all_known() {
        return Vec::new();
    }
    // a different product need not have NVLink
    let product = |id: NodeId| view.fabric().node(id).product.as_deref();
    let usual = others.first().and_then(|(id, _)| product(**id));
    lost.into_iter().map(|(id, _)| *id).filter(|id| product(*id) == usual).collect()
}

fn report_outcasts(view: &View, lost: &[NodeId]) -> Option<Raised> {
    if lost.is_empty() {
        return None;
    }

    let class = |a: NodeId| view.of_kind(NodeKind::Gpu).into_iter().find(|b| *b != a).and_then(|b| view.class(a, b));
    let now = lost.first().and_then(|id| class(*id)).map_or("another way".to_owned(), |c| c.to_string());
    let finding = Finding {
        rule: RULE.id.to_owned(),
        certainty: Certainty::Certain,
        confirm: "`nvidia-smi nvlink -s`".to_owned(),
        cost: None,
        kind: FindingKind::Fault,
        severity: Severity::Error,
        summary: format!("{} lost its NVLinks: all other GPUs are joined by NVLink", names(view, lost)),
        subjects: lost.iter().map(|id| view.node(*id)).collect(),
        expected: "NVLink between all GPUs".to_owned(),
        measured: format!("{now} to the other GPUs"),
        evidence: view.cite(view.class_origins(lost)),
        fix: fix(),
    };
    Some(Raised::new(finding, 1.0))
}

/// GPUs with fewer bricks in the fabric than is usual among those joined all to all.
fn uneven_bricks(view: &View, gpus: &[NodeId], lost: &[NodeId]) -> Vec<Raised> {
    let fabric = view.fabric();
    let bricks = |id: NodeId| -> u32 {
        let own = fabric.links_of(id).iter().map(|(link, _)| &fabric.link(*link).kind);
        own.map(LinkKind::nvlinks).sum()
    };
    let joined: Vec<NodeId> = gpus.iter().copied().filter(|id| !lost.contains(id)).collect();
    let nvlinked = |a: NodeId, b: NodeId| view.class(a, b).is_some_and(PathClass::is_nvlink);
    let all_to_all = joined.len() > FEWEST_OTHERS
        && view.gpu_pairs().iter().all(|(a, b)| lost.contains(a) || lost.contains(b) || nvlinked(*a, *b));
    if !all_to_all {
        return Vec::new();
    }
    let Some(usual) = median(joined.iter().map(|id| f64::from(bricks(*id)))) else { return Vec::new() };
    let mut groups: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for id in joined.into_iter().filter(|id| f64::from(bricks(*id)) < usual) {
        groups.entry(bricks(id)).or_default().push(id);
    }
    groups
        .into_iter()
        .map(|(now, ids)| report_fewer(view, &ids, (now, usual as u32), "NVLinks", view.cite(view.class_origins(&ids))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, see_with, state, switched};
    use super::*;
    use peerlane_machine::fabric::{GpuLink, Link, Node};
    use peerlane_machine::machine::Machine;
    use peerlane_machine::subject::join;
    use peerlane_read::catalogue::Parts;

    /// GPUs on an NVSwitch with the given bricks each; 0 is not joined.
    fn joined(bricks: &[u8]) -> Machine {
        let mut b = boxes(&[bricks.len()], false);
        let switch = b.node(Node::new("nvswitch", NodeKind::NvSwitch));
        for (i, n) in bricks.iter().enumerate().filter(|(_, n)| **n > 0) {
            let gpu = b.find(&format!("GPU{i}")).unwrap();
            b.link(Link::new(gpu, switch, LinkKind::Gpu(GpuLink::nvlink(Some(4), *n))));
        }
        captured(b)
    }

    fn short(machine: &Machine) -> Vec<(Severity, String)> {
        findings(machine, run).into_iter().map(|f| (f.severity, join(&f.subjects, " "))).collect()
    }

    #[test]
    fn a_gpu_off_the_nvswitch_is_an_error_and_fewer_bricks_a_warning() {
        assert_eq!(short(&joined(&[18, 18, 0, 18])), [(Severity::Error, "GPU2".to_owned())]);
        assert_eq!(short(&joined(&[18, 18, 17, 18])), [(Severity::Warning, "GPU2".to_owned())]);
    }

    #[test]
    fn whole_bridged_or_absent_nvlink_is_silent() {
        assert!(short(&joined(&[18; 4])).is_empty());
        assert!(short(&joined(&[4, 4, 0])).is_empty(), "a bridged pair and a third GPU");
        assert!(short(&switched(4)).is_empty());
    }

    fn listed(machine: &mut Machine, active: &[u8]) {
        let port = |gpu: usize, count, active| NvlinkPort {
            gpu: Some(gpu as u32),
            address: None,
            port: None,
            count,
            active,
            rate: None,
            remote: None,
            remote_class: None,
            xgmi: false,
        };
        let ports = active.iter().enumerate().flat_map(|(i, n)| [port(i, *n, true), port(i, 4 - n, false)]);
        state(machine, "nvidia-smi nvlink -s", Fact::Nvlink(ports.collect()));
    }

    #[test]
    fn listed_ports_are_compared_among_peers() {
        let mut machine = switched(3);
        listed(&mut machine, &[4, 3, 4]);
        assert_eq!(short(&machine), [(Severity::Warning, "GPU1".to_owned())]);
        let mut unbridged = switched(2);
        listed(&mut unbridged, &[0, 0]);
        assert!(short(&unbridged).is_empty(), "cards without a bridge");
    }

    #[test]
    fn a_module_alone_is_held_against_what_it_has() {
        let found = |part: &str, active: u8| {
            let mut b = boxes(&[1], false);
            let gpu = b.find("GPU0").unwrap();
            b.node_mut(gpu).part = Some(part.to_owned());
            let mut machine = captured(b);
            listed(&mut machine, &[active.min(4)]);
            let Fact::Nvlink(ports) = &mut machine.evidence[0].fact else { panic!() };
            (ports[0].count, ports[1].count) = (active, 1);
            let raised = see_with(&machine, Parts::embedded(), |view| run(view));
            raised.into_iter().map(|r| r.finding.certainty).collect::<Vec<_>>()
        };
        assert_eq!(found("v100-sxm2", 4), [Certainty::Possible]);
        assert_eq!(found("v100-sxm2", 2), [], "a board for two");
        assert_eq!(found("a100-sxm4", 11), [Certainty::Likely]);
        assert_eq!((found("a100-sxm4", 12), found("h100-nvl", 12)), (vec![], vec![]));
    }
}
