//! `ucx_perftest`: the test and its message size in the banner, and the last row of its table.
//!
//! ```text
//! | Test:         tag match bandwidth                              |
//! | Message size: 1048576                                          |
//! |    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
//! Final:                  1000      0.000    92.411    92.411    10821.15   10821.15       10821       10821
//! ```
//!
//! A server prints the banner alone. The tool counts MB as 2²⁰ bytes.

use std::collections::BTreeMap;

use super::text::Span;
use super::{Curve, Fact, Found, Series, Text, Unit};
use peerlane_machine::units::Bytes;

const TOOL: &str = "ucx_perftest";

/// The numbers of a row: iterations, three overheads, two bandwidths, two message rates.
const COLUMNS: usize = 8;

/// Lines of the banner that are kept as settings.
const SETTINGS: [&str; 5] = ["API", "Data layout", "Send memory", "Recv memory", "Window size"];

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["Message size:", "message rate (msg/s)"]) {
        return;
    }
    let mut test = Test::default();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>').trim();
        if let Some((key, value)) = banner(line) {
            match key {
                "Test" => test = Test { name: value.to_owned(), ..Test::default() },
                "Message size" => test.size = value.parse().ok(),
                _ if SETTINGS.contains(&key) => drop(test.settings.insert(key.to_owned(), value.to_owned())),
                _ => continue,
            }
            test.lines.add(i);
        } else if let Some(row) = last_row(line) {
            test.lines.add(i);
            std::mem::take(&mut test).push(text, row, found);
        } else if let Some(asked) = command(line) {
            test = Test { lines: test.lines, ..asked };
            test.lines.add(i);
        } else if let Some(row) = numbers(line).filter(|_| test.size.is_some()) {
            // releases before 1.9 print no other last row: the last one of a table counts
            test.lines.add(i);
            test.row = Some(row);
        } else if let Some(row) = test.row.filter(|_| !line.starts_with('|') && !line.starts_with('+')) {
            std::mem::take(&mut test).push(text, row, found);
        }
    }
    if let Some(row) = test.row {
        test.push(text, row, found);
    }
}

/// The test that a command asks for: `UCX_TLS=all ucx_perftest -t tag_bw -m cuda -s 1000000 -n 100 host`.
fn command(line: &str) -> Option<Test> {
    let (before, rest) = line.split_once("ucx_perftest ")?;
    // a sentence about it asks for nothing
    let is_command = before.split_whitespace().all(|word| word.contains(['=', '/', '$', '>', '#']) || word.len() < 12);
    let word = |option: &str| {
        let mut words = rest.split_whitespace().skip_while(|word| *word != option);
        words.next().and_then(|_| words.next())
    };
    let name = word("-t").filter(|_| is_command)?;
    let size = word("-s").map_or(Some(DEFAULT_SIZE), |size| size.split(',').next()?.parse().ok())?;
    let memory = word("-m").map(|memory| ("Send memory".to_owned(), memory.to_owned()));
    Some(Test { name: name.to_owned(), size: Some(size), settings: memory.into_iter().collect(), ..Test::default() })
}

/// Bytes of a message where the command names none.
const DEFAULT_SIZE: u64 = 8;

/// `| Test:         tag match bandwidth     |`.
fn banner(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.strip_prefix('|')?.strip_suffix('|').unwrap_or(line.get(1..)?).split_once(':')?;
    let (key, value) = (key.trim(), value.trim());
    (!key.contains('|') && !value.is_empty() && key.len() <= 16).then_some((key, value))
}

/// The overall latency, and the average and overall bandwidth of `Final: …`.
fn last_row(line: &str) -> Option<[f64; 3]> {
    numbers(line.strip_prefix("Final:")?)
}

/// The same of the numbers of a row.
fn numbers(line: &str) -> Option<[f64; 3]> {
    if !line.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let numbers: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let fits = numbers.len() == COLUMNS && numbers.iter().all(|n: &f64| n.is_finite() && *n >= 0.0);
    fits.then(|| [numbers[3], numbers[4], numbers[5]])
}

/// A test as far as it was read.
#[derive(Default)]
struct Test {
    name: String,
    size: Option<u64>,
    settings: BTreeMap<String, String>,
    lines: Span,
    /// The last row so far of a table without a row of its own for the end.
    row: Option<[f64; 3]>,
}

impl Test {
    fn push(self, text: &Text, [latency, average, overall]: [f64; 3], found: &mut Found) {
        let (Some(size), Some(lines)) = (self.size, self.lines.numbers(text)) else { return };
        let series =
            |name: &str, unit, value| Series { name: name.to_owned(), unit: Some(unit), values: vec![Some(value)] };
        let what = format!("{TOOL} {}", self.name).trim_end().to_owned();
        let series = vec![
            series("bandwidth average", Unit::MebibytesPerSecond, average),
            series("bandwidth overall", Unit::MebibytesPerSecond, overall),
            series("latency overall", Unit::Microseconds, latency),
        ];
        let curve = Curve { what, ends: Vec::new(), sizes: vec![Bytes(size)], series, settings: self.settings };
        found.push(text, TOOL, lines, Fact::Curve(curve));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn a_banner_and_the_last_row() {
        let banner = "| Test:         tag match bandwidth      |\n| Send memory:  cuda                     |\n| Message size: 1048576                  |\n";
        let row = "[thread 0]        500      0.000    92.9    92.9   10000.0   10000.0   10821   10821\n\
                   Final:           1000      0.000    92.411    92.411    10821.15   10821.15       10821       10821\n";
        let found = scanned(scan, &format!("{banner}{row}"));
        let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Curve(curve) = &one.fact else { panic!() };
        assert_eq!((curve.what.as_str(), curve.sizes[0].0), ("ucx_perftest tag match bandwidth", 1_048_576));
        assert_eq!((curve.series[0].values[0], curve.settings["Send memory"].as_str()), (Some(10821.15), "cuda"));
        let whole = super::super::scan_text(&Text::new("t", format!("{banner}{row}").as_bytes()));
        assert!(whole.evidence.iter().any(|e| matches!(e.fact, Fact::Curve(_))), "bars are kept");
        assert_eq!(scanned(scan, banner), Found::default(), "a server's");
        assert_eq!(scanned(scan, &format!("message rate (msg/s)\n{row}")), Found::default(), "no size");
    }

    #[test]
    fn a_table_of_an_old_release_below_its_command() {
        let table = "|              |       latency (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |\n+------+\n\
                     | # iterations | typical | average | overall |  average |  overall |   average |   overall |\n+------+\n";
        let rows = "50     0.000    92.0    92.0   10000.0   10000.0       10900       10900\n\
                    100     0.000    91.4    91.4   10430.5   10430.5       10937       10937\n";
        let found = scanned(
            scan,
            &format!("UCX_TLS=all ucx_perftest -t tag_bw -m cuda -s 1000000 -n 100 h\n{table}{rows}\nend\n"),
        );
        let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Curve(curve) = &one.fact else { panic!() };
        assert_eq!((curve.what.as_str(), curve.sizes[0].0), ("ucx_perftest tag_bw", 1_000_000));
        assert_eq!(curve.series[0].values[0], Some(10430.5));
    }
}
