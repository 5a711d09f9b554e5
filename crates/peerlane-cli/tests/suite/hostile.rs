//! Files that were made to hurt: every command on them ends soon, with little memory, and without a panic.
//!
//! `PEERLANE_HOSTILE` may name a folder of more, which cannot be copied into this project; equals of its kinds are composed
//! here. Times are those of a release build: others are not held.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{command, err, file, status};

/// Seconds of the processor, and MB.
const MOST_SECONDS: f64 = 1.0;
const MOST_MB: f64 = 200.0;

/// What a command took.
struct Took {
    output: Output,
    seconds: f64,
    megabytes: f64,
}

fn run(args: &[&str]) -> Took {
    let mut child = command(args).spawn().unwrap();
    let (stat, memory) = (format!("/proc/{}/stat", child.id()), format!("/proc/{}/status", child.id()));
    let (mut seconds, mut megabytes) = (0.0, 0.0_f64);
    let output = thread::scope(|scope| {
        let (mut out, mut errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let read = |from: &mut dyn std::io::Read| {
            let mut all = Vec::new();
            from.read_to_end(&mut all).map(|_| all).unwrap_or_default()
        };
        let out = scope.spawn(move || read(&mut out));
        let errors = scope.spawn(move || read(&mut errors));
        let begun = Instant::now();
        let status = loop {
            // hundredths of a second in user and kernel mode, of all threads, behind the name
            let fields = std::fs::read_to_string(&stat).unwrap_or_default();
            let fields: Vec<&str> = fields.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            let ticks = fields.get(11..13).into_iter().flatten().filter_map(|t| t.parse::<f64>().ok()).sum::<f64>();
            seconds = (ticks / 100.0).max(seconds);
            let peak = std::fs::read_to_string(&memory).unwrap_or_default();
            let peak =
                peak.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
            megabytes = (peak.unwrap_or_default() / 1024.0).max(megabytes);
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "{args:?} does not end");
            thread::sleep(Duration::from_millis(3));
        };
        Output { status, stdout: out.join().unwrap(), stderr: errors.join().unwrap() }
    });
    Took { output, seconds, megabytes }
}

/// What is wrong with how a command ended.
fn wrong(args: &[&str]) -> Option<String> {
    let Took { output, seconds, megabytes } = run(args);
    let said = err(&output);
    let slow = !cfg!(debug_assertions) && seconds > MOST_SECONDS;
    let silent = output.stdout.is_empty() && !said.contains("peerlane: ");
    let problem = match () {
        () if status(&output) > 2 || said.contains("panicked") => format!("status {}: {said}", status(&output)),
        () if slow => format!("{seconds:.2} s"),
        () if megabytes > MOST_MB => format!("{megabytes:.0} MB"),
        () if silent => "nothing says why".to_owned(),
        () => return None,
    };
    println!("{args:?}: {seconds:.2} s, {megabytes:.0} MB");
    Some(format!("{args:?}: {problem}"))
}

/// The commands that somebody gives a file to.
const COMMANDS: [&[&str]; 6] = [
    &["check"],
    &["check", "--redact", "--json"],
    &["map", "--format", "system"],
    &["place"],
    &["predict", "--collectives"],
    &["infer", "--recorded"],
];

