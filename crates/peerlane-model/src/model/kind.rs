//! What a transfer is of, by which the spread of predictions is known.

use super::{Model, PeerAccess, Transfer};
use peerlane_machine::fabric::{GpuLink, Interconnect, LinkKind, NodeId, NodeKind, PathClass};
use peerlane_machine::matrix::Engine;

/// What a rate or time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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
}

impl Kind {
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
        }
    }
}

impl Model<'_> {
    /// What a transfer is of, alone or (`both`) against its opposite; `None` where its ends are none, or no path joins them.
    pub fn kind_of(&self, transfer: &Transfer, both: bool) -> Option<Kind> {
        let &Transfer { source: a, destination: b, engine, peer, .. } = transfer;
        let fabric = &self.machine.fabric;
        let kinds = [a, b].map(|id| fabric.node(id).kind);
        let has = |kind: NodeKind| kinds.contains(&kind);
        if a == b {
            return Some(Kind::Local);
        }
        if has(NodeKind::Nic) {
            return Some(if has(NodeKind::Gpu) { Kind::RdmaGpu } else { Kind::RdmaHost });
        }
        if has(NodeKind::Host) {
            let (host, gpu) = if kinds[0] == NodeKind::Host { (a, b) } else { (b, a) };
            return self.kind_with_host(engine, host, gpu, both);
        }
        if kinds != [NodeKind::Gpu; 2] {
            return None;
        }
        let staged = peer == PeerAccess::Disabled || self.route(transfer).is_ok_and(|route| route.staged);
        Some(match fabric.class(a, b)? {
            _ if staged && both => Kind::StagedBothWays,
            _ if staged => Kind::StagedOneWay,
            PathClass::Gpu(Interconnect::Xgmi, _) => Kind::Xgmi,
            PathClass::Gpu(..) if engine == Engine::Sm => Kind::NvlinkKernels,
            PathClass::Gpu(..) => Kind::NvlinkCopy,
            PathClass::Sys => Kind::P2pSockets,
            _ => Kind::P2pPcie,
        })
    }

    fn kind_with_host(&self, engine: Engine, host: NodeId, gpu: NodeId, both: bool) -> Option<Kind> {
        let fabric = &self.machine.fabric;
        if fabric.node(gpu).kind != NodeKind::Gpu {
            return None;
        }
        let is_c2c = |kind: &LinkKind| matches!(kind, LinkKind::Gpu(GpuLink { interconnect: Interconnect::C2c, .. }));
        let by_c2c = fabric.links_of(gpu).iter().any(|(link, _)| is_c2c(&fabric.link(*link).kind));
        Some(if fabric.package(host) != fabric.package(gpu) {
            Kind::OtherSocket
        } else if by_c2c {
            Kind::C2c
        } else if engine == Engine::Sm {
            Kind::HostByKernels
        } else if both {
            Kind::HostBothWays
        } else {
            Kind::HostOneWay
        })
    }
}
