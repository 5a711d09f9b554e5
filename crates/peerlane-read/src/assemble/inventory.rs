//! The devices of one machine, each statement about a device joined to it: by label, by PCI address,
//! or by order where addresses are all that one side has.

use std::collections::{BTreeMap, HashMap};

use crate::catalogue::{PartKind, Parts};
use crate::evidence::tool;
use peerlane_machine::fabric::{PathClass, PciAddress, PcieWidth};
use peerlane_machine::fact::{
    ClassMatrix, Evidence, Fact, GpuFacts, HostFacts, NvlinkPort, PciDevice, PciRole, PciTree,
};
use peerlane_machine::machine::reading::Doubted;
use peerlane_machine::names::gpu_number;
use peerlane_machine::origin::{Origin, Warning};

use super::device::Device;
use super::group::{is_gpu_label, two_views};
use super::merge::{complete, merge_gpu, merge_host};
use super::stated::Stated;

/// The most GPUs and NICs of one machine: more than any has, virtual functions included. Pairs of more
/// would be of no use to anybody.
const MAX_DEVICES: usize = 1024;

/// Where devices stand in the list. What several share leads to the first of them.
#[derive(Debug, Default)]
struct Index {
    by_name: HashMap<String, usize>,
    by_address: HashMap<PciAddress, usize>,
    /// GPUs by the address of their first function.
    gpus_by_address: HashMap<PciAddress, usize>,
}

impl Index {
    /// Adds what is known of a device; what it is known by already may be given again.
    fn add(&mut self, at: usize, device: &Device) {
        for name in device.aliases.iter().chain([&device.name]) {
            match self.by_name.get_mut(name) {
                Some(first) => *first = at.min(*first),
                None => drop(self.by_name.insert(name.clone(), at)),
            }
        }
        let first = |first: &mut usize| *first = at.min(*first);
        if let Some(address) = device.facts.address {
            self.by_address.entry(address).and_modify(first).or_insert(at);
            if device.gpu {
                let address = PciAddress { function: 0, ..address };
                self.gpus_by_address.entry(address).and_modify(first).or_insert(at);
            }
        }
    }
}

/// Everything about one machine, sorted by what it is about.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// GPUs in order, then NICs.
    pub(super) devices: Vec<Device>,
    /// The class matrix.
    pub(super) classes: Option<(ClassMatrix, Origin)>,
    /// The class matrix of `topo -mp`, which has PCIe classes where the other has NVLinks.
    pub(super) pci_classes: Option<ClassMatrix>,
    /// PCI trees, most telling first.
    pub(super) trees: Vec<(PciTree, Origin)>,
    /// Host facts, merged.
    pub(super) host: HostFacts,
    /// Statements about the host.
    pub(super) host_origins: Vec<Origin>,
    /// NVLink ports.
    pub(super) nvlinks: Vec<(Vec<NvlinkPort>, Origin)>,
    /// Warnings.
    pub(super) warnings: Vec<Warning>,
    /// Readings of devices that cannot be so.
    pub(super) doubted: Vec<Doubted>,
    /// The classes that `classes` states between the devices.
    pub(super) stated: Stated,
    /// True once a device had no room.
    overfull: bool,
    index: Index,
}

impl Inventory {
    /// Sorts and joins the statements of one machine.
    pub(super) fn of(evidence: &[Evidence]) -> Self {
        let mut all = Inventory::default();
        for one in evidence {
            match &one.fact {
                Fact::Classes(m) => all.take_classes(m, &one.origin),
                Fact::Pci(tree) => all.trees.push((tree.clone(), one.origin.clone())),
                Fact::Nvlink(ports) => all.nvlinks.push((ports.clone(), one.origin.clone())),
                Fact::Host(host) => {
                    merge_host(&mut all.host, host);
                    all.host_origins.push(one.origin.clone());
                }
                _ => {}
            }
        }
        all.trees.sort_by_key(|(tree, origin)| telling(tree, origin.tool));
        all.complete_trees(evidence);
        all.label_devices(evidence);
        all.join_gpu_facts(evidence);
        all.join_pci();
        all.find_parts();
        if let Some((matrix, _)) = &all.classes {
            all.stated = Stated::of(matrix, &all.devices);
        }
        all
    }

