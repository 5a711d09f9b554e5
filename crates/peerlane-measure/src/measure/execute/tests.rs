mod mock;

use proptest::prelude::*;

use self::mock::Mock;
use super::*;
use crate::plan::{Method, Size, Test};
use crate::run::Cell;
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::transfer::{Collective, Transfer};
use peerlane_machine::units::Bytes;

fn step(test: Test, work: Work) -> Step {
    Step { test, work, size: Size::UpTo(Bytes::from_mib(1)) }
}

fn copy(source: &str, destination: &str) -> Step {
    step(Test::Pairs, Work::Transfers(vec![Transfer::new(source, destination)]))
}

fn plan(rounds: Vec<Vec<Step>>) -> Plan {
    Plan { method: Method::default(), rounds, skipped: Vec::new() }
}

/// Two rounds of two copies that have nothing in common.
fn two_rounds() -> Plan {
    plan(vec![vec![copy("GPU0", "GPU1"), copy("GPU2", "GPU3")], vec![copy("GPU1", "GPU0"), copy("GPU3", "GPU2")]])
}

fn failure(kind: FlagKind, fatal: bool) -> Failure {
    Failure { kind, message: "no such path".to_owned(), fatal }
}

fn kinds(cell: &Cell) -> Vec<FlagKind> {
    cell.flags.iter().map(|f| f.kind).collect()
}

#[test]
fn rounds_in_order_each_told_as_it_is_answered() {
    let plan = plan(vec![vec![copy("GPU0", "GPU1")], vec![copy("GPU1", "GPU0")]]);
    let mut mock = Mock::new(|ask| if ask.is_from("GPU0") { 300e9 } else { 200e9 });
    let (cells, events, result) = mock.run(&plan, &[]);
    assert!(result.is_ok());
    let expected = ["states", "started 0", "cells of [0]", "started 1", "cells of [1]", "states", "finished"];
    assert_eq!(events, expected);
    let values: Vec<_> = cells.iter().map(|c| (c.value(), c.unit, c.n, c.flags.len())).collect();
    let gb = Unit::GigabytesPerSecond;
    assert_eq!(values, [(Some(300.0), gb, 6, 0), (Some(200.0), gb, 6, 0)]);
    assert_eq!(cells[0].size, Bytes(1 << 20));
    // four batches of two to see that nothing changes, then six
    assert_eq!((mock.log.as_slice(), mock.released, mock.nth), (&[1, 1][..], 2, 28));
}

#[test]
fn what_is_done_is_not_done_again() {
    let mut mock = Mock::new(|_| 1e9);
    let (cells, events, _) = mock.run(&two_rounds(), &[0, 1, 2]);
    assert_eq!(cells.iter().map(|c| c.step).collect::<Vec<_>>(), [3]);
    assert_eq!(events[1], "started 1");
    assert_eq!((mock.log.as_slice(), cells[0].flags.len()), (&[1][..], 0), "alone, and so with nothing to control");
}

#[test]
fn warming_up_does_not_show() {
    let one = plan(vec![vec![copy("GPU0", "GPU1")]]);
    let mut cold = Mock::new(|ask| 1e9 * (100.0 - 50.0 * 0.5_f64.powi(ask.sample as i32)));
    let (cells, ..) = cold.run(&one, &[]);
    assert!((cells[0].value().unwrap() - 100.0).abs() < 0.5 && cells[0].flags.is_empty(), "{:?}", cells[0]);
    // what never settles is said to drift
    let mut endless = Mock::new(|ask| 1e9 * (100.0 + ask.sample as f64));
    let (cells, ..) = endless.run(&one, &[]);
    assert!(cells[0].flag(FlagKind::Drift).is_some_and(|f| f.detail.starts_with("samples rise by")));
    assert!(cells[0].flag(FlagKind::Imprecise).is_some());
}

