//! Numbers against message size: sizes down, paths or collectives across.

use std::io::{self, Write};

use peerlane::evidence::{Engine, Operation, Quantity, Unit};
use peerlane::names::ranges;
use peerlane::plan::Work;
use peerlane::run::{Cell, Sweep, ends};
use peerlane::units::Bytes;

use super::{View, heading, remarks, significant};
use crate::render::matrix::{self, grid};
use crate::render::style;

/// One column: its heading, and the cell at each size.
struct Column<'a> {
    name: String,
    cells: Vec<(Bytes, Option<&'a Cell>)>,
}

/// Columns that share a table, by what the table is called.
struct Table<'a> {
    what: String,
    family: &'static str,
    columns: Vec<Column<'a>>,
}

/// Writes a table for each quantity, engine and set of ranks.
pub(super) fn write(out: &mut dyn Write, view: &View, all: &[Sweep]) -> io::Result<()> {
    let mut tables: Vec<Table> = Vec::new();
    for sweep in all {
        for (quantity, unit, at) in &sweep.series {
            let cells: Vec<Option<&Cell>> = at.iter().map(|at| view.cells.get((*at)?)).collect();
            let family = cells.iter().flatten().next().map_or("", |c| c.test.name());
            let (what, name) = names(sweep.work, *quantity, *unit);
            let column = Column { name, cells: sweep.sizes.iter().copied().zip(cells).collect() };
            match tables.iter_mut().find(|t| t.what == what) {
                Some(table) => table.columns.push(column),
                None => tables.push(Table { what, family, columns: vec![column] }),
            }
        }
    }
    tables.iter().try_for_each(|table| draw(out, view, table))
}

/// What a table is called, and what stands above a column.
fn names(work: &Work, quantity: Quantity, unit: Unit) -> (String, String) {
    let measured = format!("{} by message size", quantity.name());
    match work {
        Work::Transfers(transfers) => {
            let first = transfers.first();
            let engine = if first.is_some_and(|t| t.engine == Engine::Sm) { "SM copies" } else { "copy engine" };
            let reads = if first.is_some_and(|t| t.op == Operation::Read) { ", reads" } else { "" };
            (format!("{measured}, {engine}{reads}, {unit}"), ends(work))
        }
        Work::Collective { operation, gpus } => {
            (format!("{measured}, NCCL among {}, {unit}", ranges(gpus)), operation.name().to_owned())
        }
        _ => (format!("{measured}, {unit}"), ends(work)),
    }
}

fn draw(out: &mut dyn Write, view: &View, table: &Table) -> io::Result<()> {
    let mut sizes: Vec<Bytes> = table.columns.iter().flat_map(|c| c.cells.iter().map(|(size, _)| *size)).collect();
    sizes.sort();
    sizes.dedup();
    heading(out, &table.what, table.family)?;
    let show = |cell: Option<&Cell>| -> matrix::Cell {
        match cell.map(|cell| (cell, cell.value())) {
            None => ("-".to_owned(), style::DIM),
            Some((cell, Some(value))) => {
                (significant(value, 4), if remarks::is_doubtful(cell) { style::WARN } else { style::PLAIN })
            }
            Some((cell, None)) => {
                let (mark, look) = remarks::mark(cell);
                (mark.to_owned(), look)
            }
        }
    };
    let at = |column: &Column, size: &Bytes| {
        let cell = column.cells.iter().find(|(s, _)| s == size).and_then(|(_, cell)| *cell);
        show(cell)
    };
    let cells: Vec<Vec<matrix::Cell>> =
        sizes.iter().map(|size| table.columns.iter().map(|column| at(column, size)).collect()).collect();
    let rows: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let cols: Vec<String> = table.columns.iter().map(|c| c.name.clone()).collect();
    grid(out, &rows, &cols, &cells)?;
    let all: Vec<&Cell> = table.columns.iter().flat_map(|c| c.cells.iter().filter_map(|(_, cell)| *cell)).collect();
    view.below(out, &all)
}
