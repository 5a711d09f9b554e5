//! The record of a measurement between nodes: `peerlane/nodes/2`. Of `peerlane/nodes/1` only the names of memory differ.
//!
//! While it grows it is JSON lines, first the record without cells and then an [`Event`] a line, as that of a
//! [`Run`](crate::run::Run), so that nothing measured is lost where the writer dies.

use std::borrow::Cow;
use std::collections::HashSet;

use peerlane_machine::schema::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Compared, Lost, Memory, Node, NodePlan, PortErrors, Samples, Step};
use crate::measure::{Failure, Verdict};
use crate::run::{
    Estimate, Flag, FlagKind, Missing, RunError, check, digits, is_settled, list, opened_line, sealed, sealed_line,
};
use peerlane_machine::names::number_after;
use peerlane_machine::one_line::lines_if_any;
use peerlane_machine::stats::Median;
use peerlane_machine::units::Seconds;
use peerlane_read::evidence::from_json;
use peerlane_read::input_file::Kind;

/// Names the format of [`NodesRun`].
pub const SCHEMA: &str = "peerlane/nodes/2";

/// The one before it, which is read, too.
const EARLIER: &str = "peerlane/nodes/1";

/// The longest record that is read: 1,000 nodes with eight NICs each have some 100 MB.
pub const MAX_NODES_BYTES: usize = Kind::NodesRun.limit() as usize;

/// What came of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// What was measured.
    #[serde(flatten)]
    pub step: Step,
    /// The round in which it ran, from 0; cells of one round ran at the same time.
    pub round: usize,
    /// Whether it was measured to tell a suspect from its partners.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Bytes a second, or of a latency seconds; absent where a flag states why.
    #[serde(default, skip_serializing_if = "Option::is_none", flatten)]
    pub estimate: Option<Estimate>,
    /// What to know of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    /// The samples, in the order in which they were taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "digits::all")]
    pub samples: Vec<f64>,
}

impl Cell {
    /// The cell of an answer.
    pub(super) fn of(step: Step, round: usize, again: bool, answer: Result<Samples, Failure>) -> Self {
        let mut cell = Cell { step, round, again, estimate: None, flags: Vec::new(), samples: Vec::new() };
        let samples = match answer {
            Ok(samples) => samples,
            Err(failure) => {
                cell.flags.push(Flag::new(failure.kind, failure.message));
                return cell;
            }
        };
        let possible = samples.values.iter().all(|v| v.is_finite() && *v > 0.0);
        match Median::of(&samples.values).filter(|_| possible) {
            Some(Median { value, low, high, .. }) => cell.estimate = Some(Estimate { value, low, high }),
            None => {
                let why = if samples.values.is_empty() {
                    "no sample was taken".to_owned()
                } else {
                    format!("samples are {:?}, which no time or rate can be", samples.values)
                };
                cell.flags.push(Flag::new(FlagKind::Implausible, why));
            }
        }
        match samples.verdict {
            Verdict::Intact => {}
            Verdict::Corrupt(what) => cell.flags.push(Flag::new(FlagKind::Corrupt, what)),
            Verdict::Unverified(why) => cell.flags.push(Flag::new(FlagKind::Unverified, why)),
        }
        cell.samples = samples.values;
        cell
    }

    /// Its value, unless a flag makes it worthless.
    pub fn value(&self) -> Option<f64> {
        let usable =
            |e: &Estimate| e.is_possible() && e.value > 0.0 && !self.flags.iter().any(|flag| flag.kind.voids());
        self.estimate.filter(usable).map(|e| e.value)
    }

    /// Its value to compare, with the names of switches on its path where they are known; none of an all-reduce, which is
    /// of many paths, and none of what all NICs did at once.
    pub fn compared(&self, expected: Option<f64>, through: Vec<String>) -> Option<Compared<'_>> {
        if self.step.is_among_many() || self.step.is_of_load() {
            return None;
        }
        let (value, Estimate { low, high, .. }) = (self.value()?, self.estimate?);
        let width = (high - low) / 2.0 / value;
        Some(Compared { step: &self.step, value, expected, beside: None, width, through })
    }

    /// The flag of a kind, if it has one.
    pub fn flag(&self, kind: FlagKind) -> Option<&Flag> {
        self.flags.iter().find(|flag| flag.kind == kind)
    }
}

