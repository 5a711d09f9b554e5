//! The page of a fleet: its document, which is compact, since it may be of thousands of machines. The record of many nodes that
//! measured each other has the same page, with nodes for machines and partners for tests ([`nodes`]).
//!
//! `schema/fleet-page-1.json` describes it; the page's TypeScript types are generated from that. Machines and tests are
//! named once and referred to by index, and scores are per mille.

mod groups;
mod nodes;
#[cfg(test)]
mod tests;

pub use nodes::nodes_page;

use std::collections::HashMap;

use crate::JsonSchema;
use peerlane::action::Action;
use peerlane::check::Severity;
use peerlane::fleet::{Fleet, Kind, Member, Outlier, Shared, Unread};
use peerlane::matrix::Unit;
use peerlane::subject::join;
use serde::Serialize;

use super::page::fill;
use crate::formats::markdown;
use crate::render::text::count;
use crate::report::Report;

/// The template, built by `web/`.
pub(super) const TEMPLATE: &str = include_str!("../../../page/fleet.html");

/// The name of the format of [`FleetPage`].
const SCHEMA: &str = "peerlane/fleet-page/1";

/// Bytes of text that outliers may take; the worst come first. Beyond a few thousand nobody reads on.
const MOST_TEXT: usize = 1_500_000;

/// Unread files that are listed.
const MOST_UNREAD: usize = 500;

/// Outliers that are listed where scripts do not run.
const MOST_PLAIN: usize = 200;

/// The page of a fleet.
pub fn fleet_page(fleet: &Fleet) -> Result<String, serde_json::Error> {
    let fleet = &without_folder(fleet);
    let (machines, outliers) = (count(fleet.machines.len(), "machine"), count(fleet.outliers.len(), "outlier"));
    let title = format!("{machines}, {outliers} · peerlane fleet");
    let mut report = Report::of_fleet(fleet);
    report.items.truncate(MOST_PLAIN);
    fill(TEMPLATE, &title, &FleetPage::of(fleet), &markdown(&report))
}

/// The fleet with records named from the folder that all of them share. A page names no folders: it goes to people to whom
/// these mean nothing, and they may name a user.
fn without_folder(fleet: &Fleet) -> Fleet {
    let mut fleet = fleet.clone();
    let Some(folder) = folder(&fleet) else { return fleet };
    let short = |text: &mut String| *text = text.replace(&folder, "");
    fleet.outliers.iter_mut().chain(&mut fleet.network).for_each(|outlier| short(&mut outlier.file));
    fleet.notes.iter_mut().for_each(short);
    for of in &mut fleet.unread {
        short(&mut of.name);
        short(&mut of.why);
    }
    fleet
}

/// The folder that all records named by an absolute path share, with a slash at its end.
fn folder(fleet: &Fleet) -> Option<String> {
    let records = fleet.outliers.iter().chain(&fleet.network).map(|outlier| &outlier.file);
    let mut paths = records.chain(fleet.unread.iter().map(|of| &of.name)).filter(|path| path.starts_with('/'));
    let parent = |path: &str| path.rfind('/').map_or(String::new(), |end| path[..=end].to_owned());
    let mut shared = parent(paths.next()?);
    for path in paths {
        while !path.starts_with(&shared) {
            shared = parent(shared.trim_end_matches('/'));
        }
    }
    (shared.len() > 1).then_some(shared)
}

/// The content of a fleet's page, or of the page of nodes that measured each other.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct FleetPage {
    /// Name of this format.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// Version of peerlane that wrote it.
    peerlane: &'static str,
    /// What only nodes that measured each other have: then machines are nodes, tests their partners, outliers findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<nodes::NodesView>,
    /// Records that were read.
    records: usize,
    /// Kinds of machines.
    kinds: Vec<KindView>,
    /// What was measured: the columns of the heat map.
    tests: Vec<TestView>,
    /// The machines.
    machines: Vec<MemberView>,
    /// The outliers, the worst first.
    outliers: Vec<OutlierView>,
    /// Outliers beyond the limit of the page, which are not listed.
    left_out: usize,
    /// Outliers that the site's rules waive.
    waived: usize,
    /// How records were matched to machines where that was not plain.
    notes: Vec<String>,
    /// Files that could not be read.
    unread: Vec<Unread>,
    /// Files that could not be read, and are not listed.
    unread_left_out: usize,
}

/// Machines with the same GPUs, NICs and paths.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct KindView {
    /// What they are.
    name: String,
    /// Whether there are enough to compare them with each other.
    compared: bool,
    /// What the rules find on nearly all of them.
    shared: Vec<Shared>,
}

/// A test: a column of the heat map.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct TestView {
    /// What is measured: `write, copy engine, NVLink`.
    name: String,
    /// Its family, such as `pairs`.
    family: String,
    /// Between nodes: index of the kind of value.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<usize>,
    /// Between nodes: which way data goes; absent of a loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    way: Option<nodes::Way>,
    /// Between nodes: the node that all of this column is measured with; where it is absent, machines have their own partners.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<usize>,
}

/// A machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct MemberView {
    /// Its name.
    name: String,
    /// Index of its kind.
    kind: usize,
    /// Its records.
    records: usize,
    /// Start of the first record, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// Start of the last record, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// The most urgent action that its outliers ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<Action>,
    /// Per test: its worst value over the median of its kind in per mille, where more is better; `null` if not measured.
    /// Between nodes it is over what is expected, where that is known, and 0 of what failed.
    scores: Vec<Option<u32>>,
    /// Between nodes: what else is known of it, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    facts: Vec<String>,
    /// Between nodes: the lowest of the medians of its kinds of values, each way, in per mille.
    #[serde(skip_serializing_if = "Option::is_none")]
    usual: Option<u32>,
    /// Between nodes: per test the index of the node that it was measured with, where columns have none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    partners: Vec<Option<usize>>,
}

