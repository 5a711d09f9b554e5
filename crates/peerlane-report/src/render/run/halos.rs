//! Halo exchanges: a row for each set of GPUs, decomposition and method, a column for each size of a face.

use std::collections::BTreeSet;
use std::io::{self, Write};

use peerlane::halo::Halo;
use peerlane::matrix::Quantity;
use peerlane::names::ranges;
use peerlane::plan::{Test, Work};
use peerlane::run::Cell;
use peerlane::units::Bytes;

use super::matrices::LABEL;
use super::sweeps::shown;
use super::{View, heading};
use crate::render::matrix::{self, labelled_grid};

/// Times of an exchange.
pub(super) fn halo(out: &mut dyn Write, view: &View) -> io::Result<()> {
    let halo = |cell: &Cell| match &cell.work {
        Work::Halo(halo) => Some(halo.clone()),
        _ => None,
    };
    // of several cells in one place the last counts
    let cells: Vec<(Halo, &Cell)> = view.cells.iter().rev().filter_map(|cell| Some((halo(cell)?, cell))).collect();
    let Some((_, first)) = cells.first() else { return Ok(()) };
    let faces: BTreeSet<Bytes> = cells.iter().map(|(halo, _)| halo.face).collect();
    let mut rows: Vec<Halo> = Vec::new();
    for (halo, _) in cells.iter().rev() {
        let row = Halo { face: Bytes(0), ..halo.clone() };
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let at = |row: &Halo, face: Bytes| {
        let wanted = Halo { face, ..row.clone() };
        cells.iter().find(|(halo, _)| *halo == wanted).map(|(_, cell)| *cell)
    };
    let table: Vec<Vec<Option<&Cell>>> =
        rows.iter().map(|row| faces.iter().map(|face| at(row, *face)).collect()).collect();
    let names: Vec<String> = rows.iter().map(name).collect();
    let columns: Vec<String> = faces.iter().map(ToString::to_string).collect();
    let title = format!("halo exchange, {} by the size of a face, {}", Quantity::ExchangeTime.name(), first.unit);
    heading(out, &title, Test::Halo.name())?;
    // a row goes over several powers of ten
    let show = |row: &Vec<Option<&Cell>>| row.iter().map(|cell| shown(*cell)).collect();
    let shown: Vec<Vec<matrix::Cell>> = table.iter().map(show).collect();
    labelled_grid(out, LABEL, &names, &columns, &shown)?;
    let once: Vec<&Cell> = table.iter().flatten().flatten().copied().collect();
    view.below(out, &once)
}

fn name(halo: &Halo) -> String {
    let gpus: Vec<&str> = halo.gpus.iter().map(String::as_str).collect();
    format!("{} as {}, {}", ranges(&gpus), halo.decomposition(), halo.exchange.name())
}
