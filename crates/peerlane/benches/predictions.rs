//! How long predictions take: `cargo bench -p peerlane --bench predictions`.
//!
//! A box of 16 GPUs on two sockets with two switches each: all that `predict` shows, with and without intervals, and
//! all 240 pairs at once.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a benchmark prints, and its machine is sound")]

use std::hint::black_box;
use std::time::Instant;

use peerlane::catalogue::Parts;
use peerlane::expectation::predict;
use peerlane::fabric::{FabricBuilder, Link, LinkKind, Node, NodeId, NodeKind, PcieWidth};
use peerlane::machine::{Machine, MachineKind};
use peerlane::matrix::{Engine, Operation};
use peerlane::model::{Model, PeerAccess, Transfer};

const ROUNDS: u32 = 20;

fn machine() -> Machine {
    let mut b = FabricBuilder::new();
    let pcie = || LinkKind::pcie("4.0 x16".parse::<PcieWidth>().expect("a width"));
    let cpus: Vec<NodeId> = (0..2).map(|i| b.node(Node::new(format!("cpu{i}"), NodeKind::Cpu))).collect();
    b.link(Link::new(cpus[0], cpus[1], LinkKind::Smp));
    for (s, cpu) in cpus.iter().enumerate() {
        let rc = b.node(Node { domain: Some(s as u32), ..Node::new(format!("rc{s}"), NodeKind::RootComplex) });
        let host = b.node(Node::new(format!("host{s}"), NodeKind::Host));
        b.link(Link::new(rc, *cpu, LinkKind::OnDie));
        b.link(Link::new(host, *cpu, LinkKind::OnDie));
        for w in 0..2 {
            let switch = b.node(Node::new(format!("switch{s}.{w}"), NodeKind::Switch));
            b.link(Link::new(rc, switch, pcie()));
            for g in 0..4 {
                let gpu = b.node(Node::new(format!("GPU{}", s * 8 + w * 4 + g), NodeKind::Gpu));
                b.link(Link::new(switch, gpu, pcie()));
            }
        }
    }
    Machine::new("sixteen", MachineKind::Design, b.build().expect("a forest"))
}

fn time(what: &str, mut work: impl FnMut() -> usize) {
    let first = Instant::now();
    let n = black_box(work());
    let first = first.elapsed();
    let started = Instant::now();
    for _ in 0..ROUNDS {
        black_box(work());
    }
    println!("{what}: {n}, first {first:.2?}, then {:.2?} each", started.elapsed() / ROUNDS);
}

fn main() {
    let machine = machine();
    let gpus: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Gpu).collect();
    let pairs = gpus.iter().flat_map(|a| gpus.iter().filter(move |b| *b != a).map(move |b| (*a, *b)));
    let all: Vec<Transfer> = pairs
        .map(|(source, destination)| Transfer {
            source,
            destination,
            engine: Engine::Ce,
            op: Operation::Write,
            peer: PeerAccess::Enabled,
        })
        .collect();
    time("all that predict shows, cells", || {
        let model = Model::new(&machine, Parts::embedded());
        predict(&model).iter().map(|m| m.values.iter().flatten().flatten().count()).sum()
    });
    time("all pairs at once, transfers", || {
        let model = Model::new(&machine, Parts::embedded());
        model.solve(&all).map_or(0, |answers| answers.len())
    });
    time("all pairs at once with intervals, transfers", || {
        let model = Model::new(&machine, Parts::embedded());
        model.interval(&all).map_or(0, |intervals| intervals.len())
    });
}
