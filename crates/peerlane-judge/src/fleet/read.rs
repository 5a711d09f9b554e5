//! The numbers of a run, and the kind of its machine, from its record.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use super::between::About;
use super::captured::Fact;
use super::document::Test as Column;
use super::{Keyed, Number, What, facts, names};
use peerlane_machine::matrix::{Engine, Operation, Quantity};
use peerlane_machine::names::is_host;
use peerlane_machine::transfer::{Transfer, Via};
use peerlane_measure::plan::{Test as Family, Work};
use peerlane_measure::run::excerpt::{Excerpt, Memory, Number as Read};
use peerlane_measure::run::{FlagKind, Partial, Run, RunError, ends};
use peerlane_read::evidence::from_json;

/// From this size on a transfer's rate is that of its path, and not of what starts it.
const LARGE: u64 = 1 << 20;

/// How the GPUs of redacted records are called, up to their number.
const STAND_IN: &str = "00000000-0000-0000-0000-";

/// What the numbers of many runs are, each listed once.
#[derive(Debug, Default)]
pub struct Dictionary {
    pub(super) known: Mutex<Keyed<What>>,
    /// Keys of numbers by what stands in records, so that each text is read once.
    keys: Mutex<Keyed<u64>>,
    /// The same for descriptions of machines.
    fabrics: Mutex<Keyed<Arc<Described>>>,
    /// What earlier records held, for each thread that reads.
    memories: Mutex<Vec<(Memory, Last)>>,
}

/// The last description of a machine as JSON, and what it says: most records of a fleet have the same.
type Last = Option<(String, Arc<Described>)>;

impl Dictionary {
    pub(super) fn take(&self) -> Keyed<What> {
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
    /// Stands for machine, moment and numbers: copies of a record have the same.
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
    /// Whether steps of its plan have no value that they should have.
    pub(super) lacks: bool,
    /// What it reported, where it is no record of a run but of what `peerlane gather` saved.
    pub(super) captured: Option<Vec<Fact>>,
    /// The record between nodes that it took part in, where it is that.
    pub(super) between: Option<Arc<About>>,
}

/// What is compared of a record's description of its machine.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) kind: String,
    pub(super) products: Vec<String>,
    pub(super) gpus: usize,
    classes: Classes,
    /// Stands for the classes.
    hash: u64,
}

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

