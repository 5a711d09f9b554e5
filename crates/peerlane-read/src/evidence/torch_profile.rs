//! Reads profiles of PyTorch's profiler (Kineto's JSON for chrome://tracing and Perfetto): the GPUs, the collectives with their sizes and
//! times, and how much of the communication no computing hides.
//!
//! A kernel of a collective waits for the other ranks, so that its time is at least that of the transfer. Only the shortest time of a
//! size says how fast the machine is, and no rate is made of it here.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_machine::fact::{Area, Grade};
use peerlane_machine::units::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::health::Health;
use super::traces::{Event, Span, is_collective_kernel, length, union, width};
use super::{Curve, Fact, Found, GpuFacts, Series, Text, Unit, json};

const TOOL: &str = "PyTorch profiler";

/// With which keys a profile may begin: the order is the writer's.
const FIRST_KEYS: [&str; 5] =
    ["schemaVersion", "deviceProperties", "distributedInfo", "traceEvents", "displayTimeUnit"];

/// The most kinds of collectives, by name and ranks, that are kept separate, and sizes of one kind.
const MAX_KINDS: usize = 256;
const MAX_SIZES: usize = 4096;

/// From this share of the time on, communication that nothing hides is a limit.
const EXPOSED: f64 = 0.25;

/// From this share on, that no kernel runs is worth saying.
const IDLE: f64 = 0.5;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    #[serde(default)]
    device_properties: Vec<Device>,
    distributed_info: Option<Job>,
    trace_events: Option<Vec<Event<Arguments>>>,
}

#[derive(Deserialize)]
struct Device {
    id: Option<u32>,
    name: Option<String>,
    #[serde(rename = "totalGlobalMem")]
    memory: Option<u64>,
}

#[derive(Deserialize)]
struct Job {
    rank: Option<u64>,
    world_size: Option<u64>,
}

/// What an event says of itself. A value that is no number is none.
#[derive(Deserialize)]
struct Arguments {
    #[serde(default, rename = "Collective name")]
    collective: Value,
    #[serde(default, rename = "In msg nelems")]
    elements: Value,
    #[serde(default)]
    dtype: Value,
    #[serde(default, rename = "Group size")]
    ranks: Value,
}

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["traceEvents"]) {
        return;
    }
    let mut seen = BTreeSet::new();
    for key in FIRST_KEYS {
        json::documents(text, key, "", |lines, read: Result<Profile, _>| match read {
            // a key may stand in an object within
            Ok(Profile { trace_events: None, .. }) => {}
            Ok(Profile { trace_events: Some(events), device_properties, distributed_info }) => {
                if seen.insert(lines) {
                    profile(text, lines, &device_properties, distributed_info.as_ref(), &events, found);
                }
            }
            Err(error) if seen.is_empty() && key == FIRST_KEYS[0] => {
                found.warn(text, TOOL, lines, format!("a profile cannot be read: {error}"));
            }
            Err(_) => {}
        });
    }
}

fn profile(
    text: &Text,
    lines: (u32, u32),
    devices: &[Device],
    job: Option<&Job>,
    events: &[Event<Arguments>],
    found: &mut Found,
) {
    let (mut computing, mut communicating): (Vec<Span>, Vec<Span>) = (Vec::new(), Vec::new());
    let mut kinds: BTreeMap<(String, u64), BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    let mut steps: BTreeSet<&str> = BTreeSet::new();
    for event in events {
        let name = event.name.as_str().unwrap_or_default();
        if name.starts_with("ProfilerStep#") {
            steps.insert(name);
        }
        let on_gpu = matches!(event.cat.as_str(), Some("kernel" | "gpu_memcpy" | "gpu_memset"));
        let Some(span) = event.span().filter(|_| on_gpu) else { continue };
        if !is_collective_kernel(name) {
            computing.push(span);
            continue;
        }
        communicating.push(span);
        let Some((kind, ranks, bytes)) = event.args.as_ref().and_then(collective) else { continue };
        if kinds.len() < MAX_KINDS || kinds.contains_key(&(kind.clone(), ranks)) {
            let sizes = kinds.entry((kind, ranks)).or_default();
            if sizes.len() < MAX_SIZES || sizes.contains_key(&bytes) {
                sizes.entry(bytes).or_default().push(span.1 - span.0);
            }
        }
    }
    let gpus: Vec<GpuFacts> = devices
        .iter()
        .zip(0..)
        .filter_map(|(device, nth)| {
            let name = device.name.as_deref().filter(|name| !name.trim().is_empty())?;
            let listed = GpuFacts::listed(device.id.unwrap_or(nth), name);
            Some(GpuFacts { memory: device.memory.map(Bytes), ..listed })
        })
        .collect();
    if !gpus.is_empty() {
        found.push(text, TOOL, lines, Fact::Gpus(gpus));
    }
    for ((kind, ranks), sizes) in kinds {
        found.push(text, TOOL, lines, Fact::Curve(curve(&kind, ranks, sizes)));
    }
    let part = job.and_then(|job| Some(format!("rank {} of {}", job.rank?, job.world_size?)));
    let shares = Shares::of(computing, communicating);
    shares.report(text, lines, part.as_deref(), steps.len(), found);
}

