//! Tables that lost their line breaks or got one after each cell, as the text layer of a PDF or a copied page leaves them.
//!
//! A matrix is known by its labels: those of its columns stand first and those of its rows again between its cells, in the same
//! order. A list of sizes is known by its titles, above rows whose first number grows. Nothing else is put together.

use std::collections::BTreeMap;

use super::super::words::is_device;
use super::super::{Found, Text};
use super::{MAX_CELLS, TOOL, numbers, sizes};

/// A cell on a line of its own is no longer than this.
const MAX_CELL: usize = 32;

/// Nor has it more words: `Transfer Size (Bytes)`.
const MAX_WORDS: usize = 3;

/// Fewer cells are no table.
const MIN_CELLS: usize = 6;

/// More cells are not put together.
const MAX_TOKENS: usize = 1 << 16;

/// Titles behind those of the devices: affinities.
const MAX_EXTRA: usize = 3;

/// What stands in the corner of a matrix that may be run together.
const CORNERS: [&str; 4] = ["D\\D", "D/D", "GPU", "CPU"];

/// A cell and the line it stands on.
#[derive(Clone, Copy)]
struct Token<'a> {
    line: usize,
    text: &'a str,
}

/// The text with such tables put together again; `None` where it has none.
pub(super) fn reflowed(text: &Text, found: &mut Found) -> Option<Text> {
    let mut lines: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    text.walk(|i| cells_alone(text, i, &mut lines, found).or_else(|| run_together(text, i, &mut lines)));
    (!lines.is_empty()).then(|| text.rewritten(&lines))
}

/// Puts the tables together of which each line from `first` on holds one cell; returns the line after these lines.
fn cells_alone(
    text: &Text,
    first: usize,
    lines: &mut BTreeMap<usize, Vec<String>>,
    found: &mut Found,
) -> Option<usize> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut next = first;
    for i in first..text.len() {
        let cell = text.line(i).trim();
        // a blank line between two cells
        if cell.is_empty() && next == i && !tokens.is_empty() {
            continue;
        }
        let is_cell = !cell.is_empty() && cell.len() <= MAX_CELL && !cell.contains(['|', '\t']);
        if !is_cell || cell.split_whitespace().count() > MAX_WORDS || tokens.len() >= MAX_TOKENS {
            break;
        }
        tokens.push(Token { line: i, text: cell });
        next = i + 1;
    }
    if tokens.len() < MIN_CELLS {
        return None;
    }
    let mut at = 0;
    while let Some(rest) = tokens.get(at..).filter(|rest| rest.len() >= MIN_CELLS) {
        let table = matrix(rest).filter(|table| table.is_split(rest)).or_else(|| by_size(rest));
        let Some(table) = table else {
            at += 1;
            continue;
        };
        if let (Some(from), Some(to)) = (rest.first(), table.last(rest)) {
            lines.extend((from.line..=to.line).map(|i| (i, Vec::new())));
            let message = "a table with one cell a line is put together row by row";
            found.warn(text, TOOL, text.numbers(from.line, to.line), message);
        }
        for (line, row) in table.rows {
            lines.entry(line).or_default().push(row);
        }
        at += table.tokens;
    }
    Some(next)
}

/// Parts matrices whose header and rows stand on one line, or on lines that break anywhere; returns the line after them.
fn run_together(text: &Text, first: usize, lines: &mut BTreeMap<usize, Vec<String>>) -> Option<usize> {
    let line = text.line(first);
    if !CORNERS.iter().any(|corner| line.contains(corner)) || line.contains(['|', ';']) {
        return None;
    }
    let mut tokens: Vec<Token> = Vec::new();
    for i in first..text.len() {
        let line = text.line(i);
        if line.trim().is_empty() || tokens.len() >= MAX_TOKENS {
            break;
        }
        tokens.extend(line.split_whitespace().map(|text| Token { line: i, text }));
        // further lines belong to it where they are numbers, and no such table begins there
        let is_cell = |word: &str| numbers::is_value(word) && !CORNERS.contains(&word);
        if !text.line(i + 1).split_whitespace().all(is_cell) {
            break;
        }
    }
    let mut out: Vec<(usize, String)> = Vec::new();
    let (mut at, mut from, mut found) = (0, 0, false);
    let words = |tokens: &[Token]| tokens.iter().map(|t| t.text).collect::<Vec<_>>().join(" ");
    while let Some(token) = tokens.get(at) {
        let rest = tokens.get(at..).unwrap_or_default();
        let table = CORNERS.contains(&token.text).then(|| matrix(rest)).flatten().filter(|table| !table.is_whole(rest));
        let Some(table) = table else {
            at += 1;
            continue;
        };
        found = true;
        out.extend(
            tokens.get(from..at).filter(|t| !t.is_empty()).map(|t| (t.first().map_or(first, |t| t.line), words(t))),
        );
        at += table.tokens;
        from = at;
        out.extend(table.rows);
    }
    if !found {
        return None;
    }
    let last = tokens.last().map_or(first, |t| t.line);
    out.extend(tokens.get(from..).filter(|t| !t.is_empty()).map(|t| (t.first().map_or(first, |t| t.line), words(t))));
    lines.extend((first..=last).map(|i| (i, Vec::new())));
    for (line, row) in out {
        lines.entry(line).or_default().push(row);
    }
    Some(last + 1)
}

