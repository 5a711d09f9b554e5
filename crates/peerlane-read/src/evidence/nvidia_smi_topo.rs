//! `nvidia-smi topo -m`, of every era and in every state that mails, web pages and terminals leave it in.
//!
//! The table is read as words and not as columns of text, since tabs become spaces, get lost, or take all
//! newlines with them. A header is `GPU0` and further devices, directly followed by a row: a device and a
//! class. Where tabs survive, they decide which cell is empty; else order does.

mod row;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::rc::Rc;

use self::row::{Column, Header, Line, Row, starts_row};
use super::words::{Word, gpu_number, is_device, numbered};
use super::{ClassMatrix, Found, Text, path_matrix};
use peerlane_machine::fabric::PathClass;

const TOOL: &str = "nvidia-smi topo -m";

/// More devices than any machine has; what claims more is no topology.
const MAX_DEVICES: usize = 512;

/// Empty lines that a web page may put between two rows.
const MAX_BLANK_LINES: usize = 2;

/// Lines that a header may be wrapped into.
const MAX_HEADER_LINES: usize = 8;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let of_others = path_matrix::spans(text);
    text.walk(|i| {
        let other = of_others.iter().find(|(first, last)| (*first..=*last).contains(&i));
        Some(other.map_or_else(|| scan_line(text, i, found).max(i + 1), |(_, last)| last + 1))
    });
}

/// Finds the matrices that begin on line `i`; returns the line after the last that it read.
fn scan_line(text: &Text, i: usize, found: &mut Found) -> usize {
    let line = text.line(i);
    if !["GPU", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC"].iter().any(|word| line.contains(word)) {
        return i + 1;
    }
    let start = Rc::new(Line::new(text, i));
    let mut p = 0;
    while let Some(word) = start.words.get(p) {
        let read = if starts_row(&start.words, p) {
            match (p == 0).then(|| Reading::without_header(text, i, &start)) {
                Some(Err(next)) if next > i + 1 => return next,
                read => read.and_then(Result::ok),
            }
        } else if gpu_number(word.text).is_some() {
            Reading::with_header(text, i, &start, p)
        } else {
            None
        };
        let Some(reading) = read else {
            let in_run = gpu_number(word.text).is_some() && !starts_row(&start.words, p);
            let run = start.words.iter().skip(p).take_while(|w| in_run && is_device(w.text)).count();
            p += run.max(1);
            continue;
        };
        let (last, next) = (reading.last, reading.next);
        reading.finish(i, found);
        if last > i {
            return last + 1;
        }
        p = next.max(p + 1);
    }
    i + 1
}

/// A matrix as it is read.
struct Reading<'a> {
    text: &'a Text,
    header: Header<'a>,
    rows: Vec<Row<'a>>,
    no_header: bool,
    /// The line of a row of less than two cells, from which no matrix without a header can be read.
    short_row: Option<usize>,
    /// The last row's line, and the word at which that row ends.
    last: usize,
    next: usize,
    last_line: Rc<Line<'a>>,
}

impl<'a> Reading<'a> {
    /// The matrix whose header starts at word `p` of line `i`.
    fn with_header(text: &'a Text, i: usize, start: &Rc<Line<'a>>, p: usize) -> Option<Self> {
        let mut header = Header { glued: start.glued, ..Header::default() };
        let mut line = Rc::clone(start);
        let mut here = (i, header.take(&line.words, p));
        while here.1 >= line.words.len() {
            let next = next_line(text, here.0)?;
            line = Rc::new(Line::new(text, next));
            if starts_row(&line.words, 0) {
                here = (next, 0);
                break;
            }
            // a wrapped header's further lines follow at once, and hold titles only and none again
            if line.words.first().is_some_and(|w| header.cols.contains(&w.text)) {
                return None;
            }
            let end = header.take(&line.words, 0);
            if end < line.words.len() || next > here.0 + 1 || next - i >= MAX_HEADER_LINES {
                return None;
            }
            here = (next, end);
        }
        // one GPU's `topo -p2p` looks the same but has no affinity
        let single = header.cols.len() == 1 && header.extra.is_empty();
        if !starts_row(&line.words, here.1) || header.cols.len() > MAX_DEVICES || single {
            return None;
        }
        let names: HashSet<&str> = header.cols.iter().copied().collect();
        if names.len() < header.cols.len() {
            return None;
        }
        let last_line = Rc::clone(&line);
        let rows = Vec::new();
        let mut reading =
            Reading { text, header, rows, no_header: false, short_row: None, last: i, next: p, last_line };
        reading.read_rows(line, here);
        (!reading.rows.is_empty()).then_some(reading)
    }

