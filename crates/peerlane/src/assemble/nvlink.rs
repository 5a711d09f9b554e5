//! NVLink, xGMI and what else joins GPUs beside PCIe.

use std::collections::{BTreeMap, HashMap};

use crate::catalogue::Parts;
use crate::evidence::{NvlinkEnd, NvlinkPort, Origin};
use crate::fabric::{FabricBuilder, Link, LinkKind, Node, NodeId, NodeKind, PathClass};
use crate::machine::Contradiction;
use crate::units::Rate;

use super::inventory::Inventory;
use super::nvlink_mesh::{Mesh, nvlink_mesh};

/// What was added, for the lists of what is unknown and what cannot be.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Names of GPUs for which direct links and a switch are both possible.
    pub(super) undecided: Vec<Vec<String>>,
    /// What cannot be true.
    pub(super) contradictions: Vec<Contradiction>,
}

/// Adds the GPU-to-GPU links that the class matrix, else NVLink ports, tell of.
pub(super) fn add(all: &Inventory, nodes: &[NodeId], builder: &mut FabricBuilder) -> Outcome {
    let mut outcome = Outcome::default();
    let ports = Ports::of(all);
    let by_matrix = |a: usize, b: usize| -> Option<u8> {
        match all.stated(a, b)? {
            PathClass::Nvlink(n) => Some(n),
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
        let said = |a: usize, b: usize| all.stated(a, b).is_some();
        nvlink_mesh(count, by_matrix, said, known_ports, |a| ports.to_switch(a) > 0)
    } else {
        ports.mesh(count)
    };
    let add = Add { all, nodes, origin };
    add.mesh(&mesh, &ports, builder);
    ports.to_cpus(nodes, builder, add.origin.as_ref());
    add.xgmi(&ports, builder);
    let name = |d: &usize| all.devices[*d].name.clone();
    outcome.undecided = mesh.undecided.iter().map(|g| g.iter().map(name).collect()).collect();
    if ports.to_switch_any() {
        outcome.undecided.clear();
    }
    if !mesh.impossible.is_empty() {
        let (worst, bricks) = mesh.impossible.iter().max_by_key(|(_, n)| *n).copied().unwrap_or_default();
        outcome.contradictions.push(Contradiction {
            message: format!(
                "{} would need {bricks} NVLinks for its NV# cells, more than such a GPU has, and the cells are not those of a switch",
                all.devices[worst].name
            ),
            subjects: mesh.impossible.iter().map(|(d, _)| name(d)).collect(),
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
            let kind = LinkKind::Nvlink { generation: self.generation(a, ports), bricks };
            self.link(builder, self.nodes[a], self.nodes[b], kind);
        }
        for group in &mesh.switched {
            let mut node = Node::new(builder.fresh_name("nvswitch"), NodeKind::NvSwitch);
            node.assumed = true;
            node.note = Some("stands for all NVSwitch chips together; their number is not told".to_owned());
            node.origins.extend(self.origin.clone());
            let switch = builder.node(node);
            for &(gpu, bricks) in group {
                let kind = LinkKind::Nvlink { generation: self.generation(gpu, ports), bricks };
                self.link(builder, switch, self.nodes[gpu], kind);
            }
        }
    }

    /// xGMI from ports, else from `XGMI` cells.
    fn xgmi(&self, ports: &Ports, builder: &mut FabricBuilder) {
        let count = self.all.devices.iter().filter(|d| d.gpu).count();
        for a in 0..count {
            for b in a + 1..count {
                let links = ports.between(a, b, true);
                if links > 0 || self.all.stated(a, b) == Some(PathClass::Xgmi) {
                    let kind = LinkKind::Xgmi { count: (links > 0).then_some(links) };
                    self.link(builder, self.nodes[a], self.nodes[b], kind);
                }
            }
        }
    }
}

/// NVLink ports, with both ends found in the inventory where they can be.
struct Ports<'a> {
    all: &'a Inventory,
    /// GPU index, port.
    list: Vec<(usize, &'a NvlinkPort)>,
    /// Bricks from one device to another; xGMI or not.
    towards: HashMap<(usize, usize, bool), u8>,
    /// Bricks that end in an NVSwitch, by device.
    to_switch: Vec<u8>,
    /// The rate of one brick, by device.
    rates: Vec<Option<Rate>>,
}

impl<'a> Ports<'a> {
    fn of(all: &'a Inventory) -> Self {
        // one statement is enough: `-s` and `-R` list the same ports. Rates and far ends may differ in which has them.
        let telling = |ports: &Vec<NvlinkPort>| ports.iter().filter(|p| p.remote.is_some()).count();
        let best = all.nvlinks.iter().max_by_key(|(ports, _)| (telling(ports), ports.len()));
        let by_index = |port: &NvlinkPort| port.gpu.and_then(|n| all.find(&format!("GPU{n}")));
        let mut rates = vec![None; all.devices.len()];
        for port in all.nvlinks.iter().flat_map(|(ports, _)| ports) {
            if let Some(rate) = by_index(port).and_then(|gpu| rates.get_mut(gpu)) {
                *rate = rate.or(port.rate);
            }
        }
        let (list, towards, to_switch) = (Vec::new(), HashMap::new(), vec![0; all.devices.len()]);
        let mut found = Ports { all, list, towards, to_switch, rates };
        for port in best.iter().flat_map(|(ports, _)| ports) {
            let gpu = port.address.and_then(|a| all.at(a)).or_else(|| by_index(port));
            if let Some(gpu) = gpu.filter(|_| port.active) {
                found.list.push((gpu, port));
                found.count(gpu, port);
            }
        }
        found
    }

    /// Counts the bricks of a GPU's port by where they lead.
    fn count(&mut self, gpu: usize, port: &NvlinkPort) {
        let far = match port.remote {
            Some(NvlinkEnd::Device(at)) => self.all.at(at),
            _ => None,
        };
        if let Some(far) = far {
            let bricks = self.towards.entry((gpu, far, port.xgmi)).or_default();
            *bricks = bricks.saturating_add(port.count);
        }
        // seen or hidden
        let in_switch = match (&port.remote, port.remote_class) {
            (Some(NvlinkEnd::Hidden), _) => true,
            (Some(NvlinkEnd::Device(_)), class) => {
                far.is_none() && class.is_none_or(|c| c >> 8 == 0x0680 && c != 0x068001)
            }
            (None, _) => false,
        };
        if let Some(bricks) = self.to_switch.get_mut(gpu).filter(|_| in_switch) {
            *bricks = bricks.saturating_add(port.count);
        }
    }

    fn between(&self, a: usize, b: usize, xgmi: bool) -> u8 {
        let towards = |from, to| self.towards.get(&(from, to, xgmi)).copied().unwrap_or(0);
        towards(a, b).max(towards(b, a))
    }

    /// Bricks of a GPU that end in an NVSwitch.
    fn to_switch(&self, gpu: usize) -> u8 {
        self.to_switch.get(gpu).copied().unwrap_or(0)
    }

    fn to_switch_any(&self) -> bool {
        (0..self.all.devices.len()).any(|d| self.to_switch(d) > 0)
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
        let mut to_cpu: BTreeMap<usize, u8> = BTreeMap::new();
        for (gpu, port) in self.list.iter().filter(|(_, p)| p.remote_class == Some(0x068001)) {
            let bricks = to_cpu.entry(*gpu).or_default();
            *bricks = bricks.saturating_add(port.count);
        }
        for (gpu, bricks) in to_cpu {
            let Some(&node) = nodes.get(gpu).filter(|_| bricks > 0) else { continue };
            let Some(cpu) = cpu_above(builder, node) else { continue };
            let mut link = Link::new(cpu, node, LinkKind::Nvlink { generation: self.generation(gpu), bricks });
            link.origins.extend(origin.cloned());
            builder.link(link);
        }
    }

    /// From the rate of one brick, in GB/s and direction.
    fn generation(&self, gpu: usize) -> Option<u8> {
        let gb = self.rates.get(gpu).copied().flatten()?.gb();
        [(1u8, 20.0), (2, 25.781), (3, 25.0), (4, 26.5625), (5, 53.125), (5, 50.0)]
            .into_iter()
            .find(|(_, rate)| (gb - rate).abs() < 0.2)
            .map(|(generation, _)| generation)
    }
}

/// The package above a device, in a fabric that is still being built.
fn cpu_above(builder: &FabricBuilder, device: NodeId) -> Option<NodeId> {
    let mut at = device;
    // no tree is deeper than its nodes are many
    for _ in 0..builder.nodes().len() {
        let up = builder.links().iter().find(|l| l.b == at && (l.kind.is_tree() || l.kind == LinkKind::OnDie))?;
        at = up.a;
        if builder.nodes()[at.index()].kind == NodeKind::Cpu {
            return Some(at);
        }
    }
    None
}