fn composed() -> Vec<(&'static str, Vec<u8>)> {
    let topology = |machines: usize, gpus: usize| {
        let head: String = (0..gpus).map(|g| format!("\tGPU{g}")).collect();
        let row = |g: usize| (0..gpus).map(|to| if to == g { "\t X " } else { "\tNV18" }).collect::<String>();
        let rows: String = (0..gpus).map(|g| format!("GPU{g}{}\n", row(g))).collect();
        (0..machines)
            .map(|m| format!("## Machine {m}\n\n$ hostname\nnode{m}\n$ nvidia-smi topo -m\n{head}\n{rows}\n"))
            .collect::<String>()
    };
    let ranks: String = (0..1200)
        .map(|i| format!("#  Rank {i} Group  0 Pid {i} on host{i} device {} [0x0{}] NVIDIA H200\n", i % 8, i % 8))
        .collect();
    let p2p = |cell: &str| {
        format!(
            "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1\n     0 3000.00  {cell}\n     1  {cell} 3000.00\n"
        )
    };
    let mut all = vec![
        ("hosts.txt", ranks.into_bytes()),
        ("machines.txt", topology(8, 16).into_bytes()),
        ("inf.txt", p2p("inf").into_bytes()),
        ("digits.txt", p2p(&"9".repeat(300)).into_bytes()),
        ("placeholder.txt", p2p("2147483648").into_bytes()),
        ("negative.txt", p2p("-1").into_bytes()),
        ("brackets.txt", "]".repeat(200_000).into_bytes()),
        ("no-end.txt", b"}\n\"nvbandwidth\": {".to_vec()),
    ];
    all.push(("list.zip", listed_zip(5_000)));
    all.push((
        "line.txt",
        "h1:8:8 [0] NCCL WARN NET/IB : mlx5_0:1 async fatal event: local error ".repeat(300).into_bytes(),
    ));
    // slow without optimisation, as all that is long
    if !cfg!(debug_assertions) {
        use std::io::Write;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        (0..400).for_each(|_| packed.write_all(&vec![b'\n'; 1 << 20]).unwrap());
        all.push(("lines.gz", packed.finish().unwrap()));
    }
    all
}

/// A zip archive that lists one small file many times under names of their own.
fn listed_zip(files: u32) -> Vec<u8> {
    use std::io::Write;
    let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(b"x").unwrap();
    let packed = packer.finish().unwrap();
    let sizes = [0_u32.to_le_bytes(), (packed.len() as u32).to_le_bytes(), 1_u32.to_le_bytes()].concat();
    let mut zip = [b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0".as_slice(), &sizes, b"\0\0\0\0", &packed].concat();
    let list = zip.len() as u32;
    for nth in 0..files {
        let name = format!("d{nth}/a.txt");
        let length = (name.len() as u16).to_le_bytes();
        zip.extend(
            [b"PK\x01\x02\x14\0\x14\0\0\0\x08\0\0\0\0\0".as_slice(), &sizes, &length, &[0; 16], name.as_bytes()]
                .concat(),
        );
    }
    zip.extend(b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff\0\0\0\0");
    zip.extend(list.to_le_bytes());
    zip.extend(b"\0\0");
    zip
}

fn all_wrong(files: impl IntoIterator<Item = PathBuf>) -> (usize, Vec<String>) {
    let (mut tried, mut all) = (0, Vec::new());
    for path in files {
        for command in COMMANDS {
            tried += 1;
            all.extend(wrong(&[command, &[path.to_str().unwrap()]].concat()));
        }
    }
    (tried, all)
}

#[test]
fn composed_files_that_hurt_end_soon() {
    let files = composed().into_iter().map(|(name, content)| PathBuf::from(file("hostile", name, content)));
    let (tried, wrong) = all_wrong(files);
    assert!(wrong.is_empty(), "{} of {tried}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn files_of_a_folder_that_hurt_end_soon() {
    let Ok(folder) = std::env::var("PEERLANE_HOSTILE") else {
        println!("PEERLANE_HOSTILE is not set: only composed files are tried");
        return;
    };
    let in_folder =
        |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let (folders, mut files): (Vec<_>, Vec<_>) =
        in_folder(Path::new(&folder)).into_iter().partition(|path| path.is_dir());
    files.extend(folders.iter().flat_map(|folder| in_folder(folder)));
    files.sort();
    let (tried, wrong) = all_wrong(files);
    assert!(wrong.is_empty(), "{} of {tried}\n{}", wrong.len(), wrong.join("\n"));
    println!("{tried} commands on the files of {folder}");
}
