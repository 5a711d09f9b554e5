//! Differences that matter: each rule compares what a machine is and does with what it should be.
//!
//! One rule a file, each listed in `RULES` and described in `docs/rules.md`. A rule looks at a
//! [`Context`] and returns [`Finding`]s; it prints nothing, decides nothing about exit statuses, and
//! does not report what is unknown.

mod application_slow;
mod causes;
mod confirm;
mod culprit;
mod from_run;
mod gids;
mod gpu_setting;
mod judged;
mod nccl;
mod nic_failed;
pub(crate) mod nic_gpu_refused;
mod nic_gpu_slow;
mod nic_slow;
mod no_peer_access;
pub(crate) mod nodes;
mod one_link;
mod outlier;
mod port_slow;
mod prelude;
pub(crate) mod raised;
mod rule;
mod settings;
mod view;
mod words;
mod worse_than_before;

mod above_line_rate;
mod acs_redirect;
mod asymmetric_cell;
mod below_own_link;
mod between_hosts;
mod coarse_labels;
mod collective_of_one;
mod collective_slow;
mod contended_slow;
mod contradictory_evidence;
mod corrupt_data;
mod crosses_sockets;
mod crowded_reads;
mod errors_under_load;
mod fabric_not_ready;
mod failed_step;
mod first_row_warm_up;
mod gpu_device_apart;
mod gpu_memory_slow;
pub(crate) mod gpu_nic_apart;
mod half_duplex;
mod hidden_pcie;
mod host_buffers_far;
mod hot_or_throttled;
mod hung_transfer;
mod iommu_translates;
mod kernel_errors;
mod lane_budget;
mod limited_link;
mod lost_gpu;
mod memory_rows;
mod messages;
mod mig_on;
mod missing_peer_module;
mod narrow_link;
mod nccl_missing_setting;
mod nccl_network;
mod nccl_staged_network;
mod nccl_through_host;
mod nvlink_lanes_down;
mod open_lines;
mod p2p_refused;
mod p2p_slower_than_staged;
mod path_not_assumed;
mod pcie_replays;
mod peer_access_missing;
mod peer_timeouts;
mod rate_falls;
mod rdma_ports;
mod relaxed_ordering;
mod reported_health;
mod runs_disagree;
mod shared_limit;
mod slow_path;
mod small_bar1;
mod small_packets;
mod software_rdma;
mod uneven_host_copies;
mod uneven_local_copies;
mod uneven_path_class;
mod unexplained_step;
mod unexplained_value;
mod unsteady_rate;
mod unsupported_peer_access;

#[cfg(test)]
mod testing;

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use std::cell::OnceCell;

use crate::action::Action;
pub use crate::finding::{Certainty, Cost, Finding, FindingKind, Severity};
use crate::verdict::Verdict;
pub(crate) use collective_slow::collective_of;
pub use judged::{TOPOLOGY, checked, missing, next_commands, unchecked, verdict};
pub(crate) use outlier::RULE as OUTLIER;
use peerlane_design::case::Case;
use peerlane_machine::subject::Subject;
use peerlane_model::assumptions::{Assumptions, Fit};
use peerlane_model::comparison::Comparison;
use peerlane_model::model::Model;
use peerlane_read::knowledge::{Class, entry};
use raised::Raised;
pub(crate) use rule::Rule;
pub use rule::Scope;
pub use settings::{Settings, SettingsError, Waiver};
use view::View;
pub(crate) use words::distinct;
pub(crate) use worse_than_before::RULE as WORSE_THAN_BEFORE;

impl Finding {
    /// Whether it is about one of these nodes, or about the machine as a whole.
    fn is_about(&self, nodes: &[&str]) -> bool {
        self.subjects.is_empty() || self.subjects.iter().flat_map(Subject::nodes).any(|node| nodes.contains(&node))
    }

    /// The measured and the expected rate, in [`Cost::unit`], where both are known and one was measured.
    ///
    /// What a narrow link costs follows from its width, and is no measurement.
    pub fn measured_and_expected(&self) -> Option<[f64; 2]> {
        let by_width = [narrow_link::RULE.id, limited_link::RULE.id].contains(&self.rule.as_str());
        let cost = self.cost.filter(|cost| !by_width && cost.share > 0.0 && cost.unit.time(1.0).is_none())?;
        let expected = cost.lost / cost.share;
        Some([expected - cost.lost, expected])
    }
}

