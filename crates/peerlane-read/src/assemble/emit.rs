//! Skeleton + inventory → fabric.

use crate::catalogue::{PartKind, Parts};
use peerlane_machine::fabric::{CpuList, CpuVendor, FabricBuilder, Link, LinkKind, Node, NodeId, NodeKind, PathClass};
use peerlane_machine::fact::NumaNode;
use peerlane_machine::origin::Origin;

use peerlane_machine::units::Rate;

use super::device::Device;
use super::inventory::Inventory;
use super::skeleton::{Branch, Domain, Skeleton, Uplink};
use super::stated::Stated;

/// The most CPU packages of one machine: each is joined to each other, and more than any machine has.
const MAX_PACKAGES: usize = 256;

/// Nodes of the devices, in order; the tree hangs them up afterwards.
pub(super) fn device_nodes(all: &Inventory, builder: &mut FabricBuilder) -> Vec<NodeId> {
    all.devices.iter().map(|d| builder.node(device_node(d))).collect()
}

fn device_node(device: &Device) -> Node {
    let mut node = Node::new(&device.name, if device.gpu { NodeKind::Gpu } else { NodeKind::Nic });
    node.aliases.clone_from(&device.aliases);
    node.part.clone_from(&device.part);
    node.product.clone_from(&device.facts.name);
    node.address = device.facts.address;
    node.numa = device.numa;
    node.cpus.clone_from(&device.cpus);
    node.rdma = device.rdma;
    node.line_rate = device.line_rate.map(Rate::from_gbit);
    node.note = device.line_rate.map(|g| format!("{g} Gb/s"));
    node.origins.clone_from(&device.origins);
    node
}

/// Hangs the skeleton's tree into the fabric, with packages, root complexes, host memory and SMP links.
pub(super) fn tree(all: &Inventory, skeleton: &Skeleton, devices: &[NodeId], builder: &mut FabricBuilder) {
    let packages = Packages::of(all, &skeleton.domains);
    let mut emit = Emit { all, devices, builder, origin: skeleton.origin.clone() };
    let cpus: Vec<NodeId> = packages.list.iter().map(|p| emit.cpu(p)).collect();
    for (number, domain) in skeleton.domains.iter().enumerate() {
        let package = packages.of_domain[number];
        for root in &domain.roots {
            let mut node = emit.fresh("rc", NodeKind::RootComplex);
            node.domain = Some(number as u32);
            node.numa = domain.numa;
            node.address = root.address;
            node.assumed = root.implied;
            node.note.clone_from(&root.note);
            let rc = emit.builder.node(node);
            if let Some(package) = package {
                emit.link(cpus[package], rc, LinkKind::OnDie);
            }
            for branch in &root.branches {
                emit.branch(rc, branch);
            }
        }
    }
    emit.host_memory(&packages, &cpus);
    emit.smp(&packages, &cpus);
}

struct Emit<'a> {
    all: &'a Inventory,
    devices: &'a [NodeId],
    builder: &'a mut FabricBuilder,
    origin: Option<Origin>,
}

