//! Applications that take longer than predicted: halo exchanges, spin glasses and breadth-first searches.

use super::prelude::*;
use peerlane_machine::exchange::Exchange;
use peerlane_machine::matrix::Unit;
use peerlane_machine::spin_glass::SpinGlass;
use peerlane_measure::kinds::Predicted;
use peerlane_measure::plan::{Test, Work};
use peerlane_measure::run::{Cell, ends};

pub(super) const HALO: Rule = Rule::new("halo-slow", One(|view| slowest(view, &HALO, &HALO_EXCHANGE)));
pub(super) const LATTICE: Rule = Rule::new("spin-glass-slow", One(|view| slowest(view, &LATTICE, &SPIN_GLASS)));
pub(super) const SEARCH: Rule = Rule::new("bfs-slow", One(|view| slowest(view, &SEARCH, &BREADTH_FIRST)));

/// What to do about one GPU that is slow alone.
const OF_ONE: &str = "Remove what throttles the GPU or lowers its clocks (`nvidia-smi -q -d \
     PERFORMANCE,CLOCK`). If nothing does, compare its copies within its own memory (`--tests local`) with the other \
     GPUs'.";

/// What is particular to an application.
struct Application {
    /// How what was judged is called.
    name: &'static str,
    /// The beginning of the summary.
    what: &'static str,
    test: Test,
    /// So many times the predicted time is slow.
    slow: f64,
    /// What must be predicted, in the measured unit: of less, a prediction is not certain enough.
    least: f64,
    words: fn(&Compared) -> Words,
}

/// The texts of a finding.
struct Words {
    expected: String,
    measured: String,
    fix: &'static str,
    tests: &'static str,
    cost: Option<Cost>,
}

/// An exchange that is predicted in less than 100 us shows how long words and launches take, which differs from machine to machine
/// more than rates do.
const HALO_EXCHANGE: Application = Application {
    name: "halo exchange",
    what: "The halo exchange of",
    test: Test::Halo,
    slow: 1.5,
    least: 100.0,
    words: halo,
};

/// The worst of docs/applications.md is 9 % off.
const SPIN_GLASS: Application = Application {
    name: "spin glass",
    what: "The spin glass on",
    test: Test::SpinGlass,
    slow: 1.25,
    least: 0.0,
    words: lattice,
};

/// A search is predicted within 20 % (docs/applications.md).
const BREADTH_FIRST: Application = Application {
    name: "breadth-first search",
    what: "Breadth-first search on",
    test: Test::Bfs,
    slow: 1.5,
    least: 0.0,
    words: search,
};

/// An application that was measured, with its prediction.
struct Compared<'a> {
    cell: &'a Cell,
    gpus: Vec<&'a str>,
    predicted: Predicted,
    value: f64,
    /// How many times as long it takes as predicted.
    times: f64,
}

/// All that were measured and are predicted.
fn compared<'a>(view: &'a View, of: &'a Application) -> impl Iterator<Item = Compared<'a>> {
    let cells = view.case.run().into_iter().flat_map(|run| &run.cells).filter(|cell| cell.test == of.test);
    cells.filter_map(|cell| {
        let (value, predicted) = (cell.value()?, cell.work.kind().predicted(view.model)?);
        let is_time = cell.unit.time(1.0).is_some();
        let times = if is_time { value / predicted.value } else { predicted.value / value };
        let gpus = cell.work.gpus();
        (predicted.value >= of.least).then_some(Compared { cell, gpus, predicted, value, times })
    })
}

/// The names of the applications that were measured and are predicted.
pub(super) fn comparable(view: &View) -> impl Iterator<Item = &'static str> {
    let all = [&HALO_EXCHANGE, &SPIN_GLASS, &BREADTH_FIRST].into_iter();
    all.filter(|of| compared(view, of).next().is_some()).map(|of| of.name)
}

