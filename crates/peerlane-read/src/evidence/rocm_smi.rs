//! `rocm-smi --showtopo`: link types between AMD GPUs, and their NUMA nodes; with `--showproductname`, `--showbus` and
//! `--showhw` what they are and where.
//!
//! `XGMI` is printed of pairs too that reach each other over other GPUs, with one hop: the weight alone tells. The kernel
//! gives 15 to each hop (`kfd_crat.c`: `weight_xgmi = 15 * amdgpu_xgmi_get_hops_count`), so that more than 15 is no link.
//! A `PCIE` link of three hops leads between NUMA nodes; one of two may cross a switch or a root complex, and has no class.

use std::collections::BTreeMap;

use super::words::{gpu_number, key_value, numbered, words};
use super::{ClassMatrix, Fact, Found, GpuFacts, Text};
use peerlane_machine::fabric::{CpuList, PathClass};

const TOOL: &str = "rocm-smi";

/// More GPUs than any machine has.
const MAX_GPUS: usize = 512;

/// The kernel's weight of one hop over xGMI.
pub(super) const HOP: u32 = 15;

/// Hops of a PCIe link between NUMA nodes; 2 is one within a node (AMD, *AMD SMI CLI tool*, hops and weight).
const HOPS_BETWEEN_NODES: u32 = 3;

/// The class of a link by its type, weight and hops, where they tell it.
pub(super) fn class_of(kind: &str, weight: Option<u32>, hops: Option<u32>) -> Option<PathClass> {
    match kind {
        "XGMI" if is_relayed(weight) => None,
        "XGMI" => Some(PathClass::XGMI),
        "PCIE" if hops == Some(HOPS_BETWEEN_NODES) => Some(PathClass::Sys),
        _ => None,
    }
}

/// Whether a pair called XGMI has no link of its own.
pub(super) fn is_relayed(weight: Option<u32>) -> bool {
    weight.is_some_and(|w| w > HOP && w % HOP == 0)
}

/// What is to be said of pairs without a link of their own.
pub(super) fn relayed_message(pairs: usize) -> String {
    format!(
        "{pairs} of the pairs called XGMI have a weight above {HOP}: they reach each other over other GPUs, and no link of \
         their own is drawn"
    )
}

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut output = Output::default();
    for (i, line) in text.iter() {
        match title(line) {
            Some(title) if title.contains("ROCm System Management Interface") => output.finish(text, found),
            Some(title) if title.contains("End of ROCm SMI Log") => output.finish(text, found),
            Some(title) => output.begin(text, i, title, found),
            None => output.take(i, line),
        }
    }
    output.finish(text, found);
}

/// The words of `======= Link Type between two GPUs =======`.
fn title(line: &str) -> Option<&str> {
    let line = line.trim();
    let title = line.trim_matches('=').trim();
    (line.starts_with("===") && line.ends_with("===") && !title.is_empty()).then_some(title)
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Other,
    Weight,
    Hops,
    LinkType,
    Numa,
    Product,
    Bus,
    Hardware,
}

/// One run of the tool.
#[derive(Default)]
struct Output {
    section: Section,
    lines: Option<(usize, usize)>,
    matrix: ClassMatrix,
    /// Cells whose way is not told.
    pcie: usize,
    /// Cells of pairs that reach each other over others.
    relayed: usize,
    /// Cells that are there.
    filled: usize,
    numa: BTreeMap<u32, CpuList>,
    weights: Costs,
    hops: Costs,
    /// Product and address by number, and where they stand.
    gpus: BTreeMap<u32, GpuFacts>,
    gpu_lines: Option<(usize, usize)>,
}

/// A table of numbers between GPUs.
#[derive(Default)]
struct Costs {
    cols: Vec<String>,
    values: BTreeMap<(String, String), u32>,
}

impl Costs {
    fn take(&mut self, line: &str) {
        let row: Vec<&str> = words(line).map(|w| w.text).collect();
        let Some((label, cells)) = row.split_first().filter(|(label, _)| gpu_number(label).is_some()) else { return };
        if self.cols.is_empty() {
            if row.len() <= MAX_GPUS && row.iter().all(|w| gpu_number(w).is_some()) {
                self.cols = row.iter().map(|&w| w.to_owned()).collect();
            }
            return;
        }
        let cells = self.cols.iter().zip(cells).filter_map(|(col, cell)| Some((col, cell.parse().ok()?)));
        self.values.extend(cells.map(|(col, value)| (((*label).to_owned(), col.clone()), value)));
    }

    fn of(&self, row: &str, col: &str) -> Option<u32> {
        self.values.get(&(row.to_owned(), col.to_owned())).copied()
    }
}

