//! GPUs whose nearest RDMA NIC is not below the same switches.

use std::collections::BTreeMap;

use super::view::{Raised, View};
use super::words::{add, list};
use super::{Finding, FindingKind, Rule, Severity};
use crate::evidence::{Fact, Origin};
use crate::fabric::{NodeId, NodeKind, PathClass};

pub(super) const RULE: Rule = Rule { id: "gpu-nic-apart", breaks: false, run };

fn run(view: &View) -> Vec<Raised> {
    let nics: Vec<NodeId> = view.of_kind(NodeKind::Nic).into_iter().filter(|nic| may_rdma(view, *nic)).collect();
    let mut apart: BTreeMap<PathClass, Vec<(NodeId, Vec<String>)>> = BTreeMap::new();
    for gpu in view.of_kind(NodeKind::Gpu) {
        let classes: Vec<(PathClass, NodeId)> =
            nics.iter().filter_map(|nic| Some((view.class(gpu, *nic)?, *nic))).collect();
        let Some(best) = classes.iter().map(|(class, _)| *class).min() else { continue };
        if best > PathClass::Pxb {
            let nearest =
                classes.iter().filter(|(c, _)| *c == best).map(|(_, nic)| view.name(*nic).to_owned()).collect();
            apart.entry(best).or_default().push((gpu, nearest));
        }
    }
    apart.iter().map(|(class, gpus)| report(view, *class, gpus)).collect()
}

/// False only where the evidence shows the NIC's devices and none of them does RDMA.
fn may_rdma(view: &View, nic: NodeId) -> bool {
    let Some(address) = view.fabric().node(nic).address else { return true };
    let trees = view.machine.evidence.iter().filter_map(|e| match &e.fact {
        Fact::Pci(tree) => Some(tree),
        _ => None,
    });
    let mut devices =
        trees.flat_map(|t| &t.devices).filter(|d| d.address == Some(address)).flat_map(|d| &d.os_devices).peekable();
    devices.peek().is_none() || devices.any(|d| d.rdma)
}

fn report(view: &View, class: PathClass, gpus: &[(NodeId, Vec<String>)]) -> Raised {
    let subjects: Vec<String> = gpus.iter().map(|(gpu, _)| view.name(*gpu).to_owned()).collect();
    let mut by_nics: Vec<(&Vec<String>, Vec<String>)> = Vec::new();
    for (gpu, nics) in gpus {
        match by_nics.iter_mut().find(|(n, _)| *n == nics) {
            Some((_, names)) => add(names, view.name(*gpu)),
            None => by_nics.push((nics, vec![view.name(*gpu).to_owned()])),
        }
    }
    let nearest: Vec<String> =
        by_nics.iter().map(|(nics, gpus)| format!("{}: {} ({class})", list(gpus), list(nics))).collect();
    let far = class == PathClass::Sys;
    let origins: Vec<&Origin> = view.machine.stated_classes.iter().map(|(_, origin)| origin).collect();
    let finding = Finding {
        rule: RULE.id.to_owned(),
        kind: FindingKind::Design,
        severity: if far { Severity::Warning } else { Severity::Info },
        summary: format!(
            "No NIC is below the same switch as {}; the nearest way is {class}, {}",
            list(&subjects),
            class.meaning()
        ),
        subjects,
        expected: "a NIC at PIX or PXB for GPUDirect RDMA at full rate".to_owned(),
        observed: format!("nearest NIC of {}", nearest.join("; ")),
        evidence: view.cite(origins),
        mend: if far {
            "Put a NIC on the GPUs' own socket, best below their switch; until then bind each rank to the nearest NIC \
             (NCCL_IB_HCA) and expect data to be staged in host memory (NCCL_NET_GDR_LEVEL decides)."
        } else {
            "If the board has a slot below the GPUs' switch, put the NIC there; else measure `ib_write_bw --use_cuda`: \
             root complexes differ much in how well they forward reads of GPU memory."
        }
        .to_owned(),
    };
    Raised { finding, loss: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie, state, switched};
    use super::*;
    use crate::evidence::{OsDevice, PciDevice, PciRole, PciTree};
    use crate::fabric::{Link, Node};

    /// GPU0 on socket 0 and GPU1 on socket 1, each below a switch, and a NIC at `port`.
    fn with_nic(port: &str) -> crate::machine::Machine {
        let mut b = boxes(&[1, 1], true);
        let mut nic = Node::new("mlx5_0", NodeKind::Nic);
        nic.address = "c1:00.0".parse().ok();
        let (nic, port) = (b.node(nic), b.find(port).unwrap());
        b.link(Link::new(port, nic, pcie("3.0 x16", "3.0 x16")));
        captured(b)
    }

    #[test]
    fn a_nic_below_one_switch_is_far_from_the_other_socket() {
        let found = findings(&with_nic("switch0"), run);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert_eq!(found[0].subjects, ["GPU1"]);
        assert!(found[0].observed.contains("GPU1: mlx5_0 (SYS)"));
    }

    #[test]
    fn through_the_root_complex_is_good_to_know() {
        let found = findings(&with_nic("rc0"), run);
        let severities: Vec<(Severity, &str)> = found.iter().map(|f| (f.severity, f.subjects[0].as_str())).collect();
        assert_eq!(severities, [(Severity::Info, "GPU0"), (Severity::Warning, "GPU1")]);
    }

    #[test]
    fn no_nic_or_no_rdma_is_silent() {
        assert!(findings(&switched(2), run).is_empty());
        let mut machine = with_nic("rc0");
        let mut device = PciDevice::new(PciRole::Endpoint);
        device.address = "c1:00.0".parse().ok();
        device.os_devices.push(OsDevice { name: "eth0".to_owned(), rdma: false, gigabits: None, note: None });
        let tree = PciTree { devices: vec![device], bridges_are_switches: false, has_tree: true };
        state(&mut machine, "lstopo", Fact::Pci(tree));
        assert!(findings(&machine, run).is_empty());
    }
}