/// What rules look at.
pub struct Context<'a> {
    /// The machine, and what else was given about it.
    pub case: &'a Case,
    /// Its model.
    pub model: &'a Model<'a>,
    /// What was measured on it, compared with what should be.
    pub comparison: &'a Comparison<'a>,
    fit: OnceCell<Option<Fit>>,
    judged: OnceCell<judged::Judged>,
}

impl<'a> Context<'a> {
    /// A case with the comparison of its machine.
    pub fn of(case: &'a Case, comparison: &'a Comparison<'a>) -> Self {
        Context { case, model: comparison.model(), comparison, fit: OnceCell::new(), judged: OnceCell::new() }
    }

    /// What was assumed of links and peer access that sources leave open, by what was measured ([`Assumptions::fit`]).
    fn fit(&self) -> Option<&Fit> {
        let fit = || Assumptions::of(&self.case.machine, self.model.parts).fit().cloned();
        self.fit.get_or_init(fit).as_ref()
    }
}

/// Every rule there is, in the order they run. A rule stands before those whose findings it explains, where these explain others.
static RULES: &[Rule] = &[
    lost_gpu::RULE,
    hung_transfer::RULE,
    corrupt_data::RULE,
    nic_failed::RULE,
    failed_step::RULE,
    fabric_not_ready::RULE,
    contradictory_evidence::RULE,
    nvlink_lanes_down::RULE,
    p2p_refused::RULE,
    peer_access_missing::RULE,
    peer_timeouts::RULE,
    narrow_link::RULE,
    hot_or_throttled::RULE,
    acs_redirect::RULE,
    half_duplex::RULE,
    lane_budget::RULE,
    slow_path::RULE,
    uneven_path_class::RULE,
    above_line_rate::RULE,
    unexplained_value::RULE,
    unexplained_step::RULE,
    p2p_slower_than_staged::RULE,
    crosses_sockets::RULE,
    gpu_nic_apart::RULE,
    gpu_device_apart::RULE,
    missing_peer_module::RULE,
    asymmetric_cell::RULE,
    first_row_warm_up::RULE,
    pcie_replays::RULE,
    errors_under_load::RULE,
    path_not_assumed::RULE,
    mig_on::RULE,
    small_bar1::RULE,
    unsteady_rate::RULE,
    uneven_local_copies::RULE,
    coarse_labels::RULE,
    hidden_pcie::RULE,
    small_packets::RULE,
    contended_slow::RULE,
    application_slow::LATTICE,
    application_slow::HALO,
    application_slow::SEARCH,
    nic_slow::RULE,
    port_slow::RULE,
    software_rdma::RULE,
    nic_gpu_refused::RULE,
    nic_gpu_slow::RULE,
    host_buffers_far::RULE,
    shared_limit::RULE,
    uneven_host_copies::RULE,
    kernel_errors::RULE,
    iommu_translates::RULE,
    relaxed_ordering::RULE,
    below_own_link::RULE,
    collective_of_one::RULE,
    collective_slow::RULE,
    between_hosts::RULE,
    rate_falls::RULE,
    gpu_memory_slow::RULE,
    runs_disagree::RULE,
    no_peer_access::RULE,
    unsupported_peer_access::RULE,
    limited_link::RULE,
    crowded_reads::RULE,
    nccl_through_host::RULE,
    nccl_staged_network::RULE,
    nccl_network::RULE,
    nccl_missing_setting::RULE,
    rdma_ports::RULE,
    reported_health::RULE,
    memory_rows::RULE,
    messages::RULE,
    open_lines::RULE,
    nodes::failures::LOST_NODE,
    nodes::slow::SLOW_NODE,
    nodes::slow::SLOW_NIC,
    nodes::slow::SLOW_SWITCH,
    nodes::same_pairs::NCCL_BELOW_VERBS,
    nodes::narrow::NARROW_NIC,
    nodes::settings::RDMA_MTU,
    nodes::settings::RDMA_GID,
    nodes::slow::LATE_BETWEEN_NODES,
    nodes::slow::SLOW_BETWEEN_NODES,
    nodes::loss::PACKET_LOSS,
    nodes::all_reduces::SLOW_ALL_REDUCE,
    nodes::failures::FAILED_BETWEEN_NODES,
    outlier::RULE,
    worse_than_before::RULE,
];

