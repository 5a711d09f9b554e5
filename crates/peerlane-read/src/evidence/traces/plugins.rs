//! What NCCL's profiler plugins write: the Inspector's JSON lines (`plugins/profiler/inspector`), and the events of the example plugin,
//! a list for chrome://tracing (`plugins/profiler/example`).

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::{Deserializer, Value};

use super::operations::Operation;
use crate::evidence::from_json;
use peerlane_machine::one_line;

#[derive(Deserialize)]
struct Logged {
    header: Header,
    metadata: Option<Metadata>,
    coll_perf: Option<Collective>,
    p2p_perf: Option<Message>,
}

#[derive(Deserialize)]
struct Header {
    id: String,
    rank: u32,
    n_ranks: u32,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    pid: u64,
}

#[derive(Deserialize)]
struct Collective {
    coll: String,
    #[serde(default)]
    coll_sn: u64,
    coll_msg_size_bytes: u64,
    #[serde(default)]
    coll_exec_time_us: f64,
    event_trace_ts: Option<Times>,
}

#[derive(Deserialize)]
struct Message {
    p2p: String,
    #[serde(default)]
    p2p_sn: u64,
    p2p_peer: Option<u32>,
    p2p_msg_size_bytes: u64,
    #[serde(default)]
    p2p_exec_time_us: f64,
    event_trace_ts: Option<Times>,
}

#[derive(Deserialize)]
struct Times {
    #[serde(alias = "coll_start_ts", alias = "p2p_start_ts")]
    start: f64,
    #[serde(default)]
    kernel_events: Vec<OfKernel>,
}

#[derive(Deserialize)]
struct OfKernel {
    #[serde(default)]
    kernel_start_ts: f64,
}

impl Times {
    /// When the first channel's kernel began, or else when it was enqueued; in seconds.
    fn began(&self) -> f64 {
        let kernels = self.kernel_events.iter().map(|of| of.kernel_start_ts).filter(|at| *at > 0.0);
        kernels.reduce(f64::min).unwrap_or(self.start) / 1e6
    }
}

/// Reads the Inspector's lines.
pub(super) fn inspected(text: &str) -> Result<Vec<Operation>, String> {
    let mut found: Vec<Operation> = Vec::new();
    let mut documents = Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    let mut from = 0;
    while let Some(document) = documents.next() {
        let at = found.len() + 1;
        let why = |error: serde_json::Error| match error.is_eof() {
            true => format!("NCCL Inspector's operation {at} is cut off: copy the file again when the job has ended"),
            false => format!("NCCL Inspector's operation {at}: {error}"),
        };
        document.map_err(why)?;
        let written = text.get(from..documents.byte_offset()).unwrap_or_default();
        from = documents.byte_offset();
        let logged: Logged = one_line::read(&mut Deserializer::from_str(written)).map_err(why)?;
        let process = logged.metadata.map(|of| format!("{}:{:08}", of.hostname, of.pid));
        let of_header = |name: String, number, bytes, peer, us: f64, times: Option<Times>| Operation {
            process: process.unwrap_or_else(|| format!("rank {:06}", logged.header.rank)),
            communicator: logged.header.id,
            rank: logged.header.rank,
            ranks: Some(logged.header.n_ranks),
            name,
            bytes,
            peer,
            number,
            start: times.map(|times| times.began()).filter(|at| at.is_finite()),
            took: if us.is_finite() { us.max(0.0) / 1e6 } else { 0.0 },
        };
        found.extend(match (logged.coll_perf, logged.p2p_perf) {
            (Some(c), _) => {
                let (bytes, us) = (c.coll_msg_size_bytes, c.coll_exec_time_us);
                Some(of_header(c.coll, c.coll_sn, bytes, None, us, c.event_trace_ts))
            }
            (None, Some(p)) => {
                let (bytes, us) = (p.p2p_msg_size_bytes, p.p2p_exec_time_us);
                Some(of_header(p.p2p, p.p2p_sn, bytes, p.p2p_peer, us, p.event_trace_ts))
            }
            (None, None) => None,
        });
        too_many(found.len())?;
    }
    Ok(found)
}

fn too_many(operations: usize) -> Result<(), String> {
    match operations > super::MOST_RECORDS {
        true => Err(format!("more than {} operations, which is the most that are read", super::MOST_RECORDS)),
        false => Ok(()),
    }
}

/// An event of the plugin's.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    name: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    ph: String,
    #[serde(default)]
    id: u64,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    args: Arguments,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct Arguments {
    #[serde(default)]
    seq_num: u64,
    #[serde(default)]
    comm_hash: Value,
    #[serde(default)]
    rank: u32,
    peer: Option<u32>,
    #[serde(default)]
    count: u64,
    #[serde(default)]
    datatype: String,
}

