//! Options that apply only to some TARGETs, formats or workloads: given for another, they are refused, not ignored.

use std::ffi::OsString;

use clap::ArgMatches;
use clap::parser::ValueSource;
use peerlane::simulate::workload::Workload;

use super::simulate::{is_plan, is_trace};
use crate::live;

/// Options that are about a measurement of this machine.
const OF_THIS_MACHINE: [(&str, &[&str]); 5] = [
    ("check", &["passive", "force"]),
    ("report", &["passive", "force"]),
    ("measure", &["force"]),
    ("infer", &["force"]),
    ("tune", &["force"]),
];

/// Commands that without a TARGET show an example where there is no GPU.
const WITH_EXAMPLE: [&str; 2] = ["check", "report"];

/// Commands that always show all that they have.
const SHOW_ALL: [&str; 4] = ["report", "gather", "completions", "man"];

/// Formats to which `-v` adds something.
const IN_DETAIL: [&str; 3] = ["text", "tree", "matrix"];

/// The command, and why an option that was given to it cannot apply.
pub(super) fn refused(matches: &ArgMatches) -> Option<(&str, String)> {
    let (command, given) = matches.subcommand()?;
    let why = of_this_machine(command, given)
        .or_else(|| systems(command, given))
        .or_else(|| between_nodes(command, given))
        .or_else(|| verbose(command, given))
        .or_else(|| sizes(given))?;
    Some((command, why))
}

/// Options that are about measuring this machine, with another one.
fn of_this_machine(command: &str, given: &ArgMatches) -> Option<String> {
    let (_, options) = OF_THIS_MACHINE.into_iter().find(|(name, _)| *name == command)?;
    let option = options.iter().find(|id| on_the_command_line(given, id))?;
    let words = ["targets", "target"].into_iter().find_map(|id| given.try_get_many::<OsString>(id).ok().flatten());
    let targets: Vec<&OsString> = words.into_iter().flatten().collect();
    match targets.as_slice() {
        [] if WITH_EXAMPLE.contains(&command) && !live::has_nvidia_gpu() => Some(format!(
            "--{option} is about measuring this machine, and it has no NVIDIA GPU: leave it out to see an example"
        )),
        [] => None,
        targets if targets.iter().any(|target| *target == "live") => {
            let changed = *option == "force" && on_the_command_line(given, "edits");
            changed.then(|| {
                "--force is about measuring this machine, and a design changed by --what-if cannot be measured: leave \
                 one of them out"
                    .to_owned()
            })
        }
        [first, ..] => Some(format!(
            "--{option} is about measuring this machine, and '{}' is not 'live': leave one of them out",
            first.to_string_lossy()
        )),
    }
}

/// `-v` adds to text. JSON and other formats for programs always have everything.
fn verbose(command: &str, given: &ArgMatches) -> Option<String> {
    if !is_set(given, "verbose") {
        return None;
    }
    if command == "tune" && !is_set(given, "prove") {
        return Some("-v lists, with --prove, the suggestions that did not help; without it all are listed".to_owned());
    }
    if SHOW_ALL.contains(&command) {
        return Some(format!("'{command}' always shows all that it has: leave -v out"));
    }
    let instead = match given.try_get_raw("format").ok().flatten().and_then(|mut words| words.next()) {
        Some(format) if !IN_DETAIL.iter().any(|name| format == *name) => {
            format!("--format {}", format.to_string_lossy())
        }
        _ => ["json", "page"].into_iter().find(|id| is_set(given, id)).map(|id| format!("--{id}"))?,
    };
    Some(format!("-v adds detail to text, and {instead} always writes the same: leave one of them out"))
}

/// What only one action of `systems` has.
fn systems(command: &str, given: &ArgMatches) -> Option<String> {
    if command != "systems" {
        return None;
    }
    let action = given.subcommand_name().unwrap_or("list");
    if action == "parts" && is_set(given, "json") {
        return Some(
            "'systems parts' is a list to read; 'systems show NAME --json' has the parts of a machine".to_owned(),
        );
    }
    let more = action != "show" && is_set(given, "verbose");
    more.then(|| format!("-v is for 'systems show NAME'; 'systems {action}' always lists all: leave it out"))
}

/// Options of `measure` that say how processes find each other. `requires` does not refuse them: a TARGET excludes
/// `--nodes`.
fn between_nodes(command: &str, given: &ArgMatches) -> Option<String> {
    let options =
        ["secret_file", "strict_secrets", "head", "rendezvous", "rank", "size", "every_rank", "wait", "silence"];
    let option = options.into_iter().find(|id| command == "measure" && on_the_command_line(given, id))?;
    let why = format!("--{} is for --nodes, which measures between real nodes: leave it out", option.replace('_', "-"));
    (!is_set(given, "nodes")).then_some(why)
}

/// `--sizes` with workloads that have sizes of their own.
fn sizes(given: &ArgMatches) -> Option<String> {
    let words: Vec<&String> =
        ["workload", "workloads"].into_iter().find_map(|id| given.try_get_many::<String>(id).ok().flatten())?.collect();
    let sized =
        |word: &&String| is_plan(word) || !is_trace(word) && word.parse::<Workload>().map_or(true, |w| w.is_sized());
    let first = words.first().filter(|_| !words.iter().any(sized))?;
    on_the_command_line(given, "sizes").then(|| {
        format!("--sizes is for workloads that are done at several sizes, and {first} has its own: leave it out")
    })
}

/// Whether an option was given.
fn on_the_command_line(given: &ArgMatches, id: &str) -> bool {
    given.try_contains_id(id).is_ok() && given.value_source(id) == Some(ValueSource::CommandLine)
}

/// Whether a switch is on.
fn is_set(given: &ArgMatches, id: &str) -> bool {
    given.try_get_one::<bool>(id).ok().flatten() == Some(&true)
}
