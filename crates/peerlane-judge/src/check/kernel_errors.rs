//! What the kernel logged about GPUs and PCIe links: Xid errors and advanced error reports.

use std::collections::BTreeMap;

use super::prelude::*;
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::PcieErrorKind;

pub(super) const RULE: Rule = Rule { id: "kernel-errors", run: Many(run) };

/// Corrected errors up to this many are chance: one bit in 10¹² may be wrong (PCI Express Base Specification).
const FEW: u32 = 16;

/// Hardware Xid errors, with what they mean and how bad they are (NVIDIA, *XID Errors*). Those that programs cause (13,
/// 31, 43, 45 …) are left out.
const XIDS: [(u32, &str, Severity); 9] = [
    (48, "uncorrectable memory error", Warning),
    (63, "a memory row was remapped", Info),
    (64, "a memory row could not be remapped", Warning),
    (74, "NVLink error", Warning),
    (FELL_OFF, "fell off the bus", Error),
    (92, "high rate of corrected memory errors", Info),
    (94, "contained memory error", Info),
    (95, "uncontained memory error", Warning),
    (119, "the GPU system processor did not respond", Warning),
];

/// The code of a GPU that fell off the bus.
const FELL_OFF: u32 = 79;

/// What to do about such a GPU.
const RESEAT: &str = "Reseat the card, its riser and its power cables; check its temperature and power supply. Only a cold \
                      restart may bring the GPU back.";

/// Devices with how often each had an error.
type Counts = BTreeMap<PciAddress, u32>;

fn run(view: &View) -> Vec<Raised> {
    let logs = view.kernels();
    let mut xids: BTreeMap<u32, Counts> = BTreeMap::new();
    let mut errors: BTreeMap<PcieErrorKind, Counts> = BTreeMap::new();
    let mut lost = Counts::new();
    for (log, _) in &logs {
        for xid in &log.xids {
            *xids.entry(xid.code).or_default().entry(xid.address).or_default() += xid.count;
        }
        for error in &log.pcie_errors {
            *errors.entry(error.kind).or_default().entry(error.address).or_default() += error.count;
        }
        for address in &log.lost {
            *lost.entry(*address).or_default() += 1;
        }
    }
    if let Some(known) = xids.get(&FELL_OFF) {
        lost.retain(|address, _| !known.keys().any(|k| k.same_device(*address)));
    }
    let mut raised = Vec::new();
    for (code, devices) in &xids {
        let Some((_, meaning, severity)) = XIDS.iter().find(|(known, ..)| known == code) else { continue };
        let fix = match *code {
            FELL_OFF => RESEAT,
            74 => {
                "Run `nvidia-smi nvlink -e` to find the link, and read the fabric manager's log where there is an NVSwitch. \
                 Reset the GPU; have it serviced if the error recurs."
            }
            _ => {
                "Reset the GPU, which remaps rows. Have it serviced if errors recur, following NVIDIA's guide to memory \
                 errors (`nvidia-smi -q -d ECC,ROW_REMAPPER`)."
            }
        };
        let of_xid = report(view, *severity, devices, |names| format!("{names}: {meaning} (Xid {code})"))
            .expected("no hardware Xid errors")
            .measured(format!("Xid {code}, count: {}", counts(view, devices)))
            .fix(fix)
            .confirm("`dmesg | grep -i xid`");
        raised.push(of_xid);
    }
    if !lost.is_empty() {
        let of_lost = report(view, Error, &lost, |names| format!("{names}: fell off the bus, as the driver reports"))
            .expected("a GPU that responds to the driver")
            .measured("\"fallen off the bus\" in the kernel log")
            .fix(RESEAT)
            .confirm("`dmesg | grep -i NVRM`; `lspci -d 10de:` shows a lost GPU as (rev ff)");
        raised.push(of_lost);
    }
    for (kind, devices) in &errors {
        let most = devices.values().copied().max().unwrap_or_default();
        let (what, severity) = match kind {
            PcieErrorKind::Corrected if most <= FEW => ("corrected", Info),
            PcieErrorKind::Corrected => ("corrected", Warning),
            PcieErrorKind::NonFatal => ("uncorrected", Warning),
            PcieErrorKind::Fatal => ("fatal", Warning),
        };
        let of_link = report(view, severity, devices, |names| {
            format!("The kernel logged {what} PCIe errors of {names}")
        })
        .expected(format!("no uncorrected errors, and at most {FEW} corrected ones"))
        .measured(format!("errors: {}", counts(view, devices)))
        .fix(
            "Reseat the card and its riser or cable. Lower the link speed in the BIOS to find out whether the riser or \
             cable is rated for the generation.",
        )
        .confirm("`dmesg | grep -i aer`, and whether the count rises during `peerlane measure --tests host`");
        raised.push(of_link);
    }
    raised
}

/// A finding on devices, by their names.
fn report(view: &View, severity: Severity, devices: &Counts, summary: impl FnOnce(String) -> String) -> Raised {
    let names: Vec<String> = devices.keys().map(|address| name(view, *address)).collect();
    RULE.raise(Fault, severity, Certain)
        .summary(summary(list(&names)))
        .evidence(view.cite(view.kernels().into_iter().map(|(_, origin)| origin)))
        .about_nodes(names)
}

/// The name of a device; its address where it is no node.
fn name(view: &View, address: PciAddress) -> String {
    view.at(address).map_or_else(|| address.to_string(), |id| view.name(id).to_owned())
}

fn counts(view: &View, devices: &Counts) -> String {
    list(&devices.iter().map(|(address, n)| format!("{} {n}", name(view, *address))).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, state};
    use super::*;
    use peerlane_machine::fact::{Fact, KernelFacts, PcieError, Xid};
    use peerlane_machine::subject::join;

    #[test]
    fn what_the_hardware_did_and_not_what_programs_do() {
        let mut b = boxes(&[2], false);
        let gpu = b.find("GPU1").unwrap();
        b.node_mut(gpu).address = "0000:65:00.0".parse().ok();
        let mut machine = captured(b);
        let xid = |code| Xid { address: "0000:65:00.0".parse().unwrap(), code, count: 1 };
        let error =
            |count| PcieError { address: "0000:17:00.0".parse().unwrap(), kind: PcieErrorKind::Corrected, count };
        let kernel =
            KernelFacts { xids: vec![xid(79), xid(31)], pcie_errors: vec![error(2)], ..KernelFacts::default() };
        state(&mut machine, "kernel log", Fact::Kernel(kernel));
        let found = findings(&machine, run);
        let said: Vec<(&str, Severity, String)> =
            found.iter().map(|f| (f.summary.as_str(), f.severity, join(&f.subjects, " "))).collect();
        assert_eq!(
            said,
            [
                ("GPU1: fell off the bus (Xid 79)", Error, "GPU1".to_owned()),
                ("The kernel logged corrected PCIe errors of 0000:17:00.0", Info, "0000:17:00.0".to_owned()),
            ]
        );
        let kernel = KernelFacts { pcie_errors: vec![error(400)], ..KernelFacts::default() };
        state(&mut machine, "kernel log", Fact::Kernel(kernel));
        assert!(findings(&machine, run).iter().any(|f| f.severity == Warning));
    }
}
