//! The name under which a host's records are kept in a directory that hosts share (`--to`).

#[expect(deprecated, reason = "the standard library's only hash with a key and a fixed algorithm")]
use std::hash::SipHasher;
use std::hash::{Hash, Hasher};

use peerlane::input_file::attribute;

use crate::Failure;

/// The longest name of a folder. Linux allows 64 bytes for a host, DNS 253.
const LONGEST: usize = 100;

/// Names that many hosts have.
const NOT_A_NAME: [&str; 4] = ["", "(none)", "localhost", "localhost.localdomain"];

/// Files with a random number of 128 bits in hexadecimal: of the installation, or of this boot.
const IDS: [&str; 2] = ["/etc/machine-id", "/proc/sys/kernel/random/boot_id"];

/// A host's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostName {
    /// In the record.
    pub(crate) name: String,
    /// As a folder.
    pub(crate) folder: String,
}

impl HostName {
    /// The given name, or the system's; with `redact`, a stand-in for it.
    pub(crate) fn of(given: Option<&str>, redact: bool) -> Result<HostName, Failure> {
        let name = match given.map(str::trim) {
            Some("") => return Err(Failure::new("--host: the name is empty")),
            Some(name) => name.to_owned(),
            None => system().unwrap_or_default(),
        };
        if given.is_none() && NOT_A_NAME.contains(&name.as_str()) {
            let shown = if name.is_empty() { "no name".to_owned() } else { format!("the name {name}") };
            return Err(Failure::new(format!("this host has {shown}; give one that no other has: --host NAME")));
        }
        if !redact {
            return Ok(HostName { folder: folder(&name), name });
        }
        let Some(id) = IDS.iter().find_map(|file| id(&attribute(file)?)) else {
            return Err(Failure::new(format!("no stand-in for the host's name: cannot read {}", IDS.join(" or "))));
        };
        let stand_in = stand_in(id, &name);
        Ok(HostName { folder: stand_in.clone(), name: stand_in })
    }
}

/// The system's name for this host.
pub(crate) fn system() -> Option<String> {
    attribute("/proc/sys/kernel/hostname")
}

/// A name as one folder: letters, digits, `.`, `_` and `-`. One that had to be changed ends with a number computed from
/// the original, so that two hosts never share a folder.
fn folder(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain = name.len() <= LONGEST && !name.starts_with(['.', '-']) && name.chars().all(allowed);
    if plain {
        return name.to_owned();
    }
    let kept: String = name.chars().map(|c| if allowed(c) { c } else { '_' }).take(LONGEST - 13).collect();
    let kept = kept.trim_start_matches(['.', '-']);
    let kept = if kept.is_empty() { "host" } else { kept };
    format!("{kept}-{:012x}", hash((0, 0), name) >> 16)
}

/// The same for one host on every day, and different for each host. Without the machine's random number, which no record
/// holds, it cannot be compared with guessed names.
fn stand_in(id: (u64, u64), name: &str) -> String {
    format!("host-{:012x}", hash(id, name) >> 16)
}

#[expect(deprecated, reason = "the standard library's only hash with a key and a fixed algorithm")]
fn hash(key: (u64, u64), name: &str) -> u64 {
    let mut hasher = SipHasher::new_with_keys(key.0, key.1);
    name.hash(&mut hasher);
    hasher.finish()
}

/// The 32 digits of `/etc/machine-id`, or those of a UUID.
fn id(text: &str) -> Option<(u64, u64)> {
    let digits = text.trim().replace('-', "");
    let (high, low) = (digits.len() == 32).then(|| digits.split_at_checked(16)).flatten()?;
    Some((u64::from_str_radix(high, 16).ok()?, u64::from_str_radix(low, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_folder() {
        for good in ["node001", "gpu-7.cluster.example", "a_b"] {
            assert_eq!(folder(good), good);
        }
        let long = "x".repeat(300);
        let hostile = ["..", ".", "../../etc", "a/b", "a\\b", "-rf", ".hidden", "nöde", "a b", "a\nb", "\0", &long];
        let mut folders: Vec<String> = hostile.iter().map(|name| folder(name)).collect();
        for folder in &folders {
            assert!(folder.len() <= LONGEST && !folder.starts_with(['.', '-']) && !folder.is_empty(), "{folder}");
            assert!(folder.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)), "{folder}");
        }
        folders.sort();
        folders.dedup();
        assert_eq!(folders.len(), hostile.len(), "no two share a folder: {folders:?}");
        assert_ne!(folder("a/b"), folder("a\\b"));
    }

    #[test]
    fn a_stand_in_depends_on_machine_and_name() {
        let ids = [id("0123456789abcdef0123456789abcdef\n"), id("01234567-89ab-cdef-0123-456789abcdee")];
        let [one, other] = ids.map(Option::unwrap);
        // the algorithm is fixed: a host keeps its stand-in when the program is replaced
        assert_eq!(stand_in(one, "node1"), "host-2719dc4d36e4");
        assert_ne!(stand_in(one, "node1"), stand_in(one, "node2"));
        assert_ne!(stand_in(one, "node1"), stand_in(other, "node1"));
        for wrong in ["", "uninitialized\n", "0123", &"g".repeat(32), &"ä".repeat(16)] {
            assert_eq!(id(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_given_name_is_used() {
        let named = HostName::of(Some(" node7 "), false).unwrap();
        assert_eq!((named.name.as_str(), named.folder.as_str()), ("node7", "node7"));
        assert!(HostName::of(Some(" "), false).is_err());
        if let Ok(hidden) = HostName::of(Some("node7"), true) {
            assert!(!hidden.name.contains("node7") && hidden.name == hidden.folder, "{hidden:?}");
        }
    }
}
