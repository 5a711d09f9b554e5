//! What nvbandwidth's tests measure: from a test's name and its table to our matrices.
//!
//! Orientation, from nvbandwidth's source. The arrow it prints over a table of GPU pairs is not the way the
//! data goes: `device_to_device_memcpy_write` copies from row to column under `GPU(row) <- GPU(column)`, and
//! `…_read` from column to row under `GPU(row) -> GPU(column)`. In both the row's GPU does the copy. Hence
//! tables of pairs are taken as printed: the row initiates, and writes to or reads from the column. Of the
//! two tables of a bidirectional test, `Write1` and `Read2` are the copies that the column initiates; they
//! are transposed, so that the row initiates everywhere. One-row tables become:
//!
//! | test | rows → columns |
//! |---|---|
//! | `host_to_device…`, `host_to_all…` | `host` → GPUs |
//! | `device_to_host…`, `all_to_host…` | GPUs → `host` |
//! | `host_device_latency…` | GPUs (which load) → `host` |
//! | `all_to_one…` | `others` → GPUs |
//! | `one_to_all…` | GPUs → `others` |
//! | `device_local_copy` | GPUs → `self` |
//!
//! `…_to_all`, `all_to_…` and `one_to_all` run many copies at once: their numbers are no rates of a pair
//! alone, and the title, which is the test's name, says so. A bidirectional number that is not a "Total" is
//! one direction's share. Rows and columns of `multinode_…` tests are processes: `rank0` ….

use super::words::meaning;
use super::{Direction, Engine, Matrix, Operation, Quantity, Unit};

/// Tests of copies between GPUs, which run only where peer access works.
const PAIR_TESTS: [&str; 3] = ["device_to_device", "all_to_one", "one_to_all"];

/// One table of a test, as printed.
pub(super) struct TestTable<'a> {
    /// Name of the test, `host_to_device_memcpy_ce`.
    pub(super) test: &'a str,
    /// The line over the table.
    pub(super) description: &'a str,
    /// Row numbers.
    pub(super) rows: Vec<u32>,
    /// Column numbers.
    pub(super) cols: Vec<u32>,
    /// A list per row, as long as `cols`.
    pub(super) cells: Vec<Vec<Option<f64>>>,
}

impl TestTable<'_> {
    /// The matrix that the table is.
    pub(super) fn into_matrix(self) -> Matrix {
        let (test, description) = (self.test, self.description);
        let latency = description.contains("(ns)");
        // a pair that was not measured reads 0 in versions before 0.3
        let mut cells = self.cells;
        cells.iter_mut().flatten().for_each(|cell| *cell = cell.filter(|v| *v != 0.0));
        let (rows, cols, values) = oriented(test, description, &self.rows, &self.cols, cells);
        Matrix {
            quantity: if latency { Quantity::LoadLatency } else { Quantity::Bandwidth },
            direction: direction(test, description),
            p2p: PAIR_TESTS.iter().any(|t| test.contains(t)).then_some(true),
            op: meaning(test, &[(&["_read"], Operation::Read), (&["_write"], Operation::Write)]),
            engine: engine(test),
            unit: if latency { Unit::Nanoseconds } else { Unit::GigabytesPerSecond },
            rows,
            cols,
            values,
            title: title(test, description),
            ..Matrix::default()
        }
    }
}

type Cells = Vec<Vec<Option<f64>>>;

/// The rows, columns and cells of a table, turned as the module's head says.
fn oriented(
    test: &str,
    description: &str,
    rows: &[u32],
    cols: &[u32],
    cells: Cells,
) -> (Vec<String>, Vec<String>, Cells) {
    let device = if test.starts_with("multinode") { "rank" } else { "GPU" };
    let devices = |numbers: &[u32]| numbers.iter().map(|n| format!("{device}{n}")).collect();
    let one = |name: &str| vec![name.to_owned()];
    let has = |part: &str| test.contains(part);
    if has("device_local_copy") {
        (devices(cols), one("self"), transposed(cells))
    } else if has("to_host") || has("host_device_latency") {
        (devices(cols), host_names(rows), transposed(cells))
    } else if has("host_to") {
        (host_names(rows), devices(cols), cells)
    } else if has("all_to_one") {
        (one("others"), devices(cols), cells)
    } else if has("one_to_all") {
        (devices(cols), one("others"), transposed(cells))
    } else if matches!(part(description), Some("write1" | "read2")) {
        (devices(cols), devices(rows), transposed(cells))
    } else {
        (devices(rows), devices(cols), cells)
    }
}

