//! The words of a `topo -m` table: header, rows, and what lost tabs did to them.

use super::super::Text;
use super::super::words::{Word, is_device, words};
use peerlane_machine::fabric::{CpuList, PathClass};

/// Longer words are no line of a table.
const MAX_GLUED: usize = 4096;

/// The columns after the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Cpu,
    Numa,
    GpuNuma,
}

/// One line and its words.
#[derive(Clone)]
pub(super) struct Line<'a> {
    pub(super) text: &'a str,
    pub(super) words: Vec<Word<'a>>,
    /// Words were stuck together, so that neighbouring numbers may be too.
    pub(super) glued: bool,
}

impl<'a> Line<'a> {
    pub(super) fn new(text: &'a Text, i: usize) -> Self {
        let line = text.line(i);
        let mut all = Vec::new();
        let mut glued = false;
        // a quotation mark of mail or Markdown
        for word in words(line).map(plain).skip_while(|w| w.text.bytes().all(|b| b == b'>')) {
            match unglue(word) {
                Some(parts) => {
                    glued = true;
                    all.extend(parts);
                }
                None => all.push(word),
            }
        }
        cross_diagonal(&mut all);
        Line { text: line, words: all, glued }
    }

    /// Whether it is empty, a code fence or a rule.
    pub(super) fn is_blank(&self) -> bool {
        is_blank(self.text)
    }
}

