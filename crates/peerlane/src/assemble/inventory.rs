//! The devices of one machine, each statement about a device joined to it: by label, by PCI address,
//! or by order where addresses are all that one side has.

use std::collections::{BTreeMap, HashMap};

use crate::catalogue::{PartKind, Parts};
use crate::evidence::{
    ClassMatrix, Evidence, Fact, GpuFacts, HostFacts, NvlinkPort, Origin, PciDevice, PciRole, PciTree, Warning,
    gpu_number, tool,
};
use crate::fabric::{CpuList, PathClass, PciAddress, PcieWidth};
use crate::units::{Bytes, Rate};

use super::group::{is_gpu_label, two_views};
use super::merge::{complete, known_or, merge_gpu, merge_host};

/// The most GPUs and NICs of one machine: more than any has, virtual functions included. Pairs of more
/// would be of no use to anybody.
const MAX_DEVICES: usize = 1024;

/// A GPU or NIC.
#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    /// Node name: `GPU0`, `mlx5_0`, `NIC0`.
    pub(super) name: String,
    /// Other names.
    pub(super) aliases: Vec<String>,
    /// True for a GPU.
    pub(super) gpu: bool,
    /// All that is known of it, merged; for a NIC only address, name and widths are used.
    pub(super) facts: GpuFacts,
    /// CPUs local to it.
    pub(super) cpus: Option<CpuList>,
    /// NUMA node.
    pub(super) numa: Option<u32>,
    /// For a NIC, whether it does RDMA.
    pub(super) rdma: Option<bool>,
    /// Line rate in Gb/s, where told.
    pub(super) gigabits: Option<f64>,
    /// Raw rate of its PCIe link, where a source gives only that.
    pub(super) link_rate: Option<Rate>,
    /// Rate of its NVLink-C2C in one direction, all links together.
    pub(super) c2c: Option<Rate>,
    /// PCI vendor and device.
    pub(super) pci_id: Option<(u16, u16)>,
    /// Catalogue part.
    pub(super) part: Option<String>,
    /// Statements about it.
    pub(super) origins: Vec<Origin>,
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
    /// What is odd.
    pub(super) warnings: Vec<Warning>,
    /// True once a device had no room.
    overfull: bool,
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
        all
    }

    /// Keeps the first matrix; of `topo -m` and `topo -mp` both.
    fn take_classes(&mut self, m: &ClassMatrix, origin: &Origin) {
        match &self.classes {
            None => self.classes = Some((m.clone(), origin.clone())),
            Some((first, _)) if self.pci_classes.is_none() && two_views(first, m) => {
                let nvlinked = m.cells.iter().flatten().any(|c| matches!(c, Some(PathClass::Nvlink(_))));
                if nvlinked {
                    self.pci_classes = self.classes.replace((m.clone(), origin.clone())).map(|(m, _)| m);
                } else {
                    self.pci_classes = Some(m.clone());
                }
            }
            Some(_) => {}
        }
    }

    /// Fills in what one listing does not say of a function from the others: `lspci -t` shows the tree
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
        self.devices.iter().position(|d| d.name == name || d.aliases.iter().any(|a| a == name))
    }

    /// Index of the device at that address; functions of a GPU count as one.
    pub(super) fn at(&self, address: PciAddress) -> Option<usize> {
        let exact = self.devices.iter().position(|d| d.facts.address == Some(address));
        exact.or_else(|| {
            let same = |d: &Device| d.gpu && d.facts.address.is_some_and(|a| a.same_device(address));
            self.devices.iter().position(same)
        })
    }

    fn add(&mut self, name: &str, origin: &Origin) -> usize {
        if let Some(at) = self.find(name) {
            if !self.devices[at].origins.contains(origin) {
                self.devices[at].origins.push(origin.clone());
            }
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
        self.devices.len() - 1
    }

    /// Devices by the names that matrices give them.
    fn label_devices(&mut self, evidence: &[Evidence]) {
        if let Some((matrix, origin)) = self.classes.clone() {
            for name in matrix.cols.iter().chain(&matrix.rows) {
                let at = self.add(name, &origin);
                if let Some(real) = matrix.nic_names.get(name)
                    && self.find(real).is_none()
                {
                    self.devices[at].aliases.push(real.clone());
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
            for name in names.into_iter().filter(|n| is_gpu_label(n) || (rdma && *n != "host")) {
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
                if !device.origins.contains(&one.origin) {
                    device.origins.push(one.origin.clone());
                }
            }
        }
        // GPUs first, by number; a matrix may list NICs between
        self.devices.sort_by_key(|d| (!d.gpu, d.facts.index.filter(|_| d.gpu)));
    }

    /// Addresses, ids and widths from PCI listings; devices that only they know.
    fn join_pci(&mut self) {
        let mut free = 0;
        for (tree, origin) in self.trees.clone() {
            let gpus = tree.gpus();
            self.address_gpus_by_order(&gpus);
            self.address_nics_by_order(&tree);
            let driver = self.devices.iter().filter(|d| d.gpu).count();
            let nameless = self.devices.iter().any(|d| d.gpu && d.facts.address.is_none());
            // those with a number of their own first, so that the others do not take it
            let (numbered, others): (Vec<_>, Vec<_>) =
                gpus.iter().copied().enumerate().partition(|(_, d)| d.gpu_index.is_some());
            let mut lost = Vec::new();
            for (position, pci) in numbered.into_iter().chain(others) {
                let at = match pci.address.and_then(|a| self.at(a)) {
                    Some(at) => at,
                    None if pci.gpu_index.is_none() && driver > 0 && (nameless || !tree.has_tree) => {
                        lost.extend(pci.address.filter(|_| nameless && tree.has_tree));
                        continue;
                    }
                    None if self.is_full(&origin) => break,
                    None => {
                        let at = self.add_gpu(pci, position, &origin);
                        // another maker's card is none of this driver's
                        if driver > 0 && pci.vendor == Some(NVIDIA) {
                            self.undriven(&self.devices[at].name.clone(), pci, &origin);
                        }
                        at
                    }
                };
                self.join_one(at, pci, &origin);
            }
            self.unmatched(driver, gpus.len(), &lost, &origin);
            let mut nics: Vec<&PciDevice> = tree.devices.iter().filter(|d| d.is_nic() && !is_paravirtual(d)).collect();
            // a card's further ports stand where it does
            nics.sort_by_key(|d| d.address.or_else(|| tree.devices.get(d.parent?)?.address));
            for pci in nics {
                let name = nic_name(pci);
                let by_name = || name.and_then(|n| self.find(n));
                // a flat listing names no place; only a tree adds NICs that nobody else lists, and virtual
                // functions without an interface are no ports
                let at = match pci.address.and_then(|a| self.at(a)).or_else(by_name) {
                    Some(at) => at,
                    None if self.is_full(&origin) => break,
                    None if tree.has_tree && (name.is_some() || !pci.is_virtual_function()) => {
                        let name = name.map_or_else(|| self.free_nic_name(&mut free), str::to_owned);
                        self.add(&name, &origin)
                    }
                    None => continue,
                };
                self.join_one(at, pci, &origin);
            }
        }
        self.devices.sort_by_key(|d| (!d.gpu, d.facts.index.filter(|_| d.gpu)));
    }

    /// Whether there is no room for another device, which is said once.
    fn is_full(&mut self, origin: &Origin) -> bool {
        let full = self.devices.len() >= MAX_DEVICES;
        if full && !self.overfull {
            self.overfull = true;
            let message = format!("more than {MAX_DEVICES} GPUs and NICs in one machine; those beyond are left out");
            self.warnings.push(Warning { origin: Some(origin.clone()), message });
        }
        full
    }

    /// A name that no device has, numbered from `next` on.
    fn free_nic_name(&self, next: &mut u32) -> String {
        loop {
            let name = format!("NIC{next}");
            *next += 1;
            if self.find(&name).is_none() {
                return name;
            }
        }
    }

    /// A GPU that only a listing shows: by its number there, else by its place in order, else by the next
    /// free number; never one that another source has put elsewhere.
    fn add_gpu(&mut self, pci: &PciDevice, position: usize, origin: &Origin) -> usize {
        let free = |n: &u32| {
            let known = self.find(&format!("GPU{n}")).map(|at| &self.devices[at]);
            known.is_none_or(|d| d.facts.address.is_none() || pci.address.is_none())
        };
        let wanted = pci.gpu_index.unwrap_or(position as u32);
        let number = std::iter::once(wanted).chain(0..).find(free).unwrap_or(wanted);
        self.add(&format!("GPU{number}"), origin)
    }

    /// Says that the driver does not show a GPU that is on the bus.
    fn undriven(&mut self, name: &str, pci: &PciDevice, origin: &Origin) {
        let driver = self.devices.iter().filter(|d| d.gpu && d.name != name).flat_map(|d| &d.origins);
        let Some(by) = driver.map(|o| o.tool).find(|t| tool::numbers_as_the_driver(t)) else { return };
        let Some(address) = pci.address else { return };
        self.warnings.push(Warning {
            origin: Some(Origin { lines: (pci.line > 0).then_some((pci.line, pci.line)), ..origin.clone() }),
            message: format!(
                "the GPU at {address} is on the bus, and {by} does not show it; it is called {name} here: see whether its \
                 driver is loaded, another guest has it, or it has fallen off (dmesg, Xid 79)"
            ),
        });
    }

    /// Says that GPUs without addresses cannot be told apart among more, or fewer, that have them.
    fn unmatched(&mut self, named: usize, listed: usize, lost: &[PciAddress], origin: &Origin) {
        if lost.is_empty() {
            return;
        }
        self.warnings.push(Warning {
            origin: Some(origin.clone()),
            message: format!(
                "{} GPUs are listed here and {named} by the driver, so which is which cannot be told; add bus ids \
                 (nvidia-smi, nvidia-smi -q)",
                listed
            ),
        });
    }

    /// `nvidia-smi` numbers GPUs by PCI address, so a listing of as many GPUs, or of as many of NVIDIA's,
    /// gives addresses by order.
    fn address_gpus_by_order(&mut self, listed: &[&PciDevice]) {
        let unaddressed = self.devices.iter().filter(|d| d.gpu).all(|d| d.facts.address.is_none());
        let count = self.devices.iter().filter(|d| d.gpu).count();
        let nvidia: Vec<&PciDevice> = listed.iter().copied().filter(|d| d.vendor == Some(NVIDIA)).collect();
        let listed = if listed.len() == count { listed } else { &nvidia };
        if !unaddressed || count != listed.len() || listed.iter().any(|d| d.address.is_none()) {
            return;
        }
        for (device, pci) in self.devices.iter_mut().filter(|d| d.gpu).zip(listed) {
            device.facts.address = pci.address;
        }
    }

    /// The kernel numbers `mlx5_0` … in the order it probes PCI, so as many NVIDIA (Mellanox) functions
    /// without names of their own get the names in order of address.
    fn address_nics_by_order(&mut self, tree: &PciTree) {
        let mellanox = |d: &&PciDevice| {
            let named = d.name.as_deref().is_some_and(|n| n.contains("Mellanox") || n.contains("ConnectX"));
            d.is_nic() && d.os_devices.is_empty() && (d.vendor == Some(0x15b3) || named)
        };
        let mut listed = in_address_order(tree.devices.iter().filter(mellanox));
        let number = |d: &Device| {
            let names = std::iter::once(&d.name).chain(&d.aliases);
            names.filter_map(|n| n.strip_prefix("mlx5_")?.parse::<u32>().ok()).next()
        };
        let mut named: Vec<&mut Device> =
            self.devices.iter_mut().filter(|d| d.facts.address.is_none() && number(d).is_some()).collect();
        if named.len() != listed.len() {
            listed.retain(|d| !d.is_virtual_function());
        }
        if named.len() != listed.len() || listed.iter().any(|d| d.address.is_none()) {
            return;
        }
        named.sort_by_key(|d| number(d));
        for (device, pci) in named.into_iter().zip(listed) {
            device.facts.address = pci.address;
        }
    }

    fn join_one(&mut self, at: usize, pci: &PciDevice, origin: &Origin) {
        let device = &mut self.devices[at];
        let facts = &mut device.facts;
        facts.address = facts.address.or(pci.address);
        facts.name = facts.name.take().or_else(|| pci.name.clone());
        facts.running = known_or(facts.running, pci.running);
        facts.capable = known_or(facts.capable, pci.capable);
        facts.bar1 = facts.bar1.or(pci.bar_bytes.map(Bytes));
        device.numa = device.numa.or(pci.numa);
        device.cpus = device.cpus.take().or_else(|| pci.cpus.clone());
        device.pci_id = device.pci_id.or(pci.vendor.zip(pci.device));
        device.link_rate = device.link_rate.or(pci.link_rate);
        let c2c = pci.c2c.map(|(count, rate)| rate * f64::from(count));
        device.c2c = device.c2c.or(c2c.filter(|rate| *rate > Rate::ZERO));
        if !device.gpu {
            device.rdma = device.rdma.or_else(|| does_rdma(pci));
            device.gigabits = device.gigabits.or(pci.os_devices.iter().find_map(|o| o.gigabits));
            for os in &pci.os_devices {
                if device.name != os.name && !device.aliases.contains(&os.name) {
                    device.aliases.push(os.name.clone());
                }
            }
        }
        if !device.origins.contains(origin) {
            device.origins.push(origin.clone());
        }
    }

    fn find_parts(&mut self) {
        let parts = Parts::embedded();
        for device in &mut self.devices {
            let kind = if device.gpu { PartKind::Gpu } else { PartKind::Nic };
            let by_id = device.pci_id.and_then(|(vendor, id)| parts.for_pci_id(vendor, id));
            let by_name = || device.facts.name.as_deref().and_then(|name| parts.for_product(kind, name));
            let part = by_id.filter(|p| p.kind == kind).or_else(by_name);
            device.part = part.map(|p| p.name.clone());
            if device.facts.running.is_unknown()
                && let Some((rate, limit)) = device.link_rate.zip(part.and_then(|p| p.pcie))
            {
                device.facts.running = PcieWidth::from_raw_rate(rate, limit).unwrap_or_default();
            }
        }
        // aliases that two devices share (eth0 of two virtual functions) name neither
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for name in self.devices.iter().flat_map(|d| d.aliases.iter().chain([&d.name])) {
            *seen.entry(name.clone()).or_default() += 1;
        }
        for device in &mut self.devices {
            device.aliases.retain(|a| seen.get(a) == Some(&1));
        }
    }
}

/// NVIDIA's PCI vendor number.
const NVIDIA: u16 = 0x10de;

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

fn in_address_order<'a>(devices: impl Iterator<Item = &'a PciDevice>) -> Vec<&'a PciDevice> {
    let mut all: Vec<&PciDevice> = devices.collect();
    all.sort_by_key(|d| d.address);
    all
}

