//! The statistics on numbers worked by hand, and the page against `validation/accuracy.md`.

mod first_contact;

use super::*;
use peerlane_machine::machine::SourcedMatrix;
use peerlane_machine::matrix::{Direction, Matrix, Quantity};

#[test]
fn percentiles_lie_between_ranks() {
    let of = |values: &[f64], share| percentile(values.to_vec(), share);
    assert_eq!(of(&[], 0.5), None);
    assert_eq!(of(&[3.0], 0.85), Some(3.0));
    assert_eq!(of(&[4.0, 1.0], 0.5), Some(2.5));
    assert_eq!(of(&[5.0, 1.0, 2.0, 3.0, 4.0], 0.85), Some(4.4));
}

/// The development box with one made-up matrix.
fn with(values: [[Option<f64>; 2]; 2]) -> Machine {
    let mut machine = system("exxact-devbox").unwrap().unwrap();
    let gpus = || vec!["GPU0".to_owned(), "GPU2".to_owned()];
    let matrix = Matrix {
        quantity: Quantity::Bandwidth,
        direction: Some(Direction::Unidirectional),
        p2p: Some(true),
        unit: Unit::GigabytesPerSecond,
        rows: gpus(),
        cols: gpus(),
        values: values.map(|row| row.to_vec()).to_vec(),
        ..Matrix::default()
    };
    let origin = machine.matrices[0].origin.clone();
    machine.matrices = vec![SourcedMatrix {
        matrix,
        origin,
        also: Vec::new(),
        published: true,
        known_cause: Some("a cause".to_owned()),
        spread: Vec::new(),
    }];
    machine.statements.clear();
    machine
}

#[test]
fn a_group_compares_medians_and_cells_compare_each() {
    let machine = with([[None, Some(10.0)], [Some(12.0), None]]);
    let got = evaluate_cases(&[Case::from(machine)], Parts::embedded());
    let group = &got.groups[0];
    assert_eq!((group.cells, group.published, group.path.as_str()), (2, 11.0, "PHB"));
    assert!((group.error - (group.predicted / 11.0 - 1.0)).abs() < 1e-12);
    let [low, high] = [(group.predicted / 10.0 - 1.0).abs(), (group.predicted / 12.0 - 1.0).abs()];
    let cells = got.overall.bandwidth.peerlane.cells;
    assert!((cells.median - (low + high) / 2.0).abs() < 1e-12 && (cells.worst - low.max(high)).abs() < 1e-12);
    // one way through an Intel root complex, by NCCL's constants: 12 × 5/6
    assert!((group.nccl.unwrap() - (10.0 / 11.0 - 1.0)).abs() < 1e-12);
    assert!((group.raw.unwrap() - (15.754 / 11.0 - 1.0)).abs() < 1e-4);
}

#[test]
fn a_cell_off_by_more_than_the_limit_is_listed() {
    let machine = with([[None, Some(10.0)], [Some(20.0), None]]);
    let got = evaluate_cases(&[Case::from(machine)], Parts::embedded());
    assert_eq!(got.far.iter().map(|c| (c.row.as_str(), c.published)).collect::<Vec<_>>(), [("GPU2", 20.0)]);
    assert_eq!(got.far[0].reason, "a cause");
}

#[test]
fn every_system_with_numbers_is_there_and_each_group_is_of_sound_numbers() {
    let got = evaluate();
    for name in ["exxact-traditional", "exxact-txr550", "microway-s822lc", "h200x4-vm", "7gforce"] {
        assert!(got.systems.iter().any(|s| s.name == name && !s.matrices.is_empty()), "{name}");
    }
    for group in &got.groups {
        assert!(group.error.is_finite() && group.predicted > 0.0 && group.cells > 0, "{group:?}");
    }
    assert_eq!(got.systems.len(), got.left_out.len());
}

#[test]
fn the_page_is_fresh() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/accuracy.md");
    let fresh = page(&evaluate());
    if std::env::var_os("UPDATE_ACCURACY").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == fresh,
        "validation/accuracy.md is stale: run UPDATE_ACCURACY=1 cargo test -p peerlane-judge accuracy"
    );
}
