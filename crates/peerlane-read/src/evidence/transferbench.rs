//! Reads what AMD's TransferBench prints for `p2p`: rates between the memories of CPUs and GPUs.
//!
//! A row is a source and a column a destination. The title states which of the two does the copy: `Local read / Remote write` is
//! the source's, `Remote read / Local write` the destination's, and which engine: `GFX` (compute units) or `DMA`. A
//! bidirectional pair has three rows; `<->` is the sum of both directions. The cell of a memory with itself counts the
//! bytes once.

use super::grid::cell;
use super::words::meaning;
use super::{Direction, Engine, Fact, Found, Matrix, Operation, Text};

const TOOL: &str = "TransferBench";

/// More memories than any machine has.
const MAX_COLUMNS: usize = 512;

pub(super) fn scan(text: &Text, found: &mut Found) {
    text.walk(|i| Some(table(text, i, &title(text.line(i).trim())?, found)? + 1));
}

/// What the line above a table states.
struct Title<'a> {
    text: &'a str,
    direction: Direction,
    op: Option<Operation>,
    engine: Option<Engine>,
}

/// `Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)`.
fn title(line: &str) -> Option<Title<'_>> {
    let direction = if line.starts_with("Unidirectional copy peak bandwidth") {
        Direction::Unidirectional
    } else if line.starts_with("Bidirectional copy peak bandwidth") {
        Direction::Bidirectional
    } else {
        return None;
    };
    let executor = line.split_once("GPU-Executor:").map(|(_, name)| name.trim_matches([' ', ')']));
    Some(Title {
        text: line,
        direction,
        op: meaning(line, &[(&["Remote write"], Operation::Write), (&["Remote read", "Remote Read"], Operation::Read)]),
        engine: executor.and_then(|name| meaning(name, &[(&["GFX"], Engine::Sm), (&["DMA"], Engine::Ce)])),
    })
}

/// A memory: `CPU 00` or `GPU 07`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct End {
    gpu: bool,
    number: u32,
}

impl End {
    fn take<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<End> {
        let gpu = match words.next()? {
            "GPU" => true,
            "CPU" => false,
            _ => return None,
        };
        Some(End { gpu, number: words.next()?.parse().ok()? })
    }

    fn name(self, cpus: usize) -> String {
        match self {
            End { gpu: true, number } => format!("GPU{number}"),
            End { number: 0, .. } if cpus <= 1 => "host".to_owned(),
            End { number, .. } => format!("host{number}"),
        }
    }
}

/// Reads the table below a title; returns its last line. `None` where no such table follows.
fn table(text: &Text, at: usize, title: &Title, found: &mut Found) -> Option<usize> {
    let header = at + 1;
    let mut words = text.line(header).split_whitespace();
    let corner = words.next().filter(|w| w.starts_with("SRC") && w.contains("DST"))?;
    let mut cols = Vec::new();
    while let Some(end) = End::take(&mut words) {
        cols.push(end);
    }
    if cols.is_empty() || cols.len() > MAX_COLUMNS || corner.len() > 16 {
        return None;
    }
    let mut rows: Vec<(End, Vec<Option<f64>>)> = Vec::new();
    let mut last = header;
    let wanted = if title.direction == Direction::Bidirectional { "<->" } else { "->" };
    let mut short = false;
    for i in header + 1..text.len() {
        let line = text.line(i).trim();
        if line.is_empty() {
            continue;
        }
        let mut words = line.split_whitespace();
        let Some(end) = End::take(&mut words) else { break };
        let Some(arrow) = words.next().filter(|w| matches!(*w, "->" | "<-" | "<->")) else { break };
        last = i;
        if arrow != wanted {
            continue;
        }
        let mut cells: Vec<Option<f64>> = words.map_while(cell).collect();
        short |= cells.len() != cols.len();
        cells.resize(cols.len(), None);
        rows.push((end, cells));
    }
    let lines = text.numbers(at, last);
    if short || rows.len() < cols.len() {
        found.warn(text, TOOL, lines, format!("the table is cut: {} of {} rows", rows.len(), cols.len()));
    }
    push(text, lines, title, &cols, &rows, found);
    Some(last)
}

