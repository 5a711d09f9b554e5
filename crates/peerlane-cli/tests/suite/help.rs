//! What `--help` shows works; what an option cannot do is refused.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{err, out, peerlane, refused, status};

/// A folder with the files that examples name.
fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("peerlane-examples-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("records")).unwrap();
    let topology = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n";
    std::fs::write(folder.join("topo.txt"), topology).unwrap();
    let run = folder.join("run.json");
    out(&["measure", "h200x4-vm", "--quick", "-o", run.to_str().unwrap()]);
    std::fs::copy(&run, folder.join("records/node1.json")).unwrap();
    folder
}

/// The commands, as `peerlane --help` lists them.
pub(crate) fn commands() -> Vec<String> {
    let help = out(&["--help"]);
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

#[test]
fn the_examples_in_help_run() {
    let folder = folder();
    let program = Path::new(env!("CARGO_BIN_EXE_peerlane")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut run = 0;
    for command in commands() {
        let help = out(&[&command, "--help"]);
        let examples = help.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{command} has no examples"));
        let examples = examples.split("\n\n").next().unwrap();
        let lines: Vec<&str> = examples.lines().filter_map(|line| line.strip_prefix("  peerlane")).collect();
        assert_eq!(lines.len(), 2, "{command}: {examples}");
        // it takes minutes; a test of its arguments reads these two
        for line in lines.iter().filter(|_| command != "selftest") {
            let line = format!("peerlane{line}");
            let output =
                Command::new("sh").arg("-c").arg(&line).current_dir(&folder).env("PATH", &path).output().unwrap();
            assert!(status(&output) < 2, "{line}: {}", err(&output));
            run += 1;
        }
    }
    assert!(run >= 38, "{run}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_target_in_place_of_a_command_is_recognised() {
    for word in ["live", "7gforce", "Cargo.toml"] {
        let error = refused(&[word]);
        assert!(
            error.contains(&format!("'{word}' is a TARGET, not a command; to check it: peerlane check {word}")),
            "{error}"
        );
    }
    assert!(refused(&["chekc"]).contains("check"));
}

#[test]
fn what_cannot_apply_is_refused() {
    for words in [
        &["check", "7gforce", "--passive"][..],
        &["check", "7gforce", "--force"],
        &["report", "7gforce", "--passive", "-o", "-"],
        &["report", "7gforce", "--force", "-o", "-"],
        &["measure", "h200x4-vm", "--force"],
        &["infer", "exxact-devbox", "--force"],
        &["tune", "h200x4-vm", "--prove", "--force"],
    ] {
        let error = refused(words);
        assert!(error.contains("is about measuring this machine"), "{words:?}: {error}");
    }
    let trace = crate::common::path("help", "trace.json");
    let _ = std::fs::remove_file(&trace);
    let error = refused(&["simulate", "exxact-devbox", "h200x4-vm", "--trace", trace.to_str().unwrap()]);
    assert!(error.contains("a trace is of one cluster, and there are 2") && !trace.exists(), "{error}");
    for option in [["--failures", "2"], ["--recoveries", "2"]] {
        let error = refused(&["gate", "h200x4-vm", option[0], option[1]]);
        assert!(error.contains("--state"), "{error}");
    }
    let folder = std::env::temp_dir().join(format!("peerlane-fleet-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let run = folder.join("a.json");
    out(&["measure", "h200x4-vm", "--quick", "-o", run.to_str().unwrap()]);
    for copy in ["b.json", "c.json"] {
        std::fs::copy(&run, folder.join(copy)).unwrap();
    }
    for option in [&["--what-if", "GPU0=none"][..], &["--thresholds", "all"]] {
        let error = refused(&[&["check", folder.to_str().unwrap()], option].concat());
        assert!(error.contains("compared as a fleet"), "{option:?}: {error}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn units_are_decimal_or_binary_as_written() {
    let sizes = |text: &str| {
        let document: serde_json::Value =
            serde_json::from_str(&out(&["predict", "h200x4-vm", &format!("--sizes={text}"), "--json"])).unwrap();
        document["curves"][0]["rates"].as_array().unwrap().iter().map(|p| p[0].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(sizes("1K,1KiB,1KB,1M,1MiB,1MB,1GB"), [1024, 1024, 1000, 1 << 20, 1 << 20, 1_000_000, 1_000_000_000]);
    let simulated = |text: &str| out(&["simulate", "h200x4-vm", "-w", "all-reduce", "-s", text, "--json"]);
    assert!(simulated("1MB").contains("\"size\": 1000000") && simulated("1MiB").contains("\"size\": 1048576"));
    // what is written names the power of two that it means
    let shown = out(&["predict", "h200x4-vm", "--sizes=1048576"]);
    assert!(shown.contains("1 MiB") && !shown.contains("1 MB"), "{shown}");
    assert!(!peerlane(&["predict", "h200x4-vm", "--sizes=1XB"]).status.success());
}
