//! Files in memory as one JSON document, `peerlane/files/1`: so that a tree of sysfs travels as a text.
//!
//! ```json
//! {"schema": "peerlane/files/1", "text": {"proc/modules": "…"}, "hex": {"sys/…/config": "86801…"}, "links": {"sys/bus/…": "../…"}}
//! ```

use std::collections::BTreeMap;

use peerlane_machine::one_line::Lines;
use serde::{Deserialize, Serialize};

use super::json;
use super::read::read_files;
use super::tree::{Files, Item};
use super::{Found, Text};

/// Names the format.
const SCHEMA: &str = "peerlane/files/1";

/// The schema's name up to its number.
const NAMES_IT: &str = "\"peerlane/files/";

const TOOL: &str = "files";

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Document {
    schema: String,
    text: BTreeMap<String, Lines>,
    hex: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
}

impl Files {
    /// All of it as one JSON document, which [`scan_text`](super::scan_text) reads as it reads the files.
    pub fn to_json(&self) -> String {
        let mut document = Document { schema: SCHEMA.to_owned(), ..Document::default() };
        for (path, item) in self.iter() {
            let path = path.to_owned();
            match item {
                Item::Link(target) => drop(document.links.insert(path, target.clone())),
                Item::File(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) if !text.contains('\0') => drop(document.text.insert(path, Lines(text.to_owned()))),
                    _ => drop(document.hex.insert(path, hex(bytes))),
                },
            }
        }
        // a map of texts always can be written
        serde_json::to_string(&document).unwrap_or_default()
    }
}

pub(super) fn scan(text: &Text, found: &mut Found) {
    json::documents(text, "schema", NAMES_IT, |lines, read: Result<Document, _>| match read {
        Ok(document) if document.schema == SCHEMA => {
            found.append(read_files(text.source(), &document.into_files()));
        }
        Ok(document) => {
            let message = format!("a {} document, which this version does not read", document.schema);
            found.warn(text, TOOL, lines, message);
        }
        Err(error) => found.warn(text, TOOL, lines, format!("the files cannot be read: {error}")),
    });
}

impl Document {
    fn into_files(self) -> Files {
        let mut files = Files::default();
        for (path, Lines(text)) in self.text {
            // a document within a document would be read without end
            if !text.contains(NAMES_IT) {
                files.insert(&path, Item::File(text.into_bytes()));
            }
        }
        for (path, digits) in self.hex {
            files.insert(&path, Item::File(bytes(&digits)));
        }
        for (path, target) in self.links {
            files.insert(&path, Item::Link(target));
        }
        files
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes up to the first pair that is none.
fn bytes(digits: &str) -> Vec<u8> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.as_bytes().chunks_exact(2).map_while(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::super::{Fact, scan_text};
    use super::*;

    fn files() -> Files {
        let mut files = Files::default();
        let gpu = "sys/devices/pci0000:00/0000:00:03.0";
        let config: Vec<u8> = [vec![0xde, 0x10, 0, 0xff], vec![0; 60]].concat();
        for (name, bytes) in [("class", b"0x030200\n".to_vec()), ("vendor", b"0x10de".to_vec()), ("config", config)] {
            files.insert(&format!("{gpu}/{name}"), Item::File(bytes));
        }
        files.insert("sys/bus/pci/devices/0000:00:03.0", Item::Link(format!("../../../{}", &gpu[4..])));
        files
    }

    #[test]
    fn a_tree_as_text_is_the_tree() {
        let facts = |found: Found| found.evidence.into_iter().map(|e| e.fact).collect::<Vec<_>>();
        let document = files().to_json();
        let of_text = facts(scan_text(&Text::new("x", document.as_bytes())));
        assert!(matches!(&of_text[..], [Fact::Pci(_)]), "{of_text:?}");
        assert_eq!(of_text, facts(read_files("x", &files())));
        let read: Document = serde_json::from_str(&document).unwrap();
        assert_eq!(read.into_files(), files());
    }

    #[test]
    fn other_versions_cuts_and_nests_are_not_followed() {
        let document = files().to_json();
        for broken in [document.replace("files/1", "files/2"), document[..document.len() - 2].to_owned()] {
            let found = scanned(scan, &broken);
            assert_eq!((found.evidence.len(), found.warnings.len()), (0, 1));
        }
        let mut nest = Files::default();
        nest.insert("inner", Item::File(document.into_bytes()));
        assert_eq!(scanned(scan, &nest.to_json()), Found::default());
        assert_eq!(bytes("0aff0"), [10, 255]);
        assert_eq!(bytes("zz00"), [0_u8; 0]);
    }
}
