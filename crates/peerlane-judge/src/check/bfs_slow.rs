//! Breadth-first searches that take longer than their GPUs' memories and paths explain.

use super::prelude::*;
use peerlane_machine::bfs::Bfs;
use peerlane_machine::matrix::Unit;
use peerlane_measure::plan::Work;
use peerlane_measure::run::{Cell, ends};
use peerlane_model::model::SearchTime;

pub(super) const RULE: Rule = Rule { id: "bfs-slow", run: One(run) };

/// So many times the predicted time is slow: a search is predicted within 20 % (docs/applications.md).
const SLOW: f64 = 1.5;

struct Compared<'a> {
    search: &'a Bfs,
    words: String,
    predicted: SearchTime,
    /// 10⁹ edges a second.
    expected: f64,
    value: f64,
}

impl Compared<'_> {
    fn times(&self) -> f64 {
        self.expected / self.value
    }
}

fn run(view: &View) -> Option<Raised> {
    let all = view.case.run()?.cells.iter().filter_map(|cell| compared(view, cell));
    let slow: Vec<Compared> = all.filter(|search| search.times() > SLOW).collect();
    // of one GPU alone the cause is its own; several GPUs are as slow as that one
    let alone = slow.iter().filter(|s| s.search.gpus.len() == 1);
    let worst = highest(alone, |s| s.times()).or_else(|| highest(&slow, |s| s.times()))?;
    let Compared { search, words, predicted, expected, value } = worst;
    let one = search.gpus.len() == 1;
    let share = percent(predicted.exchange / predicted.total);
    let why = if one { String::new() } else { format!(", with {share} of a search for the exchange of levels") };
    let raised = RULE
        .raise(Fault, Warning, Likely)
        .summary(format!("Breadth-first search on {words} takes {:.2} times as long as predicted", worst.times()))
        .expected(format!("{expected:.0} GTEPS by the memory's rate{why}"))
        .measured(format!("{value:.0} GTEPS"))
        .evidence(view.cite_run())
        .fix(if one {
            "Look at the GPU's clocks and throttle reasons (`nvidia-smi -q -d PERFORMANCE,CLOCK`) and compare its copies within \
             its own memory (`--tests local`) with the other GPUs'."
        } else {
            "Each GPU alone is as fast as predicted, so that the exchange is not: compare the pairs (`--tests pairs,load-latency`), \
             and other ways to exchange in the same table."
        })
        .confirm(confirm::pairs("bfs,local,pairs", &[]))
        .cost(Cost::of(*expected, *value, Unit::Gteps))
        .about_nodes(search.gpus.iter().map(String::as_str))
        .losing(1.0 - 1.0 / worst.times());
    Some(raised)
}

/// Whether a search was measured whose time is predicted.
pub(super) fn is_comparable(view: &View) -> bool {
    view.case.run().is_some_and(|run| run.cells.iter().any(|cell| compared(view, cell).is_some()))
}

/// A search beside its prediction.
fn compared<'a>(view: &View, cell: &'a Cell) -> Option<Compared<'a>> {
    let Work::Bfs(search) = &cell.work else { return None };
    let value = cell.value()?;
    let predicted = view.model.bfs(search)?;
    let expected = search.edges() as f64 / predicted.total / 1e9;
    Some(Compared { search, words: ends(&cell.work), predicted, expected, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{measured, see_with};
    use peerlane_machine::exchange::Exchange;
    use peerlane_machine::matrix::{Quantity, Unit};
    use peerlane_measure::plan::Test;
    use peerlane_measure::run::Estimate;
    use peerlane_model::model::Model;
    use peerlane_read::catalogue::{Parts, system};

    /// What is found where searches take so many times the predicted time.
    fn found(times: &[(usize, f64)]) -> Option<Raised> {
        let machine = system("hgx-h200").unwrap().unwrap();
        let mut case = measured(machine, [(("GPU0", "GPU1"), Ok(394.0))]);
        let model = Model::new(&case.machine, Parts::embedded());
        let cells: Vec<(Bfs, f64)> = times
            .iter()
            .map(|(gpus, times)| {
                let gpus = (0..*gpus).map(|i| format!("GPU{i}")).collect();
                let search = Bfs { gpus, scale: 26, exchange: Exchange::Stores };
                let value = search.edges() as f64 / (times * model.bfs(&search).unwrap().total) / 1e9;
                (search, value)
            })
            .collect();
        let run = &mut case.run.as_mut().unwrap().run;
        for (search, value) in cells {
            let mut cell = run.cells[0].clone();
            (cell.test, cell.work) = (Test::Bfs, Work::Bfs(search));
            (cell.quantity, cell.unit) = (Quantity::EdgeRate, Unit::Gteps);
            cell.estimate = Some(Estimate { value, low: value, high: value });
            run.cells.push(cell);
        }
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
