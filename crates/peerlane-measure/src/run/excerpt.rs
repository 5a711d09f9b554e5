//! The part of a record that machines are compared by, read without the rest: ten thousand records take seconds then.
//!
//! What is alike in many records stays text, so that whoever compares them reads it once. A reader made for this (`scan`)
//! passes over most of a record; where it is in doubt, it leaves the record to the general one.

mod scan;

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use serde::Deserialize;

use self::scan::Scan;
use super::{Cell, Conditions, FlagKind, MAX_RUN_BYTES, Run, SCHEMA, check};
use crate::plan::{Plan, Test, Work};
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
    /// Steps of the plan.
    pub planned: usize,
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
    /// The same for the same text.
    pub stands: u64,
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

/// What earlier records held: of a fleet they are mostly alike, and what stands again in a text is compared, not read.
#[derive(Debug, Default)]
pub struct Memory {
    fabric: String,
    plan: String,
    /// The last plan whose steps were counted, and how many there are.
    counted: (String, usize),
    /// Of each cell, by its place, what comes before its value.
    cells: Vec<Option<Begun>>,
}

/// The start of a cell: all that the value is of.
#[derive(Clone, Debug)]
struct Begun {
    /// From the brace on, up to the value.
    text: String,
    head: Head,
    /// Where [`Head::work`] is in the text.
    work: Range<usize>,
}

