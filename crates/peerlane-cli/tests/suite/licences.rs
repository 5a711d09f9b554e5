//! `THIRD-PARTY.txt`: who holds the rights in what the program and its page contain, on which terms. Made from cargo's own
//! list of crates and the licence files that they ship: `UPDATE_LICENCES=1 cargo test -p peerlane-cli licences::`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::out;

/// The platform whose crates are listed; releases are built for Linux.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

const HEAD: &str = "\
peerlane itself is licensed under MIT or Apache-2.0, at your option (LICENSE-MIT, LICENSE-APACHE).

This file lists the third-party software that the program contains, each on the terms that are chosen here where its
authors offer several, and the libraries in the page that `peerlane report` writes.
";

const STANDARD_LIBRARY: &str = "\
The Rust standard library is in every Rust program: Copyright (c) The Rust Project Contributors, MIT OR Apache-2.0. What it
contains in turn is listed in share/doc/rust/COPYRIGHT-library.html of a Rust toolchain. The terms of MIT are those below.
";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The crates in the program: what it depends on when it runs, without macros, which run when it is built.
fn crates(of: &str) -> Result<Vec<Value>, String> {
    let cargo = std::env::var_os("CARGO").unwrap();
    let mut metadata = Command::new(cargo);
    metadata.args(["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", PLATFORM]);
    let output = metadata.current_dir(root().join("crates").join(of)).output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let mut all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> =
        list(&all["packages"]).into_iter().map(|p| (p["id"].as_str().unwrap().to_owned(), p)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&all["resolve"].take()["nodes"]).into_iter().map(|n| (n["id"].as_str().unwrap().to_owned(), n)).collect();
    let own = packages.iter().find(|(_, p)| p["name"] == of).unwrap().0.clone();
    let (mut open, mut seen) = (vec![own], BTreeSet::new());
    while let Some(id) = open.pop() {
        let is_macro =
            |p: &Value| list(&p["targets"]).iter().any(|t| list(&t["kind"]).iter().any(|k| k == "proc-macro"));
        if is_macro(&packages[&id]) || !seen.insert(id.clone()) {
            continue;
        }
        for dependency in list(&nodes[&id]["deps"]) {
            // a dependency of the program itself has no kind; of tests and build scripts it is "dev" and "build"
            if list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()) {
                open.push(dependency["pkg"].as_str().unwrap().to_owned());
            }
        }
    }
    let mut found: Vec<Value> = seen.iter().map(|id| packages[id].clone()).filter(|p| !p["source"].is_null()).collect();
    found.sort_by_key(|p| (p["name"].as_str().unwrap().to_owned(), p["version"].as_str().unwrap().to_owned()));
    Ok(found)
}

/// The licences that are chosen, and their texts in the crate.
fn terms(package: &Value) -> (String, String) {
    let name = package["name"].as_str().unwrap();
    let offered = package["license"].as_str().unwrap_or_default();
    let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let named = |file: &Path| file.file_name().unwrap().to_string_lossy().to_uppercase().contains("LICENSE");
    let texts: Vec<String> =
        files.into_iter().filter(|file| named(file)).filter_map(|file| fs::read_to_string(file).ok()).collect();
    let (mut licences, mut all) = (Vec::new(), Vec::new());
    // each of those that are joined by AND
    for offered in offered.split(" AND ") {
        let (chosen, phrase) = chosen(name, offered);
        let text = texts.iter().find(|text| text.contains(phrase));
        let text = text.unwrap_or_else(|| panic!("{name} ships no text of {chosen}"));
        licences.push(chosen);
        all.push(text.clone());
    }
    all.dedup();
    (licences.join(" and "), all.join("\n\n"))
}

/// One licence is enough of several that are joined by OR, or by a stroke as it was once written; and words of its text.
fn chosen(name: &str, offered: &str) -> (&'static str, &'static str) {
    let options: Vec<&str> = offered.split([' ', '/', '(', ')']).collect();
    let known = ["MIT", "ISC", "Zlib", "Apache-2.0", "bzip2-1.0.6", "Unicode-3.0"];
    let chosen = known.into_iter().find(|licence| options.contains(licence));
    let chosen = chosen.unwrap_or_else(|| panic!("{name}: {offered}: a further licence is a decision"));
    let phrase = match chosen {
        "MIT" => "Permission is hereby granted, free of charge",
        "ISC" => "Permission to use, copy, modify, and/or distribute this software",
        "Apache-2.0" => "Apache License",
        "Unicode-3.0" => "UNICODE LICENSE V3",
        // Zlib's, and bzip2's, which is made of it
        _ => "Altered source versions must be plainly marked",
    };
    (chosen, phrase)
}

