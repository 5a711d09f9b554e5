//! How the engines of NICs and what chipsets forward are shared, and parts of strange constants.

use super::*;
use crate::model::{Model, PeerAccess, Transfer};
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::units::Bytes;
use peerlane_read::catalogue::{Parts, read_system, system, system_text};

fn transfer(machine: &Machine, from: &str, to: &str) -> Transfer {
    let find = |name| machine.fabric.find(name).unwrap();
    let (source, destination) = (find(from), find(to));
    Transfer { source, destination, engine: Engine::Nic, op: Operation::Write, peer: PeerAccess::Enabled }
}

fn rates(machine: &Machine, parts: &Parts, pairs: &[(&str, &str)]) -> Vec<f64> {
    let transfers: Vec<Transfer> = pairs.iter().map(|(a, b)| transfer(machine, a, b)).collect();
    Model::new(machine, parts).solve(&transfers).unwrap().iter().map(|a| a.rate.gb()).collect()
}

fn near(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-3), "{got:?} is not {want:?}");
}

/// The embedded parts, of which `name` has other constants.
fn with(name: &str, changes: &[(&str, f64)]) -> Parts {
    let mut parts = Parts::embedded().clone();
    let mut part = parts.get(name).unwrap().clone();
    for (constant, value) in changes {
        let model = part.constants.values().next().unwrap().clone();
        part.constants.entry((*constant).to_owned()).or_insert(model).value = *value;
    }
    parts.insert(name, part).unwrap();
    parts
}

#[test]
fn gpus_share_the_engine_that_reads_them() {
    let machine = system("quong-node").unwrap().unwrap();
    let parts = Parts::embedded();
    near(&rates(&machine, parts, &[("GPU0", "apenet0")]), &[1.5]);
    near(&rates(&machine, parts, &[("GPU0", "apenet0"), ("GPU1", "apenet0")]), &[0.75, 0.75]);
    // what arrives takes the same processor as the translation of what is read: x + x · 1.5/9.75 = 1.5
    near(&rates(&machine, parts, &[("GPU0", "apenet0"), ("apenet0", "GPU1")]), &[1.3, 1.3]);
    near(&rates(&machine, parts, &[("apenet0", "GPU0"), ("apenet0", "host0")]), &[0.75, 0.75]);
}

#[test]
fn nics_share_what_a_root_complex_forwards() {
    let text = system_text("k20-cx3-snb").unwrap();
    let text = text.replace("[[rates]]", "[[links]]\nbetween = [\"cpu0\", \"mlx4_1\"]\npcie = \"3.0 x8\"\n\n[[rates]]");
    let text = text.replace(
        "[[links]]\nbetween = [\"cpu0\", \"GPU0\"]",
        "mlx4_1 = { part = \"connectx-3\" }\n\n[[links]]\nbetween = [\"cpu0\", \"GPU0\"]",
    );
    let machine = read_system(&text, "two adapters").unwrap();
    let parts = Parts::embedded();
    near(&rates(&machine, parts, &[("GPU0", "mlx4_0"), ("GPU0", "mlx4_1")]), &[0.4, 0.4]);
    // writes and host memory are not concerned
    let mixed = rates(&machine, parts, &[("GPU0", "mlx4_0"), ("mlx4_1", "GPU0"), ("host0", "mlx4_1")]);
    assert!((mixed[0] - 0.8).abs() < 1e-3 && mixed[1] > 4.0 && mixed[2] > 4.0, "{mixed:?}");
}

#[test]
fn gpu_memory_is_read_by_the_faster_method() {
    let machine = system("apenet-x56xx").unwrap().unwrap();
    let pair = [("GPU0", "apenet0")];
    near(&rates(&machine, &with("fermi-c2075", &[("nvp2p_read_rate", 0.1)]), &pair), &[0.15]);
    // a GPU that works on many reads at once is held back by the hub that forwards them
    let good = with("fermi-c2075", &[("bar1_read_window", 65536.0), ("nvp2p_read_rate", 0.1)]);
    near(&rates(&machine, &good, &pair), &[1.4]);
    near(&rates(&machine, &with("apenet-plus", &[("gpu_read_window", 1707.0)]), &pair), &[1.0]);
}

#[test]
fn strange_constants_neither_panic_nor_exceed_a_link() {
    let machine = system("apenet-x56xx").unwrap().unwrap();
    let names = [
        "gpu_read_engine",
        "gpu_read_request",
        "gpu_read_window",
        "dma_read_window",
        "receive_engine",
        "receive_rate",
        "nvp2p_processor_rate",
        "packet",
        "message_latency",
        "hardware_latency",
        "message_gap",
    ];
    let strange = [0.0, -1.0, f64::MIN_POSITIVE, 0.4, 1e300, f64::MAX];
    let find = |name| machine.fabric.find(name).unwrap();
    for name in names {
        for value in strange {
            let parts = with("apenet-plus", &[(name, value)]);
            let model = Model::new(&machine, &parts);
            let told = describe(&model, find("GPU0"), find("apenet0")).unwrap();
            for method in told.to_network.iter().chain(&told.from_network) {
                let rate = method.rate.unwrap();
                assert!((0.0..4.0).contains(&rate), "{name} {value}: {rate}");
            }
            let _ = model.solve(&[transfer(&machine, "GPU0", "apenet0")]);
            let path = nic_path(&model, find("GPU0"), find("apenet0"), NicDirection::ToNetwork, Method::Nvp2p).unwrap();
            assert!(path.time(Bytes(u64::MAX)).likely.seconds() > 0.0, "{name} {value}");
        }
    }
}
