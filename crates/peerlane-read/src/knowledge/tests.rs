use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::file::{Read, read, write};
use super::*;
use crate::evidence::{Text, scan_text};
use peerlane_machine::fact::Fact;

fn files() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../knowledge");
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    all.sort();
    all.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn written() -> Vec<Read> {
    let of =
        |(path, text): (PathBuf, String)| read(&path.display().to_string(), &text).unwrap_or_else(|e| panic!("{e}"));
    files().into_iter().flat_map(of).collect()
}

#[test]
fn the_table_holds_the_files() {
    let table = write(&written());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/knowledge/table.in");
    if env::var_os("UPDATE_KNOWLEDGE").is_some() {
        fs::write(&path, &table).unwrap();
    }
    assert!(fs::read_to_string(path).unwrap() == table, "UPDATE_KNOWLEDGE=1 cargo test -p peerlane-read knowledge::");
}

#[test]
fn an_example_is_of_its_own_entry_and_of_no_other() {
    let mut wrong = Vec::new();
    for one in written().iter().filter(|one| !one.written.pattern.is_empty()) {
        let own = one.written.id.as_str();
        for example in &one.written.example {
            let found = scan_text(&Text::new(
                "example",
                format!("GPU 0: NVIDIA H100 (UUID: GPU-a5c192c2-0000-0000-0000-000000000000)\n{example}\n").as_bytes(),
            ));
            let id = |fact: &Fact| if let Fact::Message(message) = fact { Some(message.id) } else { None };
            let ids: BTreeSet<&str> = found.evidence.iter().filter_map(|e| id(&e.fact)).collect();
            let alternative = |id: &&str| {
                entry(id).is_some_and(|e| e.instead_of.contains(&own))
                    || entry(own).is_some_and(|e| e.instead_of.contains(id))
            };
            let others: Vec<&&str> = ids.iter().filter(|id| **id != own && !alternative(id)).collect();
            if !ids.contains(own) || !others.is_empty() {
                wrong.push(format!("{own}: \"{example}\" is of {ids:?}"));
            }
        }
        assert!(!one.written.example.is_empty(), "{own} has no example");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_entry_that_a_rule_finds_is_read_as_its_example_shows() {
    for one in written().iter().filter(|one| one.written.id.starts_with("xid-")) {
        for example in &one.written.example {
            let found = scan_text(&Text::new("example", example.as_bytes()));
            let of = |fact: &Fact| if let Fact::Kernel(kernel) = fact { Some(kernel.clone()) } else { None };
            let kernel = found.evidence.iter().find_map(|e| of(&e.fact)).unwrap_or_default();
            let id = one.written.id.strip_prefix("xid-").unwrap().parse::<u32>().unwrap();
            assert!(kernel.xids.iter().any(|xid| xid.code == id) || !kernel.recovery.is_empty(), "{example}");
        }
    }
}

#[test]
fn names_are_unique_and_those_that_entries_name_exist() {
    let mut ids = BTreeSet::new();
    for entry in entries() {
        assert!(ids.insert(entry.id), "two entries are called {}", entry.id);
    }
    for one in entries() {
        for other in one.instead_of.iter().chain(one.resolves) {
            assert!(ids.contains(other), "{} replaces or resolves {other}, which is no entry", one.id);
        }
    }
    assert!(entries().map(|e| e.id).eq(ids.iter().copied()), "the table is in order");
}

#[test]
fn no_text_serves_many_entries() {
    let most = entries().count().div_ceil(100);
    let mut fixes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut summaries: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in entries().filter(|e| e.rule.is_empty() && e.weight != Weight::Nothing) {
        fixes.entry(entry.fix).or_default().push(entry.id);
        summaries.entry(entry.summary).or_default().push(entry.id);
    }
    for (text, ids) in fixes {
        assert!(ids.len() <= most, "{ids:?} share the fix \"{text}\"");
    }
    for (text, ids) in summaries {
        assert!(ids.len() <= 1, "{ids:?} share the summary \"{text}\"");
    }
}

#[test]
fn a_cause_does_not_follow_from_its_consequence() {
    fn walk(id: &str, above: &mut Vec<String>) {
        assert!(!above.iter().any(|known| known == id), "{above:?} leads back to {id}");
        above.push(id.to_owned());
        for cause in entry(id).into_iter().flat_map(|e| e.consequence_of) {
            walk(cause, above);
        }
        above.pop();
    }
    entries().for_each(|one| walk(one.id, &mut Vec::new()));
}

#[test]
fn wrong_entries_are_refused_in_words() {
    let whole = "program = \"p\"\nsource = \"s\"\n[[entry]]\nid = \"a\"\npattern = [\"eight or more\"]\nsummary = \"x\"\nfix = \"y\"\nexample = [\"z\"]\n";
    assert!(read("f", whole).is_ok());
    for (from, to, words) in [
        ("eight or more", "short", "no 8 fixed"),
        ("id = \"a\"", "id = \"A b\"", "other characters"),
        ("fix = \"y\"", "fix = \"\"", "needs a summary and a fix"),
        ("source = \"s\"", "source = \"\"", "needs a source"),
        ("summary = \"x\"", "summary = \"x\"\nclass = \"software\"", "unknown class"),
        ("summary = \"x\"", "summary = \"x\"\nseverity = \"bad\"", "unknown severity"),
        ("summary = \"x\"", "summary = \"x\"\ncolour = \"red\"", "unknown field"),
    ] {
        let error = read("f", &whole.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(words) && error.starts_with("f: "), "{error}");
    }
    let name = whole.replace("id = \"a\"", &format!("id = \"{}\"", "a".repeat(101)));
    let error = read("f", &name).unwrap_err().to_string();
    assert!(error.contains("name is longer than") && error.len() < 200, "{error}");
    let long = whole.replace("\"x\"", &format!("\"{}\"", "x".repeat(3000)));
    assert!(read("f", &long).unwrap_err().to_string().contains("longer than"));
}
