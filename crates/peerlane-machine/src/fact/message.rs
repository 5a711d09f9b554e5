//! What programs report in words: messages that are known, and lines of trouble that are not.

/// A message of a program that is known by its words, as often as one host printed it about the same parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The entry of the knowledge that explains it.
    pub id: &'static str,
    /// What it names, by the names of the entry's pattern: `nic`, `bdf`, `peer`.
    pub parts: Vec<(&'static str, String)>,
    /// The first one, from its first known word on.
    pub quote: String,
    /// The host that printed it, where the line names one.
    pub host: Option<String>,
    /// How many there are.
    pub count: u32,
}

impl Message {
    /// What it names by this name.
    pub fn part(&self, name: &str) -> Option<&str> {
        self.parts.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

/// What a line of trouble is, in the order in which lines may be the cause: a program ends with its last exception, and what only
/// warned did not end it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenKind {
    /// An exception with which a program ended.
    End,
    /// An exception that a program raised.
    Exception,
    /// Any other line about a failure.
    #[default]
    Error,
    /// A warning by its level.
    Warning,
}

/// Lines of one form that speak of trouble and that nothing explains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenLine {
    /// The first one, without time and process.
    pub quote: String,
    /// The host that printed it, where the line names one.
    pub host: Option<String>,
    /// How many there are.
    pub count: u32,
    /// What they are.
    pub kind: OpenKind,
    /// Whether what follows shows that the program went on with its work after all of them.
    pub went_on: bool,
}
