//! What `peerlane gather` saved of machines, as a folder or an archive.

use std::borrow::Cow;
use std::path::Path;

use peerlane::assemble::assemble;
use peerlane::evidence::{self, Files, Item};
use peerlane::fabric::NodeKind;
use peerlane::fleet::{Capture, Dictionary, Node};
use peerlane::machine::Machine;
use peerlane::one_line::one_line;
use serde::Deserialize;

/// What lists the files of `peerlane gather`.
pub(super) const MANIFEST: &str = "manifest.json";

/// Its format, up to the version.
const GATHERED: &str = "peerlane/gather/";

/// The host's name among them.
const HOST_FILE: &str = "proc/sys/kernel/hostname";

/// How much of a manifest names its format, in bytes.
const HEAD: usize = 256;

/// The head of what `peerlane gather` lists.
#[derive(Deserialize)]
struct Manifest {
    taken: u64,
}

/// Whether this text lists what `peerlane gather` saved.
pub(super) fn is_manifest(bytes: &[u8]) -> bool {
    let head = bytes.get(..bytes.len().min(HEAD)).unwrap_or_default();
    String::from_utf8_lossy(head).contains(GATHERED)
}

/// What a folder or an archive of `peerlane gather` holds.
pub(super) fn gathered(path: &Path) -> Result<Files, String> {
    evidence::collect(path).map_err(|e| e.to_string())
}

/// The machines with GPUs that files describe.
pub(super) fn machines(name: &str, files: &Files) -> Vec<Machine> {
    let all = assemble(evidence::read_files(name, files));
    all.into_iter().filter(|machine| machine.fabric.of_kind(NodeKind::Gpu).next().is_some()).collect()
}

/// What is compared of one of its machines. Of several of one folder each has a name of its own, and not the host's.
pub(super) fn node_of(machine: &Machine, files: &Files, file: &str, several: bool, dictionary: &Dictionary) -> Node {
    let texts: Vec<(&str, Cow<str>)> = files
        .iter()
        .filter_map(|(path, item)| match item {
            Item::File(bytes) => Some((path, String::from_utf8_lossy(bytes))),
            Item::Link(_) => None,
        })
        .collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_ref())).collect();
    let of = |end: &str| texts.iter().find(|(path, _)| path.ends_with(end)).map(|(_, text)| *text);
    let host = of(HOST_FILE).map(|host| one_line(host.trim())).filter(|host| !host.is_empty());
    let manifest: Option<Manifest> = of(MANIFEST).and_then(|text| serde_json::from_str(text).ok());
    let taken = manifest.map_or(0, |manifest| manifest.taken);
    let host = if several { Some(machine.name.as_str()) } else { host.as_deref() };
    Node::captured(machine, &Capture { file, host, taken, texts: &texts }, dictionary)
}