/// Names of the rules that look at these, in the order they run.
pub fn rule_ids(scope: Scope) -> impl Iterator<Item = &'static str> {
    RULES.iter().filter(move |rule| rule.is_of(scope)).map(|rule| rule.id)
}

impl Action {
    /// The action that follows from a finding: a fault takes the part out of service. All else is watched, and rules of later
    /// releases.
    pub fn of(finding: &Finding) -> Action {
        let is_fault = finding.contributes() == Some(Verdict::Fault);
        let rule = RULES.iter().find(|rule| is_fault && rule.id == finding.rule);
        let of_message = || match entry(&finding.rule).filter(|_| is_fault) {
            Some(_) if finding.reset => Action::Reset,
            Some(entry) if entry.class == Class::Hardware => Action::Isolate,
            _ => Action::Monitor,
        };
        rule.map_or_else(of_message, |rule| rule.action(finding.reset))
    }
}

/// Runs every rule. Findings come in the order of what they contribute to the verdict; of equal ones those that cost the greatest
/// share first, and of equal shares those that cost most.
pub fn check(context: &Context) -> Vec<Finding> {
    check_with(context, &Settings::default()).findings
}

/// What the rules find on a machine, with a site's settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checked {
    /// The findings, in the order of [`check`].
    pub findings: Vec<Finding>,
    /// What the site accepts.
    pub waived: Vec<Waived>,
}

/// A finding that is accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waived {
    /// Why.
    pub reason: String,
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
}

/// Whether what a rule reports is a fault on however many machines of a kind.
pub(crate) fn is_never_usual(rule: &str) -> bool {
    RULES.iter().any(|of| of.id == rule && of.is_never_usual())
}

/// [`check`] with a site's thresholds, less what it waives.
pub fn check_with(context: &Context, settings: &Settings) -> Checked {
    let view = View::new(context, settings);
    let mut raised = messages::follow(causes::fold(RULES.iter().flat_map(|rule| rule.machine(&view)).collect()));
    for rule in RULES {
        raised.extend(rule.left(&view, &raised));
    }
    raised.iter_mut().for_each(|one| one.weigh(settings.severity));
    raised.sort_by(|a, b| {
        let weight = |r: &Raised| if r.loss.is_nan() { 0.0 } else { r.loss };
        let lost = |r: &Raised| r.finding.cost.filter(|c| c.unit.rate(1.0).is_some()).map_or(0.0, |c| c.lost);
        let by_cost = || weight(b).total_cmp(&weight(a)).then(lost(b).total_cmp(&lost(a)));
        b.finding.contributes().cmp(&a.finding.contributes()).then_with(by_cost)
    });
    let mut checked = Checked::default();
    for finding in raised.into_iter().map(|r| r.finding) {
        match settings.waiver(&context.case.machine.name, &finding) {
            Some(waiver) => checked.waived.push(Waived { reason: waiver.reason.clone(), finding }),
            None => checked.findings.push(finding),
        }
    }
    checked
}

#[cfg(test)]
mod tests {
    use super::testing::{boxes, captured, pcie, switched, with_link};
    use super::*;
    use peerlane_machine::fact::P2pStatus;
    use peerlane_machine::machine::{Machine, MachineKind};
    use peerlane_read::catalogue::Parts;

    fn judge(machine: &Machine) -> (Vec<Finding>, Verdict) {
        let parts = Parts::default();
        let case = Case::from(machine.clone());
        let model = Model::new(&case.machine, &parts);
        let comparison = Comparison::of(&model);
        let context = Context::of(&case, &comparison);
        let findings = check(&context);
        let verdict = verdict(&context, &findings);
        (findings, verdict)
    }

    #[test]
    fn a_machine_at_full_width_is_healthy() {
        let (findings, verdict) = judge(&switched(4));
        assert_eq!(findings, []);
        assert_eq!(verdict, Verdict::Healthy);
    }

    #[test]
    fn nothing_known_is_no_verdict() {
        let mut machine = captured(boxes(&[1], false));
        with_link(&mut machine, "GPU0", pcie("?", "?"));
        assert_eq!(judge(&machine), (vec![], Verdict::NotJudged));
    }

    #[test]
    fn a_figure_in_words_is_something_to_check() {
        for name in ["hpcac-tessa", "k20-cx3-snb"] {
            let case = Case::from(peerlane_read::catalogue::system(name).unwrap().unwrap());
            let model = Model::new(&case.machine, Parts::embedded());
            let comparison = Comparison::of(&model);
            let context = Context::of(&case, &comparison);
            assert_eq!(verdict(&context, &check(&context)), Verdict::Healthy, "{name}");
        }
    }

