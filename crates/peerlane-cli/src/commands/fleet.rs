//! `peerlane fleet`: many machines compared with each other and with themselves.

use std::io::Write;

use crate::args::FleetArgs;
use crate::site::Site;
use crate::{Failure, Outcome, fleet, pages};

pub(crate) fn run(args: &FleetArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    pages::can_write_page(args.judgement.html.as_deref())?;
    let site = Site::read(args.judgement.rules.file.as_deref())?;
    fleet::of(args, &site.settings, out)
}
