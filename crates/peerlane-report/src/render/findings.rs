//! Findings, unknowns and assumptions, in words.

use std::collections::HashSet;
use std::fmt::Display;
use std::io::{self, Write};

use peerlane::check::{Finding, Severity};
use peerlane::export::json::MachineCheck;
use peerlane::machine::Machine;
use peerlane::subject::join;

use super::line_width;
use super::style::{self, paint};
use super::text::{clip, count, width, wrap};
use crate::item::Item;

/// How many unknowns, assumptions and warnings are shown by default.
const FEW: usize = 4;

/// `1 error, 2 warnings`, or `no findings`.
pub fn counts(findings: &[Finding]) -> String {
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

/// `2 findings (1 error, 1 note)`, or `No findings`.
pub(crate) fn counted(findings: &[Finding]) -> String {
    match findings.len() {
        0 => "No findings".to_owned(),
        n => format!("{} ({})", count(n, "finding"), counts(findings)),
    }
}

/// How many findings are shown.
#[derive(Clone, Copy)]
pub struct Amount {
    /// In a few lines each, without notes.
    pub full: usize,
    /// Further ones, of which only the summary is shown.
    pub brief: usize,
}

/// Writes the most important findings: those that say the same as one.
///
/// `shown`: a fix that the reader has seen already.
pub fn brief(out: &mut dyn Write, items: &[Item], amount: Amount, shown: Option<&str>) -> io::Result<()> {
    let groups = alike(items);
    let matter = groups.iter().take_while(|item| item.finding.severity > Severity::Info).count();
    let (full, brief) = groups.split_at(matter.min(amount.full));
    for item in full {
        writeln!(out)?;
        short(out, item, shown == Some(&item.finding.fix))?;
    }
    if !brief.is_empty() {
        writeln!(out)?;
    }
    for item in brief.iter().take(amount.brief) {
        let severity = item.finding.severity;
        let word = paint(style::of_severity(severity), &format!("{:8}", severity.word()));
        for (i, line) in clip(&item.sentence(), line_width() - 9, 2).iter().enumerate() {
            if i == 0 { writeln!(out, "{word} {line}")? } else { writeln!(out, "         {line}")? }
        }
    }
    if brief.len() > amount.brief {
        let more = format!("         and {} (-v shows them)", count(brief.len() - amount.brief, "more finding"));
        writeln!(out, "{}", paint(style::DIM, &more))?;
    }
    Ok(())
}

/// The findings, with those of one rule and one fix about several subjects joined into one.
fn alike<'a>(items: &[Item<'a>]) -> Vec<Item<'a>> {
    let mut groups: Vec<(&Item<'a>, Vec<&Item<'a>>)> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|(first, _)| first.is_like(item)) {
            Some((_, others)) => others.push(item),
            None => groups.push((item, Vec::new())),
        }
    }
    let joined = |(first, others): (&Item<'a>, Vec<&Item<'a>>)| {
        let mut item = first.clone();
        if !others.is_empty() {
            let others: Vec<_> = others.iter().flat_map(|other| other.finding.subjects.clone()).collect();
            let finding = item.finding.to_mut();
            finding.summary = format!("{} (the same: {})", finding.summary, join(&others, ", "));
            finding.subjects.extend(others);
        }
        item
    };
    groups.into_iter().map(joined).collect()
}

/// Writes all findings with all that is known of each.
pub fn write(out: &mut dyn Write, items: &[Item]) -> io::Result<()> {
    items.iter().try_for_each(|item| {
        writeln!(out)?;
        whole(out, item)
    })
}

/// Writes what is no part of the verdict: findings that the site accepts, and floors of others.
pub fn outside(out: &mut dyn Write, checked: &MachineCheck, most: usize) -> io::Result<()> {
    let waived = checked.waived.iter().map(|w| format!("{}: {} ({})", w.finding.rule, w.finding.summary, w.reason));
    sentences(out, "Waived", &waived.collect::<Vec<_>>(), most)?;
    sentences(out, "Floors of others, no part of the verdict", &checked.thresholds, most)
}

