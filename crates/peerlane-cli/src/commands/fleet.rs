//! `peerlane check runs/*.json`: many machines compared with each other.

use peerlane::one_line::shown;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use peerlane::case::Case;
use peerlane::catalogue::Parts;
use peerlane::check::{Context, Finding, FindingKind, Settings, Severity, check_with};
use peerlane::comparison::Comparison;
use peerlane::fleet::{Dictionary, Fleet, Kind, Node, Outlier, compare};
use peerlane::model::Model;
use peerlane::run::{MAX_RUN_BYTES, Run, looks_like_run};
use peerlane::subject::join;

use super::json;
use crate::args::CheckArgs;
use crate::redact::Redactor;
use crate::render::WIDTH;
use crate::render::style::{self, paint};
use crate::render::text::{count, fit, wrap};
use crate::{Failure, Outcome};

/// The fewest runs that are a fleet; of fewer, each is shown in full.
const FEWEST: usize = 3;

/// How much of a file is read to see whether it is a run.
const HEAD: u64 = 512;

/// Outliers shown by default.
const SHOWN: usize = 20;

/// Whether all targets are records of runs, and enough for a fleet.
pub(super) fn is_fleet(targets: &[OsString]) -> bool {
    targets.len() >= FEWEST && targets.iter().all(|target| is_run(target))
}

fn is_run(target: &OsStr) -> bool {
    let mut head = Vec::new();
    let read = File::open(target).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.is_ok() && looks_like_run(&String::from_utf8_lossy(&head))
}

/// The text of a record.
pub(super) fn text(file: &Path) -> Result<String, String> {
    let name = shown(file);
    let refused = |e: std::io::Error| format!("{name}: {e}");
    if fs::metadata(file).map_err(refused)?.len() > MAX_RUN_BYTES as u64 {
        return Err(format!("{name}: not a recorded run: larger than {} MiB", MAX_RUN_BYTES >> 20));
    }
    fs::read_to_string(file).map_err(refused)
}

pub(super) fn run(args: &CheckArgs, settings: &Settings, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let dictionary = Dictionary::default();
    let records = Records::of(&args.machines.targets, args.redact);
    let (nodes, problems) = read(&records, &dictionary);
    if !problems.is_empty() {
        crate::say(&problems.join("\n"));
    }
    if nodes.is_empty() {
        return Err(Failure::new("none of the runs can be read"));
    }
    let mut fleet = compare(&nodes, &dictionary, settings);
    fleet.outliers.retain(|outlier| settings.waiver(&outlier.machine, &outlier.finding).is_none());
    if args.detail.json {
        json(out, &fleet)?;
    } else {
        show(out, &fleet, &records, settings, args.detail.verbose)?;
    }
    let fails = fleet.outliers.iter().any(|outlier| args.fail_on.includes(&outlier.finding));
    Ok(Outcome { findings: fails, incomplete: !problems.is_empty() })
}

/// The records by the names that are shown.
struct Records<'a> {
    files: &'a [OsString],
    names: Vec<String>,
    /// Their redacted texts, which are held together since a name in one is replaced in all.
    redacted: Option<Vec<Result<String, String>>>,
}

impl<'a> Records<'a> {
    fn of(files: &'a [OsString], redact: bool) -> Self {
        let names: Vec<String> = files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        if !redact {
            return Records { files, names, redacted: None };
        }
        let mut redactor = Redactor::default();
        let texts: Vec<Result<String, String>> = files.iter().map(|file| text(Path::new(file))).collect();
        texts.iter().flatten().for_each(|text| redactor.learn(text));
        let names = names.iter().map(|name| redactor.source(name)).collect();
        let texts = texts.into_iter().map(|read| read.map(|text| redactor.text(&text))).collect();
        Records { files, names, redacted: Some(texts) }
    }

    /// The name and the text of one.
    fn get(&self, at: usize) -> Option<(&str, Result<Cow<'_, str>, String>)> {
        let (name, file) = (self.names.get(at)?, self.files.get(at)?);
        let text = match self.redacted.as_ref().and_then(|texts| texts.get(at)) {
            Some(read) => read.as_deref().map(Cow::Borrowed).map_err(Clone::clone),
            None => text(Path::new(file)).map(Cow::Owned),
        };
        Some((name, text))
    }
}

