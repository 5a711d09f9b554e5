//! Names of tools that show how much a statement covers. Every other scanner names its own tool.

/// The plain `nvidia-smi` table, which lists every GPU.
pub(crate) const NVIDIA_SMI: &str = "nvidia-smi";
/// The CUDA sample, which lists every GPU and measures its first row cold.
pub const P2P_TEST: &str = "p2pBandwidthLatencyTest";
/// nvbandwidth, which lists every GPU.
pub(crate) const NVBANDWIDTH: &str = "nvbandwidth";
/// The same as JSON.
pub(crate) const NVBANDWIDTH_JSON: &str = "nvbandwidth -j";
/// `ib_write_bw` and its like, which name RDMA devices only.
pub(crate) const PERFTEST: &str = "perftest";
/// A square of path words of another maker's tool.
pub const PATH_MATRIX: &str = "path matrix";
/// A sysfs tree, which shows every port, its width and its NUMA node.
pub(crate) const SYSFS: &str = "sysfs";
/// Parts of a sysfs tree as text.
pub(crate) const SYSFS_LISTING: &str = "sysfs listing";
/// Plain `lspci`, which names devices without links.
pub const LSPCI: &str = "lspci";
/// `lspci -tv`, which shows every port, without links.
pub const LSPCI_TREE: &str = "lspci -tv";
/// hwloc's XML, which leaves out ports without devices.
pub const LSTOPO_XML: &str = "lstopo XML";
/// The same as text, without the addresses of bridges.
pub const LSTOPO: &str = "lstopo";
/// NCCL's log, which lists the GPUs that a job uses.
pub const NCCL_LOG: &str = "NCCL_DEBUG=INFO";
/// gdrcopy's programs, whose times are of single calls.
pub const GDRCOPY: &str = "gdrcopy";
/// The kernel's log, which names a link where its device could do more.
pub const KERNEL_LOG: &str = "kernel log";
/// NCCL's topology file, whose bridges stand for whole switches.
pub(crate) const NCCL_XML: &str = "NCCL topology XML";
/// NVML, whose snapshot lists every GPU.
pub(crate) const NVML: &str = "NVML";

/// Whether its numbers of GPUs are the driver's, which `nvidia-smi` shows; CUDA may count otherwise.
pub(crate) fn numbers_as_the_driver(tool: &str) -> bool {
    tool.starts_with("nvidia-smi") || tool == NVML
}