impl Emit<'_> {
    fn fresh(&mut self, stem: &str, kind: NodeKind) -> Node {
        let origins = self.origin.iter().cloned().collect();
        Node { origins, ..Node::new(self.builder.fresh_name(stem), kind) }
    }

    /// A node that rests on what is known of the host, else on the skeleton's statement.
    fn fresh_of_host(&mut self, stem: &str, kind: NodeKind) -> Node {
        let mut node = self.fresh(stem, kind);
        if !self.all.host_origins.is_empty() {
            node.origins.clone_from(&self.all.host_origins);
        }
        node
    }

    fn link(&mut self, a: NodeId, b: NodeId, kind: LinkKind) -> &mut Link {
        let origins = self.origin.iter().cloned().collect();
        let id = self.builder.link(Link { origins, ..Link::new(a, b, kind) });
        self.builder.link_mut(id)
    }

    fn cpu(&mut self, package: &Package) -> NodeId {
        let mut node = self.fresh_of_host("cpu", NodeKind::Cpu);
        if !package.placed {
            node.stand_in = true;
            node.note = Some("stands for sockets that the evidence does not name".to_owned());
        }
        node.assumed = package.assumed;
        node.product.clone_from(&self.all.host.cpu_model);
        let model = node.product.as_deref();
        let parts = Parts::embedded();
        let by_id = || {
            let (vendor, family, model) = self.all.host.cpu_ids.as_ref()?;
            parts.for_cpu_id(vendor, *family, *model)
        };
        let part = model.and_then(|m| parts.for_product(PartKind::Cpu, m)).or_else(by_id);
        node.part = part.map(|p| p.name.clone());
        let by_id = self.all.host.cpu_ids.as_ref().and_then(|(vendor, ..)| CpuVendor::of_id(vendor));
        node.vendor = by_id.or_else(|| CpuVendor::of_id(self.all.host.arch.as_deref()?));
        if let [numa] = package.numa.as_slice() {
            node.numa = Some(*numa);
        }
        self.builder.node(node)
    }

    /// The skeleton's makers bound its depth, so this recursion is bounded too.
    fn branch(&mut self, above: NodeId, branch: &Branch) {
        match branch {
            Branch::Device(d, link) => self.pcie(above, self.devices[*d], link, Some(*d)),
            Branch::Card(ports, link) => {
                let mut node = self.fresh("card", NodeKind::Card);
                let first = ports.first().map(|&d| &self.all.devices[d]);
                node.product = first.and_then(|d| d.facts.name.clone());
                node.part = first.and_then(|d| d.part.clone());
                node.address = first.and_then(|d| d.facts.address);
                node.assumed = node.address.is_none();
                let card = self.builder.node(node);
                self.pcie(above, card, link, ports.first().copied());
                for &d in ports {
                    self.link(card, self.devices[d], LinkKind::OnCard);
                }
            }
            Branch::Switch(switch) => {
                let mut node = self.fresh("switch", NodeKind::Switch);
                node.address = switch.address;
                node.product.clone_from(&switch.product);
                node.assumed = switch.implied;
                let parts = Parts::embedded();
                let by_id = switch.pci_id.and_then(|(vendor, device)| parts.for_pci_id(vendor, device));
                let by_name = || switch.product.as_deref().and_then(|p| parts.for_product(PartKind::Switch, p));
                let part = by_id.filter(|p| p.kind == PartKind::Switch).or_else(by_name);
                node.part = part.map(|p| p.name.clone());
                let id = self.builder.node(node);
                self.pcie(above, id, &switch.uplink, None);
                for below in &switch.branches {
                    self.branch(id, below);
                }
            }
        }
    }

    fn pcie(&mut self, above: NodeId, below: NodeId, uplink: &Uplink, device: Option<usize>) {
        // one end's limit is a limit of the link; that the other end's is unknown must be stated
        let half_known = uplink.allowed.is_unknown() && !uplink.capable.is_unknown();
        let allowed = if half_known { uplink.capable } else { uplink.allowed };
        let mut link = Link::new(above, below, LinkKind::Pcie { running: uplink.running, allowed, slot: None });
        link.note = half_known.then(|| "the limit is the device's own; its slot's is not known".to_owned());
        link.origins.extend(self.origin.clone());
        for origin in device.iter().flat_map(|&d| &self.all.devices[d].origins) {
            if !uplink.running.is_unknown() && !link.origins.contains(origin) {
                link.origins.push(origin.clone());
            }
        }
        self.builder.link(link);
    }

    /// One memory node per NUMA node that is known, else one per package.
    fn host_memory(&mut self, packages: &Packages, cpus: &[NodeId]) {
        for (i, package) in packages.list.iter().enumerate() {
            if !package.placed {
                continue;
            }
            let numbers: Vec<Option<u32>> = match package.numa.as_slice() {
                [] => vec![None],
                some => some.iter().map(|n| Some(*n)).collect(),
            };
            for numa in numbers {
                let mut node = self.fresh_of_host("host", NodeKind::Host);
                node.numa = numa;
                let known = self.all.host.numa.iter().find(|n| Some(n.id) == numa);
                node.cpus = known.and_then(|n| n.cpus.clone());
                node.note = known.and_then(|n| n.memory).map(|m| format!("{m} of memory"));
                node.assumed = known.is_none();
                let host = self.builder.node(node);
                let mut link = Link::new(cpus[i], host, LinkKind::OnDie);
                link.assumed = known.is_none();
                self.builder.link(link);
            }
        }
    }

    fn smp(&mut self, packages: &Packages, cpus: &[NodeId]) {
        for (i, a) in packages.list.iter().enumerate() {
            for (j, b) in packages.list.iter().enumerate().skip(i + 1) {
                // an unplaced package is joined only because a matrix has SYS across it
                if (a.placed && b.placed) || packages.list.len() == 2 || a.joined || b.joined {
                    let assumed = packages.list.len() > 2 || !(a.placed && b.placed);
                    self.link(cpus[i], cpus[j], LinkKind::Smp).assumed = assumed;
                }
            }
        }
    }
}

