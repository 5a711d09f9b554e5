//! The resources of a machine: what each link, memory, host bridge and NIC can carry, and why.

use super::assumptions::{self, Assume, AssumedWidth, Basis};
use super::defaults::{INFINIBAND_EFFICIENCY, LOCAL_COPY_EFFICIENCY, constant, number};
use super::nvlink::{Bundle, bundle};
use super::pcie::width_under_load;
use super::rdma::{Engines, engines};
use super::staging::{Smp, smp, staged_both};
use super::{FittedWidths, Resource};
use peerlane_machine::fabric::{Fabric, LinkId, LinkKind, NodeId, NodeKind, PcieGeneration, PcieWidth};
use peerlane_machine::machine::Machine;
use peerlane_machine::units::Rate;
use peerlane_read::catalogue::{Part, Parts};

const GB: f64 = 1e9;

/// How a link carries data, as far as that is known.
#[derive(Clone, Debug)]
pub(super) enum Carriage {
    /// PCI Express.
    Pcie {
        /// Generation it runs at.
        generation: PcieGeneration,
        /// Lanes it runs at.
        lanes: u8,
        /// Bytes a second and direction after line encoding.
        raw: f64,
        /// `PCIe 3.0 x16`, with what was concluded to get there.
        words: String,
        /// What the link was taken to be, where no source states it.
        assumed: Option<AssumedWidth>,
    },
    /// NVLink, xGMI or C2C.
    Bundle(Bundle),
    /// Between CPU packages.
    Smp(Smp),
    /// Inside a package or a card: no limit is known.
    Inside(&'static str),
    /// No rate follows, since this is not known.
    Unknown(String),
}

/// A link's part in the model. Numbers are indices of resources.
#[derive(Clone, Debug)]
pub(super) struct LinkModel {
    /// How it carries data.
    pub carriage: Carriage,
    /// Its channels: from `a` to `b`, and back.
    pub channels: Option<[usize; 2]>,
    /// What staged traffic of both directions of an SMP link shares.
    pub both: Option<usize>,
    /// The host bridge's limit for peer-to-peer traffic that leaves it down this link.
    pub peer: Option<usize>,
}

/// An endpoint's part in the model. Numbers are indices of resources.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeModel {
    /// Host memory, or GPU memory under local copies.
    pub memory: Option<usize>,
    /// What a byte that a device writes takes of host memory.
    pub write_cost: f64,
    /// Host memory: ns that a read and a write by a GPU take there and back, where requests queue for it.
    pub round_trips: Option<[f64; 2]>,
    /// A GPU's room for requests to host memory on their way: of reads and of writes by its copy engines, and of its
    /// kernels.
    pub windows: [Option<Window>; 3],
    /// What a GPU's own port sends over PCIe at most.
    pub port: Option<usize>,
    /// What all kernels of a GPU together read of host memory over PCIe.
    pub kernel_reads: Option<usize>,
    /// A NIC's line, from the network.
    pub receive: Option<usize>,
    /// A NIC's line, to the network.
    pub send: Option<usize>,
    /// A NIC's reading of GPU memory.
    pub gpu_read: Option<usize>,
    /// A NIC's writing to GPU memory.
    pub gpu_write: Option<usize>,
    /// A NIC's engines, or what a root complex forwards of the reads between devices.
    pub engines: Engines,
}

/// Room for requests on their way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// The resource: the rate that the room allows at this round trip.
    pub resource: usize,
    /// A round trip to the nearest host memory in ns, with nothing else to do there.
    pub round_trip: f64,
}

/// All resources, by link and by node.
pub(super) struct Built {
    /// Resources.
    pub resources: Vec<Resource>,
    /// By [`LinkId::index`].
    pub links: Vec<LinkModel>,
    /// By [`NodeId::index`].
    pub nodes: Vec<NodeModel>,
}

/// The component model of a node, if its key is known and in the catalogue.
pub(super) fn part_of<'p>(fabric: &Fabric, parts: &'p Parts, node: NodeId) -> Option<&'p Part> {
    fabric.node(node).part.as_deref().and_then(|key| parts.get(key))
}

/// `GPU0–plx0`: the end further from the root complex first, and a GPU before what is none.
pub(super) fn link_name(fabric: &Fabric, id: LinkId) -> String {
    let link = fabric.link(id);
    let gpu = |n| fabric.node(n).kind == NodeKind::Gpu;
    let turned = is_above(fabric, id, link.a) || (gpu(link.b) && !gpu(link.a));
    let (near, far) = if turned { (link.b, link.a) } else { (link.a, link.b) };
    format!("{}–{}", fabric.node(near).name, fabric.node(far).name)
}

