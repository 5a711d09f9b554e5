//! Squares of path words between devices, whoever's tool printed them: `xpu-smi topology -m`, `npu-smi info -t topo`,
//! `cnmon topo -m`, `mthreads-gmi topo -m`, tables of schedulers. NVIDIA's own has a reader of its own, [`super::nvidia_smi_topo`],
//! and AMD's have [`super::rocm_smi`] and [`super::amd_smi`].
//!
//! Each table's legend says what its words mean; without one, those that are known do ([`words`]). A word that neither knows is
//! an unknown path. Words and devices keep the names that are printed: `MTL4`, `GPU 0/1`.

mod words;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::words::{is_nic, numbered};
use super::{ClassMatrix, Fact, Found, Text};
use peerlane_machine::fabric::{Interconnect, PathClass};
use peerlane_machine::fact::PathWord;
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
        let matrix = table.matrix(&Legend::around(text, table.first, table.last));
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
        let (cols, extra) = header(&fields(line, usize::MAX))?;
        let mut table = Table { first: i, last: i, cols, extra, rows: Vec::new() };
        let mut gap = 0;
        for at in i + 1..text.len() {
            match table.row(&fields(text.line(at), 1)) {
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
        let named = self.cols.iter().all(|name| numbered(name, "GPU").is_some() || is_nic(name));
        let crossed = self.rows.iter().all(|row| matches!(self.own(row), Some("X" | "-")));
        let nvidia = |word: &str| {
            word.parse::<PathClass>().is_ok_and(|class| class.is_nvlink() || !class.is_gpu_link()) || word == "N/A"
        };
        !named || !crossed || self.between().any(|word| !nvidia(word))
    }

    /// The classes, and the words that are not those of classes.
    fn matrix(&self, legend: &Legend) -> ClassMatrix {
        let mut matrix = ClassMatrix { cols: self.cols.clone(), ..ClassMatrix::default() };
        let mut words: BTreeMap<&str, PathWord> = BTreeMap::new();
        for (i, row) in self.rows.iter().enumerate() {
            let mut cells = Vec::new();
            for (j, (name, word)) in self.cols.iter().zip(&row.cells).enumerate() {
                let class = if *name == row.label { Some(PathClass::Same) } else { legend.class(word) };
                cells.push(class);
                let own = matches!(class, None | Some(PathClass::Gpu(Interconnect::Other, _)));
                if own && word.contains(char::is_alphabetic) && word != "N/A" {
                    let meaning = legend.meaning(word).map(str::to_owned);
                    let new = || PathWord { word: word.clone(), meaning, cells: Vec::new() };
                    words.entry(word).or_insert_with(new).cells.push((i, j));
                }
            }
            matrix.cells.push(cells);
            matrix.rows.push(row.label.clone());
            let value = |what: Extra| {
                let at = self.extra.iter().position(|extra| *extra == what)?;
                row.extra.get(at).filter(|_| row.extra.len() == self.extra.len())
            };
            matrix.cpu_affinity.push(value(Extra::Cpu).and_then(|v| v.parse().ok()));
            matrix.numa_affinity.push(value(Extra::Numa).and_then(|v| v.parse().ok()));
            matrix.gpu_numa.push(None);
        }
        matrix.words = words.into_values().collect();
        let of_gpus = self.cols.first().and_then(|name| stem(name));
        matrix.accelerators = self.cols.iter().filter(|name| stem(name) == of_gpus).cloned().collect();
        matrix
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
    let mut before = "Affinity";
    for title in titles {
        match title.as_str() {
            "CPU" | "CPU-Affinity" | "CPU_Affinity" | "cpu" => extra.push(Extra::Cpu),
            "NUMA" | "NUMA_Affinity" | "NUMA-Affinity" | "numa" if extra.last() != Some(&Extra::Other) => {
                extra.push(Extra::Numa);
            }
            "Node" if before == "Affinity" => extra.push(Extra::Numa),
            "GPU" | "NPU" => extra.push(Extra::Other),
            "Affinity" | "affinity" | "ID" | "Node" | "node" | "NUMA" if !extra.is_empty() => {}
            _ => return None,
        }
        before = title.as_str();
    }
    (distinct.len() == count).then(|| (cols.to_vec(), extra))
}

/// Whether a field names a device.
fn is_device(field: &str) -> bool {
    stem(field).is_some() || is_nic(field)
}

/// Names of accelerators in lower case, in which the kernel names network adapters.
const LOWER: [&str; 8] = ["gpu", "npu", "xpu", "dcu", "mlu", "hpu", "card", "device"];

/// What else is numbered in tables: adapters, and what is no device of one machine.
const OTHERS: [&str; 12] =
    ["NIC", "HCA", "NET", "CPU", "NUMA", "Node", "Socket", "Host", "Rank", "Port", "Switch", "Core"];

/// `NPU` of `NPU0`, `GPU` of `GPU 0/1`, `HCU` of `HCU[3]`: the name of an accelerator, which a network adapter's is not.
fn stem(name: &str) -> Option<&str> {
    let (stem, number) = name.split_at(name.find(|c: char| c.is_ascii_digit() || c == '[')?);
    let stem = stem.trim_end();
    let number = number.trim_matches(['[', ']']);
    let mut digits = number.split('/');
    let is_number = digits.all(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
    let named = stem.len() > 1 && stem.bytes().all(|b| b.is_ascii_alphabetic() || matches!(b, b'-' | b'_'));
    let other = OTHERS.iter().any(|other| stem.eq_ignore_ascii_case(other));
    let upper = stem.starts_with(|c: char| c.is_ascii_uppercase()) && !other;
    (is_number && named && (upper || LOWER.contains(&stem))).then_some(stem)
}

fn is_word(cell: &str) -> bool {
    cell.len() <= MAX_WORD
        && (is_own(cell) || matches!(cell, "N/A" | "?") || cell.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// What tools print for a device with itself.
fn is_own(word: &str) -> bool {
    matches!(word, "X" | "x" | "S" | "SELF" | "Self" | "self" | "-" | "--" | "*")
}

/// The cells of a line, which bars, tabs and blanks part. Of the first `names` fields, one of two words that name a device is one:
/// `GPU 0/1`.
fn fields(line: &str, names: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut words = line
        .split(|c: char| c.is_whitespace() || matches!(c, '|' | '│' | '┃' | '║'))
        .map(|word| word.trim_start_matches("**").trim_end_matches("**").trim_matches('`'))
        .filter(|word| !word.is_empty() && *word != ">")
        .peekable();
    while let Some(word) = words.next() {
        let both = words.peek().filter(|_| all.len() < names && stem(word).is_none() && !is_nic(word));
        match both.map(|next| format!("{word} {next}")).filter(|both| stem(both).is_some()) {
            Some(both) => {
                words.next();
                all.push(both);
            }
            None => all.push(word.to_owned()),
        }
    }
    all
}

#[cfg(test)]
mod tests;
