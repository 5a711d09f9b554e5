//! What commands write as JSON is what `schema/` says, and has no field beyond it: every command, on every system, cluster and
//! capture in the repository, and on those that `PEERLANE_CORPUS` and `../shared/published` hold where they are there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use jsonschema::Validator;
use peerlane::selftest::{Depth, selftest};
use serde_json::{Value, json};

use crate::common::{err, everything, file, out, path, peerlane, refused, some};

/// Systems, clusters and captures in the repository alone.
const FEWEST: usize = 45;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The schemas, each closed: an object has no property that it does not name.
fn validators() -> BTreeMap<String, Validator> {
    let files = fs::read_dir(root().join("schema")).unwrap().map(|entry| entry.unwrap().path());
    let read = files.map(|file| {
        let mut schema: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let name = schema["properties"]["schema"]["const"].as_str().unwrap().to_owned();
        close(&mut schema, true);
        (name, jsonschema::validator_for(&schema).unwrap())
    });
    read.collect()
}

/// Adds `unevaluatedProperties` wherever a whole value is described. Parts of a description, below `allOf` and the like, and
/// definitions, which may be such parts, stay open.
fn close(schema: &mut Value, whole: bool) {
    let Some(object) = schema.as_object_mut() else { return };
    let describes = ["properties", "$ref", "oneOf", "anyOf", "allOf"].iter().any(|key| object.contains_key(*key));
    if whole && describes && !object.contains_key("additionalProperties") {
        object.insert("unevaluatedProperties".to_owned(), json!(false));
    }
    for (key, value) in object {
        match (key.as_str(), value) {
            ("properties" | "patternProperties", Value::Object(of)) => of.values_mut().for_each(|s| close(s, true)),
            ("items" | "additionalProperties", value) => close(value, true),
            ("prefixItems", Value::Array(of)) => of.iter_mut().for_each(|s| close(s, true)),
            ("$defs", Value::Object(of)) => of.values_mut().for_each(|s| close(s, false)),
            ("oneOf" | "anyOf" | "allOf", Value::Array(of)) => of.iter_mut().for_each(|s| close(s, false)),
            _ => {}
        }
    }
}

/// What is wrong with a document by the schema that it names.
fn wrong(validators: &BTreeMap<String, Validator>, document: &Value) -> Option<String> {
    let Some(validator) = document["schema"].as_str().and_then(|name| validators.get(name)) else {
        return Some(format!("no schema is called {}", document["schema"]));
    };
    let errors: Vec<String> =
        validator.iter_errors(document).take(5).map(|e| format!("{}: {e:.300}", e.instance_path())).collect();
    (!errors.is_empty()).then(|| errors.join("\n"))
}

