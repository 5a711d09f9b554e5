//! Reads the tables of NVIDIA's nccl-tests (`all_reduce_perf` and the like), of old and new column sets.
//!
//! The sums that the program prints below a table ("Avg bus bandwidth") average over all sizes; they are left out.

use std::collections::{BTreeMap, BTreeSet};

use super::text::Span;
use super::{Curve, Fact, Found, GpuFacts, Series, Text, Unit};
use peerlane_machine::fact::Message;
use peerlane_machine::names::list;
use peerlane_machine::units::Bytes;

const TOOL: &str = "nccl-tests";

/// The most hosts that a message names, and the most of a line that it quotes, in characters.
const MOST_NAMED: usize = 16;
const MAX_QUOTE: usize = 120;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut head = Head::default();
    text.walk(|i| {
        let line = text.line(i);
        head.take(line, i);
        // rows alone, as people quote them
        let bare = || is_bare_row(line) && is_bare_row(text.line(i + 1));
        let (first, columns) = columns(line).map(|c| (i + 1, c)).or_else(|| bare().then(|| (i, usual_columns())))?;
        Some(table(text, i, first, &columns, std::mem::take(&mut head), found))
    });
    head.push_ranks(text, found);
}

/// What a run prints before its table.
#[derive(Default)]
struct Head {
    program: Option<String>,
    version: Option<String>,
    ranks: Vec<GpuFacts>,
    /// The highest number of a rank; greater than there are lines where the list is cut.
    highest: u32,
    hosts: BTreeSet<String>,
    rank_lines: Span,
    first_rank: usize,
    first: Option<usize>,
}

impl Head {
    fn take(&mut self, line: &str, i: usize) {
        // Markdown takes the sign at the start of a line for a heading, and web pages lose it
        let comment = Some(line.trim().trim_start_matches('#').trim());
        if let Some(version) = comment.and_then(|c| c.strip_prefix("nccl-tests version ")) {
            self.version = version.split_whitespace().next().map(str::to_owned);
        } else if let Some(version) = comment.and_then(|c| c.strip_prefix("rccl-tests: Version ")) {
            self.version = Some(format!("rccl-tests {}", version.trim()));
        } else if let Some(program) = comment.and_then(|c| c.strip_prefix("Collective test starting:")) {
            self.program = Some(program.trim().to_owned());
        } else if let Some((number, host, gpu)) = comment.and_then(rank) {
            self.highest = self.highest.max(number);
            if self.ranks.is_empty() {
                self.first_rank = i;
            }
            self.ranks.push(gpu);
            self.hosts.insert(host);
            self.rank_lines.add(i);
        } else {
            if let Some(program) = command(line).filter(|_| self.program.is_none()) {
                self.program = Some(program.to_owned());
            }
            return;
        }
        self.first.get_or_insert(i);
    }

