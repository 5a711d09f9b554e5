//! Opens what is held in memory as [`Opener::open`] opens files and folders, for programs without a file system.

use std::path::Path;

use peerlane_design::builder::named;
use peerlane_design::cluster;
use peerlane_measure::nodes::NodesRun;
use peerlane_read::evidence::{self, Files, Item};
use peerlane_read::input_file::Kind;

use super::kind::HEAD;
use super::{MOST_RECORDS, OpenError, Opener, Source, TargetKind, read_stream};

impl Opener<'_> {
    /// What a file of that name and content holds.
    ///
    /// # Errors
    /// Where it is none, or cannot be read.
    pub fn read_bytes(&self, name: &str, bytes: &[u8]) -> Result<Source, OpenError> {
        let refused = |why: String| OpenError::new(format!("{name}: {why}"));
        match kind(name, bytes) {
            TargetKind::ClusterFile if self.clusters => {
                let node = |system: &str| named(system)?.ok();
                let cluster = cluster::read_cluster(&design(name, bytes)?, name, node);
                cluster.map(|cluster| Source::Cluster(Box::new(cluster))).map_err(|e| OpenError::new(e.to_string()))
            }
            TargetKind::SystemFile | TargetKind::ClusterFile => Source::of_design(name, &design(name, bytes)?),
            TargetKind::NodesRun => {
                let run = NodesRun::read(&String::from_utf8_lossy(bytes)).map_err(|e| refused(e.to_string()))?;
                Ok(Source::Nodes(Box::new(run.0), run.1))
            }
            _ => read_stream(name, bytes),
        }
    }

    /// What a folder of these files holds, and the records in it, each by its own name.
    pub fn read_folder(&self, name: &str, files: &Files) -> Vec<(String, Result<Source, OpenError>)> {
        let is_record = |path: &str, bytes: &[u8]| {
            path.to_ascii_lowercase().ends_with(".json")
                && matches!(kind(path, bytes), TargetKind::Run | TargetKind::NodesRun | TargetKind::Inference)
        };
        let records: Vec<(String, &[u8])> = files
            .iter()
            .filter_map(|(path, item)| match item {
                Item::File(bytes) if is_record(path, bytes) => Some((format!("{name}/{path}"), bytes.as_slice())),
                _ => None,
            })
            .collect();
        let read = |(path, bytes): &(String, &[u8])| (path.clone(), self.read_bytes(path, bytes));
        let mut all: Vec<_> = records.iter().take(MOST_RECORDS).map(read).collect();
        if records.len() > MOST_RECORDS {
            let why = format!("{name}: the first {MOST_RECORDS} of {} records", records.len());
            all.push((name.to_owned(), Err(OpenError::new(why))));
        }
        let whole = evidence::read_files(name, &unpacked(files));
        if all.is_empty() || !whole.evidence.is_empty() || !whole.unread.is_empty() {
            all.insert(0, (name.to_owned(), Ok(Source::Text(Box::new(whole)))));
        }
        all
    }
}

fn kind(name: &str, bytes: &[u8]) -> TargetKind {
    let path = Path::new(name);
    let head = bytes.get(..HEAD as usize).unwrap_or(bytes);
    match TargetKind::of_content(path, head) {
        // the table that tells a cluster from a system may stand anywhere
        TargetKind::SystemFile | TargetKind::ClusterFile => TargetKind::of_content(path, bytes),
        other => other,
    }
}

/// The text of a system or cluster file.
fn design(name: &str, bytes: &[u8]) -> Result<String, OpenError> {
    let refused = |why: &str| OpenError::new(format!("{name}: {why}"));
    if bytes.len() as u64 > Kind::Design.limit() {
        return Err(refused("too large: not a system file"));
    }
    let text = evidence::decode(bytes);
    match text.contains(['\0', char::REPLACEMENT_CHARACTER]) {
        true => Err(refused("not a system file: not UTF-8 text")),
        false => Ok(text.into_owned()),
    }
}

/// The same files, those of archives below the archives' names.
fn unpacked(files: &Files) -> Files {
    let mut all = Files::default();
    for (path, item) in files.iter() {
        let Item::File(bytes) = item else {
            all.insert(path, item.clone());
            continue;
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        match evidence::Packing::of(bytes).map(|_| evidence::unpack(name, bytes.clone())) {
            // a single packed file has the archive's name
            Some(Ok(held)) if held.len() == 1 && held.iter().all(|(below, _)| below == name) => {
                all.append(path.strip_suffix(name).filter(|folder| !folder.is_empty()).unwrap_or("."), held);
            }
            Some(Ok(held)) => all.append(path, held),
            _ => drop(all.insert(path, item.clone())),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Settings;

    /// Every file of a folder of this repository.
    fn files(folder: &Path) -> Files {
        let mut all = Files::default();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            all.insert(path.file_name().unwrap().to_str().unwrap(), Item::File(std::fs::read(&path).unwrap()));
        }
        all
    }

    fn opener() -> Opener<'static> {
        Opener::new(&|| Err("no machine".to_owned()))
    }

    #[test]
    fn a_folder_in_memory_is_a_folder_on_disk() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/slow-node");
        let held = opener().join(opener().read_folder(folder, &files(Path::new(folder)))).unwrap();
        let settings = Settings::default();
        let [held, opened] = [held, opener().open([folder]).unwrap()]
            .map(|opened| serde_json::to_string(&opened.check(&settings)).unwrap());
        assert_eq!(held, opened);
    }

    #[test]
    fn a_file_in_memory_is_a_file_on_disk() {
        for file in ["examples/box.toml", "examples/slow-node/topo.txt", "captures/h200x4-vm-parts/host.json"] {
            let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
            let source = opener().read_bytes(&path, &std::fs::read(&path).unwrap());
            let held = opener().join([(path.clone(), source)]).unwrap();
            let opened = opener().open([&path]).unwrap();
            let [held, opened] = [held, opened].map(|o| serde_json::to_string(&o.predict(&[], &[])).unwrap());
            assert_eq!(held, opened, "{file}");
        }
        let bad = opener().read_bytes("bad.toml", b"name = \"\xff\"").err().unwrap();
        assert_eq!(bad.to_string(), "bad.toml: not a system file: not UTF-8 text");
    }
}