#[test]
fn noise_is_sampled_until_the_interval_is_narrow() {
    let one = |method| Plan { method, ..plan(vec![vec![copy("GPU0", "GPU1")]]) };
    let noisy = |share: f64| Mock::new(move |ask| 1e11 * (1.0 + share * ask.noise()));
    let (cells, ..) = noisy(0.02).run(&one(Method::default()), &[]);
    let width = |cell: &Cell| {
        let e = cell.estimate.unwrap();
        (e.high - e.value).max(e.value - e.low) / e.value
    };
    assert!(cells[0].n > 6 && cells[0].n < 60 && width(&cells[0]) <= 0.01, "{} {}", cells[0].n, width(&cells[0]));
    assert!(cells[0].flag(FlagKind::Imprecise).is_none());
    let (cells, ..) = noisy(0.3).run(&one(Method::default()), &[]);
    assert_eq!(cells[0].n, 60);
    let detail = &cells[0].flag(FlagKind::Imprecise).unwrap().detail;
    assert!(detail.ends_with("%; 1.0 % was requested"), "{detail}");
    let (cells, ..) = noisy(0.3).run(&one(Method { precision: 0.5, ..Method::default() }), &[]);
    assert_eq!((cells[0].n, cells[0].flags.len()), (6, 0));
}

#[test]
fn to_stop_when_it_looks_narrow_costs_little_truth() {
    let rounds = (0..3000).map(|i| vec![copy(&format!("GPU{i}"), "host")]).collect();
    let method = Method { budget: Seconds::new(1e6), ..Method::default() };
    // exponential noise around a median of 100
    let mut mock = Mock::new(|ask| 1e11 * (1.0 + 0.02 * (-ask.noise().midpoint(1.0).ln() - std::f64::consts::LN_2)));
    let (cells, ..) = mock.run(&Plan { method, ..plan(rounds) }, &[]);
    let held = cells.iter().filter_map(|c| c.estimate).filter(|e| e.low <= 100.0 && 100.0 <= e.high).count();
    assert!(held > 3000 * 92 / 100, "{held} of 3000");
}

#[test]
fn the_budget_is_shared_and_kept() {
    let rounds = (0..50).map(|i| vec![copy(&format!("GPU{i}"), "host")]).collect();
    let of = |budget| Plan { method: Method { budget: Seconds::new(budget), ..Method::default() }, ..plan(rounds) };
    let asked = of(2.0);
    // half of the steps are sure at once, and leave their time to the others
    let mut mock = Mock::new(|ask| {
        let Work::Transfers(t) = &ask.step.work else { return 1.0 };
        let odd = t[0].source.ends_with(['1', '3', '5', '7', '9']);
        1e11 * (1.0 + if odd { 0.5 * ask.noise() } else { 0.0 })
    });
    let (cells, events, _) = mock.run(&asked, &[]);
    assert_eq!(cells.len(), 50);
    assert!(mock.clock - 5.0 < 2.0, "{}", mock.clock - 5.0);
    assert!(cells.iter().skip(1).step_by(2).all(|c| c.n > 30), "each had more than a 50th");
    // too dear: still the least for each, and then an end
    mock.cost = 0.02;
    mock.clock = 0.0;
    let (cells, again, result) = mock.run(&asked, &[]);
    assert!(result.is_ok() && again.last().is_some_and(|e| e == "finished") && events.len() > again.len());
    assert!(cells.len() > 10 && cells.len() < 50, "{}", cells.len());
    assert!(cells.iter().all(|c| c.n >= 6) && mock.clock < 2.0 * 2.0 + 0.5, "{}", mock.clock);
}

