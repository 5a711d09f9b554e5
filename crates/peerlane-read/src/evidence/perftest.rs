//! Reads the tables of perftest (`ib_write_bw`, `ib_read_bw`, `ib_send_bw`, `ib_*_lat` …), also where a web
//! page has run all lines together.
//!
//! perftest counts MB and MiB alike as 2²⁰ bytes, and Gb as 10⁹ bits.

mod pieces;

use std::collections::BTreeMap;

use super::{Curve, Fact, Found, GpuFacts, Series, Text, Unit};
use peerlane_machine::units::Bytes;

const TOOL: &str = super::tool::PERFTEST;

/// Lines above a table that may hold its settings and the command.
const HEAD_LINES: usize = 60;

/// What a server prints before a client connects.
const WAITING: &str = "Waiting for client to connect";

/// The most lines between that and the rest of its output.
const BANNER: usize = 3;

/// More words than the longest header has; the rest of a line is not searched for its end.
const MAX_HEADER_WORDS: usize = 40;

/// Settings that are kept, as perftest spells them; each has a value of one word.
const SETTINGS: [&str; 10] = [
    "Dual-port",
    "Number of qps",
    "Transport type",
    "Connection type",
    "PCIe relax order",
    "TX depth",
    "CQ Moderation",
    "Mtu",
    "Link type",
    "GID index",
];

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut from = Position { line: 0, byte: 0 };
    text.walk(|i| {
        let start = if i == from.line { from.byte } else { 0 };
        let rest = text.line(i).get(start..).unwrap_or_default();
        let header = rest.match_indices("bytes").find_map(|(at, _)| {
            let at = at - usize::from(rest.get(..at)?.ends_with('#'));
            Some((start + at, Columns::parse(rest.get(at..)?)?))
        });
        let (byte, columns) = header?;
        from = table(text, &from, &Position { line: i, byte }, &columns, found);
        Some(from.line)
    });
    pieces::heads(text, found);
    pieces::rows(text, found);
}

/// A place in the text.
struct Position {
    line: usize,
    byte: usize,
}

/// The columns of a table.
struct Columns {
    /// How many stand before the first measured one: size, iterations, sometimes a service level.
    lead: usize,
    series: Vec<Series>,
    /// Bytes of the header.
    length: usize,
}

impl Columns {
    /// `#bytes #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]`, up to the first number.
    fn parse(header: &str) -> Option<Self> {
        let mut words = Vec::new();
        let mut length = 0;
        for word in header.split_whitespace().take(MAX_HEADER_WORDS) {
            if word.parse::<f64>().is_ok() {
                break;
            }
            length = word.as_ptr() as usize - header.as_ptr() as usize + word.len();
            words.push(word);
        }
        // a document may lose the signs before the titles of the first columns
        let lead = words.iter().take_while(|w| w.starts_with('#') || matches!(**w, "bytes" | "iterations")).count();
        let (mut series, mut name) = (Vec::new(), Vec::new());
        for word in words.get(lead..)? {
            name.push(*word);
            if word.ends_with([']', ')']) || *word == "average" {
                series.push(column(&name.join(" ")));
                name.clear();
            }
        }
        // words that belong to no column: prose that mentions bytes
        (lead >= 2 && !series.is_empty() && name.is_empty()).then_some(Columns { lead, series, length })
    }
}

/// `BW peak[MiB/sec]`.
fn column(words: &str) -> Series {
    let (name, unit) = words.split_once(['[', '(']).unwrap_or((words, ""));
    let unit = match unit.trim_end_matches([']', ')']) {
        "MB/sec" | "MiB/sec" | "MB/s" | "MiB/s" => Some(Unit::MebibytesPerSecond),
        "Gb/sec" | "Gb/s" | "Gbps" => Some(Unit::GigabitsPerSecond),
        "usec" | "us" => Some(Unit::Microseconds),
        _ => None,
    };
    Series { name: name.trim().to_owned(), unit, values: Vec::new() }
}

