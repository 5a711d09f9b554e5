//! PyTorch's profiles (Kineto's JSON) as records: kernels and copies of each stream, collectives with their ranks and bytes, and
//! what waits for what ([`streams`](super::streams)).

use std::collections::BTreeMap;
use std::fmt;

use peerlane_machine::transfer::Collective;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::Value;

use super::streams::{Call, CallKind, Kept, Kernel, Known, recording};
use super::{Among, Recording, Size, Span, What, is_collective_kernel, kind_of, utf8, whole};
use crate::evidence::from_json;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    distributed_info: Option<Job>,
    trace_events: Events,
    #[serde(default)]
    base_time_nanoseconds: Value,
}

/// Events, and what collectives say of themselves, by their kernels' places.
#[derive(Default)]
struct Events {
    kept: Kept,
    arguments: Vec<(usize, Box<Arguments>)>,
}

#[derive(Deserialize)]
struct Job {
    rank: Option<u32>,
    world_size: Option<u32>,
    #[serde(default)]
    pg_config: Value,
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

impl Events {
    fn take(&mut self, event: Event<Box<Arguments>>) {
        let name = event.name.as_str().unwrap_or_default();
        let category = event.cat.as_str().unwrap_or_default();
        if name.starts_with("ProfilerStep#") {
            if let Some(span) = event.span() {
                let of_step = self.kept.steps.entry(name.to_owned()).or_insert(span);
                // the host's, where the GPU's is there too
                if category == "user_annotation" {
                    *of_step = span;
                }
            }
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
                if communicates {
                    self.arguments.push((self.kept.kernels.len(), args));
                }
                let communicates = communicates.then_some(Known::TimeAlone);
                self.kept.kernels.push(Kernel { lane, span, correlation, name, communicates });
            }
            "cuda_runtime" | "cuda_driver" | "hip_runtime" => {
                let Some(kind) = CallKind::of(name) else { return };
                let Some(span) = event.span() else { return };
                let correlation = event.args.and_then(|args| whole(&args.correlation));
                self.kept.host.push(Call { span, correlation, kind });
            }
            _ => {}
        }
        self.kept.too_many |= self.kept.kernels.len() + self.kept.host.len() > 2 * super::MOST_RECORDS;
    }
}

impl<'de> Deserialize<'de> for Events {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Events;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of events")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Events, A::Error> {
                let mut all = Events::default();
                while let Some(event) = list.next_element()? {
                    if !all.kept.too_many {
                        all.take(event);
                    }
                }
                Ok(all)
            }
        }
        from.deserialize_seq(List)
    }
}

pub(super) fn read(bytes: &[u8]) -> Result<Recording, String> {
    let text = utf8(bytes)?;
    let profile: Profile = from_json(text).map_err(|e| match e.is_eof() {
        true => "a profile of PyTorch that is cut off: copy it again, or wait until it is written".to_owned(),
        false => format!("a profile of PyTorch that cannot be read: {e}"),
    })?;
    let Profile { distributed_info, trace_events: Events { mut kept, arguments }, base_time_nanoseconds } = profile;
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
    let mut unrecorded = 0;
    for (at, args) in &arguments {
        let known = match collective(args) {
            Some(what) => Known::All(what),
            None if args.collective.as_str().is_some() => Known::Time,
            None => {
                unrecorded += 1;
                Known::TimeAlone
            }
        };
        kept.kernels[*at].communicates = Some(known);
    }
    if let Some((first, _)) = arguments.first()
        && unrecorded == arguments.len()
    {
        let name = &kept.kernels[*first].name;
        return Err(format!(
            "{unrecorded} kernels are communication by their names ({name}) and have no record of their ranks and bytes: record with \
             PyTorch 2.4 or later, ProfilerActivity.CPU and ProfilerActivity.CUDA"
        ));
    }
    let base = number(&base_time_nanoseconds).unwrap_or_default() / 1e9;
    let recording = recording(kept, Vec::new());
    Ok(Recording { rank, world, groups, began: recording.began.map(|began| base + began), ..recording })
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
fn collective(args: &Arguments) -> Option<What> {
    let collective = kind_of(args.collective.as_str()?)?;
    let width = args.dtype.as_str().and_then(width)?;
    let ranks = whole(&args.size).unwrap_or(1).max(1);
    let (given, got) = (whole(&args.given).unwrap_or_default(), whole(&args.got).unwrap_or_default());
    let elements = match collective {
        Collective::AllGather => got.max(given.saturating_mul(ranks)),
        Collective::ReduceScatter => given.max(got.saturating_mul(ranks)),
        _ => given.max(got),
    };
    let bytes = Size::Whole(elements.checked_mul(width).filter(|bytes| *bytes > 0)?);
    Some(What::Collective { collective, group: among(args, ranks), bytes, number: whole(&args.number) })
}

/// Its ranks: as they are listed, which is cut off after 30; as the job's groups list them; or all.
fn among(args: &Arguments, size: u64) -> Among {
    let listed = args.ranks.as_str().and_then(|text| from_json::<Vec<u32>>(text).ok());
    let name = args.group.as_str().unwrap_or_default().to_owned();
    match listed.filter(|ranks| ranks.len() as u64 == size) {
        Some(ranks) => Among::Ranks(ranks.into(), name),
        None if !name.is_empty() => Among::Named(name),
        None => Among::All,
    }
}

#[cfg(test)]
mod tests;
