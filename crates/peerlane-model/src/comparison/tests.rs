use super::*;
use peerlane_machine::machine::{Machine, Spread};
use peerlane_machine::matrix::{Direction, Engine, Operation, Quantity, Unit};
use peerlane_read::catalogue::{Parts, system};

fn compared<T>(machine: &Machine, look: impl FnOnce(&Comparison) -> T) -> T {
    let model = Model::new(machine, Parts::embedded());
    look(&Comparison::of(&model))
}

/// A matrix that a program printed.
fn printed(metric: Metric, rows: &[&str], cols: &[&str], value: f64) -> SourcedMatrix {
    let &Metric { quantity, direction, p2p, op, engine, unit, size } = &metric;
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let values = rows.iter().map(|r| cols.iter().map(|c| (r != c).then_some(value)).collect()).collect();
    let (rows, cols, title) = (names(rows), names(cols), String::new());
    SourcedMatrix {
        matrix: Matrix {
            quantity,
            direction,
            p2p,
            op,
            engine,
            unit,
            size,
            rows,
            cols,
            values,
            title,
            ..Matrix::default()
        },
        origin: Origin { source: "run.txt".into(), tool: "a test", lines: Some((3, 7)) },
        also: Vec::new(),
        published: false,
        known_cause: None,
        spread: Vec::new(),
    }
}

const PAIRS: Metric = Metric { p2p: Some(true), op: Some(Operation::Write), ..Metric::COPIES };

#[test]
fn all_that_is_predicted_has_a_table_though_nobody_measured() {
    let machine = system("h200x4-vm").unwrap().unwrap();
    let bare = Machine { matrices: Vec::new(), statements: Vec::new(), ..machine };
    let tables: Vec<(String, usize, usize)> = compared(&bare, |comparison| {
        let tables = comparison.tables();
        assert!(tables.iter().flat_map(|t| &t.cells).all(|c| c.measured.is_empty() && c.ratio().is_none()));
        tables.iter().map(|t| (t.metric.describe(), t.rows.len() * t.cols.len(), t.cells.len())).collect()
    });
    let has = |what: &str, cells: usize| tables.iter().any(|(of, _, n)| of == what && *n == cells);
    for (what, cells) in [
        ("bandwidth, one way, P2P on, writes, copy engine, GB/s", 12),
        ("bandwidth, one way, P2P on, reads, copy engine, GB/s", 12),
        ("bandwidth, both ways, summed, P2P on, writes, copy engine, GB/s", 12),
        ("bandwidth, one way, P2P off, writes, copy engine, GB/s", 12),
        ("bandwidth, both ways, summed, P2P off, writes, copy engine, GB/s", 12),
        ("bandwidth, one way, copy engine, GB/s", 4),
        ("bandwidth, both ways, summed, copy engine, GB/s", 4),
        ("bandwidth, one way, P2P on, writes, SM copies, GB/s", 12),
        ("bandwidth, one way, P2P on, reads, SM copies, GB/s", 12),
        ("bandwidth, one way, SM copies, GB/s", 4),
        ("latency, P2P on, writes, copy engine, us", 16),
        ("latency, P2P on, reads, copy engine, us", 16),
        ("latency, P2P off, writes, copy engine, us", 16),
        ("latency, copy engine, us", 4),
        ("load latency, P2P on, SM copies, ns", 12),
        ("load latency, SM copies, ns", 4),
    ] {
        assert!(has(what, cells), "{what}: {tables:#?}");
    }
    // from the host, to the host, within each GPU
    assert_eq!(tables.iter().filter(|(what, ..)| what == "bandwidth, one way, copy engine, GB/s").count(), 3);
}