    /// Keeps the first matrix; of `topo -m` and `topo -mp` both.
    fn take_classes(&mut self, m: &ClassMatrix, origin: &Origin) {
        match &self.classes {
            None => self.classes = Some((m.clone(), origin.clone())),
            Some((first, _)) if self.pci_classes.is_none() && two_views(first, m) => {
                let nvlinked = m.cells.iter().flatten().any(|c| c.is_some_and(PathClass::is_nvlink));
                if nvlinked {
                    self.pci_classes = self.classes.replace((m.clone(), origin.clone())).map(|(m, _)| m);
                } else {
                    self.pci_classes = Some(m.clone());
                }
            }
            Some(_) => {}
        }
    }

    /// Fills in what one listing lacks of a function from the others: `lspci -t` shows the tree
    /// alone, `-tv` names without links, and `-vvv` of single devices links without a tree.
    fn complete_trees(&mut self, evidence: &[Evidence]) {
        let mut known: HashMap<PciAddress, PciDevice> = HashMap::new();
        for (at, device) in self.trees.iter().flat_map(|(t, _)| &t.devices).filter_map(|d| Some((d.address?, d))) {
            let known = known.entry(at).or_insert_with(|| PciDevice { parent: None, ..device.clone() });
            complete(known, device);
        }
        for facts in evidence.iter().filter_map(|e| if let Fact::Gpus(gpus) = &e.fact { Some(gpus) } else { None }) {
            for at in facts.iter().filter_map(|g| g.address) {
                let gpu = PciDevice { class: Some(0x03_0200), ..PciDevice::new(PciRole::Endpoint) };
                complete(known.entry(at).or_insert_with(|| gpu.clone()), &gpu);
            }
        }
        for device in self.trees.iter_mut().flat_map(|(t, _)| &mut t.devices) {
            let also = device.address.and_then(|a| known.get(&a));
            // an address that two things have in a hand-written file is no one's
            if let Some(also) = also.filter(|also| also.role == device.role) {
                complete(device, also);
            }
        }
    }

