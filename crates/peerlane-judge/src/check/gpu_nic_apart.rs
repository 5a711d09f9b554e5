//! GPUs whose nearest RDMA NIC is not below the same switches.

use std::collections::BTreeMap;

use super::view::{Raised, View};
use super::words::list;
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{NodeId, NodeKind, PathClass};
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "gpu-nic-apart", breaks: false, run };

/// So many GPUs that are all SYS to each other share sockets, whatever the labels say.
const FEW: usize = 3;

fn run(view: &View) -> Vec<Raised> {
    let gpus = view.of_kind(NodeKind::Gpu);
    let nics = view.rdma_nics();
    let mut apart: BTreeMap<PathClass, Vec<(NodeId, Vec<String>)>> = BTreeMap::new();
    for gpu in gpus.iter().copied() {
        // a NIC whose way is not known may be the near one
        let classes: Option<Vec<(PathClass, NodeId)>> =
            nics.iter().map(|nic| Some((view.class(gpu, *nic)?, *nic))).collect();
        let Some(classes) = classes else { continue };
        let Some(best) = classes.iter().map(|(class, _)| *class).min() else { continue };
        if best > PathClass::Pxb {
            let nearest =
                classes.iter().filter(|(c, _)| *c == best).map(|(_, nic)| view.name(*nic).to_owned()).collect();
            apart.entry(best).or_default().push((gpu, nearest));
        }
    }
    let coarse = labels_are_coarse(view, &gpus, &nics);
    let guest = view.hypervisor().is_some();
    apart.iter().map(|(class, gpus)| report(view, *class, gpus, coarse, guest)).collect()
}

/// Whether SYS tells nothing: all GPUs are SYS to each other, or to all NICs, and GPUs or NICs are so among themselves too,
/// as on machines that give each device a NUMA node of its own.
fn labels_are_coarse(view: &View, gpus: &[NodeId], nics: &[NodeId]) -> bool {
    let sys = |a: &NodeId, b: &NodeId| {
        view.fabric().tree_path(*a, *b).map(|p| p.class).or_else(|| view.class(*a, *b)) == Some(PathClass::Sys)
    };
    let among = |nodes: &[NodeId]| nodes.first().is_some_and(|first| nodes.iter().any(|other| sys(first, other)));
    let all_alone =
        gpus.len() >= FEW && gpus.iter().enumerate().all(|(i, a)| gpus.iter().skip(i + 1).all(|b| sys(a, b)));
    all_alone || gpus.iter().all(|gpu| nics.iter().all(|nic| sys(gpu, nic))) && (among(gpus) || among(nics))
}

