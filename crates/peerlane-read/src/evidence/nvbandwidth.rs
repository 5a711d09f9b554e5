//! Reads the text that `nvbandwidth` prints; `nvbandwidth_tests` knows what each test's table means.

use super::grid;
use super::nvbandwidth_tests::TestTable;
use super::{CorruptData, Fact, Found, GpuFacts, Text};

const TOOL: &str = super::tool::NVBANDWIDTH;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut running: Option<Running> = None;
    // releases before 0.5 print no addresses, so that the lines above identify their lists
    let mut head = false;
    text.walk(|i| {
        let line = text.line(i).trim();
        head |= line.starts_with("nvbandwidth Version");
        if let Some(test) = running_line(line) {
            finish(text, running.replace(Running { test, line: i, answered: false }), found);
        } else if let Some(test) = line.strip_prefix("Waiving ").and_then(|t| t.strip_suffix('.')).filter(|_| head) {
            // releases before 0.3 print this instead of running the test
            let message = format!("{test} was left out: no peer access, or too few GPUs");
            found.warn(text, TOOL, text.numbers(i, i), message);
        } else if device(line, head).is_some() {
            return Some(devices(text, i, head, found));
        } else if let Some(test) = &mut running {
            if line.starts_with(WRONG_DATA) {
                test.answered = true;
                corrupt(text, i, test.test, found);
            } else if let Some(status) = failure(line) {
                // newer releases do not name the test that they leave out, and it is not one that gave numbers
                if !std::mem::replace(&mut test.answered, true) {
                    let message = format!("{} gave no numbers: {status}", test.test);
                    found.warn(text, TOOL, text.numbers(test.line, i), message);
                }
            } else if is_description(line)
                && let Some(last) = table(text, i, test.test, found)
            {
                test.answered = true;
                return Some(last + 1);
            } else if test.answered {
                return Some(quoted(text, i, found)? + 1);
            }
        } else {
            return Some(quoted(text, i, found)? + 1);
        }
        None
    });
    finish(text, running, found);
}

/// The test whose output is being read.
struct Running<'a> {
    test: &'a str,
    line: usize,
    /// Whether a table or a status followed.
    answered: bool,
}

fn finish(text: &Text, running: Option<Running>, found: &mut Found) {
    if let Some(test) = running.filter(|test| !test.answered) {
        let message = format!("no table of {} follows; the text may be cut", test.test);
        found.warn(text, TOOL, text.numbers(test.line, test.line), message);
    }
}

/// What a test prints whose copy does not compare equal, before it gives up.
const WRONG_DATA: &str = "Invalid value when checking the pattern";

/// Lines in which the program describes wrong data.
const WRONG_LINES: usize = 2;

fn corrupt(text: &Text, line: usize, test: &str, found: &mut Found) {
    let last = (line + 1..=line + WRONG_LINES).take_while(|i| !text.line(*i).trim().is_empty()).last().unwrap_or(line);
    let offset = (line..=last).find_map(|i| text.line(i).trim().strip_prefix("Current offset"));
    let offset = offset.map(|o| o.trim_matches([' ', ':', '[', ']']));
    let detail = match offset {
        Some(offset) => format!("a wrong value at offset {offset}"),
        None => "a wrong value".to_owned(),
    };
    let fact = Fact::Corrupt(CorruptData { test: test.to_owned(), detail });
    found.push(text, TOOL, text.numbers(line, last), fact);
}

/// Lines from a table to its sum, a blank one between.
const SUM_GAP: usize = 3;

/// A table of which the line with the test's name is not quoted: its sum below names the test, else the line above it
/// does, by the arrows that [`super::nvbandwidth_tests`] explains. Returns its last line.
fn quoted(text: &Text, description: usize, found: &mut Found) -> Option<usize> {
    let line = text.line(description).trim();
    if !is_description(line) || !line.starts_with("memcpy ") {
        return None;
    }
    let grid = grid::read(text, description + 1, "")?;
    let sum = (grid.last + 1..=grid.last + SUM_GAP).find_map(|i| {
        let (test, total) = text.line(i).trim().strip_prefix("SUM ")?.split_once(' ')?;
        total.trim().parse::<f64>().ok().map(|_| test)
    });
    let test = sum.map(str::to_owned).or_else(|| test_of(line))?;
    table(text, description, &test, found)
}

