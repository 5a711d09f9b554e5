//! The verdict, findings, unknowns and assumptions, in words.

use std::fmt::Display;
use std::io::{self, Write};

use peerlane::check::{Certainty, Finding, FindingKind, Severity, Verdict};
use peerlane::export::json::MachineCheck;

use super::line_width;
use super::style::{self, paint};
use super::text::{count, width, wrap};

/// Evidence shown for a finding by default.
const EVIDENCE: usize = 3;

/// Writes the verdict with the number of findings, or with what would give one.
pub(crate) fn verdict(out: &mut dyn Write, checked: &MachineCheck) -> io::Result<()> {
    let verdict = paint(style::of_verdict(checked.verdict), checked.verdict.words());
    let indent = checked.verdict.words().len() + 2;
    for (i, line) in wrap(&summary(checked), line_width() - indent).iter().enumerate() {
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
        if all { whole(out, finding, verbose)? } else { short(out, finding)? }
    }
    if !brief.is_empty() {
        writeln!(out)?;
    }
    for finding in brief.iter().take(BRIEF) {
        let word = paint(style::of_severity(finding.severity), &format!("{:8}", word(finding.severity)));
        for (i, line) in wrap(&finding.summary, line_width() - 9).iter().enumerate() {
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

/// Lines of a finding that is shown in short.
const LINES: usize = 6;

/// A finding in at most [`LINES`] lines: who and what, how much, what to do, and what would confirm it.
fn short(out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
    let head = headed(out, finding, 2)?;
    let fix = wrap(&finding.fix, field_width()).len().min(2);
    // a command is shown whole, or with -v
    let confirm = wrap(&finding.confirm, field_width()).len();
    let confirm = if head + fix + confirm < LINES { confirm } else { 0 };
    let cost = cost(finding).map(|cost| format!("costs {cost}"));
    let expected = Some(format!("expected {}", finding.expected)).filter(|_| !finding.expected.is_empty());
    let details =
        [Some(finding.measured.clone()), cost, expected].into_iter().flatten().filter(|text| !text.is_empty());
    let room = LINES.saturating_sub(head + fix + confirm);
    field(out, "measured", &fitting(details, "; ", room), style::PLAIN)?;
    field(out, "fix", &fitting(sentences_of(&finding.fix), " ", fix), style::PLAIN)?;
    field(out, "confirm", if confirm > 0 { &finding.confirm } else { "" }, style::DIM)
}

/// The first parts, joined, that fill no more than so many lines; of the first, if it is too long, the beginning.
fn fitting(parts: impl IntoIterator<Item = String>, between: &str, lines: usize) -> String {
    let mut text = String::new();
    for part in parts {
        let longer = if text.is_empty() { part } else { format!("{text}{between}{part}") };
        let wrapped = wrap(&longer, field_width());
        if wrapped.len() <= lines {
            text = longer;
            continue;
        }
        if text.is_empty() && lines > 0 {
            let mut kept: Vec<String> = wrapped.into_iter().take(lines).collect();
            if let Some(last) = kept.last_mut() {
                while width(last) + 2 > field_width()
                    && let Some((shorter, _)) = last.rsplit_once(' ')
                {
                    *last = shorter.to_owned();
                }
                last.push_str(" …");
            }
            text = kept.join(" ");
        }
        break;
    }
    text
}

/// The sentences of a text.
fn sentences_of(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for piece in text.split_inclusive(". ") {
        // `e.g. `, and what goes on with a small letter, ends no sentence
        match all.last_mut() {
            Some(last) if !piece.starts_with(|c: char| c.is_uppercase() || c == '`') => last.push_str(piece),
            _ => all.push(piece.to_owned()),
        }
    }
    all.into_iter().map(|sentence| sentence.trim().to_owned()).collect()
}

/// Columns of a field's text.
fn field_width() -> usize {
    line_width() - 19
}

fn cost(finding: &Finding) -> Option<String> {
    finding.cost.map(|c| format!("{:.2} {} ({:.0} %)", c.lost, c.unit.name(), 100.0 * c.share))
}

/// Writes severity, summary and the rule's name; returns the number of lines, at most `most`.
fn headed(out: &mut dyn Write, finding: &Finding, most: usize) -> io::Result<usize> {
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
    let mut lines = wrap(&finding.summary, line_width() - 9);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            while width(last) + 3 + width(&tag) > line_width() - 9
                && let Some((shorter, _)) = last.rsplit_once(' ')
            {
                *last = shorter.to_owned();
            }
            last.push_str(" …");
        }
    }
    match lines.last_mut() {
        Some(last) if width(last) + 1 + width(&tag) <= line_width() - 9 => {
            *last = format!("{last} {}", paint(style::DIM, &tag));
        }
        _ => lines.push(paint(style::DIM, &tag)),
    }
    for (i, line) in lines.iter().enumerate() {
        let label = if i == 0 { severity } else { "" };
        writeln!(out, "{} {line}", paint(style::of_severity(finding.severity), &format!("{label:8}")))?;
    }
    Ok(lines.len())
}

/// A finding with all that is known of it.
fn whole(out: &mut dyn Write, finding: &Finding, verbose: bool) -> io::Result<()> {
    headed(out, finding, usize::MAX)?;
    field(out, "expected", &finding.expected, style::PLAIN)?;
    field(out, "measured", &finding.measured, style::PLAIN)?;
    field(out, "costs", &cost(finding).unwrap_or_default(), style::PLAIN)?;
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
    for (i, line) in wrap(text, field_width()).iter().enumerate() {
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
        for (i, line) in wrap(&sentence.to_string(), line_width() - 4).iter().enumerate() {
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
        assert!(few.ends_with("and 5 more findings\n") && few.lines().all(|l| width(l) <= line_width()), "{few}");
    }

    #[test]
    fn a_finding_takes_six_lines_by_default_and_its_fix_ends_with_a_sentence() {
        let long = "Sentence one is here. ".repeat(9) + &"word ".repeat(60);
        for summary in ["short".to_owned(), "word ".repeat(19), "word ".repeat(90)] {
            let finding = Finding {
                rule: "slow-path".into(),
                kind: FindingKind::Fault,
                severity: Severity::Error,
                subjects: vec![],
                summary,
                expected: "word ".repeat(30),
                measured: "word ".repeat(40),
                evidence: vec!["file".into()],
                fix: long.clone(),
                certainty: Certainty::Likely,
                confirm: "word ".repeat(30),
                cost: None,
            };
            let text = crate::render::plain(|out| write(out, std::slice::from_ref(&finding), false, false));
            let lines: Vec<&str> = text.trim().lines().collect();
            assert!(lines.len() <= LINES && lines.iter().all(|l| width(l) <= line_width()), "{text}");
            assert!(text.contains("fix       Sentence one") && text.contains("[slow-path, fault, likely]"), "{text}");
            let fix = text.split("fix").nth(1).unwrap().split("confirm").next().unwrap().trim();
            assert!(fix.ends_with("here."), "{fix}");
        }
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
        assert!(text.lines().all(|l| width(l) <= line_width()), "{text}");
        assert_eq!(text.matches("word").count(), 240);
        assert!(text.contains("[narrow-link, fault, likely]") && text.contains("and 2 more (-v)"));
    }
}
