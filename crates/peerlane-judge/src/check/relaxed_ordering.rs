//! RDMA NICs with PCIe relaxed ordering disabled.

use super::prelude::*;

pub(super) const RULE: Rule = Rule::new("relaxed-ordering", One(run));

fn run(view: &View) -> Option<Raised> {
    view.fabric().of_kind(NodeKind::Gpu).next()?;
    let nics = view.rdma_nics();
    let devices = view.pci_trees().flat_map(|(tree, origin)| tree.devices.iter().map(move |d| (d, origin)));
    let strict = devices.filter(|(device, _)| device.relaxed_ordering == Some(false)).filter_map(|(device, origin)| {
        let nic = view.at(device.address?).filter(|id| nics.contains(id))?;
        Some((view.name(nic), origin))
    });
    let (names, origins): (Vec<&str>, Vec<&Origin>) = strict.unzip();
    let names = distinct(names);
    if names.is_empty() {
        return None;
    }
    let raised = RULE
        .raise(Design, Info, Possible)
        .summary(format!("{}: relaxed ordering is off", list(&names)))
        .expected("RlxdOrd+ in DevCtl, so that writes need not wait for earlier ones")
        .measured("RlxdOrd-")
        .evidence(view.cite(origins))
        .fix(
            "Set the bit in the BIOS or with `setpci -s DEVICE CAP_EXP+8.w=0010:0010`, and let the adapter use it \
             (`mlxconfig`: PCI_WR_ORDERING). On AMD EPYC and in virtual machines, leaving it off may halve the rate of \
             GPUDirect RDMA; on other hosts it may not matter.",
        )
        .confirm("`ib_write_bw --use_cuda=N` with relaxed ordering on and off")
        .about_nodes(names);
    Some(raised)
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
        assert_eq!(found(Some(false)), ["mlx5_0: relaxed ordering is off"]);
        assert_eq!((found(Some(true)).len(), found(None).len()), (0, 0));
    }
}
