//! A run for tests. Rates between GPUs, with the host and among all at once are those of four H200 behind NVSwitch
//! (`captures/h200x4-vm`); what was not measured there has made-up values.

use peerlane::catalogue;
use peerlane::machine::Machine;
use peerlane::matrix::{Engine, Operation, Quantity, Unit};
use peerlane::names::is_host;
use peerlane::plan::{Method, Plan, Scope, Selection, Size, Step, Test, Work};
use peerlane::run::{Cell, Estimate, Flag, FlagKind, GpuState, Run, Subject};
use peerlane::transfer::{Collective, Transfer, Via};
use peerlane::units::{Bytes, Seconds};

const SYSTEM: &str = "h200x4-vm";

/// A run with an answer to every step.
pub(crate) fn run(tests: &[Test]) -> Run {
    let text = catalogue::system_text(SYSTEM).unwrap();
    // the description of the machine, without its published numbers
    let text = text.split("[[published]]").next().unwrap();
    let machine = catalogue::read_system(text, SYSTEM).unwrap();
    of(&machine, text, tests)
}

fn of(machine: &Machine, text: &str, tests: &[Test]) -> Run {
    let selection = Selection { tests: tests.to_vec(), ..Selection::default() };
    let plan = Plan::of(machine, Scope::Default, &selection, Method::default()).unwrap();
    let subject = Subject::of_system(&machine.name, SYSTEM, text);
    let mut run = Run::new(machine, subject, plan);
    let state = |i: usize, t: f64| GpuState { gpu: format!("GPU{i}"), temperature_c: Some(t), ..GpuState::default() };
    run.conditions.before = (0..4).map(|i| state(i, 31.0 + i as f64)).collect();
    run.conditions.after = (0..4).map(|i| state(i, 42.0 + i as f64)).collect();
    run.conditions.began = 1_795_234_323;
    run.conditions.driver = Some("580.159.04".to_owned());
    run.conditions.cuda = Some("13.0".to_owned());
    run.conditions.initialisation = Some(Seconds::new(3.21));
    run.wall = Seconds::new(9.84);
    run.complete = true;
    run.cells = run.plan.steps().enumerate().flat_map(|(i, step)| answer(i, step)).collect();
    run
}

/// A deviation of a few thousandths that is the same for the same cell.
fn wobble(seed: usize) -> f64 {
    let x = seed.wrapping_mul(2_654_435_761) % 1000;
    1.0 + (x as f64 - 500.0) * 6e-6
}

fn answer(index: usize, step: &Step) -> Vec<Cell> {
    let (Size::Exactly(size) | Size::UpTo(size)) = step.size;
    let cell = |quantity, unit, value: f64| {
        let value = value * wobble(index);
        Cell {
            step: index,
            test: step.test,
            work: step.work.clone(),
            size,
            quantity,
            unit,
            estimate: Some(Estimate { value, low: value * 0.9985, high: value * 1.001 }),
            n: 6 + index % 13,
            each: Vec::new(),
            phases: None,
            registration: None,
            modes: Vec::new(),
            flags: Vec::new(),
            samples: vec![value; 6],
        }
    };
    let gb = |value| cell(Quantity::Bandwidth, Unit::GigabytesPerSecond, value);
    match &step.work {
        Work::Transfers(all) => {
            let each: Vec<f64> = all.iter().map(|t| rate(step.test, all, t) * start_up(step.test, size)).collect();
            let mut cell = gb(each.iter().sum());
            if let [_, _, ..] = all.as_slice() {
                cell.each = each.iter().map(|v| Estimate { value: *v, low: 0.99 * v, high: 1.01 * v }).collect();
            }
            vec![cell]
        }
        Work::Loads { memory, .. } => {
            let ns = if is_host(memory) { 1171.0 } else { 827.0 };
            vec![cell(Quantity::LoadLatency, Unit::Nanoseconds, ns)]
        }
        Work::Signals { .. } => vec![cell(Quantity::SignalLatency, Unit::Nanoseconds, 1310.0)],
        Work::SmallCopies(t) => {
            let us = if t.via == Via::Direct { 2.6 } else { 9.8 };
            vec![
                cell(Quantity::Latency, Unit::Microseconds, us),
                cell(Quantity::EnqueueLatency, Unit::Microseconds, 1.9),
            ]
        }
        Work::Collective { operation, gpus } => {
            let time = 20e-6 + size.0 as f64 / 236e9;
            let factor = Collective::bus_factor(*operation, gpus.len());
            vec![
                cell(Quantity::BusBandwidth, Unit::GigabytesPerSecond, size.0 as f64 / time * factor / 1e9),
                cell(Quantity::Latency, Unit::Microseconds, time * 1e6),
            ]
        }
        Work::HostMemory { .. } => vec![gb(310.0)],
        Work::Halo(halo) => {
            vec![cell(
                Quantity::ExchangeTime,
                Unit::Microseconds,
                8.0 + halo.face.0 as f64 * halo.sides() as f64 / 394e3,
            )]
        }
        Work::SpinGlass(lattice) => {
            vec![cell(Quantity::UpdateTime, Unit::Picoseconds, 9.1 / lattice.gpus.len() as f64)]
        }
        Work::Bfs(search) => vec![cell(Quantity::EdgeRate, Unit::Gteps, 700.0 * search.gpus.len() as f64)],
        other => other.kind().answers().iter().map(|(quantity, unit)| cell(*quantity, *unit, 48.0)).collect(),
    }
}

/// Small messages take their start-up time, 8 µs.
fn start_up(test: Test, size: Bytes) -> f64 {
    if test != Test::Sizes {
        return 1.0;
    }
    let time = size.0 as f64 / 396e9;
    time / (time + 8e-6)
}

fn rate(test: Test, all: &[Transfer], t: &Transfer) -> f64 {
    let (down, up) = (is_host(&t.source), is_host(&t.destination));
    let both = all.contains(&t.reversed());
    let sm = t.engine == Engine::Sm;
    match (down, up) {
        _ if t.source == t.destination => 2083.0,
        _ if t.via != Via::Direct => 33.1,
        (true, _) if all.len() == 8 => 22.4,
        (_, true) if all.len() == 8 => 27.3,
        (true, _) if all.len() == 4 => 44.1,
        (_, true) if all.len() == 4 => 36.6,
        (true, _) if both => 52.0,
        (_, true) if both => 50.7,
        (true, _) => 55.4,
        (_, true) => 55.3,
        _ if test == Test::OneToAll || test == Test::AllToOne => 366.0 / all.len() as f64,
        _ if both => {
            if sm {
                366.0
            } else {
                391.0
            }
        }
        _ => match (sm, t.op) {
            (false, Operation::Write) => 396.1,
            (false, Operation::Read) => 393.9,
            (true, Operation::Write) => 369.8,
            (true, Operation::Read) => 376.2,
        },
    }
}

/// The cell of a lone transfer.
pub(crate) fn cell_of<'a>(run: &'a mut Run, test: Test, source: &str, destination: &str) -> &'a mut Cell {
    let wanted = |c: &&mut Cell| match &c.work {
        Work::Transfers(t) => {
            c.test == test && t.len() == 1 && t[0].source == source && t[0].destination == destination
        }
        _ => false,
    };
    run.cells.iter_mut().find(wanted).unwrap()
}

/// Adds a flag to a cell, and removes its value if the flag voids it.
pub(crate) fn spoil(cell: &mut Cell, kind: FlagKind, why: &str) {
    if kind.voids() {
        (cell.estimate, cell.n) = (None, 0);
    }
    cell.flags.push(Flag::new(kind, why));
}
