//! The items, as `000.toml` to `004.toml` state them, and what an output says of each.

use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use super::outputs::Output;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) number: String,
    pub(super) title: String,
    #[serde(rename = "item")]
    pub(super) items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) line: usize,
    /// In our words.
    pub(super) item: String,
    pub(super) kind: Kind,
    /// Without the program's name. `{000}` stands for a document.
    pub(super) command: String,
    /// What must be in its output, wherever its lines are wrapped.
    #[serde(default)]
    pub(super) phrases: Vec<String>,
    /// What must not.
    #[serde(default)]
    absent: Vec<String>,
    /// A regular expression on the output in one line. Its first group is the number; if it has more, the number is
    /// the first divided by the mean of the others.
    number: Option<String>,
    /// What the document prints, if it is a number.
    pub(super) printed: Option<f64>,
    /// Limits of the number, for claims without one.
    above: Option<f64>,
    below: Option<f64>,
    /// The unit of both, for the page.
    #[serde(default)]
    pub(super) unit: String,
    /// How far the ratio may be from 1. More than the usual only where the document's own values for this kind of path
    /// scatter as much, or where it rounds as coarsely.
    #[serde(default = "usual_tolerance")]
    tolerance: f64,
    #[serde(default)]
    pub(super) state: State,
    #[serde(default)]
    pub(super) why: String,
}

fn usual_tolerance() -> f64 {
    0.10
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Machine,
    Table,
    Figure,
    Claim,
    Practice,
    Question,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// The command answers it.
    #[default]
    Works,
    /// The command answers a part of it, as tested; `why` states what is not answered.
    Partly,
    /// No command answers it: the test is what an answer would contain.
    Missing,
    /// The command contradicts it.
    Wrong,
}

/// What an output says of an item.
pub(super) struct Answer {
    pub(super) value: Option<f64>,
    pub(super) ratio: Option<f64>,
    pub(super) is_as_tested: bool,
}

/// Reads all items.
pub(super) fn read() -> Vec<Document> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/documents");
    let read = |number: &str| {
        let path = folder.join(format!("{number}.toml"));
        toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    ["000", "001", "002", "003", "004"].map(read).into()
}

/// The number that a regular expression finds: its first group, over the mean of the others.
pub(super) fn number(pattern: &str, flat: &str) -> Option<f64> {
    let pattern = Regex::new(pattern).unwrap_or_else(|e| panic!("{e}"));
    let groups = pattern.captures(flat)?;
    let values: Vec<f64> = groups
        .iter()
        .skip(1)
        .flatten()
        .map(|group| group.as_str().parse().unwrap_or_else(|_| panic!("{pattern}: '{}' is no number", group.as_str())))
        .collect();
    let (first, others) = values.split_first()?;
    if others.is_empty() {
        return Some(*first);
    }
    Some(first * others.len() as f64 / others.iter().sum::<f64>())
}

impl Item {
    pub(super) fn has_a_test(&self) -> bool {
        let compared = self.printed.or(self.above).or(self.below);
        assert!(self.number.is_some() || compared.is_none(), "{}: compared with no number", self.id);
        self.number.is_some() || !self.phrases.is_empty() || !self.absent.is_empty()
    }

    pub(super) fn answer(&self, output: &Output) -> Answer {
        let value = self.number.as_ref().and_then(|pattern| number(pattern, &output.flat));
        let ratio = value.zip(self.printed).map(|(value, printed)| value / printed);
        let holds = |phrase: &String| output.flat.contains(phrase.as_str());
        let fits = |value: f64| {
            ratio.is_none_or(|ratio| (ratio - 1.0).abs() <= self.tolerance)
                && self.above.is_none_or(|above| value > above)
                && self.below.is_none_or(|below| value < below)
        };
        let near = self.number.is_none() || value.is_some_and(fits);
        Answer { value, ratio, is_as_tested: near && self.phrases.iter().all(holds) && !self.absent.iter().any(holds) }
    }

    /// What is not as `state` says.
    pub(super) fn complaint(&self, answer: &Answer) -> Option<String> {
        let answered = matches!(self.state, State::Works | State::Partly);
        let value = answer.value.map(|value| format!(", {value} {}", self.unit)).unwrap_or_default();
        match (answered, answer.is_as_tested) {
            (true, false) => Some(format!("{} does not work{value}: peerlane {}", self.id, self.command)),
            (false, true) => Some(format!("{} works now{value}: take its state and reason out", self.id)),
            _ => None,
        }
    }
}

#[test]
fn a_number_is_one_group_or_a_quotient() {
    assert_eq!(number(r"rate (\S+) GB", "the rate 12.5 GB/s"), Some(12.5));
    assert_eq!(number(r"(\S+) of (\S+)–(\S+)", "6 of 10–14"), Some(0.5));
    assert_eq!(number(r"rate (\S+)", "nothing"), None);
}
