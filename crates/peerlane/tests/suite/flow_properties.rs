//! The flow engine against a reference that does everything anew at every event, on random networks.

use peerlane::simulate::flows::Flows;
use peerlane::solve::incremental::Solver;
use peerlane::solve::{Flow, share};
use proptest::prelude::*;

const CLOSE: f64 = 1e-9;

/// A flow of a problem: the class it is of, when it starts, its bytes.
type Start = (usize, f64, f64);

/// Capacities, classes, and flows.
#[derive(Clone, Debug)]
struct Problem {
    capacities: Vec<f64>,
    classes: Vec<Flow>,
    starts: Vec<Start>,
}

/// `unit`: consumption and weights of 1, as on a plain network, where ties are many.
fn problem(unit: bool) -> impl Strategy<Value = Problem> {
    let capacity =
        move || if unit { prop_oneof![Just(1.0), Just(2.0), Just(10.0)].boxed() } else { (0.1..100.0).boxed() };
    prop::collection::vec(capacity(), 1..12).prop_flat_map(move |capacities| {
        let n = capacities.len();
        let one = |range: std::ops::Range<f64>| if unit { Just(1.0).boxed() } else { range.boxed() };
        let cap = prop_oneof![3 => Just(f64::INFINITY), 1 => 0.01..20.0];
        let uses = prop::collection::vec((0..n, one(0.1..4.0)), 1..5);
        let class = (uses, one(0.1..8.0), cap).prop_map(|(uses, weight, cap)| Flow { uses, weight, cap });
        let class = class.prop_map(move |mut flow| {
            // the same resource twice makes a consumption of 2
            if unit {
                flow.uses.sort_by_key(|u| u.0);
                flow.uses.dedup_by_key(|u| u.0);
            }
            flow
        });
        prop::collection::vec(class, 1..25).prop_flat_map(move |classes| {
            let moment = prop_oneof![2 => Just(0.0), 1 => (0u32..4).prop_map(f64::from), 2 => 0.0..5.0];
            let bytes = prop_oneof![1 => Just(0.0), 2 => (1u32..5).prop_map(f64::from), 4 => 0.01..30.0];
            let start = (0..classes.len(), moment, bytes);
            let (capacities, classes) = (capacities.clone(), classes.clone());
            prop::collection::vec(start, 1..40).prop_map(move |starts| Problem {
                capacities: capacities.clone(),
                classes: classes.clone(),
                starts,
            })
        })
    })
}

/// When each flow ends: all rates anew from [`share`] at every start and end, every flow's bytes moved by hand.
fn reference(problem: &Problem) -> Vec<f64> {
    let Problem { capacities, classes, starts } = problem;
    let mut ends = vec![f64::NAN; starts.len()];
    let mut left: Vec<f64> = starts.iter().map(|s| s.2).collect();
    let mut order: Vec<usize> = (0..starts.len()).collect();
    order.sort_by(|a, b| starts[*a].1.total_cmp(&starts[*b].1));
    let mut waiting = order.into_iter().peekable();
    let mut active: Vec<usize> = Vec::new();
    let mut now = 0.0;
    loop {
        while let Some(i) = waiting.next_if(|i| starts[*i].1 <= now) {
            active.push(i);
        }
        let flows: Vec<Flow> = active.iter().map(|i| classes[starts[*i].0].clone()).collect();
        let rates = share(capacities, &flows).unwrap().rates;
        let span = |i: usize, rate: f64| if left[i] == 0.0 { 0.0 } else { left[i] / rate };
        let first = active.iter().zip(&rates).map(|(i, r)| now + span(*i, *r)).fold(f64::INFINITY, f64::min);
        let next = waiting.peek().map_or(first, |i| first.min(starts[*i].1));
        if next.is_infinite() {
            return ends;
        }
        let close = next + 1e-12 * next;
        let due: Vec<bool> = active.iter().zip(&rates).map(|(i, r)| now + span(*i, *r) <= close).collect();
        for ((i, rate), due) in active.iter().zip(&rates).zip(&due) {
            left[*i] -= rate * (next - now);
            if *due {
                ends[*i] = next;
            }
        }
        now = next;
        active.retain(|i| ends[*i].is_nan());
    }
}

