//! Evidence → machines: groups statements by machine, joins sources, rebuilds the tree that a class
//! matrix implies, and lists what remains unknown.
//!
//! A machine's tree comes from the most telling PCI listing there is. A class matrix must then come
//! out of that tree as it stands; where it does not, the matrix decides, since it is the driver's own
//! judgement, and the disagreement is recorded with both sources. Without a listing the tree is the
//! one that the matrix implies. In either case: the classes of the built fabric are the input's, or
//! the input is called contradictory.

mod contradictions;
mod device;
mod emit;
mod folders;
mod from_classes;
mod from_pci;
mod gaps;
mod group;
mod implied_tree;
mod inventory;
mod join_pci;
mod merge;
mod nvlink;
mod nvlink_mesh;
mod placements;
mod places;
mod platforms;
mod recognized;
mod remarks;
mod renumber;
mod skeleton;
pub mod standing;
mod stated;
mod sweeps;
mod unknown;

pub use placements::{Placement, placements};
pub use places::assume_places;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::path::Path;

use crate::catalogue::{Parts, vendor_of};
use crate::evidence::{Found, Heading, MAX_PAIRS, MAX_STATEMENTS, tool};
use peerlane_machine::fabric::{CpuVendor, Fabric, FabricBuilder, NodeKind, PathClass};
use peerlane_machine::fact::{Evidence, Fact, P2pMatrix, P2pStatus};
use peerlane_machine::machine::reading::Doubted;
use peerlane_machine::machine::{Contradiction, Machine, MachineKind, SourcedMatrix};
use peerlane_machine::matrix::Matrix;
use peerlane_machine::origin::{Origin, Warning};
use peerlane_machine::units::Rate;

use group::Cluster;
use inventory::Inventory;
use skeleton::Skeleton;

/// The machines that the evidence describes, in the order of their first statement. Warnings of the
/// scan go to the machine whose source they are about, or to the first.
pub fn assemble(found: Found) -> Vec<Machine> {
    let mut machines: Vec<Machine> = Vec::new();
    let mut folders = Vec::new();
    let (mut room, mut left_out) = (MAX_PAIRS, 0);
    for cluster in group::group(found.evidence) {
        // one machine is always read
        let most = if machines.is_empty() { usize::MAX } else { room };
        let folder = cluster.folder.clone();
        match machine(cluster, most) {
            Ok((machine, pairs)) => {
                room = room.saturating_sub(pairs);
                folders.push(folder);
                machines.push(machine);
            }
            Err(TooManyPairs) => left_out += 1,
        }
    }
    name(&mut machines, &folders, &found.headings);
    remarks::attribute(&mut machines, found.remarks, &found.sections);
    for machine in &mut machines {
        sweeps::state(machine);
        machine.recognized = recognized::recognized(machine);
        recognized::adopt(machine);
    }
    if let Some(first) = machines.first_mut().filter(|_| left_out > 0) {
        let message =
            format!("{left_out} machines of very many devices are left out; name fewer files, or cut the text");
        first.warnings.push(Warning::general(message));
    }
    if let Some(first) = machines.first_mut().filter(|_| found.left_out > 0) {
        let message =
            format!("more than {MAX_STATEMENTS} statements: {} are left out; name fewer files", found.left_out);
        first.warnings.push(Warning::general(message));
    }
    for warning in found.warnings {
        let about = |m: &&mut Machine| warning.origin.as_ref().is_some_and(|o| is_about(m, o));
        let at = machines.iter_mut().find(about);
        if let Some(machine) = at {
            machine.warnings.push(warning);
        } else if let Some(first) = machines.first_mut() {
            first.warnings.push(warning);
        }
    }
    machines
}

/// Whether a warning's lines lie among a machine's statements, or it is about a source of theirs as a whole.
fn is_about(machine: &Machine, origin: &Origin) -> bool {
    let lines = |o: &Origin| o.lines.unwrap_or((0, u32::MAX));
    let mut here = machine.evidence.iter().map(|e| &e.origin).filter(|o| o.source == origin.source);
    let Some((line, _)) = origin.lines else { return here.next().is_some() };
    let (first, last) = here.fold((u32::MAX, 0), |(a, b), o| (a.min(lines(o).0), b.max(lines(o).1)));
    first <= line && line <= last
}

