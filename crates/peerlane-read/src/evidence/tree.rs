//! A tree of files that a machine shows: on disk, or in memory as an archive held it.
//!
//! Paths are relative to its top, with `/` between names.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use crate::input_file::{Folder, Refused};
use peerlane_machine::one_line::is_hidden;

/// The most entries that are read of one folder: more than the functions of the largest machines.
pub(super) const MAX_ENTRIES: usize = 16_384;

/// The most links that are followed on one path.
const MAX_LINKS: usize = 16;

/// The most names of one path.
const MAX_DEPTH: usize = 64;

/// The longest that a path or a link is.
const MAX_PATH_BYTES: usize = 4096;

/// Access to a tree of files.
pub(super) trait Tree {
    /// The first bytes of a file; links are followed. `None` where it cannot be read or is no plain file.
    fn bytes(&self, path: &str, limit: u64) -> Option<Vec<u8>>;
    /// Names in a folder, sorted; none where it cannot be read.
    fn names(&self, path: &str) -> Vec<String>;
    /// The target of a link, without following it.
    fn link(&self, path: &str) -> Option<String>;
    /// Whether a folder is there; links are followed.
    fn is_folder(&self, path: &str) -> bool;
}

/// A folder of this machine.
pub(super) struct Disk {
    folder: Folder,
    path: PathBuf,
}

impl Disk {
    pub(super) fn of(path: &Path) -> Result<Self, Refused> {
        Ok(Disk { folder: Folder::of(path)?, path: path.to_owned() })
    }

    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.path.clone() } else { self.path.join(path) }
    }
}

impl Tree for Disk {
    fn bytes(&self, path: &str, limit: u64) -> Option<Vec<u8>> {
        self.folder.head(&self.at(path), limit).ok()
    }

    fn names(&self, path: &str) -> Vec<String> {
        let mut names = self.folder.names(&self.at(path));
        names.truncate(MAX_ENTRIES);
        names.retain(|name| !name.contains(is_hidden));
        names
    }

    fn link(&self, path: &str) -> Option<String> {
        self.folder.link(&self.at(path)).map(|target| target.to_string_lossy().into_owned())
    }

    fn is_folder(&self, path: &str) -> bool {
        self.folder.holds(&self.at(path))
    }
}

/// A file or a link of [`Files`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// What a file holds.
    File(Vec<u8>),
    /// Where a link leads, relative to its folder.
    Link(String),
}

/// Files and links by path, in memory. Folders are those that their paths name.
///
/// No path leads out of it: a link to outside leads nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(BTreeMap<String, Item>);

impl Files {
    /// Adds a file or a link in place of what was at that path. False, and nothing is added, where the path is
    /// absolute, holds `..` or characters that no terminal shows, or is otherwise none that stays within a folder.
    pub fn insert(&mut self, path: &str, item: Item) -> bool {
        if path.len() > MAX_PATH_BYTES {
            return false;
        }
        let clean: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        let stays = !path.starts_with('/')
            && !path.contains('\\')
            && !path.contains(is_hidden)
            && !clean.is_empty()
            && clean.len() <= MAX_DEPTH
            && !clean.contains(&"..");
        if stays {
            self.0.insert(clean.join("/"), item);
        }
        stays
    }

