//! Spin glasses whose updates take longer than their GPUs' memories and paths explain.

use super::prelude::*;
use peerlane_machine::spin_glass::SpinGlass;
use peerlane_measure::plan::Work;
use peerlane_measure::run::ends;
use peerlane_model::model::HalfSweep;

pub(super) const RULE: Rule = Rule { id: "spin-glass-slow", run: One(run) };

/// So many times the predicted time is slow: the worst of docs/applications.md is 9 % off.
const SLOW: f64 = 1.25;

struct Compared<'a> {
    lattice: &'a SpinGlass,
    words: String,
    predicted: HalfSweep,
    /// Picoseconds of an update.
    expected: f64,
    value: f64,
}

impl Compared<'_> {
    fn times(&self) -> f64 {
        self.value / self.expected
    }
}

fn run(view: &View) -> Option<Raised> {
    let all = view.case.run()?.cells.iter().filter_map(|cell| compared(view, cell));
    let slow: Vec<Compared> = all.filter(|lattice| lattice.times() > SLOW).collect();
    // of one GPU alone the cause is its own; several GPUs are as slow as that one
    let alone = slow.iter().filter(|s| s.lattice.gpus.len() == 1);
    let worst = highest(alone, |s| s.times()).or_else(|| highest(&slow, |s| s.times()))?;
    let Compared { lattice, words, predicted, expected, value } = worst;
    let one = lattice.gpus.len() == 1;
    // what the GPUs' memories move together
    let gb = |ps: f64| SpinGlass::UPDATE as f64 / ps * 1e3;
    let why = if one {
        "its memory moves 37 bytes an update".to_owned()
    } else {
        let share = predicted.exchange / predicted.total;
        format!("37 bytes an update, and {} of a half-sweep for the exchange", percent(share))
    };
    let raised = RULE
        .raise(Fault, Warning, Likely)
        .summary(format!("The spin glass on {words} takes {:.2} times as long as predicted", worst.times()))
        .expected(format!("{expected:.2} ps an update: {why}"))
        .measured(format!("{value:.2} ps"))
        .evidence(view.cite_run())
        .fix(if one {
            "Look at the GPU's clocks and throttle reasons (`nvidia-smi -q -d PERFORMANCE,CLOCK`) and compare its copies within \
             its own memory (`--tests local`) with the other GPUs'."
        } else {
            "Each GPU alone is as fast as predicted, so that the exchange is not: compare the pairs next to each other \
             (`--tests pairs,load-latency`), and other ways to exchange in the same table."
        })
        .confirm(confirm::pairs("spin-glass,local,pairs", &[]))
        .cost(Cost::of_rate(gb(*expected), gb(*value)))
        .about_nodes(lattice.gpus.iter().map(String::as_str))
        .losing(1.0 - 1.0 / worst.times());
    Some(raised)
}

/// Whether a lattice was measured whose time is predicted.
pub(super) fn is_comparable(view: &View) -> bool {
    view.case.run().is_some_and(|run| run.cells.iter().any(|cell| compared(view, cell).is_some()))
}

/// A lattice beside its prediction.
fn compared<'a>(view: &View, cell: &'a peerlane_measure::run::Cell) -> Option<Compared<'a>> {
    let Work::SpinGlass(lattice) = &cell.work else { return None };
    let value = cell.value()?;
    let predicted = view.model.spin_glass(lattice)?;
    let expected = predicted.total / (lattice.places() as f64 / 2.0) * 1e12;
    Some(Compared { lattice, words: ends(&cell.work), predicted, expected, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{measured, see_with};
    use peerlane_machine::exchange::Exchange;
    use peerlane_machine::matrix::{Quantity, Unit};
    use peerlane_measure::plan::Test;
    use peerlane_measure::run::Estimate;
    use peerlane_read::catalogue::{Parts, system};

    /// What is found where lattices take so many times the predicted time.
    fn found(times: &[(usize, f64)]) -> Option<Raised> {
        let machine = system("hgx-h200").unwrap().unwrap();
        let mut case = measured(machine, [(("GPU0", "GPU1"), Ok(394.0))]);
        let model = peerlane_model::model::Model::new(&case.machine, Parts::embedded());
        let cells = times.iter().map(|(gpus, times)| {
            let gpus = (0..*gpus).map(|i| format!("GPU{i}")).collect();
            let lattice =
                SpinGlass { gpus, blocks: None, side: 512, weak: false, exchange: Exchange::Stores, overlap: true };
            let value = times * model.spin_glass(&lattice).unwrap().total / (lattice.places() as f64 / 2.0) * 1e12;
            (lattice, value)
        });
        let cells: Vec<(SpinGlass, f64)> = cells.collect();
        let run = &mut case.run.as_mut().unwrap().run;
        for (lattice, value) in cells {
            let mut cell = run.cells[0].clone();
            (cell.test, cell.work) = (Test::SpinGlass, Work::SpinGlass(lattice));
            (cell.quantity, cell.unit) = (Quantity::UpdateTime, Unit::Picoseconds);
            cell.estimate = Some(Estimate { value, low: value, high: value });
            run.cells.push(cell);
        }
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