/// A CPU package, as far as it is known.
#[derive(Debug, Default)]
struct Package {
    /// NUMA nodes on it.
    numa: Vec<u32>,
    /// CPUs of the devices below it, which stand in for a NUMA number where there is none.
    cpus: Option<CpuList>,
    /// False for the stand-in of domains whose socket no statement names.
    placed: bool,
    /// For a stand-in: a statement has the path to other packages cross NUMA nodes.
    joined: bool,
    /// True where the number of packages is a guess.
    assumed: bool,
}

#[derive(Debug, Default)]
struct Packages {
    list: Vec<Package>,
    /// Package of each domain; `None` where nothing shows how it is joined to anything.
    of_domain: Vec<Option<usize>>,
}

impl Packages {
    fn add(&mut self, package: Package) -> usize {
        self.list.push(package);
        self.list.len() - 1
    }

    /// The package of domains whose socket nothing names; `joined` where a path to other packages is stated.
    fn stand_in(&mut self, joined: bool) -> usize {
        let at = self.list.iter().position(|p| !p.placed);
        let at = at.unwrap_or_else(|| self.add(Package { assumed: true, ..Package::default() }));
        self.list[at].joined |= joined;
        at
    }

    fn of(all: &Inventory, domains: &[Domain]) -> Self {
        let mut packages = Packages::default();
        let facts = SocketFacts::of(all);
        let domain_of = domain_of(all.devices.len(), domains);
        for (number, domain) in domains.iter().enumerate() {
            let members = domain.devices();
            let cpus = members.iter().find_map(|&d| all.devices[d].cpus.clone());
            // CPUs of several NUMA nodes, as of an I/O hub between two sockets, name no socket
            let near = cpus.as_ref().map_or_else(Vec::new, |c| nodes_of(c, &all.host.numa));
            let numa = domain.numa.or(match near.as_slice() {
                [one] => Some(*one),
                _ => None,
            });
            let between = numa.is_none() && near.len() > 1 && facts.several(all);
            let key = numa.and_then(|n| facts.package_of(n));
            let found = packages.list.iter().position(|p: &Package| {
                let by_socket = key.is_some() && p.numa.iter().any(|&n| facts.package_of(n) == key);
                let by_node = numa.is_some_and(|n| p.numa.contains(&n));
                let by_cpus = p.placed && numa.is_none() && cpus.is_some() && p.cpus == cpus;
                by_socket || by_node || by_cpus
            });
            let at = if let Some(at) = found {
                Some(at)
            } else if (numa.is_some() || (cpus.is_some() && !between)) && packages.list.len() < MAX_PACKAGES {
                let (placed, assumed) = (true, key.is_none());
                Some(packages.add(Package { cpus: cpus.clone(), placed, assumed, ..Package::default() }))
            } else if facts.sockets == Some(1) || (domains.len() == 1 && !facts.several(all)) {
                if packages.list.is_empty() {
                    let assumed = facts.sockets != Some(1);
                    packages.add(Package { placed: true, assumed, ..Package::default() });
                }
                Some(0)
            } else {
                // what joins host bridges of one domain, or crosses to another, is a package
                let joined = states_sys(&all.stated, number, &members, &domain_of);
                (joined || domain.roots.len() > 1).then(|| packages.stand_in(joined))
            };
            if let Some((at, numa)) = at.zip(numa)
                && !packages.list[at].numa.contains(&numa)
            {
                packages.list[at].numa.push(numa);
            }
            packages.of_domain.push(at);
        }
        // NUMA nodes without devices are memory all the same
        for node in &all.host.numa {
            if !has_cpus(node) || packages.list.iter().any(|p| p.numa.contains(&node.id)) {
                continue;
            }
            let key = facts.package_of(node.id);
            let with = |p: &Package| key.is_some() && p.numa.iter().any(|&n| facts.package_of(n) == key);
            match packages.list.iter().position(with) {
                Some(at) => packages.list[at].numa.push(node.id),
                None if packages.list.len() == 1 && facts.sockets == Some(1) => packages.list[0].numa.push(node.id),
                None if packages.list.len() >= MAX_PACKAGES => {}
                None => {
                    let (numa, assumed) = (vec![node.id], key.is_none());
                    packages.add(Package { numa, placed: true, assumed, ..Package::default() });
                }
            }
        }
        packages
    }
}

