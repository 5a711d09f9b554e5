//! Every figure of a case, with its prediction.

use std::collections::BTreeMap;

use super::cells::path_name;
use super::classes::{Figure, Predicted};
use super::percentile;
use crate::check::collective_of;
use peerlane_design::case::Case;
use peerlane_design::cluster::Cluster;
use peerlane_design::simulate::library::Library;
use peerlane_machine::curve::Curve;
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::matrix::{Direction, Engine, HostMemory, Operation, Quantity};
use peerlane_machine::names::is_host;
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::{Bytes, Rate};
use peerlane_measure::run::{TransferSet, sets};
use peerlane_model::collectives::Choice;
use peerlane_model::comparison::{Comparison, Series};
use peerlane_model::expectation::{ITSELF, Metric, resolve};
use peerlane_model::model::{Class, Model, PeerAccess, SharedRate, Transfer};

/// From this size on, a collective counts as large.
const LARGE: Bytes = Bytes(256 << 20);

/// More GPUs than rings are searched for.
const MOST_RINGS: usize = 16;

/// What sweeps of this project's own runs are called: copies in a queue that is never empty.
const QUEUED: &str = "copies";

/// More transfers at once than are solved for a figure.
const MOST_AT_ONCE: usize = 64;

/// What was measured, and what is predicted in its place.
type Pair = (f64, Option<Predicted>);

/// Every figure of a case: matrices, statements, sweeps and sets of a run. Pageable and managed memory, and quantities that
/// no class is of, are left out.
pub(super) fn figures(case: &Case, comparison: &Comparison) -> Vec<Figure> {
    let model = comparison.model();
    let mut all: Vec<Figure> = comparison.series().iter().flat_map(|series| of_series(comparison, series)).collect();
    all.extend(of_sets(case, model));
    all.extend(of_curves(model));
    all.retain(|f| f.measured.is_finite() && f.measured > 0.0);
    all
}

/// The figures of a matrix or statement: its numbers of one class and path, by their medians, so that a matrix of 56 pairs
/// weighs as much as one number in a sentence.
fn of_series(comparison: &Comparison, series: &Series) -> Vec<Figure> {
    let matrix = series.matrix();
    if matrix.memory.is_some_and(|memory| memory != HostMemory::Pinned) {
        return Vec::new();
    }
    let model = comparison.model();
    let metric = series.metric();
    let at_once = (!series.is_of_pairs()).then(|| all_at_once(model, series));
    let mut paths: BTreeMap<(Class, String), Vec<Pair>> = BTreeMap::new();
    for (i, row) in matrix.rows.iter().enumerate() {
        for (j, col) in matrix.cols.iter().enumerate() {
            let Some(measured) = series.measured(i, j) else { continue };
            let class = if at_once.is_some() { Some(Class::Concurrent) } else { class(model, &metric, row, col) };
            let Some(class) = class else { continue };
            let predicted = match &at_once {
                Some(solved) => solved.get(i * matrix.cols.len() + j).copied().flatten(),
                // the samples count what is read and what is written on the diagonal
                None if class == Class::Local && row == col => {
                    comparison.expected(&metric, row, ITSELF).map(|e| Predicted::of(&e, 2.0))
                }
                None => series.expected(i, j).map(|e| Predicted::of(e, 1.0)),
            };
            let path = path_name(&model.machine.fabric, row, col);
            let figures = paths.entry((class, path)).or_default();
            figures.push((measured.value, predicted));
            if measured.upto != measured.value {
                figures.push((measured.upto, predicted));
            }
        }
    }
    let metric = metric.describe();
    let figure = |((class, path), figures): ((Class, String), Vec<_>)| {
        let (measured, predicted) = median(&figures)?;
        Some(Figure { class, label: format!("{metric}, {path}"), measured, predicted })
    };
    paths.into_iter().filter_map(figure).collect()
}

