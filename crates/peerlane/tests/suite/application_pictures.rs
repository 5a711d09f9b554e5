//! The pictures of `docs/applications.md` and `validation/applications.md`, drawn from recorded runs: `UPDATE_DOCS=1 cargo test -p peerlane application_pictures::`.

use peerlane::exchange::Exchange;
use peerlane::export::chart::{Chart, Level, Scale, Series};
use peerlane::plan::{Test, Work};
use peerlane::run::{Cell, Run};
use peerlane::spin_glass::SpinGlass;

use crate::apenet_pictures::{axis, picture};
use crate::recorded_runs::record_of;

/// Cells of lattices on so many GPUs, the first GPU's where there is one, exchanged so, by side.
fn lattices(run: &Run, gpus: usize, exchange: Exchange, overlap: bool) -> Vec<(f64, &Cell)> {
    let wanted = |lattice: &SpinGlass| {
        lattice.gpus[0] == "GPU0"
            && lattice.gpus.len() == gpus
            && (lattice.exchange, lattice.overlap) == (exchange, overlap)
    };
    let side = |cell: &Cell| match &cell.work {
        Work::SpinGlass(lattice) if wanted(lattice) => Some(f64::from(lattice.side)),
        _ => None,
    };
    run.cells.iter().filter_map(|cell| Some((side(cell)?, cell))).collect()
}

/// Exchanges with their names, overlapped and not.
fn ways() -> impl Iterator<Item = (usize, Exchange, bool, String)> {
    Exchange::ALL.into_iter().enumerate().flat_map(|(tone, exchange)| {
        [true, false].map(|overlap| {
            let when = if overlap { "overlap" } else { "serial" };
            (tone, exchange, overlap, format!("2 GPUs, {}, {when}", exchange.name()))
        })
    })
}

/// The time in which so many GPUs' memories move what an update moves, at the rate of copies in the same record.
fn roof(run: &Run, gpus: f64, name: &str) -> Level {
    let copies = run.cells.iter().filter(|cell| cell.test == Test::Local).filter_map(Cell::value);
    // read and written
    let rate = 2e9 * copies.fold(0.0, f64::max);
    let value = SpinGlass::UPDATE as f64 / rate / gpus * 1e12;
    Level { label: format!("37 B at a copy's rate, {name}: {value:.1}"), value }
}

#[test]
fn time_of_an_update() {
    let run = record_of("h200x2-vm-runs", "spin-glass.json");
    let points = |cells: Vec<(f64, &Cell)>| -> Vec<(f64, f64)> {
        cells.into_iter().map(|(side, cell)| (side, cell.value().unwrap())).collect()
    };
    let alone = points(lattices(&run, 1, Exchange::Stores, false));
    let mut series = vec![Series { name: "1 GPU".to_owned(), points: alone, tone: 3, dashed: false }];
    for (tone, exchange, overlap, name) in ways() {
        series.push(Series { name, points: points(lattices(&run, 2, exchange, overlap)), tone, dashed: !overlap });
    }
    assert!(series.iter().all(|series| series.points.len() == 5));
    let chart = Chart {
        title: "Spin glass on two H200: time of an update".to_owned(),
        x: axis("side L", Scale::Doubling),
        y: axis("ps an update", Scale::Doubling),
        series,
        levels: [(1.0, "1 GPU"), (2.0, "2 GPUs")].map(|(gpus, name)| roof(&run, gpus, name)).to_vec(),
    };
    picture("spin-glass-h200.svg", &chart);
}

