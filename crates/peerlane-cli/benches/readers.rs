//! Time and peak memory of `peerlane check FILE` for files of growing size in every format: `cargo bench -p peerlane-cli --bench
//! readers` prints the table of `docs/security.md`. Arguments choose: `-- [--bytes N] [--command NAME] [NAME OF A FORMAT]…`.
//! Linux only, as memory is what `/proc/PID/status` shows last.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a benchmark prints, starts the program beside it, and stops where it cannot go on"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[path = "../tests/suite/growing.rs"]
mod growing;

const SIZES: [(usize, &str); 5] =
    [(1000, "1 kB"), (32_000, "32 kB"), (1_000_000, "1 MB"), (8_000_000, "8 MB"), (64 << 20, "64 MiB")];

/// No format takes longer; what does is ended and shown as more.
const MOST: Duration = Duration::from_secs(100);

/// Seconds of a core and peak MB of one run of the program; infinite where it had to be killed.
fn measure(command: &str, file: &Path) -> (f64, f64) {
    let started = Instant::now();
    let mut program = Command::new(env!("CARGO_BIN_EXE_peerlane"));
    program.arg(command).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = program.spawn().expect("the program starts");
    let (status, stat) = (format!("/proc/{}/status", child.id()), format!("/proc/{}/stat", child.id()));
    let (mut peak, mut seconds) = (0.0_f64, 0.0_f64);
    loop {
        // the mark of the highest use, in kB, until the program ends
        let text = fs::read_to_string(&status).unwrap_or_default();
        let kilobytes =
            text.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0.0) * 1024.0 / 1e6);
        // hundredths of a second in user and kernel mode stand behind the name, which ends with the last parenthesis
        let text = fs::read_to_string(&stat).unwrap_or_default();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = fields.get(11..13).into_iter().flatten().filter_map(|t| t.parse::<f64>().ok()).sum::<f64>();
        seconds = seconds.max(ticks / 100.0);
        if let Some(ended) = child.try_wait().expect("its end can be seen") {
            return (if ended.code().is_some() { seconds } else { f64::INFINITY }, peak);
        }
        if started.elapsed() > MOST {
            let _ = child.kill();
        }
        sleep(Duration::from_millis(1));
    }
}

fn main() {
    let mut sizes: Vec<(usize, String)> = SIZES.map(|(bytes, name)| (bytes, name.to_owned())).to_vec();
    let mut command = "check".to_owned();
    let mut chosen: Vec<String> = Vec::new();
    let mut arguments = std::env::args().skip(1).filter(|a| a != "--bench");
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bytes" => {
                let bytes = arguments.next().and_then(|n| n.parse().ok()).expect("--bytes N");
                sizes = vec![(bytes, format!("{bytes} B"))];
            }
            "--command" => command = arguments.next().expect("--command NAME"),
            _ => chosen.push(argument),
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("readers-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let heads: Vec<&str> = sizes.iter().map(|(_, name)| name.as_str()).collect();
    println!("| format | {} |\n| --- |{}", heads.join(" | "), " --- |".repeat(sizes.len()));
    for format in growing::FORMATS.iter().filter(|f| chosen.is_empty() || chosen.iter().any(|c| f.name.contains(c))) {
        let mut line = format!("| {} |", format.name);
        for (bytes, _) in &sizes {
            let (mut seconds, mut peak) = (0.0_f64, 0.0_f64);
            // one output of that size, and small ones one after another: the worse of both
            for text in [format.one(*bytes), format.many(*bytes)] {
                let file = folder.join("growing.txt");
                fs::write(&file, text).expect("room for a file");
                let (took, needed) = measure(&command, &file);
                (seconds, peak) = (seconds.max(took), peak.max(needed));
            }
            line += &format!(" {seconds:.2} s, {peak:.0} MB |");
        }
        println!("{line}");
    }
    let _ = fs::remove_dir_all(&folder);
}