/// One figure of several of a kind, of those with a prediction where there are any.
fn median(figures: &[Pair]) -> Option<Pair> {
    let predicted: Vec<Predicted> = figures.iter().filter_map(|f| f.1).collect();
    let of = |f: fn(&Predicted) -> f64| percentile(predicted.iter().map(f).collect(), 0.5);
    let both = of(|p| p.value).zip(of(|p| p.low)).zip(of(|p| p.high));
    let measured = figures.iter().filter(|f| predicted.is_empty() || f.1.is_some());
    let measured = percentile(measured.map(|f| f.0).filter(|m| *m > 0.0).collect(), 0.5)?;
    Some((measured, both.map(|((value, low), high)| Predicted { value, low, high })))
}

/// Rates of the transfers of a matrix that ran all at once, row by row, in its unit. Of matrices between GPUs programs do not
/// agree how they are counted.
fn all_at_once(model: &Model, series: &Series) -> Vec<Option<Predicted>> {
    let (matrix, metric) = (series.matrix(), series.metric());
    let n = matrix.rows.len() * matrix.cols.len();
    let nothing = || vec![None; n];
    let with_host = matrix.rows.iter().all(|r| is_host(r)) || matrix.cols.iter().all(|c| is_host(c));
    let Some(per_unit) = metric.unit.rate(1.0).map(Rate::bytes_per_second) else { return nothing() };
    if !with_host || n > MOST_AT_ONCE || metric.direction == Some(Direction::Bidirectional) {
        return nothing();
    }
    let pairs = matrix.rows.iter().flat_map(|row| matrix.cols.iter().map(move |col| (row, col)));
    let Some(mut transfers) = pairs.map(|(row, col)| ends(model, &metric, row, col)).collect::<Option<Vec<_>>>() else {
        return nothing();
    };
    if metric.direction == Some(Direction::BidirectionalShare) {
        let back = |t: &Transfer| Transfer { source: t.destination, destination: t.source, ..*t };
        transfers.extend(transfers.iter().map(back).collect::<Vec<_>>());
    }
    let Ok(answers) = model.solve_with_interval(&transfers) else { return nothing() };
    let predicted = |(answer, [low, high]): (SharedRate, [Rate; 2])| {
        let [value, low, high] = [answer.rate, low, high].map(|rate| rate.bytes_per_second() / per_unit);
        Some(Predicted { value, low, high })
    };
    answers.into_iter().take(n).map(predicted).collect()
}

/// What a cell of a matrix stands for.
fn ends(model: &Model, metric: &Metric, row: &str, col: &str) -> Option<Transfer> {
    let fabric = &model.machine.fabric;
    let end = |name: &str, other: &str| match name {
        "host" => fabric.nearest_host(fabric.find(other)?),
        _ => fabric.find(name),
    };
    let (source, destination) = (end(row, col)?, end(col, row)?);
    let engine = metric.engine.unwrap_or(Engine::Ce);
    let peer = if metric.p2p == Some(false) { PeerAccess::Disabled } else { PeerAccess::Enabled };
    let op = metric.op.unwrap_or(Operation::Write);
    (source != destination).then_some(Transfer { source, destination, engine, op, peer })
}

/// What a cell of a matrix is of; `None` for quantities that no class is of, and names that the machine does not have.
fn class(model: &Model, metric: &Metric, row: &str, col: &str) -> Option<Class> {
    match metric.quantity {
        Quantity::Latency | Quantity::LoadLatency => return Some(Class::Latency),
        Quantity::Bandwidth => {}
        Quantity::EnqueueLatency
        | Quantity::SignalLatency
        | Quantity::BusBandwidth
        | Quantity::UpdateTime
        | Quantity::ExchangeTime
        | Quantity::EdgeRate => {
            return None;
        }
    }
    let fabric = &model.machine.fabric;
    let both = matches!(metric.direction, Some(Direction::Bidirectional | Direction::BidirectionalShare));
    if row == col || col == ITSELF {
        let of_gpu = fabric.find(row).is_some_and(|id| fabric.node(id).kind == NodeKind::Gpu);
        // programs do not agree how both ways within one GPU are counted
        return (of_gpu && !both).then_some(Class::Local);
    }
    model.class_of(&ends(model, metric, row, col)?, both)
}

