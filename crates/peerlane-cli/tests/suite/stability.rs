//! What users build on, and the last release had, is still there: fields of documents, rules, commands, options, Python names.
//! `stability/released.txt` has it, as `docs/stability.md` describes; `UPDATE_RELEASED=1` writes it when a release is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use peerlane::check::{Scope, rule_ids};
use serde_json::Value;

/// Documents between parts of this program, of one version: a page with its data, and a process with its parent.
const INSIDE: [&str; 2] = ["fleet-page", "report"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Fields by the path of their object: `?` follows the name of one that may be missing, and then its types.
fn fields(schema: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    walk(schema, schema, "", &mut Vec::new(), &mut found);
    found
}

fn walk<'a>(
    root: &'a Value,
    of: &'a Value,
    path: &str,
    open: &mut Vec<&'a str>,
    found: &mut BTreeMap<String, BTreeSet<String>>,
) {
    if let Some(name) = of["$ref"].as_str().and_then(|name| name.rsplit('/').next())
        && !open.contains(&name)
    {
        open.push(name);
        walk(root, &root["$defs"][name], path, open, found);
        open.pop();
    }
    for alternative in ["anyOf", "oneOf", "allOf"].iter().flat_map(|key| of[key].as_array()).flatten() {
        walk(root, alternative, path, open, found);
    }
    for (name, field) in of["properties"].as_object().into_iter().flatten() {
        let always = of["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name));
        let may = if always { "" } else { "?" };
        found.entry(path.to_owned()).or_default().insert(format!("{name}{may}:{}", types(root, field, 0).join("|")));
        walk(root, field, &format!("{path}.{name}"), open, found);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if of[key].is_object() {
            walk(root, &of[key], &format!("{path}{mark}"), open, found);
        }
    }
}

fn types(root: &Value, of: &Value, depth: usize) -> Vec<String> {
    let mut all: BTreeSet<String> = BTreeSet::new();
    match &of["type"] {
        Value::String(one) => _ = all.insert(one.clone()),
        Value::Array(several) => all.extend(several.iter().filter_map(Value::as_str).map(str::to_owned)),
        _ => {}
    }
    let name = of["$ref"].as_str().and_then(|name| name.rsplit('/').next());
    let alternatives = ["anyOf", "oneOf", "allOf"].iter().flat_map(|key| of[key].as_array()).flatten();
    // no chain of definitions is as long
    for deeper in name.map(|name| &root["$defs"][name]).into_iter().chain(alternatives).filter(|_| depth < 16) {
        all.extend(types(root, deeper, depth + 1));
    }
    all.into_iter().collect()
}

fn peerlane(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_peerlane")).args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Everything that is meant to stay, a line each: what it is of, and its parts.
fn now() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(root().join("schema")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let Some((kind, version)) = name.rsplit_once('-').filter(|_| path.extension().is_some_and(|e| e == "json"))
        else {
            continue;
        };
        if INSIDE.contains(&kind) {
            continue;
        }
        let schema: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for (at, fields) in fields(&schema) {
            all.insert(format!("{kind}/{version} {}", if at.is_empty() { "." } else { &at }), fields);
        }
    }
    let rules = [Scope::Machine, Scope::Nodes, Scope::Fleet].into_iter().flat_map(rule_ids).map(str::to_owned);
    all.insert("rules".to_owned(), rules.collect());
    let mut commands = BTreeSet::new();
    for line in
        peerlane(&["--help"]).split("Commands:").nth(1).unwrap().lines().skip(1).take_while(|line| !line.is_empty())
    {
        let command = line.split_whitespace().next().unwrap().to_owned();
        let help = peerlane(&[&command, "--help"]);
        let options = help.lines().filter_map(|line| {
            let mut words = line.strip_prefix("  ")?.split_whitespace().filter(|word| word.starts_with("--"));
            words
                .next()
                .filter(|_| line.trim_start().starts_with('-'))
                .map(|word| word.split(['[', ',']).next().unwrap_or(word).to_owned())
        });
        all.insert(format!("peerlane {command}"), options.collect());
        commands.insert(command);
    }
    all.insert("peerlane".to_owned(), commands);
    let names = fs::read_to_string(root().join("python/peerlane/__init__.py")).unwrap();
    let names = names.split("__all__ = [").nth(1).unwrap().split(']').next().unwrap();
    all.insert("python".to_owned(), names.split('"').skip(1).step_by(2).map(str::to_owned).collect());
    all
}

fn written(all: &BTreeMap<String, BTreeSet<String>>) -> String {
    let line = |(of, parts): (&String, &BTreeSet<String>)| {
        format!("{of}: {}\n", parts.iter().map(String::as_str).collect::<Vec<_>>().join(" "))
    };
    all.iter().map(line).collect()
}

/// What of the released lines is gone or other, by line.
fn lost(released: &str, now: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut lost = Vec::new();
    for line in released.lines() {
        let (of, parts) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
        // a later version of a document is another document
        if let Some((kind, version)) = of.split(' ').next().and_then(|document| document.rsplit_once('/')) {
            let is_of = |later: u32| now.keys().any(|of| of.starts_with(&format!("{kind}/{later} ")));
            let version: u32 = version.parse().unwrap();
            if !is_of(version) && (version + 1..version + 9).any(is_of) {
                continue;
            }
        }
        let Some(has) = now.get(of) else {
            lost.push(of.to_owned());
            continue;
        };
        lost.extend(
            parts.split(' ').filter(|part| !part.is_empty() && !kept(part, has)).map(|part| format!("{of} {part}")),
        );
    }
    lost
}

/// Whether a part is there, and says no less: a field that was always there still is, and one has no type that it had not.
fn kept(part: &str, has: &BTreeSet<String>) -> bool {
    let Some((name, types)) = part.split_once(':') else { return has.contains(part) };
    let plain = name.trim_end_matches('?');
    has.iter().filter_map(|own| own.split_once(':')).any(|(own, own_types)| {
        own.trim_end_matches('?') == plain
            && (name.ends_with('?') || !own.ends_with('?'))
            && own_types
                .split('|')
                .all(|own| types.split('|').any(|of| of == own || of == "number" && own == "integer"))
    })
}

#[test]
fn what_was_released_is_still_there() {
    let path = root().join("crates/peerlane-cli/tests/suite/stability/released.txt");
    let now = now();
    if std::env::var_os("UPDATE_RELEASED").is_some() {
        fs::write(&path, written(&now)).unwrap();
    }
    let released = fs::read_to_string(&path).unwrap();
    assert!(released.lines().count() > 300, "{} lines", released.lines().count());
    let lost = lost(&released, &now);
    assert!(
        lost.is_empty(),
        "gone since the last release, or other: {lost:#?}\nkeep it, or give the document its next version (docs/stability.md)"
    );
}

#[test]
fn what_is_taken_away_is_seen() {
    let all = |text: &str| -> BTreeMap<String, BTreeSet<String>> {
        let line = |line: &str| {
            let (of, parts) = line.split_once(": ").unwrap();
            (of.to_owned(), parts.split(' ').map(str::to_owned).collect())
        };
        text.lines().map(line).collect()
    };
    let was = "check/3 .: name:string note?:string rate:number";
    for (is, gone) in [
        ("check/3 .: name:string note?:string rate:number more:string", 0),
        ("check/3 .: name:string note:string rate:integer", 0),
        ("check/3 .: name:string note?:string", 1),
        ("check/3 .: name?:string note?:string rate:number", 1),
        ("check/3 .: name:null|string note?:string rate:number", 1),
        ("check/3 .findings: name:string", 1),
        ("check/4 .: other:string", 0),
        ("check/2 .: other:string", 1),
    ] {
        assert_eq!(lost(was, &all(is)).len(), gone, "{is}");
    }
}
