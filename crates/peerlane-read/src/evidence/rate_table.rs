//! Tables in documents that hold rates with their unit, in a cell (`2.7 GB/s`) or in the head of its column (`Bandwidth (GB/s)`), and
//! whose rows are named in words.
//!
//! A line without rates above lines with rates is their header, so that one table may hold several. Where each row names the
//! two ends of a copy, its rates are those of paths; else they are kept as they are, and compared with nothing.

mod pairs;

use std::collections::BTreeSet;

use super::labelled_matrix::push_titled;
use super::limits::MAX_ROWS;
use super::words::{number_and_unit, unit_in};
use super::{Fact, Found, RateRow, RateTable, Text};
use peerlane_machine::units::Rate;

const TOOL: &str = "document table";

/// More columns are data and no table for readers.
const MAX_COLUMNS: usize = 64;

/// Fewer rates may be anything.
const MIN_RATES: usize = 2;

/// Lines above a table in which its title may stand, and the longest title.
const TITLE_DISTANCE: usize = 3;
const MAX_TITLE: usize = 120;

pub(super) fn scan(text: &Text, found: &mut Found) {
    // no unit of a rate is without these
    if !text.holds(&["/s", "bps"]) {
        return;
    }
    let mut block = Block::default();
    for (i, line) in text.iter() {
        let cells = line.split('\t').take(MAX_COLUMNS + 1).map(|cell| cell.trim().to_owned());
        match cells.collect::<Vec<String>>() {
            cells if (2..=MAX_COLUMNS).contains(&cells.len()) => block.take(text, i, cells, found),
            _ => {
                block.finish(text, found);
                block = Block::default();
            }
        }
    }
    block.finish(text, found);
}

/// `2.7 GB/s`, `~ 5 GB/s`, `150 MB/s`: a cell that holds a rate and nothing else. A number alone is one below a head that names
/// the unit.
fn rate(cell: &str, head: &str) -> Option<Rate> {
    let (value, own) = number_and_unit(cell.trim_start_matches(['~', '≈']))?;
    let unit = if own.is_empty() { head } else { Some(own).filter(|own| !own.contains(' '))? };
    let (unit, scale) = unit_in(unit)?;
    unit.rate(value * scale).filter(|_| value >= 0.0)
}

/// A header and the rows with rates below it.
#[derive(Default)]
struct Block {
    /// The last line without rates, and where it stands.
    header: Option<(usize, Vec<String>)>,
    rows: Vec<(usize, Vec<String>)>,
    /// The columns in which some row has a rate.
    rated: BTreeSet<usize>,
}

impl Block {
    fn take(&mut self, text: &Text, i: usize, cells: Vec<String>, found: &mut Found) {
        let columns: Vec<usize> =
            (0..cells.len()).filter(|&j| cells.get(j).is_some_and(|cell| self.rate(j, cell).is_some())).collect();
        if !columns.is_empty() {
            self.rated.extend(columns);
            self.push(i, cells);
            return;
        }
        // within a table, a row may lack its rate; a line that has words there is a new header
        let unknown = |j: &usize| cells.get(*j).is_none_or(|c| matches!(c.as_str(), "" | "-" | "—" | "N/A"));
        if !self.rated.is_empty() && self.rated.iter().all(unknown) {
            self.push(i, cells);
            return;
        }
        // a row of other numbers, such as times, is neither
        if self.header.is_some() && cells.iter().skip(1).any(|cell| number_and_unit(cell).is_some()) {
            return;
        }
        self.finish(text, found);
        self.header = Some((i, cells));
    }

    /// The rate in a cell of column `j`.
    fn rate(&self, j: usize, cell: &str) -> Option<Rate> {
        let head = self.header.as_ref().and_then(|(_, cells)| cells.get(j));
        rate(cell, head.map_or("", String::as_str))
    }

    fn push(&mut self, i: usize, cells: Vec<String>) {
        if self.rows.len() <= MAX_ROWS {
            self.rows.push((i, cells));
        }
    }

    /// Pushes what was read; the next rows need their own header.
    fn finish(&mut self, text: &Text, found: &mut Found) {
        let block = std::mem::take(self);
        let rated: Vec<usize> = block.rated.iter().copied().collect();
        let (Some((first, header)), Some((last, _))) = (&block.header, block.rows.last()) else { return };
        let rates = block.rows.iter().flat_map(|(_, cells)| rated.iter().filter(|&&j| block.cell(cells, j).is_some()));
        // a table of rates alone names nothing
        let worded: Vec<usize> = (0..header.len()).filter(|j| !rated.contains(j)).collect();
        if rates.count() < MIN_RATES || worded.is_empty() || rated.iter().any(|&j| j >= header.len()) {
            return;
        }
        let pick = |cells: &[String], columns: &[usize]| -> Vec<String> {
            columns.iter().map(|&j| cells.get(j).cloned().unwrap_or_default()).collect()
        };
        let lines = text.numbers(*first, *last);
        let table = RateTable {
            word_columns: pick(header, &worded),
            rate_columns: pick(header, &rated),
            rows: block
                .rows
                .iter()
                .map(|(i, cells)| RateRow {
                    words: pick(cells, &worded),
                    rates: rated.iter().map(|&j| block.cell(cells, j)).collect(),
                    line: text.numbers(*i, *i).0,
                })
                .collect(),
        };
        // tables of tools, by the size of messages or with numbers alone, are for their own readers
        if table.rows.iter().all(|row| row.words.first().is_some_and(|word| word.parse::<f64>().is_ok()))
            && !pairs::are_named(&table)
        {
            return;
        }
        let mut above = (first.saturating_sub(TITLE_DISTANCE)..*first).rev().map(|i| text.line(i).trim());
        let above = above.find(|line| line.contains(char::is_alphabetic) && line.len() <= MAX_TITLE);
        let above = above.unwrap_or_default().trim_matches(['#', '*', ':', ' ']);
        match pairs::matrices(&table, above) {
            Some(matrices) => matrices.into_iter().for_each(|matrix| push_titled(text, lines, matrix, found)),
            None => found.push(text, TOOL, lines, Fact::Rates(table)),
        }
    }

