//! `peerlane gate`: a line, an exit status and an end by the deadline, whatever the driver does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{self, err, file, json, path, peerlane, status, stdout};

/// A simulated machine with these faults.
fn planted(name: &str, system: &str, faults: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems");
    let text = fs::read_to_string(folder.join(format!("{system}.toml"))).unwrap();
    file("gate", &format!("{name}.toml"), format!("{text}\n[simulated]\nseed = 7\n\n{faults}\n"))
}

const THROTTLED: &str = "[[faults]]\nthrottle = \"GPU2\"\nfactor = 0.5";

/// Its one line, which is short, and its exit status.
fn gated(args: &[&str]) -> (String, i32) {
    let output = peerlane(&[&["gate"], args].concat());
    (line(&output), status(&output))
}

fn line(output: &Output) -> String {
    let text = stdout(output);
    assert!(text.lines().count() == 1 && text.chars().count() <= 81, "{text}{}", err(output));
    text.trim_end().to_owned()
}

#[test]
fn faults_are_isolated_by_name_and_sound_machines_pass() {
    let (line, status) = gated(&["h200x4-vm"]);
    assert!(line.starts_with("ok: 4 GPUs, 42 tests, ") && status == 0, "{line}");
    for (name, fault, place) in [
        ("throttled", THROTTLED, "isolate GPU2: "),
        ("lost", "[[faults]]\nlost = \"GPU1\"\nafter = 3", "isolate GPU1: "),
        ("corrupt", "[[faults]]\ncorrupt = [\"GPU0\", \"GPU1\"]", "isolate GPU0-GPU1: "),
        ("refused", "[[faults]]\np2p_off = [\"GPU0\", \"GPU1\"]", "isolate GPU0-GPU1: "),
        ("hung", "[[faults]]\nhang = [\"GPU0\", \"GPU1\"]", "isolate GPU0-GPU1: "),
    ] {
        let (line, status) = gated(&[&planted(name, "h200x4-vm", fault)]);
        assert!(line.starts_with(place) && status == 1, "{name}: {line}");
    }
}

#[test]
fn counters_that_rise_while_it_measures_are_named() {
    let errors = |counter: &str| format!("[[faults]]\nerrors = \"GPU1\"\ncounter = \"{counter}\"\nper_gb = 50.0");
    for (counter, begins, exit) in [
        ("nvlink-recovery", "hold GPU1: NVLinks of GPU1 had errors under load", 0),
        ("ecc-uncorrected", "reset GPU1: ", 1),
    ] {
        let (line, status) = gated(&[&planted(counter, "h200x4-vm", &errors(counter))]);
        assert!(line.starts_with(begins) && status == exit, "{counter}: {line}");
    }
    let record = path("gate", "counted.json");
    let (line, _) = gated(&["h200x4-vm", "-o", record.to_str().unwrap()]);
    assert!(line.starts_with("ok: "), "{line}");
    let run: Value = serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap();
    let counted = run["counters"].as_array().unwrap();
    assert_eq!((counted.len(), counted[0].get("test"), counted[0].get("errors")), (1, None, None));
}

#[test]
fn a_deadline_holds_while_transfers_hang() {
    let hung = planted("hung-soon", "h200x4-vm", "[[faults]]\nhang = [\"GPU0\", \"GPU1\"]");
    for (deadline, limit) in [("500ms", 0.6), ("3s", 3.1)] {
        let began = Instant::now();
        let (line, _) = gated(&[&hung, "--deadline", deadline]);
        let took = began.elapsed().as_secs_f64();
        assert!(took < limit, "{deadline}: {took:.2} s: {line}");
    }
}

/// A folder with a driver that hangs; `None`, which is printed, where there is no C compiler.
fn hung_driver(name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fakes/hung.c");
    let folder = path("gate", name);
    fs::create_dir_all(&folder).unwrap();
    for library in ["libnvidia-ml.so.1", "libcuda.so.1"] {
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let arguments = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"];
        match Command::new(compiler).args(arguments).arg(folder.join(library)).arg(&source).output() {
            Ok(said) => assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr)),
            Err(error) => {
                println!("skipped: no C compiler ({error})");
                return None;
            }
        }
    }
    Some(fs::canonicalize(folder).unwrap())
}

