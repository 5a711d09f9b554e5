//! Predicted against published figures, for every system of the catalogue: the table in `docs/model.md`.
//!
//! `cargo run -p peerlane --example accuracy`
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::fmt::Write;

use peerlane::catalogue::{Parts, system, system_names};
use peerlane::evidence::Matrix;
use peerlane::expectation::{ExpectedMatrix, expect_like};
use peerlane::machine::{Machine, Statement};
use peerlane::model::Model;

fn main() {
    print!("{}", table());
}

/// The table as it stands in the document; a test compares the two.
pub(crate) fn table() -> String {
    let mut out = String::from("| system | figures | path | published | predicted | median error | what binds |\n");
    out.push_str("|---|---|---|---|---|---|---|\n");
    for name in system_names() {
        match system(name) {
            Some(Ok(machine)) => report(&machine, &mut out),
            Some(Err(error)) => eprintln!("{name}: {error}"),
            None => eprintln!("{name}: no such system"),
        }
    }
    out
}

fn report(machine: &Machine, out: &mut String) {
    let model = Model::new(machine, Parts::embedded());
    let observed = machine.matrices.iter().filter(|m| m.published).map(|m| (m.matrix.clone(), m.matrix.clone()));
    let stated = machine.statements.iter().map(|s| (as_matrix(s, s.low), as_matrix(s, s.high)));
    for (low, high) in observed.chain(stated) {
        if let Some(expected) = expect_like(&model, &low) {
            rows(machine, &low, &high, &expected, out);
        }
    }
}

/// A statement as a matrix that holds `value` in each cell.
fn as_matrix(s: &Statement, value: f64) -> Matrix {
    Matrix {
        quantity: s.quantity,
        direction: s.direction,
        p2p: s.p2p,
        op: None,
        engine: None,
        unit: s.unit,
        size: None,
        rows: s.from.clone(),
        cols: s.to.clone(),
        values: vec![vec![Some(value); s.to.len()]; s.from.len()],
        title: s.text.clone(),
    }
}

/// One row for each class of path and prediction.
fn rows(machine: &Machine, published: &Matrix, upper: &Matrix, expected: &ExpectedMatrix, out: &mut String) {
    type Group = (Vec<f64>, f64, String);
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    for (i, row) in expected.rows.iter().enumerate() {
        for (j, col) in expected.cols.iter().enumerate() {
            let (Some(low), Some(high)) = (published.value(i, j), upper.value(i, j)) else { continue };
            let Some(told) = expected.values[i][j] else { continue };
            let ends = machine.fabric.find(row).zip(machine.fabric.find(col));
            let class = ends.and_then(|(a, b)| machine.fabric.class(a, b));
            let class =
                class.map_or_else(|| format!("{} host", if row == "host" { "from" } else { "to" }), |c| c.to_string());
            let why = expected.bottlenecks[i][j].clone().unwrap_or_default();
            let group = groups.entry((class, format!("{told:.2}"))).or_insert((Vec::new(), told, why));
            group.0.extend([low, high]);
        }
    }
    for ((class, shown), (mut seen, told, why)) in groups {
        seen.sort_by(f64::total_cmp);
        let (low, high) = (seen[0], seen[seen.len() - 1]);
        let median = (seen[seen.len() / 2 - 1] + seen[seen.len() / 2]) / 2.0;
        let range = if low == high { format!("{low}") } else { format!("{low} to {high}") };
        // writing to a string cannot fail
        let _ = writeln!(
            out,
            "| {} | {} | {class} | {range} | {shown} | {:+.1} % | {why} |",
            machine.name,
            published.describe().replace("bandwidth, ", ""),
            (told / median - 1.0) * 100.0
        );
    }
}
