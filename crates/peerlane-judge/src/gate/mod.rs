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

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::check::{self, Context};
use crate::finding::Finding;
use crate::verdict::{Gate, Verdict};
use peerlane_design::case::Case;
use peerlane_machine::subject;
use peerlane_measure::run::{Missing, Run, RunError};
use peerlane_model::comparison::Comparison;
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;

/// The longest line, in characters: what Slurm and most tables show of a reason.
pub const MOST_CHARACTERS: usize = 80;

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
pub struct Conclusion {
    /// The verdict.
    pub verdict: Verdict,
    /// Whether jobs may run, which follows from it.
    pub outcome: Gate,
    /// The worst action of all findings; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// Where, and what: `GPU3: NVLinks active: 16 of 18`; empty where all is well.
    pub reason: String,
    /// Faults and what is unexplained, the worst action first.
    pub findings: Vec<Acted>,
}

impl Conclusion {
    /// What follows from a verdict and its findings; `missing` says what the record lacks.
    pub fn of(verdict: Verdict, findings: &[Finding], missing: Option<Missing>) -> Self {
        let troubles = findings.iter().filter(|finding| finding.contributes() >= Some(Verdict::Unexplained));
        let acts = |finding: &Finding| Acted { action: Action::of(finding), finding: finding.clone() };
        let mut acted: Vec<Acted> = troubles.map(acts).collect();
        // stable: findings come with the most severe first
        acted.sort_by_key(|one| one.action);
        let action = acted.first().map(|one| one.action);
        // a machine with a fault is taken out, whosever the fault is
        let action = if verdict == Verdict::Fault { action.map(|action| action.min(Action::Reset)) } else { action };
        let reason = match (acted.first(), verdict) {
            (Some(first), _) => reason(&first.finding),
            (None, Verdict::NotJudged) => missing
                .map_or_else(|| "nothing known could have shown a fault".to_owned(), |missing| missing.to_string()),
            _ => String::new(),
        };
        Conclusion { verdict, outcome: verdict.gate(), action, reason, findings: acted }
    }

    /// No verdict, and why.
    pub fn not_judged(why: impl Into<String>) -> Self {
        let verdict = Verdict::NotJudged;
        Conclusion { verdict, outcome: verdict.gate(), action: None, reason: why.into(), findings: Vec::new() }
    }

    /// A driver that does not answer: jobs on it would hang, too.
    pub fn hung(why: impl Into<String>) -> Self {
        let (verdict, action) = (Verdict::Fault, Some(Action::Isolate));
        Conclusion { verdict, outcome: verdict.gate(), action, reason: why.into(), findings: Vec::new() }
    }

    /// The conclusion in one line of at most [`MOST_CHARACTERS`]; `done` follows `ok`: `8 GPUs, 96 tests, 2.1 s`.
    pub fn line(&self, done: &str) -> String {
        let action = self.action.unwrap_or(Action::Isolate);
        let text = match self.outcome {
            Gate::Unknown => format!("unknown: {}", self.reason),
            Gate::Isolate => format!("{action} {}", self.reason),
            Gate::Hold => format!("hold {}", self.reason),
            Gate::Ok => format!("ok: {done}"),
        };
        fit(&text, MOST_CHARACTERS)
    }
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
pub fn judge(run: &Run) -> Result<Conclusion, RunError> {
    let case = Case::of_run(run.clone(), "run")?;
    Ok(judge_case(&case))
}

/// Judges what is known about a machine, measured or not.
pub fn judge_case(case: &Case) -> Conclusion {
    let model = Model::new(&case.machine, Parts::embedded());
    let comparison = Comparison::of(&model);
    let context = Context::of(case, &comparison);
    let findings = check::check(&context);
    Conclusion::of(check::verdict(&context, &findings), &findings, check::missing(case))
}
