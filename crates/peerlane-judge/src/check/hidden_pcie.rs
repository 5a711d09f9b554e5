//! A machine whose PCIe links cannot be read: a virtual one that shows its GPUs on bridges of its own.

use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{LinkKind, NodeKind};
use peerlane_machine::fact::{Fact, PciRole};
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "hidden-pcie", breaks: false, run };

fn run(view: &View) -> Vec<Raised> {
    let fabric = view.fabric();
    let gpus = view.of_kind(NodeKind::Gpu);
    if !view.is_captured() || gpus.len() < 2 {
        return Vec::new();
    }
    let unread = |id| {
        let link = fabric.upstream(id).map(|(link, _)| &fabric.link(link).kind);
        matches!(link, Some(LinkKind::Pcie { running, .. }) if running.is_unknown())
    };
    // a source that lists devices and would know their links; a matrix of classes never does
    let listing = view.machine.evidence.iter().find(|e| match &e.fact {
        // lstopo leaves links out on bare metal too
        Fact::Pci(_) if e.origin.tool.contains("lstopo") => false,
        Fact::Pci(tree) => {
            let gpu = |d: &peerlane_machine::fact::PciDevice| {
                d.address.is_some_and(|a| view.gpus_by_address().contains_key(&a))
            };
            tree.devices.iter().any(|d| d.role != PciRole::Bridge && gpu(d))
        }
        _ => false,
    });
    let Some(listing) = listing.filter(|_| gpus.iter().all(|id| unread(*id))) else { return Vec::new() };
    let subjects: Vec<String> = gpus.iter().map(|id| view.name(*id).to_owned()).collect();
    let by = view.hypervisor().map_or_else(String::new, |(name, _)| format!(" ({name})"));
    let finding = Finding {
        summary: format!("The PCIe links of all {} GPUs are hidden: their widths cannot be judged", gpus.len()),
        expected: "a speed and a width of each link".to_owned(),
        measured: format!("devices without a link's speed and width, as a virtual machine shows them{by}"),
        evidence: view.cite([&listing.origin]),
        fix: "Ask the host or its operator for the tree, or give NCCL a topology file (NCCL_TOPO_FILE). Copies of several \
               GPUs at once show which of them share an uplink."
            .to_owned(),
        confirm: "`peerlane measure --tests host,all-host,subsets`".to_owned(),
        ..Finding::of(&RULE, FindingKind::Measurement, Severity::Info, Certainty::Certain, Subject::nodes_of(subjects))
    };
    vec![Raised::new(finding, 0.0)]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie, state, with_link};
    use super::*;
    use peerlane_machine::fact::{PciDevice, PciTree};

    fn found(width: &str, listed: bool) -> usize {
        let mut b = boxes(&[2], false);
        let mut tree = PciTree::default();
        for (i, bus) in ["03:00.0", "04:00.0"].into_iter().enumerate() {
            let gpu = b.find(&format!("GPU{i}")).unwrap();
            b.node_mut(gpu).address = bus.parse().ok();
            tree.devices.push(PciDevice { address: bus.parse().ok(), ..PciDevice::new(PciRole::Endpoint) });
        }
        let mut machine = captured(b);
        for gpu in ["GPU0", "GPU1"] {
            with_link(&mut machine, gpu, pcie(width, width));
        }
        if listed {
            state(&mut machine, "lspci", Fact::Pci(tree));
        }
        findings(&machine, run).len()
    }

    #[test]
    fn only_a_listing_that_should_know_hides_something() {
        assert_eq!((found("?", true), found("?", false), found("4.0 x16", true)), (1, 0, 0));
    }
}
