//! From TARGETs to machines: names of the catalogue, system files, what machines printed, records, and this machine.

mod answers;
mod described;
mod example;
mod held;
mod kind;
mod opened;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use peerlane_design::builder;
use peerlane_design::case::Case;
use peerlane_design::cluster::Cluster;
use peerlane_design::infer::Inference;
use peerlane_design::measured_cluster;
use peerlane_machine::origin::{Coverage, Warning};
use peerlane_measure::nodes::NodesRun;
use peerlane_measure::run::{MAX_RUN_BYTES, Partial, looks_like_run};
use peerlane_read::assemble::assemble;
use peerlane_read::catalogue;
use peerlane_read::evidence::{self, Found, ReadError};
use peerlane_read::input_file::{self, Kind, Refused, What};

pub use answers::{compare, designs, explain, predict, predict_usual};
pub use described::{cluster, cluster_file, design, nodes_run, unknown};
pub use example::NAME as EXAMPLE;
pub use kind::TargetKind;
pub use opened::{changed, changed_cluster, known_names, pick};

/// How much of a source is read to see whether it may be JSON.
const HEAD_BYTES: u64 = 64;

/// How many records of a folder are opened; more are a fleet.
const MOST_RECORDS: usize = 64;

/// How many warnings are passed on of a target in which nothing was recognised.
const FEW: usize = 3;

/// What is read; a notice of its own where nothing in a text was recognised.
pub const READS: &str = "peerlane reads nvidia-smi (its table, -L, topo -m, topo -p2p, nvlink, -q, dmon), gpustat, dcgmi (nvlink, \
     diag, health, discovery), amd-smi, rocm-smi, rocminfo, npu-smi, cnmon, hl-smi, xpu-smi and tables like theirs, p2pBandwidthLatencyTest, \
     bandwidthTest, simpleP2P, deviceQuery, p2pmark, nvbandwidth, gdrcopy, gpu-burn, rocm-bandwidth-test, TransferBench, nccl-tests, OSU \
     micro-benchmarks, perftest, ibstat, ibstatus, ibv_devinfo, rdma link, rdma statistic, perfquery, iblinkinfo, ibdiagnet, mlxlink, \
     ethtool, ip -s link, ucx_info, fi_info, nvidia-imex-ctl, NCCL XML, logs and RAS, logs of servers, trainers and applications, gdsio, gdscheck, lstopo, lspci, \
     lshw, lscpu, numactl -H, lsmod, sensors, inxi, dmesg, logs of X and of installers, system files (.toml), and runs that it has \
     recorded (.json)";

/// Why targets were not opened, or a question about them has no answer: what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError(Vec<String>);

impl OpenError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        OpenError(vec![why.into()])
    }

    /// Its sentences.
    pub fn notices(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for OpenError {}

impl From<String> for OpenError {
    fn from(why: String) -> Self {
        OpenError(vec![why])
    }
}

impl From<Refused> for OpenError {
    fn from(refused: Refused) -> Self {
        OpenError::new(refused.to_string())
    }
}

impl From<ReadError> for OpenError {
    fn from(error: ReadError) -> Self {
        OpenError::new(error.to_string())
    }
}

/// What one TARGET holds.
pub enum Source {
    /// A machine with all that is given about it.
    Case(Box<Case>),
    /// A cluster.
    Cluster(Box<Cluster>),
    /// A record between nodes, and how many of its lines cannot be read.
    Nodes(Box<NodesRun>, usize),
    /// What tools printed.
    Text(Box<Found>),
    /// The record of a run.
    Run(Box<Partial>),
    /// What `infer` found, which belongs to a machine.
    Inference(Box<Inference>),
}

/// What targets describe. Its methods answer as the commands of the same names do, with the documents that they write for
/// `--json`.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    /// Each machine with everything given about it.
    pub cases: Vec<Case>,
    /// Each cluster.
    pub clusters: Vec<Cluster>,
    /// Whether a target could not be read; a notice has the reason.
    pub incomplete: bool,
    /// How much of each text was understood.
    pub coverage: Vec<Coverage>,
    /// What a person should know of the targets, in sentences.
    pub notices: Vec<String>,
}

/// Opens targets: names of the catalogue, files, folders and records, several of which may be about one machine.
///
/// # Errors
/// Where none describes a machine or a cluster. What else cannot be read is a notice of the result.
pub fn open<T: AsRef<OsStr>>(targets: impl IntoIterator<Item = T>) -> Result<Opened, OpenError> {
    Opener::new(&|| Err("this program cannot look at the machine that it runs on".to_owned())).clusters().open(targets)
}