/// The slowest of the fewest GPUs that take more than so many times as long as predicted: one GPU is the cause itself, and many are
/// as slow as the slowest path of a few.
fn slowest(view: &View, rule: &Rule, of: &Application) -> Option<Raised> {
    let slow: Vec<Compared> = compared(view, of).filter(|one| one.times > of.slow).collect();
    let fewest = slow.iter().map(|one| one.gpus.len()).min()?;
    let worst = highest(slow.into_iter().filter(|one| one.gpus.len() == fewest), |one| one.times)?;
    let Words { expected, measured, fix, tests, cost } = (of.words)(&worst);
    let Compared { cell, gpus, times, .. } = worst;
    let raised = rule
        .raise(Fault, Warning, Likely)
        .summary(format!("{} {} takes {times:.2} times as long as predicted", of.what, ends(&cell.work)))
        .expected(expected)
        .measured(measured)
        .evidence(view.cite_run())
        .fix(fix)
        .confirm(confirm::pairs(tests, &[]))
        .cost(cost)
        .about_nodes(gpus)
        .losing(1.0 - 1.0 / times);
    Some(raised)
}

fn halo(of: &Compared) -> Words {
    let (expected, value) = (of.predicted.value, of.value);
    // what each GPU sends
    let gb = |us: f64| match &of.cell.work {
        Work::Halo(halo) => halo.face.0 as f64 * halo.sides() as f64 / (us * 1e3),
        _ => f64::NAN,
    };
    let is_staged = matches!(&of.cell.work, Work::Halo(halo) if halo.exchange == Exchange::Staged);
    let (fix, tests) = if is_staged {
        (
            "Compare the GPUs' copies with the host, all at once, too (`--tests host,all-host`), and other ways to exchange in the \
             same table.",
            "halo,host,all-host",
        )
    } else {
        (
            "Compare the pairs that exchange, also both ways at once (`--tests pairs,pairs-both`), and other ways to exchange in \
             the same table.",
            "halo,pairs,pairs-both",
        )
    };
    Words {
        expected: format!("{expected:.0} us, by the rates of its paths while all faces are sent and what words take"),
        measured: format!("{value:.0} us"),
        fix,
        tests,
        cost: Cost::of_rate(gb(expected), gb(value)),
    }
}

fn lattice(of: &Compared) -> Words {
    let (expected, value) = (of.predicted.value, of.value);
    // what the GPUs' memories move together
    let gb = |ps: f64| SpinGlass::UPDATE as f64 / ps * 1e3;
    let (why, fix) = match of.exchange() {
        None => ("its memory moves 37 bytes an update".to_owned(), OF_ONE),
        Some(share) => (
            format!("37 bytes an update, and {share} of a half-sweep for the exchange"),
            "Each GPU alone is as fast as predicted, so that the exchange is not: compare the pairs next to each other \
             (`--tests pairs,load-latency`), and other ways to exchange in the same table.",
        ),
    };
    Words {
        expected: format!("{expected:.2} ps an update: {why}"),
        measured: format!("{value:.2} ps"),
        fix,
        tests: "spin-glass,local,pairs",
        cost: Cost::of_rate(gb(expected), gb(value)),
    }
}

fn search(of: &Compared) -> Words {
    let (expected, value) = (of.predicted.value, of.value);
    let (why, fix) = match of.exchange() {
        None => (String::new(), OF_ONE),
        Some(share) => (
            format!(", with {share} of a search for the exchange of levels"),
            "Each GPU alone is as fast as predicted, so that the exchange is not: compare the pairs (`--tests pairs,load-latency`), \
             and other ways to exchange in the same table.",
        ),
    };
    Words {
        expected: format!("{expected:.0} GTEPS by the memory's rate{why}"),
        measured: format!("{value:.0} GTEPS"),
        fix,
        tests: "bfs,local,pairs",
        cost: Cost::of(expected, value, Unit::Gteps),
    }
}

