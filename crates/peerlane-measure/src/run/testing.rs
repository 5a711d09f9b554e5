//! Runs for tests.

use super::{Cell, Estimate, Flag, FlagKind, Run, Subject};
use crate::plan::{Method, Plan, Size, Step, Test, Work};
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::transfer::Transfer;
use peerlane_machine::units::Bytes;
use peerlane_read::catalogue;

/// A step of 64 MiB messages, or of small ones.
pub(super) fn step(test: Test, work: Work) -> Step {
    let small = matches!(work, Work::Loads { .. } | Work::Signals { .. } | Work::SmallCopies(_));
    Step { test, work, size: Size::Exactly(if small { Bytes(16) } else { Bytes::from_mib(64) }) }
}

/// A step of transfers of a family.
pub(super) fn moving(test: Test, transfers: &[Transfer]) -> Step {
    step(test, Work::Transfers(transfers.to_vec()))
}

/// A cell of a step: the median of 12 samples, 1 % to both ends of its interval.
pub(super) fn cell(index: usize, of: &Step, value: f64) -> Cell {
    let Size::Exactly(size) = of.size else { panic!("test steps have one size") };
    let (quantity, unit) = match &of.work {
        Work::Signals { .. } => (Quantity::SignalLatency, Unit::Nanoseconds),
        work => work.kind().answers()[0],
    };
    Cell {
        step: index,
        test: of.test,
        work: of.work.clone(),
        size,
        quantity,
        unit,
        estimate: Some(Estimate { value, low: 0.99 * value, high: 1.01 * value }),
        n: 12,
        each: Vec::new(),
        phases: None,
        registration: None,
        modes: Vec::new(),
        flags: Vec::new(),
        samples: vec![value; 12],
    }
}

/// A cell of that step that has no value.
pub(super) fn void(index: usize, of: &Step, kind: FlagKind) -> Cell {
    let like = cell(index, of, 0.0);
    Cell::void(index, of, like.size, like.quantity, like.unit, Flag::new(kind, "no sign of life for 20 s"))
}

/// A run on a system of the catalogue, as a simulated machine.
pub(super) fn run(system: &str, steps: Vec<Step>) -> Run {
    let machine = catalogue::system(system).unwrap().unwrap();
    let subject = Subject {
        name: machine.name.clone(),
        target: system.to_owned(),
        system: catalogue::system_text(system).map(str::to_owned),
        evidence: Vec::new(),
    };
    let plan = Plan { method: Method::default(), rounds: vec![steps], skipped: Vec::new() };
    Run::new(&machine, subject, plan)
}
