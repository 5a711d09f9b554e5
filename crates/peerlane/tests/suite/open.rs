//! `peerlane::open` and the answers about what it opened.

use std::fs;
use std::path::PathBuf;

use peerlane::check::Settings;
use peerlane::simulate::workload::Workload;
use peerlane::target::TargetKind;
use peerlane::units::Bytes;
use peerlane::verdict::Verdict;

const TOPO: &str = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n";

fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("open");
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn repository(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

#[test]
fn what_a_target_is_follows_from_its_name_and_its_content() {
    let topo = folder().join("kinds.json");
    fs::write(&topo, TOPO).unwrap();
    for (target, kind) in [
        (PathBuf::from("live"), TargetKind::Live),
        (PathBuf::from("-"), TargetKind::Stdin),
        (PathBuf::from("slow-node"), TargetKind::Example),
        (PathBuf::from("h200x4-vm"), TargetKind::System),
        (PathBuf::from("2x L40S + 100G"), TargetKind::PartsList),
        (PathBuf::from("apenet-pair"), TargetKind::Cluster),
        (repository("examples/box.toml"), TargetKind::SystemFile),
        (repository("examples/cluster.toml"), TargetKind::ClusterFile),
        (repository("examples/nodes/run.json"), TargetKind::NodesRun),
        (repository("examples/slow-node"), TargetKind::Folder),
        // text, whatever its name
        (topo, TargetKind::Text),
    ] {
        assert_eq!(TargetKind::of(target.as_os_str()).unwrap(), kind, "{target:?}");
        assert!(kind.is(&target));
    }
    assert!(TargetKind::of("h200x4".as_ref()).unwrap_err().is_absent());
}

#[test]
fn several_files_are_one_machine_and_a_folder_is_all_of_its_files() {
    let files =
        ["topo.txt", "nvlink.txt", "all_reduce_perf.txt"].map(|file| repository("examples/slow-node").join(file));
    let of_files = peerlane::open(&files).unwrap();
    let of_folder = peerlane::open([repository("examples/slow-node")]).unwrap();
    for opened in [&of_files, &of_folder] {
        assert_eq!(opened.cases.len(), 1);
        assert_eq!(opened.check(&Settings::default()).verdict, Verdict::Fault);
        assert!(!opened.incomplete && opened.coverage.len() == 3);
    }
}

#[test]
fn what_cannot_be_opened_is_said_with_what_to_do() {
    let refused = |target: &str| peerlane::open([target]).unwrap_err().to_string();
    assert!(refused("h200x4-wm").ends_with("did you mean h200x4-vm?"), "{}", refused("h200x4-wm"));
    assert!(refused("none/such.txt").starts_with("no such file"));
    assert!(refused("live").contains("cannot look"));
    let partly = peerlane::open(["h200x4-vm", "none/such.txt"]).unwrap();
    assert!(partly.incomplete && partly.notices == ["no such file: 'none/such.txt'"] && partly.cases.len() == 1);
}

#[test]
fn every_question_has_an_answer() {
    let opened = peerlane::open(["h200x4-vm"]).unwrap();
    let sizes = [Bytes(1 << 20)];
    let prediction = opened.predict(&sizes, &sizes);
    assert!(!prediction.matrices.is_empty() && !prediction.curves.is_empty() && !prediction.collectives.is_empty());
    assert!(opened.explain("GPU0", "GPU0").is_err() && opened.explain("GPU0", "GPU9").is_err());
    let workload: Workload = "all-reduce".parse().unwrap();
    assert_eq!(opened.simulate(&workload, &sizes).unwrap().len(), 1);
    assert!(opened.infer().is_ok());
    assert!(!opened.accuracy().unwrap().targets.is_empty());
    let request = peerlane::place::Request {
        jobs: vec![2],
        nics: None,
        workload: peerlane::place::Workload::AllReduce,
        busy: Vec::new(),
    };
    assert!(!opened.place(&request).unwrap().choices.is_empty());
}

#[test]
fn a_cluster_and_a_record_between_nodes_are_simulated_as_clusters() {
    let workload: Workload = "all-reduce".parse().unwrap();
    for target in ["examples/cluster.toml", "examples/nodes/run.json"] {
        let opened = peerlane::open([repository(target)]).unwrap();
        let documents = opened.simulate(&workload, &[Bytes(1 << 20)]).unwrap();
        assert!(opened.clusters.len() == 1 && documents.len() == 1 && documents[0].gpus > 4, "{target}");
    }
}
