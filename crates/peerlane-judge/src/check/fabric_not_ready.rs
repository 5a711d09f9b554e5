//! GPUs whose NVLink fabric was not brought up: CUDA starts with error 802, or not at all.

use super::gpu_setting::{gpus_with, raise};
use super::view::{Raised, View};
use super::words::list;
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "fabric-not-ready", breaks: true, run };

/// States of `nvidia-smi -q`'s "Fabric" section that are no trouble: ready, or no fabric to bring up.
const FINE: [&str; 5] = ["completed", "n/a", "not supported", "unknown", ""];

fn run(view: &View) -> Vec<Raised> {
    let state = |gpu: &peerlane_machine::fact::GpuFacts| {
        let state = gpu.fabric_state.clone()?;
        (!FINE.contains(&state.trim().to_lowercase().as_str())).then_some(state)
    };
    raise(gpus_with(view, state), |names, states, origins| Finding {
        summary: format!("{}: the NVLink fabric is not ready, so that CUDA cannot start there", list(&names)),
        expected: "fabric state Completed".to_owned(),
        measured: format!("fabric state {}", states.first().cloned().unwrap_or_default()),
        evidence: view.cite(origins),
        fix: "Start the fabric manager, of the driver's own version: `systemctl status nvidia-fabricmanager`; in a \
               virtual machine the host has to."
            .to_owned(),
        confirm: "`nvidia-smi -q | grep -A4 Fabric`; `systemctl status nvidia-fabricmanager`".to_owned(),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Error, Certainty::Certain, Subject::nodes_of(names))
    })
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