/// Opens targets for a program that can look at its own machine.
pub struct Opener<'a> {
    live: &'a dyn Fn() -> Result<Found, String>,
    clusters: bool,
}

impl<'a> Opener<'a> {
    /// Opens machines; `live` returns what this one reports about itself.
    pub fn new(live: &'a dyn Fn() -> Result<Found, String>) -> Self {
        Opener { live, clusters: false }
    }

    /// The same, and clusters as clusters: else they are refused, and a record between nodes is the machines of its nodes.
    #[must_use]
    pub fn clusters(self) -> Self {
        Opener { clusters: true, ..self }
    }

    /// See [`open`].
    ///
    /// # Errors
    /// See [`open`].
    pub fn open<T: AsRef<OsStr>>(&self, targets: impl IntoIterator<Item = T>) -> Result<Opened, OpenError> {
        let targets: Vec<OsString> = targets.into_iter().map(|target| target.as_ref().to_owned()).collect();
        if targets.iter().filter(|t| *t == "-").count() > 1 {
            return Err(OpenError::new("'-' is given twice; standard input can only be read once"));
        }
        self.join(targets.into_iter().flat_map(|target| self.read_all(target)))
    }

    /// What a target holds, and where that is a folder the records in it, each by its own name.
    fn read_all(&self, target: OsString) -> Vec<(String, Result<Source, OpenError>)> {
        let name = target.to_string_lossy().into_owned();
        let (records, all) = folder_records(&target);
        let read = |path: &PathBuf| (path.to_string_lossy().into_owned(), self.read(path.as_os_str()));
        let mut sources: Vec<_> = records.iter().map(read).collect();
        if all > records.len() {
            sources.push((name.clone(), Err(too_many_records(&name, all))));
        }
        let whole = self.read(&target);
        let is_empty = whole.as_ref().is_ok_and(Source::is_empty);
        if sources.is_empty() || !is_empty {
            sources.insert(0, (name, whole));
        }
        sources
    }

    /// What a target holds.
    ///
    /// # Errors
    /// Where it is none, or cannot be read.
    pub fn read(&self, target: &OsStr) -> Result<Source, OpenError> {
        let (name, path) = (&*target.to_string_lossy(), Path::new(target));
        let kind = TargetKind::of(target).map_err(|refused| match refused.is_absent() {
            true => OpenError::new(unknown(name, "no such system or file")),
            false => refused.into(),
        })?;
        match kind {
            TargetKind::Live => (self.live)().map(|found| Source::Text(Box::new(found))).map_err(OpenError::new),
            TargetKind::Stdin => read_stream("-", io::stdin().lock()),
            TargetKind::Example => Ok(Source::Text(Box::new(example::read()?))),
            TargetKind::System => match catalogue::system(name) {
                Some(read) => read.map(case).map_err(|e| OpenError::new(e.to_string())),
                None => Err(OpenError::new(unknown(name, "no such system"))),
            },
            TargetKind::PartsList => match builder::machine(name) {
                Some(read) => read.map(case).map_err(OpenError::new),
                None => Err(OpenError::new(unknown(name, "no such system"))),
            },
            TargetKind::Cluster if !self.clusters => Err(OpenError::new(unknown(name, "no such system"))),
            TargetKind::Cluster | TargetKind::ClusterFile if self.clusters => match cluster(target) {
                Some(cluster) => cluster.map(|cluster| Source::Cluster(Box::new(cluster))),
                None => Err(OpenError::new(unknown(name, "no such cluster"))),
            },
            TargetKind::SystemFile | TargetKind::Cluster | TargetKind::ClusterFile => {
                Source::of_design(name, &design(path)?)
            }
            TargetKind::NodesRun => nodes_run(path).map(|(run, unreadable)| Source::Nodes(Box::new(run), unreadable)),
            TargetKind::Traffic => Err(OpenError::new(format!(
                "{name} is a recording of traffic, which says nothing of what a path reaches; to see it: peerlane top {name}"
            ))),
            TargetKind::Folder => Ok(Source::Text(Box::new(evidence::read_path(path)?))),
            TargetKind::Run | TargetKind::Inference | TargetKind::Text | TargetKind::Pipe => {
                let file = input_file::open(path, Kind::Source)?;
                // it is refused before it is read
                if file.size() > MAX_RUN_BYTES as u64 {
                    file.all()?;
                    return Ok(Source::Text(Box::default()));
                }
                read_stream(name, file)
            }
        }
    }

    /// The machines of sources, each with the name that messages and origins call it.
    ///
    /// # Errors
    /// Where there is none.
    pub fn join(
        &self,
        sources: impl IntoIterator<Item = (String, Result<Source, OpenError>)>,
    ) -> Result<Opened, OpenError> {
        let mut joined = Joined::default();
        for (target, source) in sources {
            if let Err(error) = source.and_then(|source| joined.add(&target, source, self.clusters)) {
                joined.problems.extend(error.0);
            }
        }
        joined.finish()
    }
}

