//! Findings as JUnit XML: one suite per machine, one case per rule. Findings at or above `--fail-on` are failures, others
//! are passed cases with output.

use std::fmt::Write as _;

use peerlane::check::{Finding, Severity};
use peerlane::export::json::MachineCheck;
use peerlane::subject::join;

use crate::render::svg::escape;

/// All machines as one document: a case for each of these rules.
pub fn document(checks: &[MachineCheck], rules: &[&str], fails: &dyn Fn(&Finding) -> bool) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"peerlane check\">\n");
    for check in checks {
        suite(&mut text, check, rules, fails);
    }
    text.push_str("</testsuites>\n");
    text
}

fn suite(text: &mut String, check: &MachineCheck, rules: &[&str], fails: &dyn Fn(&Finding) -> bool) {
    let mut rules = rules.to_vec();
    // findings of unlisted rules must not be lost
    for finding in &check.findings {
        if !rules.contains(&finding.rule.as_str()) {
            rules.push(&finding.rule);
        }
    }
    let of = |rule: &str| check.findings.iter().filter(move |f| f.rule == rule).collect::<Vec<&Finding>>();
    let tests: usize = rules.iter().map(|rule| of(rule).len().max(1)).sum();
    let failures = check.findings.iter().filter(|f| fails(f)).count();
    let name = escape(&check.name);
    // writing to a string cannot fail
    let _ = writeln!(text, "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\">");
    for rule in rules {
        let found = of(rule);
        if found.is_empty() {
            let _ = writeln!(text, "    <testcase classname=\"{name}\" name=\"{}\"/>", escape(rule));
        }
        for finding in found {
            case(text, &name, finding, fails);
        }
    }
    text.push_str("  </testsuite>\n");
}

fn case(text: &mut String, machine: &str, finding: &Finding, fails: &dyn Fn(&Finding) -> bool) {
    let severity = match finding.severity {
        Severity::Info => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
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
    let (body, summary) = (body.join("\n"), escape(&finding.summary));
    let _ = if fails(finding) {
        writeln!(text, "      <failure type=\"{severity}\" message=\"{summary}\">{body}</failure>")
    } else {
        writeln!(text, "      <system-out>{severity}: {summary}\n{body}</system-out>")
    };
    text.push_str("    </testcase>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::check::{Certainty, FindingKind, Verdict, rule_ids};
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
        };
        let findings = vec![finding(Severity::Error), finding(Severity::Warning)];
        let checks = [MachineCheck {
            name: "m<1>".into(),
            verdict: Verdict::Fault,
            checked: Vec::new(),
            next: Vec::new(),
            findings,
            waived: Vec::new(),
            thresholds: Vec::new(),
            comparison: None,
        }];
        let ids: Vec<&str> = rule_ids().collect();
        let text = document(&checks, &ids, &|finding| finding.severity == Severity::Error);
        let rules = ids.len();
        assert!(
            text.contains(&format!("<testsuite name=\"m&lt;1&gt;\" tests=\"{}\" failures=\"1\">", rules + 1)),
            "{text}"
        );
        assert_eq!((text.matches("<failure").count(), text.matches("<system-out>").count()), (1, 1));
        assert_eq!(document(&checks, &ids, &|_| false).matches("<failure").count(), 0);
        assert!(text.contains("narrow-link: &lt;GPU&quot;0 &gt;") && !text.contains('\u{0}'));
    }
}
