//! Matrices of numbers between GPUs that an author wrote into a document: `GPU0 GPU1 …` above, `GPU0: — 53.9 …` below.
//!
//! No tool prints them, so that unit and direction must be found in the lines just above; a matrix without a unit is
//! not used.

use std::borrow::Cow;

use super::words::{gpu_number, meaning, number_and_unit, unit_in, words};
use super::{Direction, Fact, Found, Matrix, Operation, Quantity, Text, Unit};

const TOOL: &str = "document table";

/// More GPUs than any machine has.
const MAX_GPUS: usize = 512;

/// Lines with words above the header that may name the unit.
const MAX_TITLE_LINES: usize = 3;

/// Lines above the header that are looked at.
const MAX_TITLE_DISTANCE: usize = 8;

pub(super) fn scan(text: &Text, found: &mut Found) {
    // a table of bandwidths without a unit has that of the rest of the document, where it has one only
    let gigabytes = text.holds(&["GB/s"]) && !text.holds(&["MB/s", "Gb/s", "Gbps", "GiB/s", "MiB/s", "Gbit"]);
    text.walk(|i| {
        let header = header(&joined(text.line(i)))?;
        let table = read_rows(text, i, &header)?;
        let next = table.last + 1;
        push(text, i, header, table, gigabytes, found);
        Some(next)
    });
}

/// A line whose GPUs are written in two words, `GPU 0`, with one word for each.
fn joined(line: &str) -> Cow<'_, str> {
    const APART: &str = "GPU ";
    if !line.contains(APART) {
        return line.into();
    }
    let mut plain = String::with_capacity(line.len());
    let mut parts = line.split(APART);
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(if part.starts_with(|c: char| c.is_ascii_digit()) { "GPU" } else { APART });
        plain.push_str(part);
    }
    plain.into()
}

struct Header {
    cols: Vec<String>,
    /// The columns are where data comes from (`Src→` stands before them).
    cols_are_sources: bool,
}

/// Whether a line is the header of such a matrix.
pub(super) fn is_header(line: &str) -> bool {
    header(&joined(line)).is_some()
}

/// At least two GPUs, with at most one other word before them.
fn header(line: &str) -> Option<Header> {
    if !line.contains("GPU") {
        return None;
    }
    let all: Vec<&str> = words(line).map(|w| w.text).collect();
    let corner = all.first().copied().filter(|w| gpu_number(w).is_none() && number_and_unit(w).is_none());
    let names = all.get(usize::from(corner.is_some())..)?;
    let fits = (2..=MAX_GPUS).contains(&names.len()) && names.iter().all(|w| gpu_number(w).is_some());
    let corner = corner.unwrap_or_default().to_lowercase();
    let cols_are_sources = corner.ends_with(['→', '>']) && (corner.starts_with("src") || corner.starts_with("from"));
    fits.then(|| Header { cols: names.iter().map(|&w| w.to_owned()).collect(), cols_are_sources })
}

struct Table {
    rows: Vec<String>,
    values: Vec<Vec<Option<f64>>>,
    /// The unit that its cells name.
    unit: Option<(Unit, f64)>,
    last: usize,
}

/// The rows below the header: a GPU, then numbers and dashes for all columns.
fn read_rows(text: &Text, first: usize, header: &Header) -> Option<Table> {
    let mut table = Table { rows: Vec::new(), values: Vec::new(), unit: None, last: first };
    for i in first + 1..text.len() {
        let line = joined(text.line(i));
        let is_rule = line.contains('-') && line.chars().all(|c| matches!(c, '|' | '-' | ':' | '+' | '=' | ' '));
        if table.rows.is_empty() && is_rule {
            continue;
        }
        let mut row = cells_of(&line, header.cols.len());
        let label = row.next().map(|w| w.trim_end_matches(':')).filter(|w| gpu_number(w).is_some());
        let cells: Option<Vec<Option<f64>>> = row.map(|word| cell(word, &mut table.unit)).collect();
        match (label, cells) {
            (Some(label), Some(cells)) if cells.len() == header.cols.len() && table.rows.len() < MAX_GPUS => {
                table.rows.push(label.to_owned());
                table.values.push(cells);
                table.last = i;
            }
            _ => break,
        }
    }
    let numbers = table.values.iter().flatten().flatten().count();
    (table.rows.len() >= 2 && numbers >= 2).then_some(table)
}

