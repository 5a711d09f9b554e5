//! What the README shows is what the program prints. `UPDATE_README=1 cargo test` rewrites it.

use std::path::{Path, PathBuf};

use crate::common::{out, peerlane, stdout};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a file with what it should hold, or rewrites it.
fn compare(path: &Path, fresh: &str) {
    let stale = std::fs::read_to_string(path).unwrap_or_default() != fresh;
    if std::env::var_os("UPDATE_README").is_some() {
        std::fs::write(path, fresh).unwrap();
    } else if stale {
        panic!("{} is stale: UPDATE_README=1 cargo test readme::", path.to_string_lossy());
    }
}

#[test]
fn the_transcripts_are_fresh() {
    const OPEN: &str = "<!-- output of: peerlane ";
    let path = root().join("README.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut parts = text.split(OPEN);
    let mut fresh = parts.next().unwrap().to_owned();
    let mut transcripts = 0;
    for part in parts {
        let (command, rest) = part.split_once(" -->\n```text\n").unwrap();
        let (_, after) = rest.split_once("```\n").unwrap();
        let words: Vec<&str> = command.split(' ').collect();
        fresh += &format!("{OPEN}{command} -->\n```text\n{}```\n{after}", stdout(&peerlane(&words)));
        transcripts += 1;
    }
    assert_eq!(transcripts, 2, "check and measure");
    compare(&path, &fresh);
}

#[test]
fn the_picture_is_fresh() {
    compare(&root().join("docs/7gforce.svg"), &out(&["map", "7gforce", "--format", "svg"]));
}
