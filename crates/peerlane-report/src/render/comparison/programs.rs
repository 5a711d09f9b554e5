//! What programs and collectives of a run took, beside what is expected: a line for each kind and set of GPUs, over all sizes.

use peerlane::case::Case;
use peerlane::cluster::Cluster;
use peerlane::collectives::Choice;
use peerlane::collectives::tuner::Ranks;
use peerlane::fabric::NodeKind;
use peerlane::machine::Machine;
use peerlane::matrix::{Quantity, Unit};
use peerlane::model::Model;
use peerlane::names::ranges;
use peerlane::plan::Work;
use peerlane::run::{Cell as Measured, Run};
use peerlane::simulate::library::Library;
use peerlane::transfer::Collective;

use super::{Cell, Section};

/// Who measured them.
const SOURCE: &str = "peerlane measure";

/// Without NVLink SHARP, which may be off.
const CHOICE: Choice = Choice { no_nvls: true, ..Choice::FREE };

/// How many there are.
pub(crate) fn count(case: &Case) -> usize {
    let is_shown = |cell: &&Measured| cell.value().is_some() && (is_timed(cell) || is_of_program(cell));
    case.run().into_iter().flat_map(|run| &run.cells).filter(is_shown).count()
}

/// All of them, the programs first.
pub(super) fn sections(case: &Case, model: &Model) -> Vec<Section> {
    let Some(run) = case.run() else { return Vec::new() };
    let mut all = applications(run, model);
    all.extend(collectives(run, model.machine));
    all
}

/// Halo exchanges, spin glasses, searches: what is extrapolated to ways that were never measured is not compared.
fn applications(run: &Run, model: &Model) -> Vec<Section> {
    let mut all: Vec<Section> = Vec::new();
    for cell in &run.cells {
        let (Some(value), Some(place)) = (cell.value(), cell.work.kind().table()) else { continue };
        if !is_of_program(cell) {
            continue;
        }
        let predicted = cell.work.kind().predicted(model).filter(|predicted| predicted.is_confirmed);
        let of = Cell {
            row: place.row,
            col: place.column.1,
            class: None,
            expected: predicted.map(|predicted| predicted.value),
            measured: Some((value, value)),
            standing: None,
        };
        add(&mut all, format!("{}, {}", place.title, cell.unit.name()), cell.unit, of);
    }
    all
}

/// Collectives of all GPUs, which one process runs.
fn collectives(run: &Run, machine: &Machine) -> Vec<Section> {
    let gpus = machine.fabric.of_kind(NodeKind::Gpu).count();
    let cluster = Cluster::single(machine.clone());
    let mut known: Vec<(Collective, Option<Library>)> = Vec::new();
    let mut all = Vec::new();
    for cell in run.cells.iter().filter(|cell| is_timed(cell)) {
        let (Work::Collective { operation, gpus: of }, Some(value)) = (&cell.work, cell.value()) else { continue };
        let size = cell.size;
        if !known.iter().any(|(one, _)| one == operation) {
            let library = Library::of(&cluster, *operation, CHOICE, None).ok();
            known.push((*operation, library.map(|library| library.run_as(Ranks::OneProcess))));
        }
        let library = known.iter().find(|(one, _)| one == operation).and_then(|(_, library)| library.as_ref());
        let predicted = library.filter(|_| of.len() == gpus).and_then(|library| library.predict(size, CHOICE).ok());
        let of = Cell {
            row: format!("{} of {}", operation.name(), ranges(of)),
            col: size.to_string(),
            class: None,
            expected: predicted.map(|predicted| predicted.time * 1e6),
            measured: Some((value, value)),
            standing: None,
        };
        add(&mut all, "collectives, time of one in one process for all GPUs, us".to_owned(), cell.unit, of);
    }
    all
}

/// Whether it is what a program took: the first quantity of what has a table of its own.
fn is_of_program(cell: &Measured) -> bool {
    let kind = cell.work.kind();
    kind.table().is_some() && kind.answers().first().is_some_and(|(quantity, _)| *quantity == cell.quantity)
}

/// Whether it is the time of a collective; its rate stands beside it.
fn is_timed(cell: &Measured) -> bool {
    matches!(cell.work, Work::Collective { .. })
        && cell.unit == Unit::Microseconds
        && cell.quantity == Quantity::Latency
}

fn add(all: &mut Vec<Section>, what: String, unit: Unit, cell: Cell) {
    match all.iter_mut().find(|section| section.what == what) {
        Some(section) => section.cells.push(cell),
        None => all.push(Section { what, sources: vec![SOURCE.to_owned()], unit, cells: vec![cell], named: true }),
    }
}
