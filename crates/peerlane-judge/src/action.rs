//! What an operator does with the part that a finding names.
//!
//! `docs/rules.md`, "Actions", has the same table with reasons.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::verdict::Verdict;

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

use Action::{Isolate, Monitor, Reset};

impl Action {
    /// As it is written in JSON: `isolate`.
    pub fn id(self) -> &'static str {
        match self {
            Isolate => "isolate",
            Reset => "reset",
            Monitor => "monitor",
        }
    }

    /// Whether no jobs should be scheduled there.
    pub fn takes_out(self) -> bool {
        self != Monitor
    }

    /// The action that follows from a finding: a fault takes the part out of service, all else is watched.
    pub fn of(finding: &Finding) -> Action {
        match finding.contributes() {
            Some(Verdict::Fault) if WATCHED.contains(&finding.rule.as_str()) => Monitor,
            Some(Verdict::Fault) if finding.reset => Reset,
            Some(Verdict::Fault) => Isolate,
            _ => Monitor,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// Rules whose faults are of no one machine, or as often the job's as the machine's.
const WATCHED: [&str; 8] = [
    "slow-switch",
    "slow-between-nodes",
    "late-between-nodes",
    "nccl-below-verbs",
    "rdma-mtu",
    "nccl-network",
    "nccl-missing-setting",
    "host-setup",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::raised::Raised;
    use crate::check::{RULES_OF_NODES, rule_ids};
    use crate::finding::{Certainty, FindingKind, Severity};

    fn of(rule: &str, kind: FindingKind, severity: Severity, certainty: Certainty) -> Action {
        Action::of(&Raised::new(rule, kind, severity, certainty).finding)
    }

    #[test]
    fn the_rules_that_are_only_watched_exist_and_the_page_lists_them() {
        let page = include_str!("../../../docs/rules.md");
        let (_, actions) = page.split_once("\n# Actions\n").unwrap();
        let (actions, _) = actions.split_once("\n# ").unwrap();
        for rule in WATCHED {
            assert!(rule_ids().chain(RULES_OF_NODES).any(|id| id == rule), "{rule}");
            assert!(actions.contains(&format!("`{rule}`")), "docs/rules.md, \"Actions\", lacks {rule}");
        }
    }

    #[test]
    fn faults_take_a_machine_out_and_nothing_else_does() {
        let (fault, error, likely) = (FindingKind::Fault, Severity::Error, Certainty::Likely);
        assert_eq!(of("slow-path", fault, error, likely), Isolate);
        assert_eq!(of("slow-path", fault, Severity::Warning, likely), Isolate);
        assert_eq!(of("slow-path", fault, error, Certainty::Possible), Monitor);
        assert_eq!(of("slow-path", FindingKind::Design, error, likely), Monitor);
        assert_eq!(of("slow-path", fault, Severity::Info, likely), Monitor);
        let reset = Raised::new("memory-rows", fault, error, likely).repaired_by_reset().finding;
        assert_eq!(Action::of(&reset), Reset);
        assert_eq!(of("slow-switch", fault, error, Certainty::Certain), Monitor);
    }

    #[test]
    fn the_worst_comes_first() {
        assert_eq!([Monitor, Isolate, Reset].into_iter().min(), Some(Isolate));
        assert_eq!(Reset.to_string(), "reset");
    }
}
