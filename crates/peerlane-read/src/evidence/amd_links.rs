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

/// A table of words between GPUs, which `K` names.
pub(super) struct Table<K> {
    pub(super) cols: Vec<K>,
    pub(super) rows: Vec<K>,
    cells: BTreeMap<(K, K), String>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Table { cols: Vec::new(), rows: Vec::new(), cells: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Table<K> {
    /// Adds the header or a row from the words of a line, of which `name` reads those that name GPUs. False where the line
    /// is neither.
    pub(super) fn add(&mut self, words: &[&str], name: impl Fn(&str) -> Option<K>) -> bool {
        let Some((first, cells)) = words.split_first() else { return false };
        if self.cols.is_empty() {
            let cols: Option<Vec<K>> = words.iter().map(|w| name(w)).collect();
            self.cols = cols.filter(|cols| cols.len() <= MAX_GPUS).unwrap_or_default();
            return !self.cols.is_empty();
        }
        let Some(row) = name(first).filter(|row| !cells.is_empty() && !self.rows.contains(row)) else { return false };
        if self.rows.len() >= self.cols.len() {
            return false;
        }
        let cells = self.cols.iter().zip(cells).map(|(col, cell)| ((row.clone(), col.clone()), (*cell).to_owned()));
        self.cells.extend(cells);
        self.rows.push(row);
        true
    }

    fn number(&self, pair: &(K, K)) -> Option<u32> {
        self.cells.get(pair)?.parse().ok()
    }
}

/// The tables of one run.
pub(super) struct Tables<K> {
    pub(super) links: Table<K>,
    pub(super) weights: Table<K>,
    pub(super) hops: Table<K>,
}

impl<K> Default for Tables<K> {
    fn default() -> Self {
        Tables { links: Table::default(), weights: Table::default(), hops: Table::default() }
    }
}

impl<K: Ord + Clone> Tables<K> {
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
        let mut cell = |row: &K, col: &K| {
            let pair = (row.clone(), col.clone());
            let kind = cells.get(&pair)?;
            if row == col {
                return Some(PathClass::Same);
            }
            match kind.as_str() {
                // a pair without a link of its own
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
                 link of their own is drawn",
                relayed / 2
            );
            found.warn(text, tool, lines, message);
        }
        Some(classes)
    }
}
