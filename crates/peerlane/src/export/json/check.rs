//! The document of `check`.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use peerlane_design::case::Case;
use peerlane_judge::check::{
    Checked, Context, Settings, Waived, check_with, checked, missing, next_commands, unchecked, verdict,
};
use peerlane_judge::finding::Finding;
use peerlane_judge::thresholds::Threshold;
use peerlane_judge::verdict::Verdict;
use peerlane_machine::origin::Coverage;
use peerlane_model::comparison::{Comparison, MachineComparison};

/// Names the format of [`CheckDocument`].
const SCHEMA: &str = "peerlane/check/3";

/// What `check --json` writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckDocument {
    /// Names this format.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// The worst verdict of all machines; `not-judged` ranks between `limited` and `unexplained`.
    pub verdict: Verdict,
    /// The findings of all machines, most severe first within each.
    pub findings: Vec<MachineFinding>,
    /// Each machine with its verdict, what was judged of it, its findings and its comparison.
    pub machines: Vec<MachineCheck>,
    /// How much of each input was understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub coverage: Vec<Coverage>,
}

impl CheckDocument {
    /// From each machine's verdict and findings.
    pub fn new(machines: Vec<MachineCheck>) -> Self {
        let verdict = machines.iter().map(|c| c.verdict).max().unwrap_or(Verdict::NotJudged);
        let named = |check: &MachineCheck| {
            let machine = check.name.clone();
            let name = move |finding| MachineFinding { machine: machine.clone(), finding };
            check.findings.clone().into_iter().map(name).collect::<Vec<_>>()
        };
        let findings = machines.iter().flat_map(named).collect();
        CheckDocument { schema: SCHEMA, verdict, findings, machines, coverage: Vec::new() }
    }
}

/// A finding with its machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MachineFinding {
    /// The machine's name.
    pub machine: String,
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
}

/// One machine's verdict and findings, and its comparison where a document has that.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MachineCheck {
    /// The machine's name.
    pub name: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// What is known that would show a fault if there were one: `link widths`, `NVLinks`, `rates`.
    pub checked: Vec<&'static str>,
    /// What is worth judging of it and was not: `rates`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub unchecked: Vec<&'static str>,
    /// What its record lacks of its plan, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Commands whose output would give a verdict, where it is not judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub next: Vec<&'static str>,
    /// Its findings.
    pub findings: Vec<Finding>,
    /// What the site's settings accept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub waived: Vec<Waived>,
    /// Floors that others publish for this product, on request. They change no verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub thresholds: Vec<Threshold>,
    /// All expectations for it, compared with all that was measured on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<MachineComparison>,
}

impl MachineCheck {
    /// The findings of the rules by a site's settings, and the changes that were found elsewhere.
    pub fn of<'a>(case: &'a Case, comparison: &'a Comparison<'a>, settings: &Settings, changes: Vec<Finding>) -> Self {
        let context = Context::of(case, comparison);
        let name = &case.machine.name;
        let Checked { mut findings, waived } = check_with(&context, settings);
        if !changes.is_empty() {
            findings.splice(0..0, changes.into_iter().filter(|f| settings.waiver(name, f).is_none()));
            findings.sort_by_key(|f| std::cmp::Reverse(f.contributes()));
        }
        let verdict = verdict(&context, &findings);
        let next = if verdict == Verdict::NotJudged { next_commands(&context) } else { Vec::new() };
        MachineCheck {
            name: name.clone(),
            verdict,
            checked: checked(&context).to_vec(),
            unchecked: unchecked(&context),
            missing: missing(case).map(|missing| missing.to_string()),
            next,
            findings,
            waived,
            thresholds: Vec::new(),
            comparison: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_judge::finding::{Certainty, FindingKind, Severity};

    fn checked(name: &str, verdict: Verdict, findings: usize) -> MachineCheck {
        let finding = Finding {
            rule: "narrow-link".into(),
            kind: FindingKind::Fault,
            severity: Severity::Error,
            subjects: Vec::new(),
            summary: String::new(),
            expected: String::new(),
            measured: String::new(),
            evidence: Vec::new(),
            fix: String::new(),
            certainty: Certainty::Likely,
            confirm: String::new(),
            cost: None,
            reset: false,
        };
        MachineCheck {
            name: name.into(),
            verdict,
            checked: Vec::new(),
            unchecked: Vec::new(),
            missing: None,
            next: Vec::new(),
            findings: vec![finding; findings],
            waived: Vec::new(),
            thresholds: Vec::new(),
            comparison: None,
        }
    }

    #[test]
    fn several_checks_take_the_worst_verdict_and_name_the_machine() {
        let checks = vec![checked("a", Verdict::NotJudged, 0), checked("b", Verdict::Fault, 2)];
        let json = serde_json::to_value(CheckDocument::new(checks)).unwrap();
        assert_eq!(json["verdict"], "fault");
        assert_eq!(json["findings"][1]["machine"], "b");
        assert_eq!(json["machines"].as_array().unwrap().len(), 2);
        let one = serde_json::to_value(CheckDocument::new(vec![checked("a", Verdict::Healthy, 1)])).unwrap();
        assert_eq!(
            (one["machines"][0]["name"].as_str(), one["findings"][0]["machine"].as_str()),
            (Some("a"), Some("a"))
        );
    }
}
