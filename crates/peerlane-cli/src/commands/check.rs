//! `peerlane check`: the verdict with its first cause and fix, findings, a drawing, and what is not as expected.

use std::io::Write;
use std::path::Path;

use peerlane::assumptions::Assumptions;
use peerlane::case::Case;
use peerlane::catalogue::Parts;
use peerlane::check::rule_ids;
use peerlane::comparison::{Comparison, MachineComparison};
use peerlane::export::json::{CheckDocument, MachineCheck};
use peerlane::machine::Machine;
use peerlane::model::{Assume, Model};
use peerlane::thresholds::thresholds;

use super::measure::{self, Taken};
use super::site::Site;
use super::{between, fleet, json, most, nodes, on_assumptions};
use crate::args::{CheckArgs, CheckFormat, Detail, Learn, Machines, WhatIf};
use crate::formats::{junit, markdown, prometheus};
use crate::render::comparison::{self, Head, Section};
use crate::render::headline::Headline;
use crate::render::style::{self, paint};
use crate::render::text::{fit, hang};
use crate::render::{curves, findings, label, line_width, matrix, screen, tree};
use crate::target::nodes::Record;
use crate::target::{Loaded, change, is_named, load_changed, load_redacted};
use crate::{Failure, Outcome, html, live, output_file};

pub(crate) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(record) = Record::only(&args.machines.targets) {
        return nodes::check::run(args, record?, out);
    }
    let site = Site::read(args.judgement.rules.file.as_deref())?;
    can_write_page(args.judgement.html.as_deref())?;
    if args.machines.machine.is_none() && fleet::is_fleet(&args.machines.targets) {
        return fleet::of_check(args, &site.settings, out);
    }
    let site = site.since(args.baseline.as_deref(), args.learn.redact.given)?;
    let loaded = machines(&args.machines, &args.what_if, args.learn)?;
    site.fits(&loaded)?;
    let models = models(&loaded);
    let comparisons: Vec<Comparison> = models.iter().map(Comparison::of).collect();
    let mut checks = Vec::new();
    let format = if args.detail.json { CheckFormat::Json } else { args.format };
    for (i, (case, comparison)) in loaded.cases.iter().zip(&comparisons).enumerate() {
        let mut checked = site.judge(case, comparison);
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
    let written = args.judgement.html.as_ref().map_or(Ok(()), |file| write_page(file, &loaded, &comparisons, &checks));
    let fails = checks.iter().flat_map(|c| &c.findings).any(|f| args.judgement.fail_on.includes(f));
    match format {
        CheckFormat::Text if args.detail.verbose => loaded.write_coverage(out)?,
        CheckFormat::Text => {}
        CheckFormat::Json => {
            let coverage = loaded.coverage.clone();
            json(out, &CheckDocument { coverage, ..CheckDocument::new(checks) })?
        }
        CheckFormat::Junit => out.write_all(
            junit::document(&checks, &rule_ids().collect::<Vec<_>>(), &|finding| {
                args.judgement.fail_on.includes(finding)
            })
            .as_bytes(),
        )?,
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
    Ok(Outcome { findings: fails, incomplete: loaded.incomplete })
}

/// The machines to check. This machine is measured, unless `passive`.
pub(super) fn machines(wanted: &Machines, what_if: &WhatIf, learn: Learn) -> Result<Loaded, Failure> {
    // a changed design cannot be measured
    let only = wanted.machine.as_deref();
    let Learn { passive, force, redact } = learn;
    match measured(wanted, passive || !what_if.edits.is_empty(), force.given, redact.given)? {
        Some(loaded) => Ok(loaded),
        None if redact.given => change(load_redacted(&wanted.targets, only)?, &what_if.edits),
        None => load_changed(&wanted.targets, only, &what_if.edits),
    }
}

/// A model of each machine.
pub(super) fn models(loaded: &Loaded) -> Vec<Model<'_>> {
    loaded.cases.iter().map(|case| Model::new(&case.machine, Parts::embedded())).collect()
}

/// Writes the page of some machines to a file, or to standard output for `-`.
pub(super) fn write_page<'a>(
    file: &Path,
    loaded: &'a Loaded,
    comparisons: &'a [Comparison<'a>],
    checks: &'a [MachineCheck],
) -> Result<(), Failure> {
    let subject = |((comparison, checked), case)| html::Subject { case, comparison, checked };
    let subjects: Vec<html::Subject> = comparisons.iter().zip(checks).zip(&loaded.cases).map(subject).collect();
    write_document(file, &html::document(&subjects))
}

/// Fails if a page could not be written to the file: to be called before anything is measured.
pub(super) fn can_write_page(file: Option<&Path>) -> Result<(), Failure> {
    file.filter(|file| *file != Path::new("-")).map_or(Ok(()), output_file::check)
}

/// Writes a report's page to a file, or to standard output for `-`.
pub(super) fn write_document(file: &Path, document: &html::ReportDocument) -> Result<(), Failure> {
    write_html(file, html::page(document))
}

/// Writes a page to a file, or to standard output for `-`.
pub(super) fn write_html(file: &Path, page: Result<String, serde_json::Error>) -> Result<(), Failure> {
    let page = page.map_err(|e| Failure::new(format!("no report: {e}")))?;
    if file == Path::new("-") {
        std::io::stdout().lock().write_all(page.as_bytes())?;
        return Ok(());
    }
    output_file::write(file, page)
}

/// This machine, measured now, if it is the TARGET; `None` if it should not be measured, or cannot be, which is
/// reported on stderr.
fn measured(wanted: &Machines, passive: bool, force: bool, redact: bool) -> Result<Option<Loaded>, Failure> {
    let meant = match wanted.targets.as_slice() {
        [] => true,
        [only] => only == "live",
        _ => false,
    };
    if passive || !meant || !live::has_nvidia_gpu() {
        return Ok(None);
    }
    match measure::take_live(force, redact) {
        Ok(Taken { run, incomplete }) => {
            let case = Case::of_run(run, "run").map_err(|e| Failure::new(e.to_string()))?;
            is_named(&case.machine, wanted.machine.as_deref())?;
            Ok(Some(Loaded { cases: vec![case], incomplete, coverage: Vec::new() }))
        }
        Err(Failure::Message(why)) => {
            crate::say(&format!(
                "{why}\nNothing was measured; the verdict relies on what the machine reports about itself."
            ));
            Ok(None)
        }
        Err(output) => Err(output),
    }
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
    caveats(out, machine, true)
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

/// Contradictions, unknowns, assumptions and warnings.
pub(crate) fn caveats(out: &mut dyn Write, machine: &Machine, verbose: bool) -> Result<(), Failure> {
    let most = most(verbose);
    let contradictions: Vec<String> = machine.contradictions.iter().map(|c| c.message.clone()).collect();
    let warnings: Vec<String> = machine.warnings.iter().map(ToString::to_string).collect();
    findings::sentences(out, "Contradictions", &contradictions, usize::MAX)?;
    findings::sentences(out, "Unknown", &machine.unknown, most)?;
    findings::sentences(out, "Assumed", &machine.assumptions, most)?;
    findings::sentences(out, "Warnings", &warnings, most)?;
    if verbose {
        let evidence: Vec<String> = machine.evidence.iter().map(|e| e.origin.to_string()).collect();
        findings::sentences(out, "Evidence", &evidence, usize::MAX)?;
    }
    Ok(())
}
