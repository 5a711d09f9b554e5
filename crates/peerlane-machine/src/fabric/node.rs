//! What a fabric is made of: nodes and the links that join them.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::interconnect::{GpuLink, Interconnect};
use super::nic_method::Method;
use super::pci::{PciAddress, PcieWidth};
use super::vendor::CpuVendor;
use crate::origin::Origin;
use crate::units::Rate;

/// Names a node within one fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

/// Names a link within one fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(super) u32);

impl NodeId {
    /// Position in [`super::Fabric::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    /// Position in [`super::Fabric::links`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// A GPU.
    Gpu,
    /// A network adapter, or one port of a card that has several.
    Nic,
    /// A card that carries several endpoints on one link to its slot, without a switch.
    Card,
    /// A drive, mostly an NVMe one.
    Nvme,
    /// A card that streams data to or from outside other than a network: an FPGA, a capture card.
    Fpga,
    /// The memory of one NUMA node.
    Host,
    /// A PCIe host bridge with its root ports.
    RootComplex,
    /// A PCIe switch.
    Switch,
    /// An NVSwitch, or all of them where they cannot be distinguished.
    #[serde(rename = "nvswitch")]
    NvSwitch,
    /// A CPU package.
    Cpu,
}

impl NodeKind {
    /// The name used in JSON, in generated node names and in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Nic => "nic",
            Self::Card => "card",
            Self::Nvme => "nvme",
            Self::Fpga => "fpga",
            Self::Host => "host",
            Self::RootComplex => "root-complex",
            Self::Switch => "switch",
            Self::NvSwitch => "nvswitch",
            Self::Cpu => "cpu",
        }
    }

    /// Whether transfers start and end here, and never pass through.
    pub fn is_endpoint(self) -> bool {
        self.is_device() || self == Self::Host
    }

    /// Whether it is a GPU or moves data to or from outside: what a topology matrix lists, and has its own PCIe link.
    pub fn is_device(self) -> bool {
        self == Self::Gpu || self.is_io()
    }

    /// Whether it moves data between memory and the outside with its own DMA engine: NICs, drives, capture cards.
    pub fn is_io(self) -> bool {
        matches!(self, Self::Nic | Self::Nvme | Self::Fpga)
    }
}

/// A node of the fabric.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Node {
    /// Its unique name within the machine: `GPU0`, `mlx5_2`, `plx0`.
    #[serde(rename = "id")]
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Key of its component model in the catalogue.
    pub part: Option<String>,
    /// Product name as the evidence gives it.
    pub product: Option<String>,
    /// For a CPU: its maker as the evidence states it, where part and product do not show it.
    #[serde(skip)]
    pub vendor: Option<CpuVendor>,
    /// Its PCI address (a switch's is its upstream port's).
    pub address: Option<PciAddress>,
    /// NUMA node as the machine numbers it.
    pub numa: Option<u32>,
    /// CPUs that are local to it.
    pub cpus: Option<CpuList>,
    /// Other names it answers to: `mlx5_0` for `NIC0`.
    pub aliases: Vec<String>,
    /// For a root complex: its locality domain. Paths between domains are `SYS`, within one `NODE`.
    /// Not the NUMA number, since some machines label one NUMA node's root complexes `SYS`.
    #[serde(skip)]
    pub domain: Option<u32>,
    /// For a NIC: whether it does RDMA. `nvidia-smi topo -m` lists only such.
    pub rdma: Option<bool>,
    /// For a NIC or a capture card: what its port's line carries, where the machine states it of this very port.
    #[serde(skip)]
    pub line_rate: Option<Rate>,
    /// For a drive: what it reads and writes, where the machine states it.
    #[serde(skip)]
    pub drive: DriveRates,
    /// For a NIC: how it accesses GPU memory, where a person chose it; else by the faster direct method.
    #[serde(skip)]
    pub method: Option<Method>,
    /// True where no source states it: implied by a matrix's shape, or assumed by a system file.
    pub assumed: bool,
    /// For a CPU: whether it stands for sockets that the evidence does not name.
    #[serde(skip)]
    pub stand_in: bool,
    /// What else a reader should know.
    pub note: Option<String>,
    /// The statements it rests on: `file:lines (tool)`.
    #[serde(rename = "evidence")]
    pub origins: Vec<Origin>,
}

