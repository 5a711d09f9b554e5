//! `peerlane explain`: the path between two nodes, hop by hop, with what limits it and why.

use std::io::Write;

use peerlane::machine::Machine;
use peerlane::target::{TargetKind, explain};

use super::heading;
use crate::args::ExplainArgs;
use crate::formats::json;
use crate::render::explanation;
use crate::target::load_changed;
use crate::{Failure, Outcome};

pub(crate) fn run(args: &ExplainArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let [targets @ .., a, b] = args.words.as_slice() else {
        let only = args.words.iter().map(|word| format!(" {}", word.to_string_lossy())).collect::<String>();
        return Err(Failure::new(format!("explain takes two nodes after the TARGET: peerlane explain{only} A B")));
    };
    let first = a;
    let [a, b] = [a, b].map(|word| word.to_string_lossy());
    let (a, b) = (&*a, &*b);
    if targets.is_empty() && TargetKind::of(first).is_ok() {
        return Err(Failure::new(format!("explain takes two nodes after the TARGET: peerlane explain {a} {b} B")));
    }
    let loaded = load_changed(targets, args.machine.as_deref(), &args.what_if.edits)?;
    let has_both = |m: &&Machine| m.lookup_pair(a, b).is_ok();
    let Some(first) = loaded.machines().next() else { return Err(Failure::new("no machine found")) };
    let machine = loaded.machines().find(has_both).unwrap_or(first);
    let explained = explain(machine, a, b)?;
    if args.halo && explained.halo.is_none() {
        return Err(Failure::new(format!(
            "--halo is about two GPUs with a known path; {a} and {b} are not: leave it out"
        )));
    }
    if args.detail.json {
        json(out, &explained)?;
    } else {
        let others = loaded.machines().filter(has_both).count();
        if others > 1 {
            crate::console::say(&format!(
                "{others} machines have both nodes; showing '{}' (use --machine for another)",
                machine.name
            ));
        }
        heading(out, machine)?;
        explanation::show(out, &explained, args.detail.verbose, args.halo)?;
    }
    Ok(Outcome { findings: false, incomplete: loaded.incomplete })
}
