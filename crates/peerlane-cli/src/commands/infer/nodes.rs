//! `infer` of a record between nodes: leaf switches and their uplinks.

use std::io::Write;

use peerlane::infer::infer_nodes;

use crate::args::InferArgs;
use crate::formats::json;
use crate::render;
use crate::target::nodes::Record;
use crate::{Failure, Outcome, output_file};

pub(crate) fn run(args: &InferArgs, record: &Record, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if !args.directions.is_empty() {
        return Err(Failure::new("--directions is for machines that are measured, and this is a record between nodes"));
    }
    let found = infer_nodes(&record.run);
    let nothing = found.rails.is_empty();
    // a result that cannot be written is still shown
    let written = args.output.as_ref().map_or(Ok(()), |path| {
        let text = serde_json::to_string_pretty(&found).map_err(|e| Failure::new(e.to_string()))?;
        output_file::write(path, text + "\n")
    });
    if args.detail.json {
        json(out, &found)?;
    } else {
        render::nodes_inference::write(out, &found, args.detail.of_text())?;
    }
    written?;
    Ok(Outcome { findings: false, incomplete: nothing || !record.run.complete })
}
