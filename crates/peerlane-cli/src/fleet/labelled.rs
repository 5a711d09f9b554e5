//! Records in the output of many machines at once: `srun -l` and `pdsh` put a label in front of every line, and the lines
//! of different machines mix.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use peerlane::run::MAX_RUN_BYTES;

/// The most that lines of unfinished records take together, in bytes.
const MOST_OPEN: usize = 512 << 20;

/// What one label's lines hold so far.
#[derive(Default)]
struct Lines {
    /// The record that has begun.
    text: Option<String>,
    /// Whether a record has ended before.
    complete: bool,
    /// The first line that belongs to no record.
    other: Option<String>,
}

/// A record, or why there is none, with its label.
pub(super) type Labelled = (Option<String>, Result<String, String>);

/// Passes on each record of a stream as it ends. Lines without a label are of one stream of their own.
pub(super) fn split(mut stream: impl BufRead, pass: &mut dyn FnMut(Labelled)) -> io::Result<()> {
    let mut all: BTreeMap<Option<String>, Lines> = BTreeMap::new();
    let (mut line, mut open) = (Vec::new(), 0_usize);
    loop {
        line.clear();
        let most = MAX_RUN_BYTES as u64 + 1;
        if io::Read::take(&mut stream, most).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let (label, rest) = label(text.trim_end_matches(['\n', '\r']));
        let own = all.entry(label.map(str::to_owned)).or_default();
        let label = || label.map(str::to_owned);
        // messages of ours that stderr mixes in
        if rest.trim().is_empty() || rest.starts_with("peerlane: ") {
            continue;
        }
        if begins(rest)
            && let Some(before) = own.text.replace(String::new())
        {
            open = open.saturating_sub(before.len());
            own.complete = true;
            pass((label(), Ok(before)));
        }
        let Some(record) = own.text.as_mut() else {
            own.other.get_or_insert_with(|| rest.chars().take(120).collect());
            continue;
        };
        record.push_str(rest);
        record.push('\n');
        open += rest.len() + 1;
        if record.len() > MAX_RUN_BYTES || open > MOST_OPEN {
            open = open.saturating_sub(record.len());
            own.text = None;
            own.complete = true;
            pass((label(), Err("a record that does not end; the rest of it is left out".to_owned())));
        } else if rest == "]}" || rest == "}" {
            open = open.saturating_sub(record.len());
            own.complete = true;
            pass((label(), Ok(own.text.take().unwrap_or_default())));
        }
    }
    for (label, lines) in all {
        match lines {
            Lines { text: Some(record), .. } => pass((label, Ok(record))),
            Lines { complete: false, other: Some(first), .. } => pass((label, Err(format!("no record: {first}")))),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a record begins on a line: whole ones begin with a brace alone, growing ones with their first field, too.
pub(super) fn begins(line: &str) -> bool {
    line == "{" || line.starts_with("{\"schema\"")
}

/// `12: {`, ` 3: {`, `node12: {`: the label and the rest of the line.
fn label(line: &str) -> (Option<&str>, &str) {
    let found = line.trim_start().split_once(':').filter(|(label, _)| {
        let mut chars = label.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphanumeric())
            && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
            && *label != "peerlane"
    });
    match found {
        Some((label, rest)) => (Some(label), rest.strip_prefix(' ').unwrap_or(rest)),
        None => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, Result<String, String>)> {
        let mut all = Vec::new();
        split(text.as_bytes(), &mut |(label, read)| all.push((label.unwrap_or_default(), read))).unwrap();
        all
    }

    #[test]
    fn lines_of_several_machines_mix() {
        let mixed = " 0: {\n10: {\n 0: \"schema\":\"x\"\n10: peerlane: measuring\n10: \"schema\":\"y\"\nnode-3: bash: no\n10: ]}\n 0: ]}\n";
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(
            of(mixed),
            [
                ("10".to_owned(), ok("{\n\"schema\":\"y\"\n]}\n")),
                ("0".to_owned(), ok("{\n\"schema\":\"x\"\n]}\n")),
                ("node-3".to_owned(), Err("no record: bash: no".to_owned())),
            ]
        );
    }

    #[test]
    fn records_one_after_another_and_one_that_is_cut() {
        let text = "{\n1\n]}\n{\"schema\":1}\n{\"cells\":[]}\n{\n2\n";
        let texts: Vec<String> = of(text).into_iter().map(|(_, read)| read.unwrap()).collect();
        assert_eq!(texts, ["{\n1\n]}\n", "{\"schema\":1}\n{\"cells\":[]}\n", "{\n2\n"]);
        assert_eq!(of("").len() + of("\n\n").len(), 0);
    }
}