    /// All items by path, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Item)> {
        self.0.iter().map(|(path, item)| (path.as_str(), item))
    }

    /// All files by path, sorted, without links.
    pub fn into_contents(self) -> impl DoubleEndedIterator<Item = (String, Vec<u8>)> {
        self.0.into_iter().filter_map(|(path, item)| match item {
            Item::File(bytes) => Some((path, bytes)),
            Item::Link(_) => None,
        })
    }

    /// All items by path, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Item)> {
        self.0.iter_mut().map(|(path, item)| (path.as_str(), item))
    }

    /// How many files and links.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps the items for which that holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Item) -> bool) {
        self.0.retain(|path, item| keep(path, item));
    }

    /// Bytes of all files and links together.
    pub fn size(&self) -> usize {
        let size = |item: &Item| match item {
            Item::File(bytes) => bytes.len(),
            Item::Link(target) => target.len(),
        };
        self.0.values().map(size).sum()
    }

    /// Takes over all items of another, below a folder.
    pub fn append(&mut self, folder: &str, other: Files) {
        for (path, item) in other.0 {
            self.insert(&format!("{folder}/{path}"), item);
        }
    }

    /// Where a path ends once links are followed. `None` where one leads out or in a circle.
    fn resolve(&self, path: &str) -> Option<String> {
        let mut done: Vec<String> = Vec::new();
        let mut left: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        let mut links = 0;
        while let Some(name) = left.pop() {
            match name.as_str() {
                "" | "." => continue,
                ".." => {
                    done.pop()?;
                    continue;
                }
                _ => done.push(name),
            }
            if let Some(Item::Link(target)) = self.0.get(&done.join("/")) {
                links += 1;
                if links > MAX_LINKS || target.starts_with('/') || target.len() > MAX_PATH_BYTES {
                    return None;
                }
                done.pop();
                left.extend(target.split('/').rev().map(str::to_owned));
            }
        }
        Some(done.join("/"))
    }

    /// The items below a folder, their paths relative to it.
    fn below<'a>(&'a self, folder: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let from = self.0.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        from.map_while(move |(path, _)| path.strip_prefix(&prefix))
    }
}

impl IntoIterator for Files {
    type Item = (String, Item);
    type IntoIter = btree_map::IntoIter<String, Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Tree for Files {
    fn bytes(&self, path: &str, limit: u64) -> Option<Vec<u8>> {
        let Item::File(bytes) = self.0.get(&self.resolve(path)?)? else { return None };
        let most = usize::try_from(limit).unwrap_or(usize::MAX).min(bytes.len());
        bytes.get(..most).map(<[u8]>::to_vec)
    }

    fn names(&self, path: &str) -> Vec<String> {
        let Some(folder) = self.resolve(path) else { return Vec::new() };
        let names = self.below(&folder).filter_map(|below| below.split('/').next().map(str::to_owned));
        names.collect::<BTreeSet<_>>().into_iter().take(MAX_ENTRIES).collect()
    }

    fn link(&self, path: &str) -> Option<String> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = self.resolve(folder)?;
        let at = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        if let Some(Item::Link(target)) = self.0.get(&at) { Some(target.clone()) } else { None }
    }

    fn is_folder(&self, path: &str) -> bool {
        self.resolve(path).is_some_and(|folder| folder.is_empty() || self.below(&folder).next().is_some())
    }
}

/// A folder below a tree's top, as a tree.
pub(super) struct Below<'a> {
    /// The tree.
    pub(super) tree: &'a dyn Tree,
    /// The folder.
    pub(super) folder: &'a str,
}

impl Below<'_> {
    fn at(&self, path: &str) -> String {
        match (self.folder, path) {
            ("", path) => path.to_owned(),
            (folder, "") => folder.to_owned(),
            (folder, path) => format!("{folder}/{path}"),
        }
    }
}

impl Tree for Below<'_> {
    fn bytes(&self, path: &str, limit: u64) -> Option<Vec<u8>> {
        self.tree.bytes(&self.at(path), limit)
    }

    fn names(&self, path: &str) -> Vec<String> {
        self.tree.names(&self.at(path))
    }

    fn link(&self, path: &str) -> Option<String> {
        self.tree.link(&self.at(path))
    }

    fn is_folder(&self, path: &str) -> bool {
        self.tree.is_folder(&self.at(path))
    }
}

/// A tree that keeps what is read of another, so that the very same can be read again elsewhere.
pub(super) struct Recorder<'a> {
    tree: &'a dyn Tree,
    read: RefCell<Files>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(tree: &'a dyn Tree) -> Self {
        Recorder { tree, read: RefCell::default() }
    }

    /// What was read. Files lie where their paths end, with the links next to them.
    pub(super) fn into_files(self) -> Files {
        let read = self.read.into_inner();
        let mut files = Files::default();
        for (path, item) in read.iter() {
            // a path through a link that leads out of the tree is kept as it was read
            let at = match (item, path.rsplit_once('/')) {
                (Item::File(_), _) => read.resolve(path),
                (Item::Link(_), Some((folder, name))) => read.resolve(folder).map(|folder| format!("{folder}/{name}")),
                (Item::Link(_), None) => None,
            };
            files.insert(at.as_deref().unwrap_or(path), item.clone());
        }
        files
    }
}