fn push(
    text: &Text,
    lines: (u32, u32),
    title: &Title,
    cols: &[End],
    rows: &[(End, Vec<Option<f64>>)],
    found: &mut Found,
) {
    let cpus = cols.iter().filter(|end| !end.gpu).count();
    // a matrix of reads holds copies from column to row, since the row's GPU is to do the copy
    let turned = title.op == Some(Operation::Read);
    let at = |row: End, col: End| {
        let (source, target) = if turned { (col, row) } else { (row, col) };
        let j = cols.iter().position(|c| *c == target)?;
        rows.iter().find(|(end, _)| *end == source).and_then(|(_, cells)| cells.get(j).copied().flatten())
    };
    for (from_gpu, to_gpu) in [(true, true), (false, true), (true, false)] {
        let of = |gpu: bool| cols.iter().copied().filter(|end| end.gpu == gpu).collect::<Vec<End>>();
        let between = from_gpu && to_gpu;
        // host copies are named by the direction of their data, not by who does them
        let value = |a: End, b: End| if between || !turned { at(a, b) } else { at(b, a) };
        let (from, to) = (of(from_gpu), of(to_gpu));
        let values: Vec<Vec<Option<f64>>> = from.iter().map(|a| to.iter().map(|b| value(*a, *b)).collect()).collect();
        if values.iter().flatten().all(Option::is_none) {
            continue;
        }
        let matrix = Matrix {
            direction: Some(title.direction),
            p2p: between.then_some(true),
            op: title.op.filter(|_| between),
            engine: title.engine.filter(|_| between),
            rows: from.iter().map(|end| end.name(cpus)).collect(),
            cols: to.iter().map(|end| end.name(cpus)).collect(),
            values,
            title: title.text.to_owned(),
            ..Matrix::default()
        };
        found.push(text, TOOL, lines, Fact::Matrix(matrix));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn matrices(body: &str) -> Vec<Matrix> {
        let found = scanned(scan, body);
        found.evidence.into_iter().filter_map(|e| if let Fact::Matrix(m) = e.fact { Some(m) } else { None }).collect()
    }

    const ROWS: &str =
        " CPU 00  ->  20.1  30.2  30.3\n\n GPU 00  ->  31.1  900.0  40.1\n GPU 01  ->  31.2  40.2  901.0\n";

    #[test]
    fn one_way() {
        let header = "SRC+EXE\\DST    CPU 00       GPU 00    GPU 01\n";
        let title = "Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)\n";
        let [pairs, down, up] = matrices(&format!("{title}{header}{ROWS}   CPU->CPU\n")).try_into().unwrap();
        assert_eq!((pairs.engine, pairs.op, pairs.p2p), (Some(Engine::Sm), Some(Operation::Write), Some(true)));
        assert_eq!(pairs.between("GPU0", "GPU1"), Some(40.1));
        assert_eq!((down.between("host", "GPU1"), up.between("GPU1", "host")), (Some(30.3), Some(31.2)));
        let title = title.replace("Local read / Remote write", "Remote read / Local write").replace("GFX", "DMA");
        let [pairs, down, _] = matrices(&format!("{title}{header}{ROWS}")).try_into().unwrap();
        assert_eq!((pairs.engine, pairs.op), (Some(Engine::Ce), Some(Operation::Read)));
        // the GPU of the row reads from the one of the column
        assert_eq!((pairs.between("GPU1", "GPU0"), down.between("host", "GPU0")), (Some(40.1), Some(30.2)));
    }

    #[test]
    fn both_ways_are_summed_and_a_cut_table_is_said() {
        let body = "Bidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)\n\
                    SRC\\DST    GPU 00    GPU 01\n GPU 00  ->  N/A  40.0\n GPU 00 <-  N/A  41.0\n GPU 00 <->  N/A  81.0\n";
        let found = scanned(scan, body);
        assert_eq!(found.warnings.len(), 1);
        let [both] = matrices(body).try_into().unwrap();
        assert_eq!((both.direction, both.between("GPU0", "GPU1")), (Some(Direction::Bidirectional), Some(81.0)));
        assert!(matrices("Unidirectional copy peak bandwidth GB/s\n D/D 0 1\n 0 1 2\n").is_empty());
    }
}