/// The name a NIC goes by: its RDMA device, else its network interface.
fn nic_name(pci: &PciDevice) -> Option<&str> {
    let rdma = pci.os_devices.iter().find(|o| o.rdma);
    rdma.or_else(|| pci.os_devices.first()).map(|os| os.name.as_str())
}

/// PCI vendor number of virtio devices.
const VIRTIO: u16 = 0x1af4;

/// Whether a network adapter is the hypervisor's software, which has no link, and so no path to tell of. One in hardware
/// that speaks virtio has a link.
fn is_paravirtual(pci: &PciDevice) -> bool {
    pci.vendor == Some(VIRTIO)
        && pci.running.is_unknown()
        && pci.capable.is_unknown()
        && !pci.os_devices.iter().any(|o| o.rdma)
}

/// Whether a function does RDMA: by its class (InfiniBand, Omni-Path), its vendor (ConnectX, Slingshot),
/// or the devices that the operating system shows on it. Ports of 1 Gb/s and a virtual machine's
/// paravirtual adapter do not.
fn does_rdma(pci: &PciDevice) -> Option<bool> {
    const MELLANOX: u16 = 0x15b3;
    const CRAY: u16 = 0x17db;
    let fabric = pci.class.is_some_and(|c| matches!(c >> 8, 0x0207 | 0x0208));
    let vendor = matches!(pci.vendor, Some(MELLANOX | CRAY));
    if fabric || vendor || pci.os_devices.iter().any(|o| o.rdma) {
        return Some(true);
    }
    let slow = pci.name.as_deref().is_some_and(is_gigabit);
    (slow || pci.vendor == Some(VIRTIO) || !pci.os_devices.is_empty()).then_some(false)
}

/// Whether a name says 1 Gb/s: `I350 Gigabit Network Connection`, and not `82599ES 10-Gigabit SFI/SFP+ …`.
fn is_gigabit(name: &str) -> bool {
    let Some((before, _)) = name.split_once("Gigabit") else { return false };
    let word = before.split([' ', '-']).rfind(|w| !w.is_empty()).unwrap_or_default();
    word.is_empty() || !word.chars().all(|c| c.is_ascii_digit())
}