    fn cell(&self, cells: &[String], j: usize) -> Option<Rate> {
        cells.get(j).and_then(|cell| self.rate(j, cell))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::in_columns;
    use super::*;

    fn tables(text: &str) -> Vec<RateTable> {
        let mut found = Found::default();
        let text = Text::new("test", text.as_bytes());
        scan(&in_columns(&text, &mut Found::default()).unwrap_or(text), &mut found);
        let table = |fact| if let Fact::Rates(table) = fact { table } else { panic!() };
        found.evidence.into_iter().map(|e| table(e.fact)).collect()
    }

    #[test]
    fn words_and_rates_by_tabs() {
        let text = "\tBW\tMethod\nHost read\t2.7 GB/s\t\nGPU read\t150 MB/s\tBAR\nGPU write\tN/A\tBAR\n\nprose\n";
        let [table] = &tables(text)[..] else { panic!() };
        assert_eq!(
            (&table.word_columns[..], &table.rate_columns[..]),
            (&[String::new(), "Method".into()][..], &["BW".into()][..])
        );
        let rows: Vec<_> = table.rows.iter().map(|r| (r.words.join("+"), r.rates[0].map(Rate::gb), r.line)).collect();
        assert_eq!(
            rows,
            [
                ("Host read+".into(), Some(2.7), 2),
                ("GPU read+BAR".into(), Some(0.15), 3),
                ("GPU write+BAR".into(), None, 4)
            ]
        );
    }

    #[test]
    fn a_second_header_within_a_table() {
        let text =
            "\tA\tB\nComplexity\tHigh\tLow\nCard\tRead\tWrite\nSwitch\t1.5 GB/s\t~ 6 GB/s\nSocket\t0.5 GB/s\t3GB/s\n";
        let [table] = &tables(text)[..] else { panic!() };
        assert_eq!(
            (&table.word_columns[..], &table.rate_columns[..]),
            (&["Card".into()][..], &["Read".into(), "Write".into()][..])
        );
        assert_eq!(table.rows[0].rates, [Some(Rate::from_gb(1.5)), Some(Rate::from_gb(6.0))]);
    }

    #[test]
    fn markdown_tables() {
        let text = "| Pair | Rate |\n|---|---|\n| near | **~50 GB/s** |\n| far | 12.5 GB/s |\n\n| x | y |\n|---|---|\n| a | 1-2 GB/s |\n";
        let [table] = &tables(text)[..] else { panic!() };
        assert_eq!(table.rows[0].rates, [Some(Rate::from_gb(50.0))]);
    }

    #[test]
    fn units_in_the_heads_of_columns() {
        let text = "| nodes | AvgBusBW (GB/s) | rank |\n|---|---|---|\n| a-b | 13,46 | 1 |\n| a-c | 5,76 | 2 |\n| a-d | | 3 |\n";
        let [table] = &tables(text)[..] else { panic!() };
        let rates: Vec<_> = table.rows.iter().map(|row| row.rates[0].map(Rate::gb)).collect();
        assert_eq!(rates, [Some(13.46), Some(5.76), None]);
        assert_eq!(table.word_columns, ["nodes", "rank"]);
    }

    #[test]
    fn one_row_of_several_rates_among_others() {
        let text = "| Metric | TCP | RDMA |\n|---|---|---|\n| Latency | 21 us | 5 us |\n| **Bandwidth** | 4.67 Gbps | 9.2 Gbps |\n| Loss | 0 | 0 |\n";
        let [table] = &tables(text)[..] else { panic!() };
        assert_eq!((table.rows.len(), table.rows[0].words.join("")), (1, "Bandwidth".to_owned()));
        assert_eq!(table.rate_columns, ["TCP", "RDMA"]);
    }

    #[test]
    fn rows_that_name_both_ends_are_paths() {
        let text = "Unidirectional copies\n\n| From | To | GB/s | theoretical (GB/s) |\n|---|---|---|---|\n| GPU0 | GPU1 | 26,1 | 32 |\n| GPU1 | GPU0 | 25,9 | 32 |\n";
        let text = Text::new("test", text.as_bytes());
        let mut found = Found::default();
        scan(&in_columns(&text, &mut Found::default()).unwrap(), &mut found);
        let [one] = &found.evidence[..] else { panic!("{found:?}") };
        let Fact::Matrix(matrix) = &one.fact else { panic!() };
        assert_eq!(matrix.between("GPU0", "GPU1"), Some(26.1));
        assert_eq!(matrix.direction, Some(super::super::Direction::Unidirectional));
        assert_eq!(one.origin.lines, Some((3, 6)));
    }

    #[test]
    fn single_rows_and_prose() {
        for text in [
            "a\tb\nc\t1 GB/s\n",
            "c\t1 GB/s\nd\t2 GB/s\n",
            "reads\tat 1 GB/s\nwrites\tat 2 GB/s\n",
            "A\n1 GB/s\t2 GB/s\n",
        ] {
            assert_eq!(tables(text), [], "{text}");
        }
    }
}
