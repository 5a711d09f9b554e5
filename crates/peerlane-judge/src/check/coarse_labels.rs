//! Path classes that cannot show what they should: every pair is SYS, although there are fewer sockets than GPUs, or every
//! pair is on the one host bridge that a virtual machine shows.

use super::prelude::*;
use peerlane_machine::fabric::CpuList;

pub(super) const RULE: Rule = Rule::new("coarse-labels", One(run)).explains("crosses-sockets");

/// From so many GPUs on all of which are SYS to each other, some must share a socket: few boards have more than two.
const FEWEST: usize = 3;

/// GPUs on x16 for which no host bridge of a server has lanes without a switch, which would read PIX or PXB.
const MOST_ON_BRIDGE: usize = 4;

fn run(view: &View) -> Option<Raised> {
    // words that are not known are labels, too
    if view.machine.stated_classes.as_ref().is_some_and(|(matrix, _)| !matrix.words.is_empty()) {
        return None;
    }
    let gpus = view.of_kind(NodeKind::Gpu);
    let pairs = view.gpu_pairs();
    let classes: Vec<PathClass> = pairs.iter().filter_map(|(a, b)| view.class(*a, *b)).collect();
    // a truncated capture may hide some, but not most
    let all_sys = classes.len() * 2 > pairs.len() && classes.iter().all(|c| *c == PathClass::Sys);
    if !all_sys {
        return on_one_bridge(view, &gpus, &pairs);
    }
    let sockets = view.hosts().filter_map(|(host, _)| host.sockets).max();
    // on a board with a socket for each GPU, they are far apart indeed
    if gpus.len() < FEWEST || sockets.is_some_and(|n| n as usize >= gpus.len()) {
        return None;
    }
    let count = classes.len();
    let raised = if let Some(nodes) = shared_nodes(view, &gpus) {
        RULE.raise(Measurement, Info, Certain)
            .summary(format!("All {count} GPU pairs read SYS, even those of one NUMA node: {}", nodes.join(" | ")))
            .expected("NODE or nearer between GPUs of one NUMA node")
            .measured("SYS between GPUs with the same NUMA or CPU affinity")
            .fix(
                "Use the affinities: put ranks that communicate a lot on the GPUs of one NUMA node. Some drivers and \
                 platforms label every path between two root complexes SYS; NCCL does not (see its topology dump). \
                 Measure the pairs to see what crossing costs.",
            )
            .confirm("`peerlane measure --tests pairs`; `NCCL_TOPO_DUMP_FILE`")
    } else {
        let on = sockets.map_or_else(String::new, |n| format!(", on {n} sockets"));
        RULE.raise(Measurement, Info, Likely)
            .summary(format!("All {count} GPU pairs read SYS: the labels do not show which GPUs are near each other"))
            .expected("classes that distinguish GPUs of one socket from those of another")
            .measured(format!("{} GPUs, each labelled with its own NUMA node{on}", gpus.len()))
            .fix(
                "Measure the pairs, or read the host's PCIe tree (`lspci -tv`). Several NUMA nodes per socket (NPS, \
                 SNC) and virtual machines give each device its own node; with NPS1 (SNC off) in the BIOS, SYS should \
                 mean another socket.",
            )
            .confirm("`peerlane measure --tests pairs`; `lscpu | grep -e NUMA -e Socket`")
    };
    Some(raised.evidence(view.cite(view.class_origins(&gpus))).about_nodes(view.names_of(&gpus)))
}

/// GPUs by the NUMA node, or the CPUs, that the matrix puts them on, where several share one.
fn shared_nodes(view: &View, gpus: &[NodeId]) -> Option<Vec<String>> {
    let (matrix, _) = view.machine.stated_classes.as_ref()?;
    let affinity = |name: &String| {
        let row = matrix.rows.iter().position(|r| r == name)?;
        let stated = |list: &[Option<CpuList>]| list.get(row).and_then(Option::as_ref).map(ToString::to_string);
        stated(&matrix.numa_affinity).or_else(|| stated(&matrix.cpu_affinity))
    };
    let groups = grouped(view.names_of(gpus).into_iter().filter_map(|name| Some((affinity(&name)?, name))));
    // one list for all is that of a guest, or of a bound process
    let several = groups.len() > 1 && groups.iter().any(|(_, names)| names.len() > 1);
    several.then(|| groups.iter().map(|(_, names)| list(names)).collect())
}