/// Sums of the sets of transfers that a run measured.
fn of_sets(case: &Case, model: &Model) -> Vec<Figure> {
    let Some(run) = case.run() else { return Vec::new() };
    let of_set = |set: TransferSet| {
        let measured = set.cell.value()?;
        let per_unit = set.cell.unit.rate(1.0)?.bytes_per_second();
        if !(2..=MOST_AT_ONCE).contains(&set.transfers.len()) {
            return None;
        }
        let transfers: Option<Vec<Transfer>> =
            set.transfers.iter().map(|t| resolve(&model.machine.fabric, t)).collect();
        let predicted = transfers.and_then(|transfers| model.solve_with_interval(&transfers).ok()).map(|answers| {
            let sum = |of: fn(&(SharedRate, [Rate; 2])) -> Rate| {
                answers.iter().map(of).map(Rate::bytes_per_second).sum::<f64>() / per_unit
            };
            Predicted { value: sum(|(a, _)| a.rate), low: sum(|(_, [low, _])| *low), high: sum(|(_, [_, high])| *high) }
        });
        let label = format!("{} transfers at once", set.transfers.len());
        Some(Figure { class: Class::Concurrent, label, measured, predicted })
    };
    sets(&run.cells).into_iter().filter_map(of_set).collect()
}

/// Collectives among all GPUs of the machine, and half-bandwidth sizes of copies.
fn of_curves(model: &Model) -> Vec<Figure> {
    let machine = model.machine;
    let gpus: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Gpu).collect();
    let mut libraries: BTreeMap<&str, Option<Library>> = BTreeMap::new();
    let cluster = std::cell::OnceCell::new();
    let mut all = Vec::new();
    for (curve, _) in &machine.curves {
        if let Some(collective) = collective(curve, gpus.len()) {
            let library = libraries.entry(collective.name()).or_insert_with(|| {
                let cluster = cluster.get_or_init(|| Cluster::single(model.assumed_machine()));
                let few = gpus.len() <= MOST_RINGS;
                few.then(|| Library::of(cluster, collective, Choice::FREE, None).ok()).flatten()
            });
            for at in curve.rates() {
                let class = if at.size >= LARGE { Class::CollectiveLarge } else { Class::CollectiveSmall };
                let predicted = library.as_ref().and_then(|library| collective_rate(model, &gpus, library, at.size));
                let label = format!("{}, {}", curve.what, at.size);
                all.push(Figure { class, label, measured: at.rate.gb(), predicted });
            }
        } else if let Some(measured) = half_size(curve) {
            let spread = model.parts.spreads().of(Class::HalfSize.name());
            let around = |value: f64| {
                let [low, high] = spread.around(value, [value, value]);
                Predicted { value, low, high }
            };
            let predicted = predicted_half_size(model, curve).map(around);
            let label = format!("{}, {}", curve.what, curve.ends.join(" to "));
            all.push(Figure { class: Class::HalfSize, label, measured, predicted });
        }
    }
    all
}

/// The bus bandwidth of a collective in GB/s. Its interval is the library's, or where links are not known that of a pair.
fn collective_rate(model: &Model, gpus: &[NodeId], library: &Library, size: Bytes) -> Option<Predicted> {
    let value = library.predict(size, Choice::FREE).ok()?.rate / 1e9;
    let error = library.error(size);
    let (engine, op, peer) = (Engine::Sm, Operation::Write, PeerAccess::Enabled);
    let shares = gpus.windows(2).filter_map(|pair| {
        let transfer = Transfer { source: pair[0], destination: pair[1], engine, op, peer };
        let (answer, [low, high]) = model.solve_with_interval(&[transfer]).ok()?.first().cloned()?;
        let rate = answer.rate.bytes_per_second();
        (rate > 0.0).then(|| [low, high].map(|end| end.bytes_per_second() / rate))
    });
    let [low, high] = shares.fold([1.0 - error, 1.0 + error], |[low, high], [l, h]| [low.min(l), high.max(h)]);
    (value > 0.0).then_some(Predicted { value, low: value * low, high: value * high })
}

