//! `peerlane report`: what `check` finds and what `map` draws, as one HTML file to be attached to a ticket.

use std::path::Path;

use super::check::{machines, models, write_page};
use super::site::Site;
use crate::args::ReportArgs;
use crate::{Failure, Outcome};

pub(crate) fn run(args: &ReportArgs) -> Result<Outcome, Failure> {
    let loaded = machines(&args.machines, &args.what_if, args.passive, args.force)?;
    let models = models(&loaded);
    let site = Site::read(None)?;
    let checks: Vec<_> = loaded.cases.iter().zip(&models).map(|(case, model)| site.judge(case, model)).collect();
    write_page(&args.output, &loaded, &models, &checks)?;
    if args.output != Path::new("-") {
        crate::say(&format!("wrote {}", args.output.display()));
    }
    Ok(Outcome { findings: false, incomplete: loaded.incomplete })
}
