//! What `docs/` shows of the program is what it prints. `UPDATE_DOCS=1 cargo test -p peerlane-cli docs::` rewrites it.

use std::path::{Path, PathBuf};

use crate::common::{err, peerlane, stdout};

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// What a command prints; `_` in a word stands for a space.
fn printed(command: &str, errors: bool) -> String {
    let words: Vec<String> = command.split(' ').map(|word| word.replace('_', " ")).collect();
    let output = peerlane(&words.iter().map(String::as_str).collect::<Vec<_>>());
    if errors { err(&output) } else { stdout(&output) }
}

/// The text with every transcript as it should be, and how many there are.
fn fresh(text: &str) -> (String, usize) {
    let mut out = String::new();
    let mut transcripts = 0;
    let mut rest = text;
    while let Some(at) = rest.find(" of: peerlane ") {
        let (before, after) = rest.split_at(at);
        let errors = before.ends_with("<!-- errors");
        let (command, after) = after[" of: peerlane ".len()..].split_once(" -->\n```text\n").unwrap();
        // an empty transcript ends where it begins
        let after = after.strip_prefix("```\n").unwrap_or_else(|| after.split_once("\n```\n").unwrap().1);
        out += &format!("{before} of: peerlane {command} -->\n```text\n{}```\n", printed(command, errors));
        rest = after;
        transcripts += 1;
    }
    (out + rest, transcripts)
}

#[test]
fn the_transcripts_are_fresh() {
    for (name, expected) in
        [("compare.md", 3), ("inference.md", 2), ("model.md", 1), ("placement.md", 4), ("what-if.md", 4)]
    {
        let path = docs(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let (fresh, transcripts) = fresh(&text);
        assert_eq!(transcripts, expected, "{name}");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, fresh).unwrap();
        } else {
            assert!(fresh == text, "{name} is stale: UPDATE_DOCS=1 cargo test -p peerlane-cli docs::");
        }
    }
}
