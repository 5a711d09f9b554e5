//! PyTorch's profiles (Kineto's JSON) as records: kernels and copies of each stream, collectives with their ranks and bytes, and
//! what waits for what.
//!
//! Kernels of a stream follow each other. What streams wait for of each other is not written, and is inferred: a collective
//! waits for the last kernel that was launched before it, as PyTorch makes it; another kernel waits for those of other streams
//! for whose end it visibly waited, and, where the host made its stream wait, for all that had ended. What is left between the
//! last of these and its start is the host's time, and stays.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use peerlane_machine::transfer::Collective;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::Value;

use super::{Among, Record, Recording, Size, Span, Split, What, is_collective_kernel};
use crate::evidence::from_json;

/// Times in µs that are no further apart are one.
const MOMENT: f64 = 1.0;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    distributed_info: Option<Job>,
    trace_events: Kept,
}

#[derive(Deserialize)]
struct Job {
    rank: Option<u32>,
    world_size: Option<u32>,
    #[serde(default)]
    pg_config: Value,
}

/// The events that matter.
#[derive(Default)]
struct Kept {
    kernels: Vec<Kernel>,
    host: Vec<Call>,
    steps: std::collections::BTreeSet<String>,
    too_many: bool,
}

struct Kernel {
    lane: (u64, u64),
    span: Span,
    correlation: Option<u64>,
    name: String,
    /// Of a collective.
    args: Option<Box<Arguments>>,
}

/// What the host did.
struct Call {
    span: Span,
    correlation: Option<u64>,
    kind: CallKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Launch,
    /// Makes a stream wait.
    Wait,
    /// Waits for the GPU.
    Synchronize,
}

/// An event of a profile, with what it says of itself as its reader wants that.
#[derive(Deserialize)]
pub(in crate::evidence) struct Event<A> {
    #[serde(default)]
    pub(in crate::evidence) cat: Value,
    #[serde(default)]
    pub(in crate::evidence) name: Value,
    #[serde(default)]
    ts: Value,
    #[serde(default)]
    dur: Value,
    pub(in crate::evidence) args: Option<A>,
}

impl<A> Event<A> {
    /// From when to when it lasted, in µs.
    pub(in crate::evidence) fn span(&self) -> Option<Span> {
        let (from, time) = (number(&self.ts)?, number(&self.dur)?);
        (time >= 0.0).then_some((from, from + time))
    }
}

#[derive(Deserialize, Default)]
struct Arguments {
    #[serde(default)]
    correlation: Value,
    #[serde(default)]
    device: Value,
    #[serde(default)]
    stream: Value,
    #[serde(default, rename = "Collective name")]
    collective: Value,
    #[serde(default, rename = "In msg nelems")]
    given: Value,
    #[serde(default, rename = "Out msg nelems")]
    got: Value,
    #[serde(default)]
    dtype: Value,
    #[serde(default, rename = "Group size")]
    size: Value,
    #[serde(default, rename = "Process Group Name")]
    group: Value,
    #[serde(default, rename = "Process Group Ranks")]
    ranks: Value,
    #[serde(default, rename = "Seq")]
    number: Value,
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).filter(|number| number.is_finite())
}

fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

impl Kept {
    fn take(&mut self, event: Event<Box<Arguments>>) {
        let name = event.name.as_str().unwrap_or_default();
        let category = event.cat.as_str().unwrap_or_default();
        if name.starts_with("ProfilerStep#") {
            self.steps.insert(name.to_owned());
            return;
        }
        match category {
            "kernel" | "gpu_memcpy" | "gpu_memset" => {
                let Some(span) = event.span() else { return };
                let args = event.args.unwrap_or_default();
                let lane = (whole(&args.device).unwrap_or_default(), whole(&args.stream).unwrap_or_default());
                let correlation = whole(&args.correlation);
                let communicates = is_collective_kernel(name);
                let name = if communicates { name.chars().take(80).collect() } else { String::new() };
                let args = communicates.then_some(args);
                self.kernels.push(Kernel { lane, span, correlation, name, args });
            }
            "cuda_runtime" | "cuda_driver" | "hip_runtime" => {
                let kind = match name {
                    _ if name.contains("Synchronize") => CallKind::Synchronize,
                    _ if name.contains("StreamWaitEvent") => CallKind::Wait,
                    _ if ["Launch", "Memcpy", "Memset"].iter().any(|word| name.contains(word)) => CallKind::Launch,
                    _ => return,
                };
                let Some(span) = event.span() else { return };
                let correlation = event.args.and_then(|args| whole(&args.correlation));
                self.host.push(Call { span, correlation, kind });
            }
            _ => {}
        }
        self.too_many |= self.kernels.len() + self.host.len() > 2 * super::MOST_RECORDS;
    }
}

