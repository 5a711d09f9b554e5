//! Captures that may not be copied into the project: their folder is named by `PEERLANE_CORPUS`.

pub(crate) mod machines;

use std::path::PathBuf;

/// A capture of the corpus, in its folder or in `public/` below it. `None`, with a note, where there is none.
pub(crate) fn corpus_file(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("PEERLANE_CORPUS").map(PathBuf::from) else {
        eprintln!("skipped: PEERLANE_CORPUS names no folder of further captures");
        return None;
    };
    let found = [folder.join(name), folder.join("public").join(name)].into_iter().find(|p| p.is_file());
    if found.is_none() {
        eprintln!("skipped: {} has no {name}", folder.to_string_lossy());
    }
    found
}
