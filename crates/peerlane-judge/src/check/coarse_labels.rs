//! Path classes that cannot tell what they should: every pair is SYS, although there are fewer sockets than GPUs, or every
//! pair hangs on the one host bridge that a virtual machine shows.

use super::view::{Raised, View};
use super::words::list;
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{CpuList, NodeId, NodeKind, PathClass};
use peerlane_machine::fact::Fact;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "coarse-labels", breaks: false, run };

/// From so many GPUs on all of which are SYS to each other, some must share a socket: few boards have more than two.
const FEWEST: usize = 3;

/// GPUs on x16 for which no host bridge of a server has lanes without a switch, which would read PIX or PXB.
const MOST_ON_BRIDGE: usize = 4;

fn run(view: &View) -> Vec<Raised> {
    let gpus = view.of_kind(NodeKind::Gpu);
    let pairs = view.gpu_pairs();
    let classes: Vec<PathClass> = pairs.iter().filter_map(|(a, b)| view.class(*a, *b)).collect();
    // a capture that is cut may hide some, but not most
    let all_sys = classes.len() * 2 > pairs.len() && classes.iter().all(|c| *c == PathClass::Sys);
    if !all_sys {
        return on_one_bridge(view, &gpus, &pairs).into_iter().collect();
    }
    if gpus.len() < FEWEST {
        return Vec::new();
    }
    let hosts = view.machine.evidence.iter().filter_map(|e| match &e.fact {
        Fact::Host(host) => Some(host),
        _ => None,
    });
    let sockets = hosts.filter_map(|h| h.sockets).max();
    // a board with a socket for each GPU has them far apart indeed
    if sockets.is_some_and(|n| n as usize >= gpus.len()) {
        return Vec::new();
    }
    let subjects: Vec<String> = gpus.iter().map(|id| view.name(*id).to_owned()).collect();
    let told = sockets.map_or_else(String::new, |n| format!(", on {n} sockets"));
    if let Some(nodes) = shared_nodes(view, &gpus) {
        let finding = Finding {
            summary: format!(
                "All {} GPU pairs read SYS, also those of one NUMA node: {}",
                classes.len(),
                nodes.join(" | ")
            ),
            expected: "NODE or nearer between GPUs of one NUMA node".to_owned(),
            measured: "SYS between GPUs whose NUMA or CPU affinity is the same".to_owned(),
            evidence: view.cite(view.class_origins(&gpus)),
            fix: "Go by the affinities: ranks that talk much belong on the GPUs of one node. Some drivers and platforms \
                   call every way between two root complexes SYS; NCCL does not (see its topology dump), and measured pairs \
                   tell what crossing costs."
                .to_owned(),
            confirm: "`peerlane measure --tests pairs`; `NCCL_TOPO_DUMP_FILE`".to_owned(),
            ..Finding::of(&RULE, FindingKind::Measurement, Severity::Info, Certainty::Certain, Subject::nodes_of(subjects))
        };
        return vec![Raised::new(finding, 0.0)];
    }
    let finding = Finding {
        summary: format!(
            "All {} GPU pairs read SYS: the labels cannot tell which GPUs are near each other",
            classes.len()
        ),
        expected: "classes that tell GPUs of one socket from those of another".to_owned(),
        measured: format!("{} GPUs, each in a NUMA node of its own by its label{told}", gpus.len()),
        evidence: view.cite(view.class_origins(&gpus)),
        fix: "Several NUMA nodes a socket (NPS, SNC) and virtual machines make each device its own node. Measure the \
               pairs, or read the PCIe tree (`lspci -tv`) of the host; NPS1 in the BIOS makes the labels mean sockets."
            .to_owned(),
        confirm: "`peerlane measure --tests pairs`; `lscpu | grep -e NUMA -e Socket`".to_owned(),
        ..Finding::of(&RULE, FindingKind::Measurement, Severity::Info, Certainty::Likely, Subject::nodes_of(subjects))
    };
    vec![Raised::new(finding, 0.0)]
}

