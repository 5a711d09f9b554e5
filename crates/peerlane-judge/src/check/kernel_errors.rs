//! What the kernel logged of GPUs and PCIe links: Xid errors and advanced error reports.

use std::collections::BTreeMap;

use super::view::{Raised, View};
use super::words::list;
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::PcieErrorKind;
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "kernel-errors", breaks: true, run };

/// Corrected errors up to this many are chance: one bit in 10¹² may be wrong (PCI Express Base Specification).
const FEW: u32 = 16;

/// Xid errors of the hardware, with what they mean and how bad they are (NVIDIA, *XID Errors*). Those that a program
/// causes (13, 31, 43, 45 …) are left out.
const XIDS: [(u32, &str, Severity); 9] = [
    (48, "an error of memory that could not be corrected", Severity::Warning),
    (63, "a row of memory was remapped", Severity::Info),
    (64, "a row of memory could not be remapped", Severity::Warning),
    (74, "an NVLink error", Severity::Warning),
    (79, "fell off the bus", Severity::Error),
    (92, "many corrected errors of memory", Severity::Info),
    (94, "an error of memory that was contained", Severity::Info),
    (95, "an error of memory that was not contained", Severity::Warning),
    (119, "its system processor did not answer", Severity::Warning),
];

/// What to do about a GPU that does not answer any more.
const FELL_OFF: &str = "Reseat the card, its riser and its power cables, and look at its temperature and power supply; a \
                        cold restart brings it back, if anything does.";

fn run(view: &View) -> Vec<Raised> {
    let mut raised = Vec::new();
    let logs = view.kernels();
    let mut xids: BTreeMap<u32, BTreeMap<PciAddress, u32>> = BTreeMap::new();
    let mut errors: BTreeMap<PcieErrorKind, BTreeMap<PciAddress, u32>> = BTreeMap::new();
    for (log, _) in &logs {
        for xid in &log.xids {
            *xids.entry(xid.code).or_default().entry(xid.address).or_default() += xid.count;
        }
        for error in &log.pcie_errors {
            *errors.entry(error.kind).or_default().entry(error.address).or_default() += error.count;
        }
    }
    let origins: Vec<&Origin> = logs.iter().map(|(_, origin)| *origin).collect();
    for (code, devices) in &xids {
        let Some((_, meaning, severity)) = XIDS.iter().find(|(known, ..)| known == code) else { continue };
        let (names, counts) = named(view, devices);
        let fix = match code {
            79 => FELL_OFF,
            74 => {
                "See `nvidia-smi nvlink -e` for the link, and the fabric manager's log where there is an NVSwitch; reset the \
                 GPU, and have it serviced if it comes again."
            }
            _ => {
                "Reset the GPU (rows are remapped then); have it serviced if errors come again, as NVIDIA's guide to \
                 memory errors says (`nvidia-smi -q -d ECC,ROW_REMAPPER`)."
            }
        };
        raised.push(Finding {
            summary: format!("{}: {meaning} (Xid {code})", list(&names)),
            expected: "no Xid error of the hardware".to_owned(),
            measured: format!("Xid {code}, times: {}", list(&counts)),
            fix: fix.to_owned(),
            confirm: "`dmesg | grep -i xid`".to_owned(),
            evidence: view.cite(origins.iter().copied()),
            ..Finding::of(&RULE, FindingKind::Fault, *severity, Certainty::Certain, Subject::nodes_of(names))
        });
    }
    let fell = xids.get(&79);
    let mut lost: BTreeMap<PciAddress, u32> = BTreeMap::new();
    for address in logs.iter().flat_map(|(log, _)| &log.lost) {
        if !fell.is_some_and(|known| known.keys().any(|k| k.same_device(*address))) {
            *lost.entry(*address).or_default() += 1;
        }
    }
    if !lost.is_empty() {
        let (names, _) = named(view, &lost);
        raised.push(Finding {
            summary: format!("{}: fell off the bus, as the driver says", list(&names)),
            expected: "a GPU that answers the driver".to_owned(),
            measured: "\"fallen off the bus\" in the kernel log".to_owned(),
            fix: FELL_OFF.to_owned(),
            confirm: "`dmesg | grep -i NVRM`; `lspci -d 10de:` shows a lost one as (rev ff)".to_owned(),
            evidence: view.cite(origins.iter().copied()),
            ..Finding::of(&RULE, FindingKind::Fault, Severity::Error, Certainty::Certain, Subject::nodes_of(names))
        });
    }
    for (kind, devices) in &errors {
        let (names, counts) = named(view, devices);
        let most = devices.values().copied().max().unwrap_or_default();
        let (what, severity) = match kind {
            PcieErrorKind::Corrected if most <= FEW => ("corrected", Severity::Info),
            PcieErrorKind::Corrected => ("corrected", Severity::Warning),
            PcieErrorKind::NonFatal => ("uncorrected", Severity::Warning),
            PcieErrorKind::Fatal => ("fatal", Severity::Warning),
        };
        raised.push(Finding {
            summary: format!("The kernel logged {what} PCIe errors of {}", list(&names)),
            expected: format!("none that is not corrected, and at most {FEW} that are"),
            measured: format!("errors: {}", list(&counts)),
            fix:
                "Reseat the card and its riser or cable; a lower link speed in the BIOS shows whether the way is rated \
                   for the generation."
                    .to_owned(),
            confirm: "`dmesg | grep -i aer`, and whether the count rises under `peerlane measure --tests host`"
                .to_owned(),
            evidence: view.cite(origins.iter().copied()),
            ..Finding::of(&RULE, FindingKind::Fault, severity, Certainty::Certain, Subject::nodes_of(names))
        });
    }
    raised.into_iter().map(|finding| Raised::new(finding, 0.0)).collect()
}

/// Names of devices, of those that are no node their addresses; and each with how often.
fn named(view: &View, devices: &BTreeMap<PciAddress, u32>) -> (Vec<String>, Vec<String>) {
    let fabric = view.fabric();
    let name = |address: &PciAddress| {
        let node = fabric.ids().find(|id| fabric.node(*id).address == Some(*address));
        node.map_or_else(|| address.to_string(), |id| view.name(id).to_owned())
    };
    devices.iter().map(|(address, n)| (name(address), format!("{} {n}", name(address)))).unzip()
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
                ("GPU1: fell off the bus (Xid 79)", Severity::Error, "GPU1".to_owned()),
                ("The kernel logged corrected PCIe errors of 0000:17:00.0", Severity::Info, "0000:17:00.0".to_owned()),
            ]
        );
        let kernel = KernelFacts { pcie_errors: vec![error(400)], ..KernelFacts::default() };
        state(&mut machine, "kernel log", Fact::Kernel(kernel));
        assert!(findings(&machine, run).iter().any(|f| f.severity == Severity::Warning));
    }
}
