//! Reads the JSON that nccl-tests write with `-J FILE` (since 2.17; `src/util.cu`).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::nccl_tests::command;
use super::{Curve, Fact, Found, GpuFacts, NcclLog, Series, Text, Unit, json};
use peerlane_machine::units::Bytes;

const TOOL: &str = "nccl-tests -J";

/// More GPUs than a process drives.
const MAX_GPUS: u32 = 64;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["\"nccl_version\""]) {
        return;
    }
    json::documents(text, "version", "", |lines, read: Result<Report, _>| match read {
        Ok(report) => take(text, lines, report, found),
        Err(error) => found.warn(text, TOOL, lines, format!("the JSON cannot be read: {error}")),
    });
}

/// What is used of a report. A program that ends early leaves the rest out.
#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    /// 22809 is 2.28.9.
    nccl_version: u32,
    config: Option<Config>,
    #[serde(default)]
    results: Vec<Row>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default = "one")]
    nthreads: u32,
    #[serde(default = "one")]
    ngpus: u32,
    /// The first rank of each process.
    #[serde(default)]
    devices: Vec<Device>,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
struct Device {
    hostname: String,
    device: u32,
    #[serde(default)]
    device_hex: String,
    #[serde(default)]
    device_info: String,
}

#[derive(Deserialize)]
struct Row {
    size: u64,
    out_of_place: Option<Cells>,
    in_place: Option<Cells>,
}

#[derive(Deserialize)]
struct Cells {
    time: Option<f64>,
    cpu_time: Option<f64>,
    alg_bw: Option<f64>,
    bus_bw: Option<f64>,
    nwrong: Option<f64>,
}

