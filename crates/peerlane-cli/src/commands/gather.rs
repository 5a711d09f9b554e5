//! `peerlane gather`: saves what this machine reports about itself, for analysis elsewhere.
//!
//! The result is a TARGET. `root/` has the files of sysfs and `/proc` that the target `live` reads; the output of
//! programs is next to it. `manifest.json` lists the contents, and what is missing.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::JsonSchema;
use peerlane::evidence::{self, Files, Item};
use peerlane::input_file;
use peerlane::one_line::shown;
use peerlane_gpu::search;
use serde::Serialize;

use crate::args::GatherArgs;
use crate::formats::json;
use crate::host::HostName;
use crate::output_file::shared::Slot;
use crate::program::ask;
use crate::redact::{PARAMETERS, Redactor};
use crate::render::line_width;
use crate::render::text::{count, wrap};
use crate::{Failure, Outcome, live, output_file};

/// Names the format of the manifest.
const SCHEMA: &str = "peerlane/gather/1";

/// Limit of all that is saved, in bytes.
const MOST: usize = 64 << 20;

/// Limit of one file of `/etc` or `/proc`, in bytes.
const MOST_OF_A_FILE: u64 = 1 << 20;

/// The queries of `nvidia-smi`.
const SMI: [&[&str]; 9] = [
    &["-q"],
    &["topo", "-m"],
    &["topo", "-p2p", "r"],
    &["topo", "-p2p", "w"],
    &["topo", "-p2p", "n"],
    &["topo", "-p2p", "a"],
    &["topo", "-p2p", "p"],
    &["nvlink", "-s"],
    &["nvlink", "-R"],
];

/// The options of `lspci`.
const LSPCI: [&str; 3] = ["-D", "-nn", "-vvv"];

/// The file with the host's name.
const HOST_FILE: &str = "proc/sys/kernel/hostname";

/// Files about the system for human readers.
const TEXTS: [&str; 4] =
    ["etc/os-release", "proc/sys/kernel/osrelease", "proc/driver/nvidia/version", "proc/driver/nvidia/params"];

/// The list of what was saved.
#[derive(Debug, Serialize, JsonSchema)]
struct Manifest {
    /// Names this format.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// Version of peerlane that saved it.
    peerlane: &'static str,
    /// When, in seconds since 1970 (UTC).
    taken: u64,
    /// Whether serial numbers and the like were replaced.
    redacted: bool,
    /// Number of files and links, without the manifest.
    items: usize,
    /// Their size in bytes.
    bytes: usize,
    /// Output of programs and single files; the sysfs tree below `root/` is not listed.
    saved: Vec<Saved>,
    /// What could not be read.
    missing: Vec<Missing>,
}

/// One file of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Saved {
    /// Its path.
    path: String,
    /// Its origin: a command, or a file of the machine.
    of: String,
    /// Its size in bytes.
    bytes: usize,
}

/// Something that was not saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Missing {
    /// What.
    what: String,
    /// Why.
    why: String,
}

pub(crate) fn run(args: &GatherArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let taken = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (target, host) = Target::of(args, taken)?;
    let mut gathered = Gathered::default();
    gathered.machine(Path::new("/"));
    gathered.programs(&this_machine());
    gathered.given.clone_from(&args.collect.host);
    let (files, manifest) = gathered.finish(taken, args.redact.given, host.as_deref());
    let written = target.write(&files, taken)?;
    if args.json {
        json(out, &manifest)?;
    } else {
        show(out, &written, &manifest)?;
    }
    Ok(Outcome::default())
}

fn show(out: &mut dyn Write, output: &Path, manifest: &Manifest) -> io::Result<()> {
    let size = manifest.bytes.div_ceil(1024);
    writeln!(out, "{}: {}, {size} KiB unpacked", shown(output), count(manifest.items, "file"))?;
    for missing in &manifest.missing {
        for line in wrap(&format!("missing {}: {}", missing.what, missing.why), line_width() - 2) {
            writeln!(out, "  {line}")?;
        }
    }
    if !manifest.redacted {
        writeln!(out, "  contains serial numbers, UUIDs and the host name; --redact replaces them")?;
    }
    Ok(())
}

