//! Which machine of a document a remark in prose is about.

use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::fact::{Between, Claim, Remark};
use peerlane_machine::machine::{Machine, Statement};
use peerlane_machine::matrix::{Direction, Quantity, Unit};

use crate::evidence::Heading;

/// The name that statements give host memory.
const HOST: &str = "host";

/// Gives each remark to the machine that it is about. One on a document as a whole (its date, its CPUs) is about all of its
/// machines; another is about the machine of the section that it stands in, else about the only machine there is.
pub(super) fn attribute(machines: &mut [Machine], remarks: Vec<Remark>, sections: &[Heading]) {
    let cpus: Vec<&Claim> = remarks.iter().map(|r| &r.claim).filter(|c| matches!(c, Claim::Cpu(_))).collect();
    let one_cpu = cpus.windows(2).all(|pair| pair[0] == pair[1]);
    for remark in remarks {
        let of_source = |machine: &&mut Machine| {
            machine.evidence.iter().any(|evidence| evidence.origin.source == remark.origin.source)
        };
        let of_document = match &remark.claim {
            Claim::Year(_) => true,
            Claim::Cpu(_) if one_cpu => true,
            _ => false,
        };
        if of_document {
            machines.iter_mut().filter(of_source).for_each(|machine| machine.remarks.push(remark.clone()));
            continue;
        }
        let mut of_source: Vec<&mut Machine> = machines.iter_mut().filter(of_source).collect();
        let at = match of_source.as_slice() {
            [_] => Some(0),
            several => section(several, &remark, sections),
        };
        let Some(machine) = at.and_then(|at| of_source.get_mut(at)) else { continue };
        give(machine, remark);
    }
}

/// The machine whose name the nearest heading or label above a remark has.
fn section(machines: &[&mut Machine], remark: &Remark, sections: &[Heading]) -> Option<usize> {
    let line = remark.origin.lines?.0;
    let above = sections.iter().rev().filter(|s| s.source == remark.origin.source && s.line <= line);
    above.into_iter().find_map(|section| machines.iter().position(|machine| names(&section.text, &machine.name)))
}

/// Whether a heading names a machine: it is its name, or it has the machine's own word (`7gforce`, `az-2x-m60`), which may have two
/// letters swapped.
fn names(heading: &str, machine: &str) -> bool {
    let [heading, machine] = [heading, machine].map(str::to_lowercase);
    let word = machine.split_whitespace().next().unwrap_or_default();
    let own =
        word.len() >= 5 && word.bytes().any(|b| b.is_ascii_digit()) && word.bytes().any(|b| b.is_ascii_alphabetic());
    let mut words = heading.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'));
    let bare = heading.trim_matches(|c: char| "#`* :".contains(c));
    let is_label = heading.starts_with(['#', '`', '*']) || heading.ends_with(':');
    bare == machine.trim() || (own && is_label && words.any(|other| other == word || swapped(other, word)))
}

/// Whether two words differ by two neighbouring letters in the other order.
fn swapped(a: &str, b: &str) -> bool {
    let differing: Vec<usize> =
        a.bytes().zip(b.bytes()).enumerate().filter(|(_, (x, y))| x != y).map(|(i, _)| i).collect();
    let [i, j] = differing[..] else { return false };
    let (a, b) = (a.as_bytes(), b.as_bytes());
    a.len() == b.len() && j == i + 1 && a.get(i) == b.get(j) && a.get(j) == b.get(i)
}

/// Notes a remark on a machine, with those of its words that name GPUs of the machine; a rate becomes a statement.
fn give(machine: &mut Machine, mut remark: Remark) {
    let product = |id: NodeId| machine.fabric.node(id).product.as_deref().unwrap_or_default().to_lowercase();
    let gpus: Vec<(NodeId, String)> = machine.fabric.of_kind(NodeKind::Gpu).map(|id| (id, product(id))).collect();
    let named = |product: &str, word: &str| product.split_whitespace().any(|part| part.eq_ignore_ascii_case(word));
    remark.about.retain(|word| gpus.iter().any(|(_, product)| named(product, word)));
    if let Claim::Rate { between, low, high } = remark.claim {
        let about = |product: &str| remark.about.is_empty() || remark.about.iter().any(|word| named(product, word));
        let of_gpus = gpus.iter().filter(|(_, product)| about(product));
        let names: Vec<String> = of_gpus.map(|(id, _)| machine.fabric.node(*id).name.clone()).collect();
        let host = || vec![HOST.to_owned()];
        let ends = match between {
            Between::HostToGpu => vec![(host(), names)],
            Between::GpuToHost => vec![(names, host())],
            Between::HostAndGpu => vec![(host(), names.clone()), (names, host())],
            Between::Gpus => vec![(names.clone(), names)],
        };
        let ends = ends.into_iter().filter(|(from, to)| !from.is_empty() && !to.is_empty());
        machine.statements.extend(ends.map(|(from, to)| Statement {
            text: remark.origin.to_string(),
            quantity: Quantity::Bandwidth,
            direction: Some(Direction::Unidirectional),
            p2p: None,
            from,
            to,
            low,
            high,
            unit: Unit::GigabytesPerSecond,
        }));
    }
    machine.remarks.push(remark);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Text, scan_text};

    const TWO: &str = "\
# rig-one

the cables are just x1 links
host to device: 0.7 GB/s

```
        GPU0    GPU1    CPU Affinity
GPU0     X      PHB     0-7
GPU1    PHB      X      0-7
```

# rig-two

P2P is not allowed

```
        GPU0    GPU1    GPU2    CPU Affinity
GPU0     X      PIX     PIX     0-7
GPU1    PIX      X      PIX     0-7
GPU2    PIX     PIX      X      0-7
```
";

    #[test]
    fn a_remark_is_about_the_machine_of_its_section() {
        let machines = super::super::assemble(scan_text(&Text::new("two.md", TWO.as_bytes())));
        let claims = |i: usize| machines[i].remarks.iter().map(|r| r.claim.clone()).collect::<Vec<_>>();
        assert_eq!(machines.len(), 2);
        assert!(matches!(claims(0)[..], [Claim::Width(_), Claim::Rate { .. }]), "{:?}", claims(0));
        assert_eq!(claims(1), [Claim::PeerAccess { direct: false, across: false }]);
        let statement = &machines[0].statements[0];
        assert_eq!((statement.low, statement.from.len(), statement.to.len()), (0.7, 1, 2));
        assert_eq!(statement.text, "two.md:4 (prose)");
    }

    #[test]
    fn a_word_with_two_letters_swapped_is_the_same_word() {
        assert!(names("`rigone2`:", "rigone2 - a box") && names("rigoen2:", "rigone2"));
        assert!(!names("rigten2", "rigone2") && !names("Design 2", "Design 1: a box"));
    }
}
