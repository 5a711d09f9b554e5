//! Applications on lattices: a row for each set of GPUs and way to exchange boundaries, a column for each side.

use std::collections::BTreeSet;
use std::io::{self, Write};

use peerlane::matrix::Quantity;
use peerlane::names::ranges;
use peerlane::plan::{Test, Work};
use peerlane::run::{self, Cell};
use peerlane::spin_glass::SpinGlass;

use super::matrices::{Digits, grid};
use super::{View, heading, matrix, significant};

/// Times of an update.
pub(super) fn spin_glass(out: &mut dyn Write, view: &View) -> io::Result<()> {
    let lattice = |cell: &Cell| match &cell.work {
        Work::SpinGlass(lattice) => Some(lattice.clone()),
        _ => None,
    };
    // of several cells in one place the last counts
    let cells: Vec<(SpinGlass, &Cell)> =
        view.cells.iter().rev().filter_map(|cell| Some((lattice(cell)?, cell))).collect();
    let Some((_, first)) = cells.first() else { return Ok(()) };
    let sides: BTreeSet<u32> = cells.iter().map(|(lattice, _)| lattice.side).collect();
    let mut rows: Vec<SpinGlass> = Vec::new();
    for (lattice, _) in cells.iter().rev() {
        let row = SpinGlass { side: 0, ..lattice.clone() };
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let at = |row: &SpinGlass, side: u32| {
        let wanted = SpinGlass { side, ..row.clone() };
        cells.iter().find(|(lattice, _)| *lattice == wanted).map(|(_, cell)| *cell)
    };
    let table: Vec<Vec<Option<&Cell>>> =
        rows.iter().map(|row| sides.iter().map(|side| at(row, *side)).collect()).collect();
    let names: Vec<String> = rows.iter().map(name).collect();
    let columns: Vec<String> = sides.iter().map(|side| format!("L={side}")).collect();
    let title = format!("spin glass, over-relaxation, {} of a place, {}", Quantity::UpdateTime.name(), first.unit);
    heading(out, &title, Test::SpinGlass.name())?;
    grid(out, &names, &columns, &table, Digits::Alike)?;
    let once: Vec<&Cell> = table.iter().flatten().flatten().copied().collect();
    view.below(out, &once)?;
    if view.verbose { phases(out, &once) } else { Ok(()) }
}

/// What a half-sweep takes by part, of lattices that are cut.
fn phases(out: &mut dyn Write, cells: &[&Cell]) -> io::Result<()> {
    let row = |cell: &&Cell| {
        let half = match &cell.work {
            Work::SpinGlass(lattice) => lattice.places() as f64 / 2.0,
            _ => return None,
        };
        let phases = cell.phases?;
        let parts = [phases.update, phases.boundary, phases.exchange, phases.wait].map(|part| part.value);
        let times = [cell.value()? * 1e-6 * half].into_iter().chain(parts);
        Some([run::ends(&cell.work)].into_iter().chain(times.map(|time| significant(time, 4))).collect())
    };
    let rows: Vec<Vec<String>> = cells.iter().filter_map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let headings = ["us a half-sweep", "all", "update", "boundary", "exchange", "wait"].map(str::to_owned);
    writeln!(out)?;
    matrix::table(out, &headings, &rows, 1)
}

fn name(lattice: &SpinGlass) -> String {
    let gpus: Vec<&str> = lattice.gpus.iter().map(String::as_str).collect();
    match gpus.len() {
        1 => ranges(&gpus),
        _ => {
            let when = if lattice.overlap { "overlap" } else { "serial" };
            let weak = if lattice.weak { ", L a GPU" } else { "" };
            format!("{}{}, {}, {when}{weak}", ranges(&gpus), lattice.cut(), lattice.exchange.name())
        }
    }
}