/// Whether `node` is the end of a PCIe link that is nearer to the root complex.
pub(super) fn is_above(fabric: &Fabric, id: LinkId, node: NodeId) -> bool {
    fabric.upstream(fabric.link(id).other(node)).is_some_and(|(up, _)| up == id)
}

/// Builds the resources of a machine, with what may be assumed of links that no source states.
pub(super) fn build(machine: &Machine, parts: &Parts, assume: Assume, fitted: &FittedWidths) -> Built {
    let mut built = Built { resources: Vec::new(), links: Vec::new(), nodes: Vec::new() };
    let fabric = &machine.fabric;
    for id in fabric.link_ids() {
        built.add_link(machine, parts, id, assume, fitted);
    }
    for id in fabric.ids() {
        built.add_node(fabric, parts, id);
    }
    for id in fabric.of_kind(NodeKind::Gpu) {
        built.add_windows(fabric, parts, id);
    }
    built
}

impl Built {
    fn resource(&mut self, resource: Resource) -> usize {
        self.resources.push(resource);
        self.resources.len() - 1
    }

    fn add_link(&mut self, machine: &Machine, parts: &Parts, id: LinkId, assume: Assume, fitted: &FittedWidths) {
        let fabric = &machine.fabric;
        let link = fabric.link(id);
        let name = link_name(fabric, id);
        let carriage = carriage(machine, parts, id, assume, fitted);
        let per_channel = match &carriage {
            Carriage::Pcie { raw, words, .. } => {
                Some((*raw, words.clone(), "transfer rate × lanes × line code".to_owned()))
            }
            Carriage::Bundle(bundle) => Some((bundle.raw, bundle.words.clone(), bundle.why.clone())),
            Carriage::Smp(smp) => Some((smp.capacity(), smp.words.clone(), smp.why.clone())),
            Carriage::Inside(_) | Carriage::Unknown(_) => None,
        };
        let mut model = LinkModel { carriage, channels: None, both: None, peer: None };
        if let Some((rate, words, why)) = per_channel {
            let channels = [link.b, link.a].map(|to| {
                self.resource(Resource {
                    name: format!("{name}, {words}, towards {}", fabric.node(to).name),
                    capacity: Rate::from_bytes_per_second(rate),
                    why: why.clone(),
                    link: Some(id),
                    node: None,
                    service: 0.0,
                })
            });
            model.channels = Some(channels);
        }
        let shared = match &model.carriage {
            Carriage::Smp(smp) => staged_both(fabric, parts, id)
                .map(|k| (k.value * GB, format!("{name}, {}, staged traffic both ways", smp.words), k.why)),
            _ => None,
        };
        model.both = shared.map(|(rate, name, why)| {
            let capacity = Rate::from_bytes_per_second(rate);
            self.resource(Resource { name, capacity, why, link: Some(id), node: None, service: 0.0 })
        });
        let root = [link.a, link.b].into_iter().find(|n| fabric.node(*n).kind == NodeKind::RootComplex);
        if let (LinkKind::Pcie { .. }, Some(root)) = (&link.kind, root)
            && let Some(known) = constant(root_part(fabric, parts, root), "peer_rate")
        {
            let name = format!(
                "{}, peer-to-peer limit towards {}",
                fabric.node(root).name,
                fabric.node(link.other(root)).name
            );
            let capacity = Rate::from_gb(known.value);
            let (why, node) = (known.why, Some(root));
            model.peer = Some(self.resource(Resource { name, capacity, why, link: None, node, service: 0.0 }));
        }
        self.links.push(model);
    }

