//! `peerlane report`: the findings of `check` and the drawing of `map` as one HTML file, for example for a ticket.
//! The record of many nodes has a page of its own.

mod nodes;

use std::path::Path;

use peerlane::comparison::Comparison;
use peerlane::one_line::shown;
use peerlane_report::{Report, html};

use crate::args::ReportArgs;
use crate::measuring::machines;
use crate::pages::{can_write_page, write_document};
use crate::site::Site;
use crate::target::nodes::Record;
use crate::{Failure, Outcome};

pub(crate) fn run(args: &ReportArgs) -> Result<Outcome, Failure> {
    can_write_page(Some(&args.output))?;
    if let Some(record) = Record::only(&args.machines.targets) {
        return nodes::run(args, record?);
    }
    let loaded = machines(&args.machines, &args.what_if, args.learn)?;
    let models = loaded.models();
    let comparisons: Vec<Comparison> = models.iter().map(Comparison::of).collect();
    let site = Site::read(None)?;
    let judged = loaded.cases.iter().zip(&comparisons).map(|(case, comparison)| site.judge(case, comparison));
    let checks = judged.collect::<Vec<_>>();
    write_document(&args.output, &html::document(&Report::of_machines(&loaded.cases, &comparisons, &checks)))?;
    if args.output != Path::new("-") {
        crate::console::note(&format!("wrote {}", shown(&args.output)));
    }
    Ok(Outcome { findings: false, incomplete: loaded.incomplete })
}
