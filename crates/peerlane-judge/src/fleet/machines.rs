//! Which records are of one machine.

use std::collections::{BTreeMap, BTreeSet};

use super::captured::Fact;
use super::document::Past;
use super::shown::{digits, time};
use super::{Node, Number};
use peerlane_machine::names::natural;

/// The records of one machine, the oldest first.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    /// Unique.
    pub(super) name: String,
    /// Its last record of a run, or else what was last gathered.
    pub(super) newest: &'a Node,
    /// All of them; those of the baseline come first.
    pub(super) records: Vec<&'a Node>,
    /// Of each quantity the newest number, with the place of its record; by key.
    pub(super) current: Vec<(Number, usize)>,
    /// How many of the records are a baseline: the first ones.
    pub(super) baseline: usize,
    /// Its records between nodes, where it has others too.
    pub(super) between: Option<Box<Machine<'a>>>,
}

impl<'a> Machine<'a> {
    fn of(name: String, mut records: Vec<&'a Node>, is_baseline: &dyn Fn(&Node) -> bool) -> Option<Self> {
        records.sort_by(|a, b| {
            let age = |node: &Node| (!is_baseline(node), node.began);
            age(a).cmp(&age(b)).then_with(|| natural(&a.file).cmp(&natural(&b.file))).then(a.content.cmp(&b.content))
        });
        let whole = records.clone();
        records.retain(|node| !whole.iter().any(|other| is_part(node, other)));
        let baseline = records.iter().filter(|node| is_baseline(node)).count();
        let newest = *records.iter().rfind(|node| node.captured.is_none()).or(records.last())?;
        let mut current: Vec<(Number, usize)> = Vec::with_capacity(newest.numbers.len());
        for (at, node) in records.iter().enumerate().skip(baseline).rev().filter(|(_, node)| node.kind == newest.kind) {
            current.extend(node.numbers.iter().map(|number| (*number, at)));
        }
        // stable: of each quantity the newest comes first
        current.sort_by_key(|(number, _)| number.key);
        current.dedup_by_key(|(number, _)| number.key);
        Some(Machine { name, newest, records, current, baseline, between: None })
    }

    /// It by its records between nodes, if there are some.
    pub(super) fn of_nodes(&self) -> Option<&Machine<'a>> {
        if self.newest.between.is_some() { Some(self) } else { self.between.as_deref() }
    }

    /// What was last gathered on it.
    pub(super) fn captured(&self) -> Option<&'a Node> {
        self.records.iter().skip(self.baseline).rfind(|node| node.captured.is_some()).copied()
    }

    /// What it reported then.
    pub(super) fn facts(&self) -> Option<&'a Vec<Fact>> {
        self.captured()?.captured.as_ref()
    }

    /// A number in all records of its kind, the oldest first.
    pub(super) fn history(&self, key: u64) -> Vec<Past> {
        let records = self.records.iter().filter(|node| node.kind == self.newest.kind);
        let past = |node: &&Node| {
            let [value, ..] = node.number(key)?.value()?;
            Some(Past { began: time(Some(node.began)), value: digits(value) })
        };
        records.filter_map(past).collect()
    }

    /// Earlier values of a number, the oldest first.
    pub(super) fn earlier(&self, key: u64) -> Vec<[f64; 3]> {
        let newest = self.current.binary_search_by_key(&key, |(number, _)| number.key);
        let Some(&(_, newest)) = newest.ok().and_then(|at| self.current.get(at)) else { return Vec::new() };
        let records = self.records.iter().take(newest).filter(|node| node.kind == self.newest.kind);
        records.filter_map(|node| node.number(key)?.value()).collect()
    }
}

