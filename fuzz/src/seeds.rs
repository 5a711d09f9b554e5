//! Inputs to begin with: those kept in `seeds/`, and the project's own captures, systems and clusters.

use std::path::{Path, PathBuf};

use peerlane::input_file::{self, Kind};

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
    for name in input_file::names(folder) {
        let path = folder.join(name);
        match input_file::read(&path, Kind::Source) {
            Ok(data) => all.push(Seed { path, data }),
            Err(_) => below(&path, all),
        }
    }
}
