//! What RDMA adds to the resources of a machine and to the routes over them.

use super::Method;
use super::constants::{Card, GpuMemory, chipset_reads, us};
use super::engine::Stream;
use crate::model::resources::{part_of, root_part};
use crate::model::{Model, Resource};
use peerlane_machine::fabric::{NodeId, NodeKind, Path};
use peerlane_machine::units::Rate;

/// The engines of a NIC, or the host bridge's of a root complex, as numbers of resources; and what the parts of NICs
/// and GPUs say.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct Engines {
    /// Takes in what arrives; the processor in it also translates addresses for the GPU-read engine.
    pub receive: Option<usize>,
    /// Reads GPU memory by NVIDIA's protocol. Counted in its own time: a byte takes 1 ns ÷ its rate in GB/s.
    pub gpu_read: Option<usize>,
    /// Reads memory by ordinary PCIe reads. Counted in its own time.
    pub dma: Option<usize>,
    /// What a root complex forwards of the reads of one device by another.
    pub peer_reads: Option<usize>,
    /// Whether that is assumed.
    pub peer_reads_assumed: bool,
    /// What a NIC's part says.
    card: Option<Box<Card>>,
    /// What a GPU's part says.
    memory: Option<Box<GpuMemory>>,
}

/// Capacity of an engine that is counted in its own time.
const OWN_TIME: f64 = 1e9;

/// Adds the engines of a NIC or a root complex to a machine's resources.
pub(in crate::model) fn engines(
    fabric: &peerlane_machine::fabric::Fabric,
    parts: &peerlane_read::catalogue::Parts,
    node: NodeId,
    mut add: impl FnMut(Resource) -> usize,
) -> Engines {
    let name = &fabric.node(node).name;
    let mut resource =
        |name: String, capacity, why| add(Resource { name, capacity, why, link: None, node: Some(node), service: 0.0 });
    match fabric.node(node).kind {
        NodeKind::RootComplex => {
            let known = chipset_reads(root_part(fabric, parts, node));
            let peer_reads_assumed = known.as_ref().is_some_and(|n| n.assumed);
            let peer_reads = known
                .map(|n| resource(format!("{name} forwarding reads between devices"), Rate::from_gb(n.value), n.why));
            Engines { peer_reads, peer_reads_assumed, ..Engines::default() }
        }
        kind if kind.is_io() => {
            let card = Card::of(part_of(fabric, parts, node));
            let own_time = Rate::from_bytes_per_second(OWN_TIME);
            let receive = card.receive.clone();
            let receive = receive.map(|n| resource(format!("{name}'s receive engine"), Rate::from_gb(n.value), n.why));
            let time = "its own time, 1 s a second".to_owned();
            let gpu_read =
                card.nvp2p.then(|| resource(format!("{name}'s GPU-read engine, busy"), own_time, time.clone()));
            let dma = Some(resource(format!("{name}'s DMA engine, busy"), own_time, time));
            Engines { receive, gpu_read, dma, card: Some(Box::new(card)), ..Engines::default() }
        }
        NodeKind::Gpu => {
            let memory = Some(Box::new(GpuMemory::of(part_of(fabric, parts, node))));
            Engines { memory, ..Engines::default() }
        }
        _ => Engines::default(),
    }
}

/// One resource that a transfer of a NIC takes.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Use {
    /// Its number.
    pub resource: usize,
    /// How much of it a byte takes.
    pub per_byte: f64,
    what: What,
}

/// What it is taken for.
#[derive(Clone, Copy, Debug)]
enum What {
    Receiving {
        at_most: bool,
    },
    Dma,
    GpuReading {
        answers: Rate,
    },
    Translating,
    /// The GPU's own window, in bytes, binds and not the card's.
    GpuWindow(f64),
    Forwarding(NodeId),
}

