//! What the commands answer for every machine of the catalogue, as figures without prose: a change of the model, of a
//! rule or of a search shows here, machine by machine. `UPDATE_GOLDEN=1 cargo test golden::` rewrites the files; a
//! commit that changes them says why.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::common::peerlane;
use serde_json::Value;

/// The JSON of a command, whatever its findings; `Null` where it cannot be done.
fn json(args: &[&str]) -> Value {
    let output = peerlane(&[args, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => figure(number.as_f64().unwrap()),
        Value::Array(all) => all.iter().map(words).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// Four significant digits.
fn figure(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 12) };
    format!("{value:.*}", digits as usize)
}

/// Each value of a grid with how often it stands there.
fn tally(values: &Value) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for value in values.as_array().into_iter().flatten().flat_map(|row| row.as_array().into_iter().flatten()) {
        *counts.entry(words(value)).or_default() += usize::from(!value.is_null());
    }
    let counts = counts.into_iter().filter(|(_, n)| *n > 0);
    counts.map(|(value, n)| format!("{value} ×{n}")).collect::<Vec<_>>().join(", ")
}

fn pick(value: &Value, keys: &[&str]) -> String {
    let one = |key: &&str| value.pointer(key).filter(|v| !v.is_null()).map(words);
    keys.iter().filter_map(one).collect::<Vec<_>>().join(" ")
}

fn answers(name: &str) -> String {
    let mut out = String::new();
    let check = json(&["check", name]);
    writeln!(out, "check: {}", words(&check["verdict"])).unwrap();
    for finding in check["findings"].as_array().into_iter().flatten() {
        writeln!(out, "  {}", pick(finding, &["/severity", "/kind", "/rule", "/subjects"])).unwrap();
    }
    for matrix in json(&["predict", name])["matrices"].as_array().into_iter().flatten() {
        let what = pick(matrix, &["/quantity", "/direction", "/engine", "/op"]);
        let p2p = matrix["p2p"].as_bool().map_or("", |on| if on { ", P2P on" } else { ", P2P off" });
        let ends = [&matrix["rows"][0], &matrix["cols"][0]].map(words);
        writeln!(out, "predict {what}{p2p}, {} to {}, {}:", ends[0], ends[1], words(&matrix["unit"])).unwrap();
        writeln!(out, "  {}", tally(&matrix["values"])).unwrap();
    }
    for other in ["GPU1", "host0"] {
        let explained = json(&["explain", name, "GPU0", other]);
        let keys = ["/class", "/forward/rate", "/backward/rate", "/both/rate", "/curve/latency", "/curve/half_size"];
        writeln!(out, "explain GPU0 {other}: {}", pick(&explained, &keys)).unwrap();
    }
    let design = &json(&["compare", name])["designs"][0];
    for key in [
        "pair/worst",
        "pair_both_ways/worst",
        "bisection",
        "all_to_all/sum",
        "ring_all_reduce",
        "from_host/worst",
        "to_host/worst",
        "host_feed/sum",
        "host_drain/sum",
    ] {
        let rate = pick(design, &[&format!("/{key}/rate")]);
        if !rate.is_empty() {
            writeln!(out, "compare {key}: {rate}").unwrap();
        }
    }
    let placed = json(&["place", name]);
    writeln!(out, "place: {}", pick(&placed["choices"][0], &["/predicted", "/order", "/nics"])).unwrap();
    let played = json(&["simulate", name, "-w", "all-reduce", "-s", "1GiB"]);
    writeln!(out, "simulate all-reduce: {}", pick(&played["points"][0], &["/time", "/busbw"])).unwrap();
    out
}

#[test]
fn answers_are_those_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut stale = Vec::new();
    for name in peerlane::catalogue::system_names() {
        let path = folder.join(format!("{name}.txt"));
        let fresh = answers(name);
        if std::fs::read_to_string(&path).unwrap_or_default() == fresh {
            continue;
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &fresh).unwrap();
        } else {
            stale.push(format!("{}:\n{fresh}", path.to_string_lossy()));
        }
    }
    assert!(stale.is_empty(), "UPDATE_GOLDEN=1 cargo test golden:: rewrites what changed:\n{}", stale.join("\n"));
}
