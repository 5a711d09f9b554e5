//! How a rule reports: a finding, built text by text, with what it is sorted and folded by.

use super::Rule;
use super::settings;
use crate::finding::{Certainty, Cost, Finding, FindingKind, Severity};
use peerlane_machine::subject::Subject;

/// A finding with the weight it is sorted by.
pub(crate) struct Raised {
    /// What is reported.
    pub(crate) finding: Finding,
    /// Share of the performance that is lost, 0 to 1; 0 where it is not a matter of degree.
    pub(super) loss: f64,
    /// The pairs that show it, either end first, where they are not the subjects.
    pub(super) pairs: Vec<(String, String)>,
}

impl Rule {
    /// A finding of this rule, without texts and about the machine as a whole.
    pub(super) fn raise(&self, kind: FindingKind, severity: Severity, certainty: Certainty) -> Raised {
        Raised::new(self.id, kind, severity, certainty)
    }
}

impl Raised {
    /// A finding of a rule, without texts and about the machine as a whole.
    pub(crate) fn new(rule: &str, kind: FindingKind, severity: Severity, certainty: Certainty) -> Self {
        let finding = Finding {
            rule: rule.to_owned(),
            kind,
            severity,
            subjects: Vec::new(),
            summary: String::new(),
            expected: String::new(),
            measured: String::new(),
            evidence: Vec::new(),
            fix: String::new(),
            certainty,
            confirm: String::new(),
            cost: None,
        };
        Raised { finding, loss: 0.0, pairs: Vec::new() }
    }

    /// What is wrong, where, and how much: one sentence.
    pub(crate) fn summary(mut self, text: impl Into<String>) -> Self {
        self.finding.summary = text.into();
        self
    }

    /// What should be, with unit and why.
    pub(crate) fn expected(mut self, text: impl Into<String>) -> Self {
        self.finding.expected = text.into();
        self
    }

    /// What is, with unit.
    pub(crate) fn measured(mut self, text: impl Into<String>) -> Self {
        self.finding.measured = text.into();
        self
    }

    /// Its sources.
    pub(crate) fn evidence(mut self, places: Vec<String>) -> Self {
        self.finding.evidence = places;
        self
    }

    /// What to do: an instruction.
    pub(crate) fn fix(mut self, text: impl Into<String>) -> Self {
        self.finding.fix = text.into();
        self
    }

    /// What would confirm it: usually a command.
    pub(crate) fn confirm(mut self, text: impl Into<String>) -> Self {
        self.finding.confirm = text.into();
        self
    }

    /// What it costs, where that is known.
    pub(crate) fn cost(mut self, cost: Option<Cost>) -> Self {
        self.finding.cost = cost;
        self
    }

    /// The nodes, pairs or links it is about.
    pub(crate) fn about(mut self, subjects: Vec<Subject>) -> Self {
        self.finding.subjects = subjects;
        self
    }

    /// The nodes it is about.
    pub(super) fn about_nodes<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.about(Subject::nodes_of(names))
    }

    /// The share of the performance that is lost, 0 to 1.
    pub(super) fn losing(self, loss: f64) -> Self {
        Raised { loss, ..self }
    }

    /// Makes a fault that loses too much an error, whatever its rule.
    pub(super) fn weigh(&mut self, limits: settings::Severity) {
        let f = &mut self.finding;
        let most = if f.certainty == Certainty::Certain { limits.certain } else { limits.error };
        if f.kind == FindingKind::Fault && f.severity == Severity::Warning && self.loss > most {
            f.severity = Severity::Error;
        }
    }

    /// The pairs that show it, where they are not its subjects.
    pub(super) fn shown_by(self, pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Raised { pairs: pairs.into_iter().collect(), ..self }
    }
}
