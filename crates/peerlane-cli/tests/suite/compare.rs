//! `compare` and `--what-if` as a user meets them.

use crate::common::{command, file, json, out, path, refused};
use serde_json::Value;

#[test]
fn every_system_fits_the_terminal_beside_others() {
    let list = json(&["systems", "--json"]);
    let names: Vec<&str> = list["systems"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    let all = out(&[&["compare"], names.as_slice()].concat());
    let wide: Vec<&str> = all.lines().filter(|l| l.chars().count() > 100).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    let verbose = out(&["compare", "-v", "dgx-1v", "hgx-h200", "exxact-txr414-20"]);
    assert!(verbose.lines().all(|l| l.chars().count() <= 100), "{verbose}");
    for design in &names {
        assert!(all.contains(design), "{design}");
    }
}

#[test]
fn json_keeps_to_its_schema() {
    let schema =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/comparison-2.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    for args in [
        &["compare", "--json", "7gforce", "az-2x-m60", "apenet-x56xx"][..],
        &["compare", "--json", "exxact-devbox", "--what-if", "GPU3=none"],
    ] {
        let document = json(args);
        let errors: Vec<String> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
        assert_eq!(document["schema"], "peerlane/comparison/2");
    }
    let explained = json(&["explain", "--json", "7gforce", "GPU0", "GPU1"]);
    let upgrade = &explained["upgrades"][0];
    assert!(upgrade["factor"].as_f64().unwrap() > 1.0 && upgrade["edits"][0].is_string(), "{explained}");
}

#[test]
fn a_changed_design_stands_beside_itself() {
    let document = json(&["compare", "--json", "exxact-devbox", "7gforce", "--what-if", "7gforce:GPU0.link=x8"]);
    let names: Vec<&str> =
        document["designs"].as_array().unwrap().iter().map(|d| d["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["exxact-devbox", "7gforce", "7gforce (what if)"]);
    let rate = |at: usize| document["designs"][at]["from_host"]["mean"]["rate"].as_f64().unwrap();
    assert!(rate(2) > rate(1) * 1.3);
    assert!(document["designs"][2]["from_host"]["worst"].get("measured").is_none());
    // the same design twice is two
    let twice = json(&["compare", "--json", "7gforce", "7gforce"]);
    assert_ne!(twice["designs"][0]["name"], twice["designs"][1]["name"]);
}

#[test]
fn every_command_takes_changes() {
    let narrow = "GPU0.link=pcie 3.0 x4";
    let predicted = json(&["predict", "exxact-devbox", "--json", "--what-if", narrow]);
    let value = |document: &Value| document["matrices"][0]["values"][0][1].as_f64().unwrap();
    assert!(value(&predicted) < 0.3 * value(&json(&["predict", "exxact-devbox", "--json"])));
    assert!(out(&["explain", "exxact-devbox", "GPU0", "GPU1", "--what-if", narrow]).contains("PCIe 3.0 x4"));
    let checked = out(&["check", "exxact-devbox", "--fail-on", "never", "--what-if", narrow]);
    assert!(checked.contains("GPU0 runs at PCIe 3.0 x4"), "{checked}");
    assert!(out(&["map", "exxact-devbox", "--what-if", narrow]).contains("3.0 x4 of 3.0 x16 ─ GPU0"));
    let file = out(&["map", "exxact-devbox", "--format", "system", "--what-if", "GPU3=none", "--what-if", narrow]);
    assert!(!file.contains("GPU3 = {") && file.contains("3.0 x4"), "{file}");
}

#[test]
fn what_cannot_be_changed_says_why() {
    let asked = |edit: &str| refused(&["predict", "exxact-devbox", "--what-if", edit]);
    assert!(asked("GPU9.link=x8").contains("no node 'GPU9'; the nodes are: GPU0–GPU3"));
    assert!(asked("GPU0.link=pcie 4.0 x16").contains("3.0 x16 at most"));
    assert!(asked("GPU2.at=plx0").contains("plx0.part=pex8780"));
    assert!(asked("nonsense").contains("write what is changed"));
    let stray = refused(&["compare", "exxact-devbox", "--what-if", "7gforce:GPU0=none"]);
    assert!(stray.contains("no machine '7gforce'; available: exxact-devbox"), "{stray}");
    assert!(refused(&["compare", "exxact-devbux"]).contains("did you mean exxact-devbox?"));
}

#[test]
fn runs_are_compared_with_what_they_measured() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compare");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("run.json");
    let path = path.to_str().unwrap();
    out(&["measure", "h200x4-vm", "--tests", "pairs,pairs-both,host,all-host,all-to-one,copy-latency", "-o", path]);
    let document = json(&["compare", "--json", path, "h200x4-vm"]);
    let run = &document["designs"][0];
    for seen in [
        &run["pair"]["worst"]["measured"],
        &run["pair_both_ways"]["worst"]["measured"],
        &run["from_host"]["worst"]["measured"],
        &run["host_feed"]["sum"]["measured"],
        &run["host_feed"]["slowest"]["measured"],
        &run["all_to_one"]["worst"]["measured"],
    ] {
        assert_eq!(seen["published"], false, "{seen} of {run:#}");
    }
    let feed = &run["host_feed"]["sum"];
    let ratio = feed["measured"]["low"].as_f64().unwrap() / feed["rate"].as_f64().unwrap();
    assert!((0.9..1.1).contains(&ratio), "{feed}");
    assert_eq!(run["latency"]["published"], false);
    // the design beside it has what its source publishes
    assert_eq!(document["designs"][1]["pair_both_ways"]["worst"]["measured"]["published"], true);
}

/// The line of a text that begins with these words, after its indentation.
fn line<'t>(text: &'t str, words: &str) -> &'t str {
    text.lines().find(|l| l.trim_start().starts_with(words)).unwrap_or_else(|| panic!("no line '{words}' in\n{text}"))
}