/// What a value is of.
#[derive(Clone, Copy, Debug)]
struct Head {
    test: Test,
    /// [`Number::stands`]
    work: u64,
    size: Bytes,
    quantity: Quantity,
    unit: Unit,
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
struct Flagged {
    kind: FlagKind,
}

impl<'a> Excerpt<'a> {
    /// That of a whole record. `None` where the text may be something else, which [`super::Partial::read`] finds out: JSON
    /// that is wrong anywhere, also in what is passed over, and rare spellings.
    pub fn read(text: &'a str, memory: &mut Memory) -> Option<Self> {
        if text.len() > MAX_RUN_BYTES {
            return None;
        }
        let text = text.trim_start_matches('\u{feff}');
        check(text).ok()?;
        let mut scan = Scan::new(text);
        let (mut schema, mut peerlane, mut wall) = (None, None, None);
        let (mut machine, mut fabric, mut plan, mut conditions) = (None::<Machine>, None, None, None::<Conditions>);
        let (mut complete, mut counters, mut cells) = (None::<bool>, None, None);
        scan.fields(false, |scan, key| match key {
            "schema" => once(&mut schema, scan.typed::<Cow<str>>()?),
            "peerlane" => once(&mut peerlane, scan.value()?),
            "machine" => once(&mut machine, scan.typed()?),
            "fabric" => once(&mut fabric, scan.known(&mut memory.fabric)?),
            "plan" => once(&mut plan, scan.known(&mut memory.plan)?),
            "conditions" => once(&mut conditions, from_json(scan.value()?).ok()?),
            "wall" => once(&mut wall, scan.value()?),
            "complete" => once(&mut complete, scan.typed()?),
            "counters" => once(&mut counters, scan.value()?),
            "cells" => {
                let mut numbers = Vec::with_capacity(memory.cells.len());
                scan.items(|scan| {
                    numbers.push(cell(scan, numbers.len(), &mut memory.cells)?);
                    Some(())
                })?;
                once(&mut cells, numbers)
            }
            _ => scan.value().map(drop),
        })?;
        scan.end()?;
        let (Some(_), Some(_), Some(_)) = (peerlane, plan, wall) else { return None };
        if memory.counted.0 != plan? {
            memory.counted = (plan?.to_owned(), from_json::<Plan>(plan?).ok()?.steps().count());
        }
        let machine = machine?;
        let evidence = machine.evidence.into_iter().map(|source| (source.name, source.text));
        let json = |part: Option<&'a str>| part.filter(|part| *part != "null").unwrap_or_default().into();
        (schema? == SCHEMA).then_some(Excerpt {
            name: one_line(&machine.name).into_owned().into(),
            system: machine.system,
            evidence: evidence.collect(),
            fabric: json(fabric),
            conditions: conditions?,
            complete: complete?,
            counters: json(counters),
            planned: memory.counted.1,
            numbers: cells?,
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
            planned: run.plan.steps().count(),
            numbers: run.cells.iter().map(Number::of).collect(),
        }
    }

    /// Whether steps of the plan have no value that they should have, by the record alone ([`Run::missing`] also knows what the
    /// machine can be).
    pub fn lacks(&self) -> bool {
        self.numbers.len() < self.planned || !self.numbers.iter().all(Number::is_settled)
    }
}

impl Number<'_> {
    fn of(cell: &Cell) -> Self {
        let text = serde_json::to_string(&cell.work).unwrap_or_default();
        Number {
            test: cell.test,
            stands: stands_for(&text),
            text: text.into(),
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

    fn is_settled(&self) -> bool {
        self.usable().is_some_and(|[value, ..]| value > 0.0) || self.flags.iter().any(|kind| kind.settles())
    }

    /// The flag that makes it worthless.
    pub fn void(&self) -> Option<FlagKind> {
        self.flags.iter().copied().find(|kind| kind.voids())
    }
}

/// Fills in a field; `None` where it was there before.
fn once<T>(field: &mut Option<T>, value: T) -> Option<()> {
    field.replace(value).is_none().then_some(())
}

/// Stands for a text.
fn stands_for(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// A cell. Those at the same place of records of one plan begin alike.
fn cell<'a>(scan: &mut Scan<'a>, place: usize, memory: &mut Vec<Option<Begun>>) -> Option<Number<'a>> {
    let (mut test, mut work, mut size, mut quantity, mut unit) = (None, None, None, None, None);
    let (mut value, mut low, mut high, mut flags) = (None, None, None, None);
    let start = scan.at();
    let known = memory.get(place).and_then(Option::as_ref).filter(|begun| scan.passes(&begun.text));
    if let Some(Begun { work: range, head, .. }) = known {
        work = Some(scan.since(start).get(range.clone())?);
        (test, size, quantity, unit) = (Some(head.test), Some(head.size), Some(head.quantity), Some(head.unit));
        value = Some(scan.number()?);
    }
    let mut begun = None;
    scan.fields(known.is_some(), |scan, key| match key {
        "test" => once(&mut test, scan.typed()?),
        "work" => once(&mut work, scan.value()?),
        "size" => once(&mut size, Bytes(scan.value()?.parse().ok()?)),
        "quantity" => once(&mut quantity, scan.typed()?),
        "unit" => once(&mut unit, scan.typed()?),
        "value" => {
            if let (Some(test), Some(work), Some(size), Some(quantity), Some(unit)) = (test, work, size, quantity, unit)
            {
                let text = scan.since(start);
                let at = work.as_ptr().addr() - text.as_ptr().addr();
                let head = Head { test, work: stands_for(work), size, quantity, unit };
                begun = Some(Begun { text: text.to_owned(), head, work: at..at + work.len() });
            }
            once(&mut value, scan.number()?)
        }
        "low" => once(&mut low, scan.number()?),
        "high" => once(&mut high, scan.number()?),
        "flags" => once(&mut flags, scan.typed::<Vec<Flagged>>()?),
        _ => scan.value().map(drop),
    })?;
    let (test, text, size, quantity, unit) = (test?, work?, size?, quantity?, unit?);
    let stands = match known.map(|begun| begun.head).or(begun.as_ref().map(|begun| begun.head)) {
        Some(head) => head.work,
        None => stands_for(text),
    };
    if let Some(begun) = begun {
        if place >= memory.len() {
            memory.resize(place + 1, None);
        }
        if let Some(slot) = memory.get_mut(place) {
            *slot = Some(begun);
        }
    }
    let estimate = value.flatten().zip(low.flatten()).zip(high.flatten());
    let estimate = estimate.map(|((value, low), high)| [value, low, high]);
    let flags = flags.unwrap_or_default().into_iter().map(|flag| flag.kind).collect();
    Some(Number { test, text: text.into(), stands, size, quantity, unit, estimate, flags })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_of_a_text_is_that_of_its_run() {
        let captures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures");
        // what is remembered of one record must not be taken for another's
        let mut memory = Memory::default();
        for name in ["h200x2-vm-runs/default.json", "h200x2-vm-runs/sizes.json", "h200x4-vm-runs/collectives.json"] {
            let text = std::fs::read_to_string(format!("{captures}/{name}")).unwrap();
            let run = Run::from_json(&text).unwrap();
            let (mut read, of) = (Excerpt::read(&text, &mut memory).unwrap(), Excerpt::of(&run));
            let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
            assert_eq!(json(&read.fabric), json(&of.fabric), "{name}");
            assert!(read.numbers.iter().all(|number| number.work().is_some()), "{name}");
            assert_eq!(Excerpt::read(&text, &mut memory).as_ref(), Some(&read), "{name} again");
            (read.fabric, read.counters) = (of.fabric.clone(), of.counters.clone());
            assert_eq!(read, of, "{name}");
        }
    }

    #[test]
    fn what_is_no_whole_record_of_this_version_has_none() {
        let text = include_str!("../../../../captures/h200x2-vm-runs/default.json");
        let mut memory = Memory::default();
        assert!(Excerpt::read(text, &mut memory).is_some());
        for (from, to) in [(SCHEMA, "peerlane/run/9"), ("\"plan\":", "\"plans\":"), ("\"cells\":[", "\"cells\":[1,")] {
            assert_eq!(Excerpt::read(&text.replacen(from, to, 1), &mut memory), None, "{from}");
        }
        assert_eq!(Excerpt::read(text.split_at(text.len() - 3).0, &mut memory), None);
        // a field that stands twice, a value before what it is of, and a name with an escape
        let twice = text.replacen("\"wall\":", "\"wall\":1,\"wall\":", 1);
        assert_eq!(Excerpt::read(&twice, &mut memory), None);
        assert_eq!(Excerpt::read(&text.replacen("\"wall\"", "\"w\\u0061ll\"", 1), &mut memory), None);
    }
}