/// The lower of two measurements of one thing is above this share of the higher.
const NOISE: f64 = 0.75;

/// Matrices looked at for repeated measurements.
const MOST_COMPARED: usize = 256;

/// A tree that was tried: the fabric, and the cells that it does not give back.
#[derive(Default)]
struct Built {
    fabric: Fabric,
    nvlink: nvlink::Outcome,
    wrong: Vec<contradictions::Mismatch>,
    doubted: Vec<Doubted>,
}

/// A machine has more pairs of devices than there is room for.
struct TooManyPairs;

/// The machine of a cluster, with its pairs of devices, if these are `most`.
fn machine(mut cluster: Cluster, most: usize) -> Result<(Machine, usize), TooManyPairs> {
    if cluster.gpus().saturating_mul(cluster.gpus()) > most {
        return Err(TooManyPairs);
    }
    let mut warnings = renumber::renumber(&mut cluster.evidence);
    let mut all = Inventory::of(&cluster.evidence);
    all.doubted = standing::line_rates(&mut all, &cluster.evidence);
    let pairs = all.devices.len() * all.devices.len();
    if pairs > most {
        return Err(TooManyPairs);
    }
    let mut contradicted: Vec<Contradiction> = Vec::new();
    let built = choose_tree(&all, &mut contradicted, &mut warnings);
    let mut machine = Machine::new(String::new(), MachineKind::Captured, built.fabric);
    contradicted.extend(built.nvlink.contradictions.iter().cloned());
    machine.unknown = unknown::unknown(&all, &machine.fabric, &built.nvlink);
    machine.contradictions = contradicted;
    machine.warnings = all.warnings;
    machine.warnings.extend(warnings);
    let cpu_vendor = all.host.cpu_ids.as_ref().and_then(|(vendor, ..)| CpuVendor::of_id(vendor));
    machine.doubted = all.doubted;
    machine.doubted.extend(built.doubted);
    let doubts = machine.doubted.iter().map(|d| Warning::new(d.origin.clone(), d.to_string()));
    machine.warnings.extend(doubts.collect::<Vec<_>>());
    let cpu = machine.fabric.of_kind(NodeKind::Cpu).next();
    let vendor = cpu.and_then(|cpu| vendor_of(&machine.fabric, Parts::embedded(), cpu)).or(cpu_vendor);
    machine.iommu = standing::iommu(&cluster.evidence, vendor);
    machine.stated_classes = all.classes;
    keep_numbers(&mut machine, cluster.evidence);
    machine.warnings.extend(measured_again(&machine));
    Ok((machine, pairs))
}

/// Warns that a text shows two runs of a program with other results (before and after a change): their matrices
/// are both kept.
fn measured_again(machine: &Machine) -> Option<Warning> {
    let mut firsts: Vec<&SourcedMatrix> = Vec::new();
    let mut again: Option<(&SourcedMatrix, &SourcedMatrix)> = None;
    for measured in machine.matrices.iter().take(MOST_COMPARED) {
        let of_one_kind = |f: &&&SourcedMatrix| {
            (&f.origin.source, f.origin.tool) == (&measured.origin.source, measured.origin.tool)
                && group::same_measure(&f.matrix, &measured.matrix)
        };
        match firsts.iter().find(of_one_kind) {
            Some(first) if differ(&first.matrix, &measured.matrix) => again = again.or(Some((first, measured))),
            Some(_) => {}
            None => firsts.push(measured),
        }
    }
    let (first, second) = again?;
    Some(Warning::at(
        &second.origin,
        format!("other numbers than an earlier run's, {}; each run is kept and judged separately", first.origin),
    ))
}

/// Whether a number differs by more than runs of one program do.
fn differ(a: &Matrix, b: &Matrix) -> bool {
    let pairs = a.values.iter().flatten().zip(b.values.iter().flatten());
    pairs.filter_map(|(x, y)| x.zip(*y)).any(|(x, y)| x.min(y) < NOISE * x.max(y))
}

