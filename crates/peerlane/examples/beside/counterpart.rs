//! Which cell of a run measures what a cell of another program's matrix does.

use peerlane::matrix::{Direction, Engine, Matrix, Operation, Quantity};
use peerlane::names::is_host;
use peerlane::plan::{Test, Work};
use peerlane::run::Cell;
use peerlane::transfer::{HostMemory, Transfer, Via};

/// The cell, and its value as the other program counts: the sum of both ways, one way's share, or one GPU's part of
/// what all move at once.
pub(crate) fn counterpart<'a>(cells: &'a [Cell], theirs: &Matrix, row: &str, col: &str) -> Option<(&'a Cell, f64)> {
    let test = family(theirs, row, col)?;
    let mut same = cells.iter().filter(|c| (c.test, c.quantity, c.unit) == (test, theirs.quantity, theirs.unit));
    same.find_map(|cell| Some((cell, value(cell, theirs, row, col)?)))
}

/// The family of steps that asks the same.
pub(crate) fn family(of: &Matrix, row: &str, col: &str) -> Option<Test> {
    let with_host = is_host(row) || is_host(col);
    let among_all = of.title.starts_with("all_to_host") || of.title.starts_with("host_to_all");
    let within = row == col || col == "self";
    Some(match (of.quantity, of.direction) {
        (Quantity::LoadLatency, _) => Test::LoadLatency,
        (Quantity::Latency | Quantity::EnqueueLatency, _) if within => return None,
        (Quantity::Latency | Quantity::EnqueueLatency, _) if of.p2p == Some(false) => Test::Staged,
        (Quantity::Latency | Quantity::EnqueueLatency, _) => Test::CopyLatency,
        (Quantity::Bandwidth, _) if with_host && among_all => Test::AllHost,
        (Quantity::Bandwidth, Some(Direction::Unidirectional)) if with_host => Test::Host,
        (Quantity::Bandwidth, Some(Direction::BidirectionalShare)) if with_host => Test::HostBoth,
        (Quantity::Bandwidth, Some(Direction::Unidirectional)) if row == "others" => Test::AllToOne,
        (Quantity::Bandwidth, Some(Direction::Unidirectional)) if col == "others" => Test::OneToAll,
        // with peer access and without is the same there
        (Quantity::Bandwidth, Some(Direction::Unidirectional)) if within && of.p2p != Some(false) => Test::Local,
        (Quantity::Bandwidth, Some(_)) if within => return None,
        (Quantity::Bandwidth, Some(_)) if of.p2p == Some(false) => Test::Staged,
        (Quantity::Bandwidth, Some(Direction::Unidirectional)) => Test::Pairs,
        (Quantity::Bandwidth, Some(Direction::Bidirectional)) => Test::PairsBoth,
        _ => return None,
    })
}

/// The value of a cell of that family, if its ends and manner are those asked for.
fn value(cell: &Cell, theirs: &Matrix, row: &str, col: &str) -> Option<f64> {
    let whole = cell.value()?;
    match &cell.work {
        Work::Loads { gpu, memory } => (same(gpu, row) && same(memory, col)).then_some(whole),
        Work::SmallCopies(t) => (same(&t.source, row) && same(&t.destination, col)).then_some(whole),
        Work::Transfers(transfers) => {
            let first = transfers.first().filter(|t| alike(t, theirs))?;
            let both = transfers.len() > 1 && transfers.contains(&first.reversed());
            if both == (theirs.direction == Some(Direction::Unidirectional)) {
                return None;
            }
            let parts_count = both && theirs.direction == Some(Direction::BidirectionalShare);
            // the reader of a read has the row
            let read = theirs.op == Some(Operation::Read);
            let (from, to) = if read { (col, row) } else { (row, col) };
            match cell.test {
                // these tables have the one GPU in the row or the column, whoever reads or writes
                Test::OneToAll => transfers.iter().all(|t| t.source == row).then_some(whole),
                Test::AllToOne => transfers.iter().all(|t| t.destination == col).then_some(whole),
                // the CUDA sample counts bytes read and bytes written
                Test::Local => (first.source == row).then_some(if row == col { 2.0 * whole } else { whole }),
                _ => {
                    let at = transfers.iter().position(|t| same(&t.source, from) && same(&t.destination, to))?;
                    let part = parts_count || (cell.test == Test::AllHost && transfers.len() > 1);
                    if part { cell.each.get(at).map(|e| e.value) } else { Some(whole) }
                }
            }
        }
        _ => None,
    }
}

/// Whether a transfer is driven in the manner of a matrix.
fn alike(t: &Transfer, theirs: &Matrix) -> bool {
    (t.engine, t.op) == (theirs.engine.unwrap_or(Engine::Ce), theirs.op.unwrap_or(Operation::Write))
        && t.via != Via::Pipeline
        && t.memory == HostMemory::Pinned
}

/// Whether two names mean one end; all host memory is one, since a step takes the nearest.
fn same(ours: &str, theirs: &str) -> bool {
    ours == theirs || (is_host(ours) && is_host(theirs))
}

#[cfg(test)]
pub(crate) mod tests {
    use peerlane::matrix::Unit;
    use peerlane::run::Estimate;
    use peerlane::units::Bytes;

    use super::*;

