//! What a piece of evidence can state about a machine: facts, each with its origin.

mod fabric_manager;
mod health;
mod kernel;
mod lines;
mod message;
mod nccl;
mod pci;
mod remark;
mod topo_text;

use std::collections::BTreeMap;

use crate::schema::JsonSchema;
use serde::{Serialize, Serializer};

pub use fabric_manager::FabricManager;
pub use health::{Area, Grade, HealthReport, Trouble};
pub use kernel::{
    IommuDomain, KernelFacts, LimitedLink, Logged, PcieError, PcieErrorKind, Recovery, SwitchXid, Unassigned, Xid,
};
pub use lines::{Gid, PcieLines};
pub use message::{Message, OpenKind, OpenLine};
pub use nccl::{NcclGraph, NcclLog, NcclRank, NcclStaged, NcclTransport};
pub use pci::{Acs, OsDevice, PciDevice, PciRole, PciTree};
pub use remark::{Between, Claim, Remark};

use crate::curve::Curve;
use crate::fabric::{CpuList, PathClass, PciAddress, PcieWidth};
use crate::matrix::Matrix;
use crate::origin::Origin;
use crate::units::{Bytes, Rate};

/// One statement about a machine, and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Where it came from.
    pub origin: Origin,
    /// What it states.
    pub fact: Fact,
}

/// One statement about a machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// Path classes between devices (`nvidia-smi topo -m`).
    Classes(ClassMatrix),
    /// Whether peer-to-peer works between pairs (`topo -p2p`, deviceQuery, p2pBandwidthLatencyTest).
    P2p(P2pMatrix),
    /// GPUs and what is known of each.
    Gpus(Vec<GpuFacts>),
    /// NVLink ports (`nvidia-smi nvlink -s`/`-R`, NCCL XML).
    Nvlink(Vec<NvlinkPort>),
    /// Numbers between pairs.
    Matrix(Matrix),
    /// Numbers against message size.
    Curve(Curve),
    /// PCI devices, mostly with their tree.
    Pci(PciTree),
    /// CPUs, NUMA nodes, the host's name.
    Host(HostFacts),
    /// Loaded kernel modules.
    Modules(Modules),
    /// The kernel's command line and log.
    Kernel(KernelFacts),
    /// Temperatures.
    Sensors(Vec<SensorReading>),
    /// Ports of RDMA adapters (`ibstat`, `ibstatus`, `ibv_devinfo`).
    RdmaPorts(Vec<RdmaPort>),
    /// `ACSCtl` lines of `lspci -vvv` without the devices that they are of.
    Acs(AcsLines),
    /// Channels that NCCL chose.
    NcclGraph(NcclGraph),
    /// What an `NCCL_DEBUG=INFO` log shows of rings and transports.
    NcclLog(NcclLog),
    /// A published table of rates with words for rows.
    Rates(RateTable),
    /// Lines of `lspci -vvv` about links and payloads without the devices that they are of.
    PcieLines(PcieLines),
    /// Entries of the GID tables of RDMA ports (`show_gids`).
    Gids(Vec<Gid>),
    /// What NVIDIA's fabric manager reports of itself.
    FabricManager(FabricManager),
    /// A test that compared what arrived with what was sent, and found it changed.
    Corrupt(CorruptData),
    /// States, counters of errors and results of tests.
    Health(HealthReport),
    /// A message of a program that is known by its words.
    Message(Message),
    /// Lines of one form that speak of trouble and are not known.
    OpenLine(OpenLine),
}

impl Fact {
    /// Whether it is a list, a tree or a host of which nothing is known.
    pub fn is_empty(&self) -> bool {
        match self {
            Fact::Gpus(gpus) => gpus.is_empty(),
            Fact::Nvlink(ports) => ports.is_empty(),
            Fact::Pci(tree) => tree.devices.is_empty(),
            Fact::Host(host) => *host == HostFacts::default(),
            Fact::Sensors(readings) => readings.is_empty(),
            Fact::RdmaPorts(ports) => ports.is_empty(),
            Fact::Gids(gids) => gids.is_empty(),
            Fact::Health(report) => report.sound == 0 && report.troubles.is_empty(),
            _ => false,
        }
    }
}

