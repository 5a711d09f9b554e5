//! Reads the output of CUDA's `p2pBandwidthLatencyTest`, of any age, whole or quoted in prose.
//!
//! The sample's conventions, from its source: the row's device starts the copy, so that a matrix of
//! "P2P Reads" holds copies from column to row and all others copies from row to column; a bidirectional
//! cell is the sum of both directions; a cell of a device with itself counts bytes read and bytes written.
//! Of the two blocks of a latency matrix, `GPU` is the time of a small copy and `CPU` the time to enqueue it.

use std::collections::{BTreeMap, BTreeSet};

use super::grid::{self, Grid};
use super::labelled_matrix;
use super::limits::MAX_DEVICES as MAX_LISTED;
use super::text::Span;
use super::words::meaning;
use super::{
    Direction, Engine, Fact, Found, GpuFacts, Matrix, Operation, P2pCapability, P2pMatrix, P2pStatus, Quantity, Text,
    Unit,
};
use peerlane_machine::fabric::PciAddress;

const TOOL: &str = super::tool::P2P_TEST;

/// Lines between a title and its table: a blank one and a code fence, in documents.
const TITLE_GAP: usize = 4;

/// No process sees more GPUs than this; larger numbers are no device numbers.
pub(super) const MAX_DEVICES: u32 = 256;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["Device: ", "Device=", "P2P"]) {
        return;
    }
    let mut access = Access::default();
    text.walk(|i| {
        let line = text.line(i).trim();
        if device(line).is_some() {
            access.flush(text, TOOL, found);
            return Some(devices(text, i, found));
        }
        if let Some((from, to, can)) = access_line(line) {
            access.add((from, to), can, i);
            return None;
        }
        if line.contains("P2P Connectivity Matrix") {
            return Some(connectivity(text, i, &mut access, found));
        }
        let title = Title::parse(line)?;
        access.flush(text, TOOL, found);
        Some(matrices(text, i, &title, found))
    });
    access.flush(text, TOOL, found);
}

/// Which device can access which, by number, as the lines of one run state it: `Device=0 CAN Access Peer Device=1`.
#[derive(Default)]
pub(super) struct Access {
    pairs: BTreeMap<(u32, u32), bool>,
    lines: Span,
}

impl Access {
    pub(super) fn add(&mut self, pair: (u32, u32), can: bool, line: usize) {
        self.pairs.insert(pair, can);
        self.lines.add(line);
    }

    /// Pushes a matrix over all devices that the pairs name, and starts anew; what no pair states stays unknown.
    pub(super) fn flush(&mut self, text: &Text, tool: &'static str, found: &mut Found) {
        let Access { pairs, lines } = std::mem::take(self);
        let Some(lines) = lines.numbers(text) else { return };
        let devices: BTreeSet<u32> = pairs.keys().flat_map(|(a, b)| [*a, *b]).collect();
        let devices: Vec<u32> = devices.into_iter().collect();
        let status = |a: u32, b: u32| pairs.get(&(a, b)).filter(|_| a != b).map(|can| can_status(*can));
        let names = grid::gpu_names(&devices);
        let cells = devices.iter().map(|a| devices.iter().map(|b| status(*a, *b)).collect()).collect();
        let matrix = P2pMatrix { capability: P2pCapability::Access, rows: names.clone(), cols: names, cells };
        found.push(text, tool, lines, Fact::P2p(matrix));
    }
}

fn can_status(can: bool) -> P2pStatus {
    if can { P2pStatus::Ok } else { P2pStatus::NotSupported }
}

/// `Device: 0, NAME, pciBusID: 19, pciDeviceID: 0, pciDomainID:0`, numbers of the address in hex; old
/// releases print no domain, where only 0 was possible.
fn device(line: &str) -> Option<GpuFacts> {
    let (index, rest) = line.strip_prefix("Device: ")?.split_once(", ")?;
    let (name, ids) = rest.rsplit_once(", pciBusID:")?;
    let mut ids = ids.split(',').map(|part| part.rsplit(':').next().unwrap_or_default().trim());
    let mut hex = || u32::from_str_radix(ids.next()?, 16).ok();
    let (bus, device, domain) = (hex(), hex(), hex().unwrap_or(0));
    let address = bus.zip(device).and_then(|(b, d)| format!("{domain:x}:{b:x}:{d:x}").parse::<PciAddress>().ok());
    Some(GpuFacts { index: index.parse().ok(), name: Some(name.trim().to_owned()), address, ..GpuFacts::default() })
}