/// Lines of a finding that is shown in short.
const LINES: usize = 6;

/// A finding in at most [`LINES`] lines: who and what, how much, what to do, and what would confirm it.
fn short(out: &mut dyn Write, item: &Item, fix_is_shown: bool) -> io::Result<()> {
    let finding = &item.finding;
    let head = headed(out, item, 2)?;
    let fix = if fix_is_shown { 0 } else { wrap(&finding.fix, field_width()).len().min(2) };
    // a command is shown whole, or with -v
    let confirm = wrap(&finding.confirm, field_width()).len();
    let confirm = if head + fix + confirm < LINES { confirm } else { 0 };
    let cost = cost(finding).map(|cost| format!("costs {cost}"));
    let expected = Some(format!("expected {}", item.expected())).filter(|_| !item.expected().is_empty());
    let details =
        [Some(item.measured().to_owned()), expected, cost].into_iter().flatten().filter(|text| !text.is_empty());
    let room = LINES.saturating_sub(head + fix + confirm);
    field(out, "measured", &fitting(details, "; ", field_width(), room), style::PLAIN)?;
    let text = if fix_is_shown { String::new() } else { fitting(sentences_of(&finding.fix), " ", field_width(), fix) };
    field(out, "fix", &text, style::PLAIN)?;
    field(out, "confirm", if confirm > 0 { &finding.confirm } else { "" }, style::DIM)
}