/// What happens while a plan is carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A round begins: its number from 0, and of how many, as far as is known.
    Round(usize, usize),
    /// Steps are answered.
    Cells(Vec<Cell>),
    /// Nodes are lost: all so far.
    Lost(Vec<Lost>),
    /// What ports counted of errors.
    Ports(Vec<PortErrors>),
    /// The plan is carried out, or the time for it is over: time since it began, and whether all steps are answered.
    Finished(Seconds, bool),
}

/// A measurement between nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodesRun {
    /// Names this format.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Of all other bytes of the file, which it was compared with before it was read; absent while it grows.
    #[serde(default, skip_serializing)]
    #[schemars(with = "Option<String>")]
    pub checksum: IgnoredAny,
    /// Version of peerlane that wrote it.
    pub peerlane: String,
    /// Its name.
    pub name: String,
    /// Who answered: `nodes`, or the cluster that was simulated, as given.
    pub target: String,
    /// The cluster file of a simulated cluster.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lines_if_any")]
    pub cluster: Option<String>,
    /// The system file of its nodes, where the catalogue has none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lines_if_any")]
    pub system: Option<String>,
    /// When it began, in seconds since 1970 (UTC); 0 of a simulated cluster.
    pub began: u64,
    /// What started the processes: `Slurm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher: Option<String>,
    /// The nodes, in the order that steps number them by.
    pub nodes: Vec<Node>,
    /// What was requested.
    pub plan: NodePlan,
    /// Time from the first round to the last.
    pub wall: Seconds,
    /// False where steps of the plan have no answer yet.
    pub complete: bool,
    /// Nodes that no longer answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
    /// What ports counted of errors meanwhile, by node; a node without such counters is absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortErrors>,
    /// The answers, in the order in which they came.
    pub cells: Vec<Cell>,
}

/// Reads [`Memory`] of this format or of [`EARLIER`], where it was a name and a GPU's began with `GPU`.
pub(super) fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<Memory, D::Error> {
    /// A name of the present format comes before one of the earlier one.
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "memory is \"host\", \"devices\", {\"numa\": 0} or {\"device\": \"GPU0\"}")]
    enum Written {
        Now(Memory),
        Earlier(String),
    }
    Ok(match Written::deserialize(from)? {
        Written::Now(memory) => memory,
        Written::Earlier(name) if name == "GPUs" => Memory::Devices,
        Written::Earlier(name) if name.starts_with("GPU") => Memory::Device(name),
        Written::Earlier(name) => Memory::of_host(number_after(&name, "host")),
    })
}

/// Whether a text can only be meant as the record of a measurement between nodes.
pub fn looks_like_nodes_run(text: &str) -> bool {
    let head = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    let cut = head.char_indices().nth(400).map_or(head.len(), |(at, _)| at);
    head.starts_with('{') && head[..cut].contains("\"schema\"") && head[..cut].contains("\"peerlane/nodes/")
}

impl NodesRun {
    /// One without an answer.
    pub fn new(name: &str, target: &str, nodes: Vec<Node>, plan: NodePlan) -> Self {
        NodesRun {
            checksum: IgnoredAny,
            schema: SCHEMA.to_owned(),
            peerlane: env!("CARGO_PKG_VERSION").to_owned(),
            name: name.to_owned(),
            target: target.to_owned(),
            cluster: None,
            system: None,
            began: 0,
            launcher: None,
            nodes,
            plan,
            wall: Seconds::new(0.0),
            complete: false,
            lost: Vec::new(),
            ports: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// The cells that need not be measured again where the run is resumed: those with a value, or whose path does not exist.
    pub fn kept(&self) -> Vec<Cell> {
        let kept = |cell: &&Cell| is_settled(cell.value(), &cell.flags);
        self.cells.iter().filter(kept).cloned().collect()
    }

    /// The steps of its plan without a value that they should have.
    pub fn missing(&self) -> Option<Missing> {
        let cells = self.cells.iter().filter(|cell| !cell.again && is_settled(cell.value(), &cell.flags));
        let settled: HashSet<&Step> = cells.map(|cell| &cell.step).collect();
        let planned: Vec<Step> = self.plan.rounds_of(&self.nodes).into_iter().flatten().collect();
        Missing::of(planned.iter().filter(|step| !settled.contains(step)).count(), planned.len())
    }

    /// Takes in what happened. Of several answers to one step of one round the later one counts.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Round(..) => {}
            Event::Cells(cells) => self.cells.extend(cells),
            Event::Lost(lost) => self.lost = lost,
            Event::Ports(all) => {
                for of in all {
                    match self.ports.iter_mut().find(|own| own.node == of.node) {
                        Some(own) => own.add(&of.errors),
                        None => self.ports.push(of),
                    }
                }
            }
            Event::Finished(wall, complete) => (self.wall, self.complete) = (wall, complete),
        }
    }

