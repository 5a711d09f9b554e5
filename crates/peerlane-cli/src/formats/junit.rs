//! Findings as JUnit XML: one suite per machine, one case per rule. What fails and what is skipped follows from the verdict
//! ([`Line::result`]).

use std::fmt::Write as _;

use peerlane::check::Finding;
use peerlane::export::json::MachineCheck;
use peerlane::subject::join;
use peerlane::verdict::{Line, TestResult, Verdict};

use crate::render::findings::word;
use crate::render::headline::not_judged;
use crate::render::svg::escape;

/// All machines as one document: a case for each of these rules.
pub(crate) fn document(checks: &[MachineCheck], rules: &[&str], line: Line) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"peerlane check\">\n");
    for check in checks {
        suite(&mut text, check, rules, line);
    }
    text.push_str("</testsuites>\n");
    text
}

/// What a finding's case comes to.
fn result(finding: &Finding, line: Line) -> TestResult {
    finding.contributes().map_or(TestResult::Passed, |verdict| line.result(verdict))
}

fn suite(text: &mut String, check: &MachineCheck, rules: &[&str], line: Line) {
    let mut rules = rules.to_vec();
    // findings of unlisted rules must not be lost
    for finding in &check.findings {
        if !rules.contains(&finding.rule.as_str()) {
            rules.push(&finding.rule);
        }
    }
    let of = |rule: &str| check.findings.iter().filter(move |f| f.rule == rule).collect::<Vec<&Finding>>();
    let silent = rules.iter().filter(|rule| of(rule).is_empty()).count();
    let tests = silent + check.findings.len();
    let count = |wanted| check.findings.iter().filter(|f| result(f, line) == wanted).count();
    let is_judged = check.verdict != Verdict::NotJudged;
    let skipped = count(TestResult::Skipped) + if is_judged { 0 } else { silent };
    let (name, failures) = (escape(&check.name), count(TestResult::Failed));
    // writing to a string cannot fail
    let _ =
        writeln!(text, "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" skipped=\"{skipped}\">");
    for rule in rules {
        let found = of(rule);
        if found.is_empty() {
            let case = format!("    <testcase classname=\"{name}\" name=\"{}\"", escape(rule));
            let _ = match is_judged {
                true => writeln!(text, "{case}/>"),
                false => writeln!(text, "{case}><skipped message=\"{}\"/></testcase>", escape(&not_judged(check))),
            };
        }
        for finding in found {
            case(text, &name, finding, line);
        }
    }
    text.push_str("  </testsuite>\n");
}

fn case(text: &mut String, machine: &str, finding: &Finding, line: Line) {
    let severity = word(finding.severity);
    let subjects =
        if finding.subjects.is_empty() { String::new() } else { format!(": {}", join(&finding.subjects, ", ")) };
    let _ = writeln!(
        text,
        "    <testcase classname=\"{machine}\" name=\"{}\">",
        escape(&format!("{}{subjects}", finding.rule))
    );
    let body = format!(
        "expected: {}\nmeasured: {}\nfix: {}\nevidence: {}",
        finding.expected,
        finding.measured,
        finding.fix,
        finding.evidence.join("; ")
    );
    let body: Vec<String> = body.split('\n').map(escape).collect();
    write_result(text, result(finding, line), severity, &finding.summary, &body.join("\n"));
    text.push_str("    </testcase>\n");
}

/// A failure, a skip with its reason, or what a passed case has to say; `body` is escaped.
pub(super) fn write_result(text: &mut String, result: TestResult, severity: &str, summary: &str, body: &str) {
    let summary = escape(summary);
    // writing to a string cannot fail
    let _ = match result {
        TestResult::Failed => {
            writeln!(text, "      <failure type=\"{severity}\" message=\"{summary}\">{body}</failure>")
        }
        TestResult::Skipped => {
            writeln!(text, "      <skipped message=\"{summary}\"/>\n      <system-out>{severity}: {body}</system-out>")
        }
        TestResult::Passed => writeln!(text, "      <system-out>{severity}: {summary}\n{body}</system-out>"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::check::{Certainty, FindingKind, Severity, rule_ids};
    use peerlane::subject::Subject;

    #[test]
    fn failures_match_the_exit_status() {
        let finding = |severity| Finding {
            rule: "narrow-link".into(),
            kind: FindingKind::Fault,
            severity,
            subjects: Subject::nodes_of(["<GPU\"0\u{0}>"]),
            summary: "a & b".into(),
            expected: String::new(),
            measured: String::new(),
            evidence: Vec::new(),
            fix: String::new(),
            certainty: Certainty::Likely,
            confirm: String::new(),
            cost: None,
            reset: false,
        };
        let findings = vec![finding(Severity::Error), finding(Severity::Warning)];
        let checks = [MachineCheck {
            name: "m<1>".into(),
            verdict: Verdict::Fault,
            checked: Vec::new(),
            unchecked: Vec::new(),
            missing: None,
            next: Vec::new(),
            findings,
            waived: Vec::new(),
            thresholds: Vec::new(),
            comparison: None,
        }];
        let ids: Vec<&str> = rule_ids().collect();
        let text = document(&checks, &ids, Line::Fault);
        let rules = ids.len();
        assert!(
            text.contains(&format!(
                "<testsuite name=\"m&lt;1&gt;\" tests=\"{}\" failures=\"1\" skipped=\"1\">",
                rules + 1
            )),
            "{text}"
        );
        assert_eq!((text.matches("<failure").count(), text.matches("<skipped ").count()), (1, 1));
        assert_eq!(document(&checks, &ids, Line::Never).matches("<failure").count(), 0);
        assert!(text.contains("narrow-link: &lt;GPU&quot;0 &gt;") && !text.contains('\u{0}'));
    }
}