fn transposed(cells: Cells) -> Cells {
    let mut turned: Cells = vec![Vec::with_capacity(cells.len()); cells.first().map_or(0, Vec::len)];
    for row in cells {
        turned.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
    turned
}

/// `host` for one row, `host0` … for one row a NUMA node.
fn host_names(rows: &[u32]) -> Vec<String> {
    match rows {
        [_] => vec!["host".to_owned()],
        _ => rows.iter().map(|n| format!("host{n}")).collect(),
    }
}

/// Which of a bidirectional test's tables it is, as nvbandwidth spells it in the test's `SUM` lines.
fn part(description: &str) -> Option<&'static str> {
    let parts =
        [("Read1", "read1"), ("Read2", "read2"), ("Write1", "write1"), ("Write2", "write2"), ("Total", "total")];
    parts.into_iter().find(|(word, _)| description.split_whitespace().any(|w| w == *word)).map(|(_, key)| key)
}

fn title(test: &str, description: &str) -> String {
    match part(description) {
        Some(part) => format!("{test}_{part}"),
        None => test.to_owned(),
    }
}

fn direction(test: &str, description: &str) -> Option<Direction> {
    if test.contains("latency") {
        None
    } else if part(description) == Some("total") {
        Some(Direction::Bidirectional)
    } else if test.contains("bidirectional") {
        Some(Direction::BidirectionalShare)
    } else {
        Some(Direction::Unidirectional)
    }
}

fn engine(test: &str) -> Option<Engine> {
    if test.ends_with("_sm") {
        Some(Engine::Sm)
    } else if test.ends_with("_ce") || test == "device_local_copy" {
        Some(Engine::Ce)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(test: &str, description: &str, cells: &[&[f64]]) -> Matrix {
        let numbers = |n: usize| (0..n as u32).collect();
        let cells: Cells = cells.iter().map(|row| row.iter().copied().map(Some).collect()).collect();
        TestTable { test, description, rows: numbers(cells.len()), cols: numbers(cells[0].len()), cells }.into_matrix()
    }

    #[test]
    fn the_row_initiates_whatever_the_arrow() {
        let read = matrix(
            "device_to_device_memcpy_read_ce",
            "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
            &[&[0.0, 1.0], &[2.0, 0.0]],
        );
        assert_eq!((read.between("GPU0", "GPU1"), read.between("GPU0", "GPU0")), (Some(1.0), None));
        assert_eq!((read.op, read.engine, read.p2p), (Some(Operation::Read), Some(Engine::Ce), Some(true)));
        assert_eq!(read.direction, Some(Direction::Unidirectional));
    }

    #[test]
    fn tables_of_a_bidirectional_test() {
        let test = "device_to_device_bidirectional_memcpy_write_sm";
        let table = |word: &str| {
            matrix(
                test,
                &format!("memcpy SM GPU(row) <-> GPU(column) {word} bandwidth (GB/s)"),
                &[&[0.0, 1.0], &[2.0, 0.0]],
            )
        };
        let (one, two, total) = (table("Write1"), table("Write2"), table("Total"));
        assert_eq!(one.between("GPU1", "GPU0"), Some(1.0), "the column initiated");
        assert_eq!(two.between("GPU0", "GPU1"), Some(1.0));
        assert_eq!(one.direction, Some(Direction::BidirectionalShare));
        assert_eq!(total.direction, Some(Direction::Bidirectional));
        assert_eq!(total.title, "device_to_device_bidirectional_memcpy_write_sm_total");
    }

    #[test]
    fn one_row_tables() {
        let ends = |test, description| {
            let m = matrix(test, description, &[&[1.0, 2.0]]);
            (m.rows.join(" "), m.cols.join(" "), m.values.len())
        };
        let down = ends("host_to_device_memcpy_ce", "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)");
        assert_eq!(down, ("host".to_owned(), "GPU0 GPU1".to_owned(), 1));
        let up = ends("all_to_host_memcpy_ce", "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)");
        assert_eq!(up, ("GPU0 GPU1".to_owned(), "host".to_owned(), 2));
        let to_one = ends("all_to_one_write_ce", "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)");
        assert_eq!(to_one, ("others".to_owned(), "GPU0 GPU1".to_owned(), 1));
        let local = ends("device_local_copy", "memcpy local GPU(column) bandwidth (GB/s)");
        assert_eq!(local, ("GPU0 GPU1".to_owned(), "self".to_owned(), 2));
    }

    #[test]
    fn latency_is_in_ns_and_has_no_direction() {
        let m = matrix(
            "device_to_device_latency_sm",
            "Device to Device Latency SM GPU(row) <-> GPU(column) (ns)",
            &[&[0.0, 800.0], &[801.0, 0.0]],
        );
        assert_eq!((m.quantity, m.unit, m.direction), (Quantity::LoadLatency, Unit::Nanoseconds, None));
    }

    #[test]
    fn several_host_rows() {
        let m =
            matrix("host_to_device_memcpy_ce", "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", &[&[1.0], &[2.0]]);
        assert_eq!(m.rows, ["host0", "host1"]);
    }
}
