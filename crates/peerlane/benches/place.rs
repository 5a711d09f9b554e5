//! How long a placement takes: `cargo bench -p peerlane --bench place`.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a benchmark prints, and its systems are sound")]

use std::hint::black_box;
use std::time::Instant;

use peerlane::catalogue::{Parts, read_system, system};
use peerlane::machine::Machine;
use peerlane::model::Model;
use peerlane::place::{Request, Workload, place};

const ROUNDS: u32 = 5;

/// Twenty GPUs of four widths on two sockets and four switches, hardly two of them alike.
fn uneven() -> Machine {
    let mut text = "name = \"uneven-20\"\n[nodes]\n".to_owned();
    for cpu in ["cpu0", "cpu1"] {
        text += &format!("{cpu} = {{ kind = \"cpu\", product = \"Intel Xeon\" }}\n");
    }
    (0..4).for_each(|i| text += &format!("sw{i} = {{ kind = \"switch\" }}\n"));
    (0..20).for_each(|i| text += &format!("GPU{i} = {{ kind = \"gpu\" }}\n"));
    let mut link = |a: &str, b: &str, kind: &str| text += &format!("[[links]]\nbetween = [\"{a}\", \"{b}\"]\n{kind}\n");
    link("cpu0", "cpu1", "smp = \"qpi-haswell\"");
    (0..4).for_each(|i| link(["cpu0", "cpu1"][i / 2], &format!("sw{i}"), "pcie = \"3.0 x16\""));
    for i in 0..20 {
        let width = ["3.0 x4", "3.0 x8", "3.0 x16", "2.0 x16", "2.0 x4"][i % 5];
        link(&format!("sw{}", i / 5), &format!("GPU{i}"), &format!("pcie = \"{width}\""));
    }
    read_system(&text, "uneven").expect("sound")
}

fn main() {
    let named = |name: &str| system(name).expect("in the catalogue").expect("sound");
    let eight = ["dgx-1v", "exxact-txr430", "exxact-txr550", "hgx-h200"].map(named);
    let twenty = [named("exxact-txr414-20"), uneven()];
    let all: [&[usize]; 5] = [&[], &[4], &[2, 2], &[4, 2], &[4, 4]];
    for machine in eight.iter().chain(&twenty) {
        for jobs in all {
            for workload in [Workload::Ring, Workload::AllToAll] {
                let model = Model::new(machine, Parts::embedded());
                let request = Request { jobs: jobs.to_vec(), workload, ..Request::default() };
                let started = Instant::now();
                let mut exact = true;
                for _ in 0..ROUNDS {
                    exact &= place(black_box(&model), &request).is_ok_and(|placed| placed.exact);
                }
                let each = started.elapsed().as_secs_f64() * 1e3 / f64::from(ROUNDS);
                let exact = if exact { "exact" } else { "best found" };
                println!("{each:>8.1} ms  {exact:<10}  {} {workload} {jobs:?}", machine.name);
            }
        }
    }
}
