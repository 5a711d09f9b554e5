//! Packs the pages of `docs/` for `commands::help`: of each its name, a line with its bytes, its text; all deflated.

#![allow(clippy::print_stdout)] // how a build script talks to cargo

use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

/// Pages that lead to others, and what the program prints by itself.
const APART: [&str; 3] = ["SUMMARY", "index", "commands"];

#[expect(clippy::disallowed_methods, reason = "reads pages of the source")]
fn main() -> io::Result<()> {
    let package = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    println!("cargo::rerun-if-changed=docs");
    let mut pages = Vec::new();
    for entry in fs::read_dir(Path::new(&package).join("docs"))? {
        let path = entry?.path();
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.extension().is_some_and(|e| e == "md") && !APART.contains(&name.as_str()) {
            pages.push((name, fs::read(path)?));
        }
    }
    pages.sort();
    let packed = fs::File::create(Path::new(&out).join("pages.deflate"))?;
    let mut packed = flate2::write::DeflateEncoder::new(packed, flate2::Compression::best());
    for (name, text) in pages {
        writeln!(packed, "{name} {}", text.len())?;
        packed.write_all(&text)?;
    }
    packed.finish()?;
    Ok(())
}
