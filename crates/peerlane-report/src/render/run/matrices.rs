//! Matrices of a run. Those with the host, and within a GPU, have one row or column each and share a table.

use std::collections::BTreeMap;
use std::io::{self, Write};

use peerlane::matrix::{Direction, Engine, Matrix, Operation, Quantity};
use peerlane::names::is_host;
use peerlane::plan::{Test, Work};
use peerlane::run::{Cell, CellMatrix};
use peerlane::transfer::Registration;

use super::{View, decimals, heading, remarks};
use crate::render::matrix::{self, labelled_grid};
use crate::render::style;

/// Limit of columns for a row's description.
pub(super) const LABEL: usize = 44;

/// Writes matrices between GPUs, and tables of those with one row or column.
pub(super) fn write(out: &mut dyn Write, view: &View, all: &[CellMatrix]) -> io::Result<()> {
    let (lists, squares): (Vec<&CellMatrix>, Vec<&CellMatrix>) = all.iter().partition(|m| is_list(&m.matrix));
    for of in squares {
        let cells: Vec<Vec<Option<&Cell>>> = of.cells.iter().map(|row| found(view, row)).collect();
        title(out, of, &cells)?;
        grid(out, &of.matrix.rows, &of.matrix.cols, &cells, Digits::Alike)?;
        let once = once(&cells);
        view.below(out, &once)?;
        registrations(out, &once)?;
    }
    let mut left = lists;
    while let Some(first) = left.first().copied() {
        let alike = |m: &&CellMatrix| (m.matrix.quantity, m.matrix.unit) == (first.matrix.quantity, first.matrix.unit);
        let (together, rest): (Vec<&CellMatrix>, Vec<&CellMatrix>) = left.into_iter().partition(alike);
        left = rest;
        lists_together(out, view, &together)?;
    }
    Ok(())
}

/// How adapters got at GPUs' memory, where they did.
fn registrations(out: &mut dyn Write, of: &[&Cell]) -> io::Result<()> {
    let mut counts: BTreeMap<Registration, usize> = BTreeMap::new();
    of.iter().filter_map(|cell| cell.registration).for_each(|how| *counts.entry(how).or_default() += 1);
    let words: Vec<String> = match counts.len() {
        1 => counts.keys().map(|how| how.name().to_owned()).collect(),
        _ => counts.iter().map(|(how, count)| format!("{} ({count})", how.name())).collect(),
    };
    if words.is_empty() { Ok(()) } else { writeln!(out, "  GPU memory registered by {}", words.join(" and ")) }
}

/// Whether one of its sides is only host memory, or only the GPU itself.
fn is_list(matrix: &Matrix) -> bool {
    let lone = |names: &[String]| matches!(names, [one] if is_host(one) || one == "self");
    lone(&matrix.rows) || lone(&matrix.cols)
}

/// Writes a matrix's title, direction and test.
fn title(out: &mut dyn Write, of: &CellMatrix, cells: &[Vec<Option<&Cell>>]) -> io::Result<()> {
    let to_gpu = |cell: &&Cell| matches!(&cell.work, Work::Rdma(rdma) if is_host(&rdma.from.memory));
    let ways = match (of.matrix.quantity, of.matrix.op, of.matrix.direction) {
        _ if of.test == Test::NicGpu && once(cells).iter().any(to_gpu) => "; into the GPU",
        _ if of.test == Test::NicGpu => "; out of the GPU",
        (Quantity::LoadLatency, ..) => "; rows load from columns",
        (.., Some(Direction::Bidirectional)) => "",
        (_, Some(Operation::Read), _) => "; rows read from columns",
        (_, Some(Operation::Write), _) => "; rows write to columns",
        (_, None, _) => "",
    };
    // kernels that only touch a word transfer no data
    let touches = matches!(of.matrix.quantity, Quantity::LoadLatency | Quantity::SignalLatency);
    let matrix = Matrix { engine: of.matrix.engine.filter(|_| !touches), values: Vec::new(), ..of.matrix.clone() };
    let sizes = match matrix.size {
        Some(_) => String::new(),
        None => format!(", {}", remarks::sizes(&once(cells))),
    };
    let (family, extra) = matrix.title.split_once(", ").unwrap_or((matrix.title.as_str(), ""));
    let extra = if extra.is_empty() { String::new() } else { format!("; {extra}") };
    heading(out, &format!("{}{sizes}{ways}{extra}", matrix.describe()), family)
}

fn found<'a>(view: &View<'a>, row: &[Option<usize>]) -> Vec<Option<&'a Cell>> {
    row.iter().map(|at| view.cells.get((*at)?)).collect()
}

/// The cells of a table, each once.
fn once<'a>(cells: &[Vec<Option<&'a Cell>>]) -> Vec<&'a Cell> {
    let mut seen = std::collections::HashSet::new();
    cells.iter().flatten().flatten().copied().filter(|c| seen.insert(std::ptr::from_ref(*c))).collect()
}

/// How decimals are chosen.
#[derive(Clone, Copy)]
pub(super) enum Digits {
    /// For all cells together.
    Alike,
    /// Row by row.
    ByRow,
}

