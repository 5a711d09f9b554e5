//! Nodes and links of a system file → its fabric.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use toml::Spanned;

use super::file::{BundleEntry, LinkEntry, NodeEntry, SystemFile};
use super::names::{did_you_mean, listed, meant, unknown_node};
use super::problems::{Problems, SystemError};
use super::source::Source;
use super::widths::{common_nvlink, common_width, exceeds};
use super::{NO_PART, TOOL};
use crate::catalogue::{Part, PartKind, Parts};
use peerlane_machine::fabric::{
    DriveRates, FAMILIES, Fabric, FabricBuilder, FabricError, GpuLink, Interconnect, Label, Link, LinkId, LinkKind,
    Method, Node, NodeId, NodeKind, PcieWidth,
};
use peerlane_machine::machine::Slot;
use peerlane_machine::names::numbered;
use peerlane_machine::units::Rate;

/// The most nodes that a file may list: many times those of the largest machine of one host.
const MAX_NODES: usize = 2048;

/// Builds the fabric that a file describes.
///
/// A node that is wrong keeps its place, so that what names it is not wrong too. `None` where no tree can be made.
pub(super) fn build(system: &SystemFile, source: &Source, parts: &Parts, problems: &mut Problems) -> Option<Fabric> {
    if system.nodes.len() > MAX_NODES {
        let count = system.nodes.len();
        let message = format!("{count} nodes; a system file describes one machine, of at most {MAX_NODES}");
        return problems.keep(Err(source.refuse(message)));
    }
    let mut building = Building {
        source,
        parts,
        builder: FabricBuilder::new(),
        names: HashMap::new(),
        slots: system.slots.iter().map(|s| (s.get_ref().name.as_str(), s.get_ref())).collect(),
        taken_slots: HashMap::new(),
        joined: HashMap::new(),
        nvswitch: HashMap::new(),
        root_complexes: HashMap::new(),
        package: HashMap::new(),
        broken: HashSet::new(),
    };
    // a TOML table has no order, and devices are numbered in the order a person wrote them
    let mut nodes: Vec<_> = system.nodes.iter().collect();
    nodes.sort_by_key(|(name, _)| name.span().start);
    for (name, entry) in &nodes {
        let read = building.node(name, entry);
        if problems.keep_of(&name.span(), read).is_none() {
            building.stand_in(name, entry);
        }
    }
    for (name, entry) in &nodes {
        let read = building.belonging(name, entry);
        problems.keep_of(&name.span(), read);
    }
    let memories = building.host_memories();
    problems.keep(memories)?;
    for link in &system.links {
        for name in &link.get_ref().between {
            problems.keep(building.find(name));
        }
        let names_known = link.get_ref().between.iter().all(|name| building.names.contains_key(name.get_ref()));
        let read = building.link(link);
        if names_known {
            problems.keep_of(&link.span(), read);
        }
    }
    building.domains();
    let links = building.lines_of_links();
    let refused = |e: FabricError| match &e {
        FabricError::TwoParents(name, ..) if links.contains_key(name) => source.at_line(links[name], e.to_string()),
        _ => source.refuse(e.to_string()),
    };
    problems.keep(building.builder.build().and_then(finish).map_err(refused))
}

struct Building<'a> {
    source: &'a Source<'a>,
    parts: &'a Parts,
    builder: FabricBuilder,
    names: HashMap<String, NodeId>,
    slots: HashMap<&'a str, &'a Slot>,
    taken_slots: HashMap<&'a str, u32>,
    /// Two nodes and how they are joined → the line of that link.
    joined: HashMap<(NodeId, NodeId, &'static str), u32>,
    /// GPU → its NVSwitch.
    nvswitch: HashMap<NodeId, NodeId>,
    /// CPU → its root complexes.
    root_complexes: HashMap<NodeId, Vec<NodeId>>,
    /// Root complex or host memory → its CPU.
    package: HashMap<NodeId, NodeId>,
    /// Nodes of which too little is known to say what their links may be.
    broken: HashSet<NodeId>,
}

