//! Recorded steps of training: MLCommons Chakra's execution traces and PyTorch's profiles, a file a rank or one for all ranks.
//!
//! Each format becomes [`Recording`]s; [`join`](joined::join) matches the ranks' collectives and makes one graph of them.

mod chakra;
mod chakra_json;
mod graph;
mod join;
mod kineto;
mod replicas;
mod split;
mod wire;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use peerlane_machine::one_line::shown;
use peerlane_machine::transfer::Collective;

use crate::evidence::Packing;
use crate::input_file::{self, Folder, Kind, What as On};

pub use join::{Act, Joined, join};
pub(super) use kineto::Event;
pub(crate) use kineto::width;
pub use split::Split;
pub(crate) use split::{Span, length, union};

/// The most records of all ranks together: each takes some hundred bytes.
pub const MOST_RECORDS: usize = 4_000_000;
/// The most that a packed trace unpacks to, in bytes.
pub const MOST_UNPACKED: u64 = 1 << 30;
/// What a packed trace may unpack to however small it is, and how many times its size else: profiles pack to a thirtieth, what
/// is made to fill a memory to a thousandth.
const KEPT_ANYHOW: u64 = 48 << 20;
const MOST_TIMES: u64 = 128;
/// The most files of one trace.
const MOST_FILES: usize = 4096;

/// What a trace's file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Chakra's execution trace, in protobuf or as JSON.
    Chakra,
    /// PyTorch's profile.
    Kineto,
    /// PyTorch's trace of the host, or one that is linked with a profile and not yet converted.
    Host,
    /// Members of communicators, as ASTRA-sim takes them.
    Groups,
}

/// One rank's trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Its file, as it may be shown.
    pub file: String,
    /// Its rank, where the trace or its file's name says.
    pub rank: Option<u32>,
    /// How many ranks there were, where it says.
    pub world: Option<u32>,
    /// What was done, in an order in which nothing comes before what it waits for.
    pub records: Vec<Record>,
    /// Ranks of communicators by their names, as far as the trace lists them; all ranks where none are listed.
    pub groups: BTreeMap<String, Vec<u32>>,
    /// Steps in it; 0 where it does not say.
    pub steps: usize,
    /// What was recorded of its time.
    pub recorded: Option<Split>,
    /// What is assumed or left out, in sentences.
    pub notes: Vec<String>,
}

/// One thing that a rank did.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number in the file.
    pub id: u64,
    /// What it was.
    pub what: What,
    /// Those that it waited for, as places in [`Recording::records`].
    pub after: Vec<u32>,
    /// Seconds from the last of those to its start that nothing in the trace explains.
    pub delay: f64,
    /// How long it took, in seconds.
    pub took: Option<f64>,
}

/// What a record is.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A GPU computed, or copied within its node.
    Compute(f64),
    /// The host worked for so many seconds.
    Host(f64),
    /// Communication of which only its time is known.
    Known(f64),
    /// A collective.
    Collective {
        /// Which.
        collective: Collective,
        /// Among whom.
        group: Among,
        /// As nccl-tests counts them, where this does not depend on the number of ranks.
        bytes: Size,
        /// Its number among those of its group, where the trace has one.
        number: Option<u64>,
    },
    /// A message to a rank.
    Send {
        /// To whom.
        to: u32,
        /// How many.
        bytes: u64,
        /// Which.
        tag: u64,
    },
    /// A message from a rank.
    Receive {
        /// From whom.
        from: u32,
        /// Which.
        tag: u64,
    },
}

/// A collective's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The larger of what a rank gives and gets.
    Whole(u64),
    /// What a rank gives.
    Given(u64),
}

/// Who takes part in a collective.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Among {
    /// All ranks.
    All,
    /// These, in a communicator of that name: several may have the same ranks.
    Ranks(Vec<u32>, String),
    /// Those of a communicator.
    Named(String),
}

/// Why a trace is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TraceError(String);

impl TraceError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        TraceError(why.into())
    }
}

