//! Spin glasses whose updates take longer than their GPUs' memories and paths explain.

use super::prediction::{self, Compared};
use super::prelude::*;
use peerlane_machine::spin_glass::SpinGlass;
use peerlane_measure::plan::Work;
use peerlane_measure::run::{Cell, ends};
use peerlane_model::model::HalfSweep;

pub(super) const RULE: Rule = Rule::new("spin-glass-slow", One(run));

/// So many times the predicted time is slow: the worst of docs/applications.md is 9 % off.
const SLOW: f64 = 1.25;

fn run(view: &View) -> Option<Raised> {
    let worst = prediction::slowest(view, SLOW, |cell| compared(view, cell))?;
    let Compared { predicted, expected, value, .. } = &worst;
    // what the GPUs' memories move together
    let gb = |ps: f64| SpinGlass::UPDATE as f64 / ps * 1e3;
    let (why, fix) = if worst.gpus.len() == 1 {
        ("its memory moves 37 bytes an update".to_owned(), prediction::OF_ONE)
    } else {
        let share = percent(predicted.exchange / predicted.total);
        (
            format!("37 bytes an update, and {share} of a half-sweep for the exchange"),
            "Each GPU alone is as fast as predicted, so that the exchange is not: compare the pairs next to each other \
             (`--tests pairs,load-latency`), and other ways to exchange in the same table.",
        )
    };
    let raised = worst
        .raise(&RULE, view, "The spin glass on")
        .expected(format!("{expected:.2} ps an update: {why}"))
        .measured(format!("{value:.2} ps"))
        .fix(fix)
        .confirm(confirm::pairs("spin-glass,local,pairs", &[]))
        .cost(Cost::of_rate(gb(*expected), gb(*value)));
    Some(raised)
}

/// Whether a lattice was measured whose time is predicted.
pub(super) fn is_comparable(view: &View) -> bool {
    prediction::is_any(view, |cell| compared(view, cell))
}

/// Picoseconds of an update.
fn compared<'a>(view: &View, cell: &'a Cell) -> Option<Compared<'a, HalfSweep>> {
    let Work::SpinGlass(lattice) = &cell.work else { return None };
    let value = cell.value()?;
    let predicted = view.model.spin_glass(lattice)?;
    let expected = predicted.total / (lattice.places() as f64 / 2.0) * 1e12;
    let (gpus, words, times) = (&lattice.gpus, ends(&cell.work), value / expected);
    Some(Compared { gpus, words, predicted, expected, value, times })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{application, see_with};
    use peerlane_machine::exchange::Exchange;
    use peerlane_machine::matrix::{Quantity, Unit};
    use peerlane_measure::plan::Test;
    use peerlane_model::model::Model;
    use peerlane_read::catalogue::{Parts, system};

    /// What is found where lattices take so many times the predicted time.
    fn found(times: &[(usize, f64)]) -> Option<Raised> {
        let machine = system("hgx-h200").unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let cells = times.iter().map(|(gpus, times)| {
            let gpus = (0..*gpus).map(|i| format!("GPU{i}")).collect();
            let lattice =
                SpinGlass { gpus, blocks: None, side: 512, weak: false, exchange: Exchange::Stores, overlap: true };
            let value = times * model.spin_glass(&lattice).unwrap().total / (lattice.places() as f64 / 2.0) * 1e12;
            (Work::SpinGlass(lattice), value)
        });
        let cells: Vec<(Work, f64)> = cells.collect();
        let case = application(machine.clone(), (Test::SpinGlass, Quantity::UpdateTime, Unit::Picoseconds), cells);
        see_with(&case, Parts::embedded(), |view| super::run(view))
    }

    #[test]
    fn a_lattice_that_takes_longer_than_memory_and_paths_explain_is_found() {
        assert!(found(&[(1, 1.1), (2, 1.2)]).is_none());
        assert!(found(&[(1, 1.1), (2, 1.3)]).is_some());
        let both = found(&[(1, 1.3), (2, 1.6)]).unwrap();
        let text = &both.finding.summary;
        assert!(text.contains("The spin glass on GPU0, L = 512 takes 1.30 times"), "{text}");
        // of about 3,900 GB/s
        let cost = both.finding.cost.as_ref().unwrap();
        assert!((850.0..950.0).contains(&cost.lost) && (cost.share - 0.3 / 1.3).abs() < 1e-9, "{cost:?}");
    }
}
