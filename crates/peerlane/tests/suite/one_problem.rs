//! One problem, one solve: what `predict` says of a set of transfers, what `simulate` has right after all of them start, and
//! what the reference finds of the router's demands are the same rates, and a certificate holds for each.

use peerlane::catalogue::{Parts, system, system_names};
use peerlane::cluster::{Cluster, Place, Router, Via};
use peerlane::fabric::{NodeId, NodeKind};
use peerlane::machine::Machine;
use peerlane::matrix::{Engine, Operation};
use peerlane::model::{Model, PeerAccess, Transfer};
use peerlane::simulate::flows::Flows;
use peerlane::solve::incremental::Solver;
use peerlane::solve::{Demand, Problem, Resource, Solution, Turns, Wait, certify, evenly};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::common::machines::{QUEUEING, machine, shape};

/// How near all rates are, relative.
const CLOSE: f64 = 1e-6;

fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= CLOSE * a.abs().max(b.abs())
}

/// What makes rates a solution, from the demands alone: no resource gives more than it has, and each flow has its cap or a
/// full resource on which none has more. Waits are those that the rates cause.
fn holds(demands: &[Demand], resource: impl Fn(usize) -> Resource, rates: &[f64]) -> Result<(), String> {
    let mut names: Vec<usize> = demands.iter().flat_map(|d| d.uses.iter().map(|(r, _)| *r)).collect();
    names.sort_unstable();
    names.dedup();
    let sum = |of: &[(usize, f64)], r: usize| of.iter().filter(|(o, _)| *o == r).map(|(_, k)| k).sum::<f64>();
    let all = || demands.iter().zip(rates);
    let wait = |r: usize| {
        let busy = all().map(|(d, rate)| rate * sum(&d.uses, r)).sum::<f64>() / resource(r).capacity;
        resource(r).wait(busy)
    };
    let used = |r: usize| -> f64 {
        let waited =
            |d: &Demand| d.waits.iter().filter(|w| w.window == r).map(|w| w.per_ns * wait(w.server)).sum::<f64>();
        all().map(|(d, rate)| rate * (sum(&d.uses, r) + waited(d))).sum()
    };
    let left = |r: usize| resource(r).capacity - all().map(|(d, rate)| rate * sum(&d.burdens, r)).sum::<f64>();
    // near a full queue a millionth of the load is a thousandth of the wait
    let near = 10.0 * CLOSE;
    if let Some(r) = names.iter().find(|r| used(**r) > left(**r) * (1.0 + near)) {
        return Err(format!("resource {r}: {} of {}", used(*r), left(*r)));
    }
    let full: Vec<usize> = names.iter().copied().filter(|r| used(*r) >= left(*r) * (1.0 - near)).collect();
    for (i, (demand, rate)) in all().enumerate() {
        let beside = |turns: &Turns| {
            let shares = |t: &Turns| t.places.iter().any(|place| turns.places.contains(place));
            demands.iter().filter_map(|d| d.turns.as_ref()).filter(|t| shares(t)).count()
        };
        let turned =
            demand.turns.as_ref().map_or(f64::INFINITY, |t| 1.0 / (1.0 / t.rate + t.seconds * (beside(t) - 1) as f64));
        let cap = demand.cap.min(turned);
        let most =
            |r: usize| all().filter(|(d, _)| sum(&d.uses, r) > 0.0).all(|(_, other)| *other <= rate * (1.0 + near));
        let held = full.iter().any(|r| sum(&demand.uses, *r) > 0.0 && most(*r));
        if *rate > cap * (1.0 + near) || !(held || close(*rate, cap)) {
            return Err(format!("flow {i} at {rate} of {cap} is held by nothing"));
        }
    }
    Ok(())
}

/// A transfer of a set: numbers of its ends among the endpoints, and whether it is staged.
type Pick = (prop::sample::Index, prop::sample::Index, bool);

fn picks() -> impl Strategy<Value = Vec<Pick>> {
    prop::collection::vec(
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop::bool::weighted(0.2)),
        1..14,
    )
}

/// The transfers that a machine can make of these, and how a simulation makes them.
fn transfers(machine: &Machine, model: &Model, picks: &[Pick], engine: Engine) -> Vec<(Transfer, Via)> {
    let fabric = &machine.fabric;
    let ends: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).chain(fabric.of_kind(NodeKind::Host)).collect();
    let gpu = |n: NodeId| fabric.node(n).kind == NodeKind::Gpu;
    let made = picks.iter().filter_map(|(a, b, staged)| {
        let (source, destination) = (ends[a.index(ends.len())], ends[b.index(ends.len())]);
        let staged = *staged && gpu(source) && gpu(destination);
        let (peer, via) = if staged { (PeerAccess::Disabled, Via::STAGED) } else { (PeerAccess::Enabled, Via::Direct) };
        let transfer = Transfer { source, destination, engine, op: Operation::Write, peer };
        let known = source != destination && (gpu(source) || gpu(destination)) && model.solve(&[transfer]).is_ok();
        known.then_some((transfer, via))
    });
    made.collect()
}