/// A test whose data arrived changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorruptData {
    /// The test: `device_to_device_memcpy_read_ce`.
    pub test: String,
    /// What the program reports.
    pub detail: String,
}

/// `nvidia-smi topo -m`.
///
/// `cells` has a list a row, as long as `cols`; a cell is `None` where the text is cut or unreadable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassMatrix {
    /// Row names, `GPU0` … and NICs (`NIC0` or `mlx5_0`).
    pub rows: Vec<String>,
    /// Column names; rows may be fewer in partial captures.
    pub cols: Vec<String>,
    /// The classes.
    pub cells: Vec<Vec<Option<PathClass>>>,
    /// `CPU Affinity`, a row.
    pub cpu_affinity: Vec<Option<CpuList>>,
    /// `NUMA Affinity`, a row: one node, or a list.
    pub numa_affinity: Vec<Option<CpuList>>,
    /// `GPU NUMA ID`, a row: the node that a GPU's own memory forms, on coherent systems.
    pub gpu_numa: Vec<Option<u32>>,
    /// `NIC Legend`: `NIC0` → `mlx5_0`.
    pub nic_names: BTreeMap<String, String>,
    /// True where the socket class is spelled `SOC` (drivers before 2017).
    pub old_names: bool,
    /// Words of cells for links of a maker's own, and for classes that are not known, whose cells are `None`.
    pub words: Vec<PathWord>,
    /// Names of GPUs that are not `GPU0` …: `NPU3`, `GPU 0/1`.
    pub accelerators: Vec<String>,
}

/// A word of a matrix that is its maker's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathWord {
    /// The word as it is printed: `MTL4`.
    pub word: String,
    /// What the matrix's legend says of it.
    pub meaning: Option<String>,
    /// Indices of rows and columns of the cells that hold it.
    pub cells: Vec<(usize, usize)>,
}

impl ClassMatrix {
    /// The class between two names, from either cell.
    pub fn between(&self, a: &str, b: &str) -> Option<PathClass> {
        self.cell(a, b).or_else(|| self.cell(b, a))
    }

    /// The class in row `a`, column `b`.
    pub fn cell(&self, a: &str, b: &str) -> Option<PathClass> {
        let i = self.rows.iter().position(|r| r == a)?;
        let j = self.cols.iter().position(|c| c == b)?;
        self.cells.get(i)?.get(j).copied().flatten()
    }

    /// The word in that row and column, where it is its maker's own.
    pub fn word(&self, row: usize, col: usize) -> Option<&str> {
        self.words.iter().find(|w| w.cells.contains(&(row, col))).map(|w| w.word.as_str())
    }
}

/// Which peer-to-peer ability a [`P2pMatrix`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum P2pCapability {
    /// `topo -p2p r`.
    Read,
    /// `topo -p2p w`.
    Write,
    /// `topo -p2p n`.
    Nvlink,
    /// `topo -p2p a`.
    Atomics,
    /// `topo -p2p p`.
    Prop,
    /// CUDA's answer whether one device can access another.
    Access,
    /// The capture does not show which.
    Unstated,
}

impl P2pCapability {
    /// Whether it shows that one GPU can read or write the other's memory at all: atomics, NVLink and the
    /// properties of a link may be refused where plain access works.
    pub fn is_access(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Access | Self::Unstated)
    }
}

/// The state of one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum P2pStatus {
    /// Works.
    Ok,
    /// CNS: chipset not supported.
    ChipsetNotSupported,
    /// GNS: GPU not supported.
    GpuNotSupported,
    /// TNS: topology not supported.
    TopologyNotSupported,
    /// NS: not supported.
    NotSupported,
    /// DR: disabled by a registry key.
    Disabled,
    /// U: unknown.
    Unknown,
}

/// Peer-to-peer status of pairs. `None` on the diagonal and where the text is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct P2pMatrix {
    /// Which ability.
    pub capability: P2pCapability,
    /// Row names.
    pub rows: Vec<String>,
    /// Column names.
    pub cols: Vec<String>,
    /// The states.
    pub cells: Vec<Vec<Option<P2pStatus>>>,
}

