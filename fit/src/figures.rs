//! The machines whose figures the model is fitted to.

use std::error::Error;
use std::path::{Path, PathBuf};

use peerlane::accuracy::{Figure, Predicted, figures_of};
use peerlane::case::Case;
use peerlane::catalogue::{Parts, read_system, system, system_names};
use peerlane::fabric::LinkKind;
use peerlane::input_file::{self, Folder, Kind};

/// A machine with its figures.
pub(crate) struct Measured {
    pub(crate) case: Case,
    /// Parts of its nodes and links.
    pub(crate) parts: Vec<String>,
    /// Whether it is one of the catalogue.
    pub(crate) of_catalogue: bool,
}

impl Measured {
    /// Without the figures that a published file calls wrong: no constant should explain a fault. The catalogue describes such causes.
    fn new(mut case: Case, of_catalogue: bool) -> Self {
        case.machine.matrices.retain(|measured| of_catalogue || measured.known_cause.is_none());
        let fabric = &case.machine.fabric;
        let of_nodes = fabric.nodes().iter().filter_map(|node| node.part.clone());
        let of_links = fabric.links().iter().filter_map(|link| link.part.clone());
        let mut parts: Vec<String> = of_nodes.chain(of_links).collect();
        parts.sort_unstable();
        parts.dedup();
        Measured { case, parts, of_catalogue }
    }

    pub(crate) fn name(&self) -> &str {
        &self.case.machine.name
    }

    /// Whether a prediction's range is that of a link whose lanes no source states, half of its rate or less: no constant should explain
    /// what is missed there.
    pub(crate) fn may_be_narrower(&self, predicted: Predicted) -> bool {
        let is_open = |kind: &LinkKind| matches!(kind, LinkKind::Pcie { running, .. } if running.lanes.is_none());
        predicted.value > 1.9 * predicted.low && self.case.machine.fabric.links().iter().any(|link| is_open(&link.kind))
    }

    /// Its figures with their predictions.
    pub(crate) fn predicted(&self, parts: &Parts) -> Vec<Figure> {
        figures_of(&self.case, parts)
    }
}

/// The catalogue's systems, then those of the folders, each in order of their names.
pub(crate) fn read(folders: &[PathBuf]) -> Result<Vec<Measured>, Box<dyn Error>> {
    let mut all = Vec::new();
    for name in system_names() {
        if let Some(machine) = system(name) {
            all.push(Measured::new(Case::from(machine?), true));
        }
    }
    for folder in folders {
        for file in files(folder)? {
            let text = input_file::text(&file, Kind::Design)?;
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            all.push(Measured::new(Case::from(read_system(&text, &name)?), false));
        }
    }
    Ok(all)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let files = Folder::of(folder)?.entries(folder)?.into_iter().map(|entry| entry.path);
    Ok(files.filter(|file| file.extension().is_some_and(|e| e == "toml")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_machine_is_read_and_none_is_on_both_sides() {
        let folder = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../published").join(name);
        let [fit, held_out] = ["fit", "held-out"].map(|name| read(&[folder(name)]).unwrap());
        let names = |all: &[Measured]| -> Vec<String> {
            all.iter().filter(|m| !m.of_catalogue).map(|m| m.name().to_owned()).collect()
        };
        let (fit, held_out) = (names(&fit), names(&held_out));
        assert!(fit.len() >= 50 && held_out.len() >= 30, "{} {}", fit.len(), held_out.len());
        assert!(fit.iter().all(|name| !held_out.contains(name)));
    }

    #[test]
    fn nothing_is_fitted_to_a_machine_that_is_held_out() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../published/held-out");
        let held_out = read(&[folder]).unwrap();
        let names: Vec<&str> = held_out.iter().filter(|m| !m.of_catalogue).map(Measured::name).collect();
        let constants = Parts::embedded().iter().flat_map(|part| part.constants.values());
        let fitted = constants.flat_map(|constant| constant.fitted_to.iter());
        assert_eq!(fitted.filter(|system| names.contains(&system.as_str())).count(), 0);
        assert!(!Parts::embedded().spreads().0.is_empty());
    }
}
