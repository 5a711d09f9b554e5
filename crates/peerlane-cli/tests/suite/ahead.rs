//! What a worker does before it has a request, and at once: the driver, NVML and contexts, each of which takes some tenths of a
//! second on real machines. The libraries are fakes whose calls end only when the test lets them, so that what is tested is the
//! order of calls, and no time.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use peerlane::plan::{Method, Plan};
use serde_json::json;

use crate::common;
use crate::foreign::{NVML, Place, compiled};

/// How long anything may take that should happen at once.
const PATIENCE: Duration = Duration::from_secs(15);

#[test]
fn the_driver_and_nvml_start_before_the_request_and_contexts_together() {
    let place = Place::new("ahead");
    let (log, gate) = (place.path("log"), place.path("gate"));
    for library in [NVML, "libcuda.so.1"] {
        if !compiled("start.c", &place.path("own").join(library)) {
            return;
        }
    }
    let logged = || fs::read_to_string(&log).unwrap_or_default();
    let wait_for = |line: &str| {
        let began = Instant::now();
        while !logged().lines().any(|l| l == line) {
            assert!(began.elapsed() < PATIENCE, "no '{line}' in:\n{}", logged());
            thread::sleep(Duration::from_millis(5));
        }
    };
    let mut worker = common::command(&["worker"])
        .env("LD_LIBRARY_PATH", place.text("own"))
        .env("LOG", &log)
        .env("GATE", &gate)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = worker.stdin.take().unwrap();
    stdin.write_all(b"\"ahead\"\n").unwrap();
    wait_for("begin cuInit");
    wait_for("begin nvmlInit");
    assert!(!logged().contains("end"), "both are under way, and nothing was requested:\n{}", logged());
    assert!(!logged().contains("context"), "no GPU is touched before it is known who uses it");
    fs::write(&gate, "").unwrap();
    let gpu = |i: u8| json!({"name": format!("GPU{i}"), "address": format!("0000:0{}:00.0", i + 1)});
    let plan = Plan { method: Method::default(), rounds: Vec::new(), skipped: Vec::new() };
    let tolerated = json!({"others": false, "ours_before": false, "left_behind": []});
    let request = json!({"device": {"Live": {"gpus": [gpu(0), gpu(1)]}}, "plan": plan, "done": [], "tolerated": tolerated,
                         "trial": null, "more": false, "yields": false});
    writeln!(stdin, "{request}").unwrap();
    let mut answer = String::new();
    BufReader::new(worker.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert!(answer.contains("Refused") && answer.contains("cuDevicePrimaryCtxRetain"), "{answer}");
    worker.wait().unwrap();
    let lines = logged();
    assert_eq!(lines.matches("begin cuInit").count(), 1, "{lines}");
    let contexts: Vec<&str> = lines.lines().filter(|line| line.ends_with("context")).collect();
    assert_eq!(contexts, ["begin context", "begin context", "end context", "end context"]);
}

#[test]
fn a_worker_that_gets_no_request_ends_with_its_parent() {
    let place = Place::new("no-request");
    if !compiled("start.c", &place.path("own").join("libcuda.so.1")) {
        return;
    }
    let log = place.path("log");
    let mut worker = common::command(&["worker"])
        .env("LD_LIBRARY_PATH", place.text("own"))
        .env("LOG", &log)
        .env("GATE", place.path("never"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = worker.stdin.take().unwrap();
    stdin.write_all(b"\"ahead\"\n").unwrap();
    let began = Instant::now();
    while !log.exists() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    // it is inside the driver
    drop(stdin);
    while worker.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < PATIENCE, "it waits for the driver");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(!fs::read_to_string(&log).unwrap().contains("end"), "the driver's call had not ended");
}
