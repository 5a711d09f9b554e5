//! What a machine's sources leave open, and sets of assumptions that would close it.

use super::cpus::{CPUS, Cpu};
use crate::model::{Assume, FittedWidth, FittedWidths, Model};
use peerlane_machine::fabric::{LinkId, LinkKind, NodeId, NodeKind, PathClass, PcieGeneration, PcieWidth};
use peerlane_machine::fact::{Claim, Fact, P2pStatus};
use peerlane_machine::machine::Machine;
use peerlane_read::catalogue::{Part, Parts, vendor_of};

/// Lanes that slots, risers and bifurcated ports have.
const LANES: [u8; 4] = [16, 8, 4, 1];

/// Levels of switches that widths are carried up.
const LEVELS: usize = 4;

/// GPUs of one product whose links are open.
#[derive(Debug)]
pub(super) struct Group {
    /// Its name, or its part's; empty where no source names it.
    pub(super) product: String,
    /// What the product can do.
    pub(super) able: Option<PcieWidth>,
    /// The GPUs.
    pub(super) gpus: Vec<NodeId>,
}

/// What no source states.
pub(super) struct Open<'p> {
    /// Links of GPUs.
    pub(super) groups: Vec<Group>,
    /// Links of other devices.
    others: Vec<LinkId>,
    /// CPU packages of no known part.
    packages: Vec<NodeId>,
    /// What these may be.
    pub(super) cpus: Vec<(&'p Part, &'static Cpu)>,
    /// Pairs of GPUs across sockets of which no source states whether they have peer access.
    sockets: Vec<(NodeId, NodeId)>,
    /// The same of pairs within one.
    within: Vec<(NodeId, NodeId)>,
    /// Network adapters of no known part.
    nics: Vec<NodeId>,
    /// What the prose says that they are.
    pub(super) adapter: Option<&'p Part>,
}

/// How two GPUs copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Access {
    /// Directly.
    Direct,
    /// Through host memory.
    Staged,
}

/// A set of assumptions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Candidate {
    /// A width for each group.
    pub(super) widths: Vec<PcieWidth>,
    /// What the CPUs are, by its place in [`Open::cpus`]; `None` leaves them unknown.
    pub(super) cpu: Option<usize>,
    /// Across sockets; `None` where nothing is open there.
    pub(super) sockets: Option<Access>,
    /// Within a socket.
    pub(super) within: Option<Access>,
}