/// A table as it was put together.
struct Table {
    /// Its rows with the line where each begins.
    rows: Vec<(usize, String)>,
    /// How many cells it took.
    tokens: usize,
    /// How many cells its header has.
    header: usize,
}

impl Table {
    /// Whether its header has a line for each cell.
    fn is_split(&self, tokens: &[Token]) -> bool {
        tokens.iter().take(self.header).is_sorted_by(|a, b| a.line < b.line)
    }

    /// Whether each row stands on a line of its own already.
    fn is_whole(&self, tokens: &[Token]) -> bool {
        let mut at = 0;
        self.rows.iter().all(|(line, row)| {
            let cells = row.split('\t').filter(|cell| !cell.is_empty()).count();
            let here = tokens.get(at..at + cells).unwrap_or_default();
            at += cells;
            here.iter().all(|t| t.line == *line) && tokens.get(at).is_none_or(|next| next.line != *line)
        })
    }

    fn last<'a>(&self, tokens: &[Token<'a>]) -> Option<Token<'a>> {
        tokens.get(self.tokens.checked_sub(1)?).copied()
    }
}

/// A label of a row or a column.
fn is_label(cell: &str) -> bool {
    is_device(cell) || cell.parse::<u32>().is_ok_and(|n| (n as usize) < MAX_CELLS)
}

/// What may stand above the labels of the rows: `D\\D`, `From\\To`, `Src→Dst`.
fn is_corner(cell: &str) -> bool {
    CORNERS.contains(&cell) || cell.contains(['\\', '→']) && !cell.contains(' ')
}

/// A matrix that begins with the first of these cells.
fn matrix(tokens: &[Token]) -> Option<Table> {
    let text = |i: usize| tokens.get(i).map(|t| t.text);
    let corner = usize::from(!is_label(text(0)?));
    // a title is none
    if corner == 1 && !text(0).is_some_and(is_corner) {
        return None;
    }
    let is_number = text(corner)?.parse::<u32>().is_ok();
    let mut labels: Vec<&str> = Vec::new();
    while let Some(label) = text(corner + labels.len()).filter(|cell| is_label(cell)) {
        // the columns count up, or have different names
        let follows = match (label.parse::<u32>(), labels.last().map(|l| l.parse::<u32>())) {
            (Ok(_), None) => true,
            (Ok(this), Some(Ok(before))) => this == before + 1,
            (Err(_), _) => !is_number && !labels.contains(&label),
            _ => false,
        };
        if !follows || labels.len() >= MAX_CELLS {
            break;
        }
        labels.push(label);
    }
    let first = *labels.first()?;
    // the numbers of one row are no labels of columns
    let extra = (0..=if is_number { 0 } else { MAX_EXTRA }).find(|n| text(corner + labels.len() + n) == Some(first))?;
    let header = corner + labels.len() + extra;
    if labels.len() < 2 {
        return None;
    }
    let join = |from: usize, to: usize| {
        let cells: Vec<&str> = tokens.get(from..to).unwrap_or_default().iter().map(|t| t.text).collect();
        cells.join("\t")
    };
    let line = |i: usize| tokens.get(i).map_or(0, |t| t.line);
    let title = if corner == 0 { format!("\t{}", join(0, header)) } else { join(0, header) };
    let mut rows = vec![(line(0), title)];
    let mut at = header;
    for (k, label) in labels.iter().enumerate() {
        let cells = || tokens.get(at + 1..at + 1 + labels.len());
        if text(at) != Some(label) || !cells()?.iter().all(|cell| numbers::is_value(cell.text)) {
            break;
        }
        let next = labels.get(k + 1);
        let end = at + 1 + labels.len();
        let more = (0..=extra).find(|n| next.is_some_and(|next| text(end + n) == Some(next)));
        // the last row has as many cells as the first
        let last = || if k == 0 { 0 } else { (0..extra).take_while(|n| text(end + n).is_some()).count() };
        let end = end + more.unwrap_or_else(last);
        rows.push((line(at), join(at, end)));
        at = end;
    }
    // a matrix whose rows do not repeat all its columns may be anything
    (rows.len() > labels.len()).then_some(Table { rows, tokens: at, header })
}

/// Titles, then rows of as many cells, of which the first is a size.
fn by_size(tokens: &[Token]) -> Option<Table> {
    let is_number = |t: &Token| t.text.starts_with(|c: char| c.is_ascii_digit()) && numbers::is_value(t.text);
    let header = tokens.iter().take(MAX_CELL).take_while(|t| !is_number(t)).count();
    let titles = tokens.get(..header)?;
    let sized = sizes::unit(titles.first()?.text).is_some();
    if header < 2 || !sized {
        return None;
    }
    let kinds: Vec<bool> = tokens.get(header..2 * header)?.iter().map(is_number).collect();
    let mut rows = vec![];
    let mut before = None;
    for row in tokens.get(header..)?.chunks_exact(header) {
        let size = row.first().and_then(|t| t.text.parse::<u64>().ok());
        let alike = row.iter().zip(&kinds).all(|(t, kind)| is_number(t) == *kind);
        if size.is_none() || size <= before || !alike {
            break;
        }
        before = size;
        rows.push(row);
    }
    if rows.is_empty() {
        return None;
    }
    let count = (rows.len() + 1) * header;
    let join =
        |row: &[Token]| (row.first().map_or(0, |t| t.line), row.iter().map(|t| t.text).collect::<Vec<_>>().join("\t"));
    Some(Table { rows: std::iter::once(titles).chain(rows).map(join).collect(), tokens: count, header })
}