/// Every pair reads PHB, or NODE, and there is a hypervisor: the classes are those of the guest's bus. More GPUs than a
/// host bridge has lanes for show this without one.
fn on_one_bridge(view: &View, gpus: &[NodeId], pairs: &[(NodeId, NodeId)]) -> Option<Raised> {
    let (a, b) = pairs.first()?;
    let class = view.class(*a, *b).filter(|c| matches!(c, PathClass::Phb | PathClass::Node))?;
    // where a listing shows the tree, the labels do not matter
    let assumed = view.fabric().of_kind(NodeKind::RootComplex).all(|rc| view.fabric().node(rc).assumed);
    if !assumed || pairs.iter().any(|(a, b)| view.class(*a, *b) != Some(class)) {
        return None;
    }
    let hypervisor = view.hypervisor();
    let crowded = class == PathClass::Phb && gpus.len() > MOST_ON_BRIDGE;
    if hypervisor.is_none() && !crowded {
        return None;
    }
    let by = hypervisor.map_or_else(String::new, |(name, _)| format!(", in a virtual machine ({name})"));
    let origins = view.class_origins(gpus).into_iter().chain(hypervisor.map(|(_, origin)| origin));
    let raised = RULE
        .raise(Measurement, Info, if hypervisor.is_some() { Likely } else { Possible })
        .summary(format!(
            "All {} GPU pairs read {class}: the labels {} a virtual machine's, and do not show which GPUs are near each other",
            pairs.len(),
            if hypervisor.is_some() { "are" } else { "may be" }
        ))
        .expected("classes that distinguish GPUs of one switch or socket from others")
        .measured(format!("{} GPUs labelled with one host bridge{by}", gpus.len()))
        .evidence(view.cite(origins))
        .fix(
            "Get the host's PCIe tree from the operator, or give NCCL a topology file (NCCL_TOPO_FILE). The guest's \
             bus shows the GPUs next to each other, wherever they are in the host. Copies with several GPUs at once \
             show which share a link.",
        )
        .confirm(
            "`systemd-detect-virt`; `lspci -tv`; `peerlane measure --tests pairs,all-host,subsets`, then `peerlane infer`",
        )
        .about_nodes(view.names_of(gpus));
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, origin, state};
    use super::*;
    use peerlane_machine::fact::{ClassMatrix, HostFacts};

    fn found(sockets: &[usize], stated: Option<u32>) -> usize {
        let mut machine = captured(boxes(sockets, false));
        if stated.is_some() {
            state(&mut machine, "lscpu", Fact::Host(HostFacts { sockets: stated, ..HostFacts::default() }));
        }
        findings(&machine, run).len()
    }

    #[test]
    fn only_where_every_pair_is_sys_and_sockets_are_too_few() {
        assert_eq!((found(&[1, 1, 1, 1], None), found(&[1, 1, 1, 1], Some(2))), (1, 1));
        assert_eq!((found(&[2, 2], None), found(&[1, 1], None), found(&[1, 1, 1, 1], Some(4))), (0, 0, 0));
    }

    #[test]
    fn a_guests_bridge_says_nothing() {
        let found = |gpus: usize, hypervisor: Option<&str>| {
            let mut b = boxes(&[gpus], false);
            let rc = b.find("rc0").unwrap();
            b.node_mut(rc).assumed = true;
            let mut machine = captured(b);
            let host = HostFacts { hypervisor: hypervisor.map(str::to_owned), ..HostFacts::default() };
            state(&mut machine, "lscpu", Fact::Host(host));
            findings(&machine, run).into_iter().map(|f| f.certainty).collect::<Vec<_>>()
        };
        assert_eq!((found(2, Some("KVM")), found(2, None)), (vec![Likely], vec![]));
        assert_eq!((found(8, None), found(1, Some("KVM"))), (vec![Possible], vec![]));
        assert!(findings(&captured(boxes(&[8], false)), run).is_empty(), "a tree that is known");
    }

    #[test]
    fn shared_nodes_show_what_labels_do_not() {
        let mut machine = captured(boxes(&[1, 1, 1, 1], false));
        let rows: Vec<String> = (0..4).map(|i| format!("GPU{i}")).collect();
        let node = |n: u32| Some(n.to_string().parse().unwrap());
        let matrix = ClassMatrix {
            cols: rows.clone(),
            rows,
            numa_affinity: vec![node(0), node(0), node(1), node(1)],
            ..ClassMatrix::default()
        };
        machine.stated_classes = Some((matrix, origin("nvidia-smi topo -m")));
        let found = findings(&machine, run);
        assert!(found[0].summary.ends_with("even those of one NUMA node: GPU0, GPU1 | GPU2, GPU3"), "{found:?}");
    }
}