impl Compared<'_> {
    /// The share of the predicted time that several GPUs exchange something, in words.
    fn exchange(&self) -> Option<String> {
        self.predicted.exchange.filter(|_| self.gpus.len() > 1).map(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{application, see_with};
    use peerlane_machine::bfs::Bfs;
    use peerlane_machine::halo::Halo;
    use peerlane_machine::units::Bytes;
    use peerlane_model::model::Model;
    use peerlane_read::catalogue::{Parts, system};

    /// What a rule finds where works take so many times the predicted time, and whether they are comparable.
    fn found((rule, of): (&Rule, &Application), works: Vec<(Work, f64)>) -> (Option<Raised>, bool) {
        let machine = system("hgx-h200").unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let (quantity, unit) = works[0].0.kind().answers()[0];
        let measured = |(work, times): (Work, f64)| {
            let predicted = work.kind().predicted(&model).unwrap().value;
            (work, if unit == Unit::Gteps { predicted / times } else { predicted * times })
        };
        let cells = works.into_iter().map(measured).collect();
        let case = application(machine.clone(), (of.test, quantity, unit), cells);
        see_with(&case, Parts::embedded(), |view| {
            (slowest(view, rule, of), comparable(view).any(|name| name == of.name))
        })
    }

    fn gpus(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("GPU{i}")).collect()
    }

    fn halos(times: &[(usize, u64, f64)], exchange: Exchange) -> (Option<Raised>, bool) {
        let work = |&(count, face, times): &(usize, u64, f64)| {
            let parts = [count as u32, 1, 1];
            (Work::Halo(Halo { gpus: gpus(count), parts, face: Bytes(face), exchange }), times)
        };
        found((&HALO, &HALO_EXCHANGE), times.iter().map(work).collect())
    }

    const LARGE: u64 = 64 << 20;

    #[test]
    fn an_exchange_that_takes_longer_than_its_paths_explain_is_found() {
        let (found_one, comparable) = halos(&[(2, LARGE, 1.6), (4, LARGE, 2.0)], Exchange::Copies);
        let finding = found_one.unwrap().finding;
        assert!(comparable);
        let summary =
            "The halo exchange of GPU0, GPU1 as 2, copies, faces of 64 MiB takes 1.60 times as long as predicted";
        assert_eq!(finding.summary, summary);
        // of both faces of 64 MiB that a GPU sends in 1.6 times 360 us
        let cost = finding.cost.unwrap();
        assert!((cost.share - 0.375).abs() < 1e-9 && (130.0..145.0).contains(&cost.lost), "{cost:?}");
        assert!(finding.confirm.contains("--tests halo,pairs,pairs-both"), "{}", finding.confirm);
        let staged = halos(&[(2, LARGE, 1.6)], Exchange::Staged).0.unwrap().finding;
        assert!(staged.confirm.contains("all-host"), "{}", staged.confirm);
    }

    #[test]
    fn an_exchange_as_predicted_and_one_of_small_faces_are_not() {
        let (none, comparable) = halos(&[(2, LARGE, 1.4), (4, LARGE, 0.8)], Exchange::Stores);
        assert!(none.is_none() && comparable);
        // which take the time of words and launches
        let (none, comparable) = halos(&[(2, 4096, 9.0), (2, 1 << 20, 2.0)], Exchange::Stores);
        assert!(none.is_none() && !comparable);
    }

    #[test]
    fn a_lattice_that_takes_longer_than_memory_and_paths_explain_is_found() {
        let found = |times: &[(usize, f64)]| {
            let work = |&(count, times): &(usize, f64)| {
                let (exchange, gpus) = (Exchange::Stores, gpus(count));
                let lattice = SpinGlass { gpus, blocks: None, side: 512, weak: false, exchange, overlap: true };
                (Work::SpinGlass(lattice), times)
            };
            found((&LATTICE, &SPIN_GLASS), times.iter().map(work).collect()).0
        };
        assert!(found(&[(1, 1.1), (2, 1.2)]).is_none());
        assert!(found(&[(1, 1.1), (2, 1.3)]).is_some());
        let both = found(&[(1, 1.3), (2, 1.6)]).unwrap();
        let text = &both.finding.summary;
        assert!(text.contains("The spin glass on GPU0, L = 512 takes 1.30 times"), "{text}");
        // of about 3,900 GB/s
        let cost = both.finding.cost.as_ref().unwrap();
        assert!((850.0..950.0).contains(&cost.lost) && (cost.share - 0.3 / 1.3).abs() < 1e-9, "{cost:?}");
    }

    #[test]
    fn a_search_that_takes_longer_than_memory_and_paths_explain_is_found() {
        let found = |times: &[(usize, f64)]| {
            let work = |&(count, times): &(usize, f64)| {
                (Work::Bfs(Bfs { gpus: gpus(count), scale: 26, exchange: Exchange::Stores }), times)
            };
            found((&SEARCH, &BREADTH_FIRST), times.iter().map(work).collect()).0
        };
        assert!(found(&[(1, 1.2), (2, 1.4)]).is_none());
        assert!(found(&[(1, 1.2), (2, 1.6)]).is_some());
        let both = found(&[(1, 1.6), (2, 1.9)]).unwrap();
        let text = &both.finding.summary;
        assert!(text.contains("Breadth-first search on GPU0, scale 26 takes 1.60 times"), "{text}");
    }
}
