//! Edits of the graph, one at a time. Each leaves a fabric in which the next can look up names and places.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::grammar::{self, LinkTo, What};
use super::graph::{below_of, described, is_kind, part_of, pcie_above};
use super::{Edit, WhatIfError};
use peerlane_machine::fabric::{
    Fabric, FabricBuilder, GpuLink, Interconnect, Link, LinkId, LinkKind, Method, Node, NodeId, NodeKind, PcieWidth,
};
use peerlane_machine::fact::P2pStatus;
use peerlane_machine::machine::{Machine, MachineKind};
use peerlane_model::model::Model;
use peerlane_model::model::rdma::{NicDirection, RdmaError, nic_path};
use peerlane_read::catalogue::{PartKind, Parts, common_nvlink, common_width};

/// What stands on links and nodes that an edit has made.
const NOTE: &str = "what if";

/// A machine in change.
pub(super) struct Changing<'p> {
    machine: Machine,
    parts: &'p Parts,
}

impl<'p> Changing<'p> {
    pub(super) fn new(machine: &Machine, parts: &'p Parts) -> Self {
        Changing { machine: machine.clone(), parts }
    }

    pub(super) fn finish(self) -> Machine {
        self.machine
    }

    fn fabric(&self) -> &Fabric {
        &self.machine.fabric
    }

    /// Why an edit that names what is not there is refused.
    fn missing(&self, edit: &Edit, name: &str) -> WhatIfError {
        let why =
            self.machine.lookup(name).err().map_or_else(|| format!("'{name}' cannot be made"), |why| why.to_string());
        edit.refused(why)
    }

    fn name(&self, id: NodeId) -> String {
        self.fabric().node(id).name.clone()
    }

    /// Makes one change, or returns why it cannot.
    pub(super) fn make(&mut self, edit: &Edit) -> Result<(), WhatIfError> {
        let was = match grammar::what(edit, &self.machine)? {
            What::Node(node) if edit.to == "none" => self.remove_node(edit, node)?,
            What::Node(node) => {
                let name = self.name(node);
                let why =
                    format!("'{name}' is there; write {name}=none, or change {name}.link, {name}.part or {name}.at");
                return Err(edit.refused(why));
            }
            What::NewNode(name) => self.add_node(edit, name)?,
            What::PartOf(node) => self.set_part(edit, node)?,
            What::PlaceOf(node) => self.place(edit, node)?,
            What::LinkOf(node) => {
                let link = self.link_of(edit, node)?;
                self.set_link(edit, link)?
            }
            What::MethodOf(node) => self.set_method(edit, node)?,
            What::Between(a, b) => self.set_between(edit, a, b)?,
            What::PeersBetween(a, b) => self.set_peers(edit, &[(a, b)])?,
            What::Peers => {
                let gpus: Vec<NodeId> = self.fabric().of_kind(NodeKind::Gpu).collect();
                let pairs = gpus.iter().flat_map(|a| gpus.iter().filter(move |b| a < *b).map(move |b| (*a, *b)));
                let pairs: Vec<(NodeId, NodeId)> = pairs.collect();
                self.set_peers(edit, &pairs)?
            }
        };
        self.machine.assumptions.push(format!("What if: {}={} ({was}).", edit.what, edit.to));
        Ok(())
    }

    /// The PCIe link of a device towards the root, past the card that it may sit on; else its only link.
    fn link_of(&self, edit: &Edit, node: NodeId) -> Result<LinkId, WhatIfError> {
        let fabric = self.fabric();
        if let Some(link) = pcie_above(fabric, node) {
            return Ok(link);
        }
        let name = &fabric.node(node).name;
        let links: Vec<_> =
            fabric.links_of(node).iter().filter(|(l, _)| fabric.link(*l).kind != LinkKind::OnDie).collect();
        match links.as_slice() {
            [(only, _)] => Ok(*only),
            [] => {
                Err(edit.refused(format!("'{name}' has no link; write {name}.at=NODE pcie 3.0 x16, or {name}-NODE=…")))
            }
            several => {
                let ends: Vec<String> = several.iter().map(|(_, far)| format!("{name}-{}", self.name(*far))).collect();
                Err(edit.refused(format!("'{name}' has several links; name both ends: {}", ends.join(", "))))
            }
        }
    }

