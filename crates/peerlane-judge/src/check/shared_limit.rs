//! Limits shared by several GPUs that contention shows and no known link explains.

use super::prelude::*;
use peerlane_design::infer::{FlowKind, Inference, InferredGroup};
use peerlane_machine::names::ranges;
use peerlane_machine::transfer::Transfer;
use peerlane_model::expectation::expect_set;

pub(super) const RULE: Rule = Rule::new("shared-limit", Many(run));

/// A group below this confidence is not reported.
const SURE: f64 = 0.95;

/// The rate that the model expects of the members together may exceed the limit by this share; beyond it, the model does
/// not know the limit.
const EXPLAINED: f64 = 0.10;

fn run(view: &View) -> Vec<Raised> {
    let groups =
        view.case.inferred.iter().flat_map(|(found, origin)| found.groups.iter().map(move |g| (found, g, origin)));
    groups.filter_map(|(found, group, origin)| unexplained(view, found, group, origin)).collect()
}

fn unexplained(view: &View, found: &Inference, group: &InferredGroup, origin: &Origin) -> Option<Raised> {
    let of_host = matches!(group.direction, FlowKind::HostToDevice | FlowKind::DeviceToHost);
    if !of_host || group.confidence < SURE || group.members.len() < 2 {
        return None;
    }
    let transfer = |gpu: &String| match group.direction {
        FlowKind::HostToDevice => Transfer::new("host", gpu),
        _ => Transfer::new(gpu, "host"),
    };
    let transfers: Vec<Transfer> = group.members.iter().map(transfer).collect();
    let predicted = expect_set(view.model, &transfers).map(|all| all.iter().map(|a| a.rate.gb()).sum::<f64>());
    let rates = found.coverage.iter().find(|a| a.direction == group.direction)?;
    let alone = |gpu: &String| rates.alone.iter().find(|rate| rate.flow == *gpu).map(|rate| rate.rate);
    let alone: f64 = group.members.iter().map(alone).sum::<Option<f64>>()?;
    // the model may expect less than they reach alone, where they share a link
    let (expected, why) = match predicted.filter(|sum| *sum < alone) {
        Some(sum) => (sum, "by the known links"),
        None => (alone, "the sum of each alone"),
    };
    if expected <= group.capacity * (1.0 + EXPLAINED) {
        return None;
    }
    let (gpus, direction) = (ranges(&group.members), group.direction.words());
    let raised = RULE
        .raise(Design, Info, Likely)
        .summary(format!(
            "{gpus} share a limit that no known link explains: {direction} they reach {:.1} GB/s together",
            group.capacity
        ))
        .expected(format!("{expected:.1} GB/s together, {why}"))
        .measured(format!(
            "{:.1} GB/s ({:.1} to {:.1}), reached in {} sets of the run; {:.1} % confidence",
            group.capacity,
            group.low,
            group.high,
            group.sets.len(),
            100.0 * group.confidence
        ))
        .evidence(view.cite([origin]))
        .fix(
            "Plan with the shared rate: feed fewer GPUs at once, or keep data on them. In a virtual machine, ask the operator \
             what the host shares; otherwise look for a shared uplink, the memory's rate, or an IOMMU.",
        )
        .confirm("`peerlane infer`")
        .cost(Cost::of_rate(expected, group.capacity))
        .about_nodes(&group.members)
        .losing(1.0 - group.capacity / expected);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, switched};
    use super::*;
    use crate::finding::Finding;
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