    /// The piece of a row that the program printed before NCCL's log continued the line: of `8 2 float sum -1HOST:12:12 [0]`
    /// the part before the host's name. Empty where the line is the log's alone, or the host is unknown.
    fn before_log<'a>(&self, before: &'a str) -> &'a str {
        // the tag `HOST:PROCESS:THREAD [DEVICE]` ends what is before the log
        let Some(tag) = before.rfind(" [") else { return "" };
        let Some(name) = before.get(..tag).and_then(|b| b.rsplitn(3, ':').nth(2)) else { return "" };
        let starts = name.char_indices().rev().take(LONGEST_HOST).map(|(at, _)| at);
        let host = starts.filter(|at| name.get(*at..).is_some_and(|host| self.hosts.contains(host))).min();
        host.and_then(|at| name.get(..at)).unwrap_or_default()
    }

    /// Whether every rank is listed.
    fn is_whole(&self) -> bool {
        self.ranks.len() == self.highest as usize + 1
    }

    /// Processes of which each is rank 0, in one list: a launcher started several runs of one process, and not one run of several.
    fn push_apart(&self, text: &Text, found: &mut Found) {
        let lines = self.rank_lines.numbers(text);
        let Some(lines) = lines.filter(|_| self.ranks.len() > 1 && self.highest == 0) else { return };
        let hosts: Vec<String> = self.hosts.iter().take(MOST_NAMED).cloned().collect();
        let parts = vec![("processes", self.ranks.len().to_string()), ("hosts", list(&hosts))];
        let quote = text.line(self.first_rank).trim().chars().take(MAX_QUOTE).collect();
        let message = Message { id: "nccl-tests-apart", parts, quote, host: None, count: 1 };
        found.push(text, TOOL, lines, Fact::Message(message));
    }

    /// The ranks' GPUs; device numbers of several hosts would be mixed up, so that they are left out then.
    fn push_ranks(&mut self, text: &Text, found: &mut Found) {
        self.push_apart(text, found);
        let mut gpus = std::mem::take(&mut self.ranks);
        // old releases print the bus without its domain, and virtual machines of some clouds show one bus for all: devices of one bus
        // are told apart by their numbers
        let devices: BTreeSet<_> = gpus.iter().map(|gpu| (gpu.address, gpu.index)).collect();
        let addresses: BTreeSet<_> = gpus.iter().filter_map(|gpu| gpu.address).collect();
        if addresses.len() < devices.len() {
            gpus.iter_mut().for_each(|gpu| gpu.address = None);
        }
        let lines = std::mem::take(&mut self.rank_lines).numbers(text);
        if let Some(lines) = lines.filter(|_| self.hosts.len() == 1) {
            found.push(text, TOOL, lines, Fact::Gpus(gpus));
        }
    }
}

/// `Rank  0 Group  0 Pid   1078 on  HOST device  0 [0000:81:00] NAME`, older `[0x81]`, which is the bus
/// alone; the rank's number, the host and the GPU.
fn rank(comment: &str) -> Option<(u32, String, GpuFacts)> {
    let (process, device) = comment.strip_prefix("Rank ")?.split_once(" device ")?;
    let number = process.split_whitespace().next()?.parse().ok()?;
    let (_, host) = process.split_once(" on ")?;
    let (index, rest) = device.split_once('[')?;
    let (address, name) = rest.split_once(']')?;
    let address = match address.strip_prefix("0x") {
        Some(bus) => format!("{bus}:00").parse().ok(),
        None => address.parse().ok(),
    };
    let gpu = GpuFacts { address, ..GpuFacts::listed(index.trim().parse().ok()?, name) };
    Some((number, host.trim().to_owned(), gpu))
}

/// The program of a command line such as `mpirun -np 8 ./build/all_reduce_perf -b 8`.
pub(super) fn command(line: &str) -> Option<&str> {
    const PROGRAMS: [&str; 10] = [
        "all_gather_perf",
        "all_reduce_perf",
        "alltoall_perf",
        "broadcast_perf",
        "gather_perf",
        "hypercube_perf",
        "reduce_perf",
        "reduce_scatter_perf",
        "scatter_perf",
        "sendrecv_perf",
    ];
    let name = |word: &'_ str| PROGRAMS.into_iter().find(|p| word.rsplit('/').next() == Some(p));
    line.split_whitespace().filter(|word| word.ends_with("_perf")).find_map(name)
}

/// The columns of a table.
struct Columns {
    /// How many stand before the first time.
    lead: usize,
    /// Their names from the first time on.
    metrics: Vec<String>,
}