/// The first parts, joined, that fill no more than so many lines; of the first, if it is too long, the beginning.
fn fitting(parts: impl IntoIterator<Item = String>, between: &str, columns: usize, lines: usize) -> String {
    let mut text = String::new();
    for part in parts {
        let longer = if text.is_empty() { part } else { format!("{text}{between}{part}") };
        if wrap(&longer, columns).len() <= lines {
            text = longer;
            continue;
        }
        if text.is_empty() {
            text = clip(&longer, columns, lines).join(" ");
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
    line_width() - margin() - 10
}

/// Columns before a field's label: fields are below the summary if there is room.
fn margin() -> usize {
    if line_width() < 80 { 2 } else { 9 }
}

fn cost(finding: &Finding) -> Option<String> {
    finding.cost.map(|c| format!("{:.2} {} ({:.0} %)", c.lost, c.unit.name(), 100.0 * c.share))
}

/// Writes severity, summary and the rule's name; returns the number of lines, at most `most`.
fn headed(out: &mut dyn Write, item: &Item, most: usize) -> io::Result<usize> {
    let severity = item.finding.severity;
    let tag = format!("[{}]", item.tag());
    let mut lines = clip(&item.sentence(), line_width() - 9, most);
    match lines.last_mut() {
        Some(last) if width(last) + 1 + width(&tag) <= line_width() - 9 => {
            *last = format!("{last} {}", paint(style::DIM, &tag));
        }
        _ => lines.push(paint(style::DIM, &tag)),
    }
    for (i, line) in lines.iter().enumerate() {
        let label = if i == 0 { severity.word() } else { "" };
        writeln!(out, "{} {line}", paint(style::of_severity(severity), &format!("{label:8}")))?;
    }
    Ok(lines.len())
}

/// A finding with all that is known of it.
fn whole(out: &mut dyn Write, item: &Item) -> io::Result<()> {
    headed(out, item, usize::MAX)?;
    let finding = &item.finding;
    field(out, "expected", item.expected(), style::PLAIN)?;
    field(out, "measured", item.measured(), style::PLAIN)?;
    field(out, "costs", &cost(finding).unwrap_or_default(), style::PLAIN)?;
    field(out, "fix", &finding.fix, style::PLAIN)?;
    field(out, "confirm", &finding.confirm, style::DIM)?;
    field(out, "evidence", &item.evidence(), style::DIM)
}

fn field(out: &mut dyn Write, label: &str, text: &str, look: anstyle::Style) -> io::Result<()> {
    for (i, line) in wrap(text, field_width()).iter().enumerate() {
        let label = if i == 0 { label } else { "" };
        let label = paint(style::DIM, &format!("{label:9}"));
        writeln!(out, "{:gap$}{label} {}", "", paint(look, line), gap = margin())?;
    }
    Ok(())
}

/// Writes at most `most` sentences below a heading, and the number of the others.
pub fn sentences(out: &mut dyn Write, heading: &str, all: &[impl Display], most: usize) -> io::Result<()> {
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

/// Contradictions, unknowns, assumptions and warnings.
pub fn caveats(out: &mut dyn Write, machine: &Machine, verbose: bool) -> io::Result<()> {
    let most = if verbose { usize::MAX } else { FEW };
    let contradictions: Vec<String> = machine.contradictions.iter().map(|c| c.message.clone()).collect();
    let warnings: Vec<String> = machine.warnings.iter().map(ToString::to_string).collect();
    sentences(out, "Contradictions", &contradictions, usize::MAX)?;
    sentences(out, "Unknown", &machine.unknown, most)?;
    sentences(out, "Assumed", &machine.assumptions, most)?;
    sentences(out, "Warnings", &warnings, most)?;
    if verbose {
        // a source tells many things
        let mut seen = HashSet::new();
        let origins = machine.evidence.iter().map(|e| e.origin.to_string());
        let evidence: Vec<String> = origins.filter(|origin| seen.insert(origin.clone())).collect();
        sentences(out, "Evidence", &evidence, usize::MAX)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::check::{Certainty, FindingKind};
    use peerlane::subject::Subject;

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
            reset: false,
        };
        let found = [[Severity::Error; 5].as_slice(), &[Severity::Info; 9]].concat().into_iter().map(finding);
        // of different rules
        let found: Vec<Finding> =
            found.enumerate().map(|(i, finding)| Finding { rule: format!("rule-{i}"), ..finding }).collect();
        let few = crate::render::plain(|out| brief(out, &Item::all(&found), Amount { full: 3, brief: 6 }, None));
        let all = crate::render::plain(|out| write(out, &Item::all(&found)));
        assert_eq!((few.matches("fix").count(), all.matches("fix").count()), (3, found.len()));
        assert_eq!((few.matches("note").count(), few.matches("error").count()), (4, 5));
        assert!(few.ends_with("and 5 more findings (-v shows them)\n"), "{few}");
        assert!(few.lines().all(|l| width(l) <= line_width()), "{few}");
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
                reset: false,
            };
            let text = crate::render::plain(|out| {
                brief(out, &Item::all(std::slice::from_ref(&finding)), Amount { full: 3, brief: 6 }, None)
            });
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
            reset: false,
        };
        let mut out = Vec::new();
        write(&mut out, &Item::all(std::slice::from_ref(&finding))).unwrap();
        let text = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        assert!(text.lines().all(|l| width(l) <= line_width()), "{text}");
        assert_eq!(text.matches("word").count(), 240);
        assert!(text.contains("[narrow-link, fault, likely]") && text.contains("file4.txt"));
    }

    #[test]
    fn findings_that_say_the_same_are_one() {
        let finding = |rule: &str, subject: &str| Finding {
            rule: rule.into(),
            kind: FindingKind::Fault,
            severity: Severity::Warning,
            subjects: vec![Subject::Node(subject.into())],
            summary: format!("{subject} is slow"),
            expected: String::new(),
            measured: String::new(),
            evidence: vec![],
            fix: "Reseat it.".into(),
            certainty: Certainty::Certain,
            confirm: String::new(),
            cost: None,
            reset: false,
        };
        let found = [finding("slow", "GPU0"), finding("hot", "GPU7"), finding("slow", "GPU2"), finding("slow", "GPU5")];
        let summaries: Vec<String> =
            alike(&Item::all(&found)).iter().map(|item| item.finding.summary.clone()).collect();
        assert_eq!(summaries, ["GPU0 is slow (the same: GPU2, GPU5)", "GPU7 is slow"]);
    }
}
