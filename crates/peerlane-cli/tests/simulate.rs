//! `simulate` and `sweep` as a user runs them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::{Command, Output};

fn peerlane(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_peerlane")).args(args).env("NO_COLOR", "1").output().unwrap()
}

fn shown(args: &[&str]) -> String {
    let output = peerlane(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = peerlane(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn file(name: &str, text: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("simulate");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_json_is_of_its_schema() {
    for (name, args) in [
        ("simulation", vec!["simulate", "h200x4-vm", "--sizes", "8B..1MiB", "--helps", "--json"]),
        ("simulation", vec!["simulate", "quong", "-w", "spin-glass:l=128", "--json"]),
        ("sweep", vec!["sweep", "exxact-devbox", "exxact-txr550", "-w", "all-to-all", "-w", "halo:2", "--json"]),
    ] {
        let document: serde_json::Value = serde_json::from_str(&shown(&args)).unwrap();
        let path = format!("{}/../../schema/{name}-1.json", env!("CARGO_MANIFEST_DIR"));
        let schema: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let errors: Vec<String> =
            jsonschema::validator_for(&schema).unwrap().iter_errors(&document).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{args:?}: {errors:?}");
    }
}

#[test]
fn tables_fit_and_sizes_are_those_asked_for() {
    let text = shown(&["simulate", "hgx-h200-x32", "-w", "all-reduce:rail", "--sizes", "1MiB,1GiB", "--helps", "-v"]);
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    assert!(
        text.contains("all-reduce:rail on 256 GPUs") && text.contains("  1 MiB ") && text.contains("  1 GiB "),
        "{text}"
    );
    assert!(text.contains("What would help"), "{text}");
}

#[test]
fn a_sweep_ranks_designs() {
    let csv = file("sweep.csv", "");
    let designs = ["exxact-txr550", "exxact-devbox", "exxact-txr430"];
    let mut args = vec!["sweep", "-w", "all-to-all", "--csv", csv.to_str().unwrap()];
    args.extend(designs);
    let text = shown(&args);
    let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(at("exxact-devbox") < at("exxact-txr550") && at("exxact-txr550") < at("exxact-txr430"), "{text}");
    let rows = std::fs::read_to_string(csv).unwrap();
    assert_eq!(rows.lines().count(), 4, "{rows}");
    assert!(rows.starts_with("target,workload,gpus,size,time_s,"), "{rows}");
}

#[test]
fn a_trace_runs_and_is_drawn() {
    let trace = file(
        "two.jsonl",
        "{\"id\":\"a\",\"from\":\"GPU0\",\"to\":\"GPU1\",\"bytes\":1e6}\n{\"on\":\"GPU1\",\"seconds\":1e-3,\"after\":[\"a\"]}\n",
    );
    let picture = file("two.json", "");
    let text =
        shown(&["simulate", "exxact-devbox", "-w", trace.to_str().unwrap(), "--trace", picture.to_str().unwrap()]);
    assert!(text.contains("GPUs compute"), "{text}");
    let drawn: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(picture).unwrap()).unwrap();
    let events = drawn["traceEvents"].as_array().unwrap();
    let spans: Vec<&str> = events.iter().filter(|e| e["ph"] == "X").map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(spans, ["to GPU1", "compute"]);
    assert!((events[1]["dur"].as_f64().unwrap() - 1000.0).abs() < 1e-6);
}

#[test]
fn a_cluster_of_ones_own() {
    let path = file(
        "pair.toml",
        "name = \"pair\"\nnode = \"hgx-h200\"\nnodes = 2\n[network]\nshape = \"switch\"\nrate = 200\n",
    );
    let message = "point-to-point:node0/GPU3:node1/GPU3";
    let text = shown(&["simulate", path.to_str().unwrap(), "-w", message, "-s", "1GiB"]);
    assert!(text.contains("node# port# to switch"), "{text}");
}

#[test]
fn what_cannot_be_is_said() {
    let circle = file("circle.jsonl", "{\"id\":\"a\",\"on\":\"GPU0\",\"seconds\":1,\"after\":[\"a\"]}\n");
    let cases: [(&[&str], &str); 11] = [
        (&["simulate", "exxact-devbox", "-w", "all-reduce:star"], "no such workload; there are"),
        (&["simulate", "exxact-devbox", "-w", circle.to_str().unwrap()], "line 1: it waits for itself"),
        (&["simulate", "exxact-devbox", "-w", "point-to-point:GPU0:GPU7"], "'GPU7' is no GPU of exxact-devbox"),
        (&["simulate", "exxact-devbox", "--nodes", "2", "--network", "switch"], "has no NIC"),
        (&["simulate", "quong", "--nodes", "2", "--network", "switch"], "is a cluster already"),
        (&["simulate", "hgx-h200", "--nodes", "3", "--network", "torus:2x2"], "not as many places"),
        (&["simulate", "hgx-h200", "--nodes", "2", "--network", "switch", "--link-rate", "0"], "carries nothing"),
        (&["simulate", "hgx-h200", "--nodes", "2", "--network", "switch", "--link-rate", "nan"], "--link-rate"),
        (&["simulate", "quong", "--use-nodes", "17"], "has 16 nodes"),
        (&["simulate", "quong", "--sizes", "1GiB..1B"], "ends below"),
        (&["simulate", "quong", "--sizes", "1 parsec"], "a size is written as"),
    ];
    for (args, expected) in cases {
        let message = refused(args);
        assert!(message.contains(expected), "{args:?}: {message}");
    }
}
