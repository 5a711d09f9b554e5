//! May jobs run on this machine? A verdict in seconds on one machine without peers, as `peerlane gate` gives it.
//!
//! Measurements come in waves, those that show most per second first ([`waves`]); what looks bad is measured again before
//! it accuses, and the better value counts ([`examine`]). Counters are read before the first wave and after the last. The rules of [`crate::check`] judge the record, and [`Action`]
//! says what follows ([`judge`]). Nothing here touches a GPU or a clock: a [`Prober`] measures.

mod examine;
mod simulated;
#[cfg(test)]
mod tests;
mod waves;

pub use examine::{Examined, Observed, Prober, examine};
pub use simulated::{Simulated, simulate};
pub use waves::{Wave, waves};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::check::{self, Context};
use crate::finding::{Finding, FindingKind, Severity};
use peerlane_design::case::Case;
use peerlane_machine::subject::{self, Subject};
use peerlane_measure::run::{Run, RunError};
use peerlane_model::comparison::Comparison;
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;

/// The longest line, in characters: what Slurm and most tables show of a reason.
pub const MOST_CHARACTERS: usize = 80;

/// Whether jobs may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Nothing that takes the machine out of service.
    Ok,
    /// A sure fault: no jobs until it is isolated, repaired or reset.
    Fault,
    /// Nothing could show a fault, or nothing may be measured now. Never a reason to drain.
    NotJudged,
}

/// A finding with what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Acted {
    /// What to do.
    pub action: Action,
    /// Why.
    #[serde(flatten)]
    pub finding: Finding,
}

/// What the gate concludes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Whether jobs may run.
    pub outcome: Outcome,
    /// The worst action of all findings; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// Where, and what: `GPU3: NVLinks active: 16 of 18`; empty where all is well.
    pub reason: String,
    /// Faults, the worst action first.
    pub findings: Vec<Acted>,
}

impl Verdict {
    /// What follows from findings; `checked`: whether there was something that could have shown a fault.
    pub fn of(findings: &[Finding], checked: bool) -> Verdict {
        let acts = |finding: &Finding| {
            let action = action(finding);
            let is_fault = finding.kind == FindingKind::Fault && finding.severity > Severity::Info;
            (is_fault || action.takes_out()).then(|| Acted { action, finding: finding.clone() })
        };
        let mut acted: Vec<Acted> = findings.iter().filter_map(acts).collect();
        // stable: findings come with the most severe first
        acted.sort_by_key(|one| one.action);
        let action = acted.first().map(|one| one.action);
        let outcome = match action {
            Some(action) if action.takes_out() => Outcome::Fault,
            None if !checked => Outcome::NotJudged,
            _ => Outcome::Ok,
        };
        let reason = match (acted.first(), outcome) {
            (Some(first), _) => reason(&first.finding),
            (None, Outcome::NotJudged) => "nothing known could have shown a fault".to_owned(),
            _ => String::new(),
        };
        Verdict { outcome, action, reason, findings: acted }
    }

    /// No verdict, and why.
    pub fn not_judged(why: impl Into<String>) -> Verdict {
        Verdict { outcome: Outcome::NotJudged, action: None, reason: why.into(), findings: Vec::new() }
    }

    /// A driver that does not answer: jobs on it would hang, too.
    pub fn hung(why: impl Into<String>) -> Verdict {
        Verdict { outcome: Outcome::Fault, action: Some(Action::Isolate), reason: why.into(), findings: Vec::new() }
    }

    /// The verdict in one line of at most [`MOST_CHARACTERS`]; `done` follows `ok`: `8 GPUs, 96 tests, 2.1 s`.
    pub fn line(&self, done: &str) -> String {
        let text = match (self.outcome, self.action) {
            (Outcome::NotJudged, _) => format!("not judged: {}", self.reason),
            (_, Some(action)) => format!("{action} {}", self.reason),
            (_, None) => format!("ok: {done}"),
        };
        fit(&text, MOST_CHARACTERS)
    }
}

/// The share of a rate that one GPU's pairs must lack of what those of the other GPUs reach. Pairs of one class that are
/// sound differ by 1 to 2 % ([`peerlane_measure::simulated_machine::Effects::REAL`]).
const APART: f64 = 0.15;

/// What follows from a finding here. For a fleet's report the part at fault matters, and what is unsure about it is only
/// possible. For a machine as a whole it does not: a rate below any that the path should give is a fault of some part.
fn action(finding: &Finding) -> Action {
    let of_rule = Action::of(finding);
    let slow = finding.rule == "slow-path" && finding.kind == FindingKind::Fault && finding.severity > Severity::Info;
    let share = finding.cost.map_or(0.0, |cost| cost.share);
    let one_gpu = matches!(finding.subjects.as_slice(), [Subject::Node(_)]);
    let apart = finding.rule == "uneven-path-class" && one_gpu && share >= APART;
    if slow || apart { Action::Isolate } else { of_rule }
}

/// Where and what, without saying the place twice.
fn reason(finding: &Finding) -> String {
    let place = subject::join(&finding.subjects, ", ");
    let summary = finding.summary.trim_end_matches('.');
    if place.is_empty() {
        return format!("machine: {summary}");
    }
    match summary.strip_prefix(&place).map(|rest| rest.trim_start_matches([':', ' '])) {
        Some(rest) if !rest.is_empty() => format!("{place}: {rest}"),
        _ if finding.subjects.len() > MANY => format!("{} parts: {summary}", finding.subjects.len()),
        _ => format!("{place}: {summary}"),
    }
}

/// More subjects than these are counted.
const MANY: usize = 3;

/// A text of at most so many characters, cut at a word.
pub fn fit(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let cut: String = text.chars().take(most.saturating_sub(1)).collect();
    let whole = cut.rfind(' ').filter(|at| *at > most / 2).map_or(cut.as_str(), |at| &cut[..at]);
    format!("{}…", whole.trim_end_matches([' ', ',', ':', ';']))
}

/// Judges the record of one machine as the gate does.
///
/// Fails where the record's machine cannot be rebuilt.
pub fn judge(run: &Run) -> Result<Verdict, RunError> {
    let case = Case::of_run(run.clone(), "run")?;
    Ok(judge_case(&case))
}

/// Judges what is known about a machine, measured or not.
pub fn judge_case(case: &Case) -> Verdict {
    let model = Model::new(&case.machine, Parts::embedded());
    let comparison = Comparison::of(&model);
    let context = Context::of(case, &comparison);
    let findings = check::check(&context);
    Verdict::of(&findings, !check::checked(&context).is_empty())
}
