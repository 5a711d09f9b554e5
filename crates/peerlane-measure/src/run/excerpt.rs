//! The part of a record that machines are compared by, read without the rest: ten thousand records take seconds then.
//!
//! What is alike in many records stays text, so that whoever compares them reads it once.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{Cell, Conditions, FlagKind, MAX_RUN_BYTES, Run, SCHEMA};
use crate::plan::{Test, Work};
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::one_line::one_line;
use peerlane_machine::units::Bytes;
use peerlane_read::evidence::from_json;

/// What machines are compared by.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt<'a> {
    /// The machine's name.
    pub name: Cow<'a, str>,
    /// A simulated machine's system file.
    pub system: Option<Cow<'a, str>>,
    /// What a live machine reported: names and texts.
    pub evidence: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// [`Run::fabric`] as JSON.
    pub fabric: Cow<'a, str>,
    /// Under which conditions.
    pub conditions: Conditions,
    /// False where steps of the plan have no answer yet.
    pub complete: bool,
    /// [`Run::counters`] as JSON.
    pub counters: Cow<'a, str>,
    /// The answers.
    pub numbers: Vec<Number<'a>>,
}

/// A cell without its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Number<'a> {
    /// [`Cell::test`]
    pub test: Test,
    /// [`Cell::work`] as JSON; [`Number::work`] reads it.
    pub text: Cow<'a, str>,
    /// [`Cell::size`]
    pub size: Bytes,
    /// [`Cell::quantity`]
    pub quantity: Quantity,
    /// [`Cell::unit`]
    pub unit: Unit,
    /// Value, low and high end of its interval; `None` where there is none.
    pub estimate: Option<[f64; 3]>,
    /// Kinds of its flags.
    pub flags: Vec<FlagKind>,
}

/// The fields of a [`Run`] that are needed. The others must be there.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    schema: Cow<'a, str>,
    #[serde(rename = "peerlane")]
    _peerlane: IgnoredAny,
    #[serde(borrow)]
    machine: Machine<'a>,
    #[serde(borrow, default)]
    fabric: Option<&'a RawValue>,
    #[serde(rename = "plan")]
    _plan: IgnoredAny,
    #[serde(borrow)]
    conditions: &'a RawValue,
    #[serde(rename = "wall")]
    _wall: IgnoredAny,
    complete: bool,
    #[serde(borrow, default)]
    counters: Option<&'a RawValue>,
    #[serde(borrow)]
    cells: Vec<Answer<'a>>,
}

#[derive(Deserialize)]
struct Machine<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    system: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    evidence: Vec<Source<'a>>,
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    test: Test,
    #[serde(borrow)]
    work: &'a RawValue,
    size: Bytes,
    quantity: Quantity,
    unit: Unit,
    #[serde(default)]
    value: Option<f64>,
    #[serde(default)]
    low: Option<f64>,
    #[serde(default)]
    high: Option<f64>,
    #[serde(default)]
    flags: Vec<Flagged>,
}

#[derive(Deserialize)]
struct Flagged {
    kind: FlagKind,
}

impl<'a> Excerpt<'a> {
    /// That of a whole record. `None` where the text may be something else, which [`super::Partial::read`] finds out.
    pub fn read(text: &'a str) -> Option<Self> {
        if text.len() > MAX_RUN_BYTES {
            return None;
        }
        let record: Record = serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()?;
        let raw = |part: Option<&'a RawValue>| part.map_or("", RawValue::get).into();
        let evidence = record.machine.evidence.into_iter().map(|source| (source.name, source.text));
        (record.schema == SCHEMA).then_some(Excerpt {
            name: one_line(&record.machine.name).into_owned().into(),
            system: record.machine.system,
            evidence: evidence.collect(),
            fabric: raw(record.fabric),
            conditions: from_json(record.conditions.get()).ok()?,
            complete: record.complete,
            counters: raw(record.counters),
            numbers: record.cells.into_iter().map(Number::from).collect(),
        })
    }

    /// That of a run.
    pub fn of(run: &'a Run) -> Self {
        let evidence =
            run.machine.evidence.iter().map(|source| (source.name.as_str().into(), source.text.as_str().into()));
        Excerpt {
            name: run.machine.name.as_str().into(),
            system: run.machine.system.as_deref().map(Cow::from),
            evidence: evidence.collect(),
            fabric: run.fabric.to_string().into(),
            conditions: run.conditions.clone(),
            complete: run.complete,
            counters: serde_json::to_string(&run.counters).unwrap_or_default().into(),
            numbers: run.cells.iter().map(Number::of).collect(),
        }
    }
}

impl Number<'_> {
    fn of(cell: &Cell) -> Self {
        Number {
            test: cell.test,
            text: serde_json::to_string(&cell.work).unwrap_or_default().into(),
            size: cell.size,
            quantity: cell.quantity,
            unit: cell.unit,
            estimate: cell.estimate.map(|e| [e.value, e.low, e.high]),
            flags: cell.flags.iter().map(|flag| flag.kind).collect(),
        }
    }

    /// What was done; `None` where this version does not know it.
    pub fn work(&self) -> Option<Work> {
        from_json(&self.text).ok()
    }

    /// Its value with its interval, unless a flag makes it worthless.
    pub fn usable(&self) -> Option<[f64; 3]> {
        self.estimate.filter(|_| self.void().is_none())
    }

    /// The flag that makes it worthless.
    pub fn void(&self) -> Option<FlagKind> {
        self.flags.iter().copied().find(|kind| kind.voids())
    }
}

impl<'a> From<Answer<'a>> for Number<'a> {
    fn from(answer: Answer<'a>) -> Self {
        let Answer { test, work, size, quantity, unit, value, low, high, flags } = answer;
        let estimate = value.zip(low).zip(high).map(|((value, low), high)| [value, low, high]);
        let flags = flags.into_iter().map(|flag| flag.kind).collect();
        Number { test, text: work.get().into(), size, quantity, unit, estimate, flags }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_of_a_text_is_that_of_its_run() {
        let captures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures");
        for name in ["h200x2-vm-runs/default.json", "h200x2-vm-runs/sizes.json", "h200x4-vm-runs/collectives.json"] {
            let text = std::fs::read_to_string(format!("{captures}/{name}")).unwrap();
            let run = Run::from_json(&text).unwrap();
            let (mut read, of) = (Excerpt::read(&text).unwrap(), Excerpt::of(&run));
            let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
            assert_eq!(json(&read.fabric), json(&of.fabric), "{name}");
            assert!(read.numbers.iter().all(|number| number.work().is_some()), "{name}");
            (read.fabric, read.counters) = (of.fabric.clone(), of.counters.clone());
            assert_eq!(read, of, "{name}");
        }
    }

    #[test]
    fn what_is_no_whole_record_of_this_version_has_none() {
        let text = include_str!("../../../../captures/h200x2-vm-runs/default.json");
        assert!(Excerpt::read(text).is_some());
        for (from, to) in [(SCHEMA, "peerlane/run/9"), ("\"plan\":", "\"plans\":"), ("\"cells\":[", "\"cells\":[1,")] {
            assert_eq!(Excerpt::read(&text.replacen(from, to, 1)), None, "{from}");
        }
        assert_eq!(Excerpt::read(text.split_at(text.len() - 3).0), None);
    }
}
