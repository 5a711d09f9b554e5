//! The verdict on a machine as a whole, and what to run where nothing known could have shown a fault.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, Finding, FindingKind, Settings, Severity, View, view};
use peerlane_machine::fabric::{LinkKind, Node, NodeKind};
use peerlane_machine::fact::{Evidence, P2pStatus};
use peerlane_machine::machine::MachineKind;
use peerlane_model::assumptions::Rating;

/// The machine as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No fault, no limit worth a warning, and there was something to check.
    Healthy,
    /// Healthy, with limits of its design that are worth knowing.
    Limited,
    /// Nothing known could have shown a fault.
    NotJudged,
    /// Something is broken or misconfigured.
    Fault,
}

impl Verdict {
    /// As it is printed: `NOT JUDGED`.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Healthy => "HEALTHY",
            Verdict::Limited => "LIMITED",
            Verdict::NotJudged => "NOT JUDGED",
            Verdict::Fault => "FAULT",
        }
    }

    /// As it is written in JSON: `not-judged`.
    pub fn id(self) -> &'static str {
        match self {
            Verdict::Healthy => "healthy",
            Verdict::Limited => "limited",
            Verdict::NotJudged => "not-judged",
            Verdict::Fault => "fault",
        }
    }
}

/// The verdict that follows from findings: the worst kind of any warning or error. Doubts about a measurement do not count.
///
/// Without any, the machine is healthy if there was something to check: a link's widths, a rate that can be compared, a
/// peer-to-peer status where there are no rates, or measured values that assumptions about unknown links explain.
pub fn verdict(context: &Context, findings: &[Finding]) -> Verdict {
    let any = |kind| findings.iter().any(|f| f.kind == kind && f.severity >= Severity::Warning);
    if any(FindingKind::Fault) {
        Verdict::Fault
    } else if any(FindingKind::Design) {
        Verdict::Limited
    } else if can_judge(context) {
        Verdict::Healthy
    } else {
        Verdict::NotJudged
    }
}

/// Whether anything is known that could have shown a fault.
fn can_judge(context: &Context) -> bool {
    let access_known = || context.case.machine.p2p.values().any(|status| *status != P2pStatus::Unknown);
    let rate_comparable = || {
        let settings = Settings::default();
        let view = View::new(context, &settings);
        let of_matrices = view.bandwidths().filter_map(|(at, _)| view.comparison.matrices().get(at));
        let mut all = of_matrices.chain(view.statements().map(|(_, series)| series));
        all.any(|s| view.cells(s.matrix()).iter().any(|cell| view::expected_rate(s, cell).is_some()))
    };
    // rates without an expectation may be bad; that peer access is granted says nothing about them
    let has_rates = !context.case.machine.matrices.is_empty() || !context.case.machine.curves.is_empty();
    // most of what was measured fits one set of assumptions far better than any other, or is the same by nearly all sets
    let fits = || {
        let fit = context.fit().filter(|fit| fit.measured > 0 && 2 * fit.explained >= fit.measured);
        fit.is_some_and(|fit| fit.rating >= Rating::Likely || fit.agreement >= AGREED)
    };
    is_width_known(context) || (access_known() && !has_rates) || rate_comparable() || fits()
}

/// Whether the width of any device's link is known, with what it allows.
fn is_width_known(context: &Context) -> bool {
    let fabric = &context.case.machine.fabric;
    fabric.ids().filter(|id| fabric.node(*id).kind.is_device()).any(|id| {
        let up = fabric.upstream(id).map(|(link, _)| fabric.link(link)).filter(|link| !link.assumed);
        matches!(up.map(|link| &link.kind), Some(LinkKind::Pcie { running, allowed, .. })
            if running.lanes.is_some() && allowed.lanes.is_some())
    })
}

/// Share of the likelihood of all sets of assumptions by which what was measured is judged.
const AGREED: f64 = 0.75;

/// The one or two commands whose output, checked with what is already known, would give a verdict: those of which the
/// machine's evidence has no output yet.
pub fn next_commands(context: &Context) -> Vec<&'static str> {
    let machine = &context.case.machine;
    if machine.kind != MachineKind::Captured {
        return vec!["peerlane measure -o run.json"];
    }
    let is_amd =
        machine.fabric.nodes().iter().any(|node| is_amd_gpu(context, node)) || machine.evidence.iter().any(is_of_amd);
    let commands: &[(&str, &str)] = if is_amd {
        &[("lspci -vv", "lspci -vvv"), ("rocm_bandwidth_test", "rocm-bandwidth-test")]
    } else {
        &[("nvidia-smi -q", "nvidia-smi -q -x"), ("nvidia-smi topo -p2p", "nvidia-smi topo -p2p r")]
    };
    let is_new = |(tool, _): &&(&str, &str)| !machine.evidence.iter().any(|e| e.origin.tool.starts_with(tool));
    let mut next: Vec<&str> = commands.iter().filter(is_new).map(|(_, command)| *command).collect();
    // rates are worth most where the other two are there and gave no verdict
    if next.len() < commands.len() && !is_amd {
        next.push("peerlane measure -o run.json");
    }
    next
}

/// Whether a node is a GPU of AMD's, by its part.
fn is_amd_gpu(context: &Context, node: &Node) -> bool {
    let part = node.part.as_deref().and_then(|id| context.model.parts.get(id));
    node.kind == NodeKind::Gpu && part.is_some_and(|part| part.pci_ids.iter().any(|id| id.starts_with("1002:")))
}

/// Whether only AMD's tools print such evidence.
fn is_of_amd(evidence: &Evidence) -> bool {
    ["rocm", "amd-smi", "TransferBench"].iter().any(|tool| evidence.origin.tool.starts_with(tool))
}
