//! `rocm-smi --showtopo`, and `hy-smi` with the same sections: link types between GPUs, and their NUMA nodes; with `--showproductname`, `--showbus` and
//! `--showhw` what they are and where; without options the table of their states, of all releases.

use std::collections::BTreeMap;

use super::amd_links::{Table, Tables};
use super::health::Health;
use super::text::Span;
use super::words::{gpu_number, key_value, words};
use super::{ClassMatrix, Fact, Found, GpuFacts, Text};
use peerlane_machine::fabric::{CpuList, PciAddress};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "rocm-smi";

/// More GPUs than any machine has.
const MAX_GPUS: usize = 512;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut output = Output::default();
    for (i, line) in text.iter() {
        match title(line) {
            Some(title) if title.contains("System Management Interface") => output.finish(text, found),
            Some(title) if title.starts_with("End of ") => output.finish(text, found),
            Some(title) => output.begin(text, i, title, found),
            None => output.add(i, line),
        }
    }
    output.finish(text, found);
}

/// Whether a row of the table of states has nothing but `N/A` and zeros behind its number.
fn is_without_values(row: &[&str]) -> bool {
    let is_none = |word: &&str| matches!(*word, "N/A" | "N/A," | "0%" | "None" | "unknown");
    row.iter().skip(1).all(is_none) && row.iter().filter(|word| word.starts_with("N/A")).count() >= 3
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
    Hardware,
    Concise,
}

/// One run of the tool.
#[derive(Default)]
struct Output {
    section: Section,
    lines: Span,
    tables: Tables,
    numa: BTreeMap<u32, CpuList>,
    /// Product and address by number, and where they stand.
    gpus: BTreeMap<u32, GpuFacts>,
    gpu_lines: Span,
    /// Rows without a value, of adapters that are no GPUs of AMD's.
    without: Vec<(u32, usize)>,
    /// The GPU of the last row of the table of states, and its line.
    last_row: Option<(u32, usize)>,
}

impl Output {
    fn begin(&mut self, text: &Text, i: usize, title: &str, found: &mut Found) {
        // `GPUs`, and what makers of the same tool call theirs
        let between = title.split_once(" between two ").map_or(title, |(what, _)| what);
        self.section = match between {
            "Link Type" => Section::LinkType,
            "Numa Nodes" => Section::Numa,
            "Weight" => Section::Weight,
            "Hops" => Section::Hops,
            "Product Info" | "PCI Bus ID" => Section::Product,
            "Concise Hardware Info" => Section::Hardware,
            _ => Section::Other,
        };
        match self.section {
            Section::Weight => self.tables.weights = Table::default(),
            Section::Hops => self.tables.hops = Table::default(),
            Section::LinkType => {
                if !self.tables.links.rows.is_empty() {
                    self.finish(text, found);
                    self.section = Section::LinkType;
                }
                self.lines = Span::default();
                self.lines.add(i);
            }
            _ => {}
        }
    }

    fn add(&mut self, i: usize, line: &str) {
        let row: Vec<&str> = words(line).map(|w| w.text).collect();
        let name = |word: &str| gpu_number(word).is_some();
        if is_concise_header(&row) {
            self.section = Section::Concise;
        }
        let section = self.section;
        match section {
            Section::Weight => {
                self.tables.weights.add(&row, name);
            }
            Section::Hops => {
                self.tables.hops.add(&row, name);
            }
            Section::LinkType if self.tables.links.add(&row, name) => self.lines.extend(i),
            Section::Numa if self.add_numa(line) => self.lines.extend(i),
            Section::Product if self.add_product(line) => self.gpu_lines.add(i),
            Section::Hardware if self.add_hardware(&row) => self.gpu_lines.add(i),
            Section::Concise if self.add_concise(i, &row) || self.add_name_below(i, line) => self.gpu_lines.add(i),
            _ => {}
        }
    }

    /// `GPU[0] : Card series: …`, `GPU[0] : PCI Bus: 0000:29:00.0`.
    fn add_product(&mut self, line: &str) -> bool {
        let Some((number, rest)) = of_gpu(line) else { return false };
        let Some((key, value)) = key_value(rest) else { return false };
        match key.to_ascii_lowercase().as_str() {
            "card series" => self.add_gpu(number, None, Some(value)),
            "pci bus" => self.add_gpu(number, value.parse().ok(), None),
            _ => false,
        }
    }

