//! GPUs whose memory has rows that wait to be remapped, or could not be.

use super::gpu_setting::{gpus_with, raise};
use super::view::{Raised, View};
use super::words::{list, verb};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fact::GpuFacts;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "memory-rows", breaks: true, run };

fn run(view: &View) -> Vec<Raised> {
    let failed = |gpu: &GpuFacts| gpu.remap_failed.filter(|yes| *yes);
    let pending = |gpu: &GpuFacts| gpu.remap_pending.filter(|yes| *yes && gpu.remap_failed != Some(true));
    let confirm = "`nvidia-smi -q -d ROW_REMAPPER,ECC`".to_owned();
    let mut raised = raise(gpus_with(view, failed), |names, _, origins| Finding {
        summary: format!("{}: a row of memory could not be remapped", list(&names)),
        expected: "Remapping Failure Occurred: No".to_owned(),
        measured: "Remapping Failure Occurred: Yes".to_owned(),
        evidence: view.cite(origins),
        fix: "Take it out of service and have it replaced: this is one of NVIDIA's criteria for that.".to_owned(),
        confirm: confirm.clone(),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Error, Certainty::Certain, Subject::nodes_of(names))
    });
    raised.extend(raise(gpus_with(view, pending), |names, _, origins| Finding {
        summary: format!(
            "{} {} rows of memory that wait to be remapped",
            list(&names),
            verb(&names, "has", "have")
        ),
        expected: "Remapped Rows, Pending: No".to_owned(),
        measured: "Remapped Rows, Pending: Yes".to_owned(),
        evidence: view.cite(origins),
        fix: "Drain the GPU and reset it (`nvidia-smi -r -i N`), or restart the machine: rows are remapped then. Programs may be \
               stopped by errors until then."
            .to_owned(),
        confirm,
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Warning, Certainty::Certain, Subject::nodes_of(names))
    }));
    raised
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use peerlane_machine::fact::Fact;

    fn found(pending: Option<bool>, failed: Option<bool>) -> Vec<Severity> {
        let mut machine = switched(2);
        let gpu = GpuFacts { index: Some(1), remap_pending: pending, remap_failed: failed, ..GpuFacts::default() };
        state(&mut machine, "nvidia-smi -q", Fact::Gpus(vec![gpu]));
        findings(&machine, run).into_iter().map(|f| f.severity).collect()
    }

    #[test]
    fn waiting_is_a_warning_and_failing_an_error() {
        assert_eq!(found(Some(true), Some(false)), [Severity::Warning]);
        assert_eq!(found(Some(true), Some(true)), [Severity::Error]);
        assert_eq!((found(Some(false), Some(false)), found(None, None)), (vec![], vec![]));
    }
}
