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
        &["place", "--json", "dgx-1", "--nodes", "2", "--network", "rail", "--jobs", "1x12+1x4"],
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
fn jobs_are_placed_on_clusters() {
    let cluster = ["place", "hgx-h200", "--nodes", "4", "--network", "rail"];
    let text = out(&[&cluster[..], &["--jobs", "1x16+2x8"]].concat());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("Job 1  16 GPUs on 2 nodes") && text.contains("Job 3  8 GPUs on 1 node"), "{text}");
    assert!(text.contains("GPU0–GPU7 through mlx5_0–mlx5_7") && text.contains("8 rings"), "{text}");
    let hosts = out(&[&cluster[..], &["--jobs", "1x16+2x8", "--format", "hostfile"]].concat());
    assert_eq!(hosts.matches(" slots=8").count(), 4, "{hosts}");
    for (args, expected) in [
        (&["place", "hgx-h200", "--nodes", "2,4", "--network", "rail"][..], "one number of --nodes"),
        (&["place", "hgx-h200", "--nodes", "2", "--network", "rail", "--nics", "1"], "on a cluster each GPU uses"),
        (&["place", "hgx-h200", "--nodes", "500", "--network", "rail"], "4000 GPUs; up to 1024 of a cluster"),
        (&["place", "hgx-h200", "--use-nodes", "2"], "are for clusters"),
    ] {
        let output = peerlane(args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(expected), "{args:?}: {error}");
    }
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