    /// A row of `--showhw`, which ends in the address.
    fn add_hardware(&mut self, row: &[&str]) -> bool {
        let [number, .., bus] = row else { return false };
        let (Ok(number), Ok(address)) = (number.parse(), bus.parse()) else { return false };
        self.add_gpu(number, Some(address), None)
    }

    /// `0  1  0x740c, 54991  38.0°C  88.0W  N/A, N/A, 0  800Mhz  1600Mhz  0%  auto  560.0W  0%  0%`, and rows of older releases: the
    /// first watts are what it takes, further ones its limit; the last percentage is its load.
    fn add_concise(&mut self, i: usize, row: &[&str]) -> bool {
        let number = row.first().and_then(|word| word.parse().ok());
        let all = |units: &[&str]| -> Vec<f64> {
            let value = |word: &&str| units.iter().find_map(|unit| word.strip_suffix(unit)?.parse().ok());
            row.iter().filter_map(value).collect()
        };
        let (heat, watts, shares) = (all(&["°C", "c", "C"]), all(&["W"]), all(&["%"]));
        if let Some(number) = number.filter(|_| heat.is_empty() && row.len() >= 5 && is_without_values(row)) {
            self.without.push((number, i));
        }
        let Some(number) = number.filter(|_| !heat.is_empty()) else { return false };
        if !self.add_gpu(number, None, None) {
            return false;
        }
        let gpu = self.gpus.entry(number).or_default();
        gpu.temperature = heat.first().copied();
        gpu.power = watts.first().copied();
        gpu.power_limit = watts.get(1).copied();
        // up to ROCm 2 the table ends with the overdrive, after one of the fan
        gpu.utilization = shares.last().copied().filter(|_| shares.len() > 2);
        self.last_row = Some((number, i));
        true
    }

    /// The product, indented right below the row of its GPU: `        AMD Instinct MI300X`.
    fn add_name_below(&mut self, i: usize, line: &str) -> bool {
        let name = line.trim();
        let is_name = line.starts_with([' ', '\t']) && name.chars().next().is_some_and(char::is_alphabetic);
        let row = self.last_row.filter(|(_, at)| is_name && i == at + 1);
        row.is_some_and(|(number, _)| self.add_gpu(number, None, Some(name)))
    }

    fn add_gpu(&mut self, number: u32, address: Option<PciAddress>, name: Option<&str>) -> bool {
        if self.gpus.len() >= MAX_GPUS {
            return false;
        }
        let gpu = self.gpus.entry(number).or_default();
        gpu.index = Some(number);
        gpu.address = address.or(gpu.address);
        let name = name.filter(|n| !n.is_empty() && *n != "N/A").map(str::to_owned);
        gpu.name = name.or(gpu.name.take());
        true
    }

    /// `GPU[0]          : (Topology) Numa Affinity: 1`, and older `GPU 0 : …`.
    fn add_numa(&mut self, line: &str) -> bool {
        let Some((number, rest)) = of_gpu(line) else { return false };
        let value = rest.split_once("Numa Affinity:").or_else(|| rest.split_once("Numa Node:"));
        // an affinity of -1 means that there is none
        if let Some(node) = value.and_then(|(_, node)| node.trim().parse().ok()) {
            self.numa.insert(number, node);
        }
        value.is_some()
    }

