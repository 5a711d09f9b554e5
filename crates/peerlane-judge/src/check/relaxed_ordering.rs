//! RDMA NICs that may not let writes overtake each other.

use std::collections::HashMap;

use super::view::{Raised, View};
use super::words::{list, verb};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{NodeId, NodeKind, PciAddress};
use peerlane_machine::fact::Fact;
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "relaxed-ordering", breaks: false, run };

fn run(view: &View) -> Vec<Raised> {
    let fabric = view.fabric();
    if fabric.of_kind(NodeKind::Gpu).next().is_none() {
        return Vec::new();
    }
    let nics: HashMap<PciAddress, NodeId> =
        view.rdma_nics().into_iter().filter_map(|id| Some((fabric.node(id).address?, id))).collect();
    let (mut strict, mut origins): (Vec<String>, Vec<&Origin>) = (Vec::new(), Vec::new());
    for evidence in &view.machine.evidence {
        let Fact::Pci(tree) = &evidence.fact else { continue };
        for device in tree.devices.iter().filter(|d| d.relaxed_ordering == Some(false)) {
            let Some(id) = device.address.and_then(|a| nics.get(&a)) else { continue };
            if !strict.iter().any(|known| known == view.name(*id)) {
                strict.push(view.name(*id).to_owned());
                origins.push(&evidence.origin);
            }
        }
    }
    if strict.is_empty() {
        return Vec::new();
    }
    let finding = Finding {
        summary: format!("{} {} not use relaxed ordering", list(&strict), verb(&strict, "does", "do")),
        expected: "RlxdOrd+ in DevCtl, with which writes need not wait for those before them".to_owned(),
        measured: "RlxdOrd-".to_owned(),
        evidence: view.cite(origins),
        fix: "On AMD EPYC and in virtual machines this may cost more than half of GPUDirect RDMA's rate: turn relaxed \
               ordering on in the BIOS, or with `setpci` and the adapter's PCI_WR_ORDERING; on other hosts it may not \
               matter."
            .to_owned(),
        confirm: "`ib_write_bw --use_cuda=N` with relaxed ordering on and off".to_owned(),
        ..Finding::of(&RULE, FindingKind::Design, Severity::Info, Certainty::Possible, Subject::nodes_of(strict))
    };
    vec![Raised::new(finding, 0.0)]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie, rdma_nic, state};
    use super::*;
    use peerlane_machine::fabric::Link;
    use peerlane_machine::fact::{PciDevice, PciRole, PciTree};

    #[test]
    fn only_where_a_listing_says_so() {
        let found = |setting: Option<bool>| {
            let mut b = boxes(&[1], true);
            let (nic, port) = (b.node(rdma_nic("mlx5_0")), b.find("switch0").unwrap());
            b.node_mut(nic).address = "05:00.0".parse().ok();
            b.link(Link::new(port, nic, pcie("4.0 x16", "4.0 x16")));
            let mut machine = captured(b);
            let device = PciDevice {
                address: "05:00.0".parse().ok(),
                relaxed_ordering: setting,
                ..PciDevice::new(PciRole::Endpoint)
            };
            let tree = PciTree { devices: vec![device], ..PciTree::default() };
            state(&mut machine, "lspci -vvv", Fact::Pci(tree));
            findings(&machine, run).into_iter().map(|f| f.summary).collect::<Vec<_>>()
        };
        assert_eq!(found(Some(false)), ["mlx5_0 does not use relaxed ordering"]);
        assert_eq!((found(Some(true)).len(), found(None).len()), (0, 0));
    }
}