    /// Changes a link that is there; returns what it was.
    fn set_link(&mut self, edit: &Edit, id: LinkId) -> Result<String, WhatIfError> {
        let link = self.fabric().link(id).clone();
        let to = grammar::link_to(edit)?;
        if to == LinkTo::None {
            self.without(&HashSet::new(), &HashSet::from([id]), edit)?;
            return Ok(format!("was {}", described(&link)));
        }
        let Some(kind) = self.kind(edit, &to, link.a, link.b, Some(&link.kind))? else {
            let (a, b) = (self.name(link.a), self.name(link.b));
            let why = format!("the link {a}-{b} is {}; write {a}-{b}=none first, or another kind", described(&link));
            return Err(edit.refused(why));
        };
        if let LinkKind::Pcie { running, slot: Some(slot), .. } = &kind {
            self.widen_slot(slot, *running);
        }
        let part = match &to {
            LinkTo::Smp(key) => key.clone(),
            _ => link.part.clone(),
        };
        self.rebuild(edit, |builder| {
            let changed = builder.link_mut(id);
            (changed.kind, changed.part, changed.assumed) = (kind, part, false);
            changed.note = Some(NOTE.to_owned());
            changed.origins.clear();
        })?;
        Ok(format!("was {}", described(&link)))
    }

    /// A slot that carries more lanes than it is wired for counts as wired for them.
    fn widen_slot(&mut self, name: &str, running: PcieWidth) {
        let Some(lanes) = running.lanes else { return };
        for slot in self.machine.slots.iter_mut().filter(|s| s.name == name) {
            slot.wired = slot.wired.max(lanes);
            slot.physical = slot.physical.max(lanes);
        }
    }

    /// Changes, adds or removes what joins two nodes; returns what it was.
    fn set_between(&mut self, edit: &Edit, a: NodeId, b: NodeId) -> Result<String, WhatIfError> {
        let to = grammar::link_to(edit)?;
        let fabric = self.fabric();
        let between: Vec<LinkId> = fabric.links_of(a).iter().filter(|(_, far)| *far == b).map(|(l, _)| *l).collect();
        if to == LinkTo::None {
            if between.is_empty() {
                return Err(edit.refused(self.not_joined(a, b)));
            }
            let was: Vec<String> = between.iter().map(|l| described(fabric.link(*l))).collect();
            self.without(&HashSet::new(), &between.into_iter().collect(), edit)?;
            return Ok(format!("was {}", was.join(" and ")));
        }
        let same = |id: &&LinkId| is_kind(&fabric.link(**id).kind, &to);
        if let Some(&id) = between.iter().find(same) {
            return self.set_link(edit, id);
        }
        let kinds = [fabric.node(a).kind, fabric.node(b).kind];
        if matches!(to, LinkTo::Smp(_)) && kinds != [NodeKind::Cpu, NodeKind::Cpu] {
            return Err(edit.refused("smp joins two CPUs"));
        }
        let (a, b) = match &to {
            LinkTo::Pcie(_) => (self.port(edit, a)?, self.port(edit, b)?),
            _ => (a, b),
        };
        let Some(kind) = self.kind(edit, &to, a, b, None)? else { return Err(edit.refused("that is no whole link")) };
        let mut link = Link::new(a, b, kind);
        link.note = Some(NOTE.to_owned());
        if let LinkTo::Smp(key) = to {
            link.part = key;
        }
        self.rebuild(edit, |builder| {
            builder.link(link);
        })?;
        Ok("not joined so before".to_owned())
    }