    #[test]
    fn faults_decide_the_verdict_and_errors_come_first() {
        let mut machine = switched(3);
        with_link(&mut machine, "GPU2", pcie("3.0 x8", "3.0 x16"));
        let (findings, verdict) = judge(&machine);
        assert_eq!((findings.len(), verdict), (1, Verdict::Fault));
        let pair = (machine.fabric.find("GPU0").unwrap(), machine.fabric.find("GPU1").unwrap());
        machine.p2p.insert(pair, P2pStatus::NotSupported);
        let (findings, verdict) = judge(&machine);
        let rules: Vec<&str> = findings.iter().map(|f| f.rule.as_str()).collect();
        assert_eq!((rules, verdict), (vec!["p2p-refused", "narrow-link"], Verdict::Fault));
    }

    #[test]
    fn a_limit_of_the_design_is_no_fault() {
        let mut machine = switched(3);
        machine.kind = MachineKind::Captured;
        assert_eq!(judge(&machine).1, Verdict::Healthy);
        let design = |name| {
            let case = Case::from(peerlane_read::catalogue::system(name).unwrap().unwrap());
            judge(&case.machine).1
        };
        assert_eq!((design("microway-s822lc"), design("hgx-h200")), (Verdict::Limited, Verdict::NotJudged));
    }

    #[test]
    fn a_site_may_tolerate_faults_that_lose_little() {
        let weighed = |kind, certainty, loss, error| {
            let mut raised = Raised::new("slow-path", kind, Severity::Warning, certainty).losing(loss);
            raised.weigh(settings::Severity { error, certain: error / 2.0 });
            raised.finding.contributes()
        };
        let (fault, design) = (FindingKind::Fault, FindingKind::Design);
        let (sure, unsure) = (Some(Verdict::Fault), Some(Verdict::Unexplained));
        assert_eq!(weighed(fault, Certainty::Likely, 0.01, 0.0), sure, "none by default");
        assert_eq!(
            (weighed(fault, Certainty::Likely, 0.5, 0.5), weighed(fault, Certainty::Likely, 0.51, 0.5)),
            (unsure, sure)
        );
        assert_eq!(weighed(fault, Certainty::Certain, 0.3, 0.5), sure, "a source states the cause");
        assert_eq!(weighed(fault, Certainty::Likely, 0.0, 0.5), sure, "no matter of degree");
        assert_eq!(weighed(fault, Certainty::Possible, 0.9, 0.5), unsure);
        assert_eq!(weighed(design, Certainty::Certain, 0.9, 0.5), Some(Verdict::Limited));
    }

    #[test]
    fn faults_take_a_machine_out_and_nothing_else_does() {
        use Action::{Isolate, Monitor, Reset};
        let (fault, error, likely) = (FindingKind::Fault, Severity::Error, Certainty::Likely);
        let of = |rule, kind, severity, certainty| Action::of(&Raised::new(rule, kind, severity, certainty).finding);
        assert_eq!(of("slow-path", fault, error, likely), Isolate);
        assert_eq!(of("slow-path", fault, Severity::Warning, likely), Isolate);
        assert_eq!(of("slow-path", fault, error, Certainty::Possible), Monitor);
        assert_eq!(of("slow-path", FindingKind::Design, error, likely), Monitor);
        assert_eq!(of("slow-path", fault, Severity::Info, likely), Monitor);
        let reset = Raised::new("memory-rows", fault, error, likely).repaired_by_reset().finding;
        assert_eq!(Action::of(&reset), Reset);
        assert_eq!(of("slow-switch", fault, error, Certainty::Certain), Monitor);
        assert_eq!(of("a-rule-of-a-later-release", fault, error, Certainty::Certain), Monitor);
    }

    #[test]
    fn every_rule_is_described() {
        let docs = include_str!("../../../../docs/rules.md");
        for id in rule_ids(Scope::Machine) {
            assert!(docs.contains(&format!("\n## {id}\n")), "docs/rules.md lacks a section on {id}");
        }
        let rules = rule_ids(Scope::Machine).count();
        assert_eq!(docs.matches("\n## ").count(), rules, "docs/rules.md describes a rule that is not there");
    }
}