fn report(view: &View, class: PathClass, gpus: &[(NodeId, Vec<String>)], coarse: bool, guest: bool) -> Raised {
    let subjects: Vec<String> = gpus.iter().map(|(gpu, _)| view.name(*gpu).to_owned()).collect();
    let mut by_nics: Vec<(&Vec<String>, Vec<String>)> = Vec::new();
    for (gpu, nics) in gpus {
        match by_nics.iter_mut().find(|(n, _)| *n == nics) {
            Some((_, names)) => names.push(view.name(*gpu).to_owned()),
            None => by_nics.push((nics, vec![view.name(*gpu).to_owned()])),
        }
    }
    let nearest: Vec<String> =
        by_nics.iter().map(|(nics, gpus)| format!("{}: {} ({class})", list(gpus), list(nics))).collect();
    let far = class == PathClass::Sys;
    let ends: Vec<NodeId> = gpus.iter().map(|(gpu, _)| *gpu).collect();
    let finding = Finding {
        rule: RULE.id.to_owned(),
            certainty: if guest { Certainty::Possible } else { Certainty::Likely },
            confirm: "`ib_write_bw --use_cuda=N` from each GPU with each NIC".to_owned(),
            cost: None,
        kind: FindingKind::Design,
        severity: if far && !coarse && !guest { Severity::Warning } else { Severity::Info },
        summary: format!(
            "No NIC is below the same switch as {}; the nearest way is {class}, {}",
            list(&subjects),
            class.meaning()
        ),
        subjects: Subject::nodes_of(subjects),
        expected: "a NIC at PIX or PXB for GPUDirect RDMA at full rate".to_owned(),
        measured: format!("nearest NIC of {}", nearest.join("; ")),
        evidence: view.cite(view.class_origins(&ends)),
        fix: if guest {
            "A virtual machine shows GPUs and NICs on its own bus, so that the class may say nothing of the host's: ask its \
             operator which NIC is below which switch, and give NCCL that as a topology file (NCCL_TOPO_FILE); without one it \
             may keep GPUDirect RDMA off (NCCL_NET_GDR_LEVEL decides)."
        } else if far && coarse {
            "Devices that may share a socket are SYS to each other here, so that the label cannot tell which NIC is near: measure each pair \
             (`ib_write_bw --use_cuda`), or look at NUMA nodes and affinities."
        } else if far {
            "Put a NIC on the GPUs' own socket, best below their switch; until then bind each rank to the nearest NIC \
             (NCCL_IB_HCA) and expect data to be staged in host memory (NCCL_NET_GDR_LEVEL decides)."
        } else {
            "If the board has a slot below the GPUs' switch, put the NIC there; else measure `ib_write_bw --use_cuda`: \
             root complexes differ much in how well they forward reads of GPU memory."
        }
        .to_owned(),
    };
    Raised::new(finding, 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie, rdma_nic, state, switched};
    use super::*;
    use peerlane_machine::fabric::Link;
    use peerlane_machine::fact::{Fact, HostFacts};
    use peerlane_machine::subject::join;

    /// GPU0 on socket 0 and GPU1 on socket 1, each below a switch, and a NIC at `port`.
    fn with_nic(port: &str) -> peerlane_machine::machine::Machine {
        let mut b = boxes(&[1, 1], true);
        let (nic, port) = (b.node(rdma_nic("mlx5_0")), b.find(port).unwrap());
        b.link(Link::new(port, nic, pcie("3.0 x16", "3.0 x16")));
        captured(b)
    }

    #[test]
    fn a_nic_below_one_switch_is_far_from_the_other_socket() {
        let found = findings(&with_nic("switch0"), run);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert_eq!(found[0].subjects, ["GPU1"]);
        assert!(found[0].measured.contains("GPU1: mlx5_0 (SYS)"));
    }

    #[test]
    fn a_nic_whose_way_is_not_known_may_be_near() {
        let mut machine = with_nic("switch0");
        let pair = (machine.fabric.find("GPU1").unwrap(), machine.fabric.find("mlx5_0").unwrap());
        machine.fabric.set_untold([pair]);
        assert!(findings(&machine, run).is_empty());
    }

    #[test]
    fn through_the_root_complex_is_good_to_know() {
        let found = findings(&with_nic("rc0"), run);
        let severities: Vec<(Severity, String)> = found.iter().map(|f| (f.severity, join(&f.subjects, " "))).collect();
        assert_eq!(severities, [(Severity::Info, "GPU0".to_owned()), (Severity::Warning, "GPU1".to_owned())]);
    }

    #[test]
    fn no_nic_or_no_rdma_is_silent() {
        assert!(findings(&switched(2), run).is_empty());
        let mut b = with_nic("rc0").fabric.into_builder();
        let nic = b.find("mlx5_0").unwrap();
        b.node_mut(nic).rdma = Some(false);
        assert!(findings(&captured(b), run).is_empty());
    }

    #[test]
    fn labels_that_are_all_sys_tell_little() {
        let mut b = boxes(&[1, 1, 0], false);
        let (nic, rc) = (b.node(rdma_nic("mlx5_0")), b.find("rc2").unwrap());
        b.link(Link::new(rc, nic, pcie("3.0 x16", "3.0 x16")));
        let found = findings(&captured(b), run);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
    }

    #[test]
    fn a_guests_bus_is_not_the_boards() {
        let mut machine = with_nic("switch0");
        let host = HostFacts { hypervisor: Some("KVM".to_owned()), ..HostFacts::default() };
        state(&mut machine, "lscpu", Fact::Host(host));
        let found = findings(&machine, run);
        assert_eq!((found[0].severity, found[0].certainty), (Severity::Info, Certainty::Possible));
        assert!(found[0].fix.contains("operator"));
    }
}
