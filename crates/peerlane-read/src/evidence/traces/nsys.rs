//! What `nsys export --type jsonlines` (earlier `json`) writes: one event a line, and a table of its names. Kernels, copies, calls of the
//! host and NVTX ranges become records; NCCL's kernels are known by their names, without bytes.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;

use super::streams::{Call, CallKind, Kept, Kernel, Known, recording};
use super::{Recording, Span, is_collective_kernel, utf8, whole};
use crate::evidence::from_json;

/// The most names of NVTX ranges that are kept separate.
const MOST_RANGES: usize = 4096;

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "CudaEvent")]
    on_gpu: Option<OnGpu>,
    #[serde(rename = "TraceProcessEvent")]
    call: Option<OnHost>,
    #[serde(rename = "NvtxEvent")]
    range: Option<Range>,
    /// All names at once; later lists are what the program printed.
    #[serde(default)]
    data: Value,
    /// One name, as `--separate-strings` writes it.
    #[serde(default)]
    id: Value,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OnGpu {
    #[serde(default)]
    start_ns: Value,
    #[serde(default)]
    end_ns: Value,
    #[serde(default)]
    correlation_id: Value,
    #[serde(default)]
    global_pid: Value,
    #[serde(default)]
    device_id: Value,
    #[serde(default)]
    stream_id: Value,
    kernel: Option<KernelName>,
    memcpy: Option<serde::de::IgnoredAny>,
    memset: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KernelName {
    #[serde(default)]
    short_name: Value,
    #[serde(default)]
    demangled_name: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OnHost {
    #[serde(default)]
    start_ns: Value,
    #[serde(default)]
    end_ns: Value,
    #[serde(default)]
    correlation_id: Value,
    #[serde(default)]
    global_tid: Value,
    #[serde(default)]
    name: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Range {
    #[serde(default)]
    timestamp: Value,
    #[serde(default)]
    end_timestamp: Value,
    #[serde(default)]
    text_id: Value,
    text: Option<String>,
    #[serde(default)]
    global_tid: Value,
}

/// Microseconds of a span in ns.
fn span(from: &Value, to: &Value) -> Option<Span> {
    let (from, to) = (whole(from)?, whole(to)?);
    (to >= from).then_some((from as f64 / 1e3, to as f64 / 1e3))
}

/// The process of a global number of a process or a thread.
fn process(global: &Value) -> u64 {
    whole(global).unwrap_or_default() >> 24
}

/// What a name is by: a number of the table, or itself.
enum Name {
    Number(u64),
    Text(String),
}

impl Name {
    fn of(value: &Value) -> Option<Self> {
        match (whole(value), value) {
            (Some(number), _) => Some(Name::Number(number)),
            (None, Value::String(text)) => Some(Name::Text(text.clone())),
            _ => None,
        }
    }

    fn text<'a>(&'a self, names: &'a HashMap<u64, String>) -> &'a str {
        match self {
            Name::Number(number) => names.get(number).map_or("", String::as_str),
            Name::Text(text) => text,
        }
    }
}

/// What is read so far; names may come after what they name.
#[derive(Default)]
struct All {
    names: HashMap<u64, String>,
    kernels: Vec<(u64, u64, Kernel, Option<Name>)>,
    calls: Vec<(u64, Call, Name)>,
    ranges: Vec<(u64, Span, Name)>,
}

impl All {
    fn take(&mut self, line: Line) {
        if let Some(on_gpu) = line.on_gpu
            && let Some(span) = span(&on_gpu.start_ns, &on_gpu.end_ns)
            && (on_gpu.kernel.is_some() || on_gpu.memcpy.is_some() || on_gpu.memset.is_some())
        {
            let device = whole(&on_gpu.device_id).unwrap_or_default();
            let lane = (device, whole(&on_gpu.stream_id).unwrap_or_default());
            let correlation = whole(&on_gpu.correlation_id).filter(|number| *number > 0);
            let kernel = Kernel { lane, span, correlation, name: String::new(), communicates: None };
            let name =
                on_gpu.kernel.and_then(|names| Name::of(&names.short_name).or_else(|| Name::of(&names.demangled_name)));
            self.kernels.push((process(&on_gpu.global_pid), device, kernel, name));
        }
        if let Some(call) = line.call
            && let Some(span) = span(&call.start_ns, &call.end_ns)
            && let Some(name) = Name::of(&call.name)
        {
            let correlation = whole(&call.correlation_id).filter(|number| *number > 0);
            let call_of = Call { span, correlation, kind: CallKind::Launch };
            self.calls.push((process(&call.global_tid), call_of, name));
        }
        if let Some(range) = line.range
            && let Some(span) = span(&range.timestamp, &range.end_timestamp)
            && let Some(name) = range.text.map(Name::Text).or_else(|| Name::of(&range.text_id))
        {
            self.ranges.push((process(&range.global_tid), span, name));
        }
        if let (Value::Array(names), true) = (line.data, self.names.is_empty()) {
            self.names
                .extend((0..).zip(names).map(|(number, name)| (number, name.as_str().unwrap_or_default().to_owned())));
        }
        if let (Some(number), Some(name)) = (whole(&line.id), line.value) {
            self.names.insert(number, name);
        }
    }

    fn count(&self) -> usize {
        self.kernels.len() + self.calls.len() + self.ranges.len()
    }
}

/// A rank for each GPU of each process.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Recording>, String> {
    let text = utf8(bytes)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    let mut all = All::default();
    for (i, line) in (1..).zip(text.lines().filter(|line| !line.trim().is_empty())) {
        match from_json::<Line>(line) {
            Ok(line) => all.take(line),
            Err(error) if i == lines && error.is_eof() => {
                return Err(
                    "an export of Nsight Systems whose last line is cut off: export or copy it again".to_owned()
                );
            }
            Err(error) => return Err(format!("an export of Nsight Systems: line {i}: {error}")),
        }
        if all.count() > 2 * super::MOST_RECORDS {
            let most = 2 * super::MOST_RECORDS;
            return Err(format!("more than {most} events, which is the most that are read: profile fewer steps"));
        }
    }
    if all.kernels.is_empty() {
        return Err("an export of Nsight Systems without a kernel: profile with --trace=cuda,nvtx".to_owned());
    }
    if all.names.is_empty() && all.kernels.iter().any(|(.., name)| matches!(name, Some(Name::Number(_)))) {
        return Err("an export of Nsight Systems without its table of names, which is the first or the last line: it is cut off, or \
                    lines were taken out; export it again"
            .to_owned());
    }
    Ok(recordings(all))
}

fn recordings(all: All) -> Vec<Recording> {
    let All { names, kernels, calls, ranges } = all;
    let mut gpus: BTreeMap<(u64, u64), Kept> = BTreeMap::new();
    for (process, device, mut kernel, name) in kernels {
        let name = name.as_ref().map_or("", |name| name.text(&names));
        if is_collective_kernel(name) {
            kernel.communicates = Some(Known::TimeAlone);
            kernel.name = name.chars().take(80).collect();
        }
        gpus.entry((process, device)).or_default().kernels.push(kernel);
    }
    for (process, mut call, name) in calls {
        let Some(kind) = CallKind::of(name.text(&names)) else { continue };
        call.kind = kind;
        gpus.range_mut((process, 0)..=(process, u64::MAX)).for_each(|(_, kept)| kept.host.push(call.clone()));
    }
    let mut longest: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for (process, span, name) in &ranges {
        let name = name.text(&names);
        if is_step(name) {
            let of_process = gpus.range_mut((*process, 0)..=(*process, u64::MAX));
            for (_, kept) in of_process {
                kept.steps.insert(name.to_owned(), *span);
            }
        } else if !name.is_empty() && (longest.len() < MOST_RANGES || longest.contains_key(name)) {
            let (count, time) = longest.entry(name).or_default();
            *count += 1;
            *time += span.1 - span.0;
        }
    }
    let mut longest: Vec<(&str, (usize, f64))> = longest.into_iter().collect();
    longest.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    let ranges: Vec<String> = longest
        .iter()
        .take(3)
        .map(|(name, (count, time))| {
            let name: String = name.chars().take(40).collect();
            format!("'{name}' {count} times, {:.3} ms", time / 1e3)
        })
        .collect();
    let mut all = Vec::with_capacity(gpus.len());
    for kept in gpus.into_values() {
        let mut notes = Vec::new();
        if all.is_empty() && !ranges.is_empty() {
            notes.push(format!("NVTX ranges that took longest on the host: {}.", ranges.join("; ")));
        }
        all.push(recording(kept, notes));
    }
    all
}

/// Whether a range's name is a step's, as `step 7`, `iteration_3` or `ProfilerStep#2`.
fn is_step(name: &str) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let word = plain.trim_end_matches([' ', '_', '#', ':', '-', '=']).to_ascii_lowercase();
    plain.len() < name.len() && ["step", "iter", "iteration", "train_step", "profilerstep"].contains(&word.as_str())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{What, described, join};
    use super::*;
    use peerlane_machine::transfer::Collective;

    const NAMES: &str = "{\"data\":[\"[Unknown]\",\"gemm\",\"ncclDevKernel_AllReduce_Sum_bf16_RING_LL\",\"cudaLaunchKernel_v7000\",\"step 1\"]}\n";

    fn kernel(process: u64, name: u32, stream: u32, from: u64, to: u64, correlation: u32) -> String {
        let pid = process << 24;
        format!(
            "{{\"Type\":79,\"CudaEvent\":{{\"startNs\":\"{from}\",\"endNs\":\"{to}\",\"correlationId\":{correlation},\"globalPid\":\"{pid}\",\
             \"deviceId\":0,\"contextId\":1,\"streamId\":{stream},\"eventClass\":3,\"kernel\":{{\"demangledName\":\"{name}\",\"shortName\":\"{name}\"}}}}}}\n\
             {{\"Type\":48,\"TraceProcessEvent\":{{\"startNs\":\"{}\",\"endNs\":\"{}\",\"correlationId\":{correlation},\"globalTid\":\"{}\",\
             \"eventClass\":0,\"name\":\"3\"}}}}\n",
            correlation * 10,
            correlation * 10 + 5,
            pid + 7
        )
    }

    /// Two processes: each a product, then a sum beside the next product.
    pub(in super::super) fn export() -> String {
        let rank = |process| {
            [
                kernel(process, 1, 7, 1_000, 51_000, 1),
                kernel(process, 2, 20, 51_000, 131_000, 2),
                kernel(process, 1, 7, 51_000, 91_000, 3),
                format!(
                    "{{\"Type\":59,\"NvtxEvent\":{{\"Type\":59,\"Timestamp\":\"5\",\"EndTimestamp\":\"140000\",\"TextId\":\"4\",\"GlobalTid\":\"{}\",\"DomainId\":\"0\",\"NsTime\":true}}}}\n",
                    process << 24
                ),
            ]
            .concat()
        };
        [NAMES.to_owned(), rank(5), rank(6)].concat()
    }

    #[test]
    fn each_process_is_a_rank_and_communication_keeps_its_time() {
        let ranks = read(export().as_bytes()).unwrap();
        assert_eq!(ranks.len(), 2);
        let one = &ranks[0];
        assert_eq!((one.steps, one.records.len()), (1, 3));
        assert_eq!(one.records[2].what, What::Known(80e-6, Some(Collective::AllReduce)));
        assert_eq!((one.records[1].after.as_slice(), one.records[2].after.as_slice()), (&[0_u32][..], &[0_u32][..]));
        let split = one.recorded.unwrap();
        let us = [split.time, split.computing, split.communication, split.exposed].map(|s| (s * 1e6).round());
        assert_eq!(us, [130.0, 90.0, 80.0, 40.0]);
        assert_eq!(join(ranks, 2).unwrap().ranks, 2);
        let what = described("p.jsonl", "p.jsonl", export().as_bytes(), false).unwrap();
        assert!(what.starts_with("an export of Nsight Systems, 2 ranks, 6 records"), "{what}");
        assert!(what.contains("1 all-reduce, 0.080 ms") && what.contains("0.040 ms exposed"), "{what}");
    }

    #[test]
    fn names_may_come_last_or_one_by_one() {
        let whole = export();
        let events = whole.strip_prefix(NAMES).unwrap();
        let last = format!("{events}{NAMES}");
        assert_eq!(read(last.as_bytes()).unwrap(), read(whole.as_bytes()).unwrap());
        let one = "{\"type\":\"String\",\"id\":\"2\",\"value\":\"ncclDevKernel_AllReduce_Sum_bf16_RING_LL\"}\n";
        let separate = read(format!("{events}{one}").as_bytes()).unwrap();
        assert!(matches!(separate[0].records[2].what, What::Known(..)), "{separate:?}");
    }

    #[test]
    fn what_is_cut_or_lacks_something_is_said() {
        let whole = export();
        let refused = |text: &str| read(text.as_bytes()).unwrap_err();
        assert!(refused(&whole[..whole.len() - 9]).contains("last line is cut off"));
        assert!(refused(whole.strip_prefix(NAMES).unwrap()).contains("without its table of names"));
        assert!(refused(NAMES).contains("without a kernel: profile with --trace=cuda,nvtx"));
        assert!(refused(&format!("{whole}x\n{{}}")).contains("an export of Nsight Systems: line 16"));
    }
}
