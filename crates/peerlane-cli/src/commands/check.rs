//! `peerlane check`: verdict, tree, expected against seen, findings, and what is not known.

use std::io::Write;

use peerlane::catalogue::Parts;
use peerlane::check::{Context, check, verdict};
use peerlane::export::json::{CheckDocument, MachineCheck};
use peerlane::machine::Machine;
use peerlane::model::Model;

use super::measure::{self, Taken};
use super::{between, heading, json, most};
use crate::args::CheckArgs;
use crate::render::{comparison, findings, tree};
use crate::target::{Loaded, load_changed};
use crate::{Failure, Outcome, live};

pub(crate) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let loaded = match measured(args)? {
        Some(loaded) => loaded,
        None => load_changed(&args.machines.targets, args.machines.machine.as_deref(), &args.what_if.edits)?,
    };
    let mut checks = Vec::new();
    for (i, machine) in loaded.machines.iter().enumerate() {
        let model = Model::new(machine, Parts::embedded());
        let context = Context { machine, model: &model };
        let findings = check(&context);
        let verdict = verdict(&context, &findings);
        let checked = MachineCheck { name: machine.name.clone(), verdict, findings };
        if !args.detail.json {
            between(out, i == 0)?;
            report(out, &model, &checked, args.detail.verbose)?;
        }
        checks.push(checked);
    }
    let fails = checks.iter().flat_map(|c| &c.findings).any(|f| args.fail_on.includes(f.severity));
    if args.detail.json {
        json(out, &CheckDocument::new(checks))?;
    }
    Ok(Outcome { findings: fails, incomplete: loaded.incomplete })
}

/// This machine with what it delivers now, where it is the TARGET; `None` where it is not to be measured, is only
/// imagined otherwise, or cannot be measured, which stderr is told.
fn measured(args: &CheckArgs) -> Result<Option<Loaded>, Failure> {
    let meant = match args.machines.targets.as_slice() {
        [] => true,
        [only] => only == "live",
        _ => false,
    };
    if args.passive || !args.what_if.edits.is_empty() || !meant || !live::has_nvidia_gpu() {
        return Ok(None);
    }
    match measure::take_live(args.force) {
        Ok(Taken { run, incomplete }) => {
            let machine = run.machine().map_err(|e| Failure::new(e.to_string()))?;
            Ok(Some(Loaded { machines: vec![machine], runs: vec![Some(run)], incomplete }))
        }
        Err(Failure::Message(why)) => {
            crate::say(&format!("{why}\nNothing was measured: this is judged by what the machine says of itself."));
            Ok(None)
        }
        Err(output) => Err(output),
    }
}

fn report(out: &mut dyn Write, model: &Model, checked: &MachineCheck, verbose: bool) -> Result<(), Failure> {
    let machine = model.machine;
    heading(out, machine)?;
    findings::verdict(out, checked.verdict, &checked.findings)?;
    writeln!(out)?;
    tree::write(out, &machine.fabric, tree::Options { verbose })?;
    comparison::write(out, &comparison::sections(model, verbose))?;
    findings::write(out, &checked.findings, verbose)?;
    caveats(out, machine, verbose)
}

/// What is unknown, assumed, contradictory or odd.
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
