//! `--redact`: takes out of texts, files and records what identifies a machine, its site and its users.
//!
//! It works on the sources, before they are read: so whatever a command makes of them (text, JSON, a page with the record
//! in it, an archive) holds nothing that they do not, and a new format needs no thought. Redacted sources are still what
//! the tools print, so they are read into the same machine.
//!
//! Names of devices, files, paths, variables, parameters of the kernel, lines of its log and fields of a device's product
//! data stay only if they are of a kind that says nothing about whose machine it is ([`allowed`]). What has a form of its
//! own (UUIDs, addresses, keys) or stands where tools print names is found by patterns ([`rules`]). All of it is replaced
//! by stand-ins, the same everywhere ([`pseudonyms`]).

mod allowed;
mod blocks;
mod json;
mod lines;
mod node_list;
mod pseudonyms;
mod rules;
mod tables;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use peerlane::evidence::{Files, Item, decode};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use allowed::PARAMETERS;
use pseudonyms::{Kind, Pseudonyms};

/// Extended capability of PCI Express that holds a device's serial number, and where extended ones begin.
const SERIAL_CAPABILITY: u16 = 0x0003;
const EXTENDED: usize = 0x100;

/// The most that is kept of texts that were learned from, in bytes.
const MOST_KEPT: usize = 32 << 20;

/// What is done with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// What rules find is replaced, and its names are learned.
    Rules,
    /// All names that were learned are replaced, wherever they stand.
    Names,
}

/// Replaces what identifies, and remembers by what.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    names: Pseudonyms,
    /// Texts that were learned from, by their hash, as rules leave them: they need not be looked through again.
    learned: HashMap<u64, String>,
    /// How many bytes of them are kept.
    kept: usize,
    /// Makes hashes that nobody can foresee.
    hasher: RandomState,
    /// Whether it was said that there are too many names.
    said: bool,
}

impl Redactor {
    /// Learns the names in a text, so that they are found wherever else they stand. All sources are shown to it before
    /// the first is replaced.
    pub(crate) fn learn(&mut self, text: &str) {
        let done = self.nested(text, 0, Pass::Rules);
        self.keep(text, done);
    }

    fn keep(&mut self, text: &str, done: String) {
        if self.kept + done.len() <= MOST_KEPT {
            self.kept += done.len();
            self.learned.insert(self.hasher.hash_one(text), done);
        }
    }

    /// What rules leave of a text, as far as it was learned from.
    fn known(&mut self, text: &str) -> Option<String> {
        let done = self.learned.remove(&self.hasher.hash_one(text))?;
        self.kept -= done.len();
        Some(done)
    }

    /// Learns the name of this host.
    pub(crate) fn learn_host(&mut self, name: &str) {
        self.learn(&format!("hostname: {}\n", name.trim()));
    }

    /// The same for files, with their names.
    pub(crate) fn learn_files(&mut self, files: &Files) {
        let _ = self.each_file(files, &[Pass::Rules]);
    }

    /// A text without what identifies: what a tool printed, JSON, lines of JSON, or a system file.
    pub(crate) fn text(&mut self, text: &str) -> String {
        self.each(text, &[Pass::Rules, Pass::Names], |of, text, pass| of.nested(text, 0, pass))
    }

    fn nested(&mut self, text: &str, depth: usize, pass: Pass) -> String {
        if depth == 0
            && pass == Pass::Rules
            && !self.learned.is_empty()
            && let Some(known) = self.known(text)
        {
            return known;
        }
        if let Some(document) = self.json(text, depth, pass) {
            return document;
        }
        match pass {
            Pass::Rules => lines::redact(text, &mut self.names),
            Pass::Names => self.named(text),
        }
    }

    /// A text with all names replaced. Nothing, where there are too many to know them all.
    fn named(&mut self, text: &str) -> String {
        if self.names.full() {
            if !std::mem::replace(&mut self.said, true) {
                crate::console::say("--redact: there are too many names to replace them all; texts are left out");
            }
            return String::new();
        }
        self.names.replace_words(text).unwrap_or_else(|| text.to_owned())
    }

    /// The same for a value that is written as JSON.
    pub(crate) fn serialised<T: Serialize + DeserializeOwned>(&mut self, of: &mut T) {
        let Ok(text) = serde_json::to_string(&*of) else { return };
        if let Ok(redacted) = serde_json::from_str(&self.text(&text)) {
            *of = redacted;
        }
    }

    /// One line, or a short text such as a name.
    pub(crate) fn line(&mut self, text: &str) -> String {
        self.each(text, &[Pass::Rules, Pass::Names], Redactor::short)
    }

    fn short(&mut self, text: &str, pass: Pass) -> String {
        match pass {
            Pass::Rules => lines::plain(text, &mut self.names),
            Pass::Names => self.named(text),
        }
    }

    /// A file there: numbers and fixed words, which may equal somebody's name, so only what has a form is replaced.
    fn tree_file(&mut self, path: &str, text: &str, pass: Pass) -> String {
        if pass == Pass::Names && self.names.full() {
            return String::new();
        }
        if pass == Pass::Names || path.ends_with("/resource") || path.ends_with("cpuinfo") {
            return text.to_owned();
        }
        if path.ends_with("sys/kernel/hostname") {
            return self.names.word(Kind::Host, text.trim()) + "\n";
        }
        if path.ends_with("proc/cmdline") {
            return lines::command_line(text) + "\n";
        }
        text.split_inclusive('\n').map(|line| rules::apply(line, &mut self.names)).collect()
    }

