//! Unlucky and hostile input: bounded time and memory whatever a text or folder holds, and nothing lost
//! without a word.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

use peerlane::assemble::assemble;
use peerlane::case::Case;
use peerlane::catalogue::Parts;
use peerlane::check::{Context, check};
use peerlane::comparison::Comparison;
use peerlane::evidence::{Found, MAX_STATEMENTS, ReadError, Text, read_path, read_stream, scan_text};
use peerlane::machine::Machine;
use peerlane::model::Model;

/// What `work` gives; fails where it takes far longer than work in proportion to its input could.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = channel();
    std::thread::spawn(move || send.send(work()));
    receive.recv_timeout(Duration::from_secs(120)).unwrap()
}

fn scan(text: &str) -> Found {
    scan_text(&Text::new("test.txt", text.as_bytes()))
}

fn machines(text: String) -> Vec<Machine> {
    in_time(move || {
        let machines = assemble(scan(&text));
        for machine in &machines {
            let case = Case::from(machine.clone());
            let model = Model::new(&case.machine, Parts::embedded());
            check(&Context::of(&case, &Comparison::of(&model)));
        }
        machines
    })
}

fn warnings(machine: &Machine) -> String {
    machine.warnings.iter().map(|w| format!("{w}\n")).collect()
}

/// `nvidia-smi topo -m` of that many GPUs, one class between all.
fn topo(gpus: usize, class: &str) -> String {
    let mut text = String::new();
    for i in 0..gpus {
        let _ = write!(text, "\tGPU{i}");
    }
    text.push('\n');
    for i in 0..gpus {
        let _ = write!(text, "GPU{i}");
        for j in 0..gpus {
            text.push_str(if i == j { "\t X " } else { "\t" });
            text.push_str(if i == j { "" } else { class });
        }
        text.push('\n');
    }
    text
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("limits").join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// False where this system has no such program.
    #[cfg(unix)]
    fn pipe(&self, name: &str) -> bool {
        let status = std::process::Command::new("mkfifo").arg(self.0.join(name)).status();
        status.is_ok_and(|s| s.success())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_text_of_too_many_statements_is_cut_with_a_warning() {
    let block =
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n     0 1.0 2.0\n     1 3.0 4.0\n\n";
    let text = block.repeat(MAX_STATEMENTS + 500);
    let all = machines(text);
    assert!(warnings(&all[0]).contains("more than 8192 statements: 500 are left out"), "{}", warnings(&all[0]));
    assert_eq!((all.len(), all[0].evidence.len(), all[0].matrices.len()), (1, MAX_STATEMENTS, 1));
}

#[test]
fn machines_below_one_heading_have_names_of_their_own() {
    let mut text = "# The rack\n\n".to_owned();
    for i in 0..600 {
        // each is another machine, since its numbers are others
        let _ = writeln!(text, "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-{i}\nGPU1\tSYS\t X \t0-{i}\n");
    }
    let all = machines(text);
    let mut names: Vec<&str> = all.iter().map(|m| m.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[1]), (600, "The rack", "The rack (2)"));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 600);
}

#[test]
fn a_heading_names_what_stands_below_it() {
    let table = "\n\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n\n";
    let other = table.replace("PIX", "SYS");
    let all = assemble(scan(&format!("# no\n# first\n{table}# second\n{other}# last\n")));
    assert_eq!(all.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["first", "second"]);
}

#[test]
fn hundreds_of_gpus_of_one_nvlink_mesh_are_drawn() {
    let all = machines(topo(300, "NV4"));
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].fabric.devices().len(), 300);
}

#[test]
fn more_devices_than_any_machine_has_are_left_out_with_a_warning() {
    let mut text = "-[0000:00]-+-00.0  Intel Corporation Device 0d57\n".to_owned();
    for bus in 1..=200_u8 {
        for device in 0..16 {
            let _ = writeln!(
                text,
                "           +-{:02x}.{}-[{bus:02x}]----{device:02x}.0  NVIDIA Corporation GA100 [A100]",
                bus & 31,
                bus & 7
            );
        }
    }
    let all = machines(text);
    assert_eq!(all[0].fabric.devices().len(), 1024);
    assert!(warnings(&all[0]).contains("more than 1024 GPUs and NICs"), "{}", warnings(&all[0]));
}

#[test]
fn a_host_of_thousands_of_numa_nodes_is_no_complete_graph() {
    let mut text = "Architecture: x86_64\n".to_owned();
    for i in 0..3000 {
        // as many paragraphs as needed, since one ends after some hundred lines
        let _ = writeln!(text, "NUMA node{i} CPU(s): {i}");
    }
    text.push_str("\n\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0\nGPU1\tSYS\t X \t1\n");
    let all = machines(text);
    assert!(all[0].fabric.links().len() < 40_000, "{}", all[0].fabric.links().len());
}

