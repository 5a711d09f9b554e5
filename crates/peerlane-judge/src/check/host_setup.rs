//! Programs that fail because a host, a container or a job is set up wrongly, by what they report.

use std::collections::BTreeMap;

use super::prelude::*;
use super::{nccl_multicast, nccl_network};
use peerlane_machine::fact::{SetupFailure, SetupFailureKind as Kind};

pub(super) const RULE: Rule = Rule::new("host-setup", Many(run)).watched();

/// What a failure means.
struct Meaning {
    certainty: Certainty,
    summary: &'static str,
    expected: &'static str,
    fix: &'static str,
    confirm: &'static str,
}

fn run(view: &View) -> Vec<Raised> {
    let mut kinds: BTreeMap<Kind, Vec<(&SetupFailure, &Origin)>> = BTreeMap::new();
    let listed = view.facts(|fact| match fact {
        Fact::SetupFailures(failures) => Some(failures),
        _ => None,
    });
    for (failure, origin) in listed.flat_map(|(all, origin)| all.iter().map(move |failure| (failure, origin))) {
        kinds.entry(failure.kind).or_default().push((failure, origin));
    }
    // fabric-not-ready reports the state itself
    let fabric_known = view
        .facts(|fact| if let Fact::Gpus(gpus) = fact { Some(gpus) } else { None })
        .any(|(gpus, _)| gpus.iter().any(|gpu| gpu.fabric_state.is_some()));
    kinds.retain(|kind, _| *kind != Kind::FabricManager || !fabric_known);
    // nccl-network names the interfaces that other hosts do not reach
    kinds.retain(|kind, _| *kind != Kind::Connect || !nccl_network::names_interfaces(view));
    kinds.retain(|kind, _| *kind != Kind::ImexChannel || !nccl_multicast::names_channel(view));
    kinds.into_iter().filter_map(|(kind, of)| Some(report(view, &meaning(kind)?, &of))).collect()
}

fn report(view: &View, meaning: &Meaning, of: &[(&SetupFailure, &Origin)]) -> Raised {
    let subjects = distinct(of.iter().filter_map(|(failure, _)| failure.subject.clone()));
    let at = if subjects.is_empty() { String::new() } else { format!(": {}", list(&subjects)) };
    let count: u32 = of.iter().map(|(failure, _)| failure.count).fold(0, u32::saturating_add);
    let first = of.first().map_or("", |(failure, _)| failure.message.as_str());
    let times = if count > 1 { format!(", and {} like it", count - 1) } else { String::new() };
    RULE.raise(Fault, Error, meaning.certainty)
        .summary(format!("{}{at}", meaning.summary))
        .expected(meaning.expected)
        .measured(format!("\"{first}\"{times}"))
        .evidence(view.cite(of.iter().map(|(_, origin)| *origin)))
        .fix(meaning.fix)
        .confirm(meaning.confirm)
}

