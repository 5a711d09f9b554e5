//! The PTX that is checked in was made from the kernels that are checked in. Needs no compiler: the
//! first line of each file holds a hash of what it was made from.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs;
use std::path::{Path, PathBuf};

/// As in `scripts/gpu/compile_ptx.py`: FNV-1a, 64 bits.
fn fnv1a64(data: &[u8]) -> u64 {
    data.iter().fold(0xCBF2_9CE4_8422_2325, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The files of `folder` whose names end with `suffix`, sorted.
fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| file_name(path).ends_with(suffix))
        .collect();
    found.sort();
    found
}

/// `NAME.cu` gives `NAME.sm_70.ptx`, `NAME.sm_90.cu` gives `NAME.sm_90.ptx`.
fn ptx_of(source: &Path) -> PathBuf {
    let stem = file_name(source).trim_end_matches(".cu").to_owned();
    source.with_file_name(match stem.strip_suffix(".sm_90") {
        Some(name) => format!("{name}.sm_90.ptx"),
        None => format!("{stem}.sm_70.ptx"),
    })
}

/// What is wrong with the PTX of a folder of kernels, one line each.
fn stale(folder: &Path) -> Vec<String> {
    let headers = files(folder, ".cuh");
    let mut wrong = Vec::new();
    let mut expected = Vec::new();
    for source in files(folder, ".cu") {
        let ptx = ptx_of(&source);
        let text = fs::read_to_string(&ptx).unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        let options = first.split_once(" with ").map_or("", |(_, options)| options);
        let mut hashed = [options.as_bytes(), b"\0"].concat();
        for file in headers.iter().chain([&source]) {
            hashed.extend([file_name(file).as_bytes(), b"\0", &fs::read(file).unwrap(), b"\0"].concat());
        }
        let made_from = format!("// made from {} fnv1a64 {:016x} ", file_name(&source), fnv1a64(&hashed));
        if !first.starts_with(&made_from) {
            wrong.push(format!("{} was not made from {}", file_name(&ptx), file_name(&source)));
        } else if !text.lines().any(|line| line == ".version 8.2") {
            wrong.push(format!("{} is not PTX 8.2, which driver 535 needs", file_name(&ptx)));
        }
        expected.push(ptx);
    }
    for ptx in files(folder, ".ptx") {
        if !expected.contains(&ptx) {
            wrong.push(format!("{} has no source", file_name(&ptx)));
        }
    }
    wrong
}

#[test]
fn the_hash_is_fnv1a() {
    assert_eq!(fnv1a64(b""), 0xCBF2_9CE4_8422_2325);
    assert_eq!(fnv1a64(b"foobar"), 0x8594_4171_F739_67E8);
}

#[test]
fn ptx_agrees_with_its_source() {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernels");
    assert_eq!(stale(&kernels), Vec::<String>::new(), "run scripts/gpu/generate.sh");
}

#[test]
fn a_changed_source_a_changed_header_and_a_lost_source_are_noticed() {
    let folder = std::env::temp_dir().join(format!("peerlane-generated-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    let options = "--gpu-architecture=compute_90";
    let hash = fnv1a64(format!("{options}\0part.cuh\0int a;\0copy.sm_90.cu\0int b;\0").as_bytes());
    write("part.cuh", "int a;");
    write("copy.sm_90.cu", "int b;");
    write(
        "copy.sm_90.ptx",
        &format!("// made from copy.sm_90.cu fnv1a64 {hash:016x} by a test with {options}\n.version 8.2\n"),
    );
    assert_eq!(stale(&folder), Vec::<String>::new());
    write("copy.sm_90.cu", "int c;");
    assert_eq!(stale(&folder), ["copy.sm_90.ptx was not made from copy.sm_90.cu"]);
    write("copy.sm_90.cu", "int b;");
    write("part.cuh", "int c;");
    assert_eq!(stale(&folder), ["copy.sm_90.ptx was not made from copy.sm_90.cu"]);
    fs::remove_file(folder.join("copy.sm_90.cu")).unwrap();
    assert_eq!(stale(&folder), ["copy.sm_90.ptx has no source"]);
    fs::remove_dir_all(&folder).unwrap();
}
