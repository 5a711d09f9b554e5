//! Headers of tables with one character lost, added or changed, as retyping, optical recognition and cut columns leave them.
//!
//! A reader recognises its table by the header, so that one wrong character would drop the whole table. Headers that tools
//! print word for word are compared with each line; those that list devices are compared with the numbers that must stand
//! there. A line that is one character away from exactly one header is read as that header, with a warning. Nothing else
//! is changed, least of all a value.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::words::gpu_number;
use super::{Found, Text};

/// Longer lines are no headers.
const MAX_HEADER: usize = 4096;

/// The most lines of one text that are repaired; more are no slips.
const MOST: usize = 64;

/// Headers and titles as their tools print them, blanks aside.
const HEADERS: &[&str] = &[
    // p2pBandwidthLatencyTest
    "P2P Connectivity Matrix",
    "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)",
    "Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)",
    "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)",
    "Unidirectional P2P=Enabled Bandwidth (P2P Reads) Matrix (GB/s)",
    "Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)",
    "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)",
    "P2P=Disabled Latency Matrix (us)",
    "P2P=Enabled Latency Matrix (us)",
    "P2P=Enabled Latency (P2P Writes) Matrix (us)",
    "P2P=Enabled Latency (P2P Reads) Matrix (us)",
    // nvbandwidth
    "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
    "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)",
    "memcpy CE CPU(row) <-> GPU(column) bandwidth (GB/s)",
    "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
    "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
    "memcpy CE GPU(row) <-> GPU(column) bandwidth (GB/s)",
    "memcpy SM CPU(row) -> GPU(column) bandwidth (GB/s)",
    "memcpy SM CPU(row) <- GPU(column) bandwidth (GB/s)",
    "memcpy SM CPU(row) <-> GPU(column) bandwidth (GB/s)",
    "memcpy SM GPU(row) -> GPU(column) bandwidth (GB/s)",
    "memcpy SM GPU(row) <- GPU(column) bandwidth (GB/s)",
    "memcpy SM GPU(row) <-> GPU(column) bandwidth (GB/s)",
    "Running host_to_device_memcpy_ce.",
    "Running device_to_host_memcpy_ce.",
    "Running host_to_device_bidirectional_memcpy_ce.",
    "Running device_to_host_bidirectional_memcpy_ce.",
    "Running device_to_device_memcpy_read_ce.",
    "Running device_to_device_memcpy_write_ce.",
    "Running device_to_device_bidirectional_memcpy_read_ce.",
    "Running device_to_device_bidirectional_memcpy_write_ce.",
    "Running all_to_host_memcpy_ce.",
    "Running host_to_all_memcpy_ce.",
    "Running all_to_one_write_ce.",
    "Running all_to_one_read_ce.",
    "Running one_to_all_write_ce.",
    "Running one_to_all_read_ce.",
    "Running host_to_device_memcpy_sm.",
    "Running device_to_host_memcpy_sm.",
    "Running device_to_device_memcpy_read_sm.",
    "Running device_to_device_memcpy_write_sm.",
    "Running device_to_device_bidirectional_memcpy_read_sm.",
    "Running device_to_device_bidirectional_memcpy_write_sm.",
    "Running host_device_latency_sm.",
    "Running device_to_device_latency_sm.",
    "Running device_local_copy.",
    // nccl-tests
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong",
    "# size count type redop time algbw busbw error time algbw busbw error",
    "# size count type redop time algbw busbw #wrong time algbw busbw #wrong",
    "# size count type redop root time algbw busbw error time algbw busbw error",
    "# size count type root time algbw busbw error time algbw busbw error",
    // perftest
    "#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]",
    "#bytes #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]",
    "#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]",
    "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec]",
    "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% percentile[usec] 99.9% percentile[usec]",
    // rocm-bandwidth-test
    "Device Access",
    "Inter-Device Access",
    "Inter-Device Numa Distance",
    "Unidirectional copy peak bandwidth GB/s",
    "Unidirectional copy average bandwidth GB/s",
    "Unidirectional peak bandwidth GB/s",
    "Bidirectional copy peak bandwidth GB/s",
    "Bidirectional copy average bandwidth GB/s",
    "Bdirectional copy peak bandwidth GB/s",
    "Bdirectional peak bandwidth GB/s",
    // rocm-smi
    "= Weight between two GPUs =",
    "= Hops between two GPUs =",
    "= Link Type between two GPUs =",
    "= Numa Nodes =",
];

