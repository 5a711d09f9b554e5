//! `amd-smi topology`: link types between AMD GPUs, which it names by address, with weights and hops.

use std::collections::BTreeMap;

use super::rocm_smi::{class_of, is_relayed, relayed_message};
use super::words::words;
use super::{ClassMatrix, Fact, Found, GpuFacts, Text};
use peerlane_machine::fabric::{PathClass, PciAddress};

const TOOL: &str = "amd-smi topology";

/// More GPUs than any machine has.
const MAX_GPUS: usize = 512;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut output = Output::default();
    for (i, line) in text.iter() {
        if let Some(title) = line.trim().strip_suffix(" TABLE:") {
            // the first table again is another run
            if title == "ACCESS" || output.tables.contains_key(title) {
                std::mem::take(&mut output).finish(text, found);
            }
            output.table = Some(title.to_owned());
            output.tables.entry(title.to_owned()).or_default();
            output.seen(i);
        } else if output.table.is_some() {
            output.take(i, line);
        }
    }
    output.finish(text, found);
}

/// One table.
#[derive(Default)]
struct Table {
    cols: Vec<PciAddress>,
    cells: BTreeMap<(PciAddress, PciAddress), String>,
}

/// One run of the tool.
#[derive(Default)]
struct Output {
    table: Option<String>,
    tables: BTreeMap<String, Table>,
    lines: Option<(usize, usize)>,
}

impl Output {
    fn seen(&mut self, i: usize) {
        self.lines = Some((self.lines.map_or(i, |(first, _)| first), i));
    }

    fn take(&mut self, i: usize, line: &str) {
        let Some(table) = self.table.as_ref().and_then(|t| self.tables.get_mut(t)) else { return };
        let row: Vec<&str> = words(line).map(|w| w.text).collect();
        let Some((first, cells)) = row.split_first() else { return };
        let Some(label) = address(first) else {
            // a legend, or another section
            self.table = None;
            return;
        };
        if table.cols.is_empty() {
            let cols: Option<Vec<PciAddress>> = row.iter().map(|w| address(w)).collect();
            table.cols = cols.filter(|c| c.len() <= MAX_GPUS).unwrap_or_default();
        } else {
            let cells = table.cols.iter().zip(cells).map(|(col, cell)| ((label, *col), (*cell).to_owned()));
            table.cells.extend(cells);
        }
        self.seen(i);
    }

    fn finish(self, text: &Text, found: &mut Found) {
        let (Some((first, last)), Some(links)) = (self.lines, self.tables.get("LINK TYPE")) else { return };
        let lines = text.numbers(first, last);
        // also keeps memory in proportion to the text
        if links.cells.is_empty() || links.cells.len() * 4 < links.cols.len() * links.cols.len() {
            return;
        }
        let number = |table: &str, a: PciAddress, b: PciAddress| -> Option<u32> {
            self.tables.get(table)?.cells.get(&(a, b))?.parse().ok()
        };
        let (mut relayed, mut untold) = (0, 0);
        let mut cell = |a: PciAddress, b: PciAddress| {
            let kind = links.cells.get(&(a, b))?;
            let weight = number("WEIGHT", a, b);
            let class = if a == b { Some(PathClass::Same) } else { class_of(kind, weight, number("HOPS", a, b)) };
            relayed += usize::from(kind == "XGMI" && is_relayed(weight));
            untold += usize::from(kind == "PCIE" && class.is_none());
            class
        };
        let cells: Vec<Vec<Option<PathClass>>> =
            links.cols.iter().map(|a| links.cols.iter().map(|b| cell(*a, *b)).collect()).collect();
        let gpu = |(i, address): (usize, &PciAddress)| GpuFacts {
            index: u32::try_from(i).ok(),
            address: Some(*address),
            ..GpuFacts::default()
        };
        let gpus = links.cols.iter().enumerate().map(gpu).collect();
        let names: Vec<String> = (0..links.cols.len()).map(|i| format!("GPU{i}")).collect();
        let n = names.len();
        let matrix = ClassMatrix {
            rows: names.clone(),
            cols: names,
            cells,
            cpu_affinity: vec![None; n],
            numa_affinity: vec![None; n],
            gpu_numa: vec![None; n],
            ..ClassMatrix::default()
        };
        if relayed > 0 {
            found.warn(text, TOOL, lines, relayed_message(relayed / 2));
        }
        if untold > 0 {
            let message = "amd-smi does not say which way a PCIE link within a NUMA node takes: those classes are unknown; add \
                           `lspci -tv` or an lstopo XML file";
            found.warn(text, TOOL, lines, message);
        }
        found.push(text, TOOL, lines, Fact::Gpus(gpus));
        found.push(text, TOOL, lines, Fact::Classes(matrix));
    }
}

/// `0000:05:00.0`: with a domain, so that no other number is taken for one.
fn address(word: &str) -> Option<PciAddress> {
    word.parse().ok().filter(|_| word.len() >= 12 && word.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "             0000:05:00.0 0000:26:00.0 0000:c6:00.0\n";

    fn table(title: &str, rows: [&str; 3]) -> String {
        let addresses = ["0000:05:00.0", "0000:26:00.0", "0000:c6:00.0"];
        let rows: String = addresses.iter().zip(rows).map(|(a, row)| format!("{a} {row}\n")).collect();
        format!("{title} TABLE:\n{HEAD}{rows}\n")
    }

    fn scanned(text: &str) -> Found {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        found
    }

    #[test]
    fn links_by_type_weight_and_hops() {
        let text = table("ACCESS", ["ENABLED ENABLED ENABLED"; 3])
            + &table("WEIGHT", ["0 15 30", "15 0 72", "30 72 0"])
            + &table("HOPS", ["0 1 1", "1 0 3", "1 3 0"])
            + &table("LINK TYPE", ["SELF XGMI XGMI", "XGMI SELF PCIE", "XGMI PCIE SELF"])
            + "Legend:\n SELF = Current GPU\n";
        let found = scanned(&format!("{text}{text}"));
        assert_eq!((found.evidence.len(), found.warnings.len()), (4, 2));
        let [Fact::Gpus(gpus), Fact::Classes(m)] = [&found.evidence[0].fact, &found.evidence[1].fact] else { panic!() };
        assert_eq!((gpus[2].index, gpus[2].address.unwrap().bus), (Some(2), 0xc6));
        assert_eq!(m.between("GPU0", "GPU1"), Some(PathClass::XGMI));
        assert_eq!((m.between("GPU0", "GPU2"), m.between("GPU1", "GPU2")), (None, Some(PathClass::Sys)));
    }

    #[test]
    fn no_links_and_other_tables_are_none() {
        assert_eq!(scanned(&table("ACCESS", ["ENABLED ENABLED ENABLED"; 3])), Found::default());
        assert_eq!(scanned("LINK TYPE TABLE:\nname value\n"), Found::default());
    }
}
