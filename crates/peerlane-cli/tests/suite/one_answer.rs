//! One question, one answer: rates of transfers at once as every command that can be asked for them gives them.
//! `cargo test -p peerlane-cli one_answer:: -- --nocapture` prints the table.

use crate::common::json;
use peerlane::catalogue::{Parts, system};
use peerlane::cluster::{Cluster, Router};
use peerlane::compare::{Design, Subject, compare};
use peerlane::comparison::Comparison;
use peerlane::expectation::{Metric, expect_set};
use peerlane::fault::Planted;
use peerlane::machine::Machine;
use peerlane::matrix::{Direction, Engine, Quantity, Unit};
use peerlane::measure::Executor;
use peerlane::model::Model;
use peerlane::place::{Request, Workload, place};
use peerlane::plan::{Method, Size, Step, Test, Work};
use peerlane::simulate::play::Player;
use peerlane::simulate::program;
use peerlane::simulated_machine::SimulatedMachine;
use peerlane::transfer::{Transfer, Via};
use peerlane::units::Bytes;

/// How near all answers are.
const CLOSE: f64 = 0.005;

/// Seconds for which a simulation moves what is predicted for them: starting takes no part of it that shows.
const SECONDS: f64 = 10.0;

fn copy(from: &str, to: &str) -> Transfer {
    Transfer::new(from, to)
}

fn staged(from: &str, to: &str) -> Transfer {
    Transfer { via: Via::Driver, ..copy(from, to) }
}

fn machine(name: &str) -> Machine {
    system(name).unwrap().unwrap()
}

/// GB/s of each transfer of a set, as `expect_set` has them.
fn expected(machine: &Machine, set: &[Transfer]) -> Vec<f64> {
    let model = Model::new(machine, Parts::embedded());
    expect_set(&model, set).unwrap().iter().map(|a| a.rate.gb()).collect()
}

/// Both directions of a pair as `predict` shows it.
fn predicted(machine: &Machine, p2p: bool, pair: [&str; 2]) -> f64 {
    let asked = Metric {
        quantity: Quantity::Bandwidth,
        direction: Some(Direction::Bidirectional),
        p2p: Some(p2p),
        op: None,
        engine: Some(Engine::Ce),
        unit: Unit::GigabytesPerSecond,
        size: None,
    };
    let model = Model::new(machine, Parts::embedded());
    Comparison::of(&model).expected(&asked, pair[0], pair[1]).unwrap().value
}

fn explained(system: &str, pair: [&str; 2]) -> f64 {
    json(&["explain", system, pair[0], pair[1], "--json"])["both"]["rate"].as_f64().unwrap()
}

fn compared(machine: &Machine) -> Design {
    let subjects = [Subject { name: &machine.name, machine, run: None }];
    compare(&subjects, Parts::embedded()).designs.remove(0)
}

/// What is moved at once while each transfer moves what is expected of it in some seconds: as long as it takes, so much less.
fn simulated(machine: &Machine, set: &[Transfer]) -> f64 {
    let cluster = Cluster::single(machine.clone());
    let mut router = Router::new(&cluster, Parts::embedded());
    let near = |name: &str, other: &str| {
        let fabric = &machine.fabric;
        let host = || fabric.nearest_host(fabric.find(other).unwrap()).unwrap();
        let node = if name == "host" { fabric.node(host()).name.clone() } else { name.to_owned() };
        cluster.find(&node).unwrap()
    };
    let rates = expected(machine, set);
    let steps = set.iter().zip(&rates).map(|(t, rate)| program::Step::Move {
        from: near(&t.source, &t.destination),
        to: near(&t.destination, &t.source),
        bytes: rate * 1e9 * SECONDS,
        delay: 0.0,
        via: if t.via == Via::Direct { peerlane::cluster::Via::Direct } else { peerlane::cluster::Via::STAGED },
    });
    let steps: Vec<program::Step> = steps.collect();
    let played = Player::new(&mut router, Engine::Ce).play(&steps, &[]).unwrap();
    rates.iter().sum::<f64>() * SECONDS / played.time
}

