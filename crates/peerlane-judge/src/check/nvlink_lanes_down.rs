//! GPUs with fewer working NVLinks than their peers, or with none among GPUs that all have them.

use std::collections::BTreeMap;

use super::collective_slow;
use super::prelude::*;
use peerlane_machine::fabric::Interconnect;
use peerlane_machine::fact::NvlinkPort;
use peerlane_read::catalogue::Part;

pub(super) const RULE: Rule = Rule::new("nvlink-lanes-down", Many(run))
    .explains("p2p-slower-than-staged asymmetric-cell uneven-path-class slow-path contended-slow");

/// So many other GPUs must be joined all to all for one without NVLink to be a fault: three GPUs may be a
/// bridged pair and a third.
const FEWEST_OTHERS: usize = 3;

fn run(view: &View) -> Vec<Raised> {
    let gpus = view.of_kind(NodeKind::Gpu);
    let ports = active_ports(view);
    // links that a file declares are not links that are up
    if ports.is_empty() && view.messages().any(|(message, _)| message.id == "nccl-topology-declared") {
        return Vec::new();
    }
    let mut raised = uneven_ports(view, &ports);
    raised.extend(fewer_than_built(view, &ports, &raised));
    // the same loss in the matrix is not another finding
    let mut lost = outcasts(view, &gpus);
    lost.retain(|id| !is_reported(view, *id, &raised));
    raised.extend(report_outcasts(view, &gpus, &lost));
    // a listing may be cut, and says nothing of the GPUs that it does not reach
    let unlisted: Vec<NodeId> = gpus.iter().copied().filter(|id| !ports.contains_key(id)).collect();
    if !unlisted.is_empty() {
        raised.extend(uneven_bricks(view, &gpus, &lost, &unlisted));
        raised.extend(fewer_in_classes(view, &gpus, &unlisted, &raised));
    }
    if let Some(first) = raised.first_mut()
        && let Some(slow) = collective_slow::by_links_that_are_up(view)
    {
        first.finding.measured += &format!("; {}", slow.measured);
        if let Some((expected, cost)) = slow.with_all_links {
            first.finding.expected += &format!("; {expected}");
            first.finding.cost = cost;
        }
    }
    raised
}

fn is_reported(view: &View, id: NodeId, raised: &[Raised]) -> bool {
    raised.iter().any(|r| r.finding.subjects.contains(&view.node(id)))
}

/// GPU → (active, inactive) ports, with their source.
type Ports<'a> = BTreeMap<NodeId, (u32, u32, &'a Origin)>;

/// From listings that show inactive ports too, the first for each GPU: others (NCCL's) list only what is up.
fn active_ports<'a>(view: &View<'a>) -> Ports<'a> {
    let addresses = view.gpus_by_address();
    let node = |port: &NvlinkPort| {
        let by_address = |a| addresses.get(&a).copied();
        port.address.and_then(by_address).or_else(|| port.gpu.and_then(|n| view.machine.gpu_numbered(n)))
    };
    let listings = view.facts(|fact| match fact {
        Fact::Nvlink(ports) => Some(ports),
        _ => None,
    });
    let mut ports = Ports::new();
    for (listed, source) in listings {
        for port in listed.iter().filter(|p| !p.xgmi) {
            let Some(id) = node(port) else { continue };
            let (active, inactive, origin) = ports.entry(id).or_insert((0, 0, source));
            if *origin == source {
                let count = if port.active { active } else { inactive };
                *count = count.saturating_add(u32::from(port.count));
            }
        }
    }
    ports
}

fn port_origins<'a>(ports: &Ports<'a>, ids: &[NodeId]) -> Vec<&'a Origin> {
    ids.iter().filter_map(|id| ports.get(id)).map(|(_, _, origin)| *origin).collect()
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
    let report = |(counts, ids): ((u32, u32), Vec<NodeId>)| {
        report_fewer(view, &ids, counts, "active NVLinks", port_origins(ports, &ids))
    };
    groups.into_iter().map(report).collect()
}