/// What a file is by its content, where it is a trace.
pub fn format_of(bytes: &[u8]) -> Option<Format> {
    let first = bytes.iter().position(|b| !b.is_ascii_whitespace()).map(|at| bytes[at]);
    if !matches!(first, Some(b'{')) {
        return wire::is_trace(bytes).then_some(Format::Chakra);
    }
    let holds = |key: &[u8]| bytes.windows(key.len()).any(|at| at == key);
    match () {
        () if holds(b"\"traceEvents\"") => Some(Format::Kineto),
        () if holds(b"\"workload_graph\"") || holds(b"\"COMM_COLL_NODE\"") || holds(b"\"COMP_NODE\"") => {
            Some(Format::Chakra)
        }
        () if holds(b"\"ctrl_deps\"") || holds(b"[pytorch|profiler|execution") => Some(Format::Host),
        () => chakra_json::groups(bytes).map(|_| Format::Groups),
    }
}

/// Unpacks what is packed by gzip; other bytes stay.
///
/// # Errors
/// Where it is damaged, or unpacks to more than [`MOST_UNPACKED`], or more times its size than any trace does.
pub fn unpacked(file: &str, bytes: Vec<u8>) -> Result<Vec<u8>, TraceError> {
    let small = KEPT_ANYHOW.max((bytes.len() as u64).saturating_mul(MOST_TIMES));
    unpacked_within(file, bytes, small.min(MOST_UNPACKED))
}

fn unpacked_within(file: &str, bytes: Vec<u8>, most: u64) -> Result<Vec<u8>, TraceError> {
    match Packing::of(&bytes) {
        None => return Ok(bytes),
        Some(Packing::Gzip) => {}
        Some(other) => {
            return Err(TraceError::new(format!("{file}: packed ({other:?}); unpack it, or pack it with gzip")));
        }
    }
    let mut content = Vec::new();
    let read = MultiGzDecoder::new(bytes.as_slice()).take(most + 1).read_to_end(&mut content);
    if let Err(error) = read {
        return Err(TraceError::new(format!("{file}: damaged or cut off: {error}; copy it again")));
    }
    if content.len() as u64 > most {
        let most = most >> 20;
        return Err(TraceError::new(format!("{file}: unpacks to more than {most} MiB; record fewer steps")));
    }
    Ok(content)
}

/// Reads the traces in files and folders, at most 4096 of them; in a folder, other files are left out.
///
/// # Errors
/// Where a file cannot be read or is no trace, and where there is none.
pub fn open(paths: &[PathBuf]) -> Result<Vec<Recording>, TraceError> {
    let mut found = Vec::new();
    let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut records = 0;
    for (path, must) in files(paths)? {
        let bytes = input_file::read(&path, Kind::Trace).map_err(|e| TraceError::new(e.to_string()))?;
        let file = shown(&path);
        if bytes.is_empty() && must {
            return Err(TraceError::new(format!("{file}: empty; record it again")));
        }
        let bytes = match unpacked(&file, bytes) {
            Err(error) if must || path.to_string_lossy().ends_with(".json.gz") => return Err(error),
            Err(_) => continue,
            Ok(bytes) => bytes,
        };
        match format_of(&bytes) {
            Some(Format::Groups) => groups.extend(chakra_json::groups(&bytes).unwrap_or_default()),
            // the recorder writes both, and the profile is enough
            Some(Format::Host) if !must => {}
            None if !must && path.extension().is_none_or(|is| is != "et") => {}
            _ => {
                let recording = read(&file, &bytes)?;
                records += recording.records.len();
                at_most(records)?;
                found.push(recording);
            }
        }
    }
    if found.is_empty() {
        let names: Vec<String> = paths.iter().map(shown).collect();
        return Err(TraceError::new(format!(
            "{}: no trace: files of Chakra (.et, .json) or of PyTorch's profiler (.json, .json.gz) are read",
            names.join(", ")
        )));
    }
    found.iter_mut().for_each(|recording| recording.groups.extend(groups.clone()));
    Ok(found)
}

/// Every file, and whether it was named.
fn files(paths: &[PathBuf]) -> Result<Vec<(PathBuf, bool)>, TraceError> {
    let refused = |e: input_file::Refused| TraceError::new(e.to_string());
    let mut files = Vec::new();
    for path in paths {
        if input_file::what(path).map_err(refused)? != On::Folder {
            files.push((path.clone(), true));
            continue;
        }
        for entry in Folder::of(path).map_err(refused)?.entries(path).map_err(refused)? {
            if !entry.is_hidden() && matches!(entry.what, Ok(On::File)) {
                files.push((entry.path, false));
            }
        }
    }
    if files.len() > MOST_FILES {
        return Err(TraceError::new(format!("{} files are more than the {MOST_FILES} that are read", files.len())));
    }
    Ok(files)
}

