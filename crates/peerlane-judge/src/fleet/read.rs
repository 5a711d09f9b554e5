//! The numbers of a run, and the kind of its machine, from its record.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use super::{Number, What};
use peerlane_machine::names::is_host;
use peerlane_measure::plan::{Test, Work};
use peerlane_measure::run::{Cell, Run, RunError, ends};

/// What the numbers of many runs are, each listed once.
#[derive(Debug, Default)]
pub struct Dictionary {
    known: Mutex<HashMap<u64, What>>,
}

impl Dictionary {
    pub(super) fn take(&self) -> HashMap<u64, What> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One machine's run, as far as it is compared with others.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The host's name, or else the machine's.
    pub name: String,
    /// The run's file.
    pub file: String,
    /// What machines must have in common to be compared: products and path classes of GPUs and NICs.
    pub kind: String,
    /// The products of its GPUs, each once.
    pub products: Vec<String>,
    /// How many GPUs it has.
    pub gpus: usize,
    /// Its driver's version.
    pub driver: Option<String>,
    pub(super) numbers: Vec<Number>,
}

/// What is compared of a record's description of its machine.
#[derive(Default, Deserialize)]
struct Fabric {
    #[serde(default)]
    nodes: Vec<Device>,
    #[serde(default)]
    classes: Classes,
}

#[derive(Deserialize)]
struct Device {
    id: String,
    kind: String,
    #[serde(default)]
    part: Option<String>,
    #[serde(default)]
    product: Option<String>,
}

#[derive(Default, Deserialize)]
struct Classes {
    #[serde(default)]
    rows: Vec<String>,
    #[serde(default)]
    cols: Vec<String>,
    #[serde(default)]
    values: Vec<Vec<Option<String>>>,
}

impl Node {
    /// Reads the record of a run; `file` is its name.
    ///
    /// Fails where the text is not a complete record of this version.
    pub fn read(text: &str, file: &str, dictionary: &Dictionary) -> Result<Node, RunError> {
        Run::from_json(text).map(|run| Node::of(&run, file, dictionary))
    }

    /// What is compared of a run.
    pub fn of(run: &Run, file: &str, dictionary: &Dictionary) -> Node {
        let fabric = Fabric::deserialize(&run.fabric).unwrap_or_default();
        let gpus: Vec<&Device> = fabric.nodes.iter().filter(|d| d.kind == "gpu").collect();
        let mut products: Vec<String> = gpus.iter().filter_map(|d| d.product.clone().or(d.part.clone())).collect();
        products.sort();
        products.dedup();
        Node {
            name: run.conditions.host.clone().unwrap_or_else(|| run.machine.name.clone()),
            file: file.to_owned(),
            kind: kind(&fabric),
            products,
            gpus: gpus.len(),
            driver: run.conditions.driver.clone(),
            numbers: numbers(&run.cells, &fabric.classes, dictionary),
        }
    }
}

fn numbers(cells: &[Cell], classes: &Classes, dictionary: &Dictionary) -> Vec<Number> {
    let mut numbers = Vec::with_capacity(cells.len());
    let mut fresh: Vec<(u64, &Cell)> = Vec::new();
    for cell in cells {
        let key = key(cell);
        let void = cell.flags.iter().map(|f| f.kind).find(|kind| kind.voids());
        let usable = cell.usable().filter(|e| e.value.is_finite() && e.value > 0.0);
        let value = usable.map(|e| [e.value, e.low, e.high]);
        numbers.push(Number { key, value, void });
        fresh.push((key, cell));
    }
    let mut known = dictionary.known.lock().unwrap_or_else(PoisonError::into_inner);
    for (key, cell) in fresh {
        known.entry(key).or_insert_with(|| what(cell, classes));
    }
    numbers
}

/// The same number of another run has the same key. Sizes that fit a sample's time differ from run to run.
fn key(cell: &Cell) -> u64 {
    let mut hasher = DefaultHasher::new();
    (cell.test, &cell.work, cell.quantity, cell.unit.name()).hash(&mut hasher);
    if cell.test == Test::Sizes || matches!(cell.work, Work::Collective { .. }) {
        cell.size.hash(&mut hasher);
    }
    hasher.finish()
}

fn what(cell: &Cell, classes: &Classes) -> What {
    let method = match &cell.work {
        Work::Transfers(all) => all.first().map(|t| format!("{:?} {:?} {:?} {:?}", t.engine, t.op, t.via, t.memory)),
        Work::SmallCopies(t) => Some(format!("{:?} {:?} {:?}", t.engine, t.op, t.via)),
        _ => None,
    };
    let (gpus, class) = match &cell.work {
        Work::Transfers(all) => match all.as_slice() {
            [] => (Vec::new(), String::new()),
            [one, ..] => (cell.work.gpus(), classes.between(&one.source, &one.destination)),
        },
        _ => (cell.work.gpus(), String::new()),
    };
    let count = match &cell.work {
        Work::Transfers(all) => all.len(),
        _ => 1,
    };
    What {
        test: cell.test,
        quantity: cell.quantity,
        unit: cell.unit,
        words: ends(&cell.work),
        gpus: gpus.into_iter().map(str::to_owned).collect(),
        class: format!("{} {} {} {count} {class}", cell.test, cell.quantity.name(), method.unwrap_or_default()),
    }
}

impl Classes {
    fn between(&self, a: &str, b: &str) -> String {
        if is_host(a) || is_host(b) {
            return if is_host(a) { "from host".to_owned() } else { "to host".to_owned() };
        }
        let at = |names: &[String], name: &str| names.iter().position(|n| n == name);
        let cell = at(&self.rows, a).zip(at(&self.cols, b)).and_then(|(i, j)| self.values.get(i)?.get(j)?.clone());
        cell.unwrap_or_default()
    }
}

/// Products and path classes in the order of names. Widths and numbers of links are left out: a machine with a narrow one
/// is of the same kind.
fn kind(fabric: &Fabric) -> String {
    let mut devices: Vec<String> = Vec::new();
    for device in fabric.nodes.iter().filter(|d| d.kind == "gpu" || d.kind == "nic") {
        let product = device.part.as_deref().or(device.product.as_deref()).unwrap_or("?");
        devices.push(format!("{} {product}", device.id));
    }
    let class = |class: &Option<String>| match class.as_deref() {
        Some(text) if text.starts_with("NV") => "NV".to_owned(),
        Some(text) => text.to_owned(),
        None => "?".to_owned(),
    };
    let rows = fabric.classes.values.iter().map(|row| row.iter().map(class).collect::<Vec<_>>().join(" "));
    format!("{}\n{}", devices.join(", "), rows.collect::<Vec<_>>().join("\n"))
}
