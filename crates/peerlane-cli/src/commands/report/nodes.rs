//! `report` of a record between nodes: its page.

use std::path::Path;

use peerlane::nodes_check::judge;
use peerlane::one_line::shown;
use peerlane::site::Comparison;

use crate::args::ReportArgs;
use crate::pages::write_nodes_page;
use crate::site::Site;
use crate::target::nodes::{Record, redacted, site_of};
use crate::{Failure, Outcome};

pub(crate) fn run(args: &ReportArgs, record: Record) -> Result<Outcome, Failure> {
    let given = [("--machine", args.machines.machine.is_some()), ("--what-if", !args.what_if.edits.is_empty())];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
        return Err(Failure::new(format!("{option} is for machines, and this is a record between nodes")));
    }
    let mut records = [record];
    if args.learn.redact.given {
        redacted(&mut records);
    }
    let [Record { file, run }] = records;
    let site = site_of(&run)?;
    let comparison = Comparison::of(&site, &run);
    let judged = judge(&comparison, &Site::read(None)?.settings, None);
    write_nodes_page(&args.output, &comparison, &judged, &file)?;
    if args.output != Path::new("-") {
        crate::console::note(&format!("wrote {}", shown(&args.output)));
    }
    Ok(Outcome { findings: false, incomplete: !run.complete })
}
