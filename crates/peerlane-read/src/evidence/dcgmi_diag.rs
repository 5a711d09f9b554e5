//! `dcgmi diag`: results of its tests, as the table and as JSON, of releases 1 to 4.

use serde_json::Value;

use super::health::Health;
use super::json::documents;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "dcgmi diag";

pub(super) fn scan(text: &Text, found: &mut Found) {
    table(text, found);
    watches(text, found);
    for key in ["DCGM GPU Diagnostic", "DCGM Diagnostic"] {
        documents::<Value>(text, key, "{", |lines, read| match read {
            Ok(document) => {
                let mut health = Health::default();
                let first = lines.0 as usize - 1;
                tests(&document[key], first, &mut health);
                health.used(lines.1 as usize - 1);
                health.push(text, TOOL, found);
            }
            Err(error) => found.warn(text, TOOL, lines, format!("the result of dcgmi diag cannot be read: {error}")),
        });
    }
}

/// Rows of the table, whose results are `Pass`, `Fail` and `Warn`, each; skipped tests are not counted with the GPUs that it is of.
fn table(text: &Text, found: &mut Found) {
    if !text.holds(&["| Pass", "| Fail", "| Warn"]) {
        return;
    }
    let mut health = Health::default();
    for (i, line) in text.iter() {
        let Some([name, result]) = cells(line) else { continue };
        let (word, gpus) = result.split_once(" - ").unwrap_or((result, ""));
        let bad = match word.trim() {
            "Pass" => None,
            "Fail" => Some(Grade::Fault),
            "Warn" => Some(Grade::Suspect),
            _ => continue,
        };
        let part = part(gpus);
        let why = (i + 1..text.len().min(i + MOST_DETAILS)).map_while(|k| detail(text.line(k)));
        let why: Vec<&str> = why.filter(|why| !why.is_empty()).collect();
        let value = if why.is_empty() { result.to_owned() } else { format!("{word}: {}", why.join(" ")) };
        health.judge(Area::Gpu, bad, part.as_deref(), name, &value, i);
        if bad.is_some() {
            (1..=why.len()).for_each(|k| health.used(i + k));
        }
    }
    health.push(text, TOOL, found);
}

/// What `dcgmi health -c` reports: a state of all GPUs, and below it each GPU's systems with what was seen.
fn watches(text: &Text, found: &mut Found) {
    if !text.holds(&["Overall Health"]) {
        return;
    }
    let mut health = Health::default();
    let (mut gpu, mut system): (Option<String>, Option<(String, Grade, usize)>) = (None, None);
    let mut what = String::new();
    let close =
        |system: &mut Option<(String, Grade, usize)>, what: &mut String, gpu: Option<&str>, health: &mut Health| {
            if let Some((name, grade, line)) = system.take() {
                health.trouble(Area::Gpu, grade, gpu, &format!("{name}:"), what, line);
            }
            what.clear();
        };
    for (i, line) in text.iter() {
        let Some([name, state]) = row(line) else { continue };
        let grade = match state {
            "Warning" => Some(Grade::Suspect),
            "Failure" => Some(Grade::Fault),
            _ => None,
        };
        let name = name.trim_start_matches("->").trim();
        if name == "Overall Health" && state == "Healthy" {
            health.sound(Area::Gpu, i);
        } else if name.is_empty() && system.is_some() && what.len() < MOST_WORDS {
            what.push(' ');
            what.push_str(state);
            health.used(i);
        } else {
            close(&mut system, &mut what, gpu.as_deref(), &mut health);
            match grade {
                Some(_) if name.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => {
                    gpu = Some(format!("GPU{name}"))
                }
                Some(grade) if !name.is_empty() && name != "Overall Health" => {
                    system = Some((name.to_owned(), grade, i))
                }
                _ => {}
            }
        }
    }
    close(&mut system, &mut what, gpu.as_deref(), &mut health);
    health.push(text, "dcgmi health", found);
}

/// The most of what was seen of one system, in bytes.
const MOST_WORDS: usize = 300;

/// The two cells of a row, of which the first may be empty.
fn row(line: &str) -> Option<[&str; 2]> {
    let (name, state) =
        line.trim_start_matches(['>', ' ']).trim_end().strip_prefix('|')?.trim_end_matches('|').split_once('|')?;
    Some([name.trim(), state.trim()])
}

/// The most lines of one test's warning.
const MOST_DETAILS: usize = 12;

/// The two cells of a row.
fn cells(line: &str) -> Option<[&str; 2]> {
    let line = line.trim_start_matches(['>', ' ']).trim_end();
    let mut cells = line.strip_prefix('|')?.trim_end_matches('|').split('|').map(str::trim);
    let two = [cells.next()?, cells.next()?];
    (cells.next().is_none() && !two[0].is_empty()).then_some(two)
}

/// A line of a test's warning: `| Warning  | GPU 3 … |`, and those below it, whose first cell is empty.
fn detail(line: &str) -> Option<&str> {
    let inner = line.trim_start_matches(['>', ' ']).trim_end().strip_prefix('|')?.trim_end_matches('|');
    let (name, what) = inner.split_once('|')?;
    matches!(name.trim(), "" | "Warning" | "Error" | "Info").then_some(what.trim())
}