/// Reads the table whose header is at `header`, its settings from `from` on; returns where it ends.
fn table(text: &Text, from: &Position, header: &Position, columns: &Columns, found: &mut Found) -> Position {
    let (first, head) = head(text, from, header);
    let mut rows = Rows { sizes: Vec::new(), series: columns.series.clone(), lead: columns.lead, short: false };
    let mut end = Position { line: header.line, byte: header.byte + columns.length };
    for i in header.line..text.len() {
        let line = text.line(i).get(if i == header.line { end.byte } else { 0 }..).unwrap_or_default();
        if line.trim().is_empty() || line.trim_start().starts_with("Conflicting CPU frequency") {
            continue;
        }
        let (read, whole) = rows.take(line);
        if read > 0 {
            end = Position { line: i, byte: line_end(text, i, line, read) };
        }
        if !whole {
            break;
        }
    }
    let lines = text.numbers(first, end.line);
    if rows.sizes.is_empty() {
        found.warn(text, TOOL, lines, "a table without a row; the text may be cut");
        return end;
    }
    if rows.short {
        found.warn(text, TOOL, lines, "the last row is cut");
    }
    let gpu = gpu(&head);
    let settings = settings(&head, gpu.as_ref());
    let what = test(&head).unwrap_or_else(|| TOOL.to_owned());
    let ends = ends(&head, &what, gpu.as_ref());
    let Rows { sizes, series, .. } = rows;
    found.push(text, TOOL, lines, Fact::Curve(Curve { what, ends, sizes, series, settings }));
    let mut gpus = listed_gpus(&head);
    if let Some(gpu) = gpu {
        match gpus.iter_mut().find(|g| g.index == gpu.index) {
            Some(listed) => listed.name = gpu.name,
            None => gpus.push(gpu),
        }
    }
    found.push(text, TOOL, text.numbers(first, header.line), Fact::Gpus(gpus));
    end
}

/// The GPU and the adapter, that which the data comes from first. A client writes or sends what its own GPU's memory holds, and
/// reads into it; its server has the other end of the same transfers.
fn ends(head: &str, what: &str, gpu: Option<&GpuFacts>) -> Vec<String> {
    let adapter = setting(head, "Device");
    let gpu = gpu.and_then(|g| g.index).map(|n| format!("GPU{n}"));
    let is_server = head.contains(WAITING);
    let arrives = what.contains("_read_") != is_server;
    if arrives { [adapter, gpu] } else { [gpu, adapter] }.into_iter().flatten().collect()
}

/// Where in line `i` the first `read` bytes of its rest `line` end.
fn line_end(text: &Text, i: usize, line: &str, read: usize) -> usize {
    text.line(i).len() - line.len() + read
}

/// The rows read so far.
struct Rows {
    sizes: Vec<Bytes>,
    series: Vec<Series>,
    lead: usize,
    short: bool,
}

impl Rows {
    /// Takes the rows of a line, of which there are several where lines were run together. Returns how many
    /// bytes were read, and whether that was all of the line.
    fn take(&mut self, line: &str) -> (usize, bool) {
        let width = self.lead + self.series.len();
        let end_of = |word: &str| word.as_ptr() as usize - line.as_ptr() as usize + word.len();
        let mut words = line.split_whitespace();
        let mut read = 0;
        loop {
            let mut ahead = words.clone();
            match ahead.next() {
                None => return (read, true),
                Some("...") => {
                    words = ahead;
                    continue;
                }
                Some(_) => {}
            }
            let is_number = |word: &&str| word.parse::<f64>().is_ok_and(f64::is_finite);
            let row: Vec<&str> = words.by_ref().take(width).take_while(is_number).collect();
            let lead: Vec<u64> = row.iter().take(self.lead).map_while(|w| w.parse().ok()).collect();
            let (Some(size), Some(last), true) = (lead.first(), row.last(), lead.len() == self.lead) else {
                return (read, false);
            };
            if row.len() == self.lead {
                return (read, false);
            }
            self.sizes.push(Bytes(*size));
            for (i, series) in self.series.iter_mut().enumerate() {
                series.values.push(row.get(self.lead + i).and_then(|w| w.parse().ok()));
            }
            read = end_of(last);
            if row.len() < width {
                self.short = true;
                return (read, false);
            }
        }
    }
}

/// What stands above a table, its settings among it, and the line that begins with.
fn head(text: &Text, from: &Position, header: &Position) -> (usize, String) {
    let mut first = header.line.saturating_sub(HEAD_LINES).max(from.line);
    let mut lines = Vec::new();
    for i in first..=header.line {
        let end = if i == header.line { header.byte } else { text.line(i).len() };
        let start = if i == from.line { from.byte.min(end) } else { 0 };
        lines.push(text.line(i).get(start..end).unwrap_or_default());
    }
    // the test's own output begins with its title; the command may stand above, and the choice of a GPU
    let last = |begins: &dyn Fn(&str) -> bool| lines.iter().rposition(|line| begins(line));
    let begin = last(&|line| command(line).is_some())
        .or_else(|| last(&|line| line.trim() == "initializing CUDA"))
        .or_else(|| last(&|line| title(line).is_some()));
    // a server's banner stands between its command and the rest
    let waits = |at: &usize| lines.get(*at).is_some_and(|line| line.contains(WAITING));
    let begin = begin.map(|begin| (begin.saturating_sub(BANNER)..begin).find(waits).unwrap_or(begin)).unwrap_or(0);
    first += begin;
    (first, lines.get(begin..).unwrap_or_default().join("\n"))
}

