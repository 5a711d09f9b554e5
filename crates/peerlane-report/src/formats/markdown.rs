//! The verdict, findings and numbers as Markdown for a ticket (CommonMark with GitHub's tables).

use std::fmt::Write as _;

use peerlane::case::Case;
use peerlane::check::{Finding, FindingKind, Severity};
use peerlane::comparison::Comparison;
use peerlane::export::json::MachineCheck;

use crate::render::comparison::Section;
use crate::render::figures::Row;
use crate::render::headline::Headline;
use crate::render::text::span;
use crate::render::{comparison, plain, screen, tree};

/// One machine's report.
pub fn machine(case: &Case, comparison: &Comparison, checked: &MachineCheck) -> String {
    let machine = comparison.model().machine;
    let mut text = String::new();
    let headline = Headline::of(machine, checked);
    // writing to a string cannot fail
    let _ = writeln!(text, "## {}\n", inline(&headline.machine));
    let _ = writeln!(text, "**{}**: {}", headline.verdict.words(), inline(&headline.cause));
    if let Some((label, step)) = &headline.step {
        let _ = writeln!(text, "\n**{label}**: {}", inline(step));
    }
    for finding in &checked.findings {
        one(&mut text, finding);
    }
    let drawn = plain(|out| tree::write(out, &machine.fabric, tree::Options { verbose: false, fold: true }));
    let fence = fence(&drawn);
    let _ = writeln!(text, "\n<details><summary>The machine</summary>\n\n{fence}text\n{drawn}{fence}\n\n</details>");
    let sections = comparison::sections(comparison, &machine.fabric, false);
    let off = comparison::off(&sections);
    if !off.is_empty() {
        text.push_str("\nNot as expected:\n");
        table(&mut text, &off);
    }
    if !sections.is_empty() {
        text.push_str("\n<details><summary>All values</summary>\n");
        table(&mut text, &sections);
        text.push_str("\n</details>\n");
    }
    let _ = writeln!(text, "\n{}", inline(&screen::summary(case, checked, &comparison::tally(&sections), None)));
    text
}

/// A finding as an item of a list.
pub(super) fn one(text: &mut String, finding: &Finding) {
    let severity = match finding.severity {
        Severity::Info => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    let kind = match finding.kind {
        FindingKind::Fault => "fault",
        FindingKind::Design => "by design",
        FindingKind::Measurement => "measurement",
    };
    let _ = writeln!(text, "\n* **{severity}**: {} ({}, {kind})", inline(&finding.summary), inline(&finding.rule));
    let evidence = finding.evidence.join("; ");
    for (label, what) in [
        ("expected", &finding.expected),
        ("measured", &finding.measured),
        ("fix", &finding.fix),
        ("evidence", &evidence),
    ] {
        if !what.is_empty() {
            let _ = writeln!(text, "  * {label}: {}", inline(what));
        }
    }
}

fn table(text: &mut String, sections: &[Section]) {
    let _ = writeln!(text, "\n| what | between | cells | expected | measured | ratio |\n|---|---|--:|--:|--:|--:|");
    for row in comparison::rows(sections) {
        let (what, ends) = (inline(&row.what), inline(&row.ends));
        let _ =
            writeln!(text, "| {what} | {ends} | {} | {} | {} | {} |", row.cells, row.expected, row.measured, row.ratio);
    }
}

/// Machines side by side: the conclusion, and the figures behind it.
pub(crate) fn comparison(names: &[&str], rows: &[Row], conclusion: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| inline(name)).collect();
    // writing to a string cannot fail
    let mut text = format!("## {}\n\n", names.join(", "));
    for sentence in conclusion {
        let _ = writeln!(text, "* {}", inline(sentence));
    }
    let _ = writeln!(text, "\n| predicted GB/s (measured) | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "--:|".repeat(names.len()));
    for row in rows {
        let cell = |cell: &Option<crate::render::figures::Cell>| {
            let Some(cell) = cell else { return "-".to_owned() };
            let measured = cell.measured.as_ref().map(|s| format!(" ({})", span(s.low, s.high)));
            format!("{}{}", inline(&cell.text), measured.unwrap_or_default())
        };
        let cells: Vec<String> = row.cells.iter().map(cell).collect();
        let _ = writeln!(text, "| {} | {} |", inline(&row.label), cells.join(" | "));
    }
    text
}

/// A single line with all markup escaped. GitHub looks for people, issues, commits and addresses after it has removed the
/// backslashes, and passes over code alone; so words that may be one are code.
pub(super) fn inline(text: &str) -> String {
    // neither can stand inside code in a table
    let text = text.replace('`', "'");
    let words = text.split_inclusive(|c: char| c.is_whitespace() || c == '|').map(|word| {
        let bare = word.trim_end_matches(|c: char| c.is_whitespace() || c == '|');
        if acts(bare) { format!("`{bare}`{}", escaped(&word[bare.len()..])) } else { escaped(word) }
    });
    words.collect()
}

/// Whether GitHub may link a word: `@name`, `#12`, `GH-12`, `owner/name#12`, the hash of a commit, an address.
fn acts(word: &str) -> bool {
    let lower = word.to_lowercase();
    let hashes = || word.split(|c: char| !c.is_ascii_alphanumeric()).any(is_hash);
    word.contains(['@', '#']) || lower.contains("gh-") || lower.contains("://") || lower.contains("www.") || hashes()
}

fn is_hash(word: &str) -> bool {
    let hex = word.bytes().all(|b| b.is_ascii_hexdigit());
    hex && (7..=40).contains(&word.len()) && word.bytes().any(|b| b.is_ascii_alphabetic())
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let inside_word = before.is_alphanumeric() && chars.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            c if c.is_control() => out.push(' '),
            '_' if inside_word => out.push(c),
            '\\' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '&' | '~' | '$' => out.extend(['\\', c]),
            c => out.push(c),
        }
        before = c;
    }
    out
}

/// A fence longer than any in the text.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(inline("mlx5_0 a_ <b>x</b> [l](u) |\nc"), "mlx5_0 a\\_ \\<b\\>x\\</b\\> \\[l\\](u) \\| c");
        assert_eq!(
            inline("ask @admin about #12, o/r#3, GH-4 or https://x.y/?a_b|www.z; `rm` $x$ 0123abc 0000:05:00.0"),
            "ask `@admin` about `#12,` `o/r#3,` `GH-4` or `https://x.y/?a_b`\\|`www.z;` 'rm' \\$x\\$ `0123abc` 0000:05:00.0"
        );
        assert_eq!(inline("`@a`b"), "`'@a'b`");
        assert_eq!((fence("a``` b"), fence("plain")), ("````".to_owned(), "```".to_owned()));
    }
}
