//! Cells as matrices and curves, the shapes in which people compare machines.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Cell;
use crate::kinds::{Ends, Place, Shape};
use crate::plan::{Test, Work};
use peerlane_machine::curve::{Curve, Series};
use peerlane_machine::machine::Spread;
use peerlane_machine::matrix::{Matrix, Quantity, Unit};
use peerlane_machine::names::natural;
use peerlane_machine::transfer::{HostMemory, Via};
use peerlane_machine::units::Bytes;

/// The most places of all matrices of a run together: 16 of 512 GPUs. A record that names a thousand nodes and measures
/// few of their pairs must not take the memory of all.
const MOST_PLACES: usize = 4 << 20;

/// A matrix with the cells that it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct CellMatrix {
    /// Family of the cells.
    pub test: Test,
    /// The numbers. Places of void cells, and of pairs that were not asked, are `None`.
    pub matrix: Matrix,
    /// In the shape of the values, which of the given cells stands there; void ones too.
    pub cells: Vec<Vec<Option<usize>>>,
}

impl CellMatrix {
    /// How sure each number is, in the shape of the values. `all` are the cells that the matrix was made of.
    pub fn spread(&self, all: &[Cell]) -> Vec<Vec<Option<Spread>>> {
        let of = |at: &Option<usize>| {
            let cell = all.get((*at)?)?;
            cell.usable().map(|e| Spread { n: cell.n, low: e.low, high: e.high })
        };
        self.cells.iter().map(|row| row.iter().map(of).collect()).collect()
    }
}

/// The cells that belong into matrices: one transfer, or one and its opposite, and latencies between two ends. What is
/// comparable stands together: of one quantity, family, direction, engine and operation, way and kind of host memory,
/// and either of small messages (below 64 KiB) or of large ones.
///
/// Sets of transfers are none of them ([`super::sets`] has them), so that nobody compares their rates with those of
/// transfers alone. Rows and columns are in their natural order; between GPUs both name all of them. What is measured
/// in both directions at once and summed stands in both of its places. Of several cells in one place the last counts.
pub fn matrices(cells: &[Cell]) -> Vec<CellMatrix> {
    grouped(cells).0
}

/// Messages below this are a matter of start-up time and not of rate.
const SMALL: Bytes = Bytes(64 << 10);

/// What cells of one matrix have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    test: Test,
    quantity: Quantity,
    shape: Shape,
    small: bool,
    unit_name: &'static str,
}

/// The cell's matrix and place there, if it has one: sets, sweeps over sizes, collectives and host memory alone have none.
fn place(cell: &Cell) -> Option<(Alike, Place<'_>)> {
    let place = cell.work.kind().place(cell.test).filter(|_| cell.test != Test::Sizes)?;
    let (test, quantity, unit_name) = (cell.test, cell.quantity, cell.unit.name());
    Some((Alike { test, quantity, shape: place.shape.clone(), small: cell.size < SMALL, unit_name }, place))
}

impl Alike {
    /// What the matrix is called: its family, and what a matrix has no field for.
    fn title(&self) -> String {
        let mut words = vec![self.test.name()];
        words.extend(match self.shape.memory {
            HostMemory::Pinned => None,
            HostMemory::Pageable => Some("pageable"),
            HostMemory::ManagedFaults => Some("managed, by faults"),
            HostMemory::ManagedPrefetch => Some("managed, prefetched"),
        });
        // of a NIC, staged is always this
        let own = self.shape.via == Via::Pipeline && self.shape.ends == Ends::Gpus;
        words.extend(own.then_some("through a pipeline of our own"));
        words.dedup();
        words.join(", ")
    }
}

/// The matrices, and how many cells are left out since their matrices would be too large.
pub(super) fn grouped(cells: &[Cell]) -> (Vec<CellMatrix>, usize) {
    let mut kinds: BTreeMap<Alike, Vec<(usize, Place)>> = BTreeMap::new();
    for (at, cell) in cells.iter().enumerate() {
        if let Some((alike, place)) = place(cell) {
            kinds.entry(alike).or_default().push((at, place));
        }
    }
    let mut room = MOST_PLACES;
    let mut left_out = 0;
    let mut all = Vec::new();
    for (kind, places) in &kinds {
        match matrix(kind, places, cells, room) {
            Some(made) => {
                room -= made.matrix.rows.len() * made.matrix.cols.len();
                all.push(made);
            }
            None => left_out += places.len(),
        }
    }
    (all, left_out)
}

