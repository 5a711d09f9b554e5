//! Evidence → machines: groups statements by machine, joins sources, rebuilds the tree that a class
//! matrix implies, and lists what cannot be told.
//!
//! A machine's tree comes from the most telling PCI listing there is. A class matrix must then come
//! out of that tree as it stands; where it does not, the matrix decides, since it is the driver's own
//! judgement, and the disagreement is recorded with both sources. Without a listing the tree is the
//! one that the matrix implies. In either case: the classes of the built fabric are the input's, or
//! the input is called contradictory.

mod contradictions;
mod emit;
mod from_classes;
mod from_pci;
mod group;
mod implied_tree;
mod inventory;
mod nvlink;
mod nvlink_mesh;
mod platforms;
mod skeleton;
mod unknown;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use crate::evidence::{Evidence, Fact, Found, Heading, MAX_STATEMENTS, Origin, Warning};
use crate::fabric::{Fabric, FabricBuilder, PathClass};
use crate::machine::{Contradiction, Machine, MachineKind, Observed};

use group::Cluster;
use inventory::Inventory;
use skeleton::Skeleton;

/// The machines that the evidence speaks of, in the order of their first statement. Warnings of the
/// scan go to the machine whose source they are about, or to the first.
pub fn assemble(mut found: Found) -> Vec<Machine> {
    found.left_out += found.evidence.len().saturating_sub(MAX_STATEMENTS);
    found.evidence.truncate(MAX_STATEMENTS);
    if found.left_out > 0 {
        let message = format!(
            "more than {MAX_STATEMENTS} statements: {} are left out; name the files, or cut out the part, that matter",
            found.left_out
        );
        found.warnings.push(Warning { origin: None, message });
    }
    let mut machines: Vec<Machine> = group::group(found.evidence).into_iter().map(machine).collect();
    name(&mut machines, &found.headings);
    let spans = Spans::of(&machines);
    for warning in found.warnings {
        let about = warning.origin.as_ref().and_then(|origin| spans.machine(origin));
        if let Some(machine) = machines.get_mut(about.unwrap_or(0)) {
            machine.warnings.push(warning);
        }
    }
    machines
}

/// From which line to which each machine's statements stand, by source.
struct Spans(HashMap<Arc<str>, Vec<Span>>);

/// A machine, and its first and last line in a source.
struct Span {
    machine: usize,
    lines: (u32, u32),
}

impl Spans {
    fn of(machines: &[Machine]) -> Self {
        let mut spans: HashMap<Arc<str>, Vec<Span>> = HashMap::new();
        for (i, machine) in machines.iter().enumerate() {
            for origin in machine.evidence.iter().map(|e| &e.origin) {
                let (first, last) = Self::lines(origin);
                let here = spans.entry(origin.source.clone()).or_default();
                match here.last_mut().filter(|span| span.machine == i) {
                    Some(Span { lines, .. }) => *lines = (lines.0.min(first), lines.1.max(last)),
                    None => here.push(Span { machine: i, lines: (first, last) }),
                }
            }
        }
        Spans(spans)
    }

    /// The first machine among whose statements the lines stand.
    fn machine(&self, origin: &Origin) -> Option<usize> {
        let line = Self::lines(origin).0;
        let around = |span: &&Span| span.lines.0 <= line && line <= span.lines.1;
        self.0.get(&origin.source)?.iter().find(around).map(|span| span.machine)
    }

    fn lines(origin: &Origin) -> (u32, u32) {
        origin.lines.unwrap_or((0, u32::MAX))
    }
}

/// A tree that was tried: the fabric, and the cells that it does not give back.
struct Built {
    fabric: Fabric,
    nvlink: nvlink::Outcome,
    wrong: Vec<contradictions::Mismatch>,
}