/// GPUs on modules, whose boards wire every link, with some of them inactive, unless they are reported already.
fn fewer_than_built(view: &View, ports: &Ports, reported: &[Raised]) -> Vec<Raised> {
    let mut groups: BTreeMap<(u32, u32, bool), Vec<NodeId>> = BTreeMap::new();
    for (id, (active, inactive, _)) in ports {
        let Some((built, generation)) = view.part(*id).and_then(Part::module_nvlinks) else { continue };
        // boards for modules of the first generations leave some unwired, though not most
        let sure = generation >= 3;
        // none at all: MIG, or a guest without the switches
        // a listing that leaves out what is down may also be cut
        let shows_all = *inactive > 0 || ports.len() > 1 && ports.values().all(|(other, ..)| other == active);
        let some_down = *active > 0 && shows_all && *active < built && active + inactive <= built;
        if some_down && (sure || active * 2 > built) && !is_reported(view, *id, reported) {
            groups.entry((*active, built, sure)).or_default().push(*id);
        }
    }
    let report = |((active, built, sure), ids): ((u32, u32, bool), Vec<NodeId>)| {
        let usually = if sure { "" } else { " as a rule; compare with the other GPUs" };
        fewer(view, &ids, (active, built), if sure { Likely } else { Possible })
            .summary(format!("{}: {active} of {built} NVLinks are active", names(view, &ids)))
            .expected(format!("{built} active NVLinks, all of which boards for this module use{usually}"))
            .measured(format!("{active} active NVLinks"))
            .evidence(view.cite(port_origins(ports, &ids)))
    };
    groups.into_iter().map(report).collect()
}

/// GPUs on modules whose widest NV# is more than half of their links, and not all: NV12 of 18. Less may be one of several
/// bundles of a board without switches.
fn fewer_in_classes(view: &View, gpus: &[NodeId], of: &[NodeId], reported: &[Raised]) -> Vec<Raised> {
    let mut groups: BTreeMap<(u32, u32), Vec<NodeId>> = BTreeMap::new();
    for id in of.iter().filter(|id| !is_reported(view, **id, reported)) {
        let Some((built, _)) = view.part(*id).and_then(Part::module_nvlinks).filter(|(_, g)| *g >= 4) else { continue };
        let links = |other: &NodeId| match view.class(*id, *other)? {
            PathClass::Gpu(Interconnect::Nvlink, links) => Some(u32::from(links)),
            _ => None,
        };
        let Some(widest) = gpus.iter().filter(|other| *other != id).filter_map(links).max() else { continue };
        if widest < built && widest * 2 > built {
            groups.entry((widest, built)).or_default().push(*id);
        }
    }
    let report = |((widest, built), ids): ((u32, u32), Vec<NodeId>)| {
        fewer(view, &ids, (widest, built), Likely)
            .summary(format!("{}: {widest} of {built} NVLinks are active", names(view, &ids)))
            .expected(format!("NV{built}, all links of this module"))
            .measured(format!("NV{widest} in the classes of paths"))
            .evidence(view.cite(view.class_origins(&ids)))
    };
    groups.into_iter().map(report).collect()
}

/// What findings on GPUs with fewer links share.
fn fewer(view: &View, ids: &[NodeId], (now, most): (u32, u32), certainty: Certainty) -> Raised {
    RULE.raise(Fault, Warning, certainty)
        .fix(
            "Reset the GPU (`nvidia-smi -r`), or restart the machine and the fabric manager. If the same links stay \
             down, have the part serviced: on one GPU its module or bridge, on several GPUs an NVSwitch.",
        )
        .confirm("`nvidia-smi nvlink -s`, `-e`; kernel log: Xid 74, 144 to 150")
        .about_nodes(view.names_of(ids))
        .losing(1.0 - f64::from(now) / f64::from(most.max(1)))
}

fn report_fewer(view: &View, ids: &[NodeId], (now, most): (u32, u32), what: &str, origins: Vec<&Origin>) -> Raised {
    fewer(view, ids, (now, most), Certain)
        .summary(format!("{}: {now} {what}, but the other GPUs have {most}", names(view, ids)))
        .expected(format!("{most} {what}, as its peers have"))
        .measured(format!("{now} {what}"))
        .evidence(view.cite(origins))
}

fn names(view: &View, ids: &[NodeId]) -> String {
    list(&view.names_of(ids))
}

fn is_nvlinked(view: &View, a: NodeId, b: NodeId) -> bool {
    view.class(a, b).is_some_and(PathClass::is_nvlink)
}