impl<'a> Building<'a> {
    fn add(&mut self, node: Node, span: Range<usize>) -> Result<NodeId, SystemError> {
        if self.names.contains_key(&node.name) {
            let message = format!("a node called '{}' is there already; give this one another name", node.name);
            return Err(self.source.error(span, message));
        }
        let names: Vec<String> = std::iter::once(&node.name).chain(&node.aliases).cloned().collect();
        let id = self.builder.node(node);
        self.names.extend(names.into_iter().map(|name| (name, id)));
        Ok(id)
    }

    fn node(&mut self, name: &Spanned<String>, entry: &NodeEntry) -> Result<(), SystemError> {
        let at = name.span();
        if name.get_ref().trim().is_empty() || name.get_ref() == "host" {
            return Err(self.source.error(at, "a node needs a name, other than 'host', which means all host memory"));
        }
        let part = match (&entry.part, entry.kind) {
            (Some(key), _) if key.get_ref() == NO_PART => None,
            (Some(key), kind) => Some(self.part(key, kind)?),
            (None, kind) => kind.and_then(|kind| self.parts.of_node(kind, entry.product.as_deref())),
        };
        let kind = match (entry.kind, part.and_then(|p| p.kind.node_kind())) {
            (Some(kind), Some(by_part)) if kind != by_part && kind != NodeKind::Card => {
                let message = format!(
                    "'{}' is a {} but its part is a {}; leave `kind` out, or name another part",
                    name.get_ref(),
                    kind.name(),
                    by_part.name()
                );
                return Err(self.source.error(at, message));
            }
            (Some(kind), _) | (None, Some(kind)) => kind,
            (None, None) if part.is_some() => {
                return Err(self
                    .source
                    .error(at, "an inter-socket part makes no node; write it in a link: smp = \"…\""));
            }
            (None, None) => {
                let message = format!("'{}' needs a part, or a kind such as kind = \"switch\"", name.get_ref());
                return Err(self.source.error(at, message));
            }
        };
        let mut node = Node::new(name.get_ref(), kind);
        node.aliases.clone_from(&entry.aliases);
        node.part = part.map(|p| p.name.clone());
        node.product.clone_from(&entry.product);
        node.vendor = entry.vendor;
        node.address = entry.address;
        node.numa = entry.numa;
        node.cpus.clone_from(&entry.cpus);
        node.domain = entry.domain;
        let usable = |rate: Option<f64>| rate.is_none_or(|rate| rate.is_finite() && rate > 0.0);
        if !usable(entry.line_rate) || entry.line_rate.is_some() && !matches!(kind, NodeKind::Nic | NodeKind::Fpga) {
            return Err(self.source.error(at, "`line_rate` is Gb/s of a NIC's or capture card's port, above 0"));
        }
        let drive = [entry.read_rate, entry.write_rate];
        if !drive.into_iter().all(usable) || drive.iter().any(Option::is_some) && kind != NodeKind::Nvme {
            return Err(self.source.error(at, "`read_rate` and `write_rate` are GB/s of a drive (nvme), above 0"));
        }
        let [read, write] = drive.map(|rate| rate.map(Rate::from_gb));
        node.drive = DriveRates { read, write };
        node.line_rate = entry.line_rate.map(Rate::from_gbit);
        if let Some(method) = &entry.method {
            if kind != NodeKind::Nic {
                return Err(self.source.error(method.span(), "`method` is how a NIC accesses GPU memory"));
            }
            let read = method.get_ref().parse::<Method>();
            node.method = Some(read.map_err(|e| self.source.error(method.span(), e.to_string()))?);
        }
        node.assumed = entry.assumed;
        node.stand_in = entry.stand_in;
        node.note.clone_from(&entry.note);
        node.origins.push(self.source.origin(TOOL, at.clone()));
        self.add(node, at)?;
        Ok(())
    }

