//! `nvidia-smi topo -p2p r|w|n|a|p`: whether peer-to-peer works between pairs of GPUs.
//!
//! The table has the shape of `topo -m`; its cells distinguish it. Which ability it is about stands only in the
//! command that printed it.

use super::words::{gpu_number, words};
use super::{Fact, Found, P2pCapability, P2pMatrix, P2pStatus, Text};

const TOOL: &str = "nvidia-smi topo -p2p";

/// More GPUs than any machine has.
const MAX_GPUS: usize = 512;

/// Lines above the header in which the command may stand.
const COMMAND_DISTANCE: usize = 4;

pub(super) fn scan(text: &Text, found: &mut Found) {
    text.walk(|i| Some(read(text, i, header(text.line(i))?, found)));
}

/// The GPUs of a line that names nothing else.
fn header(line: &str) -> Option<Vec<String>> {
    if !line.contains("GPU") {
        return None;
    }
    let names: Vec<&str> = words(line).map(|w| w.text).skip_while(|w| *w == ">").collect();
    let all_gpus = names.iter().all(|w| gpu_number(w).is_some());
    (!names.is_empty() && names.len() <= MAX_GPUS && all_gpus).then(|| names.into_iter().map(str::to_owned).collect())
}

/// Reads the table whose header is line `first`; returns the line to go on from.
fn read(text: &Text, first: usize, cols: Vec<String>, found: &mut Found) -> usize {
    let mut matrix = P2pMatrix { capability: capability(text, first), rows: Vec::new(), cols, cells: Vec::new() };
    let mut last = first;
    let mut cut = false;
    while let Some((i, label, cells)) = next_row(text, last, &matrix) {
        cut |= cells.len() < matrix.cols.len();
        matrix.rows.push(label);
        matrix.cells.push(cells);
        last = i;
    }
    let filled: usize = matrix.cells.iter().map(Vec::len).sum();
    let has_states = matrix.cells.iter().flatten().any(Option::is_some);
    // the second condition keeps memory in proportion to the text
    if !has_states || filled * 4 < matrix.rows.len() * matrix.cols.len() {
        return first + 1;
    }
    for row in &mut matrix.cells {
        row.resize(matrix.cols.len(), None);
    }
    let lines = text.numbers(first, last);
    if cut || matrix.rows.len() < matrix.cols.len() {
        found.warn(text, TOOL, lines, "rows or cells are missing: the capture is cut");
    }
    found.push(text, TOOL, lines, Fact::P2p(matrix));
    last + 1
}

/// The next row below line `last`, one empty line allowed.
fn next_row(text: &Text, last: usize, matrix: &P2pMatrix) -> Option<(usize, String, Vec<Option<P2pStatus>>)> {
    // or the rule below a Markdown header
    let blank = text.line(last + 1).chars().all(|c| c.is_whitespace() || matches!(c, '|' | '-' | ':'));
    let i = if blank { last + 2 } else { last + 1 };
    let mut row = words(text.line(i)).map(|w| w.text).skip_while(|w| *w == ">");
    let label = row.next().filter(|l| matrix.cols.iter().any(|c| c == l))?;
    let mut cells = Vec::new();
    for word in row.take(matrix.cols.len()) {
        match (status(word), word) {
            (Some(status), _) => cells.push(Some(status)),
            (None, "X" | "-" | "–" | "—") => cells.push(None),
            _ => return None,
        }
    }
    let new = !matrix.rows.iter().any(|r| r == label);
    (new && !cells.is_empty()).then(|| (i, label.to_owned(), cells))
}

pub(super) fn status(word: &str) -> Option<P2pStatus> {
    Some(match word {
        "OK" => P2pStatus::Ok,
        "CNS" => P2pStatus::ChipsetNotSupported,
        "GNS" => P2pStatus::GpuNotSupported,
        "TNS" => P2pStatus::TopologyNotSupported,
        "NS" => P2pStatus::NotSupported,
        "DR" => P2pStatus::Disabled,
        "U" => P2pStatus::Unknown,
        _ => return None,
    })
}

/// The letter behind `-p2p` in the nearest line above that holds it.
fn capability(text: &Text, header: usize) -> P2pCapability {
    let above = (header.saturating_sub(COMMAND_DISTANCE)..header).rev();
    let letter = above.filter_map(|i| {
        let mut words = words(text.line(i)).map(|w| w.text).skip_while(|w| !matches!(*w, "-p2p" | "--p2p_topo"));
        words.nth(1)
    });
    match letter.map(|l| l.trim_matches('`')).next() {
        Some("r") => P2pCapability::Read,
        Some("w") => P2pCapability::Write,
        Some("n") => P2pCapability::Nvlink,
        Some("a") => P2pCapability::Atomics,
        Some("p") => P2pCapability::Prop,
        _ => P2pCapability::Unstated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_markdown_table_with_dashes() {
        let found = scanned("| | GPU0 | GPU1 |\n|---|---|---|\n| GPU0 | — | OK |\n| GPU1 | OK | — |\n");
        let Fact::P2p(matrix) = &found.evidence[0].fact else { panic!("{found:#?}") };
        assert_eq!(matrix.cells, [[None, Some(P2pStatus::Ok)], [Some(P2pStatus::Ok), None]]);
    }

    fn scanned(text: &str) -> Found {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        found
    }

    #[test]
    fn two_tables_with_and_without_command() {
        let table = " \tGPU0\tGPU1\tGPU2\t\n GPU0\tX\tOK\tCNS\t\n GPU1\tOK\tX\tGNS\t\n GPU2\tDR\tU\tX\t\n";
        let found = scanned(&format!("$ nvidia-smi topo -p2p w\n{table}\nLegend:\n\n  X    = Self\n\n\n\n{table}"));
        let [a, b] = &found.evidence[..] else { panic!("{found:?}") };
        assert_eq!(a.origin.lines, Some((2, 5)));
        let (Fact::P2p(a), Fact::P2p(b)) = (&a.fact, &b.fact) else { panic!() };
        assert_eq!((a.capability, b.capability), (P2pCapability::Write, P2pCapability::Unstated));
        assert_eq!(a.cells[0], [None, Some(P2pStatus::Ok), Some(P2pStatus::ChipsetNotSupported)]);
        assert_eq!(a.cells[2], [Some(P2pStatus::Disabled), Some(P2pStatus::Unknown), None]);
        assert_eq!(found.warnings, []);
    }

    #[test]
    fn cut_and_foreign_tables() {
        let found = scanned("  GPU0 GPU1\n GPU0 X OK\n GPU1 OK\n");
        let Fact::P2p(m) = &found.evidence[0].fact else { panic!() };
        assert_eq!(m.cells[1], [Some(P2pStatus::Ok), None]);
        assert_eq!(found.warnings.len(), 1);
        for other in ["\tGPU0\tGPU1\nGPU0\tX\tPIX\nGPU1\tPIX\tX\n", "GPU0\nGPU0 X\n", "GPU0 GPU1\n\n\n\nGPU0 X OK\n"] {
            assert_eq!(scanned(other), Found::default(), "{other}");
        }
    }
}