/// `#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong`; older tables
/// lack `redop` and `root` or say `error`, newer ones may add columns.
fn columns(line: &str) -> Option<Columns> {
    let line = line.trim().trim_start_matches('#').trim_start();
    // most lines are none
    if !line.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("size")) {
        return None;
    }
    let low = line.to_ascii_lowercase();
    // a document may name the unit with each column
    let mut words: Vec<&str> = low.split_whitespace().filter(|word| !word.starts_with(['(', '['])).collect();
    let name = |word: &'_ str| word.split(['(', '[']).next().map_or(0, str::len);
    words.iter_mut().for_each(|word| *word = word.get(..name(word)).unwrap_or_default());
    words.retain(|w| *w != "timestamp");
    let lead = words.iter().position(|w| ["time", "cputime", "algbw", "busbw"].contains(w))?;
    let metrics = words.get(lead..)?.iter().map(|w| (*w).to_owned()).collect();
    let is_header = words.contains(&"busbw") && (words.contains(&"algbw") || line.contains('\t'));
    is_header.then_some(Columns { lead, metrics })
}

/// The columns of today's releases.
fn usual_columns() -> Columns {
    let metrics = ["time", "algbw", "busbw", "#wrong"];
    Columns { lead: 5, metrics: [metrics, metrics].concat().into_iter().map(str::to_owned).collect() }
}

/// Whether a line is a row of [`usual_columns`]: `1024 256 float sum -1 30.0 0.03 0.05 0 31.0 0.03 0.05 0`, its fourth and
/// later columns as no other tool's table has them.
fn is_bare_row(line: &str) -> bool {
    const TYPES: [&str; 16] = [
        "int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16", "f8e4m3",
        "f8e5m2", "fp8_e4m3", "fp8_e5m2", "char", "int",
    ];
    // most lines are none
    if !line.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '[') {
        return false;
    }
    let line = untagged(line);
    let words: Vec<&str> = line.split_whitespace().collect();
    let [size, count, kind, redop, root, ..] = words.as_slice() else { return false };
    let whole = |word: &str| word.parse::<u64>().is_ok();
    words.len() == 13
        && whole(size)
        && whole(count)
        && TYPES.contains(kind)
        && redop.bytes().all(|b| b.is_ascii_lowercase())
        && root.parse::<i32>().is_ok()
        && usual_columns().row(&line).is_some()
}

/// A line without the tags (`[0]`) that a launcher puts before each piece that a process writes, and without a word that a changed
/// program puts before each row (`[STAT]:`).
fn untagged(line: &str) -> std::borrow::Cow<'_, str> {
    if !line.contains('[') {
        return line.into();
    }
    let word = || {
        let (word, rest) = line.trim_start().strip_prefix('[')?.split_once("]:")?;
        (!word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase())).then_some(rest)
    };
    let line = word().unwrap_or(line);
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        // the digits alone are gone over, so that brackets that never close cost no second look
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        match after.get(digits..).and_then(|end| end.strip_prefix(']')) {
            Some(after) if digits > 0 => {
                plain.push(' ');
                rest = after;
            }
            _ => {
                plain.push('[');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain.into()
}

impl Columns {
    /// A series a metric: the first set is out of place, the second in place.
    fn series(&self) -> Vec<Series> {
        let mut sets = 0;
        let mut series = Vec::with_capacity(self.metrics.len());
        let begins = self.metrics.first();
        for metric in &self.metrics {
            sets += usize::from(Some(metric) == begins);
            let name = match metric.as_str() {
                "#wrong" | "error" => "wrong",
                other => other,
            };
            let unit = match name {
                "time" | "cputime" | "i_min" | "i_max" | "i_p99" => Some(Unit::Microseconds),
                "algbw" | "busbw" => Some(Unit::GigabytesPerSecond),
                _ => None,
            };
            let place = if sets == 1 { "out-of-place" } else { "in-place" };
            series.push(Series { name: format!("{name} {place}"), unit, values: Vec::new() });
        }
        series
    }

    /// The size and metrics of a row. Old rows leave `redop` or `root` empty; then the metrics are the last words.
    fn row(&self, line: &str) -> Option<(Bytes, Vec<Option<f64>>)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let size = words.first()?.parse().ok()?;
        let full = words.len() >= self.lead + self.metrics.len();
        let start = if full { Some(self.lead) } else { words.len().checked_sub(self.metrics.len()).filter(|n| *n > 0) };
        let value = |word: &&str| match *word {
            "N/A" => Some(None),
            word => word.parse::<f64>().ok().map(|v| v.is_finite().then_some(v)),
        };
        let values = |start: usize, n: usize| words.iter().skip(start).take(n).map(value).collect::<Option<Vec<_>>>();
        let whole = start.and_then(|start| values(start, self.metrics.len()));
        // a run that ends before its second set, or leaves it out, prints half a row
        let half = self.metrics.len() / 2;
        let first = || {
            let is_half =
                half > 0 && words.len() == self.lead + half && self.metrics.get(..half) == self.metrics.get(half..);
            let mut first = values(self.lead, half).filter(|_| is_half)?;
            first.resize(self.metrics.len(), None);
            Some(first)
        };
        Some((Bytes(size), whole.or_else(first)?))
    }
}

