//! What the words of path matrices mean: by the table's own legend, else by what the tools' manuals say.

use std::collections::HashMap;

use super::super::Text;
use peerlane_machine::fabric::{Interconnect, PathClass};

/// Lines above and below a table that its legend may stand in.
const AROUND: usize = 40;

/// The meanings of one table's words.
pub(super) struct Legend<'a>(HashMap<&'a str, &'a str>);

/// A maker's own link, without and with their number.
const OWN: PathClass = PathClass::Gpu(Interconnect::Other, 0);

/// Words without a legend, as their tools' manuals define them.
const KNOWN: [(&str, PathClass); 18] = [
    // Moore Threads, mthreads-gmi: several bridges, at most one
    ("MPB", PathClass::Pxb),
    ("SPB", PathClass::Pix),
    // Intel, xpu-smi: dies of one card (multi-die fabric)
    ("MDF", OWN),
    // Huawei, npu-smi: HCCS, directly, through a switch, and between the dies of one package
    ("HCCS", OWN),
    ("HCCS_SW", OWN),
    ("SIO", OWN),
    // AMD and Hygon
    ("XGMI", PathClass::XGMI),
    // Cambricon, MetaX, Iluvatar, Habana, by the name of the link
    ("MLU-LINK", OWN),
    ("MLULINK", OWN),
    ("METAXLINK", OWN),
    ("IXLINK", OWN),
    ("XELINK", OWN),
    ("ROCE", OWN),
    ("PIX", PathClass::Pix),
    ("PXB", PathClass::Pxb),
    ("PHB", PathClass::Phb),
    ("NODE", PathClass::Node),
    ("SYS", PathClass::Sys),
];

/// Words with the number of links behind.
const COUNTED: [&str; 5] = ["MTL", "XL", "MX", "ML", "MLU"];

impl<'a> Legend<'a> {
    /// The lines `WORD = meaning` and `WORD: meaning` around a table.
    pub(super) fn around(text: &'a Text, first: usize, last: usize) -> Self {
        let lines = (first.saturating_sub(AROUND)..first).chain(last + 1..text.len().min(last + AROUND));
        let entry = |i: usize| {
            let line = text.line(i).trim().trim_start_matches(['-', '*', '>', ' ']);
            let (word, meaning) = line.split_once('=').or_else(|| line.split_once(':'))?;
            let word = word.trim().trim_matches(['`', '*']);
            let fits = (1..=16).contains(&word.len()) && !word.contains(char::is_whitespace);
            (fits && meaning.split_whitespace().count() >= 2).then(|| (stem(word), meaning.trim()))
        };
        Legend(lines.filter_map(entry).collect())
    }

    /// The class that a word stands for.
    pub(super) fn class(&self, word: &str) -> Option<PathClass> {
        let (stem, count) = (stem(word), count(word));
        let stated = self.0.get(word).or_else(|| self.0.get(stem));
        if let Some(class) = stated.and_then(|meaning| by_meaning(meaning, count)) {
            return Some(class);
        }
        let upper = word.to_ascii_uppercase();
        let known = KNOWN.iter().find(|(known, _)| *known == upper).map(|(_, class)| *class);
        let parsed = || word.parse().ok().filter(|class| *class != PathClass::Same);
        let counted = || COUNTED.contains(&stem.to_ascii_uppercase().as_str()).then(|| own(count));
        known.or_else(parsed).or_else(|| counted().filter(|_| count.is_some()))
    }
}

fn own(count: Option<u8>) -> PathClass {
    PathClass::Gpu(Interconnect::Other, count.unwrap_or(0))
}

/// A word without the number behind it, or the sign that stands for it in a legend: `MTL4` and `MTL#` are `MTL`.
fn stem(word: &str) -> &str {
    let word = word.trim_end_matches("[laneCount]");
    word.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '#' | '*'))
}

fn count(word: &str) -> Option<u8> {
    word.get(stem(word).len()..)?.parse().ok()
}

/// What a legend's words describe. `None` where it says nothing of a path.
fn by_meaning(meaning: &str, count: Option<u8>) -> Option<PathClass> {
    let meaning = meaning.to_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| meaning.contains(word));
    let without_root = any(&["without travers", "without cross", "not travers"]);
    if any(&["within a numa", "within the numa", "same numa", "within one numa"]) {
        Some(PathClass::Node)
    } else if any(&[
        "smp",
        "qpi",
        "upi",
        "between numa",
        "across numa",
        "cross numa",
        "numa nodes",
        "between sockets",
        "cpu socket",
    ]) {
        Some(PathClass::Sys)
    } else if any(&["host bridge", "root complex", "host-bridge"]) && !without_root {
        Some(PathClass::Phb)
    } else if any(&["bridge", "switch"]) && any(&["pci"]) {
        let several = any(&["multip", "several", "more than one", "two or more"]);
        Some(if several { PathClass::Pxb } else { PathClass::Pix })
    } else if any(&["link", "hccs", "fabric", "die", "tile", "same card", "same package", "xgmi"])
        && !any(&["unknown", "no link"])
    {
        Some(if any(&["nvlink"]) { PathClass::nvlink(count.unwrap_or(0)) } else { own(count) })
    } else {
        None
    }
}