/// NUMA nodes without CPUs are the GPUs' own memory on coherent systems.
fn has_cpus(node: &NumaNode) -> bool {
    node.cpus.as_ref().is_none_or(|c| !c.is_empty())
}

/// The NUMA nodes that some CPUs are of.
fn nodes_of(cpus: &CpuList, nodes: &[NumaNode]) -> Vec<u32> {
    let shared = |node: &&NumaNode| {
        node.cpus
            .as_ref()
            .is_some_and(|own| own.ranges().iter().any(|(a, b)| cpus.ranges().iter().any(|(c, d)| a <= d && c <= b)))
    };
    nodes.iter().filter(shared).map(|n| n.id).collect()
}

/// Whether the matrix has `SYS` between a domain and any other.
fn states_sys(stated: &Stated, domain: usize, members: &[usize], domain_of: &[Option<usize>]) -> bool {
    let others = || domain_of.iter().enumerate().filter(|(_, of)| of.is_some_and(|of| of != domain));
    members.iter().any(|&d| others().any(|(other, _)| stated.class(d, other) == Some(PathClass::Sys)))
}

/// The domain of each device that is in one.
fn domain_of(devices: usize, domains: &[Domain]) -> Vec<Option<usize>> {
    let mut domain_of = vec![None; devices];
    for (number, domain) in domains.iter().enumerate() {
        domain.devices().into_iter().for_each(|d| domain_of[d] = Some(number));
    }
    domain_of
}

/// What the host's facts show of sockets.
struct SocketFacts {
    sockets: Option<u32>,
    package_of_numa: Vec<(u32, u32)>,
}

impl SocketFacts {
    fn of(all: &Inventory) -> Self {
        let host = &all.host;
        let mut nodes: Vec<u32> = host.numa.iter().filter(|n| has_cpus(n)).map(|n| n.id).collect();
        nodes.sort_unstable();
        let stated: Vec<(u32, u32)> = host.numa.iter().filter_map(|n| Some((n.id, n.package?))).collect();
        let package_of_numa = match host.sockets {
            _ if !stated.is_empty() => stated,
            Some(1) => nodes.iter().map(|&n| (n, 0)).collect(),
            // as many sockets as NUMA nodes, or several nodes a socket in order (NPS, sub-NUMA clusters)
            Some(sockets) if sockets > 0 && !nodes.is_empty() && nodes.len().is_multiple_of(sockets as usize) => {
                let per = nodes.len() / sockets as usize;
                nodes.iter().enumerate().map(|(i, &n)| (n, (i / per) as u32)).collect()
            }
            _ => Vec::new(),
        };
        SocketFacts { sockets: host.sockets, package_of_numa }
    }

    /// Whether there is more than one package, or more than one NUMA node that could be one.
    fn several(&self, all: &Inventory) -> bool {
        self.sockets.map_or_else(|| all.host.numa.iter().filter(|n| has_cpus(n)).count() > 1, |n| n > 1)
    }

    fn package_of(&self, numa: u32) -> Option<u32> {
        self.package_of_numa.iter().find(|(n, _)| *n == numa).map(|(_, p)| *p)
    }
}
