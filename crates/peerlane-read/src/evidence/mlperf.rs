//! Logs of MLPerf's training (`:::MLLOG {…}`): whether a run reached its target.

use serde_json::Value;

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "MLPerf";
const MARK: &str = ":::MLLOG ";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&[MARK]) {
        return;
    }
    let mut health = Health::default();
    for (i, line) in text.iter() {
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

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

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
