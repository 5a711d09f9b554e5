//! A run on a terminal: machine, time and conditions, then a table for each metric with its precision and flags.

mod grids;
mod head;
mod matrices;
mod remarks;
mod sets;
mod sweeps;

pub use head::{date, time};
pub use sweeps::names as sweep_names;

use std::io::{self, Write};

use peerlane::run::{self, Cell, Run};

use super::style::{self, paint};
use super::text::{headline, width};
use super::{line_width, matrix};

/// Writes a run; `verbose` adds every cell with its number of samples and interval.
pub fn write(out: &mut dyn Write, run: &Run, verbose: bool) -> io::Result<()> {
    head::write(out, run, verbose)?;
    tables(out, run, verbose)?;
    head::notes(out, run)
}

/// Writes only the numbers of a run.
pub fn tables(out: &mut dyn Write, run: &Run, verbose: bool) -> io::Result<()> {
    let view = View { cells: &run.cells, precision: run.plan.method.precision, verbose };
    matrices::write(out, &view, &run::matrices(&run.cells))?;
    sets::write(out, &view, &run::sets(&run.cells))?;
    sweeps::write(out, &view, &run::sweeps(&run.cells))?;
    grids::write(out, &view)
}

/// What all tables need.
struct View<'a> {
    /// The cells that tables refer to.
    cells: &'a [Cell],
    /// The requested relative width of intervals.
    precision: f64,
    /// Whether every cell is listed.
    verbose: bool,
}

impl View<'_> {
    /// Writes the lines below a table: precision, flags and, if verbose, all of its cells.
    fn below(&self, out: &mut dyn Write, of: &[&Cell]) -> io::Result<()> {
        remarks::precision_line(out, of, self.precision)?;
        remarks::flags(out, of, self.verbose)?;
        if self.verbose { list(out, of) } else { Ok(()) }
    }
}

/// One line per cell.
fn list(out: &mut dyn Write, of: &[&Cell]) -> io::Result<()> {
    let unit = of.first().map_or("", |c| c.unit.name());
    let headings = ["cell", "size", "remarks", unit, "n", "low", "high"].map(str::to_owned);
    let rows: Vec<Vec<String>> = of
        .iter()
        .map(|cell| {
            let flags: Vec<&str> = cell.flags.iter().map(|f| remarks::word(f.kind)).collect();
            let number = |v: Option<f64>| v.map_or("-".to_owned(), |v| significant(v, 5));
            let e = cell.usable();
            vec![
                run::ends(&cell.work),
                cell.size.to_string(),
                flags.join(", "),
                number(e.map(|e| e.value)),
                cell.n.to_string(),
                number(e.map(|e| e.low)),
                number(e.map(|e| e.high)),
            ]
        })
        .collect();
    writeln!(out)?;
    matrix::table(out, &headings, &rows, 4)
}

/// Writes a table's heading, and the name of its test for `--tests`.
fn heading(out: &mut dyn Write, text: &str, family: &str) -> io::Result<()> {
    writeln!(out)?;
    let family = format!("[{family}]");
    let mut lines = headline(text);
    let last = lines.pop().unwrap_or_default();
    for line in &lines {
        writeln!(out, "{}", paint(style::HEADING, line))?;
    }
    // on the last line if there is room, otherwise below it
    let gap = if width(&last) + 1 + width(&family) <= line_width() { " " } else { "\n" };
    writeln!(out, "{}{gap}{}", paint(style::HEADING, &last), paint(style::DIM, &family))
}

/// A number with that many significant digits, and at most five decimals.
fn significant(value: f64, digits: i32) -> String {
    let magnitude = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    let decimals = (digits - 1).saturating_sub(magnitude as i32).clamp(0, 5) as usize;
    format!("{value:.decimals$}")
}

/// Decimals for all numbers of a table: about four significant digits of the largest.
fn decimals(values: impl Iterator<Item = f64>) -> usize {
    match values.filter(|v| v.is_finite()).fold(0.0, |most: f64, v| most.max(v.abs())) {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
