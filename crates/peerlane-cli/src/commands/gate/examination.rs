//! What is examined: what the machine reports about itself, then measurements.

use std::env;
use std::ffi::OsString;
use std::thread;
use std::time::{Duration, Instant};

use peerlane::case::Case;
use peerlane::catalogue::Parts;
use peerlane::check;
use peerlane::comparison::Comparison;
use peerlane::fabric::NodeKind;
use peerlane::fact::Fact;
use peerlane::gate::{self, Conclusion};
use peerlane::model::Model;
use peerlane::run::{Limits, Run};
use peerlane::verdict::Gate;
use peerlane_gpu::{LEAVING, LOOK_AGAIN};

use super::bars::View;
use super::prober::{HUNG, Probe, Stop};
use super::survey::{self, Survey, Unsurveyed};
use crate::Failure;
use crate::measuring::machine::{self, Measured};
use crate::site::Site;

/// Share of the time that a survey may take: a driver that needs longer hangs.
const SURVEY: f64 = 0.7;

/// What to examine.
pub(super) struct Task {
    /// The TARGET.
    pub(super) target: Option<OsString>,
    /// Measure nothing.
    pub(super) passive: bool,
    /// GPUs that the machine should have.
    pub(super) gpus: Option<usize>,
    /// Kernel messages from before, in seconds after the boot, do not count.
    pub(super) since: Option<u64>,
    /// When the verdict has to be there.
    pub(super) until: Instant,
}

/// What came of it.
pub(super) struct Examination {
    pub(super) conclusion: Conclusion,
    /// Whether it is that the driver hangs.
    pub(super) hung: bool,
    pub(super) gpus: usize,
    pub(super) planned: usize,
    pub(super) measured: usize,
    pub(super) repeated: usize,
    pub(super) run: Option<Run>,
    pub(super) notes: Vec<String>,
}

impl Examination {
    fn of(conclusion: Conclusion) -> Self {
        let notes = Vec::new();
        Examination { conclusion, hung: false, gpus: 0, planned: 0, measured: 0, repeated: 0, run: None, notes }
    }

    pub(super) fn not_judged(why: impl Into<String>) -> Self {
        Self::of(Conclusion::not_judged(why))
    }

    fn hung(why: String) -> Self {
        Examination { hung: true, ..Self::of(Conclusion::hung(why)) }
    }
}

/// Examines the machine. The error is one of the arguments.
pub(super) fn examine(task: &Task, site: &Site) -> Result<Examination, Failure> {
    match task.target.as_deref().filter(|target| *target != "live") {
        Some(target) => {
            let measured = machine::resolve(Some(target), "gate")?;
            if task.passive {
                return Ok(Examination::not_judged("a simulated machine reports nothing about itself"));
            }
            Ok(measure_it(measured, task, site, Vec::new()))
        }
        None => {
            let left = task.until.saturating_duration_since(Instant::now());
            Ok(this_machine(task, site, Instant::now() + LEAVING.min(left.mul_f64(0.1))))
        }
    }
}

/// Examines this machine. GPUs that processes use are looked at again until `leaving`.
fn this_machine(task: &Task, site: &Site, leaving: Instant) -> Examination {
    let patience =
        task.until.saturating_duration_since(Instant::now()).mul_f64(if task.passive { 1.0 } else { SURVEY });
    let survey = match survey::take(patience) {
        Ok(survey) => survey,
        Err(Unsurveyed::Hung(waited)) => {
            let why = format!("driver: reading sysfs and NVML has not ended in {:.0} s", waited.as_secs_f64());
            return if waited >= HUNG { Examination::hung(why) } else { silent(waited) };
        }
        Err(Unsurveyed::Failed(why)) => return Examination::not_judged(why),
    };
    if survey.hung {
        return silent(patience.mul_f64(survey::OF_NVML));
    }
    let Survey { none, mps, present, .. } = &survey;
    let (none, mps, present) = (none.clone(), *mps, *present);
    if !present && none.is_some() {
        return match task.gpus {
            Some(wanted) if wanted > 0 => isolated(format!("machine: no NVIDIA GPU, {wanted} expected")),
            _ => Examination::not_judged("no NVIDIA GPU on this machine"),
        };
    }
    let look = survey.look(task.since);
    let mut notes: Vec<String> = look.found.warnings.iter().map(|warning| warning.message.clone()).collect();
    let on_bus = look.found.evidence.iter().filter_map(|e| match &e.fact {
        Fact::Pci(tree) => Some(tree.devices.iter().filter(|d| d.is_gpu() && d.vendor == Some(NVIDIA)).count()),
        _ => None,
    });
    let on_bus = on_bus.max().unwrap_or_default();
    let visible = env::var_os("CUDA_VISIBLE_DEVICES");
    let view = View { snapshot: look.snapshot.as_ref(), on_bus, mps, visible: visible.as_deref() };
    let (hidden, occupied, gpus) = (view.hidden(), view.occupied(), view.present());
    let used = view.is_used();
    let with = |examination: Examination, notes: Vec<String>| Examination { gpus, notes, ..examination };
    if let Some(wanted) = task.gpus.filter(|wanted| gpus < *wanted) {
        return with(isolated(format!("machine: {gpus} of {wanted} GPUs present")), notes);
    }
    if view.snapshot.is_none() {
        let why = notes.iter().find(|note| note.contains("NVML") || note.contains("nvidia")).cloned();
        return with(Examination::not_judged(why.unwrap_or_else(|| "NVML does not report GPUs".to_owned())), notes);
    }
    if let Some(why) = hidden {
        return with(Examination::not_judged(why), notes);
    }
    let measured = match machine::of_look(look, machine::here()) {
        Ok(measured) => measured,
        Err(Failure::Message(why)) => return with(Examination::not_judged(why), notes),
        Err(Failure::Output(_)) => return with(Examination::not_judged("the machine cannot be read"), notes),
    };
    let passive = judged(&Case::from(measured.machine.clone()), site);
    if task.passive || passive.outcome == Gate::Isolate {
        return with(Examination::of(passive), notes);
    }
    if let Some(why) = occupied {
        if used && Instant::now() < leaving {
            thread::sleep(LOOK_AGAIN);
            return this_machine(task, site, leaving);
        }
        return with(Examination::not_judged(why), notes);
    }
    notes.retain(|note| !note.is_empty());
    measure_it(measured, task, site, notes)
}

