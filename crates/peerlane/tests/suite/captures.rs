//! Every capture there is: what is assembled from it has the classes that it states.
//!
//! The project's own captures are always tried. Captures that may not be copied into the project are
//! tried where the environment variable `PEERLANE_CORPUS` names their folder.

use std::path::{Path, PathBuf};

use peerlane::assemble::assemble;
use peerlane::evidence::read_path;
use peerlane::fabric::{LinkKind, NodeKind, PathClass};
use peerlane::fact::P2pStatus;
use peerlane::machine::Machine;

fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.to_string_lossy())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push(path);
        }
    }
    all.sort();
    all
}

fn machines(path: &Path) -> Vec<Machine> {
    assemble(read_path(path).unwrap_or_else(|e| panic!("{e}")))
}

/// How many stated cells came back; panics on one that did not, unless the input is called contradictory.
fn cells_that_come_back(machine: &Machine, path: &Path) -> usize {
    let Some((matrix, _)) = &machine.stated_classes else { return 0 };
    let mut same = 0;
    for (i, row) in matrix.rows.iter().enumerate() {
        for (j, col) in matrix.cols.iter().enumerate() {
            let Some(stated) = matrix.cells[i][j] else { continue };
            let ends = machine.fabric.find(row).zip(machine.fabric.find(col));
            let (a, b) = ends.unwrap_or_else(|| panic!("{}: no node {row} or {col}", path.to_string_lossy()));
            if machine.contradictions.is_empty() {
                assert_eq!(machine.fabric.class(a, b), Some(stated), "{}: {row} to {col}", path.to_string_lossy());
                same += 1;
            }
        }
    }
    same
}

#[test]
fn classes_come_back_from_our_own_captures() {
    let mut cells = 0;
    for file in files(&own()) {
        for machine in machines(&file) {
            cells += cells_that_come_back(&machine, &file);
        }
    }
    assert!(cells >= 16, "only {cells} cells were compared");
}

#[test]
fn classes_come_back_from_the_corpus() {
    let Some(corpus) = std::env::var_os("PEERLANE_CORPUS").map(PathBuf::from) else {
        eprintln!("skipped: PEERLANE_CORPUS names no folder of further captures");
        return;
    };
    let (mut cells, mut found) = (0, 0);
    for file in files(&corpus) {
        for machine in machines(&file) {
            found += 1;
            cells += cells_that_come_back(&machine, &file);
        }
    }
    eprintln!("{found} machines, {cells} cells");
    assert!(found > 0 && cells > 0, "nothing was recognised in {}", corpus.to_string_lossy());
}

#[test]
fn all_files_of_one_machine_make_one_machine() {
    let folder = own().join("h200x4-vm");
    let found = machines(&folder);
    assert_eq!(found.len(), 1, "{:?}", found.iter().map(|m| &m.name).collect::<Vec<_>>());
    let fabric = &found[0].fabric;
    assert_eq!(fabric.of_kind(NodeKind::Gpu).count(), 4);
    assert_eq!(fabric.of_kind(NodeKind::NvSwitch).count(), 1);
    let gpus: Vec<_> = fabric.of_kind(NodeKind::Gpu).collect();
    assert_eq!(fabric.class(gpus[0], gpus[3]), Some(PathClass::nvlink(18)));
    // sysfs knows the width that NCCL's file does not
    for gpu in gpus {
        let (link, _) = fabric.upstream(gpu).expect("hangs below a root complex");
        let LinkKind::Pcie { running, .. } = &fabric.link(link).kind else { panic!("no PCIe link") };
        assert_eq!(running.to_string(), "5.0 x16");
    }
}

#[test]
fn ports_tell_a_switch_from_a_bridge() {
    let found = machines(&own().join("h200x2-vm"));
    assert_eq!(found.len(), 1, "{:?}", found.iter().map(|m| &m.name).collect::<Vec<_>>());
    let machine = &found[0];
    assert_eq!(machine.fabric.of_kind(NodeKind::NvSwitch).count(), 1);
    assert!(machine.contradictions.is_empty(), "{:?}", machine.contradictions);
    assert!(machine.p2p.values().all(|state| *state == P2pStatus::Ok) && machine.p2p.len() == 2, "{:?}", machine.p2p);
    let alone = machines(&own().join("h200x2-vm/nvidia-smi-topo-m.txt"));
    assert_eq!(alone[0].fabric.of_kind(NodeKind::NvSwitch).count(), 0);
}