/// The same by the engine; after every event the certificate is asked for.
fn engine(problem: &Problem) -> Vec<f64> {
    let Problem { capacities, classes, starts } = problem;
    let mut flows = Flows::new(capacities).unwrap();
    let ids: Vec<u32> = classes
        .iter()
        .map(|c| {
            let uses: Vec<(u32, f64)> = c.uses.iter().map(|(r, k)| (*r as u32, *k)).collect();
            flows.class(&uses, c.weight, c.cap).unwrap()
        })
        .collect();
    let mut order: Vec<usize> = (0..starts.len()).collect();
    order.sort_by(|a, b| starts[*a].1.total_cmp(&starts[*b].1));
    let mut waiting = order.into_iter().peekable();
    let mut ends = vec![f64::NAN; starts.len()];
    let mut ended = Vec::new();
    loop {
        while let Some(i) = waiting.next_if(|i| starts[*i].1 <= flows.now()) {
            flows.start(ids[starts[i].0], starts[i].2, i as u32);
        }
        let end = flows.next_end();
        flows.solver().certify(1e-10).unwrap();
        let start = waiting.peek().map(|i| starts[*i].1);
        let Some(next) = end.into_iter().chain(start).reduce(f64::min) else { return ends };
        ended.clear();
        flows.advance(next, &mut ended);
        for i in &ended {
            ends[*i as usize] = flows.now();
        }
    }
}

fn agree(problem: &Problem) -> Result<(), TestCaseError> {
    let (expected, got) = (reference(problem), engine(problem));
    for (i, (a, b)) in expected.iter().zip(&got).enumerate() {
        let same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= CLOSE * a.abs();
        prop_assert!(same, "flow {} ends at {} by the reference, at {} by the engine", i, a, b);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn ends_are_those_of_the_reference(problem in problem(false)) {
        agree(&problem)?;
    }

    #[test]
    fn ends_are_those_of_the_reference_where_ties_are_many(problem in problem(true)) {
        agree(&problem)?;
    }

    #[test]
    fn every_byte_arrives(problem in problem(false)) {
        // without caps or a share of their own, the flows of one resource keep it full until the last has ended
        let one = Problem {
            classes: problem.classes.iter().map(|c| Flow { uses: vec![(0, 1.0)], cap: f64::INFINITY, ..c.clone() }).collect(),
            starts: problem.starts.iter().map(|s| (s.0, 0.0, s.2)).collect(),
            ..problem
        };
        let bytes: f64 = one.starts.iter().map(|s| s.2).sum();
        let last = engine(&one).into_iter().fold(0.0, f64::max);
        prop_assert!((last * one.capacities[0] - bytes).abs() <= CLOSE * bytes);
    }

    #[test]
    fn the_same_again_is_the_same_to_the_bit(problem in problem(false)) {
        let bits = |ends: Vec<f64>| ends.into_iter().map(f64::to_bits).collect::<Vec<_>>();
        prop_assert_eq!(bits(engine(&problem)), bits(engine(&problem)));
    }

    #[test]
    fn any_change_leaves_the_fair_rates(
        problem in problem(false),
        changes in prop::collection::vec((0usize..25, 0u32..4), 1..60),
    ) {
        let mut solver = Solver::new(&problem.capacities).unwrap();
        let ids: Vec<u32> = problem.classes.iter().map(|c| {
            let uses: Vec<(u32, f64)> = c.uses.iter().map(|(r, k)| (*r as u32, *k)).collect();
            solver.class(&uses, c.weight, c.cap).unwrap()
        }).collect();
        for (which, count) in changes {
            solver.set_count(ids[which % ids.len()], count);
            solver.solve();
            solver.certify(1e-10).map_err(TestCaseError::fail)?;
        }
    }
}

/// Twenty flows a channel, where nearly every end moves the rates of a good part of all flows.
#[test]
fn heavy_load_ends_as_by_the_reference() {
    let n = 4_u32;
    for (seed, weighted) in [(1_u64, false), (2, false), (3, true), (4, true)] {
        let mut x = seed;
        let mut draw = |below: u32| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) as u32 % below
        };
        let mut flow = || {
            let (a, b, c, d) = (draw(n), draw(n), draw(n), draw(n));
            let along = (0..(c + n - a) % n).map(|k| (b * n + (a + k) % n) * 2);
            let across = (0..(d + n - b) % n).map(|k| (((b + k) % n) * n + c) * 2 + 1);
            let part = if weighted { 0.5 + f64::from(draw(100)) / 50.0 } else { 1.0 };
            let uses = along.chain(across).map(|link| (link as usize, part)).collect();
            let cap = if draw(6) == 0 { 0.02 } else { f64::INFINITY };
            (
                Flow { uses, weight: if weighted { f64::from(1 + draw(3)) } else { 1.0 }, cap },
                1.0 + f64::from(draw(1000)),
            )
        };
        let all: Vec<(Flow, f64)> = (0..260).map(|_| flow()).filter(|(flow, _)| !flow.uses.is_empty()).collect();
        let starts = all.iter().enumerate().map(|(i, (_, bytes))| (i, f64::from(i as u32 % 3), *bytes)).collect();
        let classes = all.into_iter().map(|(flow, _)| flow).collect();
        agree(&Problem { capacities: vec![1.0; (n * n * 2) as usize], classes, starts }).unwrap();
    }
}

