//! Runs compared with each other: outliers among machines of one kind; and one machine, now and before.
//!
//! Of each run only its numbers are kept, so that thousands fit. Outliers are found by robust statistics, without a model:
//! the rules ([`crate::check`]) find the reasons.

mod before;
mod outliers;
mod read;

pub use before::against;
pub use outliers::{Fleet, Kind, Outlier, compare};
pub use read::{Dictionary, Node};

use crate::check::Cost;
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::names::natural;
use peerlane_machine::subject::Subject;
use peerlane_measure::plan::Test;
use peerlane_measure::run::FlagKind;

/// One number of a run, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Number {
    /// What it is: a key of the [`Dictionary`].
    key: u64,
    /// Value, low and high end of its interval; `None` where there is none.
    value: Option<[f64; 3]>,
    /// Why not.
    void: Option<FlagKind>,
}

/// What a number is.
#[derive(Clone, Debug, PartialEq)]
struct What {
    /// Family.
    test: Test,
    /// What is measured.
    quantity: Quantity,
    /// Its unit.
    unit: Unit,
    /// Its ends, in words: `GPU0→GPU1`.
    words: String,
    /// The GPUs that take part.
    gpus: Vec<String>,
    /// What it is comparable with: family, quantity, method and path class.
    class: String,
}

impl What {
    /// By how much a value is worse than another, as a share: positive where it is.
    fn worse(&self, value: f64, usual: f64) -> f64 {
        match self.quantity {
            Quantity::Bandwidth | Quantity::BusBandwidth => 1.0 - value / usual,
            _ => 1.0 - usual / value,
        }
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
