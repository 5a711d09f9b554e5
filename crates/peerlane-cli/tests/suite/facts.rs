//! One report: every output of one machine, of nodes and of a fleet has the same facts.

use std::fs;

use serde_json::Value;

use crate::common::{json, path, peerlane, stdout};

/// The repository's folder of examples.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// Letters and digits alone: formats break lines and escape characters in their own ways.
fn squashed(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase()
}

/// All strings of a document.
fn strings(value: &Value, all: &mut String) {
    match value {
        Value::String(text) => *all += text,
        Value::Array(values) => values.iter().for_each(|value| strings(value, all)),
        Value::Object(fields) => fields.values().for_each(|value| strings(value, all)),
        _ => {}
    }
}

/// What a command writes in each format for people and machines, squashed.
fn outputs(command: &[&str], page: &str) -> Vec<(&'static str, String)> {
    let run = |more: &[&str]| stdout(&peerlane(&[command, more].concat()));
    let page = path("facts", page);
    let text = run(&["-v", "--html", page.to_str().unwrap()]);
    let html = fs::read_to_string(&page).unwrap();
    let (_, data) = html.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let (data, rest) = data.split_once("</script>").unwrap();
    let mut shown = String::new();
    strings(&serde_json::from_str(data).unwrap(), &mut shown);
    let unescaped = |text: &str| {
        let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&amp;", "&")];
        pairs.iter().fold(text.to_owned(), |text, (escape, c)| text.replace(escape, c))
    };
    let all = [
        ("text", text),
        ("html", shown),
        ("html without scripts", unescaped(rest)),
        ("markdown", run(&["--format", "markdown"])),
        ("junit", unescaped(&run(&["--format", "junit"]))),
        ("prometheus", run(&["--format", "prometheus"])),
    ];
    all.map(|(format, text)| (format, squashed(&text))).into()
}

/// Holds that all outputs but some have what a field of the JSON says.
fn hold(outputs: &[(&str, String)], without: &[&str], what: &str, fact: &str) {
    assert!(!fact.is_empty() || what != "summary", "a finding without a summary");
    for (format, text) in outputs.iter().filter(|(format, _)| !without.contains(format)) {
        assert!(text.contains(&squashed(fact)), "{format} lacks {what}: {fact}");
    }
}

/// Holds the facts of findings; numbers have no sentences.
fn hold_findings(outputs: &[(&str, String)], findings: &Value, sentences: &[&str]) {
    let findings = findings.as_array().unwrap();
    assert!(!findings.is_empty());
    for finding in findings {
        let of = |field: &str| finding[field].as_str().unwrap_or_else(|| panic!("{field} of {finding:#}"));
        hold(outputs, &[], "rule", of("rule"));
        // a note is `info` where programs read it
        let severity = if of("severity") == "info" { "note" } else { of("severity") };
        hold(outputs, if severity == "note" { &["prometheus", "html"] } else { &[] }, "severity", severity);
        for subject in finding["subjects"].as_array().unwrap() {
            hold(outputs, &[], "subject", subject.as_str().unwrap());
        }
        for field in sentences {
            hold(outputs, &["prometheus"], field, of(field));
        }
    }
}

#[test]
fn of_a_machine() {
    let target = format!("{EXAMPLES}/slow-node");
    let checked = json(&["check", &target, "--json"]);
    let outputs = outputs(&["check", &target], "machine.html");
    hold(&outputs, &["junit"], "verdict", checked["verdict"].as_str().unwrap());
    hold_findings(&outputs, &checked["findings"], &["summary", "fix", "measured", "expected"]);
}

#[test]
fn of_nodes() {
    let target = format!("{EXAMPLES}/nodes/run.json");
    let checked = json(&["check", &target, "--json"]);
    let outputs = outputs(&["check", &target], "nodes.html");
    hold(&outputs, &["junit"], "verdict", checked["verdict"].as_str().unwrap());
    hold_findings(&outputs, &checked["findings"], &["summary", "fix", "measured", "expected"]);
}

#[test]
fn of_a_fleet() {
    let (runs, nodes) = (format!("{EXAMPLES}/fleet"), format!("{EXAMPLES}/nodes/run.json"));
    let fleet = json(&["fleet", &runs, &nodes, "--json"]);
    let outputs = outputs(&["fleet", &runs, &nodes], "fleet.html");
    hold_findings(&outputs, &fleet["outliers"], &["summary", "why"]);
    for outlier in fleet["outliers"].as_array().unwrap() {
        hold(&outputs, &[], "machine", outlier["machine"].as_str().unwrap());
        hold(&outputs, &[], "action", outlier["action"].as_str().unwrap());
        hold(&outputs, &["prometheus", "junit"], "fix", outlier["fix"].as_str().unwrap());
    }
}
