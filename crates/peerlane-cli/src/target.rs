//! From TARGET to machines: a catalogue name, a system file, what a machine printed, a recorded run, or this machine.

pub(crate) mod clusters;
mod example;
pub(crate) mod nodes;
mod redacted;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use peerlane::assemble::assemble;
use peerlane::case::Case;
use peerlane::catalogue::{self, Parts};
use peerlane::evidence::{self, Found};
use peerlane::infer::{Inference, looks_like_inference};
use peerlane::machine::Machine;
use peerlane::model::Model;
use peerlane::names::closest;
use peerlane::nodes::looks_like_nodes_run;
use peerlane::one_line::shown;
use peerlane::origin::{Coverage, Warning};
use peerlane::run::{MAX_RUN_BYTES, Partial, looks_like_run};
use peerlane::units::Bytes;
use peerlane::what_if::{Edit, apply};

use crate::console::PREFIX;
use crate::progress::Bar;
use crate::render::{line_width, text::wrap};
use crate::{Failure, live};

/// Limit of system files, which are written by hand and far smaller.
const MAX_SYSTEM_BYTES: u64 = 4 << 20;

/// How much of a source is read to see whether it may be JSON.
const HEAD_BYTES: u64 = 64;

/// How many warnings are shown of a target in which nothing was recognised.
const FEW: usize = 3;

const READS: &str = "peerlane reads nvidia-smi (its table, -L, topo -m, topo -p2p, nvlink, -q), dcgmi nvlink, amd-smi, \
     rocm-smi, p2pBandwidthLatencyTest, bandwidthTest, simpleP2P, deviceQuery, p2pmark, nvbandwidth, \
     rocm-bandwidth-test, TransferBench, nccl-tests, OSU micro-benchmarks, perftest, ibstat, ibstatus, ibv_devinfo, \
     NCCL XML and logs, lstopo, lspci (-vvv, -tv), lscpu, numactl -H, lsmod, sensors, dmesg, system files (.toml), and \
     runs that it has recorded (.json)";

/// The same wrapped for stderr.
fn reads() -> String {
    wrap(READS, line_width() - PREFIX.len()).join("\n")
}

/// The machines that targets describe.
pub(crate) struct Loaded {
    /// Each machine with everything given about it; at least one.
    pub(crate) cases: Vec<Case>,
    /// True where a target could not be read; a message has been printed.
    pub(crate) incomplete: bool,
    /// How much of each text was understood.
    pub(crate) coverage: Vec<Coverage>,
}

impl Loaded {
    /// A model of each machine.
    pub(crate) fn models(&self) -> Vec<Model<'_>> {
        self.cases.iter().map(|case| Model::new(&case.machine, Parts::embedded())).collect()
    }

    /// The machines.
    pub(crate) fn machines(&self) -> impl Iterator<Item = &Machine> {
        self.cases.iter().map(|case| &case.machine)
    }

    /// Writes a line for each input that was read as text.
    pub(crate) fn write_coverage(&self, out: &mut dyn Write) -> io::Result<()> {
        for c in &self.coverage {
            let (understood, ignored, doubtful) = (c.understood, c.ignored, c.doubtful);
            writeln!(out, "{}: {understood} lines understood, {ignored} ignored, {doubtful} doubtful", c.source)?;
        }
        Ok(())
    }

    /// The case of a command that takes only one; `what` explains why: `this format holds one machine`.
    pub(crate) fn the_only(&self, what: &str) -> Result<&Case, Failure> {
        match self.cases.as_slice() {
            [one] => Ok(one),
            cases => {
                let names: Vec<&str> = self.machines().map(|m| m.name.as_str()).collect();
                let (n, names) = (cases.len(), names.join(", "));
                Err(Failure::new(format!("{what}, but there are {n}; choose one with --machine: {names}")))
            }
        }
    }
}

/// Reads targets; without any, this machine or the showcase. `only` picks one of several machines.
pub(crate) fn load(targets: &[OsString], only: Option<&str>) -> Result<Loaded, Failure> {
    let read = |path: &OsString| {
        // what messages and origins call it
        let name = path.to_string_lossy().into_owned();
        // who types into standard input is not disturbed
        let _bar = (name != "-").then(|| Bar::waiting(&format!("reading {name}")));
        let source = read(path, &name);
        (name, source)
    };
    join_all(named(targets)?.iter().map(read), only)
}

/// The same, with what identifies machines taken out of all that is read.
pub(crate) fn load_redacted(targets: &[OsString], only: Option<&str>) -> Result<Loaded, Failure> {
    join_all(redacted::read(&named(targets)?), only)
}

