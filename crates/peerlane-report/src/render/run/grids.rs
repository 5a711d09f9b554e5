//! Work that has a table of its kind: a row for each set of GPUs and way to do it, a column for each size of the problem.

use std::collections::BTreeMap;
use std::io::{self, Write};

use peerlane::kinds::TableCell;
use peerlane::plan::{Test, Work};
use peerlane::run::{self, Cell};

use super::matrices::{Digits, LABEL, grid};
use super::sweeps::shown;
use super::{View, heading, matrix, significant};
use crate::render::matrix::labelled_grid;

/// A table, while its cells are gathered.
#[derive(Default)]
struct Table<'a> {
    wide: bool,
    rows: Vec<String>,
    columns: BTreeMap<u64, String>,
    /// Of several cells in one place the last.
    cells: BTreeMap<(usize, u64), &'a Cell>,
}

/// Writes a table for each title, in the order of their families.
pub(super) fn write(out: &mut dyn Write, view: &View) -> io::Result<()> {
    let mut tables: BTreeMap<(usize, String), Table> = BTreeMap::new();
    for cell in view.cells {
        let Some(TableCell { title, row, column: (at, name), wide }) = cell.work.kind().table() else { continue };
        let order = Test::ALL.iter().position(|test| *test == cell.test).unwrap_or_default();
        let table = tables.entry((order, title)).or_default();
        let known = table.rows.iter().position(|known| *known == row);
        let index = known.unwrap_or_else(|| {
            table.rows.push(row);
            table.rows.len() - 1
        });
        table.wide = wide;
        table.columns.insert(at, name);
        table.cells.insert((index, at), cell);
    }
    tables.iter().try_for_each(|((_, title), table)| draw(out, view, title, table))
}

fn draw(out: &mut dyn Write, view: &View, title: &str, table: &Table) -> io::Result<()> {
    let row = |index| table.columns.keys().map(|at| table.cells.get(&(index, *at)).copied()).collect();
    let cells: Vec<Vec<Option<&Cell>>> = (0..table.rows.len()).map(row).collect();
    let once: Vec<&Cell> = cells.iter().flatten().flatten().copied().collect();
    let Some(first) = once.first() else { return Ok(()) };
    heading(out, &format!("{title}, {}", first.unit), first.test.name())?;
    let columns: Vec<String> = table.columns.values().cloned().collect();
    if table.wide {
        let show = |row: &Vec<Option<&Cell>>| row.iter().map(|cell| shown(*cell)).collect();
        let shown: Vec<Vec<matrix::Cell>> = cells.iter().map(show).collect();
        labelled_grid(out, LABEL, &table.rows, &columns, &shown)?;
    } else {
        grid(out, &table.rows, &columns, &cells, Digits::Alike)?;
    }
    view.below(out, &once)?;
    if view.verbose { phases(out, &once) } else { Ok(()) }
}

/// What a half-sweep takes by part, of lattices that are cut.
fn phases(out: &mut dyn Write, cells: &[&Cell]) -> io::Result<()> {
    let row = |cell: &&Cell| {
        let Work::SpinGlass(lattice) = &cell.work else { return None };
        let phases = cell.phases?;
        let parts = [phases.update, phases.boundary, phases.exchange, phases.wait].map(|part| part.value);
        let times = [cell.value()? * 1e-6 * (lattice.places() as f64 / 2.0)].into_iter().chain(parts);
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
