//! NVLink, xGMI and what else joins GPUs apart from PCIe.

use std::collections::{BTreeMap, HashMap};

use crate::catalogue::Parts;
use peerlane_machine::fabric::{
    FabricBuilder, GpuLink, Interconnect, Link, LinkKind, Node, NodeId, NodeKind, PathClass,
};
use peerlane_machine::fact::{NvlinkEnd, NvlinkPort};
use peerlane_machine::machine::Contradiction;
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;
use peerlane_machine::units::Rate;

use super::inventory::Inventory;
use super::nvlink_mesh::{Mesh, nvlink_mesh};

/// The class of the bridge by which a POWER processor joins NVLink.
const POWER_BRIDGE: u32 = 0x06_8001;

/// What was added, for the lists of what is unknown and what cannot be.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Names of GPUs for which direct links and a switch are both possible.
    pub(super) undecided: Vec<Vec<String>>,
    /// What cannot be true.
    pub(super) contradictions: Vec<Contradiction>,
}

/// Adds the GPU-to-GPU links that the class matrix, else NVLink ports, show.
pub(super) fn add(all: &Inventory, nodes: &[NodeId], builder: &mut FabricBuilder) -> Outcome {
    let mut outcome = Outcome::default();
    let ports = Ports::of(all);
    let class = |a: usize, b: usize| all.stated.class(a, b);
    let by_matrix = |a: usize, b: usize| -> Option<u8> {
        match class(a, b)? {
            PathClass::Gpu(Interconnect::Nvlink, n) => Some(n),
            _ => None,
        }
    };
    let count = all.devices.iter().filter(|d| d.gpu).count();
    let matrix_has_nvlink = (0..count).any(|a| (0..count).any(|b| a != b && by_matrix(a, b).is_some()));
    let origin = match &all.classes {
        Some((_, origin)) if matrix_has_nvlink => Some(origin.clone()),
        _ => all.nvlinks.first().map(|(_, origin)| origin.clone()),
    };
    let mesh = if matrix_has_nvlink {
        let known_ports = |a: usize| {
            let part = all.devices[a].part.as_deref().and_then(|p| Parts::embedded().get(p));
            part.and_then(|p| p.nvlink_bricks).map(u32::from)
        };
        let is_stated = |a: usize, b: usize| class(a, b).is_some();
        nvlink_mesh(count, by_matrix, is_stated, known_ports, |a| ports.to_switch(a) > 0)
    } else {
        ports.mesh(count)
    };
    let add = Add { all, nodes, origin };
    add.mesh(&mesh, &ports, builder);
    ports.to_cpus(nodes, builder, add.origin.as_ref());
    add.xgmi(&ports, builder);
    add.others(builder);
    add.c2c(builder);
    let name = |d: &usize| all.devices[*d].name.clone();
    outcome.undecided = mesh.undecided.iter().map(|g| g.iter().map(name).collect()).collect();
    if ports.to_switch.values().any(|bricks| *bricks > 0) {
        outcome.undecided.clear();
    }
    if !mesh.impossible.is_empty() {
        let (worst, bricks) = mesh.impossible.iter().max_by_key(|(_, n)| *n).copied().unwrap_or_default();
        outcome.contradictions.push(Contradiction {
            message: format!(
                "{} would need {bricks} NVLinks for its NV# cells, more than such a GPU has, and the cells are not those of a switch",
                all.devices[worst].name
            ),
            subjects: Subject::nodes_of(mesh.impossible.iter().map(|(d, _)| name(d))),
            origins: add.origin.iter().cloned().collect(),
        });
    }
    outcome
}

struct Add<'a> {
    all: &'a Inventory,
    nodes: &'a [NodeId],
    origin: Option<Origin>,
}