#[test]
fn steps_at_once_are_controlled_once() {
    let mut mock = Mock::new(|_| 300e9);
    let (cells, events, _) = mock.run(&two_rounds(), &[]);
    // two alone, both, and in the second round both
    assert_eq!(mock.log, [1, 1, 2, 2]);
    assert_eq!(cells.iter().map(|c| c.step).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(cells.iter().all(|c| kinds(c) == [FlagKind::Beside]));
    assert_eq!(cells[3].flags[0].detail, "at the same time as GPU1 → GPU0");
    assert_eq!(events[2], "cells of [0, 1]");
}

#[test]
fn steps_that_disturb_each_other_run_alone() {
    let mut mock = Mock::new(|ask| if ask.company > 1 && ask.is_from("GPU2") { 150e9 } else { 300e9 });
    let (cells, ..) = mock.run(&two_rounds(), &[]);
    assert_eq!(mock.log, [1, 1, 2, 1, 1, 1, 1]);
    assert!(cells.iter().all(|c| c.value() == Some(300.0) && kinds(c) == [FlagKind::Alone]));
    assert_eq!(cells[3].flags[0].detail, "run at once they disturb each other: GPU2 → GPU3 changed by -50.0 %");
}

#[test]
fn a_step_that_fails_says_so_and_the_others_go_on() {
    let plan = two_rounds();
    let mut mock = Mock::new(|_| 1e9);
    mock.refuse = Box::new(|steps| {
        let bad = steps.iter().any(|s| **s == copy("GPU3", "GPU2"));
        bad.then(|| failure(FlagKind::NotApplicable, false))
    });
    let (cells, _, result) = mock.run(&plan, &[]);
    assert!(result.is_ok());
    // the round that fails is tried again one by one
    assert_eq!(mock.log, [1, 1, 2, 2, 1, 1]);
    assert_eq!(cells.iter().map(Cell::value).collect::<Vec<_>>(), [Some(1.0), Some(1.0), Some(1.0), None]);
    assert_eq!(cells[2].flags[0].detail, "together with others it failed: no such path");
    assert_eq!((kinds(&cells[3]), cells[3].n), (vec![FlagKind::NotApplicable], 0));
    assert_eq!(cells[3].size, Bytes::from_mib(1));
    assert_eq!(mock.released, mock.log.len(), "also what failed is given back");
}

#[test]
fn a_step_that_fails_in_its_control_leaves_the_other_alone() {
    let mut mock = Mock::new(|_| 1e9);
    mock.refuse = Box::new(|steps| (*steps[0] == copy("GPU0", "GPU1")).then(|| failure(FlagKind::Failed, false)));
    let (cells, ..) = mock.run(&two_rounds(), &[]);
    assert_eq!(
        cells.iter().map(|c| (c.step, c.value().is_some())).collect::<Vec<_>>(),
        [(0, false), (1, true), (2, true), (3, true)]
    );
    // the second round has the control that the first could not have
    assert_eq!(mock.log, [1, 1, 1, 1, 1, 2]);
}

#[test]
fn a_spoilt_executor_ends_the_run_with_its_cells_told() {
    let mut mock = Mock::new(|_| 1e9);
    mock.refuse = Box::new(|steps| {
        let bad = steps.iter().any(|s| **s == copy("GPU3", "GPU2"));
        bad.then(|| failure(FlagKind::Hung, true))
    });
    let (cells, events, result) = mock.run(&two_rounds(), &[]);
    assert!(result.unwrap_err().fatal);
    assert_eq!(events.last().unwrap(), "cells of [2, 3]");
    assert_eq!(cells.iter().map(Cell::value).collect::<Vec<_>>(), [Some(1.0), Some(1.0), None, None]);
    // a new executor goes on where nothing is left to do
    let (cells, events, _) = Mock::new(|_| 1e9).run(&two_rounds(), &[0, 1, 2, 3]);
    assert_eq!((cells.len(), events.as_slice()), (0, &["states", "states", "finished"].map(str::to_owned)[..]));
}

#[test]
fn corruption_voids_its_step_and_no_other() {
    let mut mock = Mock::new(|_| 1e9);
    mock.verdict = Box::new(|step, _| match &step.work {
        Work::Transfers(t) if t[0].source == "GPU1" => Verdict::Corrupt("word 7 differs".to_owned()),
        Work::Transfers(t) if t[0].source == "GPU2" => Verdict::Unverified("no kernel loads".to_owned()),
        _ => Verdict::Intact,
    });
    let (cells, ..) = mock.run(&two_rounds(), &[]);
    assert_eq!(cells.iter().map(Cell::value).collect::<Vec<_>>(), [Some(1.0), Some(1.0), None, Some(1.0)]);
    assert_eq!(cells[2].flag(FlagKind::Corrupt).unwrap().detail, "word 7 differs");
    assert!(cells[2].estimate.is_some(), "what was measured is kept");
    assert_eq!(cells[1].flag(FlagKind::Unverified).unwrap().detail, "no kernel loads");
}

#[test]
fn corruption_that_only_a_control_sees_is_not_lost() {
    let seen = std::cell::Cell::new(0);
    let mut mock = Mock::new(|_| 1e9);
    mock.verdict = Box::new(|_, _| {
        seen.set(seen.get() + 1);
        if seen.get() == 1 { Verdict::Corrupt("once".to_owned()) } else { Verdict::Intact }
    });
    let (cells, ..) = mock.run(&two_rounds(), &[]);
    assert_eq!(cells.iter().map(|c| c.value().is_some()).collect::<Vec<_>>(), [false, true, true, true]);
}

#[test]
fn several_transfers_are_summed_and_allocated_anew() {
    let both = Work::Transfers(vec![Transfer::new("GPU0", "host"), Transfer::new("host", "GPU0")]);
    let plan = plan(vec![vec![step(Test::HostBoth, both)]]);
    let mut mock = Mock::new(|ask| {
        let level = [30e9, 20e9, 33e9][ask.allocation];
        level * (1.0 + 1e-3 * ask.noise()) + 10e9 * ask.number as f64
    });
    mock.verdict = Box::new(|_, allocation| match allocation {
        1 => Verdict::Corrupt("of the second".to_owned()),
        _ => Verdict::Intact,
    });
    let (cells, ..) = mock.run(&plan, &[]);
    let cell = &cells[0];
    assert_eq!((cells.len(), mock.log.as_slice(), cell.n, cell.samples.len()), (1, &[1, 1, 1][..], 18, 18));
    let e = cell.estimate.unwrap();
    assert!((e.value - 70.0).abs() < 0.1 && (e.low - 50.0).abs() < 0.1 && (e.high - 76.0).abs() < 0.1, "{e:?}");
    assert_eq!(cell.each.len(), 2);
    assert!((cell.each[0].value - 30.0).abs() < 0.1 && (cell.each[1].value - 40.0).abs() < 0.1);
    assert_eq!(cell.modes.len(), 3);
    assert_eq!(kinds(cell), [FlagKind::Corrupt, FlagKind::Modes, FlagKind::Imprecise]);
}

#[test]
fn each_work_has_its_quantities_in_its_units() {
    let gpus: Vec<String> = (0..4).map(|i| format!("GPU{i}")).collect();
    let loads = Work::Loads { gpu: "GPU0".to_owned(), memory: "host".to_owned() };
    let signals = Work::Signals { a: "GPU0".to_owned(), b: "GPU1".to_owned() };
    let reduce = Work::Collective { operation: Collective::AllReduce, gpus };
    let plan = plan(vec![
        vec![step(Test::LoadLatency, loads)],
        vec![step(Test::SignalLatency, signals)],
        vec![step(Test::CopyLatency, Work::SmallCopies(Transfer::new("GPU0", "GPU1")))],
        vec![step(Test::Collectives, reduce)],
    ]);
    let mut mock = Mock::new(|ask| match &ask.step.work {
        Work::Loads { .. } => 827e-9,
        Work::Signals { .. } => 1.5e-6,
        Work::SmallCopies(_) => [2.5e-6, 0.0][ask.number],
        _ => 1e-5,
    });
    mock.verdict = Box::new(|_, _| Verdict::Unverified("no content".to_owned()));
    let (cells, ..) = mock.run(&plan, &[]);
    let told: Vec<_> = cells.iter().map(|c| (c.step, c.quantity, c.unit, c.value().unwrap())).collect();
    let (us, ns) = (Unit::Microseconds, Unit::Nanoseconds);
    let expected = [
        (0, Quantity::LoadLatency, ns, 827.0),
        (1, Quantity::SignalLatency, us, 1.5),
        (2, Quantity::Latency, us, 2.5),
        (2, Quantity::EnqueueLatency, us, 0.0),
        // 1 MiB, 3/2 of it over the bus, in 10 µs
        (3, Quantity::BusBandwidth, Unit::GigabytesPerSecond, 157.2864),
        (3, Quantity::Latency, us, 10.0),
    ];
    for (told, expected) in told.iter().zip(expected) {
        assert_eq!((told.0, told.1, told.2), (expected.0, expected.1, expected.2));
        assert!((told.3 - expected.3).abs() < 1e-9 * expected.3.max(1.0), "{told:?}");
    }
    assert_eq!(told.len(), expected.len());
    let unverified: Vec<bool> = cells.iter().map(|c| c.flag(FlagKind::Unverified).is_some()).collect();
    assert_eq!(unverified, [false, false, true, true, true, true], "loads and signals have no content");
}

#[test]
fn a_gpu_that_is_held_back_or_used_is_named_on_its_cells() {
    let state = |gpu: &str| GpuState { gpu: gpu.to_owned(), ..GpuState::default() };
    let hot = GpuState { clock_event_reasons: vec!["thermal slowdown".to_owned()], ..state("GPU0") };
    let busy = GpuState { processes: Some(1), ..state("GPU2") };
    let rounds = vec![vec![copy("GPU0", "GPU1")], vec![copy("GPU2", "GPU1")], vec![copy("GPU3", "GPU1")]];
    let mut mock = Mock::new(|_| 1e9);
    mock.states = vec![hot, state("GPU1"), busy, GpuState { processes: Some(0), ..state("GPU3") }];
    mock.cost = 0.1;
    let (cells, ..) = mock.run(&plan(rounds), &[]);
    let details: Vec<Vec<String>> = cells.iter().map(|c| c.flags.iter().map(ToString::to_string).collect()).collect();
    let expected = [
        vec!["GPU0 held its clocks down: thermal slowdown".to_owned()],
        vec!["another program used GPU2".to_owned()],
        vec![],
    ];
    assert_eq!(details, expected);
    assert_eq!(mock.looks, 5, "before, after and in each long round");
}

#[test]
fn odd_samples_are_told_with_the_number() {
    let one = plan(vec![vec![copy("GPU0", "GPU1")]]);
    let (cells, ..) = Mock::new(|ask| if ask.sample == 9 { 50e9 } else { 100e9 + 1e8 * ask.noise() }).run(&one, &[]);
    assert_eq!(cells[0].flags[0].detail, "1 of 9 samples lie far off, at most at 50.00 GB/s");
    let near = Mock::new(|ask| if ask.sample == 9 { 98e9 } else { 100e9 + 1e8 * ask.noise() }).run(&one, &[]).0;
    assert_eq!(near[0].flags, [], "no farther than three times the precision");
    // what enqueueing costs is judged, too, and more samples are taken until it is narrow
    let wide = Mock::new(|ask| if ask.number == 1 && ask.sample == 8 { 1.2e-6 } else { 1e-6 })
        .run(&plan(vec![vec![step(Test::CopyLatency, Work::SmallCopies(Transfer::new("GPU0", "GPU1")))]]), &[])
        .0;
    assert_eq!(wide[1].flags.iter().map(|f| f.kind).collect::<Vec<_>>(), [FlagKind::Outliers]);
    assert!(wide[1].n > 3 * 6, "{} samples of three allocations", wide[1].n);
    let two = Mock::new(|ask| [100e9, 130e9][ask.sample % 2] + 1e8 * ask.noise()).run(&one, &[]).0;
    assert_eq!(two[0].modes.len(), 2);
    assert!(two[0].flag(FlagKind::Modes).unwrap().detail.starts_with("samples fall into groups around"));
}

#[test]
fn an_executor_that_breaks_its_promises_fails_its_step_alone() {
    for bad in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        let rounds = vec![vec![copy("GPU0", "GPU1")], vec![copy("GPU2", "GPU1")]];
        let mut mock = Mock::new(move |ask| if ask.is_from("GPU0") { bad } else { 1e9 });
        let (cells, _, result) = mock.run(&plan(rounds), &[]);
        assert!(result.is_ok());
        assert_eq!(kinds(&cells[0]), [FlagKind::Implausible]);
        assert!(cells[0].flags[0].detail.contains("which no time or rate can be"));
        assert_eq!(cells[1].value(), Some(1.0));
    }
}

