//! Recorded steps of training: MLCommons Chakra's execution traces, PyTorch's profiles and its traces of the host, exports of Nsight
//! Systems, what NCCL's profiler plugins log, and execution plans of MSCCL++.
//!
//! Each format becomes [`Recording`]s; [`join`](joined::join) matches the ranks' collectives and makes one graph of them.

mod chakra;
mod chakra_json;
mod described;
mod graph;
mod host;
mod join;
mod kineto;
mod nsys;
mod open;
mod operations;
mod plan;
mod plugins;
mod replicas;
mod split;
mod streams;
mod wire;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use peerlane_machine::transfer::Collective;
use serde_json::Value;

pub(crate) use described::described;
pub use join::{Act, Joined, join};
pub(super) use kineto::Event;
pub(crate) use kineto::width;
pub use open::{joined, open};
pub use split::Split;
pub(crate) use split::{Span, length, union};

/// The most records of all ranks together: each takes some hundred bytes.
pub const MOST_RECORDS: usize = 4_000_000;

/// What a trace's file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Chakra's execution trace, in protobuf or as JSON.
    Chakra,
    /// PyTorch's profile.
    Kineto,
    /// PyTorch's trace of the host, or one that is linked with a profile and not yet converted.
    Host,
    /// An export of Nsight Systems in JSON lines.
    Nsys,
    /// Operations that NCCL's Inspector logs.
    Inspector,
    /// Events of NCCL's example of a profiler plugin.
    Events,
    /// An execution plan of MSCCL++.
    Plan,
    /// Members of communicators, as ASTRA-sim takes them.
    Groups,
}

/// One rank's trace.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// When it began, in seconds of its own clock.
    pub began: Option<f64>,
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
    /// Communication of which only its time is known, and its kind where its name says it.
    Known(f64, Option<Collective>),
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
    Ranks(Arc<[u32]>, String),
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

/// How much of a file is looked at to see what it is.
const HEAD: usize = 4 << 20;

/// What a file is by its content, where it is a trace.
pub fn format_of(bytes: &[u8]) -> Option<Format> {
    let first = bytes.iter().position(|b| !b.is_ascii_whitespace()).map(|at| bytes[at]);
    let head = &bytes[..bytes.len().min(HEAD)];
    let holds = |key: &str| head.windows(key.len()).any(|at| at == key.as_bytes());
    match first {
        Some(b'{') => {}
        // events of any program are such a list
        Some(b'[') => {
            let ours = holds("\"cat\": \"GROUP") || holds("\"CommHash\"") || holds("\"GROUP_API\"");
            return (ours && holds("\"ph\"")).then_some(Format::Events);
        }
        _ => return wire::is_trace(bytes).then_some(Format::Chakra),
    }
    let of_nsys = || ["\"CudaEvent\":", "\"TraceProcessEvent\":", "\"NvtxEvent\":"].into_iter().any(holds);
    match () {
        () if holds("\"traceEvents\"") => Some(Format::Kineto),
        () if holds("\"workload_graph\"") || holds("\"COMM_COLL_NODE\"") || holds("\"COMP_NODE\"") => {
            Some(Format::Chakra)
        }
        () if holds("\"ctrl_deps\"") || holds("[pytorch|profiler|execution") => Some(Format::Host),
        () if holds("\"threadblocks\"") && holds("\"gpus\"") => Some(Format::Plan),
        () if of_nsys() || head.starts_with(b"{\"data\":[\"[Unknown]") => Some(Format::Nsys),
        () if holds("\"coll_perf\"") || holds("\"p2p_perf\"") => Some(Format::Inspector),
        () => chakra_json::groups(bytes).map(|_| Format::Groups),
    }
}

/// Whether a file that begins so is a trace without being text.
pub(crate) fn is_binary(head: &[u8]) -> bool {
    format_of(head) == Some(Format::Chakra) && head.first() != Some(&b'{')
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())
}

/// A whole number, or one that is written as text.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// An execution plan of MSCCL++ at a size.
///
/// # Errors
/// Where it is none, or cannot be played.
pub fn planned(file: &str, bytes: &[u8], size: u64) -> Result<Joined, TraceError> {
    utf8(bytes).and_then(|text| plan::joined(text, size)).map_err(|why| TraceError::new(format!("{file}: {why}")))
}

