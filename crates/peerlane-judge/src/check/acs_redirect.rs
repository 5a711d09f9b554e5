//! Access Control Services that send traffic between GPUs of one switch up to the root complex.

use std::collections::{HashMap, HashSet};

use super::view::{Raised, View};
use super::words::list;
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{PathClass, PciAddress};
use peerlane_machine::fact::{Fact, PciRole, PciTree};
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "acs-redirect", breaks: false, run };

fn run(view: &View) -> Vec<Raised> {
    let named = view.gpus_by_address().into_iter().map(|(address, id)| (address, view.name(id)));
    let gpus: HashMap<PciAddress, &str> = named.collect();
    let trees = view.machine.evidence.iter().filter_map(|e| match &e.fact {
        Fact::Pci(tree) if tree.has_tree => Some((tree, &e.origin)),
        _ => None,
    });
    let raised: Vec<Raised> = trees.filter_map(|(tree, origin)| judge(view, tree, &gpus, origin)).collect();
    if raised.is_empty() { unplaced(view).into_iter().collect() } else { raised }
}

/// Ports that redirect in a listing that does not say which they are, as `lspci -vvv | grep ACSCtl` leaves it.
fn unplaced(view: &View) -> Option<Raised> {
    let (lines, origin) = view.machine.evidence.iter().find_map(|e| match &e.fact {
        Fact::Acs(lines) if lines.redirecting > 0 => Some((lines, &e.origin)),
        _ => None,
    })?;
    let below_switch =
        view.gpu_pairs().iter().any(|(a, b)| view.class(*a, *b).is_some_and(|c| c <= PathClass::Pxb && c.is_pcie()));
    let finding = Finding {
        summary: format!(
            "Access Control Services redirect peer traffic at {} of {} ports; the lines do not say which",
            lines.redirecting, lines.functions
        ),
        expected: "ReqRedir- CmpltRedir- on every port between GPUs and adapters".to_owned(),
        measured: format!("ReqRedir+ or CmpltRedir+ on {} ACSCtl lines", lines.redirecting),
        evidence: view.cite([origin]),
        fix: MEND.to_owned(),
        confirm: "`lspci -vvv` as root, whole, shows which ports they are, and `lspci -tv` what hangs below them"
            .to_owned(),
        ..Finding::of(
            &RULE,
            FindingKind::Design,
            if below_switch { Severity::Warning } else { Severity::Info },
            Certainty::Possible,
            Vec::new(),
        )
    };
    Some(Raised::new(finding, 0.0))
}

/// What to do about ports that redirect.
const MEND: &str = "On bare metal turn ACS off in the BIOS or clear it (`setpci -s PORT ECAP_ACS+6.w=0000`, again after each \
                    boot) and boot with `iommu=pt`; in a virtual machine the host must do it.";

fn judge(view: &View, tree: &PciTree, gpus: &HashMap<PciAddress, &str>, origin: &Origin) -> Option<Raised> {
    // GPUs at or below each function; parents stand before children
    let mut below = vec![0usize; tree.devices.len()];
    for (i, device) in tree.devices.iter().enumerate().rev() {
        let own = usize::from(device.address.is_some_and(|a| gpus.contains_key(&a)));
        let total = below.get(i).copied().unwrap_or(0) + own;
        if let Some(count) = below.get_mut(i) {
            *count = total;
        }
        if let Some(count) = device.parent.filter(|p| *p < i).and_then(|p| below.get_mut(p)) {
            *count += total;
        }
    }
    // a switch port that redirects, with a GPU below it and another below a sibling: their way would turn round there
    let redirects = |i: usize| {
        let device = tree.devices.get(i)?;
        let acs = device.acs.filter(|acs| acs.request_redirect || acs.completion_redirect)?;
        let parent = device.parent?;
        let in_switch = device.role == PciRole::Bridge && tree.devices.get(parent)?.role == PciRole::Bridge;
        let (mine, all) = (*below.get(i)?, *below.get(parent)?);
        (in_switch && mine > 0 && all > mine).then_some((device, acs))
    };
    let ports: Vec<_> = (0..tree.devices.len()).filter_map(redirects).collect();
    let (_, acs) = ports.first()?;
    let (mut subjects, mut seen) = (Vec::new(), HashSet::new());
    for (i, device) in tree.devices.iter().enumerate() {
        let Some(name) = device.address.and_then(|a| gpus.get(&a)) else { continue };
        let mut at = Some(i);
        // parents stand before children, so that the walk ends
        while let Some(here) = at {
            if redirects(here).is_some() {
                if seen.insert(*name) {
                    subjects.push((*name).to_owned());
                }
                break;
            }
            at = tree.devices.get(here).and_then(|d| d.parent).filter(|p| *p < here);
        }
    }
    let addresses: Vec<String> = ports.iter().filter_map(|(port, _)| port.address.map(|a| a.to_string())).collect();
    let bits = match (acs.request_redirect, acs.completion_redirect) {
        (true, true) => "ReqRedir+ CmpltRedir+",
        (true, false) => "ReqRedir+",
        _ => "CmpltRedir+",
    };
    let finding = Finding {
        rule: RULE.id.to_owned(),
        certainty: Certainty::Certain,
        confirm: "`lspci -vvv | grep ACSCtl` on these ports; `peerlane measure --tests pairs` before and after."
            .to_owned(),
        cost: None,
        kind: FindingKind::Fault,
        severity: Severity::Warning,
        summary: format!(
            "ACS redirect is on below a switch: peer traffic of {} goes up to the root complex and back",
            list(&subjects)
        ),
        subjects: Subject::nodes_of(subjects),
        expected: "ReqRedir- CmpltRedir- on switch ports between GPUs".to_owned(),
        measured: format!("{bits} on {}", list(&addresses)),
        evidence: view.cite([origin]),
        fix: MEND.to_owned(),
    };
    Some(Raised::new(finding, 0.0))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, state};
    use super::*;
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
        assert_eq!(with_acs(false, true), 0, "between root ports the way goes up anyway");
    }

    #[test]
    fn lines_without_devices_say_how_many() {
        let found = |switches, redirecting| {
            let mut machine = captured(boxes(&[2], switches));
            state(&mut machine, "lspci -vvv", Fact::Acs(AcsLines { functions: 9, redirecting }));
            findings(&machine, run).into_iter().map(|f| f.severity).collect::<Vec<_>>()
        };
        assert_eq!(found(true, 4), [Severity::Warning]);
        assert_eq!(found(false, 4), [Severity::Info]);
        assert_eq!(found(true, 0), []);
    }
}
