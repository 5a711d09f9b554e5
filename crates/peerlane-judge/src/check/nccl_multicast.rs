//! NCCL that fails to create a multicast group in the NVSwitches (NVLink SHARP), and stops.

use super::nccl;
use super::prelude::*;

pub(super) const RULE: Rule = Rule::new("nccl-multicast", Many(run));

/// CUDA's words for error 800.
const NOT_PERMITTED: &str = "operation not permitted";

/// The first failure of each log, in NCCL's own wording in all releases with NVLink SHARP.
fn failures<'a>(view: &View<'a>) -> impl Iterator<Item = (&'a String, &'a Origin)> {
    let failed = |w: &&String| {
        // behind the place in NCCL's source, or alone where a framework repeats it
        w.contains("Failed to bind NVLink SHARP")
            || (w.contains("nvls.cc:") && w.contains("Cuda failure"))
            || (w.contains(NOT_PERMITTED) && w.contains("cuM"))
    };
    let logs = nccl::logs(view).into_iter();
    logs.filter_map(move |(log, origin)| Some((log.warnings.iter().find(failed)?, origin)))
}

/// Whether a log is reported here as one of a process without an IMEX channel.
pub(super) fn names_channel(view: &View) -> bool {
    failures(view).any(|(warning, _)| warning.contains(NOT_PERMITTED))
}

fn run(view: &View) -> Vec<Raised> {
    let report = |(warning, origin): (&String, &Origin)| {
        // "CUDA error 2 'out of memory'": each communicator takes multicast groups of the NVSwitches, which have few
        let used_up = warning.contains("out of memory");
        let raised = RULE
            .raise(Fault, Error, Likely)
            .repaired_by_reset()
            .expected("multicast, which GPUs on third-generation or later NVSwitches support")
            .measured(warning.trim_end_matches(['.', ' ']))
            .evidence(view.cite([origin]));
        if warning.contains(NOT_PERMITTED) {
            return raised
                .expected("a process that may make memory for other processes over NVLink (fabric handles, multicast)")
                .summary("CUDA does not permit memory that is shared over NVLink: the container or host lacks an IMEX channel")
                .fix(
                    "If it runs in a container, give it the channel (`--device \
                     /dev/nvidia-caps-imex-channels/channel0`, and /dev/nvidia-caps). If the host has no channel, \
                     create one (option NVreg_CreateImexChannel0=1 of the nvidia module). On hosts that share an \
                     NVLink domain, check that nvidia-imex runs. Until then, NCCL_NVLS_ENABLE=0 (and \
                     NCCL_MNNVL_ENABLE=0) does without.",
                )
                .confirm("`ls -l /dev/nvidia-caps-imex-channels`; `nvidia-imex-ctl -N` on multi-node NVLink");
        }
        if used_up {
            return raised
                .summary("NCCL gets no multicast group in the NVSwitches (NVLink SHARP): all multicast slots are in use")
                .fix(
                    "End processes that still hold multicast groups, create fewer communicators, or set \
                     NCCL_NVLS_ENABLE=0: the fabric is not broken. If GPU memory is full (`nvidia-smi`), free it \
                     first.",
                )
                .confirm(
                    "the fabric manager's log, which names the multicast slots in use; `NCCL_NVLS_ENABLE=0` makes the job run",
                );
        }
        raised
            .summary("NCCL cannot create a multicast group in the NVSwitches (NVLink SHARP), and stops")
            .fix(
                "Stop all jobs, restart the fabric manager (same version as the driver) and reset the GPUs, or restart \
                     the machine. A fabric manager that was restarted while GPUs were in use leaves them unregistered. \
                     In a virtual machine or container, the host must do this. Until then, NCCL_NVLS_ENABLE=0 works, \
                     at a lower all-reduce rate.",
            )
            .confirm(
                "`nvidia-smi -q | grep -A4 Fabric`; `systemctl status nvidia-fabricmanager`; the multicast tests of \
                 `nvbandwidth`",
            )
    };
    failures(view).map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use peerlane_machine::fact::{Fact, NcclLog};

    fn found(warning: &str) -> usize {
        all(warning).len()
    }

    fn all(warning: &str) -> Vec<crate::finding::Finding> {
        let mut machine = switched(2);
        let log = NcclLog { warnings: vec![warning.to_owned()], ..NcclLog::default() };
        state(&mut machine, "NCCL_DEBUG=INFO", Fact::NcclLog(log));
        findings(&machine, run)
    }

    #[test]
    fn used_up_slots_are_no_broken_fabric() {
        let found =
            all("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 2 'out of memory'");
        assert!(found[0].summary.contains("multicast slots") && !found[0].fix.contains("restart"), "{found:?}");
    }

    #[test]
    fn a_container_without_a_channel() {
        let found = all("Call to cuMemCreate(&handle, bytes, &prop, 0 ) failed. (Cu failure: operation not permitted)");
        assert!(found[0].fix.contains("/dev/nvidia-caps-imex-channels"), "{found:?}");
        let found = all("transport/nvls.cc:254 Cuda failure 800 'operation not permitted'");
        assert!(found[0].summary.contains("IMEX channel"), "{found:?}");
    }

    #[test]
    fn only_what_fails_there() {
        assert_eq!(
            found("transport/nvls.cc:254 Cuda failure 401 'the operation cannot be performed in the present state'"),
            1
        );
        assert_eq!(found("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401"), 1);
        assert_eq!(
            found("transport/nvls.cc:286 Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152"),
            1
        );
        assert_eq!(found("transport/net_ib.cc:88 Cuda failure 1 'invalid argument'"), 0);
    }
}
