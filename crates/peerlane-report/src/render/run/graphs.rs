//! Searches of graphs: a row for each set of GPUs and way to exchange levels, a column for each scale.

use std::collections::BTreeSet;
use std::io::{self, Write};

use peerlane::bfs::Bfs;
use peerlane::matrix::Quantity;
use peerlane::names::ranges;
use peerlane::plan::{Test, Work};
use peerlane::run::Cell;

use super::matrices::{Digits, grid};
use super::{View, heading};

/// Rates of breadth-first searches.
pub(super) fn bfs(out: &mut dyn Write, view: &View) -> io::Result<()> {
    let search = |cell: &Cell| match &cell.work {
        Work::Bfs(search) => Some(search.clone()),
        _ => None,
    };
    // of several cells in one place the last counts
    let cells: Vec<(Bfs, &Cell)> = view.cells.iter().rev().filter_map(|cell| Some((search(cell)?, cell))).collect();
    let Some((_, first)) = cells.first() else { return Ok(()) };
    let scales: BTreeSet<u32> = cells.iter().map(|(search, _)| search.scale).collect();
    let mut rows: Vec<Bfs> = Vec::new();
    for (search, _) in cells.iter().rev() {
        let row = Bfs { scale: 0, ..search.clone() };
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let at = |row: &Bfs, scale: u32| {
        let wanted = Bfs { scale, ..row.clone() };
        cells.iter().find(|(search, _)| *search == wanted).map(|(_, cell)| *cell)
    };
    let table: Vec<Vec<Option<&Cell>>> =
        rows.iter().map(|row| scales.iter().map(|scale| at(row, *scale)).collect()).collect();
    let names: Vec<String> = rows.iter().map(name).collect();
    let columns: Vec<String> = scales.iter().map(|scale| format!("2^{scale}")).collect();
    let roots = Bfs::ROOTS;
    let title = format!(
        "breadth-first search, Kronecker graph, {}, harmonic mean of {roots} roots, {}",
        Quantity::EdgeRate.name(),
        first.unit
    );
    heading(out, &title, Test::Bfs.name())?;
    grid(out, &names, &columns, &table, Digits::Alike)?;
    let once: Vec<&Cell> = table.iter().flatten().flatten().copied().collect();
    view.below(out, &once)
}

fn name(search: &Bfs) -> String {
    let gpus: Vec<&str> = search.gpus.iter().map(String::as_str).collect();
    match gpus.len() {
        1 => ranges(&gpus),
        _ => format!("{}, {}", ranges(&gpus), search.exchange.name()),
    }
}
