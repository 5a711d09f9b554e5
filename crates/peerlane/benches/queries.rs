//! How long a question to a large fabric takes: `cargo bench -p peerlane`.
//!
//! One machine of 64 root complexes on 8 packages with 4,096 GPUs below three levels of switches: far
//! above any real one, so that what grows with the machine would show.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a benchmark prints, and its machine is sound")]

use std::hint::black_box;
use std::time::Instant;

use peerlane::fabric::{Fabric, FabricBuilder, Link, LinkKind, Node, NodeId, NodeKind, PcieWidth};

fn machine(packages: usize, gpus: usize) -> Fabric {
    let mut b = FabricBuilder::new();
    let pcie = || LinkKind::pcie(PcieWidth::default());
    let cpus: Vec<NodeId> = (0..packages).map(|i| b.node(Node::new(format!("cpu{i}"), NodeKind::Cpu))).collect();
    for (i, &x) in cpus.iter().enumerate() {
        for &y in &cpus[i + 1..] {
            b.link(Link::new(x, y, LinkKind::Smp));
        }
    }
    let roots = packages * 8;
    for r in 0..roots {
        let mut node = Node::new(format!("rc{r}"), NodeKind::RootComplex);
        node.domain = Some((r % packages) as u32);
        let rc = b.node(node);
        b.link(Link::new(cpus[r % packages], rc, LinkKind::OnDie));
        let mut above = rc;
        for level in 0..3 {
            let switch = b.node(Node::new(format!("switch{r}.{level}"), NodeKind::Switch));
            b.link(Link::new(above, switch, pcie()));
            above = switch;
            for g in 0..gpus / roots / 3 {
                let gpu = b.node(Node::new(format!("GPU{r}.{level}.{g}"), NodeKind::Gpu));
                b.link(Link::new(above, gpu, pcie()));
            }
        }
    }
    b.build().expect("a forest")
}

fn main() {
    for (packages, gpus) in [(1, 24), (2, 192), (8, 4096)] {
        let started = Instant::now();
        let fabric = machine(packages, gpus);
        let built = started.elapsed();
        let devices = fabric.devices();
        let pairs: Vec<(NodeId, NodeId)> = (0..200_000usize)
            .map(|i| (devices[i * 7919 % devices.len()], devices[i * 104_729 % devices.len()]))
            .collect();
        let time = |ask: &dyn Fn(NodeId, NodeId) -> bool| {
            let started = Instant::now();
            let known = pairs.iter().filter(|(a, b)| black_box(ask(*a, *b))).count();
            (started.elapsed().as_nanos() as f64 / pairs.len() as f64, known)
        };
        let (class, known) = time(&|a, b| fabric.class(a, b).is_some());
        println!(
            "{:5} nodes: built in {built:9.1?}; path and class of a pair {class:6.0} ns ({known} of {} known)",
            fabric.nodes().len(),
            pairs.len()
        );
    }
}
