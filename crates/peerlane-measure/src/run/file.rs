//! Runs as text: the record, and the lines that are kept while it grows.
//!
//! A growing run is JSON lines: first the record as far as it is known, without cells, then one [`Event`] a line, so
//! that nothing measured is lost where the writer dies.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

use super::{Cell, Event, Run, SCHEMA, check, opened_line, sealed, sealed_line};
use peerlane_machine::matrix::Quantity;
use peerlane_read::evidence::from_json;
use peerlane_read::input_file::Kind;

/// The longest record that is read: as much as of any source, and some 50,000 cells with all their samples.
pub const MAX_RUN_BYTES: usize = Kind::Run.limit() as usize;

/// So many damaged lines are named.
const NAMED: usize = 4;

/// What all formats of runs are called, up to their number.
const FAMILY: &str = "peerlane/run/";

/// Why a text is no run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// It is no JSON of this format.
    #[error("line {line}, column {column}: {message}")]
    Format {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// It is a record of another format.
    #[error("its schema is {0}, which this version does not read; it reads {SCHEMA}")]
    Schema(String),
    /// It is longer than [`MAX_RUN_BYTES`].
    #[error("larger than {} MiB; no record of a run", MAX_RUN_BYTES >> 20)]
    TooLarge,
    /// It is not as it was written.
    #[error(
        "its content does not match its checksum: it was damaged or changed after it was written. If you changed it, remove the \
         line \"checksum\""
    )]
    Changed,
    /// It does not describe its machine well enough.
    #[error("its machine cannot be rebuilt: {0}")]
    Machine(String),
}

impl From<serde_json::Error> for RunError {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        // the place has its own fields
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what).to_owned();
        RunError::Format { line, column, message }
    }
}

/// A run that is still growing, or whose writer died.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// The run with the cells so far.
    pub run: Run,
    /// Lines that are cut or unreadable, which are left out. The last line of a writer that died is mostly one.
    pub unreadable: usize,
    /// The numbers of those among them, from 1, that are not as they were written.
    pub damaged: Vec<usize>,
}

/// The field that names the format, read first.
#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// Whether a text can only be meant as the record of a run, whole or growing, of this format's version or another.
pub fn looks_like_run(text: &str) -> bool {
    text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with('{')
        && text.contains("\"schema\"")
        && text.contains(&format!("\"{FAMILY}"))
}

impl Run {
    /// Reads a record.
    pub fn from_json(text: &str) -> Result<Run, RunError> {
        if text.len() > MAX_RUN_BYTES {
            return Err(RunError::TooLarge);
        }
        let text = text.trim_start_matches('\u{feff}');
        let head: Head = from_json(text)?;
        if head.schema != SCHEMA {
            return Err(RunError::Schema(head.schema));
        }
        let run = from_json(text)?;
        // what is no JSON says where
        check(text)?;
        Ok(run)
    }

    /// Writes the record: a field a line, the steps of the plan and the cells each on its own line; with a checksum.
    pub fn to_json(&self) -> Result<String, RunError> {
        let Run { schema, checksum: _, peerlane, machine, fabric, plan, conditions, wall, complete, counters, cells } =
            self;
        let mut text = String::from("{\n");
        field(&mut text, "schema", schema)?;
        field(&mut text, "peerlane", peerlane)?;
        field(&mut text, "machine", machine)?;
        field(&mut text, "fabric", fabric)?;
        field(&mut text, "plan", plan)?;
        field(&mut text, "conditions", conditions)?;
        field(&mut text, "wall", wall)?;
        field(&mut text, "complete", complete)?;
        if !counters.is_empty() {
            list(&mut text, "counters", counters)?;
            text.push_str(",\n");
        }
        list(&mut text, "cells", cells)?;
        text.push_str("}\n");
        Ok(sealed(&text))
    }

