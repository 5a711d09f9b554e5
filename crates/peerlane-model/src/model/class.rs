//! What a figure is of, by which the spread of predictions is known and their errors are scored.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::route::plan;
use super::{Model, PeerAccess, Transfer};
use peerlane_machine::fabric::{GpuLink, Interconnect, LinkKind, NodeId, NodeKind, PathClass};
use peerlane_machine::matrix::Engine;

/// What a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Pinned memory of the host, nearest to the GPU, one way.
    HostOneWay,
    /// The same, both ways at once.
    HostBothWays,
    /// The same, read or written by kernels.
    HostByKernels,
    /// Memory of another socket than the GPU's.
    OtherSocket,
    /// Between GPUs, direct, over PCIe below one socket.
    P2pPcie,
    /// Between GPUs, direct, across sockets.
    P2pSockets,
    /// Over NVLink by copy engines.
    NvlinkCopy,
    /// Over NVLink by kernels.
    NvlinkKernels,
    /// Over xGMI (Infinity Fabric) between GPUs.
    Xgmi,
    /// Between a GPU and a CPU's memory over NVLink-C2C.
    C2c,
    /// Between GPUs through host memory, one way.
    StagedOneWay,
    /// The same, both ways at once.
    StagedBothWays,
    /// A NIC and the memory of a GPU.
    RdmaGpu,
    /// A NIC and the memory of the host.
    RdmaHost,
    /// Within the memory of one GPU.
    Local,
    /// Time of a small copy or a load.
    Latency,
    /// Several transfers at once, other than a pair of opposite ones.
    Concurrent,
    /// Bus bandwidth of a collective from 256 MiB on.
    CollectiveLarge,
    /// Bus bandwidth of a collective of smaller size.
    CollectiveSmall,
    /// Size at which half of a sweep's greatest rate is reached.
    HalfSize,
}

impl Class {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Class; 20] = [
        Self::HostOneWay,
        Self::HostBothWays,
        Self::HostByKernels,
        Self::OtherSocket,
        Self::P2pPcie,
        Self::P2pSockets,
        Self::NvlinkCopy,
        Self::NvlinkKernels,
        Self::Xgmi,
        Self::C2c,
        Self::StagedOneWay,
        Self::StagedBothWays,
        Self::RdmaGpu,
        Self::RdmaHost,
        Self::Local,
        Self::Latency,
        Self::Concurrent,
        Self::CollectiveLarge,
        Self::CollectiveSmall,
        Self::HalfSize,
    ];

    /// Its name in JSON and text.
    pub fn name(self) -> &'static str {
        match self {
            Self::HostOneWay => "host-one-way",
            Self::HostBothWays => "host-both-ways",
            Self::HostByKernels => "host-by-kernels",
            Self::OtherSocket => "other-socket",
            Self::P2pPcie => "p2p-pcie",
            Self::P2pSockets => "p2p-sockets",
            Self::NvlinkCopy => "nvlink-copy",
            Self::NvlinkKernels => "nvlink-kernels",
            Self::Xgmi => "xgmi",
            Self::C2c => "c2c",
            Self::StagedOneWay => "staged-one-way",
            Self::StagedBothWays => "staged-both-ways",
            Self::RdmaGpu => "rdma-gpu",
            Self::RdmaHost => "rdma-host",
            Self::Local => "local",
            Self::Latency => "latency",
            Self::Concurrent => "concurrent",
            Self::CollectiveLarge => "collective-large",
            Self::CollectiveSmall => "collective-small",
            Self::HalfSize => "half-size",
        }
    }

    /// Whether it is the bandwidth of one path between two devices, alone or against its opposite.
    pub fn is_single_path(self) -> bool {
        !matches!(
            self,
            Self::Local
                | Self::Latency
                | Self::Concurrent
                | Self::CollectiveLarge
                | Self::CollectiveSmall
                | Self::HalfSize
        )
    }
}

impl Model<'_> {
    /// What a transfer is of, alone or (`both`) against its opposite; `None` where its ends are none, or no path joins them.
    pub fn class_of(&self, transfer: &Transfer, both: bool) -> Option<Class> {
        let &Transfer { source: a, destination: b, engine, peer, .. } = transfer;
        let fabric = &self.machine.fabric;
        let kinds = [a, b].map(|id| fabric.node(id).kind);
        let has = |kind: NodeKind| kinds.contains(&kind);
        if a == b {
            return Some(Class::Local);
        }
        if kinds.iter().any(|kind| matches!(kind, NodeKind::Nvme | NodeKind::Fpga)) {
            return self.class_of_device(transfer, kinds, both);
        }
        if has(NodeKind::Nic) {
            return Some(if has(NodeKind::Gpu) { Class::RdmaGpu } else { Class::RdmaHost });
        }
        if has(NodeKind::Host) {
            let (host, gpu) = if kinds[0] == NodeKind::Host { (a, b) } else { (b, a) };
            return self.class_with_host(engine, host, gpu, both);
        }
        if kinds != [NodeKind::Gpu; 2] {
            return None;
        }
        let staged =
            peer == PeerAccess::Disabled || plan(self, transfer, false).is_ok_and(|planned| planned.route.staged);
        Some(match fabric.class(a, b)? {
            _ if staged && both => Class::StagedBothWays,
            _ if staged => Class::StagedOneWay,
            PathClass::Gpu(Interconnect::Xgmi, _) => Class::Xgmi,
            PathClass::Gpu(..) if engine == Engine::Sm => Class::NvlinkKernels,
            PathClass::Gpu(..) => Class::NvlinkCopy,
            PathClass::Sys => Class::P2pSockets,
            _ => Class::P2pPcie,
        })
    }

    /// No figures of drives and capture cards are known: theirs are taken to lie as those of the like transfers of GPUs do, and
    /// across a host bridge as those of NICs.
    fn class_of_device(&self, transfer: &Transfer, kinds: [NodeKind; 2], both: bool) -> Option<Class> {
        if kinds.contains(&NodeKind::Host) {
            return Some(if both { Class::HostBothWays } else { Class::HostOneWay });
        }
        if plan(self, transfer, false).is_ok_and(|planned| planned.route.staged) {
            return Some(if both { Class::StagedBothWays } else { Class::StagedOneWay });
        }
        Some(match self.machine.fabric.class(transfer.source, transfer.destination)? {
            PathClass::Pix | PathClass::Pxb => Class::P2pPcie,
            _ => Class::RdmaGpu,
        })
    }

    fn class_with_host(&self, engine: Engine, host: NodeId, gpu: NodeId, both: bool) -> Option<Class> {
        let fabric = &self.machine.fabric;
        if fabric.node(gpu).kind != NodeKind::Gpu {
            return None;
        }
        let is_c2c = |kind: &LinkKind| matches!(kind, LinkKind::Gpu(GpuLink { interconnect: Interconnect::C2c, .. }));
        let by_c2c = fabric.links_of(gpu).iter().any(|(link, _)| is_c2c(&fabric.link(*link).kind));
        Some(if fabric.package(host) != fabric.package(gpu) {
            Class::OtherSocket
        } else if by_c2c {
            Class::C2c
        } else if engine == Engine::Sm {
            Class::HostByKernels
        } else if both {
            Class::HostBothWays
        } else {
            Class::HostOneWay
        })
    }
}
