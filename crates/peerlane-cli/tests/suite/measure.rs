//! `peerlane measure` on simulated machines: complete runs, hung pairs, lost GPUs, killed and interrupted runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{command, err, path, peerlane, status};
use peerlane::run::{Cell, FlagKind, Partial, Run};

const FOUR_H200: &str = include_str!("../../../../systems/h200x4-vm.toml");

/// Nothing that these tests wait for takes longer, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An empty folder of a test's own.
fn folder(name: &str) -> PathBuf {
    let folder = path("measure", name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The four H200s with a fault.
fn faulty(folder: &Path, fault: &str) -> PathBuf {
    let path = folder.join("system.toml");
    fs::write(&path, format!("{FOUR_H200}\n[[faults]]\n{fault}\n")).unwrap();
    path
}

fn record(output: &Output) -> Run {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    Run::from_json(&text).unwrap_or_else(|e| panic!("{e}: {}", err(output)))
}

/// The run in a file, which must be what the schema promises to other programs.
fn kept(path: &Path) -> Run {
    let text = fs::read_to_string(path).unwrap();
    let schema = include_str!("../../../../schema/run-1.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    if let Err(error) = schema.validate(&document) {
        panic!("{}: {}: {error}", path.to_string_lossy(), error.instance_path());
    }
    Run::from_json(&text).unwrap()
}

/// Steps that have a cell, of which none may come from two answers.
fn answered(run: &Run) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    for (i, cell) in run.cells.iter().enumerate() {
        let before = run.cells[..i].iter().position(|earlier| earlier.step == cell.step);
        if let Some(before) = before {
            // several numbers of one answer stand together
            assert!(run.cells[before..i].iter().all(|c| c.step == cell.step), "step {} twice", cell.step);
            assert!(run.cells[before].quantity != cell.quantity, "step {} twice", cell.step);
        }
        seen.insert(cell.step);
    }
    seen
}

fn all_steps(run: &Run) -> BTreeSet<usize> {
    (0..run.plan.steps().count()).collect()
}

fn within(cell: &Cell, pair: [&str; 2]) -> bool {
    pair.iter().all(|gpu| cell.work.gpus().contains(gpu))
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        thread::sleep(Duration::from_millis(10));
    }
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
}