    fn not_joined(&self, a: NodeId, b: NodeId) -> String {
        let fabric = self.fabric();
        let far: Vec<String> = fabric.links_of(a).iter().map(|(_, far)| self.name(*far)).collect();
        let (a, b) = (self.name(a), self.name(b));
        format!("no link joins '{a}' and '{b}'; '{a}' has links to: {}", far.join(", "))
    }

    /// What a link between the two becomes. `None` where the link that is there is of another kind, or a new one lacks
    /// a width.
    fn kind(
        &self,
        edit: &Edit,
        to: &LinkTo,
        a: NodeId,
        b: NodeId,
        before: Option<&LinkKind>,
    ) -> Result<Option<LinkKind>, WhatIfError> {
        let part = |id: NodeId| part_of(self.fabric(), self.parts, id);
        if before.is_some_and(|kind| !is_kind(kind, to)) {
            return Ok(None);
        }
        Ok(Some(match to {
            LinkTo::Pcie(width) => {
                let (was, allowed, slot) = match before {
                    Some(LinkKind::Pcie { running, allowed, slot }) => (*running, *allowed, slot.clone()),
                    _ => (PcieWidth::default(), PcieWidth::default(), None),
                };
                let running =
                    PcieWidth { generation: width.generation.or(was.generation), lanes: width.lanes.or(was.lanes) };
                if running.generation.is_none() || running.lanes.is_none() {
                    let why = "its generation and lanes are not both known; write both: pcie 3.0 x16";
                    return Err(edit.refused(why));
                }
                let could = common_width(part(a), part(b), None);
                let mut allowed = PcieWidth {
                    generation: allowed.generation.max(could.generation).max(running.generation),
                    lanes: allowed.lanes.max(running.lanes),
                };
                if self.machine.kind == MachineKind::Captured {
                    // a captured link below its generation counts as idle; this one is meant as it is written
                    allowed.generation = running.generation;
                }
                LinkKind::Pcie { running, allowed, slot }
            }
            LinkTo::Gpu(bundle) => {
                let was = before.and_then(|kind| kind.bundle(bundle.interconnect)?.generation);
                let of_parts =
                    || common_nvlink(part(a), part(b)).filter(|_| bundle.interconnect == Interconnect::Nvlink);
                LinkKind::Gpu(GpuLink { generation: bundle.generation.or(was).or_else(of_parts), ..*bundle })
            }
            LinkTo::Smp(key) => {
                if let Some(key) = key {
                    self.part_key(edit, key, PartKind::Smp)?;
                }
                LinkKind::Smp
            }
            LinkTo::None => return Ok(None),
        }))
    }

    /// The key of the part that a word means.
    fn part_key(&self, edit: &Edit, key: &str, kind: PartKind) -> Result<String, WhatIfError> {
        let known = |p: &&peerlane_read::catalogue::Part| p.kind == kind;
        // a link keeps the key as it is written
        let part = if kind == PartKind::Smp { self.parts.get(key) } else { self.parts.meant(key) };
        if let Some(part) = part.filter(known) {
            return Ok(part.name.clone());
        }
        let fitting: Vec<&str> = self.parts.iter().filter(known).map(|p| p.name.as_str()).collect();
        Err(edit.refused(format!("no such part '{key}'; of this kind there are: {}", fitting.join(", "))))
    }

    /// Gives a node another part; returns the one it had.
    fn set_part(&mut self, edit: &Edit, id: NodeId) -> Result<String, WhatIfError> {
        let node = self.fabric().node(id).clone();
        let kind = match node.kind {
            NodeKind::Card => Some(PartKind::Nic),
            kind => PartKind::of_node(kind),
        };
        let kind = kind.ok_or_else(|| {
            let of = self.fabric().package(id).map(|cpu| format!("; change {}.part", self.name(cpu)));
            edit.refused(format!("'{}' is part of its CPU{}", node.name, of.unwrap_or_default()))
        })?;
        let key = self.part_key(edit, &edit.to, kind)?;
        self.rebuild(edit, |builder| {
            let changed = builder.node_mut(id);
            changed.part = Some(key);
            (changed.product, changed.note, changed.assumed) = (None, Some(NOTE.to_owned()), false);
        })?;
        self.forget_peers(id);
        Ok(format!("was {}", node.part.or(node.product).unwrap_or_else(|| "of an unknown part".to_owned())))
    }

