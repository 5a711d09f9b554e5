//! What two records of one machine differ in.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use peerlane_machine::matrix::Quantity;
use peerlane_machine::names::is_host;
use peerlane_machine::schema::JsonSchema;
use peerlane_machine::units::Bytes;
use peerlane_measure::plan::{Test, Work};
use peerlane_measure::run::{Cell, Estimate, Run, ends};
use serde::Serialize;

/// A number has changed by this share at least, and by more than both intervals: medians of an idle machine agree within 1 %.
const CHANGED: f64 = 0.02;
/// Of numbers that have not changed, so many lie within what is said of them.
const MOST: f64 = 0.95;
/// Transfers of a group that are named.
const NAMED: usize = 3;

/// What a machine's later record has otherwise than its earlier one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Changes {
    /// Numbers that both have.
    pub compared: usize,
    /// Of these, those that changed by 2 % or more, and by more than both intervals.
    pub changed: usize,
    /// By what 95 % of the others differ at most, as a share.
    pub others: f64,
    /// What changed, by family and by the GPU or NIC that most of its transfers have in common; the most first.
    pub groups: Vec<Changed>,
    /// Numbers that only the earlier record has, and only the later one.
    pub alone: [usize; 2],
}

/// Numbers of one family that changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Changed {
    /// The family: `pairs`.
    pub test: String,
    /// Their transfers: `GPU2→GPU0; GPU2→GPU1`; of more than three the one that changed most, and whose the others are.
    pub ends: String,
    /// How many.
    pub values: usize,
    /// Of the one that changed most: before.
    pub before: f64,
    /// And after.
    pub after: f64,
    /// Their unit.
    pub unit: String,
}

impl Changed {
    /// By what share it is more than before.
    pub fn change(&self) -> f64 {
        self.after / self.before - 1.0
    }
}

/// A number of both records.
struct Number<'r> {
    cell: &'r Cell,
    was: f64,
    now: f64,
}

impl Number<'_> {
    fn change(&self) -> f64 {
        (self.now / self.was - 1.0).abs()
    }
}

/// What a cell is a number of.
fn key(cell: &Cell) -> (Test, &Work, Bytes, Quantity) {
    (cell.test, &cell.work, cell.size, cell.quantity)
}

/// Numbers of a run by what they are of; of several the last counts.
fn numbers(run: &Run) -> HashMap<(Test, &Work, Bytes, Quantity), Estimate> {
    let usable = |cell: &Cell| cell.usable().filter(|estimate| estimate.value > 0.0);
    run.cells.iter().filter_map(|cell| Some((key(cell), usable(cell)?))).collect()
}

/// Of two runs, the earlier one first; `None` where they have no number in common.
pub(super) fn changes(before: &Run, after: &Run) -> Option<Changes> {
    let (mut earlier, later) = (numbers(before), numbers(after));
    let (mut others, mut families): (Vec<f64>, BTreeMap<_, Vec<Number>>) = Default::default();
    for cell in &after.cells {
        let Some(now) = later.get(&key(cell)) else { continue };
        let Some(was) = earlier.remove(&key(cell)) else { continue };
        let number = Number { cell, was: was.value, now: now.value };
        if number.change() >= CHANGED && (now.high < was.low || now.low > was.high) {
            families.entry((cell.test, cell.unit.name())).or_default().push(number);
        } else {
            others.push(number.change());
        }
    }
    let changed = families.values().map(Vec::len).sum();
    let compared = others.len() + changed;
    let mut found = Changes { compared, changed, alone: [earlier.len(), later.len() - compared], ..Changes::default() };
    others.sort_by(f64::total_cmp);
    let most = ((others.len() as f64 * MOST).ceil() as usize).saturating_sub(1);
    found.others = others.get(most).copied().unwrap_or_default();
    found.groups = families.into_values().flat_map(grouped).collect();
    found.groups.sort_by(|a, b| b.change().abs().total_cmp(&a.change().abs()));
    (found.compared > 0).then_some(found)
}

/// The GPUs and NICs that take part.
fn parts_of<'n>(number: &'n Number) -> impl Iterator<Item = &'n str> {
    number.cell.work.nodes().into_iter().filter(|name| !is_host(name))
}

/// Numbers of a family by the GPU or NIC that most of them have in common.
fn grouped(mut left: Vec<Number>) -> Vec<Changed> {
    let mut groups = Vec::new();
    while !left.is_empty() {
        let mut parts: BTreeMap<&str, usize> = BTreeMap::new();
        left.iter().flat_map(parts_of).for_each(|part| *parts.entry(part).or_default() += 1);
        let common = parts.into_iter().max_by_key(|(part, count)| (*count, Reverse(*part)));
        let common = common.map(|(part, _)| part.to_owned());
        let is_of_it =
            |number: &Number| common.as_deref().is_none_or(|common| parts_of(number).any(|part| part == common));
        let (mut of_it, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(is_of_it);
        of_it.sort_by(|a, b| b.change().total_cmp(&a.change()));
        groups.extend(group(common.as_deref(), &of_it));
        left = rest;
    }
    groups
}

fn group(common: Option<&str>, numbers: &[Number]) -> Option<Changed> {
    let most = numbers.first()?;
    let mut words: Vec<String> = numbers.iter().map(|number| ends(&number.cell.work)).collect();
    let values = numbers.len();
    let ends = if values <= NAMED {
        words.sort();
        words.dedup();
        words.join("; ")
    } else {
        let of = common.map_or_else(String::new, |common| format!(" of {common}"));
        format!("{} and {} more{of}", words.swap_remove(0), values - 1)
    };
    let (test, unit) = (most.cell.test.name().to_owned(), most.cell.unit.name().to_owned());
    Some(Changed { test, ends, values, before: most.was, after: most.now, unit })
}
