//! Many machines compared with each other and with themselves: for `fleet`, and for `check` of three or more records.

mod gathered;
mod labelled;
mod one;
mod read;
mod texts;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use peerlane::check::Settings;
use peerlane::fleet::{Dictionary, Node, Records, judge, values};
use peerlane::input_file::Folder;
use peerlane::target::TargetKind;
use peerlane::verdict::Line;
use peerlane_report::Report;
use peerlane_report::formats::{self, json};
use peerlane_report::html::fleet_page;

use crate::args::{FleetArgs, FleetFormat};
use crate::pages::write_html;
use crate::progress::Bar;
use crate::{Failure, Outcome};

/// The fewest records that `check` treats as a fleet; of fewer, each is shown in full.
const FEWEST: usize = 3;

/// Problems that are printed; more are counted.
const FEW: usize = 5;

/// Whether all targets of `check` are records, and enough for a fleet.
pub(crate) fn is_fleet(targets: &[OsString]) -> bool {
    match targets {
        [only] if TargetKind::Folder.is(only) => {
            let Ok(folder) = Folder::of(Path::new(only)) else { return false };
            let entries = folder.entries(Path::new(only)).into_iter().flatten();
            let files = entries.filter(|entry| entry.what.is_ok());
            files.filter(|file| is_run(&file.path)).take(FEWEST).count() == FEWEST
        }
        _ => targets.len() >= FEWEST && targets.iter().all(|target| is_run(Path::new(target))),
    }
}

fn is_run(file: &Path) -> bool {
    matches!(TargetKind::of(file.as_os_str()), Ok(TargetKind::Run | TargetKind::NodesRun))
}

/// Compares the machines of some records.
pub(crate) fn of(args: &FleetArgs, settings: &Settings, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let targets: Vec<&OsString> = args.targets.iter().chain(&args.baseline).filter(|target| *target == "-").collect();
    if targets.len() > 1 {
        return Err(Failure::new("'-' is given twice; standard input can only be read once"));
    }
    let dictionary = Dictionary::default();
    let bar = Bar::waiting("reading records");
    let mut found = read::read(&args.targets, &dictionary, args.redact.given);
    let before = read::read(&args.baseline, &dictionary, args.redact.given);
    drop(bar);
    let mut unread = std::mem::take(&mut found.unread);
    unread.extend(before.unread);
    let problems: Vec<String> = unread.iter().map(|u| format!("{}: {}", u.name, u.why)).collect();
    if !problems.is_empty() {
        let more = problems.len().saturating_sub(FEW);
        let more = if more > 0 { format!("\nand {more} more that cannot be read") } else { String::new() };
        crate::console::say(&format!("{}{more}", problems.iter().take(FEW).cloned().collect::<Vec<_>>().join("\n")));
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
    let bar = Bar::waiting(&format!("judging {} records", found.nodes.len()));
    let mut fleet = judge(&records, unread);
    drop(bar);
    if found.unheld > 0 {
        fleet.notes.push(format!("the rules did not look at {} records of streams and archives", found.unheld));
    }
    let reports = [Report::of_fleet(&fleet)];
    let line = Line::from(args.judgement.fail_on);
    let format = if args.detail.json { FleetFormat::Json } else { args.format };
    match format.of_report() {
        Some(format) => formats::write(out, format, &reports, args.detail.of_text(), line)?,
        None if format == FleetFormat::Values => {
            out.write_all(values(&found.nodes, &dictionary, formats::csv::words).as_bytes())?;
        }
        None if format == FleetFormat::Csv => out.write_all(formats::csv::outliers(&fleet).as_bytes())?,
        None => json(out, &fleet)?,
    }
    // a result that cannot be written is still shown
    args.judgement.html.as_ref().map_or(Ok(()), |file| write_html(file, fleet_page(&fleet)))?;
    let incomplete = !problems.is_empty() || fleet.machines.iter().any(|member| member.incomplete);
    Ok(Outcome { findings: reports.iter().any(|report| report.reaches(line)), incomplete })
}
