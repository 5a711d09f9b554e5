//! Applications that take longer than predicted: halo exchanges, spin glasses and breadth-first searches.
//!
//! A program sees more than one path, and a prediction of it leaves more out than one of a path. So an application that is slow is a
//! fault only where something else says so, too: a path or GPU of its own, the same on other GPUs, or a time that no
//! uncertainty of the prediction explains.

use super::prelude::*;
use peerlane_machine::exchange::Exchange;
use peerlane_machine::matrix::Unit;
use peerlane_machine::spin_glass::SpinGlass;
use peerlane_measure::kinds::Predicted;
use peerlane_measure::plan::{Test, Work};
use peerlane_measure::run::{Cell, ends};

pub(super) const HALO: Rule =
    Rule::new("halo-slow", Look::Left(|view, known| left(view, known, &HALO, &HALO_EXCHANGE)));
pub(super) const LATTICE: Rule =
    Rule::new("spin-glass-slow", Look::Left(|view, known| left(view, known, &LATTICE, &SPIN_GLASS)));
pub(super) const SEARCH: Rule =
    Rule::new("bfs-slow", Look::Left(|view, known| left(view, known, &SEARCH, &BREADTH_FIRST)));

/// So many times as long as an application takes at the most: no uncertainty explains that.
const FAR: f64 = 2.0;

/// So many others that did the same show what is usual.
const PEERS: usize = 2;

/// Predictions that differ less are of the same work.
const SAME: f64 = 0.01;

/// What to do about one GPU that is slow alone.
const OF_ONE: &str = "Remove what throttles the GPU or lowers its clocks (`nvidia-smi -q -d \
     PERFORMANCE,CLOCK`). If nothing does, compare its copies within its own memory (`--tests local`) with the other \
     GPUs'.";

/// What is particular to an application.
struct Application {
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
const HALO_EXCHANGE: Application =
    Application { what: "The halo exchange of", test: Test::Halo, slow: 1.5, least: 100.0, words: halo };

/// The worst of validation/applications.md is 9 % off.
const SPIN_GLASS: Application =
    Application { what: "The spin glass on", test: Test::SpinGlass, slow: 1.25, least: 0.0, words: lattice };

/// A search is predicted within 20 % (docs/applications.md).
const BREADTH_FIRST: Application =
    Application { what: "Breadth-first search on", test: Test::Bfs, slow: 1.5, least: 0.0, words: search };

/// An application that was measured, with its prediction.
struct Compared<'a> {
    cell: &'a Cell,
    gpus: Vec<&'a str>,
    predicted: Predicted,
    value: f64,
    /// How many times as long it takes as predicted.
    times: f64,
    /// How many times as long as it may at the most.
    beyond: f64,
}

/// All that were measured, and are predicted for a way that was measured before.
fn compared<'a>(view: &'a View, of: &'a Application) -> impl Iterator<Item = Compared<'a>> {
    let cells = view.case.run().into_iter().flat_map(|run| &run.cells).filter(|cell| cell.test == of.test);
    cells.filter_map(|cell| {
        let (value, predicted) = (cell.value()?, cell.work.kind().predicted(view.model)?);
        let is_time = cell.unit.time(1.0).is_some();
        let longer = |than: f64| if is_time { value / than } else { than / value };
        let (times, beyond) = (longer(predicted.value), longer(predicted.worst));
        let gpus = cell.work.gpus();
        let is_compared = predicted.is_confirmed && predicted.value >= of.least;
        is_compared.then_some(Compared { cell, gpus, predicted, value, times, beyond })
    })
}

fn left(view: &View, known: &[Raised], rule: &Rule, of: &Application) -> Vec<Raised> {
    slowest(view, known, rule, of).into_iter().collect()
}

/// The slowest of the fewest GPUs that take more than so many times as long as predicted, and longer than they may at the most: one GPU
/// is the cause itself, and many are as slow as the slowest path of a few.
fn slowest(view: &View, known: &[Raised], rule: &Rule, of: &Application) -> Option<Raised> {
    let all: Vec<Compared> = compared(view, of).collect();
    let slow: Vec<&Compared> = all.iter().filter(|one| one.times > of.slow && one.beyond > 1.0).collect();
    let fewest = slow.iter().map(|one| one.gpus.len()).min()?;
    let worst = highest(slow.into_iter().filter(|one| one.gpus.len() == fewest), |one| one.times)?;
    let supported = support(&all, worst, known, of);
    let certainty = if supported.is_some() { Likely } else { Possible };
    let Words { expected, measured, fix, tests, cost } = (of.words)(worst);
    let Compared { cell, gpus, times, .. } = worst;
    let raised = rule
        .raise(Fault, Warning, certainty)
        .summary(format!("{} {} takes {times:.2} times as long as predicted", of.what, ends(&cell.work)))
        .expected(expected)
        .measured(supported.map_or(measured.clone(), |why| format!("{measured}; {why}")))
        .evidence(view.cite_run())
        .fix(fix)
        .confirm(confirm::pairs(tests, &[]))
        .cost(cost)
        .about_nodes(gpus.iter().copied())
        .losing(1.0 - 1.0 / times);
    Some(raised)
}

