//! Fitted constants into part files.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use peerlane::catalogue::Parts;
use peerlane::input_file::{self, Kind};
use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::figures::Measured;
use crate::solve::Fit;
use crate::tree::{Node, Tree};

/// A constant of a part or family, with the figures that it comes from.
struct Found {
    value: f64,
    low: f64,
    high: f64,
    figures: usize,
    machines: BTreeSet<usize>,
}

/// Writes what the figures tell of parts and families that state nothing themselves, in place of what was written before.
pub(crate) fn write(
    folder: &Path,
    tree: &Tree,
    fit: &Fit,
    machines: &[Measured],
    base: &Parts,
) -> Result<(), Box<dyn Error>> {
    let mut files: BTreeMap<String, DocumentMut> = BTreeMap::new();
    for part in base.iter() {
        let file = folder.join(format!("{}.toml", part.name));
        let mut document: DocumentMut = input_file::text(&file, Kind::Design)?.parse()?;
        if let Some(constants) = document.get_mut("constants").and_then(Item::as_table_mut) {
            let old: Vec<String> = constants
                .iter()
                .filter(|(_, constant)| constant.get("figures").is_some())
                .map(|(name, _)| name.to_owned())
                .collect();
            old.iter().for_each(|name| drop(constants.remove(name)));
        }
        files.insert(part.name.clone(), document);
    }
    for ((spec, node), found) in found(tree, fit) {
        let spec = &tree.specs[spec];
        // what a family has, those have too that the constant is not of
        let above = |family: &str| {
            let all = std::iter::successors(base.get(family), |at| base.get(at.extends.as_deref()?));
            all.map(|at| at.name.clone()).collect::<Vec<_>>()
        };
        if spec.without.iter().any(|family| above(family).contains(&node)) {
            continue;
        }
        let Some(document) = files.get_mut(&node) else { continue };
        let constants = document.entry("constants").or_insert_with(|| Item::Table(Table::new()));
        let Some(constants) = constants.as_table_mut() else { continue };
        constants.set_implicit(true);
        if constants.contains_key(&spec.name) {
            continue;
        }
        let names: Vec<&str> = found.machines.iter().map(|m| machines[*m].name()).collect();
        let mut table = Table::new();
        table["value"] = value(digits(found.value));
        table["unit"] = value(spec.unit.as_str());
        table["basis"] = value("fitted");
        let (figures, count) = (found.figures, names.len());
        let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        table["source"] =
            value(format!("fit to {} of {} (docs/fit.md)", plural(figures, "figure"), plural(count, "machine")));
        table["low"] = value(digits(found.low));
        table["high"] = value(digits(found.high));
        table["figures"] = value(i64::try_from(figures)?);
        table["fitted_to"] = value(names.into_iter().collect::<Array>());
        constants.insert(&spec.name, Item::Table(table));
    }
    for (part, document) in files {
        fs::write(folder.join(format!("{part}.toml")), document.to_string())?;
    }
    Ok(())
}

/// By constant and part or family.
fn found(tree: &Tree, fit: &Fit) -> BTreeMap<(usize, String), Found> {
    let mut all: BTreeMap<(usize, String), Found> = BTreeMap::new();
    for (leaf, figures) in tree.leaves.iter().zip(fit.seen(tree)).filter(|(_, figures)| *figures > 0) {
        for Node { name, chain } in tree.nodes(leaf) {
            let found = all.entry((leaf.spec, name)).or_insert_with(|| {
                let (value, deviation) = (tree.value(leaf.spec, chain, &fit.at), fit.deviation(tree, leaf, chain));
                let constant = crate::tree::constant(&tree.specs[leaf.spec], value, deviation);
                let [low, high] = constant.range();
                Found { value: constant.value, low, high, figures: 0, machines: BTreeSet::new() }
            });
            found.figures += figures;
            found.machines.insert(leaf.machine);
        }
    }
    all
}

/// To four digits.
fn digits(x: f64) -> f64 {
    let scale = 10_f64.powf(3.0 - x.abs().log10().floor());
    let scaled = (x * scale).round() / scale;
    if scaled.is_finite() { scaled } else { x }
}
