//! `check` on one screen: the answer, findings, a drawing, the values that are off, and what else there is.

use std::io::{self, Write};

use peerlane::assumptions::Assumptions;
use peerlane::case::Case;
use peerlane::catalogue::Parts;
use peerlane::comparison::Comparison;
use peerlane::export::json::MachineCheck;
use peerlane::machine::{Machine, MachineKind};
use peerlane::model::Assume;

use super::comparison::{self, Section, Tally};
use super::findings::{self, Amount};
use super::headline::Headline;
use super::style::{self, paint};
use super::text::{count, hang};
use super::{curves, label, tree};
use crate::item::Item;

/// Lines of a screen.
const LINES: usize = 45;

/// Lines that findings leave for the drawing and for values.
const LEFT: usize = 10;

/// How findings are shown, if there is room: so many in full, and so many in one or two lines.
const AMOUNTS: [Amount; 5] = [
    Amount { full: 3, brief: 6 },
    Amount { full: 3, brief: 3 },
    Amount { full: 2, brief: 3 },
    Amount { full: 1, brief: 3 },
    Amount { full: 1, brief: 0 },
];

/// Lines of values that are off.
const VALUES: usize = 8;

/// Sentences of each other kind.
const FEW: usize = 4;

/// Writes the screen.
pub(crate) fn write(
    out: &mut dyn Write,
    case: &Case,
    comparison: &Comparison,
    checked: &MachineCheck,
) -> io::Result<()> {
    let machine = &case.machine;
    let headline = Headline::of(machine, checked);
    let head = lines(|out| headline.write(out, false))?;
    let sections = Values::of(comparison);
    let tail = lines(|out| {
        writeln!(out)?;
        if let Some(recognized) = &machine.recognized {
            hang(out, "", &recognized.to_string())?;
        }
        comparison::better(&sections.sections).map_or(Ok(()), |text| hang(out, "", &text))?;
        dimmed(out, &summary(case, checked, &sections.tally(), Some("-v shows")))
    })?;
    let others = lines(|out| {
        let contradictions: Vec<String> = machine.contradictions.iter().map(|c| c.message.clone()).collect();
        findings::sentences(out, "Contradictions", &contradictions, FEW)?;
        findings::outside(out, checked, FEW)
    })?;
    let mut room = LINES.saturating_sub(head.len() + tail.len() + others.len());
    let items = Item::all(&checked.findings);
    let mut found = Vec::new();
    for amount in AMOUNTS {
        found = lines(|out| findings::brief(out, &items, amount, headline.fix()))?;
        if found.len() + LEFT <= room {
            break;
        }
    }
    room = room.saturating_sub(found.len());
    let mut values = Vec::new();
    for most in (0..=VALUES).rev() {
        values = lines(|out| sections.write(out, most))?;
        if values.len() + 2 <= room {
            break;
        }
    }
    room = room.saturating_sub(values.len());
    let tables = if shows_tables(case) { lines(|out| curves::write(out, machine))? } else { Vec::new() };
    let tables = if tables.len() + 2 <= room { tables } else { Vec::new() };
    room = room.saturating_sub(tables.len());
    let drawing = lines(|out| drawing(out, machine, room))?;
    for line in [head, found, others, drawing, values, tables, tail].into_iter().flatten() {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Whether what tools printed has tables by message size that are few enough for the screen.
fn shows_tables(case: &Case) -> bool {
    let machine = &case.machine;
    case.run.is_none() && machine.kind == MachineKind::Captured && (1..=FEW).contains(&machine.curves.len())
}

/// What is written, line by line, with its styles.
fn lines(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Vec<String>> {
    let mut out = Vec::new();
    write(&mut out)?;
    Ok(String::from_utf8_lossy(&out).lines().map(str::to_owned).collect())
}

fn dimmed(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let plain = lines(|out| hang(out, "", text))?;
    plain.iter().try_for_each(|line| writeln!(out, "{}", paint(style::DIM, line)))
}

/// The machine with what is alike folded, in at most `most` lines; if that does not do, its parts in one line.
fn drawing(out: &mut dyn Write, machine: &Machine, most: usize) -> io::Result<()> {
    if machine.fabric.nodes().is_empty() || most < 2 {
        return Ok(());
    }
    writeln!(out)?;
    let drawn = lines(|out| tree::write(out, &machine.fabric, tree::Options { verbose: false, fold: true }))?;
    if drawn.len() < most {
        return drawn.iter().try_for_each(|line| writeln!(out, "{line}"));
    }
    hang(out, "  ", &format!("{} ('peerlane map' draws them)", label::inventory(machine)))
}

/// The compared values of a machine. If nothing can be expected of it as it is known, expectations assume links at full width.
pub(super) struct Values {
    pub(super) sections: Vec<Section>,
    pub(super) assuming: bool,
    /// What these expectations assume, in sentences.
    pub(super) assumptions: Vec<String>,
}

impl Values {
    pub(super) fn of(comparison: &Comparison) -> Self {
        let machine = comparison.model().machine;
        let sections = comparison::sections(comparison, &machine.fabric, false);
        if !comparison::only_measured(&sections) {
            return Values { sections, assuming: false, assumptions: Vec::new() };
        }
        let assumed = Assumptions::of(machine, Parts::embedded());
        let assuming = assumed.model(Parts::embedded(), Assume::Parts);
        let sections = comparison::sections(&Comparison::of(&assuming), &machine.fabric, false);
        let expects = sections.iter().any(Section::expects);
        Values {
            sections,
            assuming: true,
            assumptions: if expects { assumed.sentences(&assuming) } else { Vec::new() },
        }
    }

    fn tally(&self) -> Tally {
        comparison::tally(&self.sections)
    }

    /// Writes those that are off.
    fn write(&self, out: &mut dyn Write, most: usize) -> io::Result<()> {
        let off = comparison::worse(&self.sections);
        if most == 0 {
            Ok(())
        } else {
            comparison::write(out, &off, comparison::Head::Off { assuming: self.assuming }, most)
        }
    }
}

/// What there is, how much of it is as it should be, and what `more` adds: `-v shows`.
pub(crate) fn summary(case: &Case, checked: &MachineCheck, values: &Tally, more: Option<&str>) -> String {
    let machine = &case.machine;
    let findings = findings::counted(&checked.findings);
    let mut kinds = Vec::new();
    let numbers = match values {
        Tally { values: 0, expected, .. } => {
            let programs = comparison::programs_measured(case);
            if *expected > 0 && programs == 0 {
                kinds.push(count(*expected, "expected value"));
            }
            match (machine.curves.is_empty(), machine.rates.is_empty()) {
                _ if programs > 0 => {
                    kinds.push("what is expected of them".to_owned());
                    format!("{} of programs and collectives", count(programs, "value"))
                }
                (false, _) => "values by message size only".to_owned(),
                (true, false) => "rates without named ends, compared with nothing (`map` shows them)".to_owned(),
                (true, true) => "nothing measured".to_owned(),
            }
        }
        Tally { values, compared: 0, .. } => {
            kinds.push("the values".to_owned());
            format!("{}, none of which can be predicted", count(*values, "value"))
        }
        Tally { values, compared, off, better, .. } => {
            kinds.push("all values".to_owned());
            let is_all = (values, *off, *better) == (compared, 0, 0);
            let all = if is_all { "all".to_owned() } else { (compared - off - better).to_string() };
            let mut parts = vec![format!("{all} as expected")];
            parts.extend((*off > 0).then(|| format!("{off} off")));
            parts.extend((*better > 0).then(|| format!("{better} faster")));
            parts.extend((values > compared).then(|| format!("{} not predicted", values - compared)));
            format!("{}: {}", count(*values, "value"), parts.join(", "))
        }
    };
    if case.run.is_none() && !machine.curves.is_empty() && !shows_tables(case) {
        kinds.push(format!("{} by message size", count(machine.curves.len(), "table")));
    }
    for (n, what) in [
        (machine.assumptions.len(), "assumption"),
        (machine.unknown.len(), "unknown"),
        (machine.warnings.len(), "warning"),
    ] {
        kinds.extend((n > 0).then(|| count(n, what)));
    }
    let more = more.map(|more| {
        let kinds = if kinds.is_empty() { "details".to_owned() } else { enumerated(&kinds) };
        format!(" {more} {kinds}.")
    });
    format!("{findings}; {numbers}.{}", more.unwrap_or_default())
}

/// `a, b and c`.
fn enumerated(words: &[String]) -> String {
    match words {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => words.concat(),
    }
}
