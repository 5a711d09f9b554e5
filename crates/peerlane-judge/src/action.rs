//! What an operator does with the part that a finding names.
//!
//! `docs/rules.md`, "Actions", has the same table with reasons.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Certainty, Finding, FindingKind, Severity};

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

    /// The action that follows from a finding: that of its rule at its severity.
    ///
    /// Limits of the design, doubts about a measurement and what is merely possible take no machine out of service.
    pub fn of(finding: &Finding) -> Action {
        if finding.kind != FindingKind::Fault || finding.certainty == Certainty::Possible {
            return Monitor;
        }
        let of_rule = ACTIONS.iter().find(|(rule, ..)| *rule == finding.rule);
        match (of_rule, finding.severity) {
            (Some((_, at_error, _)), Severity::Error) => *at_error,
            (Some((_, _, at_warning)), Severity::Warning) => *at_warning,
            _ => Monitor,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// What follows from the faults of each rule: as errors, and as warnings.
const ACTIONS: [(&str, Action, Action); 82] = [
    ("lost-gpu", Isolate, Isolate),
    ("hung-transfer", Isolate, Isolate),
    ("corrupt-data", Isolate, Isolate),
    ("fabric-not-ready", Reset, Monitor),
    ("contradictory-evidence", Monitor, Monitor),
    ("nvlink-lanes-down", Isolate, Isolate),
    ("p2p-refused", Isolate, Isolate),
    ("peer-access-missing", Isolate, Isolate),
    ("peer-timeouts", Isolate, Isolate),
    ("narrow-link", Isolate, Isolate),
    ("lane-budget", Monitor, Monitor),
    ("slow-path", Isolate, Isolate),
    ("above-line-rate", Monitor, Monitor),
    ("unexplained-value", Monitor, Monitor),
    ("p2p-slower-than-staged", Isolate, Isolate),
    ("crosses-sockets", Monitor, Monitor),
    ("gpu-nic-apart", Isolate, Monitor),
    ("gpu-device-apart", Monitor, Monitor),
    ("acs-redirect", Isolate, Monitor),
    ("half-duplex", Isolate, Isolate),
    ("hot-or-throttled", Isolate, Monitor),
    ("missing-peer-module", Monitor, Monitor),
    ("asymmetric-cell", Monitor, Monitor),
    ("first-row-warm-up", Monitor, Monitor),
    ("uneven-path-class", Isolate, Isolate),
    ("pcie-replays", Monitor, Monitor),
    ("errors-under-load", Reset, Monitor),
    ("path-not-assumed", Isolate, Isolate),
    ("mig-on", Monitor, Monitor),
    ("small-bar1", Monitor, Monitor),
    ("unsteady-rate", Monitor, Monitor),
    ("uneven-local-copies", Isolate, Monitor),
    ("coarse-labels", Monitor, Monitor),
    ("hidden-pcie", Monitor, Monitor),
    ("small-packets", Monitor, Monitor),
    ("contended-slow", Monitor, Monitor),
    ("spin-glass-slow", Monitor, Monitor),
    ("halo-slow", Monitor, Monitor),
    ("bfs-slow", Monitor, Monitor),
    ("nic-slow", Isolate, Monitor),
    ("nic-failed", Isolate, Monitor),
    ("nic-gpu-slow", Isolate, Monitor),
    ("nic-gpu-refused", Isolate, Monitor),
    ("host-buffers-far", Isolate, Isolate),
    ("shared-limit", Monitor, Monitor),
    ("uneven-host-copies", Isolate, Isolate),
    ("kernel-errors", Isolate, Monitor),
    ("iommu-translates", Monitor, Monitor),
    ("relaxed-ordering", Monitor, Monitor),
    ("below-own-link", Monitor, Monitor),
    ("collective-of-one", Monitor, Monitor),
    ("collective-slow", Isolate, Monitor),
    ("rate-falls-with-size", Monitor, Monitor),
    ("gpu-memory-slow", Monitor, Monitor),
    ("runs-disagree", Monitor, Monitor),
    ("no-peer-access", Monitor, Monitor),
    ("unsupported-peer-access", Monitor, Monitor),
    ("limited-link", Isolate, Monitor),
    ("crowded-reads", Monitor, Monitor),
    ("nccl-through-host", Monitor, Monitor),
    ("nccl-staged-network", Monitor, Monitor),
    ("nccl-multicast", Reset, Monitor),
    ("nccl-network", Monitor, Monitor),
    ("nccl-missing-setting", Monitor, Monitor),
    ("rdma-port", Isolate, Isolate),
    ("memory-rows", Isolate, Reset),
    ("host-setup", Monitor, Monitor),
    ("outlier", Isolate, Monitor),
    ("worse-than-before", Isolate, Monitor),
    ("lost-node", Isolate, Isolate),
    ("slow-node", Isolate, Monitor),
    ("slow-nic", Isolate, Monitor),
    ("narrow-nic", Isolate, Monitor),
    ("rdma-mtu", Monitor, Monitor),
    ("rdma-gid", Isolate, Monitor),
    ("packet-loss", Isolate, Monitor),
    ("nccl-below-verbs", Monitor, Monitor),
    ("slow-all-reduce", Isolate, Monitor),
    ("slow-switch", Monitor, Monitor),
    ("slow-between-nodes", Monitor, Monitor),
    ("late-between-nodes", Monitor, Monitor),
    ("failed-between-nodes", Isolate, Monitor),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::raised::Raised;
    use crate::check::{RULES_OF_NODES, RULES_OF_RUNS, rule_ids};

    fn of(rule: &str, kind: FindingKind, severity: Severity, certainty: Certainty) -> Action {
        Action::of(&Raised::new(rule, kind, severity, certainty).finding)
    }

    #[test]
    fn every_rule_has_an_action_and_the_page_lists_it() {
        let page = include_str!("../../../docs/rules.md");
        for id in rule_ids().chain(RULES_OF_RUNS).chain(RULES_OF_NODES) {
            let found: Vec<_> = ACTIONS.iter().filter(|(rule, ..)| *rule == id).collect();
            let [(_, at_error, at_warning)] = found.as_slice() else { panic!("{id} has {} actions", found.len()) };
            let row = format!("| {id} | {at_error} | {at_warning} | ");
            let explained = page.lines().any(|line| line.starts_with(&row) && line.len() > row.len() + 12);
            // rules that never name a sure fault share one row
            let never = *at_error == Monitor && page.contains(&format!("`{id}`"));
            assert!(explained || never, "docs/rules.md, \"Actions\", lacks {row}");
        }
        assert_eq!(ACTIONS.len(), rule_ids().chain(RULES_OF_RUNS).chain(RULES_OF_NODES).count());
    }

    #[test]
    fn only_sure_faults_take_a_machine_out() {
        let (fault, error, likely) = (FindingKind::Fault, Severity::Error, Certainty::Likely);
        assert_eq!(of("slow-path", fault, error, likely), Isolate);
        assert_eq!(of("slow-path", fault, error, Certainty::Possible), Monitor);
        assert_eq!(of("slow-path", FindingKind::Design, error, likely), Monitor);
        assert_eq!(of("slow-path", fault, Severity::Info, likely), Monitor);
        assert_eq!(of("memory-rows", fault, Severity::Warning, Certainty::Certain), Reset);
        assert_eq!(of("a-rule-of-a-later-release", fault, error, Certainty::Certain), Monitor);
    }

    #[test]
    fn the_worst_comes_first() {
        assert_eq!([Monitor, Isolate, Reset].into_iter().min(), Some(Isolate));
        assert_eq!(Reset.to_string(), "reset");
    }
}
