//! GPUs with memory rows whose remapping is pending or failed.

use super::gpu_setting::{Gpus, gpus_with};
use super::prelude::*;

pub(super) const RULE: Rule = Rule::new("memory-rows", Many(run));

fn run(view: &View) -> Vec<Raised> {
    let failed = gpus_with(view, |gpu| gpu.remap_failed.filter(|yes| *yes));
    let pending = gpus_with(view, |gpu| gpu.remap_pending.filter(|yes| *yes && gpu.remap_failed != Some(true)));
    let report = |gpus: Gpus<bool>, raised: Raised| {
        let raised = raised.evidence(view.cite(gpus.origins)).about_nodes(gpus.names);
        raised.confirm("`nvidia-smi -q -d ROW_REMAPPER,ECC`")
    };
    let failed = failed.map(|gpus| {
        let raised = RULE
            .raise(Fault, Error, Certain)
            .summary(format!("{}: remapping a memory row failed", list(&gpus.names)))
            .expected("Remapping Failure Occurred: No")
            .measured("Remapping Failure Occurred: Yes")
            .fix("Take the GPU out of service and have it replaced: NVIDIA's criteria for replacement include this error.");
        report(gpus, raised)
    });
    let pending = pending.map(|gpus| {
        let raised = RULE
            .raise(Fault, Warning, Certain)
            .repaired_by_reset()
            .summary(format!("{}: memory rows are pending remapping", list(&gpus.names)))
            .expected("Remapped Rows, Pending: No")
            .measured("Remapped Rows, Pending: Yes")
            .fix(
                "Drain the GPU and reset it (`nvidia-smi -r -i N`), or restart the machine; this remaps the rows. Until then, \
                 memory errors may stop programs.",
            );
        report(gpus, raised)
    });
    failed.into_iter().chain(pending).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use peerlane_machine::fact::GpuFacts;

    fn found(pending: Option<bool>, failed: Option<bool>) -> Vec<(Severity, bool)> {
        let mut machine = switched(2);
        let gpu = GpuFacts { index: Some(1), remap_pending: pending, remap_failed: failed, ..GpuFacts::default() };
        state(&mut machine, "nvidia-smi -q", Fact::Gpus(vec![gpu]));
        findings(&machine, run).into_iter().map(|f| (f.severity, f.reset)).collect()
    }

    #[test]
    fn a_reset_repairs_what_is_pending() {
        assert_eq!(found(Some(true), Some(false)), [(Error, true)]);
        assert_eq!(found(Some(true), Some(true)), [(Error, false)]);
        assert_eq!((found(Some(false), Some(false)), found(None, None)), (vec![], vec![]));
    }
}
