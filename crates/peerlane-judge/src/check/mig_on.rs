//! GPUs in MIG mode: no NVLink, and no peer-to-peer.

use super::gpu_setting::gpus_with;
use super::prelude::*;

pub(super) const RULE: Rule = Rule::new("mig-on", One(run));

fn run(view: &View) -> Option<Raised> {
    // a single GPU has no peers to lose
    if view.gpu_pairs().is_empty() {
        return None;
    }
    let gpus = gpus_with(view, |gpu| gpu.mig.filter(|on| *on))?;
    let raised = RULE
        .raise(Design, Warning, Certain)
        .summary(format!("{}: MIG is on, which disables peer-to-peer and NVLink", list(&gpus.names)))
        .expected("MIG off on GPUs that work together")
        .measured("MIG mode: enabled")
        .evidence(view.cite(gpus.origins))
        .fix("If the GPUs are partitioned on purpose, do nothing. Otherwise run `nvidia-smi -i N -mig 0`, and reset the GPU if asked to.")
        .confirm("`nvidia-smi --query-gpu=index,mig.mode.current --format=csv`")
        .about_nodes(gpus.names);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use peerlane_machine::fact::{Fact, GpuFacts};

    fn found(gpus: usize, mig: Option<bool>) -> usize {
        let mut machine = switched(gpus);
        state(&mut machine, "nvidia-smi -q", Fact::Gpus(vec![GpuFacts { index: Some(0), mig, ..GpuFacts::default() }]));
        findings(&machine, run).len()
    }

    #[test]
    fn only_where_it_is_on_and_there_are_peers() {
        assert_eq!(found(2, Some(true)), 1);
        assert_eq!((found(2, Some(false)), found(2, None), found(1, Some(true))), (0, 0, 0));
    }
}
