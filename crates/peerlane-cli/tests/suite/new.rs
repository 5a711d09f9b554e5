//! `peerlane new`: the page that shows it, flags that are wrong, files that exist, and system files with many mistakes.

use std::path::{Path, PathBuf};

use crate::common::{command, err, path, status, stdout};

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/system-files.md")
}

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = path("new", name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The words of a command of the page.
fn words(command: &str) -> Vec<String> {
    let joined = command.replace("\\\n", " ");
    let mut words = Vec::new();
    for (i, piece) in joined.split('\'').enumerate() {
        if i % 2 == 1 {
            words.push(piece.to_owned());
        } else {
            words.extend(piece.split_whitespace().map(str::to_owned));
        }
    }
    words.into_iter().skip(1).collect()
}

#[test]
fn the_page_shows_what_is_printed() {
    let text = std::fs::read_to_string(page()).unwrap();
    let fence = |text: &str, kind: &str, n: usize| {
        let body = text.split(kind).nth(n).unwrap();
        body.split("```").next().unwrap().to_owned()
    };
    let folder = folder("page");
    std::fs::write(folder.join("x99-e-ws.txt"), fence(&text, "```text\n", 1)).unwrap();
    let run = |n: usize| {
        let words = words(&fence(&text, "```sh\n", n));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        command(&words).current_dir(&folder).output().unwrap()
    };
    let first = run(1);
    assert_eq!(err(&first), "");
    let (head, rest) = text.split_once("<!-- new -->\n```text\n").unwrap();
    let (shown, tail) = rest.split_once("```").unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page(), format!("{head}<!-- new -->\n```text\n{}```{tail}", stdout(&first))).unwrap();
    } else {
        assert!(shown == stdout(&first), "system-files.md is stale: UPDATE_DOCS=1 cargo test -p peerlane-cli new::");
    }
    assert_eq!(err(&run(2)), "");
    // what was written is a target as any other
    for target in ["my-box.toml", "two.toml"] {
        let output = command(&["predict", target]).current_dir(&folder).output().unwrap();
        assert!(status(&output) == 0 && stdout(&output).contains("GPU0"), "{}", err(&output));
    }
}

#[test]
fn wrong_flags_are_listed_at_once_and_nothing_is_written() {
    let folder = folder("wrong");
    let new = |words: &[&str]| {
        let all = [&["new", "x.toml"], words].concat();
        command(&all).current_dir(&folder).output().unwrap()
    };
    let output = new(&["--cpu", "EPYC 9600X", "--slot", "S x3", "--card", "RTX 4900 @S", "--nvlink", "GPU0"]);
    let said = err(&output);
    for expected in
        ["--cpu: no CPU 'EPYC 9600X' is known; nearest: ", "--slot: 'S x3'", "--card: no card 'RTX 4900'", "--nvlink:"]
    {
        assert!(said.contains(expected), "wanted '{expected}' in:\n{said}");
    }
    let cases: [(&[&str], &str); 5] = [
        (&[], "standard input is no terminal"),
        (&["--slot", "S x16"], "--cpu"),
        (&["--cpu", "EPYC 9554", "--slots", "none.txt"], "none.txt"),
        (&["--cpu", "EPYC 9554", "--slot", "S x16", "--card", "L40S @T"], "which is no slot; nearest: S"),
        (&["--cpu", "EPYC 9554", "--sockets", "99"], "99 sockets"),
    ];
    for (words, expected) in cases {
        let output = new(words);
        assert!(status(&output) == 2 && err(&output).contains(expected), "{words:?}: {}", err(&output));
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    assert!(err(&command(&["new", "x.json"]).output().unwrap()).contains("ends in .toml"));
}

#[test]
fn a_file_is_replaced_only_with_force() {
    let folder = folder("force");
    let file = folder.join("x.toml");
    std::fs::write(&file, "mine").unwrap();
    let path = file.to_str().unwrap();
    let flags = ["--cpu", "EPYC 9554", "--slot", "S x16", "--card", "L40S @S"];
    let output = command(&[&["new", path], &flags[..]].concat()).output().unwrap();
    assert!(status(&output) == 2 && err(&output).contains("--force"), "{}", err(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    let output = command(&[&["new", path, "--force"], &flags[..]].concat()).output().unwrap();
    assert!(stdout(&output).contains("wrote "), "{}", err(&output));
    assert!(std::fs::read_to_string(&file).unwrap().contains("l40s"));
}

#[test]
fn check_lists_all_mistakes_of_a_file() {
    let folder = folder("many");
    let file = folder.join("bad.toml");
    std::fs::write(&file, include_str!("../../../peerlane-read/src/catalogue/system/many_errors.toml")).unwrap();
    let output = command(&["check", file.to_str().unwrap()]).output().unwrap();
    let said = err(&output);
    assert_eq!((status(&output), said.matches("peerlane:   line ").count()), (2, 11), "{said}");
    assert!(said.contains("bad.toml: 11 errors"), "{said}");
}
