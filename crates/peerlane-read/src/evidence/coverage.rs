//! How much of a text was understood, and which of its lines look like data of a known format and were not used.

use std::collections::HashSet;

use super::limits::MAX_WARNINGS;
use super::words::{gpu_number, words};
use super::{Found, Text};
use peerlane_machine::origin::{Coverage, Doubtful};

/// Doubtful lines that are shown; the others are counted.
const SHOWN: usize = 3;

/// More of a line is not shown.
const MOST_CHARS: usize = 60;

/// Counts the lines of a text, from what readers found in it.
pub(super) fn of(text: &Text, found: &Found) -> Coverage {
    // what a warning names is already reported
    let stated = found.evidence.iter().filter_map(|e| e.origin.lines);
    let warned = found.warnings.iter().take(MAX_WARNINGS).filter_map(|w| w.origin.as_ref()?.lines);
    let understood = merged(stated.collect());
    let unused: HashSet<u32> = found.unused.iter().copied().collect();
    let known = merged(warned.chain(understood.iter().copied()).collect());
    let mut coverage = Coverage { source: text.source().to_string(), ..Coverage::default() };
    let within = |at: &mut usize, spans: &[(u32, u32)], line: u32| {
        while spans.get(*at).is_some_and(|(_, last)| *last < line) {
            *at += 1;
        }
        spans.get(*at).is_some_and(|(first, _)| *first <= line)
    };
    let (mut at, mut known_at) = (0, 0);
    for (i, line) in text.iter().filter(|(_, line)| !line.trim().is_empty()) {
        let number = i as u32 + 1;
        let understood = within(&mut at, &understood, number) && !unused.contains(&number);
        let known = within(&mut known_at, &known, number);
        if understood {
            coverage.understood += 1;
        } else if let Some(format) = format(line).filter(|_| !known) {
            coverage.doubtful += 1;
            if coverage.lines.len() < SHOWN {
                let shown: String = line.trim().chars().take(MOST_CHARS).collect();
                coverage.lines.push(Doubtful { line: number, format: format.to_owned(), text: shown });
            }
        } else {
            coverage.ignored += 1;
        }
    }
    coverage
}

/// Spans of lines in order, those that overlap as one.
fn merged(mut spans: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    spans.sort_unstable();
    let mut all: Vec<(u32, u32)> = Vec::new();
    for (first, last) in spans {
        match all.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = (*end).max(last),
            _ => all.push((first, last)),
        }
    }
    all
}

/// The format that a line is data of, by signs that hardly any sentence has.
fn format(line: &str) -> Option<&'static str> {
    let line = line.trim_start_matches('>').trim();
    // most lines are recognised by their first character or length
    if line.len() > 1000 {
        return None;
    }
    let starts = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
    let has = |word: &str| line.contains(word);
    if starts(&["LnkSta:", "LnkCap:"]) && has("Speed") && has("Width") {
        return Some("lspci -vvv");
    }
    if has("NVRM: Xid (") {
        return Some("kernel log");
    }
    if starts(&["Unidirectional P2P=", "Bidirectional P2P=", "P2P=Enabled ", "P2P=Disabled "]) && has("Matrix") {
        return Some("p2pBandwidthLatencyTest");
    }
    if starts(&["memcpy CE ", "memcpy SM "]) && has("(row)") {
        return Some("nvbandwidth");
    }
    if starts(&["#"]) && has(" algbw ") && has(" busbw ") {
        return Some("nccl-tests");
    }
    if starts(&["#bytes "]) && has("iterations") {
        return Some("perftest");
    }
    if starts(&["D/D "]) {
        return Some("rocm-bandwidth-test");
    }
    if starts(&["Link "]) && line.ends_with(" GB/s") {
        return Some("nvidia-smi nvlink -s");
    }
    if starts(&["CA '", "Infiniband device '"]) {
        return Some("ibstat");
    }
    // a row of a table between GPUs
    let mut cells = words(line).map(|w| w.text);
    cells.next().filter(|first| gpu_number(first.trim_end_matches(':')).is_some())?;
    let class = |word: &str| matches!(word, "PIX" | "PXB" | "PHB" | "NODE" | "SYS" | "SOC" | "XGMI" | "PCIE");
    let nvlink =
        |word: &str| word.strip_prefix("NV").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let state = |word: &str| matches!(word, "OK" | "CNS" | "GNS" | "TNS");
    let (mut classes, mut states, mut others) = (0, 0, 0);
    for word in cells {
        classes += usize::from(class(word) || nvlink(word));
        states += usize::from(state(word));
        others += usize::from(!(class(word) || nvlink(word) || state(word) || matches!(word, "X" | "-" | "—")));
    }
    match (classes, states) {
        (2.., 0) if others <= classes + 4 => Some("nvidia-smi topo -m"),
        (0, 2..) if others == 0 => Some("nvidia-smi topo -p2p"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan_text;
    use super::*;

    fn coverage(text: &str) -> Coverage {
        scan_text(&Text::new("t", text.as_bytes())).coverage.remove(0)
    }

    #[test]
    fn lines_are_understood_ignored_or_doubtful() {
        let topo = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-31\nGPU1\tPIX\t X \t0-31\n";
        let c = coverage(&format!("Here it is:\n\n{topo}\nThanks\n"));
        assert_eq!((c.understood, c.ignored, c.doubtful), (3, 2, 0));
        // a warning reports the header of nccl-tests already
        let c = coverage("LnkSta broken\n# size count time algbw busbw\nLink 0: many GB/s\nhello\n");
        assert_eq!((c.understood, c.ignored, c.doubtful), (0, 3, 1), "{c:?}");
        assert_eq!((c.lines[0].line, c.lines[0].format.as_str()), (3, "nvidia-smi nvlink -s"));
    }

    #[test]
    fn sentences_are_no_data() {
        for line in [
            "GPU0 and GPU1 are joined by PIX",
            "Link 0 is slow",
            "the #bytes column",
            "GPU0 is OK, GPU1 is OK",
            "Unidirectional P2P=Enabled is better",
        ] {
            assert_eq!(format(line), None, "{line}");
        }
    }

    #[test]
    fn overlapping_spans_count_once() {
        assert_eq!(merged(vec![(5, 9), (1, 3), (2, 6), (11, 12)]), [(1, 9), (11, 12)]);
    }
}
