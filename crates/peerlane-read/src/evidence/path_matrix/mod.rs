//! Squares of path words between devices, whoever's tool printed them: `xpu-smi topology -m`, `npu-smi info -t topo`,
//! `cnmon topo -m`, `mthreads-gmi topo -m`, tables of schedulers. NVIDIA's own has a reader of its own, [`super::nvidia_smi_topo`],
//! and AMD's have [`super::rocm_smi`] and [`super::amd_smi`].
//!
//! Each table's legend says what its words mean; without one, those that are known do ([`words`]). A word that neither knows is
//! an unknown path. Devices keep their names, written as one word: `GPU 0/1` is `GPU0/1`.

mod words;

use std::collections::{BTreeSet, HashSet};

use super::words::{gpu_number, is_nic};
use super::{ClassMatrix, Fact, Found, Text};
use peerlane_machine::fabric::PathClass;
use words::Legend;

const TOOL: &str = super::tool::PATH_MATRIX;

/// More devices than any machine has.
const MAX_DEVICES: usize = 512;

/// Lines without cells between two rows: blank ones and rules.
const MAX_GAP: usize = 2;

/// The longest word of a cell.
const MAX_WORD: usize = 16;

/// Answers that other squares hold: of peer access, of what a test found.
const ANSWERS: [&str; 14] =
    ["OK", "NS", "CNS", "GNS", "TNS", "DR", "YES", "NO", "TRUE", "FALSE", "PASS", "FAIL", "ENABLED", "DISABLED"];

pub(super) fn scan(text: &Text, found: &mut Found) {
    for table in tables(text) {
        let lines = text.numbers(table.first, table.last);
        let (matrix, unknown) = table.matrix(&Legend::around(text, table.first, table.last));
        if !unknown.is_empty() {
            let words: Vec<&str> = unknown.iter().take(8).map(String::as_str).collect();
            let message = format!("what {} means is not known here: those paths are unknown", words.join(", "));
            found.warn(text, TOOL, lines, message);
        }
        found.push(text, TOOL, lines, Fact::Classes(matrix));
    }
}

/// The first and last line of each such table.
pub(super) fn spans(text: &Text) -> Vec<(usize, usize)> {
    tables(text).iter().map(|table| (table.first, table.last)).collect()
}

/// A table as it stands in the text.
struct Table {
    first: usize,
    last: usize,
    cols: Vec<String>,
    extra: Vec<Extra>,
    rows: Vec<Row>,
}

struct Row {
    label: String,
    cells: Vec<String>,
    extra: Vec<String>,
}

/// A column behind the devices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    Cpu,
    Numa,
    Other,
}

fn tables(text: &Text) -> Vec<Table> {
    let mut all = Vec::new();
    text.walk(|i| {
        let table = Table::at(text, i)?;
        let next = table.last + 1;
        if table.is_of_others() {
            all.push(table);
        }
        Some(next)
    });
    all
}

impl Table {
    /// The table whose header is line `i`.
    fn at(text: &Text, i: usize) -> Option<Self> {
        let line = text.line(i);
        // most lines hold no two numbered names
        if line.len() < 6 || !line.bytes().any(|b| b.is_ascii_digit()) || line.contains(['=', '{', '"']) {
            return None;
        }
        let (cols, extra) = header(&fields(line))?;
        let mut table = Table { first: i, last: i, cols, extra, rows: Vec::new() };
        let mut gap = 0;
        for at in i + 1..text.len() {
            match table.row(&fields(text.line(at))) {
                Some(row) if table.rows.len() < MAX_DEVICES => {
                    (table.last, gap) = (at, 0);
                    table.rows.push(row);
                }
                _ if gap < MAX_GAP && !text.line(at).contains(char::is_alphanumeric) => gap += 1,
                _ => break,
            }
        }
        table.is_square().then_some(table)
    }

    /// A row: one of the columns' devices, a word for each column, and what stands behind.
    fn row(&self, fields: &[String]) -> Option<Row> {
        let (label, rest) = fields.split_first()?;
        let known = self.cols.contains(label) && self.rows.iter().all(|row| row.label != *label);
        let (cells, extra) = rest.split_at_checked(self.cols.len()).filter(|_| known)?;
        let fits = cells.iter().all(|cell| is_word(cell));
        fits.then(|| Row { label: label.clone(), cells: cells.to_vec(), extra: extra.to_vec() })
    }

