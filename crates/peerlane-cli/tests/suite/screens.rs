//! `check` in a terminal: one screen, for every machine of the catalogue and every record, at every width.
//! `UPDATE_GOLDEN=1 cargo test -p peerlane-cli screens::` rewrites the transcripts.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{checked, command, err, file, out, path, some, status, stdout};

/// Lines of a screen.
const LINES: usize = 45;

fn width(text: &str) -> usize {
    text.chars().count()
}

/// What `check` prints in a terminal of so many columns; nothing if there is no machine in the target.
fn screen(target: &str, columns: usize) -> Option<String> {
    let output =
        command(&["check", target, "--fail-on", "never"]).env("COLUMNS", columns.to_string()).output().unwrap();
    assert!(!err(&output).contains("panicked"), "{target}: {}", err(&output));
    (status(&output) == 0).then(|| stdout(&output))
}

fn fits(target: &str, text: &str, columns: usize) {
    assert!(text.lines().count() <= LINES, "{target} at {columns}: {} lines\n{text}", text.lines().count());
    for line in text.lines() {
        assert!(width(line) <= columns, "{target} at {columns}: {line}");
    }
    let last = text.lines().rev().take(4).collect::<Vec<_>>().join(" ");
    assert!(last.contains("inding"), "{target} at {columns}: the last line sums up\n{text}");
}

#[test]
fn every_machine_of_the_catalogue_takes_one_screen() {
    for name in some(peerlane::catalogue::system_names(), 3) {
        for columns in [60, 80, 100, 120] {
            fits(name, &screen(name, columns).unwrap(), columns);
        }
    }
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn every_record_takes_one_screen() {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    let mut shown = 0;
    for path in files(&captures) {
        let Some(text) = screen(path.to_str().unwrap(), 80) else { continue };
        // a file with several machines has a screen for each
        for one in text.split("────\n\n") {
            fits(&path.to_string_lossy(), one.trim_end_matches('─').trim_end(), 80);
        }
        shown += 1;
    }
    assert!(shown > 50, "{shown}");
}

/// A machine with a fault, measured: two bricks of GPU0's NVLink are missing.
fn with_fault() -> String {
    let system = out(&["map", "h200x4-vm", "--format", "system"]);
    let faulty = format!("{system}\n[[faults]]\nlink = [\"GPU0\", \"nvswitch\"]\nnvlink = 9\n");
    let run = path("screens", "fault.json");
    let system = file("screens", "fault.toml", faulty);
    out(&["measure", &system, "--quick", "-q", "-o", run.to_str().unwrap()]);
    run.to_str().unwrap().to_owned()
}

#[test]
fn transcripts_are_those_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens");
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/h200x2-vm");
    let (fault, capture) = (with_fault(), capture.to_string_lossy().into_owned());
    let named = ["7gforce", "dgx-a100", "gb200-nvl72", "hgx-h200", "exxact-devbox", "exxact-traditional"];
    let targets = named.map(|name| (name, name)).into_iter();
    let mut stale = Vec::new();
    for (name, target) in targets.chain([("fault", fault.as_str()), ("capture", capture.as_str())]) {
        for columns in [80, 120] {
            let path = folder.join(format!("{name}-{columns}.txt"));
            let fresh = screen(target, columns).unwrap();
            if fs::read_to_string(&path).unwrap_or_default() == fresh {
                continue;
            }
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::create_dir_all(&folder).unwrap();
                fs::write(&path, &fresh).unwrap();
            } else {
                stale.push(format!("{}:\n{fresh}", path.to_string_lossy()));
            }
        }
    }
    assert!(stale.is_empty(), "UPDATE_GOLDEN=1 cargo test -p peerlane-cli screens::\n{}", stale.join("\n"));
}

/// Commands with tables and sentences, each with a word for the machine.
const SHOWING: [&str; 7] = [
    "check TARGET -v --fail-on never",
    "predict TARGET",
    "predict TARGET --collectives",
    "explain TARGET GPU0 GPU1 --halo -v",
    "explain TARGET GPU0 host",
    "simulate TARGET --workload all-reduce --sizes 1GiB -v",
    "compare TARGET exxact-devbox -v",
];

#[test]
fn nothing_is_wider_than_the_terminal() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let example = |name: &str| examples.join(name).to_string_lossy().into_owned();
    let measured = "../../captures/h200x4-vm-runs/default.json".to_owned();
    let machines = ["slow-node".to_owned(), example("box.toml"), measured];
    let mut lines: Vec<String> =
        machines.iter().flat_map(|target| SHOWING.map(|line| line.replace("TARGET", target))).collect();
    let (fleet, nodes, cluster) = (example("fleet"), example("nodes/run.json"), example("cluster.toml"));
    lines.push(format!("fleet {fleet} -v --fail-on never"));
    lines.push(format!("check {nodes} -v --fail-on never"));
    lines.push(format!("simulate {cluster} --workload all-reduce --sizes 1GiB -v"));
    for line in lines {
        for columns in [80, 100] {
            let args: Vec<&str> = line.split(' ').collect();
            let output = command(&args).env("COLUMNS", columns.to_string()).output().unwrap();
            assert_eq!(status(&output), 0, "{line}: {}", err(&output));
            let text = stdout(&output);
            let wide = text.lines().find(|shown| width(shown) > columns);
            assert_eq!(wide, None, "{line} at {columns}");
        }
    }
}

#[test]
fn the_headline_is_whole_at_every_width() {
    for columns in [60, 80, 100] {
        let text = screen("slow-node", columns).unwrap();
        let head = text.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(head.contains("243 of 466 GB/s expected fix Reset the GPU"), "{text}");
        assert!(head.ends_with("on several GPUs an NVSwitch."), "{text}");
    }
}

#[test]
fn the_answer_comes_first() {
    let answer = checked(&["check", "7gforce", "-q"]);
    let lines: Vec<&str> = answer.lines().collect();
    let [machine, verdict, fix] = lines[..] else { panic!("{answer}") };
    assert!(machine.starts_with("7gforce: "), "{machine}");
    assert!(verdict.starts_with("FAULT  GPU0–GPU5 run at PCIe 3.0 x1"), "{verdict}");
    assert!(fix.starts_with("fix    Put the card in the slot itself"), "{fix}");
    // the same beginning without -q, and the rest only with -v
    let whole = checked(&["check", "7gforce"]);
    assert!(whole.starts_with(&format!("{machine}\n{verdict}\n")), "{whole}");
    assert!(whole.contains("-v shows") && !checked(&["check", "7gforce", "-v"]).contains("-v shows"));
    // what nothing can be said of has a next step instead
    let paper = out(&["check", "hgx-h200", "-q"]);
    assert!(paper.lines().nth(2).unwrap().starts_with("next        for a verdict, add the output of"), "{paper}");
}

#[test]
fn only_what_is_off_has_a_row() {
    let fault = with_fault();
    let (brief, all) = (checked(&["check", &fault]), checked(&["check", &fault, "-v"]));
    let table = brief.split("\nNot as expected").nth(1).unwrap();
    assert!(table.contains("GPU0 ↔ GPU1–GPU3") && !table.contains("↔ host"), "{brief}");
    assert!(all.contains("GPU0–GPU3 ↔ host"), "{all}");
    // a machine in order has none
    assert!(!out(&["check", "exxact-devbox"]).contains("Not as expected"));
}
