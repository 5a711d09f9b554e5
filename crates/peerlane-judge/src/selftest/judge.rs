//! Whether findings name what was planted, and nothing else.

use super::plants::Plant;
use super::{Alarm, Case, Input};
use crate::check::distinct;
use crate::check::{Context, check};
use crate::finding::{Finding, FindingKind};
use peerlane_design::case::Case as Given;
use peerlane_machine::machine::Machine;
use peerlane_machine::subject::Subject;
use peerlane_measure::run::Run;
use peerlane_model::comparison::Comparison;
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;

fn findings(given: &Given) -> Vec<Finding> {
    let model = Model::new(&given.machine, Parts::embedded());
    check(&Context::of(given, &Comparison::of(&model)))
}

/// The case of a run.
pub(super) fn judge(design: &Machine, run: &Run, system: &str, plant: Option<&Plant>, seed: u64) -> Case {
    let reported = Given::of_run(run.clone(), "run").map(|given| findings(&given)).unwrap_or_default();
    // what the catalogue's own text shows is true of the machine whatever is planted
    let known: Vec<(String, Vec<Subject>)> = findings(&Given::from(design.clone()))
        .into_iter()
        .filter(|f| f.kind == FindingKind::Fault)
        .map(|f| (f.rule, f.subjects))
        .collect();
    // a plant may explain a part of it
    let holds = |subjects: &[Subject], f: &Finding| {
        *subjects == f.subjects
            || !f.subjects.is_empty() && f.subjects.iter().all(|s| subjects.iter().any(|known| known.is(s)))
    };
    let is_known = |f: &Finding| known.iter().any(|(rule, subjects)| *rule == f.rule && holds(subjects, f));
    let fresh: Vec<&Finding> = reported.iter().filter(|f| !is_known(f)).collect();
    // a plant that must not be found excuses no finding
    let culprit = plant.filter(|p| p.kind.must_be_found());
    let touches =
        |f: &Finding| culprit.is_some_and(|p| f.subjects.iter().all(|s| p.touches(s)) && !f.subjects.is_empty());
    let counts = |f: &Finding, plant: &Plant| {
        let names = plant.kind.advice().is_none_or(|advice| f.fix.starts_with(advice));
        touches(f) && names && (f.is_trouble() || plant.kind.rules().contains(&f.rule.as_str()))
    };
    let found = fresh.iter().filter(|f| plant.is_some_and(|plant| counts(f, plant)));
    let by = distinct(found.map(|f| f.rule.clone()));
    let alarms = fresh.iter().filter(|f| f.kind == FindingKind::Fault && !touches(f));
    Case {
        input: Input::Run,
        machine: system.to_owned(),
        fault: plant.map(|p| p.kind.name().to_owned()),
        planted: plant.map(|p| p.words.clone()).unwrap_or_default(),
        seed,
        found: plant.filter(|p| p.kind.must_be_found()).map(|_| !by.is_empty()),
        false_alarms: alarms
            .map(|f| Alarm { rule: f.rule.clone(), subjects: f.subjects.clone(), summary: f.summary.clone() })
            .collect(),
        by,
    }
}
