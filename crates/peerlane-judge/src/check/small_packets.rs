//! PCIe settings of GPUs and NICs that make packets smaller than they could be.

use super::view::{Raised, View};
use super::words::list;
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::fact::{Fact, PciDevice};
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "small-packets", breaks: false, run };

/// Bytes of the largest payload that GPUs and NICs of this century take.
const PAYLOAD: u16 = 256;

/// Bytes that a device should ask for at once; vendors of NICs name 512 as the least for full rate and ship so.
const READ_REQUEST: u16 = 512;

fn run(view: &View) -> Vec<Raised> {
    let fabric = view.fabric();
    let mut raised = Vec::new();
    for evidence in &view.machine.evidence {
        let Fact::Pci(tree) = &evidence.fact else { continue };
        let named = |d: &PciDevice| {
            let is = |id: &peerlane_machine::fabric::NodeId| {
                let node = fabric.node(*id);
                matches!(node.kind, NodeKind::Gpu | NodeKind::Nic)
                    && node.address.is_some()
                    && node.address == d.address
            };
            fabric.ids().find(is).map(|id| (fabric.node(id).name.clone(), fabric.node(id).kind))
        };
        let (mut small, mut signs) = (Vec::new(), Vec::new());
        for device in tree.devices.iter().filter(|d| d.max_payload.is_some() || d.max_read_request.is_some()) {
            let Some((name, kind)) = named(device) else { continue };
            let payload = device.max_payload.filter(|p| *p < PAYLOAD);
            // a GPU's engines ask for what they like; NICs go by the setting
            let request = device.max_read_request.filter(|r| *r < READ_REQUEST && kind == NodeKind::Nic);
            let sign: Vec<String> =
                [payload.map(|p| format!("payload {p}")), request.map(|r| format!("read request {r}"))]
                    .into_iter()
                    .flatten()
                    .collect();
            if !sign.is_empty() {
                signs.push(format!("{name} {}", sign.join(", ")));
                small.push(name);
            }
        }
        if small.is_empty() {
            continue;
        }
        let finding = Finding {
            summary: format!("{}: small PCIe packets, each of which has 20 to 28 bytes around it", list(&small)),
            expected: format!(
                "at most {PAYLOAD} bytes of payload or more, and read requests of {READ_REQUEST} or more"
            )
            .replace("at most ", ""),
            measured: format!("bytes: {}", list(&signs)),
            evidence: view.cite([&evidence.origin]),
            fix: "Let the BIOS set the largest payload that the whole tree takes (`pci=pcie_bus_perf`), and the read \
                   request of a NIC with `setpci` or its vendor's tool: 128 bytes cost 9 % of a link beside 256."
                .to_owned(),
            confirm: "`lspci -vvv | grep -e MaxPayload -e MaxReadReq`".to_owned(),
            ..Finding::of(&RULE, FindingKind::Design, Severity::Info, Certainty::Certain, Subject::nodes_of(small))
        };
        raised.push(Raised::new(finding, 0.0));
    }
    raised
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
