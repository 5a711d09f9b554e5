//! Whether a machine that a text shows is one that the catalogue has.
//!
//! Numbers printed with two decimals are a fingerprint: where a matrix is cell for cell that of a catalogue system, the text shows
//! that system. Without numbers, the same products at the same paths show its design.

use std::sync::{LazyLock, OnceLock};

use peerlane_machine::fabric::{LinkKind, NodeKind, PathClass};
use peerlane_machine::fact::RateRow;
use peerlane_machine::machine::{Machine, MachineKind, Recognized, RecognizedBy};
use peerlane_machine::matrix::Matrix;
use peerlane_machine::units::Rate;

use crate::catalogue::{Parts, system, system_names, system_text};

/// Cells of a matrix that agree by chance, at most.
const FEW: usize = 6;

/// Share of a matrix's cells that agree: a document may round, or misprint one.
const SHARE: f64 = 0.95;

/// How far two prints of one number differ.
const ROUNDING: f64 = 0.002;

/// The catalogue system that a machine is, if it is one.
pub(super) fn recognized(machine: &Machine) -> Option<Recognized> {
    if machine.kind != MachineKind::Captured {
        return None;
    }
    // most texts have no table of rates, and need no catalogue for it
    if !machine.rates.is_empty()
        && let Some(system) = systems().find(|system| has_rates(system, machine))
    {
        return Some(Recognized { system: system.name.clone(), by: RecognizedBy::Numbers });
    }
    if !machine.matrices.is_empty() {
        let by_numbers = systems().map(|system| (agreeing(machine, system), system));
        if let Some((_, system)) = by_numbers.max_by_key(|(cells, _)| *cells).filter(|(cells, _)| *cells > FEW) {
            return Some(Recognized { system: system.name.clone(), by: RecognizedBy::Numbers });
        }
    }
    // what states its links needs no catalogue
    if machine.stated_classes.is_none() || !has_open_links(machine) {
        return None;
    }
    let parts = parts_of_gpus(machine).filter(|parts| parts.len() > 1)?;
    let mut alike = systems_with(&parts).filter(|system| is_alike(machine, &parts, system));
    let only = alike.next().filter(|_| alike.next().is_none())?;
    Some(Recognized { system: only.name.clone(), by: RecognizedBy::Design })
}

/// Whether all rates that a text states of a machine, in two cells at least, are among those of a system, under the same words.
fn has_rates(system: &Machine, machine: &Machine) -> bool {
    fn rows(machine: &Machine) -> impl Iterator<Item = &RateRow> {
        machine.rates.iter().flat_map(|(table, _)| &table.rows)
    }
    let is_rate = |(a, b): (&Option<Rate>, &Option<Rate>)| match (a, b) {
        (Some(a), Some(b)) => (a.gb() - b.gb()).abs() <= ROUNDING * b.gb(),
        (a, b) => a.is_none() && b.is_none(),
    };
    let is_row = |a: &RateRow, b: &RateRow| {
        a.words == b.words && a.rates.len() == b.rates.len() && a.rates.iter().zip(&b.rates).all(is_rate)
    };
    let cells: usize = rows(machine).map(|row| row.rates.iter().flatten().count()).sum();
    cells >= 2 && rows(machine).all(|row| rows(system).any(|other| is_row(row, other)))
}

/// Gives a machine of which a text has only numbers the devices and links of the system whose numbers they are.
pub(super) fn adopt(machine: &mut Machine) {
    let Some(Recognized { system, by: RecognizedBy::Numbers }) = &machine.recognized else { return };
    if !machine.fabric.nodes().is_empty() {
        return;
    }
    let Some(known) = systems().find(|known| known.name == *system) else { return };
    let sentence = format!("devices and links are those of {system} in the catalogue, whose numbers these are");
    machine.fabric = known.fabric.clone();
    machine.p2p = known.p2p.clone();
    machine.statements = known.statements.clone();
    machine.assumptions = std::iter::once(sentence).chain(known.assumptions.iter().cloned()).collect();
}

/// Whether the width of a PCIe link is not known.
fn has_open_links(machine: &Machine) -> bool {
    let open = |kind: &LinkKind| matches!(kind, LinkKind::Pcie { running, .. } if running.raw_rate().is_none());
    machine.fabric.links().iter().any(|link| open(&link.kind))
}

/// A system of the catalogue, once it was asked for; `None` where its file is wrong.
type Read = OnceLock<Option<Machine>>;

/// The systems of the catalogue of some names, each read when it is first asked for.
fn systems_named(is_asked: impl Fn(&str) -> bool) -> impl Iterator<Item = &'static Machine> {
    static READ: LazyLock<Vec<(&str, Read)>> =
        LazyLock::new(|| system_names().map(|name| (name, OnceLock::new())).collect());
    let asked = READ.iter().filter(move |(name, _)| is_asked(name));
    asked.filter_map(|(name, read)| read.get_or_init(|| system(name)?.ok()).as_ref())
}

fn systems() -> impl Iterator<Item = &'static Machine> {
    systems_named(|_| true)
}