#[test]
fn a_driver_that_hangs_is_a_fault_in_time() {
    let Some(folder) = hung_driver("driver") else { return };
    let gate = |hang: &str, args: &[&str]| {
        let began = Instant::now();
        let output = common::command(&[&["gate"], args].concat())
            .env("LD_LIBRARY_PATH", &folder)
            .env("HANG", hang)
            .env_remove("CUDA_VISIBLE_DEVICES")
            .output()
            .unwrap();
        (line(&output), status(&output), began.elapsed().as_secs_f64(), err(&output))
    };
    // too short to tell a slow driver from one that hangs
    let (line, status, took, _) = gate("init", &["--deadline", "2s"]);
    assert!(line.starts_with("unknown: NVML has not answered in 1.") && status == 0 && took < 2.0, "{line} {took}");
    for (at, word) in [("init", "NVML"), ("count", "NVML"), ("name", "NVML"), ("cuinit", "opening the GPUs")] {
        let (line, status, took, said) = gate(at, &["--deadline", "10s", "-v"]);
        assert!(line.starts_with("isolate driver: ") && line.contains(word) && status == 1, "{at}: {line}\n{said}");
        assert!(took < 10.0, "{at}: {took:.2} s");
    }
    let (line, _, _, said) = gate("nowhere", &["--deadline", "10s", "-v"]);
    assert!(line.starts_with("unknown: "), "cuInit fails: {line}\n{said}");
    // a slow driver looks the same once, so that a second failure is needed where they are counted
    let state = fresh("hung-state.json");
    let counted = ["--deadline", "9s", "--state", &state];
    let first = gate("init", &counted);
    assert!(first.0.starts_with("suspect (1 of 2): isolate driver: ") && first.1 == 0, "{}", first.0);
    assert_eq!(gate("init", &counted).1, 1);
}

/// A file of this module that is not there.
fn fresh(name: &str) -> String {
    let path = path("gate", name);
    let _ = fs::remove_file(&path);
    path.to_str().unwrap().to_owned()
}

#[test]
fn what_is_not_judged_exits_by_the_style() {
    if Path::new("/dev/nvidia0").exists() {
        println!("skipped: this machine has a GPU");
        return;
    }
    for (style, status) in [("native", 0), ("nagios", 3), ("npd", 2)] {
        let (line, found) = gated(&["live", "--exit", style]);
        assert!(line.starts_with("unknown: no NVIDIA GPU") && found == status, "{style}: {line} {found}");
    }
    let (line, status) = gated(&["--gpus", "8"]);
    assert!(line.starts_with("isolate machine: no NVIDIA GPU, 8 expected") && status == 1, "{line}");
    let throttled = planted("styles", "h200x4-vm", THROTTLED);
    for (style, status) in [("native", 1), ("nagios", 2), ("npd", 1)] {
        assert_eq!(gated(&[&throttled, "--exit", style]).1, status, "{style}");
    }
    assert_eq!(peerlane(&["gate", "no-such-system", "--exit", "nagios"]).status.code(), Some(3));
    assert_eq!(peerlane(&["gate", "h200x4-vm", "--drain-command", "a 'b"]).status.code(), Some(2));
}

#[test]
fn commands_get_their_words_whole_and_their_failure_is_reported() {
    let throttled = planted("drained", "h200x4-vm", THROTTLED);
    let (mark, state) = (fresh("drained.txt"), fresh("drained.json"));
    let record = format!("sh -c 'printf \"%%s|\" \"$@\" >>{mark}' sh %h \"%r\" %a '$(touch {mark}.injected)'");
    let args = [throttled.as_str(), "--state", &state, "--drain-command", &record];
    assert_eq!(gated(&args).1, 1);
    let words = fs::read_to_string(&mark).unwrap();
    let words: Vec<&str> = words.split('|').collect();
    assert!(words[1].starts_with("isolate GPU2: ") && words[1].chars().count() <= 80, "{words:?}");
    assert_eq!((words[2], words[3]), ("isolate", format!("$(touch {mark}.injected)").as_str()));
    assert!(!Path::new(&format!("{mark}.injected")).exists());
    let failing = peerlane(&["gate", &throttled, "--drain-command", "sh -c 'echo refused >&2; exit 4'"]);
    assert!(status(&failing) == 3 && err(&failing).contains("exit status: 4: refused"), "{}", err(&failing));
    let began = Instant::now();
    let hanging = peerlane(&["gate", &throttled, "--deadline", "5s", "--drain-command", "sleep 60"]);
    assert!(status(&hanging) == 3 && began.elapsed().as_secs_f64() < 5.0, "{:?}", began.elapsed());
}

#[test]
fn a_repaired_machine_is_resumed_after_as_many_passes() {
    let (throttled, mark, state) =
        (planted("repaired", "h200x4-vm", THROTTLED), fresh("repaired"), fresh("repaired.json"));
    let [drain, resume] = ["drain", "resume"].map(|what| format!("sh -c 'echo {what} >>{mark}'"));
    let call = |target: &str, more: &[&str]| {
        let args = [target, "--state", &state, "--failures", "2", "--recoveries", "2"];
        let commands = ["--drain-command", &drain, "--resume-command", &resume];
        let (line, status) = gated(&[&args[..], &commands, more].concat());
        (line, status, fs::read_to_string(&mark).unwrap_or_default().replace('\n', " "))
    };
    let (line, status, ran) = call(&throttled, &[]);
    assert!(line.starts_with("suspect (1 of 2): isolate GPU2") && status == 0 && ran.is_empty(), "{line}");
    let (_, status, ran) = call(&throttled, &[]);
    assert_eq!((status, ran.as_str()), (1, "drain "));
    // what is unknown counts for nothing
    call("h200x4-vm", &["--passive"]);
    assert_eq!(call("h200x4-vm", &[]).2, "drain ");
    assert_eq!(call("h200x4-vm", &[]).2, "drain resume ");
    let document: Value = serde_json::from_str(&fs::read_to_string(&state).unwrap()).unwrap();
    assert_eq!((&document["drain"], &document["passes"]), (&"no".into(), &2.into()));
}