/// The cells of a row: between tabs, of which an empty one counts, else its words.
fn cells_of(line: &str, cols: usize) -> Box<dyn Iterator<Item = &str> + '_> {
    fn plain(cell: &str) -> &str {
        cell.trim_matches(|c: char| c == '*' || c.is_whitespace())
    }
    if line.contains('\t') && line.split('\t').count() > cols {
        return Box::new(line.split('\t').take(cols + 1).map(plain));
    }
    Box::new(words(line).map(|w| plain(w.text)))
}

/// A number, or what stands for none; anything else makes the line no row. A number may have its unit, the same in all cells.
fn cell(word: &str, unit: &mut Option<(Unit, f64)>) -> Option<Option<f64>> {
    if matches!(word, "—" | "–" | "-" | "X" | "x" | "N/A" | "n/a" | "*" | "") {
        return Some(None);
    }
    let (number, own) = number_and_unit(word.trim_start_matches('~'))?;
    if !own.is_empty() {
        let own = unit_in(own)?;
        if *unit.get_or_insert(own) != own {
            return None;
        }
    }
    Some(Some(number))
}

fn push(text: &Text, first: usize, header: Header, table: Table, gigabytes: bool, found: &mut Found) {
    let lines = text.numbers(first, table.last);
    let Some((title, unit, scale)) = title(text, first, gigabytes, table.unit) else { return };
    let scaled = |row: Vec<Option<f64>>| row.into_iter().map(|v| v.map(|v| v * scale)).collect();
    let mut values: Vec<Vec<Option<f64>>> = table.values.into_iter().map(scaled).collect();
    let (mut rows, mut cols) = (table.rows, header.cols);
    if header.cols_are_sources {
        values = (0..cols.len()).map(|j| values.iter().map(|row| row.get(j).copied().flatten()).collect()).collect();
        std::mem::swap(&mut rows, &mut cols);
    }
    push_titled(text, lines, Matrix { rows, cols, values, ..titled(&title, unit) }, found);
}

/// A matrix without values of which the title states what is counted.
pub(super) fn titled(title: &str, unit: Unit) -> Matrix {
    let low = title.to_lowercase();
    let direction = meaning(
        &low,
        &[
            (
                &["bidirectional", "bi-directional", "both directions", "bidirektional", "双向"],
                Direction::Bidirectional,
            ),
            (
                &["unidirectional", "uni-directional", "one direction", "one way", "one-way", "unidirektional", "单向"],
                Direction::Unidirectional,
            ),
        ],
    );
    let p2p = meaning(
        &low,
        &[(&["p2p=enabled", "p2p enabled", "p2p on"], true), (&["p2p=disabled", "p2p disabled", "p2p off"], false)],
    );
    let op = match (low.contains("write"), low.contains("read")) {
        (true, false) => Some(Operation::Write),
        (false, true) => Some(Operation::Read),
        _ => None,
    };
    let quantity = match unit {
        Unit::Microseconds | Unit::Nanoseconds => Quantity::Latency,
        _ => Quantity::Bandwidth,
    };
    Matrix { quantity, direction, p2p, op, unit, title: title.to_owned(), ..Matrix::default() }
}

/// Pushes it, with a warning where it is unknown what is counted.
pub(super) fn push_titled(text: &Text, lines: (u32, u32), matrix: Matrix, found: &mut Found) {
    if matrix.direction.is_none() && matrix.quantity == Quantity::Bandwidth {
        let message = format!("'{}' does not state whether one or both directions are counted", matrix.title);
        found.warn(text, TOOL, lines, message);
    }
    found.push(text, TOOL, lines, Fact::Matrix(matrix));
}

