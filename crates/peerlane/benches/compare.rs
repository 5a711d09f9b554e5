//! How long a comparison takes: `cargo bench -p peerlane --bench compare`.
//!
//! Five designs, one of them with twenty GPUs, all figures of each; and each alone.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a benchmark prints, and its systems are sound")]

use std::hint::black_box;
use std::time::Instant;

use peerlane::catalogue::{Parts, system};
use peerlane::compare::{Subject, compare};
use peerlane::machine::Machine;

const ROUNDS: u32 = 20;

fn time(machines: &[&Machine]) -> f64 {
    let subjects: Vec<Subject> = machines.iter().map(|m| Subject { name: &m.name, machine: m, run: None }).collect();
    let started = Instant::now();
    for _ in 0..ROUNDS {
        black_box(compare(black_box(&subjects), Parts::embedded()));
    }
    started.elapsed().as_secs_f64() * 1e3 / f64::from(ROUNDS)
}

fn main() {
    let names = ["exxact-traditional", "exxact-devbox", "exxact-txr430", "exxact-txr550", "exxact-txr414-20"];
    let machines = names.map(|name| system(name).expect("in the catalogue").expect("sound"));
    let all: Vec<&Machine> = machines.iter().collect();
    println!("{:>8.1} ms  five designs", time(&all));
    for machine in all {
        println!("{:>8.1} ms  {}", time(&[machine]), machine.name);
    }
    for name in ["dgx-1v", "hgx-h200", "7gforce"] {
        let machine = system(name).expect("in the catalogue").expect("sound");
        println!("{:>8.1} ms  {name}", time(&[&machine]));
    }
}
