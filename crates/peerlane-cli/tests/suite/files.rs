//! Files on shared machines: two writers, killed writers, full disks, folders that cannot be written, links, and names
//! that are not UTF-8. `.ci/nightly` runs more kills and more pairs of writers than `cargo test` does.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{command, err, path, status};
use peerlane::run::{Partial, Run};

/// A user without rights.
const NOBODY: u32 = 65534;

/// 48 KiB in the blocks of a POSIX shell's `ulimit -f`: room for the beginning of a record and some of its cells.
const BLOCKS: u32 = 96;

/// A short measurement.
const SHORT: [&str; 5] = ["measure", "h200x4-vm", "--tests", "local", "-o"];

/// An empty folder of a test's own.
fn folder(name: &str) -> PathBuf {
    let folder = path("files", name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs the program with a file as its last argument.
fn with_file(args: &[&str], file: impl AsRef<OsStr>) -> Output {
    command(args).arg(file.as_ref()).output().unwrap()
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// How often something is tried: a few times, or as the environment says.
fn times(variable: &str, few: usize) -> usize {
    std::env::var(variable).ok().map_or(few, |n| n.parse().unwrap())
}

/// Numbers that differ from run to run: the moments of a kill need no seed, and are printed where a test fails.
fn any_below(limit: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() % limit.max(1)
}

/// The cells of a record, whole or partial, as JSON by step and quantity.
fn cells(run: &Run) -> BTreeMap<String, String> {
    let key = |c: &peerlane::run::Cell| format!("{} {:?}", c.step, c.quantity);
    run.cells.iter().map(|c| (key(c), serde_json::to_string(c).unwrap())).collect()
}

/// What is recorded for `path`.
fn recorded(path: &Path) -> Option<Partial> {
    let partial = PathBuf::from(format!("{}.partial", path.to_string_lossy()));
    let text = fs::read_to_string(&partial).or_else(|_| fs::read_to_string(path)).ok()?;
    Some(Partial::read(&text).unwrap())
}

#[test]
fn no_kill_loses_a_cell() {
    let (kills, folder) = (times("PEERLANE_KILLS", 10), folder("kills"));
    let file = folder.join("run.json");
    let args = ["measure", "h200x4-vm", "--tests", "pairs,local,copy-latency", "-o"];
    let began = Instant::now();
    assert_eq!(status(&with_file(&args, &file)), 0);
    let (takes, whole) = (began.elapsed(), cells(&recorded(&file).unwrap().run));
    fs::remove_file(&file).unwrap();
    let (mut killed, mut runs, mut resumed, mut kept) = (0, 0, false, BTreeMap::new());
    while killed < kills {
        let mut child = command(&args);
        child.arg(&file).stdout(Stdio::null());
        if resumed {
            child.arg("--resume");
        }
        let mut child = child.spawn().unwrap();
        thread::sleep(Duration::from_micros(any_below(takes.as_micros() as u64)));
        let done = child.try_wait().unwrap();
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        killed += usize::from(done.is_none());
        let now = recorded(&file);
        resumed = now.is_some();
        let now = now.map_or_else(BTreeMap::new, |partial| cells(&partial.run));
        for (step, cell) in &kept {
            assert_eq!(now.get(step), Some(cell), "after kill {killed}: {}", err(&output));
        }
        kept = now;
        if let Some(done) = done {
            assert_eq!(done.code(), Some(0), "{}", err(&output));
            assert_eq!(kept.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
            assert_eq!(names(&folder), ["run.json"], "nothing else is left");
            fs::remove_file(&file).unwrap();
            (resumed, kept, runs) = (false, BTreeMap::new(), runs + 1);
        }
    }
    if resumed {
        let output = command(&args).arg(&file).arg("--resume").output().unwrap();
        assert_eq!(status(&output), 0, "{}", err(&output));
        let last = recorded(&file).unwrap();
        assert!(last.run.complete && kept.iter().all(|(step, cell)| cells(&last.run).get(step) == Some(cell)));
        assert_eq!(names(&folder), ["run.json"], "nothing else is left");
    }
    println!("{killed} kills, {runs} runs completed between them, every recorded cell kept with its value");
}

/// Commands that write a file whole, the file last, and what such a file ends with.
const WHOLE: [(&[&str], &str, &str); 13] = [
    (&["report", "hgx-h100", "-o"], "r.html", "</html>\n"),
    (&["check", "hgx-h100", "--html"], "c.html", "</html>\n"),
    (&["compare", "hgx-h100", "hgx-h200", "--html"], "d.html", "</html>\n"),
    (&["fleet", "../../examples/fleet", "--html"], "f.html", "</html>\n"),
    (&["new", "--force", "--cpu", "epyc-genoa", "--card", "l40s@cpu0"], "n.toml", "\n"),
    (&["simulate", "hgx-h100", "-s", "1MiB", "--trace"], "t.json", "]}"),
    (&["simulate", "hgx-h100", "-s", "1MiB,4MiB", "--svg"], "s.svg", "</svg>\n"),
    (&["sweep", "hgx-h100", "--csv"], "s.csv", "\n"),
    (&["place", "hgx-h100", "--topology"], "p.xml", "</system>\n"),
    (&["infer", "exxact-devbox", "-o"], "i.json", "}\n"),
    (&["tune", "dgx-1v", "-o"], "t2.json", "}\n"),
    (&["gate", "h200x4-vm", "-o"], "g.json", "]}\n"),
    (&["gate", "h200x4-vm", "--state"], "state.json", "}\n"),
];

#[test]
fn no_kill_leaves_half_a_file() {
    let (kills, folder) = (times("PEERLANE_KILLS", 13), folder("kills-of-writers"));
    let mut killed = 0;
    for (nth, (args, name, end)) in WHOLE.iter().enumerate() {
        let file = folder.join(name);
        // what was there before stays until the new file is whole
        let began = Instant::now();
        let first = with_file(args, &file);
        assert!(status(&first) < 2, "{args:?}: {}", err(&first));
        let takes = began.elapsed();
        let whole = fs::read_to_string(&file).unwrap();
        let is_whole = |text: &str| text.ends_with(end) && (text.len() as f64) > 0.7 * whole.len() as f64;
        assert!(is_whole(&whole), "{args:?} ends with {:?}", &whole[whole.len().saturating_sub(20)..]);
        let share = kills / WHOLE.len() + usize::from(nth < kills % WHOLE.len());
        let mut done = 0;
        while done < share {
            let again = any_below(2) == 0;
            if !again {
                let _ = fs::remove_file(&file);
            }
            let mut child = command(args).arg(&file).stdout(Stdio::null()).spawn().unwrap();
            thread::sleep(Duration::from_micros(any_below(takes.as_micros() as u64)));
            done += usize::from(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            match fs::read_to_string(&file) {
                Ok(text) => assert!(is_whole(&text), "{args:?}: half a file of {} bytes: {}", text.len(), err(&output)),
                Err(_) => assert!(!again, "{args:?}: the earlier file is gone"),
            }
            if !file.exists() {
                assert!(status(&with_file(args, &file)) < 2, "{args:?}: what a killed one left is in the way");
            }
        }
        killed += done;
    }
    println!("{killed} kills of {} commands, no half file", WHOLE.len());
}

#[test]
fn no_kill_leaves_half_an_archive_or_loses_a_sample() {
    let (kills, folder) = (times("PEERLANE_KILLS", 8), folder("kills-of-growing"));
    let archive = folder.join("machine.tar.zst");
    let began = Instant::now();
    let first = with_file(&["gather", "-o"], &archive);
    assert!(archive.exists(), "{}", err(&first));
    let takes = began.elapsed();
    for _ in 0..kills / 2 {
        let _ = fs::remove_file(&archive);
        let mut child = command(&["gather", "-o"]).arg(&archive).stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_micros(any_below(takes.as_micros() as u64)));
        child.kill().unwrap();
        child.wait_with_output().unwrap();
        if archive.exists() {
            let read = command(&["map"]).arg(&archive).output().unwrap();
            assert!(!err(&read).contains("cut or damaged"), "{}", err(&read));
        }
    }
    // a recording grows by whole lines; the last may be cut
    let recording = folder.join("t.jsonl");
    let args = ["top", "h200x4-vm", "--every", "100ms", "--for", "900ms", "--record"];
    for _ in 0..kills / 2 {
        let _ = fs::remove_file(&recording);
        let mut child = command(&args).arg(&recording).stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(100 + any_below(700)));
        child.kill().unwrap();
        child.wait_with_output().unwrap();
        let Ok(text) = fs::read_to_string(&recording) else { continue };
        let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
        for line in whole.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        }
    }
    println!("{kills} kills of gather and top");
}

#[test]
fn of_two_writers_one_is_told_about_the_other() {
    let (tries, folder) = (times("PEERLANE_WRITERS", 3), folder("writers"));
    let mut apart = 0;
    for _ in 0..tries {
        let file = folder.join("run.json");
        let start = || command(&SHORT).arg(&file).spawn().unwrap();
        let children = [start(), start()];
        let pids = children.each_ref().map(|child| child.id());
        let done = children.map(|child| child.wait_with_output().unwrap());
        match done.each_ref().map(status) {
            // they did not overlap; the second has replaced a complete run
            [0, 0] => apart += 1,
            [0, 2] => assert!(err(&done[1]).contains(&format!("process {}", pids[0])), "{}", err(&done[1])),
            [2, 0] => assert!(err(&done[0]).contains(&format!("process {}", pids[1])), "{}", err(&done[0])),
            other => panic!("{other:?}: {done:?}"),
        }
        assert!(recorded(&file).unwrap().run.complete);
        assert_eq!(names(&folder), ["run.json"]);
        fs::remove_file(&file).unwrap();
    }
    println!("{tries} pairs of writers, {apart} of them one after the other, no run lost");
}

#[test]
fn a_full_disk_leaves_no_half_file_and_loses_nothing() {
    let folder = folder("full");
    let (file, page) = (folder.join("run.json"), folder.join("report.html"));
    // a limit on the size of a file acts like a full disk, and needs no rights
    let limited = |blocks: u32, args: &[&str], file: &Path| -> Output {
        let script = format!("ulimit -f {blocks} && exec \"$@\"");
        let mut sh = Command::new("sh");
        sh.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_peerlane")]).args(args).arg(file);
        sh.stdin(Stdio::null()).output().unwrap()
    };
    let args = ["measure", "h200x4-vm", "--tests", "pairs,local", "-o"];
    let output = limited(BLOCKS, &args, &file);
    assert_eq!(status(&output), 2);
    let said = err(&output);
    assert!(said.contains("cannot record the run in") && said.contains("File too large"), "{said}");
    assert!(said.contains("run.json.partial has what was recorded before"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("GPU3"), "what was measured is shown");
    assert_eq!(names(&folder), ["run.json.partial"]);
    let before = recorded(&file).unwrap();
    assert!(before.unreadable == 0 && !before.run.cells.is_empty(), "{}", before.run.cells.len());

    let output = command(&args).arg(&file).arg("--resume").output().unwrap();
    assert_eq!(status(&output), 0, "{}", err(&output));
    let after = cells(&recorded(&file).unwrap().run);
    assert!(cells(&before.run).iter().all(|(step, cell)| after.get(step) == Some(cell)));

    fs::write(&page, "the last report").unwrap();
    let output = limited(BLOCKS, &["report", "h200x4-vm", "-o"], &page);
    assert!(status(&output) == 2 && err(&output).contains("File too large"), "{}", err(&output));
    assert_eq!(fs::read_to_string(&page).unwrap(), "the last report");
    let output = limited(2, &["gather", "--redact", "-o"], &folder.join("machine.tar.zst"));
    assert!(status(&output) == 2 && err(&output).contains("File too large"), "{}", err(&output));
    let output = limited(2, &["gather", "--redact", "-o"], &folder.join("machine"));
    assert!(status(&output) == 2 && err(&output).contains("File too large"), "{}", err(&output));
    assert_eq!(names(&folder.join("machine")), [""; 0]);
    assert_eq!(names(&folder), ["machine", "report.html", "run.json"]);
}

/// The commands that write a file, up to its name, which they all refuse before they do anything else.
const WRITERS: [&[&str]; 8] = [
    &SHORT,
    &["measure", "h200x4-vm", "--tests", "local", "--resume", "-o"],
    &["report", "h200x4-vm", "-o"],
    &["check", "h200x4-vm", "--html"],
    &["infer", "h200x4-vm", "-o"],
    &["simulate", "h200x4-vm", "--trace"],
    &["sweep", "h200x4-vm", "--csv"],
    &["gather", "--redact", "-o"],
];

#[test]
fn links_are_not_followed() {
    let folder = folder("links");
    let precious = folder.join("precious");
    fs::write(&precious, "years of work").unwrap();
    for (i, args) in WRITERS.iter().enumerate() {
        for to in [Path::new("precious"), Path::new("missing")] {
            let link = folder.join(format!("{i}.tar.zst"));
            symlink(to, &link).unwrap();
            let output = with_file(args, &link);
            assert_eq!(status(&output), 2, "{args:?}");
            assert!(err(&output).contains("symbolic link"), "{args:?}: {}", err(&output));
            assert!(output.stdout.is_empty(), "{args:?}: it is refused before anything is done");
            fs::remove_file(link).unwrap();
        }
    }
    // nor those that a stranger has put where the program's own files go
    let file = folder.join("run.json");
    for ending in ["lock", "new", "partial"] {
        let link = folder.join(format!("run.json.{ending}"));
        symlink("precious", &link).unwrap();
        let output = with_file(&SHORT, &file);
        assert_eq!(status(&output) == 2, ending != "new", "{ending}: {}", err(&output));
        let _ = fs::remove_file(link);
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "years of work");
    assert_eq!(names(&folder), ["precious", "run.json"]);
}

#[test]
fn a_folder_that_cannot_be_written_is_reported_before_anything_is_measured() {
    let folder = folder("read-only");
    let closed = folder.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    // root may write everywhere, so the program runs as somebody else
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let run = |args: &[&str], file: &Path| {
        let mut command = command(args);
        if root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.arg(file).output()
    };
    for (i, args) in WRITERS.iter().enumerate() {
        let output = match run(args, &closed.join(format!("{i}.tar.zst"))) {
            Ok(output) => output,
            Err(error) => {
                println!("skipped: the program cannot be run as user {NOBODY}: {error}");
                return;
            }
        };
        assert_eq!(status(&output), 2, "{args:?}");
        assert!(err(&output).contains("Permission denied"), "{args:?}: {}", err(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    let missing = with_file(&SHORT, folder.join("no/such/run.json"));
    assert!(status(&missing) == 2 && err(&missing).contains("no such folder"), "{}", err(&missing));
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(names(&closed), [""; 0]);
}

#[test]
fn an_abandoned_lock_blocks_nobody_and_rights_are_kept() {
    let folder = folder("abandoned");
    let file = folder.join("run.json");
    fs::write(folder.join("run.json.lock"), "process 1 on another\n").unwrap();
    fs::write(folder.join("run.json.new"), "half a reco").unwrap();
    assert_eq!(status(&with_file(&SHORT, &file)), 0);
    assert_eq!(names(&folder), ["run.json"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(status(&with_file(&SHORT, &file)), 0);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn streams_are_written_as_they_are() {
    let output = with_file(&["report", "h200x4-vm", "-o"], "/dev/stdout");
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert!(output.stdout.starts_with(b"<!doctype html>"));
    assert_eq!(status(&with_file(&["report", "h200x4-vm", "-o"], "/dev/null")), 0);
    let full = with_file(&["report", "h200x4-vm", "-o"], "/dev/full");
    assert!(status(&full) == 2 && err(&full).contains("No space left"), "{}", err(&full));
}

#[test]
fn names_need_not_be_utf_8() {
    let folder = folder("bytes");
    let at = |name: &[u8]| folder.join(OsStr::from_bytes(name));
    let run = at(b"run-\xff.json");
    let output = command(&["measure", "h200x4-vm", "--budget", "1ms", "-o"]).arg(&run).output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains(r"run-\xff.json' --resume"), "{}", err(&output));
    let output = command(&["measure", "h200x4-vm", "--resume", "-o"]).arg(&run).output().unwrap();
    assert_eq!(status(&output), 0, "{}", err(&output));
    let page = at(b"page-\xfe.html");
    let output = command(&["report"]).arg(&run).arg("-o").arg(&page).output().unwrap();
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert!(err(&output).contains("page-\u{fffd}.html"), "{}", err(&output));
    let topology = at(b"topo-\xfd.txt");
    fs::write(&topology, "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n").unwrap();
    let system = at(b"system-\xfc.toml");
    fs::write(&system, include_str!("../../../../systems/h200x4-vm.toml")).unwrap();
    for (args, target) in [
        (&["check"][..], &run),
        (&["check"], &topology),
        (&["map"], &system),
        (&["measure", "--tests", "local"], &system),
        (&["simulate"], &system),
        (&["gather", "-o"], &at(b"gathered-\xfb")),
        (&["gather", "-o"], &at(b"gathered-\xfb.tar.zst")),
    ] {
        let output = with_file(args, target);
        assert!(status(&output) < 2, "{args:?}: {}", err(&output));
    }
    let output = command(&["check"]).args([&run, &run, &run]).output().unwrap();
    assert!(status(&output) < 2, "{}", err(&output));
    let output = command(&["explain"]).arg(&run).args(["GPU0", "GPU1"]).output().unwrap();
    assert_eq!(status(&output), 0, "{}", err(&output));
    let output = with_file(&["check"], at(b"missing-\xff"));
    assert!(status(&output) == 2 && err(&output).contains("missing-\u{fffd}"), "{}", err(&output));
}

/// What writes a file, in the sources of the libraries and of the program.
const CALLS: [&str; 10] = [
    "File::create",
    "fs::write",
    "fs::rename",
    "fs::copy",
    "fs::hard_link",
    "OpenOptions",
    "create_dir",
    "fs::symlink",
    ".create_new(",
    "fs::set_permissions",
];

#[test]
fn one_module_writes_files() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut folders, mut seen) = (vec![crates.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                let tests = ["tests", "benches", "examples", "fuzz", "target"].contains(&name.as_str());
                // what output_file calls, for each operating system
                let of_system = path.ends_with("peerlane-cli/src/system");
                folders.extend((!tests && !of_system).then_some(path));
            } else if name.ends_with(".rs")
                && !["build.rs", "tests.rs", "testing.rs", "output_file.rs", "input_file.rs"].contains(&&*name)
            {
                let text = fs::read_to_string(&path).unwrap();
                // the tests of a module are at its end
                let tests = |rest: &str| {
                    let mut lines = rest.lines().skip_while(|line| line.starts_with("#["));
                    lines.next().is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
                };
                let mark = "\n#[cfg(test)]\n";
                let end = text.match_indices(mark).map(|(at, _)| at).find(|at| tests(&text[at + mark.len()..]));
                let code = &text[..end.unwrap_or(text.len())];
                for call in CALLS {
                    assert!(!code.contains(call), "{} calls {call}; use output_file", path.to_string_lossy());
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 200, "{seen}");
}