/// The collective that a table is of, where it is one of rings among so many GPUs of one host.
fn collective(curve: &Curve, gpus: usize) -> Option<Collective> {
    let stated = |key: &str| curve.settings.get(key).and_then(|n| n.parse::<usize>().ok());
    collective_of(curve).filter(|_| stated("hosts") == Some(1) && stated("ranks") == Some(gpus))
}

/// Bytes at which a sweep between two ends first reaches half of its greatest rate, between its points by their logarithms.
fn half_size(curve: &Curve) -> Option<f64> {
    let rates = curve.rates();
    let half = curve.best()?.rate.gb() / 2.0;
    let (below, above) =
        rates.iter().zip(rates.iter().skip(1)).find(|(a, b)| a.rate.gb() < half && b.rate.gb() >= half)?;
    let share = (half - below.rate.gb()) / (above.rate.gb() - below.rate.gb());
    let [low, high] = [below.size.0 as f64, above.size.0 as f64].map(f64::ln);
    (curve.ends.len() == 2).then(|| (low + (high - low) * share).exp())
}

fn predicted_half_size(model: &Model, curve: &Curve) -> Option<f64> {
    let [from, to] = curve.ends.as_slice() else { return None };
    let transfer = ends(model, &Metric::COPIES, from, to)?;
    // what a NIC moves starts by other means than a copy does
    let by_nic = |id| model.machine.fabric.node(id).kind == NodeKind::Nic;
    if by_nic(transfer.source) || by_nic(transfer.destination) {
        return None;
    }
    // sweeps of other programs wait for each copy
    let time = if curve.what == QUEUED { model.copy_time(&transfer)? } else { model.awaited_copy_time(&transfer)? };
    Some(time.half_size().0 as f64).filter(|size| *size > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::{Accuracy, SinglePath, evaluate_cases};
    use peerlane_read::catalogue::{Parts, read_system};

    /// Two GPUs at one switch below a socket and a third at the other socket, with these published tables.
    fn scored(published: &str) -> Accuracy {
        let text = format!(
            "name = \"m\"\n[nodes]\ncpu0 = {{ part = \"xeon-e5-v3\", numa = 0 }}\ncpu1 = {{ part = \"xeon-e5-v3\", numa = 1 }}\n\
             GPU0 = {{ part = \"tesla-p100-pcie\" }}\nGPU1 = {{ part = \"tesla-p100-pcie\" }}\nGPU2 = {{ part = \"tesla-p100-pcie\" }}\n\
             [[links]]\nbetween = [\"cpu0\", \"cpu1\"]\nsmp = \"qpi-haswell\"\n\
             [[links]]\nbetween = [\"cpu0\", \"GPU0\"]\npcie = \"3.0 x16\"\n\
             [[links]]\nbetween = [\"cpu0\", \"GPU1\"]\npcie = \"3.0 x16\"\n\
             [[links]]\nbetween = [\"cpu1\", \"GPU2\"]\npcie = \"3.0 x16\"\n{published}"
        );
        let machine = read_system(&text, "m").unwrap_or_else(|e| panic!("{e}"));
        evaluate_cases(&[Case::from(machine)], Parts::embedded())
    }

    fn table(keys: &str, row: &str, col: &str, value: f64) -> String {
        format!(
            "[[published]]\n{keys}\nquantity = \"bandwidth\"\nunit = \"GB/s\"\nrows = [\"{row}\"]\ncols = [\"{col}\"]\n\
             matrix = \"\"\"\n{value}\n\"\"\"\n"
        )
    }

    const ONE: &str = "direction = \"unidirectional\"\nengine = \"ce\"";
    const SHARE: &str = "direction = \"bidirectional-share\"\nengine = \"ce\"";

    #[test]
    fn each_figure_has_the_class_of_its_ends_and_engine() {
        let kernels = "direction = \"unidirectional\"\nengine = \"sm\"";
        let off = "direction = \"unidirectional\"\np2p = false\nengine = \"ce\"";
        let pageable = format!("title = \"bandwidthTest, PAGEABLE\"\n{ONE}");
        for (keys, row, col, class) in [
            (ONE, "host", "GPU0", Some(Class::HostOneWay)),
            (SHARE, "GPU0", "host", Some(Class::HostBothWays)),
            (kernels, "host", "GPU2", Some(Class::HostByKernels)),
            (ONE, "GPU0", "GPU1", Some(Class::P2pPcie)),
            (off, "GPU0", "GPU1", Some(Class::StagedOneWay)),
            (ONE, "GPU1", "GPU1", Some(Class::Local)),
            (SHARE, "GPU1", "GPU1", None),
            (&pageable, "host", "GPU0", None),
        ] {
            let got: Vec<Class> = scored(&table(keys, row, col, 10.0)).classes.iter().map(|c| c.class).collect();
            assert_eq!(got, class.into_iter().collect::<Vec<_>>(), "{keys} {row} {col}");
        }
        for class in Class::ALL {
            assert_eq!(toml::Value::try_from(class).ok(), Some(class.name().into()));
        }
    }

    #[test]
    fn errors_bias_and_intervals_are_those_of_the_numbers() {
        let exact = scored(&table(ONE, "host", "GPU0", 10.0)).targets[0].classes[0].median.map(|m| m + 1.0);
        let predicted = exact.map(|ratio| ratio * 10.0).unwrap_or_default();
        let two = table(ONE, "host", "GPU0", predicted) + &table(ONE, "host", "GPU1", predicted / 2.0);
        let got = scored(&two);
        let [class] = got.classes.as_slice() else { panic!("{:?}", got.classes) };
        assert_eq!((class.n, class.inside, class.none), (2, Some(0.5), 0.0));
        assert!((class.median.unwrap() - 0.5).abs() < 1e-9 && (class.bias.unwrap() - 0.5).abs() < 1e-9, "{class:?}");
        assert!((class.p85.unwrap() - 0.85).abs() < 1e-9, "{class:?}");
        assert_eq!((got.single_path.n, got.single_path.inside), (2, Some(0.5)));
        assert!(got.single_path.half_width.is_some_and(|w| w > 0.0 && w < 0.5));
    }

    #[test]
    fn memory_over_c2c_is_its_own_class() {
        let text = "name = \"m\"\n[nodes]\ncpu0 = { part = \"grace\" }\nGPU0 = { part = \"gh200\" }\n\
                    [[links]]\nbetween = [\"cpu0\", \"GPU0\"]\nc2c = true\n";
        let machine = read_system(&(text.to_owned() + &table(SHARE, "host", "GPU0", 160.0)), "m").unwrap();
        let got = evaluate_cases(&[Case::from(machine)], Parts::embedded());
        assert_eq!(got.classes[0].class, Class::C2c);
    }

    #[test]
    fn a_number_without_prediction_counts_as_such() {
        let unknown =
            "quantity = \"bandwidth\"\ndirection = \"unidirectional\"\nunit = \"GB/s\"\ntitle = \"one_to_all\"\n";
        let text =
            format!("[[published]]\n{unknown}rows = [\"GPU0\"]\ncols = [\"GPU1\"]\nmatrix = \"\"\"\n5\n\"\"\"\n");
        let got = scored(&text);
        assert_eq!((got.classes[0].class, got.classes[0].none, got.classes[0].median), (Class::Concurrent, 1.0, None));
        assert_eq!(got.single_path, SinglePath::default());
    }

    #[test]
    fn a_sweep_reaches_half_between_its_points() {
        let series = peerlane_machine::curve::Series {
            name: "bandwidth".to_owned(),
            unit: Some(peerlane_machine::matrix::Unit::GigabytesPerSecond),
            values: vec![Some(1.0), Some(4.0), Some(8.0), Some(10.0)],
        };
        let curve = Curve {
            what: "sweep".to_owned(),
            ends: vec!["GPU0".to_owned(), "GPU1".to_owned()],
            sizes: [1_u64 << 10, 1 << 12, 1 << 14, 1 << 16].map(Bytes).to_vec(),
            series: vec![series],
            settings: Default::default(),
        };
        // 5 of 10 lies a quarter of the way from 4 to 8: 2^12 × 4^(1/4)
        let half = half_size(&curve).unwrap();
        assert!((half / (4096.0 * 2_f64.sqrt()) - 1.0).abs() < 1e-9, "{half}");
    }
}
