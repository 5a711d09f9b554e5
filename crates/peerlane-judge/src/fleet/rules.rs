//! What the rules find on machines, each by its newest record.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::captured::{Fact, reported};
use super::{Keyed, Node};
use crate::check::{Context, Settings, check_with, verdict};
use crate::finding::Finding;
use crate::verdict::Verdict;
use peerlane_design::case::Case;
use peerlane_model::comparison::Comparison;
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;

/// Reads a machine again: with the run of a record, or as it was gathered.
pub type Again<'a> = &'a (dyn Fn(&Node) -> Option<Case> + Sync);

/// A machine to look at.
pub(super) struct Look<'a> {
    /// What waivers call it.
    pub(super) name: &'a str,
    pub(super) node: &'a Node,
    /// Machines with the same are looked at once; `None` for one that is like no other.
    pub(super) like: Option<u64>,
    /// Values of which the expectation is wanted.
    pub(super) wanted: Vec<f64>,
}

/// What was found on one.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Faults from warnings on, the worst first.
    pub(super) faults: Vec<Finding>,
    /// The verdict on it alone, where the rules looked.
    pub(super) verdict: Option<Verdict>,
    /// How many the site waives.
    pub(super) waived: usize,
    /// What the machine reports of its parts.
    pub(super) facts: Arc<[Fact]>,
    /// What the model expects where a wanted value was measured.
    pub(super) expected: Vec<(f64, f64)>,
    /// Records that name a part, by its printed name, where there are several.
    pub(super) repeats: BTreeMap<String, usize>,
}

/// Looks at machines, in the order given.
pub(super) fn look(machines: &[Look], again: Again, settings: &Settings) -> Vec<Seen> {
    let mut first: Keyed<usize> = Keyed::default();
    let of: Vec<usize> = machines
        .iter()
        .enumerate()
        .map(|(at, machine)| machine.like.map_or(at, |like| *first.entry(like).or_insert(at)))
        .collect();
    let jobs: Vec<usize> = of.iter().enumerate().filter(|(at, of)| at == *of).map(|(at, _)| at).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Seen>> = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some(at) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(machine) = machines.get(*at) else { continue };
            let seen = again(machine.node).map(|case| one(case, machine, settings)).unwrap_or_default();
            done.lock().unwrap_or_else(PoisonError::into_inner).insert(*at, seen);
        }
    };
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get).min(jobs.len());
    if threads > 1 {
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    } else {
        // a browser's module has no threads
        work();
    }
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    of.iter().map(|at| done.get(at).cloned().unwrap_or_default()).collect()
}

fn one(mut case: Case, machine: &Look, settings: &Settings) -> Seen {
    machine.name.clone_into(&mut case.machine.name);
    let facts = reported(&case.machine).into();
    let model = Model::new(&case.machine, Parts::embedded());
    let comparison = Comparison::of(&model);
    let context = Context::of(&case, &comparison);
    let checked = check_with(&context, settings);
    Seen {
        facts,
        verdict: Some(verdict(&context, &checked.findings)),
        waived: checked.waived.iter().filter(|w| w.finding.is_trouble()).count(),
        faults: checked.findings.into_iter().filter(Finding::is_trouble).collect(),
        expected: machine.wanted.iter().filter_map(|value| Some((*value, expected(&comparison, *value)?))).collect(),
        repeats: BTreeMap::new(),
    }
}

/// What should stand where this value was measured.
fn expected(comparison: &Comparison, value: f64) -> Option<f64> {
    for series in comparison.matrices().iter().rev() {
        for (i, row) in series.matrix().values.iter().enumerate() {
            if let Some(j) = row.iter().position(|own| *own == Some(value)) {
                return series.expected(i, j).map(|expected| expected.value);
            }
        }
    }
    None
}