impl<'de> Deserialize<'de> for Kept {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Events;
        impl<'de> Visitor<'de> for Events {
            type Value = Kept;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of events")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Kept, A::Error> {
                let mut kept = Kept::default();
                while let Some(event) = list.next_element()? {
                    if !kept.too_many {
                        kept.take(event);
                    }
                }
                Ok(kept)
            }
        }
        from.deserialize_seq(Events)
    }
}

pub(super) fn read(bytes: &[u8]) -> Result<Recording, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())?;
    let profile: Profile = from_json(text).map_err(|e| match e.is_eof() {
        true => "a profile of PyTorch that is cut off: copy it again, or wait until it is written".to_owned(),
        false => format!("a profile of PyTorch that cannot be read: {e}"),
    })?;
    let Profile { distributed_info, trace_events: kept } = profile;
    if kept.too_many || kept.kernels.len() > super::MOST_RECORDS {
        return Err(format!(
            "more than {} kernels, which is the most that are read: record fewer steps",
            super::MOST_RECORDS
        ));
    }
    if kept.kernels.is_empty() {
        return Err("a profile of PyTorch without a kernel: record it with ProfilerActivity.CUDA".to_owned());
    }
    let groups = distributed_info.as_ref().map(members).unwrap_or_default();
    let (rank, world) = distributed_info.map_or((None, None), |job| (job.rank, job.world_size));
    let mut notes = Vec::new();
    let steps = kept.steps.len();
    let (records, recorded) = records(kept, steps, &groups, &mut notes)?;
    Ok(Recording { file: String::new(), rank, world, records, groups, steps, recorded: Some(recorded), notes })
}

/// Process groups by name. A group without ranks has all.
fn members(job: &Job) -> BTreeMap<String, Vec<u32>> {
    let listed = job.pg_config.as_array().into_iter().flatten();
    let group = |of: &Value| {
        let ranks = of.get("ranks")?.as_array()?.iter().map(|rank| u32::try_from(rank.as_u64()?).ok());
        Some((of.get("pg_name")?.as_str()?.to_owned(), ranks.collect::<Option<Vec<u32>>>()?))
    };
    listed.filter_map(group).collect()
}

/// The host's calls by their time.
struct Host {
    /// By correlation.
    launches: HashMap<u64, f64>,
    /// When a stream of computing was made to wait.
    waits: Vec<f64>,
    synchronized: Vec<Span>,
}

impl Host {
    fn of(mut calls: Vec<Call>, kernels: &[Kernel]) -> Host {
        calls.sort_by(|a, b| a.span.0.total_cmp(&b.span.0));
        let communicating: HashMap<u64, bool> =
            kernels.iter().filter_map(|k| Some((k.correlation?, k.args.is_some()))).collect();
        let mut host = Host { launches: HashMap::new(), waits: Vec::new(), synchronized: Vec::new() };
        let mut open: Vec<f64> = Vec::new();
        for call in calls {
            match call.kind {
                CallKind::Synchronize => host.synchronized.push(call.span),
                CallKind::Wait => open.push(call.span.0),
                CallKind::Launch => {
                    let Some(correlation) = call.correlation else { continue };
                    let Some(communicates) = communicating.get(&correlation) else { continue };
                    host.launches.insert(correlation, call.span.0);
                    // the last wait before a collective is that of its own stream
                    if *communicates {
                        open.pop();
                    }
                    host.waits.append(&mut open);
                }
            }
        }
        host
    }

    fn launch(&self, kernel: &Kernel) -> Option<f64> {
        self.launches.get(&kernel.correlation?).copied()
    }

    /// The last moment in between at which a stream was made to wait.
    fn waited(&self, after: f64, until: f64) -> Option<f64> {
        let end = self.waits.partition_point(|wait| *wait <= until);
        self.waits[..end].last().copied().filter(|wait| *wait > after)
    }

