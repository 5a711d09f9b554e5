//! PCIe packets that had to be sent again while a run lasted.

use super::from_run::measured;
use super::gpu_setting::{gpus_with, raise};
use super::view::{Raised, View};
use super::words::list;
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "pcie-replays", breaks: false, run };

/// A sound link loses a packet now and then: one bit in 10¹² may be wrong (PCI Express Base Specification), and a run
/// moves some 10¹³.
const FEW: u64 = 16;

/// Replays since the last reset that no uptime explains: at one an hour, a year has fewer.
const MANY: u64 = 10_000;

fn run(view: &View) -> Vec<Raised> {
    let Some(measured) = measured(view) else { return since_reset(view) };
    let conditions = &measured.conditions;
    let mut rises: Vec<(String, u64)> = Vec::new();
    for after in &conditions.after {
        let Some(before) = conditions.before.iter().find(|b| b.gpu == after.gpu) else { continue };
        let rise = after.pcie_replays.zip(before.pcie_replays).and_then(|(now, then)| now.checked_sub(then));
        rises.extend(rise.filter(|n| *n > FEW).map(|n| (after.gpu.clone(), n)));
    }
    if rises.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = rises.iter().map(|(gpu, _)| gpu.clone()).collect();
    let counts: Vec<String> = rises.iter().map(|(gpu, n)| format!("{gpu} {n}")).collect();
    let finding = Finding {
        summary: format!("The PCIe links of {} had to send packets again during the run", list(&names)),
        expected: format!("at most {FEW} replays in a run"),
        measured: format!("replays: {}", list(&counts)),
        evidence: view.cite(view.case.run.iter().map(|recorded| &recorded.origin)),
        fix: "Reseat the card and its riser or cable; one that is not rated for the generation loses packets, and a lower \
               link speed in the BIOS shows whether it is that."
            .to_owned(),
        confirm: "`nvidia-smi --query-gpu=index,pcie.link.gen.current --format=csv` and the replay counter of \
                  `nvidia-smi -q` before and after `peerlane measure --tests host`"
            .to_owned(),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Warning, Certainty::Likely, Subject::nodes_of(names))
    };
    vec![Raised::new(finding, 0.0)]
}

/// What was captured at one moment: a counter since nobody knows when, which only says much where it is large.
fn since_reset(view: &View) -> Vec<Raised> {
    let found = gpus_with(view, |gpu| gpu.replays.filter(|n| *n > MANY));
    raise(found, |names, counts, origins| {
        let counts: Vec<String> = names.iter().zip(counts).map(|(gpu, n)| format!("{gpu} {n}")).collect();
        Finding {
            summary: format!("The PCIe links of {} had to send many packets again since the last reset", list(&names)),
            expected: format!("at most {MANY} replays, whenever the counter was reset"),
            measured: format!("replays: {}", list(&counts)),
            evidence: view.cite(origins),
            fix: "See whether the counter still rises under load; if it does, reseat the card and its riser or cable, and \
                   try a lower link speed in the BIOS."
                .to_owned(),
            confirm: "the replay counter of `nvidia-smi -q` before and after `peerlane measure --tests host`".to_owned(),
            ..Finding::of(&RULE, FindingKind::Fault, Severity::Warning, Certainty::Possible, Subject::nodes_of(names))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, measured, switched};
    use super::*;
    use peerlane_measure::run::GpuState;

    fn risen(from: u64, to: u64) -> usize {
        let mut case = measured(switched(2), [(("GPU0", "GPU1"), Ok(12.0))]);
        let state = |n| vec![GpuState { gpu: "GPU1".to_owned(), pcie_replays: Some(n), ..GpuState::default() }];
        let conditions = &mut case.run.as_mut().unwrap().run.conditions;
        (conditions.before, conditions.after) = (state(from), state(to));
        findings(&case, run).len()
    }

    #[test]
    fn a_counter_without_a_run_says_something_only_where_it_is_large() {
        use peerlane_machine::fact::{Fact, GpuFacts};
        let found = |replays| {
            let mut machine = switched(2);
            let gpu = GpuFacts { index: Some(1), replays: Some(replays), ..GpuFacts::default() };
            super::super::testing::state(&mut machine, "nvidia-smi -q", Fact::Gpus(vec![gpu]));
            findings(&machine, run).len()
        };
        assert_eq!((found(0), found(300), found(48_211)), (0, 0, 1));
    }

    #[test]
    fn only_a_rise_during_the_run_counts() {
        assert_eq!(risen(3, 300), 1);
        assert_eq!((risen(300, 300), risen(3, 10), risen(9, 3)), (0, 0, 0));
    }
}