#[derive(Debug, Default, Deserialize, Hash)]
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
        let memories = || dictionary.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut memory, mut last) = memories().pop().unwrap_or_default();
        let node = Excerpt::read(text, &mut memory).and_then(|excerpt| {
            let known = last.as_ref().filter(|(fabric, _)| *fabric == excerpt.fabric).map(|(_, known)| known.clone());
            let described = known.unwrap_or_else(|| {
                let fresh = described(&excerpt.fabric, dictionary);
                last = Some((excerpt.fabric.clone().into_owned(), fresh.clone()));
                fresh
            });
            Node::compared(&excerpt, file, &described, dictionary)
        });
        memories().push((memory, last));
        match node {
            Some(node) => Ok(node),
            None => Ok(Node::of(&Partial::read(text)?.run, file, dictionary)),
        }
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
        let excerpt = Excerpt::of(run);
        // all work of a run is known
        let described = described(&excerpt.fabric, dictionary);
        Node::compared(&excerpt, file, &described, dictionary)
            .unwrap_or_else(|| Node::new(&excerpt, file, &described, Vec::new()))
    }

    /// `None` where a number is of a kind that this version does not know.
    fn compared(excerpt: &Excerpt, file: &str, described: &Described, dictionary: &Dictionary) -> Option<Node> {
        let numbers = numbers(&excerpt.numbers, described, dictionary)?;
        Some(Node::new(excerpt, file, described, numbers))
    }

    fn new(excerpt: &Excerpt, file: &str, described: &Described, numbers: Vec<Number>) -> Node {
        let conditions = &excerpt.conditions;
        let host = conditions.host.clone().filter(|host| !names::is_nameless(host));
        Node {
            named_by_host: host.is_some(),
            name: host.or_else(|| names::of_path(file)).unwrap_or_else(|| excerpt.name.clone().into_owned()),
            file: file.to_owned(),
            kind: described.kind.clone(),
            products: described.products.clone(),
            gpus: described.gpus,
            driver: conditions.driver.clone(),
            began: conditions.began,
            content: content(excerpt, &numbers),
            label: None,
            uuids: uuids(excerpt.evidence.iter().map(|(_, text)| text.as_ref())),
            facts: facts::of(excerpt),
            numbers,
            lacks: excerpt.lacks(),
            captured: None,
            between: None,
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

fn content(excerpt: &Excerpt, numbers: &[Number]) -> u64 {
    let values: Vec<(u64, u64)> = numbers.iter().map(|number| (number.key, number.value.to_bits())).collect();
    let machine = (&excerpt.name, &excerpt.system, &excerpt.evidence);
    hash(&(machine, &excerpt.conditions.host, excerpt.conditions.began, excerpt.complete, values))
}

/// What NVIDIA's GPUs are called for ever: `GPU-` and 36 characters. Stand-ins in redacted records say nothing.
pub(super) fn uuids<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<u64> {
    const LENGTH: usize = 36;
    let mut found = Vec::new();
    for text in texts {
        for (at, mark) in text.match_indices("GPU-") {
            let id = text.get(at + mark.len()..at + mark.len() + LENGTH).unwrap_or_default();
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

pub(super) fn described(fabric: &str, dictionary: &Dictionary) -> Arc<Described> {
    let locked = || dictionary.fabrics.lock().unwrap_or_else(PoisonError::into_inner);
    let of = hash(&fabric);
    if let Some(known) = locked().get(&of) {
        return known.clone();
    }
    let fabric: Fabric = from_json(fabric).unwrap_or_default();
    let gpus: Vec<&Device> = fabric.nodes.iter().filter(|d| d.kind == "gpu").collect();
    let mut products: Vec<String> = gpus.iter().filter_map(|d| d.product.clone().or(d.part.clone())).collect();
    products.sort();
    products.dedup();
    let (kind, gpus, hash) = (kind(&fabric), gpus.len(), hash(&fabric.classes));
    let described = Arc::new(Described { kind, products, gpus, classes: fabric.classes, hash });
    locked().insert(of, described.clone());
    described
}

fn numbers(all: &[Read], described: &Described, dictionary: &Dictionary) -> Option<Vec<Number>> {
    let mut numbers = Vec::with_capacity(all.len());
    let stands =
        |read: &Read| hash(&(read.test, read.stands, read.size, read.quantity, read.unit.name(), described.hash));
    // what other programs disturbed is compared with nothing
    let all: Vec<(u64, &Read)> =
        all.iter().filter(|read| !read.flags.contains(&FlagKind::Busy)).map(|read| (stands(read), read)).collect();
    let mut keys = dictionary.keys.lock().unwrap_or_else(PoisonError::into_inner);
    for (stands, read) in all {
        let key = match keys.get(&stands) {
            Some(key) => *key,
            None => {
                let work = read.work()?;
                let class = class(&work, &described.classes);
                let key = key(read, &work, &class);
                let mut known = dictionary.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.entry(key).or_insert_with(|| what(read, &work, class));
                keys.insert(stands, key);
                key
            }
        };
        let usable = read.usable().filter(|[value, ..]| value.is_finite() && *value > 0.0);
        numbers.push(Number::new(key, usable, read.void()));
    }
    drop(keys);
    // of several the last counts
    numbers.reverse();
    numbers.sort_by_key(|number: &Number| number.key);
    numbers.dedup_by_key(|number| number.key);
    Some(numbers)
}

/// The same number of another run has the same key. Sizes that fit a sample's time differ from run to run.
fn key(read: &Read, work: &Work, class: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (read.test, work, read.quantity, read.unit.name(), class).hash(&mut hasher);
    if read.test == Family::Sizes || work.kind().is_swept() {
        read.size.hash(&mut hasher);
    }
    hasher.finish()
}

fn what(read: &Read, work: &Work, class: String) -> What {
    let (all, kind) = (work.transfers(), work.kind());
    let gpus: Vec<String> = work.gpus().into_iter().map(str::to_owned).collect();
    let small = read.size.0 < LARGE;
    // these are as fast as the CPU runs the driver and this program
    let by_cpu = read.quantity == Quantity::EnqueueLatency
        || kind.is_by_cpu()
        || matches!(read.test, Family::Pageable | Family::Managed)
        || (small && (read.test == Family::Sizes || kind.is_swept()));
    let method = match work {
        Work::Rdma(rdma) if rdma.via != Via::Direct => "staged".to_owned(),
        _ => method(all),
    };
    let size = if small && read.size.0 > 0 { format!("{} B", read.size.0) } else { String::new() };
    let parts = [read.quantity.name(), &method, &class, &size];
    let sort = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    What {
        test: read.test.to_string(),
        quantity: read.quantity,
        unit: read.unit,
        words: ends(work),
        set: gpus.len() > 2,
        one_way: all.len() == 1 && gpus.len() == 2,
        gpus,
        by_cpu,
        class: format!("{}: {sort}, {}", read.test, all.len()),
        column: Column {
            name: format!("{}: {sort}", read.test),
            family: read.test.to_string(),
            method: [read.quantity.name(), &method]
                .into_iter()
                .filter(|m| !m.is_empty())
                .collect::<Vec<_>>()
                .join(", "),
            class,
        },
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
    let between = work.kind().ends().map(|(a, b)| if a == b { "own memory".to_owned() } else { classes.between(a, b) });
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