/// Reads the rows from `first` on, of which `header` names the columns; returns the line to go on with.
fn table(text: &Text, header: usize, first: usize, columns: &Columns, mut head: Head, found: &mut Found) -> usize {
    let mut sizes = Vec::new();
    let mut series = columns.series();
    let mut last = header;
    // the row that NCCL's log interrupts
    let mut begun = String::new();
    for i in first..text.len() {
        let raw = text.line(i);
        if let Some((before, _)) = raw.split_once(" NCCL ") {
            let piece = head.before_log(before);
            if !piece.trim().is_empty() && begun.len() + piece.len() < LONGEST_ROW {
                begun.push_str(piece);
                begun.push(' ');
            }
            continue;
        }
        let whole = std::mem::take(&mut begun) + raw;
        let line = untagged(&whole);
        let line = line.trim();
        if let Some((size, values)) = columns.row(line) {
            sizes.push(size);
            series.iter_mut().zip(values).for_each(|(s, value)| s.values.push(value));
            last = i;
        } else if !(line.is_empty() || (line.starts_with(['#', '(']) && sizes.is_empty())) {
            break;
        }
    }
    let lines = text.numbers(head.first.unwrap_or(header), last);
    if sizes.is_empty() {
        found.warn(text, TOOL, lines, "a table without a row; the text may be cut");
    } else {
        let known = [
            ("version", head.version.take()),
            ("ranks", Some(head.highest as usize + 1).filter(|_| !head.ranks.is_empty()).map(|n| n.to_string())),
            ("hosts", Some(head.hosts.len()).filter(|n| *n > 0 && head.is_whole()).map(|n| n.to_string())),
        ];
        let settings: BTreeMap<_, _> = known.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?))).collect();
        let ends = if head.hosts.len() == 1 && head.is_whole() { rank_names(&head.ranks) } else { Vec::new() };
        let after = (last + 1..text.len().min(last + 1 + TRAILER_LINES)).find_map(|i| concluded(text.line(i)));
        let named = head.program.take().or(after);
        let what = named
            .or_else(|| program_by_rates(text.line(last), columns.lead, &series))
            .unwrap_or_else(|| TOOL.to_owned());
        found.push(text, TOOL, lines, Fact::Curve(Curve { what, ends, sizes, series, settings }));
    }
    head.push_ranks(text, found);
    last + 1
}

/// Characters of a host's name.
const LONGEST_HOST: usize = 64;

/// Characters of a row; no release prints half as many.
const LONGEST_ROW: usize = 512;

/// Lines below a table in which its program may be named.
const TRAILER_LINES: usize = 8;

