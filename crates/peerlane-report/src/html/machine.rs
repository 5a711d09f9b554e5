//! From a machine, its findings and its run to what a report shows of it.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use peerlane::assumptions::Assumptions;
use peerlane::compare::ComparisonDocument;
use peerlane::comparison::Comparison;
use peerlane::fabric::{Link, Node, PathClass};
use peerlane::machine::{Machine, MachineKind};
use peerlane::model::{Assume, Model};
use peerlane::one_line::quoted;
use peerlane::run::{Cell, Run};

use super::document::{
    ClassView, Labelled, LinkView, MachineReport, NodeView, ReportDocument, RunRecord, SCHEMA, WaivedView,
};
use super::tables::{MOST_DEVICES, Tables, short};
use super::{charts, comparison as side_by_side, facts, findings, matrices};
use crate::formats;
use crate::render::comparison::{only_measured, sections};
use crate::render::drawing::{Drawing, rates};
use crate::render::{label, plain, tree};
use crate::report::{Report, Subject};

/// The document of some machines; other subjects have pages of their own.
pub fn document(reports: &[Report]) -> ReportDocument {
    let machines = reports.iter().filter_map(machine).collect();
    ReportDocument { schema: SCHEMA, peerlane: env!("CARGO_PKG_VERSION"), machines, comparison: None }
}

/// The document of machines side by side, in the order of the designs, by whose names they are called.
pub fn compared<'a>(reports: &'a [Report<'a>], designs: &'a ComparisonDocument) -> ReportDocument {
    let models = reports.iter().filter_map(|report| match report.subject {
        Subject::Machine(_, comparison, _) => Some(comparison.model()),
        _ => None,
    });
    beside(document(reports).machines, models, designs)
}

/// The same of machines whose reports are made already, with their models.
pub fn beside<'a>(
    machines: Vec<MachineReport>,
    models: impl Iterator<Item = &'a Model<'a>>,
    designs: &'a ComparisonDocument,
) -> ReportDocument {
    let mut document = ReportDocument { machines, ..document(&[]) };
    for (machine, design) in document.machines.iter_mut().zip(&designs.designs) {
        machine.name.clone_from(&design.name);
    }
    let names = designs.designs.iter().map(|design| design.name.as_str());
    let all_reduce = charts::all_reduce(names.zip(models));
    document.comparison = Some(side_by_side::comparison(designs, &document.machines, all_reduce));
    document
}

fn machine(report: &Report) -> Option<MachineReport> {
    let Subject::Machine(_, comparison, _) = report.subject else { return None };
    let Model { machine, parts, .. } = comparison.model();
    // where nothing of what was measured can be expected otherwise, it stands next to what parts can do
    if only_measured(&sections(comparison, &machine.fabric, false)) {
        let assumed = Assumptions::of(machine, parts);
        let assuming = assumed.model(parts, Assume::Parts);
        return expecting(report, comparison.model(), &Comparison::of(&assuming));
    }
    expecting(report, comparison.model(), comparison)
}

/// A machine's report, its numbers next to what a comparison expects.
fn expecting<'c>(report: &Report, model: &Model, comparison: &'c Comparison<'c>) -> Option<MachineReport> {
    let Subject::Machine(case, _, checked) = report.subject else { return None };
    let (machine, run) = (&case.machine, case.run());
    let fabric = &machine.fabric;
    let mut tables = Tables::new(comparison);
    for evidence in &machine.evidence {
        let at = tables.source(&evidence.origin.to_string());
        tables.tells(at, findings::tells(&evidence.fact));
    }
    let nodes: Vec<NodeView> = fabric.ids().map(|id| node(&mut tables, fabric.node(id))).collect();
    let rates = rates(model);
    let links =
        fabric.link_ids().map(|id| link(&mut tables, fabric.link(id), rates.get(id.index()).copied().flatten()));
    let links: Vec<LinkView> = links.collect();
    for view in &nodes {
        view.sources.iter().for_each(|at| tables.tells(*at, &view.name));
    }
    for view in &links {
        let name = |at: usize| fabric.nodes().get(at).map_or("", |n| n.name.as_str());
        let ends = format!("{}–{}", name(view.a), name(view.b));
        view.sources.iter().for_each(|at| tables.tells(*at, &ends));
    }
    let classes = classes(&mut tables);
    let matrices = matrices::all(&mut tables, run);
    let charts = charts::charts(&mut tables, run);
    let contention = run.map(|run| charts::contention(model, run)).unwrap_or_default();
    let views = checked.findings.iter().map(|f| findings::view(&mut tables, &matrices, f)).collect();
    let waived = checked
        .waived
        .iter()
        .map(|w| WaivedView { reason: w.reason.clone(), finding: findings::view(&mut tables, &matrices, &w.finding) });
    let waived = waived.collect();
    let tree = plain(|out| tree::write(out, fabric, tree::Options { verbose: false, fold: false }));
    Some(MachineReport {
        name: quoted(&machine.name).into_owned(),
        title: machine.title.as_deref().filter(|title| *title != machine.name).map(|title| quoted(title).into_owned()),
        inventory: label::inventory(machine),
        origin: origin(machine, run),
        verdict: checked.verdict,
        summary: report.headline.sentence(),
        findings: views,
        waived,
        markdown: formats::markdown(report),
        drawing: Drawing::of(model),
        tree,
        nodes,
        links,
        classes,
        matrices,
        charts,
        contention,
        facts: facts::all(case),
        contradictions: machine.contradictions.iter().map(|c| c.message.clone()).collect(),
        unknown: machine.unknown.iter().map(ToString::to_string).collect(),
        assumptions: comparison.model().assumptions().into_iter().chain(machine.assumptions.iter().cloned()).collect(),
        warnings: machine.warnings.iter().map(ToString::to_string).collect(),
        notes: machine.notes.clone(),
        record: run.and_then(record),
        words: tables.words,
        paths: tables.paths,
        hops: tables.hops,
        evidence: tables.evidence,
    })
}

