//! The inputs that a page has given, and what they describe.

use std::cell::RefCell;
use std::ffi::OsStr;

use peerlane::builder::is_parts_list;
use peerlane::catalogue;
use peerlane::cluster::cluster_text;
use peerlane::evidence::Files;
use peerlane::nodes::NodesRun;
use peerlane::run::Run;
use peerlane::target::{EXAMPLE, OpenError, Opened, Opener, Source, unknown};
use peerlane_report::html::MachineReport;
use serde::Serialize;

use crate::protocol::Refusal;

/// An input, read.
type Input = (String, Result<Source, OpenError>);

/// Inputs that wait to be opened, and what the last ones were.
#[derive(Default)]
pub(crate) struct Session {
    /// Those of each target that was given.
    waiting: Vec<Vec<Input>>,
    subject: Option<Subject>,
    /// What the page says of the machines before any edit: they are shown beside every change.
    pub(crate) before: RefCell<Vec<MachineReport>>,
}

/// What the inputs describe.
pub(crate) enum Subject {
    /// Machines, of all inputs together or of each apart, each with the name of its first input.
    Machines(Vec<(String, Opened)>),
    /// A record between nodes, and the name of its file.
    Nodes(Box<NodesRun>, String),
    /// Records of many machines, by the names of their files.
    Fleet(Vec<(String, Record)>),
}

/// A record of a fleet.
pub(crate) enum Record {
    /// Of one machine.
    Machine(Box<Run>),
    /// Between nodes.
    Nodes(Box<NodesRun>),
}

/// The fewest records that are a fleet, as for `check`.
const FLEET: usize = 3;

/// What a page is told of the inputs.
#[derive(Serialize)]
struct Summary<'a> {
    /// `machines`; `nodes` for a record between nodes; `fleet` for records of many machines.
    kind: &'static str,
    machines: Vec<&'a str>,
    notices: Vec<String>,
    incomplete: bool,
}

impl Session {
    /// Takes a system of the catalogue.
    pub(crate) fn read_known(&mut self, name: &str) -> Result<String, Refusal> {
        let is_known = name == EXAMPLE || catalogue::system_text(name).is_some() || cluster_text(name).is_some();
        if !is_known && !is_parts_list(name) {
            return Err(unknown(name, "no such system"));
        }
        let source = opener(|opener| opener.read(OsStr::new(name)));
        self.take(vec![(name.to_owned(), source)])
    }

    /// Takes a file.
    pub(crate) fn read_file(&mut self, name: &str, bytes: &[u8]) -> Result<String, Refusal> {
        let source = opener(|opener| opener.read_bytes(name, bytes));
        self.take(vec![(name.to_owned(), source)])
    }

    /// Takes a folder.
    pub(crate) fn read_folder(&mut self, name: &str, files: &Files) -> Result<String, Refusal> {
        let sources = opener(|opener| opener.read_folder(name, files));
        self.take(sources)
    }

    fn take(&mut self, inputs: Vec<Input>) -> Result<String, Refusal> {
        self.waiting.push(inputs);
        Ok("null".to_owned())
    }

    /// Makes machines of the inputs that wait.
    pub(crate) fn open(&mut self, apart: bool) -> Result<String, Refusal> {
        self.subject = None;
        self.before.take();
        let subject = joined(std::mem::take(&mut self.waiting), apart).map_err(|e| e.to_string())?;
        let summary = summary(&subject);
        let told = serde_json::to_string(&summary).map_err(|e| e.to_string());
        self.subject = Some(subject);
        told
    }

    pub(crate) fn subject(&self) -> Result<&Subject, Refusal> {
        self.subject.as_ref().ok_or_else(|| "nothing is open".to_owned())
    }

    pub(crate) fn machines(&self) -> Result<&[(String, Opened)], Refusal> {
        match self.subject()? {
            Subject::Machines(opened) => Ok(opened),
            Subject::Nodes(..) => Err("this is a record between nodes, and not a machine".to_owned()),
            Subject::Fleet(..) => Err("these are records of a fleet, and not one machine".to_owned()),
        }
    }
}

/// A page has no machine of its own.
fn opener<T>(with: impl FnOnce(&Opener) -> T) -> T {
    with(&Opener::new(&|| Err("a page cannot look at the machine that it runs on".to_owned())))
}

fn joined(mut waiting: Vec<Vec<Input>>, apart: bool) -> Result<Subject, OpenError> {
    if let [only] = waiting.as_mut_slice()
        && let [(_, Ok(Source::Nodes(..)))] = only.as_slice()
        && let Some((name, Ok(Source::Nodes(run, _)))) = only.pop()
    {
        return Ok(Subject::Nodes(run, name));
    }
    let is_record = |(_, source): &Input| matches!(source, Ok(Source::Run(_) | Source::Nodes(..)));
    let records = waiting.iter().flatten().filter(|input| is_record(input)).count();
    if !apart && records >= FLEET && (waiting.len() == 1 || waiting.iter().flatten().all(is_record)) {
        let record = |(name, source): Input| match source {
            Ok(Source::Run(partial)) => Some((name, Record::Machine(Box::new(partial.run)))),
            Ok(Source::Nodes(run, _)) => Some((name, Record::Nodes(run))),
            _ => None,
        };
        let mut found: Vec<(String, Record)> = waiting.into_iter().flatten().filter_map(record).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        return Ok(Subject::Fleet(found));
    }
    let first = |inputs: &[Input]| inputs.first().map(|(name, _)| name.clone()).unwrap_or_default();
    let join = |inputs: Vec<Input>| {
        let name = first(&inputs);
        opener(|opener| opener.join(inputs)).map(|opened| (name, opened))
    };
    let groups = if apart { waiting } else { vec![waiting.into_iter().flatten().collect()] };
    Ok(Subject::Machines(groups.into_iter().map(join).collect::<Result<_, _>>()?))
}

fn summary(subject: &Subject) -> Summary<'_> {
    match subject {
        Subject::Nodes(run, _) => {
            Summary { kind: "nodes", machines: vec![&run.name], notices: Vec::new(), incomplete: !run.complete }
        }
        Subject::Fleet(runs) => Summary {
            kind: "fleet",
            machines: runs.iter().map(|(name, _)| name.as_str()).collect(),
            notices: Vec::new(),
            incomplete: false,
        },
        Subject::Machines(all) => Summary {
            kind: "machines",
            machines: all.iter().flat_map(|(_, opened)| opened.machines().map(|m| m.name.as_str())).collect(),
            notices: all.iter().flat_map(|(_, opened)| opened.notices.clone()).collect(),
            incomplete: all.iter().any(|(_, opened)| opened.incomplete),
        },
    }
}