impl Add<'_> {
    fn link(&self, builder: &mut FabricBuilder, a: NodeId, b: NodeId, kind: LinkKind) {
        let mut link = Link::new(a, b, kind);
        link.origins.extend(self.origin.clone());
        builder.link(link);
    }

    fn generation(&self, device: usize, ports: &Ports) -> Option<u8> {
        let part = self.all.devices[device].part.as_deref().and_then(|p| Parts::embedded().get(p));
        part.and_then(|p| p.nvlink_generation).or_else(|| ports.generation(device))
    }

    fn mesh(&self, mesh: &Mesh, ports: &Ports, builder: &mut FabricBuilder) {
        for &(a, b, bricks) in &mesh.bundles {
            let kind = LinkKind::Gpu(GpuLink::nvlink(self.generation(a, ports), bricks));
            self.link(builder, self.nodes[a], self.nodes[b], kind);
        }
        for group in &mesh.switched {
            let mut node = Node::new(builder.fresh_name("nvswitch"), NodeKind::NvSwitch);
            node.assumed = true;
            node.note = Some("stands for all NVSwitch chips together; their number is unknown".to_owned());
            node.origins.extend(self.origin.clone());
            let switch = builder.node(node);
            for &(gpu, bricks) in group {
                let kind = LinkKind::Gpu(GpuLink::nvlink(self.generation(gpu, ports), bricks));
                self.link(builder, switch, self.nodes[gpu], kind);
            }
        }
    }

    /// GPUs of one module with their CPU.
    fn c2c(&self, builder: &mut FabricBuilder) {
        let packages = Packages::of(builder);
        for (device, &node) in self.all.devices.iter().zip(self.nodes).filter(|(d, _)| d.gpu) {
            let is_on = device.c2c.is_some() || device.facts.c2c == Some(true);
            let Some(cpu) = packages.above(node).filter(|_| is_on) else { continue };
            let mut link = Link::new(cpu, node, LinkKind::Gpu(GpuLink::c2c(device.c2c)));
            link.origins.clone_from(&device.origins);
            builder.link(link);
        }
    }

    /// Links of another maker, from the cells that name them.
    fn others(&self, builder: &mut FabricBuilder) {
        let gpus: Vec<usize> = (0..self.all.devices.len()).filter(|d| self.all.devices[*d].gpu).collect();
        for (i, &a) in gpus.iter().enumerate() {
            for &b in &gpus[i + 1..] {
                if let Some(PathClass::Gpu(Interconnect::Other, links)) = self.all.stated.class(a, b) {
                    let bundle = GpuLink { links: (links > 0).then_some(links), ..GpuLink::new(Interconnect::Other) };
                    self.link(builder, self.nodes[a], self.nodes[b], LinkKind::Gpu(bundle));
                }
            }
        }
    }

    /// xGMI from ports, else from `XGMI` cells.
    fn xgmi(&self, ports: &Ports, builder: &mut FabricBuilder) {
        let count = self.all.devices.iter().filter(|d| d.gpu).count();
        for a in 0..count {
            for b in a + 1..count {
                let cell = self.all.stated.class(a, b);
                let links = ports.between(a, b, true);
                if links > 0 || cell == Some(PathClass::XGMI) {
                    let kind = LinkKind::Gpu(GpuLink::xgmi((links > 0).then_some(links)));
                    self.link(builder, self.nodes[a], self.nodes[b], kind);
                }
            }
        }
    }
}

/// NVLink ports, with both ends found in the inventory where they can be, counted by what they join.
#[derive(Default)]
struct Ports {
    /// Links of NVLink from one device to another, by the ports of the first; the second map has those of xGMI.
    between: [HashMap<(usize, usize), u8>; 2],
    /// Bricks of each GPU that end in an NVSwitch, visible or hidden.
    to_switch: HashMap<usize, u8>,
    /// Bricks of each GPU that end in a CPU, as on POWER.
    to_cpu: BTreeMap<usize, u8>,
    /// The rate of one brick of each GPU.
    rates: HashMap<usize, Rate>,
}