/// Those whose description names all of these parts; no other is read.
fn systems_with(parts: &[String]) -> impl Iterator<Item = &'static Machine> {
    systems_named(|name| system_text(name).is_some_and(|text| parts.iter().all(|part| text.contains(part.as_str()))))
}

/// How many cells of a machine's matrices are those of a system's, in matrices that agree as a whole.
fn agreeing(machine: &Machine, system: &Machine) -> usize {
    let of = |matrix: &Matrix| {
        let same = system.matrices.iter().map(|other| agree(matrix, &other.matrix));
        same.max().unwrap_or(0)
    };
    machine.matrices.iter().map(|measured| of(&measured.matrix)).sum()
}

/// The cells that two matrices of one kind share; 0 where they are others. Diagonals may be left out.
fn agree(a: &Matrix, b: &Matrix) -> usize {
    let kind = |m: &Matrix| (m.quantity, m.direction, m.p2p.unwrap_or(true), m.unit, m.rows.len(), m.cols.len());
    if kind(a) != kind(b) {
        return 0;
    }
    let pairs = a.values.iter().flatten().zip(b.values.iter().flatten());
    let (mut same, mut all) = (0_usize, 0_usize);
    for (x, y) in pairs.filter_map(|(x, y)| x.zip(*y)) {
        all += 1;
        same += usize::from((x - y).abs() <= ROUNDING * x.abs().max(y.abs()));
    }
    if same as f64 >= SHARE * all as f64 { same } else { 0 }
}

/// The parts of all GPUs, in order; `None` where one is not known.
fn parts_of_gpus(machine: &Machine) -> Option<Vec<String>> {
    let part = |gpu| {
        let node = machine.fabric.node(gpu);
        let by_product = || Some(Parts::embedded().of_node(NodeKind::Gpu, node.product.as_deref())?.name.clone());
        node.part.clone().or_else(by_product)
    };
    machine.fabric.of_kind(NodeKind::Gpu).map(part).collect()
}

/// Whether a machine with GPUs of these parts has the NICs of a system, and the same paths between its GPUs.
fn is_alike(machine: &Machine, parts: &[String], system: &Machine) -> bool {
    let classes = |m: &Machine| -> Option<Vec<Option<PathClass>>> {
        m.stated_classes.as_ref()?;
        let gpus: Vec<_> = m.fabric.of_kind(NodeKind::Gpu).collect();
        Some(gpus.iter().flat_map(|a| gpus.iter().map(|b| m.fabric.class(*a, *b)).collect::<Vec<_>>()).collect())
    };
    let nics = |m: &Machine| m.fabric.of_kind(NodeKind::Nic).count();
    nics(machine) == nics(system)
        && parts_of_gpus(system).is_some_and(|parts_of| parts_of == parts)
        && classes(machine).is_some_and(|classes_of| Some(classes_of) == classes(system))
}

#[cfg(test)]
mod tests {
    use super::super::assemble;
    use super::*;
    use crate::evidence::{Text, scan_text};

    fn of(text: &str) -> Option<Recognized> {
        assemble(scan_text(&Text::new("post.txt", text.as_bytes()))).remove(0).recognized
    }

    #[test]
    fn rates_of_a_system_give_its_devices_and_others_do_not() {
        let table = |read: f64| {
            let head = "K20 BAR1\tConnectX-3 GPU Read\tGPU Write";
            format!("{head}\nTylesburg Gen2\t{read} GB/s\t3.2 GB/s\nSandy Bridge Gen3\t0.8 GB/s\t5 GB/s\n")
        };
        let machines = |text: &str| assemble(scan_text(&Text::new("post.txt", text.as_bytes())));
        let known = machines(&table(1.4)).remove(0);
        assert_eq!(known.recognized.as_ref().map(|r| r.system.as_str()), Some("k20-cx3-tylersburg"));
        assert_eq!(known.fabric.of_kind(NodeKind::Nic).count(), 1);
        assert!(known.assumptions[0].contains("k20-cx3-tylersburg"), "{:?}", known.assumptions);
        let other = machines(&table(1.3)).remove(0);
        assert!(other.recognized.is_none() && other.fabric.nodes().is_empty());
    }

    /// A matrix of a catalogue system as a program prints it, each number times `factor`.
    fn printed(name: &str, factor: f64) -> String {
        let machine = system(name).unwrap().unwrap();
        let matrix = &machine.matrices[0].matrix;
        let mut text = "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n   D\\D".to_owned();
        (0..matrix.cols.len()).for_each(|j| text.push_str(&format!(" {j:>6}")));
        for (i, row) in matrix.values.iter().enumerate() {
            text.push_str(&format!("\n {i:>5}"));
            row.iter()
                .for_each(|v| text.push_str(&v.map_or("      X".to_owned(), |v| format!(" {:>6.2}", v * factor))));
        }
        text + "\n"
    }

    #[test]
    fn a_matrix_of_the_catalogue_names_its_system() {
        for name in ["exxact-devbox", "exxact-txr430"] {
            let found = of(&printed(name, 1.0)).unwrap();
            assert_eq!((found.system.as_str(), found.by), (name, RecognizedBy::Numbers));
        }
        assert_eq!(of(&printed("exxact-devbox", 1.01)), None, "another run of another machine");
    }
}