/// Reads the events of the example plugin. Times of kernels are those of operations, where there are any.
pub(super) fn events(text: &str) -> Result<Vec<Operation>, String> {
    let events: Vec<Event> = from_json(text).map_err(|error| match error.is_eof() {
        true => {
            "events of NCCL's profiler plugin that are cut off: the plugin ends its file when the job ends".to_owned()
        }
        false => format!("events of NCCL's profiler plugin that cannot be read: {error}"),
    })?;
    too_many(events.len())?;
    let mut found: Vec<Operation> = Vec::new();
    // what is under way: its place, and from when to when its kernels ran
    let mut open: HashMap<(String, u64), usize> = HashMap::new();
    let mut current: Option<usize> = None;
    let mut kernels: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    let mut numbers: HashMap<(String, u32), u64> = HashMap::new();
    for event in events {
        let of_operation = matches!(event.cat.as_str(), "COLL" | "P2P");
        match event.ph.as_str() {
            "b" if of_operation => {
                let width = width(&event.args.datatype).ok_or_else(|| {
                    let Event { name, args, .. } = &event;
                    format!("{name} {}: datatype '{}' is none of NCCL's", args.seq_num, args.datatype)
                })?;
                let communicator = event.args.comm_hash.to_string();
                // messages have no numbers
                let next = numbers.entry((communicator.clone(), event.args.rank)).or_default();
                *next += 1;
                let number = if event.cat == "COLL" { event.args.seq_num } else { *next };
                open.insert((event.cat, event.id), found.len());
                current = Some(found.len());
                found.push(Operation {
                    process: format!("{:08}", event.pid),
                    communicator,
                    rank: event.args.rank,
                    ranks: None,
                    name: event.name,
                    bytes: event.args.count.saturating_mul(width),
                    peer: event.args.peer,
                    number,
                    start: Some(event.ts / 1e6),
                    took: 0.0,
                });
            }
            "e" if of_operation => {
                if let Some(place) = open.remove(&(event.cat, event.id)) {
                    let one = &mut found[place];
                    // without kernels, the end is that of enqueueing
                    if let Some((from, to)) = kernels.get(&place).copied() {
                        one.start = Some(from / 1e6).filter(|at| at.is_finite());
                        one.took = if (to - from).is_finite() { (to - from).max(0.0) / 1e6 } else { 0.0 };
                    }
                }
                current = None;
            }
            "b" | "e" if event.cat == "GPU" && event.ts > 0.0 => {
                if let Some(place) = current {
                    let of = kernels.entry(place).or_insert((f64::INFINITY, f64::NEG_INFINITY));
                    *of = (of.0.min(event.ts), of.1.max(event.ts));
                }
            }
            _ => {}
        }
    }
    if found.is_empty() {
        return Err("events of NCCL's profiler plugin without a collective: set NCCL_PROFILE_EVENT_MASK so that it has 2 (collectives), \
                    4 (messages) and 64 (kernels)"
            .to_owned());
    }
    Ok(found)
}