    /// Puts a node that is wrong where it belongs, of the kind that it seems to be.
    fn stand_in(&mut self, name: &Spanned<String>, entry: &NodeEntry) {
        let nearest = || {
            let found = self.parts.nearest(entry.part.as_ref()?.get_ref(), |part| part.node_kind().is_some());
            found.first().and_then(|(_, part)| part.kind.node_kind())
        };
        let by_name = || match numbered(name.get_ref()).map_or(name.get_ref().as_str(), |(stem, _)| stem) {
            stem if stem.eq_ignore_ascii_case("gpu") => NodeKind::Gpu,
            stem if stem.eq_ignore_ascii_case("cpu") => NodeKind::Cpu,
            _ => NodeKind::Switch,
        };
        let kind = entry.kind.or_else(nearest).unwrap_or_else(by_name);
        if let Ok(id) = self.add(Node::new(name.get_ref(), kind), name.span()) {
            self.broken.insert(id);
        }
    }

    /// The line of the last link of each node.
    fn lines_of_links(&self) -> HashMap<String, u32> {
        let nodes = self.builder.nodes();
        let line = |link: &Link| Some(link.origins.first()?.lines?.0);
        let ends = self.builder.links().iter().filter_map(|link| Some((line(link)?, [link.a, link.b])));
        ends.flat_map(|(line, ends)| ends.map(|id| (nodes[id.index()].name.clone(), line))).collect()
    }

