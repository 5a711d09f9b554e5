//! `compare` of two records of the same nodes: what changed.

use std::io::Write;

use peerlane::nodes_check::compare;

use crate::args::CompareArgs;
use crate::formats::json;
use crate::render;
use crate::target::nodes::Record;
use crate::{Failure, Outcome};

pub(crate) fn run(args: &CompareArgs, records: &[Record], out: &mut dyn Write) -> Result<Outcome, Failure> {
    if args.html.is_some() || !args.what_if.edits.is_empty() {
        return Err(Failure::new("--html and --what-if are for machines, and these are records between nodes"));
    }
    let [before, after] = records else {
        let n = records.len();
        return Err(Failure::new(format!(
            "records between nodes are compared two at a time, the earlier one first, and there are {n}"
        )));
    };
    let document = compare((&before.file, &before.run), (&after.file, &after.run));
    if document.changes.is_empty() {
        return Err(Failure::new(format!(
            "{} and {} have no value of the same nodes and NICs",
            before.file, after.file
        )));
    }
    if args.detail.json {
        json(out, &document)?;
    } else {
        render::nodes::compared(out, &document, args.detail.of_text())?;
    }
    Ok(Outcome { findings: false, incomplete: !(before.run.complete && after.run.complete) })
}
