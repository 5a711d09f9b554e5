//! Texts that people publish, read as they are: what is assumed of the machines in them explains what the same text prints.
//!
//! The texts may not be copied into the project: `seeds/` beside the folder that `PEERLANE_CORPUS` names has them.

use std::path::PathBuf;

use peerlane::assemble::assemble;
use peerlane::assumptions::{Assumptions, Rating};
use peerlane::case::Case;
use peerlane::catalogue::{Parts, read_design};
use peerlane::check::{Context, check, verdict};
use peerlane::comparison::Comparison;
use peerlane::evidence::read_path;
use peerlane::machine::Machine;
use peerlane::matrix::Quantity;
use peerlane::model::{Assume, Model};
use peerlane::verdict::Verdict;

/// The machines of a text of the folder; `None`, with a note, where it is not there.
fn machines(number: &str) -> Option<Vec<Machine>> {
    let corpus = std::env::var_os("PEERLANE_CORPUS").map(PathBuf::from);
    let Some(folder) = corpus.and_then(|folder| Some(folder.parent()?.join("seeds"))).filter(|f| f.is_dir()) else {
        eprintln!("skipped: PEERLANE_CORPUS names no folder beside which seeds/ stands");
        return None;
    };
    let mut files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(number));
    let Some(path) = files.find(is_it) else {
        eprintln!("skipped: {} has no text {number}", folder.to_string_lossy());
        return None;
    };
    Some(assemble(read_path(&path).unwrap()))
}

/// Measured ÷ predicted of all numbers between different ends that are predicted, sorted, and how many are not predicted.
fn ratios(machine: &Machine, quantity: Quantity) -> (Vec<f64>, usize) {
    let assumed = Assumptions::of(machine, Parts::embedded());
    let model = assumed.model(Parts::embedded(), Assume::Usual);
    let comparison = Comparison::of(&model);
    let (mut all, mut without) = (Vec::new(), 0);
    for series in comparison.series().iter().filter(|series| series.metric().quantity == quantity) {
        let matrix = series.matrix();
        for (i, row) in matrix.rows.iter().enumerate() {
            for (j, _) in matrix.cols.iter().enumerate().filter(|(_, col)| *col != row) {
                let Some(measured) = series.measured(i, j) else { continue };
                match series.expected(i, j) {
                    Some(expected) => all.push(measured.upto / expected.value),
                    None => without += 1,
                }
            }
        }
    }
    all.sort_by(f64::total_cmp);
    (all, without)
}

/// The median deviation, and whether every number is predicted.
fn deviation(machine: &Machine, quantity: Quantity) -> (f64, usize) {
    let (ratios, without) = ratios(machine, quantity);
    let mut off: Vec<f64> = ratios.iter().map(|ratio| (ratio - 1.0).abs()).collect();
    off.sort_by(f64::total_cmp);
    (off.get(off.len() / 2).copied().unwrap_or(f64::NAN), without)
}

#[test]
fn bidirectional_matrices_of_2016_are_explained_by_pcie_3_and_staging_between_sockets() {
    let Some(machines) = machines("000") else { return };
    let systems = ["exxact-traditional", "exxact-devbox", "exxact-txr430", "exxact-txr550", "exxact-txr414"];
    assert_eq!(machines.len(), systems.len());
    for (machine, system) in machines.iter().zip(systems) {
        let assumed = Assumptions::of(machine, Parts::embedded());
        let fit = assumed.fit().unwrap();
        let words = fit.assumed.join("; ");
        assert!(words.contains("at PCIe 3.0 x16"), "{}: {words}", machine.name);
        assert_eq!(words.contains("staged between sockets"), ["exxact-traditional", "exxact-txr430"].contains(&system));
        assert!(fit.rating >= Rating::Likely && fit.explained == fit.measured, "{}: {fit:?}", machine.name);
        assert_eq!(machine.recognized.as_ref().map(|known| known.system.as_str()), Some(system));
        let (off, without) = deviation(machine, Quantity::Bandwidth);
        // design 3 names no CPU, and the rates of two generations lie in the interval of the later one
        let most = if system == "exxact-txr550" { 0.20 } else { 0.10 };
        assert!(off < most && without == 0, "{}: {off}", machine.name);
        let (late, _) = deviation(machine, Quantity::Latency);
        assert!(late.is_nan() || late < 0.20, "{}: {late}", machine.name);
    }
}