fn take(text: &Text, lines: (u32, u32), report: Report, found: &mut Found) {
    let version = report.nccl_version;
    let variable = |v: &String| v.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let log = NcclLog {
        version: Some(format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)),
        variables: report.env.iter().filter_map(variable).filter(|(name, _)| name.starts_with("NCCL_")).collect(),
        hosts: 1,
        ..NcclLog::default()
    };
    if !log.variables.is_empty() {
        found.push(text, TOOL, lines, Fact::NcclLog(log));
    }
    let mut settings = BTreeMap::new();
    let mut ends = Vec::new();
    if let Some(config) = &report.config {
        let each = config.nthreads.max(1).saturating_mul(config.ngpus.max(1)).min(MAX_GPUS);
        let hosts: std::collections::BTreeSet<&str> = config.devices.iter().map(|d| d.hostname.as_str()).collect();
        let ranks = config.devices.len() as u64 * u64::from(each);
        if ranks > 0 {
            settings.insert("ranks".to_owned(), ranks.to_string());
            settings.insert("hosts".to_owned(), hosts.len().to_string());
        }
        // device numbers of several hosts would be mixed up
        if hosts.len() == 1 {
            let gpu = |d: &Device| GpuFacts {
                address: d.device_hex.parse().ok(),
                ..GpuFacts::listed(d.device, d.device_info.trim())
            };
            found.push(text, TOOL, lines, Fact::Gpus(config.devices.iter().map(gpu).collect()));
            // a process has its devices in sequence, and lists the first
            let of = |d: &Device| (d.device..d.device.saturating_add(each)).map(|n| format!("GPU{n}"));
            ends = config.devices.iter().flat_map(of).collect();
        }
    }
    let what = report.args.first().and_then(|program| command(program)).unwrap_or("nccl-tests").to_owned();
    let sizes: Vec<Bytes> = report.results.iter().map(|row| Bytes(row.size)).collect();
    if sizes.is_empty() {
        found.warn(text, TOOL, lines, "no results; the program may have been stopped");
        return;
    }
    type OfRow = fn(&Row) -> Option<&Cells>;
    type OfCells = fn(&Cells) -> Option<f64>;
    let places: [(&str, OfRow); 2] =
        [("out-of-place", |row| row.out_of_place.as_ref()), ("in-place", |row| row.in_place.as_ref())];
    let columns: [(&str, Option<Unit>, OfCells); 4] = [
        ("time", Some(Unit::Microseconds), |c| c.time.or(c.cpu_time)),
        ("algbw", Some(Unit::GigabytesPerSecond), |c| c.alg_bw),
        ("busbw", Some(Unit::GigabytesPerSecond), |c| c.bus_bw),
        ("wrong", None, |c| c.nwrong),
    ];
    let mut series = Vec::new();
    for (place, cells) in places {
        for (name, unit, value) in columns {
            let values = report.results.iter().map(|row| cells(row).and_then(value)).collect();
            series.push(Series { name: format!("{name} {place}"), unit, values });
        }
    }
    found.push(text, TOOL, lines, Fact::Curve(Curve { what, ends, sizes, series, settings }));
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn report(devices: &str, ngpus: u32) -> String {
        format!(
            "{{\"version\":1,\"start_time\":\"2025-06-01 10:00:00\",\"args\":[\"./build/all_reduce_perf\",\"-J\",\"o.json\"],\
             \"env\":[\"HOME=/root\",\"NCCL_P2P_DISABLE=1\"],\"nccl_version\":22809,\
             \"config\":{{\"nthreads\":1,\"ngpus\":{ngpus},\"minimum_bytes\":8,\"devices\":[{devices}]}},\
             \"results\":[{{\"size\":1048576,\"count\":262144,\"type\":\"float\",\"redop\":\"sum\",\"root\":\"    -1\",\
             \"out_of_place\":{{\"time\":20.5,\"alg_bw\":51.1,\"bus_bw\":89.5,\"nwrong\":0}},\
             \"in_place\":{{\"time\":21,\"alg_bw\":50,\"bus_bw\":87.5,\"nwrong\":null}},\"actual_iterations\":20}}],\
             \"out_of_bounds\":{{\"count\":0,\"okay\":true}}}}\n"
        )
    }

    fn device(rank: u32, host: &str, number: u32) -> String {
        format!(
            "{{\"rank\":{rank},\"group\":0,\"pid\":7,\"hostname\":\"{host}\",\"device\":{number},\
             \"device_hex\":\"0000:{:02x}:00\",\"device_info\":\"NVIDIA H100 80GB HBM3\"}}",
            0x18 + number
        )
    }

    fn curve(found: &Found) -> &Curve {
        found.evidence.iter().find_map(|e| if let Fact::Curve(c) = &e.fact { Some(c) } else { None }).unwrap()
    }

    #[test]
    fn eight_gpus_of_one_process() {
        let found = scanned(scan, &("$ cat o.json\n".to_owned() + &report(&device(0, "n1", 0), 8)));
        assert_eq!(found.warnings, []);
        let c = curve(&found);
        assert_eq!(
            (c.what.as_str(), c.settings["ranks"].as_str(), c.settings["hosts"].as_str()),
            ("all_reduce_perf", "8", "1")
        );
        assert_eq!((c.ends.len(), c.ends[7].as_str(), c.sizes[0]), (8, "GPU7", Bytes(1 << 20)));
        assert_eq!((c.series[2].name.as_str(), c.series[2].values[0]), ("busbw out-of-place", Some(89.5)));
        assert_eq!((c.series[7].name.as_str(), c.series[7].values[0]), ("wrong in-place", None));
        let Fact::NcclLog(log) = &found.evidence[0].fact else { panic!() };
        assert_eq!((log.release(), log.variables["NCCL_P2P_DISABLE"].as_str()), (Some((2, 28)), "1"));
        assert_eq!(log.variables.len(), 1, "others are private");
    }

    #[test]
    fn a_process_for_each_gpu_and_two_hosts() {
        let devices = |hosts: [&str; 2]| [device(0, hosts[0], 0), device(1, hosts[1], 1)].join(",");
        let one = scanned(scan, &report(&devices(["n1", "n1"]), 1));
        let gpus = one.evidence.iter().find_map(|e| if let Fact::Gpus(g) = &e.fact { Some(g) } else { None }).unwrap();
        assert_eq!((gpus.len(), gpus[1].address.unwrap().bus), (2, 0x19));
        assert_eq!(curve(&one).ends, ["GPU0", "GPU1"]);
        let two = scanned(scan, &report(&devices(["n1", "n2"]), 1));
        assert_eq!((curve(&two).settings["hosts"].as_str(), curve(&two).ends.len()), ("2", 0));
    }

    #[test]
    fn what_is_cut_or_other_is_named_and_not_used() {
        let whole = report(&device(0, "n1", 0), 2);
        let cut = scanned(scan, &whole[..whole.len() / 2]);
        assert_eq!((cut.evidence.len(), cut.warnings.len()), (0, 1));
        assert_eq!(scanned(scan, "{\"version\": \"1.0\", \"name\": \"x\"}"), Found::default());
    }
}