fn devices(text: &Text, first: usize, found: &mut Found) -> usize {
    let mut gpus: Vec<GpuFacts> = Vec::new();
    let mut end = first;
    while let Some(gpu) = device(text.line(end).trim()) {
        // one more than is kept, so that the cut is noticed
        if gpus.len() <= MAX_LISTED {
            gpus.push(gpu);
        }
        end += 1;
    }
    found.push(text, TOOL, text.numbers(first, end - 1), Fact::Gpus(gpus));
    end
}

/// `Device=0 CAN Access Peer Device=1`.
fn access_line(line: &str) -> Option<(u32, u32, bool)> {
    let (from, rest) = line.strip_prefix("Device=")?.split_once(' ')?;
    let (can, to) = rest.split_once(" Access Peer Device=")?;
    let can = match can {
        "CAN" => true,
        "CANNOT" => false,
        _ => return None,
    };
    let (from, to) = (from.parse().ok()?, to.trim().parse().ok()?);
    (from < MAX_DEVICES && to < MAX_DEVICES).then_some((from, to, can))
}

/// The connectivity matrix, which repeats the access lines above it.
fn connectivity(text: &Text, title: usize, access: &mut Access, found: &mut Found) -> usize {
    let Some(grid) = table_below(text, title, &["D\\D"]).map(|(_, grid)| grid) else {
        return title + 1;
    };
    let Access { pairs: stated, lines: mut span } = std::mem::take(access);
    span.add(title);
    span.add(grid.last);
    let lines = span.numbers(text).unwrap_or_default();
    let mut contradicted = false;
    let mut cells: Vec<Vec<Option<P2pStatus>>> = Vec::with_capacity(grid.rows.len());
    for (a, row) in grid.rows.iter().zip(&grid.cells) {
        let cell = |(b, value): (&u32, &Option<f64>)| {
            let can = value.map(|v| v != 0.0);
            let line = stated.get(&(*a, *b)).copied();
            contradicted |= can.zip(line).is_some_and(|(matrix, line)| matrix != line);
            // where the matrix is cut, the lines above it state the rest
            can.or(line).filter(|_| a != b).map(can_status)
        };
        cells.push(grid.cols.iter().zip(row).map(cell).collect());
    }
    if contradicted {
        found.warn(
            text,
            TOOL,
            lines,
            "the connectivity matrix contradicts the \"Access Peer\" lines; the matrix is used",
        );
    }
    warn_if_cut(text, title, &grid, found);
    let mut rows = grid.rows.clone();
    for a in grid.cols.iter().filter(|a| !grid.rows.contains(a)) {
        let cell = |b: &u32| stated.get(&(*a, *b)).copied().filter(|_| a != b).map(can_status);
        rows.push(*a);
        cells.push(grid.cols.iter().map(cell).collect());
    }
    let (rows, cols) = (grid::gpu_names(&rows), grid.col_names());
    let matrix = P2pMatrix { capability: P2pCapability::Access, rows, cols, cells };
    found.push(text, TOOL, lines, Fact::P2p(matrix));
    grid.last + 1
}

/// What the title of a matrix states.
struct Title<'a> {
    text: &'a str,
    bandwidth: bool,
    direction: Option<Direction>,
    p2p: bool,
    op: Option<Operation>,
}

impl<'a> Title<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let text = line.trim_start_matches('#').trim();
        let p2p = text.contains("P2P=Enabled");
        let bandwidth = text.contains("Bandwidth");
        let is_title = (p2p || text.contains("P2P=Disabled"))
            && text.contains("Matrix")
            && (bandwidth || text.contains("Latency"))
            && text.len() < 160;
        is_title.then(|| Title {
            text,
            bandwidth,
            direction: meaning(
                text,
                &[(&["Unidirectional"], Direction::Unidirectional), (&["Bidirectional"], Direction::Bidirectional)],
            ),
            p2p,
            op: meaning(text, &[(&["P2P Writes"], Operation::Write), (&["P2P Reads"], Operation::Read)]),
        })
    }

    fn matrix(&self, quantity: Quantity, grid: Grid) -> Matrix {
        let bandwidth = quantity == Quantity::Bandwidth;
        Matrix {
            quantity,
            direction: self.direction,
            p2p: Some(self.p2p),
            op: self.op,
            engine: Some(Engine::Ce),
            unit: if bandwidth { Unit::GigabytesPerSecond } else { Unit::Microseconds },
            rows: grid.row_names(),
            cols: grid.col_names(),
            values: grid.cells,
            title: self.text.to_owned(),
            ..Matrix::default()
        }
    }
}

