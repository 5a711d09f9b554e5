//! `validation/questions.md`: what the documents ask and do not answer, from the outputs of commands.

use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use super::items;
use super::outputs::{Outputs, words};
use crate::common::{err, peerlane, status};

const HEAD: &str = "\
# Questions that the documents leave open

Five documents about GPUs and their links ([documents.md](documents.md)) end in questions. Each is answered here with the
output of commands. The last section lists what no model can decide, each with the experiment that would.

The transcripts and all numbers in the answers come from the program; *…* marks omitted lines.
`UPDATE_DOCS=1 cargo test -p peerlane-cli documents::` rewrites this page.
";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Questions {
    question: Vec<Question>,
    open: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    heading: String,
    /// Document and line.
    asked: String,
    text: String,
    run: Vec<Run>,
    /// With `{0}`, `{1}` … for the numbers.
    answer: String,
    /// As of items, on the outputs of all runs in one line.
    #[serde(default)]
    numbers: Vec<String>,
    /// What would settle it: the arguments of a measurement on the machine itself.
    experiment: Option<Experiment>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    command: String,
    /// Each from a line that matches the first expression up to the next line that matches the second, without that one.
    show: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Experiment {
    command: String,
    /// The catalogue's system that the test measures instead: a simulated machine.
    on: String,
    settles: String,
}

/// The chosen lines of an output.
fn excerpt(run: &Run, text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut shown = String::new();
    let mut at = 0;
    for (from, to) in &run.show {
        let [from, to] = [from, to].map(|pattern| Regex::new(pattern).unwrap());
        let start = (at..lines.len()).find(|line| from.is_match(lines[*line]));
        let start = start.unwrap_or_else(|| panic!("{}: no line '{from}' after line {at} of\n{text}", run.command));
        if start > at {
            shown += "…\n";
        }
        at = (start + 1..lines.len()).find(|line| to.is_match(lines[*line])).unwrap_or(lines.len());
        for line in &lines[start..at] {
            shown += &format!("{}\n", line.trim_end());
        }
    }
    if at < lines.len() {
        shown += "…\n";
    }
    shown
}

/// A number as printed, or a quotient of several.
fn found(pattern: &str, flat: &str) -> Option<String> {
    let groups = Regex::new(pattern).unwrap().captures(flat)?;
    if groups.len() == 2 { Some(groups[1].to_owned()) } else { Some(format!("{:.2}", items::number(pattern, flat)?)) }
}

fn section(question: &Question, outputs: &Outputs) -> String {
    let mut section = format!("\n## {}\n\n*{}.* {}\n", question.heading, question.asked, question.text);
    let mut flat = String::new();
    for run in &question.run {
        let output = outputs.get(&run.command).unwrap();
        let shown = excerpt(run, &output.text);
        section += &format!("\n```console\n$ peerlane {}\n{shown}```\n", run.command.replace(" && ", "\n$ peerlane "));
        flat += &output.flat;
        flat += " ";
    }
    let mut answer = question.answer.clone();
    for (place, pattern) in question.numbers.iter().enumerate() {
        let found = found(pattern, &flat);
        let found = found.unwrap_or_else(|| panic!("{}: no number '{pattern}' in {flat}", question.heading));
        answer = answer.replace(&format!("{{{place}}}"), &found);
    }
    assert!(!answer.contains('{'), "{}: {answer}", question.heading);
    section += &format!("\n{answer}\n");
    if let Some(experiment) = &question.experiment {
        section += &format!("\n**Experiment**, on the machine itself:\n\n    peerlane {}\n", experiment.command);
        section += &format!("\n{}\n", experiment.settles);
    }
    section
}

/// The program accepts the experiment, on a simulated machine of the same kind.
fn is_accepted(experiment: &Experiment) {
    let mut words = words(&experiment.command);
    assert_eq!(words[0], "measure");
    words.insert(1, experiment.on.clone());
    let record = words.iter().position(|word| word == "-o").expect("it records a run");
    words.drain(record..=record + 1);
    let output = peerlane(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(status(&output), 0, "{words:?}: {}", err(&output));
}

pub(super) fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/documents/questions.toml");
    let Questions { question, open } = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let runs = question.iter().chain(&open).flat_map(|question| &question.run);
    let outputs = Outputs::of(runs.map(|run| run.command.as_str()));
    open.iter().map(|question| question.experiment.as_ref().expect(&question.heading)).for_each(is_accepted);
    let sections = |questions: &[Question]| questions.iter().map(|one| section(one, &outputs)).collect::<String>();
    let stays = "\n# What stays open\n";
    format!("{HEAD}{}{stays}{}", sections(&question), sections(&open))
}