    /// Index of the device with that name or alias.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.index.by_name.get(name).copied()
    }

    /// Index of the device at that address; functions of a GPU count as one.
    pub(super) fn at(&self, address: PciAddress) -> Option<usize> {
        let exact = self.index.by_address.get(&address);
        exact.or_else(|| self.index.gpus_by_address.get(&PciAddress { function: 0, ..address })).copied()
    }

    pub(super) fn add(&mut self, name: &str, origin: &Origin) -> usize {
        if let Some(at) = self.find(name) {
            self.devices[at].rests_on(origin);
            return at;
        }
        let gpu = is_gpu_label(name);
        let facts = GpuFacts { index: gpu_number(name), ..GpuFacts::default() };
        self.devices.push(Device {
            name: name.to_owned(),
            gpu,
            facts,
            origins: vec![origin.clone()],
            ..Device::default()
        });
        let at = self.devices.len() - 1;
        self.index.add(at, &self.devices[at]);
        at
    }

    /// Devices by the names that matrices give them.
    fn label_devices(&mut self, evidence: &[Evidence]) {
        if let Some((matrix, origin)) = self.classes.clone() {
            for name in matrix.cols.iter().chain(&matrix.rows) {
                let at = self.add(name, &origin);
                if let Some(number) = matrix.accelerators.iter().position(|gpu| gpu == name) {
                    self.devices[at].gpu = true;
                    self.devices[at].facts.index.get_or_insert(number as u32);
                }
                if let Some(real) = matrix.nic_names.get(name)
                    && self.find(real).is_none()
                    && names_a_node(real)
                {
                    self.devices[at].aliases.push(real.clone());
                    self.index.add(at, &self.devices[at]);
                }
                if !self.devices[at].gpu {
                    // the driver lists RDMA devices only
                    self.devices[at].rdma = Some(true);
                }
            }
            for (i, name) in matrix.rows.iter().enumerate() {
                let Some(at) = self.find(name) else { continue };
                self.devices[at].cpus = matrix.cpu_affinity.get(i).cloned().flatten();
                let nodes = matrix.numa_affinity.get(i).and_then(Option::as_ref);
                self.devices[at].numa = nodes.filter(|n| n.len() == 1).map(|n| n.ranges()[0].0);
            }
        }
        for one in evidence {
            if let Fact::Nvlink(ports) = &one.fact {
                for number in ports.iter().filter_map(|p| p.gpu) {
                    self.add(&format!("GPU{number}"), &one.origin);
                }
            }
            let names: Vec<&String> = match &one.fact {
                Fact::Matrix(m) => m.rows.iter().chain(&m.cols).collect(),
                Fact::P2p(m) => m.rows.iter().chain(&m.cols).collect(),
                Fact::Curve(c) => c.ends.iter().collect(),
                _ => continue,
            };
            // other ends are `host`, `self`, `others`, ranks; only RDMA programs name NICs
            let rdma = one.origin.tool == tool::PERFTEST;
            for name in names.into_iter().filter(|n| is_gpu_label(n) || (rdma && names_a_node(n))) {
                let known = self.find(name).is_some();
                let at = self.add(name, &one.origin);
                if !known && !self.devices[at].gpu {
                    self.devices[at].rdma = Some(true);
                }
            }
        }
    }

    fn join_gpu_facts(&mut self, evidence: &[Evidence]) {
        for one in evidence {
            let Fact::Gpus(gpus) = &one.fact else { continue };
            for (position, facts) in gpus.iter().enumerate() {
                let by_address = facts.address.and_then(|a| self.at(a));
                let index = facts.index.unwrap_or(position as u32);
                if by_address.is_none() && self.is_full(&one.origin) {
                    break;
                }
                let at = by_address.unwrap_or_else(|| self.add(&format!("GPU{index}"), &one.origin));
                let device = &mut self.devices[at];
                merge_gpu(&mut device.facts, facts);
                device.numa = device.numa.or(facts.numa);
                self.index.add(at, device);
                device.rests_on(&one.origin);
            }
        }
        // GPUs first, by number; a matrix may list NICs between
        self.sort_devices();
    }

    pub(super) fn sort_devices(&mut self) {
        self.devices.sort_by_key(|d| (!d.gpu, d.facts.index.filter(|_| d.gpu)));
        self.index_all();
    }

    /// Indexes all devices anew, after their order, names or addresses have changed.
    pub(super) fn index_all(&mut self) {
        self.index = Index::default();
        self.devices.iter().enumerate().for_each(|(at, device)| self.index.add(at, device));
    }

    /// Indexes a device that has got a name or an address.
    pub(super) fn index_one(&mut self, at: usize) {
        if let Some(device) = self.devices.get(at) {
            self.index.add(at, device);
        }
    }

    /// Whether there is no room for another device; warns once.
    pub(super) fn is_full(&mut self, origin: &Origin) -> bool {
        let full = self.devices.len() >= MAX_DEVICES;
        if full && !self.overfull {
            self.overfull = true;
            let message = format!("more than {MAX_DEVICES} GPUs and NICs in one machine; those beyond are left out");
            self.warnings.push(Warning::at(origin, message));
        }
        full
    }

    fn find_parts(&mut self) {
        let parts = Parts::embedded();
        for device in &mut self.devices {
            let kind = if device.gpu { PartKind::Gpu } else { PartKind::Nic };
            let by_id = device.pci_id.and_then(|(vendor, id)| parts.for_pci_id(vendor, id));
            let by_name = || device.facts.name.as_deref().and_then(|name| parts.for_product(kind, name));
            let part = by_id.filter(|p| p.kind == kind).or_else(by_name);
            device.part = part.map(|p| p.name.clone());
            // a list of PCI ids that is older than the device gives its number for a name
            if part.is_some() && device.facts.name.as_deref().is_some_and(|name| name.contains("Device ")) {
                device.facts.name = None;
            }
            if device.facts.running.is_unknown()
                && let Some((rate, limit)) = device.link_rate.zip(part.and_then(|p| p.pcie))
            {
                device.facts.running = PcieWidth::from_raw_rate(rate, limit).unwrap_or_default();
            }
        }
        // aliases that two devices share (eth0 of two virtual functions) name neither
        let mut uses: BTreeMap<String, usize> = BTreeMap::new();
        for name in self.devices.iter().flat_map(|d| d.aliases.iter().chain([&d.name])) {
            *uses.entry(name.clone()).or_default() += 1;
        }
        for device in &mut self.devices {
            device.aliases.retain(|a| uses.get(a) == Some(&1));
        }
        self.index_all();
    }
}

/// Whether a node may have that name: `host` means all host memory.
pub(super) fn names_a_node(name: &str) -> bool {
    !name.trim().is_empty() && !name.eq_ignore_ascii_case("host")
}

/// Order of trust among PCI trees: those that show every port first.
fn telling(tree: &PciTree, by: &str) -> u8 {
    match by {
        _ if !tree.has_tree => 9,
        tool::SYSFS => 0,
        tool::LSPCI_TREE => 1,
        tool::LSTOPO_XML => 2,
        tool::LSTOPO => 3,
        tool::SYSFS_LISTING => 4,
        _ if tree.bridges_are_switches => 6,
        _ => 5,
    }
}
