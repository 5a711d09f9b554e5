//! What a statement about a machine is about: nodes, pairs, links, printed last.

use std::fmt;

use crate::schema::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a finding or a contradiction is about. Its printed form is for people, and what sites write in waivers; code uses
/// [`Subject::ends`] and [`Subject::nodes`], since names of nodes may hold hyphens themselves.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(with = "String")]
pub enum Subject {
    /// A node: `GPU0`.
    Node(String),
    /// Two nodes that data goes between, in either direction; one may be `host`: `GPU0-GPU2`, `host-GPU3`.
    Pair(String, String),
    /// A link between two neighbours: `rc0-plx0`.
    Link(String, String),
    /// Nodes that act together.
    Group {
        /// The nodes.
        nodes: Vec<String>,
        /// How they are called: `all-reduce of GPU0–GPU3`.
        words: String,
    },
    /// A machine as a whole.
    Machine(String),
    /// A printed form that was read from a document which does not name the nodes.
    Named(String),
}

impl Subject {
    /// Each of these nodes.
    pub fn nodes_of<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Vec<Subject> {
        names.into_iter().map(|name| Subject::Node(name.into())).collect()
    }

    /// Each of these pairs.
    pub fn pairs_of<'a>(pairs: impl IntoIterator<Item = &'a (String, String)>) -> Vec<Subject> {
        pairs.into_iter().map(|(a, b)| Subject::Pair(a.clone(), b.clone())).collect()
    }

    /// Both ends of a pair or a link.
    pub fn ends(&self) -> Option<(&str, &str)> {
        match self {
            Subject::Pair(a, b) | Subject::Link(a, b) => Some((a, b)),
            _ => None,
        }
    }

    /// The nodes that it is about, in order.
    pub fn nodes(&self) -> Vec<&str> {
        match self {
            Subject::Node(name) => vec![name],
            Subject::Pair(a, b) | Subject::Link(a, b) => vec![a, b],
            Subject::Group { nodes, .. } => nodes.iter().map(String::as_str).collect(),
            Subject::Machine(_) | Subject::Named(_) => Vec::new(),
        }
    }

    /// The same with the ends of a pair or link exchanged.
    pub fn reversed(&self) -> Subject {
        match self.clone() {
            Subject::Pair(a, b) => Subject::Pair(b, a),
            Subject::Link(a, b) => Subject::Link(b, a),
            other => other,
        }
    }

    /// Whether both are one, whichever end of a pair comes first.
    pub fn is(&self, other: &Subject) -> bool {
        self == other || self.reversed() == *other
    }

    /// Whether a person who writes `text` means it: its printed form, either end first.
    pub fn is_written(&self, text: &str) -> bool {
        *self == *text || self.reversed() == *text
    }

    /// What a document's printed form means, where it names these nodes.
    fn read(text: String, nodes: &[String]) -> Subject {
        if nodes.contains(&text) {
            return Subject::Node(text);
        }
        let second = |a: &String| text.strip_prefix(a.as_str())?.strip_prefix('-').map(str::to_owned);
        let pair = nodes.iter().find_map(|a| second(a).filter(|b| nodes.contains(b)).map(|b| (a.clone(), b)));
        pair.map_or(Subject::Named(text), |(a, b)| Subject::Pair(a, b))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Node(text)
            | Subject::Group { words: text, .. }
            | Subject::Machine(text)
            | Subject::Named(text) => f.write_str(text),
            Subject::Pair(a, b) | Subject::Link(a, b) => write!(f, "{a}-{b}"),
        }
    }
}

/// By the printed form.
impl PartialEq<str> for Subject {
    fn eq(&self, text: &str) -> bool {
        match self {
            Subject::Pair(a, b) | Subject::Link(a, b) => {
                text.strip_prefix(a.as_str()).and_then(|rest| rest.strip_prefix('-')) == Some(b)
            }
            Subject::Node(own) | Subject::Group { words: own, .. } | Subject::Machine(own) | Subject::Named(own) => {
                own == text
            }
        }
    }
}

/// By the printed form.
impl PartialEq<&str> for Subject {
    fn eq(&self, text: &&str) -> bool {
        *self == **text
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// Subjects as printed, separated by `between`.
pub fn join(subjects: &[Subject], between: &str) -> String {
    subjects.iter().map(Subject::to_string).collect::<Vec<_>>().join(between)
}

/// How documents have the subjects of a finding: as printed, with the nodes that they are about.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Printed {
    /// The nodes, pairs or links it is about, as printed: `GPU0-GPU2`.
    subjects: Vec<String>,
    /// Names of all nodes that it is about, each once, in order.
    #[serde(default)]
    nodes: Vec<String>,
}

impl Printed {
    /// Writes subjects, for `#[serde(flatten, with)]`.
    pub fn serialize<S: Serializer>(subjects: &[Subject], s: S) -> Result<S::Ok, S::Error> {
        let mut nodes: Vec<String> = Vec::new();
        for name in subjects.iter().flat_map(Subject::nodes) {
            if !nodes.iter().any(|known| known == name) {
                nodes.push(name.to_owned());
            }
        }
        let subjects = subjects.iter().map(Subject::to_string).collect();
        Serialize::serialize(&Printed { subjects, nodes }, s)
    }

    /// Reads them. Documents of before have no nodes.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Subject>, D::Error> {
        let Printed { subjects, nodes } = Deserialize::deserialize(d)?;
        Ok(subjects.into_iter().map(|text| Subject::read(text, &nodes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Document {
        #[serde(flatten, with = "Printed")]
        subjects: Vec<Subject>,
    }

    fn pair(a: &str, b: &str) -> Subject {
        Subject::Pair(a.to_owned(), b.to_owned())
    }

    #[test]
    fn printed_and_read_with_hyphens_in_names() {
        let subjects = vec![pair("gpu-0", "gpu-1"), Subject::Node("gpu-1".to_owned()), pair("host", "gpu-0")];
        let written = serde_json::to_value(Document { subjects: subjects.clone() }).unwrap();
        let expected = serde_json::json!({
            "subjects": ["gpu-0-gpu-1", "gpu-1", "host-gpu-0"], "nodes": ["gpu-0", "gpu-1", "host"]
        });
        assert_eq!(written, expected);
        assert_eq!(serde_json::from_value::<Document>(written).unwrap().subjects, subjects);
    }

    #[test]
    fn a_document_without_nodes_keeps_its_printed_forms() {
        let read: Document = serde_json::from_str(r#"{"subjects": ["GPU0-GPU1", "GPU2"]}"#).unwrap();
        assert_eq!(read.subjects, ["GPU0-GPU1", "GPU2"]);
        assert_eq!(read.subjects[0], Subject::Named("GPU0-GPU1".to_owned()));
        assert_eq!(serde_json::to_value(read).unwrap()["nodes"], serde_json::json!([]));
    }

    #[test]
    fn either_end_may_come_first() {
        let one = pair("gpu-0", "a.b");
        assert!(one.is(&pair("a.b", "gpu-0")) && one.is_written("a.b-gpu-0") && one.is_written("gpu-0-a.b"));
        assert!(!one.is_written("gpu-0") && !one.is(&Subject::Link("gpu-0".to_owned(), "a.b".to_owned())));
    }
}
