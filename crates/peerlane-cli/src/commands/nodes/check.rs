//! `check` of a record between nodes.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;

use peerlane::nodes::{MAX_NODES_BYTES, NodesRun};
use peerlane::nodes_check::{NodesCheck, joined, judge};
use peerlane::one_line::shown;
use peerlane::simulated_cluster::of_record;

use crate::args::{CheckArgs, CheckFormat};
use crate::render;
use crate::target::is_nodes_run;
use crate::{Failure, Outcome};

/// The record between nodes that the only TARGET is; `None` where it is none.
pub(crate) fn record(targets: &[OsString]) -> Option<Result<NodesRun, Failure>> {
    let [path] = targets else { return None };
    let path = Path::new(path);
    is_nodes_run(path).then(|| {
        let refuse = |why: String| Failure::new(format!("{}: {why}", shown(path)));
        let size = fs::metadata(path).map_or(0, |of| of.len());
        if size > MAX_NODES_BYTES as u64 {
            return Err(refuse(format!("larger than {} MiB", MAX_NODES_BYTES >> 20)));
        }
        let bytes = fs::read(path).map_err(|e| refuse(e.to_string()))?;
        let (run, unreadable) = NodesRun::read(&String::from_utf8_lossy(&bytes)).map_err(|e| refuse(e.to_string()))?;
        if unreadable > 0 {
            crate::say(&format!("{}: left out {unreadable} lines that are cut or unreadable", shown(path)));
        }
        Ok(run)
    })
}

pub(crate) fn run(args: &CheckArgs, run: &NodesRun, out: &mut dyn Write) -> Result<Outcome, Failure> {
    refuse_what_is_for_machines(args)?;
    let judged = judged(run)?;
    if args.detail.json || args.format == CheckFormat::Json {
        super::super::json(out, &judged)?;
    } else {
        render::nodes::judged(out, run, &judged, args.detail)?;
    }
    let findings = judged.findings.iter().any(|finding| args.fail_on.includes(finding));
    Ok(Outcome { findings, incomplete: !run.complete })
}

/// The verdict on a record.
pub(crate) fn judged(run: &NodesRun) -> Result<NodesCheck, Failure> {
    let cluster = of_record(run).transpose().map_err(|e| Failure::new(format!("{}: {e}", run.name)))?;
    Ok(judge(run, &joined(run, cluster.as_ref())))
}

/// Refuses options that mean nothing for a record between nodes.
fn refuse_what_is_for_machines(args: &CheckArgs) -> Result<(), Failure> {
    let text = matches!(args.format, CheckFormat::Text | CheckFormat::Json);
    let given = [
        ("--format", !text),
        ("--html", args.html.is_some()),
        ("--rules", args.rules.is_some()),
        ("--thresholds", args.thresholds.is_some()),
        ("--baseline", args.baseline.is_some()),
        ("--what-if", !args.what_if.edits.is_empty()),
        ("--redact", args.redact),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Failure::new(format!(
            "{option} is for machines; the check of a record between nodes is text, or JSON with --json"
        ))),
        None => Ok(()),
    }
}
