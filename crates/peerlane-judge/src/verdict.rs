//! The verdict, and all that follows from it: severity, exit status, gate and JUnit; alerts are rules on it. `docs/verdict.md` is its page.
//!
//! Every output asks here, so that no two of them can disagree about one fault.

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Certainty, Finding, FindingKind, Severity};

/// What is known of a machine, of nodes or of a network as a whole; a later one decides before an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// States or values that could show a fault were judged, all that was planned was measured or read, and nothing is unexplained.
    Healthy,
    /// It works as built, and the build or a setting costs something that was requested.
    Limited,
    /// Nothing was judged that could show a fault, or something that was planned is missing.
    NotJudged,
    /// A line speaks of trouble, or a value is worse than its interval, and nothing known explains it.
    Unexplained,
    /// Something does not work, or is below its interval with a named place.
    Fault,
}

/// Whether jobs may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// Jobs may run.
    Ok,
    /// Jobs may run, and nothing changes: a node is neither drained nor resumed.
    Hold,
    /// No jobs until it is isolated, repaired or reset.
    Isolate,
    /// Nothing is known that could say. Never a reason to drain.
    Unknown,
}

/// The result of a test case of JUnit's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestResult {
    /// As it should be.
    Passed,
    /// A fault.
    Failed,
    /// Neither.
    Skipped,
}

impl Verdict {
    /// All verdicts, the best first.
    pub const ALL: [Verdict; 5] =
        [Verdict::Healthy, Verdict::Limited, Verdict::NotJudged, Verdict::Unexplained, Verdict::Fault];

    /// The verdict that follows from findings. `is_judged`: states or values that could show a fault were judged. `is_complete`:
    /// nothing that was planned is missing; what is missing never counts as good.
    pub fn of<'f>(findings: impl IntoIterator<Item = &'f Finding>, is_judged: bool, is_complete: bool) -> Verdict {
        match findings.into_iter().filter_map(Finding::contributes).max() {
            Some(worst @ (Verdict::Fault | Verdict::Unexplained)) => worst,
            Some(worst) if is_complete => worst,
            None if is_judged && is_complete => Verdict::Healthy,
            _ => Verdict::NotJudged,
        }
    }

    /// As it is printed: `NOT JUDGED`.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Healthy => "HEALTHY",
            Verdict::Limited => "LIMITED",
            Verdict::NotJudged => "NOT JUDGED",
            Verdict::Unexplained => "UNEXPLAINED",
            Verdict::Fault => "FAULT",
        }
    }

    /// As it is written in JSON: `not-judged`.
    pub fn id(self) -> &'static str {
        match self {
            Verdict::Healthy => "healthy",
            Verdict::Limited => "limited",
            Verdict::NotJudged => "not-judged",
            Verdict::Unexplained => "unexplained",
            Verdict::Fault => "fault",
        }
    }

    /// What a gate makes of it.
    pub fn gate(self) -> Gate {
        match self {
            Verdict::Healthy | Verdict::Limited => Gate::Ok,
            Verdict::NotJudged => Gate::Unknown,
            Verdict::Unexplained => Gate::Hold,
            Verdict::Fault => Gate::Isolate,
        }
    }
}

/// From which verdict on a command ends with 1 and a test case fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// From a fault on.
    Fault,
    /// From what is unexplained on.
    Unexplained,
    /// From a limit on.
    Limited,
    /// From nothing on.
    Never,
}

impl Line {
    /// Whether a verdict, or what a finding contributes to it, fails. What was not judged never does.
    pub fn is_reached(self, verdict: Verdict) -> bool {
        let least = match self {
            Line::Fault => Verdict::Fault,
            Line::Unexplained => Verdict::Unexplained,
            Line::Limited => Verdict::Limited,
            Line::Never => return false,
        };
        verdict >= least && verdict != Verdict::NotJudged
    }

    /// The result of a test case that contributes this much.
    pub fn result(self, verdict: Verdict) -> TestResult {
        match verdict {
            _ if self.is_reached(verdict) => TestResult::Failed,
            Verdict::Healthy | Verdict::Limited => TestResult::Passed,
            // a fault that the line lets pass is none that was looked for
            Verdict::NotJudged | Verdict::Unexplained | Verdict::Fault => TestResult::Skipped,
        }
    }
}

