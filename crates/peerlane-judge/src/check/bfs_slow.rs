//! Breadth-first searches that take longer than their GPUs' memories and paths explain.

use super::prediction::{self, Compared};
use super::prelude::*;
use peerlane_machine::matrix::Unit;
use peerlane_measure::plan::Work;
use peerlane_measure::run::{Cell, ends};
use peerlane_model::model::SearchTime;

pub(super) const RULE: Rule = Rule::new("bfs-slow", One(run));

/// So many times the predicted time is slow: a search is predicted within 20 % (docs/applications.md).
const SLOW: f64 = 1.5;

fn run(view: &View) -> Option<Raised> {
    let worst = prediction::slowest(view, SLOW, |cell| compared(view, cell))?;
    let Compared { predicted, expected, value, .. } = &worst;
    let (why, fix) = if worst.gpus.len() == 1 {
        (String::new(), prediction::OF_ONE)
    } else {
        let share = percent(predicted.exchange / predicted.total);
        (
            format!(", with {share} of a search for the exchange of levels"),
            "Each GPU alone is as fast as predicted, so that the exchange is not: compare the pairs (`--tests pairs,load-latency`), \
             and other ways to exchange in the same table.",
        )
    };
    let raised = worst
        .raise(&RULE, view, "Breadth-first search on")
        .expected(format!("{expected:.0} GTEPS by the memory's rate{why}"))
        .measured(format!("{value:.0} GTEPS"))
        .fix(fix)
        .confirm(confirm::pairs("bfs,local,pairs", &[]))
        .cost(Cost::of(*expected, *value, Unit::Gteps));
    Some(raised)
}

/// Whether a search was measured whose time is predicted.
pub(super) fn is_comparable(view: &View) -> bool {
    prediction::is_any(view, |cell| compared(view, cell))
}

/// 10⁹ edges a second.
fn compared<'a>(view: &View, cell: &'a Cell) -> Option<Compared<'a, SearchTime>> {
    let Work::Bfs(search) = &cell.work else { return None };
    let value = cell.value()?;
    let predicted = view.model.bfs(search)?;
    let expected = search.edges() as f64 / predicted.total / 1e9;
    let (gpus, words, times) = (&search.gpus, ends(&cell.work), expected / value);
    Some(Compared { gpus, words, predicted, expected, value, times })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{application, see_with};
    use peerlane_machine::bfs::Bfs;
    use peerlane_machine::exchange::Exchange;
    use peerlane_machine::matrix::Quantity;
    use peerlane_measure::plan::Test;
    use peerlane_model::model::Model;
    use peerlane_read::catalogue::{Parts, system};

    /// What is found where searches take so many times the predicted time.
    fn found(times: &[(usize, f64)]) -> Option<Raised> {
        let machine = system("hgx-h200").unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let cells: Vec<(Work, f64)> = times
            .iter()
            .map(|(gpus, times)| {
                let gpus = (0..*gpus).map(|i| format!("GPU{i}")).collect();
                let search = Bfs { gpus, scale: 26, exchange: Exchange::Stores };
                let value = search.edges() as f64 / (times * model.bfs(&search).unwrap().total) / 1e9;
                (Work::Bfs(search), value)
            })
            .collect();
        let case = application(machine.clone(), (Test::Bfs, Quantity::EdgeRate, Unit::Gteps), cells);
        see_with(&case, Parts::embedded(), |view| super::run(view))
    }

    #[test]
    fn a_search_that_takes_longer_than_memory_and_paths_explain_is_found() {
        assert!(found(&[(1, 1.2), (2, 1.4)]).is_none());
        assert!(found(&[(1, 1.2), (2, 1.6)]).is_some());
        let both = found(&[(1, 1.6), (2, 1.9)]).unwrap();
        let text = &both.finding.summary;
        assert!(text.contains("Breadth-first search on GPU0, scale 26 takes 1.60 times"), "{text}");
    }
}
