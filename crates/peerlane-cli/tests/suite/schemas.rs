//! What commands write as JSON is what `schema/` says, of one machine and of several, with all of it known and with little.

use crate::common::json;

const TOPOLOGY: &str = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\t0-7\t0\nGPU1\tPIX\t X \t0-7\t0\n";

#[test]
fn documents_keep_to_their_schemas() {
    let topology = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("schemas-topology.txt");
    std::fs::write(&topology, TOPOLOGY).unwrap();
    let topology = topology.to_str().unwrap();
    let cases: &[(&str, &[&str])] = &[
        ("prediction-2", &["predict", "exxact-devbox"]),
        ("prediction-2", &["predict", "exxact-devbox", "dgx-1"]),
        ("prediction-2", &["predict", topology]),
        ("prediction-2", &["predict", "exxact-devbox", "--sizes", "1KiB..1MiB"]),
        ("check-2", &["check", "dgx-1"]),
        ("check-2", &["check", "7gforce", "exxact-devbox"]),
        ("check-2", &["check", topology]),
        ("explanation-2", &["explain", "7gforce", "GPU0", "GPU1"]),
        ("explanation-2", &["explain", topology, "GPU0", "GPU1"]),
        ("placement-2", &["place", "dgx-1v", "--gpus", "2"]),
        ("placement-2", &["place", topology, "--gpus", "2"]),
        ("comparison-2", &["compare", "dgx-1", topology]),
        ("fabric-1", &["map", topology]),
    ];
    for (schema, args) in cases {
        let file = format!("{}/../../schema/{schema}.json", env!("CARGO_MANIFEST_DIR"));
        let schema = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let document = json(&[*args, &["--json"]].concat());
        let errors: Vec<String> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{args:?}: {}", errors.join("\n"));
    }
}
