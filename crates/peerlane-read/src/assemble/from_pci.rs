//! PCI listing → skeleton: ports become switches, root ports become part of their root complex.

use std::collections::HashSet;

use crate::catalogue::Parts;
use peerlane_machine::fabric::{PathClass, PciAddress, PcieWidth};
use peerlane_machine::fact::{PciDevice, PciRole, PciTree};
use peerlane_machine::origin::Origin;

use super::from_classes::uplink;
use super::inventory::Inventory;
use super::skeleton::{Branch, Domain, Root, Skeleton, Switch, Uplink};

/// No real machine nests switches deeper.
const MAX_SWITCH_DEPTH: usize = 16;

/// The skeleton that a PCI tree shows; only what leads to GPUs and NICs of the inventory is kept.
pub(super) fn from_pci(all: &Inventory, tree: &PciTree, origin: &Origin) -> Skeleton {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); tree.devices.len()];
    for (i, device) in tree.devices.iter().enumerate() {
        if let Some(parent) = device.parent.filter(|p| *p < i) {
            children[parent].push(i);
        }
    }
    let gpus = tree.gpus().iter().filter_map(|d| d.address).collect();
    let walk = Walk { all, tree, children, gpus };
    let mut domains: Vec<Domain> = Vec::new();
    for (i, device) in tree.devices.iter().enumerate() {
        let is_top = device.role == PciRole::HostBridge || device.parent.is_none();
        if !is_top || (device.role == PciRole::Endpoint && walk.inventory_index(i).is_none()) {
            continue;
        }
        let branches = match device.role {
            PciRole::HostBridge => walk.below_root(i),
            // a tree without host bridges: its first bridges stand for root ports
            PciRole::Bridge if tree.bridges_are_switches => walk.below(i, 0),
            PciRole::Bridge => walk.children[i].iter().flat_map(|&c| walk.below(c, 0)).collect(),
            PciRole::Endpoint => walk.below(i, 0),
        };
        if branches.is_empty() {
            continue;
        }
        let below = super::skeleton::devices_below(&branches);
        let numa = device.numa.or_else(|| below.iter().find_map(|&d| all.devices[d].numa));
        let address = device.address.filter(|_| !tree.bridges_are_switches);
        let note = tree.bridges_are_switches.then(|| "NCCL's XML does not show host bridges".to_owned());
        let root = Root { address, implied: tree.bridges_are_switches, note, branches };
        match domains.iter_mut().find(|d| numa.is_some() && d.numa == numa) {
            Some(domain) => domain.roots.push(root),
            None => domains.push(Domain { numa, roots: vec![root] }),
        }
    }
    Skeleton { of_classes: false, domains: join_domains(all, domains), origin: Some(origin.clone()) }
}

/// Places root complexes whose NUMA node the listing does not show: there may be only one node, or a
/// class matrix may show that they share one with others.
fn join_domains(all: &Inventory, domains: Vec<Domain>) -> Vec<Domain> {
    let only_node = match all.host.numa.as_slice() {
        [one] => Some(one.id),
        _ => None,
    };
    let near = |a: &Domain, b: &Domain| {
        let (left, right) = (a.devices(), b.devices());
        left.iter().any(|&x| {
            right.iter().any(|&y| {
                let class = all.stated.class(x, y);
                class.is_some_and(|c| c.is_pcie() && c != PathClass::Sys)
            })
        })
    };
    let mut joined: Vec<Domain> = Vec::new();
    // known ones first, so that the others find them
    let (known, unknown): (Vec<_>, Vec<_>) = domains.into_iter().partition(|d| d.numa.is_some());
    for mut domain in known.into_iter().chain(unknown) {
        domain.numa = domain.numa.or(only_node);
        let home = joined.iter_mut().find(|d| {
            let same = domain.numa.is_some() && d.numa == domain.numa;
            same || (domain.numa.is_none() && near(d, &domain))
        });
        match home {
            Some(home) => home.roots.append(&mut domain.roots),
            None => joined.push(domain),
        }
    }
    joined
}

struct Walk<'a> {
    all: &'a Inventory,
    tree: &'a PciTree,
    children: Vec<Vec<usize>>,
    /// Addresses of GPUs; their other functions are no separate devices.
    gpus: HashSet<PciAddress>,
}

