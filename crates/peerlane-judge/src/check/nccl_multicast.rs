//! NCCL that fails to create a multicast group in the NVSwitches (NVLink SHARP), and stops.

use super::nccl;
use super::prelude::*;

pub(super) const RULE: Rule = Rule { id: "nccl-multicast", run: Many(run) };

fn run(view: &View) -> Vec<Raised> {
    // NCCL's own wording, in all releases with NVLink SHARP
    let failed = |w: &&String| {
        w.starts_with("Failed to bind NVLink SHARP") || (w.contains("nvls.cc:") && w.contains("Cuda failure"))
    };
    let logs = nccl::logs(view).into_iter();
    let warnings = logs.filter_map(|(log, origin)| Some((log.warnings.iter().find(failed)?, origin)));
    let report = |(warning, origin): (&String, &Origin)| {
        RULE.raise(Fault, Error, Likely)
            .summary("NCCL cannot create a multicast group in the NVSwitches (NVLink SHARP), and stops")
            .expected("multicast, which GPUs on third-generation or later NVSwitches support")
            .measured(warning.trim_end_matches(['.', ' ']))
            .evidence(view.cite([origin]))
            .fix(
                "Reinitialize the fabric: stop all jobs, restart the fabric manager (same version as the driver), and reset \
                 the GPUs in the order of its guide, or restart the machine. Restarting the fabric manager alone leaves the \
                 GPUs unregistered. As a workaround, NCCL_NVLS_ENABLE=0 disables multicast and costs some all-reduce rate. \
                 In a virtual machine or container, the host must do this.",
            )
            .confirm(
                "`nvidia-smi -q | grep -A4 Fabric`; `systemctl status nvidia-fabricmanager`; the multicast tests of \
                 `nvbandwidth`",
            )
    };
    warnings.map(report).collect()
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
