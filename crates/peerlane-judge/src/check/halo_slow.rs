//! Halo exchanges that take longer than their paths explain.

use super::prediction::{self, Compared};
use super::prelude::*;
use peerlane_machine::exchange::Exchange;
use peerlane_machine::halo::Halo;
use peerlane_measure::plan::Work;
use peerlane_measure::run::{Cell, ends};

pub(super) const RULE: Rule = Rule::new("halo-slow", One(run));

/// So many times the predicted time is slow.
const SLOW: f64 = 1.5;

/// Seconds that an exchange must be predicted to take. In less, it shows how long words and launches take, which differs from machine to
/// machine more than rates do.
const LEAST: f64 = 100e-6;

fn run(view: &View) -> Option<Raised> {
    let worst = prediction::slowest(view, SLOW, |cell| compared(view, cell))?;
    let Compared { predicted: halo, expected, value, .. } = worst;
    // what each GPU sends
    let gb = |us: f64| halo.face.0 as f64 * halo.sides() as f64 / (us * 1e3);
    let (fix, tests) = match halo.exchange {
        Exchange::Staged => (
            "Compare the GPUs' copies with the host, all at once, too (`--tests host,all-host`), and other ways to exchange in the \
             same table.",
            "halo,host,all-host",
        ),
        Exchange::Stores | Exchange::Copies => (
            "Compare the pairs that exchange, also both ways at once (`--tests pairs,pairs-both`), and other ways to exchange in \
             the same table.",
            "halo,pairs,pairs-both",
        ),
    };
    let raised = worst
        .raise(&RULE, view, "The halo exchange of")
        .expected(format!("{expected:.0} us, by the rates of its paths while all faces are sent and what words take"))
        .measured(format!("{value:.0} us"))
        .fix(fix)
        .confirm(confirm::pairs(tests, &[]))
        .cost(Cost::of_rate(gb(expected), gb(value)));
    Some(raised)
}

/// Whether an exchange was measured whose time is predicted.
pub(super) fn is_comparable(view: &View) -> bool {
    prediction::is_any(view, |cell| compared(view, cell))
}

/// Microseconds of an exchange.
fn compared<'a>(view: &View, cell: &'a Cell) -> Option<Compared<'a, &'a Halo>> {
    let Work::Halo(halo) = &cell.work else { return None };
    let value = cell.value()?;
    let predicted = view.model.halo(halo)?.told(halo.face.0 as f64);
    let expected = predicted * 1e6;
    let (gpus, words, times) = (&halo.gpus, ends(&cell.work), value / expected);
    (predicted >= LEAST).then_some(Compared { gpus, words, predicted: halo, expected, value, times })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{application, see_with};
    use peerlane_machine::matrix::{Quantity, Unit};
    use peerlane_machine::units::Bytes;
    use peerlane_measure::plan::Test;
    use peerlane_model::model::Model;
    use peerlane_read::catalogue::{Parts, system};

    /// What is found where faces of so many bytes take so many times the predicted time, and whether that could be told.
    fn found(times: &[(usize, u64, f64)], exchange: Exchange) -> (Option<Raised>, bool) {
        let machine = system("hgx-h200").unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let cells: Vec<(Work, f64)> = times
            .iter()
            .map(|(count, face, times)| {
                let gpus = (0..*count).map(|i| format!("GPU{i}")).collect();
                let halo = Halo { gpus, parts: [*count as u32, 1, 1], face: Bytes(*face), exchange };
                let value = times * model.halo(&halo).unwrap().told(*face as f64) * 1e6;
                (Work::Halo(halo), value)
            })
            .collect();
        let case = application(machine.clone(), (Test::Halo, Quantity::ExchangeTime, Unit::Microseconds), cells);
        see_with(&case, Parts::embedded(), |view| (super::run(view), is_comparable(view)))
    }

    const LARGE: u64 = 64 << 20;

    #[test]
    fn an_exchange_that_takes_longer_than_its_paths_explain_is_found() {
        let (found_one, comparable) = found(&[(2, LARGE, 1.6), (4, LARGE, 2.0)], Exchange::Copies);
        let finding = found_one.unwrap().finding;
        assert!(comparable);
        let summary =
            "The halo exchange of GPU0, GPU1 as 2, copies, faces of 64 MiB takes 1.60 times as long as predicted";
        assert_eq!(finding.summary, summary);
        // of both faces of 64 MiB that a GPU sends in 1.6 times 360 us
        let cost = finding.cost.unwrap();
        assert!((cost.share - 0.375).abs() < 1e-9 && (130.0..145.0).contains(&cost.lost), "{cost:?}");
        assert!(finding.confirm.contains("--tests halo,pairs,pairs-both"), "{}", finding.confirm);
        let staged = found(&[(2, LARGE, 1.6)], Exchange::Staged).0.unwrap().finding;
        assert!(staged.confirm.contains("all-host"), "{}", staged.confirm);
    }

    #[test]
    fn an_exchange_as_predicted_and_one_of_small_faces_are_not() {
        let (none, comparable) = found(&[(2, LARGE, 1.4), (4, LARGE, 0.8)], Exchange::Stores);
        assert!(none.is_none() && comparable);
        // which take the time of words and launches
        let (none, comparable) = found(&[(2, 4096, 9.0), (2, 1 << 20, 2.0)], Exchange::Stores);
        assert!(none.is_none() && !comparable);
    }
}