    /// Takes in what happened. Of several answers to one step the later ones count.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Cells(cells) => {
                let fresh = latest(cells);
                let steps: BTreeSet<usize> = fresh.iter().map(|c| c.step).collect();
                let keys: BTreeSet<(usize, Quantity)> = fresh.iter().map(|c| (c.step, c.quantity)).collect();
                // a void cell stands for its whole step
                let again = |old: &Cell| {
                    steps.contains(&old.step) && (old.is_void() || keys.contains(&(old.step, old.quantity)))
                };
                self.cells.retain(|old| !again(old));
                self.cells.extend(fresh);
            }
            Event::States(states) if self.conditions.before.is_empty() => self.conditions.before = states,
            Event::States(states) => self.conditions.after = states,
            Event::Counted(counted) => self.counters.push(*counted),
            Event::Finished(wall) => self.wall = wall,
            Event::Started(_) => {}
        }
    }

    /// The steps, as indices into [`crate::plan::Plan::steps`], that have all their cells: two of small copies (time
    /// and enqueueing) and of collectives (bus bandwidth and time), one of the rest. A void cell answers its step.
    pub fn steps_done(&self) -> BTreeSet<usize> {
        let mut answered_by: BTreeMap<usize, (BTreeSet<Quantity>, bool)> = BTreeMap::new();
        for cell in &self.cells {
            let (quantities, void) = answered_by.entry(cell.step).or_default();
            quantities.insert(cell.quantity);
            *void |= cell.is_void();
        }
        let answered = |(index, step): (usize, &crate::plan::Step)| {
            let (quantities, void) = answered_by.get(&index)?;
            (*void || quantities.len() >= step.work.kind().answers().len()).then_some(index)
        };
        self.plan.steps().enumerate().filter_map(answered).collect()
    }
}

fn field(text: &mut String, name: &str, value: &impl serde::Serialize) -> Result<(), RunError> {
    text.push_str(&format!("\"{name}\":{},\n", serde_json::to_string(value)?));
    Ok(())
}

/// A list, an item a line.
pub(crate) fn list(text: &mut String, name: &str, items: &[impl serde::Serialize]) -> Result<(), RunError> {
    text.push_str(&format!("\"{name}\":["));
    for (i, item) in items.iter().enumerate() {
        text.push_str(if i == 0 { "\n" } else { ",\n" });
        text.push_str(&serde_json::to_string(item)?);
    }
    text.push_str("\n]");
    Ok(())
}

impl Partial {
    /// The first line of a growing run, with its end: the run without cells, and not complete.
    pub fn header_line(run: &Run) -> Result<String, RunError> {
        let head = Run { complete: false, cells: Vec::new(), ..run.clone() };
        Ok(sealed_line(&serde_json::to_string(&head)?))
    }

    /// A further line, with its end; of a run's [`Event`] or another record's.
    pub fn event_line(event: &impl serde::Serialize) -> Result<String, RunError> {
        Ok(sealed_line(&serde_json::to_string(event)?))
    }

    /// Reads a growing run, or a whole record, which has no unreadable line.
    ///
    /// Fails where the first line, which describes the run, is cut. Of the lines after it those that cannot be
    /// read are left out and counted; a line without its end counts where it is whole JSON.
    pub fn read(text: &str) -> Result<Partial, RunError> {
        if text.len() > MAX_RUN_BYTES {
            return Err(RunError::TooLarge);
        }
        let mut lines = text.trim_start_matches(['\u{feff}', '\n', '\r', ' ', '\t']).lines().zip(1..);
        let first = lines.next().map_or("", |(first, _)| first);
        let whole = |text| Run::from_json(text).map(|run| Partial { run, unreadable: 0, damaged: Vec::new() });
        let head = match opened_line(first) {
            Ok(head) => head,
            Err(changed) => return whole(text).map_err(|_| changed),
        };
        let mut run = match Run::from_json(&head) {
            Ok(run) => run,
            // a record of several lines opens with a brace alone
            Err(_) if first.trim_end() == "{" => return whole(text),
            Err(cut) => return whole(text).map_err(|_| cut),
        };
        let mut cells = Latest::default();
        cells.extend(std::mem::take(&mut run.cells));
        let (mut unreadable, mut damaged) = (0, Vec::new());
        for (line, number) in lines.filter(|(line, _)| !line.trim().is_empty()) {
            match opened_line(line).map(|line| from_json(&line)) {
                Ok(Ok(Event::Cells(fresh))) => cells.extend(fresh),
                Ok(Ok(event)) => run.apply(event),
                Ok(Err(_)) => unreadable += 1,
                Err(_) => {
                    unreadable += 1;
                    // half a line is what a writer that died leaves
                    if text.ends_with('\n') || !text.ends_with(line) {
                        damaged.push(number);
                    }
                }
            }
        }
        run.cells = cells.into_cells();
        Ok(Partial { run, unreadable, damaged })
    }

