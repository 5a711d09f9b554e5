//! Tables in documents whose cells hold rates with their unit, such as `2.7 GB/s`, and whose rows are named in words.
//!
//! Two forms: cells parted by tabs, and Markdown's. A line without rates above lines with rates is their header, so
//! that one table may hold several.

use std::collections::BTreeSet;

use super::limits::MAX_ROWS;
use super::words::number_and_unit;
use super::{Fact, Found, RateRow, RateTable, Text};
use peerlane_machine::units::Rate;

const TOOL: &str = "document table";

/// More columns are data and no table for readers.
const MAX_COLUMNS: usize = 64;

/// Fewer rows may be anything.
const MIN_ROWS: usize = 2;

pub(super) fn scan(text: &Text, found: &mut Found) {
    // no unit of a rate is without these
    if !text.holds(&["/s", "Gbps"]) {
        return;
    }
    let mut block = Block::default();
    for (i, line) in text.iter() {
        match cells(line) {
            Some((form, cells)) if cells.len() <= MAX_COLUMNS => {
                if block.form.is_some_and(|f| f != form) {
                    block.finish(text, found);
                    block.header = None;
                }
                block.form = Some(form);
                block.take(text, i, cells, found);
            }
            _ => {
                block.finish(text, found);
                block = Block::default();
            }
        }
    }
    block.finish(text, found);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Tabs,
    Markdown,
}

/// The cells of a line of a table, without markup; no more than one more than a table may have.
fn cells(line: &str) -> Option<(Form, Vec<String>)> {
    let clean = |cell: &str| cell.replace("**", "").replace('`', "").trim().to_owned();
    let trimmed = line.trim();
    if let Some(inner) = trimmed.strip_prefix('|').and_then(|l| l.strip_suffix('|')) {
        return Some((Form::Markdown, inner.split('|').take(MAX_COLUMNS + 1).map(clean).collect()));
    }
    line.contains('\t').then(|| (Form::Tabs, line.split('\t').take(MAX_COLUMNS + 1).map(clean).collect()))
}

/// `2.7 GB/s`, `~ 5 GB/s`, `150 MB/s`: a cell that holds a rate and nothing else.
fn rate(cell: &str) -> Option<Rate> {
    let (value, unit) = number_and_unit(cell.trim_start_matches(['~', '≈']))?;
    let bytes_per_second = match unit {
        "TB/s" => 1e12,
        "GB/s" | "GB/sec" => 1e9,
        "MB/s" | "MB/sec" => 1e6,
        "GiB/s" => f64::from(1 << 30),
        "MiB/s" => f64::from(1 << 20),
        "Gb/s" | "Gbit/s" | "Gbps" => 1e9 / 8.0,
        _ => return None,
    };
    (value >= 0.0).then(|| Rate::from_bytes_per_second(value * bytes_per_second))
}

/// A header and the rows with rates below it.
#[derive(Default)]
struct Block {
    form: Option<Form>,
    /// The last line without rates, and where it stands.
    header: Option<(usize, Vec<String>)>,
    rows: Vec<(usize, Vec<String>)>,
    /// The columns in which some row has a rate.
    rated: BTreeSet<usize>,
}

impl Block {
    fn take(&mut self, text: &Text, i: usize, cells: Vec<String>, found: &mut Found) {
        let is_rule = cells.iter().all(|c| !c.is_empty() && c.chars().all(|c| matches!(c, '-' | ':')));
        if is_rule {
            return;
        }
        let columns: Vec<usize> =
            (0..cells.len()).filter(|&j| cells.get(j).is_some_and(|c| rate(c).is_some())).collect();
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
        self.finish(text, found);
        self.header = Some((i, cells));
    }

    fn push(&mut self, i: usize, cells: Vec<String>) {
        if self.rows.len() <= MAX_ROWS {
            self.rows.push((i, cells));
        }
    }

    /// Pushes what was read; the next rows need their own header.
    fn finish(&mut self, text: &Text, found: &mut Found) {
        let rated: Vec<usize> = std::mem::take(&mut self.rated).into_iter().collect();
        let rows = std::mem::take(&mut self.rows);
        let with_rates = rows.iter().filter(|(_, cells)| cells.iter().any(|c| rate(c).is_some())).count();
        let (Some((first, header)), Some((last, _))) = (self.header.take(), rows.last()) else { return };
        if with_rates < MIN_ROWS {
            return;
        }
        // a table of rates alone names nothing
        let worded: Vec<usize> = (0..header.len()).filter(|j| !rated.contains(j)).collect();
        if worded.is_empty() || rated.iter().any(|&j| j >= header.len()) {
            return;
        }
        let pick = |cells: &[String], columns: &[usize]| -> Vec<String> {
            columns.iter().map(|&j| cells.get(j).cloned().unwrap_or_default()).collect()
        };
        let lines = text.numbers(first, *last);
        let table = RateTable {
            word_columns: pick(&header, &worded),
            rate_columns: pick(&header, &rated),
            rows: rows
                .iter()
                .map(|(i, cells)| RateRow {
                    words: pick(cells, &worded),
                    rates: rated.iter().map(|&j| cells.get(j).and_then(|c| rate(c))).collect(),
                    line: text.numbers(*i, *i).0,
                })
                .collect(),
        };
        found.push(text, TOOL, lines, Fact::Rates(table));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(text: &str) -> Vec<RateTable> {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
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