#[test]
fn the_state_survives_kills_and_two_at_once() {
    let (throttled, state) = (planted("killed", "h200x4-vm", THROTTLED), fresh("killed.json"));
    let args = ["gate", &throttled, "--state", &state, "--deadline", "8s"];
    let kills: u64 = std::env::var("PEERLANE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let mut last = 0;
    for turn in 0..kills {
        let mut child = common::command(&args).spawn().unwrap();
        // the state is written at the end of about a second
        thread::sleep(Duration::from_millis(150 + turn * 97 % 1200));
        let _ = child.kill();
        child.wait().unwrap();
        if let Ok(text) = fs::read(&state) {
            let found: Value = serde_json::from_slice(&text).expect("whole");
            let failures = found["failures"].as_u64().unwrap();
            assert!(failures == last || failures == last + 1, "{failures} after {last}");
            last = failures;
        }
    }
    let two: Vec<_> = (0..2).map(|_| common::command(&args).spawn().unwrap()).collect();
    let two: Vec<Output> = two.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let judged = two.iter().filter(|output| status(output) == 1).count() as u64;
    let found: Value = serde_json::from_slice(&fs::read(&state).unwrap()).unwrap();
    assert!(judged >= 1, "{}", err(&two[0]));
    assert_eq!(found["failures"].as_u64().unwrap(), last + judged);
    assert!(two.iter().all(|output| status(output) == 1 || line(output).contains("another gate is running")));
    // a state that is damaged or of another version is started anew, with a note
    for text in ["{\"schema\": \"peerlane/gate-state/9\"}", "", "{\"schema\": \"peerlane/gate-state/1\""] {
        fs::write(&state, text).unwrap();
        let output = peerlane(&["gate", "h200x4-vm", "--state", &state, "-v"]);
        assert!(status(&output) == 0 && err(&output).contains("started anew"), "{text}: {}", err(&output));
    }
    // anything else is somebody's work
    for text in ["nonsense", "{\"schema\": \"peerlane/run/1\"}"] {
        fs::write(&state, text).unwrap();
        let output = peerlane(&["gate", "h200x4-vm", "--state", &state, "-v"]);
        assert!(status(&output) == 2 && err(&output).contains("is not replaced"), "{text}: {}", err(&output));
        assert_eq!(fs::read_to_string(&state).unwrap(), text);
    }
}

#[test]
fn json_has_the_line_and_the_record_can_be_checked() {
    let (throttled, record) = (planted("json", "h200x4-vm", THROTTLED), fresh("record.json"));
    let document = json(&["gate", &throttled, "--json", "-o", &record]);
    assert_eq!((&document["schema"], &document["status"]), (&"peerlane/gate/2".into(), &"isolate".into()));
    assert!(document["line"].as_str().unwrap().starts_with("isolate GPU2"));
    assert!(document["repeated"].as_u64().unwrap() > 0 && document["seconds"].as_f64().unwrap() < 20.0);
    assert_eq!(document["findings"][0]["action"], "isolate");
    assert!(common::checked(&["check", &record]).contains("GPU2"));
    // what it was before is its own history
    let sound = fresh("before.json");
    peerlane(&["gate", "h200x4-vm", "-o", &sound]);
    let slow = "[[faults]]\nfrom = \"GPU2\"\nto = \"GPU3\"\nfactor = 0.91";
    let slower = planted("slower", "h200x4-vm", slow);
    let (line, _) = gated(&[&slower, "--baseline", &sound]);
    assert!(line.starts_with("hold ") && line.contains("worse than before"), "{line}");
}

#[test]
fn a_real_slurm_drains_and_resumes() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/slurm_prolog.sh");
    if std::env::var_os("PEERLANE_SLURM").is_none() {
        println!("skipped: set PEERLANE_SLURM=1 to run {} (a minute, as root)", peerlane_path(&script));
        return;
    }
    let said = Command::new("bash").arg(&script).arg(env!("CARGO_BIN_EXE_peerlane")).output().unwrap();
    let text = format!("{}{}", stdout(&said), err(&said));
    println!("{text}");
    assert!(matches!(said.status.code(), Some(0 | 77)), "{text}");
}

fn peerlane_path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