    /// What to say of lines that are left out, if there are any.
    pub fn left_out(&self) -> Option<String> {
        let numbers: Vec<String> = self.damaged.iter().take(NAMED).map(usize::to_string).collect();
        let more = if self.damaged.len() > NAMED { ", …" } else { "" };
        let damaged = match &*numbers {
            [] => None,
            [one] => Some(format!("line {one}, which does not match its checksum: it was damaged or changed")),
            many => Some(format!("lines {}{more}, which do not match their checksums", many.join(", "))),
        };
        let cut = match self.unreadable - self.damaged.len() {
            0 => None,
            1 => Some("1 line, truncated or unreadable".to_owned()),
            n => Some(format!("{n} lines, truncated or unreadable")),
        };
        let both: Vec<String> = cut.into_iter().chain(damaged).collect();
        (!both.is_empty()).then(|| format!("ignored {}", both.join("; ")))
    }
}

/// Of several cells of one step and quantity, the last.
fn latest(cells: Vec<Cell>) -> Vec<Cell> {
    let mut latest = Latest::default();
    latest.extend(cells);
    latest.into_cells()
}

/// Cells as they come: what [`Run::apply`] does, in time that grows with their number alone.
#[derive(Default)]
struct Latest {
    cells: Vec<Option<Cell>>,
    /// Where the cells of a step are: one for each quantity at most.
    of_step: HashMap<usize, BTreeMap<Quantity, usize>>,
}

impl Latest {
    /// Takes in the cells of one event, which outdate earlier ones.
    fn extend(&mut self, fresh: Vec<Cell>) {
        let first = self.cells.len();
        for cell in fresh {
            let places = self.of_step.entry(cell.step).or_default();
            places.retain(|quantity, at| {
                let Some(slot) = self.cells.get_mut(*at) else { return false };
                let void = *at < first && slot.as_ref().is_some_and(Cell::is_void);
                let again = void || *quantity == cell.quantity;
                if again {
                    *slot = None;
                }
                !again
            });
            places.insert(cell.quantity, self.cells.len());
            self.cells.push(Some(cell));
        }
    }

    fn into_cells(self) -> Vec<Cell> {
        self.cells.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, moving, run, step, void};
    use super::super::unsealed;
    use super::*;
    use crate::plan::{Test, Work};
    use crate::run::{FlagKind, GpuState};
    use peerlane_machine::transfer::{Collective, Transfer};
    use peerlane_machine::units::Seconds;
    use proptest::prelude::*;

    fn steps() -> Vec<crate::plan::Step> {
        let copies = Transfer::new("GPU0", "GPU1");
        let operation = Collective::AllReduce;
        vec![
            moving(Test::Pairs, std::slice::from_ref(&copies)),
            step(Test::CopyLatency, Work::SmallCopies(copies)),
            step(Test::Collectives, Work::Collective { operation, gpus: vec!["GPU0".into(), "GPU1".into()] }),
        ]
    }

    fn enqueue(index: usize, value: f64) -> Cell {
        Cell { quantity: Quantity::EnqueueLatency, ..cell(index, &steps()[index], value) }
    }

    fn grown() -> (Run, Vec<Event>) {
        let steps = steps();
        let mut run = run("h200x4-vm", steps.clone());
        let state = GpuState { gpu: "GPU0".into(), temperature_c: Some(40.0), ..GpuState::default() };
        let events = vec![
            Event::States(vec![state.clone()]),
            Event::Started(0),
            Event::Cells(vec![cell(0, &steps[0], 396.123_456_789), enqueue(1, 2.0)]),
            Event::Cells(vec![void(2, &steps[2], FlagKind::Hung)]),
            Event::Cells(vec![cell(1, &steps[1], 3.5)]),
            Event::States(vec![state]),
            Event::Finished(Seconds::new(1.5)),
        ];
        for event in &events {
            run.apply(event.clone());
        }
        (run, events)
    }