#[test]
fn a_cell_has_all_that_was_measured_and_the_ratio_of_the_last() {
    let mut machine = system("h200x4-vm").unwrap().unwrap();
    machine.statements.clear();
    let published = SourcedMatrix { published: true, ..printed(PAIRS, &["GPU0", "GPU1"], &["GPU0", "GPU1"], 300.0) };
    let mut own = printed(PAIRS, &["GPU1"], &["GPU0", "GPU2"], 350.0);
    own.spread = vec![vec![Some(Spread { n: 9, low: 349.0, high: 351.0 }), None]];
    machine.matrices = vec![own, published];
    let table = compared(&machine, |comparison| {
        let tables = MachineComparison::of(comparison).tables;
        tables.into_iter().find(|t| t.what == PAIRS.describe()).unwrap()
    });
    // the prediction of all pairs stands in the table of those that were measured
    assert_eq!((table.rows.len(), table.cols.len(), table.cells.len()), (4, 4, 12));
    let cell = |row: &str, col: &str| table.cells.iter().find(|c| (c.row.as_str(), c.col.as_str()) == (row, col));
    let both = cell("GPU1", "GPU0").unwrap();
    let values: Vec<(f64, bool, Option<usize>)> = both.measured.iter().map(|m| (m.value, m.published, m.n)).collect();
    assert_eq!(values, [(300.0, true, None), (350.0, false, Some(9))]);
    assert_eq!(both.measured[1].origin, "run.txt:3-7 (a test)");
    let expected = both.expected.unwrap();
    assert!(both.low.unwrap() <= expected && expected <= both.high.unwrap());
    assert_eq!(both.ratio, Some(350.0 / expected));
    assert!(both.binding.is_some() && cell("GPU3", "GPU2").unwrap().measured.is_empty());
}

#[test]
fn what_binds_is_a_link_by_its_ends() {
    let machine = system("7gforce").unwrap().unwrap();
    let tables = compared(&machine, MachineComparison::of).tables;
    let table = tables.iter().find(|t| t.rows == ["host"]).unwrap();
    let cell = table.cells.iter().find(|c| c.col == "GPU0").unwrap();
    assert!(cell.link.as_ref().unwrap().contains(&"GPU0".to_owned()), "{cell:?}");
}

#[test]
fn ranges_in_words_are_measured_values() {
    let machine = system("exxact-devbox").unwrap().unwrap();
    compared(&machine, |comparison| {
        let statements = comparison.statements();
        assert_eq!(statements.len(), machine.statements.len());
        let cells = statements.iter().flat_map(|s| s.measured(0, 1).or(s.measured(0, 0)));
        for (cell, statement) in cells.zip(&machine.statements) {
            assert_eq!((cell.value, cell.upto, cell.source.published()), (statement.low, statement.high, true));
            assert_eq!(cell.source.to_string(), statement.text);
        }
    });
}

#[test]
fn many_transfers_at_once_have_a_table_of_their_own_and_no_expectation() {
    let mut machine = system("h200x4-vm").unwrap().unwrap();
    machine.statements.clear();
    for title in ["host_to_all_memcpy_ce", "Host to Device Bandwidth, pageable"] {
        let mut contended = printed(Metric::COPIES, &["host"], &["GPU0"], 20.0);
        contended.matrix = Matrix { title: title.to_owned(), ..contended.matrix }.typed_by_title();
        machine.matrices = vec![contended, printed(Metric::COPIES, &["host"], &["GPU0"], 50.0)];
        compared(&machine, |comparison| {
            let tables = comparison.tables();
            assert_eq!(tables[0].title, Some(title));
            assert!(tables[0].cells.iter().all(|cell| cell.expected.is_none()));
            assert!(tables[1].cells[0].expected.is_some() && tables[1].title.is_none());
            let [of_many, of_one] = comparison.matrices() else { panic!("two matrices") };
            assert_eq!((of_many.expected(0, 0), of_many.is_predicted_rate()), (None, false));
            assert!(of_one.expected(0, 0).is_some());
        });
    }
}

#[test]
fn numbers_of_small_messages_do_not_stand_for_those_of_any_size() {
    let mut machine = system("h200x4-vm").unwrap().unwrap();
    machine.statements.clear();
    let gpus = ["GPU0", "GPU1", "GPU2", "GPU3"];
    let tables = |machine: &Machine| {
        let of = |t: &Table| t.metric.describe().starts_with("bandwidth, one way, P2P on, writes, copy engine");
        compared(machine, |comparison| comparison.tables().iter().filter(|t| of(t)).count())
    };
    for (size, wanted) in [(None, 1), (Some(64 << 20), 1), (Some(16 << 10), 2)] {
        let metric = Metric { size: size.map(peerlane_machine::units::Bytes), ..PAIRS };
        machine.matrices = vec![printed(metric, &gpus, &gpus, 100.0)];
        assert_eq!(tables(&machine), wanted, "{size:?}");
    }
}

#[test]
fn names_that_the_machine_does_not_have_are_compared_with_nothing() {
    let mut machine = system("h200x4-vm").unwrap().unwrap();
    machine.statements.clear();
    machine.matrices = vec![printed(PAIRS, &["GPU0", "GPU9"], &["GPU1"], 100.0)];
    compared(&machine, |comparison| {
        let tables = comparison.tables();
        assert_eq!((tables[0].rows.len(), tables[0].cells.len()), (2, 2));
        assert!(tables[0].cells[0].expected.is_some() && tables[0].cells[1].expected.is_none());
        assert_eq!(tables[1].cells.len(), 12);
    });
}

