//! What benchmark outputs of real machines must yield.
//!
//! `captures/h200x4-vm` is in the repository. Captures of others are read where `PEERLANE_CORPUS` points to
//! a folder that has them, and skipped with a note elsewhere.

use std::path::Path;

use crate::common::corpus_file;
use peerlane::curve::Curve;
use peerlane::evidence::{Found, Text, read_path, scan_text};
use peerlane::fact::{Fact, P2pStatus};
use peerlane::matrix::{Direction, Matrix, Operation, Quantity};
use peerlane::units::Bytes;

fn own(name: &str) -> Found {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/h200x4-vm").join(name);
    read_path(&path).unwrap()
}

fn corpus(name: &str) -> Option<Found> {
    corpus_file(name).map(|path| read_path(&path).unwrap())
}

fn matrices<'a>(found: &'a Found, tool: &str) -> Vec<&'a Matrix> {
    let of_tool = found.evidence.iter().filter(|e| e.origin.tool == tool);
    of_tool.filter_map(|e| if let Fact::Matrix(m) = &e.fact { Some(m) } else { None }).collect()
}

fn curves(found: &Found) -> Vec<&Curve> {
    found.evidence.iter().filter_map(|e| if let Fact::Curve(c) = &e.fact { Some(c) } else { None }).collect()
}

#[test]
fn p2p_test_of_four_h200() {
    let found = own("p2pBandwidthLatencyTest-p2p_read.txt");
    let all = matrices(&found, "p2pBandwidthLatencyTest");
    let count = |q| all.iter().filter(|m| m.quantity == q).count();
    assert_eq!((count(Quantity::Bandwidth), count(Quantity::Latency), count(Quantity::EnqueueLatency)), (5, 3, 3));
    let reads = all.iter().find(|m| m.op == Some(Operation::Read) && m.quantity == Quantity::Bandwidth).unwrap();
    assert_eq!(reads.between("GPU0", "GPU1"), Some(383.08));
    let p2p = found.evidence.iter().find_map(|e| if let Fact::P2p(p) = &e.fact { Some(p) } else { None }).unwrap();
    assert_eq!(p2p.cells.iter().flatten().filter(|c| **c == Some(P2pStatus::Ok)).count(), 12);
    assert_eq!(found.warnings, []);
}

#[test]
fn nvbandwidth_says_the_same_in_text_and_json() {
    let (text, json) = (own("nvbandwidth.txt"), own("nvbandwidth.json"));
    let (text, json) = (matrices(&text, "nvbandwidth"), matrices(&json, "nvbandwidth -j"));
    assert_eq!((text.len(), json.len()), (43, 43));
    for (a, b) in text.iter().zip(&json) {
        let words = |m: &Matrix| (m.title.clone(), m.describe(), m.rows.clone(), m.cols.clone());
        assert_eq!(words(a), words(b));
        for (x, y) in a.values.iter().flatten().zip(b.values.iter().flatten()) {
            assert_eq!(x.is_some(), y.is_some(), "{}", a.title);
        }
    }
    let total = text.iter().find(|m| m.title == "device_to_device_bidirectional_memcpy_write_ce_total").unwrap();
    assert_eq!((total.between("GPU0", "GPU1"), total.direction), (Some(783.68), Some(Direction::Bidirectional)));
}

#[test]
fn all_reduce_of_four_h200() {
    let found = own("all_reduce_perf.txt");
    let curve = curves(&found)[0];
    assert_eq!((curve.what.as_str(), curve.sizes.len(), curve.series.len()), ("all_reduce_perf", 28, 8));
    let busbw = curve.series.iter().find(|s| s.name == "busbw out-of-place").unwrap();
    assert_eq!(busbw.values.last(), Some(&Some(354.61)));
}

/// `captures/h200x2-vm-collectives`: every output yields its one whole curve. all_gather, reduce_scatter and alltoall begin with two rows of 0 B.
#[test]
fn collectives_of_two_h200() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/h200x2-vm-collectives");
    let mut outputs = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let Some((test, run)) = name.split_once("_perf-") else { continue };
        let found = read_path(&path).unwrap();
        let all = curves(&found);
        assert_eq!((all.len(), found.warnings.len()), (1, 0), "{name}: {:?}", found.warnings);
        assert_eq!((all[0].what.clone(), all[0].series.len()), (format!("{test}_perf"), 8), "{name}");
        let largest = if run.starts_with("graph") { 64 << 10 } else { 16 << 30 };
        assert_eq!(all[0].sizes.last().copied(), Some(Bytes(largest)), "{name}");
        let rows = if run.starts_with("graph") { 14 } else { 32 };
        assert_eq!(all[0].sizes.len(), rows, "{name}");
        outputs += 1;
    }
    assert_eq!(outputs, 6 * 3 + 3 + 6 + 1);
}

#[test]
fn device_query_cut_after_two_devices() {
    let found = own("deviceQuery.txt");
    let gpus = found.evidence.iter().find_map(|e| if let Fact::Gpus(g) = &e.fact { Some(g) } else { None }).unwrap();
    assert_eq!((gpus.len(), gpus[0].compute_capability), (2, Some((9, 0))));
    assert!(found.warnings.iter().any(|w| w.message.contains("2 of 4")));
}

#[test]
fn bandwidth_test_ranges_under_banners() {
    let Some(found) = corpus("smi-princeton-della-a100pcie-traverse-ac922.md") else { return };
    let labels: Vec<&str> = curves(&found).iter().map(|c| c.settings["label"].as_str()).collect();
    assert_eq!(labels, ["TIGER", "TIGER", "TIGER", "DELLA", "DELLA", "DELLA"]);
}

#[test]
fn graphs_of_a_cloud_machine() {
    let Some(found) = corpus("ncclgraph-azure-ncv4.xml") else { return };
    let graphs = found.evidence.iter().filter(|e| matches!(e.fact, Fact::NcclGraph(_))).count();
    assert_eq!((graphs, found.warnings.len()), (3, 0));
}

#[test]
fn a_cut_anywhere_is_no_panic_and_invents_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/h200x4-vm");
    for file in ["nvbandwidth.txt", "p2pBandwidthLatencyTest.txt", "all_reduce_perf.txt"] {
        let bytes = std::fs::read(folder.join(file)).unwrap();
        let whole = scan_text(&Text::new(file, &bytes)).evidence.len();
        for end in (0..bytes.len()).step_by(97) {
            let cut = scan_text(&Text::new(file, &bytes[..end]));
            assert!(cut.evidence.len() <= whole, "{file} cut at byte {end}");
        }
    }
}