    /// Chooses how a NIC accesses GPU memory; `none` leaves it to the model.
    fn set_method(&mut self, edit: &Edit, id: NodeId) -> Result<String, WhatIfError> {
        let node = self.fabric().node(id);
        if node.kind != NodeKind::Nic {
            let nics: Vec<String> = self.fabric().of_kind(NodeKind::Nic).map(|nic| self.name(nic)).collect();
            let there = if nics.is_empty() { "there are none here".to_owned() } else { nics.join(", ") };
            return Err(edit.refused(format!("'{}' is no NIC, and only a NIC has a method ({there})", node.name)));
        }
        let before = node.method.map_or_else(|| "the faster direct one".to_owned(), Method::written);
        let method = match edit.to.as_str() {
            "none" => None,
            text => Some(
                text.parse::<Method>()
                    .map_err(|e| edit.refused(format!("{e}; none leaves the choice to the model")))?,
            ),
        };
        if let Some(method) = method {
            self.offered(edit, id, method)?;
        }
        self.rebuild(edit, |builder| builder.node_mut(id).method = method)?;
        Ok(format!("was {before}"))
    }

    /// Refuses a method that no GPU offers with this NIC.
    fn offered(&self, edit: &Edit, nic: NodeId, method: Method) -> Result<(), WhatIfError> {
        let model = Model::new(&self.machine, self.parts);
        let refusals = self.fabric().of_kind(NodeKind::Gpu).map(|gpu| {
            match nic_path(&model, gpu, nic, NicDirection::ToNetwork, method) {
                Err(RdmaError::NotOffered { why, .. }) => {
                    Some(format!("{} and {}: {why}", self.name(gpu), self.name(nic)))
                }
                _ => None,
            }
        });
        let refusals: Option<Vec<String>> = refusals.collect();
        match refusals.as_deref() {
            Some([first, ..]) => Err(edit.refused(first)),
            _ => Ok(()),
        }
    }

    /// Adds a node of a part; it has no link yet.
    fn add_node(&mut self, edit: &Edit, name: &str) -> Result<String, WhatIfError> {
        if edit.to == "none" || name.contains(['.', '-', '=', ' ']) {
            return Err(self.missing(edit, name));
        }
        let Some(part) = self.parts.meant(&edit.to) else {
            return Err(edit.refused(format!(
                "'{name}' is no node here, and '{}' no part that a new one could be of; the nodes are: {}",
                edit.to,
                grammar::nodes(self.fabric())
            )));
        };
        let kind = match part.kind.node_kind() {
            Some(kind) if kind.is_device() || matches!(kind, NodeKind::Switch | NodeKind::NvSwitch) => kind,
            _ => {
                return Err(edit.refused("only GPUs, NICs, drives, capture cards and switches can be added; write a system file for the rest"));
            }
        };
        let mut node = Node::new(name, kind);
        node.part = Some(part.name.clone());
        node.note = Some(NOTE.to_owned());
        self.rebuild(edit, |builder| {
            builder.node(node);
        })?;
        Ok("new".to_owned())
    }