/// The records that are opened of a target that is a folder, and how many there are.
pub fn folder_records(target: &OsStr) -> (Vec<PathBuf>, usize) {
    // a file is looked into once, by `read`
    let is_folder = input_file::what(Path::new(target)).is_ok_and(|what| what == What::Folder);
    let mut records = match is_folder && TargetKind::Folder.is(target) {
        true => records_in(Path::new(target)),
        false => Vec::new(),
    };
    let all = records.len();
    records.truncate(MOST_RECORDS);
    (records, all)
}

/// Why not all records of a folder are opened.
pub fn too_many_records(name: &str, all: usize) -> OpenError {
    OpenError::new(format!(
        "{name}: the first {MOST_RECORDS} of {all} records; `peerlane fleet {name}` compares them all"
    ))
}

/// The records of runs in a folder, and what `infer` found.
fn records_in(folder: &Path) -> Vec<PathBuf> {
    let is_record = |path: &PathBuf| {
        TargetKind::of(path.as_os_str())
            .is_ok_and(|kind| matches!(kind, TargetKind::Run | TargetKind::NodesRun | TargetKind::Inference))
    };
    evidence::json_files(folder).unwrap_or_default().into_iter().filter(is_record).collect()
}

/// A recorded run or an inference, otherwise text for the scanners.
fn read_stream(name: &str, mut stream: impl Read) -> Result<Source, OpenError> {
    let refused = |e: io::Error| OpenError::new(format!("{name}: {e}"));
    let mut bytes = Vec::new();
    stream.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.is_empty() {
        let what = if name == "-" { "standard input" } else { name };
        return Err(OpenError::new(format!("{what} is empty")));
    }
    if !evidence::decode(&bytes).trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with('{') {
        return Ok(Source::Text(Box::new(evidence::read_stream(name, bytes.as_slice().chain(stream))?)));
    }
    stream.take(MAX_RUN_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(refused)?;
    Source::of_document(name, &bytes)
}

impl Source {
    /// Whether it is text in which nothing was found.
    pub fn is_empty(&self) -> bool {
        matches!(self, Source::Text(found) if found.evidence.is_empty() && found.unread.is_empty())
    }

    /// The machine that a system file describes.
    ///
    /// # Errors
    /// With all that is wrong in it.
    pub fn of_design(name: &str, text: &str) -> Result<Self, OpenError> {
        catalogue::read_design(text, name).map(case).map_err(|e| OpenError::new(e.to_string()))
    }

    /// A recorded run or an inference, otherwise text for the scanners.
    ///
    /// # Errors
    /// Where it cannot be read as what it looks like.
    pub fn of_document(name: &str, bytes: &[u8]) -> Result<Self, OpenError> {
        let text = evidence::decode(bytes);
        let refused = |why: String| OpenError::new(format!("{name}: {why}"));
        if looks_like_run(&text) {
            return Partial::read(&text).map(|p| Source::Run(Box::new(p))).map_err(|e| refused(e.to_string()));
        }
        if peerlane_design::infer::looks_like_inference(&text) {
            return Inference::from_json(&text)
                .map(|i| Source::Inference(Box::new(i)))
                .map_err(|e| refused(e.to_string()));
        }
        Ok(Source::Text(Box::new(evidence::read_stream(name, bytes)?)))
    }
}

fn case(machine: impl Into<Case>) -> Source {
    Source::Case(Box::new(machine.into()))
}

/// What sources describe, while they are read.
#[derive(Default)]
struct Joined {
    opened: Opened,
    inferred: Vec<(Inference, String)>,
    captured: Found,
    problems: Vec<String>,
    doubts: Vec<String>,
    /// Whether in some target nothing was recognised.
    nothing: bool,
}

impl Joined {
    fn add(&mut self, target: &str, source: Source, clusters: bool) -> Result<(), OpenError> {
        match source {
            Source::Case(case) => self.opened.cases.push(*case),
            Source::Cluster(cluster) => self.opened.clusters.push(*cluster),
            Source::Nodes(run, unreadable) => return self.add_nodes(target, &run, unreadable, clusters),
            Source::Run(partial) => self.opened.cases.push(of_run(*partial, target)?),
            Source::Inference(found) => self.inferred.push((*found, target.to_owned())),
            Source::Text(found) if found.evidence.is_empty() => self.add_nothing(target, &found),
            Source::Text(found) => {
                self.add_few(target, found.unread.iter().cloned(), "files could not be read");
                self.add_few(target, found.traces.iter().cloned(), "files hold recorded steps");
                // a file of a folder that yields nothing although its format is known
                let (nothing, some): (Vec<_>, Vec<_>) = found.coverage.iter().partition(|c| c.understood == 0);
                self.problems.extend(nothing.into_iter().filter_map(nothing_of).take(FEW));
                self.doubts.extend(some.into_iter().filter_map(doubtful));
                self.captured.append(*found);
            }
        }
        Ok(())
    }

    /// The machines of a record's nodes, and their cluster.
    fn add_nodes(&mut self, name: &str, run: &NodesRun, unreadable: usize, clusters: bool) -> Result<(), OpenError> {
        let refused = |why: String| OpenError::new(format!("{name}: {why}"));
        if unreadable > 0 {
            self.opened
                .notices
                .push(format!("{name}: left out {unreadable} lines that are cut, changed or unreadable"));
        }
        if clusters {
            self.opened.clusters.push(measured_cluster::cluster(run).map_err(|e| refused(e.to_string()))?);
        }
        let found = measured_cluster::machines(run).map_err(|e| refused(e.to_string()))?;
        if found.is_empty() && !clusters {
            return Err(OpenError::new(format!(
                "{name} is a record between nodes, none of which described itself; this command is about machines, and \
                 'check', 'report' and 'compare' read the record"
            )));
        }
        self.opened.cases.extend(found.into_iter().map(Case::from));
        Ok(())
    }

    /// The first few of some problems, and how many more there are of what they are.
    fn add_few(&mut self, target: &str, all: impl ExactSizeIterator<Item = String>, what: &str) {
        let more = all.len().saturating_sub(FEW);
        self.problems.extend(all.take(FEW));
        if more > 0 {
            self.problems.push(format!("{target}: {more} more {what}"));
        }
    }

    fn add_nothing(&mut self, target: &str, found: &Found) {
        self.add_few(target, found.unread.iter().cloned(), "files could not be read");
        self.add_few(target, found.traces.iter().cloned(), "files hold recorded steps");
        self.add_few(target, found.warnings.iter().map(ToString::to_string), "warnings");
        let doubts: Vec<String> = found.coverage.iter().filter_map(nothing_of).collect();
        if doubts.is_empty() && found.traces.is_empty() {
            self.problems.push(format!("{target}: nothing recognised"));
            self.nothing = true;
        }
        self.problems.extend(doubts);
    }

    fn finish(self) -> Result<Opened, OpenError> {
        let Joined { mut opened, inferred, captured, mut problems, mut doubts, nothing } = self;
        if nothing {
            problems.push(READS.to_owned());
        }
        problems.dedup();
        doubts.truncate(FEW);
        opened.coverage.clone_from(&captured.coverage);
        if !captured.evidence.is_empty() {
            let assembled = assemble(captured);
            if assembled.is_empty() {
                problems.push("the input describes no GPU, NIC or path".to_owned());
            }
            opened.cases.extend(assembled.into_iter().map(Case::from));
        }
        if let (true, Some((found, file))) = (opened.cases.is_empty(), inferred.first()) {
            let machine = &found.machine;
            problems.push(format!("{file} holds the inferred limits of {machine}; also give that machine as a TARGET"));
        }
        if opened.cases.is_empty() && opened.clusters.is_empty() {
            opened.notices.extend(problems);
            return Err(OpenError(opened.notices));
        }
        let unjoined =
            inferred.into_iter().filter_map(|(found, file)| join_inference(found, &file, &mut opened.cases).err());
        problems.extend(unjoined);
        opened.incomplete = !problems.is_empty();
        opened.notices.extend(problems.into_iter().chain(doubts));
        Ok(opened)
    }
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

/// The machine of a run, with a warning if part of the record is unreadable.
fn of_run(partial: Partial, name: &str) -> Result<Case, OpenError> {
    let left_out = partial.left_out();
    let mut case = Case::of_run(partial.run, name).map_err(|e| OpenError::new(format!("{name}: {e}")))?;
    case.machine.warnings.extend(left_out.map(|what| Warning::general(format!("{name}: {what}"))));
    Ok(case)
}

/// Adds an inference to its machine: the only one, or the one of that name.
fn join_inference(found: Inference, file: &str, cases: &mut [Case]) -> Result<(), String> {
    let at = match &*cases {
        [_] => Some(0),
        many => many.iter().position(|case| case.machine.name == found.machine),
    };
    match at.and_then(|at| cases.get_mut(at)) {
        Some(case) => case.join(found, file).map_err(|e| format!("{file}: {e}")),
        None => Err(format!("{file} is about {}, and no machine here has that name", found.machine)),
    }
}