    fn growing(run: &Run, events: &[Event]) -> String {
        let lines = events.iter().map(|e| Partial::event_line(e).unwrap());
        std::iter::once(Partial::header_line(run).unwrap()).chain(lines).collect()
    }

    #[test]
    fn a_record_comes_back_a_cell_a_line() {
        let (run, _) = grown();
        let text = run.to_json().unwrap();
        assert!(looks_like_run(&text));
        let back = Run::from_json(&text).unwrap();
        assert_eq!(back.to_json().unwrap(), text);
        assert_eq!(back.cells[0].value(), Some(396.123));
        assert_eq!((&back.machine, &back.plan, &back.conditions), (&run.machine, &run.plan, &run.conditions));
        assert_eq!(text.lines().count(), 1 + 9 + 1 + 4 + 1);
        assert_eq!(text.lines().filter(|l| l.starts_with("{\"step\"")).count(), 4);
        assert_eq!(Partial::read(&text).unwrap().unreadable, 0);
        let compact = serde_json::to_string(&back).unwrap();
        assert_eq!(Partial::read(&compact).unwrap().run, back);
        let empty = Run { cells: Vec::new(), ..back };
        assert_eq!(Run::from_json(&empty.to_json().unwrap()).unwrap(), empty);
    }

    #[test]
    fn a_growing_run_is_read_as_it_would_have_been_kept() {
        let (run, events) = grown();
        let text = growing(&run, &events);
        assert!(looks_like_run(&text));
        let Partial { run: back, unreadable, .. } = Partial::read(&text).unwrap();
        assert_eq!((unreadable, back.complete), (0, false));
        assert_eq!(back.to_json().unwrap(), Run { complete: false, ..run }.to_json().unwrap());
    }

    #[test]
    fn steps_are_done_with_all_their_cells_or_void() {
        let steps = steps();
        let mut run = run("h200x4-vm", steps.clone());
        let done = |run: &Run| run.steps_done().into_iter().collect::<Vec<_>>();
        run.apply(Event::Cells(vec![cell(0, &steps[0], 1.0), cell(1, &steps[1], 1.0), cell(2, &steps[2], 1.0)]));
        assert_eq!(done(&run), [0]);
        run.apply(Event::Cells(vec![enqueue(1, 2.0)]));
        assert_eq!(done(&run), [0, 1]);
        run.apply(Event::Cells(vec![void(2, &steps[2], FlagKind::Failed)]));
        assert_eq!(done(&run), [0, 1, 2]);
        run.apply(Event::Cells(vec![cell(99, &steps[0], 1.0)]));
        assert_eq!(done(&run), [0, 1, 2]);
    }

    #[test]
    fn later_answers_count() {
        let steps = steps();
        let mut run = run("h200x4-vm", steps.clone());
        run.apply(Event::Cells(vec![void(1, &steps[1], FlagKind::Hung), cell(0, &steps[0], 1.0)]));
        run.apply(Event::Cells(vec![enqueue(1, 2.0)]));
        run.apply(Event::Cells(vec![cell(0, &steps[0], 5.0), cell(1, &steps[1], 4.0), cell(0, &steps[0], 3.0)]));
        let left: Vec<(usize, Option<f64>)> = run.cells.iter().map(|c| (c.step, c.value())).collect();
        assert_eq!(left, [(1, Some(2.0)), (1, Some(4.0)), (0, Some(3.0))]);
        // one event may say that of one step a number is there and another is not
        let no_clock = Cell { quantity: Quantity::EnqueueLatency, ..void(1, &steps[1], FlagKind::NotApplicable) };
        run.apply(Event::Cells(vec![no_clock, cell(1, &steps[1], 4.5)]));
        assert_eq!(run.cells.iter().filter(|c| c.step == 1).count(), 2);
    }

