//! Stable stand-ins: the same original has the same one everywhere, so that a topology stays readable.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

/// What an original is, which decides the form of its stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A host: `host-1`.
    Host,
    /// A user: `user-1`.
    User,
    /// A network interface, RDMA device, bridge or tunnel: `net-1`.
    Net,
    /// A process: `process-1`.
    Process,
    /// A path: `/path-1`.
    Path,
    /// A file or folder of captures: `source-1`.
    Source,
    /// A number, such as a process or a LID: another number. Zero stays.
    Number,
    /// A UUID, MAC, GUID, address in memory or hash: digits of the same form.
    Digits,
    /// An IPv4 address: one of the range for documentation.
    Ipv4,
    /// An IPv6 address: one of the range for documentation.
    Ipv6,
    /// Serial numbers, keys, and everything else: `redacted-1`.
    Other,
}

/// Words that are common in captures: as the name of a host or user they are replaced only where a name stands.
const COMMON: &str = "^(?i:localhost|root|user|admin|node|pci|host|linux|kernel|nvidia|mellanox|cuda|python|server|client|\
    test|none|null|unknown|memory|system|name|rate|state|active|ubuntu|debian|centos|rocky|redhat|\
    (?:gpu|cpu|nic|numa|socket|device|link|port)[0-9]*)$";

/// Shorter values of keys are not searched for elsewhere: they may mean anything.
const SHORTEST: usize = 6;

/// What stands before a word that is not the name it looks like: `NUMA node1`, `system/node/node1`.
const BEFORE_OTHERS: [&str; 2] = ["NUMA ", "/node/"];

/// Originals and their stand-ins.
#[derive(Debug, Default)]
pub(super) struct Pseudonyms {
    known: BTreeMap<(Kind, String), String>,
    counts: BTreeMap<Kind, usize>,
    issued: BTreeSet<String>,
    /// Originals that are replaced wherever they stand as a word.
    words: BTreeMap<String, String>,
    /// All of `words` as one pattern, once it is needed.
    pattern: Option<Option<Regex>>,
}

impl Pseudonyms {
    /// The stand-in for an original. A stand-in is its own.
    pub(super) fn of(&mut self, kind: Kind, original: &str) -> String {
        let zeros = |text: &str| text.bytes().filter(u8::is_ascii_alphanumeric).all(|b| b == b'0' || b == b'x');
        let nothing = matches!(kind, Kind::Number | Kind::Digits) && zeros(original);
        if original.is_empty() || nothing || self.issued.contains(original) {
            return original.to_owned();
        }
        let key = (kind, original.to_ascii_lowercase());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let count = self.counts.entry(kind).or_default();
        let new = loop {
            *count += 1;
            let n = *count;
            let new = match kind {
                Kind::Host => format!("host-{n}"),
                Kind::User => format!("user-{n}"),
                Kind::Net => format!("net-{n}"),
                Kind::Process => format!("process-{n}"),
                Kind::Path => format!("/path-{n}"),
                Kind::Source => format!("source-{n}"),
                Kind::Number => n.to_string(),
                Kind::Digits => in_form(original, n),
                Kind::Ipv4 => format!("192.0.2.{}", n % 256),
                Kind::Ipv6 => format!("2001:db8::{n:x}"),
                Kind::Other => format!("redacted-{n}"),
            };
            // two originals never become one, unless there are more than their form has room for
            if matches!(kind, Kind::Number | Kind::Ipv4) || n > 1 << 20 || self.issued.insert(new.clone()) {
                break new;
            }
        };
        self.known.insert(key, new.clone());
        new
    }

    /// Like [`Pseudonyms::of`]; the original is also replaced wherever else it stands as a word.
    pub(super) fn word(&mut self, kind: Kind, original: &str) -> String {
        let new = self.of(kind, original);
        let long = kind != Kind::Other || original.len() >= SHORTEST;
        if new != original && long && distinctive(original) && !self.words.contains_key(original) {
            self.words.insert(original.to_owned(), new.clone());
            self.pattern = None;
        }
        new
    }

