//! Records of live machines in `captures/h200x*-vm-runs`: they are read, and show what they are said to show.

use std::path::{Path, PathBuf};

use peerlane::bfs::Bfs;
use peerlane::case::Case;
use peerlane::catalogue::{Parts, system_text};
use peerlane::check::{Context, Settings, check};
use peerlane::comparison::Comparison;
use peerlane::exchange::Exchange;
use peerlane::halo::Halo;
use peerlane::matrix::Direction;
use peerlane::model::{Model, Pace};
use peerlane::names::is_host;
use peerlane::nodes::{self, NodePlan, NodesRun, Probe, Transport};
use peerlane::nodes_check;
use peerlane::plan::{Test, Work};
use peerlane::run::{Cell, Estimate, Partial, Run, looks_like_run};
use peerlane::site::{self, Site};
use peerlane::spin_glass::SpinGlass;
use peerlane::transfer::Transfer;
use peerlane::units::Bytes;

fn record(name: &str) -> Run {
    record_of("h200x4-vm-runs", name)
}

pub(crate) fn record_of(folder: &str, name: &str) -> Run {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures").join(folder).join(name);
    Run::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Copy-engine sets of so many GPUs with the host, all in one direction.
fn one_way<'r>(run: &'r Run, gpus: usize, test: impl Fn(&Transfer) -> bool + 'r) -> impl Iterator<Item = &'r Cell> {
    run.cells.iter().filter(move |cell| match &cell.work {
        Work::Transfers(all) => cell.test == Test::Subsets && all.len() == gpus && all.iter().all(&test),
        _ => false,
    })
}

/// The JSON files in a folder and those below it.
fn json_files(folder: &Path) -> Vec<PathBuf> {
    let (mut open, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|ending| ending == "json") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_record_is_read_and_comes_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = ["captures", "examples", "fuzz/seeds/nodes_run"].map(|folder| root.join(folder)).to_vec();
    folders.extend(std::env::var_os("PEERLANE_CORPUS").map(PathBuf::from));
    let (mut of_nodes, mut of_machines) = (0, 0);
    for file in folders.iter().flat_map(|folder| json_files(folder)) {
        let text = std::fs::read_to_string(&file).unwrap();
        if nodes::looks_like_nodes_run(&text) {
            let (run, unreadable) = NodesRun::read(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            let written = run.to_json().unwrap();
            assert_eq!((NodesRun::read(&written), unreadable), (Ok((run, 0)), 0), "{}", file.display());
            assert!(!written.contains("\"memory\":\"GPU"), "{}: memory is typed", file.display());
            of_nodes += 1;
        } else if looks_like_run(&text) {
            let Partial { run, unreadable, damaged } =
                Partial::read(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            assert_eq!((run.to_json().and_then(|text| Run::from_json(&text)), unreadable), (Ok(run), 0));
            assert!(damaged.is_empty(), "{}", file.display());
            of_machines += 1;
        }
    }
    assert!(of_nodes >= 5 && of_machines >= 15, "{of_nodes} {of_machines}");
}

#[test]
fn records_are_complete_and_verified() {
    let four = ["default.json", "subsets.json", "subsets-2.json", "collectives.json"].map(|name| (name, record(name)));
    let two = ["default.json", "sizes.json"].map(|name| (name, record_of("h200x2-vm-runs", name)));
    let one = ["spin-glass.json", "bfs.json"].map(|name| (name, record_of("h200x1-vm-runs", name)));
    for (name, run) in four.into_iter().chain(two).chain(one) {
        assert!(run.complete, "{name}");
        assert!(run.cells.iter().all(|cell| cell.value().is_some_and(|v| v > 0.0)), "{name}");
        assert_eq!(run.steps_done().len(), run.plan.steps().count(), "{name}");
    }
}

/// Two agents of one machine, each with a GPU that NCCL takes for another host's (`scripts/gpu/nodes.sh`).
#[test]
fn two_agents_measured_gpu_memory_by_tcp_and_nccl() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/h200x2-vm-runs/nodes.json");
    let (run, unreadable) = NodesRun::read(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(unreadable == 0 && run.complete && run.lost.is_empty());
    assert!(run.nodes.iter().all(|node| node.gpus.len() == 1 && node.nccl.as_deref() == Some("2.28.3")));
    assert_eq!(run.cells.len(), NodePlan::rounds_of(&run.plan, &run.nodes).concat().len());
    assert!(run.cells.iter().all(|cell| cell.value().is_some() && cell.flags.is_empty()), "all arrived as it was sent");
    let rates = |transport, probe, gpus| {
        let is = move |cell: &&nodes::Cell| {
            let step = &cell.step;
            (step.transport, step.probe, step.is_of_gpus(), step.is_loopback()) == (transport, probe, gpus, false)
        };
        run.cells.iter().filter(is).filter_map(nodes::Cell::value).collect::<Vec<f64>>()
    };
    let (host, gpu) = (rates(Transport::Tcp, Probe::Send, false), rates(Transport::Tcp, Probe::Send, true));
    for (host, gpu) in host.iter().zip(&gpu) {
        assert!((0.55..0.8).contains(&(gpu / host)), "staged at both ends: {gpu} beside {host}");
    }
    assert_eq!((host.len(), gpu.len()), (2, 2));
    // by sockets of the same machine
    assert!(rates(Transport::Nccl, Probe::SendReceive, true).iter().all(|rate| (1.5e9..3e9).contains(rate)));
    let all = run.cells.iter().find(|cell| cell.step.probe == Probe::AllReduce).unwrap();
    assert_eq!((all.step.queue_pairs, all.step.algorithm_share()), (2, 1.0));
    let site = Site::of(&run).unwrap();
    let judged = nodes_check::judge(&site::Comparison::of(&site, &run), &Settings::default(), None);
    assert!(judged.findings.is_empty(), "{:?}", judged.findings);
    // from the pieces of staging, and not from these values
    let staged: Vec<_> = judged.pairs.iter().filter(|pair| pair.expected_range.is_some()).collect();
    assert_eq!(staged.len(), 2);
    for pair in staged {
        assert!(pair.share.is_some_and(|share| (0.92..1.1).contains(&share)) && !pair.is_off(), "{pair:?}");
    }
    // and one that is far below is off
    let mut slow = run.clone();
    for cell in slow.cells.iter_mut().filter(|cell| cell.step.is_of_gpus() && cell.step.probe == Probe::Send).take(1) {
        let estimate = cell.estimate.as_mut().unwrap();
        (estimate.value, estimate.low, estimate.high) = (0.4 * estimate.value, 0.4 * estimate.low, 0.4 * estimate.high);
    }
    let judged = nodes_check::judge(&site::Comparison::of(&site, &slow), &Settings::default(), None);
    assert_eq!(judged.pairs.iter().filter(|pair| pair.is_off()).count(), 1);
    assert!(judged.findings.iter().all(|found| found.measured.contains("with GPU memory")), "{:?}", judged.findings);
    assert!(!judged.findings.is_empty());
}

/// The model's constants are from four H200 of another host.
#[test]
fn two_gpus_of_another_host_are_as_predicted() {
    let case = Case::of_run(record_of("h200x2-vm-runs", "default.json"), "run.json").unwrap();
    let model = Model::new(&case.machine, Parts::embedded());
    let mut cells = 0;
    for series in Comparison::of(&model).matrices().iter().filter(|s| s.is_predicted_rate()) {
        let (metric, matrix) = (series.metric(), series.matrix());
        // staged both ways, this host carries a fifth more than the constants' host
        if metric.direction == Some(Direction::Bidirectional) && metric.p2p == Some(false) {
            continue;
        }
        for (i, j) in (0..matrix.rows.len()).flat_map(|i| (0..matrix.cols.len()).map(move |j| (i, j))) {
            // copies within a GPU are 7 % faster than on the constants' host
            if matrix.title == "local" {
                continue;
            }
            let Some((expected, measured)) = series.expected(i, j).zip(series.measured(i, j)) else { continue };
            let ratio = measured.value / expected.value;
            assert!((0.94..1.06).contains(&ratio), "{}: {ratio}", matrix.title);
            cells += 1;
        }
    }
    assert!(cells > 20, "{cells}");
}

#[test]
fn four_gpus_share_a_limit_towards_the_host() {
    let run = record("subsets.json");
    let to_host = |t: &Transfer| is_host(&t.destination);
    let per_gpu =
        |n: usize| -> Vec<f64> { one_way(&run, n, to_host).filter_map(Cell::value).map(|v| v / n as f64).collect() };
    let (one, two, four) = (per_gpu(1), per_gpu(2), per_gpu(4));
    assert_eq!((one.len(), two.len(), four.len()), (4, 6, 1), "subsets of four");
    assert!(one.iter().chain(&two).all(|rate| (rate - 55.2).abs() < 0.3), "{one:?} {two:?}");
    assert!(four[0] < 0.8 * one[0], "{four:?}");
}

#[test]
fn no_lone_copy_is_above_its_link() {
    // 18 NVLink 4 carry 478 GB/s each way, PCIe 5.0 x16 63
    for cell in &record("default.json").cells {
        let Work::Transfers(all) = &cell.work else { continue };
        let [t] = all.as_slice() else { continue };
        let host = is_host(&t.source) || is_host(&t.destination);
        if t.source != t.destination {
            assert!(cell.value().unwrap() < if host { 63.0 } else { 478.1 }, "{t}");
        }
    }
}

#[test]
fn rules_take_a_run_for_what_it_is() {
    let mut run = record("default.json");
    // a machine without published numbers, which have findings of their own
    run.machine.system = system_text("h200x4-vm").map(|s| s.split("[[published]]").next().unwrap().to_owned());
    run.cells.retain(|cell| cell.test == Test::Pairs);
    let mut findings = |first_row: f64| {
        for cell in &mut run.cells {
            let Work::Transfers(all) = &cell.work else { continue };
            let value = if all[0].source == "GPU0" { first_row } else { 395.0 };
            (cell.estimate, cell.n) = (Some(Estimate { value, low: 0.99 * value, high: 1.01 * value }), 12);
        }
        let case = Case::of_run(run.clone(), "run.json").unwrap();
        let model = Model::new(&case.machine, Parts::embedded());
        let comparison = Comparison::of(&model);
        let found = check(&Context::of(&case, &comparison));
        found.into_iter().map(|f| (f.rule, f.measured)).collect::<Vec<_>>()
    };
    assert_eq!(findings(394.0), []);
    // warm-up is no excuse for a program that warms up
    let found = findings(360.0);
    assert_eq!((found.len(), found[0].0.as_str()), (1, "uneven-path-class"));
    assert!(found[0].1.ends_with("median of 12 samples, 95 % interval 356.40 to 363.60)"), "{found:?}");
}

/// By the description of the machine, and from one GPU's rate at scale 26 and the machine's paths alone.
#[test]
fn searches_are_as_predicted_at_every_scale() {
    for (folder, count) in [("h200x1-vm-runs", 6), ("h200x2-vm-runs", 14), ("h100x2-vm-runs", 14)] {
        let run = record_of(folder, "bfs.json");
        let case = Case::of_run(run.clone(), "run.json").unwrap();
        let model = Model::new(&case.machine, Parts::embedded());
        let searches = run.cells.iter().filter_map(|cell| match &cell.work {
            Work::Bfs(search) => Some((search, cell.value()?)),
            _ => None,
        });
        let searches: Vec<(&Bfs, f64)> = searches.collect();
        assert_eq!(searches.len(), count);
        let gteps = |search: &Bfs, seconds: f64| search.edges() as f64 / seconds / 1e9;
        let (one, rate) = *searches.iter().find(|(search, _)| search.gpus.len() == 1 && search.scale == 26).unwrap();
        let levels = model.bfs_at(one, 0.0).unwrap().total;
        let vertex = (one.edges() as f64 / rate / 1e9 - levels) / one.vertices() as f64;
        for (search, measured) in searches {
            let described = measured / gteps(search, model.bfs(search).unwrap().total) - 1.0;
            let from_one = measured / gteps(search, model.bfs_at(search, vertex).unwrap().total) - 1.0;
            eprintln!("{search}: {measured:.0} GTEPS, {:+.0} %, {:+.0} %", 100.0 * described, 100.0 * from_one);
            assert!(described.abs() < 0.28, "{search}: {described}");
            assert!(from_one.abs() < 0.2, "{search}: {from_one}");
        }
        let comparison = Comparison::of(&model);
        let found = check(&Context::of(&case, &comparison));
        assert!(found.iter().all(|finding| finding.rule != "bfs-slow"));
    }
}

/// Lattices of a record, with the picoseconds of an update.
fn lattices(run: &Run) -> Vec<(&SpinGlass, f64)> {
    run.cells
        .iter()
        .filter_map(|cell| match &cell.work {
            Work::SpinGlass(lattice) => Some((lattice, cell.value()?)),
            _ => None,
        })
        .collect()
}

/// What validation/applications.md says of prediction and measurement.
#[test]
fn lattices_are_as_predicted_by_the_description_of_the_machine() {
    for (folder, count) in [("h200x1-vm-runs", 5), ("h200x2-vm-runs", 37)] {
        let run = record_of(folder, "spin-glass.json");
        let case = Case::of_run(run.clone(), "run.json").unwrap();
        let model = Model::new(&case.machine, Parts::embedded());
        let all = lattices(&run);
        assert_eq!(all.len(), count);
        for (lattice, measured) in all {
            let expected = model.spin_glass(lattice).unwrap().total / (lattice.places() as f64 / 2.0) * 1e12;
            assert!((measured / expected - 1.0).abs() < 0.2, "{lattice}: {measured:.2} ps of {expected:.2}");
        }
        let comparison = Comparison::of(&model);
        let found = check(&Context::of(&case, &comparison));
        assert!(found.iter().all(|finding| finding.rule != "spin-glass-slow"));
    }
}

/// From one GPU's rate at L = 512 and the machine's paths alone: on the GPUs by which the exchange's constants were found, and on two
/// others.
#[test]
fn lattices_are_as_predicted_from_one_of_them() {
    for (name, count) in [("spin-glass.json", 37), ("spin-glass-again.json", 28)] {
        let run = record_of("h200x2-vm-runs", name);
        assert_eq!(lattices(&run).len(), count);
        predicted_from_one(run);
    }
}

/// What validation/applications.md says of lattices that grow, of large ones and of blocks. No constant is from the first two.
#[test]
fn weak_scaling_large_lattices_and_blocks_are_as_predicted_from_one_of_them() {
    let run = record_of("h200x2-vm-runs", "spin-glass-blocks.json");
    let all = off_prediction(&run);
    let worst = |name: &str, wanted: &dyn Fn(&SpinGlass) -> bool, count: usize| {
        let group: Vec<f64> = all.iter().filter(|(lattice, _)| wanted(lattice)).map(|(_, off)| *off).collect();
        assert_eq!(group.len(), count, "{name}");
        let worst = group.iter().fold(0.0, |worst: f64, off| worst.max(off.abs()));
        eprintln!("{name}: {count} within {:.1} %", 100.0 * worst);
        worst
    };
    assert!(worst("strong", &|l| !l.weak && l.blocks.is_none() && l.side <= 1024, 37) < 0.1);
    assert!(worst("weak", &|l| l.weak, 12) < 0.12);
    assert!(worst("large", &|l| l.side > 1024, 15) < 0.2);
    assert!(worst("blocks", &|l| l.blocks.is_some(), 24) < 0.12);
    let case = Case::of_run(run, "run.json").unwrap();
    let model = Model::new(&case.machine, Parts::embedded());
    let comparison = Comparison::of(&model);
    let found = check(&Context::of(&case, &comparison));
    assert!(found.iter().all(|finding| finding.rule != "spin-glass-slow"));
}

fn predicted_from_one(run: Run) {
    let all = off_prediction(&run);
    let worst = all.iter().fold(0.0, |worst: f64, (_, off)| worst.max(off.abs()));
    assert!(worst < 0.1, "{worst}");
}

/// Each lattice, and the share by which its prediction is off.
fn off_prediction(run: &Run) -> Vec<(SpinGlass, f64)> {
    let case = Case::of_run(run.clone(), "run.json").unwrap();
    let model = Model::new(&case.machine, Parts::embedded());
    let all = lattices(run);
    let (one, measured) = *all.iter().find(|(lattice, _)| lattice.gpus.len() == 1 && lattice.side == 512).unwrap();
    let of = |pace: Pace, lattice: &SpinGlass| {
        model.spin_glass_at(lattice, pace).unwrap().total / (lattice.places() as f64 / 2.0) * 1e12
    };
    // a half-sweep is a launch and its places
    let pace = model.spin_pace(case.machine.fabric.find("GPU0").unwrap()).unwrap();
    let launch = of(pace, one) - pace.place * 1e12;
    let pace = Pace { place: (measured - launch) * 1e-12, ..pace };
    let off = |(lattice, measured): &(&SpinGlass, f64)| {
        let off = of(pace, lattice) / measured - 1.0;
        eprintln!("{lattice}: {measured:.2} ps, predicted {:+.1} %", 100.0 * off);
        ((*lattice).clone(), off)
    };
    all.iter().map(off).collect()
}

/// Plain exchanges of a record with the share by which they take longer than predicted, and than they may at the most.
fn off_halos(run: &Run) -> Vec<(&Halo, f64, f64)> {
    let case = Case::of_run(run.clone(), "run.json").unwrap();
    let model = Model::new(&case.machine, Parts::embedded());
    let halos = run.cells.iter().filter_map(|cell| match &cell.work {
        Work::Halo(halo) => Some((halo, cell.value()? * 1e-6)),
        _ => None,
    });
    let off = |(halo, measured): (_, f64)| {
        let halo: &Halo = halo;
        let (time, face) = (model.halo(halo).unwrap(), halo.face.0 as f64);
        assert!(time.is_confirmed() && time.interval(face)[0] <= time.notified(face));
        let [off, beyond] = [time.notified(face), time.interval(face)[1]].map(|seconds| measured / seconds - 1.0);
        eprintln!("{halo}: {:.2} us, {:+.1} %, of the most {:+.1} %", measured * 1e6, 100.0 * off, 100.0 * beyond);
        (halo, off, beyond)
    };
    halos.map(off).collect()
}

/// What validation/applications.md says of plain exchanges. Its constants are from these records.
#[test]
fn halo_exchanges_are_as_predicted() {
    let two = record_of("h200x2-vm-runs", "halo.json");
    let two = off_halos(&two);
    assert_eq!(two.len(), 15);
    assert!(two.iter().all(|(_, off, _)| off.abs() < 0.12));
    let four = record_of("h200x4-vm-parts", "applications.json");
    let four = off_halos(&four);
    assert_eq!(four.len(), 45);
    let (far, near): (Vec<_>, Vec<_>) = four.into_iter().partition(|(_, off, _)| off.abs() > 0.15);
    assert_eq!((near.len(), far.len()), (38, 7));
    for (halo, _, beyond) in far {
        let small = halo.exchange == Exchange::Copies && halo.face == Bytes::from_mib(1);
        assert!(beyond < 0.01 || small, "{halo}: {beyond}");
    }
}

/// Four GPUs of one host: no constant but those of further faces and of caches is from this record.
#[test]
fn four_gpus_are_as_predicted_and_no_application_of_theirs_is_a_fault() {
    let run = record_of("h200x4-vm-parts", "applications.json");
    let all = off_prediction(&run);
    let far: Vec<&SpinGlass> = all.iter().filter(|(_, off)| off.abs() > 0.15).map(|(lattice, _)| lattice).collect();
    // whose exchange is hidden wholly, although it takes as long as the update
    let is_hidden = |l: &&SpinGlass| l.exchange == Exchange::Staged && l.overlap && l.side == 512;
    assert!(all.len() >= 100 && far.len() <= 1 && far.iter().all(is_hidden), "{far:?}");
    let case = Case::of_run(run, "run.json").unwrap();
    let model = Model::new(&case.machine, Parts::embedded());
    let comparison = Comparison::of(&model);
    let found = check(&Context::of(&case, &comparison));
    assert!(found.iter().all(|finding| !finding.rule.ends_with("-slow")), "{found:?}");
}
