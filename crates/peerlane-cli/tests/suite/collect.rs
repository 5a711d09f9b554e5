//! `--to DIR`: records of many hosts in one directory.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use peerlane::run::{Partial, Run};
use serde_json::Value;

use crate::common::{command, err, json, path, status};

/// A user without rights.
const NOBODY: u32 = 65534;

/// How many write at once.
const AT_ONCE: usize = 50;

/// A short measurement.
const SHORT: [&str; 5] = ["measure", "h200x4-vm", "--tests", "local", "--to"];

/// A measurement that takes long enough to be stopped.
const LONG: [&str; 4] = ["measure", "h200x4-vm", "--full", "--to"];

/// An empty directory of a test's own.
fn directory(name: &str) -> PathBuf {
    let folder = path("collect", name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn saved(args: &[&str], directory: &Path, more: &[&str]) -> Output {
    command(args).arg(directory).args(more).output().unwrap()
}

fn run(path: &Path) -> Run {
    Run::from_json(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Whether a name is `20261123T115030Z`, perhaps with a number, and the ending.
fn is_time(name: &str, ending: &str) -> bool {
    let Some(stem) = name.strip_suffix(ending) else { return false };
    let (time, number) = stem.split_once('-').unwrap_or((stem, "2"));
    let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "00000000T000000Z" && number.parse::<u32>().is_ok_and(|n| n > 1)
}

#[test]
fn many_processes_write_one_record_each() {
    let directory = directory("at-once");
    // two hosts, of which each has many at once
    let hosts = ["node1", "node2"];
    let start = |i: usize| command(&SHORT).arg(&directory).args(["--host", hosts[i % 2]]).spawn().unwrap();
    let children: Vec<_> = (0..AT_ONCE).map(start).collect();
    let mut said = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(status(&output), 0, "{}", err(&output));
        let line = err(&output);
        said.push(PathBuf::from(
            line.trim_end().strip_prefix("peerlane: recorded in ").unwrap_or_else(|| panic!("{line}")),
        ));
    }
    said.sort();
    let mut files: Vec<PathBuf> = Vec::new();
    for host in hosts {
        let folder = directory.join(host);
        assert_eq!(names(&folder).len(), AT_ONCE / 2, "nothing is replaced, and nothing else is left");
        for name in names(&folder) {
            assert!(is_time(&name, ".json"), "{name}");
            let file = folder.join(name);
            let run = run(&file);
            assert!(run.complete && !run.cells.is_empty());
            assert_eq!(run.conditions.host.as_deref(), Some(host));
            files.push(file);
        }
    }
    files.sort();
    assert_eq!(said, files, "each process names its own record");
}

#[test]
fn a_stopped_measurement_leaves_only_a_partial_record() {
    for signal in ["-INT", "-KILL"] {
        let directory = directory(&format!("stopped{signal}"));
        let folder = directory.join("node1");
        let mut child = command(&LONG).arg(&directory).args(["--host", "node1"]).spawn().unwrap();
        let began = Instant::now();
        let cells = |path: &Path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            if text.is_empty() { 0 } else { Partial::read(&text).unwrap().run.cells.len() }
        };
        let partial = loop {
            let found = if folder.is_dir() { names(&folder) } else { Vec::new() };
            match found.iter().find(|name| name.ends_with(".partial")) {
                Some(name) if cells(&folder.join(name)) > 0 => break folder.join(name),
                _ => thread::sleep(Duration::from_millis(5)),
            }
            assert!(began.elapsed() < Duration::from_secs(120) && child.try_wait().unwrap().is_none());
        };
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let left: Vec<_> = names(&folder).into_iter().filter(|name| !name.ends_with(".new")).collect();
        assert_eq!(left.len(), 1, "{signal}: {left:?}");
        assert!(is_time(&left[0], ".json.partial"), "{signal}: {left:?}");
        let kept = cells(&partial);
        assert!(kept > 0, "{signal}");
        let whole = partial.with_extension("");
        if signal == "-INT" {
            assert_eq!(status(&output), 2);
            let hint = format!("to resume: peerlane measure h200x4-vm --full -o {} --resume", whole.display());
            assert!(err(&output).contains(&hint), "{}", err(&output));
        }
        // a file is read by its name, so that a partial one is told from a whole one
        let output = command(&["measure", "h200x4-vm", "--full", "--resume", "-o"]).arg(&whole).output().unwrap();
        assert_eq!(status(&output), 0, "{}", err(&output));
        assert!(run(&whole).complete && run(&whole).cells.len() > kept);
        assert_eq!(run(&whole).conditions.host.as_deref(), Some("node1"));
    }
}

#[test]
fn what_cannot_be_written_is_an_error_before_anything_is_measured() {
    let directory = directory("errors");
    let early = |output: Output, why: &str| {
        assert_eq!(status(&output), 2, "{why}");
        assert!(err(&output).contains(why), "{why}: {}", err(&output));
        assert!(output.stdout.is_empty(), "{why}");
    };
    for args in [&SHORT[..], &["gather", "--to"]] {
        early(saved(args, &directory.join("missing"), &["--host", "a"]), "no such folder");
        early(saved(args, &directory, &["--host", ""]), "the name is empty");
        // a limit on the size of a file acts like a full disk, and needs no rights
        let mut sh = Command::new("sh");
        sh.args(["-c", "ulimit -f 2 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_peerlane")]).args(args);
        sh.arg(&directory).args(["--host", "full"]);
        early(sh.stdin(Stdio::null()).output().unwrap(), "File too large");
        assert_eq!(names(&directory.join("full")), [""; 0], "{args:?}");
    }
    let closed = directory.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let mut other = command(&SHORT);
    other.arg(&closed).args(["--host", "a"]);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        other.uid(NOBODY).gid(NOBODY);
    }
    match other.output() {
        Ok(output) => early(output, "Permission denied"),
        Err(error) => println!("skipped: the program cannot be run as user {NOBODY}: {error}"),
    }
    let both = command(&SHORT).arg(&directory).args(["-o", "x.json"]).output().unwrap();
    assert!(status(&both) == 2 && err(&both).contains("cannot be used with"), "{}", err(&both));
    assert!(status(&command(&["gather"]).output().unwrap()) == 2);
}