/// The runs in the order of their files, and what could not be read.
fn read(records: &Records, dictionary: &Dictionary) -> (Vec<Node>, Vec<String>) {
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Result<Node, String>>> = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((name, text)) = records.get(at) else { break };
            let node = text.and_then(|text| Node::read(&text, name, dictionary).map_err(|e| format!("{name}: {e}")));
            done.lock().unwrap_or_else(PoisonError::into_inner).insert(at, node);
        }
    };
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (mut nodes, mut problems) = (Vec::new(), Vec::new());
    for result in done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
        match result {
            Ok(node) => nodes.push(node),
            Err(problem) => problems.push(problem),
        }
    }
    (nodes, problems)
}

fn show(
    out: &mut dyn Write,
    fleet: &Fleet,
    records: &Records,
    settings: &Settings,
    verbose: bool,
) -> Result<(), Failure> {
    let verdict = match fleet.outliers.len() {
        0 => "no outliers".to_owned(),
        n => count(n, "outlier"),
    };
    let title = format!("{} of {}: {verdict}", count(fleet.runs, "run"), count(fleet.kinds.len(), "kind"));
    writeln!(out, "{}", paint(style::HEADING, &title))?;
    let head = format!("  {:<40} {:>8} {:>6} {:>20}  {}", "Kind", "machines", "GPUs", "spread in %", "example");
    writeln!(out, "{}", paint(style::DIM, &fit(&head, WIDTH)))?;
    for kind in fleet.kinds.iter().take(if verbose { usize::MAX } else { SHOWN }) {
        let Kind { machines, gpus, products, example, compared, spread } = kind;
        let name = if products.is_empty() { "unknown GPUs".to_owned() } else { products.join(", ") };
        let spread = if *compared { format!("{:.1}", 100.0 * spread) } else { "too few to compare".to_owned() };
        writeln!(out, "  {:<40} {machines:>8} {gpus:>6} {spread:>20}  {}", fit(&name, 40), fit(example, 20))?;
    }
    for outlier in fleet.outliers.iter().take(if verbose { usize::MAX } else { SHOWN }) {
        one(out, outlier, records, settings)?;
    }
    if fleet.outliers.len() > SHOWN && !verbose {
        writeln!(
            out,
            "\n{}",
            paint(style::DIM, &format!("and {} more (-v shows them)", fleet.outliers.len() - SHOWN))
        )?;
    }
    Ok(())
}

fn one(out: &mut dyn Write, outlier: &Outlier, records: &Records, settings: &Settings) -> Result<(), Failure> {
    let Finding { severity, summary, subjects, measured, .. } = &outlier.finding;
    let label = if *severity == Severity::Error { "error" } else { "warning" };
    writeln!(out)?;
    let who = format!("{summary}; {}", join(subjects, ", "));
    for (i, line) in wrap(&who, WIDTH - 9).iter().enumerate() {
        let label = format!("{:8}", if i == 0 { label } else { "" });
        writeln!(out, "{} {line}", paint(style::of_severity(*severity), &label))?;
    }
    let mut lines = vec![("measured", measured.clone())];
    lines.extend(why(&outlier.file, records, settings).into_iter().map(|why| ("rules", why)));
    lines.push(("run", outlier.file.clone()));
    for (label, text) in lines {
        for (i, line) in wrap(&text, WIDTH - 19).iter().enumerate() {
            let label = format!("{:9}", if i == 0 { label } else { "" });
            writeln!(out, "         {} {line}", paint(style::DIM, &label))?;
        }
    }
    Ok(())
}

/// The faults that the rules find on one machine.
fn why(file: &str, records: &Records, settings: &Settings) -> Vec<String> {
    let at = records.names.iter().position(|name| name == file);
    let case =
        at.and_then(|at| records.get(at)?.1.ok()).and_then(|text| Case::of_run(Run::from_json(&text).ok()?, file).ok());
    let Some(case) = case else { return Vec::new() };
    let model = Model::new(&case.machine, Parts::embedded());
    let found = check_with(&Context::of(&case, &Comparison::of(&model)), settings).findings;
    let faults = found.into_iter().filter(|f| f.kind == FindingKind::Fault && f.severity >= Severity::Warning);
    faults.map(|f| format!("{} [{}]", f.summary, f.rule)).collect()
}