impl Output {
    fn begin(&mut self, text: &Text, i: usize, title: &str, found: &mut Found) {
        self.section = match title {
            "Link Type between two GPUs" => Section::LinkType,
            "Numa Nodes" => Section::Numa,
            "Weight between two GPUs" => Section::Weight,
            "Hops between two GPUs" => Section::Hops,
            "Product Info" => Section::Product,
            "PCI Bus ID" => Section::Bus,
            "Concise Hardware Info" => Section::Hardware,
            _ => Section::Other,
        };
        match self.section {
            Section::Weight => self.weights = Costs::default(),
            Section::Hops => self.hops = Costs::default(),
            _ => {}
        }
        if self.section == Section::LinkType {
            if !self.matrix.rows.is_empty() {
                self.finish(text, found);
                self.section = Section::LinkType;
            }
            self.lines = Some((i, i));
        }
    }

    fn take(&mut self, i: usize, line: &str) {
        let took = match self.section {
            Section::Other => false,
            Section::Weight => {
                self.weights.take(line);
                false
            }
            Section::Hops => {
                self.hops.take(line);
                false
            }
            Section::LinkType => self.take_row(line),
            Section::Numa => self.take_numa(line),
            Section::Product | Section::Bus | Section::Hardware => {
                if self.take_gpu(line) {
                    self.gpu_lines = Some((self.gpu_lines.map_or(i, |(first, _)| first), i));
                }
                false
            }
        };
        if let Some((_, last)) = self.lines.as_mut().filter(|_| took) {
            *last = i;
        }
    }

    /// `GPU[0] : Card series: …`, `GPU[0] : PCI Bus: 0000:29:00.0`, and the rows of `--showhw`, which end in the address.
    fn take_gpu(&mut self, line: &str) -> bool {
        let row: Vec<&str> = words(line).map(|w| w.text).collect();
        let told = match (self.section, row.as_slice()) {
            (Section::Hardware, [number, .., bus]) => {
                number.parse().ok().zip(bus.parse().ok()).map(|(n, address)| (n, Some(address), None))
            }
            _ => key_value(line).and_then(|(gpu, rest)| {
                let number = numbered(gpu.strip_prefix("GPU")?.trim_matches(['[', ']', ' ']), "")?;
                let (key, value) = key_value(rest)?;
                match key.to_ascii_lowercase().as_str() {
                    "card series" => Some((number, None, Some(value.to_owned()))),
                    "pci bus" => Some((number, value.parse().ok(), None)),
                    _ => None,
                }
            }),
        };
        let Some((number, address, name)) = told.filter(|_| self.gpus.len() < MAX_GPUS) else { return false };
        let gpu = self.gpus.entry(number).or_default();
        gpu.index = Some(number);
        gpu.address = address.or(gpu.address);
        gpu.name = name.filter(|n| !n.is_empty() && n != "N/A").or(gpu.name.take());
        true
    }

    fn take_row(&mut self, line: &str) -> bool {
        let row: Vec<&str> = words(line).map(|w| w.text).collect();
        let Some((label, cells)) = row.split_first().filter(|(label, _)| gpu_number(label).is_some()) else {
            return false;
        };
        if self.matrix.cols.is_empty() {
            let header = row.len() <= MAX_GPUS && row.iter().all(|w| gpu_number(w).is_some());
            self.matrix.cols = row.iter().filter(|_| header).map(|&w| w.to_owned()).collect();
            return header;
        }
        let index = self.matrix.rows.len();
        let cols = self.matrix.cols.len();
        if cells.is_empty() || index >= cols || self.matrix.rows.iter().any(|r| r == label) {
            return false;
        }
        let mut classes = Vec::with_capacity(cols);
        for (cell, col) in cells.iter().zip(&self.matrix.cols) {
            let weight = self.weights.of(label, col);
            let class = class_of(cell, weight, self.hops.of(label, col));
            self.pcie += usize::from(*cell == "PCIE" && class.is_none());
            self.relayed += usize::from(*cell == "XGMI" && is_relayed(weight));
            classes.push(if *cell == "0" && label == col { Some(PathClass::Same) } else { class });
        }
        self.filled += classes.len();
        self.matrix.rows.push((*label).to_owned());
        self.matrix.cells.push(classes);
        true
    }

    /// `GPU[0]          : (Topology) Numa Affinity: 1`, and older `GPU 0 : …`.
    fn take_numa(&mut self, line: &str) -> bool {
        let Some((gpu, rest)) = key_value(line) else { return false };
        let number = gpu.strip_prefix("GPU").map(|n| n.trim_matches(['[', ']', ' ']));
        let Some(number) = number.and_then(|n| numbered(n, "")) else { return false };
        let value = rest.split_once("Numa Affinity:").or_else(|| rest.split_once("Numa Node:"));
        // an affinity of -1 says that there is none
        if let Some(node) = value.and_then(|(_, node)| node.trim().parse().ok()) {
            self.numa.insert(number, node);
        }
        value.is_some()
    }

