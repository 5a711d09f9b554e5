//! Links between AMD GPUs as `rocm-smi` and `amd-smi` print them: tables of types, weights and hops.
//!
//! `XGMI` is printed of pairs too that reach each other over other GPUs, with one hop: the weight alone shows it. The kernel
//! gives 15 to each hop (`kfd_crat.c`: `weight_xgmi = 15 * amdgpu_xgmi_get_hops_count`), so that more than 15 is no link.
//! A `PCIE` link of three hops leads between NUMA nodes; one of two may cross a switch or a root complex, and has no class.

use std::collections::BTreeMap;

use super::{Found, Text};
use peerlane_machine::fabric::PathClass;

/// More GPUs than any machine has.
const MAX_GPUS: usize = 512;

/// The kernel's weight of one hop over xGMI.
const HOP: u32 = 15;

/// Hops of a PCIe link between NUMA nodes; 2 is one within a node (AMD, *AMD SMI CLI tool*, hops and weight).
const HOPS_BETWEEN_NODES: u32 = 3;

/// A table of words between GPUs by name.
#[derive(Default)]
pub(super) struct Table {
    pub(super) cols: Vec<String>,
    pub(super) rows: Vec<String>,
    cells: BTreeMap<(String, String), String>,
}

impl Table {
    /// Adds the header or a row from the words of a line, where `is_gpu` knows the names of GPUs. False where the line is
    /// neither.
    pub(super) fn add(&mut self, words: &[&str], is_gpu: impl Fn(&str) -> bool) -> bool {
        let Some((&row, cells)) = words.split_first().filter(|(first, _)| is_gpu(first)) else { return false };
        if self.cols.is_empty() {
            if words.len() <= MAX_GPUS && words.iter().all(|w| is_gpu(w)) {
                self.cols = words.iter().map(|&w| w.to_owned()).collect();
            }
            return !self.cols.is_empty();
        }
        if cells.is_empty() || self.rows.len() >= self.cols.len() || self.rows.iter().any(|r| r == row) {
            return false;
        }
        let cells = self.cols.iter().zip(cells).map(|(col, cell)| ((row.to_owned(), col.clone()), (*cell).to_owned()));
        self.cells.extend(cells);
        self.rows.push(row.to_owned());
        true
    }

    fn number(&self, pair: &(String, String)) -> Option<u32> {
        self.cells.get(pair)?.parse().ok()
    }
}

/// The tables of one run.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) links: Table,
    pub(super) weights: Table,
    pub(super) hops: Table,
}

impl Tables {
    /// The classes of the table of links, with warnings of what it leaves open; `None` where most cells are missing, which
    /// also keeps memory in proportion to the text.
    pub(super) fn classes(
        &self,
        text: &Text,
        tool: &'static str,
        lines: (u32, u32),
        found: &mut Found,
    ) -> Option<Vec<Vec<Option<PathClass>>>> {
        let Table { cols, rows, cells } = &self.links;
        if cells.len() < cols.len() * cols.len() {
            found.warn(text, tool, lines, "rows or cells are missing: the capture is cut");
        }
        if cells.is_empty() || cells.len() * 4 < rows.len() * cols.len() {
            return None;
        }
        let (mut relayed, mut unknown) = (0, 0);
        let mut cell = |row: &String, col: &String| {
            let pair = (row.clone(), col.clone());
            let kind = cells.get(&pair)?;
            if row == col {
                return Some(PathClass::Same);
            }
            match kind.as_str() {
                // a pair without a direct link
                "XGMI" if self.weights.number(&pair).is_some_and(|w| w > HOP && w % HOP == 0) => relayed += 1,
                "XGMI" => return Some(PathClass::XGMI),
                "PCIE" if self.hops.number(&pair) == Some(HOPS_BETWEEN_NODES) => return Some(PathClass::Sys),
                "PCIE" => unknown += 1,
                _ => {}
            }
            None
        };
        let classes = rows.iter().map(|row| cols.iter().map(|col| cell(row, col)).collect()).collect();
        if unknown > 0 {
            let message = "the output does not show which path a PCIe link within a NUMA node takes: those classes are \
                           unknown; add `lspci -tv` or an lstopo XML file";
            found.warn(text, tool, lines, message);
        }
        if relayed > 0 {
            let message = format!(
                "{} of the pairs called XGMI have a weight above {HOP}: they reach each other over other GPUs, and no \
                 direct link is drawn",
                relayed / 2
            );
            found.warn(text, tool, lines, message);
        }
        Some(classes)
    }
}
