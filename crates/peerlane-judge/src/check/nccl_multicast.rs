//! NCCL that fails to make a multicast group in the NVSwitches (NVLink SHARP), and stops.

use super::nccl;
use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity};

pub(super) const RULE: Rule = Rule { id: "nccl-multicast", breaks: true, run };

fn run(view: &View) -> Vec<Raised> {
    let is = |w: &&String| {
        w.starts_with("Failed to bind NVLink SHARP") || (w.contains("nvls.cc:") && w.contains("Cuda failure"))
    };
    let mut raised = Vec::new();
    for (log, origin) in nccl::logs(view) {
        let Some(warning) = log.warnings.iter().find(is) else { continue };
        let finding = Finding {
            summary: "NCCL cannot make a multicast group in the NVSwitches (NVLink SHARP), and stops there".to_owned(),
            expected: "multicast, which GPUs on NVSwitches of the third generation or later offer".to_owned(),
            measured: warning.trim_end_matches(['.', ' ']).to_owned(),
            evidence: view.cite([origin]),
            fix: "Bring the fabric up anew: stop the jobs, restart the fabric manager (of the driver's own version) and reset \
                   the GPUs, in the order of its guide, or restart the machine; a fabric manager restarted alone leaves the \
                   GPUs unregistered. Until then NCCL_NVLS_ENABLE=0 does without multicast, at some loss of all-reduce rate. In \
                   a virtual machine or container the host has to do it."
                .to_owned(),
            confirm: "`nvidia-smi -q | grep -A4 Fabric`; `systemctl status nvidia-fabricmanager`; the multicast tests of \
                      `nvbandwidth`"
                .to_owned(),
            ..Finding::of(&RULE, FindingKind::Fault, Severity::Error, Certainty::Likely, Vec::new())
        };
        raised.push(Raised::new(finding, 0.0));
    }
    raised
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use peerlane_machine::fact::{Fact, NcclLog};

    fn found(warning: &str) -> usize {
        let mut machine = switched(2);
        let log = NcclLog { warnings: vec![warning.to_owned()], ..NcclLog::default() };
        state(&mut machine, "NCCL_DEBUG=INFO", Fact::NcclLog(log));
        findings(&machine, run).len()
    }

    #[test]
    fn only_what_fails_there() {
        assert_eq!(
            found("transport/nvls.cc:254 Cuda failure 401 'the operation cannot be performed in the present state'"),
            1
        );
        assert_eq!(found("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401"), 1);
        assert_eq!(found("transport/net_ib.cc:88 Cuda failure 1 'invalid argument'"), 0);
    }
}