    /// Whether the host waited for the GPU until something had ended, before it went on.
    fn awaited(&self, end: f64, until: f64) -> bool {
        let last = self.synchronized.partition_point(|span| span.0 <= until);
        let near = self.synchronized[..last].iter().rev().take(64);
        near.into_iter().any(|span| span.0 <= end + MOMENT && end <= span.1 + MOMENT && span.1 <= until + MOMENT)
    }
}

/// How a stream has gone so far.
#[derive(Default)]
struct Lane {
    /// Its kernels in the order of their starts, as places among all.
    kernels: Vec<u32>,
}

fn records(
    kept: Kept,
    steps: usize,
    groups: &BTreeMap<String, Vec<u32>>,
    notes: &mut Vec<String>,
) -> Result<(Vec<Record>, Split), String> {
    let Kept { mut kernels, host, .. } = kept;
    kernels.sort_by(|a, b| a.span.0.total_cmp(&b.span.0).then(a.span.1.total_cmp(&b.span.1)));
    let host = Host::of(host, &kernels);
    let began = kernels.first().map_or(0.0, |k| k.span.0);
    // computing by when it was launched
    let mut launched: Vec<(f64, u32)> = (0..)
        .zip(&kernels)
        .filter(|(_, k)| k.args.is_none())
        .filter_map(|(at, k)| Some((host.launch(k)?, at)))
        .collect();
    launched.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut lanes: BTreeMap<(u64, u64), Lane> = BTreeMap::new();
    let (mut computing, mut communicating) = (Vec::new(), Vec::new());
    let mut found = Vec::with_capacity(kernels.len());
    let (mut unknown, mut known) = (0, 0);
    for (at, kernel) in (0_u32..).zip(&kernels) {
        let mut after: Vec<u32> =
            lanes.get(&kernel.lane).and_then(|lane| lane.kernels.last()).copied().into_iter().collect();
        let previous = after.first().map(|before| &kernels[*before as usize]);
        let launch = host.launch(kernel);
        let could = |other: u32| kernels[other as usize].span.1 <= kernel.span.0 + MOMENT;
        if kernel.args.is_some() {
            let before = launch.map(|launch| &launched[..launched.partition_point(|(time, _)| *time <= launch)]);
            let last = before.and_then(|of| of.last()).map(|(_, k)| *k).filter(|k| *k < at && could(*k));
            after.extend(last);
            // launches are not known, or were one: a graph
            if last.is_none() {
                let others = lanes.iter().filter(|(lane, _)| **lane != kernel.lane);
                after.extend(
                    others.filter_map(|(_, lane)| lane.kernels.iter().rev().take(64).copied().find(|k| could(*k))),
                );
            }
        } else {
            let idle_from = previous.map_or(began, |p| p.span.1);
            let waited = launch.and_then(|until| {
                let from = previous.and_then(|p| host.launch(p)).unwrap_or(f64::NEG_INFINITY);
                host.waited(from, until)
            });
            for (lane, of) in &lanes {
                if *lane == kernel.lane {
                    continue;
                }
                let awaited = of.kernels.iter().rev().take(64).copied().find(|k| {
                    let other = &kernels[*k as usize];
                    let told = waited.is_some_and(|wait| host.launch(other).is_none_or(|launch| launch < wait));
                    let end = other.span.1;
                    let visible =
                        end > idle_from && launch.is_none_or(|launch| end > launch || host.awaited(end, launch));
                    could(*k) && (told || visible)
                });
                after.extend(awaited);
            }
        }
        after.sort_unstable();
        after.dedup();
        let ready = after.iter().map(|k| kernels[*k as usize].span.1).fold(began, f64::max);
        let took = (kernel.span.1 - kernel.span.0) / 1e6;
        let what = match &kernel.args {
            None => What::Compute(took),
            Some(args) => match collective(args, groups)? {
                Some(what) => what,
                None => {
                    unknown += usize::from(args.collective.as_str().is_none());
                    known += 1;
                    What::Known(took)
                }
            },
        };
        if kernel.args.is_some() { &mut communicating } else { &mut computing }.push(kernel.span);
        let delay = (kernel.span.0 - ready).max(0.0) / 1e6;
        let took = kernel.args.is_some().then_some(took);
        found.push(Record { id: u64::from(at), what, after, delay, took });
        lanes.entry(kernel.lane).or_default().kernels.push(at);
    }
    if unknown > 0 && unknown == communicating.len() {
        let name = kernels.iter().find(|k| k.args.is_some()).map_or("", |k| k.name.as_str());
        return Err(format!(
            "{unknown} kernels are communication by their names ({name}) and have no record of their ranks and bytes: record with \
             PyTorch 2.4 or later, ProfilerActivity.CPU and ProfilerActivity.CUDA"
        ));
    }
    if known > 0 {
        notes.push(format!(
            "{known} kernels of communication have no collective's ranks and bytes (send and receive, gather, scatter, or no record), and keep \
             their recorded time."
        ));
    }
    let until = kernels.iter().map(|k| k.span.1).fold(began, f64::max);
    let split = Split::of(until - began, computing, communicating);
    let seconds = |us: f64| us / 1e6;
    let Split { time, computing, communication, exposed, idle } = Split::mean(&[split], steps);
    let split = Split {
        time: seconds(time),
        computing: seconds(computing),
        communication: seconds(communication),
        exposed: seconds(exposed),
        idle: seconds(idle),
    };
    Ok((found, split))
}