impl Walk<'_> {
    fn inventory_index(&self, i: usize) -> Option<usize> {
        let pci = &self.tree.devices[i];
        if !pci.is_gpu() && !pci.is_nic() {
            return None;
        }
        match pci.address {
            Some(address) if pci.is_gpu() && !self.gpus.contains(&address) => None,
            Some(address) => self.all.at(address),
            // hand-written files make bus ids up, and number GPUs all the same
            None => pci.gpu_index.map(|n| format!("GPU{n}")).map_or_else(
                || pci.os_devices.iter().find_map(|os| self.all.find(&os.name)),
                |name| self.all.find(&name),
            ),
        }
    }

    /// Below a host bridge: root ports are part of the root complex and vanish.
    fn below_root(&self, host_bridge: usize) -> Vec<Branch> {
        let mut branches = Vec::new();
        for &child in &self.children[host_bridge] {
            if self.tree.devices[child].role == PciRole::Bridge && !self.tree.bridges_are_switches {
                let port = self.tree.devices[child].capable;
                branches.extend(cards(
                    self.all,
                    self.children[child].iter().flat_map(|&c| self.through(c, port, 0)).collect(),
                ));
            } else {
                branches.extend(self.below(child, 0));
            }
        }
        cards(self.all, branches)
    }

    /// A device behind a port that could do `port`.
    fn through(&self, i: usize, port: PcieWidth, depth: usize) -> Vec<Branch> {
        let mut branches = self.below(i, depth);
        for branch in &mut branches {
            let link = match branch {
                Branch::Device(_, link) | Branch::Card(_, link) => link,
                Branch::Switch(switch) => &mut switch.uplink,
            };
            // what a tool calls the maximum of the current system already counts both ends
            if link.allowed.is_unknown() {
                link.allowed = least(link.capable, port);
            }
        }
        branches
    }

    /// A bridge here is a switch's upstream port; bridges just below it are its downstream ports.
    fn below(&self, i: usize, depth: usize) -> Vec<Branch> {
        let pci = &self.tree.devices[i];
        if pci.role == PciRole::Endpoint {
            let Some(index) = self.inventory_index(i) else { return Vec::new() };
            let link = uplink(&self.all.devices[index]);
            // what hangs below a function are further ports of its card
            let ports: Vec<usize> = self.children[i].iter().filter_map(|&c| self.inventory_index(c)).collect();
            if ports.is_empty() {
                return vec![Branch::Device(index, link)];
            }
            let mut card: Vec<usize> = vec![index];
            card.extend(ports.into_iter().filter(|p| *p != index));
            card.dedup();
            return vec![Branch::Card(card, link)];
        }
        if depth >= MAX_SWITCH_DEPTH {
            return Vec::new();
        }
        let mut branches = Vec::new();
        for &child in &self.children[i] {
            let port = &self.tree.devices[child];
            if port.role == PciRole::Bridge && !self.tree.bridges_are_switches {
                for &device in &self.children[child] {
                    branches.extend(self.through(device, port.capable, depth + 1));
                }
            } else {
                branches.extend(self.below(child, depth + 1));
            }
        }
        if branches.is_empty() {
            return Vec::new();
        }
        vec![Branch::Switch(self.switch(pci, cards(self.all, branches)))]
    }

    fn switch(&self, pci: &PciDevice, branches: Vec<Branch>) -> Switch {
        let pci_id = pci.vendor.zip(pci.device).filter(|id| *id != (0xffff, 0xffff));
        let part = pci_id.and_then(|(vendor, device)| Parts::embedded().for_pci_id(vendor, device));
        let by_rate = || PcieWidth::from_raw_rate(pci.link_rate?, part?.pcie?);
        let running = if pci.running.is_unknown() { by_rate().unwrap_or_default() } else { pci.running };
        Switch {
            address: pci.address,
            pci_id,
            // a hand-written file's stand-in for an address does not identify the product
            product: pci.name.clone().filter(|_| pci.address.is_some()),
            uplink: Uplink { running, allowed: PcieWidth::default(), capable: pci.capable },
            implied: false,
            branches,
        }
    }
}

/// The least of two widths, part by part; unknown where either is, so that a half-known limit never
/// looks wider than it is.
fn least(a: PcieWidth, b: PcieWidth) -> PcieWidth {
    PcieWidth {
        generation: a.generation.zip(b.generation).map(|(x, y)| x.min(y)),
        lanes: a.lanes.zip(b.lanes).map(|(x, y)| x.min(y)),
    }
}

/// Joins NIC functions of one device into a card.
fn cards(all: &Inventory, branches: Vec<Branch>) -> Vec<Branch> {
    let address = |d: usize| all.devices[d].facts.address;
    let same = |a: usize, b: usize| -> bool {
        !all.devices[a].gpu
            && !all.devices[b].gpu
            && address(a).zip(address(b)).is_some_and(|(x, y): (PciAddress, PciAddress)| x.same_device(y))
    };
    let mut out: Vec<Branch> = Vec::new();
    for branch in branches {
        let Branch::Device(d, link) = branch else {
            out.push(branch);
            continue;
        };
        let card = out.iter_mut().find_map(|other| match other {
            Branch::Device(e, _) if same(*e, d) => Some(other),
            Branch::Card(ports, _) if ports.iter().any(|&e| same(e, d)) => Some(other),
            _ => None,
        });
        match card {
            Some(Branch::Card(ports, _)) => ports.push(d),
            Some(other) => {
                if let Branch::Device(e, link) = other.clone() {
                    *other = Branch::Card(vec![e, d], link);
                }
            }
            None => out.push(Branch::Device(d, link)),
        }
    }
    out
}
