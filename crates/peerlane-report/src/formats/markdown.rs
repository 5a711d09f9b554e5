//! Reports as Markdown for a ticket (CommonMark with GitHub's tables).

use std::fmt::Write as _;

use crate::item::Item;
use crate::render::figures::Row;
use crate::render::headline::Headline;
use crate::render::text::span;
use crate::report::{Block, Report, Table};

/// Rows of a table in a ticket, where the worst of many come first.
const ROWS: usize = 20;

/// A report.
pub fn markdown(report: &Report) -> String {
    // writing to a string cannot fail
    let mut text = format!("## {}\n", inline(&report.title));
    let Headline { verdict, cause, step, .. } = &report.headline;
    let _ = writeln!(text, "\n**{}**: {}", verdict.words(), inline(cause));
    if let Some((label, step)) = step {
        let _ = writeln!(text, "\n**{label}**: {}", inline(step));
    }
    for block in report.blocks(ROWS, false) {
        match block {
            Block::Findings => report.items.iter().for_each(|item| one(&mut text, item)),
            Block::Table(of) => table(&mut text, &of),
            Block::Drawing(title, drawn) => {
                let fence = fence(&drawn);
                folded(&mut text, title, &format!("{fence}text\n{drawn}{fence}"));
            }
            Block::Sentence(sentence) => {
                let _ = writeln!(text, "\n{}", inline(&sentence));
            }
            Block::Sentences(_, all) if all.is_empty() => {}
            Block::Sentences(title, all) => {
                let _ = writeln!(text, "\n{title}:\n");
                for sentence in all {
                    let _ = writeln!(text, "* {}", inline(&sentence));
                }
            }
        }
    }
    text
}

/// What readers open if they want to see it.
fn folded(text: &mut String, title: &str, content: &str) {
    let _ = writeln!(text, "\n<details><summary>{title}</summary>\n\n{content}\n\n</details>");
}

/// A finding as an item of a list.
fn one(text: &mut String, item: &Item) {
    let severity = item.finding.severity.word();
    let _ = writeln!(text, "\n* **{severity}**: {} ({})", inline(&item.sentence()), inline(&item.tag()));
    for (label, what) in item.fields().into_iter().filter(|(_, what)| !what.is_empty()) {
        let _ = writeln!(text, "  * {label}: {}", inline(&what));
    }
}

fn table(text: &mut String, of: &Table) {
    if of.rows.is_empty() {
        return;
    }
    let numbers = of.headings.len().saturating_sub(of.words);
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut lines = line(of.headings.iter().map(|heading| inline(heading)).collect());
    let _ = writeln!(lines, "|{}{}", "---|".repeat(of.words), "--:|".repeat(numbers));
    lines.extend(of.rows.iter().map(|row| line(row.iter().map(|cell| inline(cell)).collect())));
    if of.folded {
        return folded(text, of.title, lines.trim_end());
    }
    let title = if of.title.is_empty() { String::new() } else { format!("\n{}:\n", of.title) };
    let left_out = of.left_out.as_ref().map_or_else(String::new, |which| format!("\n{}\n", inline(which)));
    let _ = write!(text, "{title}\n{lines}{left_out}");
}

/// Machines side by side: the conclusion, and the figures behind it.
pub(crate) fn side_by_side(names: &[&str], rows: &[Row], conclusion: &[String]) -> String {
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
fn inline(text: &str) -> String {
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
