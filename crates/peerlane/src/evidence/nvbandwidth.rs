//! Reads the text that `nvbandwidth` prints; `nvbandwidth_tests` says what each test's table means.

use super::grid;
use super::nvbandwidth_tests::TestTable;
use super::{Fact, Found, GpuFacts, Text};

const TOOL: &str = super::tool::NVBANDWIDTH;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut running: Option<Running> = None;
    let mut i = 0;
    while i < text.len() {
        let line = text.line(i).trim();
        if let Some(test) = running_line(line) {
            finish(text, running.replace(Running { test, line: i, answered: false }), found);
        } else if device(line).is_some() {
            i = devices(text, i, found);
            continue;
        } else if let Some(test) = &mut running {
            if let Some(status) = failure(line) {
                // newer releases do not say which test they leave out, and it is not one that gave numbers
                if test.answered {
                    i += 1;
                    continue;
                }
                test.answered = true;
                let message = format!("{} gave no numbers: {status}", test.test);
                found.warn(text, TOOL, text.numbers(test.line, i), message);
            } else if is_description(line)
                && let Some(last) = table(text, i, test.test, found)
            {
                test.answered = true;
                i = last;
            }
        }
        i += 1;
    }
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

/// `Running host_to_device_memcpy_ce.`
fn running_line(line: &str) -> Option<&str> {
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

/// `Device 0: NVIDIA H200 (00000000:00:06)`.
fn device(line: &str) -> Option<GpuFacts> {
    named_device(line.strip_prefix("Device ")?)
}

/// `0: NVIDIA H200 (00000000:00:06)`.
pub(super) fn named_device(words: &str) -> Option<GpuFacts> {
    let (index, rest) = words.split_once(": ")?;
    let (name, address) = rest.trim().strip_suffix(')')?.rsplit_once(" (")?;
    Some(GpuFacts {
        index: Some(index.parse().ok()?),
        name: Some(name.to_owned()),
        address: Some(address.parse().ok()?),
        ..GpuFacts::default()
    })
}

/// Reads the list of devices; returns the line to go on with.
fn devices(text: &Text, first: usize, found: &mut Found) -> usize {
    let gpus: Vec<GpuFacts> = (first..text.len()).map_while(|i| device(text.line(i).trim())).collect();
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