impl<'p> Open<'p> {
    /// What the sources of a machine leave open.
    pub(super) fn of(machine: &Machine, parts: &'p Parts) -> Self {
        let fabric = &machine.fabric;
        let stated = Model::new(machine, parts);
        let is_open =
            |id: LinkId| matches!(fabric.link(id).kind, LinkKind::Pcie { .. }) && stated.width_of(id).is_none();
        let gpus: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).collect();
        let mut groups: Vec<Group> = Vec::new();
        let mut above_gpus = Vec::new();
        for &gpu in &gpus {
            let Some((link, _)) = fabric.upstream(gpu).filter(|(link, _)| is_open(*link)) else { continue };
            above_gpus.push(link);
            let node = fabric.node(gpu);
            let part = node.part.as_deref().and_then(|key| parts.get(key));
            let named = node.product.clone().or_else(|| part.map(|part| part.title.clone()));
            let (product, able) = (named.unwrap_or_default(), part.and_then(|part| part.pcie));
            match groups.iter_mut().find(|group| group.product == product) {
                Some(group) => group.gpus.push(gpu),
                None => groups.push(Group { product, able, gpus: vec![gpu] }),
            }
        }
        let others = fabric.link_ids().filter(|id| is_open(*id) && !above_gpus.contains(id)).collect();
        let packages: Vec<NodeId> =
            fabric.of_kind(NodeKind::Cpu).filter(|cpu| fabric.node(*cpu).part.is_none()).collect();
        let vendor = packages.first().and_then(|cpu| vendor_of(fabric, parts, *cpu));
        // a machine whose tree is not known may name its CPU all the same
        let model = machine.evidence.iter().find_map(|one| match &one.fact {
            Fact::Host(host) => parts.of_node(NodeKind::Cpu, Some(host.cpu_model.as_deref()?)),
            _ => None,
        });
        let model = model.filter(|part| CPUS.iter().any(|cpu| cpu.part == part.name));
        let fits = |part: &&Part| match model {
            Some(model) => part.name == model.name,
            None => vendor.is_none() || part.vendor == vendor,
        };
        let cpus = CPUS.iter().filter_map(|cpu| Some((parts.get(cpu.part).filter(fits)?, cpu)));
        let cpus = if packages.is_empty() { Vec::new() } else { cpus.collect() };
        let nics: Vec<NodeId> = fabric.of_kind(NodeKind::Nic).filter(|nic| fabric.node(*nic).part.is_none()).collect();
        let named = machine.remarks.iter().find_map(|remark| match &remark.claim {
            Claim::Nic(product) => {
                let key = product.replace("hdr 100", "hdr100").replace(' ', "-");
                parts.get(&key).or_else(|| parts.of_node(NodeKind::Nic, Some(product)))
            }
            _ => None,
        });
        let adapter = named.filter(|_| !nics.is_empty());
        let mut open = Open { groups, others, packages, cpus, sockets: Vec::new(), within: Vec::new(), nics, adapter };
        let unstated = |a: NodeId, b: NodeId| {
            let stated = [(a, b), (b, a)].into_iter().filter_map(|pair| machine.p2p.get(&pair));
            stated.copied().all(|status| status == P2pStatus::Unknown)
        };
        for (a, b) in gpus.iter().flat_map(|a| gpus.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b) {
            if !unstated(a, b) || !stated.offers_peer_access(a) || stated.no_peer_access(a, b).is_some() {
                continue;
            }
            match fabric.class(a, b) {
                Some(PathClass::Sys) if !open.packages.is_empty() => open.sockets.push((a, b)),
                Some(class) if class.is_pcie() && class != PathClass::Sys => open.within.push((a, b)),
                _ => {}
            }
        }
        open
    }

    /// Whether nothing is open that rates depend on.
    pub(super) fn is_closed(&self) -> bool {
        self.groups.is_empty() && self.sockets.is_empty()
    }

    /// Widths that a group may have.
    pub(super) fn widths(&self, group: usize) -> Vec<PcieWidth> {
        let able = self.groups.get(group).and_then(|group| group.able);
        let generation = able.and_then(|able| able.generation).unwrap_or(PcieGeneration::Gen5);
        let lanes = able.and_then(|able| able.lanes).unwrap_or(16);
        let generations = PcieGeneration::ALL.into_iter().filter(|g| *g <= generation);
        generations.flat_map(|g| LANES.iter().filter(|l| **l <= lanes).map(move |l| PcieWidth::new(g, *l))).collect()
    }

    /// The same width for all groups, as far as their products can do it.
    pub(super) fn everywhere(&self, width: PcieWidth) -> Vec<PcieWidth> {
        let of = |group: &Group| PcieWidth {
            generation: width.generation.min(group.able.and_then(|able| able.generation).or(width.generation)),
            lanes: width.lanes.min(group.able.and_then(|able| able.lanes).or(width.lanes)),
        };
        self.groups.iter().map(of).collect()
    }

    /// What pairs across sockets may do.
    pub(super) fn sockets(&self) -> &'static [Option<Access>] {
        choices(&self.sockets)
    }

    /// What pairs within a socket may do.
    pub(super) fn within(&self) -> &'static [Option<Access>] {
        choices(&self.within)
    }

    /// The machine with the CPUs and the peer access of a candidate.
    pub(super) fn machine(&self, machine: &Machine, candidate: &Candidate) -> Machine {
        let mut machine = machine.clone();
        let cpu = candidate.cpu.and_then(|cpu| self.cpus.get(cpu));
        if cpu.is_some() || self.adapter.is_some() {
            let unknown: Vec<_> = machine.fabric.unknown_paths().collect();
            let links: Vec<LinkId> = machine.fabric.link_ids().collect();
            let mut builder = std::mem::take(&mut machine.fabric).into_builder();
            if let Some((part, known)) = cpu {
                for cpu in &self.packages {
                    builder.node_mut(*cpu).part = Some(part.name.clone());
                }
                for link in links {
                    let link = builder.link_mut(link);
                    if link.kind == LinkKind::Smp && link.part.is_none() {
                        link.part = known.between.map(str::to_owned);
                    }
                }
            }
            if let Some(part) = self.adapter {
                for nic in &self.nics {
                    builder.node_mut(*nic).part = Some(part.name.clone());
                }
            }
            // nodes and links are those that were built before
            machine.fabric = builder.build().unwrap_or_default();
            machine.fabric.set_unknown_paths(unknown);
        }
        for (pairs, access) in [(&self.sockets, candidate.sockets), (&self.within, candidate.within)] {
            let status = match access {
                Some(Access::Direct) => P2pStatus::Ok,
                Some(Access::Staged) => P2pStatus::NotSupported,
                None => continue,
            };
            machine.p2p.extend(pairs.iter().map(|pair| (*pair, status)));
        }
        machine
    }

    /// The widths of all open links: those of GPUs as a candidate has them, those of switches as wide as the widest below them,
    /// those of other devices as new as the GPUs'.
    pub(super) fn links(
        &self,
        machine: &Machine,
        parts: &Parts,
        candidate: &Candidate,
        measured: bool,
    ) -> FittedWidths {
        let fabric = &machine.fabric;
        let mut fitted = FittedWidths::new();
        for (group, width) in self.groups.iter().zip(&candidate.widths) {
            let above = group.gpus.iter().filter_map(|gpu| fabric.upstream(*gpu));
            fitted.extend(above.map(|(link, _)| (link, FittedWidth { width: *width, measured })));
        }
        let newest = candidate.widths.iter().filter_map(|width| width.generation).max();
        let usual = Model::assuming(machine, parts, Assume::Usual);
        let mut switches = Vec::new();
        for id in &self.others {
            let link = fabric.link(*id);
            let below = if fabric.upstream(link.a).is_some_and(|(up, _)| up == *id) { link.a } else { link.b };
            match fabric.node(below).kind {
                NodeKind::Switch => switches.push((*id, below)),
                _ => {
                    let Some((width, _)) = usual.width_of(*id) else { continue };
                    let width = PcieWidth { generation: width.generation.min(newest.or(width.generation)), ..width };
                    fitted.insert(*id, FittedWidth { width, measured: false });
                }
            }
        }
        // from the lowest up
        for _ in 0..LEVELS {
            for (id, switch) in &switches {
                let below = fabric.downstream(*switch).filter_map(|(link, _)| {
                    fitted
                        .get(&link)
                        .map(|fit| fit.width)
                        .or_else(|| usual.width_of(link).filter(|w| !w.1).map(|w| w.0))
                });
                let rate = |width: &PcieWidth| width.raw_rate().map_or(0.0, |rate| rate.bytes_per_second());
                // a board's slots behind one switch mostly share an uplink of full width
                let widest = below.max_by(|a, b| rate(a).total_cmp(&rate(b)));
                if let Some(widest) = widest {
                    let width = PcieWidth { lanes: Some(16), ..widest };
                    fitted.insert(*id, FittedWidth { width, measured });
                }
            }
        }
        fitted
    }
}

fn choices(pairs: &[(NodeId, NodeId)]) -> &'static [Option<Access>] {
    if pairs.is_empty() { &[None] } else { &[Some(Access::Direct), Some(Access::Staged)] }
}
