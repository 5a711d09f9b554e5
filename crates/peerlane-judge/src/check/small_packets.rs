//! PCIe settings of GPUs and NICs that make packets smaller than possible.

use super::prelude::*;
use peerlane_machine::fact::{PciDevice, PciTree};

pub(super) const RULE: Rule = Rule::new("small-packets", Many(run));

/// Bytes of payload that every GPU and NIC in use supports.
const PAYLOAD: u16 = 256;

/// Bytes that a device should request at once; NIC vendors name 512 as the least for full rate, and it is their default.
const READ_REQUEST: u16 = 512;

fn run(view: &View) -> Vec<Raised> {
    view.pci_trees().filter_map(|(tree, origin)| judge(view, tree, origin)).collect()
}

fn judge(view: &View, tree: &PciTree, origin: &Origin) -> Option<Raised> {
    let sign = |device: &PciDevice| {
        let node = view.fabric().node(view.at(device.address?)?);
        if !matches!(node.kind, NodeKind::Gpu | NodeKind::Nic) {
            return None;
        }
        let payload = device.max_payload.filter(|p| *p < PAYLOAD).map(|p| format!("payload {p}"));
        // the setting limits NICs; GPUs' engines ignore it
        let request = device.max_read_request.filter(|r| *r < READ_REQUEST && node.kind == NodeKind::Nic);
        let request = request.map(|r| format!("read request {r}"));
        let signs: Vec<String> = payload.into_iter().chain(request).collect();
        (!signs.is_empty()).then(|| (node.name.as_str(), format!("{} {}", node.name, signs.join(", "))))
    };
    let (names, signs): (Vec<&str>, Vec<String>) = tree.devices.iter().filter_map(sign).unzip();
    if names.is_empty() {
        return None;
    }
    let raised = RULE
        .raise(Design, Info, Certain)
        .summary(format!("{}: PCIe packets are small; each adds 20 to 28 bytes of overhead", list(&names)))
        .expected(format!("{PAYLOAD} bytes of payload or more, and read requests of {READ_REQUEST} or more"))
        .measured(format!("bytes: {}", list(&signs)))
        .evidence(view.cite([origin]))
        .fix(
            "Let the kernel set the largest payload that the whole tree supports (`pci=pcie_bus_perf`), and set the NIC's \
             read request with `setpci` or its vendor's tool. A payload of 128 bytes instead of 256 costs 9 % of the link.",
        )
        .confirm("`lspci -vvv | grep -e MaxPayload -e MaxReadReq`")
        .about_nodes(names);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, state};
    use super::*;
    use peerlane_machine::fact::{PciRole, PciTree};

    fn found(payload: u16, request: u16) -> Vec<String> {
        let mut b = boxes(&[1], false);
        let gpu = b.find("GPU0").unwrap();
        b.node_mut(gpu).address = "03:00.0".parse().ok();
        let device = PciDevice {
            address: "03:00.0".parse().ok(),
            max_payload: Some(payload),
            max_read_request: Some(request),
            ..PciDevice::new(PciRole::Endpoint)
        };
        let mut machine = captured(b);
        state(&mut machine, "lspci", Fact::Pci(PciTree { devices: vec![device], ..PciTree::default() }));
        findings(&machine, run).into_iter().map(|f| f.measured).collect()
    }

    #[test]
    fn small_payloads_are_named_and_a_gpus_read_requests_are_not() {
        assert_eq!(found(128, 512), ["bytes: GPU0 payload 128"]);
        assert!(found(256, 512).is_empty() && found(256, 128).is_empty() && found(512, 4096).is_empty());
    }
}
