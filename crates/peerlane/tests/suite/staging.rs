//! Copies that the driver stages, compared with what was measured between two H200 (captures/h200x2-vm-staging).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use peerlane::copy_time::CopyTime;
use peerlane::machine::Machine;
use peerlane::matrix::{Engine, Operation};
use peerlane::model::{Model, PeerAccess, Transfer};
use peerlane::units::Bytes;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Flows and bytes → GB/s of three processes, all flows together.
fn measured() -> BTreeMap<(String, u64), Vec<f64>> {
    let mut all: BTreeMap<(String, u64), Vec<f64>> = BTreeMap::new();
    for process in 1..=3 {
        let file = root().join(format!("captures/h200x2-vm-staging/staging-{process}.tsv"));
        for line in std::fs::read_to_string(file).unwrap().lines().filter(|l| !l.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            all.entry((fields[0].to_owned(), fields[1].parse().unwrap())).or_default().push(fields[5].parse().unwrap());
        }
    }
    all
}

fn machine() -> Machine {
    let path = root().join("captures/h200x2-vm");
    peerlane::assemble::assemble(peerlane::evidence::read_path(&path).unwrap()).remove(0)
}

/// GB/s of all flows together: copies between two GPUs, of one stream each way or one way alone.
fn predicted(model: &Model, both: bool, size: Bytes) -> f64 {
    let find = |name| model.machine.fabric.find(name).unwrap();
    let (engine, op, peer) = (Engine::Ce, Operation::Write, PeerAccess::Disabled);
    let there = Transfer { source: find("GPU0"), destination: find("GPU1"), engine, op, peer };
    let back = Transfer { source: there.destination, destination: there.source, ..there };
    let flows = if both { vec![there, back] } else { vec![there] };
    let rates = model.solve(&flows).unwrap();
    let copies = flows
        .iter()
        .zip(&rates)
        .map(|(flow, answer)| CopyTime { startup: model.startup(flow).unwrap(), rate: answer.rate });
    copies.map(|copies| copies.rate_at(size).gb()).sum()
}

#[test]
fn copies_of_any_size_are_as_fast_as_measured() {
    let machine = machine();
    let model = Model::new(&machine, peerlane::catalogue::Parts::embedded());
    let all = measured();
    let mut table =
        String::from("| bytes | flows | measured | predicted | off |\n| ---: | --- | ---: | ---: | ---: |\n");
    let mut worst = [0.0_f64; 2];
    for (both, words) in [(false, "one way"), (true, "both ways")] {
        for shift in 16..=29 {
            let size = Bytes(1 << shift);
            let mut of_size = all[&(words.to_owned(), size.0)].clone();
            of_size.sort_by(f64::total_cmp);
            let predicted = predicted(&model, both, size);
            let off = predicted / of_size[1] - 1.0;
            worst[usize::from(both)] = worst[usize::from(both)].max(off.abs());
            writeln!(
                table,
                "| {size} | {words} | {:.1} to {:.1} | {predicted:.1} | {:+.1} % |",
                of_size[0],
                of_size[2],
                100.0 * off
            )
            .unwrap();
        }
    }
    // more streams one way carry no more than one does
    let large = |words: &str| all[&(words.to_owned(), 512 << 20)].clone();
    let [one, two, four] = ["one way", "one way, 2 streams", "one way, 4 streams"].map(|words| large(words)[1]);
    assert!((two / one - 1.0).abs() < 0.03 && (four / one - 1.0).abs() < 0.03, "{one} {two} {four}");
    fresh(&table);
    assert!(worst[0] < 0.1 && worst[1] < 0.2, "{worst:?}\n{table}");
}

fn fresh(table: &str) {
    let path = root().join("validation/model.md");
    let page = std::fs::read_to_string(&path).unwrap();
    if !page.contains(table) {
        assert!(
            std::env::var_os("UPDATE_DOCS").is_some(),
            "validation/model.md is stale: UPDATE_DOCS=1 rewrites\n{table}"
        );
        let (before, after) = page.split_once("| bytes | flows |").unwrap();
        let rest = after.split_once("\n\n").unwrap().1;
        std::fs::write(path, format!("{before}{table}\n{rest}")).unwrap();
    }
}