/// Name, ranks and bytes of what goes in.
fn collective(arguments: &Arguments) -> Option<(String, u64, u64)> {
    let width = width(arguments.dtype.as_str()?)?;
    let ranks = arguments.ranks.as_u64().filter(|ranks| *ranks > 1)?;
    let name = arguments.collective.as_str()?.trim_start_matches('_');
    Some((name.to_owned(), ranks, arguments.elements.as_u64()?.checked_mul(width)?))
}

/// The shortest and the median time by size.
fn curve(kind: &str, ranks: u64, sizes: BTreeMap<u64, Vec<f64>>) -> Curve {
    let series = |name: &str, values| Series { name: name.to_owned(), unit: Some(Unit::Microseconds), values };
    let operations: usize = sizes.values().map(Vec::len).sum();
    let numbers = sizes.keys().map(|size| Bytes(*size)).collect();
    let (mut least, mut middle) = (Vec::new(), Vec::new());
    for mut times in sizes.into_values() {
        times.sort_by(f64::total_cmp);
        least.push(times.first().copied());
        middle.push(times.get(times.len() / 2).copied());
    }
    Curve {
        what: format!("{kind} in a profile, waiting for other ranks included"),
        ends: Vec::new(),
        sizes: numbers,
        series: vec![series("shortest time", least), series("median time", middle)],
        settings: [("ranks", ranks.to_string()), ("operations", operations.to_string())]
            .map(|(key, value)| (key.to_owned(), value))
            .into(),
    }
}

/// How the time of a GPU is spent, in microseconds.
struct Shares {
    whole: f64,
    communicating: f64,
    exposed: f64,
    idle: f64,
}

impl Shares {
    fn of(computing: Vec<Span>, communicating: Vec<Span>) -> Shares {
        let all = union(computing.iter().chain(&communicating).copied().collect());
        let (computing, communicating) = (union(computing), union(communicating));
        let whole = all.last().map_or(0.0, |last| last.1) - all.first().map_or(0.0, |first| first.0);
        let busy = length(&all);
        Shares {
            whole,
            communicating: length(&communicating),
            // what is covered by communication and by nothing else
            exposed: busy - length(&computing),
            idle: whole - busy,
        }
    }

