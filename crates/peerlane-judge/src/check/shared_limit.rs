//! Limits behind several GPUs that contention shows and nothing known of the machine explains.

use super::view::{Raised, View};
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity};
use peerlane_design::infer::{FlowKind, Inference, InferredGroup};
use peerlane_machine::names::ranges;
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;
use peerlane_machine::transfer::Transfer;
use peerlane_model::expectation::expect_set;

pub(super) const RULE: Rule = Rule { id: "shared-limit", breaks: false, run };

/// A group that is less sure than this is no finding.
const SURE: f64 = 0.95;

/// What the model expects of the members together may be above the limit by so much; beyond it the model knows nothing of
/// the limit.
const EXPLAINED: f64 = 0.10;

fn run(view: &View) -> Vec<Raised> {
    let records = view.case.inferred.iter();
    records.flat_map(|(found, origin)| of_record(view, found, origin)).collect()
}

fn of_record(view: &View, found: &Inference, origin: &Origin) -> Vec<Raised> {
    let judged = |g: &&InferredGroup| {
        matches!(g.direction, FlowKind::HostToDevice | FlowKind::DeviceToHost)
            && g.confidence >= SURE
            && g.members.len() > 1
    };
    let groups = found.groups.iter().filter(judged);
    groups.filter_map(|group| unexplained(view, found, group, origin)).collect()
}

fn unexplained(view: &View, found: &Inference, group: &InferredGroup, origin: &Origin) -> Option<Raised> {
    let transfer = |gpu: &String| match group.direction {
        FlowKind::HostToDevice => Transfer::new("host", gpu),
        _ => Transfer::new(gpu, "host"),
    };
    let transfers: Vec<Transfer> = group.members.iter().map(transfer).collect();
    let predicted = expect_set(view.model, &transfers).map(|all| all.iter().map(|a| a.rate.gb()).sum::<f64>());
    let asked = found.coverage.iter().find(|a| a.direction == group.direction)?;
    let alone = |gpu: &String| asked.alone.iter().find(|rate| rate.flow == *gpu).map(|rate| rate.rate);
    let alone: f64 = group.members.iter().map(alone).sum::<Option<f64>>()?;
    // the model may expect less than they reach alone, by a link that they share
    let (expected, why) = match predicted.filter(|sum| *sum < alone) {
        Some(sum) => (sum, "by what is known of the links"),
        None => (alone, "as much as each alone"),
    };
    if expected <= group.capacity * (1.0 + EXPLAINED) {
        return None;
    }
    let (gpus, way) = (ranges(&group.members), group.direction.words());
    let finding = Finding {
        summary: format!(
            "{gpus} share a limit that no known link explains: {way} they carry {:.1} GB/s together",
            group.capacity
        ),
        expected: format!("{expected:.1} GB/s together, {why}"),
        measured: format!(
            "{:.1} GB/s ({:.1} to {:.1}), full in {} of the sets that ran; {:.1} % sure",
            group.capacity,
            group.low,
            group.high,
            group.sets.len(),
            100.0 * group.confidence
        ),
        evidence: view.cite([origin]),
        fix: "Plan with the shared rate: feed fewer GPUs at once, or keep data on them. Of a virtual machine ask the \
               operator what its host shares; else look for a shared uplink, the memory's rate, or an IOMMU."
            .to_owned(),
        confirm: "`peerlane infer`".to_owned(),
        cost: Cost::of_rate(expected, group.capacity),
        ..Finding::of(&RULE, FindingKind::Design, Severity::Info, Certainty::Likely, Subject::nodes_of(&group.members))
    };
    Some(Raised::new(finding, 1.0 - group.capacity / expected))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, switched};
    use super::*;
    use peerlane_design::case::Case;
    use peerlane_design::infer::{Coverage, Rate};

    /// Findings on two GPUs below one switch, whose group of one direction carries so much.
    fn found(capacity: f64, direction: FlowKind, confidence: f64) -> Vec<Finding> {
        let mut case = Case::from(switched(2));
        let members = vec!["GPU0".to_owned(), "GPU1".to_owned()];
        let mut found = peerlane_design::infer::recorded(&case.machine, None, "test");
        let alone = members.iter().map(|flow| Rate { flow: flow.clone(), rate: 12.5 }).collect();
        found.coverage.push(Coverage { direction, flows: 2, alone, sets: 3, allowed: None, repeats: None });
        let (low, high) = (capacity * 0.99, capacity * 1.01);
        found.groups.push(InferredGroup { members, direction, capacity, low, high, confidence, sets: vec![2] });
        case.join(found, "inference.json").unwrap();
        findings(&case, run)
    }

    #[test]
    fn a_limit_that_a_switch_explains_is_none_and_a_lower_one_is() {
        assert_eq!(found(12.4, FlowKind::HostToDevice, 0.999), []);
        let lower = found(8.0, FlowKind::HostToDevice, 0.999);
        assert_eq!(lower[0].evidence, ["inference.json (peerlane infer)"]);
        assert!(lower[0].summary.starts_with("GPU0, GPU1 share a limit that no known link explains"), "{lower:?}");
        assert!((found(8.0, FlowKind::HostToDevice, 0.5).len(), found(8.0, FlowKind::Both, 0.999).len()) == (0, 0));
    }
}