/// GPUs by the NUMA node, or the CPUs, that the matrix puts them on, where several share one.
fn shared_nodes(view: &View, gpus: &[NodeId]) -> Option<Vec<String>> {
    let (matrix, _) = view.machine.stated_classes.as_ref()?;
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for name in gpus.iter().map(|id| view.name(*id).to_owned()) {
        let Some(row) = matrix.rows.iter().position(|r| *r == name) else { continue };
        let told = |list: &[Option<CpuList>]| list.get(row).and_then(Option::as_ref).map(ToString::to_string);
        let Some(key) = told(&matrix.numa_affinity).or_else(|| told(&matrix.cpu_affinity)) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, names)) => names.push(name),
            None => groups.push((key, vec![name])),
        }
    }
    // one list for all is that of a guest, or of a process that is bound
    let several = groups.len() > 1 && groups.iter().any(|(_, names)| names.len() > 1);
    several.then(|| groups.iter().map(|(_, names)| list(names)).collect())
}

/// Every pair reads PHB, or NODE, and a hypervisor is there: the classes are those of the guest's bus. More GPUs than a
/// host bridge has lanes for say so without one.
fn on_one_bridge(view: &View, gpus: &[NodeId], pairs: &[(NodeId, NodeId)]) -> Option<Raised> {
    let class =
        view.class(pairs.first()?.0, pairs.first()?.1).filter(|c| matches!(c, PathClass::Phb | PathClass::Node))?;
    // a tree that a listing shows is no matter of labels
    let assumed = view.fabric().of_kind(NodeKind::RootComplex).all(|rc| view.fabric().node(rc).assumed);
    if !assumed || pairs.iter().any(|(a, b)| view.class(*a, *b) != Some(class)) {
        return None;
    }
    let hypervisor = view.hypervisor();
    let crowded = class == PathClass::Phb && gpus.len() > MOST_ON_BRIDGE;
    if hypervisor.is_none() && !crowded {
        return None;
    }
    let subjects: Vec<String> = gpus.iter().map(|id| view.name(*id).to_owned()).collect();
    let by = hypervisor.as_ref().map_or_else(String::new, |(name, _)| format!(", in a virtual machine ({name})"));
    let origins = view.class_origins(gpus).into_iter().chain(hypervisor.as_ref().map(|(_, origin)| *origin));
    let finding = Finding {
        summary: format!(
            "All {} GPU pairs read {class}: the labels {} a virtual machine's, and cannot tell which GPUs are near each other",
            pairs.len(),
            if hypervisor.is_some() { "are" } else { "may be" }
        ),
        expected: "classes that tell GPUs of one switch or socket from others".to_owned(),
        measured: format!("{} GPUs on one host bridge by their labels{by}", gpus.len()),
        evidence: view.cite(origins),
        fix: "The guest's bus has the GPUs side by side, wherever they are in the host. Ask the operator for the host's tree, \
               or give NCCL a topology file (NCCL_TOPO_FILE); copies of several GPUs at once show which share a link."
            .to_owned(),
        confirm: "`systemd-detect-virt`; `lspci -tv`; `peerlane measure --tests pairs,all-host,subsets`, then `peerlane infer`"
            .to_owned(),
        ..Finding::of(
            &RULE,
            FindingKind::Measurement,
            Severity::Info,
            if hypervisor.is_some() { Certainty::Likely } else { Certainty::Possible },
            Subject::nodes_of(subjects),
        )
    };
    Some(Raised::new(finding, 0.0))
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
    fn a_guests_bridge_tells_nothing() {
        let found = |gpus: usize, hypervisor: Option<&str>| {
            let mut b = boxes(&[gpus], false);
            let rc = b.find("rc0").unwrap();
            b.node_mut(rc).assumed = true;
            let mut machine = captured(b);
            let host = HostFacts { hypervisor: hypervisor.map(str::to_owned), ..HostFacts::default() };
            state(&mut machine, "lscpu", Fact::Host(host));
            findings(&machine, run).into_iter().map(|f| f.certainty).collect::<Vec<_>>()
        };
        assert_eq!((found(2, Some("KVM")), found(2, None)), (vec![Certainty::Likely], vec![]));
        assert_eq!((found(8, None), found(1, Some("KVM"))), (vec![Certainty::Possible], vec![]));
        assert!(findings(&captured(boxes(&[8], false)), run).is_empty(), "a tree that is known");
    }

    #[test]
    fn nodes_that_gpus_share_tell_what_labels_do_not() {
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
        assert!(found[0].summary.ends_with("also those of one NUMA node: GPU0, GPU1 | GPU2, GPU3"), "{found:?}");
    }
}
