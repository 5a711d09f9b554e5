//! Reads what NCCL's Inspector writes of a running job: JSON, one object for each collective and rank, and the text that
//! Prometheus collects (NCCL's `plugins/profiler/inspector`, until 2.28 `ext-profiler/inspector`).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::text::Span;
use super::{Curve, Fact, Found, RateRow, RateTable, Series, Text, Unit, json};
use peerlane_machine::units::{Bytes, Rate};

const TOOL: &str = "NCCL Inspector";

/// The most kinds of operations (by collective, ranks and hosts) that are kept separate.
const MAX_KINDS: usize = 256;

/// The most message sizes of one kind.
const MAX_SIZES: usize = 4096;

/// The most rows of Prometheus' text.
const MAX_ROWS: usize = 4096;

pub(super) fn scan(text: &Text, found: &mut Found) {
    objects(text, found);
    prometheus(text, found);
}

#[derive(Deserialize)]
struct Record {
    header: Header,
    coll_perf: Option<Collective>,
    p2p_perf: Option<PointToPoint>,
}

#[derive(Deserialize)]
struct Header {
    n_ranks: u32,
    nnodes: Option<u32>,
}

#[derive(Deserialize)]
struct Collective {
    coll: String,
    coll_msg_size_bytes: u64,
    coll_exec_time_us: Option<f64>,
    coll_algobw_gbs: Option<f64>,
    coll_busbw_gbs: Option<f64>,
}

#[derive(Deserialize)]
struct PointToPoint {
    p2p: String,
    p2p_msg_size_bytes: u64,
    p2p_exec_time_us: Option<f64>,
    p2p_algobw_gbs: Option<f64>,
    p2p_busbw_gbs: Option<f64>,
}

/// Time, algorithm bandwidth and bus bandwidth of each of the operations of one size.
type Samples = [Vec<f64>; 3];

/// Operations of one kind: their message sizes, and where they stand.
#[derive(Default)]
struct Kind {
    sizes: BTreeMap<u64, Samples>,
    lines: Option<(u32, u32)>,
}

fn objects(text: &Text, found: &mut Found) {
    if !text.holds(&["coll_busbw_gbs", "p2p_busbw_gbs"]) {
        return;
    }
    let mut kinds: BTreeMap<(String, u32, Option<u32>), Kind> = BTreeMap::new();
    let mut broken = None;
    json::documents(text, "header", "{", |lines, read: Result<Record, _>| {
        let (name, size, values, header) = match read {
            Ok(Record { header, coll_perf: Some(c), .. }) => {
                (c.coll, c.coll_msg_size_bytes, [c.coll_exec_time_us, c.coll_algobw_gbs, c.coll_busbw_gbs], header)
            }
            Ok(Record { header, p2p_perf: Some(p), .. }) => {
                (p.p2p, p.p2p_msg_size_bytes, [p.p2p_exec_time_us, p.p2p_algobw_gbs, p.p2p_busbw_gbs], header)
            }
            Ok(_) => return,
            Err(error) => {
                broken.get_or_insert((lines, error.to_string()));
                return;
            }
        };
        let key = (name, header.n_ranks, header.nnodes);
        if kinds.len() >= MAX_KINDS && !kinds.contains_key(&key) {
            return;
        }
        let kind = kinds.entry(key).or_default();
        kind.lines = Some((kind.lines.map_or(lines.0, |l| l.0), lines.1));
        if kind.sizes.len() < MAX_SIZES || kind.sizes.contains_key(&size) {
            let samples = kind.sizes.entry(size).or_default();
            for (all, value) in samples.iter_mut().zip(values) {
                all.extend(value.filter(|v| v.is_finite() && *v > 0.0));
            }
        }
    });
    if let Some((lines, error)) = broken {
        found.warn(text, TOOL, lines, format!("an object cannot be read: {error}"));
    }
    for ((name, ranks, hosts), kind) in kinds {
        let lines = kind.lines.unwrap_or_default();
        found.push(text, TOOL, lines, Fact::Curve(curve(&name, ranks, hosts, kind.sizes)));
    }
}

