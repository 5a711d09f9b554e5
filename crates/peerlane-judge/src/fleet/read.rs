//! The numbers of a run, and the kind of its machine, from its record.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use super::document::Test as Column;
use super::{Number, What, facts, names};
use peerlane_machine::matrix::{Engine, Operation, Quantity};
use peerlane_machine::names::is_host;
use peerlane_machine::transfer::{Transfer, Via};
use peerlane_measure::plan::{Test as Family, Work};
use peerlane_measure::run::{Cell, FlagKind, Partial, Run, RunError, ends};

/// From this size on a transfer's rate is that of its path, and not of what starts it.
const LARGE: u64 = 1 << 20;

/// How the GPUs of redacted records are called, up to their number.
const STAND_IN: &str = "00000000-0000-0000-0000-";

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
    /// When it began, in seconds since 1970; 0 where that is unknown.
    pub began: u64,
    /// Stands for its text: copies of a record have the same.
    pub(super) content: u64,
    /// Whether the record has the name of its host.
    pub(super) named_by_host: bool,
    /// What stood in front of its lines.
    pub(super) label: Option<String>,
    /// Its GPUs' own numbers, in order; none where they are unknown.
    pub(super) uuids: Vec<u64>,
    /// Stands for all that rules look at apart from the numbers.
    pub(super) facts: u64,
    /// By key.
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
    /// Reads the record of a run, whole or growing; `file` is its name. A host's name counts, else that of a folder or a file.
    ///
    /// Fails where the text is no record of this version, or none of a machine with a GPU that is known.
    pub fn read(text: &str, file: &str, dictionary: &Dictionary) -> Result<Node, RunError> {
        let run = Partial::read(text)?.run;
        Ok(Node { content: hash(&text), ..Node::of(&run, file, dictionary) })
    }

    /// The same with what stood in front of its lines in the output of `srun -l` or `pdsh`.
    #[must_use]
    pub fn labelled(mut self, label: &str) -> Node {
        if !self.named_by_host {
            label.clone_into(&mut self.name);
        }
        self.label = Some(label.to_owned());
        self
    }

    /// What is compared of a run.
    pub fn of(run: &Run, file: &str, dictionary: &Dictionary) -> Node {
        let fabric = Fabric::deserialize(&run.fabric).unwrap_or_default();
        let gpus: Vec<&Device> = fabric.nodes.iter().filter(|d| d.kind == "gpu").collect();
        let mut products: Vec<String> = gpus.iter().filter_map(|d| d.product.clone().or(d.part.clone())).collect();
        products.sort();
        products.dedup();
        let host = run.conditions.host.clone().filter(|host| !names::is_nameless(host));
        let numbers = numbers(&run.cells, &fabric.classes, dictionary);
        Node {
            named_by_host: host.is_some(),
            name: host.or_else(|| names::of_path(file)).unwrap_or_else(|| run.machine.name.clone()),
            file: file.to_owned(),
            kind: kind(&fabric),
            products,
            gpus: gpus.len(),
            driver: run.conditions.driver.clone(),
            began: run.conditions.began,
            content: hash(&(&run.conditions.host, run.conditions.began, file)),
            label: None,
            uuids: uuids(run),
            facts: facts::of(run),
            numbers,
        }
    }

    /// One of its numbers.
    pub(super) fn number(&self, key: u64) -> Option<&Number> {
        self.numbers.binary_search_by_key(&key, |number| number.key).ok().and_then(|at| self.numbers.get(at))
    }
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// What NVIDIA's GPUs are called for ever: `GPU-` and 36 characters. Stand-ins in redacted records say nothing.
fn uuids(run: &Run) -> Vec<u64> {
    const LENGTH: usize = 36;
    let mut found = Vec::new();
    for source in &run.machine.evidence {
        for (at, mark) in source.text.match_indices("GPU-") {
            let id = source.text.get(at + mark.len()..at + mark.len() + LENGTH).unwrap_or_default();
            let fits = id.len() == LENGTH && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
            if fits && !id.starts_with(STAND_IN) {
                found.push(hash(&id));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn numbers(cells: &[Cell], classes: &Classes, dictionary: &Dictionary) -> Vec<Number> {
    let mut numbers = Vec::with_capacity(cells.len());
    let mut fresh: Vec<(u64, &Cell)> = Vec::new();
    for cell in cells {
        let key = key(cell, classes);
        let void = cell.flags.iter().map(|f| f.kind).find(|kind| kind.voids());
        let usable = cell.usable().filter(|e| e.value.is_finite() && e.value > 0.0);
        // what other programs disturbed is compared with nothing
        if cell.flag(FlagKind::Busy).is_some() {
            continue;
        }
        numbers.push(Number::new(key, usable.map(|e| [e.value, e.low, e.high]), void));
        fresh.push((key, cell));
    }
    // of several the last counts
    numbers.reverse();
    numbers.sort_by_key(|number: &Number| number.key);
    numbers.dedup_by_key(|number| number.key);
    let mut known = dictionary.known.lock().unwrap_or_else(PoisonError::into_inner);
    for (key, cell) in fresh {
        known.entry(key).or_insert_with(|| what(cell, classes));
    }
    numbers
}

/// The same number of another run has the same key. Sizes that fit a sample's time differ from run to run.
fn key(cell: &Cell, classes: &Classes) -> u64 {
    let mut hasher = DefaultHasher::new();
    (cell.test, &cell.work, cell.quantity, cell.unit.name(), class(&cell.work, classes)).hash(&mut hasher);
    if cell.test == Family::Sizes || matches!(cell.work, Work::Collective { .. }) {
        cell.size.hash(&mut hasher);
    }
    hasher.finish()
}

fn what(cell: &Cell, classes: &Classes) -> What {
    let all = match &cell.work {
        Work::Transfers(all) => all.as_slice(),
        Work::SmallCopies(one) => std::slice::from_ref(one),
        _ => &[],
    };
    let class = class(&cell.work, classes);
    let gpus: Vec<String> = cell.work.gpus().into_iter().map(str::to_owned).collect();
    let small = cell.size.0 < LARGE;
    // these are as fast as the CPU runs the driver and this program
    let by_cpu = cell.quantity == Quantity::EnqueueLatency
        || matches!(cell.work, Work::SmallCopies(_) | Work::HostMemory { .. })
        || matches!(cell.test, Family::Pageable | Family::Managed)
        || (small && (cell.test == Family::Sizes || matches!(cell.work, Work::Collective { .. })));
    let method = method(all);
    let size = if small && cell.size.0 > 0 { format!("{} B", cell.size.0) } else { String::new() };
    let parts = [cell.quantity.name(), &method, &class, &size];
    let sort = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    What {
        test: cell.test,
        quantity: cell.quantity,
        unit: cell.unit,
        words: ends(&cell.work),
        set: gpus.len() > 2,
        one_way: all.len() == 1 && gpus.len() == 2,
        gpus,
        by_cpu,
        column: Column {
            name: format!("{}: {sort}", cell.test),
            family: cell.test.to_string(),
            method: [cell.quantity.name(), &method]
                .into_iter()
                .filter(|m| !m.is_empty())
                .collect::<Vec<_>>()
                .join(", "),
            class: class.clone(),
        },
        class: format!("{}: {sort}, {}", cell.test, all.len()),
    }
}

/// `write, copy engine`
fn method(all: &[Transfer]) -> String {
    let Some(first) = all.first() else { return String::new() };
    let op = match first.op {
        Operation::Write => "write",
        Operation::Read => "read",
    };
    let engine = match first.engine {
        Engine::Ce => "copy engine",
        Engine::Sm => "SM",
        Engine::Nic => "NIC",
        Engine::Device => "device",
    };
    let via = match first.via {
        Via::Direct => "",
        Via::Driver => ", through the host by the driver",
        Via::Pipeline => ", through the host by a pipeline",
    };
    format!("{op}, {engine}{via}")
}

/// The path class of a transfer, with the number of NVLinks left out, so that a machine that lost one is compared with the
/// others.
fn class(work: &Work, classes: &Classes) -> String {
    let ends = match work {
        Work::Transfers(all) => all.first().map(|t| (t.source.as_str(), t.destination.as_str())),
        Work::SmallCopies(t) => Some((t.source.as_str(), t.destination.as_str())),
        Work::Loads { gpu, memory } => Some((memory.as_str(), gpu.as_str())),
        Work::Signals { a, b } => Some((a.as_str(), b.as_str())),
        Work::Collective { .. } | Work::HostMemory { .. } => None,
    };
    let between = ends.map(|(a, b)| if a == b { "own memory".to_owned() } else { classes.between(a, b) });
    match between {
        Some(class) if class.starts_with("NV") => "NVLink".to_owned(),
        Some(class) => class,
        None => String::new(),
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
