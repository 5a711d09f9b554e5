//! A finding as every format shows it.

use std::borrow::Cow;

use peerlane::check::Finding;
use peerlane::fleet::Outlier;
use peerlane::subject::join;

/// A finding; in a fleet with its machine.
#[derive(Clone)]
pub struct Item<'a> {
    /// What was found.
    pub finding: Cow<'a, Finding>,
    /// The outlier that it is, in a fleet.
    of: Option<&'a Outlier>,
}

impl<'a> Item<'a> {
    /// The findings about the only subject.
    pub fn all(findings: &'a [Finding]) -> Vec<Item<'a>> {
        findings.iter().map(|finding| Item { finding: Cow::Borrowed(finding), of: None }).collect()
    }

    /// An outlier of a fleet.
    pub(crate) fn of_outlier(outlier: &'a Outlier) -> Self {
        Item { finding: Cow::Borrowed(&outlier.finding), of: Some(outlier) }
    }

    /// The machine's name, in a fleet.
    pub(crate) fn machine(&self) -> Option<&'a str> {
        self.of.map(|of| of.machine.as_str())
    }

    /// The subjects, separated by commas.
    pub(crate) fn subjects(&self) -> String {
        join(&self.finding.subjects, ", ")
    }

    /// What it is, in one sentence; in a fleet with the machine and what to do with it: `node4 GPU2: isolate: …`.
    pub(crate) fn sentence(&self) -> String {
        let Some(Outlier { machine, action, .. }) = self.of else { return self.finding.summary.clone() };
        let subjects = self.subjects();
        let part = if subjects.is_empty() || subjects == *machine { String::new() } else { format!(" {subjects}") };
        format!("{machine}{part}: {action}: {}", self.finding.summary)
    }

    /// It with its figures in one line, in a fleet: `isolate: node4 GPU2 [slow-path]: …`.
    pub(crate) fn line(&self) -> String {
        let Finding { rule, summary, .. } = &*self.finding;
        let of = self.of.map_or_else(String::new, |of| format!("{}: {} ", of.action, of.machine));
        format!("{of}{} [{rule}]: {summary}; {}", self.subjects(), self.measured())
    }

    /// Its rule with its kind and what else qualifies it: `slow-path, fault, likely`.
    pub(crate) fn tag(&self) -> String {
        let repeats = self.of.map_or(1, |of| of.repeats);
        let again = (repeats > 1).then(|| format!(", in {repeats} records"));
        let sure = self.finding.certainty.word().map(|word| format!(", {word}"));
        let kind = self.finding.kind.words();
        format!("{}, {kind}{}{}", self.finding.rule, sure.unwrap_or_default(), again.unwrap_or_default())
    }

    /// Whether both say the same about different parts of one machine.
    pub(crate) fn is_like(&self, other: &Item) -> bool {
        let (a, b) = (&*self.finding, &*other.finding);
        let same = (&a.rule, a.severity, a.kind, &a.fix) == (&b.rule, b.severity, b.kind, &b.fix);
        same && self.machine() == other.machine()
    }

    /// What was measured; in a fleet with all that it is compared with.
    pub(crate) fn measured(&self) -> &str {
        self.of.map_or(&self.finding.measured, |of| &of.why)
    }

    /// What should be; in a fleet that is part of what was measured.
    pub(crate) fn expected(&self) -> &str {
        if self.of.is_some() { "" } else { &self.finding.expected }
    }

    /// Where it was found.
    pub(crate) fn evidence(&self) -> String {
        self.of.map_or_else(|| self.finding.evidence.join("; "), |of| of.file.clone())
    }

    /// All that a ticket needs to know of it, in order: a label and its text, which may be empty.
    pub(crate) fn fields(&self) -> [(&'static str, String); 4] {
        [
            ("expected", self.expected().to_owned()),
            ("measured", self.measured().to_owned()),
            ("fix", self.finding.fix.clone()),
            ("evidence", self.evidence()),
        ]
    }
}
