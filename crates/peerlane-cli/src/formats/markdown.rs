//! The verdict, findings and numbers as Markdown for a ticket (CommonMark with GitHub's tables).

use std::fmt::Write as _;

use peerlane::check::{Finding, FindingKind, Severity, Verdict};
use peerlane::comparison::Comparison;

use crate::render::figures::Row;
use crate::render::text::span;
use crate::render::{comparison, findings, plain, tree};

/// One machine's report.
pub(crate) fn machine(comparison: &Comparison, verdict: Verdict, found: &[Finding]) -> String {
    let machine = comparison.model().machine;
    let mut text = String::new();
    let title = match &machine.title {
        Some(title) if *title != machine.name => format!("{}: {title}", machine.name),
        _ => machine.name.clone(),
    };
    // writing to a string cannot fail
    let _ = writeln!(text, "## {}\n", inline(&title));
    let name = match verdict {
        Verdict::Healthy => "healthy",
        Verdict::Degraded => "degraded",
        Verdict::Broken => "broken",
        Verdict::Unknown => "unknown: too little is known for a verdict",
    };
    let _ = writeln!(text, "**{name}**, {}", findings::counts(found));
    for finding in found {
        one(&mut text, finding);
    }
    numbers(&mut text, comparison);
    let drawn = plain(|out| tree::write(out, &machine.fabric, tree::Options { verbose: false }));
    let fence = fence(&drawn);
    let _ = writeln!(text, "\n<details><summary>The machine</summary>\n\n{fence}text\n{drawn}{fence}\n\n</details>");
    text
}

fn one(text: &mut String, finding: &Finding) {
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

fn numbers(text: &mut String, compared: &Comparison) {
    let rows = comparison::rows(&comparison::sections(compared, &compared.model().machine.fabric, false));
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n| what | between | cells | expected | measured | ratio |\n|---|---|--:|--:|--:|--:|");
    for row in rows {
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
        let _ = writeln!(text, "| {} | {} |", inline(row.label), cells.join(" | "));
    }
    text
}

/// A single line with all markup escaped.
fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let inside_word = before.is_alphanumeric() && chars.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            c if c.is_control() => out.push(' '),
            '_' if inside_word => out.push(c),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '&' | '~' => out.extend(['\\', c]),
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
        assert_eq!((fence("a``` b"), fence("plain")), ("````".to_owned(), "```".to_owned()));
    }
}
