//! The verdict, findings, unknowns and assumptions, in words.

use std::fmt::Display;
use std::io::{self, Write};

use peerlane::check::{Certainty, Finding, FindingKind, Severity, Verdict};
use peerlane::export::json::MachineCheck;

use super::WIDTH;
use super::style::{self, paint};
use super::text::{count, width, wrap};

/// Evidence shown for a finding by default.
const EVIDENCE: usize = 3;

/// Writes the verdict with the number of findings, or with what would give one.
pub(crate) fn verdict(out: &mut dyn Write, checked: &MachineCheck) -> io::Result<()> {
    let verdict = paint(style::of_verdict(checked.verdict), checked.verdict.words());
    let indent = checked.verdict.words().len() + 2;
    for (i, line) in wrap(&summary(checked), WIDTH - indent).iter().enumerate() {
        if i == 0 { writeln!(out, "{verdict}  {line}")? } else { writeln!(out, "{:indent$}{line}", "")? }
    }
    Ok(())
}

/// The number of findings, and what a healthy machine's verdict relies on, or which commands would give one.
pub(crate) fn summary(checked: &MachineCheck) -> String {
    let counts = counts(&checked.findings);
    if checked.verdict == Verdict::Healthy && !checked.checked.is_empty() {
        return format!("{counts}; checked: {}", checked.checked.join(", "));
    }
    if checked.next.is_empty() {
        return counts;
    }
    let commands: Vec<String> = checked.next.iter().map(|command| format!("`{command}`")).collect();
    let counts = if checked.findings.is_empty() { String::new() } else { format!("{counts}; ") };
    format!("{counts}for a verdict, add the output of {}", commands.join(" or "))
}

/// `1 error, 2 warnings`, or `no findings`.
fn counts(findings: &[Finding]) -> String {
    let of = |severity, what| match findings.iter().filter(|f| f.severity == severity).count() {
        0 => None,
        n => Some(count(n, what)),
    };
    let counts: Vec<String> =
        [of(Severity::Error, "error"), of(Severity::Warning, "warning"), of(Severity::Info, "note")]
            .into_iter()
            .flatten()
            .collect();
    if counts.is_empty() { "no findings".to_owned() } else { counts.join(", ") }
}

/// Findings shown in full by default, without notes.
const FULL: usize = 3;

/// Further findings of which only the summary is shown.
const BRIEF: usize = 6;

