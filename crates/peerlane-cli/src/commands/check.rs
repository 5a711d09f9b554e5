//! `peerlane check`: the verdict with its first cause and fix, findings, a drawing, and what is not as expected.

mod nodes;

use std::io::Write;

use peerlane::check::Settings;
use peerlane::comparison::{Comparison, MachineComparison};
use peerlane::export::json::{CheckDocument, MachineCheck};
use peerlane::knowledge;
use peerlane::one_line::shown;
use peerlane::thresholds::thresholds;
use peerlane::verdict::Line;
use peerlane_report::Report;
use peerlane_report::formats::{self, Format, json};
use peerlane_report::html;

use crate::args::{CheckArgs, CheckFormat, FleetArgs, FleetFormat};
use crate::measuring::machines;
use crate::pages::{can_write_page, write_document};
use crate::progress::Bar;
use crate::site::Site;
use crate::target::nodes::Record;
use crate::target::write_coverage;
use crate::{Failure, Outcome, fleet};

pub(crate) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(folder) = &args.knowledge {
        let added = knowledge::add(folder).map_err(|error| Failure::Message(error.to_string()))?;
        if added == 0 {
            return Err(Failure::Message(format!("{}: no .toml file with an entry", shown(folder))));
        }
    }
    if let Some(record) = Record::only(&args.machines.targets) {
        return nodes::run(args, record?, out);
    }
    let site = Site::read(args.judgement.rules.file.as_deref())?;
    can_write_page(args.judgement.html.as_deref())?;
    if args.machines.machine.is_none() && fleet::is_fleet(&args.machines.targets) {
        return as_fleet(args, &site.settings, out);
    }
    let site = site.since(args.baseline.as_deref(), args.learn.redact.given)?;
    let loaded = machines(&args.machines, &args.what_if, args.learn)?;
    site.fits(&loaded)?;
    let models = loaded.models();
    let comparisons: Vec<Comparison> = models.iter().map(Comparison::of).collect();
    let format = if args.detail.json { CheckFormat::Json } else { args.format };
    let judged = loaded.cases.iter().zip(&comparisons).map(|(case, comparison)| {
        let bar = Bar::waiting(&format!("judging {}", case.machine.name));
        let mut checked = site.judge(case, comparison);
        drop(bar);
        if let Some(list) = &args.thresholds {
            checked.thresholds = thresholds(comparison, Some(list.as_str()).filter(|name| *name != "all"));
        }
        checked.comparison = (format == CheckFormat::Json).then(|| MachineComparison::of(comparison));
        checked
    });
    let checks: Vec<MachineCheck> = judged.collect();
    let reports = Report::of_machines(&loaded.cases, &comparisons, &checks);
    // a result that cannot be written is still shown
    let written = args.judgement.html.as_ref().map_or(Ok(()), |file| write_document(file, &html::document(&reports)));
    let line = Line::from(args.judgement.fail_on);
    let findings = reports.iter().any(|report| report.reaches(line));
    checks.iter().for_each(|check| say_missing(&check.name, check.missing.as_deref()));
    let incomplete = loaded.incomplete || checks.iter().any(|check| check.missing.is_some());
    match FleetFormat::from(format).of_report() {
        Some(format) => {
            formats::write(out, format, &reports, args.detail.of_text(), line)?;
            if format == Format::Text && args.detail.verbose {
                write_coverage(&loaded, out)?;
            }
        }
        None => {
            let coverage = loaded.coverage.clone();
            json(out, &CheckDocument { coverage, ..CheckDocument::new(checks.clone()) })?;
        }
    }
    written?;
    Ok(Outcome { findings, incomplete })
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