/// What to do is what NVIDIA's documents advise: NCCL's troubleshooting chapters, the guides of the fabric manager, of IMEX
/// and of the container toolkit.
fn meaning(kind: Kind) -> Option<Meaning> {
    let of = |certainty, summary, expected, fix, confirm| Meaning { certainty, summary, expected, fix, confirm };
    let meaning = match kind {
        // what other messages report names the call
        Kind::SystemCall => return None,
        Kind::NoDriver => of(
            Certain,
            "The NVIDIA driver is not loaded, or does not respond",
            "a loaded driver",
            "Load it (`modprobe nvidia`) and read the kernel log. After an update of the kernel, build the modules for \
             it (DKMS) or install the driver again; with Secure Boot, the modules must be signed.",
            "`lsmod | grep nvidia`; `dmesg | grep -i nvrm`",
        ),
        Kind::DriverMismatch => of(
            Certain,
            "The NVIDIA libraries and the loaded kernel module are of different releases",
            "libraries and kernel module of one driver release",
            "Restart the machine, or stop all programs that use GPUs and load the modules again: a driver update \
             replaced the files while the old module stayed loaded. In a container, restart it after the host's driver \
             changed.",
            "`cat /proc/driver/nvidia/version`; `dmesg | grep 'API mismatch'`; `nvidia-smi`",
        ),
        Kind::DriverTooOld => of(
            Certain,
            "The NVIDIA driver is too old for the CUDA runtime that the program uses",
            "a driver that supports this CUDA release",
            "Update the driver, or use a build (container image) for the CUDA version that `nvidia-smi` shows in its \
             header. On data center GPUs, the cuda-compat package is an alternative.",
            "`nvidia-smi` shows the highest CUDA version of the driver",
        ),
        Kind::DeviceFiles => of(
            Likely,
            "NVML fails with an unknown error: in a container, the usual cause is that it lost access to the GPUs' device files",
            "a container that keeps access to /dev/nvidia*",
            "Restart the container. To prevent it: `systemctl daemon-reload` removes such access under the systemd \
             cgroup driver, unless the device files are passed explicitly (`--device /dev/nvidia0 …`, CDI) or Docker \
             runs with `native.cgroupdriver=cgroupfs`.",
            "`nvidia-smi` on the host works, in the container it fails",
        ),
        Kind::FabricManager => of(
            Likely,
            "CUDA cannot start (error 802): the GPUs are not registered with the NVLink fabric",
            "a running fabric manager of the driver's release, on systems with NVSwitches",
            "Start it: `systemctl enable --now nvidia-fabricmanager`; its version must equal the driver's. If it does \
             not start, read `/var/log/fabricmanager.log`. In a virtual machine, the host must do this.",
            "`systemctl status nvidia-fabricmanager`; `nvidia-smi -q | grep -A 4 Fabric`",
        ),
        Kind::ImexChannel => of(
            Likely,
            "Memory that GPUs share by fabric handles cannot be made: the process has no access to an IMEX channel",
            "/dev/nvidia-caps-imex-channels/channel0 exists, and the user may write to it",
            "Create the channel on the host (option NVreg_CreateImexChannel0=1 of the nvidia module). Pass it to the \
             container (`--device /dev/nvidia-caps-imex-channels/channel0`), writable for the user. Across hosts, the \
             IMEX daemons must also be connected. NCCL_MNNVL_ENABLE=0 avoids it in NCCL.",
            "`ls -l /dev/nvidia-caps-imex-channels`; across hosts `nvidia-imex-ctl -N`",
        ),
        Kind::SharedMemory => of(
            Likely,
            "Shared memory (/dev/shm) is too small",
            "room in /dev/shm for all processes of the host",
            "Start the container with `--shm-size=1g` or more, or with `--ipc=host`; in Kubernetes, mount an emptyDir \
             with `medium: Memory` at /dev/shm. On a host, enlarge it (`mount -o remount,size=SIZE /dev/shm`) and \
             remove files that ended jobs left there.",
            "`df -h /dev/shm` where the program runs",
        ),
        Kind::SharedMemoryRemoved => of(
            Likely,
            "Shared memory was removed while NCCL used it: systemd does so when a user logs out",
            "files in /dev/shm that stay while a job runs",
            "Set `RemoveIPC=no` in /etc/systemd/logind.conf and restart systemd-logind.",
            "`grep RemoveIPC /etc/systemd/logind.conf`",
        ),
        Kind::SharedGpu => of(
            Certain,
            "Several ranks of the job use one GPU",
            "one GPU for each rank",
            "Let each process select its own GPU by its local rank (`cudaSetDevice`, `torch.cuda.set_device`), and \
             start no more processes on a host than it has GPUs. If CUDA_VISIBLE_DEVICES is set, it must differ \
             between processes or list all.",
            "`nvidia-smi` while the job starts; `NCCL_DEBUG=INFO` prints each rank's busId",
        ),
        Kind::NcclMismatch => of(
            Certain,
            "The ranks of one job run different releases of NCCL",
            "one release of NCCL on all hosts",
            "Use one container image or environment on all hosts; LD_LIBRARY_PATH or LD_PRELOAD may select another libnccl.so on some.",
            "`NCCL_DEBUG=VERSION` on every host",
        ),
        Kind::NoInterface => of(
            Likely,
            "NCCL finds no network interface that it may use",
            "an interface that is up and matches NCCL_SOCKET_IFNAME",
            "Set NCCL_SOCKET_IFNAME to an interface that every host has, or unset it: it selects by prefix, and names \
             differ between hosts. NCCL_SOCKET_FAMILY must fit its addresses.",
            "`ip -br address` on every host; `env | grep NCCL_`",
        ),
        Kind::Connect => of(
            Possible,
            "TCP connections to other ranks fail",
            "connections between all hosts of the job",
            "If another rank ended first, find its own error: its connections are refused. Else set NCCL_SOCKET_IFNAME \
             to the interface that the hosts share, and let firewalls pass NCCL's ports \
             (net.ipv4.ip_local_port_range).",
            "`ping ADDRESS` from this host; `NCCL_DEBUG=INFO` prints the interfaces behind \"NET/Socket : Using\"",
        ),
        Kind::OpenDevice => of(
            Likely,
            "NCCL cannot open an RDMA device that exists",
            "read and write access to /dev/infiniband/uverbs*",
            "In a container, pass the devices (`--device /dev/infiniband`, in Kubernetes an RDMA device plugin) with \
             `--ulimit memlock=-1`. The user-space driver (rdma-core) must know the adapter.",
            "`ls -l /dev/infiniband`; `ibv_devinfo` where NCCL runs",
        ),
        Kind::PortDown => of(
            Certain,
            "A port of an RDMA adapter went down during the job",
            "ports that stay up",
            "Replace the cable or the transceiver, or try another port of the switch; `mlxlink -d DEVICE -c` shows \
             error counters and the last reason.",
            "`ibstat`; `dmesg | grep -i mlx5`; `mlxlink -d DEVICE -c`",
        ),
        Kind::PeerMemory => of(
            Likely,
            "An RDMA adapter cannot register GPU memory",
            "a peer memory module, or dma-buf",
            "Run `modprobe nvidia_peermem` after the RDMA drivers load, or use dma-buf (open kernel modules, Linux \
             5.12 or later). NCCL_NET_GDR_LEVEL=LOC avoids GPUDirect RDMA until then, at a lower rate.",
            "`lsmod | grep peermem`; `ib_write_bw --use_cuda=0 -d ADAPTER`",
        ),
    };
    Some(meaning)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use crate::finding::Finding;
    use peerlane_machine::fact::GpuFacts;

    const ALL: [Kind; 15] = [
        Kind::NoDriver,
        Kind::DriverMismatch,
        Kind::DriverTooOld,
        Kind::DeviceFiles,
        Kind::FabricManager,
        Kind::ImexChannel,
        Kind::SharedMemory,
        Kind::SharedMemoryRemoved,
        Kind::SharedGpu,
        Kind::NcclMismatch,
        Kind::NoInterface,
        Kind::Connect,
        Kind::OpenDevice,
        Kind::PortDown,
        Kind::PeerMemory,
    ];

    fn found(kinds: &[(Kind, Option<&str>, u32)], more: Option<Fact>) -> Vec<Finding> {
        let mut machine = switched(1);
        let failure = |(kind, subject, count): &(Kind, Option<&str>, u32)| SetupFailure {
            kind: *kind,
            subject: subject.map(str::to_owned),
            message: "as printed".to_owned(),
            count: *count,
        };
        state(&mut machine, "error messages", Fact::SetupFailures(kinds.iter().map(failure).collect()));
        if let Some(fact) = more {
            state(&mut machine, "nvidia-smi -q", fact);
        }
        findings(&machine, run)
    }

    #[test]
    fn every_failure_is_one_fault_with_advice() {
        for kind in ALL {
            let all = found(&[(kind, None, 1)], None);
            let [one] = &all[..] else { panic!("{kind:?}: {all:?}") };
            let severity = if one.certainty == Possible { Warning } else { Error };
            assert_eq!(
                (one.kind, one.severity, one.measured.as_str()),
                (Fault, severity, "\"as printed\""),
                "{kind:?}"
            );
            let texts = [&one.summary, &one.expected, &one.fix, &one.confirm];
            assert!(texts.iter().all(|text| !text.is_empty()), "{kind:?}");
        }
        assert_eq!(found(&ALL.map(|kind| (kind, None, 1)), None).len(), ALL.len());
        assert_eq!(found(&[(Kind::SystemCall, None, 1)], None), []);
    }

    #[test]
    fn what_messages_name_and_how_many_there_are() {
        let all = found(&[(Kind::PortDown, Some("mlx5_3:1"), 2), (Kind::PortDown, Some("mlx5_4:1"), 1)], None);
        assert_eq!(all.len(), 1);
        assert!(all[0].summary.ends_with(": mlx5_3:1, mlx5_4:1"), "{}", all[0].summary);
        assert_eq!(all[0].measured, "\"as printed\", and 2 like it");
    }

    #[test]
    fn the_state_of_the_fabric_is_reported_once() {
        let gpu = GpuFacts { fabric_state: Some("In Progress".to_owned()), ..GpuFacts::default() };
        assert_eq!(found(&[(Kind::FabricManager, None, 1)], Some(Fact::Gpus(vec![gpu]))), []);
    }
}