/// `# Collective test concluded: all_reduce_perf`, which releases since 2.13 print last.
fn concluded(line: &str) -> Option<String> {
    let name = line.trim().trim_start_matches('#').trim().strip_prefix("Collective test concluded:")?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The program where nothing names it: one that reduces and has no root, for which tables of old releases have no column before
/// the first time (`lead` is 4), is `all_reduce_perf` where its bus bandwidth is not below the algorithm's, being 2 (n − 1) / n of it, and `reduce_scatter_perf`, with (n − 1) / n, where it is.
fn program_by_rates(row: &str, lead: usize, series: &[Series]) -> Option<String> {
    let row = untagged(row);
    let mut words = row.split_whitespace().skip(3);
    let (redop, root) = (words.next()?, words.next()?);
    let last = |name: &str| series.iter().find(|s| s.name.starts_with(name))?.values.last().copied().flatten();
    let (algorithm, bus) = (last("algbw")?, last("busbw")?);
    if (lead > 4 && root != "-1")
        || !matches!(redop, "sum" | "prod" | "max" | "min" | "avg")
        || algorithm <= 0.0
        || bus <= 0.0
    {
        return None;
    }
    Some(if bus >= 0.99 * algorithm { "all_reduce_perf" } else { "reduce_scatter_perf" }.to_owned())
}

fn rank_names(ranks: &[GpuFacts]) -> Vec<String> {
    ranks.iter().filter_map(|gpu| Some(format!("GPU{}", gpu.index?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn curve(found: &Found) -> &Curve {
        let mut curves = found.evidence.iter().filter_map(|e| match &e.fact {
            Fact::Curve(c) => Some(c),
            _ => None,
        });
        curves.next_back().unwrap()
    }

    /// `NCCL_DEBUG_SUBSYS=TUNING` logs between the pieces of a row, in the same line.
    #[test]
    fn rows_that_the_log_interrupts_are_whole() {
        let log = "gpu-1:12:12 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n";
        let text = format!(
            "# Collective test starting: all_reduce_perf\n\
             #  Rank  0 Group  0 Pid     12 on      gpu-1 device  0 [0000:00:06] NVIDIA H200\n\
             #  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n\
             {log}    8  2  float  sum  -1{log}{log}  20.50  0.00  0.01  0{log}  21.60  0.00  0.02  0\n\
             16  4  float  sum  -1{log}  20.68  0.00  0.03  0  20.40  0.00  0.04  0\n\
             # Out of bounds values : 0 OK\n"
        );
        let found = scanned(scan, &text);
        let curve = curve(&found);
        assert_eq!(curve.sizes, [8, 16].map(Bytes));
        let of = |name: &str| curve.series.iter().find(|s| s.name == name).unwrap().values.clone();
        assert_eq!(of("time out-of-place"), [Some(20.5), Some(20.68)]);
        assert_eq!(of("busbw in-place"), [Some(0.02), Some(0.04)]);
        // a log that never ends a row makes none
        let cut = scanned(scan, &text[..text.find("  21.60").unwrap()]);
        assert!(cut.evidence.iter().all(|e| !matches!(e.fact, Fact::Curve(_))));
    }

    #[test]
    fn a_document_names_units_and_leaves_columns_out() {
        let text = "./all_reduce_perf -g 8\nSize (B)\ttime (us)\talgbw (GB/s)\tbusbw (GB/s)\n1024\t30.5\t0.03\t0.06\n";
        let found = scanned(scan, text);
        let of = |curve: &Curve| curve.series.iter().map(|s| (s.name.clone(), s.values[0])).collect::<Vec<_>>();
        let wanted = [("time out-of-place", 30.5), ("algbw out-of-place", 0.03), ("busbw out-of-place", 0.06)];
        assert_eq!(of(curve(&found)), wanted.map(|(name, value)| (name.to_owned(), Some(value))));
        let two = scanned(scan, "Size\tbusbw\n1024\t0.06\n");
        assert_eq!(of(curve(&two)), [("busbw out-of-place".to_owned(), Some(0.06))]);
        assert_eq!(scanned(scan, "Size matters for busbw\n1024 5\n"), Found::default());
    }

    #[test]
    fn one_bus_for_all_is_nobodys() {
        let of = |buses: [&str; 2]| {
            let rank =
                |(i, bus): (usize, &str)| format!("#   Rank  {i} Pid 1 on host device  {i} [{bus}] A100-SXM4-40GB\n");
            let ranks: String = buses.into_iter().enumerate().map(rank).collect();
            let found =
                scanned(scan, &(ranks + "# size count type redop time algbw busbw error\n 8 2 float sum 5 1 1 0\n"));
            let gpus = found.evidence.into_iter().find_map(|e| match e.fact {
                Fact::Gpus(gpus) => Some(gpus),
                _ => None,
            });
            gpus.unwrap().iter().filter(|gpu| gpu.address.is_some()).count()
        };
        assert_eq!((of(["0x00", "0x00"]), of(["0x00", "0x01"])), (0, 2));
    }

    #[test]
    fn half_of_several_buses_are_nobodys() {
        let rank = |(i, bus): (usize, &str)| format!("#   Rank  {i} Pid 1 on host device  {i} [{bus}] V100\n");
        let ranks: String = ["0x0b", "0x0b", "0x41", "0x41"].into_iter().enumerate().map(rank).collect();
        let found =
            scanned(scan, &(ranks + "# size count type redop time algbw busbw error\n 8 2 float sum 5 1 1 0\n"));
        let gpus =
            found.evidence.into_iter().find_map(|e| if let Fact::Gpus(gpus) = e.fact { Some(gpus) } else { None });
        assert!(gpus.unwrap().iter().all(|gpu| gpu.address.is_none()));
    }

    #[test]
    fn rows_with_one_set_and_rows_behind_a_word() {
        let header = "# size count type redop time algbw busbw error time algbw busbw error\n";
        let of = |row: &str| {
            let found = scanned(scan, &format!("{header}{row}\n"));
            let series = &curve(&found).series;
            (series[2].values.clone(), series[6].values.clone())
        };
        let one = of("  4294967296  1073741824  float  sum  55753.1  77.04  134.81  N/A");
        assert_eq!(one, (vec![Some(134.81)], vec![None]));
        let two = of("[STAT]:  64  16  float  sum  47.6  0.10  0.20  0  47.7  0.10  0.30  0");
        assert_eq!(two, (vec![Some(0.2)], vec![Some(0.3)]));
    }

    #[test]
    fn a_table_without_roots_names_its_program_by_its_rates() {
        let of = |busbw: &str| {
            let table = format!(
                "#       size         count    type   redop    time   algbw   busbw  error     time   algbw   busbw  error\n\
                 \x20 8589934592    2147483648   float     sum   63900   134.4   {busbw}    N/A    63900   134.4   {busbw}    N/A\n"
            );
            curve(&scanned(scan, &table)).what.clone()
        };
        assert_eq!((of("235.2").as_str(), of("117.6").as_str()), ("all_reduce_perf", "reduce_scatter_perf"));
    }

    #[test]
    fn only_closed_tags_of_digits_are_taken_off() {
        assert_eq!(untagged("[0] a [12]b [x] [3"), "  a  b [x] [3");
        assert_eq!(untagged(&"[".repeat(1 << 20)).len(), 1 << 20);
    }

    #[test]
    fn new_columns() {
        let found = scanned(
            scan,
            "# nccl-tests version 2.17.6 nccl-headers=1 nccl-library=1\n# Collective test starting: all_gather_perf\n# \
             Rank  0 Group  0 Pid     10 on       host device  0 [0000:c1:00] Card A\n#  Rank  1 Group  0 Pid     10 \
             on       host device  1 [0000:c2:00] Card A\n#\n#       size         count      type   redop    root     \
             time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n#        (B)    (elements)                 \
             (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)\n\x20          8             2     float    none    \
             -1    20.0    1.00    2.00       0    21.0    3.00    4.00     N/A\nhost:1:2 [0] NCCL INFO Connected all \
             rings\n\x20         16             4     float    none      -1    22.0    5.00    6.00       0    23.0    \
             7.00    8.00     N/A\n# Out of bounds values : 0 OK\n",
        );
        let c = curve(&found);
        assert_eq!((c.what.as_str(), c.settings["ranks"].as_str()), ("all_gather_perf", "2"));
        assert_eq!(c.ends, ["GPU0", "GPU1"]);
        assert_eq!(c.sizes, [Bytes(8), Bytes(16)]);
        assert_eq!((c.series[2].name.as_str(), &c.series[2].values[1]), ("busbw out-of-place", &Some(6.0)));
        assert_eq!((c.series[7].name.as_str(), &c.series[7].values[0]), ("wrong in-place", &None));
        let Fact::Gpus(gpus) = &found.evidence[1].fact else { panic!() };
        assert_eq!(gpus[1].address.unwrap().to_string(), "0000:c2:00.0");
    }

    #[test]
    fn old_columns_and_a_bus_alone() {
        let found = scanned(
            scan,
            "$ ./build/sendrecv_perf -b 8 -e 8\n#   Rank  0 Pid  10 on  host device  0 [0x1a] Card\n\
             #       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n\
             \x20 1024  256  float  30.0  1.0  1.5  0e+00  31.0  1.1  1.6  0e+00\n\n",
        );
        let c = curve(&found);
        assert_eq!(c.what, "sendrecv_perf");
        assert_eq!(c.series[0].values, [Some(30.0)]);
        assert_eq!(c.series[5].values, [Some(1.1)]);
        let Fact::Gpus(gpus) = &found.evidence[1].fact else { panic!() };
        assert_eq!(gpus[0].address.unwrap().to_string(), "0000:1a:00.0");
    }

    #[test]
    fn rows_alone_and_tags_of_a_launcher() {
        let found = scanned(
            scan,
            "And the results\n```\n  1048576  262144  float  sum  -1[0]  300.0  3.50  6.80  0[0]  310.0  3.40  6.60  0\n\
             [0]  2097152  524288  float  sum  -1[0]  400.0  5.20  9.80  0[0]  410.0  5.10  9.70  N/A\n# Out of bounds\n",
        );
        let c = curve(&found);
        assert_eq!((c.what.as_str(), c.sizes.len()), ("all_reduce_perf", 2), "told by its numbers");
        assert_eq!((c.series[2].values[1], c.series[7].values[1]), (Some(9.8), None));
        // one row may be prose's, and another tool's rows have other columns
        assert_eq!(
            scanned(scan, "1048576 262144 float sum -1 300.0 3.50 6.80 0 310.0 3.40 6.60 0\n"),
            Found::default()
        );
    }

    #[test]
    fn a_page_that_lost_its_signs() {
        let found = scanned(
            scan,
            " nThread 1 nGpus 1 minBytes 8 maxBytes 16\n Using devices\n  Rank  0 Group  0 Pid    7 on worker-0 device \
             0 [0x00] Card\n\nsize count type redop root time algbw busbw #wrong time algbw busbw #wrong\n (B) \
             (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)\n8 2 float sum -1 5.0 0.0 0.0 0 0.1 0.1 0.0 0\n",
        );
        let c = curve(&found);
        assert_eq!(
            (c.sizes.len(), c.settings["ranks"].as_str(), c.ends.as_slice()),
            (1, "1", &["GPU0".to_owned()][..])
        );
    }

    #[test]
    fn the_program_is_named_below_or_told_by_its_numbers() {
        let table = |op: &str, busbw: f64, after: &str| {
            let head = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
            let row = format!(" 1048576 2 float {op} -1 50 20.0 {busbw} 0 50 20.0 {busbw} 0\n");
            curve(&scanned(scan, &format!("{head}{row}# Avg bus bandwidth : 1\n{after}"))).what.clone()
        };
        assert_eq!(table("none", 17.5, "#\n# Collective test concluded: all_gather_perf\n"), "all_gather_perf");
        assert_eq!(
            (table("sum", 35.0, ""), table("sum", 17.5, "")),
            ("all_reduce_perf".into(), "reduce_scatter_perf".into())
        );
        assert_eq!(table("none", 17.5, ""), TOOL);
    }

    #[test]
    fn a_cut_list_of_ranks_still_tells_how_many_there_are() {
        let found = scanned(
            scan,
            "#  Rank  2 Group  0 Pid  7 on node1 device  0 [0x51] Card\n#  Rank  3 Group  0 Pid  8 on node1 device  1 \
             [0x54] Card\n# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n 8 2 float sum \
             -1 5 1 1 0 5 1 1 0\n",
        );
        let c = curve(&found);
        assert_eq!((c.settings["ranks"].as_str(), c.settings.get("hosts"), c.ends.len()), ("4", None, 0));
    }

    #[test]
    fn a_header_without_rows_is_said() {
        let found = scanned(scan, "#  size  count  type  time  algbw  busbw  error\n");
        assert_eq!((found.evidence.len(), found.warnings.len()), (0, 1));
    }
}
