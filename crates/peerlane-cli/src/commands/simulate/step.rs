//! How a recorded step spends its time.

use std::io::{self, Write};

use peerlane::simulate::traced::{CollectiveTime, TraceSummary};
use peerlane::traces::Split;

use crate::render::style::{self, paint};
use crate::render::table::{columns, percent, size};
use crate::render::text::{count, hang, number};

/// One of them, in seconds, where it is known.
type Part = fn(&Split) -> Option<f64>;

/// Parts of a step, as the record and the simulation have them.
const PARTS: [(&str, Part); 6] = [
    ("step", |split| Some(split.time)),
    ("computing", |split| Some(split.computing)),
    ("communication", |split| Some(split.communication)),
    ("  waiting for other ranks", |split| split.waiting),
    ("exposed communication", |split| Some(split.exposed)),
    ("neither", |split| Some(split.idle)),
];

pub(super) fn show(out: &mut dyn Write, trace: &TraceSummary) -> io::Result<()> {
    let TraceSummary { ranks, steps, simulated, recorded, collectives, notes } = trace;
    let of = if *steps > 1 { format!("a step, the average of {steps}") } else { "all of the trace".to_owned() };
    writeln!(out, "{}: {of}; of ranks the average", count(*ranks, "rank"))?;
    let mut headings = vec![String::new(), "simulated us".to_owned(), "share".to_owned()];
    headings.extend(recorded.iter().flat_map(|_| ["recorded us".to_owned(), "share".to_owned()]));
    headings.push(String::new());
    let cells = |split: &Split, part: Part| {
        let Some(part) = part(split) else { return [String::new(), String::new()] };
        let share = if split.time > 0.0 { part / split.time } else { 0.0 };
        [number(part * 1e6), percent(share)]
    };
    let row = |(name, part): &(&str, Part)| {
        let mut row = vec![(*name).to_owned()];
        row.extend(cells(simulated, *part));
        row.extend(recorded.iter().flat_map(|split| cells(split, *part)));
        row
    };
    columns(out, &headings, &PARTS.iter().map(row).collect::<Vec<_>>(), 1)?;
    if !collectives.is_empty() {
        writeln!(out, "\n{}", paint(style::HEADING, "Collectives of a step, those of a group"))?;
        let times = collectives.iter().any(|one| one.recorded.is_some());
        let mut headings: Vec<String> =
            ["collective", "ranks", "times", "size of all", "time us", "exposed us"].map(str::to_owned).into();
        headings.extend(times.then(|| "recorded us".to_owned()));
        headings.push(String::new());
        let row = |one: &CollectiveTime| {
            let CollectiveTime { collective, ranks, count, bytes, time, exposed, recorded } = one;
            let mut row = vec![collective.name().to_owned(), ranks.to_string(), number(*count), size(*bytes as u64)];
            row.extend([number(time * 1e6), number(exposed * 1e6)]);
            row.extend(times.then(|| recorded.map_or_else(String::new, |recorded| number(recorded * 1e6))));
            row
        };
        columns(out, &headings, &collectives.iter().map(row).collect::<Vec<_>>(), 1)?;
    }
    notes.iter().try_for_each(|note| hang(out, "Note: ", note))
}