/// What is known of one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuFacts {
    /// Its name in the machine, where the source is a record of ours.
    pub node: Option<String>,
    /// Its number by the source.
    pub index: Option<u32>,
    /// Product name.
    pub name: Option<String>,
    /// PCI address.
    pub address: Option<PciAddress>,
    /// UUID.
    pub uuid: Option<String>,
    /// PCIe link as it runs now (an idle GPU runs at a low generation).
    pub running: PcieWidth,
    /// The most that GPU and slot allow.
    pub allowed: PcieWidth,
    /// The most that the GPU itself can do.
    pub capable: PcieWidth,
    /// Temperature in °C.
    pub temperature: Option<f64>,
    /// Temperature of its memory in °C.
    pub memory_temperature: Option<f64>,
    /// Power in W.
    pub power: Option<f64>,
    /// Power limit in W.
    pub power_limit: Option<f64>,
    /// Utilisation, 0 to 100 %.
    pub utilization: Option<f64>,
    /// Memory size.
    pub memory: Option<Bytes>,
    /// BAR1 size.
    pub bar1: Option<Bytes>,
    /// Compute capability, such as (9, 0).
    pub compute_capability: Option<(u8, u8)>,
    /// MIG enabled.
    pub mig: Option<bool>,
    /// Reasons that hold its clocks down now.
    pub clock_event_reasons: Vec<String>,
    /// PCIe replays since the last reset.
    pub replays: Option<u64>,
    /// Why the driver gives no access to it: `GPU is lost`.
    pub unreachable: Option<String>,
    /// Rows of its memory wait to be remapped, which a reset does.
    pub remap_pending: Option<bool>,
    /// A row of its memory could not be remapped.
    pub remap_failed: Option<bool>,
    /// Fabric manager's state for it.
    pub fabric_state: Option<String>,
    /// How its registration with the fabric ended, where it did: `Success`.
    pub fabric_status: Option<String>,
    /// What is wrong with the fabric by its health report: `Bandwidth: Degraded`.
    pub fabric_health: Vec<String>,
    /// The NVLink domain that it shares with other hosts, and its clique there; `None` also where there is none.
    pub nvlink_domain: Option<NvlinkDomain>,
    /// Whether NVLink-C2C joins it with its CPU.
    pub c2c: Option<bool>,
    /// What the driver asks for to recover it; `None` also where it asks for nothing.
    pub recovery: Option<String>,
    /// NUMA node by the source.
    pub numa: Option<u32>,
    /// Driver version, where the source repeats it.
    pub driver: Option<String>,
}

/// An NVLink domain of several hosts (`ClusterUUID`), with the part of it that a GPU can reach (`CliqueId`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NvlinkDomain {
    /// Its identifier, the same on all its hosts.
    pub cluster: String,
    /// The clique: only GPUs of one clique reach each other.
    pub clique: Option<u32>,
}

impl GpuFacts {
    /// A GPU of which a list has number and product; an empty name is none.
    pub fn listed(index: u32, name: &str) -> Self {
        let name = Some(name.trim().to_owned()).filter(|name| !name.is_empty());
        GpuFacts { index: Some(index), name, ..GpuFacts::default() }
    }
}

/// Where an NVLink port leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NvlinkEnd {
    /// A PCI device: a GPU, an NVSwitch or a POWER bridge.
    Device(PciAddress),
    /// A GPU by the source's numbering, where the source makes addresses up.
    Gpu(u32),
    /// Something the machine hides (`FFFFFFFF:FF:FF.0`, `fffffff:ffff:ff`): on a virtual machine, an NVSwitch.
    Hidden,
}