/// The medians by message size.
fn curve(name: &str, ranks: u32, hosts: Option<u32>, sizes: BTreeMap<u64, Samples>) -> Curve {
    const COLUMNS: [(&str, Unit); 3] = [
        ("time", Unit::Microseconds),
        ("algorithm bandwidth", Unit::GigabytesPerSecond),
        ("bus bandwidth", Unit::GigabytesPerSecond),
    ];
    let operations: usize = sizes.values().map(|samples| samples.iter().map(Vec::len).max().unwrap_or_default()).sum();
    let mut series: Vec<Series> = COLUMNS
        .into_iter()
        .map(|(name, unit)| Series { name: name.to_owned(), unit: Some(unit), values: Vec::new() })
        .collect();
    let numbers = sizes.keys().map(|size| Bytes(*size)).collect();
    for samples in sizes.into_values() {
        for (column, values) in series.iter_mut().zip(samples) {
            column.values.push(median(values));
        }
    }
    let known = [
        ("ranks", Some(ranks.to_string())),
        ("hosts", hosts.map(|n| n.to_string())),
        ("operations", Some(operations.to_string())),
    ];
    let settings = known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    Curve { what: format!("{name} of a job"), ends: Vec::new(), sizes: numbers, series, settings }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// `nccl_bus_bandwidth_gbs{…,node="n1",gpu="GPU0",…,collective="AllReduce",message_size="4-5GB",…} 678.263`.
fn prometheus(text: &Text, found: &mut Found) {
    const METRICS: [&str; 2] = ["nccl_bus_bandwidth_gbs{", "nccl_p2p_bus_bandwidth_gbs{"];
    const COLUMNS: [(&str, &[&str]); 6] = [
        ("host", &["node"]),
        ("GPU", &["gpu"]),
        ("operation", &["collective", "p2p_operation"]),
        ("message size", &["message_size"]),
        ("ranks", &["nranks"]),
        ("algorithm", &["algo_proto"]),
    ];
    if !text.holds(&METRICS) {
        return;
    }
    let mut table = RateTable {
        word_columns: COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect(),
        rate_columns: vec!["bus bandwidth".to_owned()],
        rows: Vec::new(),
    };
    let mut lines = Span::default();
    for (i, line) in text.iter() {
        let Some(rest) = METRICS.iter().find_map(|metric| line.trim_start().strip_prefix(metric)) else { continue };
        let Some((labels, value)) = rest.rsplit_once('}') else { continue };
        let rate = value.split_whitespace().next().and_then(|v| v.parse::<f64>().ok()).filter(|v| v.is_finite());
        if table.rows.len() >= MAX_ROWS {
            break;
        }
        let labels: BTreeMap<&str, &str> = labels.split("\",").filter_map(|label| label.split_once("=\"")).collect();
        let word =
            |names: &[&str]| names.iter().find_map(|name| labels.get(name)).map(|w| w.trim_end_matches('"').to_owned());
        table.rows.push(RateRow {
            words: COLUMNS.iter().map(|(_, names)| word(names).unwrap_or_default()).collect(),
            rates: vec![rate.map(Rate::from_gb)],
            line: text.numbers(i, i).0,
        });
        lines.add(i);
    }
    if let Some(lines) = lines.numbers(text) {
        found.push(text, TOOL, lines, Fact::Rates(table));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn object(rank: u32, size: u64, bus: f64) -> String {
        format!(
            "{{\"header\":{{\"id\":\"0x7f\",\"rank\":{rank},\"n_ranks\":8,\"nnodes\":1}},\"metadata\":{{\
             \"inspector_output_format_version\":\"v4.0\",\"hostname\":\"n1\",\"pid\":1}},\"coll_perf\":{{\
             \"coll\":\"AllReduce\",\"coll_sn\":9,\"coll_msg_size_bytes\":{size},\"coll_exec_time_us\":61974,\
             \"coll_timing_source\":\"kernel_gpu\",\"coll_algobw_gbs\":277.2,\"coll_busbw_gbs\":{bus}}}}}\n"
        )
    }

    #[test]
    fn a_median_for_each_size_of_all_ranks() {
        let mut text: String = (0..8).map(|rank| object(rank, 1 << 30, 480.0 + f64::from(rank))).collect();
        text += &object(0, 1 << 20, 90.0);
        text += "{\"header\":{\"id\":\"0x7f\",\"rank\":0,\"n_ranks\":2},\"p2p_perf\":{\"p2p\":\"Send\",\"p2p_sn\":1,\
                 \"p2p_msg_size_bytes\":4096,\"p2p_exec_time_us\":8,\"p2p_algobw_gbs\":0.5,\"p2p_busbw_gbs\":0.5}}\n";
        let found = scanned(scan, &text);
        assert_eq!(found.warnings, []);
        let [Fact::Curve(all), Fact::Curve(send)] =
            &found.evidence.iter().map(|e| e.fact.clone()).collect::<Vec<_>>()[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!((all.what.as_str(), all.settings["ranks"].as_str()), ("AllReduce of a job", "8"));
        assert_eq!(
            (all.settings["operations"].as_str(), all.sizes.as_slice()),
            ("9", &[Bytes(1 << 20), Bytes(1 << 30)][..])
        );
        assert_eq!(all.main_rates().unwrap().values, [Some(90.0), Some(484.0)]);
        assert_eq!(send.what, "Send of a job");
    }

    #[test]
    fn indented_objects_and_a_cut_one() {
        let one = object(0, 4096, 2.0);
        let pretty = one.replace("{\"header", "{\n  \"header").replace(",\"coll_perf", ",\n  \"coll_perf");
        let found = scanned(scan, &(pretty + &one[..60]));
        assert_eq!((found.evidence.len(), found.warnings.len()), (1, 1));
    }

    #[test]
    fn prometheus_text() {
        let line = |metric: &str, kind: &str, value: &str| {
            format!(
                "{metric}{{version=\"v5.1\",slurm_job_id=\"7\",node=\"n1\",gpu=\"GPU0\",comm_name=\"DP {{0}}\",n_nodes=\"1\",\
                 nranks=\"4\",{kind},message_size=\"4-5GB\",algo_proto=\"Ring_ll\"}} {value}\n"
            )
        };
        let text = line("nccl_bus_bandwidth_gbs", "collective=\"AllReduce\"", "678.263")
            + &line("nccl_collective_exec_time_microseconds", "collective=\"AllReduce\"", "9498.47")
            + &line("nccl_p2p_bus_bandwidth_gbs", "p2p_operation=\"Send\"", "464.9")
            + "nccl_bus_bandwidth_gbs{cut\n";
        let found = scanned(scan, &text);
        let Fact::Rates(table) = &found.evidence[0].fact else { panic!() };
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[0].words, ["n1", "GPU0", "AllReduce", "4-5GB", "4", "Ring_ll"]);
        assert_eq!(table.rows[1].words[2], "Send");
        assert_eq!(table.rows[0].rates, [Some(Rate::from_gb(678.263))]);
    }
}
