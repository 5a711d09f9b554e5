//! `tune` as a user meets it. A simulated machine answers as the model predicts, with noise.

use crate::common::{command, err, json, out, refused, status, stdout};
use serde_json::Value;

/// Two GPUs of a simulated machine, of four that NVLink joins.
const TWO: [&str; 4] = ["tune", "h200x4-vm", "--gpus", "GPU0,GPU1"];

fn with(more: &[&str]) -> Vec<String> {
    TWO.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn document(more: &[&str]) -> Value {
    let words = with(more);
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--json"]).collect();
    json(&words)
}

/// The commands of suggestions that are kept.
fn kept(document: &Value) -> Vec<&str> {
    let suggestions = document["suggestions"].as_array().unwrap().iter();
    suggestions.filter(|s| s["proven"]["kept"] == true).map(|s| s["command"].as_str().unwrap()).collect()
}

#[test]
fn planted_settings_are_found_and_proven() {
    let planted = ["--set", "NCCL_P2P_DISABLE=1", "--set", "NCCL_PROTO=LL", "--set", "NCCL_MAX_NCHANNELS=1"];
    let found = document(&[&planted[..], &["--prove"]].concat());
    assert_eq!(kept(&found), ["unset NCCL_MAX_NCHANNELS", "unset NCCL_P2P_DISABLE", "unset NCCL_PROTO"]);
    for suggestion in found["suggestions"].as_array().unwrap() {
        let measured = suggestion["proven"]["gains"].as_array().unwrap();
        assert_eq!(measured.len(), 3, "{suggestion}");
        for (measured, predicted) in measured.iter().zip(suggestion["predicted"].as_array().unwrap()) {
            let gain = measured["gain"].as_f64().unwrap();
            assert!(measured["low"].as_f64().unwrap() <= gain && gain <= measured["high"].as_f64().unwrap());
            assert!((gain / predicted["gain"].as_f64().unwrap() - 1.0).abs() < 0.05, "{suggestion}");
        }
    }
    assert_eq!((&found["proof"]["pairs"], &found["proof"]["runs"]), (&8.into(), &56.into()));
}

#[test]
fn an_indifferent_setting_is_not_kept() {
    let found = document(&["--set", "NCCL_BUFFSIZE=4194304", "--prove", "--pairs", "6"]);
    assert_eq!(kept(&found), [""; 0]);
    let words = with(&["--set", "NCCL_BUFFSIZE=4194304", "--prove", "--pairs", "6"]);
    let text = out(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(text.contains("Nothing is kept"), "{text}");
}

#[test]
fn json_keeps_to_its_schema() {
    let schema = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/tuning-1.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/h200x4-vm");
    for document in [
        document(&["--set", "NCCL_PROTO=LL", "--prove", "--pairs", "6"]),
        document(&["--collective", "all-gather"]),
        json(&["tune", "--json", "dgx-1v", "--collective", "send-receive", "--gpus", "GPU0,GPU5,GPU2,GPU7"]),
        json(&["tune", "--json", log]),
    ] {
        let errors: Vec<String> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{}: {document}", errors.join("\n"));
    }
}

#[test]
fn a_measured_collective_is_compared_with_the_prediction() {
    let found = json(&["tune", "--json", concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/h200x4-vm")]);
    let measured = &found["measured"];
    let share = measured["rate"].as_f64().unwrap() / measured["predicted"].as_f64().unwrap();
    assert!((0.9..1.15).contains(&share), "{measured}");
    assert_eq!(measured["likely"].as_array().unwrap().len(), 0);
}

#[test]
fn the_environment_counts_for_this_machine_alone() {
    let output = command(&TWO).env("NCCL_PROTO", "LL").output().unwrap();
    assert!(status(&output) == 0 && stdout(&output).contains("no variable of NCCL"), "{}", err(&output));
}

#[test]
fn lines_for_a_shell_have_their_reasons() {
    let words = with(&["--set", "NCCL_MAX_NCHANNELS=1", "--format", "env"]);
    let text = out(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(
        text.starts_with("# NCCL_MAX_NCHANNELS=1 is set.") && text.ends_with("\nunset NCCL_MAX_NCHANNELS\n"),
        "{text}"
    );
    assert_eq!(
        out(&TWO[..2].iter().copied().chain(["--format", "env"]).collect::<Vec<_>>()),
        "# no setting is predicted to help\n"
    );
}

#[test]
fn what_cannot_be_done_is_refused_in_a_line() {
    for (args, words) in [
        (&["tune", "h200x4-vm", "--gpus", "GPU0"][..], "2 to 32 GPUs"),
        (&["tune", "h200x4-vm", "--gpus", "GPU0,GPU9"], "no node 'GPU9'; the nodes are: GPU0–GPU3"),
        (&["tune", "h200x4-vm", "--set", "PATH=/tmp"], "NCCL_"),
        (&["tune", "h200x4-vm", "--pairs", "8"], "--prove"),
        (&["tune", "h200x4-vm", "--prove", "--pairs", "3"], "6..=100"),
        (&["tune", "h200x4-vm", "dgx-1v", "--prove"], "one TARGET"),
        (&["tune", "h200x4-vm", "--collective", "all-to-all"], "send-receive"),
    ] {
        let text = refused(args);
        assert!(text.contains(words), "{args:?}: {text}");
    }
}