/// Reads a trace.
///
/// # Errors
/// Where it is none, is cut off, or is not what a trace may be; the message names the file and the record.
pub fn read(file: &str, bytes: &[u8]) -> Result<Recording, TraceError> {
    let refuse = |why: String| TraceError::new(format!("{file}: {why}"));
    let mut recording = match format_of(bytes) {
        Some(Format::Kineto) => kineto::read(bytes).map_err(refuse)?,
        Some(Format::Chakra) if bytes.first().is_some_and(|b| *b == b'{' || b.is_ascii_whitespace()) => {
            chakra_json::read(bytes).map_err(refuse)?
        }
        Some(Format::Chakra) => chakra::read(bytes).map_err(refuse)?,
        Some(Format::Host) => {
            return Err(refuse(
                "PyTorch's trace of the host, which has no times of GPUs: give the profiler's trace of the same run, or \
                 convert this one with Chakra (chakra_trace_link, chakra_converter)"
                    .to_owned(),
            ));
        }
        Some(Format::Groups) => return Err(refuse("members of communicators, and no trace".to_owned())),
        None => {
            return Err(refuse(
                "neither a trace of Chakra (protobuf or JSON) nor of PyTorch's profiler; 'peerlane check' says what it is"
                    .to_owned(),
            ));
        }
    };
    if recording.rank.is_none() {
        recording.rank = rank_in(file);
    }
    file.clone_into(&mut recording.file);
    Ok(recording)
}

/// What a trace of Chakra or of PyTorch's host is, in words; `None` of anything else.
pub(crate) fn described(file: &str, bytes: &[u8]) -> Option<String> {
    match format_of(bytes)? {
        Format::Chakra => {}
        Format::Host => {
            return Some("PyTorch's trace of the host, of which Chakra makes a trace with times of GPUs".to_owned());
        }
        Format::Kineto | Format::Groups => return None,
    }
    Some(match read(file, bytes) {
        Ok(Recording { records, .. }) => {
            let collectives = records.iter().filter(|r| matches!(r.what, What::Collective { .. })).count();
            let nodes = records.len();
            format!(
                "an execution trace of Chakra, {nodes} nodes, {collectives} of them collectives; how long it takes on a machine says \
                 'peerlane simulate SYSTEM -w {file}'"
            )
        }
        Err(TraceError(why)) => {
            let why = why.strip_prefix(file).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&why);
            format!("an execution trace of Chakra that cannot be played: {why}")
        }
    })
}

/// Ranks in words.
fn named(ranks: &[u32]) -> String {
    match ranks {
        [one] => format!("rank {one}"),
        [first, .., last] if ranks.windows(2).all(|pair| pair[1] == pair[0] + 1) => format!("ranks {first} to {last}"),
        few if few.len() <= 8 => {
            let words: Vec<String> = few.iter().map(u32::to_string).collect();
            format!("ranks {}", words.join(", "))
        }
        [first, second, .., last] => format!("ranks {first}, {second} … {last} ({})", ranks.len()),
        _ => "no rank".to_owned(),
    }
}

fn at_most(records: usize) -> Result<(), TraceError> {
    if records <= MOST_RECORDS {
        return Ok(());
    }
    Err(TraceError::new(format!(
        "{records} records are more than the {MOST_RECORDS} that are read: record fewer steps, or give fewer ranks"
    )))
}

/// The last number in a file's name.
fn rank_in(file: &str) -> Option<u32> {
    let name = Path::new(file).file_name()?.to_str()?;
    let stem =
        [".gz", ".json", ".et", ".pt.trace"].into_iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
    let end = stem.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = stem[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    stem[start..end].parse().ok()
}

/// Whether a kernel is NCCL's or RCCL's.
pub(crate) fn is_collective_kernel(kernel: &str) -> bool {
    ["ncclDevKernel", "ncclKernel", "ncclSymDevKernel", "rcclGenericKernel", "rcclKernel"]
        .iter()
        .any(|begin| kernel.starts_with(begin))
}

#[cfg(test)]
mod tests;