/// An outlier.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct OutlierView {
    /// Index of its machine; absent of a switch between nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<usize>,
    /// Of a path between two nodes the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<usize>,
    /// The parts that it names: `GPU3`, `GPU0-GPU2`.
    part: String,
    /// The rule that found it.
    rule: String,
    /// Its severity.
    severity: Severity,
    /// What to do.
    action: Action,
    /// What it is, in one line.
    summary: String,
    /// Why it is an outlier, in one sentence.
    why: String,
    /// What to do, in words.
    fix: String,
    /// Unit of the values below.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<Unit>,
    /// The measured value.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<f64>,
    /// The value that the model expects.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<f64>,
    /// The usual value of other machines of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    peers: Option<f64>,
    /// The value of the machine before.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<f64>,
    /// Records of this machine that show it.
    repeats: usize,
    /// Index of its test.
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<usize>,
    /// The record.
    file: String,
}

impl FleetPage {
    fn of(fleet: &Fleet) -> FleetPage {
        let at: HashMap<&str, usize> = fleet.machines.iter().enumerate().map(|(at, m)| (m.name.as_str(), at)).collect();
        let mut room = MOST_TEXT;
        let of_machines = fleet.outliers.iter().filter(|outlier| at.contains_key(outlier.machine.as_str()));
        let view = |outlier: &Outlier| OutlierView::of(outlier, at.get(outlier.machine.as_str()).copied());
        let between = fleet.network.iter().map(|found| OutlierView::of(found, None));
        let outliers: Vec<OutlierView> = of_machines
            .map(view)
            .chain(between)
            .take_while(|outlier| match room.checked_sub(outlier.size()) {
                Some(left) => {
                    room = left;
                    true
                }
                None => false,
            })
            .collect();
        FleetPage {
            schema: SCHEMA,
            peerlane: env!("CARGO_PKG_VERSION"),
            nodes: None,
            records: fleet.records,
            kinds: kinds(&fleet.kinds),
            tests: fleet.tests.iter().map(|test| TestView::of(&test.name, &test.family)).collect(),
            machines: fleet.machines.iter().map(MemberView::of).collect(),
            left_out: (fleet.outliers.len() + fleet.network.len()).saturating_sub(outliers.len()),
            outliers,
            waived: fleet.waived,
            notes: fleet.notes.clone(),
            unread: fleet.unread.iter().take(MOST_UNREAD).cloned().collect(),
            unread_left_out: fleet.unread.len().saturating_sub(MOST_UNREAD),
        }
    }
}

/// Kinds with names that tell them apart: where two have the same GPUs, each has a machine as its example.
fn kinds(all: &[Kind]) -> Vec<KindView> {
    let name = |kind: &Kind| match kind.products.as_slice() {
        [] => count(kind.gpus, "GPU"),
        products => format!("{} × {}", kind.gpus, products.join(", ")),
    };
    let mut times: HashMap<String, usize> = HashMap::new();
    all.iter().for_each(|kind| *times.entry(name(kind)).or_default() += 1);
    let view = |kind: &Kind| {
        let name = name(kind);
        let alone = times.get(&name) == Some(&1);
        KindView {
            name: if alone { name } else { format!("{name}, like {}", kind.example) },
            compared: kind.compared,
            shared: kind.shared.clone(),
        }
    };
    all.iter().map(view).collect()
}

impl TestView {
    fn of(name: &str, family: &str) -> TestView {
        TestView { name: name.to_owned(), family: family.to_owned(), values: None, way: None, node: None }
    }
}

impl MemberView {
    fn of(member: &Member) -> MemberView {
        let Member { name, kind, records, first, last, action, scores, .. } = member;
        MemberView {
            name: name.clone(),
            kind: *kind,
            records: *records,
            first: first.clone(),
            last: last.clone(),
            action: *action,
            scores: scores.iter().map(|score| score.and_then(per_mille)).collect(),
            facts: Vec::new(),
            usual: None,
            partners: Vec::new(),
        }
    }
}

/// A ratio per mille; none for what is no number.
fn per_mille(ratio: f32) -> Option<u32> {
    // more than a hundred times the median is shown as that
    ratio.is_finite().then(|| (ratio.clamp(0.0, 100.0) * 1000.0).round() as u32)
}

impl OutlierView {
    fn of(outlier: &Outlier, machine: Option<usize>) -> OutlierView {
        OutlierView {
            machine,
            other: None,
            part: join(&outlier.finding.subjects, ", "),
            rule: outlier.finding.rule.clone(),
            severity: outlier.finding.severity,
            action: outlier.action,
            summary: outlier.finding.summary.clone(),
            why: outlier.why.clone(),
            fix: outlier.finding.fix.clone(),
            unit: outlier.worst.map(|worst| worst.unit),
            measured: outlier.worst.map(|worst| worst.measured),
            expected: outlier.worst.and_then(|worst| worst.expected),
            peers: outlier.worst.and_then(|worst| worst.peers),
            before: outlier.worst.and_then(|worst| worst.before),
            repeats: outlier.repeats,
            test: outlier.test,
            file: outlier.file.clone(),
        }
    }

    /// Its bytes in the page, about.
    fn size(&self) -> usize {
        let texts = [&self.part, &self.rule, &self.summary, &self.why, &self.fix, &self.file];
        texts.iter().map(|text| text.len()).sum::<usize>() + 260
    }
}
