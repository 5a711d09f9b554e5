//! Findings as JUnit XML: one suite per machine with a case per rule; of a fleet, one per kind with a case per machine. What
//! fails and what is skipped follows from the verdict ([`Line::result`]).

use std::fmt::Write as _;

use peerlane::verdict::{Line, TestResult};

use crate::item::Item;
use crate::render::svg::escape;
use crate::report::{Report, Suite};

/// All subjects as one document.
pub fn junit(reports: &[Report], line: Line) -> String {
    let command = reports.first().map_or("check", Report::command);
    let mut text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"peerlane {command}\">\n");
    reports.iter().flat_map(Report::suites).for_each(|of| suite(&mut text, &of, line));
    text.push_str("</testsuites>\n");
    text
}

fn suite(text: &mut String, of: &Suite, line: Line) {
    let result = |items: &[&Item]| match items.iter().filter_map(|item| item.finding.contributes()).max() {
        Some(worst) => line.result(worst),
        None if items.is_empty() && of.skipped.is_some() => TestResult::Skipped,
        None => TestResult::Passed,
    };
    let count = |wanted| of.cases.iter().filter(|(_, items)| result(items) == wanted).count();
    let (name, tests) = (escape(&of.name), of.cases.len());
    let (failures, skipped) = (count(TestResult::Failed), count(TestResult::Skipped));
    // writing to a string cannot fail
    let _ =
        writeln!(text, "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" skipped=\"{skipped}\">");
    for (case, items) in &of.cases {
        let _ = write!(text, "    <testcase classname=\"{name}\" name=\"{}\"", escape(case));
        let _ = match (items.first(), &of.skipped) {
            (Some(worst), _) => writeln!(text, ">\n{}    </testcase>", outcome(result(items), worst, items)),
            (None, Some(reason)) => writeln!(text, "><skipped message=\"{}\"/></testcase>", escape(reason)),
            (None, None) => writeln!(text, "/>"),
        };
    }
    text.push_str("  </testsuite>\n");
}

/// A failure, a skip with its reason, or what a passed case has to say; the first finding heads it.
fn outcome(result: TestResult, worst: &Item, items: &[&Item]) -> String {
    let severity = worst.finding.severity.word();
    let summary = escape(&worst.finding.summary);
    let body: Vec<String> = items.iter().flat_map(|item| body(item)).map(|line| escape(&line)).collect();
    let body = body.join("\n");
    match result {
        TestResult::Failed => format!("      <failure type=\"{severity}\" message=\"{summary}\">{body}</failure>\n"),
        TestResult::Skipped => {
            format!("      <skipped message=\"{summary}\"/>\n      <system-out>{severity}: {body}</system-out>\n")
        }
        TestResult::Passed => format!("      <system-out>{severity}: {summary}\n{body}</system-out>\n"),
    }
}

/// All that is known of a finding; of one of several about a machine of a fleet, one line.
fn body(item: &Item) -> Vec<String> {
    if item.machine().is_some() {
        return vec![item.line()];
    }
    let fields = item
        .fields()
        .into_iter()
        .flat_map(|(label, text)| format!("{label}: {text}").split('\n').map(str::to_owned).collect::<Vec<_>>());
    fields.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::case::Case;
    use peerlane::catalogue::{self, Parts};
    use peerlane::check::{Certainty, Finding, FindingKind, Scope, Severity, rule_ids};
    use peerlane::comparison::Comparison;
    use peerlane::export::json::MachineCheck;
    use peerlane::model::Model;
    use peerlane::subject::Subject;
    use peerlane::verdict::Verdict;

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
        let checked = MachineCheck {
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
        };
        let case = Case::from(catalogue::system("dgx-1").unwrap().unwrap());
        let model = Model::new(&case.machine, Parts::embedded());
        let comparison = Comparison::of(&model);
        let document = |line| junit(&[Report::of_machine(&case, &comparison, &checked)], line);
        let text = document(Line::Fault);
        let rules = rule_ids(Scope::Machine).count();
        assert!(
            text.contains(&format!(
                "<testsuite name=\"m&lt;1&gt;\" tests=\"{}\" failures=\"1\" skipped=\"1\">",
                rules + 1
            )),
            "{text}"
        );
        assert_eq!((text.matches("<failure").count(), text.matches("<skipped ").count()), (1, 1));
        assert_eq!(document(Line::Never).matches("<failure").count(), 0);
        assert!(text.contains("narrow-link: &lt;GPU&quot;0 &gt;") && !text.contains('\u{0}'));
    }
}
