//! Stable stand-ins: the same original has the same one everywhere, so that a topology stays readable.

use std::collections::{BTreeMap, HashMap, HashSet};

use regex::Regex;

use super::allowed;
use super::words::Words;

/// What an original is, which decides the form of its stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// Words that are common in captures: as the name of a host, a user, an account or a job they are replaced only where a name
/// stands. Those that name tools are not here but among [`allowed::is_file_name`].
const COMMON: &str = "^(?i:localhost|root|user|users|admin|node|nodes|pci|host|hosts|linux|kernel|nvidia|mellanox|cuda|python[0-9.]*|\
    server|client|test|tests|none|null|unknown|memory|name|rate|state|active|inactive|ubuntu|debian|centos|rocky|redhat|default|\
    kube|public|batch|debug|normal|train|trainer|training|inference|compute|login|master|worker|head|local|remote|global|service|\
    daemon|docker|container|slurm|kubernetes|version|product|model|vendor|serial|number|physical|polling|down|idle|alloc|drain|mixed|\
    running|pending|completed|failed|timeout|power|performance|average|ring|tree|channel|float|half|double|size|count|type|redop|\
    time|algbw|busbw|peer|access|matrix|switch|bridge|ports|links|width|speed|error|errors|warning|fatal|fault|disabled|enabled|\
    supported|current|copy|direct|staged|unidirectional|bidirectional|gather|scatter|broadcast|sendrecv|alltoall|allreduce|torch|\
    pytorch|jax|mpirun|bash|legacy|generic|main|work|data|home|scratch|info|warn|trace|none|auto|system|\
    (?:gpu|cpu|nic|numa|socket|device|link|port|rank|nvme|switch|nvlink)[0-9]*)$";

/// Shorter values of keys are not searched for elsewhere: they may mean anything.
const SHORTEST: usize = 6;

/// So many originals have stand-ins. A text with more is not let through.
const MOST: usize = 1 << 21;

/// The first so many originals of a kind have stand-ins of their own; others of a short form, such as six digits, may share
/// one.
const DISTINCT: usize = 1 << 20;

/// Originals and their stand-ins.
#[derive(Debug, Default)]
pub(super) struct Pseudonyms {
    known: HashMap<(Kind, String), String>,
    counts: BTreeMap<Kind, usize>,
    issued: HashSet<String>,
    /// What stands for the digits of an original, whatever is between them.
    numbers: HashMap<String, usize>,
    /// Originals that are replaced wherever they stand.
    words: Words,
}

impl Pseudonyms {
    /// The stand-in for an original. A stand-in is its own.
    pub(super) fn of(&mut self, kind: Kind, original: &str) -> String {
        let zeros = |text: &str| text.bytes().filter(u8::is_ascii_alphanumeric).all(|b| b == b'0' || b == b'x');
        let nothing = matches!(kind, Kind::Number | Kind::Digits) && zeros(original);
        if original.is_empty() || nothing || self.issued.contains(original) {
            return original.to_owned();
        }
        // a GUID is the same in all its forms
        let plain = |text: &str| text.bytes().filter(u8::is_ascii_hexdigit).map(char::from).collect::<String>();
        let number =
            (kind == Kind::Digits).then(|| plain(original.strip_prefix("0x").unwrap_or(original)).to_ascii_lowercase());
        let key = (kind, original.to_ascii_lowercase());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.full() {
            return String::new();
        }
        if let Some(n) = number.as_ref().and_then(|number| self.numbers.get(number)) {
            let new = in_form(original, *n);
            self.issued.insert(new.clone());
            self.known.insert(key, new.clone());
            return new;
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
                Kind::Ipv4 => ipv4(n),
                Kind::Ipv6 => format!("2001:db8::{n:x}"),
                Kind::Other => format!("redacted-{n}"),
            };
            // two originals never become one, unless there are more than their form has room for
            if kind == Kind::Number || n > DISTINCT || self.issued.insert(new.clone()) {
                break new;
            }
        };
        if let Some(number) = number {
            self.numbers.insert(number, *count);
        }
        self.known.insert(key, new.clone());
        new
    }

    /// Whether there is no room for another original, so that not all that identifies is known.
    pub(super) fn full(&self) -> bool {
        self.known.len() >= if cfg!(test) { 1 << 18 } else { MOST }
    }

    /// Like [`Pseudonyms::of`]; the original is also replaced wherever else it stands as a word.
    pub(super) fn word(&mut self, kind: Kind, original: &str) -> String {
        let new = self.of(kind, original);
        let long = kind != Kind::Other || original.len() >= SHORTEST;
        if new != original && long && distinctive(original) {
            self.words.add(original, &new);
        }
        new
    }

    /// Another form of a name that has a stand-in.
    pub(super) fn alias(&mut self, original: &str, new: &str) {
        if distinctive(original) {
            self.words.add(original, new);
        }
    }

    /// A text with all words replaced; `None` if it has none of them.
    pub(super) fn replace_words(&self, text: &str) -> Option<String> {
        self.words.replace(text)
    }
}

/// Whether a name may be searched for everywhere: it is hardly another word too.
fn distinctive(word: &str) -> bool {
    static COMMON_WORDS: std::sync::LazyLock<Option<Regex>> = std::sync::LazyLock::new(|| Regex::new(COMMON).ok());
    let marked = word.contains(|c: char| c.is_ascii_digit() || "-._".contains(c));
    let number = word.bytes().all(|b| b.is_ascii_digit());
    let long = if marked { word.len() > if number { 6 } else { 2 } } else { word.len() > 3 };
    long && !allowed::is_file_name(word) && !COMMON_WORDS.as_ref().is_some_and(|common| common.is_match(word))
}

/// The address that stands for the nth: of the three ranges for documentation, then of that for benchmarks, then of that
/// which is reserved. None is anybody's.
fn ipv4(n: usize) -> String {
    const RANGES: [(u32, u32); 5] = [
        (0xc000_0200, 254),
        (0xc633_6400, 254),
        (0xcb00_7100, 254),
        (0xc612_0000, (1 << 17) - 2),
        (0xf000_0000, (1 << 28) - 2),
    ];
    let mut n = u32::try_from(n).unwrap_or(u32::MAX);
    for (first, room) in RANGES {
        if n <= room {
            return std::net::Ipv4Addr::from(first + n).to_string();
        }
        n -= room;
    }
    // never: texts have no room for so many
    "255.255.255.255".to_owned()
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
    fn addresses_have_stand_ins_of_their_own() {
        assert_eq!(
            (ipv4(1).as_str(), ipv4(254).as_str(), ipv4(255).as_str()),
            ("192.0.2.1", "192.0.2.254", "198.51.100.1")
        );
        assert_eq!((ipv4(762).as_str(), ipv4(763).as_str()), ("203.0.113.254", "198.18.0.1"));
        let mut all = Pseudonyms::default();
        let of = |n: u32| std::net::Ipv4Addr::from(0x0a00_0000 + n).to_string();
        let distinct: HashSet<String> = (0..200_000).map(|n| all.of(Kind::Ipv4, &of(n))).collect();
        assert_eq!(distinct.len(), 200_000);
        assert!(distinct.iter().all(|address| address.parse::<std::net::Ipv4Addr>().is_ok()));
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
