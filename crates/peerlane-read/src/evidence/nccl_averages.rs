//! The sums that nccl-tests prints last, where its table is not quoted: `Avg bus bandwidth    : 481`.
//!
//! They average over all sizes, small ones too, so that they are shown as they are and compared with nothing.

use super::nccl_tests::command;
use super::text::Span;
use super::{CorruptData, Fact, Found, RateRow, RateTable, Text};
use peerlane_machine::units::Rate;

const TOOL: &str = "nccl-tests";

/// Lines above a sum in which the rows of its table would stand.
const TABLE_DISTANCE: usize = 8;

/// More runs are more than anybody compares.
const MAX_RUNS: usize = 4096;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["Avg bus bandwidth", "Out of bounds values"]) {
        return;
    }
    let mut program = None;
    let mut lines = Span::default();
    let mut rows = Vec::new();
    for (i, line) in text.iter() {
        if let Some(name) = command(line).or_else(|| value(line, "Collective test starting")) {
            program = Some(name.to_owned());
        }
        if has_table(text, i, line) {
            continue;
        }
        let test = || program.clone().unwrap_or_else(|| TOOL.to_owned());
        let failed = value(line, "Out of bounds values").filter(|value| value.ends_with("FAILED"));
        if let Some(detail) = failed {
            let detail = format!("out of bounds values: {detail}");
            found.push(text, TOOL, text.numbers(i, i), Fact::Corrupt(CorruptData { test: test(), detail }));
        }
        let average = value(line, "Avg bus bandwidth").and_then(|value| value.parse::<f64>().ok());
        if let Some(average) = average.filter(|_| rows.len() < MAX_RUNS) {
            lines.add(i);
            let rates = vec![Some(Rate::from_gb(average))];
            rows.push(RateRow { words: vec![test()], rates, line: text.numbers(i, i).0 });
        }
    }
    let (word_columns, rate_columns) = (vec!["test".to_owned()], vec!["average bus bandwidth of all sizes".to_owned()]);
    if let Some(lines) = lines.numbers(text) {
        found.push(text, TOOL, lines, Fact::Rates(RateTable { word_columns, rate_columns, rows }));
    }
}

/// `# Avg bus bandwidth    : 481`, of which pages drop the sign at its start.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let line = line.trim().trim_start_matches(['#', '|', '*', '-', '`', ' ']);
    let value = line.strip_prefix(key)?.trim_start().strip_prefix(':')?;
    Some(value.trim_end_matches(['|', '*', '`', ' ']).trim()).filter(|value| !value.is_empty())
}

/// Whether the rows that a sum is of stand above it.
fn has_table(text: &Text, i: usize, line: &str) -> bool {
    let is_row = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|size| size.bytes().all(|b| b.is_ascii_digit())) && words.count() >= TABLE_DISTANCE
    };
    line.contains(':') && (i.saturating_sub(TABLE_DISTANCE)..i).any(|above| is_row(text.line(above)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn averages_of_several_runs_stand_by_test() {
        let found = scanned(
            scan,
            "./build/all_reduce_perf -b 8\nOut of bounds values : 0 OK\nAvg bus bandwidth    : 481\n\n$ alltoall_perf -g 8\n#  Avg bus bandwidth : 104.5\n",
        );
        let [one] = &found.evidence[..] else { panic!("{found:?}") };
        let Fact::Rates(table) = &one.fact else { panic!() };
        let rows: Vec<_> = table.rows.iter().map(|r| (r.words[0].as_str(), r.rates[0].map(Rate::gb), r.line)).collect();
        assert_eq!(rows, [("all_reduce_perf", Some(481.0), 3), ("alltoall_perf", Some(104.5), 6)]);
        assert_eq!(one.origin.lines, Some((3, 6)));
    }

    #[test]
    fn wrong_values_are_a_failed_test() {
        let found = scanned(scan, "all_gather_perf\n# Out of bounds values : 3 FAILED\n");
        let Fact::Corrupt(corrupt) = &found.evidence[0].fact else { panic!() };
        assert_eq!(
            (corrupt.test.as_str(), corrupt.detail.as_str()),
            ("all_gather_perf", "out of bounds values: 3 FAILED")
        );
    }

    #[test]
    fn sums_below_their_table_and_prose_are_left() {
        let row = "1024 256 float sum -1 30.0 0.03 0.05 0 31.0 0.03 0.05 0\n";
        let below = format!("{row}# Out of bounds values : 1 FAILED\n# Avg bus bandwidth : 481\n");
        for text in [&below, "The Avg bus bandwidth was: 3\n", "Avg bus bandwidth : fast\n", ""] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
