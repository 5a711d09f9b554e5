//! The document `peerlane/nvml/1`: what NVML reported of a machine's GPUs at one moment.
//!
//! Every value is NVML's own, in its own unit. A value that a call did not give is left out, with the reason in [`Snapshot::absent`].

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use peerlane_machine::fabric::{CpuList, PciAddress, PcieWidth};
use peerlane_machine::units::Bytes;

/// Names the format of [`Snapshot`].
pub const SCHEMA: &str = "peerlane/nvml/1";

/// What NVML reported of a machine's GPUs at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Snapshot {
    /// Names this format.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Version of peerlane that wrote it.
    pub peerlane: String,
    /// When it was taken, in seconds since 1970 (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<u64>,
    /// File of NVML's library that was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Version of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Version of NVML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvml: Option<String>,
    /// Version of CUDA that the driver supports: `13.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// The GPUs, in NVML's order, which is that of PCI addresses.
    pub gpus: Vec<Gpu>,
    /// What joins GPUs, by ordered pair.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
    /// Values that NVML did not give, each kind once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Absent>,
}

/// A value that NVML did not give.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Absent {
    /// Which, as it is called in this document: `pcie.replays`.
    pub field: String,
    /// NVML's error.
    pub error: String,
    /// Numbers of the GPUs concerned; none where it concerns the machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<u32>,
}

/// One GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Gpu {
    /// NVML's number, which `nvidia-smi` shows.
    pub index: u32,
    /// Product name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// UUID, which begins with `GPU-`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Serial number of the board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// PCI address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<PciAddress>,
    /// Architecture: `Hopper`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Compute capability: major and minor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<(u8, u8)>,
    /// Version of the video BIOS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vbios: Option<String>,
    /// Memory of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Share>,
    /// The window through which others reach that memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar1: Option<Share>,
    /// Width of the memory bus in bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bus_bits: Option<u32>,
    /// Its PCIe link.
    pub pcie: Pcie,
    /// Its NVLinks, those that are down included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nvlinks: Vec<Nvlink>,
    /// Its place in an NVSwitch fabric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<FabricState>,
    /// CPUs near it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
    /// NUMA nodes near it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa: Option<CpuList>,
    /// NUMA node that its own memory forms, on coherent systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_numa: Option<u32>,
    /// Heat, power, clocks and load at that moment.
    pub now: Now,
    /// Modes.
    pub modes: Modes,
    /// Processes that compute on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<Process>>,
}

/// How much there is and how much of it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// All of it.
    pub total: Bytes,
    /// What is taken, by anyone.
    pub used: Bytes,
}

/// A PCIe link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pcie {
    /// As it runs now; an idle GPU's link runs at a low generation.
    pub running: PcieWidth,
    /// The most that GPU and slot allow together.
    pub allowed: PcieWidth,
    /// The most that the GPU itself can do.
    pub capable: PcieWidth,
    /// Replays since the last reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replays: Option<u64>,
    /// What the GPU sent over the last 20 ms, in KB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_kb_per_second: Option<u32>,
    /// What it received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_kb_per_second: Option<u32>,
}

/// One NVLink port of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Nvlink {
    /// Number of the port.
    pub link: u8,
    /// Whether it is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// NVLink generation as NVML numbers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Rate of one direction in MB/s (10⁶).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub megabytes_per_second: Option<u64>,
    /// What is at its other end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteKind>,
    /// Bus id of the other end as NVML spells it; all ones where the machine hides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_bus_id: Option<String>,
    /// Errors since the last reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<NvlinkErrors>,
    /// Payload sent since the driver was loaded, in KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_kib: Option<u64>,
    /// Payload received, in KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_kib: Option<u64>,
}

/// What is at the other end of an NVLink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RemoteKind {
    /// A GPU.
    Gpu,
    /// A POWER processor's bridge.
    Npu,
    /// An NVSwitch.
    Switch,
    /// NVML does not know, or reports something that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Counters of errors of one NVLink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NvlinkErrors {
    /// Packets sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<u64>,
    /// Recoveries of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<u64>,
    /// Checksum errors.
    #[serde(skip_serializing_if = "Option::is_none", alias = "crc_flit")]
    pub crc: Option<u64>,
}

/// A GPU's place in an NVSwitch fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FabricState {
    /// `Completed`, `In Progress`, `Not Started`, `Not Supported`.
    pub state: String,
    /// NVML's status of the registration: `Success` or its error. Means something once the state is `Completed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Number of the clique within which GPUs reach each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clique: Option<u32>,
    /// UUID of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
}

/// Heat, power, clocks and load of a GPU at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Now {
    /// Temperature in °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<f64>,
    /// Temperature of the memory in °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_temperature_c: Option<f64>,
    /// Power in W.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Power limit in W.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_w: Option<f64>,
    /// Clock of the multiprocessors in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_clock_mhz: Option<u32>,
    /// The most that the multiprocessors' clock reaches, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_sm_clock_mhz: Option<u32>,
    /// The most that the memory's clock reaches, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_memory_clock_mhz: Option<u32>,
    /// Reasons for the clocks being what they are, in `nvidia-smi -q`'s words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_event_reasons: Option<Vec<String>>,
    /// Performance state: `P0` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance_state: Option<String>,
    /// Share of time in which a kernel ran, in %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization: Option<u32>,
    /// Share of time in which memory was read or written, in %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_utilization: Option<u32>,
}

/// Modes of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Modes {
    /// Who may compute: `Default`, `Exclusive Process`, `Prohibited`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute: Option<String>,
    /// Whether the driver stays loaded without users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence: Option<bool>,
    /// Whether it is divided into MIG instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig: Option<bool>,
    /// Whether its memory has error correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc: Option<bool>,
    /// `None`, `Pass-Through`, `VGPU`, `Host VGPU`, `Host VSGA`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtualization: Option<String>,
}

/// A process that computes on a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Process {
    /// Its number, as the host counts processes.
    pub pid: u32,
    /// Memory of the GPU that it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
}

/// What joins one GPU to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pair {
    /// Number of the GPU that would reach the other.
    pub from: u32,
    /// Number of the GPU that would be reached.
    pub to: u32,
    /// The lowest point above both in the machine's PCI tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ancestor: Option<Ancestor>,
    /// Whether peer-to-peer works.
    pub p2p: P2p,
}

/// The lowest point above two GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ancestor {
    /// Both are on one board, behind its own switch.
    Internal,
    /// One PCIe switch.
    Single,
    /// Several PCIe switches, and no host bridge.
    Multiple,
    /// A host bridge.
    HostBridge,
    /// Several host bridges of one NUMA node.
    Node,
    /// NUMA nodes.
    System,
}

/// Peer-to-peer status of a pair, in the letters of `nvidia-smi topo -p2p`: `OK`, `CNS`, `GNS`, `TNS`, `NS`, `DR`, `U`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct P2p {
    /// Reading the other's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// Writing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<String>,
    /// Over NVLink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvlink: Option<String>,
    /// Atomic operations on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub atomics: Option<String>,
    /// What NVML calls `PROP` in old and `PCI` in new releases: access over PCIe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prop: Option<String>,
}

#[cfg(test)]
mod tests;
