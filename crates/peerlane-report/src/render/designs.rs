//! Designs side by side: one row per figure, one column per design, measured values below predicted ones.

use std::io::{self, Write};

use peerlane::compare::{Changed, Changes, ComparisonDocument, Design};
use peerlane::names::ranges;

use super::figures;
use super::line_width;
use super::style::{self, paint};
use super::text::{count, fit, hang, number, span, width, wrap};

/// Columns of row labels.
const LABEL: usize = 31;

/// Largest and smallest width of a design's column.
const COLUMN: (usize, usize) = (18, 9);

/// Limit of characters for the GPUs of a ring.
const NAMES: usize = 160;

/// One row: its label and one cell per design.
struct Row {
    label: String,
    cells: Vec<String>,
    /// Measured values, shown below if there are any.
    measured: Vec<String>,
}

/// Writes the whole comparison.
pub fn write(out: &mut dyn Write, document: &ComparisonDocument, verbose: bool) -> io::Result<()> {
    let designs = &document.designs;
    if let ([before, after], Some(found)) = (designs.as_slice(), &document.changes) {
        changes(out, [&before.name, &after.name], found, verbose)?;
        if !verbose {
            return Ok(());
        }
        writeln!(out)?;
    }
    let rows: Vec<Row> = figures::rows(document).iter().map(row).collect();
    let names: Vec<Vec<String>> = designs.iter().map(|d| broken(&d.name, COLUMN.0)).collect();
    let columns: Vec<usize> = (0..designs.len())
        .map(|at| {
            let cells = rows.iter().flat_map(|row| row.cells.get(at).into_iter().chain(row.measured.get(at)));
            let widest = cells.chain(&names[at]).map(|cell| width(cell)).max().unwrap_or(0);
            widest.clamp(COLUMN.1, COLUMN.0)
        })
        .collect();
    let mut start = 0;
    while start < designs.len() {
        let mut used = LABEL;
        let mut end = start;
        while end < designs.len() && (end == start || used + 1 + columns[end] <= line_width()) {
            used += 1 + columns[end];
            end += 1;
        }
        block(out, &rows, &names, &columns, start..end)?;
        start = end;
        writeln!(out)?;
    }
    for line in wrap(BASIS, line_width()) {
        writeln!(out, "{}", paint(style::DIM, &line))?;
    }
    details(out, designs, verbose)?;
    if !document.conclusion.is_empty() {
        writeln!(out, "\n{}", paint(style::HEADING, "Conclusion"))?;
        for sentence in &document.conclusion {
            hang(out, "  · ", sentence)?;
        }
    }
    Ok(())
}

/// Groups of numbers that are shown without `-v`.
const MOST_CHANGES: usize = 8;

/// What changed from one record of a machine to the next.
fn changes(out: &mut dyn Write, [before, after]: [&str; 2], found: &Changes, verbose: bool) -> io::Result<()> {
    let Changes { compared, changed, others, groups, alone } = found;
    let rest = match compared - changed {
        0 => String::new(),
        _ => format!("; 95 % of the others lie within {:.1} %", 1e2 * others),
    };
    let head = format!("{before} → {after}: {changed} of {} changed{rest}", count(*compared, "number"));
    for line in wrap(&head, line_width()) {
        writeln!(out, "{}", paint(style::HEADING, &line))?;
    }
    let shown = if verbose { groups.len() } else { MOST_CHANGES };
    for group in groups.iter().take(shown) {
        let Changed { test, ends, values, before, after, unit } = group;
        let more = if *values > 1 { ", the most changed" } else { "" };
        let change = format!("{:+.0} %", 1e2 * group.change());
        let numbers = format!("  {change:>6}  {:>7} → {:<7} ", number(*before), number(*after));
        hang(out, &numbers, &format!("{unit}, {test}: {ends}{more}"))?;
    }
    if groups.len() > shown {
        writeln!(out, "  {} more; -v shows all, and the figures of both", count(groups.len() - shown, "group"))?;
    }
    match alone {
        [0, 0] => Ok(()),
        [a, b] => writeln!(out, "Only in {before}: {}; only in {after}: {}", count(*a, "number"), count(*b, "number")),
    }
}

/// What the figures are.
const BASIS: &str = "Predicted GB/s by copy engines (rings: by kernels); below, measured or published values. A ring \
                     all-reduce is the limit of the best rings; 'peerlane predict NAME --collectives' has what NCCL \
                     reaches by size and algorithm.";

/// The name in lines of at most `columns`, broken after dashes and at spaces.
fn broken(name: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let pieces = name.split_inclusive(['-', ' ', '_', '.']);
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if width(line) + width(piece.trim_end()) <= columns => line.push_str(piece),
            _ => lines.push(piece.to_owned()),
        }
    }
    lines.iter().map(|line| fit(line.trim(), columns)).filter(|line| !line.is_empty()).collect()
}