/// Larger networks than a shrinking test can hold: a torus, long enough that repairs reach far and lists are made anew.
#[test]
fn a_torus_of_many_flows_keeps_the_certificate() {
    let n = 6_u32;
    let mut flows = Flows::new(&vec![1.0; (n * n * 4) as usize]).unwrap();
    let mut x = 99_u64;
    let mut draw = |below: u32| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) as u32 % below
    };
    let mut ended = Vec::new();
    let mut done = 0;
    for tag in 0..3000 {
        let (a, b, c, d) = (draw(n), draw(n), draw(n), draw(n));
        let along = (0..(c + n - a) % n).map(|k| ((b * n + (a + k) % n) * 2, 1.0));
        let across = (0..(d + n - b) % n).map(|k| ((((b + k) % n) * n + c) * 2 + 1, 1.0));
        let uses: Vec<(u32, f64)> = along.chain(across).collect();
        let class = flows.class(&uses, 1.0, if draw(4) == 0 { 0.05 } else { f64::INFINITY }).unwrap();
        flows.start(class, f64::from(1 + draw(50)), tag);
        while tag > 200 && flows.active() > 200 {
            let next = flows.next_end().unwrap();
            ended.clear();
            flows.advance(next, &mut ended);
            done += ended.len();
        }
        if tag % 7 == 0 {
            flows.next_end();
            flows.solver().certify(1e-10).unwrap();
        }
    }
    assert_eq!(done + flows.active(), 3000);
    assert!(flows.effort().repairs > 1000, "{:?}", flows.effort());
}

/// So many flows and links that lists are sorted by groups, and links come into a fill a portion at a time.
#[test]
fn a_large_torus_has_the_rates_of_the_reference() {
    let n = 64_u32;
    let mut x = 5_u64;
    let mut draw = |below: u32| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) as u32 % below
    };
    let capacities: Vec<f64> = (0..n * n * 2).map(|_| f64::from(1 + draw(4))).collect();
    let mut solver = Solver::new(&capacities).unwrap();
    let mut flows = Vec::new();
    for _ in 0..36_000 {
        let (a, b, c, d) = (draw(n), draw(n), draw(n), draw(n));
        let along = (0..(c + n - a) % n).map(|k| (b * n + (a + k) % n) * 2);
        let across = (0..(d + n - b) % n).map(|k| (((b + k) % n) * n + c) * 2 + 1);
        let uses: Vec<(u32, f64)> = along.chain(across).map(|link| (link, 1.0)).collect();
        let cap = if draw(4) == 0 { 0.01 } else { f64::INFINITY };
        let class = solver.class(&uses, 1.0, cap).unwrap();
        let count = solver.count(class) + 1;
        solver.set_count(class, count);
        let uses = uses.iter().map(|(link, per_byte)| (*link as usize, *per_byte)).collect();
        flows.push((class, Flow { uses, weight: 1.0, cap }));
    }
    let uses: usize = flows.iter().map(|(_, flow)| flow.uses.len()).sum();
    assert!(uses > 1 << 20, "{uses}");
    solver.solve();
    solver.certify(1e-10).unwrap();
    let (classes, flows): (Vec<u32>, Vec<Flow>) = flows.into_iter().unzip();
    let expected = share(&capacities, &flows).unwrap().rates;
    for (class, expected) in classes.iter().zip(expected) {
        let got = solver.rate(*class);
        assert!(got == expected || (got - expected).abs() <= CLOSE * expected, "{got} for {expected}");
    }
}