    /// Reads a record, whole or growing; with how many lines were cut or unreadable.
    ///
    /// # Errors
    /// Where the text is no such record, or a step names a node that the record lacks.
    pub fn read(text: &str) -> Result<(NodesRun, usize), RunError> {
        if text.len() > MAX_NODES_BYTES {
            return Err(RunError::TooLarge);
        }
        let text = text.trim_start_matches(['\u{feff}', '\n', '\r', ' ', '\t']);
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let head = opened_line(first).unwrap_or(Cow::Borrowed(first));
        let (mut run, unreadable) = match from_json::<NodesRun>(&head) {
            Ok(mut run) => {
                let mut unreadable = 0;
                for line in lines.filter(|line| !line.trim().is_empty()) {
                    match opened_line(line).map(|line| from_json(&line)) {
                        Ok(Ok(event)) => run.apply(event),
                        Ok(Err(_)) | Err(_) => unreadable += 1,
                    }
                }
                (run, unreadable)
            }
            Err(_) => (from_json(text)?, 0),
        };
        if ![SCHEMA, EARLIER].contains(&&*run.schema) {
            return Err(RunError::Schema(run.schema));
        }
        // a growing record has one a line
        if head == first {
            check(text)?;
        }
        SCHEMA.clone_into(&mut run.schema);
        let nodes = run.nodes.len();
        let unknown = run.cells.iter().flat_map(|c| c.step.nodes()).find(|node| *node >= nodes);
        let named = run.lost.iter().map(|lost| lost.node).chain(run.ports.iter().map(|of| of.node));
        if let Some(node) = unknown.or(named.into_iter().find(|node| *node >= nodes)) {
            return Err(RunError::Machine(format!("there is a value of node {node}, and there are {nodes} nodes")));
        }
        let mut known = HashSet::new();
        let is_latest = run.cells.iter().rev().map(|cell| known.insert((&cell.step, cell.again)));
        let mut is_latest = is_latest.collect::<Vec<bool>>().into_iter().rev();
        run.cells.retain(|_| is_latest.next() == Some(true));
        Ok((run, unreadable))
    }

    /// The first line of a growing record, with its end.
    ///
    /// # Errors
    /// Where JSON has no form for a value.
    pub fn header_line(&self) -> Result<String, RunError> {
        let head = NodesRun { complete: false, cells: Vec::new(), ..self.clone() };
        Ok(sealed_line(&serde_json::to_string(&head)?))
    }

    /// The whole record: a field a line, nodes and cells each on its own line.
    ///
    /// # Errors
    /// Where JSON has no form for a value.
    pub fn to_json(&self) -> Result<String, RunError> {
        let head = NodesRun { nodes: Vec::new(), cells: Vec::new(), ..self.clone() };
        let serde_json::Value::Object(fields) = serde_json::to_value(&head)? else {
            return Err(RunError::Machine("a record is an object".to_owned()));
        };
        let mut text = String::from("{\n");
        // the schema comes first, since it tells readers what follows
        text.push_str(&format!("\"schema\":{}", serde_json::to_string(&self.schema)?));
        for (name, value) in fields.iter().filter(|(name, _)| !["schema", "nodes", "cells"].contains(&name.as_str())) {
            text.push_str(&format!(",\n\"{name}\":{value}"));
        }
        text.push_str(",\n");
        list(&mut text, "nodes", &self.nodes)?;
        text.push_str(",\n");
        list(&mut text, "cells", &self.cells)?;
        Ok(sealed(&(text + "\n}\n")))
    }
}