    /// Another form of a name that has a stand-in.
    pub(super) fn alias(&mut self, original: &str, new: &str) {
        if distinctive(original) && self.words.insert(original.to_owned(), new.to_owned()).is_none() {
            self.pattern = None;
        }
    }

    /// A text with all words replaced.
    pub(super) fn replace_words(&mut self, text: &str) -> Option<String> {
        if self.words.is_empty() {
            return None;
        }
        let words = &self.words;
        let pattern = self.pattern.get_or_insert_with(|| {
            let mut longest: Vec<&String> = words.keys().collect();
            longest.sort_by_key(|word| std::cmp::Reverse(word.len()));
            let all: Vec<String> = longest.into_iter().map(|word| regex::escape(word)).collect();
            Regex::new(&all.join("|")).ok()
        });
        let pattern = pattern.as_ref().filter(|pattern| pattern.is_match(text))?;
        let mut done = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(found) = pattern.find(rest) {
            let (before, from) = rest.split_at(found.start());
            let (word, after) = from.split_at(found.len());
            done.push_str(before);
            let alone = !adjoins(done.chars().next_back()) && !adjoins(after.chars().next());
            let other = BEFORE_OTHERS.iter().any(|before| done.ends_with(before));
            let new = words.get(word).filter(|_| alone && !other);
            done.push_str(new.map_or(word, String::as_str));
            rest = after;
        }
        done.push_str(rest);
        Some(done)
    }
}

/// Whether a character is part of a word.
pub(super) fn adjoins(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// Whether a name may be searched for everywhere: it is hardly another word too.
fn distinctive(word: &str) -> bool {
    static COMMON_WORDS: std::sync::LazyLock<Option<Regex>> = std::sync::LazyLock::new(|| Regex::new(COMMON).ok());
    let common = COMMON_WORDS.as_ref().is_some_and(|common| common.is_match(word));
    let marked = word.contains(|c: char| c.is_ascii_digit() || "-._".contains(c));
    let number = word.bytes().all(|b| b.is_ascii_digit());
    !common && if marked { word.len() > if number { 6 } else { 2 } } else { word.len() > 3 }
}

/// A number in the form of a text: its hexadecimal digits replaced from the right, zeros before them.
fn in_form(text: &str, number: usize) -> String {
    let (prefix, digits) = match text.strip_prefix("0x") {
        Some(digits) => ("0x", digits),
        None => ("", text),
    };
    let mut new = format!("{number:x}").into_bytes();
    let mut formed: Vec<u8> = digits.bytes().collect();
    for byte in formed.iter_mut().rev().filter(|b| b.is_ascii_hexdigit()) {
        *byte = new.pop().unwrap_or(b'0');
    }
    format!("{prefix}{}", String::from_utf8(formed).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_original_has_the_same_stand_in() {
        let mut all = Pseudonyms::default();
        assert_eq!(all.of(Kind::Host, "node7"), "host-1");
        assert_eq!(all.of(Kind::Host, "node8"), "host-2");
        assert_eq!(all.of(Kind::Host, "NODE7"), "host-1");
        assert_eq!(all.of(Kind::Host, "host-1"), "host-1", "a stand-in is its own");
        assert_eq!(all.of(Kind::Digits, "0c:42:a1:00:00:ff"), "00:00:00:00:00:01");
        assert_eq!(all.of(Kind::Digits, "0xffff888012345678"), "0x0000000000000002");
        assert_eq!(all.of(Kind::Digits, "0000:0000"), "0000:0000", "zeros identify nothing");
        assert_eq!((all.of(Kind::Number, "4711"), all.of(Kind::Number, "0")), ("1".to_owned(), "0".to_owned()));
    }

    #[test]
    fn distinctive_names_are_replaced_as_words() {
        let mut all = Pseudonyms::default();
        all.word(Kind::Host, "node7");
        all.word(Kind::Host, "node7.example.org");
        all.word(Kind::Host, "gpu");
        all.word(Kind::User, "max");
        let done = all.replace_words("node7 node77 xnode7 node7.example.org (node7) gpu max node7-ib").unwrap();
        assert_eq!(done, "host-1 node77 xnode7 host-2 (host-1) gpu max host-1-ib");
    }
}
