//! `check --thresholds`: floors of others, which change nothing else; and where they disagree with ours (validation/thresholds.md).

use std::fmt::Write;
use std::fs;

use serde_json::Value;

use crate::common::{checked, json, out, path, peerlane, status};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/thresholds.md");

/// A recorded run of a simulated machine.
fn record() -> String {
    let file = path("thresholds", "run.json");
    let _ = fs::remove_file(&file);
    let file = file.to_str().unwrap().to_owned();
    out(&["measure", "h200x4-vm", "--tests", "pairs,host", "-o", &file]);
    file
}

#[test]
fn floors_are_shown_next_to_what_was_measured_and_judge_nothing() {
    let file = record();
    let (plain, compared) = (checked(&["check", &file]), checked(&["check", &file, "--thresholds", "azure"]));
    assert!(compared.contains("Azure node health checks: host↔GPU 48, measured 5"), "{compared}");
    assert!(compared.contains(": passes"), "{compared}");
    let added: Vec<&str> = compared.lines().filter(|line| !plain.contains(line)).collect();
    assert!((2..=6).contains(&added.len()), "only the section is added: {added:?}");
    let of = |more: &[&str]| json(&[&["check", &file, "--json"], more].concat());
    let (plain, compared) = (of(&[]), of(&["--thresholds", "all"]));
    assert!(plain["machines"][0].get("thresholds").is_none());
    assert_eq!((&plain["verdict"], &plain["findings"]), (&compared["verdict"], &compared["findings"]));
    for one in compared["machines"][0]["thresholds"].as_array().unwrap() {
        assert!(one["source"].as_str().unwrap().starts_with("https://"), "{one}");
        assert_eq!(one["passes"], one["measured"].as_f64() >= one["floor"].as_f64());
    }
}

#[test]
fn a_failed_floor_is_no_finding_and_other_products_are_silent() {
    // a published all-reduce of 368 GB/s, below the floors of both lists
    let run = |more: &[&str]| peerlane(&[&["check", "hgx-h100"], more].concat());
    let (plain, compared) = (run(&[]), run(&["--thresholds", "all"]));
    assert!(String::from_utf8_lossy(&compared.stdout).contains(": fails"));
    assert_eq!(status(&plain), status(&compared));
    for target in ["7gforce", "exxact-devbox", "dgx-1"] {
        let run = |more: &[&str]| peerlane(&[&["check", target], more].concat());
        let (plain, compared) = (run(&[]), run(&["--thresholds", "all"]));
        assert_eq!(status(&plain), status(&compared));
        assert_eq!(plain.stdout, compared.stdout, "{target}: no list names it");
    }
}

/// The table of all machines of the catalogue that a list names.
fn table() -> String {
    let mut rows = String::new();
    for system in out(&["systems", "--json"]).parse::<Value>().unwrap()["systems"].as_array().unwrap() {
        let name = system["name"].as_str().unwrap();
        let checked = json(&["check", name, "--json", "--thresholds", "all"]);
        for one in checked["machines"][0]["thresholds"].as_array().into_iter().flatten() {
            let (floor, measured) = (one["floor"].as_f64().unwrap(), one["measured"].as_f64().unwrap());
            let passes = if one["passes"] == true { "passes" } else { "**fails**" };
            let words = [&one["list"], &one["of"], &checked["verdict"]].map(|value| value.as_str().unwrap());
            let [list, of, verdict] = words;
            writeln!(rows, "| {name} | {list} | {of} | {floor} | {measured:.1} | {passes} | {verdict} |").unwrap();
        }
    }
    rows
}

#[test]
fn the_page_lists_where_floors_and_verdicts_stand() {
    let text = fs::read_to_string(PAGE).unwrap();
    let (begin, end) = ("<!-- thresholds -->\n", "<!-- end of thresholds -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let head = "| machine | list | rate | floor, GB/s | published or measured | by that floor | our verdict |\n\
                | --- | --- | --- | --- | --- | --- | --- |\n";
    let fresh = format!("{before}{begin}{head}{}{end}{after}", table());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(PAGE, fresh).unwrap();
    } else {
        assert!(fresh == text, "stale: UPDATE_DOCS=1 cargo test -p peerlane-cli thresholds::");
    }
}
