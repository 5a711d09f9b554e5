//! The links whose traffic a device counts, and what each should carry.

use peerlane_machine::fabric::{Fabric, Interconnect, LinkKind, NodeId, NodeKind};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_model::model::{Model, PeerAccess, Transfer};

use super::{BothWays, Rates, Sample};

/// What carries the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The GPU's PCIe link.
    Pcie,
    /// All NVLinks of the GPU together.
    Nvlink,
    /// The port of a network adapter.
    Port,
}

/// A link of a device, or all its NVLinks.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    /// The device.
    pub node: NodeId,
    /// What it is.
    pub kind: Kind,
    /// `PCIe 5.0 x16`, `NVLink 4 x18`, `port`.
    pub label: String,
    /// Bytes a second that one copy alone should send and receive through it; absent where the model knows no rate. Of NVLinks,
    /// all at once.
    pub carries: Option<BothWays<f64>>,
}

impl Gauge {
    /// What goes through it.
    pub fn rates(&self, fabric: &Fabric, sample: &Sample, rates: &Rates) -> Option<BothWays<f64>> {
        let node = fabric.node(self.node);
        match self.kind {
            Kind::Pcie => rates.pcie.get(&node.name).copied(),
            Kind::Nvlink => rates.nvlink.get(&node.name).copied(),
            Kind::Port => ports_of(fabric, self.node, sample)
                .filter_map(|name| rates.ports.get(name))
                .copied()
                .reduce(|a, b| [a[0] + b[0], a[1] + b[1]]),
        }
    }
}

/// The names of the ports that belong to an adapter: by its place on the bus, or its name.
fn ports_of<'s>(fabric: &Fabric, nic: NodeId, sample: &'s Sample) -> impl Iterator<Item = &'s String> {
    let node = fabric.node(nic);
    let own = move |name: &str| {
        let device = name.split('/').next().unwrap_or(name);
        node.name == name || node.name == device || node.aliases.iter().any(|alias| alias == name || alias == device)
    };
    let address = node.address;
    let belongs = |(name, port): &(&'s String, &super::Port)| match (address, port.address) {
        (Some(a), Some(b)) => a == b,
        _ => own(name),
    };
    sample.ports.iter().filter(belongs).map(|(name, _)| name).collect::<Vec<_>>().into_iter()
}

/// The gauges of all GPUs and network adapters of a machine, device by device in the order of its nodes.
pub fn gauges(model: &Model) -> Vec<Gauge> {
    let fabric = &model.machine.fabric;
    let of = |node: NodeId| -> Vec<Gauge> {
        match fabric.node(node).kind {
            NodeKind::Gpu => [Some(pcie(model, node)), nvlink(model, node)].into_iter().flatten().collect(),
            NodeKind::Nic => vec![port(model, node)],
            _ => Vec::new(),
        }
    };
    fabric.ids().flat_map(of).collect()
}

/// A copy that the source drives.
pub(super) fn copy(source: NodeId, destination: NodeId) -> Transfer {
    Transfer { source, destination, engine: Engine::Ce, op: Operation::Write, peer: PeerAccess::Enabled }
}

/// What one transfer alone gets.
fn alone(model: &Model, transfer: Transfer) -> Option<f64> {
    Some(model.solve(&[transfer]).ok()?.first()?.rate.bytes_per_second())
}

/// What the device sends to the nearest host memory, and receives from it.
fn with_host(model: &Model, node: NodeId) -> Option<BothWays<f64>> {
    let host = model.machine.fabric.nearest_host(node)?;
    Some([alone(model, copy(node, host))?, alone(model, copy(host, node))?])
}

fn pcie(model: &Model, gpu: NodeId) -> Gauge {
    let fabric = &model.machine.fabric;
    // `GPU0–plx0, PCIe 3.0 x16`
    let described = fabric.upstream(gpu).map(|(link, _)| model.described(link));
    let label =
        described.as_deref().and_then(|text| text.rsplit_once(", ")).map_or("PCIe", |(_, words)| words).to_owned();
    // where the host is reached by another link, its rate is not PCIe's
    let by_pcie = fabric.upstream(gpu).is_some_and(|(link, _)| matches!(fabric.link(link).kind, LinkKind::Pcie { .. }));
    let beside = fabric.links_of(gpu).iter().any(|(link, other)| {
        fabric.link(*link).kind.is_gpu_fabric() && matches!(fabric.node(*other).kind, NodeKind::Cpu | NodeKind::Host)
    });
    Gauge { node: gpu, kind: Kind::Pcie, label, carries: with_host(model, gpu).filter(|_| by_pcie && !beside) }
}

/// The GPU's NVLinks: as many as it has, each at the rate that a copy to a neighbour gets of one.
fn nvlink(model: &Model, gpu: NodeId) -> Option<Gauge> {
    let fabric = &model.machine.fabric;
    let count = fabric.nvlinks_of(gpu);
    let bundles = fabric
        .links_of(gpu)
        .iter()
        .filter_map(|(link, other)| Some((fabric.link(*link).kind.bundle(Interconnect::Nvlink)?, *other)));
    let bundles: Vec<_> = bundles.collect();
    let (first, _) = bundles.first()?;
    let of_one = |(bundle, other): &(&peerlane_machine::fabric::GpuLink, NodeId)| {
        let links = f64::from(bundle.links?);
        // through a switch: any GPU behind it that has as many links
        let peer = match fabric.node(*other).kind {
            NodeKind::NvSwitch => fabric.links_of(*other).iter().map(|(_, peer)| *peer).find(|peer| *peer != gpu)?,
            _ => *other,
        };
        Some([alone(model, copy(gpu, peer))? / links, alone(model, copy(peer, gpu))? / links])
    };
    let best = bundles.iter().filter_map(of_one).reduce(|a, b| [a[0].max(b[0]), a[1].max(b[1])]);
    let generation = first.generation.map_or_else(String::new, |generation| format!(" {generation}"));
    let label = if count > 0 { format!("NVLink{generation} x{count}") } else { format!("NVLink{generation}") };
    let carries = best.filter(|_| count > 0).map(|one| one.map(|rate| rate * f64::from(count)));
    Some(Gauge { node: gpu, kind: Kind::Nvlink, label, carries })
}

fn port(model: &Model, nic: NodeId) -> Gauge {
    let line = model.line_rate(nic).map(|rate| [rate.bytes_per_second(); 2]);
    // its slot may be narrower than its line
    let carries = match (line, with_host(model, nic)) {
        (Some(line), Some(slot)) => Some([line[0].min(slot[1]), line[1].min(slot[0])]),
        (line, slot) => line.or(slot.map(|[to_host, from_host]| [from_host, to_host])),
    };
    let label = line.map_or_else(|| "port".to_owned(), |[rate, _]| format!("port {:.0} Gb/s", rate * 8e-9));
    Gauge { node: nic, kind: Kind::Port, label, carries }
}