/// One NVLink port of a GPU, or a bundle of `count` ports with one far end.
#[derive(Clone, Debug, PartialEq)]
pub struct NvlinkPort {
    /// Which GPU, by the source's numbering.
    pub gpu: Option<u32>,
    /// The GPU's address, where that is known instead.
    pub address: Option<PciAddress>,
    /// Port number, where known.
    pub port: Option<u8>,
    /// How many ports this stands for.
    pub count: u8,
    /// False where the source reports it inactive.
    pub active: bool,
    /// Rate of one port and direction.
    pub rate: Option<Rate>,
    /// Far end.
    pub remote: Option<NvlinkEnd>,
    /// Class code of the far end, where known (0x0680 bridge class: NVSwitch; 0x068001: POWER).
    pub remote_class: Option<u32>,
    /// True for AMD's xGMI (RCCL XML).
    pub xgmi: bool,
}

impl Default for NvlinkPort {
    /// One port that is up, of an unknown GPU.
    fn default() -> Self {
        NvlinkPort {
            gpu: None,
            address: None,
            port: None,
            count: 1,
            active: true,
            rate: None,
            remote: None,
            remote_class: None,
            xgmi: false,
        }
    }
}

/// One NUMA node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// Its CPUs.
    pub cpus: Option<CpuList>,
    /// Its memory.
    pub memory: Option<Bytes>,
    /// Package it belongs to, where known.
    pub package: Option<u32>,
}

/// The host: CPUs and NUMA nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFacts {
    /// Host name.
    pub name: Option<String>,
    /// System or board product.
    pub product: Option<String>,
    /// Architecture.
    pub arch: Option<String>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// CPU vendor, family and model numbers as NCCL and cpuinfo print them.
    pub cpu_ids: Option<(String, u32, u32)>,
    /// Packages.
    pub sockets: Option<u32>,
    /// NUMA nodes.
    pub numa: Vec<NumaNode>,
    /// Hypervisor, where one is reported.
    pub hypervisor: Option<String>,
}

/// Kernel modules that matter here, by name, with whether they have users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modules {
    /// Name → use count.
    pub loaded: BTreeMap<String, u32>,
}

/// A port of an RDMA adapter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RdmaPort {
    /// The adapter: `mlx5_0`.
    pub device: String,
    /// The port's number.
    pub port: Option<u8>,
    /// The adapter's type, as the tool names it.
    pub kind: Option<String>,
    /// `active`, `down`, `initializing`, in lower case.
    pub state: Option<String>,
    /// `linkup`, `polling`, `disabled`, in lower case.
    pub physical: Option<String>,
    /// Rate in Gb/s.
    pub gigabits: Option<f64>,
    /// `infiniband` or `ethernet`.
    pub layer: Option<String>,
    /// The port's local identifier: 0 or 65535 where no subnet manager gave it one.
    pub lid: Option<u16>,
    /// The subnet manager's; 0 where the port has heard of none.
    pub manager_lid: Option<u16>,
}

/// How many functions of a listing have Access Control Services on: `lspci -vvv | grep ACSCtl`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcsLines {
    /// Functions that have ACS.
    pub functions: u32,
    /// Those that redirect requests or completions upstream.
    pub redirecting: u32,
}

/// A temperature that `sensors` prints.
#[derive(Clone, Debug, PartialEq)]
pub struct SensorReading {
    /// Chip: `coretemp-isa-0000`, `mlx5-pci-1700`.
    pub chip: String,
    /// Label: `Package id 0`.
    pub label: String,
    /// Temperature in °C.
    pub celsius: f64,
    /// The temperature, in °C, from which on the chip calls it high, else critical.
    pub limit: Option<f64>,
}

/// A published table of rates whose rows are named in words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RateTable {
    /// Headings of the word columns.
    pub word_columns: Vec<String>,
    /// Headings of the rate columns.
    pub rate_columns: Vec<String>,
    /// Rows.
    pub rows: Vec<RateRow>,
}

/// One row of a [`RateTable`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RateRow {
    /// Words, in the order of `word_columns`.
    pub words: Vec<String>,
    /// Rates in the order of `rate_columns`; in JSON in GB/s of 10⁹ bytes.
    #[serde(serialize_with = "in_gb")]
    #[schemars(with = "Vec<Option<f64>>")]
    pub rates: Vec<Option<Rate>>,
    /// Line of the source, from 1.
    pub line: u32,
}

fn in_gb<S: Serializer>(rates: &[Option<Rate>], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(rates.iter().map(|rate| rate.map(Rate::gb)))
}