    fn add_node(&mut self, fabric: &Fabric, parts: &Parts, id: NodeId) {
        let node = fabric.node(id);
        let part = part_of(fabric, parts, id);
        let mut model = NodeModel::default();
        let share = parts.end().of(SLOW_DRIVE, 1.0, 1.0);
        let link = fabric.upstream(id).filter(|_| share < 1.0).and_then(|(at, _)| self.raw(at));
        let least = link.map(|raw| raw * share);
        let mut add = |name: String, known: Option<super::defaults::Known>, factor: f64| {
            let known = known?;
            let capacity = Rate::from_gb(known.value * factor);
            let (why, node) = (known.why, Some(id));
            Some(self.resource(Resource { name, capacity, why, link: None, node, service: 0.0 }))
        };
        match node.kind {
            NodeKind::Gpu => {
                let of_product = || {
                    let (value, of) = (part?.memory_rate(node.product.as_deref())?, &part?.source);
                    Some(super::defaults::Known { value, why: format!("data sheet: {of}"), assumed: false })
                };
                let rate = constant(part, "memory_rate").or_else(of_product);
                let share = LOCAL_COPY_EFFICIENCY.or_of(part, parts.end()).value;
                model.memory = add(format!("{} memory", node.name), rate, share.min(1.0));
                let sends = constant(part, "pcie_send_rate");
                model.port = add(format!("{}, sending over PCIe", node.name), sends, 1.0);
                let reads = constant(part, "kernel_read_rate");
                model.kernel_reads = add(format!("{}, kernels reading host memory", node.name), reads, 1.0);
            }
            NodeKind::Host => {
                let cpu = fabric.package(id);
                let part = cpu.and_then(|c| part_of(fabric, parts, c));
                let rate = module_memory(fabric, parts, cpu).or_else(|| constant(part, "memory_rate"));
                // a package's memory rate is spread over its NUMA nodes
                let siblings = cpu.map_or(1, |c| {
                    fabric.links_of(c).iter().filter(|(_, n)| fabric.node(*n).kind == NodeKind::Host).count()
                });
                model.memory = add(format!("{} memory", node.name), rate, 1.0 / siblings.max(1) as f64);
                model.write_cost = number(part, "write_cost").unwrap_or(1.0);
                let queue = number(part, "queue_latency").zip(model.memory);
                if let (Some((service, memory)), [Some(read), Some(write)]) =
                    (queue, ["read_latency", "write_latency"].map(|name| number(part, name)))
                {
                    self.resources[memory].service = service;
                    model.round_trips = Some([read, write]);
                }
            }
            NodeKind::Nic | NodeKind::Fpga => {
                // what its port states beats what its product could do
                let stated = node.line_rate.map(|rate| {
                    let why = "the rate of its port, as the machine states it".to_owned();
                    super::defaults::Known { value: rate.gb() * 8.0, why, assumed: false }
                });
                let line = stated.or_else(|| constant(part, "line_rate"));
                let payload = if node.kind == NodeKind::Nic { INFINIBAND_EFFICIENCY / 8.0 } else { 1.0 / 8.0 };
                model.receive = add(format!("{} line, receiving", node.name), line.clone(), payload);
                model.send = add(format!("{} line, sending", node.name), line, payload);
                model.gpu_read = add(format!("{} reading GPU memory", node.name), constant(part, "gpu_read_rate"), 1.0);
                model.gpu_write =
                    add(format!("{} writing to GPU memory", node.name), constant(part, "gpu_write_rate"), 1.0);
            }
            NodeKind::Nvme => {
                let read = drive_rate(node.drive.read, part, "drive_read_rate", least);
                model.receive = add(format!("{}, reading", node.name), read, 1.0);
                let write = drive_rate(node.drive.write, part, "drive_write_rate", least);
                model.send = add(format!("{}, writing", node.name), write, 1.0);
            }
            _ => {}
        }
        model.engines = engines(fabric, parts, id, |resource| self.resource(resource));
        self.nodes.push(model);
    }
}

/// The least that a drive of no stated rate may read or write, as a share of its link. Assumed: the drives of 2017 move about
/// 2 GB/s over a link of 3.9 (Rossum, 'Hardware', 2017).
const SLOW_DRIVE: f64 = 0.5;

/// What a drive moves one way: as stated of this one, else of its product, else this share of its link.
fn drive_rate(
    stated: Option<peerlane_machine::units::Rate>,
    part: Option<&Part>,
    name: &str,
    least: Option<f64>,
) -> Option<super::defaults::Known> {
    let known = |value, why: &str, assumed| super::defaults::Known { value, why: why.to_owned(), assumed };
    let stated = stated.map(|rate| known(rate.gb(), "the drive's rate, as the machine states it", false));
    stated
        .or_else(|| constant(part, name))
        .or_else(|| least.map(|raw| known(raw / GB, "a drive of unknown rate, at worst", true)))
}

impl Built {
    /// Bytes a second that a PCIe link signals, where its width is known.
    fn raw(&self, link: LinkId) -> Option<f64> {
        match &self.links.get(link.index())?.carriage {
            Carriage::Pcie { raw, .. } => Some(*raw),
            _ => None,
        }
    }

