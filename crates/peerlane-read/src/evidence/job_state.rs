//! The state of a job's collectives: the text of NCCL's RAS (`ncclras`), and dumps of PyTorch's flight recorder as JSON.

use serde_json::Value;

use super::health::Health;
use super::json::documents;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const RAS: &str = "NCCL RAS";
const RECORDER: &str = "PyTorch flight recorder";

/// With what a dump may begin: writers sort their keys or do not.
const FIRST_KEYS: [&str; 6] = ["version", "entries", "pg_config", "pg_status", "comm_lib_version", "rank"];

/// Collectives that are named.
const SHOWN: usize = 8;

pub(super) fn scan(text: &Text, found: &mut Found) {
    ras(text, found);
    if !text.holds(&["profiling_name"]) {
        return;
    }
    for key in FIRST_KEYS {
        documents::<Value>(text, key, "", |lines, read| {
            let Ok(document) = read else { return };
            let mut health = Health::default();
            if recorder(&document, lines.0 as usize - 1, &mut health) {
                health.used(lines.1 as usize - 1);
                health.push(text, RECORDER, found);
            }
        });
    }
}

/// The rows of the table of communicators, and what stands below "Errors" and "Warnings".
fn ras(text: &Text, found: &mut Found) {
    if !text.holds(&["Communicators", "RUNNING", "MISMATCH", "INCOMPLETE"]) {
        return;
    }
    let mut health = Health::default();
    for (i, line) in text.iter() {
        let words: Vec<&str> = line.trim_start_matches('>').split_whitespace().collect();
        let numbers = words.iter().take_while(|word| word.bytes().all(|b| b.is_ascii_digit())).count();
        match words.as_slice() {
            [.., status, errors] if numbers >= 5 && words.len() == numbers + 2 && is_state(status) => {
                let bad = match (*status, *errors) {
                    ("RUNNING", "OK") => None,
                    (_, "OK") => Some(Grade::Note),
                    _ => Some(Grade::Fault),
                };
                let group = words.first().map(|group| format!("group {group}"));
                health.judge(Area::Job, bad, group.as_deref(), status, errors, i);
            }
            ["Process", process, "on", "node", host, rest @ ..] => {
                let what = format!("process {process} is missing");
                health.trouble(Area::Job, Grade::Fault, Some(host), &what, &rest.join(" "), i);
            }
            [_, .., error @ ("MISMATCH" | "INCOMPLETE" | "TIMEOUT")] if line.trim_start().starts_with('#') => {
                health.trouble(Area::Job, Grade::Fault, words.first().copied(), error, text.line(i + 1), i);
            }
            _ => {}
        }
    }
    health.push(text, RAS, found);
}

fn is_state(word: &str) -> bool {
    matches!(word, "RUNNING" | "INIT" | "FINALIZE" | "ABORT" | "MIXED" | "NOCOMM" | "UNKNOWN" | "DESTROYED")
}

/// Reads a dump; whether it is one.
fn recorder(document: &Value, line: usize, health: &mut Health) -> bool {
    let Some(entries) = document["entries"].as_array() else { return false };
    if !entries.iter().any(|entry| entry["profiling_name"].is_string()) {
        return false;
    }
    let rank = document["rank"].as_u64().map(|rank| format!("rank {rank}"));
    let mut open = 0;
    for entry in entries {
        let state = entry["state"].as_str().unwrap_or_default();
        if state == "completed" || entry["retired"] == true {
            health.sound(Area::Job, line);
        } else if matches!(state, "started" | "scheduled") {
            open += 1;
            if open <= SHOWN {
                let name = entry["profiling_name"].as_str().unwrap_or("collective");
                let number = entry["collective_seq_id"].as_u64().map_or(String::new(), |n| format!(" #{n}"));
                let grade = if state == "started" { Grade::Suspect } else { Grade::Note };
                health.trouble(Area::Job, grade, rank.as_deref(), &format!("{name}{number}"), state, line);
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::fact::{Fact, HealthReport};

    fn report(text: &str) -> (&'static str, HealthReport) {
        let found = scanned(scan, text);
        let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Health(report) = &one.fact else { panic!("{one:?}") };
        (one.origin.tool, report.clone())
    }

    #[test]
    fn communicators() {
        let table = |status: &str, errors: &str| {
            format!(
                "Communicators... (0.00s)\n=============\n\nGroup     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n\
                 \x20   #  in group  per comm  per node  per comm  in group\n    0         8         4         1         4        32   {status}      {errors}\n"
            )
        };
        assert_eq!(report(&table("RUNNING", "OK")).1.sound, 1);
        let (tool, bad) = report(
            &(table("RUNNING", "INCOMPLETE")
                + "Errors\n======\n\nINCOMPLETE\n  Missing communicator data from 1 job process\n    Process 3487984 on node 172.16.64.213 managing GPU 5\n"),
        );
        let bad: Vec<_> = bad.troubles.iter().map(|t| (t.part.as_deref(), t.value.as_str())).collect();
        assert_eq!(
            (tool, bad),
            (RAS, vec![(Some("group 0"), "INCOMPLETE"), (Some("172.16.64.213"), "managing GPU 5")])
        );
    }

    #[test]
    fn a_dump_of_a_rank() {
        let (tool, read) = report(
            "{\"version\": \"2.4\", \"rank\": 3, \"entries\": [{\"profiling_name\": \"nccl:all_reduce\", \"collective_seq_id\": 1, \"state\": \"completed\"},\n\
             {\"profiling_name\": \"nccl:all_gather\", \"collective_seq_id\": 2, \"state\": \"started\"}]}\n",
        );
        let one = &read.troubles[0];
        assert_eq!(
            (tool, read.sound, one.part.as_deref(), one.what.as_str()),
            (RECORDER, 1, Some("rank 3"), "nccl:all_gather #2")
        );
    }

    #[test]
    fn other_documents() {
        for text in ["{\"version\": 1, \"entries\": []}\n", "1 2 3 4 5 RUNNING\n", "RUNNING OK\n"] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