/// Reads the table or tables below a title; returns the line to go on with.
fn matrices(text: &Text, title: usize, words: &Title, found: &mut Found) -> usize {
    let corners: &[&str] = if words.bandwidth { &["D\\D"] } else { &["D\\D", "GPU"] };
    let Some((_, grid)) = table_below(text, title, corners) else {
        let below = (title + 1..=title + TITLE_GAP).find(|i| !text.line(*i).trim().is_empty());
        let elsewhere = below.is_some_and(|i| labelled_matrix::is_header(text.line(i)));
        if words.text.ends_with(')') && !elsewhere {
            found.warn(text, TOOL, text.numbers(title, title), "a title without a matrix; the text may be cut");
        }
        return title + 1;
    };
    warn_if_cut(text, title, &grid, found);
    let mut end = grid.last;
    let quantity = if words.bandwidth { Quantity::Bandwidth } else { Quantity::Latency };
    found.push(text, TOOL, text.numbers(title, end), Fact::Matrix(words.matrix(quantity, grid)));
    if !words.bandwidth
        && let Some((header, grid)) = table_below(text, end, &["CPU"])
    {
        warn_if_cut(text, header, &grid, found);
        end = grid.last;
        let matrix = words.matrix(Quantity::EnqueueLatency, grid);
        found.push(text, TOOL, text.numbers(header, end), Fact::Matrix(matrix));
    }
    end + 1
}

/// The table whose header follows line `above`, with blank lines and code fences between, and the header's line.
fn table_below(text: &Text, above: usize, corners: &[&str]) -> Option<(usize, Grid)> {
    for i in above + 1..=above + TITLE_GAP {
        let line = text.line(i).trim();
        if let Some(corner) = corners.iter().find(|corner| line.starts_with(**corner)) {
            return grid::read_spaced(text, i, corner).map(|grid| (i, grid));
        }
        // a document may have anything above the rows' numbers, or nothing
        if corners.contains(&"D\\D") && line.contains(|c: char| c.is_ascii_digit()) {
            let corner = line.split_whitespace().next().filter(|word| word.parse::<u32>().is_err());
            let grid = grid::read_spaced(text, i, corner.unwrap_or_default())?;
            return (grid.rows == grid.cols).then_some((i, grid));
        }
        if !line.is_empty() && !line.starts_with("```") {
            return None;
        }
    }
    None
}