/// The test that prints this line over its table.
fn test_of(description: &str) -> Option<String> {
    let mut words = description.strip_prefix("memcpy ")?.split_whitespace();
    let engine = words.next().filter(|e| matches!(*e, "CE" | "SM"))?.to_lowercase();
    Some(match words.take(3).collect::<Vec<_>>().as_slice() {
        ["CPU(row)", "->", "GPU(column)"] => format!("host_to_device_memcpy_{engine}"),
        ["CPU(row)", "<-", "GPU(column)"] => format!("device_to_host_memcpy_{engine}"),
        ["GPU(row)", "->", "GPU(column)"] => format!("device_to_device_memcpy_read_{engine}"),
        ["GPU(row)", "<-", "GPU(column)"] => format!("device_to_device_memcpy_write_{engine}"),
        // it is unknown which of the two directions is counted
        _ => return None,
    })
}

/// `Running host_to_device_memcpy_ce.`, behind the mark of a quotation that has no other line.
fn running_line(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(['>', ' ']);
    let test = line.strip_prefix("Running ")?.strip_suffix('.')?;
    let name = test.contains('_') && test.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    name.then_some(test)
}

/// A status other than success, in place of a table.
fn failure(line: &str) -> Option<&str> {
    ["Waived:", "Error:", "Not Found:"].iter().any(|s| line.starts_with(s)).then(|| line.trim_end_matches(':'))
}

/// The line over a table: `memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)`.
fn is_description(line: &str) -> bool {
    line.ends_with("(GB/s)") || line.ends_with("(ns)")
}

/// Reads the table below its description; returns its last line.
fn table(text: &Text, description: usize, test: &str, found: &mut Found) -> Option<usize> {
    let grid = grid::read(text, description + 1, "")?;
    let (last, lines) = (grid.last, text.numbers(description, grid.last));
    let description = text.line(description).trim();
    if grid.cut || description.contains("GPU(row)") && !(grid.rows.len() == 1 || grid.rows.len() == grid.cols.len()) {
        let message = format!("{test}: the table is cut: {} of {} rows", grid.rows.len(), grid.cols.len());
        found.warn(text, TOOL, lines, message);
    }
    let table = TestTable { test, description, rows: grid.rows, cols: grid.cols, cells: grid.cells };
    found.push(text, TOOL, lines, Fact::Matrix(table.into_matrix()));
    Some(last)
}

/// `Device 0: NVIDIA H200 (00000000:00:06)`; without the address below the head of an old release.
fn device(line: &str, head: bool) -> Option<GpuFacts> {
    let words = line.strip_prefix("Device ")?;
    named_device(words).or_else(|| {
        let (index, name) = words.split_once(": ").filter(|_| head)?;
        Some(GpuFacts::listed(index.parse().ok()?, name))
    })
}

/// `0: NVIDIA H200 (00000000:00:06)`.
pub(super) fn named_device(words: &str) -> Option<GpuFacts> {
    let (index, rest) = words.split_once(": ")?;
    let (name, address) = rest.trim().strip_suffix(')')?.rsplit_once(" (")?;
    Some(GpuFacts { address: Some(address.parse().ok()?), ..GpuFacts::listed(index.parse().ok()?, name) })
}