    /// The rows from line `i` on, their header being lost; else the line from which there may be such rows again.
    fn without_header(text: &'a Text, i: usize, start: &Rc<Line<'a>>) -> Result<Self, usize> {
        let nowhere = usize::MAX / 2;
        let extra = vec![(Column::Cpu, nowhere), (Column::Numa, nowhere), (Column::GpuNuma, nowhere)];
        let header = Header { extra, ..Header::default() };
        let last_line = Rc::clone(start);
        let rows = Vec::new();
        let mut reading = Reading { text, header, rows, no_header: true, short_row: None, last: i, next: 0, last_line };
        reading.read_rows(Rc::clone(start), (i, 0));
        match reading.short_row {
            // from the rows above it, the reading would come to the same end
            Some(line) => Err(line),
            None if reading.rows.len() < 2 => Err(i + 1),
            None => Ok(reading),
        }
    }

    /// Reads rows from `here`, a line and a word.
    fn read_rows(&mut self, mut line: Rc<Line<'a>>, (mut i, mut p): (usize, usize)) {
        let mut labels = HashSet::new();
        let cols = if self.no_header { MAX_DEVICES } else { self.header.cols.len() };
        while self.rows.len() < MAX_DEVICES {
            if p >= line.words.len() {
                let Some(next) = next_line(self.text, i) else { return };
                line = Rc::new(Line::new(self.text, next));
                let wrapped = !starts_row(&line.words, 0);
                if wrapped {
                    let row = self.rows.last_mut().filter(|_| next == i + 1 && !self.no_header);
                    if !row.is_some_and(|row| row.take_continuation(&line, &self.header)) {
                        return;
                    }
                    (self.last, self.next, self.last_line) = (next, line.words.len(), Rc::clone(&line));
                }
                (i, p) = (next, if wrapped { line.words.len() } else { 0 });
                continue;
            }
            let Some((row, next)) = Row::read(&line, p, &self.header, cols) else { return };
            let foreign = self.rows.is_empty() && (row.overlong || !self.header.cols.contains(&row.label));
            if !labels.insert(row.label) || (foreign && !self.no_header) {
                return;
            }
            if self.no_header && row.cells.len() < 2 {
                self.short_row = Some(i);
                return;
            }
            self.rows.push(row);
            (self.last, self.next, self.last_line) = (i, next, Rc::clone(&line));
            if starts_row(&line.words, next) {
                p = next;
            } else if p == 0 || next >= line.words.len() {
                p = line.words.len();
            } else {
                // rows that share a line end where other words follow
                return;
            }
        }
    }

    /// Columns of a matrix without header, by index: a row's own cell names its column, and GPUs come first and in
    /// order, so that what stands before one, or is reached by NVLink, is a GPU too.
    fn infer_columns(&self) -> Vec<Option<String>> {
        let width = self.rows.iter().map(|r| r.cells.len()).max().unwrap_or(0);
        let mut names: Vec<Option<String>> = vec![None; width];
        for row in &self.rows {
            let own = row.cells.iter().position(|c| *c == Some(PathClass::Same));
            if let Some(name) = own.and_then(|j| names.get_mut(j)) {
                *name = Some(row.label.to_owned());
            }
        }
        let is_gpu_at = |name: &Option<String>, j: usize| name.as_deref().and_then(gpu_number) == Some(j as u32);
        let Some(last_known) = (0..width).rev().find(|&j| names.get(j).is_some_and(|n| is_gpu_at(n, j))) else {
            return names;
        };
        let nvlink =
            |j: usize| self.rows.iter().any(|r| r.cells.get(j).is_some_and(|c| c.is_some_and(PathClass::is_nvlink)));
        let last_gpu = (0..width).rev().find(|&j| nvlink(j)).map_or(last_known, |j| j.max(last_known));
        for (j, name) in names.iter_mut().enumerate().take(last_gpu + 1) {
            name.get_or_insert_with(|| format!("GPU{j}"));
        }
        names
    }

    /// Pushes what was read; `first` is the header's line.
    fn finish(mut self, first: usize, found: &mut Found) {
        let (text, lines) = (self.text, self.text.numbers(first, self.last));
        if self.no_header {
            let names = self.infer_columns();
            let unnamed = names.iter().filter(|n| n.is_none()).count();
            for row in &mut self.rows {
                let mut keep = names.iter().map(Option::is_some);
                row.cells.retain(|_| keep.next().unwrap_or(false));
            }
            let mut message = "no header line: columns are named after the rows".to_owned();
            if unnamed > 0 {
                let _ = write!(message, "; {unnamed} columns that no row names are left out");
            }
            found.warn(text, TOOL, lines, message);
            return self.push(names.into_iter().flatten().collect(), lines, found);
        }
        let cols = self.header.cols.iter().map(|&c| c.to_owned()).collect();
        self.push(cols, lines, found);
    }

