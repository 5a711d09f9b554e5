//! Documents of JSON: strings and keys are replaced in their places, and all else stays as it was written, since readers may
//! go by lines and by order.

use std::ops::Range;

use peerlane::run::unsealed;
use serde::de::IgnoredAny;

use super::pseudonyms::Kind;
use super::{Pass, Redactor, hex_without_serial};

/// Fields that identify, in lower case, with what they are.
const FIELDS: &[(&str, Kind)] = &[
    ("host", Kind::Host),
    ("hostname", Kind::Host),
    ("user", Kind::User),
    ("username", Kind::User),
    ("serial", Kind::Other),
    ("serial_number", Kind::Other),
    ("uuid", Kind::Digits),
    ("guid", Kind::Digits),
    ("node_guid", Kind::Digits),
    ("port_guid", Kind::Digits),
    ("sys_image_guid", Kind::Digits),
    ("pdi", Kind::Digits),
    ("cluster", Kind::Digits),
    ("board_id", Kind::Digits),
    ("asset_tag", Kind::Other),
    // what a person writes in sentences may say anything
    ("title", Kind::Other),
    ("note", Kind::Other),
    ("comment", Kind::Other),
    ("pid", Kind::Number),
    ("lid", Kind::Number),
];

/// The most levels of JSON within strings of JSON.
const MAX_DEPTH: usize = 8;

/// A value with its place in the text.
enum Node {
    String(Range<usize>),
    Number(Range<usize>),
    /// `true`, `false`, `null`.
    Word,
    List(Vec<Node>),
    Object(Vec<(Range<usize>, Node)>),
}

/// Whether a text is one document.
fn is_document(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

impl Redactor {
    /// A text after one pass, if it is JSON or lines of JSON.
    pub(super) fn json(&mut self, text: &str, depth: usize, pass: Pass) -> Option<String> {
        let start = text.trim_start_matches('\u{feff}').trim_start();
        if depth >= MAX_DEPTH || !start.starts_with(['{', '[']) {
            return None;
        }
        if is_document(start) {
            // a record's checksum is of what it was before
            return self.document(&unsealed(start), depth, pass);
        }
        let first = start.lines().next().filter(|line| line.starts_with('{'));
        first.is_some_and(is_document).then(|| self.lines_of_json(start, depth, pass))
    }

    /// Lines of JSON, and other lines between them.
    fn lines_of_json(&mut self, text: &str, depth: usize, pass: Pass) -> String {
        let mut done = String::with_capacity(text.len());
        let mut others = String::new();
        for line in text.split_inclusive('\n') {
            if is_document(line) {
                done.push_str(&self.nested(&std::mem::take(&mut others), MAX_DEPTH, pass));
                // its checksum, too, is of what it was before
                let plain = unsealed(line);
                done.push_str(&self.document(&plain, depth, pass).unwrap_or_default());
                done.push_str(if line.ends_with('\n') && !plain.ends_with('\n') { "\n" } else { "" });
            } else if line.ends_with('\n') || !line.starts_with('{') {
                others.push_str(line);
            }
            // half a line, at the end of a growing record, is read by nobody
        }
        done + &self.nested(&others, MAX_DEPTH, pass)
    }

    fn document(&mut self, text: &str, depth: usize, pass: Pass) -> Option<String> {
        let node = Parser { text, at: 0 }.value()?;
        let mut edits = Edits { text, done: String::with_capacity(text.len()), from: 0 };
        self.node(&node, None, depth + 1, pass, &mut edits);
        edits.done.push_str(&text[edits.from..]);
        Some(edits.done)
    }

    /// Replaces in all strings of a value, and in its keys. `kind`: what its field says that it is.
    fn node(&mut self, node: &Node, kind: Option<Kind>, depth: usize, pass: Pass, edits: &mut Edits<'_>) {
        match node {
            Node::String(at) => {
                edits.string(at, |text| match kind.filter(|_| pass == Pass::Rules) {
                    Some(kind) => self.field(kind, text),
                    None => self.string(text, depth, pass),
                });
            }
            Node::Number(at) if kind == Some(Kind::Number) && pass == Pass::Rules => {
                let new = self.names.of(Kind::Number, &edits.text[at.clone()]);
                edits.replace(at, if new.is_empty() { "0" } else { &new });
            }
            Node::Number(_) | Node::Word => {}
            Node::List(all) => all.iter().for_each(|one| self.node(one, None, depth, pass, edits)),
            Node::Object(fields) => {
                let keys: Vec<String> = fields.iter().map(|(key, _)| edits.decoded(key)).collect();
                let is = |key: &str, value: &Node, name: &str, text: &str| {
                    key == name && matches!(value, Node::String(at) if edits.decoded(at) == text)
                };
                if keys.iter().zip(fields).any(|(key, (_, value))| is(key, value, "schema", "peerlane/files/1")) {
                    return self.tree(&keys, fields, depth, pass, edits);
                }
                // an event of a trace is of a process, and has a name of its own, unless that says what its arguments name
                let event = keys.iter().any(|key| key == "ph");
                let names = ["process_name", "process_labels", "thread_name"];
                let named = |name: &str| keys.iter().zip(fields).any(|(key, (_, value))| is(key, value, "name", name));
                let arguments = event && names.into_iter().any(named);
                let process = kind == Some(Kind::Process) || (!event && keys.iter().any(|key| key == "pid"));
                for (key, (at, value)) in keys.iter().zip(fields) {
                    if key.len() > 2 {
                        edits.string(at, |key| self.short(key, pass));
                    }
                    let lower = key.to_ascii_lowercase();
                    let kind = FIELDS.iter().find(|(name, _)| *name == lower).map(|(_, kind)| *kind);
                    let process =
                        (process && matches!(lower.as_str(), "name" | "labels")) || (arguments && lower == "args");
                    let kind = kind.or_else(|| process.then_some(Kind::Process));
                    self.node(value, kind, depth, pass, edits);
                }
            }
        }
    }

    /// A `peerlane/files/1` document: its paths and contents are those of files.
    fn tree(
        &mut self,
        keys: &[String],
        fields: &[(Range<usize>, Node)],
        depth: usize,
        pass: Pass,
        edits: &mut Edits<'_>,
    ) {
        for (key, (_, value)) in keys.iter().zip(fields) {
            match (key.as_str(), value) {
                (part @ ("text" | "hex" | "links"), Node::Object(entries)) => {
                    for (at, entry) in entries {
                        let path = edits.decoded(at);
                        // names of network devices are in paths
                        edits.string(at, |path| self.short(path, pass));
                        match entry {
                            Node::String(at) => edits.string(at, |text| match part {
                                "text" => self.tree_file(&path, text, pass),
                                "hex" => hex_without_serial(text),
                                _ => self.short(text, pass),
                            }),
                            other => self.node(other, None, depth + 1, pass, edits),
                        }
                    }
                }
                // names of formats and of files; sentences
                (_, value) => self.node(value, None, depth + 1, pass, edits),
            }
        }
    }

    fn string(&mut self, text: &str, depth: usize, pass: Pass) -> String {
        let document = text.contains('\n') || text.starts_with("{\"") || text.starts_with("[{");
        if document { self.nested(text, depth, pass) } else { self.short(text, pass) }
    }

    fn field(&mut self, kind: Kind, text: &str) -> String {
        match kind {
            // shapes first, so that it is the same as in other texts
            Kind::Digits => {
                let done = self.short(text, Pass::Rules);
                if done == text { self.names.of(Kind::Digits, text) } else { done }
            }
            Kind::Host | Kind::User | Kind::Other => self.names.word(kind, text),
            kind => self.names.of(kind, text),
        }
    }
}

/// A text that is written again with other strings in it.
struct Edits<'a> {
    text: &'a str,
    done: String,
    from: usize,
}