    /// Pushes what was read and starts anew.
    fn finish(&mut self, text: &Text, found: &mut Found) {
        let Output { lines, mut matrix, pcie, relayed, filled, numa, gpus, gpu_lines, .. } = std::mem::take(self);
        if let Some((first, last)) = gpu_lines {
            found.push(text, TOOL, text.numbers(first, last), Fact::Gpus(gpus.into_values().collect()));
        }
        let Some((first, last)) = lines.filter(|_| !matrix.rows.is_empty()) else { return };
        let lines = text.numbers(first, last);
        let size = matrix.cols.len() * matrix.cols.len();
        if pcie > 0 {
            let message = "rocm-smi does not say which way a PCIE link takes: those classes are unknown; \
                           add `lspci -tv` or an lstopo XML file";
            found.warn(text, TOOL, lines, message);
        }
        if filled < size {
            found.warn(text, TOOL, lines, "rows or cells are missing: the capture is cut");
        }
        // also keeps memory in proportion to the text
        if filled * 4 < matrix.rows.len() * matrix.cols.len() {
            return;
        }
        for row in &mut matrix.cells {
            row.resize(matrix.cols.len(), None);
        }
        if relayed > 0 {
            found.warn(text, TOOL, lines, relayed_message(relayed / 2));
        }
        let node = |row: &String| gpu_number(row).and_then(|n| numa.get(&n).cloned());
        matrix.numa_affinity = matrix.rows.iter().map(node).collect();
        matrix.cpu_affinity = vec![None; matrix.rows.len()];
        matrix.gpu_numa = vec![None; matrix.rows.len()];
        found.push(text, TOOL, lines, Fact::Classes(matrix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(text: &str) -> Found {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        found
    }

    const TEXT: &str = "======== ROCm System Management Interface ========
======== Weight between two GPUs ========
       GPU0         GPU1         GPU2
GPU0   0            15           40
GPU1   15           0            40
GPU2   40           40           0

======== Link Type between two GPUs ========
       GPU0         GPU1         GPU2
GPU0   0            XGMI         PCIE
GPU1   XGMI         0            PCIE
GPU2   PCIE         PCIE         0

======== Numa Nodes ========
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 0
GPU[1]\t\t: (Topology) Numa Node: 1
GPU[1]\t\t: (Topology) Numa Affinity: 3
GPU[2]\t\t: (Topology) Numa Affinity: -1
======== End of ROCm SMI Log ========
";

    #[test]
    fn link_types_and_nodes() {
        let found = scanned(&format!("{TEXT}{TEXT}"));
        assert_eq!((found.evidence.len(), found.warnings.len()), (2, 2));
        assert_eq!(found.evidence[0].origin.lines, Some((8, 19)));
        let Fact::Classes(m) = &found.evidence[0].fact else { panic!() };
        assert_eq!(m.between("GPU0", "GPU1"), Some(PathClass::XGMI));
        assert_eq!(m.between("GPU0", "GPU2"), None);
        assert_eq!(m.cell("GPU2", "GPU2"), Some(PathClass::Same));
        assert_eq!(m.numa_affinity, [Some("0".parse().unwrap()), Some("3".parse().unwrap()), None]);
    }

    #[test]
    fn weights_alone_say_no_class() {
        let cut: String = TEXT.lines().take(6).map(|l| format!("{l}\n")).collect();
        assert_eq!(scanned(&cut), Found::default());
    }

    #[test]
    fn a_weight_of_several_hops_is_no_link() {
        let far =
            TEXT.replace("GPU0   0            15 ", "GPU0   0            30 ").replace("GPU1   15  ", "GPU1   30  ");
        let found = scanned(&far);
        let Fact::Classes(m) = &found.evidence[0].fact else { panic!() };
        assert_eq!(m.between("GPU0", "GPU1"), None);
        assert!(found.warnings[1].message.starts_with("1 of the pairs"), "{:?}", found.warnings);
    }

    #[test]
    fn products_and_addresses() {
        let text = "==== ROCm System Management Interface ====\n==== Product Info ====\n\
                    GPU[0]\t\t: Card series: \t\tAMD Instinct MI250X\nGPU[0]\t\t: Card model: \t\t0x0b0c\n\
                    ==== PCI Bus ID ====\nGPU[0]\t\t: PCI Bus: 0000:C1:00.0\n==== End of ROCm SMI Log ====\n";
        let Fact::Gpus(gpus) = &scanned(text).evidence[0].fact else { panic!() };
        assert_eq!((gpus[0].index, gpus[0].name.as_deref()), (Some(0), Some("AMD Instinct MI250X")));
        assert_eq!(gpus[0].address.unwrap().to_string(), "0000:c1:00.0");
    }

    #[test]
    fn hops_tell_a_pcie_link_between_nodes() {
        let hops =
            "======== Hops between two GPUs ========\n       GPU0 GPU1 GPU2\nGPU0 0 1 3\nGPU1 1 0 2\nGPU2 3 2 0\n\n";
        let found = scanned(&TEXT.replace("======== Link Type", &format!("{hops}======== Link Type")));
        let Fact::Classes(m) = &found.evidence[0].fact else { panic!() };
        assert_eq!((m.between("GPU0", "GPU2"), m.between("GPU1", "GPU2")), (Some(PathClass::Sys), None));
    }
}
