//! `peerlane compare`: designs, machines and runs side by side, with a conclusion.

mod nodes;

use std::io::Write;

use peerlane::case::Case;
use peerlane::catalogue::Parts;
use peerlane::compare::{Subject, compare};
use peerlane::comparison::Comparison;
use peerlane::export::json::MachineCheck;
use peerlane::model::Model;
use peerlane_report::{Report, html};

use crate::args::CompareArgs;
use crate::formats::json;
use crate::pages::{can_write_page, write_document};
use crate::render::designs;
use crate::site::Site;
use crate::target::nodes::Record;
use crate::target::{changed, known_names, load};
use crate::{Failure, Outcome};

/// Suffix of the name of a changed design.
const CHANGED: &str = " (what if)";

pub(crate) fn run(args: &CompareArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(records) = Record::all(&args.targets) {
        return nodes::run(args, &records?, out);
    }
    can_write_page(args.html.as_deref())?;
    let mut all: Vec<(String, Case)> = Vec::new();
    let mut incomplete = false;
    for target in &args.targets {
        // each target is a separate machine
        let loaded = load(std::slice::from_ref(target), None)?;
        incomplete |= loaded.incomplete;
        for case in loaded.cases {
            let name = free_name(&all, &case.machine.name, &target.to_string_lossy());
            all.push((name, case));
        }
    }
    let edits = &args.what_if.edits;
    known_names(edits, all.iter().map(|(_, case)| &case.machine))?;
    let mut compared = Vec::with_capacity(all.len());
    for (name, case) in all {
        let after = changed(&case.machine, edits)?;
        compared.push((name.clone(), case));
        compared.extend(after.map(|machine| (format!("{name}{CHANGED}"), Case::from(machine))));
    }
    let subjects: Vec<Subject> =
        compared.iter().map(|(name, case)| Subject { name, machine: &case.machine, run: case.run() }).collect();
    let document = compare(&subjects, Parts::embedded());
    if let Some(file) = &args.html {
        let models: Vec<Model> =
            compared.iter().map(|(_, case)| Model::new(&case.machine, Parts::embedded())).collect();
        let site = Site::read(None)?;
        let comparisons: Vec<Comparison> = models.iter().map(Comparison::of).collect();
        let judged = compared.iter().zip(&comparisons).map(|((_, case), comparison)| site.judge(case, comparison));
        let checks = judged.collect::<Vec<MachineCheck>>();
        let reports = Report::of_machines(compared.iter().map(|(_, case)| case), &comparisons, &checks);
        write_document(file, &html::compared(&reports, &document))?;
    }
    if args.detail.json {
        json(out, &document)?;
    } else {
        designs::write(out, &document, args.detail.verbose)?;
    }
    Ok(Outcome { findings: false, incomplete })
}

/// A unique name: the machine's, else the file's, else one with a number.
fn free_name(all: &[(String, Case)], own: &str, target: &str) -> String {
    let taken = |name: &str| all.iter().any(|(n, _)| n == name);
    let file = target.rsplit('/').next().unwrap_or(target);
    let numbered = (2..).map(|i| format!("{own} #{i}"));
    [own.to_owned(), file.to_owned()].into_iter().chain(numbered).find(|n| !taken(n)).unwrap_or_default()
}
