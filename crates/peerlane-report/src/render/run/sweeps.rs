//! Numbers by message size: one row per size, one column per path or collective. Below them the fitted least time t₁,
//! start-up time t₀, asymptotic rate r∞, and n½, the size that reaches half of it.

use std::io::{self, Write};

use peerlane::fit::{Fit, MISFIT};
use peerlane::matrix::{Engine, Operation, Quantity, Unit};
use peerlane::names::ranges;
use peerlane::plan::Work;
use peerlane::run::{Cell, Sweep, ends};
use peerlane::units::Bytes;

use super::{View, heading, remarks, significant};
use crate::render::line_width;
use crate::render::matrix::{self, grid};
use crate::render::style::{self, paint};
use crate::render::text::{count, wrap};

/// One column: its heading, and the cell at each size.
struct Column<'a> {
    name: String,
    cells: Vec<(Bytes, Option<&'a Cell>)>,
}

impl Column<'_> {
    /// The fit to rates or times; a bus bandwidth is not the rate of a message.
    fn fit(&self) -> Option<Fit> {
        let value = |(size, cell): &(Bytes, Option<&Cell>)| Some((*size, cell.as_ref()?.value()?));
        let (_, first) = self.cells.iter().find(|at| value(at).is_some())?;
        let unit = first.filter(|cell| matches!(cell.quantity, Quantity::Bandwidth | Quantity::Latency))?.unit;
        Fit::of_values(unit, self.cells.iter().filter_map(value))
    }
}

/// Limit of columns named in a remark.
const NAMED: usize = 4;

/// Writes where the fit does not describe the measurement.
fn misfits(out: &mut dyn Write, columns: &[Column], fits: &[Option<Fit>]) -> io::Result<()> {
    let off = |(column, fit): (&Column, &Option<Fit>)| {
        let sizes: Vec<String> = fit.as_ref()?.misfits().map(|r| r.size.to_string()).collect();
        (!sizes.is_empty()).then(|| format!("{} at {}", column.name, sizes.join(", ")))
    };
    let all: Vec<String> = columns.iter().zip(fits).filter_map(off).collect();
    if all.is_empty() {
        return Ok(());
    }
    let more =
        if all.len() > NAMED { format!("; and {}", count(all.len() - NAMED, "more column")) } else { String::new() };
    let named: Vec<&str> = all.iter().take(NAMED).map(String::as_str).collect();
    let text =
        format!("max(t₁, t₀ + size ÷ r∞) is off by more than {:.0} %: {}{more}", MISFIT * 100.0, named.join("; "));
    for line in wrap(&text, line_width() - 2) {
        writeln!(out, "  {}", paint(style::DIM, &line))?;
    }
    Ok(())
}

/// Columns of the same title.
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

/// The title of a table, and the heading of a column.
pub fn names(work: &Work, quantity: Quantity, unit: Unit) -> (String, String) {
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
    let at = |column: &Column, size: &Bytes| {
        let cell = column.cells.iter().find(|(s, _)| s == size).and_then(|(_, cell)| *cell);
        shown(cell)
    };
    let mut cells: Vec<Vec<matrix::Cell>> =
        sizes.iter().map(|size| table.columns.iter().map(|column| at(column, size)).collect()).collect();
    let mut rows: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let fits: Vec<Option<Fit>> = table.columns.iter().map(Column::fit).collect();
    if fits.iter().any(Option::is_some) {
        let line = |of: &dyn Fn(&Fit) -> String| -> Vec<matrix::Cell> {
            let show = |fit: &Option<Fit>| (fit.as_ref().map_or("-".to_owned(), of), style::DIM);
            fits.iter().map(show).collect()
        };
        rows.extend(["t₁, us", "t₀, us", "r∞, GB/s", "n½"].map(str::to_owned));
        cells.push(line(&|fit| significant(fit.copies.startup.least.us(), 3)));
        cells.push(line(&|fit| significant(fit.copies.startup.each.us(), 3)));
        cells.push(line(&|fit| significant(fit.copies.rate.gb(), 4)));
        cells.push(line(&|fit| fit.copies.half_size().to_string()));
    }
    let cols: Vec<String> = table.columns.iter().map(|c| c.name.clone()).collect();
    grid(out, &rows, &cols, &cells)?;
    misfits(out, &table.columns, &fits)?;
    let all: Vec<&Cell> = table.columns.iter().flat_map(|c| c.cells.iter().filter_map(|(_, cell)| *cell)).collect();
    view.below(out, &all)
}

/// A number with four digits, or why there is none.
pub(super) fn shown(cell: Option<&Cell>) -> matrix::Cell {
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
}