    /// Hangs a device or switch below another node; returns where it hung.
    fn place(&mut self, edit: &Edit, id: NodeId) -> Result<String, WhatIfError> {
        let (below, width) = match edit.to.split_once(char::is_whitespace) {
            Some((below, width)) => (below, Some(width.trim())),
            None => (edit.to.as_str(), None),
        };
        let parent = self.machine.lookup(below).map_err(|why| edit.refused(why.to_string()))?;
        let parent = self.port(edit, parent)?;
        if !matches!(self.fabric().node(parent).kind, NodeKind::RootComplex | NodeKind::Switch) {
            return Err(
                edit.refused(format!("nothing can be placed below '{below}'; name a switch, a root complex or a CPU"))
            );
        }
        // what moves is the card that it sits on
        let fabric = self.fabric();
        let moved = match fabric.upstream(id) {
            Some((link, card)) if fabric.link(link).kind == LinkKind::OnCard => card,
            _ => id,
        };
        let mut above = Some(parent);
        while let Some(at) = above {
            if at == moved {
                return Err(edit.refused(format!("'{below}' is itself below '{}'", self.name(id))));
            }
            above = fabric.upstream(at).map(|(_, up)| up);
        }
        let old = pcie_above(fabric, moved);
        let was = old.map(|l| fabric.link(l).clone());
        let parsed = width.map(|text| text.strip_prefix("pcie").map_or(text, str::trim).parse::<PcieWidth>());
        let stated = parsed.transpose().map_err(|e| edit.refused(e.to_string()))?.unwrap_or_default();
        let before = match was.as_ref().map(|link| &link.kind) {
            Some(LinkKind::Pcie { running, .. }) => *running,
            _ => PcieWidth::default(),
        };
        let (generation, lanes) = (stated.generation.or(before.generation), stated.lanes.or(before.lanes));
        let to = LinkTo::Pcie(PcieWidth { generation, lanes });
        let Some(kind) = self.kind(edit, &to, parent, moved, None)? else { return Err(self.missing(edit, below)) };
        let mut link = Link::new(parent, moved, kind);
        link.note = Some(NOTE.to_owned());
        let (numa, cpus) = {
            let nodes = [Some(parent), Some(fabric.tree_top(parent)), fabric.package(parent)];
            let nodes = || nodes.into_iter().flatten().map(|n| fabric.node(n));
            (nodes().find_map(|n| n.numa), nodes().find_map(|n| n.cpus.clone()))
        };
        let devices: Vec<NodeId> = below_of(fabric, moved);
        if let Some(old) = old {
            self.without(&HashSet::new(), &HashSet::from([old]), edit)?;
        }
        self.rebuild(edit, |builder| {
            builder.link(link);
            for id in &devices {
                let node = builder.node_mut(*id);
                (node.numa, node.cpus) = (numa, cpus.clone());
            }
        })?;
        for id in devices {
            self.forget_peers(id);
        }
        let at = |l: &Link| self.name(l.other(moved));
        Ok(was.map_or("was not connected".to_owned(), |l| format!("was at {}, {}", at(&l), described(&l))))
    }

    /// The root complex that stands for a CPU where PCIe ends.
    fn port(&self, edit: &Edit, id: NodeId) -> Result<NodeId, WhatIfError> {
        let fabric = self.fabric();
        if fabric.node(id).kind != NodeKind::Cpu {
            return Ok(id);
        }
        let roots: Vec<NodeId> =
            fabric.of_kind(NodeKind::RootComplex).filter(|rc| fabric.package(*rc) == Some(id)).collect();
        match roots.as_slice() {
            [] => Ok(id),
            [one] => Ok(*one),
            several => {
                let names: Vec<String> = several.iter().map(|rc| self.name(*rc)).collect();
                let why = format!("'{}' has several root complexes; name one: {}", self.name(id), names.join(", "));
                Err(edit.refused(why))
            }
        }
    }