/// The origin of the description, in one line.
fn origin(machine: &Machine, run: Option<&Run>) -> String {
    let simulated = run.is_some_and(|run| run.machine.system.is_some());
    match (run, machine.kind, &machine.source) {
        (Some(_), ..) if simulated => "measured on a simulated machine: a model with noise, no hardware".to_owned(),
        (Some(_), ..) => "measured on this machine".to_owned(),
        (None, MachineKind::Catalogue, Some(source)) => format!("from the catalogue; {source}"),
        (None, MachineKind::Catalogue, None) => "from the catalogue".to_owned(),
        (None, MachineKind::Design, _) => "a design, from a system file".to_owned(),
        (None, MachineKind::Captured, _) => "from what the machine printed".to_owned(),
    }
}

fn node(tables: &mut Tables, node: &Node) -> NodeView {
    let mut details = Vec::new();
    let mut tell = |label: &str, text: Option<String>| {
        details.extend(text.map(|text| Labelled { label: label.to_owned(), text }));
    };
    tell("also called", Some(node.aliases.join(", ")).filter(|names| !names.is_empty()));
    tell("product", node.product.clone());
    tell("part", node.part.clone());
    tell("PCI address", node.address.map(|a| a.to_string()));
    tell("NUMA node", node.numa.map(|n| n.to_string()));
    tell("CPUs", node.cpus.as_ref().map(|c| c.to_string()));
    tell("RDMA", node.rdma.map(|yes| if yes { "yes" } else { "no" }.to_owned()));
    tell("note", node.note.clone());
    NodeView {
        name: label::name(node),
        kind: node.kind,
        product: label::product(node),
        assumed: node.assumed,
        details,
        sources: tables.sources(&node.origins),
    }
}

fn link(tables: &mut Tables, link: &Link, rate: Option<f64>) -> LinkView {
    LinkView {
        a: link.a.index(),
        b: link.b.index(),
        what: label::link(link),
        could_be: label::shortfall(link).map(|full| format!("PCIe {full}")),
        narrow: label::is_narrow(link),
        rate: rate.map(short),
        assumed: link.assumed,
        note: link.note.clone(),
        sources: tables.sources(&link.origins),
    }
}

fn classes(tables: &mut Tables) -> Option<ClassView> {
    let fabric = tables.fabric();
    let devices = fabric.devices();
    let told = devices.iter().any(|a| devices.iter().any(|b| a != b && fabric.class(*a, *b).is_some()));
    if !told || devices.len() > 4 * MOST_DEVICES {
        return None;
    }
    let with_paths = devices.len() <= MOST_DEVICES;
    let mut known: Vec<PathClass> = Vec::new();
    let (mut values, mut paths) = (Vec::new(), Vec::new());
    for (a, b) in devices.iter().flat_map(|a| devices.iter().map(move |b| (*a, *b))) {
        let class = fabric.class(a, b);
        known.extend(class.filter(|c| *c != PathClass::Same));
        values.push(class);
        paths.push(if a != b && with_paths { tables.path_between(a, b) } else { None });
    }
    known.sort_unstable();
    known.dedup();
    let n = devices.len();
    Some(ClassView {
        names: devices.iter().map(|id| fabric.node(*id).name.clone()).collect(),
        values: values.chunks(n).map(<[_]>::to_vec).collect(),
        paths: paths.chunks(n).map(<[_]>::to_vec).collect(),
        meanings: known.iter().map(|c| Labelled { label: c.to_string(), text: c.meaning().to_owned() }).collect(),
    })
}

/// Limit of a packed record in bytes. Larger ones are stored without samples, so that the page can be mailed.
const MOST_PACKED: usize = 500_000;

/// The packed record; `None` if it cannot be serialised.
fn record(run: &Run) -> Option<RunRecord> {
    let (bytes, gzip) = packed(run)?;
    let samples = gzip.len() <= MOST_PACKED;
    let (bytes, gzip) = if samples {
        (bytes, gzip)
    } else {
        let bare = |cell: &Cell| Cell { samples: Vec::new(), ..cell.clone() };
        packed(&Run { cells: run.cells.iter().map(bare).collect(), ..run.clone() })?
    };
    let name = format!("{}.run.json", file_name(&run.machine.name));
    Some(RunRecord { name, bytes, samples, gzip: STANDARD.encode(gzip) })
}

/// Its uncompressed size, and the gzip data.
fn packed(run: &Run) -> Option<(usize, Vec<u8>)> {
    let text = run.to_json().ok()?;
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(text.as_bytes()).ok()?;
    Some((text.len(), packer.finish().ok()?))
}

/// A name without characters that are invalid in file names.
pub(super) fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().take(60).map(safe).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "machine".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_plain() {
        assert_eq!(file_name("node 3/../<x>"), "node-3-..--x");
        assert_eq!((file_name("…"), file_name("a.b")), ("machine".to_owned(), "a.b".to_owned()));
    }
}