fn machine(cluster: Cluster) -> Machine {
    let all = Inventory::of(&cluster.evidence);
    let mut contradicted: Vec<Contradiction> = Vec::new();
    let mut warnings = Vec::new();
    let built = choose_tree(&all, &mut contradicted, &mut warnings);
    let mut machine = Machine::new(String::new(), MachineKind::Captured, built.fabric);
    contradicted.extend(built.nvlink.contradictions.iter().cloned());
    machine.unknown = unknown::unknown(&all, &machine.fabric, &built.nvlink);
    machine.contradictions = contradicted;
    machine.warnings = all.warnings;
    machine.warnings.extend(warnings);
    machine.stated_classes = all.classes;
    keep_numbers(&mut machine, cluster.evidence);
    machine
}

fn choose_tree(all: &Inventory, contradicted: &mut Vec<Contradiction>, warnings: &mut Vec<Warning>) -> Built {
    let mut disagreement = None;
    let listing = all.trees.iter().find(|(tree, _)| tree.has_tree);
    if let Some((tree, origin)) = listing {
        match build(all, &from_pci::from_pci(all, tree, origin)) {
            Ok(built) if built.wrong.is_empty() => return built,
            Ok(built) => {
                let told = |m: &contradictions::Mismatch| could_tell(tree.bridges_are_switches, m);
                let real: Vec<_> = built.wrong.iter().filter(|m| told(m)).cloned().collect();
                let matrix = all.classes.as_ref().map(|(_, o)| o);
                disagreement = matrix.and_then(|m| contradictions::sources_disagree(&real, m, origin));
            }
            Err(message) => {
                warnings.push(Warning {
                    origin: Some(origin.clone()),
                    message: format!("no tree could be built: {message}"),
                });
            }
        }
    }
    let implied = match &all.classes {
        Some((_, origin)) => from_classes::from_classes(all, origin),
        None => Skeleton::default(),
    };
    let mut built = build(all, &implied).unwrap_or_else(|message| {
        warnings.push(Warning { origin: None, message: format!("no tree could be built: {message}") });
        Built { fabric: Fabric::default(), nvlink: nvlink::Outcome::default(), wrong: Vec::new() }
    });
    if let Some((matrix, origin)) = &all.classes {
        let asymmetric = contradictions::asymmetric(matrix, origin);
        let nested = contradictions::not_nested(&built.wrong, origin).filter(|_| asymmetric.is_none());
        contradicted.extend(asymmetric);
        contradicted.extend(nested);
    }
    contradicted.extend(disagreement);
    built.wrong.clear();
    built
}

/// Whether a listing of that kind could know better: NCCL's XML shows neither host bridges nor single
/// ports, and no listing knows NVLink.
fn could_tell(bridges_are_switches: bool, mismatch: &contradictions::Mismatch) -> bool {
    use PathClass::{Node, Phb, Pix, Pxb};
    match (mismatch.stated, mismatch.built) {
        (_, None) => false,
        (Phb | Node, Some(Phb | Node)) | (Pix | Pxb, Some(Pix | Pxb)) => !bridges_are_switches,
        (stated, _) => stated.is_pcie(),
    }
}

fn build(all: &Inventory, skeleton: &Skeleton) -> Result<Built, String> {
    let mut builder = FabricBuilder::new();
    let nodes = emit::device_nodes(all, &mut builder);
    emit::tree(all, skeleton, &nodes, &mut builder);
    let nvlink = nvlink::add(all, &nodes, &mut builder);
    let fabric = builder.build().map_err(|e| e.to_string())?;
    let wrong = contradictions::mismatches(all, &fabric, &nodes);
    Ok(Built { fabric, nvlink, wrong })
}