/// The processes that a process has started.
fn children(of: &Child) -> Vec<u32> {
    let id = of.id();
    let listed = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    listed.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

/// Whether a process is there and no zombie.
fn alive(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z') && !rest.is_empty())
}

/// A run that has come as far as a pair that hangs, and waits there: its folder, its system file and its process.
fn stuck(name: &str) -> (PathBuf, PathBuf, Child) {
    let folder = folder(name);
    let system = faulty(&folder, r#"hang = ["GPU1", "GPU2"]"#);
    let run = folder.join("run.json");
    let mut child = command(&["measure", text(&system), "-o", text(&run), "--patience", "10m"]).spawn().unwrap();
    let partial = folder.join("run.json.partial");
    let size = || fs::metadata(&partial).map_or(0, |meta| meta.len());
    let mut last = (0, Instant::now());
    until("the run hangs", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        if size() != last.0 {
            last = (size(), Instant::now());
        }
        last.0 > 0 && last.1.elapsed() > Duration::from_secs(2)
    });
    (folder, system, child)
}

#[test]
fn the_usual_plan_of_a_simulated_machine_is_complete() {
    let output = peerlane(&["measure", "h200x4-vm", "--json"]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert_eq!(err(&output), "");
    let run = record(&output);
    assert!(run.complete);
    assert_eq!(answered(&run), all_steps(&run));
    assert!(run.cells.len() > 50, "{}", run.cells.len());
    let void = run.cells.iter().filter(|c| c.value().is_none());
    assert_eq!(void.filter(|c| c.flag(FlagKind::NotApplicable).is_none()).count(), 0);
    // what is read is what was written
    let mut again: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(again.as_object_mut().unwrap().remove("checksum").is_some());
    assert_eq!(serde_json::to_value(&run).unwrap(), again);
}

#[test]
fn a_simulated_machine_answers_the_same_again() {
    let once = || peerlane(&["measure", "h200x4-vm", "--quick", "--json"]).stdout;
    assert_eq!(once(), once());
}

#[test]
fn tests_and_pairs_are_picked() {
    let output = peerlane(&["measure", "h200x4-vm", "--tests", "pairs", "--pairs", "GPU0-GPU1", "--json"]);
    let run = record(&output);
    assert!(!run.cells.is_empty() && run.cells.iter().all(|c| within(c, ["GPU0", "GPU1"])));
    assert!(run.cells.iter().all(|c| c.test.name() == "pairs"));
    let wrong = |args: &[&str], says: &str| {
        let output = peerlane(args);
        assert!(status(&output) == 2 && err(&output).contains(says), "{args:?}: {}", err(&output));
    };
    wrong(&["measure", "h200x4-vm", "--tests", "pears"], "pairs");
    wrong(&["measure", "h200x4-vm", "--pairs", "GPU0-GPU9"], "GPU9");
    wrong(&["measure", "h200x4-vm", "--budget", "30"], "30s");
    wrong(&["measure", "h200x4-vm", "--precision", "1"], "1%");
    wrong(&["measure", "h200x4-vn"], "h200x4-vm");
    wrong(&["measure", "h200x4-vm", "--resume"], "--output");
}

#[test]
fn steps_beyond_the_time_limit_are_left_for_a_resume() {
    let path = folder("time").join("run.json");
    let args = ["measure", "h200x4-vm", "-o", text(&path)];
    let output = peerlane(&[&args[..], &["--budget", "1ms"]].concat());
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("out of time") && err(&output).contains("--resume"), "{}", err(&output));
    let begun = kept(&path);
    assert!(!begun.complete && !begun.cells.is_empty() && answered(&begun).len() < all_steps(&begun).len());

    let output = peerlane(&[&args[..], &["--resume"]].concat());
    assert_eq!(status(&output), 0, "{}", err(&output));
    let whole = kept(&path);
    assert!(whole.complete);
    assert_eq!(answered(&whole), all_steps(&whole));
    assert!(whole.cells[..begun.cells.len()] == begun.cells[..]);
    // what is complete stays as it is
    let output = peerlane(&[&args[..], &["--resume"]].concat());
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert!(err(&output).contains("nothing is left to measure") && kept(&path) == whole);
}

#[test]
fn only_machines_can_be_measured() {
    let folder = folder("no-machine");
    let capture = folder.join("topo.txt");
    fs::write(&capture, "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n").unwrap();
    let output = peerlane(&["measure", text(&capture)]);
    assert!(status(&output) == 2 && err(&output).contains("is captured text"), "{}", err(&output));

    let run = folder.join("run.json");
    let measured = peerlane(&["measure", "h200x4-vm", "--tests", "local", "-o", text(&run)]);
    assert_eq!(status(&measured), 0, "{}", err(&measured));
    let output = peerlane(&["measure", text(&run)]);
    assert!(status(&output) == 2 && err(&output).contains("is a recorded run"), "{}", err(&output));
}

#[test]
fn without_a_driver_it_says_so_in_one_line() {
    if fs::exists("/proc/driver/nvidia").unwrap() {
        return;
    }
    for args in [&["measure"][..], &["measure", "live"]] {
        let output = peerlane(args);
        assert_eq!((status(&output), err(&output).lines().count()), (2, 1), "{}", err(&output));
        assert!(err(&output).contains("no NVIDIA GPU found") && err(&output).contains("peerlane measure h200x4-vm"));
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn a_hung_pair_costs_its_own_cells_alone() {
    let folder = folder("hung");
    let system = faulty(&folder, r#"hang = ["GPU1", "GPU2"]"#);
    let output = peerlane(&["measure", text(&system), "--patience", "300ms", "--json"]);
    let run = record(&output);
    assert_eq!(status(&output), 2);
    assert!(run.complete);
    assert_eq!(answered(&run), all_steps(&run));
    let hung: Vec<&Cell> = run.cells.iter().filter(|c| c.flag(FlagKind::Hung).is_some()).collect();
    assert!(!hung.is_empty());
    assert!(hung.iter().all(|c| within(c, ["GPU1", "GPU2"]) && c.value().is_none()));
    let others = run.cells.iter().filter(|c| c.flag(FlagKind::Hung).is_none());
    assert_eq!(others.filter(|c| c.value().is_none() && c.flag(FlagKind::NotApplicable).is_none()).count(), 0);
    for (from, to) in [("GPU0", "GPU1"), ("GPU2", "GPU3"), ("GPU1", "GPU3")] {
        let there = run.cells.iter().any(|c| c.test.name() == "pairs" && within(c, [from, to]) && c.value().is_some());
        assert!(there, "{from} {to}");
    }
    assert!(err(&output).contains("no sign of life"), "{}", err(&output));
}

#[test]
fn a_lost_gpu_ends_its_own_cells_and_leaves_the_rest() {
    let folder = folder("lost");
    let system = faulty(&folder, "lost = \"GPU3\"\nafter = 20");
    let output = peerlane(&["measure", text(&system), "--json"]);
    let run = record(&output);
    assert_eq!(status(&output), 2);
    assert_eq!(answered(&run), all_steps(&run));
    let failed = |c: &&Cell| c.flag(FlagKind::Failed).is_some();
    assert!(run.cells.iter().filter(failed).count() > 10);
    assert!(run.cells.iter().filter(failed).all(|c| c.work.gpus().contains(&"GPU3")));
    let without = run.cells.iter().filter(|c| !c.work.gpus().contains(&"GPU3") && c.value().is_none());
    assert_eq!(without.filter(|c| c.flag(FlagKind::NotApplicable).is_none()).count(), 0);
    assert!(run.cells.iter().any(|c| c.work.gpus().contains(&"GPU3") && c.value().is_some()), "before it was lost");
}

#[test]
fn a_killed_run_loses_nothing_and_is_resumed() {
    let (folder, system, mut child) = stuck("killed");
    let workers = children(&child);
    assert!(!workers.is_empty() && workers.iter().all(|id| alive(*id)));
    child.kill().unwrap();
    child.wait().unwrap();
    until("the worker ends with its parent", || !workers.iter().any(|id| alive(*id)));

    let run = folder.join("run.json");
    assert!(!run.exists());
    let before = fs::read_to_string(folder.join("run.json.partial")).unwrap();
    let again = peerlane(&["measure", text(&system), "-o", text(&run)]);
    assert!(status(&again) == 2 && err(&again).contains("--resume"), "{}", err(&again));
    let other = peerlane(&["measure", text(&system), "-o", text(&run), "--resume", "--quick"]);
    assert!(status(&other) == 2 && err(&other).contains("its plan differs"), "{}", err(&other));

    let resumed = peerlane(&["measure", text(&system), "-o", text(&run), "--resume", "--patience", "300ms"]);
    assert_eq!(status(&resumed), 2, "the pair still hangs: {}", err(&resumed));
    assert!(!folder.join("run.json.partial").exists());
    let run = kept(&run);
    assert!(run.complete);
    assert_eq!(answered(&run), all_steps(&run));
    let kept_before: Vec<Cell> = Partial::read(&before).unwrap().run.cells;
    assert!(!kept_before.is_empty());
    assert!(run.cells[..kept_before.len()] == kept_before[..], "what was kept is unchanged");
}

#[test]
fn an_interrupted_run_is_written_and_resumed() {
    let (folder, system, child) = stuck("interrupted");
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(
        err(&output).contains("to resume: peerlane measure") && err(&output).contains("--resume"),
        "{}",
        err(&output)
    );
    assert!(!output.stdout.is_empty(), "what there is is shown");
    let path = folder.join("run.json");
    let run = kept(&path);
    assert!(!run.complete && !run.cells.is_empty());
    assert!(!folder.join("run.json.partial").exists());

    let again = peerlane(&["measure", text(&system), "-o", text(&path)]);
    assert!(status(&again) == 2 && err(&again).contains("incomplete"), "{}", err(&again));
    peerlane(&["measure", text(&system), "-o", text(&path), "--resume", "--patience", "300ms"]);
    let whole = kept(&path);
    assert!(whole.complete);
    assert_eq!(answered(&whole), all_steps(&whole));
    assert!(whole.cells[..run.cells.len()] == run.cells[..], "what was written is unchanged");
    assert_eq!(whole.conditions.before, run.conditions.before);
}

#[test]
fn a_run_that_is_interrupted_before_its_first_cell_replaces_no_other() {
    let folder = folder("nothing");
    let path = folder.join("run.json");
    let pair = ["--tests", "pairs", "--pairs", "GPU1-GPU2", "-o", text(&path)];
    let healthy = peerlane(&[&["measure", "h200x4-vm"], &pair[..]].concat());
    assert_eq!(status(&healthy), 0, "{}", err(&healthy));
    let good = fs::read(&path).unwrap();

    let system = faulty(&folder, r#"hang = ["GPU1", "GPU2"]"#);
    let hanging = ["measure", text(&system), "--patience", "10m"];
    let child = command(&[&hanging[..], &pair].concat()).spawn().unwrap();
    until("the machine is open", || folder.join("run.json.partial").exists());
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("nothing was measured, and") && err(&output).contains("is unchanged"), "{output:?}");
    assert!(fs::read(&path).unwrap() == good && !folder.join("run.json.partial").exists());
}

#[test]
fn a_worker_that_dies_is_replaced() {
    let (folder, _, child) = stuck("dies");
    let workers = children(&child);
    for worker in &workers {
        assert!(Command::new("kill").args(["-KILL", &worker.to_string()]).status().unwrap().success());
    }
    until("another worker", || children(&child).iter().any(|id| !workers.contains(id)));
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("the measuring process ended: signal: 9 (SIGKILL) during pairs"), "{}", err(&output));
    let run = kept(&folder.join("run.json"));
    assert!(run.cells.iter().all(|c| !c.is_void() || c.flag(FlagKind::NotApplicable).is_some()));
}

/// That `check` of a record with steps that hung or failed says each of these findings.
fn check_finds(run: &Path, findings: &[&str]) {
    let checked = peerlane(&["check", "-v", text(run)]);
    assert_eq!(status(&checked), 2, "steps without a value are work that was not done");
    let said = String::from_utf8(checked.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    for finding in findings {
        assert!(said.contains(finding), "{finding}: {said}");
    }
}

#[test]
fn gpu_memory_through_nics_is_measured_checked_reported_and_compared() {
    let folder = folder("nics-gpus");
    let (sound, bad) = (folder.join("sound.json"), folder.join("bad.json"));
    let measured = peerlane(&["measure", "hpcac-tessa", "--tests", "nic-gpu", "-o", text(&sound)]);
    assert_eq!(status(&measured), 0, "{}", err(&measured));
    let said = String::from_utf8(measured.stdout).unwrap();
    assert!(said.contains("bandwidth, one way, NIC, staged, 1 MiB, GB/s; into the GPU [nic-gpu]"), "{said}");
    let run = kept(&sound);
    assert_eq!((answered(&run), run.cells.len()), (all_steps(&run), 64));
    let checked = peerlane(&["check", "-v", text(&sound)]);
    assert_eq!(status(&checked), 0);
    let said = String::from_utf8(checked.stdout).unwrap();
    // by path class, as the document has it
    assert!(said.contains("PIX  GPU0–GPU3 ↔ mlx5_2, mlx5_3"), "{said}");
    assert!(said.contains("NODE GPU0–GPU3 ↔ mlx5_0, mlx5_1"), "{said}");

    // a card in a narrow slot, GPU memory that adapters refuse, a pair that changes data, one that hangs
    let faults = "link = [\"plx0\", \"GPU3\"]\npcie = \"3.0 x4\"\n\
        [[faults]]\np2p_off = [\"GPU0\", \"mlx5_0\"]\n\
        [[faults]]\np2p_off = [\"GPU0\", \"mlx5_1\"]\n\
        [[faults]]\ncorrupt = [\"GPU1\", \"mlx5_2\"]\n\
        [[faults]]\nhang = [\"GPU2\", \"mlx5_3\"]\n";
    let system = folder.join("system.toml");
    let design = include_str!("../../../../systems/hpcac-tessa.toml");
    fs::write(&system, format!("{design}\n[[faults]]\n{faults}")).unwrap();
    let measured = peerlane(&["measure", text(&system), "--tests", "nic-gpu", "--patience", "2s", "-o", text(&bad)]);
    assert_eq!(status(&measured), 2, "{}", err(&measured));
    let run = kept(&bad);
    let flagged = |kind| run.cells.iter().filter(|cell| cell.flag(kind).is_some()).count();
    assert_eq!(answered(&run), all_steps(&run));
    assert_eq!((flagged(FlagKind::NotApplicable), flagged(FlagKind::Corrupt)), (4, 2));
    assert!(flagged(FlagKind::Hung) >= 1);
    let findings = [
        "rates between GPU3 and NICs reach",
        "mlx5_0, mlx5_1 take no memory of GPU0: no GPUDirect RDMA",
        "modprobe nvidia-peermem",
        "RDMA between GPU1 and mlx5_2 corrupts data",
        "RDMA between GPU2 and mlx5_3 hangs",
    ];
    check_finds(&bad, &findings);

    let compared = peerlane(&["compare", "-v", text(&sound), text(&bad)]);
    let said = String::from_utf8(compared.stdout).unwrap();
    let figure = |name: &str| {
        let line = said.lines().skip_while(|line| !line.starts_with(name)).nth(1);
        let line = line.unwrap_or_else(|| panic!("{name}: {said}"));
        line.split_whitespace().skip(1).map(|gb| gb.parse::<f64>().unwrap()).collect::<Vec<_>>()
    };
    let rows = [
        "GPU → host by NIC, worst",
        "GPU → host by NIC, staged",
        "host → GPU by NIC, worst",
        "host → GPU by NIC, staged",
    ];
    for (row, sound) in rows.into_iter().zip([10.88, 6.76, 10.37, 6.30]) {
        let measured = figure(row);
        assert!((measured[0] / sound - 1.0).abs() < 0.02, "{row}: {measured:?}");
        // GPU3's link carries less
        assert!(measured[1] < 4.0, "{row}: {measured:?}");
    }
    let page = folder.join("page.html");
    let reported = peerlane(&["report", text(&bad), "-o", text(&page)]);
    assert_eq!(status(&reported), 0, "{}", err(&reported));
    assert!(fs::read_to_string(&page).unwrap().contains("no GPUDirect RDMA"));
}

#[test]
fn nics_are_measured_checked_reported_and_compared() {
    let folder = folder("nics");
    let (sound, bad) = (folder.join("sound.json"), folder.join("bad.json"));
    let measured = peerlane(&["measure", "hgx-h200", "--tests", "nic", "-o", text(&sound)]);
    assert_eq!(status(&measured), 0, "{}", err(&measured));
    let run = kept(&sound);
    assert_eq!((answered(&run), run.cells.len()), (all_steps(&run), 8 + 8 * 7));
    let checked = peerlane(&["check", text(&sound)]);
    assert_eq!(status(&checked), 0);
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(said.contains("HEALTHY  no findings; checked: NICs"), "{said}");
    assert!(said.contains("64 values: all as expected"), "{said}");

    // an adapter in a narrow slot, a pair whose network is slow, one that changes data, one that hangs
    let faults = "link = [\"sw1\", \"mlx5_3\"]\npcie = \"3.0 x8\"\n\
        [[faults]]\nfrom = \"mlx5_0\"\nto = \"mlx5_1\"\nfactor = 0.5\n\
        [[faults]]\ncorrupt = [\"mlx5_5\", \"mlx5_6\"]\n\
        [[faults]]\nhang = [\"mlx5_7\", \"mlx5_7\"]\n";
    let system = folder.join("system.toml");
    let design = include_str!("../../../../systems/hgx-h200.toml");
    fs::write(&system, format!("{design}\n[[faults]]\n{faults}")).unwrap();
    let measured = peerlane(&["measure", text(&system), "--tests", "nic", "--patience", "2s", "-o", text(&bad)]);
    assert_eq!(status(&measured), 2, "{}", err(&measured));
    let run = kept(&bad);
    let flagged = |kind| run.cells.iter().filter(|cell| cell.flag(kind).is_some()).count();
    assert_eq!((answered(&run), flagged(FlagKind::Corrupt), flagged(FlagKind::Hung)), (all_steps(&run), 2, 1));
    let findings = [
        "mlx5_3 reaches 13 % of what it should, out and back through itself",
        "Rates between mlx5_0 and mlx5_1 reach 50 % of what the NICs' lines carry",
        "RDMA between mlx5_5 and mlx5_6 corrupts data",
        "RDMA out and back through mlx5_7 hangs",
    ];
    check_finds(&bad, &findings);

    let compared = peerlane(&["compare", "-v", text(&sound), text(&bad)]);
    let said = String::from_utf8(compared.stdout).unwrap();
    let figure = |name: &str| {
        // measured values stand below the prediction
        let line = said.lines().skip_while(|line| !line.starts_with(name)).nth(1);
        let line = line.unwrap_or_else(|| panic!("{name}: {said}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let near = |text: &str, gb: f64| (text.parse::<f64>().unwrap() / gb - 1.0).abs() < 0.02;
    let loopback = figure("NIC, out and back, worst");
    assert!(near(&loopback[1], 49.6) && near(&loopback[2], 6.5), "{loopback:?}");
    let to_others = figure("NIC → NIC, worst");
    assert!(near(&to_others[1], 49.6) && near(&to_others[2], 6.5), "{to_others:?}");
    let page = folder.join("page.html");
    let reported = peerlane(&["report", text(&bad), "-o", text(&page)]);
    assert_eq!(status(&reported), 0, "{}", err(&reported));
    assert!(fs::read_to_string(&page).unwrap().contains("mlx5_3 reaches 13 %"));
}
