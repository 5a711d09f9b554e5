//! Machines side by side: the figures of `compare`, comparable matrices, and the conclusion.

use peerlane::compare::{ComparisonDocument, Design, MeasuredValue};
use peerlane::matrix::{Direction, Engine, Operation, Quantity, Unit};
use peerlane::names::is_host;

use super::document::{MachineReport, MatrixView};
use super::figures::{Chart, ComparisonView, FigureValue, FigureView, MeasuredView, SharedMap, SharedMatrix};
use super::tables::short;
use crate::formats;
use crate::render::figures::{self, Better, Row};
use crate::render::text::span;

/// The figures, maps and conclusion; machines are in the order of the designs.
pub(super) fn comparison(
    document: &ComparisonDocument,
    machines: &[MachineReport],
    all_reduce: Option<Chart>,
) -> ComparisonView {
    let rows = figures::rows(document);
    let names: Vec<&str> = document.designs.iter().map(|d| d.name.as_str()).collect();
    ComparisonView {
        markdown: formats::side_by_side(&names, &rows, &document.conclusion),
        conclusion: document.conclusion.clone(),
        figures: rows.iter().map(figure).collect(),
        all_reduce,
        maps: maps(&document.designs, machines),
    }
}

fn figure(row: &Row) -> FigureView {
    let seen = |s: &MeasuredValue| MeasuredView {
        text: span(s.low, s.high),
        low: short(s.low),
        high: short(s.high),
        obtained: if s.published { "published" } else { "measured" },
    };
    let value = |cell: &figures::Cell| FigureValue {
        text: cell.text.clone(),
        value: short(cell.value),
        bound: cell.bound.clone(),
        about: cell.about.clone(),
        measured: cell.measured.as_ref().map(seen),
    };
    FigureView {
        what: row.label.to_string(),
        better: match row.better {
            Better::More => "more",
            Better::Less => "less",
            Better::Neither => "neither",
        },
        values: row.cells.iter().map(|cell| cell.as_ref().map(value)).collect(),
    }
}

/// The end points of a shared map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Gpus,
    FromHost,
    ToHost,
}

/// The shared maps, in order: title, quantity, direction, ends.
const MAPS: [(&str, Quantity, Direction, Ends); 5] = [
    ("one GPU to another, one way", Quantity::Bandwidth, Direction::Unidirectional, Ends::Gpus),
    ("two GPUs both ways, summed", Quantity::Bandwidth, Direction::Bidirectional, Ends::Gpus),
    ("host to GPU", Quantity::Bandwidth, Direction::Unidirectional, Ends::FromHost),
    ("GPU to host", Quantity::Bandwidth, Direction::Unidirectional, Ends::ToHost),
    ("latency between GPUs", Quantity::Latency, Direction::Unidirectional, Ends::Gpus),
];

fn maps(designs: &[Design], machines: &[MachineReport]) -> Vec<SharedMap> {
    let mut all = Vec::new();
    for (what, quantity, direction, ends) in MAPS {
        let unit = if quantity == Quantity::Latency { Unit::Microseconds } else { Unit::GigabytesPerSecond };
        let of = |(design, machine): (&Design, &MachineReport)| {
            // if no pair has direct access, disabling it changes nothing
            let staged = design.reach.is_some_and(|reach| reach.direct == 0);
            let fits = |view: &MatrixView| {
                view.quantity == quantity
                    && ends_of(view) == Some(ends)
                    && (quantity == Quantity::Latency || view.kind.direction == Some(direction))
                    && (view.kind.p2p != Some(false) || staged)
                    && matches!(view.kind.op, None | Some(Operation::Write))
                    && matches!(view.kind.engine, None | Some(Engine::Ce))
            };
            let found = machine.matrices.iter().enumerate().filter(|(_, view)| fits(view));
            // measured numbers first, then published, then predicted; then the largest messages, for latencies the smallest
            let best = found.min_by_key(|(at, view)| {
                let size = view.kind.size.map_or(0, |s| s.0);
                let rank = ["measured", "published", "stated in words"].iter().position(|o| *o == view.obtained);
                (rank.unwrap_or(3), if unit.rate(1.0).is_some() { u64::MAX - size } else { size }, *at)
            });
            best.and_then(|(matrix, view)| Some(SharedMatrix { matrix, factor: factor(view.unit, unit)? }))
        };
        let of: Vec<Option<SharedMatrix>> = designs.iter().zip(machines).map(of).collect();
        if of.iter().flatten().count() > 1 {
            all.push(SharedMap { what, unit, of });
        }
    }
    all
}

/// The ends of a matrix, if it is of a shared kind.
fn ends_of(view: &MatrixView) -> Option<Ends> {
    let host = |names: &[String]| names.len() == 1 && names.iter().all(|n| is_host(n));
    let gpus = |names: &[String]| !names.is_empty() && names.iter().all(|n| !is_host(n));
    if view.rows == view.cols && view.rows.len() > 1 && gpus(&view.rows) {
        return Some(Ends::Gpus);
    }
    // NICs also transfer to hosts; copies are by GPUs
    match (host(&view.rows), host(&view.cols)) {
        (true, false) if gpus(&view.cols) => Some(Ends::FromHost),
        (false, true) if gpus(&view.rows) => Some(Ends::ToHost),
        _ => None,
    }
}

/// The conversion factor between units of the same dimension.
fn factor(from: Unit, to: Unit) -> Option<f64> {
    match (from.rate(1.0), to.rate(1.0), from.time(1.0), to.time(1.0)) {
        (Some(a), Some(b), ..) => Some(a.bytes_per_second() / b.bytes_per_second()),
        (_, _, Some(a), Some(b)) => Some(a.seconds() / b.seconds()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_one_dimension_convert() {
        let close = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-12);
        assert!(close(factor(Unit::MebibytesPerSecond, Unit::GigabytesPerSecond), 1.048_576e-3));
        assert!(close(factor(Unit::Nanoseconds, Unit::Microseconds), 1e-3));
        assert_eq!(factor(Unit::Nanoseconds, Unit::GigabytesPerSecond), None);
    }
}
