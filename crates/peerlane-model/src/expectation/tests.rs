use super::*;
use peerlane_machine::fabric::{FabricBuilder, Link, LinkKind, Node};
use peerlane_machine::machine::{Machine, MachineKind};
use peerlane_read::catalogue::Parts;

/// One socket whose root complex splits packets, with an x1 and an x16 GPU, so that the ways differ.
fn machine() -> Machine {
    with_gpus(&["3.0 x1", "3.0 x16"])
}

fn with_gpus(widths: &[&str]) -> Machine {
    let mut b = FabricBuilder::new();
    let cpu = b.node(Node { product: Some("Intel Xeon".to_owned()), ..Node::new("cpu0", NodeKind::Cpu) });
    let rc = b.node(Node::new("rc0", NodeKind::RootComplex));
    let host = b.node(Node::new("host0", NodeKind::Host));
    b.link(Link::new(rc, cpu, LinkKind::OnDie));
    b.link(Link::new(host, cpu, LinkKind::OnDie));
    for (i, width) in widths.iter().enumerate() {
        let gpu = b.node(Node::new(format!("GPU{i}"), NodeKind::Gpu));
        b.link(Link::new(rc, gpu, LinkKind::pcie(width.parse().unwrap())));
    }
    Machine::new("m", MachineKind::Design, b.build().unwrap())
}

#[test]
fn a_way_that_is_not_told_is_not_predicted() {
    let mut machine = machine();
    let expected = |machine: &Machine, on: bool| {
        let model = Model::new(machine, Parts::embedded());
        let asked = Matrix { p2p: Some(on), ..measured(&["GPU0"], &["GPU1"]) };
        grid(&model, &asked)[0][0]
    };
    assert!(expected(&machine, true).is_some());
    let pair = (machine.fabric.find("GPU0").unwrap(), machine.fabric.find("GPU1").unwrap());
    machine.fabric.set_unknown_paths([pair]);
    assert_eq!(expected(&machine, true), None);
    assert!(expected(&machine, false).is_some(), "through host memory, whichever way is between them");
}

fn measured(rows: &[&str], cols: &[&str]) -> Matrix {
    Matrix {
        quantity: Quantity::Bandwidth,
        direction: Some(Direction::Unidirectional),
        p2p: Some(true),
        op: None,
        engine: None,
        unit: Unit::GigabytesPerSecond,
        size: None,
        rows: rows.iter().map(|s| s.to_string()).collect(),
        cols: cols.iter().map(|s| s.to_string()).collect(),
        values: vec![vec![None; cols.len()]; rows.len()],
        ..Matrix::default()
    }
}

fn grid<'a>(model: &'a Model<'a>, like: &Matrix) -> Vec<Vec<Option<f64>>> {
    let grid = Expectation::new(model).grid(&Metric::of(like), &like.rows, &like.cols);
    grid.iter().map(|row| row.iter().map(|e| e.as_ref().map(|e| e.value)).collect()).collect()
}

fn values(matrix: &Matrix) -> Vec<Vec<Option<String>>> {
    let machine = machine();
    let model = Model::new(&machine, Parts::embedded());
    let shown = |row: &Vec<Option<f64>>| row.iter().map(|v| v.map(|v| format!("{v:.2}"))).collect();
    grid(&model, matrix).iter().map(shown).collect()
}