/// The targets, or what stands for none.
fn named(targets: &[OsString]) -> Result<Cow<'_, [OsString]>, Failure> {
    if targets.is_empty() {
        return Ok(vec![default_target().into()].into());
    }
    if targets.iter().filter(|t| *t == "-").count() > 1 {
        return Err(Failure::new("'-' is given twice; standard input can only be read once"));
    }
    Ok(targets.into())
}

fn join_all(
    sources: impl IntoIterator<Item = (String, Result<Source, String>)>,
    only: Option<&str>,
) -> Result<Loaded, Failure> {
    let mut cases = Vec::new();
    let mut inferred: Vec<(Inference, String)> = Vec::new();
    let mut captured = Found::default();
    let mut problems = Vec::new();
    let mut doubts: Vec<String> = Vec::new();
    for (target, source) in sources {
        let target = target.as_str();
        match source {
            Ok(Source::Case(case)) => cases.push(*case),
            Ok(Source::Cases(of_nodes)) => cases.extend(of_nodes),
            Ok(Source::Run(partial)) => match of_run(*partial, target) {
                Ok(case) => cases.push(case),
                Err(problem) => problems.push(problem),
            },
            Ok(Source::Inference(found)) => inferred.push((*found, target.to_owned())),
            Ok(Source::Text(found)) if found.evidence.is_empty() => {
                problems.extend(found.warnings.iter().take(FEW).map(ToString::to_string));
                if found.warnings.len() > FEW {
                    problems.push(format!("{target}: {} more warnings", found.warnings.len() - FEW));
                }
                let doubts: Vec<String> = found.coverage.iter().filter_map(nothing_of).collect();
                if doubts.is_empty() {
                    problems.push(format!("{target}: nothing recognised"));
                    problems.push(reads());
                }
                problems.extend(doubts);
            }
            Ok(Source::Text(found)) => {
                // a file of a folder that yields nothing although its format is known
                let (nothing, some): (Vec<_>, Vec<_>) = found.coverage.iter().partition(|c| c.understood == 0);
                problems.extend(nothing.into_iter().filter_map(nothing_of).take(FEW));
                doubts.extend(some.into_iter().filter_map(doubtful));
                captured.append(found);
            }
            Err(problem) => problems.push(problem),
        }
    }
    problems.dedup();
    doubts.truncate(FEW);
    let coverage = captured.coverage.clone();
    if !captured.evidence.is_empty() {
        let assembled = assemble(captured);
        if assembled.is_empty() {
            problems.push("the input describes no GPU, NIC or path".to_owned());
        }
        cases.extend(assembled.into_iter().map(Case::from));
    }
    if let (true, Some((found, file))) = (cases.is_empty(), inferred.first()) {
        problems
            .push(format!("{file} holds the inferred limits of {}; also give that machine as a TARGET", found.machine));
    }
    if cases.is_empty() {
        return Err(Failure::new(problems.join("\n")));
    }
    problems.extend(inferred.into_iter().filter_map(|(found, file)| join(found, &file, &mut cases).err()));
    if !problems.is_empty() || !doubts.is_empty() {
        crate::console::say(&[problems.as_slice(), &doubts].concat().join("\n"));
    }
    if let Some(wanted) = only {
        let at = pick(cases.iter().map(|case| &case.machine), wanted)?;
        cases = vec![cases.swap_remove(at)];
    }
    Ok(Loaded { cases, incomplete: !problems.is_empty(), coverage })
}

/// What is reported of an input whose format is known and of which nothing could be read.
fn nothing_of(coverage: &Coverage) -> Option<String> {
    let Coverage { source, understood: 0, .. } = coverage else { return None };
    let first = coverage.lines.first()?;
    let (format, line, text) = (&first.format, first.line, &first.text);
    Some(format!("{source}: looks like {format}, but nothing in it can be read; first at line {line}: {text}"))
}

/// What is reported of an input of which some lines look like data and were not used.
fn doubtful(coverage: &Coverage) -> Option<String> {
    let first = coverage.lines.first()?;
    let (source, n, format, line, text) = (&coverage.source, coverage.doubtful, &first.format, first.line, &first.text);
    Some(format!("{source}: {n} lines look like data and were not used; first at line {line} ({format}): {text}"))
}

/// The same, with edits applied. Measurements of a machine are not carried over to the changed one.
pub(crate) fn load_changed(targets: &[OsString], only: Option<&str>, edits: &[Edit]) -> Result<Loaded, Failure> {
    change(load(targets, only)?, edits)
}

/// Applies edits. Measurements of a machine are not carried over to the changed one.
pub(crate) fn change(mut loaded: Loaded, edits: &[Edit]) -> Result<Loaded, Failure> {
    known_names(edits, loaded.machines())?;
    for case in &mut loaded.cases {
        if let Some(changed) = changed(&case.machine, edits)? {
            *case = Case::from(changed);
        }
    }
    Ok(loaded)
}