    fn push(self, cols: Vec<String>, lines: (u32, u32), found: &mut Found) {
        let Reading { text, header, rows, .. } = &self;
        let filled: usize = rows.iter().map(|r| r.cells.len()).sum();
        // also keeps memory in proportion to the text
        if cols.is_empty() || (rows.len() > 1 && filled * 4 < rows.len() * cols.len()) {
            return found.warn(text, TOOL, lines, "most cells are missing: not used; capture it again");
        }
        let mut matrix = ClassMatrix { cols, ..ClassMatrix::default() };
        for row in rows {
            let mut cells = row.cells.clone();
            cells.resize(matrix.cols.len(), None);
            matrix.rows.push(row.label.to_owned());
            matrix.cells.push(cells);
            matrix.cpu_affinity.push(row.value(Column::Cpu).filter(|v| !v.is_empty()).and_then(|v| v.parse().ok()));
            matrix.numa_affinity.push(row.value(Column::Numa).filter(|v| !v.is_empty()).and_then(|v| v.parse().ok()));
            matrix.gpu_numa.push(row.value(Column::GpuNuma).and_then(|v| v.parse().ok()));
            matrix.old_names |= row.old_names;
        }
        self.read_legend(&mut matrix);
        let short = rows.iter().filter(|r| r.cells.len() < matrix.cols.len()).count();
        drop_cut_class(&mut matrix, rows);
        let mut warn = |message: String| found.warn(text, TOOL, lines, message);
        if matrix.rows.len() < matrix.cols.len() {
            warn(format!("{} of {} rows: the capture is cut", matrix.rows.len(), matrix.cols.len()));
        }
        if matrix.rows.len() > matrix.cols.len() {
            let (cols, rows) = (matrix.cols.len(), matrix.rows.len());
            warn(format!("{cols} of {rows} columns: the capture is cut at its right edge"));
        }
        if short > 0 {
            warn(format!("{short} rows are shorter than the header: their last cells are unknown"));
        }
        if rows.iter().any(|r| r.overlong) && !self.no_header {
            warn("rows are longer than the header: the cells beyond it are not used".to_owned());
        }
        if rows.iter().any(|r| r.unreadable) {
            warn("some cells are no path class: they are unknown".to_owned());
        }
        if header.glued && header.extra.len() > 1 && rows.iter().all(|r| r.extra.is_empty()) {
            warn("tabs are lost: the affinities cannot be separated and are unknown".to_owned());
        }
        found.push(text, TOOL, lines, super::Fact::Classes(matrix));
    }

    /// Reads the legends below the rows, or behind them on the same line.
    fn read_legend(&self, matrix: &mut ClassMatrix) {
        let rest = self.last_line.words.get(self.next..).unwrap_or_default();
        let other = rest.iter().position(|w| gpu_number(w.text).is_some());
        let mut nics = take_legend(rest.get(..other.unwrap_or(rest.len())).unwrap_or_default(), false, matrix);
        if other.is_some() {
            return;
        }
        for i in self.last + 1..self.text.len() {
            let line = Line::new(self.text, i);
            let text = |k: usize| line.words.get(k).map_or("", |w| w.text);
            let is_legend = text(0) == "Legend:" || text(0) == "NIC" && text(1) == "Legend:" || text(1) == "=";
            let is_nic = nics && text(0).strip_suffix(':').is_some_and(|n| numbered(n, "NIC").is_some());
            if !line.is_blank() && !is_legend && !is_nic {
                return;
            }
            nics = take_legend(&line.words, nics, matrix);
        }
    }
}

/// Takes `SOC = …`, and `NIC0: mlx5_0` behind `NIC Legend:`; returns whether that heading was read.
fn take_legend(words: &[Word], mut nics: bool, matrix: &mut ClassMatrix) -> bool {
    for pair in words.windows(2) {
        if let [a, b] = pair {
            nics |= a.text == "NIC" && b.text == "Legend:";
            matrix.old_names |= a.text == "SOC" && b.text == "=";
            if let Some(nic) = a.text.strip_suffix(':').filter(|n| nics && numbered(n, "NIC").is_some())
                && matrix.nic_names.len() < MAX_DEVICES
            {
                matrix.nic_names.insert(nic.to_owned(), b.text.to_owned());
            }
        }
    }
    nics
}

/// The next line that is not empty, if it is near.
fn next_line(text: &Text, i: usize) -> Option<usize> {
    let end = text.len().min(i + 2 + MAX_BLANK_LINES);
    (i + 1..end).find(|&k| !row::is_blank(text.line(k)))
}

/// A row cut within `NV18` ends in `NV1`: such a last class stays only if the mirrored cell agrees.
fn drop_cut_class(matrix: &mut ClassMatrix, rows: &[Row]) {
    let Some((i, row)) = rows.iter().enumerate().next_back().filter(|(_, r)| r.cells.len() < matrix.cols.len()) else {
        return;
    };
    let Some(j) = row.cells.len().checked_sub(1) else { return };
    let cell = matrix.cells.get(i).and_then(|r| r.get(j)).copied().flatten();
    let mirror = matrix.cols.get(j).and_then(|name| matrix.cell(name, row.label));
    if cell.is_some_and(PathClass::is_nvlink)
        && cell != mirror
        && let Some(cell) = matrix.cells.get_mut(i).and_then(|r| r.get_mut(j))
    {
        *cell = None;
    }
}

#[cfg(test)]
mod tests;
