//! Logs of MLPerf's training (`:::MLLOG {…}`): whether a run reached its target.

use serde_json::Value;

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "MLPerf";
const MARK: &str = ":::MLLOG ";
/// Releases 0.5 and 0.6 write `:::MLPv0.5.0 resnet 1541729440.10 (/x/train.py:10) run_stop: {"success": true}`.
const OLD: &str = ":::MLPv0.";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&[MARK, OLD]) {
        return;
    }
    let mut health = Health::default();
    for (i, line) in text.iter() {
        if let Some((_, entry)) = line.split_once(OLD) {
            old(entry, i, &mut health);
            continue;
        }
        let Some((_, entry)) = line.split_once(MARK) else { continue };
        // what stands behind the entry is of another process
        let mut entries = serde_json::Deserializer::from_str(entry).into_iter::<Value>();
        let Some(Ok(entry)) = entries.next() else { continue };
        let value = match &entry["value"] {
            Value::Null => String::new(),
            value => value.to_string(),
        };
        match entry["key"].as_str().unwrap_or_default() {
            "run_stop" => {
                let status = entry["metadata"]["status"].as_str().unwrap_or_default();
                let bad = match status {
                    "success" => None,
                    // the target was not reached; a run that is only timed ends so as well
                    "aborted" => Some(Grade::Note),
                    _ => continue,
                };
                health.judge(Area::Program, bad, None, "run of MLPerf:", status, i);
            }
            // evaluations that give a number show that the run goes on
            "eval_accuracy" | "eval_error" if entry["value"].is_number() => health.sound(Area::Program, i),
            "eval_accuracy" | "eval_error" if value.to_lowercase().contains("nan") => {
                health.trouble(Area::Program, Grade::Fault, None, "result of an evaluation:", &value, i);
            }
            _ => {}
        }
    }
    health.push(text, TOOL, found);
}

/// An entry of the old form: a key, and its value behind a colon.
fn old(entry: &str, i: usize, health: &mut Health) {
    let Some((_, entry)) = entry.split_once(") ") else { return };
    let (key, value) = entry.split_once(": ").unwrap_or((entry.trim(), ""));
    match key {
        "run_stop" => {
            let success = value.contains("\"success\": true") || value.is_empty();
            let bad = (!success).then_some(Grade::Note);
            health.judge(Area::Program, bad, None, "run of MLPerf:", value, i);
        }
        "eval_accuracy" | "eval_result" if value.to_lowercase().contains("nan") => {
            health.trouble(Area::Program, Grade::Fault, None, "result of an evaluation:", value, i);
        }
        "eval_accuracy" | "eval_result" if !value.is_empty() => health.sound(Area::Program, i),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn entries_of_the_first_releases() {
        let line = |entry: &str| format!(":::MLPv0.5.0 resnet 1541729440.1 (/x/train.py:10) {entry}\n");
        let sound = line("eval_accuracy: {\"epoch\": 5, \"value\": 0.62}") + &line("run_stop: {\"success\": true}");
        assert_eq!(health(scan, &sound).sound, 2);
        let failed = health(scan, &line("run_stop: {\"success\": false}"));
        assert_eq!((failed.sound, failed.troubles.len()), (0, 1));
    }

    #[test]
    fn ends_of_runs() {
        let stop = |status: &str| {
            format!(
                "0: :::MLLOG {{\"key\": \"run_stop\", \"value\": null, \"metadata\": {{\"status\": \"{status}\"}}}}\n"
            )
        };
        let eval = |value: &str| {
            format!(":::MLLOG {{\"key\": \"eval_accuracy\", \"value\": {value}, \"metadata\": {{}}}} tail\n")
        };
        let read = health(scan, &(eval("0.41") + &eval("0.72") + &stop("success")));
        assert_eq!((read.sound, read.troubles.len()), (3, 0));
        assert_eq!(health(scan, &stop("aborted")).troubles[0].grade, Grade::Note);
        assert_eq!(health(scan, &eval("\"nan\"")).troubles[0].grade, Grade::Fault);
    }

    #[test]
    fn settings_alone_and_lines_that_are_cut() {
        let text = ":::MLLOG {\"key\": \"seed\", \"value\": 7}\n:::MLLOG {\"key\": \"run_stop\", \"meta\n";
        assert_eq!(scanned(scan, text), Found::default());
    }
}
