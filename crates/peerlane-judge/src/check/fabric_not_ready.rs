//! GPUs whose NVLink fabric is not initialized: CUDA fails with error 802, or does not start.

use super::gpu_setting::gpus_with;
use super::prelude::*;

pub(super) const RULE: Rule = Rule { id: "fabric-not-ready", run: One(run) };

/// States of `nvidia-smi -q`'s "Fabric" section that are fine: ready, or no fabric to initialize.
const FINE: [&str; 5] = ["completed", "n/a", "not supported", "unknown", ""];

fn run(view: &View) -> Option<Raised> {
    let gpus = gpus_with(view, |gpu| {
        let state = gpu.fabric_state.clone()?;
        (!FINE.contains(&state.trim().to_lowercase().as_str())).then_some(state)
    })?;
    let raised = RULE
        .raise(Fault, Error, Certain)
        .summary(format!("{}: the NVLink fabric is not ready, so CUDA cannot start", list(&gpus.names)))
        .expected("fabric state Completed")
        .measured(format!("fabric state {}", gpus.values.first().cloned().unwrap_or_default()))
        .evidence(view.cite(gpus.origins))
        .fix(
            "Check `systemctl status nvidia-fabricmanager` and start a fabric manager of the same version as the driver. \
             In a virtual machine, the host must do this.",
        )
        .confirm("`nvidia-smi -q | grep -A4 Fabric`; `systemctl status nvidia-fabricmanager`")
        .about_nodes(gpus.names);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use peerlane_machine::fact::{Fact, GpuFacts};

    fn found(text: Option<&str>) -> usize {
        let mut machine = switched(2);
        let gpu = GpuFacts { index: Some(1), fabric_state: text.map(str::to_owned), ..GpuFacts::default() };
        state(&mut machine, "nvidia-smi -q", Fact::Gpus(vec![gpu]));
        findings(&machine, run).len()
    }

    #[test]
    fn only_a_state_of_trouble_counts() {
        assert_eq!((found(Some("In Progress")), found(Some("Not Started"))), (1, 1));
        assert_eq!((found(Some("Completed")), found(Some("N/A")), found(None)), (0, 0, 0));
    }
}
