//! What stands in place of a file is refused at once, wherever a file is named: FIFOs, sockets, devices, folders, and
//! links out of a folder.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::common::{self, err, file, out, path, peerlane, status, stdout, with_input};

const TABLE: &str = include_str!("doors/table.txt");

const TOPO: &str = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n";

/// Less than a read that does not return is waited for, and more than a busy machine takes to start the program.
const AT_ONCE: Duration = Duration::from_secs(4);

/// What is no file, and what the message calls it.
const OTHERS: [(&str, &str); 5] = [
    ("fifo", "is a FIFO, not a file"),
    ("socket", "is a socket, not a file"),
    ("/dev/zero", "is a device, not a file"),
    ("zero", "is a device, not a file"),
    ("folder", "is a folder, not a file"),
];

/// A folder with all of them, the links first.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = path("doors", "others");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("folder")).unwrap();
    symlink("/dev/zero", folder.join("zero")).unwrap();
    fifo(&folder.join("fifo"));
    // the file stays when the listener is closed
    drop(UnixListener::bind(folder.join("socket")).unwrap());
    folder
});

static RUN: LazyLock<String> = LazyLock::new(|| {
    let run = path("doors", "run.json");
    let _ = fs::remove_file(&run);
    out(&["measure", "h200x4-vm", "--quick", "-o", run.to_str().unwrap()]);
    run.to_str().unwrap().to_owned()
});

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn named(name: &str) -> String {
    FOLDER.join(name).to_str().unwrap().to_owned()
}

/// The program with at most 4 GiB of memory, killed where it does not end.
fn bounded(args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 4194304; exec timeout 60 \"$0\" \"$@\"", env!("CARGO_BIN_EXE_peerlane")]).args(args);
    command.env("PEERLANE_SECRET", "0123456789abcdef0123456789abcdef").current_dir(path("doors", ".")).output().unwrap()
}

/// The message of a command that ends with 2 at once.
fn refused(args: &[&str]) -> String {
    let began = Instant::now();
    let output = bounded(args);
    let took = began.elapsed();
    assert!(status(&output) == 2 && took < AT_ONCE, "{args:?}: {took:?}, {:?}: {}", output.status, err(&output));
    err(&output)
}

/// Lines of the table: command, argument, what is done, and the rest of a command line.
fn table() -> Vec<(&'static str, &'static str, &'static str, Vec<String>)> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let words = |line: &'static str| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("{line}"));
        let (command, argument, what) = (word(), word(), word());
        let rest = words.map(|word| if word == "RUN" { RUN.clone() } else { word.replace('_', " ") });
        (command, argument, what, rest.collect())
    };
    lines.map(words).collect()
}

/// A command line with a file in the place of an argument.
fn with_file<'a>(command: &'a str, argument: &'a str, rest: &'a [String], file: &'a str) -> Vec<&'a str> {
    let mut words = vec![command];
    words.extend(argument.starts_with("--").then_some(argument));
    // a target stands first, but for what is planned
    words.extend((command == "plan").then_some("llama-3-8b"));
    words.push(file);
    words.extend(rest.iter().map(String::as_str));
    words
}

#[test]
fn options_refuse_what_is_no_file() {
    let mut tried = 0;
    for (command, argument, what, rest) in table() {
        for (name, is) in OTHERS.into_iter().filter(|_| what == "reads") {
            let message = refused(&with_file(command, argument, &rest, &named(name)));
            // what is also written may be refused as that
            let as_output = ["--output", "--state"].contains(&argument);
            assert!(message.contains(is) || as_output, "{command} {argument} {name}: {message}");
            tried += 1;
        }
    }
    assert!(tried >= 10 * OTHERS.len(), "{tried}");
}

#[test]
fn folders_and_what_is_in_them_refuse_what_is_no_file() {
    for (command, argument, _, rest) in table().into_iter().filter(|(.., what, _)| *what == "folder") {
        for (name, is) in &OTHERS[..4] {
            let message = refused(&with_file(command, argument, &rest, &named(name)));
            assert!(message.contains("Not a directory"), "{command} {argument} {name}: {message}");
            let folder = path("doors", &format!("within-{}", name.replace('/', "")));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            symlink(named(name), folder.join("one.toml")).unwrap();
            let message = refused(&with_file(command, argument, &rest, folder.to_str().unwrap()));
            assert!(message.contains("leads out of") || message.contains(is), "{command} {argument} {name}: {message}");
        }
    }
}

