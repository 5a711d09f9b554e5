//! Machines known from the output of tools alone, as a person saves it: a folder for a host, or files that are named one by one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use peerlane::fleet::machine_of_path;
use peerlane::input_file::{Entry, Folder, What};
use peerlane::one_line::shown;

use super::gathered::machines;
use super::one::{NOTHING, One};

/// Whether it is a file of one text that was named, of which several may be of one machine.
pub(super) fn is_loose(one: &One) -> bool {
    let of_file = one.path.as_deref().is_some_and(Path::is_file);
    of_file && one.files.as_ref().is_some_and(|files| files.len() == 1)
}

/// Such files by machine: those of one folder whose names lead to the same one, as `node1/topo.txt` and `node1/lspci.txt` do, and
/// `node1-topo.txt` and `node1-lspci.txt`.
pub(super) fn joined(mut loose: Vec<One>) -> Vec<One> {
    loose.sort_by(|a, b| a.name.cmp(&b.name));
    let mut by_machine: BTreeMap<(Option<PathBuf>, Option<String>), Vec<One>> = BTreeMap::new();
    for one in loose {
        let folder = one.path.as_deref().and_then(Path::parent).map(Path::to_path_buf);
        by_machine.entry((folder, machine_of_path(&one.name))).or_default().push(one);
    }
    let mut all = Vec::new();
    for of_one in by_machine.into_values() {
        let mut of_one = of_one.into_iter();
        let Some(mut first) = of_one.next() else { continue };
        let mut names = vec![first.name.clone()];
        for other in of_one {
            if let (Some(files), Some(more)) = (&mut first.files, other.files) {
                files.append(".", more);
            }
            first.path = None;
            names.push(other.name);
        }
        if first.files.as_ref().is_some_and(|files| machines(&first.name, files).is_empty()) {
            all.extend(names.into_iter().map(|name| One::new(&name, None, Err(NOTHING.to_owned()))));
        } else {
            // no longer of a file alone
            first.path = None;
            all.push(first);
        }
    }
    all
}

/// Folders of texts that describe machines: targets in which nothing else was found, `read` being the names of what was, or the
/// folders right below such a target, one for a host.
pub(super) fn texts_of(targets: &[OsString], read: &[String]) -> Vec<One> {
    let mut all = Vec::new();
    let holds_any = |target: &&Path| read.iter().any(|name| Path::new(name).starts_with(shown(*target)));
    for target in targets.iter().map(Path::new).filter(|target| target.is_dir() && !holds_any(target)) {
        let entries = Folder::of(target).and_then(|folder| folder.entries(target)).unwrap_or_default();
        let (folders, others): (Vec<Entry>, Vec<Entry>) = entries
            .into_iter()
            .filter(|entry| entry.what.is_ok())
            .partition(|entry| matches!(entry.what, Ok(What::Folder)));
        if folders.is_empty() || !others.is_empty() {
            all.push(target.to_owned());
        } else {
            all.extend(folders.into_iter().map(|folder| folder.path));
        }
    }
    all.iter().filter_map(|folder| One::described(folder)).collect()
}