proptest! {
    #[test]
    fn whatever_the_samples_every_step_is_answered_once(
        values in prop::collection::vec(1e-12..1e12_f64, 1..40),
        failing in any::<u8>(),
        precision in 0.0..0.1,
        sizes in prop::collection::vec(1usize..5, 1..5),
    ) {
        let rounds: Vec<Vec<Step>> = sizes
            .iter()
            .map(|n| (0..*n).map(|i| copy(&format!("GPU{}", 2 * i), &format!("GPU{}", 2 * i + 1))).collect())
            .collect();
        let plan = Plan { method: Method { precision, ..Method::default() }, ..plan(rounds) };
        let mut mock = Mock::new(|ask| values[(ask.nth % values.len() as u64) as usize]);
        mock.refuse = Box::new(move |steps| {
            let bad = steps.len() == usize::from(failing % 5);
            bad.then(|| failure(FlagKind::Failed, false))
        });
        let (cells, _, result) = mock.run(&plan, &[]);
        prop_assert!(result.is_ok());
        let mut told: Vec<usize> = cells.iter().map(|c| c.step).collect();
        told.sort_unstable();
        prop_assert_eq!(told, (0..plan.steps().count()).collect::<Vec<_>>());
        prop_assert!(cells.iter().all(|c| c.estimate.is_some() || c.flags.iter().any(|f| f.kind.voids())));
    }
}