#[test]
fn gpus_that_no_source_places_are_placed_by_peer_access_and_rates() {
    let Some(machines) = machines("002") else { return };
    for (machine, system) in machines.iter().zip(["microway-s822lc", "microway-p100-pcie"]) {
        let (off, without) = deviation(machine, Quantity::Bandwidth);
        assert!(off < 0.10 && without == 0, "{}: {off}", machine.name);
        assert!(deviation(machine, Quantity::Latency).0 < 0.10, "{}", machine.name);
        assert_eq!(machine.recognized.as_ref().map(|known| known.system.as_str()), Some(system));
    }
}

#[test]
fn adapters_that_the_prose_names_have_its_rate() {
    let Some(machines) = machines("003") else { return };
    let machine = &machines[0];
    let assumed = Assumptions::of(machine, Parts::embedded());
    let model = assumed.model(Parts::embedded(), Assume::Usual);
    let nic = machine.fabric.find("mlx5_2").unwrap();
    assert!((model.line_rate(nic).unwrap().gb() * 8.0 - 100.0).abs() < 1.0);
}

#[test]
fn every_machine_of_which_a_rate_is_printed_has_a_verdict() {
    for number in ["000", "001", "002", "003", "004"] {
        for machine in machines(number).unwrap_or_default() {
            let rates = !machine.matrices.is_empty() || !machine.statements.is_empty() || !machine.curves.is_empty();
            let name = machine.name.clone();
            let case = Case::from(machine);
            let model = Model::new(&case.machine, Parts::embedded());
            let comparison = Comparison::of(&model);
            let context = Context::of(&case, &comparison);
            let verdict = verdict(&context, &check(&context));
            assert!(!rates || verdict != Verdict::NotJudged, "{number}, {name}");
        }
    }
}

#[test]
fn risers_and_refused_access_are_read_from_the_prose() {
    let Some(machines) = machines("004") else { return };
    let assumed = |machine: &Machine| Assumptions::of(machine, Parts::embedded()).fit().unwrap().assumed.join("; ");
    let words = assumed(&machines[0]);
    assert!(words.starts_with("GPU0–GPU5 at PCIe 3.0 x1; GPU6 at PCIe 3.0 x8; direct"), "{words}");
    let words = assumed(&machines[1]);
    assert!(words.starts_with("GPU0, GPU1 at PCIe 3.0 x8; staged between sockets"), "{words}");
    for machine in &machines {
        let (ratios, without) = ratios(machine, Quantity::Bandwidth);
        assert!(without == 0 && !ratios.is_empty());
        assert!(ratios.iter().all(|ratio| (0.8..1.25).contains(ratio)), "{}: {ratios:?}", machine.name);
    }
}

/// A described machine is what its author says, whatever was measured on it.
#[test]
fn published_machines_are_not_fitted() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../published"));
    let mut seen = 0;
    for folder in ["fit", "held-out"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let Ok(system) = read_design(&text, &path.to_string_lossy()) else { continue };
            let machine = system.machine;
            let assumed = Assumptions::of(&machine, Parts::embedded());
            assert_eq!(assumed.fit(), None, "{}", path.display());
            let model = assumed.model(Parts::embedded(), Assume::Parts);
            let own = Model::assuming(&machine, Parts::embedded(), Assume::Parts);
            if machine.fabric.nodes().len() == model.machine.fabric.nodes().len() {
                assert_eq!(model.resources, own.resources, "{}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}