/// The headers by their length in characters.
static BY_LENGTH: LazyLock<BTreeMap<usize, Vec<&'static str>>> = LazyLock::new(|| {
    let mut all: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for header in HEADERS {
        all.entry(header.chars().count()).or_default().push(header);
    }
    all
});

/// The text with such headers repaired; `None` where it has none.
pub(super) fn repaired(text: &Text, found: &mut Found) -> Option<Text> {
    let mut repairs: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    // the last line that is not empty, which may be the title of a table
    let mut above = "";
    for (i, line) in text.iter() {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            continue;
        }
        if trimmed.len() <= MAX_HEADER
            && repairs.len() < MOST
            && let Some(repair) =
                header(trimmed).or_else(|| of_gpus(line, text.line(i + 1))).or_else(|| of_numbers(text, i, above))
        {
            let message = format!(
                "the header '{}' is taken as '{}', from which it differs in one character",
                short(trimmed),
                short(repair.trim())
            );
            found.warn(text, "header", text.numbers(i, i), message);
            repairs.insert(i, vec![repair]);
        }
        above = trimmed;
    }
    (!repairs.is_empty()).then(|| text.rewritten(&repairs))
}

fn short(line: &str) -> String {
    const MOST: usize = 60;
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MOST { line } else { line.chars().take(MOST - 1).chain(['…']).collect() }
}

/// The header from which a line differs in one character, if there is exactly one.
fn header(line: &str) -> Option<String> {
    // a line of words, neither long nor short
    if line.len() > 160 || !line.contains(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let plain = plain(line);
    let length = plain.chars().count();
    // what lacks one character comes before what has one replaced: `nidirectional` is no `Bidirectional`
    let (mut lost, mut other) = (Near::default(), Near::default());
    for (_, headers) in BY_LENGTH.range(length.saturating_sub(1)..=length + 1) {
        for header in headers {
            if *header == plain {
                return None;
            }
            if one_apart(&plain, header) {
                let near = if header.chars().count() > length { &mut lost } else { &mut other };
                near.add(header);
            }
        }
    }
    let near = if lost.first.is_some() { lost } else { other };
    // two headers may be as near: the arrow of `GPU(row) - GPU(column)` is anybody's guess
    let near = near.first.filter(|_| !near.several);
    near.map(|header| match header.strip_prefix("= ") {
        Some(title) => format!("======== {title}").replace(" =", " ========"),
        None => header.to_owned(),
    })
}

/// Headers that are as near to a line.
#[derive(Clone, Copy, Default)]
struct Near {
    first: Option<&'static str>,
    several: bool,
}

impl Near {
    fn add(&mut self, header: &'static str) {
        self.several |= self.first.is_some();
        self.first = self.first.or(Some(header));
    }
}

/// A line with single blanks, and with a rule's signs as one.
fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    for word in line.split_whitespace() {
        let word = if word.len() > 2 && word.bytes().all(|b| b == b'=') { "=" } else { word };
        if !plain.is_empty() {
            plain.push(' ');
        }
        plain.push_str(word);
    }
    plain
}

/// Whether one becomes the other by one character that is added, left out or replaced.
pub(super) fn one_apart(a: &str, b: &str) -> bool {
    let front = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let (n, m) = (a.chars().count(), b.chars().count());
    let back = a.chars().rev().zip(b.chars().rev()).take_while(|(a, b)| a == b).count();
    let most = n.max(m);
    a != b && n.abs_diff(m) <= 1 && front + back.min(n.min(m) - front) + 1 >= most
}