/// `None` where it would have more than `room` places.
fn matrix(kind: &Alike, places: &[(usize, Place)], cells: &[Cell], room: usize) -> Option<CellMatrix> {
    let rows = ordered(places.iter().map(|(_, p)| p.row).chain(both(kind, places, |p| p.col)));
    let cols = ordered(places.iter().map(|(_, p)| p.col).chain(both(kind, places, |p| p.row)));
    if rows.len().checked_mul(cols.len())? > room {
        return None;
    }
    let index = |names: &[&'_ str]| -> HashMap<String, usize> {
        names.iter().enumerate().map(|(i, name)| ((*name).to_owned(), i)).collect()
    };
    let (row_of, col_of) = (index(&rows), index(&cols));
    let mut held: Vec<Vec<Option<usize>>> = vec![vec![None; cols.len()]; rows.len()];
    let mut put = |row: &str, col: &str, at: usize, only_if_free: bool| {
        let slot = row_of.get(row).zip(col_of.get(col)).and_then(|(i, j)| held.get_mut(*i)?.get_mut(*j));
        if let Some(slot) = slot.filter(|slot| !only_if_free || slot.is_none()) {
            *slot = Some(at);
        }
    };
    for (at, place) in places {
        put(place.row, place.col, *at, false);
    }
    // the last of several counts here, too
    for (at, place) in places.iter().rev().filter(|(_, place)| place.mirrored) {
        put(place.col, place.row, *at, true);
    }
    let values = |at: &Option<usize>| cells.get((*at)?)?.value();
    let values: Vec<Vec<Option<f64>>> = held.iter().map(|row| row.iter().map(values).collect()).collect();
    let sizes: BTreeSet<Bytes> = places.iter().filter_map(|(at, _)| cells.get(*at)).map(|c| c.size).collect();
    let unit = places.first().and_then(|(at, _)| cells.get(*at))?.unit;
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Some(CellMatrix {
        test: kind.test,
        matrix: Matrix {
            quantity: kind.quantity,
            direction: kind.shape.direction,
            p2p: kind.shape.p2p(),
            op: kind.shape.op,
            engine: kind.shape.engine,
            unit,
            size: sizes.first().copied().filter(|_| sizes.len() == 1),
            rows: owned(&rows),
            cols: owned(&cols),
            values,
            title: kind.title(),
            memory: Some(kind.shape.memory).filter(|memory| *memory != HostMemory::Pinned),
            pattern: None,
        },
        cells: held,
    })
}

/// The other ends too, where rows and columns are of one sort.
fn both<'a>(
    kind: &Alike,
    places: &'a [(usize, Place<'a>)],
    end: fn(&Place<'a>) -> &'a str,
) -> impl Iterator<Item = &'a str> {
    let wanted = if matches!(kind.shape.ends, Ends::Gpus | Ends::Nics) { places } else { &[] };
    wanted.iter().map(move |(_, p)| end(p))
}

/// Names as people count, each once.
fn ordered<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_by(|a, b| natural(a).cmp(&natural(b)).then(a.cmp(b)));
    names.dedup();
    names
}

/// Cells that differ in their size alone, and the cells behind each number.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep<'a> {
    /// What was done at every size.
    pub work: &'a Work,
    /// Message sizes, ascending.
    pub sizes: Vec<Bytes>,
    /// What was measured, with its unit and, for each size, which of the given cells it is.
    pub series: Vec<(Quantity, Unit, Vec<Option<usize>>)>,
}

/// The sweeps over message sizes: of transfers, and of collectives. Of several cells in one place the last counts.
pub fn sweeps(cells: &[Cell]) -> Vec<Sweep<'_>> {
    type Columns = BTreeMap<(Quantity, &'static str), (Unit, BTreeMap<Bytes, usize>)>;
    let mut works: Vec<(&Work, Columns)> = Vec::new();
    let mut known: HashMap<&Work, usize> = HashMap::new();
    for (at, cell) in cells.iter().enumerate() {
        if cell.test != Test::Sizes && !cell.work.kind().is_swept() {
            continue;
        }
        let index = *known.entry(&cell.work).or_insert_with(|| {
            works.push((&cell.work, Columns::new()));
            works.len() - 1
        });
        if let Some((_, columns)) = works.get_mut(index) {
            let column = columns.entry((cell.quantity, cell.unit.name()));
            column.or_insert_with(|| (cell.unit, BTreeMap::new())).1.insert(cell.size, at);
        }
    }
    let sweep = |(work, columns): (_, Columns)| {
        let sizes: BTreeSet<Bytes> = columns.values().flat_map(|(_, column)| column.keys().copied()).collect();
        let sizes: Vec<Bytes> = sizes.into_iter().collect();
        let series = columns.into_iter().map(|((quantity, _), (unit, column))| {
            (quantity, unit, sizes.iter().map(|size| column.get(size).copied()).collect())
        });
        Sweep { work, series: series.collect(), sizes: sizes.clone() }
    };
    works.into_iter().map(sweep).collect()
}

