//! Inputs to begin with: those kept in `seeds/`, and the project's own captures, systems and clusters.

use std::fs;
use std::path::{Path, PathBuf};

/// An input, and where it stands.
pub struct Seed {
    /// Where.
    pub path: PathBuf,
    /// What stands there.
    pub data: Vec<u8>,
}

/// The seeds of a target. Those in `seeds/texts` are shown to every reader, as any text would be.
pub fn of(target: &crate::Target) -> Vec<Seed> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    below(&here.join("seeds").join(target.name), &mut all);
    let texts = ["text", "round_trip", "judge", "limits"];
    if target.is_reader() || texts.contains(&target.name) {
        below(&here.join("seeds/texts"), &mut all);
    }
    match target.name {
        "system" => below(&here.join("../systems"), &mut all),
        "cluster" => below(&here.join("../clusters"), &mut all),
        "part" => below(&here.join("../parts"), &mut all),
        _ => {}
    }
    all
}

fn below(folder: &Path, all: &mut Vec<Seed>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        match fs::read(&path) {
            Ok(data) => all.push(Seed { path, data }),
            Err(_) => below(&path, all),
        }
    }
}