    #[test]
    fn what_is_new_is_passed_over_and_what_is_no_run_is_said() {
        let (run, events) = grown();
        let text = run.to_json().unwrap();
        let text = unsealed(&text);
        let newer = text.replacen("\"wall\"", "\"weather\":{\"rain\":[1]},\n\"wall\"", 1);
        let newer = newer.replace("{\"step\":", "{\"mood\":null,\"step\":");
        assert_eq!(Run::from_json(&newer), Run::from_json(&text));

        let mut lines = growing(&run, &events);
        lines.push_str("{\"finished\":2.5,\"more\":1}\n{\"sneezed\":3}\n\n");
        let read = Partial::read(&lines).unwrap();
        assert_eq!((read.unreadable, read.run.wall), (2, Seconds::new(1.5)));

        let other = text.replacen(SCHEMA, "peerlane/run/9", 1);
        assert!(looks_like_run(&other));
        assert_eq!(Partial::read(&other), Err(RunError::Schema("peerlane/run/9".into())));
        assert_eq!(
            Partial::read(&unsealed(&growing(&run, &[])).replace(SCHEMA, "x/1")),
            Err(RunError::Schema("x/1".into()))
        );
        for no_run in ["", "{", "[]", "null", "{\"schema\":1}", "{\n}"] {
            assert!(matches!(Partial::read(no_run), Err(RunError::Format { .. })), "{no_run}");
        }
        assert!(!looks_like_run("peerlane/run/1") && !looks_like_run("{\"schema\":\"peerlane/fabric/1\"}"));
        let at = Run::from_json(&text.replacen("\"step\":0", "\"step\":-1", 1)).unwrap_err().to_string();
        assert!(at.starts_with("line 11, column ") && !at.contains(" at line "), "{at}");
    }

    #[test]
    fn the_documented_cell_is_one() {
        let docs = include_str!("../../../../docs/live.md");
        let example = docs.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let cell: Cell = serde_json::from_str(example).unwrap();
        let again: serde_json::Value = serde_json::to_value(&cell).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(example).unwrap());
        assert_eq!((cell.samples.len(), cell.each.len()), (cell.n, 2));
    }

    #[test]
    fn a_flood_is_refused() {
        let long = " ".repeat(MAX_RUN_BYTES + 1);
        assert_eq!(Run::from_json(&long), Err(RunError::TooLarge));
        assert_eq!(Partial::read(&long), Err(RunError::TooLarge));
        let deep = "[".repeat(1 << 20);
        assert!(matches!(Partial::read(&format!("{{\"schema\":{deep}")), Err(RunError::Format { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_prefix_keeps_its_whole_lines(values in prop::collection::vec((0..3_usize, 0.1..1e6_f64, any::<bool>()), 0..12), share in 0.0..1.0_f64) {
            let steps = steps();
            let run = run("az-2x-m60", steps.clone());
            let of = |(index, value, fails): &(usize, f64, bool)| match fails {
                true => void(*index, &steps[*index], FlagKind::Failed),
                false => cell(*index, &steps[*index], *value),
            };
            let events: Vec<Event> = values.chunks(2).map(|v| Event::Cells(v.iter().map(of).collect())).collect();
            let text = growing(&run, &events);
            let head = Partial::header_line(&run).unwrap().len();
            let mut cut = (share * text.len() as f64) as usize;
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            let prefix = &text[..cut];
            match Partial::read(prefix) {
                Err(_) => prop_assert!(cut < head),
                Ok(Partial { run: back, unreadable, .. }) => {
                    prop_assert!(cut + 1 >= head && unreadable <= 1);
                    let whole = prefix[head.min(cut)..].matches('\n').count();
                    // a line may also be whole but for its end
                    let more = usize::from(unreadable == 0 && !prefix.ends_with('\n') && cut > head);
                    let mut kept = Partial::read(&text[..head]).unwrap().run;
                    for event in &events[..whole + more] {
                        kept.apply(event.clone());
                    }
                    prop_assert_eq!(back.to_json().unwrap(), kept.to_json().unwrap());
                }
            }
        }

        #[test]
        fn damage_never_panics(at in 0.0..1.0_f64, with in any::<u8>()) {
            let (run, events) = grown();
            for text in [growing(&run, &events), run.to_json().unwrap()] {
                let mut bytes = text.into_bytes();
                let at = (at * bytes.len() as f64) as usize;
                bytes[at] = with;
                let text = String::from_utf8_lossy(&bytes);
                if let Ok(read) = Partial::read(&text) {
                    let _ = (read.run.steps_done(), read.run.machine(), crate::run::sets(&read.run.cells));
                }
            }
        }
    }
}
