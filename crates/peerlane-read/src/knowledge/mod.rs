//! What programs say, and what it means: entries of `knowledge/*.toml`, one file for each program or subsystem of the kernel.
//!
//! The files are compiled into a table, so that a start of the program reads no TOML: `UPDATE_KNOWLEDGE=1 cargo test -p
//! peerlane-read knowledge::` writes it, and a test compares it with the files. Entries of a site ([`add`]) are read at run time.

mod file;
mod index;
mod pattern;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

pub use file::{KnowledgeError, add};
pub(crate) use index::{Hit, Index};

/// What kind of thing a message is about, and so where to look next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Links, ports, cables and switches between devices or hosts.
    Fabric,
    /// A resource of the host or the container: memory, limits, address space, device files.
    Host,
    /// Drivers, runtimes and libraries: missing, too old, or of different releases.
    Driver,
    /// A part is broken or not powered.
    Hardware,
    /// A setting of the job, the firmware or the site.
    Setting,
    /// The other end of a connection: a consequence of what happened there.
    OtherEnd,
    /// The program that calls the library.
    Caller,
    /// The library itself.
    Internal,
}

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// A fault that the message states.
    Certain,
    /// A fault, by all that is known.
    Likely,
    /// Perhaps a fault.
    Possible,
    /// A limit of the design or of a setting.
    Limit,
    /// Good to know.
    Note,
    /// Known to be without meaning.
    Nothing,
}

/// A pattern, and the place of its words by which it is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Fixed words with parts.
    pub text: &'static str,
    /// The byte at which the words begin by which it is looked for.
    pub anchor: usize,
}

/// A message of a program: how it looks, what it means and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name: `nccl-ib-port-down`.
    pub id: &'static str,
    /// The program that prints it.
    pub program: &'static str,
    /// How it looks, one pattern for each wording.
    pub patterns: &'static [Pattern],
    /// What its line must also hold: one of these; none if the words suffice.
    pub marks: &'static [&'static str],
    /// Entries or facts of the same machine without which it does not apply.
    pub with: &'static [&'static str],
    /// The entries that it replaces where it applies.
    pub instead_of: &'static [&'static str],
    /// The entries whose messages it ends where it stands below them.
    pub resolves: &'static [&'static str],
    /// The entries and rules of which it is a consequence.
    pub consequence_of: &'static [&'static str],
    /// What it is about.
    pub class: Class,
    /// How much it matters.
    pub weight: Weight,
    /// Whether it stands for many messages: it gives way to a more specific entry on the same line.
    pub family: bool,
    /// The rule that reports it with others, where one does.
    pub rule: &'static str,
    /// Whether a reset of the part repairs it.
    pub reset: bool,
    /// What is wrong, with parts of the pattern.
    pub summary: &'static str,
    /// What to do.
    pub fix: &'static str,
    /// What would confirm it.
    pub confirm: &'static str,
    /// Whether a site added it.
    pub added: bool,
}

/// The entries of the program itself, by name.
static ENTRIES: &[Entry] = include!("table.in");

/// Entries that a site added.
static ADDED: OnceLock<Vec<Entry>> = OnceLock::new();

/// All entries: a site's first.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    ADDED.get().into_iter().flatten().chain(ENTRIES)
}

/// The entry of a name.
pub fn entry(id: &str) -> Option<&'static Entry> {
    let own = || ENTRIES.binary_search_by(|entry| entry.id.cmp(id)).ok().and_then(|at| ENTRIES.get(at));
    ADDED.get().into_iter().flatten().find(|entry| entry.id == id).or_else(own)
}

/// The index of all entries, made when it is first needed.
pub(crate) fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| Index::of(entries().collect()))
}