pub(super) fn grid(
    out: &mut dyn Write,
    rows: &[String],
    cols: &[String],
    cells: &[Vec<Option<&Cell>>],
    digits: Digits,
) -> io::Result<()> {
    let of = |rows: &[Vec<Option<&Cell>>]| decimals(rows.iter().flatten().flatten().filter_map(|c| c.value()));
    let all = of(cells);
    // a star on every number would be useless
    let (doubtful, sure): (Vec<&&Cell>, Vec<&&Cell>) =
        cells.iter().flatten().flatten().partition(|c| remarks::is_doubtful(c));
    let doubts = !doubtful.is_empty() && !sure.is_empty();
    let show = |cell: &Option<&Cell>, digits: usize| -> matrix::Cell {
        let Some(cell) = cell else { return ("-".to_owned(), style::DIM) };
        let doubtful = remarks::is_doubtful(cell);
        let (text, look) = match cell.value() {
            Some(value) => (format!("{value:.digits$}"), if doubtful { style::WARN } else { style::PLAIN }),
            None => {
                let (mark, look) = remarks::mark(cell);
                (mark.to_owned(), look)
            }
        };
        // the star has its own column, so that decimal points stay aligned
        let star = if !doubts {
            ""
        } else if doubtful && cell.value().is_some() {
            "*"
        } else {
            " "
        };
        (text + star, look)
    };
    let row = |row: &Vec<Option<&Cell>>| {
        let digits = match digits {
            Digits::Alike => all,
            Digits::ByRow => of(std::slice::from_ref(row)),
        };
        row.iter().map(|cell| show(cell, digits)).collect()
    };
    let cells: Vec<Vec<matrix::Cell>> = cells.iter().map(row).collect();
    labelled_grid(out, LABEL, rows, cols, &cells)
}

/// Lists of one quantity, a row each; GPUs are the columns.
fn lists_together(out: &mut dyn Write, view: &View, all: &[&CellMatrix]) -> io::Result<()> {
    let Some(first) = all.first() else { return Ok(()) };
    let mut cols: Vec<String> = Vec::new();
    for of in all {
        cols.extend(across(&of.matrix).iter().filter(|name| !cols.contains(name)).cloned().collect::<Vec<_>>());
    }
    cols.sort_by(|a, b| peerlane::names::natural(a).cmp(&peerlane::names::natural(b)));
    let row = |of: &&CellMatrix| -> Vec<Option<&Cell>> {
        let names = across(&of.matrix);
        let held: Vec<Option<usize>> = of.cells.iter().flatten().copied().collect();
        let at = |name: &String| names.iter().position(|n| n == name).and_then(|i| held.get(i).copied().flatten());
        cols.iter().map(|name| view.cells.get(at(name)?)).collect()
    };
    let cells: Vec<Vec<Option<&Cell>>> = all.iter().map(row).collect();
    let labels: Vec<String> = all.iter().map(|of| label(of)).collect();
    let within = all.iter().any(|of| of.test == Test::Local);
    let with_host = all.iter().any(|of| of.test != Test::Local);
    let whom = match (with_host, within) {
        (true, true) => "with host memory and within each GPU",
        (false, true) => "within each GPU",
        _ => "with host memory",
    };
    let mut families: Vec<&str> = all.iter().map(|of| of.test.name()).collect();
    families.dedup();
    let (quantity, unit) = (first.matrix.quantity.name(), first.matrix.unit.name());
    let text = format!("{quantity} {whom}, {}, {unit}", remarks::sizes(&once(&cells)));
    heading(out, &text, &families.join(", "))?;
    grid(out, &labels, &cols, &cells, Digits::ByRow)?;
    view.below(out, &once(&cells))
}

/// The GPUs of a list.
fn across(matrix: &Matrix) -> &[String] {
    match matrix.rows.as_slice() {
        [one] if is_host(one) => &matrix.cols,
        _ => &matrix.rows,
    }
}

/// A row in words: `host → GPU, copy engine`.
fn label(of: &CellMatrix) -> String {
    let m = &of.matrix;
    let name = |names: &[String]| match names {
        [one] if is_host(one) => one.clone(),
        _ => "GPU".to_owned(),
    };
    let mut words = vec![match (of.test, m.direction) {
        (Test::Local, _) => "within the GPU, counted once".to_owned(),
        (_, Some(Direction::Bidirectional)) => format!("{} ↔ {}, summed", name(&m.rows), name(&m.cols)),
        _ => format!("{} → {}", name(&m.rows), name(&m.cols)),
    }];
    // a latency's engine follows from its kind
    words.extend(m.engine.filter(|_| m.direction.is_some()).map(|e| {
        match e {
            Engine::Ce => "copy engine",
            Engine::Sm => "SM",
            Engine::Nic => "NIC",
            Engine::Device => "device DMA",
        }
        .to_owned()
    }));
    words.extend(m.title.split_once(", ").map(|(_, extra)| extra.to_owned()));
    words.extend((of.test == Test::Pageable).then(|| "pageable".to_owned()));
    words.join(", ")
}
