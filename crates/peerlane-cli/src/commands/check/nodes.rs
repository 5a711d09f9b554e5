//! `check` of a record between nodes.

use std::io::Write;

use peerlane::nodes_check::judge;
use peerlane::site::Comparison;
use peerlane::verdict::Line;
use peerlane_report::Report;
use peerlane_report::formats::{self, json};

use crate::args::{CheckArgs, CheckFormat, FleetFormat};
use crate::pages::{can_write_page, write_nodes_page};
use crate::site::Site;
use crate::target::nodes::{Record, redacted, site_of};
use crate::{Failure, Outcome};

pub(crate) fn run(args: &CheckArgs, record: Record, out: &mut dyn Write) -> Result<Outcome, Failure> {
    refuse_what_is_for_machines(args)?;
    can_write_page(args.judgement.html.as_deref())?;
    let settings = Site::read(args.judgement.rules.file.as_deref())?.settings;
    let before = args.baseline.as_deref().map(Record::read).transpose()?;
    let mut records: Vec<Record> = before.into_iter().chain([record]).collect();
    if args.learn.redact.given {
        redacted(&mut records);
    }
    let Some(Record { run, file }) = records.pop() else { return Err(Failure::new("there is no record")) };
    let before = records.pop().map(|record| record.run);
    let site = site_of(&run)?;
    let comparison = Comparison::of(&site, &run);
    let judged = judge(&comparison, &settings, before.as_ref());
    if let Some(page) = &args.judgement.html {
        write_nodes_page(page, &comparison, &judged, &file)?;
    }
    let reports = [Report::of_nodes(&run, &judged)];
    let line = Line::from(args.judgement.fail_on);
    let format = if args.detail.json { CheckFormat::Json } else { args.format };
    match FleetFormat::from(format).of_report() {
        Some(format) => formats::write(out, format, &reports, args.detail.of_text(), line)?,
        None => json(out, &judged)?,
    }
    let incomplete = judged.missing.is_some();
    super::say_missing(&judged.name, judged.missing.as_deref());
    Ok(Outcome { findings: reports.iter().any(|report| report.reaches(line)), incomplete })
}

/// Refuses options that mean nothing for a record between nodes.
fn refuse_what_is_for_machines(args: &CheckArgs) -> Result<(), Failure> {
    let given = [
        ("--thresholds", args.thresholds.is_some()),
        ("--machine", args.machines.machine.is_some()),
        ("--what-if", !args.what_if.edits.is_empty()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Failure::new(format!("{option} is for machines, and this is a record between nodes"))),
        None => Ok(()),
    }
}
