//! What may stay: names of devices, files and paths that say nothing about whose machine it is. Everything else of their
//! sort is replaced.

use std::sync::LazyLock;

use regex::Regex;

/// Names of network interfaces and RDMA devices that the kernel or systemd numbers by slot, port or order. Of names with an
/// address in them (`enx…`, `rocex…`) the digits are replaced elsewhere. Not among them are bridges and pairs named by a container's hash, tunnels, and
/// names that a person has chosen.
const DEVICES: &str = r"(?x)^(?:
    lo | docker0 | if\d{1,6} | (?:eth|ib|hsn|opa|bond|team|usb|em)\d{1,3} | p\d{1,2}p\d{1,2} |
    (?:en|ib|wl|ww|sl|roce|rdma|opa)(?:P\d{1,5})?(?:p\d{1,5}s\d{1,5}|[osb]\d{1,5})(?:f\d{1,3})?(?:n?p\d{1,3}|[dvir]\d{1,3})* |
    mlx[45]_(?:bond_)?\d{1,4} |
    # with an address, whose digits are replaced by their own rule
    (?:roce|en|wl|ww|ib|sl)x[0-9a-f]{12,16} |
    (?:bnxt_re|irdma|rxe|siw|efa_|hfi1_|qedr|cxi|ionic_|mana_|erdma_|hns_|i40iw|ibp|usnic_|vmw_pvrdma)\d{1,4}
)$";

/// Where programs and the kernel keep their files. Below other folders paths are somebody's.
const PATHS: &str = r"(?x)^/(?:
    sys | proc | usr | lib | lib64 | lib32 | bin | sbin | etc | boot |
    dev/(?:nvidia|infiniband|null|shm|std|kfd|dri) | opt/(?:nvidia|mellanox|rocm|amazon) | (?:var/)?run/nvidia
)(?:[-/.\d]|$)";

/// Parts of otherwise allowed paths that name a process, a user, a disk or an own folder.
const NOT_IN_PATHS: &str = r"/proc/\d|/by-(?:id|uuid|label|partuuid|path)/|/run/user/|/usr/local/|/mapper/|/etc/(?:ssh|ssl|passwd|shadow|slurm)";

/// Variables of the environment whose values are settings of NCCL, CUDA and the like.
const VARIABLES: &str =
    r"^(?:NCCL|RCCL|CUDA|NVIDIA|UCX|OMP|FI|HSA|HIP|ROCR|OMPI_MCA|P2P|PCIE|IOMMU|NUMA|GPU|MPICH|NVSHMEM)(?:_|$)";

/// Parts of the names of files of captures, in lower case.
const FILE_WORDS: &str = " 0 1 2 3 4 5 6 7 8 9 a all amd bandwidth bandwidthtest bw capture captures cmdline contention cpuinfo \
    csv dcgmi default devicequery devinfo dmesg driver etc file files graph gpu0 h host hostname hwloc ib ibstat ibstatus ibv \
    ip json kernel lat latency link list log lscpu lspci lstopo m manifest md modules n nccl nn numactl nvbandwidth nvidia \
    nvlink nvml nvsmi ofed os osrelease osu out output p p2p p2pbandwidthlatencytest p2pmark params pci perf perftest proc q \
    r rccl read reduce release report rocm root run s sensors simplep2p smi stats status sys sysfs system t tar test toml \
    topo topology transferbench tv txt version vv vvv w write xml zst ";

/// Kernel parameters that matter to paths. Others may reveal disks, networks and passwords.
pub(crate) const PARAMETERS: [&str; 14] = [
    "iommu",
    "intel_iommu",
    "amd_iommu",
    "pci",
    "pcie",
    "nvidia",
    "nouveau",
    "numa",
    "hugepage",
    "isolcpus",
    "mem_encrypt",
    "acs",
    "vfio",
    "transparent_hugepage",
];

