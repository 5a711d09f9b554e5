//! A finding as every format shows it.

use std::borrow::Cow;

use peerlane::action::Action;
use peerlane::check::{Certainty, Finding, FindingKind, Severity};
use peerlane::fleet::Outlier;
use peerlane::subject::join;

/// Whether findings of a kind and severity fail.
pub type Fails<'f> = &'f dyn Fn(FindingKind, Severity) -> bool;

/// A finding; in a fleet with its machine.
#[derive(Clone)]
pub struct Item<'a> {
    /// What was found.
    pub finding: Cow<'a, Finding>,
    /// Whose it is, in a fleet.
    of: Option<Member<'a>>,
}

/// The machine, or the record between nodes, that a finding of a fleet is about.
#[derive(Clone, Copy, PartialEq)]
struct Member<'a> {
    name: &'a str,
    action: Action,
    repeats: usize,
}

impl<'a> Item<'a> {
    /// The findings about the only subject.
    pub fn all(findings: &'a [Finding]) -> Vec<Item<'a>> {
        findings.iter().map(|finding| Item { finding: Cow::Borrowed(finding), of: None }).collect()
    }

    /// An outlier of a fleet.
    pub(crate) fn of_outlier(outlier: &'a Outlier) -> Self {
        let finding = Finding {
            rule: outlier.rule.clone(),
            kind: FindingKind::Fault,
            severity: outlier.severity,
            subjects: outlier.subjects.clone(),
            summary: outlier.summary.clone(),
            expected: String::new(),
            measured: outlier.why.clone(),
            evidence: vec![outlier.file.clone()],
            fix: outlier.fix.clone(),
            // outliers do not carry how certain they are, and what is certain is shown without a word
            certainty: Certainty::Certain,
            confirm: String::new(),
            cost: None,
        };
        let of = Member { name: &outlier.machine, action: outlier.action, repeats: outlier.repeats };
        Item { finding: Cow::Owned(finding), of: Some(of) }
    }

    /// Whether it fails.
    pub(crate) fn has_failed(&self, fails: Fails) -> bool {
        fails(self.finding.kind, self.finding.severity)
    }

    /// The machine's name, in a fleet.
    pub(crate) fn machine(&self) -> Option<&'a str> {
        self.of.map(|of| of.name)
    }

    /// The subjects, separated by commas.
    pub(crate) fn subjects(&self) -> String {
        join(&self.finding.subjects, ", ")
    }

    /// What it is, in one sentence; in a fleet with the machine and what to do with it: `node4 GPU2: isolate: …`.
    pub(crate) fn sentence(&self) -> String {
        let Some(Member { name, action, .. }) = self.of else { return self.finding.summary.clone() };
        let subjects = self.subjects();
        let part = if subjects.is_empty() || subjects == name { String::new() } else { format!(" {subjects}") };
        format!("{name}{part}: {action}: {}", self.finding.summary)
    }

    /// It with its figures in one line, in a fleet: `isolate: node4 GPU2 [slow-path]: …`.
    pub(crate) fn line(&self) -> String {
        let Finding { rule, summary, measured, .. } = &*self.finding;
        let of = self.of.map_or_else(String::new, |of| format!("{}: {} ", of.action, of.name));
        format!("{of}{} [{rule}]: {summary}; {measured}", self.subjects())
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
        let key = |item: &'_ Item<'_>| {
            let Finding { rule, severity, kind, fix, .. } = &*item.finding;
            (rule.clone(), *severity, *kind, fix.clone())
        };
        self.of == other.of && key(self) == key(other)
    }

    /// All that a ticket needs to know of it, in order: a label and its text, which may be empty.
    pub(crate) fn fields(&self) -> [(&'static str, Cow<'_, str>); 4] {
        let Finding { expected, measured, fix, evidence, .. } = &*self.finding;
        [
            ("expected", Cow::Borrowed(expected)),
            ("measured", Cow::Borrowed(measured)),
            ("fix", Cow::Borrowed(fix)),
            ("evidence", Cow::Owned(evidence.join("; "))),
        ]
    }
}