#[test]
fn targets_refuse_what_is_no_file() {
    for (command, argument, what, rest) in table() {
        for name in ["socket", "/dev/zero", "zero"].into_iter().filter(|_| what == "target") {
            let message = refused(&with_file(command, argument, &rest, &named(name)));
            assert!(!message.is_empty(), "{command} {argument} {name}");
        }
    }
    let message = refused(&["simulate", "h200x4-vm", "-w", &named("fifo.jsonl")]);
    assert!(message.contains("fifo.jsonl"), "{message}");
    for (name, is) in &OTHERS[..4] {
        let link = path("doors", &format!("{}.jsonl", name.replace('/', "")));
        let _ = fs::remove_file(&link);
        symlink(named(name), &link).unwrap();
        let message = refused(&["simulate", "h200x4-vm", "-w", link.to_str().unwrap()]);
        assert!(message.contains(is), "{message}");
    }
}

#[test]
fn variables_refuse_what_is_no_file() {
    for (name, is) in OTHERS {
        let output = common::command(&["check", "h200x4-vm"]).env("PEERLANE_RULES", named(name)).output().unwrap();
        assert!(status(&output) == 2 && err(&output).contains(is), "{name}: {}", err(&output));
    }
}

/// Makes what has a name.
type Make<'a> = &'a dyn Fn(&Path);

/// A folder with one entry that is none of its files.
fn folder_with(name: &str, make: impl FnOnce(&Path)) -> String {
    let folder = path("doors", &format!("with-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    make(&folder.join(format!("{name}.json")));
    folder.to_str().unwrap().to_owned()
}

#[test]
fn what_is_no_file_in_a_folder_is_reported_and_not_opened() {
    let outside = file("doors", "outside.txt", TOPO);
    let cases: [(&str, &str, Make); 4] = [
        ("fifo", "is a FIFO, not a file", &fifo),
        ("socket", "is a socket, not a file", &|path| drop(UnixListener::bind(path).unwrap())),
        ("zero", "its link leads out of ", &|path| symlink("/dev/zero", path).unwrap()),
        ("link", "its link leads out of ", &|path| symlink(&outside, path).unwrap()),
    ];
    for (name, is, make) in cases {
        let folder = folder_with(name, make);
        for command in ["check", "map", "fleet"] {
            let message = refused(&[command, &folder]);
            assert!(message.contains(is), "{command} {name}: {message}");
        }
        // what else is there is used, and what could not be read is said and makes the work incomplete
        fs::write(Path::new(&folder).join("topo.txt"), TOPO).unwrap();
        let output = bounded(&["check", &folder]);
        let said = err(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(status(&output) == 2 && said.contains(is.trim()), "{name}: {said}");
        assert!(stdout(&output).contains("no fault in the topology"), "{name}: {}", stdout(&output));
    }
    let manifest = folder_with("manifest", |path| symlink("/dev/zero", path).unwrap());
    assert!(refused(&["fleet", &manifest]).contains("leads out"));
}

#[test]
fn a_pipe_that_nobody_reads_is_not_written_to() {
    let pipe = path("doors", "unread-pipe");
    let _ = fs::remove_file(&pipe);
    fifo(&pipe);
    let pipe = pipe.to_str().unwrap();
    for args in
        [["check", "slow-node", "--html", pipe], ["tune", "dgx-1v", "-o", pipe], ["gate", "h200x4-vm", "-o", pipe]]
    {
        let output = bounded(&args);
        assert!(
            status(&output) == 2 && err(&output).contains("a pipe that no program reads"),
            "{args:?}: {}",
            err(&output)
        );
    }
}

#[test]
fn a_pipe_that_was_named_is_read() {
    assert_eq!(status(&with_input(&["check", "-"], TOPO.as_bytes())), 0);
    assert_eq!(status(&with_input(&["check", "/dev/fd/0"], TOPO.as_bytes())), 0);
    let rules = with_input(&["check", "h200x4-vm", "--rules", "/dev/fd/0"], b"");
    assert_eq!(status(&rules), 0, "{}", err(&rules));
    let pipe = path("doors", "pipe.txt");
    let _ = fs::remove_file(&pipe);
    fifo(&pipe);
    let writer = thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, TOPO).unwrap()
    });
    let output = peerlane(&["map", pipe.to_str().unwrap()]);
    assert!(status(&output) == 0 && stdout(&output).contains("GPU1"), "{}", err(&output));
    writer.join().unwrap();
}

#[test]
fn a_pipe_that_nobody_writes_to_is_given_up() {
    let output = bounded(&["check", &named("fifo")]);
    assert!(status(&output) == 2 && err(&output).contains("no answer within 5 s"), "{}", err(&output));
}

#[test]
fn an_empty_device_is_an_empty_file() {
    assert_eq!(status(&peerlane(&["check", "h200x4-vm", "--rules", "/dev/null"])), 0);
    assert!(refused(&["check", "/dev/null"]).contains("empty"));
}