impl Node {
    /// A node that has only a name and a kind.
    pub fn new(name: impl Into<String>, kind: NodeKind) -> Self {
        Node {
            name: name.into(),
            kind,
            aliases: Vec::new(),
            part: None,
            product: None,
            vendor: None,
            address: None,
            numa: None,
            cpus: None,
            domain: None,
            rdma: None,
            line_rate: None,
            drive: DriveRates::default(),
            method: None,
            assumed: false,
            stand_in: false,
            note: None,
            origins: Vec::new(),
        }
    }
}

/// What a drive moves, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DriveRates {
    /// From the drive to memory.
    pub read: Option<Rate>,
    /// From memory to the drive.
    pub write: Option<Rate>,
}

/// How a link carries data.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkKind {
    /// PCI Express.
    Pcie {
        /// The width it runs at.
        running: PcieWidth,
        /// The most that both its ends and the slot between them allow. Where only one end's limit is
        /// known it is that one's, as the link's note states.
        allowed: PcieWidth,
        /// The slot it passes through, by the board's name for it.
        slot: Option<String>,
    },
    /// A GPU's own interconnect, apart from PCIe: NVLink, xGMI, C2C.
    Gpu(GpuLink),
    /// Between CPU packages: QPI, UPI, xGMI, X-bus.
    Smp,
    /// Inside a CPU package: root complex or memory to the package.
    OnDie,
    /// Inside a card: a port or function to the card's one link.
    OnCard,
}

impl LinkKind {
    /// PCI Express of which only the running width is known.
    pub fn pcie(running: PcieWidth) -> Self {
        LinkKind::Pcie { running, allowed: PcieWidth::default(), slot: None }
    }

    /// The name used in JSON and in texts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pcie { .. } => "pcie",
            Self::Gpu(link) => link.interconnect.family().key,
            Self::Smp => "smp",
            Self::OnDie => "on-die",
            Self::OnCard => "on-card",
        }
    }

    /// Whether it belongs to the PCIe tree.
    pub fn is_tree(&self) -> bool {
        matches!(self, Self::Pcie { .. } | Self::OnCard)
    }

    /// Whether it is a GPU's own interconnect, apart from PCIe.
    pub fn is_gpu_fabric(&self) -> bool {
        matches!(self, Self::Gpu(_))
    }

    /// The bundle, if it is of this interconnect.
    pub fn bundle(&self, interconnect: Interconnect) -> Option<&GpuLink> {
        match self {
            Self::Gpu(link) if link.interconnect == interconnect => Some(link),
            _ => None,
        }
    }

    /// Bricks of NVLink in it, as far as known; 0 for other links.
    pub fn nvlinks(&self) -> u32 {
        self.bundle(Interconnect::Nvlink).and_then(|link| link.links).map_or(0, u32::from)
    }
}

/// Joins two nodes, full duplex: one channel each way.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// One end; the upstream one where there is such a thing.
    pub a: NodeId,
    /// The other end.
    pub b: NodeId,
    /// How it carries data.
    pub kind: LinkKind,
    /// Key of its component model in the catalogue (`qpi-9.6`), where it has one.
    pub part: Option<String>,
    /// True where no source states it.
    pub assumed: bool,
    /// What else a reader should know.
    pub note: Option<String>,
    /// Which statements it rests on.
    pub origins: Vec<Origin>,
}

impl Link {
    /// A link that has only its ends and kind.
    pub fn new(a: NodeId, b: NodeId, kind: LinkKind) -> Self {
        Link { a, b, kind, part: None, assumed: false, note: None, origins: Vec::new() }
    }

    /// The end that is not `n`.
    pub fn other(&self, n: NodeId) -> NodeId {
        if self.a == n { self.b } else { self.a }
    }
}
