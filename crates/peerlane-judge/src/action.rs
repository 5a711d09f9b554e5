//! What an operator does with the part that a finding names.
//!
//! It follows from the verdict that a finding makes and from its rule; `docs/rules.md`, "Actions", gives the reasons.

use std::fmt;

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to do with the part that a finding names. The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Schedule no jobs there until it is repaired.
    Isolate,
    /// Schedule no jobs there until the GPU or the NIC is reset.
    Reset,
    /// Jobs may run; watch it.
    Monitor,
}

impl Action {
    /// As it is written in JSON: `isolate`.
    pub fn id(self) -> &'static str {
        match self {
            Action::Isolate => "isolate",
            Action::Reset => "reset",
            Action::Monitor => "monitor",
        }
    }

    /// Whether no jobs should be scheduled there.
    pub fn takes_out(self) -> bool {
        self != Action::Monitor
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::Action::{Isolate, Monitor, Reset};

    #[test]
    fn the_worst_comes_first() {
        assert_eq!([Monitor, Isolate, Reset].into_iter().min(), Some(Isolate));
        assert_eq!(Reset.to_string(), "reset");
    }
}
