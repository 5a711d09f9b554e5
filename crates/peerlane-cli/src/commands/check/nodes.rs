//! `check` of a record between nodes.

use std::io::Write;

use peerlane::check::{Scope, rule_ids};
use peerlane::export::json::MachineCheck;
use peerlane::nodes_check::{NodesCheck, judge};
use peerlane::site::Comparison;
use peerlane::verdict::Line;

use crate::args::{CheckArgs, CheckFormat};
use crate::formats::{json, junit, nodes as formats};
use crate::html::{can_write_page, write_nodes_page};
use crate::render;
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
    let format = if args.detail.json { CheckFormat::Json } else { args.format };
    match format {
        CheckFormat::Text => render::nodes::judged(out, &run, &judged, args.detail)?,
        CheckFormat::Json => json(out, &judged)?,
        CheckFormat::Markdown => out.write_all(formats::markdown(&run, &judged).as_bytes())?,
        CheckFormat::Prometheus => out.write_all(formats::prometheus(&run, &judged).as_bytes())?,
        CheckFormat::Junit => {
            let rules: Vec<&str> = rule_ids(Scope::Nodes).collect();
            out.write_all(junit::document(&[of_machine(&judged)], &rules, args.judgement.fail_on.into()).as_bytes())?;
        }
    }
    let incomplete = judged.missing.is_some() || !run.complete;
    super::say_missing(&judged.name, judged.missing.as_deref());
    Ok(Outcome { findings: Line::from(args.judgement.fail_on).is_reached(judged.verdict), incomplete })
}

/// The verdict, where formats are those of machines.
fn of_machine(judged: &NodesCheck) -> MachineCheck {
    MachineCheck {
        name: judged.name.clone(),
        verdict: judged.verdict,
        checked: Vec::new(),
        unchecked: Vec::new(),
        missing: judged.missing.clone(),
        next: Vec::new(),
        findings: judged.findings.clone(),
        waived: judged.waived.clone(),
        thresholds: Vec::new(),
        comparison: None,
    }
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