impl Edits<'_> {
    fn decoded(&self, at: &Range<usize>) -> String {
        serde_json::from_str(&self.text[at.clone()]).unwrap_or_default()
    }

    fn string(&mut self, at: &Range<usize>, new: impl FnOnce(&str) -> String) {
        let old = self.decoded(at);
        let new = new(&old);
        if new != old {
            // a string can always be written
            self.replace(at, &serde_json::to_string(&new).unwrap_or_else(|_| "\"\"".to_owned()));
        }
    }

    fn replace(&mut self, at: &Range<usize>, new: &str) {
        self.done.push_str(&self.text[self.from..at.start]);
        self.done.push_str(new);
        self.from = at.end;
    }
}

/// Finds the places of values in a text that is JSON, whose depth serde_json has bounded.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn value(&mut self) -> Option<Node> {
        match self.next()? {
            b'"' => self.string().map(Node::String),
            b'[' => {
                self.at += 1;
                let mut all = Vec::new();
                while self.next()? != b']' {
                    all.push(self.value()?);
                    self.comma()?;
                }
                self.at += 1;
                Some(Node::List(all))
            }
            b'{' => {
                self.at += 1;
                let mut all = Vec::new();
                while self.next()? != b'}' {
                    let key = self.string()?;
                    if self.next()? != b':' {
                        return None;
                    }
                    self.at += 1;
                    all.push((key, self.value()?));
                    self.comma()?;
                }
                self.at += 1;
                Some(Node::Object(all))
            }
            first => {
                let rest = &self.text[self.at..];
                let end = |c: char| c == ',' || c == ']' || c == '}' || c.is_ascii_whitespace();
                let start = self.at;
                self.at += rest.find(end).unwrap_or(rest.len());
                Some(if first.is_ascii_alphabetic() { Node::Word } else { Node::Number(start..self.at) })
            }
        }
    }

    /// The next byte that is no blank.
    fn next(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().position(|b| !b.is_ascii_whitespace())?;
        self.text.as_bytes().get(self.at).copied()
    }

    fn comma(&mut self) -> Option<()> {
        if self.next()? == b',' {
            self.at += 1;
        }
        Some(())
    }

    fn string(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        loop {
            match bytes.get(at)? {
                b'"' => break,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        self.at = at + 1;
        self.text.get(start..self.at).map(|_| start..self.at)
    }
}
