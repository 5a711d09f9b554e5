//! `nvloom_cli`: pairwise rates of an NVLink domain that spans hosts, one MPI process per GPU.
//!
//! A matrix has the source in its columns and the destination in its rows (`OutputMatrix::set(i, j)` prints `i` across, and the
//! copy goes from `i` to `j`). Only pairwise tests are matrices between GPUs; of the others, the columns are racks or totals.

use super::limits::MAX_DEVICES;
use super::text::Span;
use super::{Direction, Engine, Fact, Found, GpuFacts, Matrix, Operation, Quantity, Text, Unit};

const TOOL: &str = "nvloom";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["nvloom_cli", "rackGuid: "]) {
        return;
    }
    let mut processes: (Span, Vec<GpuFacts>) = Default::default();
    let mut test: Option<&str> = None;
    text.walk(|i| {
        let line = text.line(i).trim();
        if let Some(gpu) = process(line) {
            processes.0.add(i);
            if processes.1.len() <= MAX_DEVICES {
                processes.1.push(gpu);
            }
        } else if let Some(name) = line.strip_prefix("Running ") {
            test = Some(name.trim());
        } else if line.starts_with("Done ") || line.starts_with("ExecutionTime ") {
            test = None;
        } else if let Some(name) = test.filter(|name| pairwise(name))
            && let Some((matrix, last)) = table(text, i, name)
        {
            let lines = text.numbers(i, last);
            let (rows, of) = (matrix.cols.len(), matrix.rows.len());
            if rows < of {
                found.warn(text, TOOL, lines, format!("{name} is cut: {rows} of {of} rows"));
            }
            found.push(text, TOOL, lines, Fact::Matrix(matrix));
            return Some(last + 1);
        }
        None
    });
    if let Some(lines) = processes.0.numbers(text) {
        found.push(text, TOOL, lines, Fact::Gpus(processes.1));
    }
}

/// `Process 3 (host): device 3: NVIDIA GB200 (00000019:01:00); rackGuid: …`. A process is a GPU; the addresses repeat from host
/// to host.
fn process(line: &str) -> Option<GpuFacts> {
    let (number, rest) = line.strip_prefix("Process ")?.trim_start().split_once(" (")?;
    let (_, device) = rest.split_once("): device ")?;
    let (_, product) = device.split_once(": ")?;
    let (name, _) = product.split_once("; rackGuid: ")?;
    let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
    Some(GpuFacts::listed(number.trim().parse().ok()?, name))
}

/// `device_to_device_unidir_write_ce`, `latency_device`.
fn pairwise(test: &str) -> bool {
    let pair = |test: &str| test.contains("_unidir_") || test.contains("_bidir_");
    let device = test.starts_with("device_to_device_");
    (device && pair(test)) || test == "latency_device"
}

/// The matrix whose header is line `header`: numbers from 0 on, parted by tabs.
fn table(text: &Text, header: usize, test: &str) -> Option<(Matrix, usize)> {
    let columns = |i: usize| text.line(i).split_whitespace().map(str::parse::<u32>).collect::<Result<Vec<_>, _>>();
    let cols = columns(header).ok().filter(|cols| (2..=MAX_DEVICES).contains(&cols.len()))?;
    cols.iter().enumerate().all(|(i, n)| *n as usize == i).then_some(())?;
    let mut rows: Vec<Vec<Option<f64>>> = Vec::new();
    for i in header + 1..=header + cols.len() {
        let mut words = text.line(i).split_whitespace();
        if words.next().and_then(|n| n.parse::<usize>().ok()) != Some(rows.len()) {
            break;
        }
        let cell = |word: &str| match word {
            "N/A" => Some(None),
            _ => word.parse::<f64>().ok().map(Some),
        };
        match words.take(cols.len() + 1).map(cell).collect::<Option<Vec<_>>>() {
            Some(row) if row.len() == cols.len() => rows.push(row),
            _ => break,
        }
    }
    let last = header + rows.len();
    (!rows.is_empty()).then_some(())?;
    // from source to destination
    let (sources, destinations) = (cols.len(), rows.len());
    let values =
        (0..sources).map(|from| (0..destinations).map(|to| rows.get(to)?.get(from).copied()?).collect()).collect();
    let names = |n: usize| (0..n).map(|i| format!("GPU{i}")).collect::<Vec<_>>();
    let latency = test.starts_with("latency");
    let engine = if test.ends_with("_ce") { Some(Engine::Ce) } else { test.ends_with("_sm").then_some(Engine::Sm) };
    let both = test.contains("_bidir_");
    let op = match (test.contains("_write_"), test.contains("_read_")) {
        (true, _) => Some(Operation::Write),
        (_, true) => Some(Operation::Read),
        _ => None,
    };
    let matrix = Matrix {
        quantity: if latency { Quantity::LoadLatency } else { Quantity::Bandwidth },
        unit: if latency { Unit::Nanoseconds } else { Unit::GigabytesPerSecond },
        direction: (!latency).then_some(if both { Direction::Bidirectional } else { Direction::Unidirectional }),
        p2p: Some(true),
        engine,
        op: op.filter(|_| !both),
        rows: names(sources),
        cols: names(destinations),
        values,
        title: test.to_owned(),
        ..Matrix::default()
    };
    Some((matrix, last))
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    const RUN: &str = "\
nvloom_cli 1.3.0
Driver version: 580.95.05
Process 0 (host-a): device 0: NVIDIA GB200 (00000008:01:00); rackGuid: 4f2e
Process 1 (host-a): device 1: NVIDIA GB200 (00000009:01:00); rackGuid: 4f2e

Running device_to_device_unidir_write_ce
\t0\t1\t
0\tN/A\t780.12\t
1\t779.50\tN/A\t

Min device_to_device_unidir_write_ce 779.50 GB/s
ExecutionTime device_to_device_unidir_write_ce 0.5 s
Done device_to_device_unidir_write_ce

Running gpu_to_rack_device_to_device_unidir_write_ce
\t4f2e\t
0\t780.12\t
Done gpu_to_rack_device_to_device_unidir_write_ce
";

    #[test]
    fn a_pairwise_test() {
        let found = scanned(scan, RUN);
        let [matrix, gpus] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Matrix(m) = &matrix.fact else { panic!() };
        assert_eq!(
            (m.between("GPU1", "GPU0"), m.between("GPU0", "GPU1")),
            (Some(780.12), Some(779.5)),
            "columns are sources"
        );
        assert_eq!(
            (m.engine, m.op, m.direction),
            (Some(Engine::Ce), Some(Operation::Write), Some(Direction::Unidirectional))
        );
        let Fact::Gpus(gpus) = &gpus.fact else { panic!() };
        assert_eq!((gpus.len(), gpus[1].name.as_deref()), (2, Some("NVIDIA GB200")));
        assert!(found.warnings.is_empty());
    }

    #[test]
    fn a_cut_table_and_other_tables_of_numbers() {
        let cut = RUN.replace("1\t779.50\tN/A\t\n", "");
        assert_eq!(scanned(scan, &cut).warnings.len(), 1);
        assert_eq!(scanned(scan, "rackGuid: x\n 0 1\n0 1 2\n1 2 3\n"), Found::default());
    }
}