/// A row whose cell of a device with itself is a dash, as people retype it, gets the `X` of the tool.
fn cross_diagonal(words: &mut [Word<'_>]) {
    let Some((first, cells)) = words.split_first_mut() else { return };
    let is_dash = |w: &Word| matches!(w.text, "-" | "–" | "—");
    if !is_device(first.text) || !cells.iter().any(|w| class(w.text).is_some()) {
        return;
    }
    let mut dashes = cells.iter_mut().filter(|w| is_dash(w));
    // two dashes are cells that somebody left out
    if let (Some(diagonal), None) = (dashes.next(), dashes.next()) {
        diagonal.text = "X";
    }
}

/// A word without the signs that make it bold or code in Markdown, and without what a page that drops the escape
/// character leaves of an underlined header.
fn plain(word: Word<'_>) -> Word<'_> {
    let start = word.text.trim_start_matches("[4m").trim_start_matches(['*', '`']);
    let text = start.trim_end_matches("[0m").trim_end_matches(['*', '`']);
    Word { text, at: word.at + word.text.len() - start.len() }
}

/// Whether a line is empty, a mark of quotation, a rule.
pub(super) fn is_blank(line: &str) -> bool {
    let mark = |w: &Word| w.text.bytes().all(|b| b == b'>');
    words(line).skip_while(mark).all(|w| w.text.bytes().all(|b| matches!(b, b'-' | b':' | b'+' | b'=')))
}

/// A class that `topo -m` prints.
fn class(word: &str) -> Option<PathClass> {
    word.parse().ok().filter(|c: &PathClass| c.is_nvlink() || !c.is_gpu_link())
}

/// Whether a device and a class stand at `p`, and no rate behind them, as in a matrix of rates with an `X` on its diagonal.
pub(super) fn starts_row(words: &[Word], p: usize) -> bool {
    let text = |k: usize| words.get(k).map_or("", |w| w.text);
    let is_rate = |word: &str| word.contains('.') && word.parse::<f64>().is_ok();
    is_device(text(p)) && class(text(p + 1)).is_some() && text(p + 2) != "=" && !is_rate(text(p + 2))
}

/// A value of the affinity columns.
fn is_affinity(word: &str) -> bool {
    word == "N/A" || word.parse::<CpuList>().is_ok_and(|list| !list.is_empty())
}

/// A state of `topo -p2p`, whose table has the same shape.
fn is_p2p_status(word: &str) -> bool {
    matches!(word, "OK" | "CNS" | "GNS" | "TNS" | "NS" | "DR" | "U")
}

/// Parts a word that lost its tabs, such as `GPU0GPU1CPU` or `PIXPHB0-19`, where that has one reading only.
fn unglue(word: Word<'_>) -> Option<Vec<Word<'_>>> {
    if word.text.len() > MAX_GLUED {
        return None;
    }
    if glued_part(word.text)? == word.text.len() {
        return None;
    }
    let mut parts = Vec::new();
    let mut done = 0;
    while let Some(rest) = word.text.get(done..).filter(|r| !r.is_empty()) {
        let length = glued_part(rest)?;
        parts.push(Word { text: rest.get(..length)?, at: word.at + done });
        done += length;
    }
    Some(parts)
}

fn glued_part(rest: &str) -> Option<usize> {
    let digits = |from: usize| rest.bytes().skip(from).take_while(u8::is_ascii_digit).count();
    for prefix in ["GPU", "NIC", "mlx5_", "mlx4_", "NV"] {
        if rest.starts_with(prefix) && digits(prefix.len()) > 0 {
            let length = prefix.len() + digits(prefix.len());
            // `NV180-63` may be NV1 80-63 or NV18 0-63
            let ambiguous = prefix == "NV" && rest.get(length..)?.starts_with(['-', ',']);
            return (!ambiguous).then_some(length);
        }
    }
    for known in ["PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "X", "CPU", "NUMA", "Affinity", "GPU", "ID"] {
        if rest.starts_with(known) {
            return Some(known.len());
        }
    }
    // `0-310N/A` are three values, and nothing parts them
    let values = rest.ends_with("N/A") && rest.bytes().all(|b| b.is_ascii_digit() || b"-,N/A".contains(&b));
    (is_affinity(rest) || values).then_some(rest.len())
}

#[derive(Default)]
pub(super) struct Header<'a> {
    pub(super) cols: Vec<&'a str>,
    /// Columns after the devices, and where their titles start.
    pub(super) extra: Vec<(Column, usize)>,
    pub(super) glued: bool,
}

impl<'a> Header<'a> {
    /// Takes the titles that stand at `p`; returns where they end.
    pub(super) fn take(&mut self, words: &[Word<'a>], mut p: usize) -> usize {
        if self.extra.is_empty() {
            while let Some(word) = words.get(p).filter(|w| is_device(w.text) && !starts_row(words, p)) {
                self.cols.push(word.text);
                p += 1;
            }
        }
        loop {
            let text = |k: usize| words.get(p + k).map(|w| w.text);
            // a title may be cut or go on in the next line
            let (column, length) = match (text(0), text(1), text(2)) {
                (Some("Affinity" | "ID"), ..) if !self.extra.is_empty() => (None, 1),
                (Some("NUMA"), Some("ID"), _) if !self.extra.is_empty() => (None, 2),
                (Some("CPU"), Some("Affinity"), _) => (Some(Column::Cpu), 2),
                (Some("CPU"), None, _) => (Some(Column::Cpu), 1),
                (Some("NUMA"), Some("Affinity"), _) => (Some(Column::Numa), 2),
                (Some("NUMA"), None, _) => (Some(Column::Numa), 1),
                (Some("GPU"), Some("NUMA"), Some("ID")) => (Some(Column::GpuNuma), 3),
                (Some("GPU"), Some("NUMA"), None) => (Some(Column::GpuNuma), 2),
                (Some("GPU"), None, _) => (Some(Column::GpuNuma), 1),
                _ => return p,
            };
            if let (Some(column), Some(word)) = (column, words.get(p)) {
                self.extra.push((column, word.at));
            }
            p += length;
        }
    }

    /// The columns whose values can be separated in this line.
    fn extra(&self, line: &Line) -> &[(Column, usize)] {
        // `0-630` is a list of CPUs and a node, but which?
        let merged = (self.glued || line.glued) && self.extra.len() > 1;
        if merged { &[] } else { &self.extra }
    }
}

/// One row as it is read.
#[derive(Default)]
pub(super) struct Row<'a> {
    pub(super) label: &'a str,
    pub(super) cells: Vec<Option<PathClass>>,
    pub(super) extra: Vec<(Column, &'a str)>,
    /// Some cell is no class.
    pub(super) unreadable: bool,
    /// It has more cells than the header has columns.
    pub(super) overlong: bool,
    pub(super) old_names: bool,
}

impl<'a> Row<'a> {
    /// The row at word `p` of a line, and where it ends.
    pub(super) fn read(line: &Line<'a>, p: usize, header: &Header<'a>, cols: usize) -> Option<(Self, usize)> {
        if !starts_row(&line.words, p) {
            return None;
        }
        let label = line.words.get(p)?.text;
        let mut row = Row { label, ..Row::default() };
        let next = match if p == 0 { tab_fields(line, label, cols) } else { None } {
            Some(fields) => row.take_fields(&fields, header.extra(line), cols).then_some(line.words.len())?,
            None => row.take_words(line, p + 1, header, cols)?,
        };
        Some((row, next))
    }

    fn push(&mut self, word: &str) {
        let class = class(word);
        self.unreadable |= class.is_none();
        self.old_names |= word == "SOC";
        self.cells.push(class);
    }

    /// False if this is no row of classes.
    fn take_fields(&mut self, fields: &[&'a str], extra: &[(Column, usize)], cols: usize) -> bool {
        if fields.iter().take(cols).any(|f| is_p2p_status(f)) {
            return false;
        }
        let cells = fields.iter().take(cols).take_while(|f| !is_affinity(f)).count();
        let (cells, rest) = fields.split_at(cells);
        // trailing tabs of a short row are no cells
        let filled = cells.iter().rposition(|f| !f.is_empty()).map_or(0, |last| last + 1);
        for field in cells.iter().take(filled) {
            self.push(field);
        }
        self.overlong = rest.iter().any(|f| class(f).is_some());
        let values: Vec<&str> = rest.iter().copied().filter(|f| class(f).is_none()).collect();
        for (k, &(column, _)) in extra.iter().enumerate() {
            // an extra tab stands before the last column, whose value is the last one
            let value = match column {
                Column::GpuNuma => values.get(k..).and_then(|v| v.iter().rev().find(|v| !v.is_empty())),
                _ => values.get(k),
            };
            self.extra.extend(value.map(|&v| (column, v)));
        }
        if extra.is_empty() {
            self.take_numa_word(values.iter().flat_map(|v| v.split_whitespace()));
        }
        true
    }

    /// Takes cells and affinities from word `k` on; returns where they end, or `None` if this is no row of classes.
    fn take_words(&mut self, line: &Line<'a>, mut k: usize, header: &Header<'a>, cols: usize) -> Option<usize> {
        let words = &line.words;
        while let Some(word) = words.get(k).filter(|_| self.cells.len() < cols) {
            if is_p2p_status(word.text) {
                return None;
            }
            if class(word.text).is_none() {
                // a garbled cell stands among classes or is the cut end of the line; anything else ends the row
                let among = words.get(k + 1).is_none_or(|next| class(next.text).is_some());
                if !among || starts_row(words, k) || is_affinity(word.text) {
                    break;
                }
            }
            self.push(word.text);
            k += 1;
        }
        while words.get(k).is_some_and(|w| class(w.text).is_some()) {
            self.overlong = true;
            k += 1;
        }
        let extra = header.extra(line);
        let values: Vec<&Word> =
            words.iter().skip(k).take(header.extra.len()).take_while(|w| is_affinity(w.text)).collect();
        // where cells alone are stuck together, each column has its value
        let extra = if values.len() == header.extra.len() { &header.extra } else { extra };
        if values.len() < extra.len() && aligned(&values, extra) {
            self.extra.extend(values.iter().filter_map(|v| Some((column_at(extra, v.at)?, v.text))));
        } else {
            self.extra.extend(extra.iter().zip(&values).map(|(&(column, _), v)| (column, v.text)));
        }
        k += values.len();
        if header.extra.is_empty() {
            k += self.take_numa_word(words.iter().skip(k).map(|w| w.text));
        }
        Some(k)
    }

    /// `NUMA 0` behind a row whose header has no such column; returns how many words it took.
    fn take_numa_word(&mut self, mut rest: impl Iterator<Item = &'a str>) -> usize {
        match (rest.next(), rest.next()) {
            (Some("NUMA"), Some(node)) if is_affinity(node) => {
                self.extra.push((Column::Numa, node));
                2
            }
            _ => 0,
        }
    }

    /// What stands in a column behind the cells.
    pub(super) fn value(&self, column: Column) -> Option<&'a str> {
        self.extra.iter().find(|(c, _)| *c == column).map(|(_, v)| *v)
    }

    /// Takes a line that holds the rest of this row; false if it does not.
    pub(super) fn take_continuation(&mut self, line: &Line<'a>, header: &Header<'a>) -> bool {
        let cols = header.cols.len();
        let cells = line.words.iter().take_while(|w| class(w.text).is_some()).count();
        let values = line.words.get(cells..).unwrap_or_default();
        let fits = if self.cells.len() < cols { cells > 0 } else { cells == 0 && self.extra.is_empty() };
        let shaped = values.len() <= header.extra.len() && values.iter().all(|w| is_affinity(w.text));
        !line.words.is_empty()
            && fits
            && shaped
            && self.cells.len() + cells <= cols
            && self.take_words(line, 0, header, cols).is_some()
    }
}

/// What follows the label, where tabs part the cells; `None` where they do not.
fn tab_fields<'a>(line: &Line<'a>, label: &str, cols: usize) -> Option<Vec<&'a str>> {
    let mut fields = line.text.split('\t').map(|f| f.trim_matches(|c: char| c.is_whitespace() || c == '|'));
    let first = fields.by_ref().find(|f| !f.is_empty())?;
    let fields: Vec<&str> = fields.collect();
    let apart = fields.iter().take(cols).all(|f| !f.contains(char::is_whitespace));
    (!line.glued && first == label && fields.len() >= 2 && apart).then_some(fields)
}

/// The column whose title starts within two characters of `at`.
fn column_at(extra: &[(Column, usize)], at: usize) -> Option<Column> {
    extra.iter().find(|(_, title)| title.abs_diff(at) <= 2).map(|(column, _)| *column)
}

fn aligned(values: &[&Word], extra: &[(Column, usize)]) -> bool {
    values.iter().all(|v| column_at(extra, v.at).is_some())
}
