//! `recipes/`: the scripts run, with stand-ins for the programs of a cluster; metrics and options are those that exist.
//! `scripts/recipes.sh` checks the same files with `promtool` and others.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regex::Regex;
use serde_json::Value;

use crate::common::{checked, err, out, path, status};

/// Metrics of other exporters that the rules use.
const OF_OTHERS: [&str; 1] = ["node_textfile_mtime_seconds"];

fn recipe(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(recipe(name)).unwrap()
}

/// An empty folder of a test's own.
fn folder(name: &str) -> PathBuf {
    let folder = path("recipes", name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A folder for `PATH` with this build of peerlane, and a stand-in for another program.
fn programs(folder: &Path, name: &str, script: &str) -> String {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_peerlane"), bin.join("peerlane")).unwrap();
    fs::write(bin.join(name), script).unwrap();
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", bin.display())
}

fn script(name: &str, path: &str, args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new("sh");
    command.arg(recipe(name)).args(args).env("PATH", path).envs(environment.iter().copied());
    command.output().unwrap()
}

/// The files below a folder, as `HOST/ending`.
fn records(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for host in fs::read_dir(folder).unwrap() {
        let host = host.unwrap();
        for file in fs::read_dir(host.path()).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let ending = name.split_once('.').map_or("", |(_, ending)| ending);
            found.push(format!("{}/{ending}", host.file_name().to_string_lossy()));
        }
    }
    found.sort();
    found
}

#[test]
fn slurm_measures_each_node_under_its_name() {
    let folder = folder("slurm");
    let shared = folder.join("shared");
    fs::create_dir(&shared).unwrap();
    // as srun does it: the command on each node, at the same time
    let srun = "#!/bin/sh\nwhile [ \"${1#--}\" != \"$1\" ]; do shift; done\n\
                for n in 1 2 3; do SLURMD_NODENAME=gpu$n \"$@\" & done; wait\n";
    let path = programs(&folder, "srun", srun);
    let args = ("PEERLANE_ARGS", "h200x4-vm --tests local");
    let output = script("slurm/collect.sh", &path, &[shared.to_str().unwrap()], &[args]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert_eq!(records(&shared), ["gpu1/json", "gpu2/json", "gpu3/json"]);
    assert_ne!(status(&script("slurm/collect.sh", &path, &[], &[])), 0);
}

#[test]
fn pdsh_measures_each_host_under_its_own_name() {
    let folder = folder("pdsh");
    let shared = folder.join("shared");
    fs::create_dir(&shared).unwrap();
    // as pdsh does it: the last argument to a shell on each host; here the hosts give their names
    let pdsh = "#!/bin/sh\nfor last; do :; done\nfor n in 1 2; do sh -c \"${last%% >*} --host gpu$n\" & done; wait\n";
    let path = programs(&folder, "pdsh", pdsh);
    let args = ("PEERLANE_ARGS", "h200x4-vm --tests local");
    let output = script("pdsh/collect.sh", &path, &[shared.to_str().unwrap(), "gpu[1-2]"], &[args]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert_eq!(records(&shared), ["gpu1/json", "gpu2/json"]);
    for refused in [&["/shared"][..], &["/a b", "gpu1"], &["/a;id", "gpu1"]] {
        assert_ne!(status(&script("pdsh/collect.sh", &path, refused, &[])), 0, "{refused:?}");
    }
}

#[test]
fn the_textfile_is_replaced_whole_or_kept() {
    let folder = folder("textfile");
    let path = programs(&folder, "unused", "");
    let textfiles = folder.join("textfiles");
    fs::create_dir(&textfiles).unwrap();
    let to = ("TEXTFILE_DIR", textfiles.to_str().unwrap());
    let names = || {
        let names = fs::read_dir(&textfiles).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.collect::<Vec<_>>()
    };
    let output = script("node-exporter/peerlane-textfile.sh", &path, &["h200x4-vm"], &[to]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert_eq!(names(), ["peerlane.prom"]);
    let file = textfiles.join("peerlane.prom");
    let before = fs::read_to_string(&file).unwrap();
    assert!(before.contains("peerlane_verdict{machine=\"h200x4-vm\""));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644, "node_exporter is another user");
    let output = script("node-exporter/peerlane-textfile.sh", &path, &["/no/such/record.json"], &[to]);
    assert_eq!(status(&output), 2);
    assert_eq!(names(), ["peerlane.prom"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

/// The metrics that `peerlane` writes, and the values of a label.
fn emitted() -> (BTreeSet<String>, BTreeSet<String>) {
    let record = path("recipes", "run.json");
    let _ = fs::remove_file(&record);
    out(&["measure", "h200x4-vm", "--tests", "pairs,copy-latency", "-o", record.to_str().unwrap()]);
    let texts = [record.to_str().unwrap(), "h200x4-vm", "7gforce"]
        .map(|target| checked(&["check", target, "--format", "prometheus", "--fail-on", "never"]));
    let all = texts.concat();
    // the run of a simulated machine has no time of day
    let names = Regex::new(r"(?m)^# TYPE (\w+)").unwrap();
    let mut metrics: BTreeSet<String> = names.captures_iter(&all).map(|c| c[1].to_owned()).collect();
    metrics.insert("peerlane_run_start_timestamp_seconds".to_owned());
    let labels = Regex::new(r#"(\w+)="([^"]*)""#).unwrap();
    let labels = labels.captures_iter(&all).flat_map(|c| [c[1].to_owned(), format!("{}={}", &c[1], &c[2])]).collect();
    (metrics, labels)
}

#[test]
fn rules_and_dashboard_name_metrics_and_labels_that_exist() {
    let (metrics, labels) = emitted();
    let dashboard: Value = serde_json::from_str(&text("grafana/peerlane.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut expressions = vec![text("prometheus/peerlane.rules.yml"), text("prometheus/peerlane.test.yml")];
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "each panel has its own number");
        let place = &panel["gridPos"];
        assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{place}");
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "the data source can be chosen");
            expressions.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        expressions.push(variable["query"].to_string());
    }
    let name = Regex::new(r"\b(?:peerlane|node)_\w+").unwrap();
    let own = Regex::new(r#"(\w+)="([a-z-]+)""#).unwrap();
    let mut used = 0;
    for text in &expressions {
        for found in name.find_iter(text).map(|found| found.as_str()) {
            assert!(metrics.contains(found) || OF_OTHERS.contains(&found), "{found} is not written by peerlane");
            used += 1;
        }
        for found in own.captures_iter(text) {
            if ["verdict", "severity", "kind", "from"].contains(&&found[1]) {
                assert!(labels.contains(&format!("{}={}", &found[1], &found[2])), "no label {}", &found[0]);
            }
        }
    }
    assert!(used > 20, "{used}");
}

#[test]
fn kubernetes_files_run_commands_that_exist() {
    let option = Regex::new(r"--[a-z]+").unwrap();
    for (file, kind) in [("kubernetes/gather.yaml", "DaemonSet"), ("kubernetes/measure.yaml", "Job")] {
        let text = text(file);
        assert!(text.contains(&format!("\nkind: {kind}\n")) && !text.contains('\t'), "{file}");
        assert!(text.contains("fieldPath: spec.nodeName"), "{file}: a pod's name is not its host's");
        let command = if kind == "Job" { "measure" } else { "gather" };
        let help = out(&[command, "--help"]);
        for option in option.find_iter(&text) {
            assert!(help.contains(option.as_str()), "{file}: {}", option.as_str());
        }
    }
}