    fn part(&self, key: &Spanned<String>, kind: Option<NodeKind>) -> Result<&'a Part, SystemError> {
        self.parts.meant(key.get_ref()).ok_or_else(|| {
            let fits = |part: PartKind| kind.is_none_or(|kind| part.node_kind() == Some(kind));
            let near: Vec<String> = self.parts.nearest(key.get_ref(), fits).into_iter().map(|(name, _)| name).collect();
            let hint = match near.as_slice() {
                [] => "'peerlane systems parts' lists them".to_owned(),
                near => did_you_mean(near),
            };
            let message = format!("no part '{}' is known; {hint} Or leave `part` out and give a kind", key.get_ref());
            self.source.error(key.span(), message.replace("them Or", "them, or"))
        })
    }

    fn find(&self, name: &Spanned<String>) -> Result<NodeId, SystemError> {
        self.names.get(name.get_ref()).copied().ok_or_else(|| unknown_node(self.source, name, self.names.keys()))
    }

    /// Joins root complexes and host memory to their CPU, and ports to their card.
    fn belonging(&mut self, name: &Spanned<String>, entry: &NodeEntry) -> Result<(), SystemError> {
        let id = self.find(name)?;
        let kind = self.builder.nodes()[id.index()].kind;
        if let Some(of) = &entry.of {
            let cpu = self.find(of)?;
            let owner = self.builder.nodes()[cpu.index()].kind;
            if owner != NodeKind::Cpu || !matches!(kind, NodeKind::RootComplex | NodeKind::Host) {
                let message = "`of` joins a root complex or host memory to its CPU, as in of = \"cpu0\"";
                return Err(self.source.error(of.span(), message));
            }
            self.on_die(cpu, id, of.span());
        }
        if let Some(card_name) = &entry.card {
            let card = match self.names.get(card_name.get_ref()) {
                Some(card) => *card,
                None => {
                    let mut card = Node::new(card_name.get_ref(), NodeKind::Card);
                    card.part = entry.part.as_ref().map(|p| p.get_ref().clone());
                    card.assumed = entry.assumed;
                    card.origins.push(self.source.origin(TOOL, card_name.span()));
                    self.add(card, card_name.span())?
                }
            };
            if self.builder.nodes()[card.index()].kind != NodeKind::Card || card == id {
                let message = format!("'{}' is no card; write a name that no node has", card_name.get_ref());
                return Err(self.source.error(card_name.span(), message));
            }
            self.join(Link::new(card, id, LinkKind::OnCard), card_name.span());
        }
        Ok(())
    }

    fn on_die(&mut self, cpu: NodeId, id: NodeId, at: Range<usize>) {
        self.package.insert(id, cpu);
        if self.builder.nodes()[id.index()].kind == NodeKind::RootComplex {
            self.root_complexes.entry(cpu).or_default().push(id);
        }
        let owner = self.builder.nodes()[cpu.index()].clone();
        let node = self.builder.node_mut(id);
        node.numa = node.numa.or(owner.numa);
        node.cpus = node.cpus.take().or(owner.cpus);
        self.join(Link::new(cpu, id, LinkKind::OnDie), at);
    }

    fn join(&mut self, mut link: Link, at: Range<usize>) {
        link.origins.push(self.source.origin(TOOL, at));
        self.builder.link(link);
    }

    /// A node that follows from its CPU: `cpu0` has `host0` and `rc0`.
    fn of_cpu(&mut self, stem: &str, kind: NodeKind, cpu: NodeId, at: Range<usize>) -> Result<NodeId, SystemError> {
        let owner = &self.builder.nodes()[cpu.index()];
        let short = owner.name.strip_prefix("cpu").map(|rest| format!("{stem}{rest}"));
        let name = short.filter(|n| !self.names.contains_key(n)).unwrap_or_else(|| format!("{}-{stem}", owner.name));
        let mut node = Node::new(name, kind);
        node.assumed = owner.assumed;
        node.origins.clone_from(&owner.origins);
        let id = self.add(node, at.clone())?;
        self.on_die(cpu, id, at);
        Ok(id)
    }

    fn of_kind(&self, kind: NodeKind) -> BTreeSet<NodeId> {
        let nodes = self.builder.nodes();
        self.names.values().copied().filter(|id| nodes[id.index()].kind == kind).collect()
    }

    fn host_memories(&mut self) -> Result<(), SystemError> {
        let given: BTreeSet<NodeId> =
            self.of_kind(NodeKind::Host).iter().filter_map(|h| self.package.get(h)).copied().collect();
        for cpu in self.of_kind(NodeKind::Cpu) {
            if !given.contains(&cpu) && !self.builder.nodes()[cpu.index()].stand_in {
                self.of_cpu("host", NodeKind::Host, cpu, 0..0)?;
            }
        }
        Ok(())
    }

    /// The root complex that stands for an end of a PCIe link, where that end is a CPU.
    fn pcie_end(&mut self, id: NodeId, at: Range<usize>) -> Result<NodeId, SystemError> {
        if self.builder.nodes()[id.index()].kind != NodeKind::Cpu {
            return Ok(id);
        }
        match self.root_complexes.get(&id).map(Vec::as_slice) {
            None | Some([]) => self.of_cpu("rc", NodeKind::RootComplex, id, at),
            Some([one]) => Ok(*one),
            Some(several) => {
                let names = listed(several.iter().map(|rc| self.builder.nodes()[rc.index()].name.as_str()));
                let message = format!("this CPU has several root complexes; name the one meant: {names}");
                Err(self.source.error(at, message))
            }
        }
    }

    fn link(&mut self, entry: &'a Spanned<LinkEntry>) -> Result<(), SystemError> {
        let (at, entry) = (entry.span(), entry.get_ref());
        let [first, second] = &entry.between;
        let (mut a, mut b) = (self.find(first)?, self.find(second)?);
        if self.broken.contains(&a) || self.broken.contains(&b) {
            return Ok(());
        }
        let bundle = entry.bundles().next();
        if usize::from(entry.pcie.is_some()) + usize::from(entry.smp.is_some()) + entry.bundles().count() != 1 {
            let keys = FAMILIES.iter().map(|family| match family.label {
                Label::Drawn(_) => format!("{} = true", family.key),
                _ => format!("{} = 2", family.key),
            });
            let keys = keys.collect::<Vec<_>>().join(", ");
            let message = format!("a link needs exactly one of pcie = \"3.0 x16\", smp = \"qpi-haswell\", {keys}");
            return Err(self.source.error(at, message));
        }
        if entry.pcie.is_none() && (entry.allowed.is_some() || entry.slot.is_some()) {
            return Err(self.source.error(at, "`allowed` and `slot` belong to PCIe links"));
        }
        if bundle.is_none_or(|(interconnect, _)| interconnect != Interconnect::C2c) && entry.c2c_rate.is_some() {
            return Err(self.source.error(at, "`c2c_rate` belongs to links with c2c = true"));
        }
        let mut part = None;
        let kind = if let Some(running) = &entry.pcie {
            a = self.pcie_end(a, first.span())?;
            b = self.pcie_end(b, second.span())?;
            self.pcie(a, b, running, entry)?
        } else if let Some(smp) = &entry.smp {
            part = self.smp_part(smp)?;
            if [a, b].iter().any(|n| self.builder.nodes()[n.index()].kind != NodeKind::Cpu) {
                return Err(self.source.error(at, "an inter-socket link joins two CPUs"));
            }
            LinkKind::Smp
        } else {
            LinkKind::Gpu(self.gpu_link(entry, a, b).map_err(|message| self.source.error(at.clone(), message))?)
        };
        if a == b {
            return Err(self.source.error(at, format!("this link joins '{}' to itself", first.get_ref())));
        }
        self.once(a, b, &kind, at.clone())?;
        let mut link = Link::new(a, b, kind);
        link.part = part;
        link.assumed = entry.assumed;
        link.note.clone_from(&entry.note);
        self.join(link, at);
        Ok(())
    }

    /// The bundle that a link names, or what is wrong with it.
    fn gpu_link(&self, entry: &LinkEntry, a: NodeId, b: NodeId) -> Result<GpuLink, String> {
        let Some((interconnect, bundle_entry)) = entry.bundles().next() else {
            return Err("this link has no bundle".to_owned());
        };
        let family = interconnect.family();
        let mut bundle = match bundle_entry {
            BundleEntry::Words(words) => GpuLink::parse(interconnect, words).map_err(|e| e.to_string())?,
            // a number that is not known, where a usual one can be taken
            BundleEntry::Links(0) if family.usual.is_some() => GpuLink::new(interconnect),
            BundleEntry::Links(links @ 1..) => GpuLink { links: Some(*links), ..GpuLink::new(interconnect) },
            BundleEntry::There(_) if interconnect.is_single() => GpuLink::new(interconnect),
            _ => {
                return Err(format!(
                    "a bundle of {} has at least one {}: {} = 1",
                    family.title, family.link, family.key
                ));
            }
        };
        if interconnect == Interconnect::Nvlink {
            let by_parts = || common_nvlink(self.part_of(a), self.part_of(b));
            bundle.generation = bundle.generation.or(entry.nvlink_generation).or_else(by_parts);
        }
        if entry.c2c_rate.is_some_and(|gb| !gb.is_finite() || gb <= 0.0) {
            return Err("`c2c_rate` is a rate in GB/s, above 0".to_owned());
        }
        bundle.rate = bundle.rate.or(entry.c2c_rate.map(Rate::from_gb));
        Ok(bundle)
    }

    /// Refuses what a path could take only one of: a second link of a kind between two nodes, or a GPU at two NVSwitches.
    fn once(&mut self, a: NodeId, b: NodeId, kind: &LinkKind, at: Range<usize>) -> Result<(), SystemError> {
        let name = |id: NodeId| self.builder.nodes()[id.index()].name.clone();
        let line = self.source.line(at.start);
        if let Some(before) = self.joined.insert((a.min(b), a.max(b), kind.name()), line) {
            let message = format!(
                "'{}' and '{}' are joined by the link on line {before} already; write one link that stands for both",
                name(a),
                name(b)
            );
            return Err(self.source.error(at, message));
        }
        for (gpu, hub) in [(a, b), (b, a)] {
            if self.builder.nodes()[hub.index()].kind != NodeKind::NvSwitch {
                continue;
            }
            if let Some(other) = self.nvswitch.insert(gpu, hub) {
                let message = format!(
                    "'{}' is at '{}' already; write one nvswitch that stands for all chips, with all of the GPU's bricks",
                    name(gpu),
                    name(other)
                );
                return Err(self.source.error(at, message));
            }
        }
        Ok(())
    }

    fn smp_part(&self, key: &Spanned<String>) -> Result<Option<String>, SystemError> {
        if key.get_ref() == "?" {
            return Ok(None);
        }
        match self.parts.get(key.get_ref()) {
            Some(part) if part.kind == PartKind::Smp => Ok(Some(part.name.clone())),
            _ => {
                let known = self.parts.iter().filter(|p| p.kind == PartKind::Smp).map(|p| p.name.as_str());
                let message = format!(
                    "no inter-socket part '{}' is known; write smp = \"?\" or one of: {}",
                    key.get_ref(),
                    listed(known)
                );
                Err(self.source.error(key.span(), message))
            }
        }
    }

    fn part_of(&self, id: NodeId) -> Option<&'a Part> {
        let own = |id: NodeId| self.builder.nodes()[id.index()].part.as_deref();
        // a root complex is part of its CPU
        self.parts.get(own(id).or_else(|| own(*self.package.get(&id)?))?)
    }

    fn pcie(
        &mut self,
        a: NodeId,
        b: NodeId,
        running: &Spanned<String>,
        entry: &'a LinkEntry,
    ) -> Result<LinkKind, SystemError> {
        let width =
            |text: &Spanned<String>| text.get_ref().parse::<PcieWidth>().map_err(|e| self.source.error(text.span(), e));
        let runs = width(running)?;
        let stated = entry.allowed.as_ref().map(width).transpose()?;
        let slot = match &entry.slot {
            Some(name) => self.slot(name)?,
            None => None,
        };
        let allowed = stated.unwrap_or_else(|| common_width(self.part_of(a), self.part_of(b), slot));
        if exceeds(runs.generation, allowed.generation) || exceeds(runs.lanes, allowed.lanes) {
            let message = format!(
                "the link runs at {runs}, but its ends and its slot allow {allowed}; correct one, or write `allowed`"
            );
            return Err(self.source.error(running.span(), message));
        }
        Ok(LinkKind::Pcie { running: runs, allowed, slot: entry.slot.as_ref().map(|s| s.get_ref().clone()) })
    }

    fn slot(&mut self, name: &'a Spanned<String>) -> Result<Option<&'a Slot>, SystemError> {
        let line = self.source.line(name.span().start);
        if let Some(before) = self.taken_slots.insert(name.get_ref(), line) {
            let message = format!("slot '{}' is taken by the link on line {before}", name.get_ref());
            return Err(self.source.error(name.span(), message));
        }
        if self.slots.is_empty() {
            return Ok(None);
        }
        let slot = self.slots.get(name.get_ref().as_str()).copied();
        slot.map(Some).ok_or_else(|| {
            let hint = meant(name.get_ref(), self.slots.keys().copied());
            self.source.error(name.span(), format!("no slot '{}' in [[slots]]; {hint}", name.get_ref()))
        })
    }

    /// Numbers the locality domains: by NUMA node where every root complex has one, else by CPU.
    fn domains(&mut self) {
        let by_cpu: HashMap<NodeId, u32> = self.of_kind(NodeKind::Cpu).into_iter().zip(0..).collect();
        let all = self.of_kind(NodeKind::RootComplex);
        let by_numa = all.iter().all(|rc| self.builder.nodes()[rc.index()].numa.is_some());
        for rc in all {
            let of_cpu = self.package.get(&rc).and_then(|cpu| by_cpu.get(cpu)).copied();
            let node = self.builder.node_mut(rc);
            node.domain = node.domain.or(if by_numa { node.numa } else { of_cpu });
        }
    }
}

/// Turns PCIe links upstream end first, and gives devices the NUMA node and CPUs of their root complex.
fn finish(fabric: Fabric) -> Result<Fabric, FabricError> {
    let upside_down: Vec<LinkId> = fabric
        .ids()
        .filter_map(|id| fabric.upstream(id).filter(|(link, _)| fabric.link(*link).a == id).map(|(link, _)| link))
        .collect();
    let locality: Vec<_> = [NodeKind::Gpu, NodeKind::Nic]
        .into_iter()
        .flat_map(|kind| fabric.of_kind(kind))
        .map(|id| {
            let sources = [Some(id), Some(fabric.tree_top(id)), fabric.package(id)];
            let nodes = || sources.into_iter().flatten().map(|n| fabric.node(n));
            (id, nodes().find_map(|n| n.numa), nodes().find_map(|n| n.cpus.clone()))
        })
        .collect();
    let mut builder = fabric.into_builder();
    for id in upside_down {
        let link = builder.link_mut(id);
        std::mem::swap(&mut link.a, &mut link.b);
    }
    for (id, numa, cpus) in locality {
        let node = builder.node_mut(id);
        (node.numa, node.cpus) = (numa, cpus);
    }
    builder.build()
}