/// The same as curves; void cells have no value there, and a sweep without any value is left out.
pub fn curves(cells: &[Cell]) -> Vec<Curve> {
    let value = |at: &Option<usize>| cells.get((*at)?)?.value();
    let curve = |sweep: Sweep| {
        let series = sweep.series.iter().map(|(quantity, unit, at)| Series {
            name: quantity.name().to_owned(),
            unit: Some(*unit),
            values: at.iter().map(value).collect(),
        });
        let (what, ends, settings) = sweep.work.kind().curve();
        Curve { what, ends, series: series.collect(), settings, sizes: sweep.sizes }
    };
    let has_value = |c: &Curve| c.series.iter().any(|s| s.values.iter().any(Option::is_some));
    sweeps(cells).into_iter().map(curve).filter(has_value).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, moving, step, void};
    use super::*;
    use crate::plan::Step;
    use crate::run::FlagKind;
    use peerlane_machine::matrix::{Direction, Engine, Operation};
    use peerlane_machine::transfer::{Collective, NicEnd, Rdma, Transfer};

    fn read(source: &str, destination: &str) -> Transfer {
        Transfer { op: Operation::Read, ..Transfer::new(source, destination) }
    }

    fn both(t: Transfer) -> [Transfer; 2] {
        [t.clone(), t.reversed()]
    }

    fn only(cells: &[Cell]) -> CellMatrix {
        let mut all = matrices(cells);
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }

    #[test]
    fn writers_and_readers_stand_in_rows() {
        let write = moving(Test::Pairs, &[Transfer::new("GPU10", "GPU9")]);
        let m = only(&[cell(0, &write, 5.0)]).matrix;
        assert_eq!((m.rows.join(" "), m.cols.join(" ")), ("GPU9 GPU10".into(), "GPU9 GPU10".into()));
        assert_eq!(m.values, [[None, None], [Some(5.0), None]]);
        assert_eq!((m.p2p, m.op, m.direction), (Some(true), Some(Operation::Write), Some(Direction::Unidirectional)));
        assert_eq!((m.title.as_str(), m.size), ("pairs", Some(Bytes::from_mib(64))));

        // GPU1 pulls what GPU0 has
        let pulled = only(&[cell(0, &moving(Test::Pairs, &[read("GPU0", "GPU1")]), 7.0)]).matrix;
        assert_eq!((pulled.between("GPU1", "GPU0"), pulled.between("GPU0", "GPU1")), (Some(7.0), None));
    }

    #[test]
    fn both_ways_is_one_sum_in_two_places() {
        let steps = [
            moving(Test::PairsBoth, &both(Transfer::new("GPU0", "GPU1"))),
            moving(Test::PairsBoth, &both(Transfer::new("GPU1", "GPU0"))),
            moving(Test::PairsBoth, &both(Transfer::new("GPU0", "GPU2"))),
        ];
        let m = only(&[cell(0, &steps[0], 10.0), cell(1, &steps[1], 11.0), cell(2, &steps[2], 12.0)]);
        let at = |a, b| m.matrix.between(a, b);
        assert_eq!((at("GPU0", "GPU1"), at("GPU1", "GPU0")), (Some(10.0), Some(11.0)));
        assert_eq!((at("GPU0", "GPU2"), at("GPU2", "GPU0")), (Some(12.0), Some(12.0)));
        assert_eq!(m.matrix.direction, Some(Direction::Bidirectional));
        assert_eq!(m.cells[2][0], Some(2));
    }

    #[test]
    fn what_is_not_comparable_stands_apart() {
        let pageable = Transfer { memory: HostMemory::Pageable, ..Transfer::new("host", "GPU0") };
        let staged = |via| moving(Test::Staged, &[Transfer { via, ..Transfer::new("GPU0", "GPU1") }]);
        let steps: Vec<Step> = vec![
            moving(Test::Pairs, &[Transfer::new("GPU0", "GPU1")]),
            moving(Test::Pairs, &[read("GPU0", "GPU1")]),
            moving(Test::Pairs, &[Transfer { engine: Engine::Sm, ..Transfer::new("GPU0", "GPU1") }]),
            moving(Test::PairsBoth, &both(Transfer::new("GPU0", "GPU1"))),
            staged(Via::Driver),
            staged(Via::Pipeline),
            moving(Test::Host, &[Transfer::new("host", "GPU0")]),
            moving(Test::Host, &[Transfer::new("GPU0", "host")]),
            moving(Test::HostBoth, &both(Transfer::new("GPU0", "host"))),
            moving(Test::Pageable, &[pageable]),
            moving(Test::Local, &[Transfer::new("GPU0", "GPU0")]),
            step(Test::LoadLatency, Work::Loads { gpu: "GPU0".into(), memory: "GPU1".into() }),
            step(Test::LoadLatency, Work::Loads { gpu: "GPU0".into(), memory: "host".into() }),
            step(Test::SignalLatency, Work::Signals { a: "GPU0".into(), b: "GPU1".into() }),
            step(Test::CopyLatency, Work::SmallCopies(Transfer::new("GPU0", "GPU1"))),
            step(Test::Staged, Work::SmallCopies(Transfer { via: Via::Driver, ..Transfer::new("GPU0", "GPU1") })),
        ];
        let mut cells: Vec<Cell> = steps.iter().enumerate().map(|(i, s)| cell(i, s, i as f64 + 1.0)).collect();
        cells.push(Cell { quantity: Quantity::EnqueueLatency, ..cell(14, &steps[14], 17.0) });
        let all = matrices(&cells);
        assert_eq!(all.len(), cells.len());
        let of = |value: f64| {
            let m = all.iter().find(|m| m.matrix.values.iter().flatten().any(|v| *v == Some(value))).unwrap();
            (m.matrix.rows.join(" "), m.matrix.cols.join(" "), m.matrix.p2p, m.matrix.title.clone())
        };
        let expected =
            |rows: &str, cols: &str, p2p, title: &str| (rows.to_owned(), cols.to_owned(), p2p, title.to_owned());
        let pair = "GPU0 GPU1";
        assert_eq!(of(5.0), expected(pair, pair, Some(false), "staged"));
        assert_eq!(of(6.0), expected(pair, pair, Some(false), "staged, through a pipeline of our own"));
        assert_eq!(of(7.0), expected("host", "GPU0", None, "host"));
        assert_eq!(of(8.0), expected("GPU0", "host", None, "host"));
        assert_eq!(of(9.0), expected("host", "GPU0", None, "host-both"));
        assert_eq!(of(10.0), expected("host", "GPU0", None, "pageable"));
        assert_eq!(of(11.0), expected("GPU0", "self", None, "local"));
        assert_eq!(of(12.0), expected(pair, pair, Some(true), "load-latency"));
        assert_eq!(of(13.0), expected("GPU0", "host", None, "load-latency"));
        assert_eq!(of(16.0), expected(pair, pair, Some(false), "staged"));
    }

    #[test]
    fn nics_stand_among_nics_with_loopbacks_on_the_diagonal() {
        let rdma = |from: &str, to: &str, op| {
            let end = |nic: &str| NicEnd { nic: nic.to_owned(), memory: "host0".to_owned() };
            step(Test::Nic, Work::Rdma(Rdma::of_host(end(from), end(to), op)))
        };
        let steps = [
            rdma("mlx5_0", "mlx5_0", Operation::Write),
            rdma("mlx5_0", "mlx5_1", Operation::Write),
            rdma("mlx5_0", "mlx5_1", Operation::Read),
        ];
        let cells: Vec<Cell> = steps.iter().enumerate().map(|(i, s)| cell(i, s, i as f64 + 1.0)).collect();
        let all = matrices(&cells);
        let [written, read] = all.as_slice() else { panic!("{all:#?}") };
        let m = &written.matrix;
        assert_eq!((m.rows.join(" "), m.cols.join(" ")), ("mlx5_0 mlx5_1".into(), "mlx5_0 mlx5_1".into()));
        assert_eq!(m.values, [[Some(1.0), Some(2.0)], [None, None]]);
        assert_eq!((m.p2p, m.engine, m.title.as_str()), (None, Some(Engine::Nic), "nic"));
        // the one that gets the data drives a read
        assert_eq!(read.matrix.between("mlx5_1", "mlx5_0"), Some(3.0));
    }

    #[test]
    fn gpu_memory_through_nics_stands_by_direction_and_way() {
        let end = |memory: &str| NicEnd { nic: "mlx5_0".to_owned(), memory: memory.to_owned() };
        let rdma = |from: &str, to: &str, via| {
            step(Test::NicGpu, Work::Rdma(Rdma { from: end(from), to: end(to), op: Operation::Write, via }))
        };
        let steps = [
            rdma("GPU1", "host0", Via::Direct),
            rdma("host0", "GPU1", Via::Direct),
            rdma("GPU1", "host0", Via::Pipeline),
            rdma("host0", "GPU1", Via::Pipeline),
        ];
        let cells: Vec<Cell> = steps.iter().enumerate().map(|(i, s)| cell(i, s, i as f64 + 1.0)).collect();
        let all = matrices(&cells);
        let shown: Vec<_> =
            all.iter().map(|m| (m.matrix.rows.join(" "), m.matrix.p2p, m.matrix.values[0][0])).collect();
        let of = |rows: &str, direct, value| (rows.to_owned(), Some(direct), Some(value));
        assert_eq!(
            shown,
            [of("GPU1", true, 1.0), of("GPU1", false, 3.0), of("mlx5_0", true, 2.0), of("mlx5_0", false, 4.0)]
        );
        let described: Vec<String> = all.iter().map(|m| m.matrix.describe()).collect();
        assert_eq!(described[0], "bandwidth, one way, NIC, direct, 64 MiB, GB/s");
        assert_eq!(described[3], "bandwidth, one way, NIC, staged, 64 MiB, GB/s");
    }

    #[test]
    fn void_cells_have_a_place_and_no_number() {
        let good = moving(Test::Pairs, &[Transfer::new("GPU0", "GPU1")]);
        let bad = moving(Test::Pairs, &[Transfer::new("GPU1", "GPU0")]);
        let cells = [cell(0, &good, 5.0), void(1, &bad, FlagKind::Hung)];
        let m = only(&cells);
        assert_eq!((m.matrix.values[1][0], m.cells[1][0]), (None, Some(1)));
        let spread = m.spread(&cells);
        assert_eq!((spread[1][0], spread[0][1].map(|s| (s.n, s.low))), (None, Some((12, 0.99 * 5.0))));
    }

    #[test]
    fn sets_and_sweeps_are_no_matrices() {
        let out = [Transfer::new("GPU0", "GPU1"), Transfer::new("GPU0", "GPU2")];
        let steps = [
            moving(Test::OneToAll, &out),
            moving(Test::Pairs, &out),
            moving(Test::Subsets, &out[..1]),
            moving(Test::Sizes, &out[..1]),
        ];
        let cells: Vec<Cell> = steps.iter().enumerate().map(|(i, s)| cell(i, s, 1.0)).collect();
        assert_eq!(matrices(&cells), []);
        let curves = curves(&cells);
        assert_eq!((curves.len(), curves[0].ends.join(" ")), (1, "GPU0 GPU1".to_owned()));
    }

    #[test]
    fn sizes_ascend_and_collectives_have_two_columns() {
        let gpus = vec!["GPU0".to_owned(), "GPU1".to_owned()];
        let step = step(Test::Collectives, Work::Collective { operation: Collective::AllReduce, gpus });
        let at = |size, value| Cell { size: Bytes(size), ..cell(0, &step, value) };
        let time = Cell { quantity: Quantity::Latency, unit: Unit::Microseconds, ..at(8, 20.0) };
        let cells = [at(1 << 20, 100.0), at(8, 0.1), time, at(8, 0.2)];
        let curves = curves(&cells);
        let [curve] = curves.as_slice() else { panic!("{curves:?}") };
        assert_eq!((curve.what.as_str(), curve.sizes.as_slice()), ("all-reduce", &[Bytes(8), Bytes(1 << 20)][..]));
        let columns: Vec<_> = curve.series.iter().map(|s| (s.name.as_str(), s.values.clone())).collect();
        let expected = [("latency", vec![Some(20.0), None]), ("bus bandwidth", vec![Some(0.2), Some(100.0)])];
        assert_eq!(columns, expected);
        let lost = void(0, &step, FlagKind::Failed);
        assert_eq!(super::curves(&[lost]), []);
    }

    #[test]
    fn sparse_matrices_take_no_more_than_their_share() {
        let pair =
            |i: usize| moving(Test::Pairs, &[Transfer::new(format!("GPU{}", 2 * i), format!("GPU{}", 2 * i + 1))]);
        let cells: Vec<Cell> = (0..2000).map(|i| cell(i, &pair(i), 1.0)).collect();
        let (all, left_out) = grouped(&cells);
        assert_eq!((all.len(), left_out), (0, 2000));
        assert_eq!(grouped(&cells[..500]).0[0].matrix.rows.len(), 1000);
    }
}