    /// What a GPU has on its way to host memory at most, where the nearest one makes requests queue.
    fn add_windows(&mut self, fabric: &Fabric, parts: &Parts, gpu: NodeId) {
        let Some(host) = fabric.nearest_host(gpu) else { return };
        let Some([read, write]) = self.nodes[host.index()].round_trips else { return };
        let part = part_of(fabric, parts, gpu);
        let name =
            |of: &str| format!("{} memory, which {} of {} wait for", fabric.node(host).name, of, fabric.node(gpu).name);
        let kinds =
            [("read_window", read, "reads"), ("write_window", write, "writes"), ("kernel_window", read, "kernels")];
        self.nodes[gpu.index()].windows = kinds.map(|(constant_name, round_trip, words)| {
            let room = constant(part, constant_name)?;
            let capacity = Rate::from_gb(room.value / round_trip);
            let why =
                format!("{} bytes on their way ÷ {round_trip:.0} ns and what they wait; {}", room.value, room.why);
            let resource =
                self.resource(Resource { name: name(words), capacity, why, link: None, node: None, service: 0.0 });
            Some(Window { resource, round_trip })
        });
    }
}

/// Rate of the memory of a CPU that shares a module with GPUs, where their product's name decides it: GH200 modules of
/// 120 and of 480 GB have the same CPU.
fn module_memory(fabric: &Fabric, parts: &Parts, cpu: Option<NodeId>) -> Option<super::defaults::Known> {
    let joined = fabric.links_of(cpu?).iter();
    let on_module = joined.filter(|(link, _)| fabric.link(*link).kind.is_gpu_fabric());
    let rates = on_module.filter_map(|(_, gpu)| constant(part_of(fabric, parts, *gpu), "module_memory_rate"));
    rates.min_by(|a, b| a.value.total_cmp(&b.value))
}

/// The part that holds a root complex's constants: its CPU's, else its own.
pub(super) fn root_part<'p>(fabric: &Fabric, parts: &'p Parts, root: NodeId) -> Option<&'p Part> {
    fabric.package(root).and_then(|c| part_of(fabric, parts, c)).or_else(|| part_of(fabric, parts, root))
}

fn carriage(machine: &Machine, parts: &Parts, id: LinkId, assume: Assume, fitted: &FittedWidths) -> Carriage {
    let fabric = &machine.fabric;
    let link = fabric.link(id);
    if let Some(found) = bundle(fabric, parts, id, assume) {
        return found.map_or_else(Carriage::Unknown, Carriage::Bundle);
    }
    match &link.kind {
        LinkKind::Pcie { .. } => {
            let (known, note) = width_under_load(&link.kind, machine.kind);
            let open = assume != Assume::Nothing && known.raw_rate().is_none();
            let by_fit = || fitted.get(&id).map(|fit| AssumedWidth::fitted(fit.width, fit.measured));
            let assumed = open.then(|| by_fit().or_else(|| assumptions::width(machine, parts, id))).flatten();
            let assumed = assumed.filter(|width| width.basis != Basis::Usual || assume == Assume::Usual);
            // the half of it that a source states stays
            let width = assumed.map_or(known, |AssumedWidth { width, .. }| PcieWidth {
                generation: known.generation.or(width.generation),
                lanes: known.lanes.or(width.lanes),
            });
            let note = if assumed.is_some() { Some("assumed".to_owned()) } else { note };
            let note = note.map_or(String::new(), |n| format!(" ({n})"));
            let share = assumed.map_or(1.0, |a| {
                let [least, most] = a.shares();
                parts.end().of(least, 1.0, most)
            });
            match (width.generation, width.lanes, width.raw_rate()) {
                (Some(generation), Some(lanes), Some(raw)) => Carriage::Pcie {
                    generation,
                    lanes,
                    raw: raw.bytes_per_second() * share,
                    words: format!("PCIe {width}{note}"),
                    assumed,
                },
                _ => {
                    let lower = if is_above(fabric, id, link.a) { link.b } else { link.a };
                    let what = match (width.generation, width.lanes) {
                        (None, Some(_)) => "PCIe generation",
                        _ => "PCIe width",
                    };
                    Carriage::Unknown(format!("the {what} of {}'s link is not known", fabric.node(lower).name))
                }
            }
        }
        LinkKind::Smp => Carriage::Smp(smp(fabric, parts, id)),
        LinkKind::OnCard => Carriage::Inside("inside the card"),
        _ => Carriage::Inside("inside the CPU package"),
    }
}
