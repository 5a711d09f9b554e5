//! Threads and captures whose cause is known, each judged by `peerlane check`: `validation/judgement.md`.
//!
//! `judgement/*.toml` has the facts of each: where it was published, the cause, and who confirmed it. The texts are not in this
//! repository: where `PEERLANE_JUDGEMENT` names a folder with them (`NAME.txt`, and `public/` beside it), they are judged and
//! must be judged as `judgement/*.json` recorded; elsewhere the page is made from what was recorded.
//! `UPDATE_DOCS=1 cargo test -p peerlane-cli judgement::` rewrites both.

mod first_contact;
mod page;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::peerlane;

/// A thread or capture.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Thread {
    name: String,
    kind: Kind,
    /// Where it was published.
    source: String,
    /// What is wrong, or limits, or that nothing is.
    cause: String,
    /// By what the cause is known.
    confirmed_by: String,
    /// What the first finding must contain, in any case; with `!`, a rule or words that no finding above a note may have.
    tokens: Vec<String>,
    /// Its text, from the folder of texts on; `NAME.txt` by default.
    text: Option<String>,
    /// What is doubtful about it.
    #[serde(default)]
    doubt: Option<String>,
    /// Statements of the answer that a reader called wrong.
    #[serde(default)]
    wrong: Vec<String>,
}

/// What a source says about a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Fault,
    Limited,
    Sound,
}

#[derive(Deserialize)]
struct Threads {
    thread: Vec<Thread>,
}

/// How a text was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Judged {
    /// `fault`, or `not read`.
    verdict: String,
    /// The first finding: `rule: summary`.
    first: String,
    /// Whether that is the cause; of a sound machine, whether nothing that should not be is reported.
    right: bool,
    /// Whether a fault above a note is reported.
    alarm: bool,
}

impl Thread {
    fn text(&self, folder: &Path) -> PathBuf {
        folder.join(self.text.clone().unwrap_or_else(|| format!("{}.txt", self.name)))
    }

    fn judge(&self, folder: &Path) -> Judged {
        let text = self.text(folder);
        let answer = peerlane(&["check", &text.to_string_lossy(), "--json"]);
        let Ok(answer) = serde_json::from_slice::<Value>(&answer.stdout) else {
            let (verdict, first) = ("not read".to_owned(), String::new());
            return Judged { verdict, first, right: false, alarm: false };
        };
        let findings = answer["findings"].as_array().cloned().unwrap_or_default();
        let matters = |f: &&Value| f["severity"] != "info";
        let first = findings.iter().find(matters).or(findings.first());
        let (unwanted, wanted): (Vec<&String>, Vec<&String>) =
            self.tokens.iter().partition(|token| token.starts_with('!'));
        let within = |f: &Value, token: &str| f.to_string().to_lowercase().contains(&token.to_lowercase());
        let named = |f: &Value| wanted.iter().all(|token| within(f, token));
        let absent = |token: &&String| {
            let token = token.trim_start_matches('!');
            !findings.iter().filter(matters).any(|f| f["rule"] == token || within(&f["summary"], token))
        };
        Judged {
            verdict: answer["verdict"].as_str().unwrap_or_default().to_owned(),
            first: first.map_or(String::new(), |f| {
                format!("{}: {}", f["rule"].as_str().unwrap_or_default(), f["summary"].as_str().unwrap_or_default())
            }),
            right: (wanted.is_empty() || first.is_some_and(named)) && unwanted.iter().all(absent),
            alarm: findings.iter().filter(matters).any(|f| f["kind"] == "fault"),
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/judgement")
}

/// The threads of a set; none where it is not there.
fn threads(set: &str) -> Vec<Thread> {
    let path = folder().join(format!("{set}.toml"));
    let text = fs::read_to_string(&path).unwrap_or_default();
    if text.is_empty() {
        return Vec::new();
    }
    toml::from_str::<Threads>(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display())).thread
}

/// The recorded results of a set.
fn recorded(set: &str) -> BTreeMap<String, Judged> {
    let text = fs::read_to_string(folder().join(format!("{set}.json"))).unwrap_or_else(|_| "{}".to_owned());
    serde_json::from_str(&text).unwrap()
}

fn record(set: &str, results: &BTreeMap<String, Judged>) {
    fs::write(folder().join(format!("{set}.json")), serde_json::to_string_pretty(results).unwrap() + "\n").unwrap();
}

#[test]
fn every_thread_is_judged_as_recorded() {
    let sets = ["work", "held"].map(|set| (set, threads(set)));
    let update = env::var_os("UPDATE_DOCS").is_some();
    let texts = env::var_os("PEERLANE_JUDGEMENT").map(PathBuf::from);
    if texts.is_none() {
        eprintln!(
            "skipped: PEERLANE_JUDGEMENT names no folder with the texts; the page is made from what was recorded"
        );
    }
    let mut results = BTreeMap::new();
    for (set, threads) in &sets {
        let kept = recorded(set);
        let judge = |folder: &PathBuf| threads.iter().map(|t| (t.name.clone(), t.judge(folder))).collect();
        // what was set aside is judged once: later versions may do better or worse
        let again = *set == "work" || kept.is_empty();
        let now: Option<BTreeMap<String, Judged>> = texts.as_ref().filter(|_| again).map(judge);
        match now {
            Some(now) if update => {
                record(set, &now);
                results.extend(now);
            }
            Some(now) => {
                for (name, judged) in &now {
                    assert_eq!(kept.get(name), Some(judged), "{name} is judged otherwise than recorded");
                }
                results.extend(kept);
            }
            None => results.extend(kept),
        }
    }
    let all = || sets.iter().flat_map(|(_, threads)| threads);
    assert!(all().all(|t| results.contains_key(&t.name)), "a thread has no result");
    let page = page::page(&sets, &results);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/judgement.md");
    if update {
        fs::write(path, page).unwrap();
    } else {
        let hint = "validation/judgement.md is stale: UPDATE_DOCS=1 cargo test -p peerlane-cli judgement::";
        assert!(fs::read_to_string(path).unwrap_or_default() == page, "{hint}");
    }
}