    fn report(&self, text: &Text, lines: (u32, u32), part: Option<&str>, steps: usize, found: &mut Found) {
        if self.whole <= 0.0 {
            return;
        }
        let i = lines.0 as usize - 1;
        let mut health = Health::default();
        let of = |time: f64| {
            let steps = if steps == 0 { String::new() } else { format!(", {steps} steps") };
            format!("{:.0} % of {:.1} ms{steps}", 100.0 * time / self.whole, self.whole / 1e3)
        };
        let bad = (self.exposed > EXPOSED * self.whole).then_some(Grade::Limit);
        // of a GPU that mostly idles, little that is exposed is no health
        if self.communicating > 0.0 && (bad.is_some() || self.idle <= IDLE * self.whole) {
            health.judge(Area::Overlap, bad, part, "communication that no computing hides takes", &of(self.exposed), i);
        }
        if self.idle > IDLE * self.whole {
            health.trouble(Area::Overlap, Grade::Note, part, "no kernel runs in", &of(self.idle), i);
        }
        health.used(lines.1 as usize - 1);
        health.push(text, TOOL, found);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    const NCCL: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

    fn event(cat: &str, name: &str, from: f64, time: f64, more: &str) -> String {
        format!(
            "{{\"ph\":\"X\",\"cat\":\"{cat}\",\"name\":\"{name}\",\"pid\":0,\"tid\":7,\"ts\":{from},\"dur\":{time},\"args\":{{\"stream\":7{more}}}}}"
        )
    }

    fn all_reduce(from: f64, time: f64, elements: u64) -> String {
        let more = format!(
            ",\"Collective name\":\"allreduce\",\"In msg nelems\":{elements},\"Group size\":2,\"dtype\":\"BFloat16\""
        );
        event("kernel", NCCL, from, time, &more)
    }

    fn profile_of(events: &[String]) -> String {
        format!(
            "{{\n \"schemaVersion\": 1,\n \"deviceProperties\": [\n  {{\"id\": 0, \"name\": \"NVIDIA H200\", \"totalGlobalMem\": 150109880320}}\n ],\n \
             \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": 1, \"world_size\": 2}},\n \"traceEvents\": [\n{}\n ]\n}}\n",
            events.join(",\n")
        )
    }

    #[test]
    fn collectives_gpus_and_what_nothing_hides() {
        let events = [
            event("user_annotation", "ProfilerStep#2", 0.0, 100.0, ""),
            event("cpu_op", "aten::mm", 0.0, 500.0, ""),
            event("kernel", "gemm", 0.0, 40.0, ""),
            // half of it beside the second product
            all_reduce(40.0, 40.0, 1024),
            event("kernel", "gemm", 60.0, 20.0, ""),
            all_reduce(80.0, 20.0, 1024),
        ];
        let found = scanned(scan, &profile_of(&events));
        assert_eq!(found.warnings, []);
        let facts: Vec<Fact> = found.evidence.iter().map(|e| e.fact.clone()).collect();
        let [Fact::Gpus(gpus), Fact::Curve(curve), Fact::Health(report)] = &facts[..] else { panic!("{facts:?}") };
        assert_eq!(gpus[0].name.as_deref(), Some("NVIDIA H200"));
        assert_eq!((curve.sizes.as_slice(), curve.settings["ranks"].as_str()), (&[Bytes(2048)][..], "2"));
        assert_eq!(curve.series[0].values, [Some(20.0)]);
        assert!(curve.main_rates().is_none(), "waiting is no rate");
        let [one] = &report.troubles[..] else { panic!("{report:?}") };
        assert_eq!(one.part.as_deref(), Some("rank 1 of 2"));
        assert_eq!((one.value.as_str(), one.grade), ("40 % of 0.1 ms, 1 steps", Grade::Limit));
    }

    #[test]
    fn hidden_communication_is_sound_and_idle_time_is_said() {
        let hidden = [event("kernel", "gemm", 0.0, 100.0, ""), all_reduce(10.0, 80.0, 1 << 20)];
        let found = scanned(scan, &profile_of(&hidden));
        let Fact::Health(report) = &found.evidence[2].fact else { panic!("{found:?}") };
        assert_eq!((report.sound, report.troubles.len()), (1, 0));
        let idle = [event("kernel", "gemm", 0.0, 10.0, ""), event("kernel", "gemm", 90.0, 10.0, "")];
        let found = scanned(scan, &profile_of(&idle));
        let Fact::Health(report) = &found.evidence[1].fact else { panic!("{found:?}") };
        assert_eq!((report.troubles[0].value.as_str(), report.troubles[0].grade), ("80 % of 0.1 ms", Grade::Note));
        let mostly_idle =
            [event("kernel", "gemm", 0.0, 10.0, ""), all_reduce(0.0, 10.0, 8), event("kernel", "gemm", 90.0, 10.0, "")];
        let found = scanned(scan, &profile_of(&mostly_idle));
        let Fact::Health(report) = &found.evidence[2].fact else { panic!("{found:?}") };
        assert_eq!((report.sound, report.troubles.len()), (0, 1), "idle time is not health");
    }

    #[test]
    fn values_that_are_none_are_left_out_and_a_cut_profile_is_said() {
        let odd = [
            event("kernel", "gemm", 0.0, 10.0, "").replace("\"ts\":0", "\"ts\":\"x\""),
            all_reduce(0.0, 5.0, 8).replace("\"BFloat16\"", "7").replace("\"Group size\":2", "\"Group size\":[]"),
            "{}".to_owned(),
        ];
        let found = scanned(scan, &profile_of(&odd));
        assert_eq!(found.warnings, []);
        let whole = profile_of(&[all_reduce(0.0, 5.0, 8)]);
        let found = scanned(scan, &whole[..whole.len() - 20]);
        assert_eq!((found.evidence.len(), found.warnings.len()), (0, 1));
    }
}
