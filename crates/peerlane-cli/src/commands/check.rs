//! `peerlane check`: verdict, tree, expected against seen, findings, and what is not known.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use peerlane::catalogue::Parts;
use peerlane::check::{Context, Finding, Settings, check_with, verdict};
use peerlane::export::json::{CheckDocument, MachineCheck};
use peerlane::fleet::{Dictionary, Node, against};
use peerlane::machine::Machine;
use peerlane::model::Model;
use peerlane::run::Run;

use super::measure::{self, Taken};
use super::{between, fleet, heading, json, most};
use crate::args::CheckArgs;
use crate::render::{comparison, findings, tree};
use crate::target::{Loaded, load};
use crate::{Failure, Outcome, live};

/// Where a site's settings are looked for if none are named.
const SITE: &str = "/etc/peerlane/rules.toml";

/// Names another place for them.
const VARIABLE: &str = "PEERLANE_RULES";

/// Settings are written by hand; 1 MiB is far above any.
const MAX_SETTINGS: u64 = 1 << 20;

pub(crate) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let settings = settings(args.rules.as_deref())?;
    if args.baseline.is_none() && args.machines.machine.is_none() && fleet::is_fleet(&args.machines.targets) {
        return fleet::run(args, &settings, out);
    }
    let dictionary = Dictionary::default();
    let before = args.baseline.as_deref().map(|path| baseline(path, &dictionary)).transpose()?;
    let loaded = match measured(args)? {
        Some(loaded) => loaded,
        None => load(&args.machines.targets, args.machines.machine.as_deref())?,
    };
    if before.is_some() && loaded.runs.iter().all(Option::is_none) {
        return Err(Failure::new(
            "--baseline compares runs, and no TARGET here is one: measure first (peerlane measure -o run.json)",
        ));
    }
    let mut checks = Vec::new();
    for (i, (machine, run)) in loaded.machines.iter().zip(&loaded.runs).enumerate() {
        let model = Model::new(machine, Parts::embedded());
        let context = Context { machine, model: &model };
        let mut all = check_with(&context, &settings);
        if let (Some(before), Some(run)) = (&before, run) {
            let changes = changes(before, run, &dictionary, &settings)?;
            all.findings.splice(0..0, changes.into_iter().filter(|f| settings.waiver(&machine.name, f).is_none()));
            all.findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
        }
        let verdict = verdict(&context, &all.findings);
        let checked = MachineCheck { name: machine.name.clone(), verdict, findings: all.findings, waived: all.waived };
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

/// The settings of the rules: of the named file, else of the site's, else the usual ones.
fn settings(named: Option<&Path>) -> Result<Settings, Failure> {
    let path = named.map(Path::to_path_buf).or_else(|| env::var_os(VARIABLE).map(PathBuf::from));
    let path = match path {
        Some(path) => path,
        None if Path::new(SITE).is_file() => PathBuf::from(SITE),
        None => return Ok(Settings::default()),
    };
    let refused = |why: String| Failure::new(format!("{}: {why}", path.display()));
    if fs::metadata(&path).map_err(|e| refused(e.to_string()))?.len() > MAX_SETTINGS {
        return Err(refused(format!("larger than {} MiB; no settings", MAX_SETTINGS >> 20)));
    }
    let text = fs::read_to_string(&path).map_err(|e| refused(e.to_string()))?;
    Settings::read(&text).map_err(|e| refused(e.to_string()))
}

fn baseline(path: &Path, dictionary: &Dictionary) -> Result<Node, Failure> {
    let name = path.display().to_string();
    let text = fleet::text(&name).map_err(Failure::new)?;
    Node::read(&text, &name, dictionary).map_err(|e| Failure::new(format!("{name}: {e}")))
}

/// What changed since an earlier run.
fn changes(before: &Node, run: &Run, dictionary: &Dictionary, settings: &Settings) -> Result<Vec<Finding>, Failure> {
    let text = run.to_json().map_err(|e| Failure::new(e.to_string()))?;
    let now = Node::read(&text, "this run", dictionary).map_err(|e| Failure::new(e.to_string()))?;
    Ok(against(before, &now, dictionary, settings))
}

/// This machine with what it delivers now, where it is the TARGET; `None` where it is not to be measured, or cannot
/// be, which stderr is told.
fn measured(args: &CheckArgs) -> Result<Option<Loaded>, Failure> {
    let meant = match args.machines.targets.as_slice() {
        [] => true,
        [only] => only == "live",
        _ => false,
    };
    if args.passive || !meant || !live::has_nvidia_gpu() {
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
    let waived = checked.waived.iter().map(|w| format!("{}: {} ({})", w.finding.rule, w.finding.summary, w.reason));
    findings::sentences(out, "Waived", &waived.collect::<Vec<_>>(), most(verbose))?;
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
