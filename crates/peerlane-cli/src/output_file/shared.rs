//! Records of many hosts in one directory: `DIR/HOST/TIME.json`.
//!
//! The directory is usually on NFS, where a lock may hang and a rename replaces what is there. So nothing is locked: a
//! record is written under a name of its own and then linked to its final one, which succeeds for one process and fails
//! for all others, and never replaces a file. Whoever comes second takes the next name, `TIME-2.json`.

use std::io;
use std::path::{Path, PathBuf};

use peerlane::date::utc;
use peerlane::one_line::shown;

use super::{Appended, Fresh, beside, make_folder, own_file, refused, remove};
use crate::{Failure, system};

/// How many records of one host may begin in one second.
const MOST: u32 = 10_000;

/// Room that a record needs, in bytes; one of eight GPUs takes about 1 MiB.
const ROOM: u64 = 4 << 20;

/// What is written to find out whether a quota or a full disk takes nothing more.
const PROBE: [u8; 4096] = [b'\n'; 4096];

/// The place of one record.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// `DIR/HOST`.
    folder: PathBuf,
    /// `20261123T115030Z`.
    time: String,
    /// `json` or `tar.zst`.
    ending: &'static str,
    /// The first number that this record may have.
    from: u32,
}

impl Slot {
    /// Makes the host's folder, and fails if a record could not be written to it: to be called before anything is
    /// measured. The directory itself must exist: one that is missing is a share that is not mounted.
    pub(crate) fn new(directory: &Path, host: &str, began: u64, ending: &'static str) -> Result<Slot, Failure> {
        if !directory.is_dir() {
            return Err(Failure::new(format!("cannot write to {}: no such folder", shown(directory))));
        }
        let folder = directory.join(host);
        let slot = Slot { folder, time: stamp(began), ending, from: 1 };
        if slot.folder.is_symlink() {
            let why = io::Error::other("it is a symbolic link, which is not followed");
            return Err(refused(&slot.folder, &why));
        }
        make_folder(&slot.folder)?;
        slot.probe().map_err(|error| refused(&slot.folder, &error))?;
        Ok(slot)
    }

    /// Writes a little, and removes it.
    fn probe(&self) -> io::Result<()> {
        Fresh::beside(&self.path())?.fill(&PROBE)?;
        // some file systems do not know their size
        match system::free_bytes(&self.folder) {
            Some(free) if free < ROOM => {
                Err(io::Error::other(format!("only {} KiB are free, and a record may need {}", free >> 10, ROOM >> 10)))
            }
            _ => Ok(()),
        }
    }

    /// The first path that the record may have; after [`Slot::grow`], the one that it has claimed.
    pub(crate) fn path(&self) -> PathBuf {
        self.numbered(self.from)
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let Slot { folder, time, ending, .. } = self;
        folder.join(if number == 1 { format!("{time}.{ending}") } else { format!("{time}-{number}.{ending}") })
    }

    fn numbers(&self) -> impl Iterator<Item = u32> {
        self.from..self.from + MOST
    }

    /// Writes the record whole, under a name that no other has, and returns it.
    pub(crate) fn publish(&self, content: &[u8]) -> io::Result<PathBuf> {
        let names = self.numbers().map(|number| self.numbered(number));
        Fresh::beside(&self.path())?.take(content, names)
    }

    /// Begins the record as `TIME.json.partial`, to be appended to; its name is then this process's own.
    pub(crate) fn grow(&mut self, ending: &str, content: &str) -> io::Result<Appended> {
        let free = self.numbers().filter(|number| !self.numbered(*number).exists());
        let names = free.map(|number| beside(&self.numbered(number), ending));
        let path = Fresh::beside(&self.path())?.take(content.as_bytes(), names)?;
        let claimed = self.numbers().find(|number| beside(&self.numbered(*number), ending) == path);
        self.from = claimed.unwrap_or(self.from);
        let file = own_file().append(true).open(&path)?;
        Ok(Appended { file, path, size: content.len() as u64, pending: Vec::new() })
    }

    /// Removes the record's `TIME.json.partial`.
    pub(crate) fn remove(&self, ending: &str) -> io::Result<()> {
        remove(&beside(&self.path(), ending))
    }
}

/// `20261123T115030Z` of seconds since 1970.
fn stamp(seconds: u64) -> String {
    utc(seconds, "%Y%m%dT%H%M%SZ").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// An empty directory for a test.
    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("peerlane-shared-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn times_sort_as_names() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(1_795_234_323), "20261121T041203Z");
    }

    #[test]
    fn what_exists_is_never_replaced() {
        let directory = directory("names");
        let slot = |began| Slot::new(&directory, "node1", began, "json").unwrap();
        let (mut first, mut second) = (slot(0), slot(0));
        assert_eq!(names(&directory.join("node1")), [""; 0], "nothing is left of the probe");
        let mut growing = first.grow("partial", "a\n").unwrap();
        growing.append("b\n").unwrap();
        second.grow("partial", "other\n").unwrap();
        assert_eq!(second.path(), directory.join("node1/19700101T000000Z-2.json"));
        assert_eq!(first.publish(b"whole").unwrap(), first.path());
        first.remove("partial").unwrap();
        // a third begins with the first's name, and does not replace it
        let mut third = slot(0);
        third.grow("partial", "third\n").unwrap();
        assert_eq!(third.publish(b"third").unwrap(), directory.join("node1/19700101T000000Z-3.json"));
        assert_eq!(fs::read(first.path()).unwrap(), b"whole");
        assert_eq!(fs::read(beside(&second.path(), "partial")).unwrap(), b"other\n");
        // a name that was taken after it was claimed
        fs::write(second.path(), "a stranger's").unwrap();
        assert_eq!(second.publish(b"second").unwrap(), directory.join("node1/19700101T000000Z-4.json"));
        assert_eq!(fs::read(second.path()).unwrap(), b"a stranger's");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_missing_directory_and_a_link_are_errors() {
        let directory = directory("errors");
        assert!(Slot::new(&directory.join("missing"), "node1", 0, "json").is_err(), "a share that is not mounted");
        assert_eq!(names(&directory), [""; 0]);
        std::os::unix::fs::symlink("/tmp", directory.join("node1")).unwrap();
        assert!(Slot::new(&directory, "node1", 0, "json").is_err());
        fs::write(directory.join("node2"), "").unwrap();
        assert!(Slot::new(&directory, "node2", 0, "json").is_err());
        fs::remove_dir_all(directory).unwrap();
    }
}