impl Tree for Recorder<'_> {
    fn bytes(&self, path: &str, limit: u64) -> Option<Vec<u8>> {
        let bytes = self.tree.bytes(path, limit)?;
        self.read.borrow_mut().insert(path, Item::File(bytes.clone()));
        Some(bytes)
    }

    fn names(&self, path: &str) -> Vec<String> {
        self.tree.names(path)
    }

    fn link(&self, path: &str) -> Option<String> {
        let target = self.tree.link(path)?;
        self.read.borrow_mut().insert(path, Item::Link(target.clone()));
        Some(target)
    }

    fn is_folder(&self, path: &str) -> bool {
        self.tree.is_folder(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(items: &[(&str, &str)]) -> Files {
        let mut files = Files::default();
        for (path, text) in items {
            let item = match text.strip_prefix("-> ") {
                Some(target) => Item::Link(target.to_owned()),
                None => Item::File(text.as_bytes().to_vec()),
            };
            assert!(files.insert(path, item), "{path}");
        }
        files
    }

    #[test]
    fn links_are_followed_within_the_tree_and_never_out_of_it() {
        let files = files(&[
            ("devices/a/file", "text"),
            ("bus/one", "-> ../devices/a"),
            ("bus/two", "-> one"),
            ("bus/out", "-> ../../etc"),
            ("bus/root", "-> /devices/a"),
            ("bus/circle", "-> circle"),
            ("bus/grows", "-> grows/grows"),
        ]);
        for path in ["devices/a/file", "bus/one/file", "bus/two/file", "bus/./two//file"] {
            assert_eq!(files.bytes(path, 9).as_deref(), Some(b"text".as_slice()), "{path}");
        }
        assert_eq!(files.bytes("bus/one/file", 2).as_deref(), Some(b"te".as_slice()));
        for path in ["bus/out/passwd", "bus/root/file", "bus/circle", "bus/grows/x", "../x", "bus/none", "bus"] {
            assert_eq!(files.bytes(path, 9), None, "{path}");
            assert_eq!(files.names(path).is_empty(), path != "bus", "{path}");
        }
        assert_eq!(files.names("bus/two"), ["file"]);
        assert_eq!(files.names(""), ["bus", "devices"]);
        assert_eq!((files.link("bus/two"), files.link("bus/two/file")), (Some("one".to_owned()), None));
        assert!(files.is_folder("bus/one") && files.is_folder("") && !files.is_folder("dev"));
    }

    #[test]
    fn paths_that_leave_are_refused() {
        let mut files = Files::default();
        for path in ["/etc/x", "../x", "a/../../x", "", ".", "a\0b", "a\\..\\b", &"a/".repeat(100)] {
            assert!(!files.insert(path, Item::File(Vec::new())), "{path:?}");
        }
        assert!(files.is_empty() && files.insert("./a//b", Item::File(Vec::new())));
        assert_eq!(files.iter().next().unwrap().0, "a/b");
    }

    #[test]
    fn what_was_recorded_reads_the_same_again() {
        let original = files(&[
            ("devices/x/0/class", "3"),
            ("devices/x/0/vendor", "4"),
            ("bus/0", "-> ../devices/x/0"),
            ("class/net", "-> ../devices/x/0"),
        ]);
        let recorder = Recorder::new(&original);
        assert!(recorder.bytes("bus/0/class", 9).is_some());
        assert_eq!(recorder.link("bus/0").as_deref(), Some("../devices/x/0"));
        // read through a link that was not requested
        assert!(recorder.bytes("class/net/vendor", 9).is_some());
        let copy = recorder.into_files();
        let paths: Vec<&str> = copy.iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["bus/0", "class/net/vendor", "devices/x/0/class"]);
        assert_eq!(copy.bytes("bus/0/class", 9), original.bytes("bus/0/class", 9));
        assert_eq!(copy.bytes("class/net/vendor", 9), original.bytes("class/net/vendor", 9));
    }
}