/// The value of a setting, `Mtu             : 4096[B]`, the last where there are several.
fn setting(head: &str, key: &str) -> Option<String> {
    head.rmatch_indices(key).find_map(|(at, _)| {
        let before = head.get(..at)?.chars().next_back();
        let value = head.get(at + key.len()..)?.trim_start_matches([' ', '\t']).strip_prefix(':')?;
        let value = value.lines().next()?.split_whitespace().next()?;
        before.is_none_or(char::is_whitespace).then(|| value.to_owned())
    })
}

fn settings(head: &str, gpu: Option<&GpuFacts>) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> =
        SETTINGS.iter().filter_map(|key| Some(((*key).to_owned(), setting(head, key)?))).collect();
    settings.extend(gpu.and_then(|g| g.name.clone()).map(|name| ("GPU".to_owned(), name)));
    if title(head).is_some_and(|t| t.contains("Bidirectional")) {
        settings.insert("direction".to_owned(), "bidirectional".to_owned());
    }
    settings
}

/// `RDMA_Write Bidirectional BW Test`.
fn title(head: &str) -> Option<&str> {
    let end = head.rfind(" Test")?;
    let words = head.get(..end)?.rsplit(['\n', '-']).next()?.trim();
    (words.ends_with("BW") || words.ends_with("Latency")).then_some(words)
}

/// A program's name in a line of commands.
fn command(line: &str) -> Option<&str> {
    let mut names = line.split_whitespace().filter_map(|word| word.rsplit('/').next());
    names.find(|name| {
        (name.starts_with("ib_") || name.starts_with("raw_ethernet_"))
            && (name.ends_with("_bw") || name.ends_with("_lat"))
    })
}

/// The test, as its program is called: by the title that the test prints, else by the command.
fn test(head: &str) -> Option<String> {
    let command = command(head);
    let named = title(head).and_then(|title| {
        let verb = match title.split_whitespace().next()? {
            "RDMA_Write" => "write",
            "RDMA_Read" => "read",
            "Send" => "send",
            "Atomic" => "atomic",
            _ => return None,
        };
        Some(format!("ib_{verb}_{}", if title.ends_with("Latency") { "lat" } else { "bw" }))
    });
    // raw_ethernet_bw calls itself "Send BW Test"
    named.filter(|_| !command.is_some_and(|c| c.starts_with("raw_"))).or_else(|| command.map(str::to_owned))
}

/// The GPU whose memory is used: `[pid = 169102, dev = 0] device name = [Tesla T4]`.
fn gpu(head: &str) -> Option<GpuFacts> {
    let (before, after) = head.rsplit_once("] device name = [")?;
    let index = before.rsplit_once("dev = ")?.1.trim().parse().ok()?;
    Some(GpuFacts::listed(index, after.split_once(']')?.0))
}

