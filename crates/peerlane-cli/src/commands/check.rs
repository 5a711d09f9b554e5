//! `peerlane check`: the verdict with its first cause and fix, findings, a drawing, and what is not as expected.

mod nodes;

use std::io::Write;

use peerlane::assumptions::Assumptions;
use peerlane::case::Case;
use peerlane::catalogue::Parts;
use peerlane::check::{Scope, Settings, rule_ids};
use peerlane::comparison::{Comparison, MachineComparison};
use peerlane::export::json::{CheckDocument, MachineCheck};
use peerlane::model::Assume;
use peerlane::thresholds::thresholds;
use peerlane::verdict::Line;

use super::{between, on_assumptions};
use crate::args::{CheckArgs, CheckFormat, Detail, FleetArgs};
use crate::formats::{json, junit, markdown, prometheus};
use crate::measuring::machines;
use crate::progress::Bar;
use crate::render::comparison::{self, Head, Section};
use crate::render::headline::Headline;
use crate::render::style::{self, paint};
use crate::render::text::{fit, hang};
use crate::render::{curves, findings, label, line_width, matrix, screen, tree};
use crate::site::Site;
use crate::target::nodes::Record;
use crate::target::write_coverage;
use crate::{Failure, Outcome, fleet, html};

pub(crate) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(record) = Record::only(&args.machines.targets) {
        return nodes::run(args, record?, out);
    }
    let site = Site::read(args.judgement.rules.file.as_deref())?;
    html::can_write_page(args.judgement.html.as_deref())?;
    if args.machines.machine.is_none() && fleet::is_fleet(&args.machines.targets) {
        return as_fleet(args, &site.settings, out);
    }
    let site = site.since(args.baseline.as_deref(), args.learn.redact.given)?;
    let loaded = machines(&args.machines, &args.what_if, args.learn)?;
    site.fits(&loaded)?;
    let models = loaded.models();
    let comparisons: Vec<Comparison> = models.iter().map(Comparison::of).collect();
    let mut checks = Vec::new();
    let format = if args.detail.json { CheckFormat::Json } else { args.format };
    for (i, (case, comparison)) in loaded.cases.iter().zip(&comparisons).enumerate() {
        let bar = Bar::waiting(&format!("judging {}", case.machine.name));
        let mut checked = site.judge(case, comparison);
        drop(bar);
        if let Some(list) = &args.thresholds {
            checked.thresholds = thresholds(comparison, Some(list.as_str()).filter(|name| *name != "all"));
        }
        match format {
            CheckFormat::Text => {
                between(out, i == 0)?;
                report(out, case, comparison, &checked, args.detail)?;
            }
            CheckFormat::Json => checked.comparison = Some(MachineComparison::of(comparison)),
            _ => {}
        }
        checks.push(checked);
    }
    // a result that cannot be written is still shown
    let written =
        args.judgement.html.as_ref().map_or(Ok(()), |file| html::write_page(file, &loaded, &comparisons, &checks));
    let line = Line::from(args.judgement.fail_on);
    let fails = checks.iter().any(|check| line.is_reached(check.verdict));
    checks.iter().for_each(|check| say_missing(&check.name, check.missing.as_deref()));
    let incomplete = loaded.incomplete || checks.iter().any(|check| check.missing.is_some());
    match format {
        CheckFormat::Text if args.detail.verbose => write_coverage(&loaded, out)?,
        CheckFormat::Text => {}
        CheckFormat::Json => {
            let coverage = loaded.coverage.clone();
            json(out, &CheckDocument { coverage, ..CheckDocument::new(checks) })?
        }
        CheckFormat::Junit => {
            out.write_all(junit::document(&checks, &rule_ids(Scope::Machine).collect::<Vec<_>>(), line).as_bytes())?
        }
        CheckFormat::Markdown => {
            for (i, ((case, comparison), checked)) in loaded.cases.iter().zip(&comparisons).zip(&checks).enumerate() {
                let text = markdown::machine(case, comparison, checked);
                write!(out, "{}{text}", if i == 0 { "" } else { "\n" })?;
            }
        }
        CheckFormat::Prometheus => {
            let mut all = Vec::new();
            for ((comparison, checked), case) in comparisons.iter().zip(&checks).zip(&loaded.cases) {
                let began = case.run().map(|run| run.conditions.began);
                let MachineCheck { verdict, findings, .. } = checked;
                all.push(prometheus::Judged { comparison, verdict: *verdict, findings, began });
            }
            out.write_all(prometheus::exposition(&all).as_bytes())?;
        }
    }
    written?;
    Ok(Outcome { findings: fails, incomplete })
}