/// The machine that the edits make of this one; `None` where none of them is for it.
pub(crate) fn changed(machine: &Machine, edits: &[Edit]) -> Result<Option<Machine>, Failure> {
    if !edits.iter().any(|e| e.is_for(&machine.name)) {
        return Ok(None);
    }
    apply(machine, edits, Parts::embedded()).map(Some).map_err(|e| Failure::new(format!("{}: {e}", machine.name)))
}

/// Rejects edits for unknown machines.
pub(crate) fn known_names<'m>(edits: &[Edit], machines: impl Iterator<Item = &'m Machine>) -> Result<(), Failure> {
    let names: Vec<&str> = machines.map(|m| m.name.as_str()).collect();
    let stray = edits.iter().find(|e| !names.iter().any(|name| e.is_for(name)));
    stray.map_or(Ok(()), |edit| {
        let wanted = edit.machine.as_deref().unwrap_or_default();
        Err(Failure::new(format!("what if '{edit}': no machine '{wanted}'; available: {}", names.join(", "))))
    })
}

/// A system of the catalogue by name.
pub(crate) fn system(name: &str) -> Result<Machine, Failure> {
    match catalogue::system(name) {
        Some(read) => read.map_err(|e| Failure::new(e.to_string())),
        None => Err(Failure::new(unknown(name, "no such system"))),
    }
}

/// Whether the word names a TARGET.
pub(crate) fn is_target(word: &OsStr) -> bool {
    let built_in = ["live", "-", example::NAME];
    let named = |word: &str| built_in.contains(&word) || catalogue::system_text(word).is_some();
    word.to_str().is_some_and(named) || Path::new(word).exists()
}

/// The content of one target.
enum Source {
    Case(Box<Case>),
    Cases(Vec<Case>),
    Text(Found),
    Run(Box<Partial>),
    Inference(Box<Inference>),
}

fn read(path: &OsStr, target: &str) -> Result<Source, String> {
    if target == "live" {
        return live::read().map(Source::Text);
    }
    if target == "-" {
        return read_stream("-", io::stdin().lock());
    }
    if let Some(system) = catalogue::system(target) {
        return system.map(|m| Source::Case(Box::new(m.into()))).map_err(|e| e.to_string());
    }
    if target == example::NAME {
        return example::read().map(Source::Text);
    }
    let path = Path::new(path);
    match path.try_exists() {
        Ok(true) => {}
        Ok(false) => return Err(unknown(target, "no such system or file")),
        Err(error) => return Err(format!("{target}: {error}")),
    }
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml")) && path.is_file() {
        return read_system(path, target).map(|case| Source::Case(Box::new(case)));
    }
    if is_nodes_run(path) {
        let record = nodes::Record::of(path)?;
        return nodes::nodes_of(&record.run, target);
    }
    // a file that is too large is rejected before it is read
    if path.is_dir() || fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() > MAX_RUN_BYTES as u64) {
        return evidence::read_path(path).map(Source::Text).map_err(|e| e.to_string());
    }
    let file = fs::File::open(path).map_err(|e| format!("{target}: {e}"))?;
    read_stream(target, file)
}

/// The text of a record.
pub(crate) fn record_text(file: &Path) -> Result<String, String> {
    let name = shown(file);
    let refused = |e: io::Error| format!("{name}: {e}");
    if fs::metadata(file).map_err(refused)?.len() > MAX_RUN_BYTES as u64 {
        return Err(format!("{name}: not a recorded run: larger than {} MiB", MAX_RUN_BYTES >> 20));
    }
    fs::read_to_string(file).map_err(refused)
}

/// Whether a file is a record between nodes, whole or growing.
pub(crate) fn is_nodes_run(path: &Path) -> bool {
    let mut head = Vec::new();
    let mut read = || fs::File::open(path)?.take(1024).read_to_end(&mut head);
    path.is_file() && read().is_ok() && looks_like_nodes_run(&String::from_utf8_lossy(&head))
}

