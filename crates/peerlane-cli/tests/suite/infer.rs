//! `infer` as a user meets it.

use crate::common::{json, out, peerlane};
use serde_json::Value;

const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/h200x4-vm-runs/subsets.json");
const AT_ONCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/h200x4-vm-runs/host-contention.json");

/// `device-to-host GPU0 GPU1` for each group.
fn groups(document: &Value) -> Vec<String> {
    let words = |group: &Value| {
        let members: Vec<&str> = group["members"].as_array().unwrap().iter().map(|m| m.as_str().unwrap()).collect();
        format!("{} {}", group["direction"].as_str().unwrap(), members.join(" "))
    };
    document["groups"].as_array().unwrap().iter().map(words).collect()
}

#[test]
fn json_keeps_to_its_schema() {
    let schema =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/inference-2.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    for args in [
        &["infer", "--json", "dgx-1v", "--directions", "host-to-device,gpu-to-gpu"][..],
        &["infer", "--json", "--recorded", "exxact-txr550"],
        &["infer", "--json", RUN],
    ] {
        let document = json(args);
        let errors: Vec<String> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
        assert_eq!(document["schema"], "peerlane/inference/2");
        let sets = document["experiments"].as_array().unwrap().len() as u64;
        for group in document["groups"].as_array().unwrap() {
            assert!(group["low"].as_f64() <= group["capacity"].as_f64());
            assert!(group["capacity"].as_f64() <= group["high"].as_f64());
            let shown = group["sets"].as_array().unwrap();
            assert!(!shown.is_empty() && shown.iter().all(|at| at.as_u64().unwrap() < sets));
        }
    }
}

#[test]
fn a_virtual_machine_shows_its_switches() {
    let document = json(&["infer", "--json", "dgx-1v", "--directions", "device-to-host"]);
    let expected = ["GPU0 GPU1", "GPU2 GPU3", "GPU4 GPU5", "GPU6 GPU7"].map(|pair| format!("device-to-host {pair}"));
    assert_eq!(groups(&document), expected);
    for group in document["groups"].as_array().unwrap() {
        assert!((group["capacity"].as_f64().unwrap() / 13.0 - 1.0).abs() < 0.03, "{group}");
        assert!(group["confidence"].as_f64().unwrap() > 0.99);
    }
    let asked = &document["coverage"][0];
    assert!(asked["sets"].as_u64() <= asked["allowed"].as_u64());
}

#[test]
fn a_machine_that_hides_all_shows_what_its_host_allows() {
    let text = out(&["infer", "h200x4-vm"]);
    assert!(text.contains("\nDevice → host, shared limits in GB/s\n  GPU0–GPU3 share 15"), "{text}");
    assert!(text.contains("host → device keeps 100 % of its rate, GPU → GPU 99 %: independent"), "{text}");
    assert!(text.contains("host → device: GPU0–GPU3 carry at least 21"), "{text}");
}

#[test]
fn recorded_sets_are_used_as_far_as_they_go() {
    assert_eq!(
        groups(&json(&["infer", "--json", RUN])),
        ["device-to-host GPU0 GPU1 GPU2 GPU3", "both GPU0 GPU1 GPU2 GPU3"]
    );
    let other = json(&["infer", "--json", AT_ONCE]);
    let all = "GPU0 GPU1 GPU2 GPU3";
    let expected = ["host-to-device", "device-to-host", "both"].map(|way| format!("{way} {all}"));
    assert_eq!(groups(&other), expected);
    let down = other["groups"][0]["capacity"].as_f64().unwrap();
    assert!((down / 176.2 - 1.0).abs() < 0.01, "{down}");
    // three at once were never tried there
    let open = other["unidentifiable"].as_array().unwrap();
    assert!(open.iter().any(|o| o["would_tell"] == serde_json::json!([["GPU0", "GPU1", "GPU2"]])), "{open:?}");
}

#[test]
fn published_matrices_give_groups_and_what_lone_pairs_cannot_tell() {
    let text = out(&["infer", "--recorded", "exxact-txr550"]);
    for words in [
        "among GPU0–GPU3: 25.01–25.04",
        "among GPU4–GPU7: 25.01–25.04",
        "notable: just the pairs that touch GPU3 or GPU6: 14.69–14.73",
        "an uplink which all pairs between GPU0–GPU3 and GPU4–GPU7 share",
        "measuring these sets would show it: GPU0↔GPU4, GPU1↔GPU5",
    ] {
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "{words}: {text}");
    }
    assert!(out(&["infer", "--recorded", "exxact-traditional"]).contains("notable: GPU1→GPU2: 17.07"));
}

#[test]
fn text_fits_the_terminal() {
    for args in [&["infer", "exxact-txr414-20", "-v", "--directions", "host-to-device"][..], &["infer", AT_ONCE, "-v"]]
    {
        let text = out(args);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

#[test]
fn the_record_is_what_json_shows() {
    let folder = std::env::temp_dir().join(format!("peerlane-infer-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("inference.json");
    let shown = json(&["infer", "exxact-devbox", "--json", "--output", file.to_str().unwrap()]);
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(shown, written);
}

#[test]
fn a_record_beside_its_machine_is_drawn_and_judged() {
    let folder = std::env::temp_dir().join(format!("peerlane-inferred-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("inference.json");
    let record = file.to_str().unwrap();
    out(&["infer", RUN, "--output", record]);
    let map = out(&["map", RUN, record]);
    assert!(map.contains("Shared limits inferred from contention\n  ┄ device → host: GPU0–GPU3 share 157.1"), "{map}");
    let svg = out(&["map", RUN, record, "--format", "svg"]);
    assert!(svg.contains(">device → host 157.1 GB/s</text>"), "{svg}");
    let check: Value = json(&["check", RUN, record, "--json"]);
    let finding = check["findings"].as_array().unwrap().iter().find(|f| f["rule"] == "shared-limit").unwrap().clone();
    assert_eq!(finding["subjects"], serde_json::json!(["GPU0", "GPU1", "GPU2", "GPU3"]));
    assert_eq!(finding["evidence"], serde_json::json!([format!("{record} (peerlane infer)")]));
    let page = folder.join("report.html");
    out(&["report", RUN, record, "--output", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Shared limits inferred from") && page.contains("157.1 ("), "no shared limits in the report");
    assert!(page.contains("GPU0–GPU2 concurrently, "), "no sets in the report");
    let alone = peerlane(&["map", record]);
    let other = peerlane(&["map", "az-2x-m60", record]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!((alone.status.code(), other.status.code()), (Some(2), Some(2)));
    assert!(String::from_utf8_lossy(&alone.stderr).contains("also give that machine as a TARGET"));
    assert!(String::from_utf8_lossy(&other.stderr).contains("names GPU2, which az-2x-m60 has not"));
}

#[test]
fn invalid_requests_are_refused_with_a_reason() {
    for (args, words) in [
        (&["infer", "dgx-1w"][..], "did you mean dgx-1, dgx-1v or dgx-2?"),
        (&["infer", "dgx-1v", "--directions", "up"], "host-to-device"),
        (&["infer", "dgx-1v", "exxact-devbox"], "choose one with --machine: dgx-1v, exxact-devbox"),
        (&["infer", "--recorded", "dgx-1v", "--force"], "cannot be used with"),
        (&["infer", "dgx-1v", "--directions", "both", "--output", "/no/such/folder/x.json"], "cannot write"),
    ] {
        let output = peerlane(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}