/// GPUs without NVLink to any other, although all the others are joined to each other. Silent where any
/// class between GPUs is unknown.
fn outcasts(view: &View, gpus: &[NodeId]) -> Vec<NodeId> {
    let degree = |a: NodeId| gpus.iter().filter(|b| **b != a && is_nvlinked(view, a, **b)).count();
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

fn report_outcasts(view: &View, gpus: &[NodeId], lost: &[NodeId]) -> Option<Raised> {
    let first = *lost.first()?;
    let class = gpus.iter().find(|id| **id != first).and_then(|other| view.class(first, *other));
    let now = class.map_or("another path".to_owned(), |c| c.to_string());
    let raised = fewer(view, lost, (0, 1), Certain)
        .summary(format!("{} lost its NVLinks: all other GPUs are joined by NVLink", names(view, lost)))
        .expected("NVLink between all GPUs")
        .measured(format!("{now} to the other GPUs"))
        .evidence(view.cite(view.class_origins(lost)));
    Some(raised)
}

/// Those of some GPUs with fewer bricks in the fabric than is usual among all that are joined all to all.
fn uneven_bricks(view: &View, gpus: &[NodeId], lost: &[NodeId], of: &[NodeId]) -> Vec<Raised> {
    let fabric = view.fabric();
    let bricks = |id: NodeId| -> u32 {
        let own = fabric.links_of(id).iter().map(|(link, _)| &fabric.link(*link).kind);
        own.map(LinkKind::nvlinks).sum()
    };
    let joined: Vec<NodeId> = gpus.iter().copied().filter(|id| !lost.contains(id)).collect();
    let is_lost = |a: &NodeId, b: &NodeId| lost.contains(a) || lost.contains(b);
    let all_to_all = joined.len() > FEWEST_OTHERS
        && view.gpu_pairs().iter().all(|(a, b)| is_lost(a, b) || is_nvlinked(view, *a, *b));
    if !all_to_all {
        return Vec::new();
    }
    let Some(usual) = median(joined.iter().map(|id| f64::from(bricks(*id)))) else { return Vec::new() };
    let mut groups: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for id in joined.into_iter().filter(|id| of.contains(id) && f64::from(bricks(*id)) < usual) {
        groups.entry(bricks(id)).or_default().push(id);
    }
    let report = |(now, ids): (u32, Vec<NodeId>)| {
        report_fewer(view, &ids, (now, usual as u32), "NVLinks", view.class_origins(&ids))
    };
    groups.into_iter().map(report).collect()
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
    fn twelve_of_eighteen_are_named_as_such() {
        let found = |product: &str, labels: [&str; 3]| {
            let [ab, ac, bc] = labels;
            let text = format!(
                "GPU 0: {product} (UUID: GPU-0)\nGPU 1: {product} (UUID: GPU-1)\nGPU 2: {product} (UUID: GPU-2)\n\n\
                 \tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \t{ab}\t{ac}\t0-9\nGPU1\t{ab}\t X \t{bc}\t0-9\n\
                 GPU2\t{ac}\t{bc}\t X \t0-9\n"
            );
            let text = peerlane_read::evidence::Text::new("topo.txt", text.as_bytes());
            let machine = peerlane_read::assemble::assemble(peerlane_read::evidence::scan_text(&text)).remove(0);
            let all = |view: &mut super::super::view::View| {
                run(view).into_iter().map(|r| r.finding.summary).collect::<Vec<_>>()
            };
            see_with(&machine, peerlane_read::catalogue::Parts::embedded(), all)
        };
        let h100 = "NVIDIA H100 80GB HBM3";
        assert_eq!(found(h100, ["NV12"; 3]), ["GPU0–GPU2: 12 of 18 NVLinks are active"]);
        assert_eq!(found(h100, ["NV18", "NV16", "NV16"]), ["GPU2: 16 of 18 NVLinks are active"]);
        assert_eq!(found(h100, ["NV18"; 3]), [""; 0]);
        assert_eq!(found(h100, ["NV6"; 3]), [""; 0], "three of a board of four without switches");
        assert_eq!(found("NVIDIA H100 PCIe", ["NV12"; 3]), [""; 0], "a bridge of cards");
    }

    #[test]
    fn a_gpu_off_the_nvswitch_or_with_fewer_bricks_is_a_fault() {
        assert_eq!(short(&joined(&[18, 18, 0, 18])), [(Error, "GPU2".to_owned())]);
        assert_eq!(short(&joined(&[18, 18, 17, 18])), [(Error, "GPU2".to_owned())]);
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
        assert_eq!(short(&machine), [(Error, "GPU1".to_owned())]);
        let mut unbridged = switched(2);
        listed(&mut unbridged, &[0, 0]);
        assert!(short(&unbridged).is_empty(), "cards without a bridge");
    }

    #[test]
    fn a_listing_that_is_cut_hides_nothing_that_the_classes_show() {
        let mut machine = joined(&[18, 18, 12, 18]);
        listed(&mut machine, &[4, 4]);
        assert_eq!(short(&machine), [(Error, "GPU2".to_owned())]);
        let mut whole = joined(&[18; 4]);
        listed(&mut whole, &[4, 4]);
        assert!(short(&whole).is_empty());
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
        assert_eq!(found("v100-sxm2", 4), [Possible]);
        assert_eq!(found("v100-sxm2", 2), [], "a board for two");
        assert_eq!(found("a100-sxm4", 11), [Likely]);
        assert_eq!((found("a100-sxm4", 12), found("h100-nvl", 12)), (vec![], vec![]));
    }
}