/// A recorded run or an inference, otherwise text for the scanners.
fn read_stream(name: &str, mut stream: impl Read) -> Result<Source, String> {
    let refused = |e: io::Error| format!("{name}: {e}");
    let mut bytes = Vec::new();
    stream.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.is_empty() {
        let what = if name == "-" { "standard input" } else { name };
        return Err(format!("{what} is empty"));
    }
    if !evidence::decode(&bytes).trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with('{') {
        let found = evidence::read_stream(name, bytes.as_slice().chain(stream));
        return found.map(Source::Text).map_err(|e| e.to_string());
    }
    stream.take(MAX_RUN_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(refused)?;
    read_document(name, &bytes)
}

/// The same of all of it.
fn read_document(name: &str, bytes: &[u8]) -> Result<Source, String> {
    let text = evidence::decode(bytes);
    if looks_like_run(&text) {
        return Partial::read(&text).map(|p| Source::Run(Box::new(p))).map_err(|e| format!("{name}: {e}"));
    }
    if looks_like_inference(&text) {
        return Inference::from_json(&text).map(|i| Source::Inference(Box::new(i))).map_err(|e| format!("{name}: {e}"));
    }
    evidence::read_stream(name, bytes).map(Source::Text).map_err(|e| e.to_string())
}

/// The machine of a run, with a warning if part of the record is unreadable.
fn of_run(partial: Partial, name: &str) -> Result<Case, String> {
    let Partial { run, unreadable } = partial;
    let mut case = Case::of_run(run, name).map_err(|e| format!("{name}: {e}"))?;
    if unreadable > 0 {
        let lines = if unreadable == 1 { "1 line" } else { &format!("{unreadable} lines") };
        let message = format!("{name}: ignored {lines}, truncated or unreadable");
        case.machine.warnings.push(Warning::general(message));
    }
    Ok(case)
}

/// Adds an inference to its machine: the only one, or the one of that name.
fn join(found: Inference, file: &str, cases: &mut [Case]) -> Result<(), String> {
    let at = match &*cases {
        [_] => Some(0),
        many => many.iter().position(|case| case.machine.name == found.machine),
    };
    match at.and_then(|at| cases.get_mut(at)) {
        Some(case) => case.join(found, file).map_err(|e| format!("{file}: {e}")),
        None => Err(format!("{file} is about {}, and no machine here has that name", found.machine)),
    }
}

fn read_system(path: &Path, name: &str) -> Result<Case, String> {
    let text = system_file(path, name)?;
    catalogue::read_design(&text, name).map(Case::from).map_err(|e| e.to_string())
}

/// The text of a system file.
pub(crate) fn system_file(path: &Path, name: &str) -> Result<String, String> {
    let refused = |e: io::Error| format!("{name}: {e}");
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(refused)?.take(MAX_SYSTEM_BYTES + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > MAX_SYSTEM_BYTES {
        return Err(format!("{name}: not a system file: larger than {} MiB", MAX_SYSTEM_BYTES >> 20));
    }
    let text = evidence::decode(&bytes);
    if text.contains(['\0', char::REPLACEMENT_CHARACTER]) {
        return Err(format!("{name}: not a system file: not UTF-8 text"));
    }
    Ok(text.into_owned())
}

/// `live` if there is an NVIDIA GPU, otherwise the example, with a message.
fn default_target() -> String {
    if live::has_nvidia_gpu() {
        return "live".to_owned();
    }
    crate::console::note(&format!(
        "No NVIDIA GPU found and no TARGET given: showing the example {} (eight H200, one with NVLinks down).\n\
         Try 'peerlane check FILE' with output of your machine, or through a pipe: nvidia-smi topo -m | peerlane check -",
        example::NAME
    ));
    example::NAME.to_owned()
}

/// The index of the machine with a name, or with a number from 1.
fn pick<'m>(machines: impl Iterator<Item = &'m Machine>, wanted: &str) -> Result<usize, Failure> {
    let names: Vec<&str> = machines.map(|machine| machine.name.as_str()).collect();
    let by_name = names.iter().position(|name| *name == wanted);
    let by_number = wanted.parse::<usize>().ok().and_then(|n| n.checked_sub(1)).filter(|n| *n < names.len());
    by_name.or(by_number).ok_or_else(|| Failure::new(format!("no machine '{wanted}'; available: {}", names.join(", "))))
}

/// Whether `--machine` names this machine, which was measured and is the only one.
pub(crate) fn is_named(machine: &Machine, wanted: Option<&str>) -> Result<(), Failure> {
    wanted.map_or(Ok(()), |wanted| pick(std::iter::once(machine), wanted).map(|_| ()))
}

/// The message for an unknown name, with similar names.
pub(crate) fn unknown(name: &str, what: &str) -> String {
    if let Some(Ok(cluster)) = peerlane::cluster::embedded(name) {
        return format!("{name} is a cluster: use 'simulate' or 'sweep', or its node {}", cluster.node.name);
    }
    if name.contains(['/', '\\']) || Path::new(name).extension().is_some() {
        return format!("no such file: '{name}'");
    }
    if name.split(',').all(|word| word.parse::<Bytes>().is_ok()) {
        return format!("no such system or file: '{name}'; if it is meant as sizes, write --sizes={name}");
    }
    let near = closest(name, catalogue::system_names());
    match near.split_last() {
        None => format!("{what}: '{name}' ('peerlane systems' lists the catalogue)"),
        Some((last, [])) => format!("{what}: '{name}'; did you mean {last}?"),
        Some((last, rest)) => format!("{what}: '{name}'; did you mean {} or {last}?", rest.join(", ")),
    }
}
