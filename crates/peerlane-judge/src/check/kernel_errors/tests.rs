use super::super::testing::{boxes, captured, findings, state};
use super::*;
use crate::finding::Finding;
use peerlane_machine::fact::{Fact, PcieError, Recovery, SwitchXid, Xid};
use peerlane_machine::machine::Machine;
use peerlane_machine::subject::join;

fn at(address: &str) -> PciAddress {
    address.parse().unwrap()
}

/// Two GPUs, of which the second is at 65:00.0.
fn machine() -> Machine {
    let mut b = boxes(&[2], false);
    let gpu = b.find("GPU1").unwrap();
    b.node_mut(gpu).address = Some(at("65:00.0"));
    captured(b)
}

fn found(kernel: KernelFacts) -> Vec<Finding> {
    let mut machine = machine();
    state(&mut machine, "kernel log", Fact::Kernel(kernel));
    findings(&machine, run)
}

fn of_xids(xids: &[(&str, u32)]) -> Vec<Finding> {
    let xids = xids.iter().map(|(address, code)| Xid::new(at(address), *code)).collect();
    found(KernelFacts { xids, ..KernelFacts::default() })
}

fn summaries(found: &[Finding]) -> Vec<(&str, Severity)> {
    found.iter().map(|f| (f.summary.as_str(), f.severity)).collect()
}

fn pcie(address: &str, kind: PcieErrorKind, count: u32) -> PcieError {
    PcieError { address: at(address), kind, count, bits: Vec::new(), is_burst: false }
}

#[test]
fn what_the_hardware_did_and_what_programs_do() {
    let xids = vec![Xid::new(at("65:00.0"), 79), Xid::new(at("65:00.0"), 31), Xid::new(at("65:00.0"), 119)];
    let pcie_errors = vec![pcie("17:00.0", PcieErrorKind::Corrected, 2)];
    let all = found(KernelFacts { xids, pcie_errors, ..KernelFacts::default() });
    let expected = [
        ("GPU1 (0000:65:00.0): fell off the bus (Xid 79)", Error),
        ("The kernel logged corrected PCIe errors of 0000:17:00.0", Info),
    ];
    assert_eq!(summaries(&all), expected, "what a lost GPU logs follows from that");
    assert_eq!(join(&all[0].subjects, " "), "GPU1");
    let program = of_xids(&[("65:00.0", 31), ("65:00.0", 45)]);
    assert_eq!(
        summaries(&program),
        [("GPU1 (0000:65:00.0): errors of programs, not of the machine (Xid 31, 45)", Info)]
    );
    assert_eq!(program[0].kind, Measurement);
    let many = vec![pcie("17:00.0", PcieErrorKind::Corrected, 400)];
    let many = found(KernelFacts { pcie_errors: many, ..KernelFacts::default() });
    assert_eq!(many[0].severity, Warning);
}

#[test]
fn bits_of_the_status_say_what_kind_of_pcie_errors() {
    let of = |kind, bits: &[&'static str], is_burst| {
        let error = PcieError { bits: bits.to_vec(), is_burst, ..pcie("17:00.0", kind, 1) };
        found(KernelFacts { pcie_errors: vec![error], ..KernelFacts::default() }).remove(0)
    };
    let few = of(PcieErrorKind::Corrected, &["BadTLP"], false);
    assert_eq!((few.severity, few.kind), (Info, Measurement));
    let burst = of(PcieErrorKind::Corrected, &["BadTLP", "BadDLLP"], true);
    assert_eq!((burst.severity, burst.kind), (Warning, Design));
    assert!(burst.summary.contains("(BadTLP: damaged packets, BadDLLP: damaged link packets)"), "{}", burst.summary);
    let fatal = of(PcieErrorKind::Fatal, &["SDES"], true);
    assert_eq!((fatal.severity, fatal.kind), (Error, Fault));
    assert!(fatal.summary.contains("SDES: the link went down by surprise"), "{}", fatal.summary);
}

#[test]
fn errors_of_one_kind_are_one_finding() {
    let memory = of_xids(&[("65:00.0", 48), ("65:00.0", 63), ("65:00.0", 94)]);
    assert_eq!(memory.len(), 1);
    assert!(memory[0].summary.starts_with("GPU1 (0000:65:00.0): uncorrectable memory error;"), "{}", memory[0].summary);
    assert!(memory[0].summary.ends_with("(Xid 48, 63, 94)") && memory[0].severity == Error);
    let gsp = of_xids(&[("65:00.0", 119)]);
    assert_eq!(
        summaries(&gsp),
        [("GPU1 (0000:65:00.0): the GPU system processor (GSP) does not respond (Xid 119)", Error)]
    );
    assert!(!gsp[0].fix.contains("row"), "{}", gsp[0].fix);
}