/// `GPU: 3`, `GPUs: 3, 4`, `All`.
fn part(gpus: &str) -> Option<String> {
    let numbers = gpus.trim().trim_start_matches("GPUs").trim_start_matches("GPU").trim_start_matches([':', ' ']);
    let all: Vec<String> =
        numbers.split(',').filter_map(|n| n.trim().parse::<u32>().ok()).map(|n| format!("GPU{n}")).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// The tests of a JSON document; `line` is its first.
fn tests(document: &Value, line: usize, health: &mut Health) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for test in list(&document["test_categories"]).iter().flat_map(|category| list(&category["tests"])) {
        let name = test["name"].as_str().unwrap_or("test");
        for result in list(&test["results"]) {
            let word = result["status"].as_str().unwrap_or_default().to_ascii_lowercase();
            let bad = match word.as_str() {
                "pass" => None,
                "fail" => Some(Grade::Fault),
                "warn" => Some(Grade::Suspect),
                _ => continue,
            };
            let part = gpu(&result);
            let value = format!("{word}{}", warnings(&result["warnings"]));
            health.judge(Area::Gpu, bad, part.as_deref(), name, &value, line);
        }
    }
}

/// The GPU that a result is of: `gpu_ids` is one number, or several with commas.
fn gpu(result: &Value) -> Option<String> {
    let number = |key: &str| match &result[key] {
        Value::String(ids) => part(ids),
        Value::Number(id) => Some(format!("GPU{id}")),
        _ => None,
    };
    let of_gpu = result["entity_group"].as_str().is_none_or(|group| group == "GPU");
    number("gpu_ids").or_else(|| number("gpu_id")).or_else(|| number("entity_id").filter(|_| of_gpu))
}

/// Warnings are texts, or objects with a text.
fn warnings(value: &Value) -> String {
    let text = |value: &Value| value.as_str().or_else(|| value["warning"].as_str()).map(str::to_owned);
    let all: Vec<String> = match value {
        Value::Array(all) => all.iter().filter_map(text).collect(),
        one => text(one).into_iter().collect(),
    };
    if all.is_empty() { String::new() } else { format!(": {}", all.join("; ")) }
}

#[cfg(test)]
mod watch_tests {
    use super::super::testing::health;
    use super::*;

    #[test]
    fn health_watches() {
        let row = |name: &str, state: &str| format!("| {name:<25} | {state:<56} |\n");
        let body = row("Overall Health", "Warning")
            + &row("GPU", "")
            + &row("-> 3", "Warning")
            + &row("   -> Errors", "")
            + &row("      -> PCIe system", "Warning")
            + &row("", "Detected more than 8 PCIe replays per minute")
            + &row("", "for GPU 3 : 13");
        let report = health(watches, &body);
        let [one] = report.troubles.as_slice() else { panic!("{report:?}") };
        assert_eq!((one.part.as_deref(), one.what.as_str(), one.grade), (Some("GPU3"), "PCIe system:", Grade::Suspect));
        assert!(one.value.ends_with("for GPU 3 : 13"), "{}", one.value);
        let sound = health(watches, &row("Overall Health", "Healthy"));
        assert_eq!((sound.sound, sound.troubles.len()), (1, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;
    use peerlane_machine::fact::HealthReport;

    fn report(text: &str) -> HealthReport {
        health(scan, text)
    }

    #[test]
    fn tables_of_all_releases() {
        let report = report(
            "Successfully ran diagnostic for group.\n+---------------------------+------------------+\n| Diagnostic                | Result           |\n\
             +===========================+==================+\n|-----  Deployment  --------+------------------|\n| Denylist                  | Pass             |\n\
             | NVML Library              | Pass             |\n+-----  Integration  -------+------------------+\n| PCIe                      | Fail - GPU: 3    |\n\
             | Warning                   | GPU 3: bandwidth |\n|                           | of 2.1 is low    |\n| Memory | Skip - All |\n",
        );
        assert_eq!((report.sound, report.troubles.len()), (2, 1), "{report:#?}");
        let fail = &report.troubles[0];
        assert_eq!((fail.part.as_deref(), fail.what.as_str(), fail.grade), (Some("GPU3"), "PCIe", Grade::Fault));
        assert_eq!(fail.value, "Fail: GPU 3: bandwidth of 2.1 is low");
    }

    #[test]
    fn json_of_all_releases() {
        let report = report(
            "{\n  \"DCGM GPU Diagnostic\": {\n \"test_categories\": [{\"category\": \"Integration\", \"tests\": [{\"name\": \"PCIe\", \"results\": [\
             {\"gpu_ids\": \"0\", \"status\": \"PASS\"}, {\"gpu_ids\": \"1\", \"status\": \"Fail\", \"warnings\": \"slow\"},\
             {\"entity_group\": \"GPU\", \"entity_id\": 2, \"status\": \"Fail\", \"warnings\": [{\"warning\": \"replays\"}]}]}]}]\n}\n}\n",
        );
        let bad: Vec<_> = report.troubles.iter().map(|t| (t.part.as_deref(), t.value.as_str())).collect();
        assert_eq!((report.sound, bad), (1, vec![(Some("GPU1"), "fail: slow"), (Some("GPU2"), "fail: replays")]));
    }

    #[test]
    fn other_tables() {
        for text in ["| Test | Passed |\n", "| a | b | Pass |\n", "Pass\n"] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