/// Says on standard error what a record lacks.
pub(super) fn say_missing(name: &str, missing: Option<&str>) {
    if let Some(missing) = missing {
        crate::console::say(&format!("{name}: {missing}; 'peerlane measure' with --resume measures them"));
    }
}

/// Compares three or more records as a fleet.
fn as_fleet(args: &CheckArgs, settings: &Settings, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(option) = FleetArgs::refused(args) {
        let why = format!("{option} does not apply to three or more records, which are compared as a fleet");
        return Err(Failure::new(format!("{why}: leave it out, or give one record")));
    }
    fleet::of(&FleetArgs::of_check(args), settings, out)
}

/// The answer; with findings, a drawing and what is off on one screen; or everything.
fn report(
    out: &mut dyn Write,
    case: &Case,
    comparison: &Comparison,
    checked: &MachineCheck,
    detail: Detail,
) -> Result<(), Failure> {
    let machine = &case.machine;
    if !detail.verbose && !detail.quiet {
        return Ok(screen::write(out, case, comparison, checked)?);
    }
    Headline::of(machine, checked).write(out, detail.quiet)?;
    if detail.quiet {
        return Ok(());
    }
    if let Some(recognized) = &machine.recognized {
        hang(out, "", &recognized.to_string())?;
    }
    findings::write(out, &checked.findings)?;
    findings::outside(out, checked, usize::MAX)?;
    if !machine.fabric.nodes().is_empty() {
        writeln!(out)?;
    }
    tree::write(out, &machine.fabric, tree::Options { verbose: true, fold: false })?;
    numbers(out, comparison)?;
    // those of a run are shown with the run
    if case.run.is_none() {
        curves::write(out, machine)?;
    }
    heat_maps(out, comparison)?;
    Ok(findings::caveats(out, machine, true)?)
}

/// Measured and expected numbers. If nothing can be expected, expectations assume links at full width.
fn numbers(out: &mut dyn Write, comparison: &Comparison) -> std::io::Result<()> {
    let machine = comparison.model().machine;
    let sections = comparison::sections(comparison, &machine.fabric, false);
    if !comparison::only_measured(&sections) {
        return comparison::write(out, &sections, Head::All { assuming: false }, usize::MAX);
    }
    let assumed = Assumptions::of(machine, Parts::embedded());
    let assuming = assumed.model(Parts::embedded(), Assume::Parts);
    let sections = comparison::sections(&Comparison::of(&assuming), &machine.fabric, false);
    comparison::write(out, &sections, Head::All { assuming: true }, usize::MAX)?;
    let expects = sections.iter().any(Section::expects);
    on_assumptions(out, &if expects { assumed.sentences(&assuming) } else { Vec::new() })
}

/// Every matrix, coloured by the ratio of measured to expected.
fn heat_maps(out: &mut dyn Write, comparison: &Comparison) -> std::io::Result<()> {
    for series in comparison.matrices() {
        let matrix = series.matrix();
        writeln!(out)?;
        hang(out, "", &matrix.describe())?;
        if let Some(origin) = series.source().origin() {
            writeln!(out, "{}", paint(style::DIM, &fit(&label::origin(origin), line_width())))?;
        }
        let rate = matrix.unit.rate(1.0).is_some();
        let look = |i: usize, j: usize| {
            let expected = series.expected(i, j).map(|e| e.value);
            match (matrix.value(i, j), expected.filter(|e| *e > 0.0)) {
                (Some(measured), Some(expected)) if rate => style::of_heat(measured / expected),
                (Some(measured), Some(expected)) if measured > 0.0 => style::of_heat(expected / measured),
                _ => style::PLAIN,
            }
        };
        matrix::heat(out, &matrix.rows, &matrix.cols, &matrix.values, look)?;
    }
    Ok(())
}
