//! A run to be measured, for tests.

use peerlane::plan::{Method, Plan, Step};
use peerlane::run::{Conditions, Run, SCHEMA, Subject};
use peerlane::units::Seconds;

/// A run of these rounds without results.
pub(super) fn run_of(rounds: Vec<Vec<Step>>) -> Run {
    Run {
        checksum: serde::de::IgnoredAny,
        schema: SCHEMA.to_owned(),
        peerlane: "0".to_owned(),
        machine: Subject { name: "m".to_owned(), target: "m".to_owned(), system: None, evidence: Vec::new() },
        fabric: serde_json::Value::Null,
        plan: Plan { method: Method::default(), rounds, skipped: Vec::new() },
        conditions: Conditions::default(),
        wall: Seconds::new(0.0),
        complete: false,
        counters: Vec::new(),
        cells: Vec::new(),
    }
}