/// What else says that it is slow, in words.
fn support(all: &[Compared], one: &Compared, known: &[Raised], of: &Application) -> Option<String> {
    if one.beyond > FAR {
        return Some(format!("{:.1} times as long as it may take at the most", one.beyond));
    }
    let is_of_its_own = |raised: &&Raised| {
        let finding = &raised.finding;
        finding.is_trouble() && !finding.subjects.is_empty() && raised.explains(&one.gpus)
    };
    if let Some(path) = known.iter().find(is_of_its_own) {
        return Some(format!("{} is about the same GPUs", path.finding.rule));
    }
    let is_peer = |other: &&Compared| {
        let [a, b] = [other, &one].map(|of| of.predicted.value);
        let same = other.cell.size == one.cell.size && other.gpus.len() == one.gpus.len() && (a / b - 1.0).abs() < SAME;
        same && other.gpus != one.gpus
    };
    let peers: Vec<f64> = all.iter().filter(is_peer).map(|peer| peer.times).collect();
    let usual = median(peers.iter().copied()).filter(|usual| peers.len() >= PEERS && one.times > of.slow * usual)?;
    Some(format!("{:.2} times as long as the same on other GPUs", one.times / usual))
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
        expected: format!(
            "{expected:.0} us, at most {:.0}, by the rates of its paths while all faces are sent and what words take",
            of.predicted.worst
        ),
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
    use crate::verdict::Verdict;
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
        see_with(&case, Parts::embedded(), |view| (slowest(view, &[], rule, of), compared(view, of).next().is_some()))
    }

    fn verdict(raised: &Raised) -> Option<Verdict> {
        raised.finding.contributes()
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
        // of both faces of 64 MiB that a GPU sends in 1.6 times 403 us
        let cost = finding.cost.unwrap();
        assert!((cost.share - 0.375).abs() < 1e-9 && (115.0..135.0).contains(&cost.lost), "{cost:?}");
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
    fn an_application_is_a_fault_only_where_something_else_says_so() {
        let of = |times: &[(usize, u64, f64)], exchange| verdict(&halos(times, exchange).0.unwrap());
        assert_eq!(of(&[(2, LARGE, 1.6)], Exchange::Stores), Some(Verdict::Unexplained));
        assert_eq!(of(&[(2, LARGE, 2.1)], Exchange::Stores), Some(Verdict::Fault), "twice what it may take");
        // copies lose pieces of their time, and host memory may give four GPUs 0.6 of what is predicted
        assert_eq!(of(&[(2, LARGE, 2.1)], Exchange::Copies), Some(Verdict::Unexplained));
        assert!(halos(&[(4, LARGE, 1.6)], Exchange::Staged).0.is_none());
        assert_eq!(of(&[(4, LARGE, 2.0)], Exchange::Staged), Some(Verdict::Unexplained));
        assert_eq!(of(&[(4, LARGE, 3.5)], Exchange::Staged), Some(Verdict::Fault));
    }

    #[test]
    fn a_gpu_that_is_slower_than_others_at_the_same_is_a_fault() {
        let lattice = |gpu: usize, times| {
            let gpus = vec![format!("GPU{gpu}")];
            let lattice =
                SpinGlass { gpus, blocks: None, side: 512, weak: false, exchange: Exchange::Stores, overlap: false };
            (Work::SpinGlass(lattice), times)
        };
        let of = |times: &[f64]| {
            let works = times.iter().enumerate().map(|(gpu, times)| lattice(gpu, *times)).collect();
            verdict(&found((&LATTICE, &SPIN_GLASS), works).0.unwrap())
        };
        assert_eq!(of(&[1.0, 1.0, 1.4, 1.0]), Some(Verdict::Fault));
        assert_eq!(of(&[1.4]), Some(Verdict::Unexplained));
        assert_eq!(of(&[1.4, 1.4, 1.4, 1.4]), Some(Verdict::Unexplained), "all alike: the prediction may be off");
    }

    #[test]
    fn ways_that_were_never_measured_are_not_compared() {
        let of = |parts: [u32; 3], exchange| {
            let count = parts.iter().product::<u32>() as usize;
            let halo = Halo { gpus: gpus(count), parts, face: Bytes(LARGE), exchange };
            found((&HALO, &HALO_EXCHANGE), vec![(Work::Halo(halo), 9.0)]).1
        };
        for exchange in Exchange::ALL {
            assert!(of([8, 1, 1], exchange) && of([2, 2, 1], exchange));
            assert!(!of([2, 2, 2], exchange) && !of([4, 2, 1], exchange), "six faces, or three neighbours");
        }
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