/// Runs commands, two at a time, and validates what they write. A command that refuses its input writes nothing.
fn all(commands: &[Vec<String>]) -> BTreeMap<String, usize> {
    let validators = validators();
    let (next, found, bad) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    let work = || {
        while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
            args.push("--json");
            let output = peerlane(&args);
            if output.stdout.is_empty() {
                assert!(output.status.code() == Some(2) && !output.stderr.is_empty(), "{args:?}");
                println!("refused: {args:?}");
                *found.lock().unwrap().entry("refused".to_owned()).or_insert(0) += 1;
                continue;
            }
            match serde_json::from_slice::<Value>(&output.stdout) {
                Ok(Value::Array(documents)) => {
                    let why = documents.iter().find_map(|document| wrong(&validators, document));
                    bad.lock().unwrap().extend(why.map(|why| format!("{args:?}: {why}")));
                }
                Ok(document) => {
                    let name = document["schema"].as_str().unwrap_or_default().to_owned();
                    *found.lock().unwrap().entry(name).or_insert(0) += 1;
                    bad.lock().unwrap().extend(wrong(&validators, &document).map(|why| format!("{args:?}: {why}")));
                }
                Err(error) => bad.lock().unwrap().push(format!("{args:?}: {error}: {}", err(&output))),
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let bad = bad.into_inner().unwrap();
    assert!(bad.is_empty(), "{} of {} commands:\n{}", bad.len(), commands.len(), bad.join("\n"));
    found.into_inner().unwrap()
}

fn command(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Files of a folder with one of these endings, sorted; none where it is not there.
fn files(folder: &Path, endings: &[&str]) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let wanted = |file: &PathBuf| {
        let ending = file.extension().unwrap_or_default().to_string_lossy().into_owned();
        file.is_file()
            && endings.contains(&ending.as_str())
            && !file.ends_with("README.md")
            && !file.ends_with("INDEX.md")
    };
    let mut all: Vec<String> = entries.filter(wanted).map(|file| file.to_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

const CAPTURED: [&str; 6] = ["txt", "json", "xml", "md", "log", "out"];

/// Everything that is a TARGET, by what it is.
fn targets() -> (Vec<String>, Vec<String>, Vec<String>) {
    let name = |file: &String| Path::new(file).file_stem().unwrap().to_str().unwrap().to_owned();
    let systems: Vec<String> = files(&root().join("systems"), &["toml"]).iter().map(name).collect();
    let clusters: Vec<String> = files(&root().join("clusters"), &["toml"]).iter().map(name).collect();
    let mut others = Vec::new();
    for folder in fs::read_dir(root().join("captures")).unwrap().map(|entry| entry.unwrap().path()) {
        others.extend(files(&folder, &CAPTURED));
        others.push(folder.to_str().unwrap().to_owned());
    }
    match std::env::var_os("PEERLANE_CORPUS").map(PathBuf::from) {
        Some(corpus) => {
            others.extend(files(&corpus, &CAPTURED));
            others.extend(files(&corpus.join("public"), &CAPTURED));
        }
        None => eprintln!("skipped: PEERLANE_CORPUS names no folder of further captures"),
    }
    let published = files(&root().join("../shared/published"), &["toml"]);
    if published.is_empty() {
        eprintln!("skipped: ../shared/published has no machines");
    }
    others.extend(published);
    (systems, clusters, others)
}

#[test]
fn every_input_gives_documents_by_their_schemas() {
    let (systems, clusters, others) = targets();
    let inputs = systems.len() + clusters.len() + others.len();
    assert!(inputs >= FEWEST, "{inputs} inputs");
    let mut commands = Vec::new();
    // together, and so each with its part of a document of many
    for one in ["check", "map", "predict", "compare"] {
        commands.push([vec![one.to_owned()], systems.clone()].concat());
    }
    for target in &systems {
        commands.push(command(&["explain", target, "GPU0", "GPU1"]));
        commands.push(command(&["place", target, "--gpus", "2"]));
        commands.push(command(&["systems", "show", target]));
    }
    for target in &clusters {
        commands.push(command(&["simulate", target, "--sizes", "1MiB", "--use-nodes", "2"]));
        commands.push(command(&["systems", "show", target]));
    }
    for target in &others {
        commands.push(command(&["check", target]));
        commands.push(command(&["map", target]));
        commands.push(command(&["explain", target, "GPU0", "GPU1"]));
    }
    let commands: Vec<_> = some(commands, 4).collect();
    let found = all(&commands);
    println!("{inputs} inputs, {} commands: {found:?}", commands.len());
    let least = if everything() { [20, 40] } else { [6, 12] };
    assert!(found["peerlane/check/3"] > least[0] && found["peerlane/explanation/2"] > least[1], "{found:?}");
}

#[test]
fn every_command_and_option_gives_documents_by_their_schemas() {
    let topology = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\t0-7\t0\nGPU1\tPIX\t X \t0-7\t0\n";
    let topology = &file("schemas", "topology.txt", topology);
    let record = path("schemas", "record.json");
    let record = record.to_str().unwrap();
    let _ = fs::remove_file(record);
    let between = path("schemas", "nodes.json");
    let between = between.to_str().unwrap();
    let _ = fs::remove_file(between);
    let planted =
        ["measure", "cluster:quong", "--faults", "slow-node:node3:0.5,lost-node:node9,corrupt:node1", "-o", between];
    all(&[command(&planted)]);
    let trace = r#"{"id": "a", "from": "GPU0", "to": "GPU1", "bytes": 1e6}"#;
    let trace = &file("schemas", "trace.jsonl", trace);
    let example = root().join("examples/trace");
    let example = example.to_str().unwrap();
    let rules = "[[waive]]\nrule = \"narrow-link\"\nmachines = [\"7gforce\"]\nreason = \"known\"\n";
    let rules = &file("schemas", "rules.toml", rules);
    let folder = path("schemas", "gathered");
    let _ = fs::remove_dir_all(&folder);
    let run = root().join("captures/h200x4-vm-runs/default.json");
    let (run, limits) = (run.to_str().unwrap(), root().join("captures/h200x4-vm-runs/inference-3.json"));
    let small = &["--sizes", "1MiB"][..];
    let measured = all(&[command(&["measure", "h200x4-vm", "--quick", "-o", record])]);
    assert_eq!(measured["peerlane/run/1"], 1);
    let commands: Vec<Vec<String>> = [
        &["check", "7gforce"][..],
        &["check", topology],
        &["check", run, limits.to_str().unwrap()],
        &["check", record],
        &["check", "7gforce", "--rules", rules],
        &["check", record, record, record],
        &["check", record, "--baseline", run],
        &["check", "7gforce", "--what-if", "GPU0.link=pcie 3.0 x16"],
        &["map", "7gforce"],
        &["simulate", "h200x4-vm", "-w", example],
        &["simulate", "hgx-h100", "-w", "training:model=mixtral-8x7b,ep=8,micro=1", "--helps"],
        &["simulate", "hgx-h100", "--nodes", "2", "--network", "rail", "-w", "serve:model=llama-3-8b,tp=2"],
        &["simulate", "hgx-h100", "-w", "decode:model=llama-3-8b,tp=2"],
        &["plan", "llama-3-8b", "hgx-h100", "--batch", "64"],
        &["predict", "exxact-devbox"],
        &["predict", "exxact-devbox", "--sizes", "dgx-1"],
        &["predict", topology, "--sizes=1K,1M"],
        &["explain", "hpcac-tessa", "GPU0", "mlx5_2"],
        &["explain", "exxact-traditional", "GPU0", "host"],
        &["place", "dgx-1v", "--jobs", "2x4"],
        &["place", topology, "--workload", "all-to-all"],
        &["place", "dgx-1v", "--gpus", "2", "--busy", "GPU0,GPU1"],
        &["tune", "h200x4-vm", "--set", "NCCL_PROTO=LL", "--prove", "--pairs", "6"],
        &["tune", "dgx-1v", "--collective", "send-receive"],
        &["compare", "dgx-1", topology],
        &["compare", "7gforce", "--what-if", "GPU0.link=pcie 3.0 x16"],
        &["infer", run, "--recorded"],
        &["infer", "exxact-devbox", "--recorded"],
        &[&["simulate", "dgx-1"], small].concat(),
        &[&["simulate", "dgx-1", "--workload", "halo:2", "--helps"], small].concat(),
        &["simulate", "exxact-devbox", "--workload", trace],
        &[&["simulate", "dgx-1v", "--nodes", "2,4", "--network", "switch", "--scaling", "weak"], small].concat(),
        &[&["simulate", "dgx-1v", "--nodes", "2", "--network", "fat-tree"], small].concat(),
        &[&["sweep", "dgx-1", "dgx-1v", "--workload", "all-to-all", "--workload", "halo:1"], small].concat(),
        &["systems"],
        &["systems", "show", "dgx-1"],
        &["accuracy"],
        &["gather", "-o", folder.to_str().unwrap()],
        &["gate", "h200x4-vm"],
        &["measure", "cluster:tessa-pair"],
        &["check", between],
        &["compare", between, between],
        &["infer", between],
        &["fleet", between],
    ]
    .map(command)
    .into();
    let found = all(&commands);
    println!("{found:?}");
    let validators = validators();
    // the pages' own tests validate their documents; NVML is asked by a worker; the full self-test takes minutes; a recording is
    // lines, and has its own test
    let elsewhere = ["/report/", "/fleet-page/", "/nvml/", "/selftest/", "/traffic/"];
    for name in validators.keys().filter(|name| !elsewhere.iter().any(|part| name.contains(part))) {
        assert!(found.contains_key(name) || measured.contains_key(name), "no command wrote a {name}");
    }
    assert!(!found.contains_key("refused"), "{found:?}");
}

#[test]
fn the_self_test_and_evidence_of_records_are_by_their_schemas() {
    let validators = validators();
    let result = serde_json::to_value(selftest(Depth::Brief, 0, &|_, _| ())).unwrap();
    assert_eq!(wrong(&validators, &result), None);
    let record = |name: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(root().join("captures").join(name)).unwrap()).unwrap()
    };
    for name in ["h200x2-vm-runs/default.json", "h200x4-vm-runs/default.json", "h200x2-vm-runs/default-now.json"] {
        assert_eq!(wrong(&validators, &record(name)), None, "{name}");
    }
    // what earlier versions asked NVML has fields that are gone
    let now = record("h200x2-vm-runs/default-now.json");
    let texts = now["machine"]["evidence"].as_array().unwrap();
    let nvml = texts.iter().find(|text| text["name"] == "nvml.json").unwrap()["text"].as_str().unwrap();
    assert_eq!(wrong(&validators, &serde_json::from_str(nvml).unwrap()), None);
}

#[test]
fn a_recording_of_traffic_begins_by_its_schema_and_is_played() {
    let recording = path("schemas", "traffic.jsonl");
    let _ = fs::remove_file(&recording);
    let recording = recording.to_str().unwrap();
    out(&["top", "h200x4-vm", "--record", recording, "--every", "100ms", "--for", "1s"]);
    let text = fs::read_to_string(recording).unwrap();
    let head: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let validators = validators();
    let wrong: Vec<String> = validators["peerlane/traffic/1"].iter_errors(&head).map(|e| e.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(text.lines().count() > 4, "{text}");
    // the machine and its links, from the recording alone
    let played = out(&["top", recording, "--once"]);
    assert!(played.contains("NVLink 4 x18") && played.contains("recording"), "{played}");
    assert!(refused(&["check", recording]).contains(&format!("peerlane top {recording}")));
    assert!(refused(&["top", recording, "--record", "other.jsonl"]).contains("nothing is measured"));
}
