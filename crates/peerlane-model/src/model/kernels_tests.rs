//! Kernels that run on one GPU at the same time share what the GPU's kernels move.

use super::{Model, PeerAccess, Transfer};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_read::catalogue::{Parts, system};

/// Rates in GB/s of transfers that run at once.
fn rates(name: &str, transfers: &[(&str, &str, Engine)]) -> Vec<f64> {
    let machine = system(name).unwrap().unwrap();
    let model = Model::new(&machine, Parts::embedded());
    let transfer = |&(from, to, engine): &(&str, &str, Engine)| {
        let [source, destination] = [from, to].map(|name| machine.fabric.find(name).unwrap());
        Transfer { source, destination, engine, op: Operation::Write, peer: PeerAccess::Enabled }
    };
    let all: Vec<Transfer> = transfers.iter().map(transfer).collect();
    model.solve(&all).unwrap().iter().map(|answer| answer.rate.gb()).collect()
}

fn close(got: f64, expected: f64) {
    assert!((got / expected - 1.0).abs() < 1e-9, "{got}, not {expected}");
}

#[test]
fn reads_of_host_memory_by_two_kernels_share_one_rate() {
    let one = rates("h200x4-vm", &[("host0", "GPU0", Engine::Sm)])[0];
    // two kernels: half each, and no more than one has
    for rate in rates("h200x4-vm", &[("host0", "GPU0", Engine::Sm); 2]) {
        close(rate, one / 2.0);
    }
    // kernels of two GPUs do not meet
    for rate in rates("h200x4-vm", &[("host0", "GPU0", Engine::Sm), ("host0", "GPU1", Engine::Sm)]) {
        close(rate, one);
    }
    // a kernel that writes to a peer leaves the reads alone
    let mixed = rates("h200x4-vm", &[("host0", "GPU0", Engine::Sm), ("GPU0", "GPU1", Engine::Sm)]);
    close(mixed[0], one);
}

#[test]
fn kernels_and_copy_engines_share_a_gpus_nvlinks() {
    let kernel = rates("hgx-h200", &[("GPU0", "GPU1", Engine::Sm)])[0];
    let copy = rates("hgx-h200", &[("GPU0", "GPU2", Engine::Ce)])[0];
    // to two peers through the switch: the links of the source are shared
    for rate in rates("hgx-h200", &[("GPU0", "GPU1", Engine::Sm), ("GPU0", "GPU2", Engine::Sm)]) {
        close(rate, kernel / 2.0);
    }
    // r ÷ kernel + r ÷ copy = 1
    let both = rates("hgx-h200", &[("GPU0", "GPU1", Engine::Sm), ("GPU0", "GPU2", Engine::Ce)]);
    let shared = 1.0 / (1.0 / kernel + 1.0 / copy);
    both.iter().for_each(|rate| close(*rate, shared));
}