/// Whether a record is what another was while it grew: of the same moment, and with less in it.
fn is_part(node: &Node, other: &Node) -> bool {
    if let (Some(own), Some(other)) = (&node.between, &other.between) {
        let same = own.began > 0 && own.began == other.began && own.hosts == other.hosts;
        return same && !own.complete && own.cells < other.cells;
    }
    let same = node.captured.is_none() && node.began > 0 && node.began == other.began && node.kind == other.kind;
    same && node.numbers.len() < other.numbers.len()
        && node.numbers.iter().all(|number| other.number(number.key).is_some_and(|n| n.value() == number.value()))
}

/// The machines of these records, in the order of their names, and what is not plain about which is whose. Records with
/// the same content count once.
pub(super) fn machines<'a>(records: &'a [Node], baseline: &'a [Node]) -> (Vec<Machine<'a>>, Vec<String>) {
    let old: BTreeSet<*const Node> = baseline.iter().map(std::ptr::from_ref).collect();
    let is_baseline = |node: &Node| old.contains(&std::ptr::from_ref(node));
    let mut by_name: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    let mut known: BTreeMap<u64, &Node> = BTreeMap::new();
    let mut twice: BTreeSet<&str> = BTreeSet::new();
    for node in records {
        // of two copies the one with the first name, so that the order of files does not matter
        match known.get_mut(&node.content) {
            Some(kept) => {
                let (first, second) = if node.file < kept.file { (node, *kept) } else { (*kept, node) };
                twice.insert(&second.file);
                *kept = first;
            }
            None => drop(known.insert(node.content, node)),
        }
    }
    for node in baseline.iter().filter(|node| !known.contains_key(&node.content)).chain(known.values().copied()) {
        by_name.entry(&node.name).or_default().push(node);
    }
    let mut notes = Vec::new();
    if !twice.is_empty() {
        let twice = twice.len();
        notes.push(format!("{twice} records are copies of others and count once"));
    }
    let (mut all, mut alone) = (Vec::new(), 0);
    for (name, records) in by_name {
        let (between, records): (Vec<&Node>, Vec<&Node>) = records.into_iter().partition(|node| node.between.is_some());
        let mut between = of_nodes(between);
        if between.len() > 1 {
            notes.push(differ(name, &between));
        }
        let mut parts = apart(records);
        if parts.len() > 1 {
            notes.push(split(name, &parts));
            if !between.is_empty() {
                notes.push(format!(
                    "{name}: of several machines of this name, the last is taken for that of the records between nodes"
                ));
            }
        }
        // the last of the one and of the other are one machine
        let last = parts.pop();
        let beside = if last.is_some() { between.pop() } else { None };
        let named = last.into_iter().map(|part| (part, beside.clone()));
        let named = parts.into_iter().map(|part| (part, None)).chain(named);
        let all_of_name: Vec<_> = named.chain(between.into_iter().map(|part| (part, None))).collect();
        for (at, (records, beside)) in all_of_name.into_iter().enumerate() {
            let own = if at == 0 { name.to_owned() } else { format!("{name} ({})", at + 1) };
            if records.len() > 1 && !records.iter().any(|node| node.named_by_host || !node.uuids.is_empty()) {
                notes.push(format!(
                    "{own}: {} records without a host's name are taken as one machine by their path",
                    records.len()
                ));
            }
            // a baseline alone is no machine of now
            let is_now = |records: &[&Node]| records.iter().any(|node| !is_baseline(node));
            let beside = beside.filter(|records| is_now(records));
            let beside = beside.and_then(|records| Machine::of(own.clone(), records, &is_baseline));
            let machine = is_now(&records).then(|| Machine::of(own, records, &is_baseline)).flatten();
            match (machine, beside) {
                (Some(machine), beside) => all.push(Machine { between: beside.map(Box::new), ..machine }),
                (None, Some(beside)) => all.push(beside),
                (None, None) => alone += 1,
            }
        }
    }
    if alone > 0 {
        notes.push(format!("{alone} machines of the baseline have no record now"));
    }
    all.sort_by(|a: &Machine, b: &Machine| natural(&a.name).cmp(&natural(&b.name)).then(a.name.cmp(&b.name)));
    notes.extend(renamed(&all));
    (all, notes)
}

