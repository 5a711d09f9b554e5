//! Headings of documents: what a person wrote above the statements that follow.

use super::{Evidence, Heading, Text};

/// Headings above statements: Markdown's, and short separate lines that do not end like a sentence.
pub(super) fn headings(text: &Text, evidence: &[Evidence]) -> Vec<Heading> {
    let mut all = Vec::new();
    if evidence.is_empty() {
        return all;
    }
    // only the last one above a statement describes it; a document may have millions
    let mut last: Option<Heading> = None;
    let mut starts = evidence.iter().filter_map(|e| Some(e.origin.lines?.0 as usize)).peekable();
    // a tool's own output has short separate lines too; only a document's are headings
    let sentences = text.iter().filter(|(_, l)| l.trim_end().ends_with('.') && l.split_whitespace().count() >= 12);
    let prose = sentences.take(5).count() == 5;
    let (mut fenced, mut marked_any) = (false, false);
    for (i, line) in text.iter() {
        while starts.next_if(|start| *start <= i + 1).is_some() {
            all.extend(last.take());
        }
        if starts.peek().is_none() {
            break;
        }
        let trimmed = line.trim();
        // a `#` inside a code fence is a shell comment
        if trimmed.starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let alone = (i == 0 || text.line(i - 1).trim().is_empty()) && text.line(i + 1).trim().is_empty();
        let sharp =
            trimmed.starts_with('#') && trimmed.trim_start_matches('#').starts_with(' ') && !is_comment(trimmed);
        marked_any |= sharp;
        // where a document has headings proper, a line such as `Output:` is no heading
        let marked = sharp || (!marked_any && names_fence(text, i, trimmed));
        let label = trimmed.starts_with('`') && trimmed.ends_with("`:");
        let plain = prose
            && alone
            && (4..=80).contains(&trimmed.chars().count())
            && trimmed.chars().next().is_some_and(char::is_uppercase)
            && !trimmed.ends_with(['.', ',', ';', ':', '!'])
            && !trimmed.contains(['|', '=', '\t'])
            && !trimmed.starts_with("Figure")
            && !trimmed.ends_with(".jpg");
        if marked || label || plain {
            let clean = trimmed.trim_start_matches('#').replace(['`', '*'], "");
            let clean = clean.trim().trim_end_matches(':').to_owned();
            if !clean.is_empty() {
                last = Some(Heading { source: text.source().clone(), line: i as u32 + 1, text: clean });
            }
        }
    }
    all
}

/// Whether a line with `#` before it is a program's comment, as nccl-tests prints them, or what root typed.
fn is_comment(line: &str) -> bool {
    const TYPED: [&str; 9] =
        ["nvidia-smi", "lspci", "lsmod", "dmesg", "ibstat", "ibv_devinfo", "lstopo", "rocm-smi", "numactl"];
    let rest = line.trim_start_matches('#');
    let first = rest.split_whitespace().next().unwrap_or_default();
    // a title is the tool's name alone, or goes on in words
    let options = rest.contains(" -") || rest.contains('|');
    rest.starts_with("  ") || first == "nThread" || first.starts_with("./") || (TYPED.contains(&first) && options)
}

/// `**node-a**` or `After the update:` above a code fence.
fn names_fence(text: &Text, i: usize, trimmed: &str) -> bool {
    let next = (i + 1..=i + 2).map(|k| text.line(k).trim()).find(|l| !l.is_empty());
    let shaped =
        trimmed.ends_with(':') || trimmed.ends_with(":**") || trimmed.starts_with("**") && trimmed.ends_with("**");
    let lower = trimmed.to_lowercase();
    let names_tool = ["output", "nvidia-smi", "command", "p2pbandwidth"].iter().any(|w| lower.contains(w));
    shaped && !names_tool && trimmed.chars().count() <= 80 && next.is_some_and(|l| l.starts_with("```"))
}
