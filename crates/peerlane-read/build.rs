//! Lists `systems/*.toml` and `parts/*.toml` as `(name, text)`, sorted by name, for `catalogue::embedded` to include.

#![allow(clippy::print_stdout)] // how a build script talks to cargo

use std::path::Path;
use std::{env, fs, io};

#[expect(clippy::disallowed_methods, reason = "lists folders of the source")]
fn main() -> io::Result<()> {
    let package = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    for folder in ["systems", "parts"] {
        println!("cargo::rerun-if-changed={folder}");
        let mut files = Vec::new();
        for entry in fs::read_dir(Path::new(&package).join(folder))? {
            let path = entry?.path();
            if let (Some("toml"), Some(name)) = (path.extension().and_then(|e| e.to_str()), path.file_stem()) {
                files.push((name.to_string_lossy().into_owned(), path));
            }
        }
        files.sort();
        let items: Vec<String> =
            files.iter().map(|(name, path)| format!("({name:?}, include_str!({path:?})),\n")).collect();
        fs::write(Path::new(&out).join(format!("{folder}.rs")), format!("&[\n{}]\n", items.concat()))?;
    }
    Ok(())
}