fn block(
    out: &mut dyn Write,
    rows: &[Row],
    names: &[Vec<String>],
    columns: &[usize],
    shown: std::ops::Range<usize>,
) -> io::Result<()> {
    let lines = names[shown.clone()].iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..lines {
        let cell = |at: usize| {
            // short names are on the last line
            let name = &names[at];
            let text = (line + name.len()).checked_sub(lines).and_then(|i| name.get(i)).map_or("", String::as_str);
            format!(" {text:>w$}", w = columns[at])
        };
        let cells: String = shown.clone().map(cell).collect();
        writeln!(out, "{}", paint(style::HEADING, format!("{:LABEL$}{cells}", "").trim_end()))?;
    }
    let known = |row: &&Row| {
        let cells = || shown.clone().flat_map(|at| [row.cells.get(at), row.measured.get(at)]).flatten();
        cells().any(|cell| !matches!(cell.as_str(), "" | "-"))
    };
    for row in rows.iter().filter(known) {
        let line = |label: &str, cells: &[String]| {
            let cells: String = shown
                .clone()
                .map(|at| {
                    format!(" {:>w$}", fit(cells.get(at).map_or("", String::as_str), columns[at]), w = columns[at])
                })
                .collect();
            format!("{:LABEL$}{cells}", fit(label, LABEL))
        };
        writeln!(out, "{}", line(&row.label, &row.cells).trim_end())?;
        if shown.clone().any(|at| row.measured.get(at).is_some_and(|s| !s.is_empty())) {
            writeln!(out, "{}", paint(style::DIM, line("    measured", &row.measured).trim_end()))?;
        }
    }
    Ok(())
}

fn row(row: &figures::Row) -> Row {
    let text = |cell: &Option<figures::Cell>| cell.as_ref().map_or_else(|| "-".to_owned(), |c| c.text.clone());
    let measured = |cell: &Option<figures::Cell>| {
        let measured = cell.as_ref().and_then(|c| c.measured.as_ref());
        measured.map_or_else(String::new, |s| span(s.low, s.high))
    };
    Row {
        label: row.label.to_string(),
        cells: row.cells.iter().map(text).collect(),
        measured: row.cells.iter().map(measured).collect(),
    }
}

/// The GPUs and bottlenecks behind each design's figures.
fn details(out: &mut dyn Write, designs: &[Design], verbose: bool) -> io::Result<()> {
    for design in designs {
        writeln!(out, "\n{}", paint(style::HEADING, &fit(&design.name, line_width())))?;
        if let Some(title) = design.title.as_ref().filter(|t| **t != design.name) {
            for line in wrap(title, line_width() - 2) {
                writeln!(out, "  {}", paint(style::DIM, &line))?;
            }
        }
        if let Some(alone) = &design.pair {
            let [a, b] = &alone.worst_pair;
            hang(out, "  worst pair   ", &format!("{a} → {b}, bound by {}", alone.worst.bottleneck))?;
            if alone.known < alone.of {
                hang(out, "               ", &format!("{} of {} pairs have a known rate", alone.known, alone.of))?;
            }
        }
        if let Some(cut) = &design.bisection {
            let halves = format!("{} | {}", ranges(&cut.one), ranges(&cut.other));
            let how = match (cut.exact, cut.tried) {
                (true, 1) => "the only split of its kind".to_owned(),
                (true, tried) => format!("the worst of {tried} kinds of split"),
                (false, tried) => format!("the worst of {tried} splits tried; there may be a worse one"),
            };
            hang(out, "  bisection    ", &format!("{halves}, {how}; bound by {}", cut.figure.bottleneck))?;
        }
        if let (true, Some(all)) = (verbose, &design.all_to_all) {
            let [a, b] = &all.together.slowest_pair;
            let (last, slowest) = (&all.equal.bottleneck, &all.together.slowest.bottleneck);
            let bound = format!("equal messages bound by {last}; slowest transfer {a} → {b}, bound by {slowest}");
            hang(out, "  all to all   ", &bound)?;
        }
        if let (true, Some(one)) = (verbose, &design.all_to_one) {
            hang(out, "  all to one   ", &format!("{}, bound by {}", one.worst_to, one.worst.bottleneck))?;
        }
        if let Some(ring) = &design.ring_all_reduce {
            let count = ring.rings.len();
            for (i, one) in ring.rings.iter().enumerate() {
                let label = match (i, count) {
                    (0, 1) => "ring".to_owned(),
                    (0, count) => format!("{count} rings"),
                    _ => String::new(),
                };
                let rate = if count > 1 { format!("{} GB/s: ", number(one.rate)) } else { String::new() };
                let bound = if i == 0 { format!(", bound by {}", ring.figure.bottleneck) } else { String::new() };
                let order = fit(&one.order.join(" "), NAMES);
                hang(out, &format!("  {label:<13}"), &format!("{rate}{order}{bound}"))?;
            }
        }
        if let Some(feed) = &design.host_feed {
            hang(
                out,
                "  host feed    ",
                &format!("slowest to {}, bound by {}", feed.slowest_pair[1], feed.slowest.bottleneck),
            )?;
        }
        for upgrade in design.upgrades.iter().take(if verbose { usize::MAX } else { 1 }) {
            let text = format!(
                "worst pair {} GB/s: {}; then bound by {}",
                number(upgrade.rate),
                upgrade.what,
                upgrade.bottleneck
            );
            hang(out, "  upgrade      ", &text)?;
        }
        for sentence in &design.assumptions {
            hang(out, "  assumed      ", sentence)?;
        }
        for why in &design.unknown {
            hang(out, "  unknown      ", why)?;
        }
    }
    Ok(())
}