    /// Files and links: their contents, their names, and where links lead.
    pub(crate) fn files(&mut self, files: &Files) -> Files {
        self.each_file(files, &[Pass::Rules, Pass::Names])
    }

    fn each_file(&mut self, files: &Files, passes: &[Pass]) -> Files {
        let roots: BTreeSet<String> = files.iter().filter_map(|(path, _)| root_of(path)).collect();
        let below = |path: &str| {
            let of = |root: &&String| {
                root.is_empty() || path.strip_prefix(root.as_str()).is_some_and(|p| p.starts_with('/'))
            };
            let root = roots.iter().filter(of).max_by_key(|root| root.len())?;
            let rest = path.get(root.len()..)?.trim_start_matches('/');
            let first = rest.split('/').next().unwrap_or_default();
            ["sys", "proc", "etc", "bus", "class", "devices"].contains(&first).then(|| (root.clone(), rest.to_owned()))
        };
        let mut done = Files::default();
        for (path, item) in files.iter() {
            let in_tree = below(path);
            let item = match item {
                Item::Link(target) => Item::Link(self.each(target, passes, Redactor::short)),
                Item::File(bytes) => match (text_of(bytes), &in_tree) {
                    (Some(text), Some((_, rest))) => Item::File(
                        self.each(&text, passes, |of, text, pass| of.tree_file(rest, text, pass)).into_bytes(),
                    ),
                    (Some(text), None) if path.ends_with("proc/cmdline") => {
                        Item::File((lines::command_line(&text) + "\n").into_bytes())
                    }
                    (Some(text), None) if passes == [Pass::Rules] => {
                        self.learn(&text);
                        Item::File(Vec::new())
                    }
                    (Some(text), None) => {
                        Item::File(self.each(&text, passes, |of, text, pass| of.nested(text, 0, pass)).into_bytes())
                    }
                    (None, _) if path.ends_with("/config") => Item::File(without_serial(bytes)),
                    // nothing reads other binary data, and nothing is known about it
                    (None, _) => continue,
                },
            };
            let path = match in_tree {
                Some((root, rest)) => {
                    let rest = self.each(&rest, passes, Redactor::short);
                    if root.is_empty() { rest } else { format!("{}/{rest}", self.entry(&root)) }
                }
                None => self.entry(path),
            };
            done.insert(&path, item);
        }
        done
    }

    /// A text after some passes, in their order.
    fn each(&mut self, text: &str, passes: &[Pass], of: impl Fn(&mut Self, &str, Pass) -> String) -> String {
        passes.iter().fold(text.to_owned(), |text, pass| of(self, &text, *pass))
    }

    /// The path of an entry of an archive or folder.
    fn entry(&mut self, path: &str) -> String {
        let parts: Vec<String> = path.split('/').map(|part| self.file_name(part)).collect();
        parts.join("/")
    }

    /// What a source is called instead of its path: the file's own name, if it consists of words that name tools and
    /// formats.
    pub(crate) fn source(&mut self, path: &str) -> String {
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
        self.file_name(name)
    }

    fn file_name(&mut self, name: &str) -> String {
        if allowed::is_file_name(name) || name.is_empty() {
            return name.to_owned();
        }
        // what it ends in decides how it is read
        let endings = ["tar.zst", "tar", "toml", "json", "xml", "txt", "log", "md", "partial"];
        let ending = endings.into_iter().find(|e| name.to_ascii_lowercase().ends_with(&format!(".{e}")));
        let new = self.names.of(Kind::Source, name);
        ending.filter(|_| new != name).map_or(new.clone(), |ending| format!("{new}.{ending}"))
    }
}

/// The folder of a tree that holds PCI devices, if this is one of its files.
fn root_of(path: &str) -> Option<String> {
    let at = ["sys/bus/pci/devices/", "bus/pci/devices/"].into_iter().filter_map(|devices| path.find(devices)).min()?;
    let before = path.get(..at)?;
    (before.is_empty() || before.ends_with('/')).then(|| before.trim_end_matches('/').to_owned())
}

/// A file's text; `None` for binary data.
fn text_of(bytes: &[u8]) -> Option<String> {
    let text = decode(bytes);
    (!text.contains('\0') && !text.contains(char::REPLACEMENT_CHARACTER)).then(|| text.into_owned())
}

/// Configuration space with the serial number zeroed.
fn without_serial(config: &[u8]) -> Vec<u8> {
    let mut config = config.to_vec();
    let word = |c: &[u8], at: usize| Some(u16::from_le_bytes([*c.get(at)?, *c.get(at + 1)?]));
    let mut at = EXTENDED;
    // bounded, so that a circular list ends
    for _ in 0..config.len() / 4 {
        let Some((id, next)) = word(&config, at).zip(word(&config, at + 2)) else { break };
        if id == SERIAL_CAPABILITY
            && let Some(serial) = config.get_mut(at + 4..at + 12)
        {
            serial.fill(0);
        }
        at = usize::from(next >> 4);
        if at < EXTENDED {
            break;
        }
    }
    config
}

/// The same in hexadecimal digits, as `peerlane/files/1` holds bytes; nothing of what is none.
fn hex_without_serial(text: &str) -> String {
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
    bytes.map_or_else(String::new, |bytes| without_serial(&bytes).iter().map(|b| format!("{b:02x}")).collect())
}
