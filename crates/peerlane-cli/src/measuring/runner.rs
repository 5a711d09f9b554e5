//! A run from its first step to its last, and machines that are measured for another command.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};

use peerlane::case::Case;
use peerlane::fabric::NodeKind;
use peerlane::machine::Machine;
use peerlane::plan::{Method, Plan, Scope, Selection};
use peerlane::run::{Limits, Run};
use peerlane::target::Opened;

use peerlane_gpu::timeline;

use super::interrupt::Interrupt;
use super::keeper::Keeper;
use super::machine::{Measured, this_machine};
use super::process::{self, Worker};
use super::progress::Progress;
use super::supervisor::{Ending, Supervisor, since_start};
use crate::args::{Learn, Machines, WhatIf};
use crate::redact::Redactor;
use crate::target::{is_named, load_changed, load_redacted};
use crate::{Failure, live};

/// The machines to check. This machine is measured, unless `passive`.
pub(crate) fn machines(wanted: &Machines, what_if: &WhatIf, learn: Learn) -> Result<Opened, Failure> {
    // a changed design cannot be measured
    let only = wanted.machine.as_deref();
    let Learn { passive, force, redact } = learn;
    match measured(wanted, passive || !what_if.edits.is_empty(), force.given, redact.given)? {
        Some(loaded) => Ok(loaded),
        None if redact.given => Ok(load_redacted(&wanted.targets, only)?.changed(&what_if.edits)?),
        None => load_changed(&wanted.targets, only, &what_if.edits),
    }
}

/// This machine, measured now, if it is the TARGET; `None` if it should not be measured, or cannot be, which is
/// reported on stderr.
fn measured(wanted: &Machines, passive: bool, force: bool, redact: bool) -> Result<Option<Opened>, Failure> {
    let meant = match wanted.targets.as_slice() {
        [] => true,
        [only] => only == "live",
        _ => false,
    };
    if passive || !meant || !live::has_nvidia_gpu() {
        return Ok(None);
    }
    match take_live(force, redact) {
        Ok((run, incomplete)) => {
            let case = Case::of_run(run, "run").map_err(|e| Failure::new(e.to_string()))?;
            is_named(&case.machine, wanted.machine.as_deref())?;
            Ok(Some(Opened { cases: vec![case], incomplete, ..Opened::default() }))
        }
        Err(Failure::Message(why)) => {
            crate::console::say(&format!(
                "{why}\nNothing was measured; the verdict relies on what the machine reports about itself."
            ));
            Ok(None)
        }
        Err(output) => Err(output),
    }
}

/// Measures this machine by the default plan, without recording it: the run, and whether some values are missing.
fn take_live(force: bool, redact: bool) -> Result<(Run, bool), Failure> {
    let mut redactor = redact.then(Redactor::default);
    let ahead = ahead(None);
    let measured = this_machine("measure", redactor.as_mut(), true)?;
    let method = Scope::Default.method(gpus(&measured.machine));
    let mut run = begin(&measured, plan(&measured, Scope::Default, &Selection::default(), method)?);
    let shown = io::stderr().is_terminal() && !crate::console::quiet();
    let ending =
        supervise(&measured, ahead, (force, redactor), &mut run, &mut Keeper::none(), shown, &Interrupt::listen()?)?;
    let incomplete = ending != Ending::Complete || run.missing(&Limits::of(&measured.machine)).is_some();
    Ok((run, incomplete))
}

/// A worker that starts the driver while this process looks at the machine, if that is the one to measure.
pub(crate) fn ahead(target: Option<&OsStr>) -> Option<Worker> {
    let live = target.is_none_or(|target| target == "live") && live::has_nvidia_gpu();
    // where it cannot be started, the supervisor reports why it cannot later
    live.then(process::start_ahead)?.ok()
}

/// Runs a plan with workers, and ends its record.
pub(crate) fn supervise(
    measured: &Measured,
    ahead: Option<Worker>,
    (force, redactor): (bool, Option<Redactor>),
    run: &mut Run,
    keeper: &mut Keeper,
    shown: bool,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    run.conditions.startup.extend(timeline::phases().into_iter().map(since_start));
    let mut progress = Progress::new(shown, run);
    let device = measured.device.clone();
    let limits = Limits::of(&measured.machine);
    let supervisor = Supervisor::new(device, force, limits, run, keeper, &mut progress, interrupt);
    let ending = supervisor.with(ahead).redacting(redactor).run();
    progress.end();
    if let Ending::Refused(reason) = ending {
        return Err(Failure::Message(reason));
    }
    // those who read a shared directory take a whole file for a whole run
    if ending == Ending::Interrupted && keeper.is_shared() {
        keeper.leave(run, &progress);
    } else {
        keeper.finish(run, &progress);
    }
    Ok(ending)
}

pub(crate) fn gpus(machine: &Machine) -> usize {
    machine.fabric.of_kind(NodeKind::Gpu).count()
}

pub(crate) fn plan(measured: &Measured, scope: Scope, selection: &Selection, method: Method) -> Result<Plan, Failure> {
    let plan = Plan::of(&measured.machine, scope, selection, method).map_err(|e| Failure::new(e.to_string()))?;
    if plan.steps().next().is_some() {
        return Ok(plan);
    }
    let why: Vec<String> = plan.skipped.iter().map(|s| format!("{}: {}", s.test, s.why)).collect();
    Err(Failure::new(format!("nothing to measure on {}\n{}", measured.machine.name, why.join("\n"))))
}

/// The record of a run before its first step.
pub(crate) fn begin(measured: &Measured, plan: Plan) -> Run {
    let conditions = measured.conditions.clone();
    Run { conditions, ..Run::new(&measured.machine, measured.subject.clone(), plan) }
}