fn told(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn pairs_of_very_many_devices_are_left_out() {
    let shapes = |gpus: usize| -> Vec<(usize, usize)> {
        let machine = with_gpus(&vec!["3.0 x16"; gpus]);
        predict(&Model::new(&machine, Parts::embedded())).iter().map(|m| (m.rows.len(), m.cols.len())).collect()
    };
    let rates = [(3, 3), (3, 3), (3, 3), (1, 3), (3, 1)];
    assert_eq!(shapes(3), [&rates[..], &[(3, 3), (1, 3), (3, 1)]].concat(), "then latencies");
    let with_host = [(1, MOST_PREDICTED + 1), (MOST_PREDICTED + 1, 1)];
    assert_eq!(shapes(MOST_PREDICTED + 1), with_host.repeat(2));
}

#[test]
fn rows_send_and_readers_receive() {
    let mut m = measured(&["GPU0", "GPU1"], &["GPU0", "GPU1"]);
    assert_eq!(values(&m), [[None, told("0.85")], [told("0.68"), None]]);
    m.direction = Some(Direction::Bidirectional);
    assert_eq!(values(&m)[0][1], told("1.49"));
    m.direction = Some(Direction::BidirectionalShare);
    assert_eq!(values(&m), [[None, told("0.85")], [told("0.64"), None]]);
    // GPU0 reads from GPU1: completions of 64 bytes come down its x1 link
    (m.direction, m.op) = (Some(Direction::Unidirectional), Some(Operation::Read));
    assert_eq!(values(&m), [[None, told("0.71")], [told("0.86"), None]]);
}

#[test]
fn host_rows_and_columns_stand_for_the_nearest_memory() {
    let mut down = measured(&["host"], &["GPU1", "GPU9", "host"]);
    assert_eq!(values(&down), [[told("12.89"), None, None]]);
    down.unit = Unit::MebibytesPerSecond;
    assert_eq!(values(&down)[0][0], told("12295.36"));
    let mut up = measured(&["GPU1"], &["host"]);
    up.op = Some(Operation::Read);
    assert_eq!(values(&up), [[told("13.59")]]);
}

#[test]
fn a_unit_that_is_none_of_the_quantity_has_no_number() {
    let mut m = measured(&["GPU0"], &["GPU1"]);
    m.unit = Unit::Microseconds;
    assert_eq!(values(&m), [[None]]);
    (m.unit, m.quantity) = (Unit::GigabytesPerSecond, Quantity::Latency);
    assert_eq!(values(&m), [[None]]);
    m.unit = Unit::Microseconds;
    assert!(values(&m)[0][0].is_some());
}

#[test]
fn nothing_is_solved_twice() {
    let machine = machine();
    let model = Model::new(&machine, Parts::embedded());
    let expectation = Expectation::new(&model);
    let m = measured(&["GPU0", "GPU1", "host"], &["GPU0", "GPU1"]);
    let once = expectation.grid(&Metric::of(&m), &m.rows, &m.cols);
    assert_eq!(expectation.solved.borrow().len(), 4);
    assert_eq!(expectation.grid(&Metric::of(&m), &m.rows, &m.cols), once);
    assert_eq!(expectation.solved.borrow().len(), 4);
    // of another size and unit it is the same transfer
    let sized = Metric { size: Some(Bytes(4096)), unit: Unit::MebibytesPerSecond, ..Metric::of(&m) };
    assert_ne!(expectation.grid(&sized, &m.rows, &m.cols), once);
    assert_eq!(expectation.solved.borrow().len(), 4);
}

#[test]
fn kernels_that_copy_to_and_from_the_host_at_once_get_no_more_than_twice_one_way() {
    let mut m = measured(&["host"], &["GPU1"]);
    m.engine = Some(Engine::Sm);
    let machine = machine();
    let model = Model::new(&machine, Parts::embedded());
    let rate = |m: &Matrix| {
        let expectation = Expectation::new(&model);
        expectation.grid(&Metric::of(m), &m.rows, &m.cols)[0][0].clone().unwrap()
    };
    let one_way = rate(&m).value;
    m.direction = Some(Direction::Bidirectional);
    let both = rate(&m);
    assert!(both.value > one_way && both.value < 2.0 * one_way, "{} of {one_way}", both.value);
    assert!(both.low < both.value && both.value < both.high);
    m.direction = Some(Direction::BidirectionalShare);
    assert!(rate(&m).value < one_way);
}

#[test]
fn predict_shows_pairs_and_host_copies_and_leaves_out_what_is_not_there() {
    let machine = machine();
    let shown = predict(&Model::new(&machine, Parts::embedded()));
    let shapes: Vec<_> = shown.iter().map(|m| (m.direction, m.p2p, m.rows.len(), m.cols.len())).collect();
    let (one, both) = (Some(Direction::Unidirectional), Some(Direction::Bidirectional));
    let pairs = [(one, Some(true), 2, 2), (both, Some(true), 2, 2), (one, Some(false), 2, 2)];
    assert_eq!(shapes[..3], pairs);
    assert_eq!(shapes[3..5], [(one, None, 1, 2), (one, None, 2, 1)]);
    // times of small copies
    assert_eq!(shapes[5..], [(None, Some(true), 2, 2), (None, None, 1, 2), (None, None, 2, 1)]);
    assert!(shown[5..].iter().all(|m| m.quantity == Quantity::Latency && m.unit == Unit::Microseconds));
    assert_eq!(shown[3].bottlenecks[0][1], told("GPU1–rc0, PCIe 3.0 x16"));
}

#[test]
fn a_set_of_transfers_shares_the_machine() {
    let machine = machine();
    let model = Model::new(&machine, Parts::embedded());
    let copy = transfer::Transfer::new;
    let gb = |set: &[transfer::Transfer]| {
        let answers = expect_set(&model, set)?;
        Some(answers.iter().map(|a| format!("{:.2}", a.rate.gb())).collect::<Vec<_>>())
    };
    assert_eq!(gb(&[]), Some(Vec::new()));
    assert_eq!(gb(&[copy("GPU1", "host")]), Some(vec!["13.59".to_owned()]));
    assert_eq!(gb(&[copy("host0", "GPU1")]), Some(vec!["12.89".to_owned()]));
    // both go down GPU0's x1 link
    let alone: f64 = expect_set(&model, &[copy("host", "GPU0")]).unwrap()[0].rate.gb();
    let shared = expect_set(&model, &[copy("GPU1", "GPU0"), copy("host", "GPU0")]).unwrap();
    assert!(shared[1].rate.gb() < 0.6 * alone);
    // the one that reads drives
    let read = transfer::Transfer { op: Operation::Read, ..copy("GPU1", "GPU0") };
    assert_eq!(gb(&[read]), Some(vec!["0.71".to_owned()]));
    let staged = transfer::Transfer { via: Via::Driver, ..copy("GPU1", "GPU0") };
    let bottleneck = expect_set(&model, &[staged]).unwrap().remove(0).bottleneck;
    assert!(bottleneck.contains("staging"), "{bottleneck}");
    assert_eq!(gb(&[copy("GPU0", "GPU9")]), None);
    assert_eq!(gb(&[copy("host", "host")]), None);
    assert_eq!(gb(&[transfer::Transfer { memory: HostMemory::Pageable, ..copy("host", "GPU0") }]), None);
}

#[test]
fn a_stated_c2c_rate_is_that_of_copies() {
    let expected = |rate: &str| {
        let nodes = "cpu0 = { kind = \"cpu\" }\nGPU0 = { kind = \"gpu\" }";
        let link = format!("between = [\"cpu0\", \"GPU0\"]\nc2c = true\n{rate}");
        let text = format!("name = \"m\"\n[nodes]\n{nodes}\n[[links]]\n{link}\n");
        let machine = peerlane_read::catalogue::read_system(&text, "m").unwrap();
        let model = Model::new(&machine, Parts::embedded());
        predict(&model)[0].values[0][0].map(|v| v.round())
    };
    // what is stated is what copies reach; else a share of the vendor's 450
    assert_eq!((expected("c2c_rate = 345.0"), expected("")), (Some(345.0), Some(338.0)));
}