fn agree(machine: &Machine, picks: &[Pick], engine: Engine) -> Result<usize, String> {
    let model = Model::new(machine, Parts::embedded());
    let set = transfers(machine, &model, picks, engine);
    let alone: Vec<Transfer> = set.iter().map(|(transfer, _)| *transfer).collect();
    let predicted: Vec<f64> = model.solve(&alone).unwrap().iter().map(|a| a.rate.bytes_per_second()).collect();
    // as predicted
    let demands: Vec<Demand> = alone.iter().map(|t| model.route(t).unwrap().demand).collect();
    let problem = model.problem(&demands);
    let solution = problem.solve().map_err(|e| e.to_string())?;
    certify(&problem, &Solution { rates: predicted.clone(), ..solution }, CLOSE)?;
    let resource = |r: usize| Resource {
        capacity: model.resources[r].capacity.bytes_per_second(),
        service: model.resources[r].service,
    };
    holds(&demands, resource, &predicted).map_err(|why| format!("{}: predicted: {why}", machine.name))?;
    // by the router, with the reference
    let cluster = Cluster::single(machine.clone());
    let mut router = Router::new(&cluster, Parts::embedded());
    let at = |device| Place { node: 0, device };
    let way = |(t, via): &(Transfer, Via)| router.way_by(at(t.source), at(t.destination), engine, *via).unwrap();
    let ways: Vec<_> = set.iter().map(way).collect();
    let demands: Vec<Demand> = ways.iter().map(|w| w.demand.clone()).collect();
    let problem = Problem::of(&demands, |r| router.resources()[r]);
    let contended = problem.solve().map_err(|e| e.to_string())?;
    certify(&problem, &contended, CLOSE)?;
    // and as a simulation has them once all have started, and whenever one has ended
    let mut flows = Flows::of(router.resources()).unwrap();
    let classes: Vec<u32> = demands.iter().map(|d| flows.class_of(d).unwrap()).collect();
    for (tag, class) in (0..).zip(&classes) {
        flows.start(*class, 1e9 * f64::from(tag + 1), tag);
    }
    for (i, ((predicted, contended), class)) in predicted.iter().zip(&contended.rates).zip(&classes).enumerate() {
        let simulated = flows.rate(*class);
        if !close(*predicted, *contended) || !close(*predicted, simulated) {
            let name = |n: NodeId| &machine.fabric.node(n).name;
            let (from, to) = (name(alone[i].source), name(alone[i].destination));
            return Err(format!(
                "{}, {from} to {to}: {predicted} is predicted, {contended} by the router, {simulated} simulated",
                machine.name
            ));
        }
    }
    let mut running: Vec<u32> = (0..classes.len() as u32).collect();
    while let Some(end) = flows.next_end() {
        flows.solver().certify(CLOSE).map_err(|why| format!("{}: {why}", machine.name))?;
        let mut ended = Vec::new();
        flows.advance(end, &mut ended);
        running.retain(|tag| !ended.contains(tag));
        let left: Vec<&Demand> = running.iter().map(|tag| &demands[*tag as usize]).collect();
        let rates = Problem::of(left, |r| router.resources()[r]).solve().map_err(|e| e.to_string())?.rates;
        for (tag, rate) in running.iter().zip(rates) {
            let simulated = flows.rate(classes[*tag as usize]);
            if !close(rate, simulated) {
                return Err(format!("{}: {simulated} is simulated for {rate} when others have ended", machine.name));
            }
        }
    }
    Ok(set.len())
}

#[test]
fn every_system_of_the_catalogue_has_one_answer() {
    let mut made = 0;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for name in system_names() {
        let machine = system(name).unwrap().unwrap();
        for engine in [Engine::Ce, Engine::Sm] {
            for _ in 0..4 {
                let picks = picks().new_tree(&mut runner).unwrap().current();
                made += agree(&machine, &picks, engine).unwrap();
            }
        }
    }
    assert!(made > 500, "{made}");
}

