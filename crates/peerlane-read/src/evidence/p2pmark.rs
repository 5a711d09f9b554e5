//! Reads `p2pmark`: copies between GPUs one at a time, into one GPU from all its peers, and among all at once.
//!
//! Its bandwidth table has a row a source and a column a destination, its latency table a row a reader and a column a
//! source. Sets of transfers become one-row tables from `others`, as their titles state, like nvbandwidth's.

use super::grid::{cell, gpu_names};
use super::{Direction, Engine, Fact, Found, Matrix, Operation, Quantity, Text, Unit};

const TOOL: &str = "p2pmark";

/// More GPUs than any machine has.
const MAX_GPUS: usize = 512;

/// Lines between a title and its table.
const TITLE_GAP: usize = 4;

/// Title of the table of one reader at a time.
const ONE_READER: &str = "all_to_one: one GPU reads from all its peers at once";

/// Title of the table of all readers at once.
const ALL_READERS: &str = "all_to_all: every GPU reads from all its peers at once";

pub(super) fn scan(text: &Text, found: &mut Found) {
    text.walk(|i| {
        let title = text.line(i).trim().trim_matches('=').trim();
        let framed = text.line(i).trim().starts_with("===");
        let last = match title {
            "Sequential P2P bandwidth (GB/s)" if framed => pairs(text, i, title, true, found),
            "Sequential P2P latency (us)" if framed => pairs(text, i, title, false, found),
            _ if framed && title.starts_with("Single reader, all ") && title.ends_with("(GB/s)") => {
                each(text, i, ONE_READER, found)
            }
            "All GPUs read all peers simultaneously (GB/s)" if framed => each(text, i, ALL_READERS, found),
            _ => None,
        };
        last.map(|last| last + 1)
    });
}

/// `GPU 3:  55.10  -  …`: the number and the rest.
fn gpu_line(line: &str) -> Option<(u32, &str)> {
    let (number, rest) = line.trim().strip_prefix("GPU ")?.split_once([':', ' '])?;
    Some((number.trim().parse().ok()?, rest))
}

/// Reads the table of pairs below a title; returns its last line.
fn pairs(text: &Text, title_line: usize, title: &str, bandwidth: bool, found: &mut Found) -> Option<usize> {
    let corner = if bandwidth { "Dst->" } else { "Src->" };
    let header = (title_line + 1..=title_line + TITLE_GAP).find(|i| text.line(*i).trim().starts_with(corner))?;
    let words = text.line(header).split_whitespace().skip(1);
    let cols: Vec<u32> = words.map(super::gpu_number).collect::<Option<_>>()?;
    let mut rows: Vec<(u32, Vec<Option<f64>>)> = Vec::new();
    let mut last = header;
    for i in header + 1..text.len() {
        let Some((number, rest)) = gpu_line(text.line(i)) else { break };
        let cells: Option<Vec<Option<f64>>> = rest.split_whitespace().map(cell).collect();
        let Some(mut cells) = cells.filter(|c| c.len() <= cols.len()) else { break };
        cells.resize(cols.len(), None);
        rows.push((number, cells));
        last = i;
    }
    if rows.is_empty() || cols.len() > MAX_GPUS {
        return None;
    }
    let lines = text.numbers(title_line, last);
    if rows.len() < cols.len() {
        found.warn(text, TOOL, lines, format!("the table is cut: {} of {} rows", rows.len(), cols.len()));
    }
    let numbers: Vec<u32> = rows.iter().map(|(number, _)| *number).collect();
    let matrix = Matrix {
        quantity: if bandwidth { Quantity::Bandwidth } else { Quantity::LoadLatency },
        direction: bandwidth.then_some(Direction::Unidirectional),
        p2p: Some(true),
        op: if bandwidth { None } else { Some(Operation::Read) },
        engine: Some(if bandwidth { Engine::Ce } else { Engine::Sm }),
        unit: if bandwidth { Unit::GigabytesPerSecond } else { Unit::Microseconds },
        rows: gpu_names(&numbers),
        cols: gpu_names(&cols),
        values: rows.into_iter().map(|(_, cells)| cells).collect(),
        title: title.to_owned(),
        ..Matrix::default()
    };
    found.push(text, TOOL, lines, Fact::Matrix(matrix));
    Some(last)
}

