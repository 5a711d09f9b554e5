//! Differences that matter: each rule compares what a machine is and does with what it should be.
//!
//! One rule a file. A rule reads a [`Context`] and returns [`Finding`]s; it prints nothing and
//! decides nothing about exit statuses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::model::Model;

/// What kind of difference a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// The machine is not what its design promises.
    Fault,
    /// The design limits this, as built.
    Design,
    /// The numbers are suspect.
    Measurement,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Costs performance, or may.
    Warning,
    /// Costs much, or something does not work.
    Error,
}

/// A difference that matters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The rule: `narrow-link`.
    pub rule: String,
    /// Its kind.
    pub kind: FindingKind,
    /// How much it matters.
    pub severity: Severity,
    /// Names of the nodes or pairs (`GPU0-GPU2`) it is about.
    pub subjects: Vec<String>,
    /// One sentence.
    pub summary: String,
    /// What was to be expected, with unit and why.
    pub expected: String,
    /// What is observed, with unit.
    pub observed: String,
    /// Where that stands: `file:lines (tool)`.
    pub evidence: Vec<String>,
    /// What to do.
    pub mend: String,
}

/// The machine as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing of weight was found, and there was something to judge by.
    Healthy,
    /// Something costs performance.
    Degraded,
    /// Something does not do what it must.
    Broken,
    /// Too little is known to judge.
    Unknown,
}

/// What rules look at.
pub struct Context<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Its model.
    pub model: &'a Model<'a>,
}

/// Runs every rule; findings come most severe first.
pub fn check(_context: &Context) -> Vec<Finding> {
    Vec::new()
}

/// The verdict that findings amount to.
pub fn verdict(_context: &Context, _findings: &[Finding]) -> Verdict {
    Verdict::Unknown
}