impl Use {
    /// What to call the resource where it binds.
    pub(in crate::model) fn label(&self, model: &Model, nic: NodeId, gpu: NodeId) -> String {
        let name = |n: NodeId| &model.machine.fabric.node(n).name;
        let (card, gpu) = (name(nic), name(gpu));
        match self.what {
            What::Receiving { at_most: false } => format!("{card}'s receive engine"),
            What::Receiving { at_most: true } => format!("{card}'s receive engine (at most)"),
            What::Dma => format!("{card}'s DMA engine"),
            What::GpuReading { answers } => format!("{card}'s GPU-read engine ({gpu} answers at {answers})"),
            What::Translating => format!("{card}'s receive engine, which also translates for its GPU-read engine"),
            What::GpuWindow(bytes) => format!("{gpu}, which answers BAR1 reads {bytes} bytes at a time"),
            What::Forwarding(root) => {
                let assumed = if model.nodes[root.index()].engines.peer_reads_assumed { " (assumed)" } else { "" };
                format!("{}, which forwards reads between devices slowly{assumed}", name(root))
            }
        }
    }
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
    let engines = &model.nodes[nic.index()].engines;
    let mut all = Vec::new();
    let Some(card) = &engines.card else { return all };
    let mut take = |resource: Option<usize>, per_byte: f64, what: What| {
        all.extend(resource.map(|resource| Use { resource, per_byte, what }));
    };
    if receiving {
        take(engines.receive, 1.0, What::Receiving { at_most: card.receive_engine == super::ReceiveEngine::Original });
        return all;
    }
    let busy = |stream: &Stream| OWN_TIME / stream.asymptote().bytes_per_second();
    let Some(memory) = &model.nodes[other.index()].engines.memory else {
        if let Some(stream) = card.dma_stream(us(&card.host_read), None) {
            take(engines.dma, busy(&stream), What::Dma);
        }
        return all;
    };
    if method.unwrap_or_else(|| faster(model, path, card, memory)) == Method::Nvp2p {
        if let (Some(stream), Some(rate)) = (card.nvp2p_stream(memory), &memory.nvp2p_rate) {
            take(engines.gpu_read, busy(&stream), What::GpuReading { answers: Rate::from_gb(rate.value) });
        }
        if let (Some(translate), Some(receive)) = (&card.translate, &card.receive) {
            take(engines.receive, receive.value / translate.value, What::Translating);
        }
        return all;
    }
    if let Some(stream) = bar1_stream(card, memory) {
        let own = card.dma_window.as_ref().map_or(f64::INFINITY, |n| n.value);
        let what = memory.bar1_window.as_ref().map(|most| most.value).filter(|most| *most <= own);
        take(engines.dma, busy(&stream), what.map_or(What::Dma, What::GpuWindow));
    }
    for hop in &path.hops {
        take(model.nodes[hop.from.index()].engines.peer_reads, 1.0, What::Forwarding(hop.from));
    }
    all
}

/// How BAR1 reads go, where a window is known.
pub(super) fn bar1_stream(card: &Card, memory: &GpuMemory) -> Option<Stream> {
    card.dma_stream(us(&memory.read_latency), memory.bar1_window.as_ref().map(|n| n.value))
}

/// The faster way for this card to read that GPU's memory.
fn faster(model: &Model, path: &Path, card: &Card, memory: &GpuMemory) -> Method {
    let Some(nvp2p) = card.nvp2p_stream(memory).filter(|_| card.nvp2p) else { return Method::Bar1 };
    let window = bar1_stream(card, memory).map_or(f64::INFINITY, |s| s.asymptote().bytes_per_second());
    let forwarded = path.hops.iter().filter_map(|h| model.nodes[h.from.index()].engines.peer_reads);
    let bar1 = forwarded.map(|r| model.capacities[r]).fold(window, f64::min);
    if nvp2p.asymptote().bytes_per_second() >= bar1 { Method::Nvp2p } else { Method::Bar1 }
}