/// Who holds the rights, and the rest.
fn split(text: &str) -> (String, String) {
    let holder = |line: &&str| {
        let plain = line.trim().to_lowercase();
        plain.starts_with("copyright") && (plain.contains("(c)") || plain.contains(|c: char| c.is_ascii_digit()))
    };
    let (holders, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(holder);
    let title = |line: &&&str| {
        let plain = line.trim_matches(['#', ' ', '*']).to_lowercase();
        ["mit license", "the mit license (mit)", "the mit license", "isc license", "zlib license"]
            .contains(&plain.as_str())
    };
    let holders: Vec<&str> = holders.iter().map(|line| line.trim()).collect();
    let rest: Vec<&str> = rest.iter().filter(|line| !title(line)).map(|line| line.trim_end()).collect();
    (holders.join("\n"), rest.join("\n").trim().to_owned())
}

fn page(crates: Vec<Value>) -> String {
    // by licence and terms, whatever their line breaks and marks: the terms as first written, and who grants them
    let mut groups: BTreeMap<(String, String), (String, Vec<String>)> = BTreeMap::new();
    for package in crates {
        let (licence, text) = terms(&package);
        let (holders, rest) = split(&text);
        let words: Vec<String> = rest.split_whitespace().map(|word| word.replace(['“', '”'], "\"")).collect();
        let (_, granted) = groups.entry((licence, words.join(" "))).or_insert_with(|| (rest, Vec::new()));
        let name = format!("{} {}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        granted.push(if holders.is_empty() { name } else { format!("{name}\n{}", indented(&holders)) });
    }
    let mut page = format!("{HEAD}\n{STANDARD_LIBRARY}");
    for ((licence, _), (text, granted)) in groups {
        page.push_str(&format!("\n{}\n{licence}\n\n{}\n\n{text}\n", "=".repeat(80), granted.join("\n")));
    }
    let web = include_str!("../../../peerlane-report/page/licences.txt");
    page.push_str(&format!("\n{}\nIn the page of `peerlane report` (ISC)\n\n{web}", "=".repeat(80)));
    page
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn is_fresh(path: &Path, fresh: &str) {
    if std::env::var_os("UPDATE_LICENCES").is_some() {
        fs::write(path, fresh).unwrap();
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    let name = path.to_string_lossy();
    assert!(written == fresh, "{name} is stale: UPDATE_LICENCES=1 cargo test -p peerlane-cli licences::");
}

#[test]
fn the_notices_are_fresh() {
    let crates = crates("peerlane-cli").unwrap_or_else(|why| panic!("{why}"));
    is_fresh(&root().join("THIRD-PARTY.txt"), &page(crates));
}

/// Workspaces of their own, whose crates a build of the root does not fetch: `.ci/nightly` has them.
#[test]
fn so_are_those_of_the_wheels() {
    for name in ["peerlane-py", "peerlane-mcp"] {
        match crates(name) {
            Ok(crates) => is_fresh(&root().join("crates").join(name).join("THIRD-PARTY.txt"), &page(crates)),
            Err(why) if std::env::var_os("PEERLANE_ALL_CRATES").is_some() => panic!("{name}: {why}"),
            Err(_) => eprintln!("skipped: the crates of {name} were never fetched"),
        }
    }
}

#[test]
fn the_program_prints_its_licences() {
    let printed = out(&["--licenses"]);
    for text in [include_str!("../../../../LICENSE-MIT"), include_str!("../../../../LICENSE-APACHE")] {
        assert!(printed.contains(text.trim()), "its own licences come first");
    }
    assert!(printed.contains("Mike Bostock") && printed.contains("serde_json"), "{printed}");
    assert!(printed.ends_with(&fs::read_to_string(root().join("THIRD-PARTY.txt")).unwrap()));
}

#[test]
fn the_page_carries_the_notices_of_its_libraries() {
    let page = out(&["report", "exxact-devbox", "-o", "-"]);
    let notices = include_str!("../../../peerlane-report/page/licences.txt");
    assert!(notices.contains("d3-scale") && page.contains(notices));
}