/// Bytes of an element.
pub(crate) fn width(dtype: &str) -> Option<u64> {
    Some(match dtype.to_ascii_lowercase().as_str() {
        "bfloat16" | "half" | "float16" | "short" | "int16" => 2,
        "float" | "float32" | "int" | "int32" => 4,
        "double" | "float64" | "long" | "int64" => 8,
        "byte" | "char" | "int8" | "uint8" | "bool" | "float8_e4m3fn" | "float8_e5m2" => 1,
        _ => return None,
    })
}

/// `None` where it has no size, or is none that a library's rate is known for.
fn collective(args: &Arguments, groups: &BTreeMap<String, Vec<u32>>) -> Result<Option<What>, String> {
    let Some(name) = args.collective.as_str() else { return Ok(None) };
    let plain: String = name.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let is = |word: &str| plain.contains(word);
    let collective = match () {
        () if is("allreduce") || is("barrier") => Collective::AllReduce,
        () if is("allgather") => Collective::AllGather,
        () if is("reducescatter") => Collective::ReduceScatter,
        () if is("alltoall") => Collective::AllToAll,
        () if is("broadcast") || is("reduce") => Collective::Broadcast,
        () => return Ok(None),
    };
    let Some(width) = args.dtype.as_str().and_then(width) else { return Ok(None) };
    let ranks = whole(&args.size).unwrap_or(1).max(1);
    let (given, got) = (whole(&args.given).unwrap_or_default(), whole(&args.got).unwrap_or_default());
    let elements = match collective {
        Collective::AllGather => got.max(given.saturating_mul(ranks)),
        Collective::ReduceScatter => given.max(got.saturating_mul(ranks)),
        _ => given.max(got),
    };
    let Some(bytes) = elements.checked_mul(width).filter(|bytes| *bytes > 0) else { return Ok(None) };
    let group = among(args, ranks, groups)?;
    Ok(Some(What::Collective { collective, group, bytes: Size::Whole(bytes), number: whole(&args.number) }))
}

/// Its ranks: as they are listed, which is cut off after 30; as the job's groups list them; or all.
fn among(args: &Arguments, size: u64, groups: &BTreeMap<String, Vec<u32>>) -> Result<Among, String> {
    let listed = args.ranks.as_str().and_then(|text| from_json::<Vec<u32>>(text).ok());
    if let Some(ranks) = listed.filter(|ranks| ranks.len() as u64 == size) {
        let name = args.group.as_str().unwrap_or_default().to_owned();
        return Ok(Among::Ranks(ranks, name));
    }
    match args.group.as_str() {
        Some(name) if groups.get(name).is_some_and(|ranks| ranks.len() as u64 == size) => {
            Ok(Among::Ranks(groups[name].clone(), name.to_owned()))
        }
        Some(name) if !name.is_empty() => Ok(Among::Named(name.to_owned())),
        _ => Ok(Among::All),
    }
}

#[cfg(test)]
mod tests;