#[test]
fn an_oversized_matrix_has_no_expectation() {
    let names: Vec<String> = (0..=MOST_ENDS).map(|i| format!("GPU{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut machine = system("h200x4-vm").unwrap().unwrap();
    machine.matrices = vec![printed(PAIRS, &names, &["GPU0"], 1.0)];
    compared(&machine, |comparison| {
        assert_eq!(comparison.matrices()[0].expected(1, 0), None);
        assert!(comparison.tables()[0].cells.iter().all(|c| c.expected.is_none() && c.measured.len() == 1));
    });
}

#[test]
fn times_are_compared_with_times() {
    let machine = system("h200x4-vm").unwrap().unwrap();
    compared(&machine, |comparison| {
        let of = |quantity| comparison.matrices().iter().filter(move |s| s.metric().quantity == quantity);
        let latency = of(Quantity::Latency).next().unwrap();
        assert_eq!(latency.metric().unit, Unit::Microseconds);
        assert!(!latency.is_predicted_rate() && latency.expected(0, 1).is_some());
        let (engine, direction) = (Some(Engine::Ce), Some(Direction::Unidirectional));
        let rate = Metric { engine, direction, ..PAIRS };
        assert!(comparison.expected(&rate, "GPU0", "GPU1").unwrap().value > 100.0);
    });
}

/// Files of product code that may hold what is expected: this module and what it asks, and its counterpart between hosts. Scores of
/// assumptions keep what they were computed from.
const HOLD: [&str; 4] = [
    "peerlane-model/src/expectation",
    "peerlane-model/src/comparison",
    "peerlane-design/src/site",
    "peerlane-model/src/assumptions/likelihood",
];

/// Files that may make an expected value: these, and what predicts the steps of a round between hosts.
const MAKE: [&str; 4] = [HOLD[0], HOLD[1], HOLD[2], "peerlane-design/src/simulated_cluster"];

/// Product code by its path below `crates/`, without tests.
fn product() -> Vec<(String, String)> {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut open, mut files) = (vec![crates.to_owned()], Vec::new());
    while let Some(path) = open.pop() {
        let name = path.strip_prefix(crates).unwrap().to_str().unwrap().to_owned();
        let is_test = ["tests", "testing.rs", "tests.rs", "benches", "examples", "target"];
        if path.is_dir() && !is_test.iter().any(|of| name.ends_with(of)) {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if name.ends_with(".rs") && !is_test.iter().any(|of| name.ends_with(of)) {
            let text = std::fs::read_to_string(&path).unwrap();
            files.push((name, text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned()));
        }
    }
    files
}

/// Names and types of the fields of structs in a text.
fn fields(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('/')) {
        if line.contains("struct ") {
            inside = line.ends_with('{');
        } else if line.starts_with('}') {
            inside = false;
        } else if let (true, Some((name, of))) = (inside, line.split_once(": ")) {
            found.push((name.rsplit(' ').next().unwrap(), of.trim_end_matches(',')));
        }
    }
    found
}

#[test]
fn nobody_else_joins_expected_and_measured() {
    let files = product();
    assert!(files.len() > 600, "{}", files.len());
    let may = |file: &str, list: [&str; 4]| list.iter().any(|of| file.starts_with(of));
    // numbers and sentences that were taken from a comparison
    let plain = ["f64", "u8", "usize", "Rate", "bool", "String", "str", "static", "Option", "Vec", ""];
    for (file, text) in &files {
        for (field, of) in fields(text) {
            let words = || of.split(|c: char| !c.is_alphanumeric());
            let holds = words().any(|word| word == "Expected");
            assert!(!holds || may(file, HOLD), "{file}: `{field}: {of}` is a join of its own; use a Comparison");
            let second = field == "expected" && !holds && !words().all(|word| plain.contains(&word));
            assert!(!second || may(file, HOLD), "{file}: `{field}: {of}` is a second type of expected value");
        }
        let makes = ["Expected::new(", "Expected::exactly(", "Expectation::new(", "Predictor::new("];
        let made = makes.iter().find(|call| text.contains(**call)).filter(|_| !may(file, MAKE));
        assert_eq!(made, None, "{file}: ask a Comparison");
    }
}
