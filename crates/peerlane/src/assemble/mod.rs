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

use crate::evidence::{Evidence, Fact, Found, Heading, Origin, P2pMatrix, P2pStatus, Warning};
use crate::fabric::{Fabric, FabricBuilder, PathClass};
use crate::machine::{Contradiction, Machine, MachineKind, Observed};

use group::Cluster;
use inventory::Inventory;
use skeleton::Skeleton;

/// The machines that the evidence speaks of, in the order of their first statement. Warnings of the
/// scan go to the machine whose source they are about, or to the first.
pub fn assemble(found: Found) -> Vec<Machine> {
    let mut machines: Vec<Machine> = group::group(found.evidence).into_iter().map(machine).collect();
    name(&mut machines, &found.headings);
    for warning in found.warnings {
        let about = |m: &&mut Machine| warning.origin.as_ref().is_some_and(|o| speaks_of(m, o));
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
fn speaks_of(machine: &Machine, origin: &Origin) -> bool {
    let lines = |o: &Origin| o.lines.unwrap_or((0, u32::MAX));
    let mut here = machine.evidence.iter().map(|e| &e.origin).filter(|o| o.source == origin.source);
    let Some((line, _)) = origin.lines else { return here.next().is_some() };
    let (first, last) = here.fold((u32::MAX, 0), |(a, b), o| (a.min(lines(o).0), b.max(lines(o).1)));
    first <= line && line <= last
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
        Some((matrix, origin)) => from_classes::from_classes(all, matrix, origin),
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
    for one in &evidence {
        match &one.fact {
            Fact::Matrix(matrix) => {
                let twin = machine.matrices.iter_mut().find(|o| o.matrix == *matrix);
                match twin {
                    Some(twin) => twin.also.push(one.origin.clone()),
                    None => machine.matrices.push(Observed {
                        matrix: matrix.clone(),
                        origin: one.origin.clone(),
                        also: Vec::new(),
                        published: false,
                    }),
                }
            }
            Fact::Curve(curve) if !machine.curves.iter().any(|(c, _)| c == curve) => {
                machine.curves.push((curve.clone(), one.origin.clone()));
            }
            Fact::Rates(table) if !machine.rates.iter().any(|(t, _)| t == table) => {
                machine.rates.push((table.clone(), one.origin.clone()));
            }
            Fact::P2p(matrix) if matrix.capability.is_access() => keep_p2p(machine, matrix),
            _ => {}
        }
    }
    machine.evidence = evidence;
}

/// The first answer for each pair; one that says "unknown" gives way to one that knows.
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
fn name(machines: &mut [Machine], headings: &[Heading]) {
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
        // a table's own word for a machine says more than the heading above the table
        let rated = label.clone().filter(|_| machine.fabric.nodes().is_empty());
        let base = if alone { label.or_else(|| place(machine)) } else { rated.or(heading).or(label) };
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

/// The file's name without extension, or the folder's where several files speak of the machine.
fn place(machine: &Machine) -> Option<String> {
    let mut sources: Vec<&Path> = machine.evidence.iter().map(|e| Path::new(e.origin.source.as_ref())).collect();
    sources.dedup();
    let path = match sources.as_slice() {
        [one] => one.file_stem(),
        [first, ..] => first.parent().and_then(Path::file_name),
        [] => None,
    };
    path.map(|p| p.to_string_lossy().into_owned()).filter(|p| p != "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Text, scan_text};
    use crate::fabric::LinkKind;
    use crate::units::Rate;

    /// Two GPUs under one switch, as two documents of their own show them.
    const PAIR: &str = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n";

    fn found(source: &str, text: &str) -> Found {
        scan_text(&Text::new(source, text.as_bytes()))
    }

    #[test]
    fn refused_atomics_and_nvlink_are_no_refused_access() {
        let matrix = |letter: char, cell: &str| {
            let rows = format!(" \tGPU0\tGPU1\n GPU0\tX\t{cell}\n GPU1\t{cell}\tX\n");
            format!("$ nvidia-smi topo -p2p {letter}\n{rows}\n")
        };
        let mut all = found("topo", PAIR);
        all.append(found("p2p", &[matrix('a', "NS"), matrix('n', "NS"), matrix('r', "OK")].concat()));
        assert_eq!(all.evidence.len(), 4);
        let machines = assemble(all);
        assert_eq!(machines.len(), 1);
        assert_eq!(machines[0].p2p.values().collect::<Vec<_>>(), [&P2pStatus::Ok; 2]);
    }

    #[test]
    fn a_gpu_on_its_cpus_c2c_takes_it_to_memory() {
        let xml = r#"<system version="1">
  <cpu numaid="0" affinity="ff" arch="arm64">
    <pci busid="0009:01:00.0" class="0x030200" link_speed="2.5 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="90"><c2c bw="40000" count="10"/></gpu>
    </pci>
  </cpu>
</system>
"#;
        let machines = assemble(found("x", xml));
        let fabric = &machines[0].fabric;
        let path = fabric.path(fabric.find("GPU0").unwrap(), fabric.find("host0").unwrap()).unwrap();
        let first = fabric.link(path.hops[0].link);
        assert_eq!(first.kind, LinkKind::C2c { rate: Some(Rate::from_gb(400.0)) });
    }

    #[test]
    fn a_warning_about_a_whole_source_goes_to_the_machine_that_it_describes() {
        let mut all = found("a", PAIR);
        all.append(found("b", &PAIR.replace("PIX", "SYS")));
        let origin = Origin { source: "b".into(), tool: "test", lines: None };
        all.warnings.push(Warning { origin: Some(origin), message: "odd".to_owned() });
        let warned: Vec<usize> = assemble(all).iter().map(|m| m.warnings.len()).collect();
        assert_eq!(warned, [0, 1]);
    }

    #[test]
    fn machines_below_one_heading_are_counted() {
        let fabric = || Machine::new("", MachineKind::Captured, Fabric::default());
        let mut machines = vec![fabric(), fabric()];
        let evidence = |label: &str| {
            let settings = [("label".to_owned(), label.to_owned())].into();
            let origin = Origin { source: "t".into(), tool: "test", lines: None };
            vec![Evidence { origin, fact: Fact::Curve(crate::evidence::Curve { settings, ..Default::default() }) }]
        };
        machines[0].evidence = evidence("box");
        machines[1].evidence = evidence("box");
        machines.push(fabric());
        machines[2].evidence = evidence("box (2)");
        name(&mut machines, &[]);
        let names: Vec<&str> = machines.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["box", "box (2)", "box (2) (2)"]);
    }
}