impl Finding {
    /// What it makes of the verdict; `None` of a note.
    pub fn contributes(&self) -> Option<Verdict> {
        match (self.kind, self.severity) {
            (_, Severity::Info) => None,
            (FindingKind::Fault, Severity::Error) => Some(Verdict::Fault),
            (FindingKind::Fault | FindingKind::Measurement, _) => Some(Verdict::Unexplained),
            (FindingKind::Design, _) => Some(Verdict::Limited),
        }
    }

    /// Whether it says that something does not work, or may not.
    pub fn is_trouble(&self) -> bool {
        self.kind == FindingKind::Fault && self.severity > Severity::Info
    }
}

/// The severity of what is more than a note: that of its contribution. Only a fault that is more than possible is an error.
pub(crate) fn severity(kind: FindingKind, certainty: Certainty) -> Severity {
    if kind == FindingKind::Fault && certainty > Certainty::Possible { Severity::Error } else { Severity::Warning }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::raised::Raised;

    fn finding(kind: FindingKind, severity: Severity, certainty: Certainty) -> Finding {
        Raised::new("slow-path", kind, severity, certainty).finding
    }

    #[test]
    fn severity_and_contribution_never_disagree() {
        use Certainty::{Certain, Likely, Possible};
        use FindingKind::{Design, Fault, Measurement};
        for (kind, certainty, severity, verdict) in [
            (Fault, Certain, Severity::Error, Verdict::Fault),
            (Fault, Likely, Severity::Error, Verdict::Fault),
            (Fault, Possible, Severity::Warning, Verdict::Unexplained),
            (Measurement, Certain, Severity::Warning, Verdict::Unexplained),
            (Design, Certain, Severity::Warning, Verdict::Limited),
        ] {
            for stated in [Severity::Warning, Severity::Error] {
                let one = finding(kind, stated, certainty);
                assert_eq!((one.severity, one.contributes()), (severity, Some(verdict)), "{kind:?} {certainty:?}");
            }
            assert_eq!(finding(kind, Severity::Info, certainty).contributes(), None);
        }
    }

    #[test]
    fn the_worst_decides_and_what_is_missing_is_never_good() {
        let limit = finding(FindingKind::Design, Severity::Warning, Certainty::Certain);
        let possible = finding(FindingKind::Fault, Severity::Error, Certainty::Possible);
        let fault = finding(FindingKind::Fault, Severity::Warning, Certainty::Likely);
        let note = finding(FindingKind::Fault, Severity::Info, Certainty::Certain);
        assert_eq!(Verdict::of([&limit, &possible, &fault], true, true), Verdict::Fault);
        assert_eq!(Verdict::of([&possible, &limit], true, true), Verdict::Unexplained);
        assert_eq!(Verdict::of([&limit, &note], false, true), Verdict::Limited);
        assert_eq!(Verdict::of([&note], true, true), Verdict::Healthy);
        assert_eq!(Verdict::of([&note], false, true), Verdict::NotJudged);
        assert_eq!(Verdict::of([&limit], true, false), Verdict::NotJudged);
        assert_eq!(Verdict::of([], true, false), Verdict::NotJudged);
        assert_eq!(Verdict::of([&possible], true, false), Verdict::Unexplained);
        assert_eq!(Verdict::of([&fault], true, false), Verdict::Fault);
    }

    #[test]
    fn every_output_follows_from_the_verdict() {
        let row = |verdict: Verdict| (Line::Fault.is_reached(verdict), verdict.gate(), Line::Fault.result(verdict));
        assert_eq!(
            Verdict::ALL.map(row),
            [
                (false, Gate::Ok, TestResult::Passed),
                (false, Gate::Ok, TestResult::Passed),
                (false, Gate::Unknown, TestResult::Skipped),
                (false, Gate::Hold, TestResult::Skipped),
                (true, Gate::Isolate, TestResult::Failed),
            ]
        );
        let failing = |line: Line| Verdict::ALL.map(|verdict| line.is_reached(verdict));
        assert_eq!(failing(Line::Unexplained), [false, false, false, true, true]);
        assert_eq!(failing(Line::Limited), [false, true, false, true, true]);
        assert_eq!(failing(Line::Never), [false; 5]);
        assert_eq!(Line::Never.result(Verdict::Fault), TestResult::Skipped);
    }
}
