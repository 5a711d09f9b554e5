//! `peerlane compare`: designs, machines and runs side by side, with a conclusion.

mod nodes;

use std::ffi::OsString;
use std::io::Write;

use peerlane::catalogue::Parts;
use peerlane::comparison::Comparison;
use peerlane::export::json::MachineCheck;
use peerlane::model::Model;
use peerlane::target::{compare, designs};
use peerlane_report::{Report, html};

use crate::args::CompareArgs;
use crate::formats::json;
use crate::pages::{can_write_page, write_document};
use crate::render::designs as table;
use crate::site::Site;
use crate::target::load;
use crate::target::nodes::Record;
use crate::{Failure, Outcome};

pub(crate) fn run(args: &CompareArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(records) = Record::all(&args.targets) {
        return nodes::run(args, &records?, out);
    }
    can_write_page(args.html.as_deref())?;
    // each target is a separate machine
    let load = |target: &OsString| Ok((target.clone(), load(std::slice::from_ref(target), None)?));
    let opened = args.targets.iter().map(load).collect::<Result<Vec<_>, Failure>>()?;
    let incomplete = opened.iter().any(|(_, opened)| opened.incomplete);
    let compared = designs(opened, &args.what_if.edits)?;
    let document = compare(&compared);
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
        table::write(out, &document, args.detail.verbose)?;
    }
    Ok(Outcome { findings: false, incomplete })
}
