//! `peerlane check`: the verdict with its first cause and fix, findings, a drawing, and what is not as expected.

use std::io::Write;
use std::path::Path;

use peerlane::case::Case;
use peerlane::catalogue::Parts;
use peerlane::comparison::{Comparison, MachineComparison};
use peerlane::export::json::{CheckDocument, MachineCheck};
use peerlane::model::Model;
use peerlane::thresholds::thresholds;
use peerlane_report::Report;
use peerlane_report::formats::{self, Format};

use super::measure::{self, Taken};
use super::site::Site;
use super::{fleet, json, nodes};
use crate::args::{CheckArgs, CheckFormat, Learn, Machines, WhatIf};
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
    let format = if args.detail.json { CheckFormat::Json } else { args.format };
    let judged = loaded.cases.iter().zip(&comparisons).map(|(case, comparison)| {
        let mut checked = site.judge(case, comparison);
        if let Some(list) = &args.thresholds {
            checked.thresholds = thresholds(comparison, Some(list.as_str()).filter(|name| *name != "all"));
        }
        checked.comparison = (format == CheckFormat::Json).then(|| MachineComparison::of(comparison));
        checked
    });
    let checks: Vec<MachineCheck> = judged.collect();
    let reports = reports(&loaded, &comparisons, &checks);
    // a result that cannot be written is still shown
    let written = args.judgement.html.as_ref().map_or(Ok(()), |file| write_document(file, &html::document(&reports)));
    let fails = args.judgement.fail_on.as_test();
    let findings = reports.iter().any(|report| report.has_failed(&fails));
    match format.of_report() {
        Some(format) => {
            formats::write(out, format, &reports, args.detail.of_text(), &fails)?;
            if format == Format::Text && args.detail.verbose {
                loaded.write_coverage(out)?;
            }
        }
        None => {
            let coverage = loaded.coverage.clone();
            json(out, &CheckDocument { coverage, ..CheckDocument::new(checks.clone()) })?;
        }
    }
    written?;
    Ok(Outcome { findings, incomplete: loaded.incomplete })
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

/// A report of each machine.
pub(super) fn reports<'a>(
    loaded: &'a Loaded,
    comparisons: &'a [Comparison<'a>],
    checks: &'a [MachineCheck],
) -> Vec<Report<'a>> {
    let all = loaded.cases.iter().zip(comparisons).zip(checks);
    all.map(|((case, comparison), checked)| Report::of_machine(case, comparison, checked)).collect()
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