/// Bytes of an element.
fn width(datatype: &str) -> Option<u64> {
    Some(match datatype.strip_prefix("nccl")?.to_ascii_lowercase().as_str() {
        "int8" | "uint8" | "char" | "float8e4m3" | "float8e5m2" => 1,
        "float16" | "bfloat16" | "half" => 2,
        "int32" | "uint32" | "int" | "float32" | "float" => 4,
        "int64" | "uint64" | "float64" | "double" => 8,
        _ => return None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::operations::recordings;
    use super::super::{Act, join, open};
    use super::*;
    use peerlane_machine::transfer;

    /// What a rank of two logs: an all-reduce of 1 MiB and an all-gather.
    pub(in super::super) fn inspected_rank(rank: u32, more: &str) -> String {
        let one = |coll: &str, number: u32, bytes: u64, start: u64| {
            let times = if more.is_empty() {
                String::new()
            } else {
                format!(
                    ",\"event_trace_ts\":{{\"coll_start_ts\":{start},\"coll_stop_ts\":{},\"kernel_events\":[]}}",
                    start + 100
                )
            };
            format!(
                "{{\"header\":{{\"id\":\"0x7f\",\"comm_name\":\"unknown\",\"rank\":{rank},\"n_ranks\":2,\"nnodes\":1}},\"metadata\":{{\
                 \"inspector_output_format_version\":\"v4.0\",\"dump_timestamp_us\":9,\"hostname\":\"n1\",\"pid\":{}}},\"coll_perf\":{{\
                 \"coll\":\"{coll}\",\"coll_sn\":{number},\"coll_msg_size_bytes\":{bytes},\"coll_exec_time_us\":100,\
                 \"coll_timing_source\":\"kernel_gpu\",\"coll_algobw_gbs\":1,\"coll_busbw_gbs\":1{times}}}}}\n",
                900 - rank
            )
        };
        one("AllReduce", 1, 1 << 20, 1_000) + &one("AllGather", 2, 4096, 1_300)
    }

    #[test]
    fn processes_become_ranks_and_sizes_those_of_nccl_tests() {
        let text = inspected_rank(0, "times") + &inspected_rank(1, "times");
        let all = recordings(inspected(&text).unwrap(), "x").unwrap();
        assert_eq!((all.len(), all[0].rank, all[0].world), (2, Some(0), Some(2)));
        assert!((all[0].records[1].delay - 200e-6).abs() < 1e-12, "{:?}", all[0].records);
        assert!((all[0].recorded.unwrap().time - 400e-6).abs() < 1e-12);
        let joined = join(all, 2).unwrap();
        let gather = transfer::Collective::AllGather;
        let is = |act: &Act| matches!(act, Act::Collective { collective, bytes: 8192, .. } if *collective == gather);
        assert_eq!(joined.acts.iter().filter(|act| is(act)).count(), 1, "{joined:?}");
        // without starts, they follow each other
        let bare = recordings(inspected(&(inspected_rank(0, "") + &inspected_rank(1, ""))).unwrap(), "x").unwrap();
        assert_eq!((bare[0].records[1].after.as_slice(), bare[0].records[1].delay), (&[0_u32][..], 0.0));
        assert!(bare[0].recorded.is_none() && bare[0].notes[0].contains("NCCL_INSPECTOR_DUMP_VERBOSE=1"));
        // one process alone stands for all
        let one = recordings(inspected(&inspected_rank(1, "")).unwrap(), "x").unwrap();
        assert_eq!(join(one, 8).unwrap().ranks, 2);
    }

    #[test]
    fn a_rank_that_nothing_is_recorded_of_is_named() {
        let text = inspected_rank(0, "") + &inspected_rank(2, "");
        let text = text.replace("\"n_ranks\":2", "\"n_ranks\":4");
        let all = recordings(inspected(&text).unwrap(), "x").unwrap();
        assert!(join(all, 4).unwrap_err().to_string().contains("ranks 1, 3 of 4 missing"));
        let part = inspected_rank(0, "")
            + &inspected_rank(1, "").replace("0x7f", "0x99").replace("\"n_ranks\":2", "\"n_ranks\":9");
        let why = recordings(inspected(&part).unwrap(), "x").unwrap_err();
        assert!(why.contains("give the files of all processes"), "{why}");
        let cut = inspected(&text[..text.len() - 5]).unwrap_err();
        assert!(cut.contains("operation 4 is cut off"), "{cut}");
    }

    fn plugin(rank: u32) -> String {
        format!(
            "[\n{{\"name\": \"Group\", \"cat\": \"GROUP\", \"ph\": \"b\", \"id\": 0, \"pid\": {pid}, \"tid\": 1, \"ts\": 5.0, \"args\": {{\"groupId\": 0}}}},\n\
             {{\"name\": \"AllReduce\", \"cat\": \"COLL\", \"ph\": \"b\", \"id\": 0, \"pid\": {pid}, \"tid\": 1, \"ts\": 6.0, \"args\": {{\"SeqNum\": 3, \
             \"CommHash\": 18446744073709551615, \"Rank\": {rank}, \"Count\": 1024, \"Datatype\": \"ncclFloat32\", \"Algorithm\": \"RING\", \"Protocol\": \
             \"LL\", \"nChannels\": 2}}}},\n\
             {{\"name\": \"KernelCh\", \"cat\": \"GPU\", \"ph\": \"b\", \"id\": 0, \"pid\": {pid}, \"tid\": 1, \"ts\": 20.0, \"args\": {{\"Channel\": 0, \"StartGpuClk\": 1, \"StopGpuClk\": 2}}}},\n\
             {{\"name\": \"KernelCh\", \"cat\": \"GPU\", \"ph\": \"e\", \"id\": 0, \"pid\": {pid}, \"tid\": 1, \"ts\": 50.0}},\n\
             {{\"name\": \"AllReduce\", \"cat\": \"COLL\", \"ph\": \"e\", \"id\": 0, \"pid\": {pid}, \"tid\": 1, \"ts\": 60.0}},\n{{}}]\n",
            pid = 77 + rank
        )
    }

    #[test]
    fn events_of_the_plugin_in_a_file_a_rank() {
        let one = events(&plugin(0)).unwrap();
        assert_eq!((one[0].bytes, one[0].number, one[0].name.as_str()), (4096, 3, "AllReduce"));
        assert!((one[0].took - 30e-6).abs() < 1e-12 && one[0].start == Some(20e-6), "{one:?}");
        let folder = std::env::temp_dir().join(format!("peerlane-plugin-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for rank in 0..2 {
            std::fs::write(folder.join(format!("p_184_{rank}.json")), plugin(rank)).unwrap();
        }
        let joined = join(open(std::slice::from_ref(&folder)).unwrap(), 2).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((joined.ranks, joined.groups), (2, vec![vec![0, 1]]));
        let enqueued = events(&plugin(0).replace("\"GPU\"", "\"PROXY\"")).unwrap();
        assert_eq!((enqueued[0].took, enqueued[0].start), (0.0, Some(6e-6)));
        let alone = recordings(enqueued, "x").unwrap();
        assert!(alone[0].recorded.is_none() && alone[0].notes.iter().any(|note| note.contains("how long it took")));
        assert!(events(&plugin(0)[..80]).unwrap_err().contains("cut off"));
        assert!(events("[\n{}]\n").unwrap_err().contains("NCCL_PROFILE_EVENT_MASK"));
    }
}