    fn estimate(value: f64) -> Estimate {
        Estimate { value, low: value, high: value }
    }

    /// A cell of transfers whose value is the sum of `each`.
    pub(crate) fn cell(test: Test, transfers: &[Transfer], each: &[f64]) -> Cell {
        Cell {
            step: 0,
            test,
            work: Work::Transfers(transfers.to_vec()),
            size: Bytes::from_mib(64),
            quantity: Quantity::Bandwidth,
            unit: Unit::GigabytesPerSecond,
            estimate: Some(estimate(each.iter().sum())),
            n: 6,
            phases: None,
            registration: None,
            each: each.iter().copied().map(estimate).collect(),
            modes: Vec::new(),
            flags: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// A matrix of one number.
    pub(crate) fn matrix(title: &str, direction: Direction, row: &str, col: &str, value: f64) -> Matrix {
        Matrix {
            quantity: Quantity::Bandwidth,
            direction: Some(direction),
            p2p: None,
            op: None,
            engine: Some(Engine::Ce),
            unit: Unit::GigabytesPerSecond,
            size: None,
            rows: vec![row.to_owned()],
            cols: vec![col.to_owned()],
            values: vec![vec![Some(value)]],
            title: title.to_owned(),
            ..Matrix::default()
        }
    }

    fn ours(cells: &[Cell], theirs: &Matrix) -> Option<f64> {
        counterpart(cells, theirs, &theirs.rows[0], &theirs.cols[0]).map(|(_, value)| value)
    }

    #[test]
    fn a_share_is_the_part_of_its_direction() {
        let down = Transfer::new("host", "GPU1");
        let cells = [
            cell(Test::Host, std::slice::from_ref(&down), &[55.0]),
            cell(Test::HostBoth, &[down.clone(), down.reversed()], &[52.0, 50.0]),
        ];
        let share = |row, col| ours(&cells, &matrix("", Direction::BidirectionalShare, row, col, 1.0));
        assert_eq!(
            (share("host", "GPU1"), share("GPU1", "host"), share("GPU0", "host")),
            (Some(52.0), Some(50.0), None)
        );
        assert_eq!(ours(&cells, &matrix("", Direction::Unidirectional, "host0", "GPU1", 1.0)), Some(55.0));
    }

    #[test]
    fn of_all_with_the_host_each_has_its_part() {
        let down = ["GPU0", "GPU1"].map(|gpu| Transfer::new("host", gpu));
        let both: Vec<Transfer> = down.iter().flat_map(|t| [t.clone(), t.reversed()]).collect();
        let cells = [cell(Test::AllHost, &both, &[20.0, 30.0, 21.0, 31.0]), cell(Test::AllHost, &down, &[54.0, 53.0])];
        let of = |title, direction, row, col| ours(&cells, &matrix(title, direction, row, col, 1.0));
        assert_eq!(of("host_to_all_memcpy_ce", Direction::Unidirectional, "host", "GPU1"), Some(53.0));
        let title = "all_to_host_bidirectional_memcpy_ce";
        assert_eq!(of(title, Direction::BidirectionalShare, "GPU1", "host"), Some(31.0));
        assert_eq!(of("all_to_host_memcpy_ce", Direction::Unidirectional, "GPU1", "host"), None, "not measured");
    }

    #[test]
    fn the_row_of_a_read_receives() {
        let read = Transfer { op: Operation::Read, ..Transfer::new("GPU0", "GPU1") };
        let write = Transfer::new("GPU1", "GPU0");
        let cells = [cell(Test::Pairs, &[write], &[396.0]), cell(Test::Pairs, &[read], &[394.0])];
        let theirs = matrix("", Direction::Unidirectional, "GPU1", "GPU0", 1.0);
        assert_eq!(ours(&cells, &theirs), Some(396.0));
        assert_eq!(ours(&cells, &Matrix { op: Some(Operation::Read), ..theirs.clone() }), Some(394.0));
        assert_eq!(ours(&cells, &Matrix { engine: Some(Engine::Sm), ..theirs }), None);
    }

    #[test]
    fn sums_of_both_ways_stand_in_both_places() {
        let there = Transfer::new("GPU0", "GPU1");
        let cells = [cell(Test::PairsBoth, &[there.clone(), there.reversed()], &[390.0, 391.0])];
        let sum = |row, col| ours(&cells, &matrix("", Direction::Bidirectional, row, col, 1.0));
        assert_eq!((sum("GPU0", "GPU1"), sum("GPU1", "GPU0"), sum("GPU1", "GPU1")), (Some(781.0), Some(781.0), None));
    }

    #[test]
    fn one_and_all_others_are_sums_and_local_copies_count_as_theirs_do() {
        let out = ["GPU1", "GPU2"].map(|to| Transfer::new("GPU0", to));
        let within = Transfer::new("GPU0", "GPU0");
        let cells = [cell(Test::OneToAll, &out, &[200.0, 190.0]), cell(Test::Local, &[within], &[2000.0])];
        let of = |row, col| ours(&cells, &matrix("", Direction::Unidirectional, row, col, 1.0));
        assert_eq!((of("GPU0", "others"), of("others", "GPU0")), (Some(390.0), None));
        assert_eq!((of("GPU0", "self"), of("GPU0", "GPU0")), (Some(2000.0), Some(4000.0)));
    }
}
