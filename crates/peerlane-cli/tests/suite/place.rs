//! `place` as a user meets it.

use crate::common::{json, out, peerlane};
use serde_json::Value;

#[test]
fn json_keeps_to_its_schema() {
    let schema =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/placement-2.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    for args in [
        &["place", "--json", "exxact-traditional", "--gpus", "2", "--busy", "GPU1"][..],
        &["place", "--json", "hpcac-tessa", "--nics", "1"],
        &["place", "--json", "exxact-txr550", "--jobs", "1x4+2x2", "--workload", "halo"],
    ] {
        let document: Value = json(args);
        let errors: Vec<String> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
        assert_eq!(document["schema"], "peerlane/placement/2");
        for field in ["gpus", "order", "nics", "cores", "memory", "predicted", "gain", "reason"] {
            assert!(document["choices"][0].get(field).is_some(), "{field}");
        }
    }
}

#[test]
fn text_fits_the_terminal_and_states_its_gain() {
    for args in [&["place", "exxact-txr414-20"][..], &["place", "exxact-txr430", "-v", "-j", "2x4", "-w", "pairs"]] {
        let text = out(args);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.contains("by number") && text.contains("This is a prediction"), "{text}");
    }
    let busy = out(&["place", "exxact-traditional", "-g", "2", "-b", "GPU1"]);
    assert!(busy.contains("Choice  GPU2 GPU3") && busy.contains(" % over GPUs by number"), "{busy}");
}

#[test]
fn a_topology_file_is_written_and_named() {
    let folder = std::env::temp_dir().join(format!("peerlane-place-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("topology.xml");
    let file = file.to_str().unwrap();
    let text = out(&["place", "dgx-1v", "-g", "2", "--format", "nccl", "--topology", file]);
    assert!(text.contains(&format!("export NCCL_TOPO_FILE='{file}'\n")), "{text}");
    let written = std::fs::read_to_string(file).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(written, out(&["map", "dgx-1v", "--format", "nccl-xml"]));
}

#[test]
fn refusals_say_what_to_do() {
    for (args, expected) in [
        (
            &["place", "exxact-traditional", "--gpus", "9"][..],
            "9 GPUs are requested, but 4 of exxact-traditional are free",
        ),
        (&["place", "exxact-traditional", "--jobs", "four"], "COUNTxGPUS"),
        (&["place", "exxact-traditional", "--workload", "rings"], "all-to-all"),
        (&["place", "exxact-traditional", "dgx-1"], "choose one with --machine"),
        (&["place", "exxact-traditional", "-g", "2", "-j", "1x2"], "cannot be used with"),
    ] {
        let output = peerlane(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(expected), "{args:?}: {said}");
    }
}