fn split(name: &str, parts: &[Vec<&Node>]) -> String {
    let files: Vec<&str> = parts.iter().filter_map(|part| part.first()).map(|node| node.file.as_str()).collect();
    format!(
        "{name}: its records contradict each other on GPUs; they are {} machines ({})",
        parts.len(),
        files.join(", ")
    )
}

/// The records of one name, split where their GPUs or labels show that they are of several machines.
fn apart(mut records: Vec<&Node>) -> Vec<Vec<&Node>> {
    records.sort_by_key(|a| (a.began, a.content));
    let (known, unknown): (Vec<&Node>, Vec<&Node>) = records.into_iter().partition(|node| !node.uuids.is_empty());
    let mut parts: Vec<Vec<&Node>> = Vec::new();
    for node in known {
        // a card that was replaced leaves the others
        let shares = |part: &Vec<&Node>| part.iter().any(|other| other.uuids.iter().any(|id| node.uuids.contains(id)));
        let (mut joined, rest): (Vec<_>, Vec<_>) = parts.into_iter().partition(shares);
        let mut one: Vec<&Node> = joined.drain(..).flatten().collect();
        one.push(node);
        parts = rest;
        parts.push(one);
    }
    let alike = |node: &Node, part: &[&Node]| {
        part.iter().all(|other| {
            let label = node.label.as_ref().zip(other.label.as_ref()).is_none_or(|(a, b)| a == b);
            label && other.gpus == node.gpus && other.products == node.products
        })
    };
    for node in unknown {
        let mut fits: Vec<&mut Vec<&Node>> = parts.iter_mut().filter(|part| alike(node, part)).collect();
        match fits.as_mut_slice() {
            [one] => one.push(node),
            // of several it is not known which
            _ => parts.push(vec![node]),
        }
    }
    parts.sort_by_key(|part| part.iter().map(|node| (node.began, node.content)).min());
    parts
}

/// The records between nodes of one name, split where a machine of the one can hardly be that of the other: all NICs have other
/// names, or all GPUs are others.
fn of_nodes(mut records: Vec<&Node>) -> Vec<Vec<&Node>> {
    records.sort_by_key(|node| (node.began, node.content));
    let mut parts: Vec<Vec<&Node>> = Vec::new();
    for node in records {
        let alike = |part: &&mut Vec<&Node>| part.last().is_some_and(|last| last.between_alike(node));
        match parts.iter_mut().find(alike) {
            Some(part) => part.push(node),
            None => parts.push(vec![node]),
        }
    }
    parts.sort_by_key(|part| part.last().map(|node| (node.began, node.content)));
    parts
}

fn differ(name: &str, parts: &[Vec<&Node>]) -> String {
    let files: Vec<&str> = parts.iter().filter_map(|part| part.first()).map(|node| node.file.as_str()).collect();
    format!(
        "{name}: records between nodes show other NICs or GPUs; they are {} machines ({})",
        parts.len(),
        files.join(", ")
    )
}

/// Machines with the same GPUs under several names.
fn renamed(machines: &[Machine]) -> Option<String> {
    let mut by_gpus: BTreeMap<&[u64], Vec<&str>> = BTreeMap::new();
    for machine in machines.iter().filter(|m| !m.newest.uuids.is_empty()) {
        by_gpus.entry(&machine.newest.uuids).or_default().push(&machine.name);
    }
    let same: Vec<String> = by_gpus.into_values().filter(|names| names.len() > 1).map(|n| n.join(" = ")).collect();
    let shown = same.iter().take(4).cloned().collect::<Vec<_>>().join("; ");
    let more = if same.len() > 4 { format!("; and {} more", same.len() - 4) } else { String::new() };
    (!same.is_empty()).then(|| format!("the same GPUs under several names, counted apart: {shown}{more}"))
}
