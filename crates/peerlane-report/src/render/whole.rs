//! A machine with all that is known of it: findings, tree, every number, matrices coloured by ratio, and what is doubtful.

use std::io::{self, Write};

use peerlane::case::Case;
use peerlane::comparison::Comparison;
use peerlane::export::json::MachineCheck;

use super::comparison::{self, Head};
use super::headline::Headline;
use super::screen::Values;
use super::style::{self, paint};
use super::text::{fit, hang};
use super::{curves, findings, label, line_width, matrix, tree};
use crate::item::Item;

/// Writes it.
pub(crate) fn write(
    out: &mut dyn Write,
    case: &Case,
    comparison: &Comparison,
    checked: &MachineCheck,
) -> io::Result<()> {
    let machine = &case.machine;
    Headline::of(machine, checked).write(out, false)?;
    if let Some(recognized) = &machine.recognized {
        hang(out, "", &recognized.to_string())?;
    }
    findings::write(out, &Item::all(&checked.findings))?;
    findings::outside(out, checked, usize::MAX)?;
    if !machine.fabric.nodes().is_empty() {
        writeln!(out)?;
    }
    tree::write(out, &machine.fabric, tree::Options { verbose: true, fold: false })?;
    let values = Values::of(comparison);
    let sections = comparison::with_programs(values.sections, case, comparison.model());
    comparison::write(out, &sections, Head::All { assuming: values.assuming }, usize::MAX)?;
    on_assumptions(out, &values.assumptions)?;
    // those of a run are shown with the run
    if case.run.is_none() {
        curves::write(out, machine)?;
    }
    heat_maps(out, comparison)?;
    findings::caveats(out, machine, true)
}

/// Writes what expectations assume.
pub fn on_assumptions(out: &mut dyn Write, assumptions: &[String]) -> io::Result<()> {
    assumptions.iter().try_for_each(|sentence| hang(out, "  assumed      ", sentence))
}

/// Every matrix, coloured by the ratio of measured to expected.
fn heat_maps(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    for series in comparison.matrices() {
        let matrix = series.matrix();
        writeln!(out)?;
        hang(out, "", &matrix.describe())?;
        if let Some(origin) = series.source().origin() {
            writeln!(out, "{}", paint(style::DIM, &fit(&label::origin(origin), line_width())))?;
        }
        let rate = matrix.unit.rate(1.0).is_some();
        let look = |i: usize, j: usize| {
            let expected = series.expected(i, j).map(|e| e.value);
            match (matrix.value(i, j), expected.filter(|e| *e > 0.0)) {
                (Some(measured), Some(expected)) if rate => style::of_heat(measured / expected),
                (Some(measured), Some(expected)) if measured > 0.0 => style::of_heat(expected / measured),
                _ => style::PLAIN,
            }
        };
        matrix::heat(out, &matrix.rows, &matrix.cols, &matrix.values, look)?;
    }
    Ok(())
}