/// NVIDIA's number on the PCI bus.
const NVIDIA: u16 = 0x10de;

/// A driver that has not answered: it hangs where it had time enough.
fn silent(waited: Duration) -> Examination {
    let seconds = waited.as_secs_f64();
    match waited >= HUNG.mul_f64(0.9) {
        true => Examination::hung(format!("driver: NVML has not answered in {seconds:.0} s")),
        false => Examination::not_judged(format!("NVML has not answered in {seconds:.1} s; allow a longer --deadline")),
    }
}

fn isolated(reason: String) -> Examination {
    Examination::of(Conclusion::hung(reason))
}

fn measure_it(measured: Measured, task: &Task, site: &Site, notes: Vec<String>) -> Examination {
    let Measured { machine, subject, device, conditions } = measured;
    let gpus = machine.fabric.of_kind(NodeKind::Gpu).count();
    // the rules take some of the time
    let left = task.until.saturating_duration_since(Instant::now());
    let until = task.until - left.mul_f64(0.1).min(Duration::from_secs(1));
    let mut probe = Probe::new(device, Limits::of(&machine), until);
    let judge = |run: &Run| match Case::of_run(run.clone(), "run") {
        Ok(case) => judged(&case, site),
        Err(error) => Conclusion::not_judged(error.to_string()),
    };
    let examined = gate::examine(&machine, subject, &judge, &mut probe);
    let (planned, measured, repeated) = (examined.planned, examined.measured(), examined.repeated);
    let mut run = examined.run;
    let (before, after) = (std::mem::take(&mut run.conditions.before), std::mem::take(&mut run.conditions.after));
    run.conditions = conditions;
    if let Some(opened) = probe.conditions.take() {
        let driver = run.conditions.driver.take().or(opened.driver.clone());
        let (began, host, kernel) = (run.conditions.began, run.conditions.host.take(), run.conditions.kernel.take());
        run.conditions = peerlane::run::Conditions { began, host, kernel, driver, ..opened };
    }
    (run.conditions.before, run.conditions.after) = (before, after);
    let mut all = Examination { gpus, planned, measured, repeated, ..Examination::of(examined.conclusion) };
    all.notes = notes.into_iter().chain(probe.notes).collect();
    let is_fault = all.conclusion.outcome == Gate::Isolate;
    match examined.stopped {
        // what was found before stays found
        Some(_) if is_fault => {}
        Some(Stop::Broken(why)) => {
            all.conclusion = Conclusion::hung(why);
            all.hung = true;
        }
        Some(Stop::NotJudged(why)) => all.conclusion = Conclusion::not_judged(why),
        Some(Stop::OutOfTime) if measured == 0 => all.conclusion = Conclusion::not_judged("out of time"),
        Some(Stop::OutOfTime) | None => {}
    }
    all.run = Some(run);
    all
}

/// What is concluded from what is known of a machine.
fn judged(case: &Case, site: &Site) -> Conclusion {
    let model = Model::new(&case.machine, Parts::embedded());
    let checked = site.judge(case, &Comparison::of(&model));
    Conclusion::of(checked.verdict, &checked.findings, check::missing(case))
}