    /// The word of a device with itself.
    fn own<'a>(&self, row: &'a Row) -> Option<&'a str> {
        let at = self.cols.iter().position(|name| *name == row.label)?;
        row.cells.get(at).map(String::as_str)
    }

    /// The words between different devices.
    fn between(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().flat_map(|row| {
            row.cells.iter().zip(&self.cols).filter(|(_, name)| **name != row.label).map(|(cell, _)| cell.as_str())
        })
    }

    /// Whether it has a row for most devices, one mark for each with itself, and words of paths between them.
    fn is_square(&self) -> bool {
        let own: BTreeSet<&str> = self.rows.iter().filter_map(|row| self.own(row)).collect();
        let one = own.iter().next().filter(|_| own.len() == 1).copied();
        let paths =
            || self.between().all(|word| Some(word) != one && !ANSWERS.contains(&word.to_ascii_uppercase().as_str()));
        self.rows.len() >= 2 && self.rows.len() * 2 >= self.cols.len() && one.is_some_and(is_own) && paths()
    }

    /// Whether another maker's tool printed it: by its devices' names, or by a word that NVIDIA's has not.
    fn is_of_others(&self) -> bool {
        let own = |name: &String| name.starts_with("GPU") && !name.contains('/') || is_nic(name);
        let nvidia = |word: &str| {
            word.parse::<PathClass>().is_ok_and(|class| class.is_nvlink() || !class.is_gpu_link()) || word == "N/A"
        };
        !self.cols.iter().all(own) || self.between().any(|word| !nvidia(word))
    }

    /// The classes, and the words that nothing explains.
    fn matrix(&self, legend: &Legend) -> (ClassMatrix, BTreeSet<String>) {
        let mut matrix = ClassMatrix { cols: self.cols.clone(), ..ClassMatrix::default() };
        let mut unknown = BTreeSet::new();
        for row in &self.rows {
            let class = |(name, word): (&String, &String)| {
                if *name == row.label {
                    return Some(PathClass::Same);
                }
                let class = legend.class(word);
                if class.is_none() && word.contains(char::is_alphabetic) {
                    unknown.insert(word.clone());
                }
                class
            };
            matrix.cells.push(self.cols.iter().zip(&row.cells).map(class).collect());
            matrix.rows.push(row.label.clone());
            let value = |what: Extra| {
                let at = self.extra.iter().position(|extra| *extra == what)?;
                row.extra.get(at).filter(|_| row.extra.len() == self.extra.len())
            };
            matrix.cpu_affinity.push(value(Extra::Cpu).and_then(|v| v.parse().ok()));
            matrix.numa_affinity.push(value(Extra::Numa).and_then(|v| v.parse().ok()));
            matrix.gpu_numa.push(None);
        }
        (matrix, unknown)
    }
}

/// At least two devices, behind at most one other word, and the titles of what stands behind them.
fn header(fields: &[String]) -> Option<(Vec<String>, Vec<Extra>)> {
    let corner = fields.first().is_some_and(|first| !is_device(first));
    let rest = fields.get(usize::from(corner)..)?;
    let count = rest.iter().take_while(|field| is_device(field)).count();
    let (cols, titles) = rest.split_at_checked(count).filter(|_| (2..=MAX_DEVICES).contains(&count))?;
    let distinct: HashSet<&String> = cols.iter().collect();
    let mut extra = Vec::new();
    for title in titles {
        match title.as_str() {
            "CPU" | "CPU-Affinity" | "CPU_Affinity" | "cpu" => extra.push(Extra::Cpu),
            "NUMA" | "NUMA_Affinity" | "NUMA-Affinity" | "numa" if extra.last() != Some(&Extra::Other) => {
                extra.push(Extra::Numa);
            }
            "GPU" | "NPU" => extra.push(Extra::Other),
            "Affinity" | "affinity" | "ID" | "Node" | "node" | "NUMA" if !extra.is_empty() => {}
            _ => return None,
        }
    }
    (distinct.len() == count).then(|| (cols.to_vec(), extra))
}

/// A device's name, written as one word.
fn is_device(field: &str) -> bool {
    let (card, tile) = field.split_once('/').unwrap_or((field, "0"));
    (gpu_number(card).is_some() && tile.bytes().all(|b| b.is_ascii_digit()) && !tile.is_empty()) || is_nic(field)
}

fn is_word(cell: &str) -> bool {
    cell.len() <= MAX_WORD && (is_own(cell) || cell == "N/A" || cell.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// What tools print for a device with itself.
fn is_own(word: &str) -> bool {
    matches!(word, "X" | "x" | "S" | "SELF" | "Self" | "self" | "-" | "--" | "*")
}

/// The cells of a line, which bars, tabs and blanks part; a device in two words, `GPU 0/1`, is one.
fn fields(line: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut words = line
        .split(|c: char| c.is_whitespace() || matches!(c, '|' | '│' | '┃' | '║'))
        .map(|word| word.trim_matches(['*', '`']))
        .filter(|word| !word.is_empty() && *word != ">")
        .peekable();
    while let Some(word) = words.next() {
        let joined = words.peek().map(|next| format!("{word}{next}"));
        match joined.filter(|joined| next_is_number(joined, word) && is_device(joined)) {
            Some(joined) => {
                words.next();
                all.push(joined);
            }
            None => all.push(word.to_owned()),
        }
    }
    all
}

fn next_is_number(joined: &str, word: &str) -> bool {
    let alphabetic = word.bytes().all(|b| b.is_ascii_alphabetic());
    alphabetic && joined.get(word.len()..).is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
