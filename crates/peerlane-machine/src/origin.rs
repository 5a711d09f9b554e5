//! Where a statement comes from, and what a reader of it should be warned of.

use std::fmt;
use std::sync::Arc;

use crate::one_line::escaped;
use crate::schema::JsonSchema;
use serde::{Serialize, Serializer};

/// Where a statement comes from: a source, the tool that printed it, and the lines it stands on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(with = "String")]
pub struct Origin {
    /// File name, `-` for standard input, or a catalogue entry.
    pub source: Arc<str>,
    /// What printed it, as a user would type it: `nvidia-smi topo -m`.
    pub tool: &'static str,
    /// First and last line, from 1; `None` where the source has no lines.
    pub lines: Option<(u32, u32)>,
}

impl fmt::Display for Origin {
    /// `topo.txt:12-17 (nvidia-smi topo -m)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lines {
            Some((a, b)) if a == b => write!(f, "{}:{a} ({})", self.source, self.tool),
            Some((a, b)) => write!(f, "{}:{a}-{b} ({})", self.source, self.tool),
            None => write!(f, "{} ({})", self.source, self.tool),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// How much of one input was understood. Empty lines are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Coverage {
    /// The input: a file's name, `-` for standard input.
    pub source: String,
    /// Lines of which something is used.
    pub understood: u32,
    /// Lines that are nothing known: prose, prompts, fields that do not matter here.
    pub ignored: u32,
    /// Lines that look like data of a known format and were not used.
    pub doubtful: u32,
    /// The first few of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub lines: Vec<Doubtful>,
}

/// A line that looks like data of a known format and was not used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Doubtful {
    /// Its number, from 1.
    pub line: u32,
    /// The tool whose output it looks like.
    pub format: String,
    /// How it begins.
    pub text: String,
}

/// Something a reader of the result should know: what could not be read, or does not add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub origin: Option<Origin>,
    /// What, and what to do.
    pub message: String,
}

impl Warning {
    /// On one line, whatever it quotes.
    pub fn new(origin: Option<Origin>, message: impl Into<String>) -> Self {
        Warning { origin, message: escaped(&message.into()).into_owned() }
    }

    /// About something that stands there.
    pub fn at(origin: &Origin, message: impl Into<String>) -> Self {
        Warning::new(Some(origin.clone()), message)
    }

    /// About no place in particular.
    pub fn general(message: impl Into<String>) -> Self {
        Warning::new(None, message)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Some(origin) => write!(f, "{origin}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