fn choose_tree(all: &Inventory, contradicted: &mut Vec<Contradiction>, warnings: &mut Vec<Warning>) -> Built {
    let mut disagreement = None;
    let listing = all.trees.iter().find(|(tree, _)| tree.has_tree);
    if let Some((tree, origin)) = listing {
        match build(all, &from_pci::from_pci(all, tree, origin)) {
            Ok(built) if built.wrong.is_empty() => return built,
            Ok(built) => {
                let comparable = |m: &contradictions::Mismatch| shows(tree.bridges_are_switches, m);
                let real: Vec<_> = built.wrong.iter().filter(|m| comparable(m)).cloned().collect();
                let matrix = all.classes.as_ref().map(|(_, o)| o);
                disagreement = matrix.and_then(|m| contradictions::sources_disagree(&real, m, origin));
            }
            Err(message) => {
                warnings.push(Warning::at(origin, format!("no tree could be built: {message}")));
            }
        }
    }
    let implied = match &all.classes {
        Some((_, origin)) => from_classes::from_classes(all, origin),
        None => Skeleton::default(),
    };
    let built = build(all, &implied).unwrap_or_else(|message| {
        warnings.push(Warning::general(format!("no tree could be built: {message}")));
        Built::default()
    });
    if let Some((matrix, origin)) = &all.classes {
        let asymmetric = contradictions::asymmetric(matrix, origin);
        // another maker's words need not be classes that nest
        let nests = asymmetric.is_none() && origin.tool != tool::PATH_MATRIX;
        let nested = contradictions::not_nested(&built.wrong, origin).filter(|_| nests);
        contradicted.extend(asymmetric);
        contradicted.extend(nested);
    }
    contradicted.extend(disagreement);
    built
}

/// Whether a listing of that kind could know better: NCCL's XML shows neither host bridges nor single
/// ports, and no listing knows NVLink.
fn shows(bridges_are_switches: bool, mismatch: &contradictions::Mismatch) -> bool {
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
    let (mut fabric, doubted) = standing::without_doubted(fabric, all).map_err(|e| e.to_string())?;
    if skeleton.of_classes && all.classes.is_some() {
        fabric.set_unknown_paths(gaps::unstated(all, &nodes));
    }
    let wrong = contradictions::mismatches(all, &fabric, &nodes);
    Ok(Built { fabric, nvlink, wrong, doubted })
}

/// Matrices, curves, tables and peer-to-peer states, each once.
fn keep_numbers(machine: &mut Machine, evidence: Vec<Evidence>) {
    // where those of one digest are kept, so that each is compared with few
    let (mut matrices, mut curves, mut rates) = (Twins::default(), Twins::default(), Twins::default());
    for one in &evidence {
        match &one.fact {
            Fact::Matrix(matrix) => {
                let numbers = matrix.values.iter().flatten().copied();
                let known = matrices.of(matrix.rows.iter().chain(&matrix.cols), numbers);
                match known.iter().copied().find(|&at| machine.matrices[at].matrix == *matrix) {
                    Some(twin) => machine.matrices[twin].also.push(one.origin.clone()),
                    None => {
                        known.push(machine.matrices.len());
                        machine.matrices.push(SourcedMatrix {
                            matrix: matrix.clone(),
                            origin: one.origin.clone(),
                            also: Vec::new(),
                            published: false,
                            known_cause: None,
                            spread: Vec::new(),
                        });
                    }
                }
            }
            Fact::Curve(curve) => {
                let numbers = curve.series.iter().flat_map(|s| s.values.iter().copied());
                let known = curves.of(&curve.ends, numbers);
                if !known.iter().any(|&at| machine.curves[at].0 == *curve) {
                    known.push(machine.curves.len());
                    machine.curves.push((curve.clone(), one.origin.clone()));
                }
            }
            Fact::Rates(table) => {
                let numbers = table.rows.iter().flat_map(|r| r.rates.iter().map(|rate| rate.map(Rate::gb)));
                let known = rates.of(table.rows.iter().flat_map(|r| &r.words), numbers);
                if !known.iter().any(|&at| machine.rates[at].0 == *table) {
                    known.push(machine.rates.len());
                    machine.rates.push((table.clone(), one.origin.clone()));
                }
            }
            Fact::P2p(matrix) if matrix.capability.is_access() => keep_p2p(machine, matrix),
            _ => {}
        }
    }
    machine.evidence = evidence;
}

