//! Machines that their sources call healthy have no fault: the catalogue's and those with published figures.

use std::fs;
use std::path::{Path, PathBuf};

use peerlane::case::Case;
use peerlane::catalogue::{self, Parts};
use peerlane::check::{Context, FindingKind, Severity, check, verdict};
use peerlane::comparison::Comparison;
use peerlane::machine::Machine;
use peerlane::model::Model;
use peerlane::verdict::Verdict;

/// The verdict with the faults that it relies on.
fn judged(machine: Machine) -> (Verdict, Vec<String>) {
    let case = Case::from(machine);
    let model = Model::new(&case.machine, Parts::embedded());
    let comparison = Comparison::of(&model);
    let context = Context::of(&case, &comparison);
    let findings = check(&context);
    let verdict = verdict(&context, &findings);
    let faults = findings.into_iter().filter(|f| f.kind == FindingKind::Fault && f.severity >= Severity::Warning);
    (verdict, faults.map(|f| format!("{}: {}", f.rule, f.summary)).collect())
}

/// System files of a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    all.sort();
    all
}

#[test]
fn no_published_machine_has_a_fault() {
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../published");
    let mut read = 0;
    for path in [published.join("fit"), published.join("held-out")].iter().flat_map(|folder| files(folder)) {
        let name = path.file_stem().unwrap().to_string_lossy();
        let machine = catalogue::read_system(&fs::read_to_string(&path).unwrap(), &name).unwrap();
        let (verdict, faults) = judged(machine);
        assert!(verdict != Verdict::Fault, "{name}: {faults:?}");
        read += 1;
    }
    assert!(read > 90, "{read} files");
}

#[test]
fn of_the_catalogue_only_the_risers_are_a_fault() {
    for name in catalogue::system_names() {
        let (verdict, faults) = judged(catalogue::system(name).unwrap().unwrap());
        assert_eq!(verdict == Verdict::Fault, name == "7gforce", "{name}: {faults:?}");
    }
}
