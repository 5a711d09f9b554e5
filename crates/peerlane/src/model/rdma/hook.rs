//! What RDMA adds to the resources of a machine and to the routes over them.

use super::Method;
use super::constants::{Card, GpuMemory, chipset_reads, host_read, node_part, us};
use super::engine::Stream;
use crate::fabric::{NodeId, NodeKind, Path};
use crate::model::resources::root_part;
use crate::model::{Model, Resource};
use crate::units::Rate;

/// The engines of a NIC, or the host bridge's of a root complex: numbers of resources.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::model) struct Engines {
    /// Takes in what arrives; the processor in it also translates addresses for the GPU-read engine.
    pub receive: Option<usize>,
    /// Reads GPU memory by NVIDIA's protocol. Counted in its own time: a byte takes 1 ns ÷ its rate in GB/s.
    pub gpu_read: Option<usize>,
    /// Reads memory by ordinary PCIe reads. Counted in its own time.
    pub dma: Option<usize>,
    /// What a root complex forwards of the reads of one device by another.
    pub peer_reads: Option<usize>,
}

/// Capacity of an engine that is counted in its own time.
const OWN_TIME: f64 = 1e9;

/// Adds the engines of a NIC or a root complex to a machine's resources.
pub(in crate::model) fn engines(
    fabric: &crate::fabric::Fabric,
    parts: &crate::catalogue::Parts,
    node: NodeId,
    mut add: impl FnMut(Resource) -> usize,
) -> Engines {
    let name = &fabric.node(node).name;
    let mut resource =
        |name: String, capacity, why| add(Resource { name, capacity, why, link: None, node: Some(node) });
    match fabric.node(node).kind {
        NodeKind::RootComplex => {
            let known = chipset_reads(root_part(fabric, parts, node));
            let peer_reads = known
                .map(|n| resource(format!("{name} forwarding reads between devices"), Rate::from_gb(n.value), n.why));
            Engines { peer_reads, ..Engines::default() }
        }
        NodeKind::Nic => {
            let part = super::super::resources::part_of(fabric, parts, node);
            let card = Card::of(part);
            let own_time = Rate::from_bytes_per_second(OWN_TIME);
            let receive = card.receive.clone();
            let receive = receive.map(|n| resource(format!("{name}'s receive engine"), Rate::from_gb(n.value), n.why));
            let time = "its own time, 1 s a second".to_owned();
            let gpu_read =
                card.nvp2p.then(|| resource(format!("{name}'s GPU-read engine, busy"), own_time, time.clone()));
            let dma = Some(resource(format!("{name}'s DMA engine, busy"), own_time, time));
            Engines { receive, gpu_read, dma, peer_reads: None }
        }
        _ => Engines::default(),
    }
}

/// One resource that a transfer of a NIC takes.
pub(in crate::model) struct Use {
    /// Its number.
    pub resource: usize,
    /// How much of it a byte takes.
    pub per_byte: f64,
    /// What to call it where it binds.
    pub label: String,
}

/// What a direct transfer between a NIC and the memory of `other` takes beside the links: the NIC's engines, and what
/// the root complexes on the way forward. Without a method, GPU memory is read by the faster of the two.
pub(in crate::model) fn uses(
    model: &Model,
    path: &Path,
    nic: NodeId,
    other: NodeId,
    receiving: bool,
    method: Option<Method>,
) -> Vec<Use> {
    let fabric = &model.machine.fabric;
    let engines = model.nodes[nic.index()].engines;
    let card = Card::of(node_part(model, nic));
    let name = &fabric.node(nic).name;
    let mut all = Vec::new();
    let mut take = |resource: Option<usize>, per_byte: f64, label: String| {
        all.extend(resource.map(|resource| Use { resource, per_byte, label }));
    };
    if receiving {
        let bound = if card.receive_engine == super::ReceiveEngine::Original { " (at most)" } else { "" };
        take(engines.receive, 1.0, format!("{name}'s receive engine{bound}"));
        return all;
    }
    let busy = |stream: &Stream| OWN_TIME / stream.asymptote().bytes_per_second();
    let from_gpu = fabric.node(other).kind == NodeKind::Gpu;
    if !from_gpu {
        if let Some(stream) = card.dma_stream(us(&host_read(node_part(model, nic))), None) {
            take(engines.dma, busy(&stream), format!("{name}'s DMA engine"));
        }
        return all;
    }
    let memory = GpuMemory::of(node_part(model, other));
    let gpu = &fabric.node(other).name;
    if method.unwrap_or_else(|| faster(model, path, nic, other)) == Method::Nvp2p {
        if let (Some(stream), Some(rate)) = (card.nvp2p_stream(&memory), &memory.nvp2p_rate) {
            let answers = Rate::from_gb(rate.value);
            let label = format!("{name}'s GPU-read engine ({gpu} answers at {answers})");
            take(engines.gpu_read, busy(&stream), label);
        }
        if let (Some(translate), Some(receive)) = (&card.translate, &card.receive) {
            let label = format!("{name}'s receive engine, which also translates for its GPU-read engine");
            take(engines.receive, receive.value / translate.value, label);
        }
        return all;
    }
    if let Some(stream) = bar1_stream(&card, &memory) {
        let own = card.dma_window.as_ref().map_or(f64::INFINITY, |n| n.value);
        let label = match &memory.bar1_window {
            Some(most) if most.value <= own => {
                format!("{gpu}, which answers BAR1 reads {} bytes at a time", most.value)
            }
            _ => format!("{name}'s DMA engine"),
        };
        take(engines.dma, busy(&stream), label);
    }
    for root in path.hops.iter().map(|h| h.from).filter(|n| fabric.node(*n).kind == NodeKind::RootComplex) {
        let resource = model.nodes[root.index()].engines.peer_reads;
        take(resource, 1.0, format!("{}, which forwards reads between devices slowly", fabric.node(root).name));
    }
    all
}

/// How BAR1 reads go, where a window is known.
pub(super) fn bar1_stream(card: &Card, memory: &GpuMemory) -> Option<Stream> {
    card.dma_stream(us(&memory.read_latency), memory.bar1_window.as_ref().map(|n| n.value))
}

/// The faster way for this card to read that GPU's memory.
fn faster(model: &Model, path: &Path, nic: NodeId, gpu: NodeId) -> Method {
    let card = Card::of(node_part(model, nic));
    let memory = GpuMemory::of(node_part(model, gpu));
    let Some(nvp2p) = card.nvp2p_stream(&memory).filter(|_| card.nvp2p) else { return Method::Bar1 };
    let window = bar1_stream(&card, &memory).map_or(f64::INFINITY, |s| s.asymptote().bytes_per_second());
    let forwarded = path.hops.iter().filter_map(|h| model.nodes[h.from.index()].engines.peer_reads);
    let bar1 = forwarded.map(|r| model.capacities[r]).fold(window, f64::min);
    if nvp2p.asymptote().bytes_per_second() >= bar1 { Method::Nvp2p } else { Method::Bar1 }
}