#[test]
fn latencies_stand_where_rates_do() {
    let predicted = out(&["predict", "exxact-traditional"]);
    assert!(line(&predicted, "latency, P2P on").ends_with("us"));
    assert!(predicted.contains("time of     within GPU0–GPU3: a copy within the GPU"), "{predicted}");
    let checked = out(&["check", "exxact-devbox", "-v"]);
    let after = checked.split("latency, P2P on, copy engine").nth(1).unwrap();
    assert!(line(after, "PHB").contains("6.22   5.96–6.31"), "{after}");
    let compared = out(&["compare", "exxact-traditional", "exxact-devbox"]);
    assert!(line(&compared, "GPU–GPU latency, SYS, us").ends_with("16.20             -"), "{compared}");
    // through host memory, as `explain` has it
    let explained = json(&["explain", "--json", "exxact-traditional", "GPU0", "GPU2"]);
    let time = explained["curve"]["latency"].as_f64().unwrap();
    let measured = out(&["measure", "exxact-traditional", "--quick", "--tests", "copy-latency"]);
    assert!(!measured.contains("does not predict"), "{measured}");
    let staged = measured.split("latency, P2P off").nth(1).unwrap();
    let shown: f64 = line(staged, "GPU1").split_whitespace().last().unwrap().parse().unwrap();
    assert!((shown / time - 1.0).abs() < 0.05, "{shown} {time}");
}

#[test]
fn what_is_measured_alone_stands_in_its_row() {
    let system = "name = \"bare\"\n[nodes]\nGPU0 = { kind = \"gpu\" }\nGPU1 = { kind = \"gpu\" }\n[[published]]\n\
                  quantity = \"bandwidth\"\ndirection = \"unidirectional\"\np2p = true\nengine = \"ce\"\nunit = \"GB/s\"\n\
                  matrix = \"\"\"\nX 35.3\n20.1 X\n\"\"\"\n";
    let bare = file("compare", "bare.toml", system);
    let compared = out(&["compare", &bare, "exxact-devbox"]);
    let rows = compared.lines().skip_while(|l| !l.starts_with("worst pair, one way")).take(2);
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split_whitespace().collect()).collect();
    assert_eq!((&rows[0][4..], &rows[1][..]), (&["-", "10.15"][..], &["measured", "20.10"][..]), "{compared}");
}

/// What is throttled in the later record stands first, and nothing else changed.
#[test]
fn two_records_of_a_machine_are_a_list_of_changes() {
    let system = include_str!("../../../../systems/h200x4-vm.toml");
    let slow = file("compare", "slow.toml", format!("{system}\n[[faults]]\nthrottle = \"GPU2\"\nfactor = 0.8\n"));
    let record = |of: &str, name: &str| {
        let path = path("compare", name);
        let _ = std::fs::remove_file(&path);
        let path = path.to_str().unwrap().to_owned();
        assert!(command(&["measure", of, "--quick", "-o", &path]).status().unwrap().code() < Some(2));
        path
    };
    let (before, after) = (record("h200x4-vm", "before.json"), record(&slow, "after.json"));
    let text = out(&["compare", &before, &after]);
    assert!(text.starts_with("before → after: 20 of 92 numbers changed"), "{text}");
    assert!(text.lines().count() <= 10 && text.lines().skip(1).all(|line| line.contains("GPU2")), "{text}");
    let changes = json(&["compare", "--json", &before, &after])["changes"].take();
    let groups = changes["groups"].as_array().unwrap();
    let pairs = groups.iter().find(|group| group["test"] == "pairs").unwrap();
    let [was, now] = ["before", "after"].map(|key| pairs[key].as_f64().unwrap());
    assert!(pairs["values"] == 3 && (now / was - 0.8).abs() < 0.005, "{pairs}");
    assert!(out(&["compare", &before, &before]).starts_with("before → before.json: 0 of 92 numbers changed"));
    // designs, and other machines, have none
    assert_eq!(json(&["compare", "--json", &before, "hgx-h200"]).get("changes"), None);
    assert!(out(&["compare", "-v", &before, &after]).contains("worst pair, one way"));
}