/// Matrices, curves, tables and peer-to-peer states, each once.
fn keep_numbers(machine: &mut Machine, evidence: Vec<Evidence>) {
    // the matrices of the same numbers, of which few are not the same in all
    let mut alike: HashMap<u64, Vec<usize>> = HashMap::new();
    for one in &evidence {
        match &one.fact {
            Fact::Matrix(matrix) => {
                let alike = alike.entry(group::values_digest(matrix)).or_default();
                let twin = alike.iter().copied().find(|&i| machine.matrices[i].matrix == *matrix);
                match twin {
                    Some(twin) => machine.matrices[twin].also.push(one.origin.clone()),
                    None => {
                        alike.push(machine.matrices.len());
                        machine.matrices.push(Observed {
                            matrix: matrix.clone(),
                            origin: one.origin.clone(),
                            also: Vec::new(),
                            published: false,
                        });
                    }
                }
            }
            Fact::Curve(curve) if !machine.curves.iter().any(|(c, _)| c == curve) => {
                machine.curves.push((curve.clone(), one.origin.clone()));
            }
            Fact::Rates(table) if !machine.rates.iter().any(|(t, _)| t == table) => {
                machine.rates.push((table.clone(), one.origin.clone()));
            }
            Fact::P2p(matrix) => {
                for (i, row) in matrix.rows.iter().enumerate() {
                    for (j, col) in matrix.cols.iter().enumerate() {
                        let state = matrix.cells.get(i).and_then(|r| r.get(j)).copied().flatten();
                        let ends = machine.fabric.find(row).zip(machine.fabric.find(col));
                        if let Some(((a, b), state)) = ends.zip(state).filter(|((a, b), _)| a != b) {
                            machine.p2p.entry((a, b)).or_insert(state);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    machine.evidence = evidence;
}

/// Names machines: one alone by its host name or where it was read from, several by the headings
/// above their first statements.
fn name(machines: &mut [Machine], headings: &[Heading]) {
    let mut above: HashMap<&str, Vec<&Heading>> = HashMap::new();
    for heading in headings {
        above.entry(&heading.source).or_default().push(heading);
    }
    let mut taken: HashSet<String> = HashSet::new();
    let mut times: HashMap<String, usize> = HashMap::new();
    let alone = machines.len() == 1;
    for (i, machine) in machines.iter_mut().enumerate() {
        let first = machine.evidence.first().map(|e| &e.origin);
        let heading = first.and_then(|origin| {
            let line = origin.lines.map_or(0, |l| l.0);
            let here = above.get(origin.source.as_ref())?;
            // they stand in the order of their lines
            let next = here.partition_point(|h| h.line < line);
            here.get(next.checked_sub(1)?).map(|h| h.text.clone())
        });
        let label = machine.evidence.iter().find_map(|e| match &e.fact {
            Fact::Host(host) => host.name.clone(),
            Fact::Curve(curve) => curve.settings.get("label").cloned(),
            Fact::Rates(table) => platforms::machine_name(table).cloned(),
            _ => None,
        });
        // a table's own word for a machine says more than the heading above the table
        let rated = label.clone().filter(|_| machine.fabric.nodes().is_empty());
        let base = if alone { label.or_else(|| place(machine)) } else { rated.or(heading).or(label) };
        let base = base.unwrap_or_else(|| format!("machine {}", i + 1));
        let mut name = base.clone();
        let again = times.entry(base.clone()).or_insert(1);
        while taken.contains(&name) {
            *again += 1;
            name = format!("{base} ({again})");
        }
        taken.insert(name.clone());
        machine.name = name;
    }
}

/// The file's name without extension, or the folder's where several files speak of the machine.
fn place(machine: &Machine) -> Option<String> {
    let mut sources: Vec<&Path> = machine.evidence.iter().map(|e| Path::new(e.origin.source.as_ref())).collect();
    sources.dedup();
    let path = match sources.as_slice() {
        [one] => one.file_stem(),
        [first, ..] => first.parent().and_then(Path::file_name),
        [] => None,
    };
    // a pipe's number (`/dev/fd/63`) is no name
    let named = |p: &String| p != "-" && !sources.iter().any(|s| s.starts_with("/dev/fd") || s.starts_with("/proc"));
    path.map(|p| p.to_string_lossy().into_owned()).filter(named)
}
