//! `peerlane fleet`, and `check` of three or more records: many machines compared with each other and with themselves.

mod gathered;
mod labelled;
mod read;
mod texts;
mod zip;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use peerlane::check::Settings;
use peerlane::fleet::{Dictionary, Node, Records, judge};
use peerlane::nodes::looks_like_nodes_run;
use peerlane::one_line::shown;
use peerlane::run::{MAX_RUN_BYTES, looks_like_run};
use peerlane_report::{Report, formats};

use super::check::{can_write_page, write_html};
use super::json;
use super::site::Site;
use crate::args::{CheckArgs, FleetArgs, FleetFormat};
use crate::{Failure, Outcome, html};

/// The fewest records that `check` treats as a fleet; of fewer, each is shown in full.
const FEWEST: usize = 3;

/// How much of a file is read to see whether it is a record.
const HEAD: u64 = 512;

/// Problems that are printed; more are counted.
const FEW: usize = 5;

/// Whether all targets of `check` are records, and enough for a fleet.
pub(super) fn is_fleet(targets: &[OsString]) -> bool {
    match targets {
        [only] if Path::new(only).is_dir() => {
            let files = fs::read_dir(only).into_iter().flatten().flatten().map(|entry| entry.path().into_os_string());
            files.filter(|file| is_run(file)).take(FEWEST).count() == FEWEST
        }
        _ => targets.len() >= FEWEST && targets.iter().all(|target| is_run(target)),
    }
}

fn is_run(target: &OsStr) -> bool {
    let mut head = Vec::new();
    let read = File::open(target).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    let head = String::from_utf8_lossy(&head);
    read.is_ok() && (looks_like_run(&head) || looks_like_nodes_run(&head))
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

pub(crate) fn run(args: &FleetArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    can_write_page(args.judgement.html.as_deref())?;
    let site = Site::read(args.judgement.rules.file.as_deref())?;
    of(args, &site.settings, out)
}

/// The same for `check`.
pub(super) fn of_check(args: &CheckArgs, settings: &Settings, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(option) = FleetArgs::refused(args) {
        let why = format!("{option} does not apply to three or more records, which are compared as a fleet");
        return Err(Failure::new(format!("{why}: leave it out, or give one record")));
    }
    of(&FleetArgs::of_check(args), settings, out)
}

fn of(args: &FleetArgs, settings: &Settings, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let targets: Vec<&OsString> = args.targets.iter().chain(&args.baseline).filter(|target| *target == "-").collect();
    if targets.len() > 1 {
        return Err(Failure::new("'-' is given twice; standard input can only be read once"));
    }
    let dictionary = Dictionary::default();
    let mut found = read::read(&args.targets, &dictionary, args.redact.given);
    let before = read::read(&args.baseline, &dictionary, args.redact.given);
    let mut unread = std::mem::take(&mut found.unread);
    unread.extend(before.unread);
    let problems: Vec<String> = unread.iter().map(|u| format!("{}: {}", u.name, u.why)).collect();
    if !problems.is_empty() {
        let more = problems.len().saturating_sub(FEW);
        let more = if more > 0 { format!("\nand {more} more that cannot be read") } else { String::new() };
        crate::say(&format!("{}{more}", problems.iter().take(FEW).cloned().collect::<Vec<_>>().join("\n")));
    }
    if found.nodes.is_empty() {
        return Err(Failure::new(if problems.is_empty() {
            "no record found, and no machine in what is there; record runs with: peerlane measure -o run.json"
        } else {
            "none of the records can be read"
        }));
    }
    if !args.baseline.is_empty() && before.nodes.is_empty() {
        return Err(Failure::new("the baseline has no record that can be read"));
    }
    let again = |node: &Node| found.again(node);
    let records = Records {
        nodes: &found.nodes,
        baseline: &before.nodes,
        dictionary: &dictionary,
        settings,
        again: Some(&again),
    };
    let mut fleet = judge(&records, unread);
    if found.unheld > 0 {
        fleet.notes.push(format!("the rules did not look at {} records of streams and archives", found.unheld));
    }
    let reports = [Report::of_fleet(&fleet)];
    let fails = args.judgement.fail_on.as_test();
    let format = if args.detail.json { FleetFormat::Json } else { args.format };
    match format.of_report() {
        Some(format) => formats::write(out, format, &reports, args.detail.of_text(), &fails)?,
        None if format == FleetFormat::Csv => out.write_all(formats::csv::outliers(&fleet).as_bytes())?,
        None => json(out, &fleet)?,
    }
    // a result that cannot be written is still shown
    args.judgement.html.as_ref().map_or(Ok(()), |file| write_html(file, html::fleet_page(&fleet)))?;
    Ok(Outcome { findings: reports.iter().any(|report| report.has_failed(&fails)), incomplete: !problems.is_empty() })
}
