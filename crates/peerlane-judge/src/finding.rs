//! What a rule, a gate or a comparison of machines reports: one difference, how much it matters and how certain it is.

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use peerlane_machine::matrix::Unit;
use peerlane_machine::subject::{Printed, Subject};

/// What kind of difference a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// The machine is not what its design promises.
    Fault,
    /// The design is the limit, as built.
    Design,
    /// The numbers are suspect.
    Measurement,
}

/// How much a finding matters: what it contributes to the verdict ([`Finding::contributes`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// A note: no part of the verdict.
    Info,
    /// A limit, or what nothing known explains.
    Warning,
    /// A fault.
    Error,
}

/// How certain a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// One of several explanations of what was measured.
    Possible,
    /// What was measured has this cause as far as is known.
    Likely,
    /// A source states it, or it follows from what one states.
    Certain,
}

impl FindingKind {
    /// As it is written in JSON: `design`.
    pub fn id(self) -> &'static str {
        match self {
            FindingKind::Fault => "fault",
            FindingKind::Design => "design",
            FindingKind::Measurement => "measurement",
        }
    }

    /// As it is printed: `by design`.
    pub fn words(self) -> &'static str {
        match self {
            FindingKind::Design => "by design",
            kind => kind.id(),
        }
    }
}

impl Severity {
    /// As it is written in JSON: `info`.
    pub fn id(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }

    /// As it is printed: `note`.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Info => "note",
            severity => severity.id(),
        }
    }
}

impl Certainty {
    /// As it is printed: `possibly`; `None` of what is certain, which needs no word.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Certainty::Certain => None,
            Certainty::Likely => Some("likely"),
            Certainty::Possible => Some("possibly"),
        }
    }
}

/// What a finding costs, on the path where it costs most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Rate that is lost, or time that is added.
    pub lost: f64,
    /// Its unit.
    pub unit: Unit,
    /// Share of the expected rate, 0 to 1; for a time, the added share of the measured one.
    pub share: f64,
}

impl Cost {
    /// What a rate lacks, in GB/s; `None` where it reaches what is expected.
    pub(crate) fn of_rate(expected_gb: f64, measured_gb: f64) -> Option<Cost> {
        Cost::of(expected_gb, measured_gb, Unit::GigabytesPerSecond)
    }

    /// What is lost of a rate in this unit.
    pub(crate) fn of(expected: f64, measured: f64, unit: Unit) -> Option<Cost> {
        let lost = expected - measured;
        let share = lost / expected;
        (lost > 0.0 && share.is_finite()).then_some(Cost { lost, unit, share })
    }
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
    /// The nodes, pairs or links it is about.
    #[serde(flatten, with = "Printed")]
    #[schemars(with = "Printed")]
    pub subjects: Vec<Subject>,
    /// One sentence.
    pub summary: String,
    /// What should be, with unit and why.
    pub expected: String,
    /// What was measured, with unit.
    pub measured: String,
    /// Sources: `file:lines (tool)`.
    pub evidence: Vec<String>,
    /// What to do.
    pub fix: String,
    /// How certain it is.
    pub certainty: Certainty,
    /// What would confirm it: usually a command.
    pub confirm: String,
    /// What it costs, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Whether a reset of the GPU or the NIC repairs it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
}
