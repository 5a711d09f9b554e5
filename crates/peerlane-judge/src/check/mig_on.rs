//! GPUs that are split by MIG: no NVLink, and no peer-to-peer.

use super::gpu_setting::{gpus_with, raise};
use super::view::{Raised, View};
use super::words::list;
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "mig-on", breaks: false, run };

fn run(view: &View) -> Vec<Raised> {
    // one GPU alone has no peer to miss
    if view.gpu_pairs().is_empty() {
        return Vec::new();
    }
    raise(gpus_with(view, |gpu| gpu.mig.filter(|on| *on)), |names, _, origins| Finding {
        summary: format!("{}: MIG is on, so that peer-to-peer and NVLink are off", list(&names)),
        expected: "MIG off on GPUs that are to work together".to_owned(),
        measured: "MIG mode: enabled".to_owned(),
        evidence: view.cite(origins),
        fix: "`nvidia-smi -i N -mig 0` and a GPU reset, unless the GPUs are meant to be shared in parts: then nothing."
            .to_owned(),
        confirm: "`nvidia-smi --query-gpu=index,mig.mode.current --format=csv`".to_owned(),
        ..Finding::of(&RULE, FindingKind::Design, Severity::Warning, Certainty::Certain, Subject::nodes_of(names))
    })
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