/// Reads one rate a GPU: `GPU 0 reads from all peers: 55.10 GB/s`, `GPU 0: 24.00 GB/s`; returns the last line.
fn each(text: &Text, title_line: usize, title: &str, found: &mut Found) -> Option<usize> {
    let rate = |i: usize| {
        let (number, rest) = gpu_line(text.line(i))?;
        let value = rest.rsplit_once(':').map_or(rest, |(_, value)| value).trim().strip_suffix("GB/s")?;
        Some((number, value.trim().parse::<f64>().ok()?))
    };
    let first = (title_line + 1..=title_line + TITLE_GAP).find(|i| rate(*i).is_some())?;
    let rates: Vec<(u32, f64)> = (first..text.len()).map_while(rate).take(MAX_GPUS).collect();
    let last = first + rates.len() - 1;
    let numbers: Vec<u32> = rates.iter().map(|(number, _)| *number).collect();
    let matrix = Matrix {
        direction: Some(Direction::Unidirectional),
        p2p: Some(true),
        engine: Some(Engine::Ce),
        rows: vec!["others".to_owned()],
        cols: gpu_names(&numbers),
        values: vec![rates.iter().map(|(_, rate)| Some(*rate)).collect()],
        title: title.to_owned(),
        ..Matrix::default()
    };
    found.push(text, TOOL, text.numbers(title_line, last), Fact::Matrix(matrix));
    Some(last)
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn pairs_and_sets() {
        let found = scanned(
            scan,
            "=== Sequential P2P bandwidth (GB/s) ===\n\n Dst->  GPU0     GPU1\nGPU 0:     -      56.10\nGPU 1:   55.20       -\n\n\
             === Single reader, all 1 peers concurrent (GB/s) ===\n\nGPU 0 reads from all peers: 55.00 GB/s\nGPU 1 reads from all peers: 56.00 GB/s\n\n\
             === All GPUs read all peers simultaneously (GB/s) ===\nEach GPU has 1 streams, 2 total concurrent transfers.\n\n\
             GPU 0: 24.00 GB/s\nGPU 1: 25.00 GB/s\n\n=== Sequential P2P latency (us) ===\n\n Src->  GPU0   GPU1\nGPU 0:    -   0.85\nGPU 1:  0.86    -\n",
        );
        let matrices: Vec<&Matrix> =
            found.evidence.iter().filter_map(|e| if let Fact::Matrix(m) = &e.fact { Some(m) } else { None }).collect();
        let [pairs, one, all, latency] = matrices[..] else { panic!("{found:#?}") };
        assert_eq!((pairs.between("GPU0", "GPU1"), pairs.between("GPU1", "GPU1")), (Some(56.1), None));
        assert_eq!((one.between("others", "GPU1"), all.between("others", "GPU0")), (Some(56.0), Some(24.0)));
        assert_eq!((latency.unit, latency.between("GPU1", "GPU0")), (Unit::Microseconds, Some(0.86)));
        assert_eq!(found.warnings, []);
    }

    #[test]
    fn cut_and_foreign_text() {
        let found =
            scanned(scan, "=== Sequential P2P bandwidth (GB/s) ===\n Dst->  GPU0     GPU1\nGPU 0:     -      56.10\n");
        assert_eq!((found.evidence.len(), found.warnings.len()), (1, 1));
        assert_eq!(scanned(scan, "Sequential P2P bandwidth (GB/s)\nGPU 0: 5 GB/s\n"), Found::default());
    }
}
