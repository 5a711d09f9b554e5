//! Times that are estimates: why, and how far they are from playing every step.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

/// Why a time is an estimate, and its error.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// What was not played.
    pub because: String,
    /// The largest error, as a share of the time: of this estimate where it is known, or else of estimates of its kind
    /// against playing every step of clusters that are small enough for it (`docs/simulation.md`, *Many GPUs*). Of a library's
    /// collective, what 85 of 100 published figures are within (`docs/collectives.md`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
}

impl Estimate {
    /// The one with the larger error.
    pub(super) fn worse(self, other: Option<Estimate>) -> Estimate {
        match other {
            Some(other) if other.error > self.error => other,
            _ => self,
        }
    }
}

/// Of rings whose transfers disturb each other, at their first rates: +2.2 % on 32 nodes (`long_rings::tests::table`).
pub(super) const RINGS: f64 = 0.05;
/// Of rings that are held by the busiest resource or the longest path: −0.25 to 0 % on 8 to 32 nodes.
pub(super) const LONG_RINGS: f64 = 0.01;
/// Of chains and trees that are grown from a few nodes.
pub(super) const GROWN: f64 = 0.05;