/// Operations that a plugin of NCCL logged.
fn logged(format: Format, bytes: &[u8]) -> Result<Vec<operations::Operation>, String> {
    let text = utf8(bytes)?;
    if format == Format::Events { plugins::events(text) } else { plugins::inspected(text) }
}

/// Reads a trace, which may be of several ranks.
///
/// # Errors
/// Where it is none, is cut off, or is not what a trace may be; the message names the file and the record.
pub fn read_all(file: &str, bytes: &[u8]) -> Result<Vec<Recording>, TraceError> {
    let refuse = |why: String| TraceError::new(format!("{file}: {why}"));
    let mut recordings = match format_of(bytes) {
        Some(Format::Nsys) => nsys::read(bytes).map_err(refuse)?,
        Some(format @ (Format::Inspector | Format::Events)) => {
            operations::recordings(logged(format, bytes).map_err(refuse)?, file).map_err(refuse)?
        }
        _ => return Ok(vec![read(file, bytes)?]),
    };
    if let [one] = recordings.as_mut_slice()
        && one.rank.is_none()
    {
        one.rank = rank_in(file);
    }
    recordings.iter_mut().for_each(|one| file.clone_into(&mut one.file));
    Ok(recordings)
}

/// Reads a trace of one rank.
///
/// # Errors
/// As [`read_all`], and where it is of several ranks.
pub fn read(file: &str, bytes: &[u8]) -> Result<Recording, TraceError> {
    let refuse = |why: String| TraceError::new(format!("{file}: {why}"));
    let mut recording = match format_of(bytes) {
        Some(Format::Kineto) => kineto::read(bytes).map_err(refuse)?,
        Some(Format::Chakra) if bytes.first().is_some_and(|b| *b == b'{' || b.is_ascii_whitespace()) => {
            chakra_json::read(bytes).map_err(refuse)?
        }
        Some(Format::Chakra) => chakra::read(bytes).map_err(refuse)?,
        Some(Format::Host) => host::read(utf8(bytes).map_err(refuse)?).map_err(refuse)?,
        Some(Format::Groups) => return Err(refuse("members of communicators, and no trace".to_owned())),
        Some(Format::Plan) => {
            return Err(refuse("an execution plan of MSCCL++ among other files: give it alone".to_owned()));
        }
        Some(Format::Nsys | Format::Inspector | Format::Events) => {
            return Err(refuse("a trace of several ranks".to_owned()));
        }
        None => {
            return Err(refuse(
                "neither a trace of Chakra (protobuf or JSON), of PyTorch's profiler nor of Nsight Systems (--type jsonlines); 'peerlane \
                 check' says what it is"
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

/// The number after `rank` in a file's name, else the last one.
fn rank_in(file: &str) -> Option<u32> {
    let name = Path::new(file).file_name()?.to_str()?;
    let after = name.split("rank").skip(1).find_map(|rest| {
        let digits = rest.trim_start_matches(['_', '-', '.']).split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    });
    if after.is_some() {
        return after;
    }
    let stem =
        [".gz", ".json", ".et", ".pt.trace"].into_iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
    let end = stem.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = stem[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    stem[start..end].parse().ok()
}

/// Which collective a name means, as frameworks and libraries write it.
fn kind_of(name: &str) -> Option<Collective> {
    let plain: String = name.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let is = |word: &str| plain.contains(word);
    Some(match () {
        () if is("allreduce") || is("barrier") => Collective::AllReduce,
        () if is("allgather") => Collective::AllGather,
        () if is("reducescatter") => Collective::ReduceScatter,
        () if is("alltoall") => Collective::AllToAll,
        () if is("broadcast") || is("reduce") => Collective::Broadcast,
        () => return None,
    })
}

/// Which collective a kernel does, by its name: `ncclDevKernel_AllReduce_Sum_f32_RING_LL`.
fn kind_in(kernel: &str) -> Option<Collective> {
    let words = kernel.split('(').next().unwrap_or_default();
    kind_of(words.split('_').nth(1)?)
}

/// Whether a kernel is NCCL's or RCCL's.
pub(crate) fn is_collective_kernel(kernel: &str) -> bool {
    ["ncclDevKernel", "ncclKernel", "ncclSymDevKernel", "rcclGenericKernel", "rcclKernel"]
        .iter()
        .any(|begin| kernel.starts_with(begin))
}

#[cfg(test)]
mod tests;