#[test]
fn the_gpu_whose_link_failed_comes_before_those_that_follow() {
    let all = of_xids(&[("dc:00.0", 149), ("dc:00.0", 45), ("97:00.0", 145), ("ba:00.0", 145), ("ba:00.0", 45)]);
    let expected = "0000:dc:00.0: NVLink failed (Xid 149); 0000:97:00.0, 0000:ba:00.0 follow (Xid 145)";
    assert_eq!(summaries(&all), [(expected, Error)]);
    let harmless = Xid { fatal: Some(false), ..Xid::new(at("65:00.0"), 145) };
    let harmless = found(KernelFacts { xids: vec![harmless], ..KernelFacts::default() });
    assert_eq!(summaries(&harmless), [("GPU1 (0000:65:00.0): NVLink errors (Xid 145)", Info)]);
}

#[test]
fn what_the_driver_asks_for_is_named() {
    let recovery = vec![Recovery { address: at("65:00.0"), action: "GPU Reset Required".to_owned() }];
    let alone = found(KernelFacts { recovery: recovery.clone(), ..KernelFacts::default() });
    assert_eq!(
        summaries(&alone),
        [("GPU1 (0000:65:00.0): the driver asks for an action: GPU Reset Required (Xid 154)", Error)]
    );
    let xids = vec![Xid::new(at("65:00.0"), 120)];
    let with = found(KernelFacts { recovery, xids, ..KernelFacts::default() });
    assert_eq!(with.len(), 1);
    assert!(with[0].fix.starts_with("The driver asks for: GPU Reset Required (Xid 154)."), "{}", with[0].fix);
}

#[test]
fn fatal_errors_of_the_port_above_a_lost_gpu_are_its_own() {
    let xids = vec![Xid::new(at("02:00.0"), 79)];
    let pcie_errors = vec![pcie("00:02.0", PcieErrorKind::Fatal, 1), pcie("00:02.0", PcieErrorKind::Corrected, 1)];
    let all = found(KernelFacts { xids, pcie_errors: pcie_errors.clone(), ..KernelFacts::default() });
    assert_eq!(summaries(&all), [("0000:02:00.0: fell off the bus (Xid 79)", Error)]);
    assert!(all[0].measured.contains("fatal PCIe errors of 0000:00:02.0"), "{}", all[0].measured);
    let alone = found(KernelFacts { pcie_errors, ..KernelFacts::default() });
    assert_eq!(alone.iter().map(|f| f.severity).collect::<Vec<_>>(), [Info, Error]);
}

#[test]
fn errors_of_nvswitches_by_their_class() {
    let error = |code, fatal| SwitchXid {
        address: at("a1:00.0"),
        code,
        fatal,
        what: "LTSSM Fault Up".to_owned(),
        links: vec![30],
        count: 1,
    };
    let switch_xids = vec![error(20034, true), error(22013, false)];
    let all = found(KernelFacts { switch_xids, ..KernelFacts::default() });
    let expected = [
        ("NVSwitch 0000:a1:00.0: fatal errors (SXid 20034, link 30)", Error),
        ("NVSwitch 0000:a1:00.0: errors that are not fatal (SXid 22013, link 30)", Info),
    ];
    assert_eq!(summaries(&all), expected);
    assert!(all[0].measured.contains("LTSSM Fault Up"), "{}", all[0].measured);
}

#[test]
fn page_faults_of_devices_that_matter() {
    let fault = |address, gpu| Logged { address: at(address), gpu, count: 3 };
    let of = |fault| found(KernelFacts { iommu_faults: vec![fault], ..KernelFacts::default() });
    let all = of(fault("07:00.0", true));
    assert_eq!(summaries(&all), [("The IOMMU refuses accesses of 0000:07:00.0 to memory", Error)]);
    assert!(of(fault("00:14.0", false)).is_empty(), "a USB controller's faults");
    assert_eq!(of(fault("65:00.0", false)).len(), 1);
}

#[test]
fn an_action_that_nvidia_smi_shows() {
    use peerlane_machine::fact::GpuFacts;
    let mut machine = machine();
    let gpu = GpuFacts { address: Some(at("65:00.0")), recovery: Some("Reset".to_owned()), ..GpuFacts::default() };
    state(&mut machine, "nvidia-smi -q", Fact::Gpus(vec![gpu]));
    let all = findings(&machine, run);
    assert_eq!(summaries(&all), [("GPU1: the driver asks for an action to recover: Reset", Error)]);
    let xids = vec![Xid::new(at("65:00.0"), 119)];
    state(&mut machine, "kernel log", Fact::Kernel(KernelFacts { xids, ..KernelFacts::default() }));
    assert_eq!(findings(&machine, run).len(), 1, "the error that it follows from says it");
}