fn warn_if_cut(text: &Text, first: usize, grid: &Grid, found: &mut Found) {
    if grid.cut || grid.rows.len() < grid.cols.len() {
        let (rows, cols) = (grid.rows.len(), grid.cols.len());
        let message = match rows.cmp(&cols) {
            std::cmp::Ordering::Greater => format!("the matrix is cut at its right edge: {cols} columns can be read"),
            std::cmp::Ordering::Equal => "the matrix is cut within a row".to_owned(),
            std::cmp::Ordering::Less => format!("the matrix is cut: {rows} of {cols} rows can be read"),
        };
        found.warn(text, TOOL, text.numbers(first, grid.last), message);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn a_document_changes_the_corner_and_puts_lines_between_rows() {
        for table in [
            "0 1\n0 X 26.1\n1 25.9 X\n",
            "From\\To\t0\t1\n0\tX\t26.1\n1\t25.9\tX\n",
            "D\\D 0 1\n\n0 X 26.1\n\n1 25.9 X\n",
        ] {
            let found = scanned(scan, &format!("Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n\n{table}"));
            let Some(Fact::Matrix(matrix)) = found.evidence.first().map(|e| &e.fact) else { panic!("{table}") };
            assert_eq!((matrix.between("GPU1", "GPU0"), found.warnings.len()), (Some(25.9), 0), "{table}");
        }
        let other = scanned(scan, "Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n0 1\n0 X 26.1\n");
        assert!(other.evidence.is_empty(), "half of a table without its corner");
    }

    const RUN: &str = "\
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, Card, with comma, pciBusID: 1f, pciDeviceID: 0, pciDomainID:a
Device: 1, Card B, pciBusID: c1, pciDeviceID: 2, pciDomainID:0
Device=0 CAN Access Peer Device=1
Device=1 CANNOT Access Peer Device=0

***NOTE: In case a device doesn't have P2P access to other one, it falls back to normal memcopy procedure.

P2P Connectivity Matrix
     D\\D     0     1
     0\t     1     1
     1\t     0     1
Unidirectional P2P=Enabled Bandwidth (P2P Reads) Matrix (GB/s)
   D\\D     0      1 
     0 500.00  12.00 
     1  13.00 501.00 
P2P=Disabled Latency Matrix (us)
   GPU     0      1 
     0   1.00   2.00 
     1   3.00   1.00 

   CPU     0      1 
     0   4.00   5.00 
     1   6.00   4.00 
";

    #[test]
    fn a_whole_run() {
        let found = scanned(scan, RUN);
        assert_eq!(found.warnings, []);
        let [gpus, p2p, bandwidth, latency, enqueue] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Gpus(gpus) = &gpus.fact else { panic!() };
        assert_eq!(gpus[0].name.as_deref(), Some("Card, with comma"));
        assert_eq!(gpus[0].address.unwrap().to_string(), "000a:1f:00.0");
        assert_eq!(gpus[1].address.unwrap().to_string(), "0000:c1:02.0");
        assert_eq!(p2p.origin.lines, Some((4, 12)));
        let Fact::P2p(p2p) = &p2p.fact else { panic!() };
        assert_eq!(p2p.cells, [[None, Some(P2pStatus::Ok)], [Some(P2pStatus::NotSupported), None]]);
        let Fact::Matrix(m) = &bandwidth.fact else { panic!() };
        assert_eq!(
            (m.quantity, m.direction, m.op),
            (Quantity::Bandwidth, Some(Direction::Unidirectional), Some(Operation::Read))
        );
        assert_eq!(m.between("GPU0", "GPU1"), Some(12.0));
        assert_eq!(m.between("GPU1", "GPU1"), Some(501.0));
        let (Fact::Matrix(l), Fact::Matrix(c)) = (&latency.fact, &enqueue.fact) else { panic!() };
        assert_eq!((l.quantity, c.quantity), (Quantity::Latency, Quantity::EnqueueLatency));
        assert_eq!((l.p2p, l.value(1, 0), c.value(1, 0)), (Some(false), Some(3.0), Some(6.0)));
        assert_eq!(enqueue.origin.lines, Some((22, 24)));
    }

    #[test]
    fn access_lines_alone_make_a_matrix() {
        let found = scanned(scan, "Device=0 CANNOT Access Peer Device=2\n");
        let Fact::P2p(m) = &found.evidence[0].fact else { panic!() };
        assert_eq!(m.cols, ["GPU0", "GPU2"]);
        assert_eq!(m.cells[1][0], None);
    }

    #[test]
    fn quoted_in_a_document() {
        let found = scanned(
            scan,
            "### Bidirectional P2P=Enabled Bandwidth Matrix (no ACS)\n\n```\n D\\D 0 1\n 0 — 102\n 1 104 —\n```\n",
        );
        let Fact::Matrix(m) = &found.evidence[0].fact else { panic!() };
        assert_eq!((m.direction, m.value(0, 1)), (Some(Direction::Bidirectional), Some(102.0)));
        assert_eq!(m.title, "Bidirectional P2P=Enabled Bandwidth Matrix (no ACS)");
    }

    #[test]
    fn cut_text_is_said() {
        let cut = "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n D\\D 0 1\n 0 X 2\n";
        let found = scanned(scan, cut);
        assert_eq!((found.evidence.len(), found.warnings.len()), (1, 1));
        let found = scanned(scan, "P2P=Enabled Latency Matrix (us)\n");
        assert_eq!((found.evidence.len(), found.warnings.len()), (0, 1));
        assert_eq!(scanned(scan, "We ran it with P2P=Enabled; the Bandwidth Matrix is below.\n"), Found::default());
    }

    #[test]
    fn contradiction_is_said() {
        let found =
            scanned(scan, "Device=0 CAN Access Peer Device=1\nP2P Connectivity Matrix\n D\\D 0 1\n 0 1 0\n 1 0 1\n");
        assert!(found.warnings[0].message.contains("contradicts"));
        assert_eq!(found.evidence.len(), 1);
    }
}
