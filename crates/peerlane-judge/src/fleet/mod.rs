//! Records of many machines: which machine each is of, what differs from peers and from earlier, and what the rules find.
//!
//! Of each record only its numbers are kept, so that tens of thousands fit. Peers and earlier records are compared by
//! robust statistics, without a model; the rules ([`crate::check`]) look at the newest record of each machine.
//! `docs/rules.md`, "Comparing machines", has the thresholds with their reasons.

mod before;
mod between;
mod captured;
mod culprit;
mod document;
mod facts;
mod history;
mod judge;
mod machines;
mod names;
mod network;
mod outliers;
mod read;
mod rules;
mod shown;
mod usual;

pub use before::against;
pub use captured::Capture;
pub use document::{Figures, Fleet, Kind, Member, Outlier, Past, Shared, Test, Unread};
pub use history::values;
pub use judge::{Records, compare, judge};
pub use names::of_path as machine_of_path;
pub use read::{Dictionary, Node};
pub use rules::Again;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::finding::Cost;
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::names::natural;
use peerlane_machine::subject::Subject;
use peerlane_measure::run::FlagKind;

/// By keys of the [`Dictionary`], which are hashes already: hashing millions of them again takes a second.
type Keyed<V> = HashMap<u64, V, BuildHasherDefault<AsItIs>>;

/// Takes a key for its hash.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// One number of a run, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Number {
    /// What it is: a key of the [`Dictionary`].
    key: u64,
    /// Not a number where there is no value.
    value: f64,
    /// Ends of its interval.
    low: f32,
    high: f32,
    /// Why there is no value.
    void: Option<FlagKind>,
}

impl Number {
    fn new(key: u64, value: Option<[f64; 3]>, void: Option<FlagKind>) -> Self {
        let [value, low, high] = value.unwrap_or([f64::NAN; 3]);
        Number { key, value, low: low as f32, high: high as f32, void }
    }

    /// Value, low and high end of its interval; `None` where there is none.
    fn value(&self) -> Option<[f64; 3]> {
        // the ends are rounded, and the value lies between them
        let (low, high) = (f64::from(self.low).min(self.value), f64::from(self.high).max(self.value));
        (!self.value.is_nan()).then_some([self.value, low, high])
    }
}

/// What a number is.
#[derive(Clone, Debug, PartialEq)]
struct What {
    /// Its family: `pairs`, or between nodes `verbs write`.
    test: String,
    /// What is measured.
    quantity: Quantity,
    /// Its unit.
    unit: Unit,
    /// Its ends, in words: `GPU0→GPU1`.
    words: String,
    /// The GPUs that take part.
    gpus: Vec<String>,
    /// Whether more than two GPUs take part.
    set: bool,
    /// Whether it is one transfer, from the first of two GPUs to the second.
    one_way: bool,
    /// Whether it is as fast as the CPU runs programs: no reason to call a machine sick.
    by_cpu: bool,
    /// Its column in tables.
    column: document::Test,
    /// What it is comparable with: family, quantity, method and path class.
    class: String,
}

impl What {
    /// Whether more is better.
    fn is_rate(&self) -> bool {
        matches!(self.quantity, Quantity::Bandwidth | Quantity::BusBandwidth)
    }

    /// By how much a value is worse than another, as a share: positive where it is.
    fn worse(&self, value: f64, usual: f64) -> f64 {
        if self.is_rate() { 1.0 - value / usual } else { 1.0 - usual / value }
    }

    /// `GPU0→GPU1 (pairs, bandwidth)`
    fn describe(&self) -> String {
        format!("{} ({}, {})", self.words, self.test, self.quantity.name())
    }

    /// What a value costs compared with a usual one; `None` for times.
    fn cost(&self, usual: f64, value: f64) -> Option<Cost> {
        Cost::of_rate(self.unit.rate(usual)?.gb(), self.unit.rate(value)?.gb())
    }

    /// As a subject: both GPUs, in the order of their names, or the one with the host.
    fn subject(&self) -> Subject {
        let mut nodes = self.gpus.clone();
        nodes.sort_by(|a, b| natural(a).cmp(&natural(b)));
        match nodes.as_slice() {
            [a, b] => Subject::Pair(a.clone(), b.clone()),
            [one] => Subject::Node(one.clone()),
            _ => Subject::Group { nodes, words: self.words.clone() },
        }
    }
}

/// `a; b; and 3 more`: some of `all` numbers.
fn listed(shown: &[String], all: usize) -> String {
    let more = all.saturating_sub(shown.len());
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", shown.join("; "))
}

/// The GPU that all of these have in common, if there is one; else what they are between, each once.
fn subjects<'a>(all: impl Iterator<Item = &'a What> + Clone) -> Vec<Subject> {
    let mut common: Option<Vec<&String>> = None;
    for what in all.clone() {
        common = Some(match common {
            None => what.gpus.iter().collect(),
            Some(known) => known.into_iter().filter(|gpu| what.gpus.contains(gpu)).collect(),
        });
    }
    let mut named: Vec<Subject> = Vec::new();
    for subject in all.map(What::subject) {
        if !named.contains(&subject) {
            named.push(subject);
        }
    }
    match common.as_deref() {
        // several pairs share one GPU: that one
        Some([one]) if named.len() > 1 => Subject::nodes_of([*one]),
        _ => named,
    }
}
