//! How a rule reports: a finding, built text by text, with what it is sorted and folded by.

use super::settings;
use crate::finding::{Certainty, Cost, Finding, FindingKind, Severity};
use crate::verdict;
use peerlane_machine::subject::Subject;

/// A finding with the weight it is sorted by.
pub(crate) struct Raised {
    /// What is reported.
    pub(crate) finding: Finding,
    /// Share of the performance that is lost, 0 to 1; of what is no matter of degree 1 where nothing works, else 0.
    pub(super) loss: f64,
    /// The pairs that show it, either end first, where they are not the subjects.
    pub(super) pairs: Vec<(String, String)>,
    /// What a finding that explains it says of it.
    pub(super) mention: String,
}

impl From<Finding> for Raised {
    fn from(finding: Finding) -> Self {
        Raised { finding, loss: 0.0, pairs: Vec::new(), mention: String::new() }
    }
}

impl Raised {
    /// A finding of a rule, without texts and about the machine as a whole. An error says that something does not work at all, and
    /// comes first; the severity that is reported is that of what the finding contributes to the verdict.
    pub(crate) fn new(rule: &str, kind: FindingKind, stated: Severity, certainty: Certainty) -> Self {
        let severity = if stated == Severity::Info { stated } else { verdict::severity(kind, certainty) };
        let loss = if stated == Severity::Error { 1.0 } else { 0.0 };
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
            reset: false,
        };
        Raised { loss, ..finding.into() }
    }

    /// Whether it counts in the verdict and names one of these ends, a pair of them, or the machine as a whole, so that it explains
    /// what was measured there.
    pub(super) fn explains(&self, ends: &[&str]) -> bool {
        let shown = || self.pairs.iter().any(|(a, b)| ends.contains(&a.as_str()) && ends.contains(&b.as_str()));
        self.finding.contributes().is_some() && (self.finding.is_about(ends) || shown())
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

    /// Says that a reset of the GPU or the NIC repairs it.
    pub(crate) fn repaired_by_reset(mut self) -> Self {
        self.finding.reset = true;
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

    /// Makes a fault a warning that loses no more than a site tolerates, whatever its rule.
    pub(super) fn weigh(&mut self, limits: settings::Severity) {
        let f = &mut self.finding;
        let tolerated = if f.certainty == Certainty::Certain { limits.certain } else { limits.error };
        if f.severity == Severity::Error && self.loss > 0.0 && self.loss <= tolerated {
            f.severity = Severity::Warning;
        }
    }

    /// The pairs that show it, where they are not its subjects.
    pub(super) fn shown_by(self, pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Raised { pairs: pairs.into_iter().collect(), ..self }
    }
}