/// What a simulated machine without noise is measured to do.
fn measured(machine: &Machine, set: &[Transfer]) -> f64 {
    let quiet = Planted { noise: 0.0, ..Planted::default() };
    let mut executor = SimulatedMachine::new(machine, Parts::embedded(), &quiet);
    let size = Size::Exactly(Bytes::from_mib(4096));
    let step = Step { test: Test::Pairs, work: Work::Transfers(set.to_vec()), size };
    executor.prepare(&[&step], &Method::default(), 0).unwrap();
    executor.sample(1).unwrap()[0][0].iter().sum::<f64>() / 1e9
}

/// What a job of so many GPUs gets in all, where all of its transfers are as fast as the slowest.
fn placed(machine: &Machine, gpus: usize, workload: Workload, transfers: f64) -> f64 {
    let request = Request { jobs: vec![gpus], workload, ..Request::default() };
    let model = Model::new(machine, Parts::embedded());
    place(&model, &request).unwrap().choices[0].predicted.unwrap() * transfers
}

/// What is asked, of which machine, which transfers at once, and what each command answers.
type Row<'a> = (&'a str, &'a Machine, &'a [Transfer], Vec<(&'a str, f64)>);

#[test]
fn all_commands_give_one_answer() {
    let gpus = ["GPU0", "GPU1", "GPU2", "GPU3"];
    let up: Vec<Transfer> = gpus.iter().map(|gpu| copy(gpu, "host")).collect();
    let down: Vec<Transfer> = gpus.iter().map(|gpu| copy("host", gpu)).collect();
    let eight: Vec<Transfer> = up.iter().chain(&down).cloned().collect();
    let (devbox, dgx, h200) = (machine("exxact-devbox"), machine("dgx-1v"), machine("h200x4-vm"));
    let pair = ["GPU0", "GPU1"];
    let both = [copy("GPU0", "GPU1"), copy("GPU1", "GPU0")];
    // in two sockets, without NVLink
    let far = ["GPU0", "GPU5"];
    let through_host = [staged("GPU0", "GPU5"), staged("GPU5", "GPU0")];
    let design = compared(&h200);
    let rows: [Row; 5] = [
        (
            "exxact-devbox, GPU0 and GPU1 both ways",
            &devbox,
            &both,
            vec![
                ("predict", predicted(&devbox, true, pair)),
                ("explain", explained("exxact-devbox", pair)),
                ("compare", compared(&devbox).pair_both_ways.unwrap().best),
                ("place", placed(&devbox, 2, Workload::Pairs, 2.0)),
            ],
        ),
        (
            "dgx-1v, GPU0 and GPU5 staged both ways",
            &dgx,
            &through_host,
            vec![
                ("predict", predicted(&dgx, true, far)),
                ("predict, P2P off", predicted(&dgx, false, far)),
                ("explain", explained("dgx-1v", far)),
                ("compare", compared(&dgx).pair_both_ways.unwrap().worst.rate),
            ],
        ),
        ("h200x4-vm, four GPUs to the host", &h200, &up, vec![("compare", design.host_drain.unwrap().sum.rate)]),
        (
            "h200x4-vm, the host to four GPUs",
            &h200,
            &down,
            vec![("compare", design.host_feed.unwrap().sum.rate), ("place", placed(&h200, 4, Workload::HostFeed, 4.0))],
        ),
        ("h200x4-vm, four up and four down", &h200, &eight, Vec::new()),
    ];
    println!("{:<40} {:>8}  GB/s, by others", "at once", "expected");
    for (what, machine, set, mut answers) in rows {
        let expected: f64 = expected(machine, set).iter().sum();
        answers.push(("simulate", simulated(machine, set)));
        answers.push(("measure", measured(machine, set)));
        let words: Vec<String> = answers.iter().map(|(by, rate)| format!("{by} {rate:.2}")).collect();
        println!("{what:<40} {expected:>8.2}  {}", words.join(", "));
        for (by, rate) in answers {
            assert!((rate / expected - 1.0).abs() < CLOSE, "{what}: {rate} by {by}, {expected} expected");
        }
    }
    // as published: the dev box's pair both ways, within a hundredth
    let known: f64 = 25.97;
    assert!((predicted(&devbox, true, pair) / known - 1.0).abs() < 0.01);
}