/// Reads the list of devices; returns the line to go on with.
fn devices(text: &Text, first: usize, head: bool, found: &mut Found) -> usize {
    let gpus: Vec<GpuFacts> = (first..text.len()).map_while(|i| device(text.line(i).trim(), head)).collect();
    let end = first + gpus.len();
    found.push(text, TOOL, text.numbers(first, end - 1), Fact::Gpus(gpus));
    end
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn a_run() {
        let found = scanned(
            scan,
            "nvbandwidth Version: v0.8\n\nvm\nDevice 0: Card A (0000000a:C1:00)\nDevice 1: Card A (0000000a:c2:00)\n\n\
             Running device_to_host_memcpy_ce.\nmemcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)\n\
             \x20          0         1\n 0     10.00     11.00\n\nSUM device_to_host_memcpy_ce 21.00\n\n\
             Running device_to_device_memcpy_read_ce.\nWaived: \n\
             Running device_to_device_memcpy_write_ce.\nmemcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)\n\
             \x20          0         1\n 0       N/A      2.00\n 1      3.00       N/A\n\nSUM x 5.00\n",
        );
        let [gpus, up, pairs] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Gpus(gpus) = &gpus.fact else { panic!() };
        assert_eq!(gpus[0].address.unwrap().to_string(), "000a:c1:00.0");
        assert_eq!(up.origin.lines, Some((8, 10)));
        let (Fact::Matrix(up), Fact::Matrix(pairs)) = (&up.fact, &pairs.fact) else { panic!() };
        assert_eq!(up.between("GPU1", "host"), Some(11.0));
        assert_eq!((pairs.between("GPU0", "GPU1"), pairs.between("GPU1", "GPU1")), (Some(2.0), None));
        assert_eq!(found.warnings.len(), 1, "the waived test");
    }

    #[test]
    fn a_waived_test_without_name_is_not_the_one_before() {
        let found = scanned(
            scan,
            "Running device_to_host_memcpy_ce.\nmemcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)\n\
             \x20          0\n 0     10.00\n\nSUM device_to_host_memcpy_ce 10.00\n\nWaived:\nWaived:\n",
        );
        assert_eq!((found.evidence.len(), found.warnings.len()), (1, 0));
    }

    #[test]
    fn a_table_without_its_heading() {
        let table = "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n 0 1\n 0 N/A 26.0\n 1 25.0 N/A\n";
        let read = scanned(scan, &format!("It says:\n\n{table}\nSUM device_to_device_memcpy_read_ce 51.00\n"));
        assert_eq!(
            read,
            scanned(scan, &format!("It says:\n\n{table}\nDone, 1\n")),
            "the line above it names the test too"
        );
        let Fact::Matrix(m) = &read.evidence[0].fact else { panic!() };
        assert_eq!((m.title.as_str(), m.between("GPU0", "GPU1")), ("device_to_device_memcpy_read_ce", Some(26.0)));
        let both = "memcpy CE CPU(row) <-> GPU(column) bandwidth (GB/s)\n 0\n 0 20.0\n";
        assert_eq!(scanned(scan, both), Found::default(), "it is unknown which direction is counted");
        let named = scanned(scan, &format!("{both}\nSUM device_to_host_bidirectional_memcpy_ce 20.00\n"));
        assert_eq!(named.evidence.len(), 1);
        let marked = "> Running host_to_device_memcpy_sm.\nmemcpy SM CPU(row) -> GPU(column) bandwidth (GB/s)\n0 1\n0 35.1 35.2\n";
        assert_eq!(scanned(scan, marked).evidence.len(), 1);
    }

    #[test]
    fn data_that_is_wrong_is_said() {
        let found = scanned(
            scan,
            "nvbandwidth Version: v0.2\nDevice 0: Card\nDevice 1: Card\n\nRunning device_to_device_memcpy_write_ce.\n \
             Invalid value when checking the pattern at 0x7f00\n Current offset : 4096 \nASSERT in expression\n",
        );
        let [gpus, wrong] = found.evidence.as_slice() else { panic!("{found:#?}") };
        assert!(matches!(&gpus.fact, Fact::Gpus(gpus) if gpus.len() == 2 && gpus[1].address.is_none()));
        let Fact::Corrupt(wrong) = &wrong.fact else { panic!() };
        assert_eq!(
            (wrong.test.as_str(), wrong.detail.as_str()),
            ("device_to_device_memcpy_write_ce", "a wrong value at offset 4096")
        );
        assert_eq!(found.warnings, []);
        assert_eq!(scanned(scan, "Device 0: a thing\n"), Found::default(), "only below its head");
        let waived = scanned(scan, "nvbandwidth Version: v0.2\nWaiving device_to_device_memcpy_write_ce.\n");
        assert!(waived.warnings[0].message.contains("was left out"));
    }

    #[test]
    fn cut_text_is_said() {
        let found = scanned(
            scan,
            "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n",
        );
        assert_eq!((found.evidence.len(), found.warnings.len()), (0, 1));
        let found = scanned(
            scan,
            "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n 0 1 2\n 0 N/A 1 1\n 1 1 N/A 1\n",
        );
        assert_eq!((found.evidence.len(), found.warnings.len()), (1, 1));
        assert_eq!(scanned(scan, "Running the tests.\nRunning.\n 0 1\n 0 1 2\n"), Found::default());
    }
}