/// `GPU0 GPU GPU2 …`: the header of `nvidia-smi topo` with one of its names broken.
fn of_gpus(line: &str, below: &str) -> Option<String> {
    if !line.contains("GPU") {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().take(MAX_HEADER / 4).collect();
    // a header names devices and no values
    if words.iter().any(|word| word.parse::<f64>().is_ok()) {
        return None;
    }
    let name = |i: usize| format!("GPU{i}");
    let is = |i: usize| words.get(i).is_some_and(|word| *word == name(i));
    let right = (0..words.len()).filter(|i| is(*i)).count();
    // the run of names ends before the NICs or the affinities
    let wrong = (0..words.len()).find(|i| !is(*i))?;
    let run = (wrong + 1..words.len()).take_while(|i| is(*i)).count();
    let word = words.get(wrong)?;
    // the last of the names: what follows the names may be an adapter or a title of another column
    let last = wrong + 1 == words.len() && below.trim_start().starts_with("GPU0");
    let named = run > 0 || last || word.starts_with("GP") && gpu_number(word).is_none_or(|n| n as usize != wrong);
    if right < 1 || right != wrong + run || words.len() < 2 || !named || !one_apart(word, &name(wrong)) {
        return None;
    }
    let at = word.as_ptr() as usize - line.as_ptr() as usize;
    Some(format!("{}{}{}", line.get(..at)?, name(wrong), line.get(at + word.len()..)?))
}

/// `D\D 0 1 3` above rows of four cells: the columns of p2pBandwidthLatencyTest, nvbandwidth and rocm-bandwidth-test with a
/// number or the corner broken.
fn of_numbers(text: &Text, i: usize, above: &str) -> Option<String> {
    // their titles name the unit or the matrix
    if !["Matrix", "(row)", "GB/s", "Access", "Distance", "latency"].iter().any(|word| above.contains(word)) {
        return None;
    }
    let words: Vec<&str> = text.line(i).split_whitespace().take(MAX_HEADER / 2).collect();
    let corner = words.first().filter(|word| word.parse::<u32>().is_err());
    let numbers = words.get(usize::from(corner.is_some())..)?;
    // the first row shows how many columns there are
    let below = (i + 1..i + 3).map(|k| text.line(k)).find(|line| !line.trim().is_empty())?;
    let mut cells = below.split_whitespace();
    cells.next()?.parse::<u32>().ok()?;
    let cols = cells.clone().count();
    let number = |word: &str| matches!(word, "X" | "N/A") || word.parse::<f64>().is_ok();
    if cols < 1 || !cells.all(number) || numbers.len().abs_diff(cols) > 1 {
        return None;
    }
    let wanted: Vec<String> = (0..cols).map(|n| n.to_string()).collect();
    let (expected, actual) = (wanted.join(" "), numbers.join(" "));
    let (corner, slips) = match corner {
        None => ("", 0),
        Some(&corner) if matches!(corner, "D\\D" | "D/D") => (corner, 0),
        // the CUDA sample calls its tables matrices, AMD's program does not
        Some(&corner) if one_apart(corner, "D\\D") && above.contains("Matrix") => ("D\\D", 1),
        Some(&corner) if one_apart(corner, "D/D") && !above.contains("Matrix") => ("D/D", 1),
        Some(_) => return None,
    };
    // a number of one digit that is lost takes its blank with it
    let lost = numbers.len() + 1 == cols && {
        let mut rest = numbers.iter();
        let matched =
            wanted.iter().filter(|w| rest.clone().next().is_some_and(|n| n == w) && rest.next().is_some()).count();
        matched == numbers.len() && !numbers.is_empty()
    };
    let slips = slips
        + match () {
            () if actual == expected => 0,
            () if lost || numbers.len() == cols && one_apart(&actual, &expected) => 1,
            () => return None,
        };
    (slips == 1).then(|| format!("{corner} {expected}"))
}

#[cfg(test)]
mod tests {
    use super::super::scan_text;
    use super::*;

    /// Every text that lacks one character of a line.
    fn without_one(text: &str, line: usize) -> Vec<String> {
        let lines: Vec<&str> = text.split('\n').collect();
        let header: Vec<char> = lines[line].chars().collect();
        let mut all = Vec::new();
        for at in 0..header.len() {
            if header[at] == ' ' || header[at] == '\t' {
                continue;
            }
            let cut: String = header.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, c)| *c).collect();
            let mut lines: Vec<String> = lines.iter().map(|l| (*l).to_owned()).collect();
            lines[line] = cut;
            all.push(lines.join("\n"));
        }
        all
    }

    /// What is read of a text, without where and how.
    fn facts(text: &str) -> Vec<String> {
        scan_text(&Text::new("t", text.as_bytes())).evidence.iter().map(|e| format!("{:?}", e.fact)).collect()
    }

    fn survives(text: &str, line: usize) {
        let whole = facts(text);
        assert!(!whole.is_empty(), "{text}");
        for cut in without_one(text, line) {
            assert_eq!(facts(&cut).len(), whole.len(), "{}", cut.split('\n').nth(line).unwrap_or_default());
        }
    }

    #[test]
    fn distances() {
        for (a, b) in [("D\\D", "DD"), ("DD", "D\\D"), ("GPU", "GPU1"), ("GPU1", "GXU1"), ("aab", "aaab")] {
            assert!(one_apart(a, b), "{a} {b}");
        }
        for (a, b) in [("a", "a"), ("ab", "ba"), ("", "ab"), ("GPU10", "GPU1x2")] {
            assert!(!one_apart(a, b), "{a} {b}");
        }
    }

    #[test]
    fn p2p_bandwidth_latency_test() {
        let text = "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n   D\\D     0      1      2 \n     0 600.1  25.1  25.2 \n     1  25.3 601.2  25.4 \n     2  25.3 25.4 601.4\n";
        survives(text, 0);
        survives(text, 1);
    }

    #[test]
    fn nvbandwidth() {
        let text = "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n 0       N/A     26.1\n 1      26.2      N/A\n\nSUM device_to_device_memcpy_read_ce 52.3\n";
        survives(text, 0);
        survives(text, 2);
    }

    #[test]
    fn nvidia_smi_topo() {
        let text = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\tSYS\t0-31\t0\nGPU1\tPIX\t X \tSYS\t0-31\t0\nGPU2\tSYS\tSYS\t X \t32-63\t1\n";
        survives(text, 0);
    }

    #[test]
    fn nccl_tests_and_perftest() {
        survives(
            "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
             #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n\
             \x20    1048576        262144     float     sum      -1    61.26   17.12   29.95      0    60.80   17.25   30.18      0\n",
            0,
        );
        survives(
            " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 65536      5000             392.10             391.90             0.747\n",
            0,
        );
    }

    #[test]
    fn amds_programs() {
        let run = "RocmBandwidthTest Version: 2.6.0\nDevice: 0,  X CPU\nDevice: 1,  Card,  GPU-01,  05:0.0\nDevice: 2,  Card,  GPU-02,  06:0.0\n\
                   Unidirectional copy peak bandwidth GB/s\n\nD/D       0           1           2\n\n0         N/A         26.1        26.2\n\n1         26.3        900.0       51.1\n\n2         26.3        51.2        900.0\n";
        survives(run, 4);
        survives(run, 6);
        let smi = "========= Link Type between two GPUs =========\n       GPU0 GPU1\nGPU0   0    XGMI\nGPU1   XGMI 0\n";
        survives(smi, 0);
        survives(smi, 1);
    }

    #[test]
    fn whole_headers_and_sentences_stay() {
        for text in [
            "GPU0 GPU1 GPU2\n",
            "GPU0 GPU2 20.31\n",
            "GPU0\tPIX\tSYS\n",
            "GPU0 and GPU 1\n",
            "Device access\nthe device\n",
            "memcpy CE GPU(row) - GPU(column) bandwidth (GB/s)\n",
            "Matrix\n0 1 2\n0 1 2 3\n",
        ] {
            let changed = repaired(&Text::new("t", text.as_bytes()), &mut Found::default());
            let changed = changed.map(|t| t.join(0, 9).to_owned());
            assert!(changed.is_none() || text.starts_with("Device access"), "{text}: {changed:?}");
        }
    }
}
