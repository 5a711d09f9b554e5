//! What `check` must say of machines of the catalogue, and must not.

use peerlane::case::Case;
use peerlane::catalogue::{self, Parts};
use peerlane::check::{Context, Finding, FindingKind, Severity, check};
use peerlane::comparison::Comparison;
use peerlane::evidence::{Text, scan_text};
use peerlane::model::Model;
use peerlane::subject::join;

fn findings(system: &str) -> Vec<Finding> {
    let Some(Ok(machine)) = catalogue::system(system) else { return Vec::new() };
    let case = Case::from(machine);
    let model = Model::new(&case.machine, Parts::embedded());
    check(&Context::of(&case, &Comparison::of(&model)))
}

fn one<'f>(findings: &'f [Finding], rule: &str) -> &'f Finding {
    let found: Vec<&Finding> = findings.iter().filter(|f| f.rule == rule).collect();
    assert_eq!(found.len(), 1, "{rule}: {findings:#?}");
    found[0]
}

#[test]
fn the_risers_of_7gforce_are_one_finding_and_the_split_is_unexplained() {
    let all = findings("7gforce");
    let narrow: Vec<&Finding> = all.iter().filter(|f| f.rule == "narrow-link").collect();
    assert_eq!(narrow.len(), 2, "{narrow:#?}");
    assert_eq!((narrow[0].kind, narrow[0].severity), (FindingKind::Fault, Severity::Error));
    assert_eq!(narrow[0].subjects, ["GPU0", "GPU1", "GPU2", "GPU3", "GPU4", "GPU5"]);
    assert!(narrow[0].summary.contains("x1, but the slot allows x8"), "{}", narrow[0].summary);
    assert_eq!((narrow[1].kind, join(&narrow[1].subjects, " ")), (FindingKind::Design, "GPU6".to_owned()));
    assert!(narrow[1].summary.contains("PCIe 3.0 x8"), "{}", narrow[1].summary);
    let split = one(&all, "uneven-local-copies");
    assert!(
        split.summary.contains("2.26 times") && split.summary.contains("for an unknown reason"),
        "{}",
        split.summary
    );
    assert_eq!((split.kind, split.subjects.len()), (FindingKind::Measurement, 4));
}

#[test]
fn the_odd_cell_of_the_traditional_server_and_its_staging() {
    let all = findings("exxact-traditional");
    let odd = one(&all, "asymmetric-cell");
    assert_eq!((odd.kind, join(&odd.subjects, " ")), (FindingKind::Measurement, "GPU1-GPU2".to_owned()));
    assert!(odd.measured.contains("GPU1→GPU2 17.07 GB/s and GPU2→GPU1 12.17 GB/s"), "{}", odd.measured);
    assert!(odd.measured.ends_with("the other SYS pairs have 11.73 to 12.23"), "{}", odd.measured);
    let crossing = one(&all, "crosses-sockets");
    assert!(crossing.measured.contains("staged in host memory"), "{}", crossing.measured);
    assert_eq!(crossing.subjects.len(), 4);
    assert!(all.iter().all(|f| f.kind != FindingKind::Fault), "{all:#?}");
}

#[test]
fn the_two_m60_are_of_two_boards_on_two_sockets_without_peer_access() {
    let all = findings("az-2x-m60");
    assert_eq!(one(&all, "p2p-refused").subjects, ["GPU0-GPU1"]);
    let crossing = one(&all, "crosses-sockets");
    assert!(crossing.summary.ends_with("GPU0 | GPU1, on 2 boards"), "{}", crossing.summary);
    assert!(crossing.measured.contains("each on its own socket"), "{}", crossing.measured);
    assert!(crossing.measured.contains("peer-to-peer does not work there"), "{}", crossing.measured);
    let four = findings("az-4x-m60");
    assert!(one(&four, "crosses-sockets").summary.ends_with("GPU0, GPU1 | GPU2, GPU3, on 2 boards"));
    // products of which each is a board of its own
    assert!(!one(&findings("exxact-traditional"), "crosses-sockets").summary.contains("board"));
}

#[test]
fn the_s822lc_has_no_fault_and_its_slow_crossing_is_named_beside_the_others() {
    let all = findings("microway-s822lc");
    assert!(all.iter().all(|f| f.kind != FindingKind::Fault), "{all:#?}");
    let uneven = one(&all, "uneven-path-class");
    assert_eq!((uneven.severity, join(&uneven.subjects, " ")), (Severity::Info, "GPU3".to_owned()));
    assert!(uneven.summary.ends_with("18.36 compared with 20.40 GB/s"), "{}", uneven.summary);
}

#[test]
fn what_no_run_shows_is_no_fault_of_any_machine() {
    assert!(catalogue::system_names().all(|name| catalogue::system(name).is_some_and(|system| system.is_ok())));
    for system in catalogue::system_names().filter(|name| *name != "7gforce") {
        let faults: Vec<Finding> = findings(system).into_iter().filter(|f| f.kind == FindingKind::Fault).collect();
        assert!(faults.is_empty(), "{system}: {faults:#?}");
    }
}

/// What is said of a text, as rules with their subjects.
fn said(text: &str) -> Vec<(String, Severity, Vec<String>)> {
    let mut machines = peerlane::assemble::assemble(scan_text(&Text::new("text", text.as_bytes())));
    let case = Case::from(machines.remove(0));
    let model = Model::new(&case.machine, Parts::embedded());
    let all = check(&Context::of(&case, &Comparison::of(&model)));
    all.into_iter().map(|f| (f.rule, f.severity, f.subjects.iter().map(ToString::to_string).collect())).collect()
}

#[test]
fn a_kernel_log_alone_is_read() {
    let log = "[    0.0] Command line: BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro intel_iommu=on quiet\n\
               [    2.2] iommu: Default domain type: Translated\n\
               [ 9001.5] NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n";
    let said = said(log);
    let address = vec!["0000:65:00.0".to_owned()];
    assert!(said.contains(&("kernel-errors".to_owned(), Severity::Error, address)), "{said:?}");
    assert!(said.iter().any(|(rule, ..)| rule == "iommu-translates"), "{said:?}");
}
