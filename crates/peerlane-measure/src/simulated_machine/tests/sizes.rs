//! A sweep over sizes is answered as it is predicted, on every machine of the catalogue.

use std::collections::BTreeSet;

use super::*;
use crate::measure::execute;
use crate::plan::{Plan, Scope, Selection};
use crate::run::{Cell, Event, sweeps};
use peerlane_machine::fit::Fit;
use peerlane_machine::units::Rate;
use peerlane_model::expectation::{ExpectedCurve, resolve};

fn measured(machine: &Machine, settings: &Planted, tests: &[Test]) -> Vec<Cell> {
    let selection = Selection { tests: tests.to_vec(), pairs: Vec::new(), nics: None };
    let plan = Plan::of(machine, Scope::Default, &selection, Method::default()).unwrap();
    let mut cells = Vec::new();
    let mut keep = |event| {
        if let Event::Cells(of_step) = event {
            cells.extend(of_step);
        }
    };
    execute(&plan, &mut virtual_machine(machine, settings), &BTreeSet::new(), &mut keep).unwrap();
    cells
}

#[test]
fn a_measured_sweep_is_the_predicted_one() {
    let mut compared = 0;
    for name in system_names() {
        let machine = system(name).unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        // a machine of unknown widths, or one without GPUs, has no sweep
        for (noise, at_size, at_half) in [(0.0, 0.02, 0.03), (NOISE, 0.02, 0.1)] {
            let cells = measured(&machine, &Planted { noise, ..quiet(&[]) }, &[Test::Sizes]);
            for sweep in sweeps(&cells) {
                let Work::Transfers(transfers) = sweep.work else { panic!("{:?}", sweep.work) };
                let [(_, unit, at)] = sweep.series.as_slice() else { panic!("{:?}", sweep.series) };
                let rate = |at: &Option<usize>| unit.rate(cells.get((*at)?)?.value()?);
                let rates: Vec<(Bytes, Rate)> =
                    sweep.sizes.iter().zip(at).filter_map(|(size, at)| Some((*size, rate(at)?))).collect();
                if rates.is_empty() {
                    continue;
                }
                let transfer = resolve(&machine.fabric, &transfers[0]).unwrap();
                let expected = ExpectedCurve::of(&model, &transfer, &sweep.sizes).unwrap();
                for ((size, got), (_, want)) in rates.iter().zip(&expected.rates) {
                    assert!((got.gb() / want - 1.0).abs() < at_size, "{name} {transfers:?} {size}: {got} {want}");
                }
                let half = Fit::of_rates(&rates).unwrap().copies.half_size().0 as f64;
                let off = half / expected.half_size as f64 - 1.0;
                assert!(off.abs() < at_half, "{name} {transfers:?}: {half} {}", expected.half_size);
                compared += 1;
            }
        }
    }
    assert!(compared > 250, "{compared}");
}

#[test]
fn small_copies_take_what_explain_says() {
    for name in ["exxact-devbox", "h200x4-vm", "dgx-1v"] {
        let machine = system(name).unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let cells = measured(&machine, &quiet(&[]), &[Test::CopyLatency]);
        let mut answered = 0;
        for cell in cells.iter().filter(|c| c.quantity == peerlane_machine::matrix::Quantity::Latency) {
            let Work::SmallCopies(transfer) = &cell.work else { panic!("{:?}", cell.work) };
            let Some(value) = cell.value() else { continue };
            let transfer = resolve(&machine.fabric, transfer).unwrap();
            // the 16 bytes move, too
            near(value, model.small_copy(&transfer).unwrap().time.us(), 0.001);
            answered += 1;
        }
        assert!(answered >= 16, "{name}: {answered} of {}", cells.len());
    }
}
