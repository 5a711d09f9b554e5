//! Access Control Services that send traffic between GPUs and adapters of one switch up to the root complex.

use std::collections::HashMap;

use super::prelude::*;
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{PciRole, PciTree};

pub(super) const RULE: Rule =
    Rule::new("acs-redirect", Many(run)).explains("half-duplex p2p-slower-than-staged uneven-path-class slow-path");

/// What to do about ports that redirect.
const FIX: &str = "On bare metal, turn ACS off in the BIOS or clear it (`setpci -s PORT ECAP_ACS+6.w=0000`, again \
                   after each boot) and boot with `iommu=pt`. A host that passes these devices to virtual machines \
                   needs ACS: there, enable ATS in the adapters instead (`mlxconfig`: ATS_ENABLED).";

/// A GPU or an RDMA adapter: what exchanges data with another without the host.
struct Peer<'a> {
    name: &'a str,
    gpu: bool,
}

/// How many of them are at or below a function.
#[derive(Clone, Copy, Default)]
struct Below {
    gpus: usize,
    all: usize,
}

impl Below {
    /// Whether a GPU at one side has a partner at the other, of those of a switch.
    fn meets_others(self, of_switch: Below) -> bool {
        (self.gpus > 0 && of_switch.all > self.all) || (self.all > 0 && of_switch.gpus > self.gpus)
    }
}

fn run(view: &View) -> Vec<Raised> {
    let peers =
        view.gpus_by_address().into_iter().map(|(address, id)| (address, Peer { name: view.name(id), gpu: true }));
    let nics = view
        .rdma_nics()
        .into_iter()
        .filter_map(|id| Some((view.fabric().node(id).address?, Peer { name: view.name(id), gpu: false })));
    let peers: HashMap<PciAddress, Peer> = peers.chain(nics).collect();
    let trees = view.pci_trees().filter(|(tree, _)| tree.has_tree);
    let raised: Vec<Raised> = trees.filter_map(|(tree, origin)| judge(view, tree, &peers, origin)).collect();
    if raised.is_empty() { unplaced(view).into_iter().collect() } else { raised }
}

/// Ports that redirect in a listing that does not say which they are, as `lspci -vvv | grep ACSCtl` prints it.
fn unplaced(view: &View) -> Option<Raised> {
    let mut listings = view.facts(|fact| match fact {
        Fact::Acs(lines) if lines.redirecting > 0 => Some(lines),
        _ => None,
    });
    let (lines, origin) = listings.next()?;
    let is_near = |class: PathClass| class <= PathClass::Pxb && class.is_pcie();
    let below_switch = view.gpu_pairs().iter().any(|(a, b)| view.class(*a, *b).is_some_and(is_near));
    let raised = RULE
        .raise(Design, if below_switch { Warning } else { Info }, Possible)
        .summary(format!(
            "Access Control Services (ACS) redirect peer traffic at {} of {} ports; the lines do not say which",
            lines.redirecting, lines.functions
        ))
        .expected("ReqRedir- CmpltRedir- on every port between GPUs and adapters")
        .measured(format!("ReqRedir+ or CmpltRedir+ on {} ACSCtl lines", lines.redirecting))
        .evidence(view.cite([origin]))
        .fix(FIX)
        .confirm("`lspci -vvv` as root, in full, shows which ports these are, and `lspci -tv` what is below them");
    Some(raised)
}