/// The nearest line above `header` that names a unit, without markup, the unit, and what its values are to be
/// multiplied by.
fn title(text: &Text, header: usize, gigabytes: bool, of_cells: Option<(Unit, f64)>) -> Option<(String, Unit, f64)> {
    let above = (header.saturating_sub(MAX_TITLE_DISTANCE)..header).rev().map(|i| text.line(i).trim());
    let worded = above.filter(|line| line.contains(char::is_alphabetic) && !line.starts_with("```"));
    worded.take(MAX_TITLE_LINES).find_map(|line| {
        let bandwidth = gigabytes && line.contains("andwidth") && line.split_whitespace().count() <= 12;
        let (unit, scale) =
            of_cells.or_else(|| unit_in(line)).or(bandwidth.then_some((Unit::GigabytesPerSecond, 1.0)))?;
        let clean = line.trim_matches(|c: char| matches!(c, '#' | '*' | ':' | '`') || c.is_whitespace());
        Some((clean.to_owned(), unit, scale))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(text: &str) -> (Vec<Matrix>, Found) {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        let matrix = |fact: &Fact| if let Fact::Matrix(m) = fact { m.clone() } else { panic!() };
        (found.evidence.iter().map(|e| matrix(&e.fact)).collect(), found)
    }

    #[test]
    fn under_a_heading_with_unit_and_direction() {
        let text = "### All pairs, unidirectional writes (GB/s)\n\n```\n Dst→   GPU0   GPU1\nGPU0:    —     53.9\n\
                    GPU1:  53.8     —\n```\n";
        let (all, found) = scanned(text);
        let [m] = &all[..] else { panic!("{found:?}") };
        assert_eq!(found.evidence[0].origin.lines, Some((4, 6)));
        assert_eq!((m.between("GPU0", "GPU1"), m.value(0, 0)), (Some(53.9), None));
        assert_eq!((m.direction, m.op), (Some(Direction::Unidirectional), Some(Operation::Write)));
        assert_eq!((m.unit, m.title.as_str()), (Unit::GigabytesPerSecond, "All pairs, unidirectional writes (GB/s)"));
    }

    #[test]
    fn markdown_table_of_sources_in_other_units() {
        let text =
            "Bidirectional, MB/s:\n\n| Src→ | GPU0 | GPU1 |\n|---|---|---|\n| GPU0 | - | 2500 |\n| GPU1 | 1500 | - |\n";
        let (all, found) = scanned(text);
        assert_eq!(all[0].between("GPU0", "GPU1"), Some(1.5), "column GPU0 sends to row GPU1");
        assert_eq!((all[0].direction, found.warnings.len()), (Some(Direction::Bidirectional), 0));
        assert_eq!(scanned("Latency (µs)\n  GPU0 GPU1\nGPU0 1 2\nGPU1 2 1\n").0[0].quantity, Quantity::Latency);
    }

    #[test]
    fn cells_between_tabs_may_be_empty_and_name_the_unit() {
        let (all, _) = scanned("Unidirectional\n\tGPU0\tGPU1\nGPU0\t\t26.1 GB/s\nGPU1\t25.9 GB/s\t\n");
        assert_eq!((all[0].between("GPU1", "GPU0"), all[0].value(0, 0)), (Some(25.9), None));
        assert_eq!(all[0].unit, Unit::GigabytesPerSecond);
        assert!(scanned("GB/s\n\tGPU0\tGPU1\nGPU0\t\t26 GB/s\nGPU1\t25 us\t\n").0.is_empty(), "two units");
    }

    #[test]
    fn gpus_in_two_words_and_the_unit_of_the_document() {
        let table = "### P2P write bandwidth matrix\n\n         GPU 8  GPU 9  GPU10\nGPU 8      -     56.2   56.3\nGPU 9     56.3    -     56.3\nGPU10     56.3   56.3    -\n";
        let (all, _) = scanned(&format!("{table}\nThe average is 56.3 GB/s.\n"));
        assert_eq!(all[0].between("GPU8", "GPU10"), Some(56.3));
        assert!(scanned(table).0.is_empty(), "no unit anywhere");
        assert!(scanned(&format!("{table}\n56.3 GB/s or 450 Gb/s\n")).0.is_empty(), "two units");
    }

    #[test]
    fn what_tools_print_and_what_has_no_unit() {
        for text in [
            "Bandwidth Matrix (GB/s)\n   D\\D     0      1\n     0  1.0  2.0\n     1  2.0  1.0\n",
            "GB/s\n   GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\n",
            "=== Weight between two GPUs ===\n   GPU0 GPU1\nGPU0 0 15\nGPU1 15 0\n",
            "GB/s\n   GPU0 GPU1\nGPU0 0\n",
            "It busses along (fast)\n   GPU0 GPU1\nGPU0 1 2\nGPU1 2 1\n",
        ] {
            assert_eq!(scanned(text).1, Found::default(), "{text}");
        }
    }
}