impl Ports {
    fn of(all: &Inventory) -> Self {
        // one statement is enough: `-s` and `-R` list the same ports. Rates and far ends may differ in which has them.
        let far_ends = |ports: &Vec<NvlinkPort>| ports.iter().filter(|p| p.remote.is_some()).count();
        let best = all.nvlinks.iter().max_by_key(|(ports, _)| (far_ends(ports), ports.len()));
        let numbered = |number: u32| all.find(&format!("GPU{number}"));
        let mut counts = Ports::default();
        for (gpu, rate) in all.nvlinks.iter().flat_map(|(ports, _)| ports).filter_map(|p| p.gpu.zip(p.rate)) {
            if let Some(gpu) = numbered(gpu) {
                counts.rates.entry(gpu).or_insert(rate);
            }
        }
        for port in best.iter().flat_map(|(ports, _)| ports).filter(|port| port.active) {
            let by_address = port.address.and_then(|a| all.at(a));
            let Some(gpu) = by_address.or_else(|| port.gpu.and_then(numbered)) else { continue };
            let add = |count: &mut u8| *count = count.saturating_add(port.count);
            let far = match port.remote {
                Some(NvlinkEnd::Device(at)) => all.at(at),
                Some(NvlinkEnd::Gpu(n)) => numbered(n),
                Some(NvlinkEnd::Hidden) | None => None,
            };
            if let Some(far) = far {
                add(counts.between[usize::from(port.xgmi)].entry((gpu, far)).or_default());
            }
            let to_switch = match (&port.remote, port.remote_class) {
                (Some(NvlinkEnd::Hidden), class) => class != Some(POWER_BRIDGE),
                (Some(NvlinkEnd::Device(_)), class) => {
                    far.is_none() && class.is_none_or(|c| c >> 8 == 0x0680 && c != POWER_BRIDGE)
                }
                (Some(NvlinkEnd::Gpu(_)) | None, _) => false,
            };
            if to_switch {
                add(counts.to_switch.entry(gpu).or_default());
            }
            if port.remote_class == Some(POWER_BRIDGE) {
                add(counts.to_cpu.entry(gpu).or_default());
            }
        }
        counts
    }

    /// Links between two devices, by the ports of the one that has more; for NVLink or xGMI.
    fn between(&self, a: usize, b: usize, xgmi: bool) -> u8 {
        let towards = |pair: (usize, usize)| self.between[usize::from(xgmi)].get(&pair).copied().unwrap_or(0);
        towards((a, b)).max(towards((b, a)))
    }

    fn to_switch(&self, gpu: usize) -> u8 {
        self.to_switch.get(&gpu).copied().unwrap_or(0)
    }

    fn mesh(&self, count: usize) -> Mesh {
        let mut mesh = Mesh::default();
        for a in 0..count {
            for b in a + 1..count {
                let bricks = self.between(a, b, false);
                if bricks > 0 {
                    mesh.bundles.push((a, b, bricks));
                }
            }
        }
        let switched: Vec<(usize, u8)> =
            (0..count).map(|g| (g, self.to_switch(g))).filter(|(_, bricks)| *bricks > 0).collect();
        if !switched.is_empty() {
            mesh.switched.push(switched);
        }
        mesh
    }

    /// POWER: bricks that end in a CPU.
    fn to_cpus(&self, nodes: &[NodeId], builder: &mut FabricBuilder, origin: Option<&Origin>) {
        let packages = Packages::of(builder);
        for (&gpu, &bricks) in self.to_cpu.iter().filter(|(_, bricks)| **bricks > 0) {
            let Some((&node, cpu)) = nodes.get(gpu).and_then(|node| Some((node, packages.above(*node)?))) else {
                continue;
            };
            let mut link = Link::new(cpu, node, LinkKind::Gpu(GpuLink::nvlink(self.generation(gpu), bricks)));
            link.origins.extend(origin.cloned());
            builder.link(link);
        }
    }

    /// From the rate of one brick, in GB/s and direction.
    fn generation(&self, gpu: usize) -> Option<u8> {
        Interconnect::Nvlink.generation_of_rate(*self.rates.get(&gpu)?)
    }
}

/// The packages above devices, in a fabric that is still being built.
struct Packages {
    /// What is just above each node, and whether that is a CPU.
    above: HashMap<NodeId, (NodeId, bool)>,
}

impl Packages {
    fn of(builder: &FabricBuilder) -> Self {
        let mut above = HashMap::new();
        for link in builder.links().iter().filter(|l| l.kind.is_tree() || l.kind == LinkKind::OnDie) {
            let is_cpu = builder.nodes()[link.a.index()].kind == NodeKind::Cpu;
            above.entry(link.b).or_insert((link.a, is_cpu));
        }
        Packages { above }
    }

    fn above(&self, device: NodeId) -> Option<NodeId> {
        let mut at = device;
        // no tree is deeper than its nodes are many
        for _ in 0..=self.above.len() {
            let (up, is_cpu) = *self.above.get(&at)?;
            if is_cpu {
                return Some(up);
            }
            at = up;
        }
        None
    }
}
