//! PCIe packets that were retransmitted during a run.

use super::gpu_setting::gpus_with;
use super::prelude::*;

pub(super) const RULE: Rule = Rule::new("pcie-replays", One(run));

/// A sound link loses a packet now and then: one bit in 10¹² may be wrong (PCI Express Base Specification), and a run
/// moves some 10¹³.
const FEW: u64 = 16;

/// Replays since the last reset that no uptime explains: at one an hour, a year has fewer.
const MANY: u64 = 10_000;

fn run(view: &View) -> Option<Raised> {
    let Some(run) = view.case.run() else { return since_reset(view) };
    let (mut names, mut counts) = (Vec::new(), Vec::new());
    for after in &run.conditions.after {
        let Some(before) = run.conditions.before.iter().find(|b| b.gpu == after.gpu) else { continue };
        let rise = after.pcie_replays.zip(before.pcie_replays).and_then(|(now, then)| now.checked_sub(then));
        if let Some(n) = rise.filter(|n| *n > FEW) {
            names.push(after.gpu.clone());
            counts.push(format!("{} {n}", after.gpu));
        }
    }
    if names.is_empty() {
        return None;
    }
    let raised = RULE
        .raise(Fault, Warning, Possible)
        .summary(format!("The PCIe links of {} retransmitted packets during the run", list(&names)))
        .expected(format!("at most {FEW} replays in a run"))
        .measured(format!("replays: {}", list(&counts)))
        .evidence(view.cite_run())
        .fix(
            "Reseat the card and its riser or cable. A riser or cable that is not rated for the generation loses packets; \
             lower the link speed in the BIOS to find out.",
        )
        .confirm(
            "`nvidia-smi --query-gpu=index,pcie.link.gen.current --format=csv`, and the replay counter of `nvidia-smi -q` \
             before and after `peerlane measure --tests host`",
        )
        .about_nodes(names);
    Some(raised)
}

/// From a capture of one moment: the counter's last reset is unknown, so only a large count means something.
fn since_reset(view: &View) -> Option<Raised> {
    let gpus = gpus_with(view, |gpu| gpu.replays.filter(|n| *n > MANY))?;
    let counts: Vec<String> = gpus.names.iter().zip(gpus.values).map(|(gpu, n)| format!("{gpu} {n}")).collect();
    let raised = RULE
        .raise(Fault, Warning, Possible)
        .summary(format!("The PCIe links of {} retransmitted many packets since the last reset", list(&gpus.names)))
        .expected(format!("at most {MANY} replays, whenever the counter was reset"))
        .measured(format!("replays: {}", list(&counts)))
        .evidence(view.cite(gpus.origins))
        .fix(
            "If the counter still rises under load, reseat the card and its riser or cable, and try a lower link \
             speed in the BIOS.",
        )
        .confirm("the replay counter of `nvidia-smi -q` before and after `peerlane measure --tests host`")
        .about_nodes(gpus.names);
    Some(raised)
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
