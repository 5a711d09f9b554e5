//! `amd-smi topology`: link types between AMD GPUs, which it names by address, with weights and hops.

use std::collections::BTreeSet;

use super::amd_links::Tables;
use super::text::Span;
use super::words::words;
use super::{ClassMatrix, Fact, Found, GpuFacts, Text};
use peerlane_machine::fabric::PciAddress;

const TOOL: &str = "amd-smi topology";

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut output = Output::default();
    for (i, line) in text.iter() {
        if let Some(title) = line.trim().strip_suffix(" TABLE:") {
            // the first table again is another run
            if title == "ACCESS" || output.titles.contains(title) {
                std::mem::take(&mut output).finish(text, found);
            }
            output.titles.insert(title.to_owned());
            output.title = Some(title.to_owned());
            output.lines.add(i);
        } else if output.add(line) {
            output.lines.add(i);
        }
    }
    output.finish(text, found);
}

/// One run of the tool.
#[derive(Default)]
struct Output {
    /// Titles of the tables so far, and that of the one being read.
    titles: BTreeSet<String>,
    title: Option<String>,
    tables: Tables,
    lines: Span,
}

impl Output {
    /// Adds a line of a table; false where it is none.
    fn add(&mut self, line: &str) -> bool {
        let Some(title) = self.title.as_deref() else { return false };
        let row: Vec<&str> = words(line).map(|w| w.text).collect();
        let Some(first) = row.first() else { return false };
        let added = match title {
            "LINK TYPE" => self.tables.links.add(&row, is_gpu),
            "WEIGHT" => self.tables.weights.add(&row, is_gpu),
            "HOPS" => self.tables.hops.add(&row, is_gpu),
            _ => is_gpu(first),
        };
        if !added {
            // a legend, or another section
            self.title = None;
        }
        added
    }

    fn finish(self, text: &Text, found: &mut Found) {
        let Some(lines) = self.lines.numbers(text) else { return };
        let Some(cells) = self.tables.classes(text, TOOL, lines, found) else { return };
        let links = &self.tables.links;
        let place = |name: &String| links.cols.iter().position(|c| c == name).unwrap_or_default();
        let label = |name: &String| format!("GPU{}", place(name));
        let gpu = |name: &String| GpuFacts {
            index: u32::try_from(place(name)).ok(),
            address: address(name),
            ..GpuFacts::default()
        };
        let n = links.rows.len();
        let matrix = ClassMatrix {
            rows: links.rows.iter().map(label).collect(),
            cols: links.cols.iter().map(label).collect(),
            cells,
            cpu_affinity: vec![None; n],
            numa_affinity: vec![None; n],
            gpu_numa: vec![None; n],
            ..ClassMatrix::default()
        };
        found.push(text, TOOL, lines, Fact::Gpus(links.cols.iter().map(gpu).collect()));
        found.push(text, TOOL, lines, Fact::Classes(matrix));
    }
}

/// `0000:05:00.0`: with a domain, so that no other number is taken for one.
fn address(word: &str) -> Option<PciAddress> {
    word.parse().ok().filter(|_| word.len() >= 12 && word.contains('.'))
}

fn is_gpu(word: &str) -> bool {
    address(word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fabric::PathClass;

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