/// The output.
enum Target<'a> {
    Folder(&'a Path),
    Archive(&'a Path),
    /// An archive in a directory that hosts share.
    Shared(Slot),
}

impl<'a> Target<'a> {
    /// The output, and the host's name if it was given or replaced. Rejects what cannot be written, before any query.
    fn of(args: &'a GatherArgs, taken: u64) -> Result<(Self, Option<String>), Failure> {
        match (&args.output, &args.collect.to) {
            (Some(path), _) => Target::named(path).map(|target| (target, None)),
            (None, Some(directory)) => {
                let host = HostName::of(args.collect.host.as_deref(), args.redact.given)?;
                Ok((Target::Shared(Slot::new(directory, &host.folder, taken, "tar.zst")?), Some(host.name)))
            }
            (None, None) => Err(Failure::new("give -o FOLDER|FILE.tar.zst or --to DIR")),
        }
    }

    fn named(path: &'a Path) -> Result<Self, Failure> {
        let refused = |why: &str| Err(Failure::new(format!("{}: {why}", shown(path))));
        let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
        if name.ends_with(".tar.zst") {
            return output_file::check(path).map(|()| Target::Archive(path));
        }
        if [".tar", ".gz", ".tgz", ".zst", ".xz", ".zip"].iter().any(|e| name.ends_with(e)) {
            return refused("the name of an archive must end in .tar.zst");
        }
        output_file::check_folder(path).map(|()| Target::Folder(path))
    }

    /// Writes the files, and returns where.
    fn write(&self, files: &Files, taken: u64) -> Result<PathBuf, Failure> {
        let packed = |path: &Path| {
            evidence::pack(files, taken).map_err(|e| Failure::new(format!("cannot pack {}: {e}", shown(path))))
        };
        match self {
            Target::Archive(path) => output_file::write(path, packed(path)?).map(|()| path.to_path_buf()),
            Target::Folder(folder) => output_file::write_folder(folder, files).map(|()| folder.to_path_buf()),
            Target::Shared(slot) => {
                let path = slot.path();
                slot.publish(&packed(&path)?).map_err(|e| Failure::new(format!("cannot write {}: {e}", shown(&path))))
            }
        }
    }
}

/// A program's output: the path to save it to, the command, and the text or the error.
struct Output {
    path: String,
    command: String,
    said: Result<String, String>,
}

/// The output of all programs, run concurrently.
fn this_machine() -> Vec<Output> {
    type Ask = Box<dyn FnOnce() -> Result<String, String> + Send>;
    let mut questions: Vec<(String, String, Ask)> =
        vec![("nvml.json".to_owned(), "NVML".to_owned(), Box::new(|| live::nvml().map_err(|e| e.why)))];
    for question in SMI {
        let words: Vec<&str> = question.iter().map(|word| word.trim_start_matches('-')).collect();
        let ask: Ask = Box::new(move || live::smi(question).map_err(|e| e.to_string()));
        questions.push((
            format!("nvidia-smi-{}.txt", words.join("-")),
            format!("nvidia-smi {}", question.join(" ")),
            ask,
        ));
    }
    questions.push(("lspci-vvv.txt".to_owned(), format!("lspci {}", LSPCI.join(" ")), Box::new(lspci)));
    let asked: Vec<_> =
        questions.into_iter().map(|(path, command, ask)| (path, command, thread::Builder::new().spawn(ask))).collect();
    let answer = |(path, command, thread): (String, String, io::Result<thread::JoinHandle<_>>)| {
        let said = match thread.map(thread::JoinHandle::join) {
            Ok(Ok(said)) => said,
            Ok(Err(_)) => Err("the query failed".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        Output { path, command, said }
    };
    asked.into_iter().map(answer).collect()
}

fn lspci() -> Result<String, String> {
    let mut command = search::command("lspci").map_err(|e| e.to_string())?;
    let said = ask(command.args(LSPCI), live::PATIENCE, live::MOST_OUTPUT).map_err(|e| e.to_string())?;
    if !said.status.success() {
        return Err(said.trouble);
    }
    Ok(String::from_utf8_lossy(&said.output).into_owned())
}

/// What has been gathered so far.
#[derive(Default)]
struct Gathered {
    files: Files,
    size: usize,
    saved: Vec<Saved>,
    missing: Vec<Missing>,
    host: Option<String>,
    /// The host's name on the command line.
    given: Option<String>,
}

impl Gathered {
    fn miss(&mut self, what: &str, why: &str) {
        self.missing.push(Missing { what: what.to_owned(), why: why.to_owned() });
    }

    /// Adds a file, if there is room.
    fn add(&mut self, path: &str, item: Item) -> bool {
        let size = match &item {
            Item::File(bytes) => bytes.len(),
            Item::Link(target) => target.len(),
        };
        let fits = self.size + size <= MOST;
        if fits {
            self.size += size;
            self.files.insert(path, item);
        } else {
            self.miss(path, &format!("exceeds the limit of {} MiB in all", MOST >> 20));
        }
        fits
    }

    fn add_text(&mut self, path: &str, of: &str, text: String) {
        let bytes = text.len();
        if self.add(path, Item::File(text.into_bytes())) {
            self.saved.push(Saved { path: path.to_owned(), of: of.to_owned(), bytes });
        }
    }

    /// Adds what sysfs and `/proc` below `root` show.
    fn machine(&mut self, root: &Path) {
        let recorded = evidence::record(root).unwrap_or_default();
        let listed = |start: &str| recorded.iter().any(|(path, _)| path.starts_with(start));
        if !listed("sys/bus/pci/devices/") {
            self.miss("PCI devices", "/sys/bus/pci/devices is empty, as in a container that masks it");
        }
        for (what, file) in
            [("CPUs", "proc/cpuinfo"), ("kernel modules", "proc/modules"), ("NUMA nodes", "sys/devices/system/node/")]
        {
            if !listed(file) {
                self.miss(what, &format!("/{file} cannot be read"));
            }
        }
        // only root may read beyond the 64-byte header
        let spaces: Vec<usize> = recorded
            .iter()
            .filter_map(|(path, item)| match item {
                Item::File(bytes) if path.ends_with("/config") => Some(bytes.len()),
                _ => None,
            })
            .collect();
        if !spaces.is_empty() && spaces.iter().all(|length| *length <= 64) {
            self.miss(
                "ACS, payload and read-request sizes",
                "only root may read PCI configuration space beyond 64 bytes",
            );
        }
        for (path, item) in recorded.iter() {
            if path == HOST_FILE
                && let Item::File(bytes) = item
            {
                self.host = Some(String::from_utf8_lossy(bytes).trim().to_owned());
            }
            if !self.add(&format!("root/{path}"), item.clone()) {
                break;
            }
        }
        for file in TEXTS {
            match head(&root.join(file)) {
                Ok(text) => self.add_text(&format!("root/{file}"), &format!("/{file}"), text),
                Err(error) => self.miss(&format!("/{file}"), &error.to_string()),
            }
        }
        match head(&root.join("proc/cmdline")) {
            Ok(line) => {
                let matter = |word: &&str| PARAMETERS.iter().any(|p| word.starts_with(p));
                let words: Vec<&str> = line.split_whitespace().filter(matter).collect();
                self.add_text(
                    "root/proc/cmdline",
                    "/proc/cmdline, only parameters about IOMMU, PCI, NVIDIA and memory",
                    words.join(" ") + "\n",
                );
            }
            Err(error) => self.miss("/proc/cmdline", &error.to_string()),
        }
    }

    /// Adds the output of programs. Those missing for the same reason share a line.
    fn programs(&mut self, answers: &[Output]) {
        let mut silent: Vec<(String, Vec<&str>)> = Vec::new();
        for answer in answers {
            match &answer.said {
                Ok(text) => self.add_text(&answer.path, &answer.command, text.clone()),
                Err(why) => match silent.iter_mut().find(|(known, _)| known == why) {
                    Some((_, commands)) => commands.push(&answer.command),
                    None => silent.push((why.clone(), vec![&answer.command])),
                },
            }
        }
        for (why, commands) in silent {
            self.miss(&commands.join(", "), &why);
        }
    }

    /// All files with their manifest. The host's name replaces what was read.
    fn finish(mut self, taken: u64, redacted: bool, host: Option<&str>) -> (Files, Manifest) {
        let mut files = std::mem::take(&mut self.files);
        if redacted {
            let mut redactor = Redactor::default();
            for name in [&self.host, &self.given].into_iter().flatten() {
                redactor.learn_host(name);
            }
            redactor.learn_files(&files);
            files = redactor.files(&files);
            for missing in &mut self.missing {
                missing.why = redactor.line(&missing.why);
            }
        }
        if let Some(host) = host {
            files.insert(&format!("root/{HOST_FILE}"), Item::File(format!("{host}\n").into_bytes()));
        }
        let manifest = Manifest {
            schema: SCHEMA,
            peerlane: env!("CARGO_PKG_VERSION"),
            taken,
            redacted,
            items: files.len(),
            bytes: files.size(),
            saved: self.saved,
            missing: self.missing,
        };
        // text and numbers can always be serialised
        let text = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
        files.insert("manifest.json", Item::File(text));
        (files, manifest)
    }
}

/// The beginning of a file as text.
fn head(path: &Path) -> io::Result<String> {
    let bytes = input_file::head(path, MOST_OF_A_FILE).map_err(|refused| refused.cause)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