    /// Pushes what was read and starts anew.
    fn finish(&mut self, text: &Text, found: &mut Found) {
        let Output { lines, tables, numa, gpus, gpu_lines, without, .. } = std::mem::take(self);
        let mut health = Health::default();
        for (number, i) in without.into_iter().take(MAX_GPUS).filter(|_| !gpus.is_empty()) {
            let what = format!(
                "row {number} of rocm-smi has no values (N/A), as another display adapter of the machine has none"
            );
            health.trouble(Area::Program, Grade::Note, None, &what, "", i);
        }
        health.push(text, TOOL, found);
        if let Some(lines) = gpu_lines.numbers(text) {
            found.push(text, TOOL, lines, Fact::Gpus(gpus.into_values().collect()));
        }
        let Some(lines) = lines.numbers(text).filter(|_| !tables.links.rows.is_empty()) else { return };
        let Some(cells) = tables.classes(text, TOOL, lines, found) else { return };
        let Table { rows, cols, .. } = tables.links;
        let node = |row: &String| gpu_number(row).and_then(|n| numa.get(&n).cloned());
        let matrix = ClassMatrix {
            numa_affinity: rows.iter().map(node).collect(),
            cpu_affinity: vec![None; rows.len()],
            gpu_numa: vec![None; rows.len()],
            rows,
            cols,
            cells,
            ..ClassMatrix::default()
        };
        found.push(text, TOOL, lines, Fact::Classes(matrix));
    }
}

/// The head of the table of states: `GPU  Temp  AvgPwr …`, `Device  Node  IDs  Temp  Power …`.
fn is_concise_header(row: &[&str]) -> bool {
    matches!(row.first(), Some(&("GPU" | "Device")))
        && row.contains(&"Temp")
        && row.iter().any(|word| matches!(*word, "AvgPwr" | "Power" | "Pwr"))
}

/// The number of `GPU[0]` or `GPU 0` before the first colon, and what follows.
fn of_gpu(line: &str) -> Option<(u32, &str)> {
    let (gpu, rest) = key_value(line)?;
    Some((gpu_number(&gpu.replace(['[', ']', ' '], ""))?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fabric::PathClass;

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
    fn states_of_all_releases() {
        let old = "==== ROCm System Management Interface ====\n\
                    GPU  Temp    AvgPwr   SCLK     MCLK     Fan      Perf    SCLK OD\n\
                    \x20 1   67.0c   67.8W    1185Mhz  2120Mhz  88.63%   auto      0%\n\
                    \x20 0   71.0c   74.40W   1190Mhz  2150Mhz  88.63%   auto      0%\n";
        let new = "==== ROCm System Management Interface ====\n==== Concise Info ====\n\
                   Device  [Model : Revision]  Temp  Power  Partitions  SCLK  MCLK  Fan  Perf  PwrCap  VRAM%  GPU%\n\
                   \x20       Name (20 chars)  (Junction)  (Socket)  (Mem, Compute)\n==========\n\
                   0  [0x74a1 : 0x00]  45.0°C  173.0W  NPS1, SPX  132Mhz  900Mhz  0%  auto  750.0W  0%  7%\n\
                   \x20       AMD Instinct MI300X\n";
        let gpus = |text: &str| match scanned(text).evidence.into_iter().next().map(|e| e.fact) {
            Some(Fact::Gpus(gpus)) => gpus,
            other => panic!("{other:?}"),
        };
        let two = gpus(old);
        assert_eq!(
            (two.len(), two[1].temperature, two[1].power, two[1].utilization),
            (2, Some(67.0), Some(67.8), None)
        );
        let one = gpus(new);
        assert_eq!(one[0].name.as_deref(), Some("AMD Instinct MI300X"));
        assert_eq!((one[0].power, one[0].power_limit, one[0].utilization), (Some(173.0), Some(750.0), Some(7.0)));
        // what a shell or a job prints below is no product
        for below in ["user@node:~$ ls -l", "==========\n        job started here"] {
            assert!(gpus(&format!("{old}{below}\n")).iter().all(|gpu| gpu.name.is_none()), "{below}");
        }
    }

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
    fn another_makers_sections() {
        let text = TEXT.replace("GPU", "DCU").replace("ROCm System", "System").replace("ROCm SMI", "SMI");
        let found = scanned(&text);
        let [Fact::Classes(m)] = &found.evidence.iter().map(|e| e.fact.clone()).collect::<Vec<_>>()[..] else {
            panic!()
        };
        assert_eq!((m.between("DCU0", "DCU1"), m.between("DCU0", "DCU2")), (Some(PathClass::XGMI), None));
        assert_eq!(m.numa_affinity[1], Some("3".parse().unwrap()));
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