/// The same record: lattices up to what memory holds, those that grow with the GPUs, and blocks.
#[test]
fn time_of_an_update_of_large_lattices_and_blocks() {
    let run = record_of("h200x2-vm-runs", "spin-glass-blocks.json");
    let points = |wanted: &dyn Fn(&SpinGlass) -> bool| -> Vec<(f64, f64)> {
        let point = |cell: &Cell| match &cell.work {
            Work::SpinGlass(lattice) if wanted(lattice) => Some((f64::from(lattice.side), cell.value()?)),
            _ => None,
        };
        let mut points: Vec<(f64, f64)> = run.cells.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let two = |lattice: &SpinGlass, weak, blocks| {
        let stored = (lattice.exchange, lattice.overlap) == (Exchange::Stores, true);
        lattice.gpus.len() == 2 && stored && (lattice.weak, lattice.blocks) == (weak, blocks)
    };
    let alone = points(&|lattice| lattice.gpus == ["GPU0"]);
    let mut series = vec![Series { name: "1 GPU".to_owned(), points: alone, tone: 3, dashed: false }];
    let ways = [
        ("slabs", false, None, 0, false),
        ("slabs, L a GPU", true, None, 0, true),
        ("cut along Y", false, Some([1, 2, 1]), 1, false),
        ("cut along X", false, Some([2, 1, 1]), 2, false),
    ];
    for (name, weak, blocks, tone, dashed) in ways {
        let points = points(&|lattice| two(lattice, weak, blocks) && lattice.side > 64);
        series.push(Series { name: format!("2 GPUs, {name}"), points, tone, dashed });
    }
    assert_eq!(series.iter().map(|series| series.points.len()).collect::<Vec<_>>(), [8, 8, 4, 2, 2]);
    let chart = Chart {
        title: "Spin glass on two H200, stores, overlap: large lattices and blocks".to_owned(),
        x: axis("side L", Scale::Doubling),
        y: axis("ps an update", Scale::Doubling),
        series,
        levels: Vec::new(),
    };
    picture("spin-glass-blocks-h200.svg", &chart);
}

#[test]
fn share_of_waiting() {
    let run = record_of("h200x2-vm-runs", "spin-glass.json");
    let share = |(side, cell): (f64, &Cell)| {
        let update = cell.phases.unwrap().update.value;
        let all = cell.value().unwrap() * 1e-6 * side.powi(3) / 2.0;
        (side, 100.0 * (1.0 - update / all).max(0.0))
    };
    let series = ways().map(|(tone, exchange, overlap, name)| Series {
        name,
        points: lattices(&run, 2, exchange, overlap).into_iter().map(share).collect(),
        tone,
        dashed: !overlap,
    });
    let chart = Chart {
        title: "Spin glass on two H200: what the exchange adds".to_owned(),
        x: axis("side L", Scale::Doubling),
        y: axis("% of a half-sweep", Scale::Linear),
        series: series.collect(),
        levels: Vec::new(),
    };
    picture("spin-glass-share-h200.svg", &chart);
}

#[test]
fn edges_per_second() {
    let run = record_of("h200x2-vm-runs", "bfs.json");
    let points = |gpus: usize, exchange: Exchange| -> Vec<(f64, f64)> {
        let at = |cell: &Cell| match &cell.work {
            Work::Bfs(search) => {
                let wanted = search.gpus[0] == "GPU0" && search.gpus.len() == gpus && search.exchange == exchange;
                wanted.then(|| Some((2_f64.powi(search.scale as i32 - 20), cell.value()?)))?
            }
            _ => None,
        };
        run.cells.iter().filter_map(at).collect()
    };
    let alone = points(1, Exchange::Stores);
    assert_eq!(alone.len(), 6);
    let mut series = vec![Series { name: "1 GPU".to_owned(), points: alone, tone: 3, dashed: false }];
    for (tone, exchange) in Exchange::ALL.into_iter().enumerate() {
        let name = format!("2 GPUs, {}", exchange.name());
        series.push(Series { name, points: points(2, exchange), tone, dashed: false });
    }
    let chart = Chart {
        title: "Breadth-first search on two H200".to_owned(),
        x: axis("2²⁰ vertices", Scale::Doubling),
        y: axis("GTEPS", Scale::Linear),
        series,
        levels: Vec::new(),
    };
    picture("bfs-h200.svg", &chart);
}