#[test]
fn no_name_leads_out_of_the_directory() {
    let outer = directory("names");
    let inner = outer.join("inner");
    fs::create_dir(&inner).unwrap();
    let hosts = ["..", ".", "../x", "/etc", "a/b", "nöde", "x y"];
    for host in hosts {
        let output = saved(&SHORT, &inner, &[&format!("--host={host}")]);
        assert_eq!(status(&output), 0, "{host}: {}", err(&output));
    }
    assert_eq!(names(&outer), ["inner"]);
    assert_eq!(names(&inner).len(), hosts.len(), "{:?}", names(&inner));
    for folder in names(&inner) {
        assert_eq!(names(&inner.join(&folder)).len(), 1, "{folder}");
    }
}

#[test]
fn a_redacted_record_hides_the_host() {
    let directory = directory("redacted");
    for args in [&SHORT[..], &["gather", "--to"]] {
        for host in ["secretnode17", "secretnode18"] {
            let output = saved(args, &directory, &["--redact", "--host", host]);
            assert_eq!(status(&output), 0, "{}", err(&output));
            assert!(!String::from_utf8_lossy(&output.stdout).contains("secretnode"), "{output:?}");
        }
    }
    let folders = names(&directory);
    assert_eq!(folders.len(), 2, "a host has one stand-in, and each its own: {folders:?}");
    for folder in &folders {
        assert!(folder.starts_with("host-") && folder.len() == 17, "{folder}");
        let files = names(&directory.join(folder));
        let [archive, record] = files.as_slice() else { panic!("{files:?}") };
        let (archive, record) = if is_time(archive, ".json") { (record, archive) } else { (archive, record) };
        let run = run(&directory.join(folder).join(record));
        assert_eq!(run.conditions.host.as_deref(), Some(folder.as_str()));
        assert!(!run.to_json().unwrap().contains("secretnode"));
        assert!(is_time(archive, ".tar.zst"), "{archive}");
    }
}

#[test]
fn an_archive_of_a_host_is_a_target() {
    let directory = directory("gathered");
    let manifest: Value = json(&["gather", "--json", "--to", directory.to_str().unwrap(), "--host", "node9"]);
    assert_eq!(manifest["schema"], "peerlane/gather/1");
    let folder = directory.join("node9");
    let files = names(&folder);
    assert!(files.len() == 1 && is_time(&files[0], ".tar.zst"), "{files:?}");
    let output = command(&["map"]).arg(folder.join(&files[0])).output().unwrap();
    assert!(status(&output) == 0 || err(&output).contains("no GPU"), "{}", err(&output));
}
