//! One numbering of GPUs for a machine: CUDA programs count them fastest first, or only those that
//! `CUDA_VISIBLE_DEVICES` shows them, while `nvidia-smi` counts all by PCI address.
//!
//! Where addresses on both sides allow it, statements of a CUDA program about its device 0 are moved to the GPU that it means.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::evidence::tool;
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{Evidence, Fact, GpuFacts};
use peerlane_machine::names::gpu_number;
use peerlane_machine::origin::Warning;

use super::group::is_gpu_label;

/// Programs that print CUDA's device numbers.
const CUDA_PROGRAMS: [&str; 7] = [
    "p2pBandwidthLatencyTest",
    "bandwidthTest",
    "deviceQuery",
    "nvbandwidth",
    "nvbandwidth -j",
    "nccl-tests",
    // its numbers are the driver's, but of what a container shows it
    tool::NCCL_LOG,
];

/// Names by CUDA's number.
type Names = BTreeMap<u32, u32>;

/// Renames devices in statements of CUDA programs to `nvidia-smi`'s numbers, with a warning.
pub(super) fn renumber(evidence: &mut [Evidence]) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = Vec::new();
    let mut current: BTreeMap<(Arc<str>, &str), Names> = BTreeMap::new();
    let numbered = Numbering::of(evidence);
    // without a list of its own (bandwidthTest), a program has the same devices as the others of the source
    let mut last: BTreeMap<Arc<str>, Names> = BTreeMap::new();
    for one in evidence.iter_mut().filter(|e| CUDA_PROGRAMS.contains(&e.origin.tool)) {
        let run = (one.origin.source.clone(), one.origin.tool);
        if let Fact::Gpus(gpus) = &one.fact
            && gpus.iter().any(|g| g.address.is_some())
        {
            let names = numbered.names(gpus).unwrap_or_default();
            if names.iter().any(|(cuda, smi)| cuda != smi) {
                let list = |all: Vec<u32>| all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                let message = format!(
                    "{} numbers GPUs otherwise than nvidia-smi: its {} are GPUs {} here",
                    one.origin.tool,
                    list(names.keys().copied().collect()),
                    list(names.values().copied().collect()),
                );
                warnings.push(Warning::at(&one.origin, message));
            }
            last.insert(run.0.clone(), names.clone());
            current.insert(run.clone(), names);
        }
        let names = current.get(&run).or_else(|| last.get(&run.0));
        if let Some(names) = names.filter(|n| n.iter().any(|(cuda, smi)| cuda != smi)) {
            rename(&mut one.fact, names);
        }
    }
    warnings
}

/// What `nvidia-smi` calls the GPU at an address.
struct Numbering {
    by_address: BTreeMap<PciAddress, u32>,
    /// GPU numbers of the class matrix, whose order is that of addresses.
    of_matrix: Vec<u32>,
}

impl Numbering {
    fn of(evidence: &[Evidence]) -> Self {
        let mut all = Numbering { by_address: BTreeMap::new(), of_matrix: Vec::new() };
        for one in evidence {
            match &one.fact {
                Fact::Gpus(gpus) if tool::numbers_as_the_driver(one.origin.tool) => {
                    let known = gpus.iter().filter_map(|g| Some((g.address?, g.index?)));
                    all.by_address.extend(known);
                }
                Fact::Classes(m) if tool::numbers_as_the_driver(one.origin.tool) && all.of_matrix.is_empty() => {
                    all.of_matrix = m.cols.iter().filter_map(|c| gpu_number(c)).collect();
                    all.of_matrix.sort_unstable();
                }
                _ => {}
            }
        }
        all
    }

    /// CUDA's numbers with `nvidia-smi`'s; `None` where that is not certain for each of them.
    fn names(&self, gpus: &[GpuFacts]) -> Option<Names> {
        let known: Option<Vec<(u32, PciAddress)>> = gpus.iter().map(|g| Some((g.index?, g.address?))).collect();
        let known = known?;
        let addresses: BTreeSet<PciAddress> = known.iter().map(|(_, a)| *a).collect();
        let indices: BTreeSet<u32> = known.iter().map(|(i, _)| *i).collect();
        // ranks that each see one GPU all call it 0
        if addresses.len() < known.len() || indices.len() < known.len() {
            return None;
        }
        if known.iter().all(|(_, a)| self.by_address.contains_key(a)) {
            return known.iter().map(|(cuda, a)| Some((*cuda, *self.by_address.get(a)?))).collect();
        }
        let all = self.by_address.is_empty() && addresses.len() == self.of_matrix.len();
        let place = |a: &PciAddress| addresses.iter().position(|b| b == a);
        let number = |a: &PciAddress| self.of_matrix.get(place(a)?).copied();
        known.iter().filter(|_| all).map(|(cuda, a)| Some((*cuda, number(a)?))).collect::<Option<Names>>()
    }
}