/// GPUs that newer versions list: `CUDA device 0: PCIe address is 81:00`.
fn listed_gpus(head: &str) -> Vec<GpuFacts> {
    let listed = head.split("CUDA device ").skip(1).filter_map(|rest| {
        let (index, rest) = rest.split_once(": PCIe address is ")?;
        let address = rest.split_whitespace().next()?.parse().ok()?;
        Some(GpuFacts { index: Some(index.parse().ok()?), address: Some(address), ..GpuFacts::default() })
    });
    let mut gpus: Vec<GpuFacts> = listed.collect();
    gpus.sort_by_key(|gpu| gpu.index);
    gpus.dedup_by_key(|gpu| gpu.index);
    gpus
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn curves(found: &Found) -> Vec<&Curve> {
        found.evidence.iter().filter_map(|e| if let Fact::Curve(c) = &e.fact { Some(c) } else { None }).collect()
    }

    const BW: &str = "\
$ ./ib_write_bw -a -d mlx5_9 --use_cuda=3 host
initializing CUDA
CUDA device 3: PCIe address is 81:00
[pid = 7, dev = 3] device name = [Some Card]
---------------------------------------------------------------------------------------
                    RDMA_Write Bidirectional BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_9
 Number of qps   : 2\t\tTransport type : IB
 TX depth        : 128
 Mtu             : 4096[B]
 Link type       : Ethernet
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 2          5000           10.00              9.50               4.000000
Conflicting CPU frequency values detected: 1 != 2. CPU Frequency is not max.
 65536      5000           11000.00           10900.00           0.174400
---------------------------------------------------------------------------------------
";

    #[test]
    fn a_table_of_lines() {
        let found = scanned(scan, BW);
        let c = curves(&found)[0];
        assert_eq!((c.what.as_str(), c.ends.join(" ")), ("ib_write_bw", "GPU3 mlx5_9".to_owned()));
        let no_command = scanned(scan, BW.split_once("host\n").unwrap().1);
        assert_eq!(curves(&no_command)[0].ends.join(" "), "GPU3 mlx5_9");
        assert_eq!(c.sizes, [Bytes(2), Bytes(65536)]);
        assert_eq!(c.series[1].name, "BW average");
        assert_eq!((c.series[1].unit, c.series[1].values[1]), (Some(Unit::MebibytesPerSecond), Some(10900.0)));
        assert_eq!((c.series[2].name.as_str(), c.series[2].unit), ("MsgRate", None));
        assert_eq!((c.settings["Mtu"].as_str(), c.settings["Number of qps"].as_str()), ("4096[B]", "2"));
        assert_eq!((c.settings["direction"].as_str(), c.settings["GPU"].as_str()), ("bidirectional", "Some Card"));
        assert_eq!(found.evidence[0].origin.lines, Some((1, 16)));
        let Fact::Gpus(gpus) = &found.evidence[1].fact else { panic!() };
        assert_eq!((gpus.len(), gpus[0].address.unwrap().to_string().as_str()), (1, "0000:81:00.0"));
    }

    #[test]
    fn a_client_sends_from_its_gpu_and_reads_into_it() {
        let ends = |text: &str| curves(&scanned(scan, text))[0].ends.join(" ");
        let reads = BW.replace("ib_write_bw", "ib_read_bw").replace("RDMA_Write", "RDMA_Read");
        let waiting =
            |text: &str| text.replace("initializing CUDA", "* Waiting for client to connect... *\ninitializing CUDA");
        assert_eq!((ends(BW).as_str(), ends(&reads).as_str()), ("GPU3 mlx5_9", "mlx5_9 GPU3"));
        assert_eq!((ends(&waiting(BW)).as_str(), ends(&waiting(&reads)).as_str()), ("mlx5_9 GPU3", "GPU3 mlx5_9"));
    }

    #[test]
    fn lines_run_together() {
        let c = "see $ ./ib_read_bw -d mlx5_1 ---- RDMA_Read BW Test Dual-port : OFF Device : mlx5_1 Mtu : 1024[B] Link type : IB \
                 ---- #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps] 2 100 0.5 0.4 1.5 ... 8 100 2.5 2.4 1.6 \
                 ---- Then #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps] 4 100 9 8 7";
        let found = scanned(scan, c);
        let [one, two] = curves(&found)[..] else { panic!("{found:#?}") };
        assert_eq!((one.what.as_str(), one.ends.join(" ")), ("ib_read_bw", "mlx5_1".to_owned()));
        assert_eq!((one.sizes.len(), one.series[0].values[1]), (2, Some(2.5)));
        assert_eq!(one.settings["Mtu"], "1024[B]");
        assert_eq!((two.ends.len(), two.series[2].values[0]), (0, Some(7.0)), "settings stay with their table");
    }

    #[test]
    fn latency_percentiles() {
        let found = scanned(
            scan,
            "                    RDMA_Read Latency Test\n Device         : mlx5_0\n\
             #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n\
             \x202       1000          1.5            3.5          1.6              1.7             0.1               2.0             3.0\n",
        );
        let c = curves(&found)[0];
        assert_eq!((c.what.as_str(), c.series.len()), ("ib_read_lat", 7));
        assert_eq!((c.series[5].name.as_str(), c.series[5].values[0]), ("99% percentile", Some(2.0)));
        assert_eq!(c.series[0].unit, Some(Unit::Microseconds));
    }

    #[test]
    fn cut_tables_and_prose() {
        let header = " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n";
        assert_eq!(scanned(scan, header).warnings.len(), 1);
        let found = scanned(scan, &format!("{header} 2 1000 5.0"));
        assert_eq!((curves(&found)[0].series[1].values[0], found.warnings.len()), (None, 1));
        assert_eq!(scanned(scan, "the #bytes column and #bytes #iterations are numbers 1 2\n"), Found::default());
    }
}