/// Writes findings: the most important in full, of the others only the summary, unless `all`.
pub(crate) fn write(out: &mut dyn Write, findings: &[Finding], all: bool, verbose: bool) -> io::Result<()> {
    let matter = findings.iter().take_while(|f| f.severity > Severity::Info).count();
    let full = if all { findings.len() } else { matter.min(FULL) };
    let (full, brief) = findings.split_at(full);
    for finding in full {
        writeln!(out)?;
        one(out, finding, verbose)?;
    }
    if !brief.is_empty() {
        writeln!(out)?;
    }
    for finding in brief.iter().take(BRIEF) {
        let word = paint(style::of_severity(finding.severity), &format!("{:8}", word(finding.severity)));
        for (i, line) in wrap(&finding.summary, WIDTH - 9).iter().enumerate() {
            if i == 0 { writeln!(out, "{word} {line}")? } else { writeln!(out, "         {line}")? }
        }
    }
    if brief.len() > BRIEF {
        writeln!(
            out,
            "{}",
            paint(style::DIM, &format!("         and {}", count(brief.len() - BRIEF, "more finding")))
        )?;
    }
    Ok(())
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn one(out: &mut dyn Write, finding: &Finding, verbose: bool) -> io::Result<()> {
    let severity = word(finding.severity);
    let kind = match finding.kind {
        FindingKind::Fault => "fault",
        FindingKind::Design => "by design",
        FindingKind::Measurement => "measurement",
    };
    let sure = match finding.certainty {
        Certainty::Certain => "",
        Certainty::Likely => ", likely",
        Certainty::Possible => ", possibly",
    };
    let tag = format!("[{}, {kind}{sure}]", finding.rule);
    let mut lines = wrap(&finding.summary, WIDTH - 9);
    match lines.last_mut() {
        Some(last) if width(last) + 1 + width(&tag) <= WIDTH - 9 => {
            *last = format!("{last} {}", paint(style::DIM, &tag));
        }
        _ => lines.push(paint(style::DIM, &tag)),
    }
    for (i, line) in lines.iter().enumerate() {
        let label = if i == 0 { severity } else { "" };
        writeln!(out, "{} {line}", paint(style::of_severity(finding.severity), &format!("{label:8}")))?;
    }
    field(out, "expected", &finding.expected, style::PLAIN)?;
    field(out, "measured", &finding.measured, style::PLAIN)?;
    let cost = finding.cost.map(|c| format!("{:.2} {} ({:.0} %)", c.lost, c.unit.name(), 100.0 * c.share));
    field(out, "costs", &cost.unwrap_or_default(), style::PLAIN)?;
    field(out, "fix", &finding.fix, style::PLAIN)?;
    field(out, "confirm", &finding.confirm, style::DIM)?;
    let shown = if verbose { finding.evidence.len() } else { EVIDENCE };
    let mut evidence = finding.evidence.iter().take(shown).map(String::as_str).collect::<Vec<_>>().join("; ");
    if finding.evidence.len() > shown {
        evidence.push_str(&format!("; and {} more (-v)", finding.evidence.len() - shown));
    }
    field(out, "evidence", &evidence, style::DIM)
}

fn field(out: &mut dyn Write, label: &str, text: &str, look: anstyle::Style) -> io::Result<()> {
    for (i, line) in wrap(text, WIDTH - 19).iter().enumerate() {
        let label = if i == 0 { label } else { "" };
        writeln!(out, "         {} {}", paint(style::DIM, &format!("{label:9}")), paint(look, line))?;
    }
    Ok(())
}

/// Writes at most `most` sentences below a heading, and the number of the others.
pub(crate) fn sentences(out: &mut dyn Write, heading: &str, all: &[impl Display], most: usize) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, heading))?;
    for sentence in all.iter().take(most) {
        for (i, line) in wrap(&sentence.to_string(), WIDTH - 4).iter().enumerate() {
            writeln!(out, "  {} {line}", if i == 0 { "·" } else { " " })?;
        }
    }
    if all.len() > most {
        writeln!(out, "  {}", paint(style::DIM, &format!("  and {} more (-v shows them)", all.len() - most)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::check::Certainty;

    #[test]
    fn the_most_important_are_shown_in_full() {
        let finding = |severity| Finding {
            rule: "slow-path".into(),
            kind: FindingKind::Fault,
            severity,
            subjects: vec![],
            summary: "word ".repeat(40),
            expected: "e".into(),
            measured: "o".into(),
            evidence: vec![],
            fix: "m".into(),
            certainty: Certainty::Likely,
            confirm: String::new(),
            cost: None,
        };
        let found = [[Severity::Error; 5].as_slice(), &[Severity::Info; 9]].concat().into_iter().map(finding);
        let found: Vec<Finding> = found.collect();
        let shown = |all| crate::render::plain(|out| write(out, &found, all, false));
        let (few, all) = (shown(false), shown(true));
        assert_eq!((few.matches("fix").count(), all.matches("fix").count()), (FULL, found.len()));
        assert_eq!((few.matches("note").count(), few.matches("error").count()), (BRIEF - 2, 5));
        assert!(few.ends_with("and 5 more findings\n") && few.lines().all(|l| width(l) <= WIDTH), "{few}");
    }

    #[test]
    fn a_long_finding_is_wrapped_and_complete() {
        let words = "word ".repeat(60);
        let finding = Finding {
            rule: "narrow-link".into(),
            kind: FindingKind::Fault,
            severity: Severity::Error,
            subjects: vec![],
            summary: words.clone(),
            expected: words.clone(),
            measured: words.clone(),
            evidence: (0..5).map(|i| format!("file{i}.txt:1-2 (tool)")).collect(),
            fix: words,
            certainty: Certainty::Likely,
            confirm: String::new(),
            cost: None,
        };
        let mut out = Vec::new();
        write(&mut out, std::slice::from_ref(&finding), true, false).unwrap();
        let text = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        assert!(text.lines().all(|l| width(l) <= WIDTH), "{text}");
        assert_eq!(text.matches("word").count(), 240);
        assert!(text.contains("[narrow-link, fault, likely]") && text.contains("and 2 more (-v)"));
    }
}
