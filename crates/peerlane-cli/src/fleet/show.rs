//! A fleet for a person: kinds, then the outliers, the worst first.

use std::collections::BTreeSet;
use std::io::{self, Write};

use peerlane::action::Action;
use peerlane::check::{Finding, Severity};
use peerlane::fleet::{Fleet, Kind, Outlier};
use peerlane::subject::join;

use crate::args::Detail;
use crate::render::line_width;
use crate::render::style::{self, paint};
use crate::render::text::{count, fit, wrap};

/// Kinds and outliers shown by default.
const SHOWN: usize = 20;

/// Notes, and names of what could not be read, shown by default.
const FEW: usize = 4;

/// So many machines of a kind are compared where they have rates.
const ENOUGH: usize = 4;

/// Where the sentences of an outlier begin.
const INDENT: usize = 9;

/// The first outlier and its fix alone if `quiet`.
pub(super) fn text(out: &mut dyn Write, fleet: &Fleet, Detail { verbose, quiet, .. }: Detail) -> io::Result<()> {
    let most = |n: usize| if verbose { usize::MAX } else { n };
    writeln!(out, "{}", paint(style::HEADING, &fit(&title(fleet), line_width())))?;
    if quiet {
        let worst = fleet.outliers.first().or(fleet.network.first());
        let Some(Outlier { machine, action, finding: Finding { summary, fix, .. }, .. }) = worst else { return Ok(()) };
        writeln!(out, "{machine}: {action}: {summary}")?;
        return writeln!(out, "fix: {fix}");
    }
    // the columns besides the name of a kind
    let name = (line_width() - 40).clamp(16, 34);
    let head = format!("  {:<name$} {:>8} {:>5} {:>19}  {}", "Kind", "machines", "GPUs", "spread in %", "example");
    writeln!(out, "{}", paint(style::DIM, &fit(&head, line_width())))?;
    for (at, kind) in fleet.kinds.iter().enumerate().take(most(SHOWN)) {
        let Kind { machines, gpus, products, example, compared, spread, shared } = kind;
        let title = match (products.is_empty(), gpus) {
            (true, 0) => "without GPUs".to_owned(),
            (true, _) => "unknown GPUs".to_owned(),
            _ => products.join(", "),
        };
        let spread = match *compared {
            true => format!("{:.1}", 100.0 * spread),
            false if *machines >= ENOUGH => "no rates".to_owned(),
            false => "too few to compare".to_owned(),
        };
        let title = fit(&title, name);
        let line = format!("  {title:<name$} {machines:>8} {gpus:>5} {spread:>19}  {}", fit(example, 24));
        writeln!(out, "{}", fit(line.trim_end(), line_width()))?;
        for shared in shared {
            let line = format!("on {} of these {machines}: {} [{}]", shared.machines, shared.summary, shared.rule);
            for line in wrap(&line, line_width() - 6) {
                writeln!(out, "      {}", paint(style::DIM, &line))?;
            }
        }
        if at + 1 == most(SHOWN) && fleet.kinds.len() > SHOWN {
            let more = format!("  and {} more kinds (-v shows them)", fleet.kinds.len() - SHOWN);
            writeln!(out, "{}", paint(style::DIM, &more))?;
        }
    }
    for outlier in fleet.outliers.iter().take(most(SHOWN)) {
        one(out, outlier, verbose)?;
    }
    if fleet.outliers.len() > SHOWN && !verbose {
        let more = format!("and {} more outliers (-v shows them)", fleet.outliers.len() - SHOWN);
        writeln!(out, "\n{}", paint(style::DIM, &more))?;
    }
    if !fleet.network.is_empty() {
        writeln!(out, "\n{}", paint(style::HEADING, "Between machines, held against none"))?;
        for found in fleet.network.iter().take(most(SHOWN)) {
            one(out, found, verbose)?;
        }
        if fleet.network.len() > SHOWN && !verbose {
            let more = format!("and {} more between machines (-v shows them)", fleet.network.len() - SHOWN);
            writeln!(out, "\n{}", paint(style::DIM, &more))?;
        }
    }
    let unread: Vec<String> = fleet.unread.iter().map(|u| format!("{}: {}", u.name, u.why)).collect();
    sentences(out, "Notes", &fleet.notes, most(FEW))?;
    sentences(out, "Unread", &unread, most(FEW))
}

/// `5000 machines of 3 kinds, 5120 records: 12 outliers on 10 machines; isolate 8, monitor 2`
fn title(fleet: &Fleet) -> String {
    let of = format!(
        "{} of {}, {}",
        count(fleet.machines.len(), "machine"),
        count(fleet.kinds.len(), "kind"),
        count(fleet.records, "record")
    );
    let between = match fleet.network.len() {
        0 => String::new(),
        n => format!("; {} between machines", count(n, "finding")),
    };
    if fleet.outliers.is_empty() {
        return format!("{of}: no outliers{between}");
    }
    let machines: BTreeSet<&str> = fleet.outliers.iter().map(|outlier| outlier.machine.as_str()).collect();
    let actions = [Action::Isolate, Action::Reset, Action::Monitor].into_iter().filter_map(|action| {
        let n = fleet.machines.iter().filter(|member| member.action == Some(action)).count();
        (n > 0).then(|| format!("{action} {n}"))
    });
    let actions = actions.collect::<Vec<_>>().join(", ");
    format!(
        "{of}: {} on {}; {actions}{between}",
        count(fleet.outliers.len(), "outlier"),
        count(machines.len(), "machine")
    )
}

fn one(out: &mut dyn Write, outlier: &Outlier, verbose: bool) -> io::Result<()> {
    let Outlier { machine, finding, action, why, repeats, file, .. } = outlier;
    let Finding { subjects, rule, severity, summary, fix, .. } = finding;
    let label = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    };
    let subjects = join(subjects, ", ");
    let part = if subjects.is_empty() || subjects == *machine { String::new() } else { format!(" {subjects}") };
    let again = if *repeats > 1 { format!(", in {repeats} records") } else { String::new() };
    let who = fit(&format!("{machine}{part}"), line_width() - INDENT - 42);
    writeln!(out)?;
    writeln!(
        out,
        "{} {who}: {} {}",
        paint(style::of_severity(*severity), &format!("{label:8}")),
        action,
        paint(style::DIM, &fit(&format!("[{rule}{again}]"), 30))
    )?;
    let mut lines = vec![summary.as_str(), why.as_str()];
    if verbose {
        lines.extend([fix.as_str(), file.as_str()]);
    }
    for line in lines.into_iter().flat_map(|text| wrap(text, line_width() - INDENT)) {
        writeln!(out, "{:INDENT$}{line}", "")?;
    }
    Ok(())
}

fn sentences(out: &mut dyn Write, title: &str, all: &[String], most: usize) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, title))?;
    for line in all.iter().take(most) {
        for (i, line) in wrap(line, line_width() - 4).iter().enumerate() {
            writeln!(out, "{}{line}", if i == 0 { "  " } else { "    " })?;
        }
    }
    if all.len() > most {
        writeln!(out, "{}", paint(style::DIM, &format!("  and {} more (-v shows them)", all.len() - most)))?;
    }
    Ok(())
}
