//! Lines that speak of a message without reporting it: the title of a thread, an example within a sentence or a comment, a command that
//! would print or look for it, the help of an option.

use super::Text;

/// Commands that print, write or look for the words that follow them.
const COMMANDS: [&str; 11] = [
    "echo \"",
    "echo '",
    "echo -e ",
    "printf \"",
    "printf '",
    "grep ",
    "logger ",
    "awk '",
    "sed ",
    "fmt.Println(",
    "print(",
];

/// Words that make what follows them a condition.
const CONDITIONS: [&str; 5] = ["if", "when", "whether", "unless", "whenever"];

/// How lines of programs begin that would print words or end with them.
const SOURCE: [&str; 14] = [
    "raise ",
    "assert ",
    "throw ",
    "logger.",
    "logging.",
    "log.",
    "LOGGER.",
    "warnings.warn(",
    "fprintf(",
    "std::cerr ",
    "console.",
    "TORCH_CHECK(",
    "LOG(",
    "panic(",
];

/// Words before a quotation that make it an example.
const SUPPOSED: [&str; 17] = [
    "should",
    "would",
    "could",
    "might",
    "e.g.",
    "example",
    "such as",
    "like",
    "expect",
    "if",
    "when",
    "whether",
    "detect",
    "duplicate",
    "match",
    "means",
    "documentation",
];

/// More words than any title has.
const LONGEST_TITLE: usize = 240;

/// Whether the words that begin at byte `from` of a line are only spoken of there.
pub(super) fn is_only_said(text: &Text, line: usize, from: usize) -> bool {
    let whole = text.line(line);
    is_title(text, line) || is_example(whole, from)
}

/// The heading of a page or a thread: `# Words`, with a blank line or the end below it, at the top or below a blank line or the thread's own
/// head. What a program prints with such a sign stands among other lines of it.
pub(super) fn is_title(text: &Text, line: usize) -> bool {
    let whole = text.line(line);
    let words = whole.trim_start_matches('#');
    let level = whole.len() - words.len();
    (1..=6).contains(&level)
        && words.starts_with(' ')
        && words.trim_start().starts_with(|c: char| !c.is_ascii_digit())
        && whole.len() <= LONGEST_TITLE
        && text.line(line + 1).trim().is_empty()
        && is_begin(text, line)
}

/// Whether a document may begin a heading at a line.
fn is_begin(text: &Text, line: usize) -> bool {
    /// Lines of a thread's own head: where it stands, and its labels.
    const HEAD: usize = 4;
    line < HEAD || text.line(line - 1).trim().is_empty()
}

/// Whether what begins at byte `from` is an example within its line.
fn is_example(line: &str, from: usize) -> bool {
    let Some(before) = line.get(..from) else { return false };
    let begin = before.trim_start_matches(['>', ' ', '\t', '*', '$']);
    if COMMANDS.iter().any(|command| before.contains(command)) && !is_prompt_of_another(before) {
        return true;
    }
    // `… if CUDA is not available`
    let last = begin.rsplit(' ').find(|word| !word.is_empty()).unwrap_or_default();
    if before.ends_with(' ') && CONDITIONS.iter().any(|word| last.eq_ignore_ascii_case(word)) {
        return true;
    }
    // a program's own line, which would say it: `raise RuntimeError("…")`
    if before.ends_with(['"', '\'']) && SOURCE.iter().any(|start| begin.starts_with(start)) {
        return true;
    }
    // `--retries N   after "Connection reset by peer" …`
    if begin.starts_with("--") && begin.contains("  ") {
        return true;
    }
    let is_comment = begin.starts_with("# ") || begin.starts_with("// ");
    let is_quoted =
        before.ends_with(['`', '"', '\'', '(']) || before.contains('`') && before.matches('`').count() % 2 == 1;
    if !is_comment && !is_quoted {
        return false;
    }
    let lower = before.to_ascii_lowercase();
    // whole words: "detected" and "matched" report
    let is_whole = |word: &str| {
        let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        lower
            .match_indices(word)
            .any(|(at, found)| ends(lower[..at].chars().next_back()) && ends(lower[at + found.len()..].chars().next()))
    };
    SUPPOSED.iter().any(|word| is_whole(word))
}

/// Whether a shell's trace says that a command was run, with its answer behind it: `+ grep x: Permission denied`.
fn is_prompt_of_another(before: &str) -> bool {
    before.trim_start().starts_with("+ ") || before.contains("grep: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(body: &str) -> bool {
        let text = Text::new("t", body.as_bytes());
        let (line, from) = text.iter().find_map(|(i, line)| Some((i, line.find("GPU has fallen")?))).unwrap();
        is_only_said(&text, line, from)
    }

    #[test]
    fn titles_examples_and_commands_report_nothing() {
        for body in [
            "a/b · issue #1 · open\nlabels: bug\n# What to do: GPU has fallen off the bus\n\nHello\n",
            "# GPU has fallen off the bus\n\nHello\n",
            "text\n\n## Error: GPU has fallen off the bus\n\nmore\n",
            "note: this should be the same as `NVRM: GPU has fallen off the bus`\n",
            "# for example: \"GPU has fallen off the bus\"\n",
            "echo \"NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus\" > /dev/kmsg\n",
            "dmesg | grep -i 'GPU has fallen off the bus'\n",
            "  --xid79  what to do where a GPU has fallen off the bus\n",
            "The job is put back if GPU has fallen off the bus.\n",
            "        raise RuntimeError(\"GPU has fallen off the bus\")\n",
            "    logger.warning(f'GPU has fallen off the bus: {n}')\n",
        ] {
            assert!(said(body), "{body}");
        }
    }

    #[test]
    fn reports_are_reports() {
        for body in [
            "[ 1843.3] NVRM: GPU at PCI:0000:b3:00: GPU has fallen off the bus\n",
            "We see `GPU has fallen off the bus` in dmesg.\n",
            "# GPU has fallen off the bus\n# 3 of them\n",
            "> GPU has fallen off the bus\n",
            "E   RuntimeError: GPU has fallen off the bus\n",
            "ALERT detected \"GPU has fallen off the bus\" in the kernel's log\n",
            "# 14:02 matched `GPU has fallen off the bus`\n",
        ] {
            assert!(!said(body), "{body}");
        }
    }
}