fn rename(fact: &mut Fact, names: &Names) {
    let label = |name: &mut String| {
        if is_gpu_label(name)
            && let Some(number) = gpu_number(name).and_then(|n| names.get(&n))
        {
            *name = format!("GPU{number}");
        }
    };
    match fact {
        Fact::Gpus(gpus) => {
            for gpu in gpus {
                gpu.index = gpu.index.map(|n| names.get(&n).copied().unwrap_or(n));
            }
        }
        Fact::Matrix(m) => m.rows.iter_mut().chain(&mut m.cols).for_each(label),
        Fact::P2p(m) => m.rows.iter_mut().chain(&mut m.cols).for_each(label),
        Fact::Curve(c) => c.ends.iter_mut().for_each(label),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::assemble::assemble;
    use crate::evidence::{Text, scan_text};
    use peerlane_machine::machine::Machine;

    const TOPO: &str = "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPHB\tSYS\nGPU1\tPHB\t X \tSYS\nGPU2\tSYS\tSYS\t X\n";

    fn machines(text: &str) -> Vec<Machine> {
        assemble(scan_text(&Text::new("t", text.as_bytes())))
    }

    fn run(buses: &[&str]) -> String {
        let device =
            |(i, bus): (usize, &&str)| format!("Device: {i}, Card, pciBusID: {bus}, pciDeviceID: 0, pciDomainID:0\n");
        let list: String = buses.iter().enumerate().map(device).collect();
        list + "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n D\\D 0 1\n 0 900 21\n 1 12 900\n"
    }

    #[test]
    fn the_order_of_addresses_is_that_of_nvidia_smi() {
        let all = machines(&format!("{TOPO}\n{}", run(&["c1", "41", "01"])));
        let [machine] = &all[..] else { panic!("{} machines", all.len()) };
        assert_eq!(machine.matrices[0].matrix.between("GPU2", "GPU1"), Some(21.0));
        assert_eq!(machine.matrices[0].matrix.between("GPU1", "GPU2"), Some(12.0));
        assert!(
            machine.warnings.iter().any(|w| w.message.contains("its 0, 1, 2 are GPUs 2, 1, 0")),
            "{:?}",
            machine.warnings
        );
        let gpu = machine.fabric.find("GPU2").unwrap();
        assert_eq!(machine.fabric.node(gpu).address.map(|a| a.to_string()).as_deref(), Some("0000:c1:00.0"));
        let straight = &machines(&format!("{TOPO}\n{}", run(&["01", "41", "c1"])))[0];
        assert_eq!((straight.warnings.len(), straight.matrices[0].matrix.rows[0].as_str()), (0, "GPU0"));
    }

    #[test]
    fn a_program_that_sees_some_gpus() {
        let table: String = (0..3)
            .map(|i| format!("|   {i}  Card   Off  | 00000000:{i}1:00.0 Off |  0 |\n| 0%  31C  P0  50W / 250W | 1MiB / 9MiB | 0% Default |\n"))
            .collect();
        let all = machines(&format!("{table}{TOPO}\n{}", run(&["11", "21"])));
        let [machine] = &all[..] else { panic!("{} machines", all.len()) };
        assert_eq!(machine.matrices[0].matrix.between("GPU1", "GPU2"), Some(21.0));
        let first = machines(&format!("{}\n{table}{TOPO}", run(&["11", "21"])));
        assert_eq!((first.len(), first[0].matrices[0].matrix.rows[0].as_str()), (1, "GPU1"));
        // another machine's addresses
        assert_eq!(machines(&format!("{table}{TOPO}\n{}", run(&["11", "61"]))).len(), 2);
    }
}
