//! What the README and `docs/` show of the program is what it prints. `UPDATE_README=1 cargo test -p peerlane-cli docs::` rewrites the
//! README, `UPDATE_DOCS=1` the pages.

mod links;
mod phrases;

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{command, err, out, stdout};

/// Stands before the generated part of `docs/commands.md`.
const HELP: &str = "<!-- help of every command -->\n";

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Markdown files of a folder.
fn pages(folder: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|e| e == "md")).collect();
    pages.sort();
    pages
}

/// The commands that help lists.
fn commands() -> Vec<String> {
    let help = out(&["--help"]);
    let (_, list) = help.split_once("\nCommands:\n").unwrap();
    let lines = list.split("\n\n").next().unwrap().lines();
    // continued lines have more indent
    let names = lines.filter(|line| !line.starts_with("   ")).map(|line| line.split_whitespace().next().unwrap());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Compares a file with what it should hold, or rewrites it.
pub(crate) fn hold(path: &Path, fresh: &str, update: &str) {
    if fs::read_to_string(path).unwrap_or_default() == fresh {
        return;
    }
    assert!(std::env::var_os(update).is_some(), "{} is stale: {update}=1 cargo test -p peerlane-cli", path.display());
    fs::write(path, fresh).unwrap();
}

/// What a command prints in the project's folder; a word in '' may have spaces.
fn printed(line: &str, errors: bool) -> String {
    let pieces = line.split('\'').enumerate();
    let words = pieces.flat_map(|(i, piece)| if i % 2 == 1 { vec![piece] } else { piece.split_whitespace().collect() });
    let words: Vec<&str> = words.collect();
    let output = command(&words).current_dir(root()).output().unwrap();
    let printed = if errors { err(&output) } else { stdout(&output) };
    assert!(!printed.is_empty(), "'peerlane {line}' prints nothing there: {}", err(&output));
    printed
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
    let mut shown = 0;
    for path in pages("docs") {
        let (fresh, transcripts) = fresh(&fs::read_to_string(&path).unwrap());
        hold(&path, &fresh, "UPDATE_DOCS");
        shown += transcripts;
    }
    assert!(shown >= 15, "{shown} transcripts: was a marker changed?");
}

#[test]
fn the_readme_is_fresh() {
    let path = root().join("README.md");
    let (fresh, transcripts) = fresh(&fs::read_to_string(&path).unwrap());
    assert_eq!(transcripts, 1, "check of the slow node");
    hold(&path, &fresh, "UPDATE_README");
}

#[test]
fn the_readme_is_short() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let words = text.split_whitespace().count();
    assert!(words <= 900, "the README has {words} words: move some to docs/");
}

#[test]
fn the_picture_is_fresh() {
    hold(&root().join("docs/7gforce.svg"), &out(&["map", "7gforce", "--format", "svg"]), "UPDATE_DOCS");
}

#[test]
fn the_reference_has_the_help_of_every_command() {
    let path = root().join("docs/commands.md");
    let text = fs::read_to_string(&path).unwrap();
    let (head, _) = text.split_once(HELP).unwrap();
    let mut fresh = head.to_owned() + HELP;
    for name in commands() {
        assert!(head.contains(&format!("`{name}`")), "the table of docs/commands.md lacks {name}");
        fresh += &format!("\n## {name}\n\n```text\n{}```\n", out(&[&name, "--help"]));
    }
    hold(&path, &fresh, "UPDATE_DOCS");
}
