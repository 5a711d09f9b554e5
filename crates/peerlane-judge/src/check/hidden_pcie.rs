//! A machine whose PCIe links cannot be read: a virtual machine that shows its GPUs on emulated bridges.

use super::prelude::*;
use peerlane_machine::fact::{PciDevice, PciRole};
use peerlane_read::evidence::tool;

pub(super) const RULE: Rule = Rule::new("hidden-pcie", One(run));

fn run(view: &View) -> Option<Raised> {
    let gpus = view.of_kind(NodeKind::Gpu);
    let unread = |id: &NodeId| view.pcie_above(*id).is_some_and(|(running, _)| running.is_unknown());
    if !view.is_captured() || gpus.len() < 2 || !gpus.iter().all(unread) {
        return None;
    }
    let addresses = view.gpus_by_address();
    let is_gpu = |d: &PciDevice| d.role != PciRole::Bridge && d.address.is_some_and(|a| addresses.contains_key(&a));
    // lstopo and `lspci` without -vv omit links on bare metal too, and NCCL's log gives rates instead; a matrix of classes never
    // has them; the kernel logs the links of which a device could do more
    const WITHOUT: [&str; 6] =
        [tool::LSTOPO, tool::LSTOPO_XML, tool::LSPCI, tool::LSPCI_TREE, tool::NCCL_LOG, tool::KERNEL_LOG];
    let mut listings = view.pci_trees().filter(|(_, origin)| !WITHOUT.contains(&origin.tool));
    let (_, origin) = listings.find(|(tree, _)| tree.devices.iter().any(is_gpu))?;
    let by = view.hypervisor().map_or_else(String::new, |(name, _)| format!(" ({name})"));
    let raised = RULE
        .raise(Design, Info, Certain)
        .summary(format!("The PCIe links of all {} GPUs are hidden: their widths cannot be checked", gpus.len()))
        .expected("the speed and width of each link")
        .measured(format!("devices without link speed and width, as in a virtual machine{by}"))
        .evidence(view.cite([origin]))
        .fix(
            "Get the PCIe tree from the host or its operator, or give NCCL a topology file (NCCL_TOPO_FILE). Copies with \
             several GPUs at once show which of them share an uplink.",
        )
        .confirm("`peerlane measure --tests host,all-host,subsets`")
        .about_nodes(view.names_of(&gpus));
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie, state, with_link};
    use super::*;
    use peerlane_machine::fact::PciTree;

    fn found(width: &str, listed: Option<&'static str>) -> usize {
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
        if let Some(tool) = listed {
            state(&mut machine, tool, Fact::Pci(tree));
        }
        findings(&machine, run).len()
    }

    #[test]
    fn only_a_listing_that_should_know_hides_something() {
        let detailed = Some("lspci -vvv");
        assert_eq!((found("?", detailed), found("?", None), found("4.0 x16", detailed)), (1, 0, 0));
        assert_eq!(
            (found("?", Some(tool::LSPCI_TREE)), found("?", Some(tool::LSPCI)), found("?", Some(tool::KERNEL_LOG))),
            (0, 0, 0),
            "they never show links"
        );
    }
}