fn judge(view: &View, tree: &PciTree, peers: &HashMap<PciAddress, Peer>, origin: &Origin) -> Option<Raised> {
    // parents precede children
    let mut below = vec![Below::default(); tree.devices.len()];
    for (i, device) in tree.devices.iter().enumerate().rev() {
        let own = device.address.and_then(|a| peers.get(&a));
        let mut total = below.get(i).copied().unwrap_or_default();
        total.gpus += usize::from(own.is_some_and(|peer| peer.gpu));
        total.all += usize::from(own.is_some());
        if let Some(count) = below.get_mut(i) {
            *count = total;
        }
        if let Some(count) = device.parent.filter(|p| *p < i).and_then(|p| below.get_mut(p)) {
            count.gpus += total.gpus;
            count.all += total.all;
        }
    }
    // a switch port that redirects, with a GPU below it and a GPU or an adapter below a sibling, or the other way round: their
    // path would turn round there
    let redirects = |i: usize| {
        let device = tree.devices.get(i)?;
        let acs = device.acs.filter(|acs| acs.request_redirect || acs.completion_redirect)?;
        let parent = device.parent?;
        let in_switch = device.role == PciRole::Bridge && tree.devices.get(parent)?.role == PciRole::Bridge;
        (in_switch && below.get(i)?.meets_others(*below.get(parent)?)).then_some((device, acs))
    };
    let ports: Vec<_> = (0..tree.devices.len()).filter_map(redirects).collect();
    let (_, acs) = ports.first()?;
    // parents precede children, so that the walk ends
    let up = |at: &usize| tree.devices.get(*at)?.parent.filter(|parent| parent < at);
    let is_affected = |at: usize| std::iter::successors(Some(at), up).any(|at| redirects(at).is_some());
    let named = tree.devices.iter().enumerate().filter_map(|(i, device)| Some((i, peers.get(&device.address?)?.name)));
    let names = distinct(named.filter(|(i, _)| is_affected(*i)).map(|(_, name)| name));
    let addresses: Vec<String> = ports.iter().filter_map(|(port, _)| port.address.map(|a| a.to_string())).collect();
    let bits = match (acs.request_redirect, acs.completion_redirect) {
        (true, true) => "ReqRedir+ CmpltRedir+",
        (true, false) => "ReqRedir+",
        _ => "CmpltRedir+",
    };
    let raised = RULE
        .raise(Fault, Warning, Certain)
        .summary(format!(
            "ACS redirect is on below a switch: peer traffic of {} goes up to the root complex and back",
            list(&names)
        ))
        .expected("ReqRedir- CmpltRedir- on switch ports between GPUs and adapters")
        .measured(format!("{bits} on {}", list(&addresses)))
        .evidence(view.cite([origin]))
        .fix(FIX)
        .confirm("`lspci -vvv | grep ACSCtl` on these ports; `peerlane measure --tests pairs` before and after")
        .about_nodes(names);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie, rdma_nic, state};
    use super::*;
    use peerlane_machine::fabric::Link;
    use peerlane_machine::fact::{Acs, AcsLines, PciDevice};

    /// Two GPUs below a switch (or, without one, each below its own root port), with ACS at the ports above them.
    fn with_acs(switch: bool, redirect: bool) -> usize {
        let mut b = boxes(&[2], switch);
        for (i, bus) in ["03:00.0", "04:00.0"].into_iter().enumerate() {
            let gpu = b.find(&format!("GPU{i}")).unwrap();
            b.node_mut(gpu).address = bus.parse().ok();
        }
        let mut machine = captured(b);
        let device = |role, parent, address: &str, acs| {
            let mut d = PciDevice::new(role);
            (d.parent, d.address, d.acs) = (parent, address.parse().ok(), acs);
            d
        };
        let acs = Some(Acs { capable: true, request_redirect: redirect, completion_redirect: redirect });
        let mut devices = vec![device(PciRole::HostBridge, None, "", None)];
        if switch {
            devices.push(device(PciRole::Bridge, Some(0), "00:01.0", acs));
            devices.push(device(PciRole::Bridge, Some(1), "01:00.0", None));
        }
        let port = Some(devices.len() - 1);
        for (port_at, gpu) in [("02:00.0", "03:00.0"), ("02:01.0", "04:00.0")] {
            devices.push(device(PciRole::Bridge, port, port_at, acs));
            devices.push(device(PciRole::Endpoint, Some(devices.len() - 1), gpu, None));
        }
        let tree = PciTree { devices, bridges_are_switches: false, has_tree: true };
        state(&mut machine, "lspci -vvv", Fact::Pci(tree));
        let found = findings(&machine, run);
        assert!(found.iter().all(|f| f.subjects == ["GPU0", "GPU1"] && f.measured.contains("0000:02:01.0")));
        found.len()
    }

    #[test]
    fn only_redirects_within_a_switch_count() {
        assert_eq!(with_acs(true, true), 1);
        assert_eq!(with_acs(true, false), 0);
        assert_eq!(with_acs(false, true), 0, "between root ports the path goes up anyway");
    }

    #[test]
    fn a_gpu_and_an_adapter_below_one_switch() {
        let found = |redirecting: bool| {
            let mut b = boxes(&[1], true);
            let (gpu, nic) = (b.find("GPU0").unwrap(), b.node(rdma_nic("mlx5_0")));
            b.node_mut(gpu).address = "03:00.0".parse().ok();
            b.node_mut(nic).address = "04:00.0".parse().ok();
            let switch = b.find("switch0").unwrap();
            b.link(Link::new(switch, nic, pcie("3.0 x16", "3.0 x16")));
            let mut machine = captured(b);
            let device = |role, parent, address: &str| {
                let mut d = PciDevice::new(role);
                (d.parent, d.address) = (parent, address.parse().ok());
                d.acs = Some(Acs { capable: true, request_redirect: redirecting, completion_redirect: false });
                d
            };
            let (bridge, end) = (PciRole::Bridge, PciRole::Endpoint);
            let devices = vec![
                device(PciRole::HostBridge, None, ""),
                device(bridge, Some(0), "00:01.0"),
                device(bridge, Some(1), "01:00.0"),
                device(bridge, Some(2), "02:00.0"),
                device(end, Some(3), "03:00.0"),
                device(bridge, Some(2), "02:01.0"),
                device(end, Some(5), "04:00.0"),
            ];
            state(
                &mut machine,
                "lspci -vvv",
                Fact::Pci(PciTree { devices, bridges_are_switches: false, has_tree: true }),
            );
            findings(&machine, run)
        };
        let both = found(true);
        assert_eq!(both[0].subjects, ["GPU0", "mlx5_0"]);
        assert_eq!(both[0].measured, "ReqRedir+ on 0000:02:00.0, 0000:02:01.0");
        assert_eq!(found(false), []);
    }

    #[test]
    fn lines_without_devices_say_how_many() {
        let found = |switches, redirecting| {
            let mut machine = captured(boxes(&[2], switches));
            state(&mut machine, "lspci -vvv", Fact::Acs(AcsLines { functions: 9, redirecting }));
            findings(&machine, run).into_iter().map(|f| f.severity).collect::<Vec<_>>()
        };
        assert_eq!(found(true, 4), [Warning]);
        assert_eq!(found(false, 4), [Info]);
        assert_eq!(found(true, 0), []);
    }
}