    fn set_peers(&mut self, edit: &Edit, pairs: &[(NodeId, NodeId)]) -> Result<String, WhatIfError> {
        let status = if grammar::on_or_off(edit)? { P2pStatus::Ok } else { P2pStatus::NotSupported };
        let fabric = self.fabric();
        if let Some((a, b)) = pairs.iter().find(|(a, b)| [a, b].iter().any(|n| fabric.node(**n).kind != NodeKind::Gpu))
        {
            return Err(edit.refused(format!("'{}' and '{}' are not both GPUs", self.name(*a), self.name(*b))));
        }
        let was: HashSet<Option<P2pStatus>> = pairs.iter().map(|p| self.machine.p2p.get(p).copied()).collect();
        for &(a, b) in pairs {
            self.machine.p2p.insert((a, b), status);
            self.machine.p2p.insert((b, a), status);
        }
        let words = |status: &Option<P2pStatus>| match status {
            Some(P2pStatus::Ok) => "on",
            Some(_) => "off",
            None => "not stated",
        };
        let mut was: Vec<&str> = was.iter().map(words).collect();
        was.sort_unstable();
        was.dedup();
        Ok(format!("was {}", was.join(" and ")))
    }

    /// What was said of a GPU's peer access was said of its old place; that the GPU itself cannot stays true.
    fn forget_peers(&mut self, id: NodeId) {
        let stays = |s: &P2pStatus| matches!(s, P2pStatus::GpuNotSupported | P2pStatus::Disabled);
        self.machine.p2p.retain(|(a, b), status| (*a != id && *b != id) || stays(status));
    }

    /// Removes a node with what hangs below it or belongs to it; returns how many that were.
    fn remove_node(&mut self, edit: &Edit, id: NodeId) -> Result<String, WhatIfError> {
        let fabric = self.fabric();
        let mut gone: HashSet<NodeId> = below_of(fabric, id).into_iter().collect();
        if fabric.node(id).kind == NodeKind::Cpu {
            let own: Vec<NodeId> = fabric.ids().filter(|n| *n != id && fabric.package(*n) == Some(id)).collect();
            gone.extend(own);
        }
        gone.insert(id);
        let gpus = fabric.of_kind(NodeKind::Gpu).filter(|g| !gone.contains(g)).count();
        if gpus == 0 {
            return Err(edit.refused("that leaves no GPU"));
        }
        let mut names: Vec<&str> =
            fabric.ids().filter(|n| gone.contains(n)).map(|n| fabric.node(n).name.as_str()).collect();
        names.sort_by_key(|n| peerlane_machine::names::natural(n));
        let was = format!("without {}", peerlane_machine::names::ranges(&names));
        self.without(&gone, &HashSet::new(), edit)?;
        Ok(was)
    }

    /// Rebuilds the fabric without some nodes and links, and what is kept by node with it.
    fn without(&mut self, nodes: &HashSet<NodeId>, links: &HashSet<LinkId>, edit: &Edit) -> Result<(), WhatIfError> {
        let fabric = self.fabric();
        let mut builder = FabricBuilder::new();
        let mut new: HashMap<NodeId, NodeId> = HashMap::new();
        for id in fabric.ids().filter(|id| !nodes.contains(id)) {
            new.insert(id, builder.node(fabric.node(id).clone()));
        }
        for id in fabric.link_ids().filter(|id| !links.contains(id)) {
            let link = fabric.link(id);
            if let (Some(&a), Some(&b)) = (new.get(&link.a), new.get(&link.b)) {
                builder.link(Link { a, b, ..link.clone() });
            }
        }
        let fabric = builder.build().map_err(|e| edit.refused(e.to_string()))?;
        let pair = |(a, b): &(NodeId, NodeId)| Some((*new.get(a)?, *new.get(b)?));
        let p2p: BTreeMap<_, _> = self.machine.p2p.iter().filter_map(|(k, v)| Some((pair(k)?, *v))).collect();
        (self.machine.fabric, self.machine.p2p) = (fabric, p2p);
        Ok(())
    }

    /// Changes or adds nodes and links; ids stay as they are.
    fn rebuild(&mut self, edit: &Edit, change: impl FnOnce(&mut FabricBuilder)) -> Result<(), WhatIfError> {
        let mut builder = self.machine.fabric.clone().into_builder();
        change(&mut builder);
        self.machine.fabric = builder.build().map_err(|e| edit.refused(e.to_string()))?;
        Ok(())
    }
}