#[test]
fn rows_without_a_header_or_a_second_cell_are_passed_quickly() {
    let mut text = String::new();
    for i in 0..20_000 {
        let _ = writeln!(text, "GPU{i}\tX");
    }
    for i in 0..20_000 {
        let cells = if i % 500 == 499 { "X" } else { "X\tSYS" };
        let _ = writeln!(text, "GPU{i}\t{cells}");
    }
    let found = in_time(move || scan(&text));
    // the last rows end with the text and not with a row of one cell
    assert!(found.evidence.len() <= 1, "{}", found.evidence.len());
}

#[test]
fn xml_of_any_shape_takes_memory_in_bounds() {
    let trees =
        format!("<system version=\"1\"><cpu numaid=\"0\">{}</cpu></system>\n", "<pci/>".repeat(100_000)).repeat(3);
    let attributes = format!("<system version=\"1\" {}><cpu numaid=\"0\"/></system>", "a=\"\" ".repeat(200_000));
    let deep = format!("<system version=\"1\">{}", "<cpu numaid=\"0\">".repeat(50_000));
    for text in [trees, attributes, deep] {
        in_time(move || drop(assemble(scan(&text))));
    }
}

#[test]
fn streams_without_end_are_given_up() {
    let endless = |byte| std::io::Read::take(std::io::repeat(byte), u64::MAX);
    assert!(matches!(read_stream("zeros", endless(0)), Err(ReadError::Binary { .. })));
    assert!(matches!(read_stream("words", endless(b'a')), Err(ReadError::TooLarge { .. })));
    let lines = "\n".repeat((4 << 20) + 1);
    let refused = read_stream("lines", lines.as_bytes()).unwrap_err();
    assert_eq!(refused.to_string(), "lines: more than 4 million lines; cut out the part that matters");
}

#[test]
fn what_powershell_redirects_is_read() {
    let bytes: Vec<u8> =
        format!("\u{feff}{}", topo(4, "PIX").replace('\n', "\r\n")).encode_utf16().flat_map(u16::to_le_bytes).collect();
    let all = assemble(read_stream("topo.txt", bytes.as_slice()).unwrap());
    assert_eq!(all[0].fabric.devices().len(), 4);
}

#[test]
#[cfg(unix)]
fn a_pipe_in_a_folder_is_reported_and_loops_and_dead_links_are_passed_over() {
    use std::os::unix::fs::symlink;
    let folder = Scratch::new("folder");
    fs::write(folder.0.join("topo.txt"), topo(4, "PIX")).unwrap();
    symlink("nowhere", folder.0.join("dead")).unwrap();
    symlink(".", folder.0.join("loop")).unwrap();
    let piped = folder.pipe("pipe");
    let path = folder.0.clone();
    let found = in_time(move || read_path(&path).unwrap());
    assert_eq!((found.evidence.len(), found.unread.len()), (1, usize::from(piped)));
    assert!(found.unread.iter().all(|why| why.contains("pipe: is a FIFO, not a file")));
}

#[test]
#[cfg(unix)]
fn a_pipe_in_a_copied_sysfs_does_not_block() {
    let folder = Scratch::new("sysfs");
    let device = folder.0.join("bus/pci/devices/0000:01:00.0");
    fs::create_dir_all(&device).unwrap();
    fs::write(device.join("vendor"), "0x10de\n").unwrap();
    if !folder.pipe("bus/pci/devices/0000:01:00.0/class") {
        return;
    }
    let path = folder.0.clone();
    in_time(move || read_path(&path).unwrap());
}

#[test]
#[cfg(unix)]
fn a_subfolder_that_may_not_be_read_is_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Scratch::new("locked");
    fs::write(folder.0.join("topo.txt"), topo(4, "PIX")).unwrap();
    let locked = folder.0.join("private");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let privileged = fs::read_dir(&locked).is_ok();
    let found = read_path(&folder.0).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(found.evidence.len(), 1);
    // root may read everything
    assert_eq!(found.warnings.len(), usize::from(!privileged));
}

#[test]
fn a_folder_of_too_many_files_is_refused() {
    let folder = Scratch::new("many");
    for i in 0..=peerlane::evidence::MAX_FILES {
        fs::write(folder.0.join(i.to_string()), "").unwrap();
    }
    assert!(matches!(read_path(&folder.0), Err(ReadError::TooManyFiles { .. })));
}