/// Subsystems whose lines of the kernel's log are kept, and marks of the X server's log.
const SUBSYSTEMS: [&str; 29] = [
    "pci",
    "PCI",
    "NVRM",
    "nvidia",
    "nvswitch",
    "nvlink",
    "DMAR",
    "IOMMU",
    "iommu",
    "AMD-Vi",
    "AER:",
    "mlx4",
    "mlx5",
    "infiniband",
    "bnxt_en",
    "i40e",
    "ixgbe",
    "ice ",
    "amdgpu",
    "NUMA",
    "ommand line",
    "Xid",
    // the X server's own
    "X.Org X Server",
    "(--) ",
    "(II) ",
    "(WW) ",
    "(EE) ",
    "(**) ",
    "(==) ",
];

/// A pattern of this module. All of them compile, which a test makes sure.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

fn matches(of: &LazyLock<Option<Regex>>, text: &str) -> bool {
    of.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

/// Whether a network interface or RDMA device may keep its name.
pub(super) fn is_device(name: &str) -> bool {
    static ALLOWED: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(DEVICES));
    matches(&ALLOWED, name)
}

/// Whether an absolute path may stay.
pub(super) fn is_path(path: &str) -> bool {
    static ALLOWED: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(PATHS));
    static NOT: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(NOT_IN_PATHS));
    matches(&ALLOWED, path) && NOT.as_ref().is_some_and(|not| !not.is_match(path))
}

/// Whether a variable of the environment may keep its value.
pub(super) fn is_variable(name: &str) -> bool {
    static ALLOWED: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(VARIABLES));
    matches(&ALLOWED, name)
}

/// Whether a file's name consists of words that name tools and formats.
pub(super) fn is_file_name(name: &str) -> bool {
    let word = |word: &str| FILE_WORDS.contains(&format!(" {} ", word.to_ascii_lowercase()));
    !name.is_empty() && name.split(['-', '_', '.', ' ']).all(|part| part.is_empty() || word(part))
}

/// Whether a line of the kernel's log is about devices and the links between them.
pub(super) fn is_kernel_line(line: &str) -> bool {
    SUBSYSTEMS.iter().any(|subsystem| line.contains(subsystem))
}

/// Whether a word of the kernel's command line may stay.
pub(super) fn is_parameter(word: &str) -> bool {
    PARAMETERS.iter().any(|parameter| word.starts_with(parameter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_numbered_by_place_stay() {
        for name in
            "lo eth0 ib1 hsn3 bond0 docker0 eno1 enp59s0f0np0 ens1f0 enP2p1s0 ibp12s0 rocep65s0f0 rdmap16s27 mlx5_0 \
                     mlx5_bond_0 bnxt_re0 efa_0 ibs4 enp1s0f1v2 p1p2 em1"
                .split(' ')
        {
            assert!(is_device(name), "{name}");
        }
        for name in "br-3f2a1b4c5d6e veth12ab34c wg0 tun0 tap-acme storage \
                     virbr-lab eth0.1207 acme0 mlx5_acme"
            .split(' ')
        {
            assert!(!is_device(name), "{name}");
        }
    }

    #[test]
    fn paths_files_and_variables() {
        for path in [
            "/sys/bus/pci",
            "/usr/lib/x86_64-linux-gnu/libnccl.so.2",
            "/dev/nvidia0",
            "/proc/cmdline",
            "/etc/os-release",
        ] {
            assert!(is_path(path), "{path}");
        }
        for path in
            ["/home/anna", "/mnt/acme", "/proc/4711/maps", "/dev/disk/by-id/x", "/run/user/1000", "/system", "/root/x"]
        {
            assert!(!is_path(path), "{path}");
        }
        for name in
            ["nvidia-smi-topo-p2p-r.txt", "lspci-vvv.txt", "manifest.json", "nvml.json", "dmesg.log", "run.json"]
        {
            assert!(is_file_name(name), "{name}");
        }
        for name in ["node7-topo.txt", "anna.json", "acme-run.json", ""] {
            assert!(!is_file_name(name), "{name}");
        }
        assert!(is_variable("NCCL_DEBUG") && is_variable("P2P") && !is_variable("SLURM_JOB_NAME"));
        assert!(is_kernel_line("NVRM: Xid (PCI:0000:3b:00): 79") && !is_kernel_line("EXT4-fs (sda1): mounted"));
    }
}