/// Demands of every kind over two servers, a few channels of two directions, and windows. What burdens a channel is what its
/// other direction carries, a fifth of it at most: beyond that, two sets of rates may each agree with themselves.
fn demands() -> impl Strategy<Value = (Vec<Resource>, Vec<Demand>)> {
    let service = prop_oneof![1 => Just(0.0), 1 => 0.01..0.5];
    let servers = prop::collection::vec((5.0..100.0, service), 2);
    let (channels, windows) = (prop::collection::vec(5.0..100.0, 1..4), prop::collection::vec(5.0..100.0, 1..4));
    (servers, channels, windows).prop_flat_map(|(servers, channels, windows)| {
        let queue = |(capacity, service)| Resource { capacity, service };
        let plain = |capacity| Resource { capacity, service: 0.0 };
        let directions = 2..2 + 2 * channels.len();
        let mut all: Vec<Resource> = servers.into_iter().map(queue).collect();
        all.extend(channels.into_iter().flat_map(|capacity| [capacity; 2]).map(plain));
        all.extend(windows.into_iter().map(plain));
        let n = all.len();
        let burden = prop_oneof![1 => Just(0.0), 2 => 0.01..0.2];
        let uses = prop::collection::vec((0..n, 0.5..2.0, burden), 1..4);
        let cap = prop_oneof![3 => Just(f64::INFINITY), 1 => 0.5..20.0];
        let turns = prop::option::weighted(0.3, (1.0..20.0, 0.01..0.2, 0u64..3, 0u64..3));
        let waits = prop::option::weighted(0.3, (0usize..2, directions.end..n, 0.1..2.0));
        let demand = (uses, cap, turns, waits).prop_map(move |(uses, cap, turns, waits)| {
            let back = |(r, per_byte, part): &(usize, f64, f64)| (*r ^ 1, per_byte * part);
            let burdened = |(r, _, part): &&(usize, f64, f64)| directions.contains(r) && *part > 0.0;
            let mut burdens: Vec<(usize, f64)> = uses.iter().filter(burdened).map(back).collect();
            let mut uses: Vec<(usize, f64)> = uses.iter().map(|(r, per_byte, _)| (*r, *per_byte)).collect();
            let waits: Vec<Wait> =
                waits.into_iter().map(|(server, window, per_ns)| Wait { server, window, per_ns }).collect();
            // who waits uses what it waits for, and its window
            uses.extend(waits.iter().flat_map(|w| [(w.server, 1.0), (w.window, 1.0)]));
            for of in [&mut uses, &mut burdens] {
                of.sort_by_key(|u| u.0);
                of.dedup_by_key(|u| u.0);
            }
            let turns = turns.map(|(rate, seconds, a, b)| Turns { rate, seconds, places: [a, b] });
            Demand { uses, burdens, waits, cap, turns, ..Demand::default() }
        });
        (Just(all), prop::collection::vec(demand, 1..9))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(400), ..ProptestConfig::default() })]

    #[test]
    fn random_machines_have_one_answer(
        shape in shape(),
        picks in picks(),
        cpu in prop_oneof![Just("Intel(R) Xeon(R)"), Just("AMD EPYC"), Just(QUEUEING)],
        engine in prop_oneof![3 => Just(Engine::Ce), 1 => Just(Engine::Sm)],
    ) {
        agree(&machine(&shape, cpu), &picks, engine).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn any_change_leaves_the_rates_of_the_reference(
        (resources, demands) in demands(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0u32..3), 1..12),
    ) {
        let mut solver = Solver::of(&resources).unwrap();
        let mut classes: Vec<u32> = demands.iter().map(|d| solver.class_of(d).unwrap()).collect();
        // demands that are the same are one class
        let mut demands = demands;
        let mut kept = std::collections::BTreeSet::new();
        demands.retain({
            let mut at = classes.clone().into_iter();
            let kept = &mut kept;
            move |_| at.next().is_some_and(|class| kept.insert(class))
        });
        classes.sort_unstable();
        classes.dedup();
        for (which, count) in changes {
            solver.set_count(classes[which.index(classes.len())], count);
            solver.solve();
            solver.certify(CLOSE).map_err(|why| TestCaseError::fail(format!("incremental: {why}")))?;
            let running: Vec<(&Demand, u32)> = demands
                .iter()
                .zip(&classes)
                .flat_map(|(d, c)| (0..solver.count(*c)).map(move |_| (d, *c)))
                .collect();
            let problem = Problem::of(running.iter().map(|(d, _)| *d).collect::<Vec<_>>(), |r| resources[r]);
            let solution = problem.solve().unwrap();
            certify(&problem, &solution, CLOSE).map_err(|why| TestCaseError::fail(format!("reference: {why}")))?;
            for ((_, class), rate) in running.iter().zip(&solution.rates) {
                prop_assert!(close(solver.rate(*class), *rate), "{} is not {}", solver.rate(*class), rate);
            }
            // the slowest is no faster than all can be at once
            let slowest = solution.rates.iter().copied().fold(f64::INFINITY, f64::min);
            let even = evenly(&running.iter().map(|(d, _)| *d).collect::<Vec<_>>(), |r| resources[r]);
            prop_assert!(slowest <= even * (1.0 + CLOSE), "{} of {}", slowest, even);
            let least = problem.least(&solution.rates);
            prop_assert!(solution.rates.iter().zip(least).all(|(rate, least)| *rate >= least * (1.0 - CLOSE)));
        }
    }

    #[test]
    fn flows_that_are_alike_have_what_all_can_have((resources, demands) in demands(), count in 1usize..6) {
        let all = vec![&demands[0]; count];
        let even = evenly(&all, |r| resources[r]);
        let problem = Problem::of(all, |r| resources[r]);
        let solution = problem.solve().unwrap();
        prop_assert!(solution.rates.iter().all(|rate| close(*rate, even)), "{:?} and {}", solution.rates, even);
        prop_assert!(problem.carries(&solution.rates, CLOSE));
        if count == 1 {
            prop_assert!(close(demands[0].alone(|r| resources[r]).0, even));
        }
    }
}