/// Indices of statements by a digest of their words and numbers.
#[derive(Default)]
struct Twins(HashMap<u64, Vec<usize>>);

impl Twins {
    fn of<'a>(
        &mut self,
        words: impl IntoIterator<Item = &'a String>,
        numbers: impl IntoIterator<Item = Option<f64>>,
    ) -> &mut Vec<usize> {
        let mut digest = DefaultHasher::new();
        words.into_iter().for_each(|word| word.hash(&mut digest));
        // zero of either sign is one number
        numbers.into_iter().for_each(|n| n.map(|n| (n + 0.0).to_bits()).hash(&mut digest));
        self.0.entry(digest.finish()).or_default()
    }
}

/// The first answer for each pair; "unknown" is replaced by a later answer.
fn keep_p2p(machine: &mut Machine, matrix: &P2pMatrix) {
    for (row, cells) in matrix.rows.iter().zip(&matrix.cells) {
        for (col, state) in matrix.cols.iter().zip(cells) {
            let ends = machine.fabric.find(row).zip(machine.fabric.find(col));
            if let Some(((a, b), state)) = ends.zip(*state).filter(|((a, b), _)| a != b) {
                let kept = machine.p2p.entry((a, b)).or_insert(state);
                if *kept == P2pStatus::Unknown {
                    *kept = state;
                }
            }
        }
    }
}

/// Names machines: one alone by its host name or where it was read from, several by the headings
/// above their first statements.
fn name(machines: &mut [Machine], folders: &[Option<String>], headings: &[Heading]) {
    let mut taken: HashSet<String> = HashSet::new();
    // where the count goes on, so that very many machines below one heading take no time in its square
    let mut next: HashMap<String, u32> = HashMap::new();
    let alone = machines.len() == 1;
    for (i, machine) in machines.iter_mut().enumerate() {
        let first = machine.evidence.first().map(|e| &e.origin);
        let heading = first.and_then(|origin| {
            let line = origin.lines.map_or(0, |l| l.0);
            headings.iter().rev().find(|h| h.source == origin.source && h.line < line).map(|h| h.text.clone())
        });
        let label = machine.evidence.iter().find_map(|e| match &e.fact {
            Fact::Host(host) => host.name.clone(),
            Fact::Curve(curve) => curve.settings.get("label").cloned(),
            Fact::Rates(table) => platforms::machine_name(table).cloned(),
            _ => None,
        });
        // a table's own word for a machine is better than the heading above the table
        let rated = label.clone().filter(|_| machine.fabric.nodes().is_empty());
        let folder = folders.get(i).cloned().flatten();
        let base = match folder {
            _ if alone => label.or_else(|| place(machine)),
            Some(folder) => label.or(Some(folder)),
            None => rated.or(heading).or(label),
        };
        let base = base.unwrap_or_else(|| format!("machine {}", i + 1));
        let mut name = base.clone();
        let again = next.entry(base.clone()).or_insert(2);
        while !taken.insert(name.clone()) {
            name = format!("{base} ({again})");
            *again += 1;
        }
        machine.name = name;
    }
}

/// The file's name without extension, or the folder's where several files describe the machine.
fn place(machine: &Machine) -> Option<String> {
    let mut sources: Vec<&Path> = machine.evidence.iter().map(|e| Path::new(e.origin.source.as_ref())).collect();
    sources.dedup();
    // a pipe's name is no name for a machine
    sources.retain(|s| !s.starts_with("/dev") && !s.starts_with("/proc"));
    let path = match sources.as_slice() {
        [one] => one.file_stem(),
        [first, ..] => first.parent().and_then(Path::file_name),
        [] => None,
    };
    path.map(|p| p.to_string_lossy().into_owned()).filter(|p| p != "-")
}

#[cfg(test)]
mod tests;
